// DEVX: commands of the device that programs give themselves, and objects that they make with them.
#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/user_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/prm/general_object.h"
#include "wqe/prm/mkey.h"
#include "wqe/prm/psv.h"
#include "wqe/prm/umem.h"

namespace softhca::kernel::handlers {
namespace {

namespace prm = umlx5::wqe::prm;
using prm::Opcode;

// An object that a program has made by a command. `number` is as the commands on it name it.
struct DevxObject final : Object {
  static constexpr std::uint16_t kType = MLX5_IB_OBJECT_DEVX_OBJ;
  DevxObject(std::uint16_t devx_uid, Opcode create, std::uint32_t object_number, prm::GeneralObjectIn release_command)
      : Object(kType, devx_uid), created_by(create), number(object_number), release_in(release_command) {}
  int release(RdmaDevice& device) override;
  Opcode created_by;
  std::uint32_t number;
  prm::GeneralObjectIn release_in;  // object number and, of general objects, type: what all release commands begin with
};

// Commands that make an object, the one that ends it, and those that ask about it or change it.
struct Family {
  Opcode create, release;
  std::size_t number_offset;  // in the output; numbers have 24 bits, general objects' 32
  std::array<Opcode, 1> query;
  std::array<Opcode, 10> modify;
  std::optional<EventSource> events;      // that carry its number
  std::size_t query_number_offset = 0x8;  // in the input of a query
};
constexpr Opcode kNone{};
constexpr std::size_t kUsualNumberOffset = 0x8, kPsvNumberOffset = 0x10, kFlowCounterQueryOffset = 0x1c;
constexpr Family kFamilies[] = {
    {Opcode::kCreateMkey, Opcode::kDestroyMkey, kUsualNumberOffset, {Opcode::kQueryMkey}, {}, {}},
    {Opcode::kCreatePsv, Opcode::kDestroyPsv, kPsvNumberOffset, {}, {}, {}},
    {Opcode::kCreateCq,
     Opcode::kDestroyCq,
     kUsualNumberOffset,
     {Opcode::kQueryCq},
     {Opcode::kModifyCq},
     EventSource::kCq},
    {Opcode::kCreateQp,
     Opcode::kDestroyQp,
     kUsualNumberOffset,
     {Opcode::kQueryQp},
     {Opcode::kRst2InitQp, Opcode::kInit2InitQp, Opcode::kInit2RtrQp, Opcode::kRtr2RtsQp, Opcode::kRts2RtsQp,
      Opcode::kSqerr2RtsQp, Opcode::kSqd2RtsQp, Opcode::kToErrQp, Opcode::kToRstQp},
     EventSource::kQp},
    {Opcode::kCreateSrq,
     Opcode::kDestroySrq,
     kUsualNumberOffset,
     {Opcode::kQuerySrq},
     {Opcode::kArmRq},
     EventSource::kSrq},
    {Opcode::kCreateXrcSrq,
     Opcode::kDestroyXrcSrq,
     kUsualNumberOffset,
     {Opcode::kQueryXrcSrq},
     {Opcode::kArmXrcSrq},
     EventSource::kSrq},
    {Opcode::kCreateRmp,
     Opcode::kDestroyRmp,
     kUsualNumberOffset,
     {Opcode::kQueryRmp},
     {Opcode::kModifyRmp},
     EventSource::kSrq},
    {Opcode::kCreateDct,
     Opcode::kDestroyDct,
     kUsualNumberOffset,
     {Opcode::kQueryDct},
     {Opcode::kDrainDct},
     EventSource::kQp},
    {Opcode::kCreateSq,
     Opcode::kDestroySq,
     kUsualNumberOffset,
     {Opcode::kQuerySq},
     {Opcode::kModifySq},
     EventSource::kQp},
    {Opcode::kCreateRq,
     Opcode::kDestroyRq,
     kUsualNumberOffset,
     {Opcode::kQueryRq},
     {Opcode::kModifyRq},
     EventSource::kQp},
    {Opcode::kCreateTis, Opcode::kDestroyTis, kUsualNumberOffset, {}, {}, {}},
    {Opcode::kCreateTir, Opcode::kDestroyTir, kUsualNumberOffset, {}, {}, {}},
    {Opcode::kCreateRqt, Opcode::kDestroyRqt, kUsualNumberOffset, {}, {}, {}},
    {Opcode::kAllocFlowCounter,
     Opcode::kDeallocFlowCounter,
     kUsualNumberOffset,
     {Opcode::kQueryFlowCounter},
     {},
     {},
     kFlowCounterQueryOffset},
    {Opcode::kCreateGeneralObject,
     Opcode::kDestroyGeneralObject,
     kUsualNumberOffset,
     {Opcode::kQueryGeneralObject},
     {Opcode::kModifyGeneralObject},
     {}},
    {Opcode::kAllocPd, Opcode::kDeallocPd, kUsualNumberOffset, {}, {}, {}},
    {Opcode::kAllocTransportDomain, Opcode::kDeallocTransportDomain, kUsualNumberOffset, {}, {}, {}},
    {Opcode::kAllocXrcd, Opcode::kDeallocXrcd, kUsualNumberOffset, {}, {}, {}},
};

const Family& family_of(const DevxObject& object) {
  return *std::ranges::find(kFamilies, object.created_by, &Family::create);
}

int DevxObject::release(RdmaDevice& device) {
  const auto out = command<prm::ObjectOut>(device.firmware(), release_in);
  if (!out) {
    return out.error();
  }
  if (const auto events = family_of(*this).events) {
    device.events().unsubscribe(*events, number);
  }
  return 0;
}

// Bits of a command's mailbox.
struct Bits {
  std::size_t byte;
  std::uint8_t mask;
};
// As mlx5_ib does: the memory of what a program makes is a umem, never a list of addresses that the program made up.
struct InUmem {
  Opcode opcode;
  std::array<Bits, 2> valid;  // of the queue and of its doorbell record
};
constexpr Bits kWorkQueueValid{0x74, 0xc0}, kNoBits{0, 0};
constexpr InUmem kInUmem[] = {
    {Opcode::kCreateCq, {{{0x5c, 0x80}, {0x10, 0x02}}}},  {Opcode::kModifyCq, {{{0x5c, 0x80}, {0x10, 0x02}}}},
    {Opcode::kCreateQp, {{{0x10c, 0x80}, {0xe8, 0x10}}}}, {Opcode::kCreateXrcSrq, {{{0x5c, 0x80}, {0x18, 0x01}}}},
    {Opcode::kCreateRmp, {{kWorkQueueValid, kNoBits}}},   {Opcode::kCreateSq, {{kWorkQueueValid, kNoBits}}},
    {Opcode::kCreateRq, {{kWorkQueueValid, kNoBits}}},
};
constexpr Bits kMkeyUmemValid{0xc, 0x40}, kMkeyMode10{0x12, 0x03}, kMkeyMode42{0x10, 0x1c};

void set(std::span<std::byte> command, Bits bits) {
  if (bits.byte < command.size()) {
    command[bits.byte] |= std::byte{bits.mask};
  }
}

bool is_translated_by_pages(std::span<const std::byte> command) {
  constexpr auto kMode = static_cast<std::uint8_t>(prm::MkeyMode::kMtt);
  return command.size() > kMkeyMode10.byte &&
         (command[kMkeyMode10.byte] & std::byte{kMkeyMode10.mask}) == std::byte{kMode} &&
         (command[kMkeyMode42.byte] & std::byte{kMkeyMode42.mask}) == std::byte{0};
}

void put_into_umem(std::span<std::byte> command, Opcode opcode) {
  if (opcode == Opcode::kCreateMkey && is_translated_by_pages(command)) {
    set(command, kMkeyUmemValid);
  }
  if (const auto* const in = std::ranges::find(kInUmem, opcode, &InUmem::opcode); in != std::end(kInUmem)) {
    for (const Bits bits : in->valid) {
      set(command, bits);
    }
  }
}

// The same for objects of the verbs.
struct VerbsFamily {
  std::uint16_t type;
  std::array<Opcode, 2> query;
  std::array<Opcode, 9> modify;
};
constexpr VerbsFamily kVerbsFamilies[] = {
    {UVERBS_OBJECT_QP,
     {Opcode::kQueryQp, Opcode::kQueryDct},
     {Opcode::kRst2InitQp, Opcode::kInit2InitQp, Opcode::kInit2RtrQp, Opcode::kRtr2RtsQp, Opcode::kRts2RtsQp,
      Opcode::kSqerr2RtsQp, Opcode::kSqd2RtsQp, Opcode::kToErrQp, Opcode::kToRstQp}},
    {UVERBS_OBJECT_CQ, {Opcode::kQueryCq}, {}},
    {UVERBS_OBJECT_SRQ, {Opcode::kQuerySrq}, {}},
};

std::uint32_t number_at(std::span<const std::byte> mailbox, std::size_t offset, Opcode create) {
  const auto word = umlx5::wqe::internal::load_word<std::uint32_t>(mailbox.data() + offset);
  return create == Opcode::kCreateGeneralObject ? word : word & 0xffffff;
}

bool is_one_of(Opcode opcode, std::span<const Opcode> opcodes) {
  return opcode != kNone && std::ranges::find(opcodes, opcode) != opcodes.end();
}

// What a handle stands for: the opcodes that may be used on it, and its number.
struct Target {
  std::span<const Opcode> query, modify;
  std::uint32_t number;
  Opcode create;
  std::size_t query_number_offset = kUsualNumberOffset;
};
std::optional<Target> target_of(const Object& object) {
  if (object.type == DevxObject::kType) {
    const auto& devx = static_cast<const DevxObject&>(object);
    const Family& family = family_of(devx);
    return Target{family.query, family.modify, devx.number, family.create, family.query_number_offset};
  }
  const auto* const family = std::ranges::find(kVerbsFamilies, object.type, &VerbsFamily::type);
  return family == std::end(kVerbsFamilies)
             ? std::nullopt
             : std::optional(Target{family->query, family->modify, static_cast<const Numbered&>(object).number, kNone});
}

std::vector<std::byte> as_user(Request& request, std::span<const std::byte> in) {
  std::vector<std::byte> command(in.begin(), in.end());
  auto header = umlx5::wqe::load<prm::InputHeader>(in.data());
  header.uid = request.uid();
  umlx5::wqe::store(command.data(), header);
  put_into_umem(command, header.opcode);
  return command;
}

// Executes what the program asks and gives it the answer, also a refusal.
int execute(Request& request, std::span<const std::byte> command, std::uint16_t out_attribute,
            std::vector<std::byte>& reply) {
  reply.assign(request.output_bytes(out_attribute), std::byte{0});
  const int refused = execute_checked(request.firmware(), command, reply);
  const int error = request.put(out_attribute, reply.data(), reply.size());
  return error != 0 || refused == 0 ? error : EREMOTEIO;
}

bool is_eventfd(int fd) {
  std::array<char, 64> name{};
  const ssize_t bytes = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), name.data(), name.size());
  return bytes > 0 && std::string_view(name.data(), static_cast<std::size_t>(bytes)) == "anon_inode:[eventfd]";
}

