#include "uapi/devx_events.h"

#include <rdma/mlx5_user_ioctl_cmds.h>

#include <cerrno>

namespace umlx5::uapi {

Expected<FileDescriptor> devx_open_answers(Commands& commands) {
  Request request(MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC, "DEVX_ASYNC_CMD_FD_ALLOC");
  request.new_fd(MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return FileDescriptor(request.result_fd(MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE));
}

Expected<void> devx_query_later(Commands& commands, std::uint32_t object, std::span<const std::byte> in,
                                std::size_t out_bytes, std::uint64_t answer_id, int answers_fd) {
  if (out_bytes > UINT16_MAX) {
    return fail(E2BIG, "DEVX_ASYNC_QUERY: an answer of more than 65535 bytes");
  }
  Request request(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY, "DEVX_ASYNC_QUERY");
  request.handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, DevxObjectHandle{object})
      .input_bytes(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, in)
      .fd(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, answers_fd)
      .input(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID, answer_id)
      .input(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, static_cast<std::uint16_t>(out_bytes));
  return commands.method(request);
}

Expected<FileDescriptor> devx_open_events(Commands& commands, std::uint32_t flags) {
  Request request(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
                  "DEVX_ASYNC_EVENT_FD_ALLOC");
  request.new_fd(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE)
      .input(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, flags);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return FileDescriptor(request.result_fd(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE));
}

Expected<void> devx_subscribe(Commands& commands, const DevxSubscription& subscription) {
  Request request(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, "DEVX_SUBSCRIBE_EVENT");
  request.fd(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, subscription.events_fd)
      .input_bytes(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, std::as_bytes(subscription.types));
  if (subscription.object) {
    request.handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, *subscription.object);
  }
  if (subscription.signal_fd) {
    request.input(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, *subscription.signal_fd);
  } else {
    request.input(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, subscription.cookie);
  }
  return commands.method(request);
}

}  // namespace umlx5::uapi
