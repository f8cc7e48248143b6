// What the requester does on a send queue of raw packets: frames go out as they are, and nobody answers.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tools/softhca/hca/frame.h"
#include "tools/softhca/hca/requester.h"
#include "wqe/eqe.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::SendOpcode;

// Frames to a soft device's address travel to it; all others stay on this device, which is a switch's only port.
void send_frame(Link& link, const Qp& qp, std::span<const std::byte> frame) {
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(wire::Transport::kFrame, wire::Operation::kSendOnly);
  packet.bth.migration_request = true;
  packet.feth.transport_domain = qp.transport_domain;
  const std::span<std::byte> payload = wire::build_headers(packet, frame.size(), link.port.reserve());
  std::copy(frame.begin(), frame.end(), payload.begin());
  const auto station = station_of(frame.first<6>());
  link.port.commit({.destination = station.value_or(link.port.address())},
                   wire::packet_bytes(packet.bth.opcode, frame.size()));
}

Failure check(const SendRequest& request) {
  const bool is_large = request.opcode == SendOpcode::kTso;
  if (request.failure || request.opcode == SendOpcode::kNop) {
    return request.failure;
  }
  if (request.opcode != SendOpcode::kSend && !is_large) {
    return failure::kBadOpcode;
  }
  const std::size_t tag_bytes = request.offloads.vlan ? kVlanTagBytes : 0;
  const std::size_t frame_bytes =
      (is_large ? std::size_t{request.offloads.header_bytes} + request.offloads.mss_bytes : request.length_bytes) +
      tag_bytes;
  if (frame_bytes > kMaxFrameBytes || request.length_bytes > kMaxLargeSendBytes + request.offloads.header_bytes) {
    return failure::kMessageTooLong;
  }
  return request.length_bytes < kEthernetHeaderBytes ? failure::kBadWqe : Failure{};
}

}  // namespace

Failure Requester::send_frames(Link& link, const Qp& qp, const SendRequest& request, unsigned& sent) {
  std::vector<std::byte>& message = link.frame;
  message.resize(request.length_bytes);
  if (!gather(link, {qp.pdn, qp.qpn}, request.list, request.inline_data, 0, message)) {
    return failure::kGatherFault;
  }
  const FrameOffloads& offloads = request.offloads;
  const auto give = [&](std::vector<std::byte>& frame) {
    if (offloads.vlan) {
      insert_vlan(frame, *offloads.vlan);
    }
    write_checksums(frame, offloads.l3_checksum, offloads.l4_checksum);
    send_frame(link, qp, frame);
    ++sent;
  };
  if (request.opcode != SendOpcode::kTso) {
    give(message);
    return {};
  }
  return segment_frame(message, offloads.header_bytes, offloads.mss_bytes, give) ? Failure{} : failure::kBadWqe;
}

unsigned Requester::transmit_frames(Link& link, Qp& qp, unsigned budget) {
  unsigned sent = 0;
  ready_ = false;
  SendRequest request;
  while (qp.state == QpState::kRts) {
    if (sent >= budget) {
      ready_ = true;
      return sent;
    }
    if (!queue_.take(link, qp, request)) {
      if (queue_.broken()) {
        link.services.async_event(static_cast<std::uint8_t>(umlx5::wqe::EventType::kWorkQueueCatastrophic), qp.qpn, 0);
        link.services.fail_qp(qp);
      }
      return sent;
    }
    Failure failure = check(request);
    if (!failure && request.opcode != SendOpcode::kNop) {
      failure = send_frames(link, qp, request, sent);
    }
    if (failure) {
      fail_send(link, qp, request.wqe_counter, request.opcode, failure);
      link.services.fail_qp(qp);
      return sent;
    }
    if (request.signaled) {
      complete_send(link, qp, request.wqe_counter, request.opcode, 0, {}, false);
    }
  }
  return sent;
}

}  // namespace softhca::hca
