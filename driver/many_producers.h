// How several threads put work requests into one ring without a lock.
//
// A producer reserves blocks of the ring with one compare-and-swap (a full queue is seen before anything is reserved),
// fills them in its own time, and marks them ready. Whoever then finds that the ready blocks at the front have grown
// publishes all of them with one doorbell. Nobody waits: a producer that finds another one publishing leaves its blocks
// to that one, which looks again before it stops.
//
// Invariants (tests/model/publish.pml checks them over all interleavings of a small queue):
//   - reserved ranges do not overlap, and never cover a block whose request has not completed;
//   - the published index only grows, and every block below it was marked ready before;
//   - when no producer is inside, every ready block whose predecessors are ready is published.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace umlx5 {

// Indices are free-running and count blocks (WQEBBs of a send queue, WQEs of a receive queue); a request has one or
// more blocks, at most the queue's blocks divided by its requests. All members but configure() and reset() may be
// called from any number of threads at once.
class ManyProducers {
 public:
  struct Reservation {
    std::uint32_t first_block = 0;
    std::uint32_t request = 0;  // how many requests were reserved before this one
  };

  // `blocks` is a power of two. False: no memory.
  bool configure(std::uint32_t blocks, std::uint32_t max_requests) {
    ready_.reset(new (std::nothrow) std::atomic<std::uint32_t>[blocks == 0 ? 1 : blocks]());
    mask_ = blocks == 0 ? 0 : blocks - 1;
    max_requests_ = max_requests;
    reset();
    return ready_ != nullptr;
  }

  // Forgets everything, and goes on at block `first_block` (a multiple of the ring's blocks). No other call may run.
  void reset(std::uint32_t first_block = 0) {
    reserved_.store(first_block, std::memory_order_relaxed);
    completed_.store(0, std::memory_order_relaxed);
    published_ = first_block;
    for (std::uint32_t i = 0; ready_ != nullptr && i <= mask_; ++i) {
      ready_[i].store(first_block + i, std::memory_order_relaxed);
    }
  }

  // False: the queue is full, and nothing was reserved.
  bool reserve(std::uint32_t blocks, Reservation& reservation) {
    std::uint64_t seen = reserved_.load(std::memory_order_relaxed);
    for (;;) {
      const auto request = static_cast<std::uint32_t>(seen >> 32);
      const auto first = static_cast<std::uint32_t>(seen);
      // Acquire: the requests that made room have read what they needed of their blocks.
      if (request - completed_.load(std::memory_order_acquire) >= max_requests_) [[unlikely]] {
        return false;
      }
      const std::uint64_t wanted = std::uint64_t{request + 1} << 32 | static_cast<std::uint32_t>(first + blocks);
      // Both ways: what a producer did before it reserved is seen by those that reserve after it.
      if (reserved_.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel, std::memory_order_relaxed))
          [[likely]] {
        reservation = {.first_block = first, .request = request};
        return true;
      }
    }
  }

  // The blocks are filled. Every one of them is marked, so that no mark is older than one lap of the ring: the end of a
  // request that lay here a lap ago is not beyond the block's index in this lap.
  void ready(const Reservation& reservation, std::uint32_t blocks) {
    const std::uint32_t end = reservation.first_block + blocks;
    for (std::uint32_t block = end - 1; block != reservation.first_block; --block) {
      ready_[block & mask_].store(end, std::memory_order_relaxed);
    }
    ready_[reservation.first_block & mask_].store(end, std::memory_order_release);
  }

  // Publishes what is ready: `ring(before, producer, last)` with the index published so far, the index past the last
  // ready block and the first block of the last request. It is called by one thread at a time, with `producer` growing, and not at all if another thread
  // publishes now: that one calls its own `ring` for these blocks too.
  template <typename Ring>
  void publish(Ring&& ring) {
    if (asked_.fetch_add(1, std::memory_order_acq_rel) != 0) {
      return;
    }
    std::uint32_t answered = 1;
    for (;;) {
      std::uint32_t last = 0;
      const std::uint32_t before = published_;
      for (std::uint32_t end; is_ready(published_, end); published_ = end) {
        last = published_;
      }
      if (published_ != before) {
        ring(before, published_, last);
      }
      const std::uint32_t asked = asked_.fetch_sub(answered, std::memory_order_acq_rel);
      if (asked == answered) [[likely]] {
        return;
      }
      answered = asked - answered;
    }
  }

  // All requests up to and including number `request` have completed; what their blocks held is no longer needed. Later
  // numbers may have been told before.
  void complete_through(std::uint32_t request) {
    const std::uint32_t completed = request + 1;
    std::uint32_t seen = completed_.load(std::memory_order_relaxed);
    while (static_cast<std::int32_t>(completed - seen) > 0 &&
           !completed_.compare_exchange_weak(seen, completed, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

  // So many more requests have completed, whichever.
  void complete_more(std::uint32_t count) { completed_.fetch_add(count, std::memory_order_release); }

  std::uint32_t reserved_blocks() const {
    return static_cast<std::uint32_t>(reserved_.load(std::memory_order_acquire));
  }

  std::uint32_t outstanding_requests() const {
    const auto reserved = static_cast<std::uint32_t>(reserved_.load(std::memory_order_acquire) >> 32);
    return reserved - completed_.load(std::memory_order_acquire);
  }

 private:
  bool is_ready(std::uint32_t block, std::uint32_t& end) const {
    end = ready_[block & mask_].load(std::memory_order_acquire);
    return static_cast<std::int32_t>(end - block) > 0;
  }

  static constexpr std::size_t kLine = 64;

  std::unique_ptr<std::atomic<std::uint32_t>[]> ready_;  // per block: the end of the request that was last there
  std::uint32_t mask_ = 0;
  std::uint32_t max_requests_ = 0;
  alignas(kLine) std::atomic<std::uint64_t> reserved_{0};   // requests in the upper half, blocks in the lower
  alignas(kLine) std::atomic<std::uint32_t> asked_{0};      // how many asked for a publication that is not answered
  std::uint32_t published_ = 0;                             // of whoever publishes
  alignas(kLine) std::atomic<std::uint32_t> completed_{0};  // requests
};

}  // namespace umlx5
