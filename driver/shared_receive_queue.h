// The ring of a shared receive queue: a linked list of WQEs, since requests complete in any order.
//
// Each WQE begins with the index of the next one, and the device follows these links as the poster does: `head_` is
// the next WQE to be posted; behind it are those that are free, in the order in which they completed. The last of the
// list is never posted, for the device would then find no link in it.
// Layout: wqe/data.h SrqNextSegment.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "doorbell/record.h"
#include "doorbell/submit.h"
#include "driver/data_segments.h"
#include "driver/work_request.h"
#include "wqe/data.h"

namespace umlx5 {

// One thread at a time posts. Any number of threads complete meanwhile (each polls a CQ of its own): they append to the
// list without waiting for each other.
class SharedReceiveQueue {
 public:
  struct Config {
    std::byte* ring = nullptr;    // `ring_wqes` strides; configure() links them
    std::uint32_t ring_wqes = 0;  // power of two, at most 2^16
    std::uint32_t wqe_bytes_log2 = 0;
    std::uint32_t max_requests = 0;  // ring_wqes - 1
    std::uint32_t max_sge = 0;
    doorbell::RecordMemory* record = nullptr;
  };

  // ENOMEM on an exhausted heap: false.
  bool configure(Config config) {
    slots_.reset(new (std::nothrow) Slot[config.ring_wqes == 0 ? 1 : config.ring_wqes]);
    config_ = config;
    wqe_mask_ = config.ring_wqes == 0 ? 0 : config.ring_wqes - 1;
    if (slots_ == nullptr) {
      return false;
    }
    for (std::uint32_t index = 0; index < config.ring_wqes; ++index) {
      const bool last = index + 1 == config.ring_wqes;
      put_link(index, last ? 0 : index + 1);
      slots_[index].next.store(last ? kNone : index + 1, std::memory_order_relaxed);
    }
    head_ = 0;
    last_.store(wqe_mask_, std::memory_order_relaxed);
    return true;
  }

  PostResult post(std::span<const RecvWr> requests);

  // The two halves of post(), for requests of another form: put() each, then publish() if any was taken.
  // An entry of no bytes is left out (its count would mean 2 GiB to the device); a list that does not fill the WQE ends
  // with a terminator.
  Refusal put(std::uint64_t wr_id, std::span<const Sge> sges) {
    if (sges.size() > config_.max_sge) [[unlikely]] {
      return Refusal::kSges;
    }
    const std::uint32_t next = slots_[head_].next.load(std::memory_order_acquire);
    if (next == kNone) [[unlikely]] {
      return config_.max_requests == 0 ? Refusal::kState : Refusal::kFull;
    }
    if (!put_receive_list(wqe(head_) + wqe::SrqNextSegment::kBytes, sges, config_.max_sge)) [[unlikely]] {
      return Refusal::kLength;
    }
    count_in(wr_id, next);
    return Refusal::kNone;
  }
  // put() of what nearly all requests are: one SGE. False: it is not that, or there is no room, and put() has to look.
  [[gnu::always_inline]] bool put_short(std::uint64_t wr_id, std::span<const Sge> sges) {
    const std::uint32_t next = slots_[head_].next.load(std::memory_order_acquire);
    if (next == kNone || sges.size() != 1) [[unlikely]] {
      return false;
    }
    if (!put_receive_data(wqe(head_) + wqe::SrqNextSegment::kBytes, sges.front(), config_.max_sge)) [[unlikely]] {
      return false;
    }
    count_in(wr_id, next);
    return true;
  }
  void publish() { doorbell::submit_receive(doorbell::QueueRecord<>(config_.record), counter_); }

  // What a CQE with this WQE counter completes; its WQE goes to the end of the list.
  std::uint64_t complete(std::uint16_t wqe_counter) {
    const std::uint32_t index = wqe_counter & wqe_mask_;
    const std::uint64_t wr_id = slots_[index].wr_id;
    slots_[index].next.store(kNone, std::memory_order_relaxed);
    // Whoever comes next links behind this one; until the link below is there, the list ends before it.
    const std::uint32_t before = last_.exchange(index, std::memory_order_acq_rel);
    put_link(before, index);
    slots_[before].next.store(index, std::memory_order_release);
    return wr_id;
  }

  // Copies data that came inside a CQE to where the request at `wqe_counter` wanted it. False if it does not fit.
  // To be called before complete().
  bool scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const;

  const Config& config() const { return config_; }
  // The next WQE to be posted, and the last of the list (mlx5dv_init_obj shows them).
  std::uint32_t head() const { return head_; }
  std::uint32_t last() const { return last_.load(std::memory_order_relaxed); }
  std::uint32_t posted_requests() const { return counter_; }  // free-running

 private:
  static constexpr std::uint32_t kNone = ~0u;

  struct Slot {
    std::uint64_t wr_id = 0;
    std::atomic<std::uint32_t> next{kNone};
  };

  [[gnu::always_inline]] void count_in(std::uint64_t wr_id, std::uint32_t next) {
    slots_[head_].wr_id = wr_id;
    head_ = next;
    ++counter_;
  }
  std::byte* wqe(std::uint32_t index) const { return config_.ring + (std::size_t{index} << config_.wqe_bytes_log2); }
  void put_link(std::uint32_t index, std::uint32_t next) {
    wqe::store(wqe(index), wqe::SrqNextSegment{.next_wqe_index = static_cast<std::uint16_t>(next)});
  }

  Config config_;
  std::unique_ptr<Slot[]> slots_;
  std::uint32_t wqe_mask_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t counter_ = 0;
  alignas(64) std::atomic<std::uint32_t> last_{0};
};

}  // namespace umlx5
