// The receive queue of a queue pair. One thread at a time posts, unless the queue is made for many producers
// (many_producers.h); one at a time completes, unless its CQ has many pollers.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "doorbell/record.h"
#include "doorbell/submit.h"
#include "driver/data_segments.h"
#include "driver/many_producers.h"
#include "driver/work_request.h"
#include "wqe/data.h"

namespace umlx5 {

class ReceiveQueue {
 public:
  struct Config {
    std::byte* ring = nullptr;  // `wqes` strides
    std::uint32_t wqes = 0;     // power of two, or 0: no queue
    std::uint32_t wqe_bytes_log2 = 0;
    std::uint32_t max_requests = 0;
    std::uint32_t max_sge = 0;
    bool many_producers = false;
    bool many_completers = false;  // its CQ has many pollers
    doorbell::RecordMemory* record = nullptr;
  };

  // ENOMEM on an exhausted heap: false.
  bool configure(Config config) {
    wr_ids_.reset(new (std::nothrow) std::uint64_t[config.wqes == 0 ? 1 : config.wqes]());
    config_ = config;
    wqe_mask_ = config.wqes == 0 ? 0 : config.wqes - 1;
    has_plain_tail_ = !config.many_producers && !config.many_completers;
    if (config.many_producers) {
      producers_.reset(new (std::nothrow) ManyProducers);
      if (producers_ == nullptr || !producers_->configure(config.wqes, config.max_requests)) {
        return false;
      }
    }
    return wr_ids_ != nullptr;
  }

  void set_usable(bool usable) {
    usable_requests_ = usable ? config_.max_requests : 0;
    room_until_ = head_;  // the next request looks anew
  }

  // Forgets what was posted; the record is zero again.
  void reset() {
    head_ = room_until_ = 0;
    if (producers_ != nullptr) {
      producers_->reset();
    }
    tail_.store(0, std::memory_order_relaxed);
    doorbell::QueueRecord<>(config_.record).publish_receive(0);
  }

  PostResult post(std::span<const RecvWr> requests);

  // The two halves of post(), for requests of another form: put() each, then publish() if any was taken.
  // An entry of no bytes is left out; a list that does not fill the WQE ends with a terminator.
  Refusal put(std::uint64_t wr_id, std::span<const Sge> sges) {
    if (!has_room()) [[unlikely]] {
      return usable_requests_ == 0 ? Refusal::kState : Refusal::kFull;
    }
    if (sges.size() > config_.max_sge) [[unlikely]] {
      return Refusal::kSges;
    }
    if (!put_receive_list(next_wqe(), sges, config_.max_sge)) [[unlikely]] {
      return Refusal::kLength;
    }
    count_in(wr_id);
    return Refusal::kNone;
  }
  // put() of what nearly all requests are: one SGE, and room is known. False: it is not that, and put() has to look.
  [[gnu::always_inline]] bool put_short(std::uint64_t wr_id, std::span<const Sge> sges) {
    if (static_cast<std::int32_t>(room_until_ - head_) <= 0 || sges.size() != 1) [[unlikely]] {
      return false;
    }
    if (!put_receive_data(next_wqe(), sges.front(), config_.max_sge)) [[unlikely]] {
      return false;
    }
    count_in(wr_id);
    return true;
  }
  void publish() { doorbell::submit_receive(doorbell::QueueRecord<>(config_.record), head_); }
  // Publishes there from now on, beginning with what has been posted. Not while anybody posts.
  void move_record(doorbell::RecordMemory* record) {
    config_.record = record;
    if (producers_ != nullptr) {
      head_ = producers_->reserved_blocks();
    }
    publish();
  }

  // Of the request that a CQE with this WQE counter completes; it is not always the oldest.
  // Of a CQE that another thread has taken meanwhile it may be anything.
  std::uint64_t wr_id(std::uint16_t wqe_counter) const {
    return __atomic_load_n(&wr_ids_[wqe_counter & wqe_mask_], __ATOMIC_RELAXED);
  }
  // So many requests are done with.
  void complete(std::uint32_t count) {
    if (has_plain_tail_) [[likely]] {
      tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    } else if (producers_ != nullptr) {
      producers_->complete_more(count);
    } else {
      tail_.fetch_add(count, std::memory_order_release);
    }
  }

  // Copies data that came inside a CQE to where the request at `wqe_counter` wanted it. False if it does not fit.
  // To be called before complete().
  bool scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const;

  std::uint32_t outstanding_requests() const {
    return producers_ != nullptr ? producers_->outstanding_requests() : head_ - tail_.load(std::memory_order_acquire);
  }
  const Config& config() const { return config_; }
  bool usable() const { return usable_requests_ != 0; }

 private:
  std::byte* next_wqe() const {
    return config_.ring + (std::size_t{head_ & wqe_mask_} << config_.wqe_bytes_log2);
  }
  [[gnu::always_inline]] void count_in(std::uint64_t wr_id) {
    __atomic_store_n(&wr_ids_[head_ & wqe_mask_], wr_id, __ATOMIC_RELAXED);
    ++head_;
  }
  bool has_room() { return static_cast<std::int32_t>(room_until_ - head_) > 0 || find_room(); }
  // Looks at what has completed meanwhile.
  [[gnu::noinline]] bool find_room() {
    room_until_ = tail_.load(std::memory_order_acquire) + usable_requests_;
    return usable_requests_ != 0 && static_cast<std::int32_t>(room_until_ - head_) > 0;
  }

  Refusal add_beside_others(const RecvWr& request);
  PostResult post_beside_others(std::span<const RecvWr> requests);

  Config config_;
  std::unique_ptr<std::uint64_t[]> wr_ids_;
  std::unique_ptr<ManyProducers> producers_;  // null: there is one
  bool has_plain_tail_ = true;  // one thread at a time completes, and one posts
  std::uint32_t wqe_mask_ = 0;
  std::uint32_t usable_requests_ = 0;
  std::uint32_t head_ = 0;                          // requests ever posted, free-running
  std::uint32_t room_until_ = 0;                    // there is room for the requests before this one
  alignas(64) std::atomic<std::uint32_t> tail_{0};  // requests ever completed
};

}  // namespace umlx5
