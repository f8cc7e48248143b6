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

PostResult ReceiveQueue::post(std::span<const RecvWr> requests) { return post_receives(*this, requests); }

PostResult SharedReceiveQueue::post(std::span<const RecvWr> requests) { return post_receives(*this, requests); }

}  // namespace umlx5
