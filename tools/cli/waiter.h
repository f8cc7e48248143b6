// Waiting for the device with an eye on the other side and on the clock.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <functional>

#include "driver/context.h"
#include "driver/cq.h"
#include "tools/cli/exchange.h"

namespace umlx5::tools {

// What a look at a queue or at memory gave.
enum class Look : std::uint8_t { kNothing, kDone, kFailed };

// Not thread-safe.
class Waiter {
 public:
  // `tick` is called several times a second while something is waited for.
  Waiter(Context& context, Exchange& exchange, std::chrono::milliseconds timeout, std::function<void()> tick)
      : context_(&context),
        exchange_(&exchange),
        software_(context.device().software),
        timeout_(timeout),
        tick_(std::move(tick)) {}

  // Looks until look() has something; then `failure` tells nothing if it was kDone. Errors besides that one: ETIMEDOUT,
  // and what the exchange says when the other side is gone. The clock is read only after some hundred looks in vain:
  // what comes soon costs no more than the looks.
  template <typename LookAt>
  Expected<void> until(LookAt&& look, const Expected<void>& failure) {
    waiting_ = false;
    for (std::uint32_t misses = 1;; ++misses) {
      if (const Look seen = look(); seen == Look::kDone) {
        return {};
      } else if (seen == Look::kFailed) {
        return failure;
      }
      context_->relax();
      if (misses % kLooksBetweenChecks == 0) {
        if (auto well = check(); !well) {
          return well;
        }
        if (software_) {
          ::sched_yield();  // the other side may share this CPU
        }
      }
    }
  }

  // The same for a CQ with a completion channel, asleep between the looks.
  template <typename LookAt>
  Expected<void> asleep_until(Cq& cq, CompletionChannel& channel, LookAt&& look, const Expected<void>& failure) {
    waiting_ = false;
    while (true) {
      for (const bool armed : {false, true}) {
        if (armed) {
          cq.arm();
        }
        if (const Look seen = look(); seen != Look::kNothing) {
          return seen == Look::kDone ? Expected<void>() : failure;
        }
      }
      if (auto event = channel.wait(kSleep); !event) {
        return std::unexpected(event.error());
      } else if (!*event) {
        if (auto well = check(); !well) {
          return well;
        }
      }
    }
  }

  void tick() { tick_(); }

  // For a message of the other side, for as long as the other side lives.
  Expected<void> until_message();

 private:
  static constexpr std::uint32_t kLooksBetweenChecks = 256;
  static constexpr std::chrono::milliseconds kSleep{50};

  // At most one look at the other side each 20 ms.
  Expected<void> check();

  Context* context_;
  Exchange* exchange_;
  bool software_;
  std::chrono::milliseconds timeout_;
  std::function<void()> tick_;
  bool waiting_ = false;
  std::chrono::steady_clock::time_point deadline_, next_look_;
};

}  // namespace umlx5::tools