constexpr std::uint64_t kSmallestPage = 4096;
constexpr int kLogLargestPage = 31;

int on_object(Request& request, std::uint16_t handle_attribute, std::uint16_t in_attribute, std::uint16_t out_attribute,
              std::span<const Opcode> Target::*allowed) {
  const auto in = request.input(in_attribute);
  const auto target = target_of(*request.object<Object>(handle_attribute));
  const auto opcode = umlx5::wqe::load<prm::InputHeader>(in.data()).opcode;
  if (request.uid() == 0 || !target || !is_one_of(opcode, (*target).*allowed)) {
    return EINVAL;
  }
  const std::size_t offset = is_one_of(opcode, target->query) ? target->query_number_offset : kUsualNumberOffset;
  if (in.size() < offset + sizeof(std::uint32_t) || number_at(in, offset, target->create) != target->number) {
    return EINVAL;
  }
  std::vector<std::byte> reply;
  return execute(request, as_user(request, in), out_attribute, reply);
}

}  // namespace

int devx_create(Request& request) {
  const auto in = request.input(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
  const auto header = umlx5::wqe::load<prm::InputHeader>(in.data());
  const auto* const family = std::ranges::find(kFamilies, header.opcode, &Family::create);
  if (request.uid() == 0 || family == std::end(kFamilies) ||
      request.output_bytes(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT) < family->number_offset + sizeof(std::uint32_t)) {
    return EINVAL;
  }
  std::vector<std::byte> reply;
  if (const int error = execute(request, as_user(request, in), MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, reply);
      error != 0) {
    return error;
  }
  const std::uint32_t number = number_at(reply, family->number_offset, family->create);
  const bool general = family->create == Opcode::kCreateGeneralObject;
  const prm::GeneralObjectIn release{
      .header = {.opcode = family->release, .uid = request.uid(), .op_mod = general ? header.op_mod : std::uint16_t{0}},
      .object_id = number};
  const std::uint32_t handle =
      request.adopt(std::make_unique<DevxObject>(request.uid(), family->create, number, release));
  return request.put_handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, handle);
}

