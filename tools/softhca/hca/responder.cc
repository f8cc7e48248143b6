#include "tools/softhca/hca/responder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "tools/softhca/hca/formatted_data.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::CqeOpcode;
using umlx5::wqe::EventType;
using wire::Headers;
using wire::Kind;
using wire::NakCode;
using wire::Operation;

constexpr std::uint32_t kMaxMessageBytes = 1u << 31;

std::uint32_t packets_of(const Qp& qp, std::uint32_t bytes) {
  const std::uint64_t mtu = mtu_bytes(qp);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (bytes + mtu - 1) / mtu));
}

}  // namespace

CqeOpcode Responder::receive_opcode(const wire::OpcodeInfo& info) {
  if (info.kind == Kind::kRdmaWrite) {
    return CqeOpcode::kResponderWriteImmediate;
  }
  if (info.has(Headers::kImmDt)) {
    return CqeOpcode::kResponderSendImmediate;
  }
  return info.has(Headers::kIeth) ? CqeOpcode::kResponderSendInvalidate : CqeOpcode::kResponderSend;
}

// The protection domain whose keys a request may name: the QP's, or on an XRC QP that of the SRQ which the request
// names. None if that is no SRQ of the QP's XRC domain.
std::optional<std::uint32_t> Responder::pdn_of(Link& link, const Qp& qp, const wire::Packet& packet) {
  if (qp.type != QpType::kXrc) {
    return qp.pdn;
  }
  const Srq* const srq = link.services.find_srq(packet.xrceth.srqn);
  return srq != nullptr && srq->kind == SrqKind::kXrc && srq->xrcd == qp.xrcd ? std::optional(srq->pdn) : std::nullopt;
}

void Responder::start(const Qp& qp, std::uint32_t psn) {
  *this = Responder();
  expected_psn_ = psn & 0xffffff;
  replay_.resize(std::max<std::uint32_t>(qp.max_target_rd_atomic, 1));
}

// ---- Requests ----

void Responder::on_request(Link& link, Qp& qp, const wire::Packet& packet) {
  if (verdict_ == Verdict::kRefuse) {
    return;
  }
  const std::int32_t ahead = wire::psn_difference(packet.bth.psn, expected_psn_);
  if (ahead < 0) {
    ++link.counters.duplicate_request;
    on_duplicate(link, qp, packet);
    return;
  }
  if (qp.out_of_order) {
    on_request_in_any_order(link, qp, packet, static_cast<std::uint32_t>(ahead));
    return;
  }
  if (ahead > 0) {
    ++link.counters.out_of_sequence;
    if (!gap_reported_) {
      gap_reported_ = true;
      verdict_ = Verdict::kNakSequence;
    }
    return;
  }
  on_next_request(link, qp, packet);
}

bool Responder::on_next_request(Link& link, Qp& qp, const wire::Packet& packet) {
  gap_reported_ = false;
  const bool executed = execute(link, qp, packet);
  const bool has_response = packet.info().kind != Kind::kSend && packet.info().kind != Kind::kRdmaWrite;
  if (executed && packet.bth.ack_request && !has_response && verdict_ == Verdict::kNone) {
    verdict_ = Verdict::kAck;
  }
  return executed;
}

bool Responder::execute(Link& link, Qp& qp, const wire::Packet& packet) {
  // A request that is in order makes an older "not in order" or "no receive WQE" untrue.
  if (verdict_ == Verdict::kNakSequence || verdict_ == Verdict::kNakRnr) {
    verdict_ = Verdict::kNone;
  }
  const auto pdn = pdn_of(link, qp, packet);
  if (!pdn || !same_ordering(qp, packet)) {
    return refuse_invalid();
  }
  pdn_ = *pdn;
  srqn_ = packet.xrceth.srqn;
  switch (packet.info().kind) {
    case Kind::kSend:
      return send(link, qp, packet);
    case Kind::kRdmaWrite:
      link.counters.rx_write_requests += packet.info().begins_message() ? 1 : 0;
      return write(link, qp, packet);
    case Kind::kRdmaReadRequest:
      ++link.counters.rx_read_requests;
      return read(link, qp, packet);
    case Kind::kCompareSwap:
    case Kind::kFetchAdd:
      ++link.counters.rx_atomic_requests;
      return atomic(link, qp, packet);
    default:
      return false;  // a response, which does not come here
  }
}

