// Posting a list of the verbs' receive requests to a queue of any kind.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "driver/verbs/queue_objects.h"

namespace umlx5::verbs {

// 0 or errno; `bad` is then the request that was refused. Those before it are posted.
template <typename Queue>
[[gnu::noinline]] int post_list(Queue& queue, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  Refusal refusal = Refusal::kNone;
  ibv_recv_wr* at = requests;
  for (; at != nullptr; at = at->next) {
    refusal = queue.put(at->wr_id, sges_of(at->sg_list, static_cast<unsigned>(at->num_sge)));
    if (refusal != Refusal::kNone) [[unlikely]] {
      break;
    }
  }
  if (at != requests) [[likely]] {
    queue.publish();
  }
  if (refusal != Refusal::kNone) [[unlikely]] {
    *bad = at;
    return refusal == Refusal::kFull ? ENOMEM : EINVAL;
  }
  return 0;
}

}  // namespace umlx5::verbs