int devx_query(Request& request) {
  return on_object(request, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
                   MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, &Target::query);
}

int devx_modify(Request& request) {
  return on_object(request, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
                   MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, &Target::modify);
}

int devx_other(Request& request) {
  const auto in = request.input(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
  const auto header = umlx5::wqe::load<prm::InputHeader>(in.data());
  // Commands that create nothing and belong to no object; the vendor's own numbers are open too.
  static constexpr prm::Opcode kGeneral[] = {prm::Opcode::kQueryHcaCap,
                                             prm::Opcode::kQueryHcaVportContext,
                                             prm::Opcode::kQueryVportState,
                                             prm::Opcode::kQueryAdapter,
                                             prm::Opcode::kQueryIssi,
                                             prm::Opcode::kQueryNicVportContext,
                                             prm::Opcode::kQueryRoceAddress,
                                             prm::Opcode::kQueryVnicEnv,
                                             prm::Opcode::kQueryVportCounter,
                                             prm::Opcode::kGetDroppedPacketLog,
                                             prm::Opcode::kNop,
                                             prm::Opcode::kQueryCongStatus,
                                             prm::Opcode::kQueryCongParams,
                                             prm::Opcode::kQueryCongStatistics,
                                             prm::Opcode::kQueryLag};
  const auto number = static_cast<std::uint16_t>(header.opcode);
  const bool is_vendors = number >= 0xb00 && number < 0xd00;
  if (request.uid() == 0 || (!is_vendors && std::ranges::find(kGeneral, header.opcode) == std::end(kGeneral))) {
    return EINVAL;
  }
  std::vector<std::byte> reply;
  return execute(request, as_user(request, in), MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, reply);
}

int devx_register_umem(Request& request) {
  constexpr std::uint32_t kAllowed = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                                     IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_RELAXED_ORDERING;
  const auto address = request.value<std::uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
  const auto bytes = request.value<std::uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
  const auto access = request.flags(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, kAllowed);
  if (request.uid() == 0 || !access ||
      ((*access & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0 && (*access & IB_UVERBS_ACCESS_LOCAL_WRITE) == 0)) {
    return EINVAL;
  }
  const std::uint64_t page_sizes = request.has(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP)
                                       ? request.value<std::uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP)
                                       : kSmallestPage;
  const int log_page = std::countr_zero(page_sizes & ~(kSmallestPage - 1));
  const std::uint64_t page_bytes = std::uint64_t{1} << (log_page % 64);
  // Pages of any size are there only where the memory fills them.
  if (log_page > kLogLargestPage || (page_bytes != kSmallestPage && (address | bytes) % page_bytes != 0)) {
    return EINVAL;
  }
  const bool writable = (*access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0;
  if (const int error = pin_user_memory(address, bytes, writable); error != 0) {
    return error;
  }
  PageRun pages = pages_of(address, bytes, static_cast<std::uint8_t>(log_page));
  for (std::uint64_t& page : pages.addresses) {
    page |= prm::kMttRead | (writable ? prm::kMttWrite : 0);
  }
  const prm::CreateUmemIn in{.header = {.opcode = Opcode::kCreateUmem, .uid = request.uid()},
                             .log_page_size = static_cast<std::uint8_t>(log_page - 12),
                             .page_offset = static_cast<std::uint32_t>(pages.offset_bytes),
                             .num_of_mtt = pages.addresses.size()};
  const auto out = command<prm::ObjectOut>(request.firmware(), in, pages.addresses, prm::kUmemPagesOffset);
  if (!out) {
    return out.error();
  }
  const std::uint32_t handle = request.adopt(std::make_unique<Umem>(request.uid(), out->number));
  const int error = request.put_handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, handle);
  return error != 0 ? error : request.put_value(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, out->number);
}

int devx_open_events(Request& request) {
  constexpr std::uint32_t kCookiesOnly = MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA;
  const auto flags = request.flags(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, kCookiesOnly);
  if (!flags) {
    return EINVAL;
  }
  const bool cookies_only = (*flags & kCookiesOnly) != 0;
  const auto file = EventFile::open(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
                                    cookies_only ? sizeof(std::uint64_t) : EventFile::kMostRecordBytes);
  if (!file) {
    return file.error();
  }
  request.adopt(*file);
  return request.put_handle(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, (*file)->fd());
}

// Each type is subscribed, or none.
int devx_subscribe(Request& request) {
  const auto* const object = request.object<DevxObject>(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE);
  const auto list = request.input(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST);
  std::vector<std::uint16_t> types(list.size() / sizeof(std::uint16_t));
  if (request.uid() == 0 || list.size() % sizeof(std::uint16_t) != 0) {
    return EINVAL;
  }
  std::memcpy(types.data(), list.data(), list.size());
  const auto may_subscribe = [&](std::uint16_t type) {
    const auto event = static_cast<umlx5::wqe::EventType>(type);
    if (object == nullptr) {
      return type <= 0xff && event == umlx5::wqe::EventType::kPortChange;
    }
    const auto source = source_of(event);
    return type <= 0xff && source.has_value() && family_of(*object).events == source;
  };
  if (!std::ranges::all_of(types, may_subscribe)) {
    return EINVAL;
  }
  const bool signals = request.has(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM);
  const int signal_fd = request.value<std::int32_t>(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM);
  if (signals && (is_request_of_another_process() || !is_eventfd(signal_fd))) {
    return EBADF;
  }
  for (const std::uint16_t type : types) {
    request.device().events().subscribe(
        {.type = static_cast<umlx5::wqe::EventType>(type),
         .number = object != nullptr ? std::optional(object->number) : std::nullopt,
         .cookie = request.value<std::uint64_t>(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE),
         .file = request.event_file(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE),
         .signal = umlx5::uapi::FileDescriptor(signals ? ::fcntl(signal_fd, F_DUPFD_CLOEXEC, 0) : -1)});
  }
  return 0;
}

int devx_query_eqn(Request& request) {
  const auto vector = request.value<std::uint32_t>(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
  EventHub& events = request.device().events();
  if (vector >= events.completion_vectors()) {
    return ENOENT;
  }
  return request.put_value(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, events.eqn_of_vector(vector));
}

}  // namespace softhca::kernel::handlers