bool Responder::sizes_fit(const Qp& qp, const wire::Packet& packet) const {
  const wire::OpcodeInfo& info = packet.info();
  const std::size_t mtu = mtu_bytes(qp);
  if (!info.ends_message()) {
    return packet.payload.size() == mtu;
  }
  return packet.payload.size() <= mtu && (info.begins_message() || !packet.payload.empty());
}

bool Responder::take_receive(Link& link, Qp& qp) {
  // A message that could not be executed early has taken its WQE.
  Early* const early = early_of(expected_psn_);
  if (!receive_in_use_ && early != nullptr && early->takes_receive) {
    early->takes_receive = false;
    receive_ = std::move(early->receive);
    receive_in_use_ = true;
  }
  // An unreliable message that was dropped has left its WQE.
  const auto take = [&] {
    return qp.type == QpType::kXrc ? take_shared(link, *link.services.find_srq(srqn_), receive_)
                                   : queue_.take(link, qp, receive_);
  };
  if (!receive_in_use_ && !take()) {
    ++link.counters.out_of_buffer;
    verdict_ = Verdict::kNakRnr;
    gap_reported_ = true;
    return false;
  }
  receive_in_use_ = true;
  return receive_.valid ||
         refuse(NakCode::kRemoteOperationalError, failure::kBadWqe, EventType::kWorkQueueCatastrophic);
}

ReceiveSink Responder::sink(Link& link, const Qp& qp) const {
  if (qp.type != QpType::kXrc) {
    return receive_sink(qp);
  }
  const Srq* const srq = link.services.find_srq(srqn_);
  return srq != nullptr ? receive_sink(*srq) : ReceiveSink{};
}

void Responder::fail_receive_in_use(Link& link, Qp& qp, Failure failure) {
  receive_in_use_ = false;
  fail_receive(link, qp, sink(link, qp), receive_.wqe_counter, failure);
}

bool Responder::send(Link& link, Qp& qp, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  const bool begins = info.begins_message();
  if ((begins ? message_ != Message::kNone : message_ != Message::kSend) || !sizes_fit(qp, packet)) {
    return refuse_invalid();
  }
  if (begins) {
    if (!take_receive(link, qp)) {
      return false;
    }
    received_bytes_ = 0;
    formatted_ = passes_format(link, receive_.list);
    collected_.clear();
  }
  const auto room = receive_room(link, qp);
  if (!room) {
    return refuse(NakCode::kRemoteOperationalError, failure::kScatterFault, EventType::kWorkQueueCatastrophic);
  }
  if (received_bytes_ + packet.payload.size() > *room) {
    return refuse(NakCode::kInvalidRequest, failure::kReceiveTooShort, EventType::kWorkQueueInvalidRequest);
  }
  bool in_cqe = false;
  if (!place_send(link, qp, packet, in_cqe)) {
    return refuse(NakCode::kRemoteOperationalError, failure::kScatterFault, EventType::kWorkQueueCatastrophic);
  }
  if (info.has(Headers::kIeth) && !link.services.invalidate({pdn_, qp.qpn}, packet.ieth.rkey)) {
    return refuse(NakCode::kRemoteAccessError, failure::kReceiveAccess, EventType::kWorkQueueAccessError);
  }
  received_bytes_ += packet.payload.size();
  message_ = Message::kSend;
  expected_psn_ = wire::psn_add(expected_psn_, 1);
  if (info.ends_message()) {
    complete_message(link, qp, packet, in_cqe ? packet.payload : std::span<const std::byte>{});
  }
  return true;
}

std::optional<std::uint64_t> Responder::receive_room(Link& link, const Qp& qp) const {
  return formatted_ ? wire_bytes_of(link, {receive_.pdn, qp.qpn}, receive_.list) : receive_.length_bytes;
}

