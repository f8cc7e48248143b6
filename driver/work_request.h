// What is posted, and what comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "driver/types.h"
#include "wqe/syndrome.h"

namespace umlx5 {

using wqe::CompletionStatus;

// One send work request. The SGE array is read during the call only; the memory it names must stay until completion,
// except with kInline, which copies the data during the call and ignores the lkeys.
struct SendWr {
  std::uint64_t wr_id = 0;
  SendOpcode opcode = SendOpcode::kSend;
  SendFlags flags{};
  std::span<const Sge> sges{};             // READ and atomics: where the result goes; atomics: 8 bytes
  std::uint32_t immediate_big_endian = 0;  // kSendWithImm, kRdmaWriteWithImm: put on the wire as it lies in memory
  std::uint32_t invalidate_rkey = 0;       // kSendWithInvalidate, host order
  std::uint64_t remote_address = 0;        // RDMA and atomics; atomics: a multiple of 8
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;  // kFetchAdd: what is added; kCompareSwap: what is compared. Host order
  std::uint64_t swap = 0;         // kCompareSwap
};

struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges{};
};

// Requests before number `posted` are with the device; request number `posted` was refused if error is not 0.
// ENOMEM: the queue is full. EINVAL: the request does not fit the queue (SGEs, inline bytes, opcode) or the QP's state
// does not take it; explain_refusal() of the QP tells in words.
struct PostResult {
  std::size_t posted = 0;
  int error = 0;  // positive errno
  explicit operator bool() const { return error == 0; }
};

enum class CompletionOpcode : std::uint8_t {
  kSend,
  kRdmaWrite,
  kRdmaRead,
  kCompareSwap,
  kFetchAdd,
  kRecv,
  kRecvRdmaWithImm,
};
std::string_view to_string(CompletionOpcode opcode);

class Qp;

// One completion. With a status other than kSuccess only wr_id, status, the syndromes, qp and qpn are meaningful.
struct Completion {
  std::uint64_t wr_id = 0;
  Qp* qp = nullptr;  // the queue pair, valid while it is not destroyed
  std::uint32_t qpn = 0;
  CompletionStatus status = CompletionStatus::kSuccess;  // wqe/syndrome.h
  CompletionOpcode opcode = CompletionOpcode::kSend;
  bool has_immediate = false;
  bool has_invalidated_rkey = false;
  std::uint8_t syndrome = 0;  // as the device wrote it, 0 on success
  std::uint8_t vendor_syndrome = 0;
  std::uint32_t byte_count = 0;            // received, read; 8 for atomics
  std::uint32_t immediate_big_endian = 0;  // or, host order, the rkey that was invalidated
  std::uint64_t device_timestamp = 0;      // device clock ticks
};

// "RECV failed on QP 0x12, wr_id 7: local length error (syndrome 0x01, vendor 0x..): the message is longer than ..."
std::string describe(const Completion& completion);

}  // namespace umlx5
