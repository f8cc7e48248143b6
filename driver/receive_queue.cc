// Posting to a receive queue of either kind.
#include "driver/receive_queue.h"

#include <span>

#include "driver/shared_receive_queue.h"

namespace umlx5 {
namespace {

// Posts `requests` by put() and publish() of `queue`, until one is refused.
template <typename Queue>
[[gnu::noinline]] PostResult post_receive_list(Queue& queue, std::span<const RecvWr> requests) {
  PostResult result;
  for (const RecvWr& request : requests) {
    result.refusal = queue.put(request.wr_id, request.sges);
    if (result.refusal != Refusal::kNone) [[unlikely]] {
      result.error = errno_of(result.refusal);
      break;
    }
    ++result.posted;
  }
  if (result.posted != 0) {
    queue.publish();
  }
  return result;
}

// The same, quick for a single request.
template <typename Queue>
[[gnu::always_inline]] inline PostResult post_receives(Queue& queue, std::span<const RecvWr> requests) {
  if (requests.size() == 1 && queue.put_short(requests.front().wr_id, requests.front().sges)) [[likely]] {
    queue.publish();
    return {.posted = 1};
  }
  return post_receive_list(queue, requests);
}

}  // namespace

Refusal ReceiveQueue::add_beside_others(const RecvWr& request) {
  if (usable_requests_ == 0) [[unlikely]] {
    return Refusal::kState;
  }
  if (request.sges.size() > config_.max_sge) [[unlikely]] {
    return Refusal::kSges;
  }
  for (const Sge& sge : request.sges) {
    if (sge.length_bytes > wqe::kMaxDataSegmentBytes) [[unlikely]] {
      return Refusal::kLength;
    }
  }
  ManyProducers::Reservation place;
  if (!producers_->reserve(1, place)) {
    return Refusal::kFull;
  }
  const std::uint32_t slot = place.first_block & wqe_mask_;
  put_receive_list(config_.ring + (std::size_t{slot} << config_.wqe_bytes_log2), request.sges, config_.max_sge);
  __atomic_store_n(&wr_ids_[slot], request.wr_id, __ATOMIC_RELAXED);
  producers_->ready(place, 1);
  return Refusal::kNone;
}

PostResult ReceiveQueue::post_beside_others(std::span<const RecvWr> requests) {
  PostResult result;
  for (const RecvWr& request : requests) {
    result.refusal = add_beside_others(request);
    if (result.refusal != Refusal::kNone) [[unlikely]] {
      result.error = errno_of(result.refusal);
      break;
    }
    ++result.posted;
  }
  if (result.posted != 0) [[likely]] {
    producers_->publish([this](std::uint32_t, std::uint32_t producer, std::uint32_t) {
      doorbell::submit_receive(doorbell::QueueRecord<>(config_.record), producer);
    });
  }
  return result;
}

PostResult ReceiveQueue::post(std::span<const RecvWr> requests) {
  return producers_ == nullptr ? post_receives(*this, requests) : post_beside_others(requests);
}

PostResult SharedReceiveQueue::post(std::span<const RecvWr> requests) { return post_receives(*this, requests); }

}  // namespace umlx5