bool Responder::place_send(Link& link, const Qp& qp, const wire::Packet& packet, bool& in_cqe) {
  const wire::OpcodeInfo& info = packet.info();
  const KeyUser user{receive_.pdn, qp.qpn};
  if (formatted_) {
    collected_.insert(collected_.end(), packet.payload.begin(), packet.payload.end());
    if (!info.ends_message()) {
      return true;
    }
    const bool placed = scatter_formatted(link, user, receive_.list, collected_);
    report_signature_errors(link, qp);
    return placed;
  }
  in_cqe = info.begins_message() && info.ends_message() && packet.payload.size() <= qp.inline_scatter_responder_bytes;
  return in_cqe || scatter(link, user, receive_.list, received_bytes_, packet.payload);
}

void Responder::report_signature_errors(Link& link, const Qp& qp) const {
  for (const FoundSignatureError& found : link.signature_errors) {
    report_signature_error(link, qp, sink(link, qp).cq, found);
  }
  link.signature_errors.clear();
}

bool Responder::begin_write(Link& link, Qp& qp, const wire::Packet& packet) {
  write_target_ = packet.reth;
  received_bytes_ = 0;
  if (write_target_.dma_bytes > kMaxMessageBytes) {
    return refuse_invalid();
  }
  const KeyUser user{pdn_, qp.qpn};
  const auto& [address, rkey, bytes] = write_target_;
  formatted_ = bytes != 0 && link.services.formatted_key(rkey).has_value();
  collected_.clear();
  const bool accessible = formatted_ ? may_write_formatted(link, rkey, user, address, bytes)
                                     : ends_accessible(link, rkey, user, address, bytes, Access::kRemoteWrite);
  return (qp.remote_write && accessible) || refuse_access();
}

bool Responder::place_write(Link& link, const Qp& qp, const wire::Packet& packet) {
  const std::uint64_t after = received_bytes_ + packet.payload.size();
  if (packet.info().ends_message() ? after != write_target_.dma_bytes : after >= write_target_.dma_bytes) {
    return refuse_invalid();
  }
  const KeyUser user{pdn_, qp.qpn};
  if (!formatted_) {
    return write_key(link, write_target_.rkey, user, write_target_.address + received_bytes_, Access::kRemoteWrite,
                     packet.payload) ||
           refuse_access();
  }
  collected_.insert(collected_.end(), packet.payload.begin(), packet.payload.end());
  if (!packet.info().ends_message()) {
    return true;
  }
  const bool written = write_formatted(link, write_target_.rkey, user, write_target_.address, collected_);
  report_signature_errors(link, qp);
  return written || refuse_access();
}

bool Responder::write(Link& link, Qp& qp, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  const bool begins = info.begins_message();
  if ((begins ? message_ != Message::kNone : message_ != Message::kWrite) || !sizes_fit(qp, packet)) {
    return refuse_invalid();
  }
  if (begins && !begin_write(link, qp, packet)) {
    return false;
  }
  // Without a receive WQE the packet will come again: nothing of it may be executed.
  const bool takes_receive = info.has(Headers::kImmDt);
  if (takes_receive && !take_receive(link, qp)) {
    return false;
  }
  if (!place_write(link, qp, packet)) {
    return false;
  }
  received_bytes_ += packet.payload.size();
  message_ = Message::kWrite;
  expected_psn_ = wire::psn_add(expected_psn_, 1);
  if (info.ends_message()) {
    complete_message(link, qp, packet, {});
  }
  return true;
}

void Responder::complete_message(Link& link, Qp& qp, const wire::Packet& packet,
                                 std::span<const std::byte> data_in_cqe) {
  const wire::OpcodeInfo& info = packet.info();
  message_ = Message::kNone;
  msn_ = wire::psn_add(msn_, 1);
  if (info.kind == Kind::kRdmaWrite && !info.has(Headers::kImmDt)) {
    return;
  }
  receive_in_use_ = false;
  ReceiveCompletion completion;
  completion.opcode = receive_opcode(info);
  completion.wqe_counter = receive_.wqe_counter;
  completion.byte_count = static_cast<std::uint32_t>(received_bytes_);
  completion.immediate_or_rkey = info.has(Headers::kImmDt) ? packet.imm_dt.immediate : packet.ieth.rkey;
  completion.source_qpn = qp.remote_qpn;
  completion.solicited = packet.bth.solicited_event;
  complete_receive(link, qp, sink(link, qp), completion, data_in_cqe);
}

