#include "uapi/context.h"

#include <rdma/mlx5_user_ioctl_cmds.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

namespace umlx5::uapi {
namespace {

constexpr std::uint8_t kNewestCqeVersion = 1;

using DriverRequest = mlx5_ib_alloc_ucontext_req_v2;

// What kernels of different ages take, longest first.
constexpr std::size_t kRequestBytes[] = {sizeof(DriverRequest), offsetof(DriverRequest, lib_caps),
                                         offsetof(DriverRequest, max_cqe_version)};
static_assert(kRequestBytes[0] == 32 && kRequestBytes[1] == 24 && kRequestBytes[2] == 16);

Expected<ContextInfo> try_once(Commands& commands, std::span<const std::byte> driver_in) {
  ContextInfo info;
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, "GET_CONTEXT");
  request.output(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, info.completion_vectors)
      .output(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, info.core_support)
      .driver(driver_in, writable_bytes_of(info.device));
  const auto by_method = commands.try_method(request);
  if (!by_method) return std::unexpected(by_method.error());
  if (*by_method) return info;

  ib_uverbs_get_context core{};
  ib_uverbs_get_context_resp answer{};
  info = ContextInfo{};
  const auto written = commands.write({.name = "GET_CONTEXT",
                                       .number = IB_USER_VERBS_CMD_GET_CONTEXT,
                                       .core_in = writable_bytes_of(core),
                                       .core_out = writable_bytes_of(answer),
                                       .driver_in = driver_in,
                                       .driver_out = writable_bytes_of(info.device)});
  if (!written) return std::unexpected(written.error());
  info.completion_vectors = answer.num_comp_vectors;
  info.async_event_fd = FileDescriptor(static_cast<int>(answer.async_fd));
  return info;
}

}  // namespace

Expected<ContextInfo> get_context(Commands& commands, const ContextRequest& request) {
  DriverRequest driver{};
  driver.total_num_bfregs = request.total_bfregs;
  driver.num_low_latency_bfregs = request.low_latency_bfregs;
  driver.max_cqe_version = kNewestCqeVersion;
  driver.lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR;

  std::optional<Error> first_error;
  for (const bool devx : {true, false}) {
    if (!devx && request.devx_required) break;
    driver.flags = devx ? MLX5_IB_ALLOC_UCTX_DEVX : 0;
    for (const std::size_t bytes : kRequestBytes) {
      auto info = try_once(commands, bytes_of(driver).first(bytes));
      if (!info) {
        if (!first_error) first_error = info.error();
        continue;
      }
      if (info->device.cqe_version > kNewestCqeVersion) {
        return fail(EOPNOTSUPP, "GET_CONTEXT: the device's CQE version is newer than 1, the newest known here");
      }
      info->devx = devx;
      return info;
    }
  }
  return std::unexpected(*std::move(first_error));
}

Expected<ContextInfo> query_context(Commands& commands) {
  ContextInfo info;
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, "QUERY_CONTEXT");
  request.output(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, info.completion_vectors)
      .output(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, info.core_support)
      .output(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, info.device);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  if (!info.dynamic_uars()) {
    return fail(EINVAL, "QUERY_CONTEXT: the context's UARs came with it, and only its first user has them");
  }
  info.devx = true;
  return info;
}

}  // namespace umlx5::uapi
