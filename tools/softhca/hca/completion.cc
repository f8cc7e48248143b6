#include "tools/softhca/hca/completion.h"

#include <algorithm>
#include <array>

namespace softhca::hca {
namespace {

using umlx5::wqe::Cqe;
using umlx5::wqe::CqeOpcode;
using umlx5::wqe::ErrorCqe;
using umlx5::wqe::SignatureErrorCqe;

constexpr std::uint32_t kNoUserIndex = 0xffffff;
// On Ethernet the SL's place holds the network header's kind: device.h MLX5_CQE_ROCE_L3_HEADER_TYPE_IPV4.
constexpr std::uint8_t kRoceIpv4 = 2;

std::uint32_t user_index(const Qp& qp) { return qp.user_index != kNoUserIndex ? qp.user_index : 0; }

template <typename Entry>
void write(Link& link, Cq* cq, const Entry& entry, std::span<const std::byte> data, bool solicited) {
  if (cq == nullptr) {
    return;
  }
  std::array<std::byte, umlx5::wqe::kCqeBytes> cqe64;
  store(cqe64.data(), entry);
  link.services.complete(*cq, cqe64, data, solicited);
}

// The CQE's data area is 32 or 64 bytes, filled up with zeros.
template <typename Write>
void with_data(std::span<const std::byte> data, std::uint32_t area_bytes, Write&& write_with) {
  if (data.empty()) {
    write_with(std::span<const std::byte>{});
    return;
  }
  std::array<std::byte, umlx5::wqe::kInlineScatter64Bytes> area{};
  std::copy(data.begin(), data.end(), area.begin());
  write_with(std::span<const std::byte>{area}.first(area_bytes));
}

}  // namespace

// With CQE version 0 a queue has no user index, and a CQE names the SRQ that gave the receive WQE.
ReceiveSink receive_sink(const Qp& qp) {
  const std::uint32_t srqn = qp.srq != nullptr ? qp.srq->srqn : 0;
  return {qp.recv_cq, qp.user_index != kNoUserIndex ? qp.user_index : srqn};
}

ReceiveSink receive_sink(const Srq& xrc_srq) {
  return {xrc_srq.cq, xrc_srq.user_index != kNoUserIndex ? xrc_srq.user_index : xrc_srq.srqn};
}

void complete_send(Link& link, const Qp& qp, std::uint16_t wqe_counter, umlx5::wqe::SendOpcode opcode,
                   std::uint32_t byte_count, std::span<const std::byte> data, bool solicited) {
  Cqe cqe;
  cqe.opcode = CqeOpcode::kRequester;
  cqe.send_opcode = opcode;
  cqe.qpn = qp.qpn;
  cqe.wqe_counter = wqe_counter;
  cqe.byte_count = byte_count;
  cqe.srqn_or_user_index = user_index(qp);
  cqe.timestamp = link.now_ns;
  with_data(data, qp.inline_scatter_requester_bytes,
            [&](std::span<const std::byte> area) { write(link, qp.send_cq, cqe, area, solicited); });
}

void fail_send(Link& link, const Qp& qp, std::uint16_t wqe_counter, umlx5::wqe::SendOpcode opcode, Failure failure) {
  ErrorCqe cqe;
  cqe.opcode = CqeOpcode::kRequesterError;
  cqe.syndrome = failure.syndrome;
  cqe.vendor_syndrome = failure.vendor_syndrome;
  cqe.send_opcode = opcode;
  cqe.qpn = qp.qpn;
  cqe.wqe_counter = wqe_counter;
  cqe.srqn_or_user_index = user_index(qp);
  write(link, qp.send_cq, cqe, {}, true);
}

void report_signature_error(Link& link, const Qp& qp, Cq* cq, const FoundSignatureError& found) {
  constexpr std::uint8_t kWire = 0, kMemory = 1;
  const SignatureError& error = found.error;
  SignatureErrorCqe cqe;
  cqe.opcode = CqeOpcode::kSignatureError;
  cqe.expected_guard = static_cast<std::uint32_t>(error.expected >> 32);
  cqe.actual_guard = static_cast<std::uint32_t>(error.actual >> 32);
  cqe.expected_reference_tag = static_cast<std::uint32_t>(error.expected);
  cqe.actual_reference_tag = static_cast<std::uint32_t>(error.actual);
  cqe.guard_mismatch = error.guard;
  cqe.application_tag_mismatch = error.application_tag;
  cqe.reference_tag_mismatch = error.reference_tag;
  cqe.domain = error.wire ? kWire : kMemory;
  cqe.mkey = found.key;
  cqe.offset_bytes = error.offset_bytes;
  cqe.qpn = qp.qpn;
  write(link, cq, cqe, {}, true);
}

void complete_receive(Link& link, const Qp& qp, const ReceiveSink& sink, const ReceiveCompletion& completion,
                      std::span<const std::byte> data) {
  Cqe cqe;
  cqe.opcode = completion.opcode;
  cqe.qpn = qp.qpn;
  cqe.source_qpn = completion.source_qpn;
  if (completion.has_grh) {
    cqe.grh = 1;
    cqe.sl = kRoceIpv4;
  }
  cqe.wqe_counter = completion.wqe_counter;
  cqe.byte_count = completion.byte_count;
  cqe.immediate = completion.immediate_or_rkey;
  cqe.solicited = completion.solicited;
  cqe.srqn_or_user_index = sink.user_index_or_srqn;
  cqe.timestamp = link.now_ns;
  with_data(data, qp.inline_scatter_responder_bytes,
            [&](std::span<const std::byte> area) { write(link, sink.cq, cqe, area, completion.solicited); });
}

void complete_frame(Link& link, const Qp& qp, const FrameCompletion& completion) {
  Cqe cqe;
  cqe.opcode = CqeOpcode::kResponderSend;
  cqe.qpn = completion.flow_tag;  // in its place
  cqe.wqe_counter = completion.wqe_counter;
  cqe.wqe_id = completion.wqe_id;
  cqe.byte_count = completion.byte_count;
  cqe.l2_ok = true;
  cqe.l3_ok = completion.l3_ok;
  cqe.l4_ok = completion.l4_ok;
  cqe.l3_type = completion.l3_type;
  cqe.l4_type = completion.l4_type;
  cqe.has_vlan = completion.stripped_vlan.has_value();
  cqe.vlan = completion.stripped_vlan.value_or(0);
  cqe.checksum = completion.checksum;
  cqe.rx_hash = completion.hash;
  cqe.rx_hash_type = completion.hash_type;
  cqe.srqn_or_user_index = receive_sink(qp).user_index_or_srqn;
  cqe.timestamp = link.now_ns;
  write(link, qp.recv_cq, cqe, {}, false);
}

void fail_receive(Link& link, const Qp& qp, const ReceiveSink& sink, std::uint16_t wqe_counter, Failure failure) {
  ErrorCqe cqe;
  cqe.opcode = CqeOpcode::kResponderError;
  cqe.syndrome = failure.syndrome;
  cqe.vendor_syndrome = failure.vendor_syndrome;
  cqe.qpn = qp.qpn;
  cqe.wqe_counter = wqe_counter;
  cqe.srqn_or_user_index = sink.user_index_or_srqn;
  write(link, sink.cq, cqe, {}, true);
}

}  // namespace softhca::hca