bool Responder::room_for_response(const Qp& qp, bool repeated) const {
  const auto waiting =
      std::count_if(responses_.begin() + static_cast<std::ptrdiff_t>(sent_responses_), responses_.end(),
                    [&](const Response& response) { return response.repeated == repeated; });
  return waiting < static_cast<std::ptrdiff_t>(qp.max_target_rd_atomic);
}

bool Responder::readable(Link& link, const Qp& qp, std::uint32_t pdn, const wire::Reth& reth) const {
  return qp.remote_read &&
         ends_accessible(link, reth.rkey, {pdn, qp.qpn}, reth.address, reth.dma_bytes, Access::kRemoteRead);
}

std::optional<Responder::Response> Responder::prepare_read(Link& link, const Qp& qp, std::uint32_t pdn,
                                                           const wire::Packet& packet) const {
  const wire::Reth& reth = packet.reth;
  const bool formatted = reth.dma_bytes != 0 && link.services.formatted_key(reth.rkey).has_value();
  if (!formatted) {
    return readable(link, qp, pdn, reth) ? std::optional(read_response(qp, pdn, packet)) : std::nullopt;
  }
  Response response = read_response(qp, pdn, packet);
  response.formatted = true;
  const bool read =
      qp.remote_read && read_formatted(link, reth.rkey, {pdn, qp.qpn}, reth.address, reth.dma_bytes, response.data);
  report_signature_errors(link, qp);
  return read ? std::optional(std::move(response)) : std::nullopt;
}

Responder::Response Responder::read_response(const Qp& qp, std::uint32_t pdn, const wire::Packet& packet) const {
  Response response;
  response.is_read = true;
  response.first_psn = packet.bth.psn;
  response.msn = msn_;
  response.packets = packets_of(qp, packet.reth.dma_bytes);
  response.address = packet.reth.address;
  response.rkey = packet.reth.rkey;
  response.pdn = pdn;
  response.bytes = packet.reth.dma_bytes;
  return response;
}

bool Responder::read(Link& link, Qp& qp, const wire::Packet& packet) {
  if (message_ != Message::kNone || packet.reth.dma_bytes > kMaxMessageBytes || !room_for_response(qp, false)) {
    return refuse_invalid();
  }
  auto response = prepare_read(link, qp, pdn_, packet);
  if (!response) {
    return refuse_access();
  }
  msn_ = wire::psn_add(msn_, 1);
  response->msn = msn_;
  responses_.push_back(std::move(*response));
  expected_psn_ = wire::psn_add(expected_psn_, responses_.back().packets);
  return true;
}

bool Responder::atomic(Link& link, Qp& qp, const wire::Packet& packet) {
  const wire::AtomicEth& request = packet.atomic_eth;
  if (message_ != Message::kNone || request.address % sizeof(std::uint64_t) != 0 || !room_for_response(qp, false)) {
    return refuse_invalid();
  }
  link.ranges.clear();
  if (!qp.remote_atomic ||
      link.services.resolve(request.rkey, {pdn_, qp.qpn}, request.address, sizeof(std::uint64_t), Access::kRemoteAtomic,
                            link.ranges) != MkeyFault::kNone ||
      link.ranges.size() != 1) {
    return refuse_access();
  }
  AddressSpace& dma = link.services.dma();
  const std::uint64_t address = link.ranges.front().address;
  const auto original = packet.info().kind == Kind::kCompareSwap
                            ? dma.compare_swap(address, request.compare, request.swap_or_add)
                            : dma.fetch_add(address, request.swap_or_add);
  if (!original) {
    return refuse_access();
  }
  msn_ = wire::psn_add(msn_, 1);
  replay_[next_replay_] = {expected_psn_, true, *original};
  next_replay_ = (next_replay_ + 1) % replay_.size();
  Response response;
  response.first_psn = expected_psn_;
  response.msn = msn_;
  response.packets = 1;
  response.original = *original;
  responses_.push_back(response);
  expected_psn_ = wire::psn_add(expected_psn_, 1);
  return true;
}

