// DEVX: commands of the device that programs give themselves, and objects that they make with them.
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/prm/general_object.h"
#include "wqe/prm/mkey.h"
#include "wqe/prm/psv.h"

namespace softhca::kernel::handlers {
namespace {

namespace prm = umlx5::wqe::prm;
using prm::Opcode;

// An object that a program has made by a command. `number` is as the commands on it name it.
struct DevxObject final : Object {
  static constexpr std::uint16_t kType = MLX5_IB_OBJECT_DEVX_OBJ;
  DevxObject(std::uint16_t devx_uid, Opcode create, std::uint32_t object_number, prm::GeneralObjectIn release_command)
      : Object(kType, devx_uid), created_by(create), number(object_number), release_in(release_command) {}
  int release(RdmaDevice& device) override {
    const auto out = command<prm::ObjectOut>(device.firmware(), release_in);
    return out ? 0 : out.error();
  }
  Opcode created_by;
  std::uint32_t number;
  prm::GeneralObjectIn release_in;  // object number and, of general objects, type: what all release commands begin with
};

// Commands that make an object, the one that ends it, and those that ask about it or change it.
struct Family {
  Opcode create, release;
  std::size_t number_offset;  // in the output; numbers have 24 bits, general objects' 32
  std::array<Opcode, 2> query, modify;
};
constexpr Opcode kNone{};
constexpr std::size_t kUsualNumberOffset = 0x8, kPsvNumberOffset = 0x10;
constexpr Family kFamilies[] = {
    {Opcode::kCreateMkey, Opcode::kDestroyMkey, kUsualNumberOffset, {Opcode::kQueryMkey}, {}},
    {Opcode::kCreatePsv, Opcode::kDestroyPsv, kPsvNumberOffset, {}, {}},
    {Opcode::kCreateGeneralObject,
     Opcode::kDestroyGeneralObject,
     kUsualNumberOffset,
     {Opcode::kQueryGeneralObject},
     {Opcode::kModifyGeneralObject}},
    {Opcode::kAllocPd, Opcode::kDeallocPd, kUsualNumberOffset, {}, {}},
    {Opcode::kAllocTransportDomain, Opcode::kDeallocTransportDomain, kUsualNumberOffset, {}, {}},
    {Opcode::kAllocXrcd, Opcode::kDeallocXrcd, kUsualNumberOffset, {}, {}},
};

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
};
std::optional<Target> target_of(const Object& object) {
  if (object.type == DevxObject::kType) {
    const auto& devx = static_cast<const DevxObject&>(object);
    const Family& family = *std::ranges::find(kFamilies, devx.created_by, &Family::create);
    return Target{family.query, family.modify, devx.number, family.create};
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

int on_object(Request& request, std::uint16_t handle_attribute, std::uint16_t in_attribute, std::uint16_t out_attribute,
              std::span<const Opcode> Target::*allowed) {
  const auto in = request.input(in_attribute);
  const auto target = target_of(*request.object<Object>(handle_attribute));
  const auto opcode = umlx5::wqe::load<prm::InputHeader>(in.data()).opcode;
  if (request.uid() == 0 || !target || !is_one_of(opcode, (*target).*allowed) ||
      number_at(in, kUsualNumberOffset, target->create) != target->number) {
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

int devx_query_eqn(Request& request) {
  const auto vector = request.value<std::uint32_t>(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
  EventHub& events = request.device().events();
  if (vector >= events.completion_vectors()) {
    return ENOENT;
  }
  return request.put_value(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, events.eqn_of_vector(vector));
}

}  // namespace softhca::kernel::handlers
