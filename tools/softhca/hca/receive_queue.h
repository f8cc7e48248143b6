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

// WQEs of a shared receive queue that are posted and not taken.
std::uint16_t waiting_on(Link& link, const Srq& srq);

// Takes the next WQE of a shared receive queue. False if there is none.
bool take_shared(Link& link, Srq& srq, ReceiveWqe& wqe);

// Takes the next WQE of `qp.srq`, or of the ring if there is none, and keeps Qp::rq_consumed: all before that are
// taken.
//
// A queue pair that is out of order takes any of the next few of its ring. Software has a ring twice as large as what
// it may have outstanding, so a slot must not be taken later, or by a message further away, than half the ring allows:
// reach() bounds both.
class ReceiveQueue {
 public:
  void reset() { *this = ReceiveQueue(); }

  // False if there is none. `wqe`'s list's capacity is reused.
  bool take(Link& link, Qp& qp, ReceiveWqe& wqe);
  // True if take() would find one.
  bool available(Link& link, const Qp& qp);
  // Packets of messages that the ring's next WQEs have room for, counted up to `most`.
  std::uint32_t packets_waiting(Link& link, const Qp& qp, std::uint32_t most);
  // WQEs posted and not taken.
  unsigned waiting(Link& link, const Qp& qp);
  // How many messages before it may lack a receive WQE of the ring when a message takes one.
  static unsigned reach(const Qp& qp);
  // Takes the next WQE of the ring without reading it. A QP with an SRQ has none to flush.
  std::optional<std::uint16_t> take_for_flush(Link& link, Qp& qp);

 private:
  bool ring_has_next(Link& link, const Qp& qp);
  void read(Link& link, const Qp& qp, std::uint16_t wqe_counter, ReceiveWqe& wqe) const;
  void read_producer(Link& link, const Qp& qp);
  unsigned choose(Link& link, const Qp& qp) const;
  void mark_taken(Qp& qp, unsigned ahead);

  std::uint16_t consumer_ = 0, producer_ = 0;
  std::uint16_t taken_ahead_ = 0;  // bit n: WQE consumer_ + n is taken; never bit 0
  std::uint32_t choices_ = 0;
};

}  // namespace softhca::hca
