// Compressed CQEs: completions of one queue that have nearly everything in common, as the device writes them to a queue
// that was made with compression. A mini CQE has 8 bytes: what its completion has for itself.
//
// Basic layout: a session of n completions takes n entries of the ring, as if they were whole. The first has the title,
// a CQE of format kCompressed whose byte_count is n; mini CQEs 0 to 7 are the second entry's, 8 to 15 the ninth's, 16
// to 23 the seventeenth's. All else in those entries is of earlier laps, owner bits too: software has to give every
// entry of the session its lap's owner bit before the device comes round. The title is written last. A responder's WQE
// counters count up from the title's; those of a striding receive queue by the strides that byte counts tell.
//
// Enhanced layout: an entry is written when its validity iteration count, which has the place of the signature, is that
// of the lap: consumer index / entries, modulo 256. A block of up to seven mini CQEs and a tail stands for as many
// completions and entries, the first of which it lies in; its title is the last whole CQE before it, from whose WQE
// counter a responder's counters count on.
//
// In entries of 128 bytes all this is in the second halves. What a format does not carry is the title's alone.
// Source: Linux include/linux/mlx5/device.h struct mlx5_mini_cqe8, drivers/net/ethernet/mellanox/mlx5/core/en_rx.c;
// DPDK drivers/net/mlx5/mlx5_rx.c; UCX src/uct/ib/mlx5/ib_mlx5.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/cqe.h"
#include "wqe/layout.h"
#include "wqe/opcode.h"

namespace umlx5::wqe {

// cqc.mini_cqe_res_format: what a responder's mini CQEs have beside the byte count.
enum class MiniCqeFormat : std::uint8_t { kRxHash = 0, kChecksum = 1, kChecksumStrideIndex = 3 };
std::string_view to_string(MiniCqeFormat format);

// cqc.cqe_compression_layout.
enum class CqeCompressionLayout : std::uint8_t { kBasic = 0, kEnhanced = 1 };
std::string_view to_string(CqeCompressionLayout layout);

inline constexpr std::size_t kMiniCqeBytes = 8;
inline constexpr std::uint32_t kMiniCqesPerEntry = 8;
inline constexpr std::uint32_t kMiniCqesPerBlock = 7;      // enhanced
inline constexpr std::size_t kCqeValidityOffset = 62;      // enhanced: validity iteration count
inline constexpr std::uint8_t kCqeValidityInitial = 0xff;  // enhanced: of a fresh queue's entries

// Whether a CQE of this op_own is a title of the basic layout. Errors and what is no completion are not compressed.
constexpr bool is_compression_title(std::uint8_t op_own) {
  return cqe_format(op_own) == CqeFormat::kCompressed && cqe_opcode(op_own) <= CqeOpcode::kResponderSendInvalidate;
}

// Basic layout: the entry, counted from the title's, that holds the mini CQE of the `n`-th completion.
constexpr std::uint32_t mini_cqe_entry(std::uint32_t n) {
  return n < kMiniCqesPerEntry ? 1 : n / kMiniCqesPerEntry * kMiniCqesPerEntry;
}

struct HashMiniCqe {
  std::uint32_t rx_hash{};
  std::uint32_t byte_count{};

  static constexpr std::string_view kName = "mini-cqe";
  static constexpr std::size_t kBytes = kMiniCqeBytes;
  static constexpr auto kFields = Fields{Field{"rx_hash", &HashMiniCqe::rx_hash, bytes(0, 4)},
                                         Field{"bytes", &HashMiniCqe::byte_count, bytes(4, 4), Format::kDecimal}};
};
static_assert(layout_is_valid<HashMiniCqe>());

// stride_index only in kChecksumStrideIndex, of striding receive queues: the CQE's WQE counter.
struct ChecksumMiniCqe {
  std::uint16_t checksum{};
  std::uint16_t stride_index{};
  std::uint32_t byte_count{};

  static constexpr std::string_view kName = "mini-cqe";
  static constexpr std::size_t kBytes = kMiniCqeBytes;
  static constexpr auto kFields =
      Fields{Field{"checksum", &ChecksumMiniCqe::checksum, bytes(0, 2)},
             Field{"stride_index", &ChecksumMiniCqe::stride_index, bytes(2, 2), Format::kDecimal},
             Field{"bytes", &ChecksumMiniCqe::byte_count, bytes(4, 4), Format::kDecimal}};
};
static_assert(layout_is_valid<ChecksumMiniCqe>());

// A requester's, in every format.
struct RequesterMiniCqe {
  std::uint16_t wqe_counter{};
  SendOpcode send_opcode{};
  std::uint32_t byte_count{};

  static constexpr std::string_view kName = "mini-cqe";
  static constexpr std::size_t kBytes = kMiniCqeBytes;
  static constexpr auto kFields =
      Fields{Field{"wqe_counter", &RequesterMiniCqe::wqe_counter, bytes(0, 2), Format::kDecimal},
             Field{"send_opcode", &RequesterMiniCqe::send_opcode, bytes(2, 1), Format::kName},
             Field{"bytes", &RequesterMiniCqe::byte_count, bytes(4, 4), Format::kDecimal}};
};
static_assert(layout_is_valid<RequesterMiniCqe>());

// Enhanced layout: the last 8 bytes of a block's entry. The others are mini CQEs.
struct MiniCqeBlockTail {
  std::uint8_t validity_iteration_count{};
  std::uint8_t count_less_one{};  // 4 bits: mini CQEs of the block less one
  CqeFormat format{};             // kCompressed

  static constexpr std::string_view kName = "mini-cqe-block";
  static constexpr std::size_t kBytes = kMiniCqeBytes;
  static constexpr auto kFields =
      Fields{Field{"iteration", &MiniCqeBlockTail::validity_iteration_count, bytes(6, 1), Format::kDecimal},
             Field{"count_less_one", &MiniCqeBlockTail::count_less_one, bits(4, 7, 4), Format::kDecimal},
             Field{"format", &MiniCqeBlockTail::format, bits(4, 3, 2), Format::kName}};
};
static_assert(layout_is_valid<MiniCqeBlockTail>());
static_assert(kMiniCqesPerBlock * kMiniCqeBytes + MiniCqeBlockTail::kBytes == kCqeBytes);

}  // namespace umlx5::wqe