void Responder::on_duplicate(Link& link, Qp& qp, const wire::Packet& packet) {
  switch (packet.info().kind) {
    case Kind::kSend:
    case Kind::kRdmaWrite:
      if (verdict_ == Verdict::kNone) {
        verdict_ = Verdict::kAck;
      }
      return;
    case Kind::kRdmaReadRequest: {
      // What the peer may no longer read, or could not have asked for, it gets no answer to.
      const std::int32_t packets = -wire::psn_difference(packet.bth.psn, expected_psn_);
      const bool known = packet.reth.dma_bytes <= kMaxMessageBytes &&
                         packets_of(qp, packet.reth.dma_bytes) <= static_cast<std::uint32_t>(packets);
      const auto pdn = pdn_of(link, qp, packet);
      if (!known || !pdn || !room_for_response(qp, true)) {
        return;
      }
      if (auto response = prepare_read(link, qp, *pdn, packet)) {
        response->repeated = true;
        responses_.push_back(std::move(*response));
      }
      return;
    }
    case Kind::kCompareSwap:
    case Kind::kFetchAdd: {
      const auto found = std::find_if(replay_.begin(), replay_.end(), [&](const AtomicResult& result) {
        return result.valid && result.psn == packet.bth.psn;
      });
      if (found != replay_.end() && room_for_response(qp, true)) {
        Response response;
        response.repeated = true;
        response.first_psn = packet.bth.psn;
        response.msn = msn_;
        response.packets = 1;
        response.original = found->original;
        responses_.push_back(response);
      }
      return;
    }
    default:
      return;
  }
}

// ---- Refusals ----

bool Responder::refuse(NakCode code, Failure receive_failure, EventType event) {
  refusal_ = {code, receive_failure, event};
  verdict_ = Verdict::kRefuse;
  return false;
}

bool Responder::refuse_invalid() {
  return refuse(NakCode::kInvalidRequest, failure::kBadRequest, EventType::kWorkQueueInvalidRequest);
}

bool Responder::refuse_access() {
  return refuse(NakCode::kRemoteAccessError, failure::kReceiveAccess, EventType::kWorkQueueAccessError);
}

void Responder::carry_out_refusal(Link& link, Qp& qp) {
  send_aeth(link, qp, expected_psn_, wire::Aeth::nak(msn_, refusal_.code));
  verdict_ = Verdict::kNone;
  if (receive_in_use_) {
    fail_receive_in_use(link, qp, refusal_.receive_failure);
  } else {
    link.services.async_event(static_cast<std::uint8_t>(refusal_.event), qp.qpn, 0);
  }
  if (qp.type == QpType::kDct) {  // the target stays for the others
    closed_ = true;
  } else {
    link.services.fail_qp(qp);
  }
}

void Responder::turn_away(Link& link, const Qp& qp, std::uint32_t psn) {
  send_aeth(link, qp, psn, wire::Aeth::nak(0, NakCode::kRemoteAccessError));
  closed_ = true;
}

// ---- Answers ----

unsigned Responder::answer(Link& link, Qp& qp, unsigned budget) {
  unsigned sent = 0;
  for (; sent < budget && sent_responses_ < responses_.size(); ++sent) {
    Response& response = responses_[sent_responses_];
    if (!send_response(link, qp, response)) {
      responses_.clear();
      sent_responses_ = 0;
      break;
    }
    if (++response.sent_packets == response.packets) {
      ++sent_responses_;
    }
  }
  if (sent_responses_ == responses_.size()) {
    responses_.clear();
    sent_responses_ = 0;
    if (verdict_ != Verdict::kNone && sent < budget) {
      send_verdict(link, qp);
      ++sent;
    }
  } else if (sent_responses_ >= 64) {
    responses_.erase(responses_.begin(), responses_.begin() + static_cast<std::ptrdiff_t>(sent_responses_));
    sent_responses_ = 0;
  }
  return sent;
}

