// The responder half of a QP.
//
// On a reliable connection it executes the peer's requests in the order of their PSNs and answers. Answers leave in the
// order of the requests: an acknowledgement waits until the responses of reads and atomics before it are sent, and then
// covers all that was executed meanwhile. A request that ends the connection waits in the same way before it is
// refused.
//
// A connection that places data out of order executes whole messages that arrive before their turn
// (responder_out_of_order.cc). They are acknowledged, and complete, in the order of their PSNs all the same.
//
// Without reliability there are no answers (responder_unreliable.cc). A UC message whose packets do not all come, in
// order, is dropped with all that is wrong in it; the receive WQE that it has taken waits for the next. Of datagrams,
// those that are not for this QP or find no receive WQE are dropped. Faults of this side's own making (a receive WQE
// that cannot be used, or too short for a datagram) complete that WQE and take the QP to ERR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/completion.h"
#include "tools/softhca/hca/receive_queue.h"
#include "tools/softhca/wire/packet.h"
#include "wqe/eqe.h"

namespace softhca::hca {

// Both ends of a connection place data out of order, or none.
constexpr bool same_ordering(const Qp& qp, const wire::Packet& packet) {
  return qp.out_of_order == (packet.bth.version == wire::kOutOfOrderVersion);
}

class Responder {
 public:
  // Forgets everything; the first request has `psn`.
  void start(const Qp& qp, std::uint32_t psn);

  // A packet of the peer's requester, by transport.
  void on_request(Link& link, Qp& qp, const wire::Packet& packet);
  void on_unacknowledged(Link& link, Qp& qp, const wire::Packet& packet);
  void on_datagram(Link& link, Qp& qp, const wire::Packet& packet, const wire::Received& received);

  // A frame that steering has given to this receive queue (responder_raw.cc).
  void on_frame(Link& link, Qp& qp, const Frame& frame, std::span<const std::byte> bytes, const Delivery& delivery);

  // A request to a DC target with a wrong key: it is refused, and nothing more is heard.
  void turn_away(Link& link, const Qp& qp, std::uint32_t psn);
  // A connection to a DC target has ended with a refusal.
  bool closed() const { return closed_; }

  // All packets that have arrived together are heard: executes what was held back among them.
  void settle(Link& link, Qp& qp);
  bool unsettled() const { return !held_.empty(); }

  // Sends at most `budget` packets of what is owed; returns how many. owes() tells if there is more.
  unsigned answer(Link& link, Qp& qp, unsigned budget);
  bool owes() const { return responses_.size() > sent_responses_ || verdict_ != Verdict::kNone; }

  // The QP is in ERR: completes the receive WQE in use and those posted with WR_FLUSH. To be called again for those
  // posted later.
  void flush(Link& link, Qp& qp);
  bool has_to_flush(Link& link, const Qp& qp) { return queue_.available(link, qp); }

 private:
  enum class Message : std::uint8_t { kNone, kSend, kWrite };
  // What is to be said after the responses.
  enum class Verdict : std::uint8_t { kNone, kAck, kNakSequence, kNakRnr, kRefuse };

  // A read or an atomic that is to be answered.
  struct Response {
    bool is_read = false;
    bool repeated = false;  // for a duplicate request
    std::uint32_t first_psn = 0;
    std::uint32_t msn = 0;
    std::uint32_t packets = 0, sent_packets = 0;
    std::uint64_t address = 0;
    std::uint32_t rkey = 0, pdn = 0;
    std::uint32_t bytes = 0;
    std::uint64_t original = 0;  // atomic
    bool formatted = false;
    std::vector<std::byte> data;  // of a read of a formatted key: what is sent
  };
  struct AtomicResult {
    std::uint32_t psn = 0;
    bool valid = false;
    std::uint64_t original = 0;
  };
  // Why a request is refused.
  struct Refusal {
    wire::NakCode code{};
    Failure receive_failure;  // of the receive WQE in use, if there is one
    umlx5::wqe::EventType event{};
  };

  // A packet whose turn has not come.
  struct Held {
    std::uint32_t psn = 0;
    std::vector<std::byte> payload;
    wire::Packet packet;  // its payload is the one above
  };
  // A message that was executed before its turn, or has at least its receive WQE.
  struct Early {
    std::uint32_t first_psn = 0, packets = 0;
    std::uint32_t srqn = 0;
    bool executed = false, takes_receive = false, ack_request = false;
    ReceiveWqe receive;  // if it takes one and is not executed
    ReceiveCompletion completion;
    std::vector<std::byte> cqe_data;
  };

  static std::optional<std::uint32_t> pdn_of(Link& link, const Qp& qp, const wire::Packet& packet);
  static umlx5::wqe::CqeOpcode receive_opcode(const wire::OpcodeInfo& info);

  // The request that is next.
  bool on_next_request(Link& link, Qp& qp, const wire::Packet& packet);
  // Strides: where the frame of `frame_bytes` goes, with the WQE taken.
  bool take_strides(Link& link, Qp& qp, std::size_t frame_bytes, FrameCompletion& completion);
  void leave_strides(const Qp& qp, std::uint32_t strides);

