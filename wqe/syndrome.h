// What an error CQE's syndrome means.
// Source: mlx5dv.h MLX5_CQE_SYNDROME_*; statuses have the values of enum ibv_wc_status.
#pragma once

#include <cstdint>
#include <string_view>

namespace umlx5::wqe {

enum class ErrorSyndrome : std::uint8_t {
  kLocalLength = 0x01,
  kLocalQpOperation = 0x02,
  kLocalProtection = 0x04,
  kWorkRequestFlushed = 0x05,
  kMemoryWindowBind = 0x06,
  kBadResponse = 0x10,
  kLocalAccess = 0x11,
  kRemoteInvalidRequest = 0x12,
  kRemoteAccess = 0x13,
  kRemoteOperation = 0x14,
  kTransportRetryExceeded = 0x15,
  kRnrRetryExceeded = 0x16,
  kRemoteAborted = 0x22,
};

// Name of the syndrome ("REMOTE_ACCESS_ERR"); "unknown" for a value that is none of the above.
std::string_view to_string(ErrorSyndrome syndrome);

enum class CompletionStatus : std::uint8_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalProtection = 4,
  kWorkRequestFlushed = 5,
  kMemoryWindowBind = 6,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kTransportRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 16,
  kGeneral = 21,
};

// kGeneral for a syndrome that has no status of its own.
CompletionStatus status_of(ErrorSyndrome syndrome);

// A short name of the status in words ("remote access error").
std::string_view to_string(CompletionStatus status);

// One sentence: what happened, then what to check. Static storage, no final full stop.
std::string_view explain(ErrorSyndrome syndrome);

// With kRemoteAborted on a shared receive queue: an on-demand page fault, to be retried and not reported.
inline constexpr std::uint8_t kVendorSyndromeOdpPageFault = 0x93;

constexpr bool is_odp_page_fault(ErrorSyndrome syndrome, std::uint8_t vendor_syndrome) {
  return syndrome == ErrorSyndrome::kRemoteAborted && vendor_syndrome == kVendorSyndromeOdpPageFault;
}

}  // namespace umlx5::wqe
