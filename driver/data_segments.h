// Writing SGEs as data segments.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "driver/types.h"
#include "wqe/data.h"
#include "wqe/layout.h"

namespace umlx5 {

// Whether a segment says this length as it is: not 0, which on the wire means 2 GiB, nor 2 GiB or more.
[[gnu::always_inline]] inline bool is_plain_length(const Sge& sge) {
  return static_cast<std::int32_t>(sge.length_bytes) > 0;
}

[[gnu::always_inline]] inline void put_plain_data_segment(std::byte* at, const Sge& sge) {
  static_assert(offsetof(Sge, lkey) == offsetof(Sge, length_bytes) + 4 && std::endian::native == std::endian::little);
  static_assert(wqe::offset_bits_of(&wqe::DataSegment::byte_count) < 32 &&
                wqe::offset_bits_of(&wqe::DataSegment::lkey) == 32 &&
                wqe::offset_bits_of(&wqe::DataSegment::address) == 64);
  std::uint64_t length_and_lkey;  // the length is the lower half
  std::memcpy(&length_and_lkey, &sge.length_bytes, sizeof length_and_lkey);
  wqe::internal::store_word(at, std::rotl(length_and_lkey, 32));
  wqe::internal::store_word(at + 8, sge.address);
}

// False, and nothing written: a length that a segment cannot say, none or more than 2 GiB.
[[gnu::always_inline]] inline bool put_data_segment(std::byte* at, const Sge& sge) {
  if (!is_plain_length(sge)) [[unlikely]] {
    if (sge.length_bytes != wqe::kMaxDataSegmentBytes) {
      return false;
    }
    put_plain_data_segment(at, {.address = sge.address, .length_bytes = 0, .lkey = sge.lkey});
    return true;
  }
  put_plain_data_segment(at, sge);
  return true;
}

// The list of a receive WQE: an entry of no bytes is left out, and a list that does not fill the WQE ends with a
// terminator. False: an entry of more than 2^31 bytes.
[[gnu::noinline]] inline bool put_receive_list(std::byte* at, std::span<const Sge> sges, std::uint32_t max_sge) {
  std::uint32_t used = 0;
  for (const Sge& sge : sges) {
    if (put_data_segment(at, sge)) {
      at += wqe::DataSegment::kBytes;
      ++used;
    } else if (sge.length_bytes != 0) {
      return false;
    }
  }
  if (used < max_sge) {
    wqe::store(at, wqe::kTerminator);
  }
  return true;
}

// The same for a list of one that can be said as it is; false: it cannot.
[[gnu::always_inline]] inline bool put_receive_data(std::byte* at, const Sge& sge, std::uint32_t max_sge) {
  if (max_sge == 0 || !put_data_segment(at, sge)) [[unlikely]] {
    return false;
  }
  if (max_sge != 1) {
    wqe::store(at + wqe::DataSegment::kBytes, wqe::kTerminator);
  }
  return true;
}

}  // namespace umlx5
