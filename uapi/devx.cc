#include "uapi/devx.h"

#include <fmt/format.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <algorithm>
#include <cerrno>

namespace umlx5::uapi {
namespace {

constexpr std::size_t kHeaderBytes = 16;

// A command's mailboxes and where its method wants them.
struct Exchange {
  std::string_view name;
  std::span<const std::byte> in;
  std::span<std::byte> out;
  std::uint16_t in_id;
  std::uint16_t out_id;
};

std::uint32_t load_be(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte b : bytes) value = value << 8 | std::to_integer<std::uint32_t>(b);
  return value;
}

Expected<void> run(Commands& commands, Request& request, const Exchange& exchange) {
  const auto [name, in, out, in_id, out_id] = exchange;
  if (in.size() < kHeaderBytes || out.size() < kHeaderBytes) {
    return fail(EINVAL, fmt::format("{}: mailboxes of {} and {} bytes; both need {} at least", name, in.size(),
                                    out.size(), kHeaderBytes));
  }
  std::ranges::fill(out, std::byte{0});
  request.input_bytes(in_id, in).output_bytes(out_id, out);
  const auto done = commands.method(request);
  if (done) return {};
  // The opcode is the first field of every mailbox; status and syndrome are the first two words of every answer.
  Error error =
      kernel_error(fmt::format("{} (device command {:#x})", name, load_be(in.first(2))), done.error().errno_value);
  error.firmware_status = std::to_integer<std::uint8_t>(out[0]);
  error.firmware_syndrome = load_be(out.subspan(4, 4));
  return std::unexpected(std::move(error));
}

}  // namespace

Expected<void> devx_general(Commands& commands, std::span<const std::byte> in, std::span<std::byte> out) {
  Request request(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, "DEVX_GENERAL");
  return run(commands, request,
             {"DEVX_GENERAL", in, out, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT});
}

Expected<DevxObjectHandle> devx_create(Commands& commands, std::span<const std::byte> in, std::span<std::byte> out) {
  Request request(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, "DEVX_CREATE");
  request.new_handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE);
  const auto done =
      run(commands, request,
          {"DEVX_CREATE", in, out, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT});
  if (!done) return std::unexpected(done.error());
  return request.result_handle<DevxObjectHandle>(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE);
}

Expected<void> devx_destroy(Commands& commands, DevxObjectHandle object) {
  Request request(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, "DEVX_DESTROY");
  request.handle(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, object);
  return commands.destroy(request, fmt::format("DEVX object handle {}", object.value));
}

namespace internal {

Expected<void> devx_modify(Commands& commands, std::uint32_t object, std::span<const std::byte> in,
                           std::span<std::byte> out) {
  Request request(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, "DEVX_MODIFY");
  request.handle(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, DevxObjectHandle{object});
  return run(commands, request,
             {"DEVX_MODIFY", in, out, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT});
}

Expected<void> devx_query(Commands& commands, std::uint32_t object, std::span<const std::byte> in,
                          std::span<std::byte> out) {
  Request request(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, "DEVX_QUERY");
  request.handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, DevxObjectHandle{object});
  return run(commands, request,
             {"DEVX_QUERY", in, out, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT});
}

}  // namespace internal

Expected<DevxUmem> devx_register_umem(Commands& commands, std::uint64_t address, std::uint64_t length_bytes,
                                      std::uint32_t access, std::uint64_t page_sizes) {
  DevxUmem umem;
  Request request(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, "DEVX_REG_UMEM");
  request.new_handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE)
      .input(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, address)
      .input(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, length_bytes)
      .input(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, access)
      .output(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, umem.umem_id);
  if (page_sizes != 0) request.input(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, page_sizes);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  umem.handle = request.result_handle<DevxUmemHandle>(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE);
  return umem;
}

Expected<void> devx_deregister_umem(Commands& commands, DevxUmemHandle umem) {
  Request request(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, "DEVX_DEREG_UMEM");
  request.handle(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, umem);
  return commands.destroy(request, fmt::format("umem handle {}", umem.value));
}

Expected<std::uint32_t> devx_query_eqn(Commands& commands, std::uint32_t completion_vector) {
  std::uint32_t eqn = 0;
  Request request(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, "DEVX_QUERY_EQN");
  request.input(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, completion_vector)
      .output(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, eqn);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return eqn;
}

int firmware_status_errno(std::uint8_t status) {
  switch (status) {
    case 0x00:
      return 0;
    case 0x02:  // bad opcode
    case 0x03:  // bad parameter
    case 0x05:  // bad resource
    case 0x09:  // bad resource state
    case 0x0a:  // bad index
    case 0x10:  // bad QP state
    case 0x30:  // bad packet
    case 0x40:  // bad size of outstanding CQEs
      return EINVAL;
    case 0x06:
      return EBUSY;
    case 0x08:
      return ENOMEM;
    case 0x0f:
      return EAGAIN;
    default:
      return EIO;
  }
}

Error with_firmware_errno(Error error) {
  if (error.errno_value == EREMOTEIO) {
    error.errno_value = firmware_status_errno(error.firmware_status);
  }
  return error;
}

}  // namespace umlx5::uapi
