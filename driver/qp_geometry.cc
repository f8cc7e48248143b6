#include "driver/qp_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "driver/qp_plan.h"

namespace umlx5 {
namespace {

using plan::kDataPointer, plan::kSrqNext, plan::kWqebb;

constexpr std::uint64_t kMaxCqRing = std::uint64_t{1} << 24;

// What does not fit a send WQE, after the name of its field and its value.
std::string too_long(const QueueLimits& limits, const QpGeometryRequest& request, std::uint64_t overhead_bytes,
                     std::uint64_t limit) {
  return fmt::format(
      "does not fit a {}-byte WQE of {} (device's max_sq_desc_sz; a WQE has at most {} octowords) with "
      "{} bytes of overhead; at most {}",
      limits.max_send_wqe_bytes, to_string(request.type), plan::kMaxWqeOctowords, overhead_bytes, limit);
}

std::string words_of(const QueueLimits& limits, const QpGeometryRequest& request, const plan::Refusal& refusal) {
  const std::uint64_t overhead = plan::headers(request).reserved_bytes;
  switch (refusal.what) {
    case plan::Refused::kTsoHeaderOfType:
      return fmt::format("max_tso_header {} on a {} QP; only a RAW_PACKET QP has TSO headers",
                         request.max_tso_header_bytes, to_string(request.type));
    case plan::Refused::kOverhead:
      return fmt::format(
          "the operations of {} need {} bytes a WQE{}; at most {} (device's max_sq_desc_sz)", to_string(request.type),
          refusal.bytes,
          request.max_tso_header_bytes != 0 ? fmt::format(" with max_tso_header {}", request.max_tso_header_bytes) : "",
          refusal.limit);
    case plan::Refused::kSendSge:
      return fmt::format("max_send_sge {} {}", request.max_send_sge,
                         too_long(limits, request, overhead + request.max_tso_header_bytes, refusal.limit));
    case plan::Refused::kInline:
      return fmt::format("max_inline_data {} {}", request.max_inline_bytes,
                         too_long(limits, request, overhead, refusal.limit));
    case plan::Refused::kSendWqe:
      return fmt::format(
          "a send WQE of {} bytes, a whole number of 64-byte blocks, is too large; at most {} (device's "
          "max_sq_desc_sz)",
          refusal.bytes, refusal.limit);
    case plan::Refused::kSendWr:
      return fmt::format(
          "max_send_wr {} with WQEs of {} bytes needs a ring of {} 64-byte blocks; at most {} (device's "
          "max_send_wqebb), which holds {}",
          request.max_send_wr, refusal.bytes, std::bit_ceil(request.max_send_wr * refusal.bytes) / kWqebb,
          limits.max_send_wqebbs, refusal.limit);
    case plan::Refused::kRecvWr:
      return fmt::format("max_recv_wr {} is too many; at most {} (device's max_recv_wr)", request.max_recv_wr,
                         refusal.limit);
    case plan::Refused::kRecvSge:
      return fmt::format(
          "max_recv_sge {} needs a receive WQE of {} bytes; at most {} (device's max_rq_desc_sz), which holds {}",
          request.max_recv_sge, refusal.bytes, limits.max_recv_wqe_bytes, refusal.limit);
    case plan::Refused::kOutOfOrderRecvWr:
      return fmt::format(
          "max_recv_wr {} is too many for out-of-order receives; at most {} (device's ooo_recv_wrs_caps)",
          request.max_recv_wr, refusal.limit);
  }
  return "refused";
}

}  // namespace

std::uint64_t default_operations(SizedQpType type) { return plan::all_operations(type); }

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
  const plan::Result planned = plan::both(limits, request);
  if (!planned) {
    return fail(EINVAL, "QP create: " + words_of(limits, request, planned.error()));
  }
  return *planned;
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
