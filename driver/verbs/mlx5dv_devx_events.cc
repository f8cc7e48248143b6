// DEVX events and late answers that libmlx5 exports.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include "driver/verbs/devx_object.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/devx_events.h"

namespace umlx5::verbs {
namespace {

// Both kinds of channel: the descriptor that programs see, and whose it is.
template <typename Channel>
struct ChannelOf {
  Channel channel{};
  ContextUse context;
  uapi::FileDescriptor fd;
};
using EventsObject = ChannelOf<mlx5dv_devx_event_channel>;
using AnswersObject = ChannelOf<mlx5dv_devx_cmd_comp>;

template <typename Channel>
ChannelOf<Channel>& channel_of(Channel* channel) {
  return containing(channel, &ChannelOf<Channel>::channel);
}

template <typename Channel>
Channel* make_channel(ibv_context* context, Expected<uapi::FileDescriptor> fd) {
  if (!fd) {
    return report_null(fd.error());
  }
  auto* object = new ChannelOf<Channel>{.channel = {.fd = fd->get()}, .context = context, .fd = std::move(*fd)};
  return &object->channel;
}

Expected<void> subscribe(mlx5dv_devx_event_channel* channel, mlx5dv_devx_obj* object, uapi::DevxSubscription what) {
  what.events_fd = channel->fd;
  if (object != nullptr) {
    what.object = object->handle;
  }
  return uapi::devx_subscribe(native_of(channel_of(channel).context).commands(), what);
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5;
using namespace umlx5::verbs;

extern "C" {

mlx5dv_devx_event_channel* mlx5dv_devx_create_event_channel(ibv_context* context,
                                                            mlx5dv_devx_create_event_channel_flags flags) {
  return make_channel<mlx5dv_devx_event_channel>(
      context, uapi::devx_open_events(native_of(context).commands(), static_cast<std::uint32_t>(flags)));
}
void mlx5dv_devx_destroy_event_channel(mlx5dv_devx_event_channel* event_channel) { delete &channel_of(event_channel); }

int mlx5dv_devx_subscribe_devx_event(mlx5dv_devx_event_channel* event_channel, mlx5dv_devx_obj* obj, uint16_t events_sz,
                                     uint16_t events_num[], uint64_t cookie) {
  return result_of(
      subscribe(event_channel, obj, {.types = {events_num, events_sz / sizeof(std::uint16_t)}, .cookie = cookie}));
}

int mlx5dv_devx_subscribe_devx_event_fd(mlx5dv_devx_event_channel* event_channel, int fd, mlx5dv_devx_obj* obj,
                                        uint16_t event_num) {
  return result_of(subscribe(event_channel, obj, {.types = {&event_num, 1}, .signal_fd = fd}));
}

ssize_t mlx5dv_devx_get_event(mlx5dv_devx_event_channel* event_channel, mlx5dv_devx_async_event_hdr* event_data,
                              size_t event_resp_len) {
  const ssize_t bytes = ::read(event_channel->fd, event_data, event_resp_len);
  if (bytes >= 0 && bytes < static_cast<ssize_t>(sizeof *event_data)) {
    errno = EINVAL;
    return -1;
  }
  return bytes;
}

mlx5dv_devx_cmd_comp* mlx5dv_devx_create_cmd_comp(ibv_context* context) {
  return make_channel<mlx5dv_devx_cmd_comp>(context, uapi::devx_open_answers(native_of(context).commands()));
}
void mlx5dv_devx_destroy_cmd_comp(mlx5dv_devx_cmd_comp* cmd_comp) { delete &channel_of(cmd_comp); }

int mlx5dv_devx_obj_query_async(mlx5dv_devx_obj* obj, const void* in, size_t inlen, size_t outlen, uint64_t wr_id,
                                mlx5dv_devx_cmd_comp* cmd_comp) {
  return result_of(uapi::devx_query_later(native_of(obj->context).commands(), obj->handle.value,
                                          {static_cast<const std::byte*>(in), inlen}, outlen, wr_id, cmd_comp->fd));
}

int mlx5dv_devx_get_async_cmd_comp(mlx5dv_devx_cmd_comp* cmd_comp, mlx5dv_devx_async_cmd_hdr* cmd_resp,
                                   size_t cmd_resp_len) {
  const ssize_t bytes = ::read(cmd_comp->fd, cmd_resp, cmd_resp_len);
  if (bytes < 0) {
    return errno;
  }
  return bytes < static_cast<ssize_t>(sizeof *cmd_resp) ? EINVAL : 0;
}

}  // extern "C"
