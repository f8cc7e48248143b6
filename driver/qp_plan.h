// The arithmetic behind qp_geometry.h, for run time and compile time: numbers only, no words.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <expected>

#include "driver/qp_geometry.h"

namespace umlx5::plan {

inline constexpr std::uint64_t kOctoword = 16;
inline constexpr std::uint64_t kWqebb = 64;
inline constexpr std::uint64_t kMaxWqeOctowords = 63;  // the control segment's DS field has six bits
inline constexpr std::uint64_t kControl = 16, kRemoteAddress = 16, kAtomic = 16, kAddressVector = 48, kEthernet = 32,
                               kXrc = 16, kUnderlayPad = 16, kUmrControl = 48, kMkeyContext = 64, kKlmBlock = 64,
                               kInlineHeader = 4, kDataPointer = 16, kSrqNext = 16, kSignature = 16;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

inline constexpr std::uint64_t kRdmaOperations =
    SendOperation::kRdmaWrite | SendOperation::kRdmaWriteWithImm | SendOperation::kRdmaRead;
inline constexpr std::uint64_t kAtomicOperations = SendOperation::kCompareSwap | SendOperation::kFetchAdd;
inline constexpr std::uint64_t kMkeyOperations = SendOperation::kLocalInvalidate | SendOperation::kBindMemoryWindow |
                                                 SendOperation::kMkeyInterleaved | SendOperation::kMkeyList |
                                                 SendOperation::kMkeyConfigure;
inline constexpr std::uint64_t kSends = SendOperation::kSend | SendOperation::kSendWithImm;
inline constexpr std::uint64_t kConnected = kSends | SendOperation::kSendWithInvalidate |
                                            SendOperation::kLocalInvalidate | SendOperation::kBindMemoryWindow |
                                            kRdmaOperations | kAtomicOperations;

constexpr std::uint64_t all_operations(SizedQpType type) {
  switch (type) {
    case SizedQpType::kUd:
    case SizedQpType::kUdUnderlay:
      return kSends | SendOperation::kTso;
    case SizedQpType::kRawPacket:
      return SendOperation::kSend | SendOperation::kTso;
    default:
      return kConnected;
  }
}

constexpr std::uint64_t transport_bytes(SizedQpType type) {
  switch (type) {
    case SizedQpType::kXrcSend:
    case SizedQpType::kXrcRecv:
      return kXrc;
    case SizedQpType::kUd:
    case SizedQpType::kDci:
      return kAddressVector;
    case SizedQpType::kUdUnderlay:
      return kAddressVector + kEthernet + kUnderlayPad;
    case SizedQpType::kRawPacket:
      return kEthernet;
    default:
      return 0;
  }
}

// What precedes the data of the WQEs of a send queue.
struct Headers {
  std::uint64_t reserved_bytes;  // of the largest WQE that any operation needs, whether data follows it or not
  std::uint64_t data_bytes;      // of the largest WQE that carries a gather list or inline data
};

constexpr Headers headers(SizedQpType type, std::uint64_t operations) {
  const std::uint64_t transport = transport_bytes(type);
  std::uint64_t reserved = kControl, data = kControl;
  if ((operations & (kRdmaOperations | kAtomicOperations)) != 0) {
    reserved = kControl + kRemoteAddress;
  }
  if ((operations & kRdmaOperations) != 0) {
    data = kControl + kRemoteAddress;
  }
  if ((operations & kAtomicOperations) != 0) {
    reserved = kControl + kRemoteAddress + kAtomic;
  }
  if ((operations & kMkeyOperations) != 0) {
    reserved = kControl + kUmrControl + kMkeyContext + kKlmBlock;
  }
  return {reserved + transport, data + transport};
}

constexpr Headers headers(const QpGeometryRequest& request) {
  return headers(request.type, request.send_operations.value_or(all_operations(request.type)));
}

enum class Refused : std::uint8_t {
  kTsoHeaderOfType,  // only RAW_PACKET has one
  kOverhead,         // `bytes` of headers
  kSendSge,          // at most `limit`
  kInline,           // at most `limit`
  kSendWqe,          // `bytes` a WQE
  kSendWr,           // `bytes` a WQE, at most `limit`
  kRecvWr,           // more than the device's
  kRecvSge,          // `bytes` a WQE, at most `limit`
  kOutOfOrderRecvWr,
};
struct Refusal {
  Refused what;
  std::uint64_t limit = 0;
  std::uint64_t bytes = 0;
};
using Result = std::expected<QpGeometry, Refusal>;

constexpr std::unexpected<Refusal> refuse(Refused what, std::uint64_t limit = 0, std::uint64_t bytes = 0) {
  return std::unexpected(Refusal{.what = what, .limit = limit, .bytes = bytes});
}

// Room for what follows the headers: by the reserved size in the ring, and by what the DS field can say.
constexpr std::uint64_t data_room(const QueueLimits& limits, const Headers& header, std::uint64_t extra_bytes) {
  const std::uint64_t in_ring = header.reserved_bytes + extra_bytes, in_wqe = header.data_bytes + extra_bytes;
  const std::uint64_t ring = limits.max_send_wqe_bytes, wqe = std::min(ring, kMaxWqeOctowords * kOctoword);
  return std::min(ring > in_ring ? ring - in_ring : 0, wqe > in_wqe ? wqe - in_wqe : 0);
}

constexpr std::uint64_t inline_limit(const QueueLimits& limits, const Headers& header) {
  const std::uint64_t room = data_room(limits, header, 0) / kOctoword * kOctoword;
  return room > kInlineHeader ? room - kInlineHeader : 0;
}

constexpr Result send(const QueueLimits& limits, const QpGeometryRequest& request, QpGeometry plan) {
  const Headers header = headers(request);
  const std::uint64_t max_wqe = limits.max_send_wqe_bytes;
  const std::uint64_t tso = round_up(request.max_tso_header_bytes, kOctoword);
  if (max_wqe < header.reserved_bytes + tso) {
    return refuse(Refused::kOverhead, max_wqe, header.reserved_bytes + tso);
  }
  const std::uint64_t max_sge = data_room(limits, header, tso) / kDataPointer;
  if (request.max_send_sge > max_sge) {
    return refuse(Refused::kSendSge, max_sge);
  }
  const std::uint64_t max_inline = inline_limit(limits, header);
  if (request.max_inline_bytes > max_inline) {
    return refuse(Refused::kInline, max_inline);
  }
  std::uint64_t wqe_bytes = header.reserved_bytes + tso + kDataPointer * std::uint64_t{request.max_send_sge};
  if (request.max_inline_bytes > 0) {
    const std::uint64_t inline_part = round_up(kInlineHeader + request.max_inline_bytes, kOctoword);
    wqe_bytes = std::max(wqe_bytes, header.reserved_bytes + inline_part);
  }
  wqe_bytes = round_up(wqe_bytes, kWqebb);
  if (wqe_bytes > max_wqe) {
    return refuse(Refused::kSendWqe, max_wqe, wqe_bytes);
  }
  const std::uint64_t wr_limit = 0x7fffffff / max_wqe;
  const std::uint64_t ring_bytes = std::bit_ceil(request.max_send_wr * wqe_bytes);
  if (request.max_send_wr > wr_limit || ring_bytes / kWqebb > limits.max_send_wqebbs) {
    const std::uint64_t largest_ring = std::bit_floor(std::uint64_t{limits.max_send_wqebbs}) * kWqebb;
    return refuse(Refused::kSendWr, std::min(wr_limit, largest_ring / wqe_bytes), wqe_bytes);
  }
  plan.send_wqe_bytes = static_cast<std::uint32_t>(wqe_bytes);
  plan.send_wqebbs = static_cast<std::uint32_t>(ring_bytes / kWqebb);
  plan.max_send_wr = static_cast<std::uint32_t>(ring_bytes / wqe_bytes);
  const std::uint64_t spare_bytes = wqe_bytes - header.reserved_bytes;
  plan.max_inline_bytes =
      static_cast<std::uint32_t>(std::min(spare_bytes > kInlineHeader ? spare_bytes - kInlineHeader : 0, max_inline));
  return plan;
}

constexpr bool doubles_receives(const QueueLimits& limits, const QpGeometryRequest& request) {
  const bool ring = request.type == SizedQpType::kRc || request.type == SizedQpType::kUc ||
                    request.type == SizedQpType::kUd || request.type == SizedQpType::kUdUnderlay;
  return request.out_of_order_receive && ring && request.max_recv_wr > 1 && limits.max_out_of_order_recv_wr != 0;
}

constexpr Result receive(const QueueLimits& limits, const QpGeometryRequest& request, QpGeometry plan) {
  if (request.max_recv_wr > limits.max_recv_wr) {
    return refuse(Refused::kRecvWr, limits.max_recv_wr);
  }
  if (request.has_srq) {
    return plan;
  }
  const std::uint64_t front = (request.wqe_signature ? kSignature : 0) + (request.next_segment ? kSrqNext : 0);
  const std::uint64_t needed = front + kDataPointer * std::max<std::uint64_t>(1, request.max_recv_sge);
  if (needed > limits.max_recv_wqe_bytes) {
    const std::uint64_t most =
        limits.max_recv_wqe_bytes > front ? (limits.max_recv_wqe_bytes - front) / kDataPointer : 0;
    return refuse(Refused::kRecvSge, most, needed);
  }
  const bool doubled = doubles_receives(limits, request);
  if (doubled && request.max_recv_wr > limits.max_out_of_order_recv_wr) {
    return refuse(Refused::kOutOfOrderRecvWr, limits.max_out_of_order_recv_wr);
  }
  const std::uint64_t stride = std::bit_ceil(needed);
  const std::uint64_t wqes = std::uint64_t{request.max_recv_wr} * (doubled ? 2 : 1);
  const std::uint64_t ring_bytes = std::max(std::bit_ceil(wqes) * stride, kWqebb);
  plan.recv_wqe_bytes = static_cast<std::uint32_t>(stride);
  plan.recv_wqe_bytes_log2 = static_cast<std::uint32_t>(std::countr_zero(stride));
  plan.recv_wqes = static_cast<std::uint32_t>(ring_bytes / stride);
  plan.max_recv_wr = doubled ? plan.recv_wqes / 2 : plan.recv_wqes;
  plan.max_recv_sge = static_cast<std::uint32_t>((stride - front) / kDataPointer);
  return plan;
}

// What plan_qp() tells, without words.
constexpr Result both(const QueueLimits& limits, const QpGeometryRequest& request) {
  QpGeometry start;
  start.max_send_sge = request.max_send_sge;
  start.max_inline_bytes = request.max_inline_bytes;
  if (request.type == SizedQpType::kDct) {  // no queue of its own
    return start;
  }
  if (request.max_tso_header_bytes != 0 && request.type != SizedQpType::kRawPacket) {
    return refuse(Refused::kTsoHeaderOfType);
  }
  Result plan = start;
  if (request.max_send_wr > 0) {
    plan = send(limits, request, *plan);
  }
  if (plan && request.max_recv_wr > 0 && request.type != SizedQpType::kXrcSend) {  // an XRC_SEND QP never receives
    plan = receive(limits, request, *plan);
  }
  if (!plan) {
    return plan;
  }
  const std::uint64_t recv_bytes = std::uint64_t{plan->recv_wqes} * plan->recv_wqe_bytes;
  const std::uint64_t send_bytes = std::uint64_t{plan->send_wqebbs} * kWqebb;
  plan->separate_send_buffer = request.type == SizedQpType::kRawPacket || request.type == SizedQpType::kUdUnderlay;
  if (plan->separate_send_buffer) {
    plan->buffer_bytes = recv_bytes;
    plan->send_buffer_bytes = send_bytes;
  } else {
    plan->send_offset_bytes = recv_bytes;
    plan->buffer_bytes = recv_bytes + send_bytes;
  }
  return plan;
}

}  // namespace umlx5::plan
