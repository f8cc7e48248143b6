// Completion queue and completion channel.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "driver/resource.h"
#include "driver/work_request.h"
#include "uapi/error.h"

namespace umlx5 {

class Context;
class Cq;

// A file descriptor that tells when an armed CQ has got a completion. Thread-safe.
class CompletionChannel : public ResourceHook {
 public:
  // For poll() and epoll; stays the channel's.
  int fd() const;
  // The CQ whose event came; none when `timeout` passes without one. The event is acknowledged by this call.
  Expected<std::optional<Cq*>> wait(std::chrono::milliseconds timeout);

  static Expected<void> destroy(CompletionChannel& channel);
  static void abandon(CompletionChannel& channel, const Error& why);
  // private part in the implementation
};

struct CqOptions {
  std::uint32_t entries = 0;                // at least this many; rounded up to a power of two less one
  std::uint32_t cqe_bytes = 64;             // 64 or 128
  CompletionChannel* channel = nullptr;     // none: polling only
  std::uint32_t completion_vector = 0;
  void* user = nullptr;
};

enum class Arm : std::uint8_t { kNext, kSolicited };

// One thread at a time polls; different CQs are independent.
class Cq : public ResourceHook {
 public:
  // Takes at most completions.size() completions and returns how many. Never enters the kernel, never allocates.
  std::size_t poll(std::span<Completion> completions);

  // Asks for one event on the channel for the next completion (kSolicited: the next solicited one or error).
  // Poll once more after arming, since a completion that came before is not announced.
  void arm(Arm what = Arm::kNext);

  Expected<void> resize(std::uint32_t entries);

  std::uint32_t entries() const;   // completions it holds
  std::uint32_t cqn() const;
  void* user() const;

  static Expected<void> destroy(Cq& cq);
  static void abandon(Cq& cq, const Error& why);
};

}  // namespace umlx5
