#include "tools/softhca/hca/send_queue.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tools/softhca/hca/doorbell_record.h"
#include "tools/softhca/hca/gid.h"
#include "wqe/send_wqe.h"
#include "wqe/units.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::CompletionMode;
using umlx5::wqe::ControlSegment;
using umlx5::wqe::FenceMode;
using umlx5::wqe::kWqebbBytes;
using umlx5::wqe::SendOpcode;

constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 31;
// In a request's Q_Key: use the QP's own instead, which may be a controlled one (IBA 10.2.5).
constexpr std::uint32_t kOwnQkey = 0x80000000;

void take_control(const ControlSegment& control, SendRequest& request) {
  request.opcode = control.opcode;
  request.opmod = control.opmod;
  request.signaled =
      control.completion == CompletionMode::kAlways || control.completion == CompletionMode::kAlwaysAndEvent;
  request.solicited = control.solicited;
  // A small fence orders against key operations, which this device executes in order.
  request.fence = control.fence != FenceMode::kNone && control.fence != FenceMode::kInitiatorSmall;
  request.immediate = control.immediate;
  request.stream = control.dci_stream_channel_id;
}

// `head`: inlined bytes in front of the list.
void take_list(const umlx5::wqe::DataList& data, const Qp& qp, std::span<const std::byte> head, SendRequest& request) {
  request.list.clear();
  request.inline_data.assign(head.begin(), head.end());
  request.length_bytes = head.size();
  if (!head.empty()) {
    request.list.push_back({0, 0, static_cast<std::uint32_t>(head.size()), true, false});
  }
  for (const umlx5::wqe::DataItem& item : data) {
    DataPiece piece{item.address, item.lkey, item.length_bytes, item.is_inline(),
                    qp.reserved_lkey && !item.is_inline() && item.lkey == kReservedLkey};
    if (piece.is_inline) {
      piece.address = request.inline_data.size();
      request.inline_data.insert(request.inline_data.end(), item.inline_data, item.inline_data + item.length_bytes);
    }
    request.length_bytes += piece.bytes;
    request.list.push_back(piece);
  }
}

bool is_atomic(SendOpcode opcode) {
  return opcode == SendOpcode::kAtomicCompareSwap || opcode == SendOpcode::kAtomicFetchAdd;
}

void take_address(Link& link, const Qp& qp, const umlx5::wqe::AddressVector& address, SendRequest& request) {
  const auto group = qp.type == QpType::kUd ? group_of(address.remote_gid) : std::nullopt;
  const auto destination = group ? group : ipv4_of(address.remote_gid);
  if (!address.extended || !destination || (destination->is_multicast() && !group) ||
      !link.services.has_gid(address.sgid_index)) {
    request.failure = failure::kBadAddress;
    return;
  }
  request.destination_qpn = address.destination_qpn;
  request.access_key = address.key;
  request.qkey = (address.qkey() & kOwnQkey) != 0 ? qp.qkey : address.qkey();
  request.route = {*destination, address.remote_lid_or_udp_sport, address.traffic_class};
}

umlx5::wqe::Transport wqe_transport(QpType type) {
  using Transport = umlx5::wqe::Transport;
  switch (type) {
    case QpType::kUd:
      return Transport::kDatagram;
    case QpType::kXrc:
      return Transport::kXrc;
    case QpType::kDci:
      return Transport::kDynamicConnected;
    case QpType::kRaw:
      return Transport::kRawPacket;
    default:
      return Transport::kConnected;
  }
}

// The Ethernet segment's wishes; the bytes inlined in it are its header's, or a tag.
std::span<const std::byte> take_offloads(const umlx5::wqe::SendWqe& wqe, FrameOffloads& offloads) {
  const umlx5::wqe::EthernetSegment& eth = wqe.eth;
  offloads = {.l3_checksum = eth.l3_checksum,
              .l4_checksum = eth.l4_checksum,
              .mss_bytes = eth.mss_bytes,
              .header_bytes = static_cast<std::uint16_t>(eth.insert_vlan ? 0 : eth.inline_header_bytes),
              .vlan = {}};
  if (!eth.insert_vlan) {
    return wqe.eth_inline_header;
  }
  offloads.vlan = umlx5::wqe::internal::load_word<std::uint16_t>(wqe.eth_inline_header.data());
  return {};
}

