// The requester half of a QP: executes send WQEs, in order. On a reliable connection a WQE is done when the peer has
// acknowledged it, else when its last packet is sent.
//
// A WQE that fails takes a reliable connection to ERR, or a stream of a DC initiator that has streams. UC and UD go to
// SQER (IBA 10.3.1, and the device has SQERR2RTS for these): the rest of the send queue is flushed, receiving goes on.
//
// PSNs are counted here in 64 bits from the connection's initial PSN; the low 24 are on the wire. A READ takes as many
// PSNs as its response has packets, and is asked for in pieces so that no more response packets are under way than the
// window allows. Going back means to send again from the oldest PSN that is not done; for a READ that asks for the rest
// of its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tools/softhca/hca/send_queue.h"
#include "tools/softhca/wire/packet.h"

namespace softhca::hca {

class Requester {
 public:
  // Forgets everything; the next PSN is `psn`.
  void start(std::uint32_t psn);

  void doorbell() { queue_.rung(); }

  // Sends at most `budget` packets; returns how many. ready() tells if more could be sent at once.
  unsigned transmit(Link& link, Qp& qp, unsigned budget);
  // The same of a send queue of raw packets.
  unsigned transmit_frames(Link& link, Qp& qp, unsigned budget);
  bool ready() const { return ready_; }

  // Packets of the peer's responder.
  void on_response(Link& link, Qp& qp, const wire::Packet& packet);

  // When on_timer() must be called though no packet comes.
  std::optional<std::uint64_t> deadline_ns(const Qp& qp) const;
  void on_timer(Link& link, Qp& qp);

  // A failed stream of a DC initiator may be used again. False if it has not failed.
  bool reset_stream(std::uint16_t stream) { return errored_streams_.erase(stream) != 0; }
  // Where a DC initiator's responses must come from.
  std::optional<wire::Ipv4> connected_to() const {
    return connected_ ? std::optional(target_route_.destination) : std::nullopt;
  }

  // The QP is in ERR or SQER: completes all that is left with WR_FLUSH.
  void flush(Link& link, Qp& qp);

  // Tells once that a signature error has taken the QP to SQD.
  bool take_stop() { return std::exchange(stopped_, false); }

  // No WQE is started and unfinished.
  bool idle() const { return works_.empty(); }

 private:
  struct Work {
    SendRequest request;
    std::uint64_t first_psn = 0;
    std::uint64_t packets = 0;
    bool waits = false;           // changes a key or copies memory, and is not executed yet
    std::uint32_t cqe_bytes = 0;  // response bytes kept for the CQE
    std::array<std::byte, 64> cqe_data;
    bool converted = false;            // a formatted list is inline data now
    std::vector<std::byte> responses;  // of a READ into a formatted list, until all are here

    std::uint64_t end_psn() const { return first_psn + packets; }
    bool is_read() const { return request.opcode == umlx5::wqe::SendOpcode::kRdmaRead; }
    bool is_atomic() const {
      return request.opcode == umlx5::wqe::SendOpcode::kAtomicCompareSwap ||
             request.opcode == umlx5::wqe::SendOpcode::kAtomicFetchAdd;
    }
    bool has_response() const { return is_read() || is_atomic(); }
  };

  // A queue whose elements keep their memory when they leave.
  class Works {
   public:
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    Work& operator[](std::size_t i) { return slots_[(first_ + i) & (slots_.size() - 1)]; }
    const Work& operator[](std::size_t i) const { return slots_[(first_ + i) & (slots_.size() - 1)]; }
    Work& front() { return (*this)[0]; }
    Work& push();
    void drop_last() { --size_; }
    void pop() {
      first_ = (first_ + 1) & (slots_.size() - 1);
      --size_;
    }
    void clear() { first_ = size_ = 0; }

   private:
    std::vector<Work> slots_;
    std::size_t first_ = 0, size_ = 0;
  };

