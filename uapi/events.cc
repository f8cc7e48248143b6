#include "uapi/events.h"

#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cerrno>

namespace umlx5::uapi {
namespace {

template <typename Record>
Expected<Record> read_record(int fd, std::string_view name) {
  Record record{};
  const ssize_t count = ::read(fd, &record, sizeof(record));
  if (count == static_cast<ssize_t>(sizeof(record))) return record;
  if (count < 0) return std::unexpected(kernel_error(name, errno));
  return fail(EIO, fmt::format("{}: a record of {} bytes instead of {}", name, count, sizeof(record)));
}

}  // namespace

Expected<FileDescriptor> create_completion_channel(Commands& commands) {
  ib_uverbs_create_comp_channel core{};
  ib_uverbs_create_comp_channel_resp answer{};
  const auto done = commands.write({.name = "CREATE_COMP_CHANNEL",
                                    .number = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return FileDescriptor(static_cast<int>(answer.fd));
}

Expected<FileDescriptor> open_async_event_fd(Commands& commands) {
  Request request(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, "ALLOC_ASYNC_EVENT_FD");
  request.new_fd(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return FileDescriptor(request.result_fd(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE));
}

Expected<CompletionEvent> read_completion_event(int fd) {
  const auto record = read_record<ib_uverbs_comp_event_desc>(fd, "completion event");
  if (!record) return std::unexpected(record.error());
  return CompletionEvent{record->cq_handle};
}

Expected<AsyncEvent> read_async_event(int fd) {
  const auto record = read_record<ib_uverbs_async_event_desc>(fd, "asynchronous event");
  if (!record) return std::unexpected(record.error());
  return AsyncEvent{record->element, record->event_type};
}

}  // namespace umlx5::uapi
