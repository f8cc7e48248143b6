// The ring of a send queue: writing data segments into it, over its end where need be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "driver/data_segments.h"
#include "driver/types.h"
#include "wqe/data.h"
#include "wqe/units.h"

namespace umlx5 {

// Copies what is mostly a few dozen bytes, with fewer instructions than a call of memcpy().
[[gnu::always_inline]] inline void copy_inline(std::byte* to, const std::byte* from, std::size_t count) {
  const auto copy = [&]<std::size_t kBytes>(std::size_t at) { std::memcpy(to + at, from + at, kBytes); };
  if (count > 128) {
    std::memcpy(to, from, count);
  } else if (count >= 16) {
    for (std::size_t at = 0; at + 16 < count; at += 16) {
      copy.template operator()<16>(at);
    }
    copy.template operator()<16>(count - 16);  // over what was copied already
  } else if (count >= 8) {
    copy.template operator()<8>(0);
    copy.template operator()<8>(count - 8);
  } else if (count >= 4) {
    copy.template operator()<4>(0);
    copy.template operator()<4>(count - 4);
  } else {
    for (std::size_t at = 0; at < count; ++at) {
      to[at] = from[at];
    }
  }
}

// Views memory that it does not own. Segments are whole octowords, so one that begins in the ring ends in it; inline
// data may be cut anywhere.
class SendRing {
 public:
  // What put_*() return for data that a WQE cannot carry.
  static constexpr unsigned kRefused = ~0u;

  SendRing() = default;
  SendRing(std::byte* begin, std::uint32_t wqebbs)
      : begin_(begin),
        end_(begin + std::size_t{wqebbs} * wqe::kWqebbBytes),
        wqebb_mask_(wqebbs == 0 ? 0 : wqebbs - 1) {}

  std::byte* begin() const { return begin_; }
  std::byte* end() const { return end_; }
  std::uint32_t wqebb_mask() const { return wqebb_mask_; }
  std::byte* wqebb(std::uint32_t index) const { return begin_ + std::size_t{index & wqebb_mask_} * wqe::kWqebbBytes; }
  std::size_t bytes_behind(const std::byte* at) const { return static_cast<std::size_t>(end_ - at); }
  // Where a segment goes that follows one which ended at `at`.
  std::byte* wrapped(std::byte* at) const { return at == end_ ? begin_ : at; }

  // What lies `kBytes` behind the beginning of a WQE, in its first or second block. Behind the ring's last block it is
  // end(), as wrapped() and put_*() take it.
  template <std::size_t kBytes>
  std::byte* behind(std::byte* wqe) const {
    static_assert(kBytes <= 2 * wqe::kWqebbBytes);
    if constexpr (kBytes <= wqe::kWqebbBytes) {
      return wqe + kBytes;
    } else {
      return wrapped(wqe + wqe::kWqebbBytes) + (kBytes - wqe::kWqebbBytes);
    }
  }

  // What lies `bytes` behind the beginning of a WQE that is no longer than the ring.
  std::byte* behind(std::byte* wqe, std::size_t bytes) const {
    const auto before_end = static_cast<std::size_t>(end_ - wqe);
    return bytes < before_end ? wqe + bytes : begin_ + (bytes - before_end);
  }
  // Copies bytes to `at`, over the ring's end where need be; what lies behind them.
  std::byte* put_bytes(std::byte* at, std::span<const std::byte> bytes) const {
    return copy_in(at, bytes.data(), bytes.size());
  }

  // Octowords written at `at`, or kRefused. An entry of no bytes is left out: on the wire its count would mean 2 GiB.
  // With `kBytes`, that is what the others are said to have.
  template <std::uint32_t kBytes = 0>
  [[gnu::always_inline]] unsigned put_pointers(std::byte* at, std::span<const Sge> sges) const {
    unsigned octowords = 0;
    for (const Sge& sge : sges) {
      const Sge said{sge.address, kBytes != 0 && sge.length_bytes != 0 ? kBytes : sge.length_bytes, sge.lkey};
      std::byte* const to = wrapped(at);
      if (put_data_segment(to, said)) [[likely]] {
        at = to + wqe::DataSegment::kBytes;
        ++octowords;
      } else if (sge.length_bytes != 0) {
        return kRefused;
      }
    }
    return octowords;
  }

  // As put_pointers(), with the bytes themselves; kRefused for more than `max_bytes`. No bytes, no segment. `Piece` has
  // data() and size_bytes().
  template <typename Piece>
  unsigned put_inline(std::byte* at, std::span<const Piece> pieces, std::uint32_t max_bytes) const {
    std::uint64_t total = 0;
    for (const Piece& piece : pieces) {
      const std::uint64_t bytes = piece.size_bytes();
      if (bytes > max_bytes) [[unlikely]] {
        return kRefused;
      }
      total += bytes;
    }
    if (total > max_bytes) [[unlikely]] {
      return kRefused;
    }
    if (total == 0) {
      return 0;
    }
    at = wrapped(at);
    wqe::store(at, wqe::InlineHeader{.byte_count = static_cast<std::uint32_t>(total)});
    at += wqe::InlineHeader::kBytes;
    for (const Piece& piece : pieces) {
      at = copy_in(at, piece.data(), piece.size_bytes());
    }
    return static_cast<unsigned>(wqe::inline_octowords(total));
  }

 private:
  std::byte* copy_in(std::byte* at, const std::byte* from, std::size_t count) const {
    const std::size_t before_end = bytes_behind(at);
    if (count <= before_end) [[likely]] {
      copy_inline(at, from, count);
      return at + count;
    }
    std::memcpy(at, from, before_end);
    std::memcpy(begin_, from + before_end, count - before_end);
    return begin_ + (count - before_end);
  }

  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
  std::uint32_t wqebb_mask_ = 0;
};

// An SGE as a piece of inline data.
struct InlineSge : Sge {
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(address); }
  std::size_t size_bytes() const { return length_bytes; }
};
static_assert(sizeof(InlineSge) == sizeof(Sge));

}  // namespace umlx5
