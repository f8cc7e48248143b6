// What the data path keeps of one queue pair.
#pragma once

#include <cstdint>

#include "tools/softhca/hca/objects.h"
#include "tools/softhca/hca/requester.h"
#include "tools/softhca/hca/responder.h"

namespace softhca::hca {

class QpTransport {
 public:
  explicit QpTransport(Qp& owner) : qp(owner) {}

  Qp& qp;
  Requester requester;
  Responder responder;

  // Membership of the transport's lists.
  bool in_sending = false, in_answering = false, in_flushing = false, in_unsettled = false;
  std::uint64_t timer_ns = 0;  // earliest entry among the timers, 0: none

  bool drain_awaited = false;  // SQD was entered and its event is not out
  bool established = false;    // COMM_EST is out
};

}  // namespace softhca::hca
