// The gather list of a send WQE and the scatter list of a receive WQE, and the copies between them and packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/softhca/hca/link.h"

namespace softhca::hca {

struct DataPiece {
  std::uint64_t address = 0;  // of inline data: offset in the WQE's inline bytes
  std::uint32_t lkey = 0;
  std::uint32_t bytes = 0;
  bool is_inline = false;
  bool is_physical = false;  // under the reserved lkey: `address` is a DMA address
};

// Copies to.size() bytes from position `offset` of the list. False if a key or the memory behind it does not allow it.
bool gather(Link& link, const KeyUser& user, std::span<const DataPiece> list, std::span<const std::byte> inline_data,
            std::uint64_t offset, std::span<std::byte> to);

// Copies `from` to position `offset` of the list, of which `from` must be a part.
bool scatter(Link& link, const KeyUser& user, std::span<const DataPiece> list, std::uint64_t offset,
             std::span<const std::byte> from);

// Copies between bytes and [va, va + size) of one key.
bool read_key(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t va, Access access,
              std::span<std::byte> to);
bool write_key(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t va, Access access,
               std::span<const std::byte> from);

// Copies between bytes and link.ranges, which resolve() has filled.
bool read_resolved(Link& link, std::span<std::byte> to);
bool write_resolved(Link& link, std::span<const std::byte> from);

// True if the first and the last byte of [va, va + bytes) may be accessed, which for a key of one contiguous range says
// it of all between, without listing the range's pages. Zero bytes are always accessible.
bool ends_accessible(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes,
                     Access access);

// ends_accessible() of every piece.
bool list_accessible(Link& link, const KeyUser& user, std::span<const DataPiece> list, Access access);

}  // namespace softhca::hca
