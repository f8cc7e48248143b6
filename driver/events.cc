// Completion channels and asynchronous events.
#include "uapi/events.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/log.h"
#include "driver/users.h"

namespace umlx5 {
namespace {

using Clock = std::chrono::steady_clock;

// Whether `fd` becomes readable before `deadline`.
Expected<bool> wait_readable(int fd, Clock::time_point deadline, const char* what) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (ready > 0) {
      return true;
    }
    if (ready < 0 && errno != EINTR) {
      return fail(errno, fmt::format("{}: poll failed", what));
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

// Far enough, and no overflow for milliseconds::max().
Clock::time_point deadline_in(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  return Clock::now() + std::clamp(timeout, std::chrono::milliseconds(0), kLongest);
}

// The next record, or none when the deadline passes. Another thread may take the record between poll() and read(), so
// the descriptors do not block.
template <typename Record>
Expected<std::optional<Record>> next_record(int fd, Expected<Record> (*read)(int), std::chrono::milliseconds timeout,
                                            const char* what) {
  const Clock::time_point deadline = deadline_in(timeout);
  for (;;) {
    const auto readable = wait_readable(fd, deadline, what);
    if (!readable) {
      return std::unexpected(readable.error());
    }
    if (!*readable) {
      return std::nullopt;
    }
    auto record = read(fd);
    if (record) {
      return *record;
    }
    if (record.error().errno_value != EAGAIN && record.error().errno_value != EINTR) {
      return std::unexpected(std::move(record.error()));
    }
  }
}

Expected<void> stop_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail(errno, "event descriptor: cannot be made non-blocking");
  }
  return {};
}

enum class EventObject : std::uint8_t { kCq, kQp, kSrq, kPort, kDevice, kOther };

struct EventKind {
  EventObject object;
  std::string_view text;
};

// Index: enum ibv_event_type.
constexpr EventKind kEventKinds[] = {
    {EventObject::kCq, "CQ error (overrun, or its memory cannot be written)"},
    {EventObject::kQp, "QP fatal error"},
    {EventObject::kQp, "QP request error (a request of the other side is invalid)"},
    {EventObject::kQp, "QP access error (the other side may not do what it asked)"},
    {EventObject::kQp, "communication established"},
    {EventObject::kQp, "send queue drained"},
    {EventObject::kQp, "path migrated"},
    {EventObject::kQp, "path migration failed"},
    {EventObject::kDevice, "device fatal error: everything on it is lost"},
    {EventObject::kPort, "active"},
    {EventObject::kPort, "down"},
    {EventObject::kPort, "LID changed"},
    {EventObject::kPort, "P_Key table changed"},
    {EventObject::kPort, "subnet manager changed"},
    {EventObject::kSrq, "SRQ error"},
    {EventObject::kSrq, "limit reached"},
    {EventObject::kQp, "last WQE reached"},
    {EventObject::kPort, "client reregistration asked for"},
    {EventObject::kPort, "GID table changed"},
    {EventObject::kOther, "WQ fatal error"},
};

// Null: it was destroyed meanwhile.
template <typename T>
T* find(ResourceList<T>& list, std::uint64_t element) {
  for (T& object : list) {
    if (object.event_handle() == element) {
      return &object;
    }
  }
  return nullptr;
}

AsyncEvent describe_event(Context::State& state, const uapi::AsyncEvent& record) {
  AsyncEvent event;
  event.type = record.type;
  if (record.type >= std::size(kEventKinds)) {
    event.text = fmt::format("unknown event {}", record.type);
    return event;
  }
  const EventKind& kind = kEventKinds[record.type];
  const std::lock_guard lock(state.mutex);
  switch (kind.object) {
    case EventObject::kCq:
      if (Cq* cq = find(state.cqs, record.element)) {
        event.cq = cq;
        event.text = fmt::format("{} on CQ {:#x}", kind.text, cq->cqn());
        return event;
      }
      break;
    case EventObject::kQp:
      if (Qp* qp = find(state.qps, record.element)) {
        event.qp = qp;
        event.text = fmt::format("{} on QP {:#x}", kind.text, qp->qpn());
        return event;
      }
      break;
    case EventObject::kSrq:
      if (Srq* srq = find(state.srqs, record.element)) {
        event.srq = srq;
        event.text = fmt::format("{} on SRQ {:#x}", kind.text, srq->srqn());
        return event;
      }
      break;
    case EventObject::kPort:
      event.port = static_cast<std::uint8_t>(record.element);
      event.text = fmt::format("port {} {}", event.port, kind.text);
      return event;
    default:
      break;
  }
  event.text = kind.text;
  return event;
}

}  // namespace

int Context::async_fd() const { return state_->async_fd.get(); }

Expected<std::optional<AsyncEvent>> Context::next_async_event(std::chrono::milliseconds timeout) {
  auto record = next_record(async_fd(), uapi::read_async_event, timeout, "asynchronous events");
  if (!record) {
    return std::unexpected(std::move(record.error()));
  }
  if (!*record) {
    return std::nullopt;
  }
  AsyncEvent event = describe_event(*state_, **record);
  log(LogLevel::kInfo, event.text);
  return event;
}

Expected<Owned<CompletionChannel>> Context::create_completion_channel() {
  std::unique_ptr<CompletionChannel> channel(new (std::nothrow) CompletionChannel);
  if (channel == nullptr) {
    return fail(ENOMEM, "completion channel: no memory");
  }
  auto fd = uapi::create_completion_channel(*state_->commands);
  if (!fd) {
    return std::unexpected(std::move(fd.error()));
  }
  if (auto result = stop_blocking(fd->get()); !result) {
    return std::unexpected(std::move(result.error()));
  }
  channel->context_ = this;
  channel->fd_ = std::move(*fd);
  state_->add(state_->channels, *channel);
  return Owned<CompletionChannel>(channel.release());
}

Expected<std::optional<Cq*>> CompletionChannel::wait(std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = deadline_in(timeout);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto record = next_record(fd(), uapi::read_completion_event, left, "completion channel");
    if (!record) {
      return std::unexpected(record.error());
    }
    if (!*record) {
      return std::nullopt;
    }
    Context::State& state = context_->state();
    const std::lock_guard lock(state.mutex);
    if (Cq* cq = find(state.cqs, (*record)->cq_user_handle)) {
      cq->count_event();
      return cq;
    }
  }
}

Expected<void> CompletionChannel::destroy(CompletionChannel& channel) {
  Context::State& state = channel.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    Users users;
    for (const Cq& cq : state.cqs) {
      users.add_if(cq.channel() == &channel, "CQ", cq.cqn());
    }
    if (users) {
      return fail(EBUSY, fmt::format("completion channel (fd {}) is still used by {}", channel.fd(), users.text()));
    }
    state.remove(state.channels, channel);
  }
  delete &channel;  // its descriptor's end is its end
  return {};
}

void CompletionChannel::abandon(CompletionChannel& channel, const Error& why) {
  log_abandoned(fmt::format("completion channel (fd {})", channel.fd()), why);
}

}  // namespace umlx5