  // Sending.
  Work* next_work(Link& link, Qp& qp);
  void admit(Link& link, const Qp& qp, Work& work);
  bool may_start(const Work& work) const;
  void admit_formatted(Link& link, const Qp& qp, Work& work);
  // Work without packets: a change of a key, a copy.
  void carry_out(Link& link, const Qp& qp, Work& work);
  void set_psv(Link& link, const Qp& qp, Work& work);
  // A DC initiator turns to the target of a work request. False: not before what is under way to another is done.
  bool turn_to(Link& link, const Work& work);
  wire::Dceth dceth_of(const Qp& qp) const;
  const wire::Route& route_of(const Qp& qp, const Work& work) const;
  bool send_one(Link& link, Qp& qp, Work& work);
  bool send_data(Link& link, Qp& qp, Work& work);
  bool convert(Link& link, Qp& qp, Work& work);
  bool send_read(Link& link, const Qp& qp, Work& work);
  bool send_atomic(Link& link, const Qp& qp, Work& work);
  void sent(Link& link, std::uint64_t psns);
  static Failure send_frames(Link& link, const Qp& qp, const SendRequest& request, unsigned& sent);
  wire::Bth header(const Qp& qp, wire::Operation operation) const;
  // The peer has told that it has room for the next packet, or has not told, or is to be asked.
  bool has_credit(const Qp& qp, const Work& work) const;
  void take_credit(const Qp& qp, std::uint64_t acknowledged_psn, const wire::Aeth& aeth);
  std::uint64_t in_flight() const { return next_psn_ - done_psn_; }

  // Hearing.
  void on_acknowledge(Link& link, Qp& qp, std::uint64_t psn, const wire::Aeth& aeth);
  void on_nak(Link& link, Qp& qp, std::uint64_t psn, wire::NakCode code);
  void on_rnr_nak(Link& link, Qp& qp, std::uint64_t psn, std::uint8_t timer_code);
  bool place_read_response(Link& link, Qp& qp, Work& work, std::uint64_t offset, std::span<const std::byte> payload);
  void report_signature_errors(Link& link, Qp& qp);
  void give_back_fenced(Qp& qp);
  void on_read_response(Link& link, Qp& qp, Work& work, std::uint64_t psn, const wire::Packet& packet);
  void on_atomic_response(Link& link, Qp& qp, Work& work, const wire::Packet& packet);
  // All before `psn` has reached the peer. False if a response before it is missing, or the QP is no longer able.
  bool done_before(Link& link, Qp& qp, std::uint64_t psn);
  void advance(Link& link, std::uint64_t psn);
  // Completes works that are done, or the failed one if all before it are.
  bool finish_front(Link& link, Qp& qp);
  void fail_front(Link& link, Qp& qp, Failure failure);
  void fail_stream(Link& link, Qp& qp, const Work& work, Failure failure);

  // Loss.
  void go_back(Link& link, std::uint64_t window_packets);
  void response_missing(Link& link);
  void measure_round_trip(std::uint64_t now_ns);
  std::uint64_t first_resend_ns() const;

  SendQueue queue_;
  Works works_;                     // started or about to be, oldest first
  std::size_t sending_ = 0;         // index in works_ of the one being sent; works_.size() if there is none
  std::uint64_t done_psn_ = 0;      // all before is acknowledged and its responses are here
  std::uint64_t next_psn_ = 0;      // to be sent next
  std::uint64_t sent_psn_ = 0;      // never sent yet
  std::uint64_t assigned_psn_ = 0;  // not taken by a work yet
  bool ready_ = false;
  bool stopped_ = false;

  // End PSNs of the read pieces and atomics that are under way, oldest first.
  std::vector<std::uint64_t> responses_due_;

  // A DC initiator's connection.
  bool connected_ = false;
  wire::Route target_route_;
  std::uint32_t target_dctn_ = 0;
  wire::Dceth dceth_;
  std::set<std::uint16_t> errored_streams_;

  // Window, in packets: doubles each round trip up to the threshold, then grows by one.
  std::uint64_t window_ = 0, threshold_ = 0, grown_ = 0;
  std::uint64_t unasked_ = 0;  // packets sent since the last that asked for an acknowledgement

  std::uint64_t gap_seen_at_ = ~std::uint64_t{0};  // done_psn_ when a gap in responses last made us go back
  std::uint64_t progress_ns_ = 0, resend_ns_ = 0, resend_interval_ns_ = 0;
  // Round trip: one PSN at a time is timed, and not after going back (whose acknowledgement it would be is unknown).
  std::uint64_t timed_psn_ = 0, timed_since_ns_ = 0, round_trip_ns_ = 0;
  std::uint64_t held_until_ns_ = 0;          // RNR
  std::optional<std::uint64_t> credit_psn_;  // packet credits: messages may have PSNs before this one
  unsigned rnr_tries_ = 0;
};

}  // namespace softhca::hca
