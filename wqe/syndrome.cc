#include "wqe/syndrome.h"

#include <array>

namespace umlx5::wqe {
namespace {

struct Entry {
  ErrorSyndrome syndrome;
  CompletionStatus status;
  std::string_view name;
  std::string_view explanation;
};

using enum ErrorSyndrome;

constexpr std::array kEntries = {
    Entry{
        kLocalLength, CompletionStatus::kLocalLength, "LOCAL_LENGTH_ERR",
        "the message does not fit: check that the receive buffers are at least as long as the peer's message (UD adds "
        "40 bytes of GRH), and that a sent message is within the path MTU (UD) or 2 GiB"},
    Entry{
        kLocalQpOperation, CompletionStatus::kLocalQpOperation, "LOCAL_QP_OP_ERR",
        "the device rejects the work request itself: check opcode, segment order, DS and inline length of the WQE, and "
        "that this QP type supports the operation"},
    Entry{
        kLocalProtection, CompletionStatus::kLocalProtection, "LOCAL_PROT_ERR",
        "a local buffer may not be used so: check the lkey, that address and length lie inside its memory region, that "
        "region and QP share a PD, and that buffers written to have LOCAL_WRITE"},
    Entry{kWorkRequestFlushed, CompletionStatus::kWorkRequestFlushed, "WR_FLUSH_ERR",
          "the work request was not executed because its QP is in the error state: look for the first completion that "
          "failed for another reason, or for who moved the QP to error"},
    Entry{
        kMemoryWindowBind, CompletionStatus::kMemoryWindowBind, "MW_BIND_ERR",
        "a memory window or memory key update was refused: check that the window is free, that its region has MW_BIND "
        "and the access asked for, and that its PD and QP match"},
    Entry{
        kBadResponse, CompletionStatus::kBadResponse, "BAD_RESP_ERR",
        "the peer answered with an opcode or length that does not belong to the request: check that both ends run the "
        "same QP type and that no other endpoint uses this QP number"},
    Entry{kLocalAccess, CompletionStatus::kLocalAccess, "LOCAL_ACCESS_ERR",
          "incoming data could not be written to a local buffer: check access flags, bounds and lifetime of the memory "
          "region that the RDMA WRITE with immediate or the receive names"},
    Entry{kRemoteInvalidRequest, CompletionStatus::kRemoteInvalidRequest, "REMOTE_INVAL_REQ_ERR",
          "the peer found the request malformed or not allowed: check that its receive buffer is long enough, its QP's "
          "access flags allow the operation, and max_dest_rd_atomic covers outstanding reads"},
    Entry{kRemoteAccess, CompletionStatus::kRemoteAccess, "REMOTE_ACCESS_ERR",
          "the peer's memory may not be used so: check rkey, remote address and length, the region's REMOTE_READ, "
          "REMOTE_WRITE or REMOTE_ATOMIC flag, the QP's access flags, and that atomics are 8-byte aligned"},
    Entry{
        kRemoteOperation, CompletionStatus::kRemoteOperation, "REMOTE_OP_ERR",
        "the peer failed while executing the request: look at the peer's own completions and asynchronous events, its "
        "receive buffer's lkey first"},
    Entry{kTransportRetryExceeded, CompletionStatus::kTransportRetryExceeded, "TRANSPORT_RETRY_EXC_ERR",
          "the peer did not acknowledge within timeout and retry_cnt: check that its QP is in RTR or RTS with matching "
          "QP "
          "numbers and PSNs, and address, GID index, path MTU and loss on the way"},
    Entry{kRnrRetryExceeded, CompletionStatus::kRnrRetryExceeded, "RNR_RETRY_EXC_ERR",
          "the peer had no receive buffer each time it was tried: post receives before the peer sends, or raise "
          "rnr_retry "
          "(7 is without end) and min_rnr_timer"},
    Entry{kRemoteAborted, CompletionStatus::kRemoteAborted, "REMOTE_ABORTED_ERR",
          "the peer aborted the operation: look at the peer's QP state and asynchronous events (with vendor syndrome "
          "0x93 "
          "on a shared receive queue it is a page fault that the driver retries)"},
};

const Entry* find(ErrorSyndrome syndrome) {
  for (const Entry& entry : kEntries) {
    if (entry.syndrome == syndrome) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace

std::string_view to_string(ErrorSyndrome syndrome) {
  const Entry* entry = find(syndrome);
  return entry != nullptr ? entry->name : "unknown";
}

CompletionStatus status_of(ErrorSyndrome syndrome) {
  const Entry* entry = find(syndrome);
  return entry != nullptr ? entry->status : CompletionStatus::kGeneral;
}

std::string_view explain(ErrorSyndrome syndrome) {
  const Entry* entry = find(syndrome);
  return entry != nullptr
             ? entry->explanation
             : "the device reports an error this driver has no words for: note syndrome and vendor syndrome, "
               "and look for them in the firmware's release notes";
}

std::string_view to_string(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
      return "success";
    case CompletionStatus::kLocalLength:
      return "local length error";
    case CompletionStatus::kLocalQpOperation:
      return "local QP operation error";
    case CompletionStatus::kLocalProtection:
      return "local protection error";
    case CompletionStatus::kWorkRequestFlushed:
      return "work request flushed";
    case CompletionStatus::kMemoryWindowBind:
      return "memory window bind error";
    case CompletionStatus::kBadResponse:
      return "bad response";
    case CompletionStatus::kLocalAccess:
      return "local access error";
    case CompletionStatus::kRemoteInvalidRequest:
      return "remote invalid request";
    case CompletionStatus::kRemoteAccess:
      return "remote access error";
    case CompletionStatus::kRemoteOperation:
      return "remote operation error";
    case CompletionStatus::kTransportRetryExceeded:
      return "transport retry count exceeded";
    case CompletionStatus::kRnrRetryExceeded:
      return "RNR retry count exceeded";
    case CompletionStatus::kRemoteAborted:
      return "remote aborted";
    case CompletionStatus::kGeneral:
      return "general error";
  }
  return "unknown status";
}

}  // namespace umlx5::wqe
