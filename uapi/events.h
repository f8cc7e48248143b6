// Completion channels and asynchronous events: file descriptors that give fixed records.
// Layouts: struct ib_uverbs_comp_event_desc and struct ib_uverbs_async_event_desc of <rdma/ib_user_verbs.h>.
#pragma once

#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/file_descriptor.h"

namespace umlx5::uapi {

// A new completion channel, blocking until its owner says otherwise.
Expected<FileDescriptor> create_completion_channel(Commands& commands);

// The asynchronous events of the context, for kernels that did not open them with it (ContextInfo::async_event_fd).
// Objects created with it report there.
Expected<FileDescriptor> open_async_event_fd(Commands& commands);

struct CompletionEvent {
  std::uint64_t cq_user_handle = 0;  // what the CQ was created with
};

struct AsyncEvent {
  std::uint64_t element = 0;  // user handle of the object, or the port's number for events of a port
  std::uint32_t type = 0;     // enum ibv_event_type of <infiniband/verbs.h>
};

// Each reads one record. EAGAIN if there is none and the descriptor does not block, EINTR as read() gives it, EIO if
// the record is not whole. Any number of threads may read one descriptor.
Expected<CompletionEvent> read_completion_event(int fd);
Expected<AsyncEvent> read_async_event(int fd);

}  // namespace umlx5::uapi