bool Responder::send_response(Link& link, Qp& qp, Response& response) {
  const std::uint32_t index = response.sent_packets;
  const bool is_first = index == 0;
  const bool is_last = index + 1 == response.packets;
  wire::Packet packet;
  const Operation operation =
      !response.is_read
          ? Operation::kAtomicAcknowledge
          : (is_first ? (is_last ? Operation::kRdmaReadResponseOnly : Operation::kRdmaReadResponseFirst)
                      : (is_last ? Operation::kRdmaReadResponseLast : Operation::kRdmaReadResponseMiddle));
  packet.bth.opcode = wire::opcode_of(wire_transport(qp.type), operation);
  packet.bth.migration_request = true;
  packet.bth.destination_qpn = qp.remote_qpn;
  packet.bth.psn = wire::psn_add(response.first_psn, index);
  packet.aeth = wire::Aeth::ack(response.msn, credit(link, qp));
  packet.atomic_ack_eth.original = response.original;
  const std::uint32_t mtu = mtu_bytes(qp);
  const std::uint64_t offset = std::uint64_t{index} * mtu;
  const std::size_t bytes = response.is_read ? std::min<std::uint64_t>(mtu, response.bytes - offset) : 0;
  const std::span<std::byte> payload = wire::build_headers(packet, bytes, link.port.reserve());
  if (response.formatted) {
    std::copy_n(response.data.begin() + static_cast<std::ptrdiff_t>(offset), bytes, payload.begin());
  } else if (!read_key(link, response.rkey, {response.pdn, qp.qpn}, response.address + offset, Access::kRemoteRead,
                       payload)) {
    // The memory went away after the request was accepted: its PSN is the one to refuse.
    expected_psn_ = packet.bth.psn;
    refuse_access();
    return false;
  }
  link.port.commit(qp.path.route, wire::packet_bytes(packet.bth.opcode, bytes));
  return true;
}

// A shared queue has credits for nobody. More than a requester can have under way are not counted.
std::uint8_t Responder::credit(Link& link, const Qp& qp) {
  constexpr std::uint32_t kMostCounted = 128;
  return qp.packet_credits && qp.has_rq ? wire::credit_code(queue_.packets_waiting(link, qp, kMostCounted))
                                        : wire::kInvalidCredit;
}

void Responder::send_verdict(Link& link, Qp& qp) {
  const Verdict verdict = verdict_;
  switch (verdict) {
    case Verdict::kNone:
      return;
    case Verdict::kAck:
      send_aeth(link, qp, wire::psn_add(expected_psn_, 0xffffff), wire::Aeth::ack(msn_, credit(link, qp)));
      break;
    case Verdict::kNakSequence:
      send_aeth(link, qp, expected_psn_, wire::Aeth::nak(msn_, NakCode::kPsnSequenceError));
      break;
    case Verdict::kNakRnr:
      send_aeth(link, qp, expected_psn_, wire::Aeth::rnr_nak(msn_, qp.min_rnr_timer));
      break;
    case Verdict::kRefuse:
      carry_out_refusal(link, qp);
      return;
  }
  verdict_ = Verdict::kNone;
}

void Responder::send_aeth(Link& link, const Qp& qp, std::uint32_t psn, wire::Aeth aeth) {
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(wire_transport(qp.type), Operation::kAcknowledge);
  packet.bth.migration_request = true;
  packet.bth.destination_qpn = qp.remote_qpn;
  packet.bth.psn = psn;
  packet.aeth = aeth;
  wire::build_headers(packet, 0, link.port.reserve());
  link.port.commit(qp.path.route, wire::packet_bytes(packet.bth.opcode, 0));
}

void Responder::flush(Link& link, Qp& qp) {
  held_.clear();
  for (const Early& early : std::exchange(early_, {})) {
    if (early.takes_receive) {
      srqn_ = early.srqn;
      fail_receive(link, qp, sink(link, qp), early.completion.wqe_counter, failure::kFlushedReceive);
    }
  }
  if (receive_in_use_) {
    fail_receive_in_use(link, qp, failure::kFlushedReceive);
  }
  responses_.clear();
  sent_responses_ = 0;
  verdict_ = Verdict::kNone;
  message_ = Message::kNone;
  while (const auto wqe_counter = queue_.take_for_flush(link, qp)) {
    fail_receive(link, qp, receive_sink(qp), *wqe_counter, failure::kFlushedReceive);
  }
}

}  // namespace softhca::hca
