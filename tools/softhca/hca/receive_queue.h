// Receive WQEs of a QP as the device takes them, from its own ring or from a shared receive queue.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/softhca/hca/data_list.h"

namespace softhca::hca {

struct ReceiveWqe {
  std::uint16_t wqe_counter = 0;  // free-running for a ring, the WQE's index for an SRQ
  std::uint32_t pdn = 0;          // whose keys the list names
  std::vector<DataPiece> list;
  std::uint64_t length_bytes = 0;
  bool valid = true;  // false: the WQE could not be read or makes no sense
};

// Takes the next WQE of a shared receive queue. False if there is none.
bool take_shared(Link& link, Srq& srq, ReceiveWqe& wqe);

// Takes the next WQE of `qp.srq`, or of the ring if there is none, and keeps Qp::rq_consumed.
class ReceiveQueue {
 public:
  void reset() { *this = ReceiveQueue(); }

  // False if there is none. `wqe`'s list's capacity is reused.
  bool take(Link& link, Qp& qp, ReceiveWqe& wqe);
  // True if take() would find one.
  bool available(Link& link, const Qp& qp);
  // Takes the next WQE of the ring without reading it. A QP with an SRQ has none to flush.
  std::optional<std::uint16_t> take_for_flush(Link& link, Qp& qp);

 private:
  bool ring_has_next(Link& link, const Qp& qp);

  std::uint16_t consumer_ = 0, producer_ = 0;
};

}  // namespace softhca::hca
