// A lock for sections of a few dozen instructions that never block.
#pragma once

#include <sched.h>

#include <atomic>

namespace umlx5::doorbell {

class Spinlock {
 public:
  [[gnu::always_inline]] void lock() {
    // Acquire: what the last holder stored is seen.
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]] {
      wait();
    }
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  // Release: what this holder stored is seen by the next.
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr unsigned kSpinsBeforeYield = 64;

  // Until it is this one's.
  [[gnu::noinline, gnu::cold]] void wait() {
    do {
      // Watch without writing, so that the line stays shared; a holder that lost its CPU gets it back.
      for (unsigned spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
        if (spins >= kSpinsBeforeYield) {
          ::sched_yield();
        }
      }
    } while (held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> held_{false};
};

}  // namespace umlx5::doorbell
