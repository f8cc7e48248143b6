// Whatever a kernel answers, commands end in a result or an error: any errno, any bytes, ioctl or not.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/uapi/fake_channel.h"
#include "uapi/ah.h"
#include "uapi/context.h"
#include "uapi/cq.h"
#include "uapi/device_query.h"
#include "uapi/devx.h"
#include "uapi/events.h"
#include "uapi/mr.h"
#include "uapi/netlink_devices.h"
#include "uapi/pd.h"
#include "uapi/qp.h"
#include "uapi/srq.h"
#include "uapi/uar.h"
#include "uapi/xrcd.h"

namespace umlx5::uapi {
namespace {

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }

  void fill(void* to, std::size_t count) {
    const std::size_t taken = std::min(count, bytes_.size());
    if (taken != 0) std::memcpy(to, bytes_.data(), taken);
    bytes_ = bytes_.subspan(taken);
  }

  // Success half the time, and often what switches to another way.
  int errno_value() {
    const int value = byte();
    if (value < 128) return 0;
    if (value < 160) return EPROTONOSUPPORT;
    return value < 170 ? ENOTTY : value - 169;
  }

  std::string text() {
    std::string result(byte() % 64, '\0');
    fill(result.data(), result.size());
    return result;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

class AnyKernel : public Channel {
 public:
  explicit AnyKernel(Input& input) : input_(input) {}

  int ioctl(ib_uverbs_ioctl_hdr& request) override {
    const int result = input_.errno_value();
    for (unsigned i = 0; i < request.num_attrs; ++i) {
      ib_uverbs_attr& a = request.attrs[i];
      if (is_output(request, a.attr_id)) input_.fill(reinterpret_cast<void*>(a.data), a.len);
      if (a.len == 0) input_.fill(&a.data, sizeof(a.data));
    }
    return result;
  }

  int write(std::span<const std::byte> request) override {
    ib_uverbs_cmd_hdr header{};
    std::memcpy(&header, request.data(), sizeof(header));
    std::size_t bytes = std::size_t{header.out_words} * 4;
    if ((header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0) {
      ib_uverbs_ex_cmd_hdr extended{};
      std::memcpy(&extended, request.data() + sizeof(header), sizeof(extended));
      bytes = (std::size_t{header.out_words} + extended.provider_out_words) * 8;
    }
    std::uint64_t address = 0;
    if (bytes != 0) std::memcpy(&address, request.data() + sizeof(header), sizeof(address));
    if (bytes != 0) input_.fill(reinterpret_cast<void*>(address), bytes);
    return input_.errno_value();
  }

  std::expected<std::byte*, int> mmap(std::size_t, int, std::uint64_t) override { return std::unexpected(ENODEV); }
  int munmap(std::byte*, std::size_t) override { return 0; }
  std::expected<std::string, int> attribute(std::string_view) const override {
    if (const int result = input_.errno_value(); result != 0) return std::unexpected(result);
    return input_.text();
  }

 private:
  static bool is_output(const ib_uverbs_ioctl_hdr& request, std::uint16_t id) {
    const auto is = [&](unsigned object, unsigned method) {
      return request.object_id == object && request.method_id == method;
    };
    if (id == UVERBS_ATTR_UHW_OUT && request.object_id < 0x1000) return !is(UVERBS_OBJECT_PD, 0x1000);
    if (is(0, UVERBS_METHOD_INVOKE_WRITE)) return id == UVERBS_ATTR_CORE_OUT;
    if (is(0, UVERBS_METHOD_QUERY_PORT)) return id == 1;
    if (is(0, UVERBS_METHOD_GET_CONTEXT)) return id <= 1;
    if (is(0, UVERBS_METHOD_QUERY_GID_TABLE)) return id == 2 || id == 3;
    if (is(0, UVERBS_METHOD_QUERY_GID_ENTRY)) return id == 3;
    if (is(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE)) return id == UVERBS_ATTR_CREATE_CQ_RESP_CQE;
    if (is(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE)) return id == 13 || id == 14;
    if (is(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE)) return id >= 11 && id <= 13;
    if (is(0x1008, 0x1000)) return id >= 0x1002;
    if (is(0x1000, 0x1000)) return id == 0x1001;
    const bool destroys_with_answer =
        request.method_id == 1 && request.object_id >= UVERBS_OBJECT_CQ && request.object_id <= UVERBS_OBJECT_SRQ;
    return destroys_with_answer && id == 1;
  }

  Input& input_;
};

// An error always has an errno and a text; a success of `ok` has no errno.
template <typename T>
void check(const Expected<T>& result) {
  if (!result && (result.error().errno_value <= 0 || result.error().what.empty())) std::abort();
}

void run_queries(Commands& commands) {
  auto context = get_context(commands, {});
  check(context);
  if (context) context->async_event_fd.release();  // an arbitrary number, perhaps a descriptor of this process
  auto channel = create_completion_channel(commands);
  check(channel);
  if (channel) channel->release();
  check(query_device(commands));
  check(query_port(commands, 1));
  check(query_gid_entry(commands, 1, 0));
  const auto table = query_gid_table(commands, 0, 8);
  check(table);
  if (table && table->size() > 8) std::abort();
  check(query_pkey(commands, 1, 0));
}

void run_objects(Commands& commands) {
  check(alloc_pd(commands));
  check(register_mr(commands, {}));
  check(create_cq(commands, {.flags = 1}));
  check(create_qp(commands, {.type = 2, .pd = PdHandle{1}}));
  check(modify_qp(commands, {}, {}, ~0U));
  check(query_qp(commands, {}, ~0U));
  check(create_srq(commands, {}));
  check(create_ah(commands, {}, 0, {}));
  check(open_xrcd(commands, -1, 0));
  check(alloc_uar(commands, UarType::kNonCached));
  std::vector<std::byte> in(16), out(32);
  check(devx_general(commands, in, out));
  check(destroy_qp(commands, {}));
  check(destroy_srq(commands, {}));
  check(destroy_cq(commands, {}));
  check(dealloc_pd(commands, {}));
}

// One netlink message that is as long as the input has bytes, whatever its own length field says below that.
void run_netlink(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < sizeof(nlmsghdr)) return;
  std::vector<std::uint32_t> storage(bytes.size() / 4);
  std::memcpy(storage.data(), bytes.data(), storage.size() * 4);
  auto& header = *reinterpret_cast<nlmsghdr*>(storage.data());
  header.nlmsg_len = std::min<std::uint32_t>(header.nlmsg_len, static_cast<std::uint32_t>(storage.size() * 4));
  for (const std::uint16_t type : {5 << 10 | 1, 5 << 10 | 15}) {
    header.nlmsg_type = type;
    const auto device = parse_netlink_device(header);
    if (device && device->name.empty()) std::abort();
    const auto uverbs = parse_netlink_uverbs(header);
    if (uverbs && uverbs->node.empty()) std::abort();
  }
}

}  // namespace
}  // namespace umlx5::uapi

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace umlx5::uapi;
  run_netlink({data, size});
  Input input({data, size});
  AnyKernel kernel(input);
  Commands commands(kernel);
  if (input.byte() % 2 == 0) {
    run_queries(commands);
    run_objects(commands);
  } else {
    run_objects(commands);
    run_queries(commands);
  }
  return 0;
}
