// Data of a WQE: pointers, inline data, and the link segment of a shared receive queue.
// Source: mlx5dv.h struct mlx5_wqe_data_seg, mlx5_wqe_inl_data_seg, mlx5_wqe_srq_next_seg, MLX5_INVALID_LKEY.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/units.h"

namespace umlx5::wqe {

// Ends a receive scatter list that uses fewer entries than its WQE has room for.
inline constexpr std::uint32_t kTerminatorLkey = 0x100;

// A byte count of 0 on the wire stands for this; bit 31 marks inline data, so a pointer cannot say it otherwise.
inline constexpr std::uint32_t kMaxDataSegmentBytes = 0x80000000;

struct DataSegment {
  std::uint32_t byte_count{};  // 31 bits, 0 means kMaxDataSegmentBytes
  std::uint32_t lkey{};
  std::uint64_t address{};

  static constexpr std::string_view kName = "data";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"bytes", &DataSegment::byte_count, bits(0, 30, 0), Format::kDecimal},
             Field{"lkey", &DataSegment::lkey, bytes(4, 4)}, Field{"address", &DataSegment::address, bytes(8, 8)}};

  constexpr std::uint32_t length_bytes() const { return byte_count == 0 ? kMaxDataSegmentBytes : byte_count; }
  constexpr bool is_terminator() const { return byte_count == 0 && lkey == kTerminatorLkey; }
};
static_assert(layout_is_valid<DataSegment>());
static_assert(offset_bits_of(&DataSegment::lkey) == 32 && offset_bits_of(&DataSegment::address) == 64);

inline constexpr DataSegment kTerminator{.byte_count = 0, .lkey = kTerminatorLkey, .address = 0};

// First word of an inline segment; `byte_count` bytes of data follow, then padding to a whole octoword.
struct InlineHeader {
  bool is_inline = true;
  std::uint32_t byte_count{};

  static constexpr std::string_view kName = "inline";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields = Fields{Field{"inline", &InlineHeader::is_inline, bits(0, 31, 31)},
                                         Field{"bytes", &InlineHeader::byte_count, bits(0, 30, 0), Format::kDecimal}};
};
static_assert(layout_is_valid<InlineHeader>());

// Octowords of an inline segment that carries `data_bytes` bytes.
constexpr std::size_t inline_octowords(std::size_t data_bytes) {
  return octowords_for(InlineHeader::kBytes + data_bytes);
}

// Byte count of a completion on a striding receive queue, whose WQE counter is the index of the first stride taken and
// whose WQE id is the WQE's. A filler tells of strides that the next frame did not fit in: it completes nothing else.
// Source: DPDK's mlx5_prm.h (MLX5_MPRQ_*).
struct StridingByteCount {
  std::uint32_t word = 0;
  constexpr std::uint16_t bytes() const { return static_cast<std::uint16_t>(word); }
  constexpr std::uint16_t strides() const { return static_cast<std::uint16_t>(word >> 16 & 0x3fff); }
  constexpr bool is_filler() const { return (word >> 31) != 0; }
  static constexpr StridingByteCount of(std::uint32_t strides, std::uint32_t bytes, bool filler = false) {
    return {std::uint32_t{filler} << 31 | (strides & 0x3fff) << 16 | (bytes & 0xffff)};
  }
};

// First octoword of a shared receive queue's (and a striding receive queue's) WQE.
struct SrqNextSegment {
  std::uint16_t next_wqe_index{};
  std::uint8_t signature{};

  static constexpr std::string_view kName = "srq-next";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"next", &SrqNextSegment::next_wqe_index, bytes(2, 2), Format::kDecimal},
                                         Field{"signature", &SrqNextSegment::signature, bytes(4, 1)}};
};
static_assert(layout_is_valid<SrqNextSegment>());
static_assert(offset_bits_of(&SrqNextSegment::next_wqe_index) == 16);

// First octoword of a receive WQE on a queue with WQE signatures.
struct ReceiveSignatureSegment {
  std::uint8_t signature{};

  static constexpr std::string_view kName = "rq-signature";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"signature", &ReceiveSignatureSegment::signature, bytes(4, 1)}};
};
static_assert(layout_is_valid<ReceiveSignatureSegment>());

}  // namespace umlx5::wqe
