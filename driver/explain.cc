// Refusals and completions in words.
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "driver/qp.h"
#include "driver/work_request.h"
#include "wqe/syndrome.h"

namespace umlx5 {
namespace {

std::string refuse_lengths(std::span<const Sge> sges) {
  for (std::size_t i = 0; i < sges.size(); ++i) {
    if (sges[i].length_bytes > wqe::kMaxDataSegmentBytes) {
      return fmt::format("SGE {} has {} bytes; at most {} (31 bits in a data segment)", i, sges[i].length_bytes,
                         wqe::kMaxDataSegmentBytes);
    }
  }
  return {};
}

std::string full(std::string_view queue, std::uint32_t capacity) {
  return fmt::format(
      "the {} queue is full: {} requests are outstanding, as many as it holds; poll its CQ (a request "
      "that is not signalled is outstanding until a later signalled one completes)",
      queue, capacity);
}

}  // namespace

namespace {

// Why a RAW_PACKET QP does not take `request`, apart from what all transports refuse.
std::string refuse_frame(const SendQueue::Config& queue, const SendWr& request) {
  const bool is_tso = request.opcode == SendOpcode::kTso;
  std::uint64_t total = 0;
  for (const Sge& sge : request.sges) {
    total += sge.length_bytes;
  }
  if (!is_tso && request.opcode != SendOpcode::kSend) {
    return fmt::format("{} on RAW_PACKET, which sends frames only", to_string(request.opcode));
  }
  if (request.flags.has(SendFlag::kIpChecksum) && !queue.has_checksums) {
    return "checksums, which the device does not compute";
  }
  if (!is_tso && total < queue.min_inline_bytes) {
    return fmt::format("a frame of {} bytes; at least {} (the device wants so many in the WQE)", total,
                       queue.min_inline_bytes);
  }
  if (is_tso && (request.tso_header.size() < 14 || request.tso_header.size() > queue.max_tso_header_bytes)) {
    return fmt::format("a header of {} bytes; 14 (Ethernet's) to {} (max_tso_header_bytes of the QP)",
                       request.tso_header.size(), queue.max_tso_header_bytes);
  }
  if (is_tso && total > queue.max_tso_bytes) {
    return fmt::format("{} bytes to cut into frames; at most {} at once", total, queue.max_tso_bytes);
  }
  return {};
}

}  // namespace

std::string Qp::explain_refusal(const SendWr& request) const {
  const SendQueue::Config& queue = send_.config();
  if (queue.max_requests == 0) {
    return fmt::format("{} has no send queue (it was created with max_send_wr 0)", name());
  }
  if (!send_.usable()) {
    return fmt::format("{} is in {}; requests to send are taken in RTS, SQD, SQE and ERR", name(), to_string(state()));
  }
  if (send_.outstanding_requests() >= queue.max_requests) {
    return fmt::format("{}: {}", name(), full("send", queue.max_requests));
  }
  if (static_cast<unsigned>(request.opcode) > static_cast<unsigned>(SendOpcode::kTso)) {
    return fmt::format("{}: {} is no opcode", name(), static_cast<unsigned>(request.opcode));
  }
  if (queue.transport == SendTransport::kRaw) {
    if (const std::string why = refuse_frame(queue, request); !why.empty()) {
      return fmt::format("{}: {}", name(), why);
    }
  }
  if ((queue.opcodes & opcode_bit(request.opcode)) == 0) {
    return fmt::format("{}: {} is not among the operations that the QP was created for, or the device lacks it", name(),
                       to_string(request.opcode));
  }
  const bool addressed = queue.transport == SendTransport::kDatagram || queue.transport == SendTransport::kDc;
  if (addressed && !send_form(request.opcode).umr && request.destination == nullptr) {
    return fmt::format("{}: a request without a destination, which each needs on {}", name(), to_string(type_));
  }
  if (send_form(request.opcode).umr) {
    return request.opcode == SendOpcode::kBindMemoryWindow && request.window.length_bytes > wqe::kMaxDataSegmentBytes
               ? fmt::format("{}: a window of {} bytes; at most {} (31 bits in a translation entry)", name(),
                             request.window.length_bytes, wqe::kMaxDataSegmentBytes)
               : std::string();
  }
  if (request.sges.size() > queue.max_sge) {
    return fmt::format("{}: {} SGEs; at most {} (max_send_sge of the QP)", name(), request.sges.size(), queue.max_sge);
  }
  if (!request.flags.has(SendFlag::kInline)) {
    const std::string lengths = refuse_lengths(request.sges);
    return lengths.empty() ? lengths : fmt::format("{}: {}", name(), lengths);
  }
  if (!send_form(request.opcode).may_inline) {
    return fmt::format("{}: {} cannot be inline, since the device writes its data", name(), to_string(request.opcode));
  }
  std::uint64_t total = 0;
  for (const Sge& sge : request.sges) {
    total += sge.length_bytes;
  }
  if (total > queue.max_inline_bytes) {
    return fmt::format("{}: {} bytes inline; at most {} (max_inline_bytes of the QP)", name(), total,
                       queue.max_inline_bytes);
  }
  return {};
}

Expected<SendTemplate> Qp::make_template(const SendWr& request) const {
  SendTemplate made;
  if (send_.make_template(request, made)) {
    return made;
  }
  if (send_.has_many_producers() || send_.config().wqe_signature) {
    return fail(EOPNOTSUPP, fmt::format("{}: no templates for a queue {}", name(),
                                        send_.has_many_producers() ? "of many producers" : "whose WQEs carry a check byte"));
  }
  return fail(EINVAL, fmt::format("{}: a template is a SEND, RDMA_WRITE or RDMA_READ of RC, UC or XRC with one SGE of 1 to "
                                  "2^31 - 1 bytes, not inline, that the QP was created for; this is {} with {} SGEs",
                                  name(), to_string(request.opcode), request.sges.size()));
}

std::string Qp::explain_refusal(const RecvWr& request) const {
  const ReceiveQueue::Config& queue = recv_.config();
  if (queue.max_requests == 0) {
    return fmt::format("{} has no receive queue (it was created with max_recv_wr 0)", name());
  }
  if (!recv_.usable()) {
    return fmt::format("{} is in {}; requests to receive are taken in every other state", name(), to_string(state()));
  }
  if (recv_.outstanding_requests() >= queue.max_requests) {
    return fmt::format("{}: {}", name(), full("receive", queue.max_requests));
  }
  if (request.sges.size() > queue.max_sge) {
    return fmt::format("{}: {} SGEs; at most {} (max_recv_sge of the QP)", name(), request.sges.size(), queue.max_sge);
  }
  const std::string lengths = refuse_lengths(request.sges);
  return lengths.empty() ? lengths : fmt::format("{}: {}", name(), lengths);
}

int errno_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return 0;
    case Refusal::kFull:
    case Refusal::kKeyLayout:
      return ENOMEM;
    case Refusal::kNoAtomics:
    case Refusal::kUnsupported:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

std::string_view to_string(CompletionOpcode opcode) {
  switch (opcode) {
    case CompletionOpcode::kSend:
      return "SEND";
    case CompletionOpcode::kRdmaWrite:
      return "RDMA_WRITE";
    case CompletionOpcode::kRdmaRead:
      return "RDMA_READ";
    case CompletionOpcode::kCompareSwap:
      return "CMP_AND_SWP";
    case CompletionOpcode::kFetchAdd:
      return "FETCH_AND_ADD";
    case CompletionOpcode::kBindMemoryWindow:
      return "BIND_MW";
    case CompletionOpcode::kLocalInvalidate:
      return "LOCAL_INV";
    case CompletionOpcode::kTso:
      return "TSO";
    case CompletionOpcode::kUmr:
      return "UMR";
    case CompletionOpcode::kRawWqe:
      return "raw WQE";
    case CompletionOpcode::kMemcpy:
      return "MEMCPY";
    case CompletionOpcode::kRecv:
      return "RECV";
    case CompletionOpcode::kRecvRdmaWithImm:
      return "RECV_RDMA_WITH_IMM";
  }
  return "unknown";
}

std::string describe(const Completion& completion) {
  const std::string what = fmt::format("QP {:#x}, wr_id {}", completion.qpn, completion.wr_id);
  if (completion.status == CompletionStatus::kSuccess) {
    std::string text = fmt::format("{} on {}: success", to_string(completion.opcode), what);
    const bool counts =
        completion.opcode >= CompletionOpcode::kRecv ||
        (completion.opcode >= CompletionOpcode::kRdmaRead && completion.opcode <= CompletionOpcode::kFetchAdd);
    if (counts) {
      text += fmt::format(", {} bytes", completion.byte_count);
    }
    if (completion.has_immediate) {
      text += fmt::format(", immediate {:#010x}", wqe::internal::big_endian(completion.immediate_big_endian));
    }
    if (completion.has_invalidated_rkey) {
      text += fmt::format(", rkey {:#x} invalidated", completion.immediate_big_endian);
    }
    return text;
  }
  const bool received =
      completion.opcode == CompletionOpcode::kRecv || completion.opcode == CompletionOpcode::kRecvRdmaWithImm;
  return fmt::format("{} failed on {}: {} (syndrome {:#04x}, vendor syndrome {:#04x}): {}",
                     received ? std::string_view("RECV") : to_string(completion.opcode), what,
                     wqe::to_string(completion.status), completion.syndrome, completion.vendor_syndrome,
                     wqe::explain(static_cast<wqe::ErrorSyndrome>(completion.syndrome)));
}

}  // namespace umlx5
