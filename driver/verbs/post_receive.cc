// ibv_post_recv() and ibv_post_srq_recv().
#include <cerrno>

#include "driver/verbs/post_list.h"
#include "driver/verbs/queue_objects.h"

namespace umlx5::verbs {
namespace {

// Quick for a single request.
template <typename Queue>
[[gnu::always_inline]] inline int post(Queue& queue, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  const bool alone = requests != nullptr && requests->next == nullptr;
  if (alone && queue.put_short(requests->wr_id, sges_of(requests->sg_list, static_cast<unsigned>(requests->num_sge))))
      [[likely]] {
    queue.publish();
    return 0;
  }
  return post_list(queue, requests, bad);
}

template <typename Queue>
[[gnu::always_inline]] inline int post_under(QueueLock& lock, Queue& queue, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  if (!lock.needed()) {
    return post(queue, requests, bad);
  }
  lock.spinlock().lock();
  const int result = post(queue, requests, bad);
  lock.spinlock().unlock();
  return result;
}

}  // namespace

int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  QpObject& object = object_of(qp);
  if (object.receive == nullptr) [[unlikely]] {  // a queue of no requests is always full
    *bad = requests;
    return ENOMEM;
  }
  return post_under(object.receive_lock, *object.receive, requests, bad);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  SrqObject& object = object_of(srq);
  return post_under(object.lock, *object.queue, requests, bad);
}

}  // namespace umlx5::verbs
