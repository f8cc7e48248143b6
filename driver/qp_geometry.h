// Sizes of a queue pair's queues: how many bytes a WQE may take, how many WQEs fit, and where the queues lie.
// Pure arithmetic, in 64 bits, for every QP type of the device. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "uapi/error.h"

namespace umlx5 {

// What will be posted. The low bits are the verbs' (IBV_QP_EX_WITH_*), bits 32 and up are mlx5dv's
// (MLX5DV_QP_EX_WITH_*) moved up by 32.
enum class SendOperation : std::uint64_t {
  kRdmaWrite = 1,
  kRdmaWriteWithImm = 1 << 1,
  kSend = 1 << 2,
  kSendWithImm = 1 << 3,
  kRdmaRead = 1 << 4,
  kCompareSwap = 1 << 5,
  kFetchAdd = 1 << 6,
  kLocalInvalidate = 1 << 7,
  kBindMemoryWindow = 1 << 8,
  kSendWithInvalidate = 1 << 9,
  kTso = 1 << 10,
  kMkeyInterleaved = std::uint64_t{1} << 32,
  kMkeyList = std::uint64_t{1} << 33,
  kMkeyConfigure = std::uint64_t{1} << 34,
  kRawWqe = std::uint64_t{1} << 35,
  kMemcpy = std::uint64_t{1} << 36,
};
constexpr std::uint64_t operator|(SendOperation a, SendOperation b) {
  return static_cast<std::uint64_t>(a) | static_cast<std::uint64_t>(b);
}
constexpr std::uint64_t operator|(std::uint64_t a, SendOperation b) { return a | static_cast<std::uint64_t>(b); }

// The types that differ in size. kUdUnderlay is a UD QP on an IPoIB interface's own QPN; kDci and kDct are the two
// ends of a dynamically connected transport.
enum class SizedQpType : std::uint8_t {
  kRc,
  kUc,
  kUd,
  kUdUnderlay,
  kRawPacket,
  kXrcSend,
  kXrcRecv,
  kDci,
  kDct,
};
std::string_view to_string(SizedQpType type);

// What the type's WQEs must have room for when nobody said which operations will be posted.
std::uint64_t default_operations(SizedQpType type);

// Of the device, from the alloc_ucontext response (the names in brackets) unless said otherwise.
struct QueueLimits {
  std::uint32_t max_send_wqe_bytes = 0;  // max_sq_desc_sz
  std::uint32_t max_recv_wqe_bytes = 0;  // max_rq_desc_sz
  std::uint32_t max_send_wqebbs = 0;     // max_send_wqebb
  std::uint32_t max_recv_wr = 0;         // max_recv_wr
  std::uint32_t max_srq_recv_wr = 0;     // max_srq_recv_wr
  // Receive requests of a QP whose receives may complete out of order, 0 if there is no limit of its own (mlx5dv
  // ooo_recv_wrs_caps of the QP's type).
  std::uint32_t max_out_of_order_recv_wr = 0;
};

struct QpGeometryRequest {
  SizedQpType type = SizedQpType::kRc;
  // Bits of SendOperation; none: everything that the type has.
  std::optional<std::uint64_t> send_operations = std::nullopt;
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;
  std::uint32_t max_send_sge = 0, max_recv_sge = 0;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_tso_header_bytes = 0;  // kRawPacket only
  bool has_srq = false;                    // receives come from a shared receive queue
  bool wqe_signature = false;
  bool next_segment = false;  // receive WQEs begin with a link segment, as those of a striding queue do
  bool out_of_order_receive = false;
};

struct QpGeometry {
  // Send queue; all 0 if there is none.
  std::uint32_t send_wqe_bytes = 0;  // the most that one WQE takes, a multiple of a WQEBB
  std::uint32_t send_wqebbs = 0;     // ring size, a power of two
  std::uint32_t max_send_wr = 0;     // requests that may be outstanding
  std::uint32_t max_send_sge = 0;
  std::uint32_t max_inline_bytes = 0;
  // Receive queue; all 0 if there is none.
  std::uint32_t recv_wqe_bytes = 0;  // stride, a power of two
  std::uint32_t recv_wqe_bytes_log2 = 0;
  std::uint32_t recv_wqes = 0;  // ring size, a power of two
  std::uint32_t max_recv_wr = 0;
  std::uint32_t max_recv_sge = 0;
  // The queue buffer. With a separate send buffer, `buffer_bytes` holds the receive queue alone, and the send queue
  // begins its own buffer.
  std::uint64_t recv_offset_bytes = 0, send_offset_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  bool separate_send_buffer = false;
  std::uint64_t send_buffer_bytes = 0;  // with a separate buffer
};

// Errors: EINVAL, and the text names the field, the value, the limit and where the limit comes from.
Expected<QpGeometry> plan_qp(const QueueLimits& limits, const QpGeometryRequest& request);

struct SrqGeometry {
  std::uint32_t wqe_bytes = 0;    // stride, a power of two, its next-WQE segment included
  std::uint32_t ring_wqes = 0;    // WQEs linked at first, a power of two
  std::uint32_t buffer_wqes = 0;  // all WQEs: also those that wait while a page fault is resolved; a power of two
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
};
Expected<SrqGeometry> plan_srq(const QueueLimits& limits, std::uint32_t max_wr, std::uint32_t max_sge);

// Entries of the ring of a CQ that holds `entries` completions: one more, rounded up to a power of two.
// Errors: EINVAL for none, and for a ring of more than 2^24 entries (width of the consumer index).
Expected<std::uint32_t> plan_cq(std::uint32_t entries);

}  // namespace umlx5
