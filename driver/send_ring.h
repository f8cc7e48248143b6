// The ring of a send queue: writing data segments into it, over its end where need be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "driver/types.h"
#include "wqe/data.h"
#include "wqe/units.h"

namespace umlx5 {

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

  // Octowords written at `at`, or kRefused. An entry of no bytes is left out: on the wire its count would mean 2 GiB.
  // With `kBytes`, that is what the others are said to have.
  template <std::uint32_t kBytes = 0>
  [[gnu::always_inline]] unsigned put_pointers(std::byte* at, std::span<const Sge> sges) const {
    unsigned octowords = 0;
    for (const Sge& sge : sges) {
      if (sge.length_bytes - 1 >= wqe::kMaxDataSegmentBytes) [[unlikely]] {
        if (sge.length_bytes != 0) {
          return kRefused;
        }
        continue;
      }
      at = wrapped(at);
      wqe::store(at,
                 wqe::DataSegment{
                     .byte_count = kBytes != 0 ? kBytes : sge.length_bytes, .lkey = sge.lkey, .address = sge.address});
      at += wqe::DataSegment::kBytes;
      ++octowords;
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
    const auto before_end = static_cast<std::size_t>(end_ - at);
    if (count <= before_end) [[likely]] {
      if (count != 0) {
        std::memcpy(at, from, count);
      }
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
