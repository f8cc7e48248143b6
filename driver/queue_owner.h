// Whose queues a completion comes from.
#pragma once

#include <cstdint>

#include "driver/receive_queue.h"
#include "driver/send_queue.h"
#include "driver/shared_receive_queue.h"
#include "driver/striding_receives.h"

namespace umlx5 {

class Qp;
class Srq;

// What the number in a CQE stands for: a QP with its queues, or a shared receive queue alone (XRC, old CQEs).
struct QueueOwner {
  SendQueue* send = nullptr;             // null: there is none
  ReceiveQueue* receive = nullptr;       // null: receives are shared, or there are none
  SharedReceiveQueue* shared = nullptr;  // null: receives are the QP's own, or there are none
  StridingReceives* striding = nullptr;  // of a receive work queue that strides; then none of the others is there
  Qp* qp = nullptr;
  Srq* srq = nullptr;
};

}  // namespace umlx5
