// What DEVX tells later: answers of queries that were asked without waiting, and events of the device. Both come as
// records from file descriptors. All are ioctl methods of <rdma/mlx5_user_ioctl_cmds.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/file_descriptor.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

// Where answers of devx_query_later() come: struct mlx5_ib_uapi_devx_async_cmd_hdr, then the mailbox.
Expected<FileDescriptor> devx_open_answers(Commands& commands);

// `answer_id` comes back with the answer, of at most `out_bytes`, on `answers_fd`. `object` as in devx_query().
Expected<void> devx_query_later(Commands& commands, std::uint32_t object, std::span<const std::byte> in,
                                std::size_t out_bytes, std::uint64_t answer_id, int answers_fd);

// Where events come that were subscribed to. `flags` is enum mlx5_ib_uapi_devx_create_event_channel_flags.
Expected<FileDescriptor> devx_open_events(Commands& commands, std::uint32_t flags);

struct DevxSubscription {
  int events_fd = -1;
  std::optional<DevxObjectHandle> object{};  // none: events of the device
  std::span<const std::uint16_t> types{};    // event types as EQEs have them
  std::uint64_t cookie = 0;                  // comes back with each event; not with `signal_fd`
  std::optional<int> signal_fd{};            // an eventfd to signal instead of giving records
};
Expected<void> devx_subscribe(Commands& commands, const DevxSubscription& subscription);

}  // namespace umlx5::uapi
