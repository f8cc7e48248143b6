#include "driver/qp_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>

namespace umlx5 {
namespace {

constexpr std::uint64_t kOctoword = 16;
constexpr std::uint64_t kWqebb = 64;
constexpr std::uint64_t kMaxWqeOctowords = 63;  // the control segment's DS field has six bits
constexpr std::uint64_t kControl = 16, kRemoteAddress = 16, kAtomic = 16, kAddressVector = 48, kEthernet = 32,
                        kXrc = 16, kUnderlayPad = 16, kUmrControl = 48, kMkeyContext = 64, kKlmBlock = 64,
                        kInlineHeader = 4, kDataPointer = 16, kSrqNext = 16, kSignature = 16;
constexpr std::uint64_t kMaxCqRing = std::uint64_t{1} << 24;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

constexpr std::uint64_t kRdmaOperations =
    SendOperation::kRdmaWrite | SendOperation::kRdmaWriteWithImm | SendOperation::kRdmaRead;
constexpr std::uint64_t kAtomicOperations = SendOperation::kCompareSwap | SendOperation::kFetchAdd;
constexpr std::uint64_t kMkeyOperations = SendOperation::kLocalInvalidate | SendOperation::kBindMemoryWindow |
                                          SendOperation::kMkeyInterleaved | SendOperation::kMkeyList |
                                          SendOperation::kMkeyConfigure;
constexpr std::uint64_t kSends = SendOperation::kSend | SendOperation::kSendWithImm;
constexpr std::uint64_t kConnected = kSends | SendOperation::kSendWithInvalidate | SendOperation::kLocalInvalidate |
                                     SendOperation::kBindMemoryWindow | kRdmaOperations | kAtomicOperations;

std::uint64_t transport_bytes(SizedQpType type) {
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

Headers headers(SizedQpType type, std::uint64_t operations) {
  const std::uint64_t transport = transport_bytes(type);
  std::uint64_t reserved = kControl;
  std::uint64_t data = kControl;
  if (operations & (kRdmaOperations | kAtomicOperations)) {
    reserved = kControl + kRemoteAddress;
  }
  if (operations & kRdmaOperations) {
    data = kControl + kRemoteAddress;
  }
  if (operations & kAtomicOperations) {
    reserved = kControl + kRemoteAddress + kAtomic;
  }
  if (operations & kMkeyOperations) {
    reserved = kControl + kUmrControl + kMkeyContext + kKlmBlock;
  }
  return {reserved + transport, data + transport};
}

std::unexpected<Error> refuse(std::string what) { return fail(EINVAL, "QP create: " + std::move(what)); }

std::unexpected<Error> refuse_sge(const QueueLimits& limits, const QpGeometryRequest& request, const Headers& header,
                                  std::uint64_t at_most) {
  return refuse(
      fmt::format("max_send_sge {} does not fit a {}-byte WQE of {} (device's max_sq_desc_sz; a WQE has at most {} "
                  "octowords) with {} bytes of overhead; at most {}",
                  request.max_send_sge, limits.max_send_wqe_bytes, to_string(request.type), kMaxWqeOctowords,
                  header.reserved_bytes + request.max_tso_header_bytes, at_most));
}

Expected<void> plan_send(const QueueLimits& limits, const QpGeometryRequest& request, QpGeometry& plan) {
  const Headers header = headers(request.type, request.send_operations.value_or(default_operations(request.type)));
  const std::uint64_t max_wqe = limits.max_send_wqe_bytes;
  const std::uint64_t max_data_wqe = std::min(max_wqe, kMaxWqeOctowords * kOctoword);
  const std::uint64_t tso = round_up(request.max_tso_header_bytes, kOctoword);
  // Room for what follows the headers: by the reserved size in the ring, and by what the DS field can say.
  const auto room = [&](std::uint64_t extra) {
    const std::uint64_t in_ring = header.reserved_bytes + extra, in_wqe = header.data_bytes + extra;
    return std::min(max_wqe > in_ring ? max_wqe - in_ring : 0, max_data_wqe > in_wqe ? max_data_wqe - in_wqe : 0);
  };
  if (max_wqe < header.reserved_bytes + tso) {
    return refuse(fmt::format("the operations of {} need {} bytes a WQE{}; at most {} (device's max_sq_desc_sz)",
                              to_string(request.type), header.reserved_bytes + tso,
                              tso ? fmt::format(" with max_tso_header {}", request.max_tso_header_bytes) : "",
                              max_wqe));
  }
  const std::uint64_t sge_limit = room(tso) / kDataPointer;
  if (request.max_send_sge > sge_limit) {
    return refuse_sge(limits, request, header, sge_limit);
  }
  const std::uint64_t inline_room = room(0) / kOctoword * kOctoword;
  const std::uint64_t inline_limit = inline_room > kInlineHeader ? inline_room - kInlineHeader : 0;
  if (request.max_inline_bytes > inline_limit) {
    return refuse(fmt::format(
        "max_inline_data {} does not fit a {}-byte WQE of {} (device's max_sq_desc_sz; a WQE has at most {} "
        "octowords) with {} bytes of overhead; at most {}",
        request.max_inline_bytes, max_wqe, to_string(request.type), kMaxWqeOctowords, header.reserved_bytes,
        inline_limit));
  }
  std::uint64_t wqe_bytes = header.reserved_bytes + tso + kDataPointer * std::uint64_t{request.max_send_sge};
  if (request.max_inline_bytes > 0) {
    wqe_bytes =
        std::max(wqe_bytes, header.reserved_bytes + round_up(kInlineHeader + request.max_inline_bytes, kOctoword));
  }
  wqe_bytes = round_up(wqe_bytes, kWqebb);
  if (wqe_bytes > max_wqe) {
    return refuse(
        fmt::format("a send WQE of {} bytes, a whole number of 64-byte blocks, is too large; at most {} "
                    "(device's max_sq_desc_sz)",
                    wqe_bytes, max_wqe));
  }
  const std::uint64_t wr_limit = 0x7fffffff / max_wqe;
  const std::uint64_t ring_bytes = std::bit_ceil(request.max_send_wr * wqe_bytes);
  if (request.max_send_wr > wr_limit || ring_bytes / kWqebb > limits.max_send_wqebbs) {
    const std::uint64_t largest_ring = std::bit_floor(std::uint64_t{limits.max_send_wqebbs}) * kWqebb;
    return refuse(fmt::format(
        "max_send_wr {} with WQEs of {} bytes needs a ring of {} 64-byte blocks; at most {} (device's max_send_wqebb), "
        "which holds {}",
        request.max_send_wr, wqe_bytes, ring_bytes / kWqebb, limits.max_send_wqebbs,
        std::min(wr_limit, largest_ring / wqe_bytes)));
  }
  plan.send_wqe_bytes = static_cast<std::uint32_t>(wqe_bytes);
  plan.send_wqebbs = static_cast<std::uint32_t>(ring_bytes / kWqebb);
  plan.max_send_wr = static_cast<std::uint32_t>(ring_bytes / wqe_bytes);
  const std::uint64_t spare_bytes = wqe_bytes - header.reserved_bytes;
  plan.max_inline_bytes =
      static_cast<std::uint32_t>(std::min(spare_bytes > kInlineHeader ? spare_bytes - kInlineHeader : 0, inline_limit));
  return {};
}

bool doubles_receives(const QueueLimits& limits, const QpGeometryRequest& request) {
  const bool ring = request.type == SizedQpType::kRc || request.type == SizedQpType::kUc ||
                    request.type == SizedQpType::kUd || request.type == SizedQpType::kUdUnderlay;
  return request.out_of_order_receive && ring && request.max_recv_wr > 1 && limits.max_out_of_order_recv_wr != 0;
}

Expected<void> plan_receive(const QueueLimits& limits, const QpGeometryRequest& request, QpGeometry& plan) {
  if (request.max_recv_wr > limits.max_recv_wr) {
    return refuse(fmt::format("max_recv_wr {} is too many; at most {} (device's max_recv_wr)", request.max_recv_wr,
                              limits.max_recv_wr));
  }
  if (request.has_srq) {
    return {};
  }
  const std::uint64_t front = (request.wqe_signature ? kSignature : 0) + (request.next_segment ? kSrqNext : 0);
  const std::uint64_t needed = front + kDataPointer * std::max<std::uint64_t>(1, request.max_recv_sge);
  if (needed > limits.max_recv_wqe_bytes) {
    return refuse(
        fmt::format("max_recv_sge {} needs a receive WQE of {} bytes; at most {} (device's max_rq_desc_sz), "
                    "which holds {}",
                    request.max_recv_sge, needed, limits.max_recv_wqe_bytes,
                    limits.max_recv_wqe_bytes > front ? (limits.max_recv_wqe_bytes - front) / kDataPointer : 0));
  }
  const bool doubled = doubles_receives(limits, request);
  if (doubled && request.max_recv_wr > limits.max_out_of_order_recv_wr) {
    return refuse(
        fmt::format("max_recv_wr {} is too many for out-of-order receives; at most {} (device's "
                    "ooo_recv_wrs_caps)",
                    request.max_recv_wr, limits.max_out_of_order_recv_wr));
  }
  const std::uint64_t stride = std::bit_ceil(needed);
  const std::uint64_t wqes = std::uint64_t{request.max_recv_wr} * (doubled ? 2 : 1);
  const std::uint64_t ring_bytes = std::max(std::bit_ceil(wqes) * stride, kWqebb);
  plan.recv_wqe_bytes = static_cast<std::uint32_t>(stride);
  plan.recv_wqe_bytes_log2 = static_cast<std::uint32_t>(std::countr_zero(stride));
  plan.recv_wqes = static_cast<std::uint32_t>(ring_bytes / stride);
  plan.max_recv_wr = doubled ? plan.recv_wqes / 2 : plan.recv_wqes;
  plan.max_recv_sge = static_cast<std::uint32_t>((stride - front) / kDataPointer);
  return {};
}

}  // namespace

std::uint64_t default_operations(SizedQpType type) {
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

std::string_view to_string(SizedQpType type) {
  switch (type) {
    case SizedQpType::kRc:
      return "RC";
    case SizedQpType::kUc:
      return "UC";
    case SizedQpType::kUd:
      return "UD";
    case SizedQpType::kUdUnderlay:
      return "UD (underlay)";
    case SizedQpType::kRawPacket:
      return "RAW_PACKET";
    case SizedQpType::kXrcSend:
      return "XRC_SEND";
    case SizedQpType::kXrcRecv:
      return "XRC_RECV";
    case SizedQpType::kDci:
      return "DCI";
    case SizedQpType::kDct:
      return "DCT";
  }
  return "unknown";
}

Expected<QpGeometry> plan_qp(const QueueLimits& limits, const QpGeometryRequest& request) {
  QpGeometry plan;
  plan.max_send_sge = request.max_send_sge;
  plan.max_inline_bytes = request.max_inline_bytes;
  if (request.type == SizedQpType::kDct) {  // no queue of its own
    return plan;
  }
  if (request.max_tso_header_bytes != 0 && request.type != SizedQpType::kRawPacket) {
    return refuse(fmt::format("max_tso_header {} on a {} QP; only a RAW_PACKET QP has TSO headers",
                              request.max_tso_header_bytes, to_string(request.type)));
  }
  if (request.max_send_wr > 0) {
    if (auto result = plan_send(limits, request, plan); !result) {
      return std::unexpected(result.error());
    }
  }
  if (request.max_recv_wr > 0 && request.type != SizedQpType::kXrcSend) {  // an XRC_SEND QP never receives
    if (auto result = plan_receive(limits, request, plan); !result) {
      return std::unexpected(result.error());
    }
  }
  const std::uint64_t recv_bytes = std::uint64_t{plan.recv_wqes} * plan.recv_wqe_bytes;
  const std::uint64_t send_bytes = std::uint64_t{plan.send_wqebbs} * kWqebb;
  plan.separate_send_buffer = request.type == SizedQpType::kRawPacket || request.type == SizedQpType::kUdUnderlay;
  if (plan.separate_send_buffer) {
    plan.buffer_bytes = recv_bytes;
    plan.send_buffer_bytes = send_bytes;
  } else {
    plan.send_offset_bytes = recv_bytes;
    plan.buffer_bytes = recv_bytes + send_bytes;
  }
  return plan;
}

Expected<SrqGeometry> plan_srq(const QueueLimits& limits, std::uint32_t max_wr, std::uint32_t max_sge) {
  if (max_wr > limits.max_srq_recv_wr) {
    return fail(EINVAL, fmt::format("SRQ create: max_wr {} is too many; at most {} (device's max_srq_recv_wr)", max_wr,
                                    limits.max_srq_recv_wr));
  }
  if (max_sge > limits.max_recv_wqe_bytes / kDataPointer) {
    return fail(EINVAL, fmt::format("SRQ create: max_sge {} is too many; at most {} (device's max_rq_desc_sz {})",
                                    max_sge, limits.max_recv_wqe_bytes / kDataPointer, limits.max_recv_wqe_bytes));
  }
  const std::uint64_t stride =
      std::bit_ceil(std::max<std::uint64_t>(32, kSrqNext + kDataPointer * std::uint64_t{max_sge}));
  if (stride > limits.max_recv_wr) {  // not a count of requests, but it is the bound that applications know
    return fail(EINVAL, fmt::format("SRQ create: max_sge {} needs a WQE of {} bytes; at most {} (device's max_recv_wr)",
                                    max_sge, stride, limits.max_recv_wr));
  }
  const std::uint64_t waiting = 2 * std::uint64_t{max_wr} + 1;
  SrqGeometry plan;
  plan.wqe_bytes = static_cast<std::uint32_t>(stride);
  plan.ring_wqes = static_cast<std::uint32_t>(std::bit_ceil(std::uint64_t{max_wr} + 1));
  plan.buffer_wqes = static_cast<std::uint32_t>(
      std::bit_ceil(waiting <= limits.max_srq_recv_wr ? waiting : std::uint64_t{max_wr} + 1));
  plan.max_wr = plan.ring_wqes - 1;
  plan.max_sge = static_cast<std::uint32_t>((stride - kSrqNext) / kDataPointer);
  return plan;
}

Expected<std::uint32_t> plan_cq(std::uint32_t entries) {
  const std::uint64_t ring = std::bit_ceil(std::uint64_t{entries} + 1);
  if (entries == 0 || ring > kMaxCqRing) {
    return fail(EINVAL, fmt::format("CQ: {} entries; 1 to {} are possible (the consumer index has 24 bits)", entries,
                                    kMaxCqRing - 1));
  }
  return static_cast<std::uint32_t>(ring);
}

}  // namespace umlx5
