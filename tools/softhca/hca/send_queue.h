// The send queue of a QP as the device reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/softhca/hca/completion.h"
#include "tools/softhca/hca/data_list.h"
#include "wqe/control.h"

namespace softhca::hca {

// What a raw packet queue is asked to do to a frame.
struct FrameOffloads {
  bool l3_checksum = false, l4_checksum = false;
  std::uint16_t mss_bytes = 0;        // of a large send
  std::uint16_t header_bytes = 0;     // inlined, the first of the list's
  std::optional<std::uint16_t> vlan;  // tag to insert
};

// A send WQE taken out of the ring: nothing in it points there.
struct SendRequest {
  std::uint16_t wqe_counter = 0;  // where the WQE starts, in WQEBBs, free-running
  umlx5::wqe::SendOpcode opcode{};
  std::uint8_t opmod = 0;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;  // starts when earlier reads and atomics are done
  std::uint32_t immediate = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_or_add = 0, compare = 0;
  std::uint32_t xrc_srqn = 0;  // on an XRC QP
  // Of a datagram, and of a DC initiator.
  std::uint32_t destination_qpn = 0, qkey = 0;
  std::uint64_t access_key = 0;
  std::uint16_t stream = 0;
  wire::Route route;
  std::vector<DataPiece> list;
  std::vector<std::byte> inline_data;
  std::vector<std::byte> body;     // of an opcode that changes a key
  bool formatted = false;          // the list has keys with formats, and is converted as a whole
  std::uint64_t length_bytes = 0;  // of the list
  FrameOffloads offloads;
  Failure failure;  // why it cannot be executed
};

// Reads WQEs in order and keeps Qp::sq_consumed_wqebbs. One per QP; `qp` is always that QP.
class SendQueue {
 public:
  void reset() { *this = SendQueue(); }

  // The doorbell record may have a new producer counter.
  void rung() { producer_stale_ = true; }

  // Reads the next WQE into `request` (whose vectors' capacity is reused). False if the queue is empty. A WQE that
  // cannot be executed is taken too, with its failure set. A producer counter that the ring cannot hold, or a doorbell
  // record that cannot be read, gives `broken()` and an empty queue.
  bool take(Link& link, Qp& qp, SendRequest& request);

  // Takes the next WQE without reading more than flushing needs.
  struct Flushed {
    std::uint16_t wqe_counter;
    umlx5::wqe::SendOpcode opcode;
  };
  std::optional<Flushed> take_for_flush(Link& link, Qp& qp);

  // The WQE that was taken last and all after it are to be taken again.
  void give_back(Qp& qp, std::uint16_t wqe_counter) {
    consumer_ = wqe_counter;
    qp.sq_consumed_wqebbs = consumer_;
  }

  bool empty(Link& link, const Qp& qp);
  bool broken() const { return broken_; }

 private:
  void consume(Qp& qp, std::uint16_t wqebbs);
  // Reads `to.size()` bytes from the start of the WQE at consumer_, wrapping at the ring's end.
  bool read(Link& link, const Qp& qp, std::size_t offset_bytes, std::span<std::byte> to) const;
  // WQEBBs that the WQE with this DS occupies; 0 if it does not lie within what the producer has posted.
  std::uint16_t wqebbs_of(unsigned ds_octowords) const;

  std::uint16_t consumer_ = 0, producer_ = 0;
  bool producer_stale_ = true;
  bool broken_ = false;
};

}  // namespace softhca::hca