void take_body(Link& link, const Qp& qp, std::span<const std::byte> wqe, SendRequest& request) {
  const auto parsed = umlx5::wqe::parse_send_wqe(wqe, wqe_transport(qp.type));
  if (!parsed) {
    request.failure = failure::kBadWqe;
    return;
  }
  if (parsed->has_address_vector) {
    take_address(link, qp, parsed->address_vector, request);
  }
  request.body.assign(parsed->body.begin(), parsed->body.end());
  request.xrc_srqn = parsed->xrc_srqn & 0xffffff;
  request.remote_address = parsed->remote_address.address;
  request.rkey = parsed->remote_address.rkey;
  request.swap_or_add = parsed->atomic.swap_add;
  request.compare = parsed->atomic.compare;
  const std::span<const std::byte> head =
      parsed->has_eth ? take_offloads(*parsed, request.offloads) : std::span<const std::byte>{};
  take_list(parsed->data, qp, head, request);
  if (request.length_bytes > kMaxMessageBytes) {
    request.failure = failure::kMessageTooLong;
  }
  if (is_atomic(request.opcode) && request.length_bytes != sizeof(std::uint64_t)) {
    request.failure = failure::kMessageTooLong;
  }
}

}  // namespace

bool SendQueue::read(Link& link, const Qp& qp, std::size_t offset_bytes, std::span<std::byte> to) const {
  const std::uint64_t ring_bytes = std::uint64_t{kWqebbBytes} << qp.log_sq_wqebbs;
  const std::uint64_t at = (std::uint64_t{consumer_} * kWqebbBytes + offset_bytes) & (ring_bytes - 1);
  const std::size_t before_end = std::min<std::uint64_t>(to.size(), ring_bytes - at);
  return qp.pages.read(link.services.dma(), qp.sq_position + at, to.first(before_end)) &&
         qp.pages.read(link.services.dma(), qp.sq_position, to.subspan(before_end));
}

bool SendQueue::empty(Link& link, const Qp& qp) {
  if (consumer_ != producer_) {
    return false;
  }
  if (!producer_stale_ || broken_ || !qp.has_sq) {
    return true;
  }
  producer_stale_ = false;
  const auto producer = load_counter(link.services.dma(), qp.doorbell_record + kSendCounterOffset);
  if (!producer || static_cast<std::uint16_t>(*producer - consumer_) > (1u << qp.log_sq_wqebbs)) {
    broken_ = true;
    return true;
  }
  producer_ = *producer;
  return consumer_ == producer_;
}

std::uint16_t SendQueue::wqebbs_of(unsigned ds_octowords) const {
  const std::size_t wqebbs = umlx5::wqe::wqebbs_for_octowords(ds_octowords);
  return wqebbs <= static_cast<std::uint16_t>(producer_ - consumer_) ? static_cast<std::uint16_t>(wqebbs) : 0;
}

void SendQueue::consume(Qp& qp, std::uint16_t wqebbs) {
  consumer_ = static_cast<std::uint16_t>(consumer_ + wqebbs);
  qp.sq_consumed_wqebbs = consumer_;
}

bool SendQueue::take(Link& link, Qp& qp, SendRequest& request) {
  if (empty(link, qp)) {
    return false;
  }
  request.wqe_counter = consumer_;
  request.failure = {};
  request.formatted = false;
  request.list.clear();
  request.length_bytes = 0;
  std::array<std::byte, umlx5::wqe::kMaxSendWqeBytes> wqe;
  if (!read(link, qp, 0, std::span{wqe}.first(kWqebbBytes))) {
    request.failure = failure::kBadWqe;
    request.opcode = SendOpcode::kNop;
    consume(qp, 1);
    return true;
  }
  const auto control = umlx5::wqe::load<ControlSegment>(wqe.data());
  take_control(control, request);
  const std::uint16_t wqebbs = wqebbs_of(control.ds_octowords);
  const std::size_t bytes = control.ds_octowords * umlx5::wqe::kOctowordBytes;
  if (wqebbs == 0 || control.qpn != qp.qpn || control.wqe_index != consumer_ ||
      (bytes > kWqebbBytes && !read(link, qp, kWqebbBytes, std::span{wqe}.first(bytes).subspan(kWqebbBytes)))) {
    request.failure = failure::kBadWqe;
    consume(qp, 1);
    return true;
  }
  take_body(link, qp, std::span{wqe}.first(bytes), request);
  consume(qp, wqebbs);
  return true;
}

std::optional<SendQueue::Flushed> SendQueue::take_for_flush(Link& link, Qp& qp) {
  if (empty(link, qp)) {
    return std::nullopt;
  }
  Flushed flushed{consumer_, SendOpcode::kNop};
  std::array<std::byte, ControlSegment::kBytes> bytes;
  std::uint16_t wqebbs = 1;
  if (read(link, qp, 0, bytes)) {
    const auto control = umlx5::wqe::load<ControlSegment>(bytes.data());
    flushed.opcode = control.opcode;
    wqebbs = std::max<std::uint16_t>(wqebbs_of(control.ds_octowords), 1);
  }
  consume(qp, wqebbs);
  return flushed;
}

}  // namespace softhca::hca
