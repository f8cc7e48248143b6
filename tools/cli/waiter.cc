#include "tools/cli/waiter.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>

namespace umlx5::tools {

Expected<void> Waiter::check() {
  const auto now = std::chrono::steady_clock::now();
  if (!waiting_) {
    waiting_ = true;
    deadline_ = now + timeout_;
  }
  if (now < next_look_) {
    return {};
  }
  next_look_ = now + std::chrono::milliseconds(20);
  tick_();
  if (auto there = exchange_->check(); !there) {
    return there;
  }
  if (now >= deadline_) {
    return fail(ETIMEDOUT, fmt::format("the device reported nothing for {} ms", timeout_.count()));
  }
  return {};
}

Expected<void> Waiter::until_message() {
  while (true) {
    pollfd waiting{exchange_->fd(), POLLIN, 0};
    if (::poll(&waiting, 1, 100) != 0) {
      return exchange_->check();
    }
    tick_();
  }
}

}  // namespace umlx5::tools
