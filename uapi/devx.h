// DEVX: commands of the device's own interface through the kernel. Mailboxes are in the device's byte order and include
// their 16-byte headers. All are ioctl methods of <rdma/mlx5_user_ioctl_cmds.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

// When the device refuses a command the error is EREMOTEIO with the mailbox's status and syndrome in it, and `out`
// holds what the device said. Mailboxes may have 65535 bytes; E2BIG beyond that.
Expected<void> devx_general(Commands& commands, std::span<const std::byte> in, std::span<std::byte> out);

Expected<DevxObjectHandle> devx_create(Commands& commands, std::span<const std::byte> in, std::span<std::byte> out);
Expected<void> devx_destroy(Commands& commands, DevxObjectHandle object);

// The object may be a DEVX object or, by its verbs handle, a QP, CQ, SRQ, WQ or indirection table of the matching kind.
namespace internal {
Expected<void> devx_modify(Commands& commands, std::uint32_t object, std::span<const std::byte> in,
                           std::span<std::byte> out);
Expected<void> devx_query(Commands& commands, std::uint32_t object, std::span<const std::byte> in,
                          std::span<std::byte> out);
}  // namespace internal

template <typename Tag>
Expected<void> devx_modify(Commands& commands, Handle<Tag> object, std::span<const std::byte> in,
                           std::span<std::byte> out) {
  return internal::devx_modify(commands, object.value, in, out);
}
template <typename Tag>
Expected<void> devx_query(Commands& commands, Handle<Tag> object, std::span<const std::byte> in,
                          std::span<std::byte> out) {
  return internal::devx_query(commands, object.value, in, out);
}

struct DevxUmem {
  DevxUmemHandle handle{};
  std::uint32_t umem_id = 0;  // what mailboxes name it by
};

// Memory of this process that mailboxes may name. `access` is enum ib_uverbs_access_flags; `page_sizes` has bit n set
// for pages of 2^n bytes that are acceptable, 0 for any.
Expected<DevxUmem> devx_register_umem(Commands& commands, std::uint64_t address, std::uint64_t length_bytes,
                                      std::uint32_t access, std::uint64_t page_sizes);
Expected<void> devx_deregister_umem(Commands& commands, DevxUmemHandle umem);

// The device's number of the event queue of a completion vector.
Expected<std::uint32_t> devx_query_eqn(Commands& commands, std::uint32_t completion_vector);

// errno for a status byte of the device's command interface: what a failed command means to a caller that did not ask
// for DEVX. 0 for status 0.
int firmware_status_errno(std::uint8_t status);
// Such a refusal (EREMOTEIO) under that errno; other errors as they are.
Error with_firmware_errno(Error error);

}  // namespace umlx5::uapi