  // Out of order.
  void on_request_in_any_order(Link& link, Qp& qp, const wire::Packet& packet, std::uint32_t ahead);
  void hold(const wire::Packet& packet);
  void execute_in_order(Link& link, Qp& qp);
  void execute_early(Link& link, Qp& qp);
  Early* early_of(std::uint32_t psn);
  std::span<const Held> message_at(std::size_t first) const;
  bool try_early(Link& link, Qp& qp, std::span<const Held> message, std::uint32_t unresolved);
  bool take_early(Link& link, Qp& qp, const wire::Packet& packet, std::uint32_t unresolved, ReceiveWqe& wqe);
  bool place_early_send(Link& link, const Qp& qp, std::span<const Held> message, Early& early) const;
  static bool place_early_write(Link& link, const Qp& qp, std::uint32_t pdn, std::span<const Held> message);
  bool deliver_early(Link& link, Qp& qp);

  // In-order requests; each returns true if the request is executed (its PSNs are then consumed).
  bool execute(Link& link, Qp& qp, const wire::Packet& packet);
  bool send(Link& link, Qp& qp, const wire::Packet& packet);
  bool write(Link& link, Qp& qp, const wire::Packet& packet);
  bool read(Link& link, Qp& qp, const wire::Packet& packet);
  bool atomic(Link& link, Qp& qp, const wire::Packet& packet);
  bool begin_write(Link& link, Qp& qp, const wire::Packet& packet);
  bool place_write(Link& link, const Qp& qp, const wire::Packet& packet);
  bool place_send(Link& link, const Qp& qp, const wire::Packet& packet, bool& in_cqe);
  // Bytes on the wire that the receive WQE in use has room for. None if its keys make no sense.
  std::optional<std::uint64_t> receive_room(Link& link, const Qp& qp) const;
  void report_signature_errors(Link& link, const Qp& qp) const;
  bool sizes_fit(const Qp& qp, const wire::Packet& packet) const;
  // Takes the receive WQE of a message. False: there is none (an RNR NAK will say so) or it is unusable.
  bool take_receive(Link& link, Qp& qp);
  void fail_receive_in_use(Link& link, Qp& qp, Failure failure);
  // The sink of the receive WQE in use. Without a CQ if the SRQ that it came from has gone.
  ReceiveSink sink(Link& link, const Qp& qp) const;
  void complete_message(Link& link, Qp& qp, const wire::Packet& packet, std::span<const std::byte> data_in_cqe);

  void on_duplicate(Link& link, Qp& qp, const wire::Packet& packet);
  bool readable(Link& link, const Qp& qp, std::uint32_t pdn, const wire::Reth& reth) const;
  Response read_response(const Qp& qp, std::uint32_t pdn, const wire::Packet& packet) const;
  // The response to a read that is allowed; none otherwise.
  std::optional<Response> prepare_read(Link& link, const Qp& qp, std::uint32_t pdn, const wire::Packet& packet) const;
  // A requester has no more new requests under way than it may; repetitions come on top, and are dropped if many.
  bool room_for_response(const Qp& qp, bool repeated) const;

  bool refuse(wire::NakCode code, Failure receive_failure, umlx5::wqe::EventType event);
  bool refuse_invalid();
  bool refuse_access();
  void carry_out_refusal(Link& link, Qp& qp);
  void fail_local(Link& link, Qp& qp, Failure failure);
  // Why a datagram cannot be put into the receive WQE, after what could is put there.
  Failure place_datagram(Link& link, const Qp& qp, const wire::Packet& packet, const wire::Received& received);

  bool send_response(Link& link, Qp& qp, Response& response);  // of a read or atomic
  std::uint8_t credit(Link& link, const Qp& qp);
  void send_verdict(Link& link, Qp& qp);
  void send_aeth(Link& link, const Qp& qp, std::uint32_t psn, wire::Aeth aeth);

  ReceiveQueue queue_;
  std::uint32_t expected_psn_ = 0;
  std::uint32_t msn_ = 0;
  bool gap_reported_ = false;  // a NAK is out for expected_psn_: be quiet until that comes

  Message message_ = Message::kNone;
  std::uint64_t received_bytes_ = 0;
  bool formatted_ = false;  // the message passes a key with a format: it is kept until it is whole
  std::vector<std::byte> collected_;
  ReceiveWqe receive_;
  bool receive_in_use_ = false;
  wire::Reth write_target_;
  std::uint32_t next_stride_ = 0;  // of the receive WQE in use
  // Of the last new request: whose keys it may name, and on an XRC QP the SRQ that it names.
  std::uint32_t pdn_ = 0, srqn_ = 0;

  std::vector<Response> responses_;  // a queue: those before sent_responses_ are done
  std::size_t sent_responses_ = 0;
  std::vector<AtomicResult> replay_;
  std::size_t next_replay_ = 0;

  std::vector<Held> held_;  // by PSN
  std::vector<Early> early_;

  bool closed_ = false;
  Verdict verdict_ = Verdict::kNone;
  Refusal refusal_;
};

}  // namespace softhca::hca
