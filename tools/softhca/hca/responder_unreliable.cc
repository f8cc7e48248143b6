// What the responder does with packets of UC and UD: nobody is told of it.
#include <cstddef>
#include <span>
#include <utility>

#include "tools/softhca/hca/responder.h"
#include "tools/softhca/wire/ip.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::CqeOpcode;
using wire::Headers;

// In front of a datagram's data; over IPv4 its last 20 bytes are the IP header (IBA annex A17.4.5.1).
constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kIcrcBytes = 4;

}  // namespace

void Responder::fail_local(Link& link, Qp& qp, Failure failure) {
  fail_receive_in_use(link, qp, failure);
  link.services.fail_qp(qp);
}

void Responder::on_unacknowledged(Link& link, Qp& qp, const wire::Packet& packet) {
  if (!same_ordering(qp, packet)) {  // no later message will be better
    link.services.async_event(static_cast<std::uint8_t>(umlx5::wqe::EventType::kWorkQueueInvalidRequest), qp.qpn, 0);
    link.services.fail_qp(qp);
    return;
  }
  if (packet.info().begins_message()) {
    message_ = Message::kNone;
    expected_psn_ = packet.bth.psn;
  } else if (message_ == Message::kNone || packet.bth.psn != expected_psn_) {
    message_ = Message::kNone;
    return;
  }
  if (execute(link, qp, packet)) {
    return;
  }
  message_ = Message::kNone;
  const Verdict verdict = std::exchange(verdict_, Verdict::kNone);
  if (verdict == Verdict::kRefuse && refusal_.code == wire::NakCode::kRemoteOperationalError) {
    fail_local(link, qp, refusal_.receive_failure);
  }
}

Failure Responder::place_datagram(Link& link, const Qp& qp, const wire::Packet& packet,
                                  const wire::Received& received) {
  if (!receive_.valid) {
    return failure::kBadWqe;
  }
  if (kGrhBytes + packet.payload.size() > receive_.length_bytes) {
    return failure::kReceiveTooShort;
  }
  const wire::Flow flow{.source = received.source, .destination = received.destination};
  const auto ip =
      wire::ip_header(flow, received.traffic_class, received.hop_limit, received.packet.size() + kIcrcBytes);
  std::array<std::byte, kGrhBytes> grh{};
  std::copy(ip.begin(), ip.end(), grh.end() - ip.size());
  const bool placed = scatter(link, {receive_.pdn, qp.qpn}, receive_.list, 0, grh) &&
                      scatter(link, {receive_.pdn, qp.qpn}, receive_.list, kGrhBytes, packet.payload);
  return placed ? Failure{} : failure::kScatterFault;
}

void Responder::on_datagram(Link& link, Qp& qp, const wire::Packet& packet, const wire::Received& received) {
  if (packet.deth.qkey != qp.qkey || packet.payload.size() > mtu_bytes(qp)) {
    return;
  }
  if (!queue_.take(link, qp, receive_)) {
    ++link.counters.out_of_buffer;
    return;
  }
  if (const Failure failure = place_datagram(link, qp, packet, received)) {
    fail_local(link, qp, failure);
    return;
  }
  const bool has_immediate = packet.info().has(Headers::kImmDt);
  ReceiveCompletion completion;
  completion.opcode = has_immediate ? CqeOpcode::kResponderSendImmediate : CqeOpcode::kResponderSend;
  completion.wqe_counter = receive_.wqe_counter;
  completion.byte_count = static_cast<std::uint32_t>(kGrhBytes + packet.payload.size());
  completion.immediate_or_rkey = has_immediate ? packet.imm_dt.immediate : qp.pkey_index;
  completion.source_qpn = packet.deth.source_qpn;
  completion.has_grh = true;
  completion.solicited = packet.bth.solicited_event;
  complete_receive(link, qp, receive_sink(qp), completion, {});
}

}  // namespace softhca::hca
