#include "tools/softhca/hca/data_list.h"

#include <algorithm>
#include <cstring>

namespace softhca::hca {
namespace {

// Calls visit(piece, offset in the piece, position from the start, bytes) for the parts of [offset, offset + bytes).
template <typename Visit>
bool for_each_part(std::span<const DataPiece> list, std::uint64_t offset, std::size_t bytes, Visit&& visit) {
  std::size_t done = 0;
  for (const DataPiece& piece : list) {
    if (done == bytes) {
      break;
    }
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const std::size_t part = std::min<std::uint64_t>(bytes - done, piece.bytes - offset);
    if (!visit(piece, offset, done, part)) {
      return false;
    }
    done += part;
    offset = 0;
  }
  return done == bytes;
}

bool resolve(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes, Access access) {
  link.ranges.clear();
  return link.services.resolve(key, user, va, bytes, access, link.ranges) == MkeyFault::kNone;
}

}  // namespace

bool read_resolved(Link& link, std::span<std::byte> to) {
  for (const DmaRange& range : link.ranges) {
    if (!link.services.dma().read(range.address, to.first(range.bytes))) {
      return false;
    }
    to = to.subspan(range.bytes);
  }
  return true;
}

bool write_resolved(Link& link, std::span<const std::byte> from) {
  for (const DmaRange& range : link.ranges) {
    if (!link.services.dma().write(range.address, from.first(range.bytes))) {
      return false;
    }
    from = from.subspan(range.bytes);
  }
  return true;
}

bool read_key(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t va, Access access,
              std::span<std::byte> to) {
  return to.empty() || (resolve(link, key, user, va, to.size(), access) && read_resolved(link, to));
}

bool write_key(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t va, Access access,
               std::span<const std::byte> from) {
  return from.empty() || (resolve(link, key, user, va, from.size(), access) && write_resolved(link, from));
}

bool gather(Link& link, const KeyUser& user, std::span<const DataPiece> list, std::span<const std::byte> inline_data,
            std::uint64_t offset, std::span<std::byte> to) {
  return for_each_part(
      list, offset, to.size(), [&](const DataPiece& piece, std::uint64_t in_piece, std::size_t at, std::size_t bytes) {
        if (piece.is_inline) {
          std::memcpy(&to[at], &inline_data[piece.address + in_piece], bytes);
          return true;
        }
        if (piece.is_physical) {
          return link.services.dma().read(piece.address + in_piece, to.subspan(at, bytes));
        }
        return read_key(link, piece.lkey, user, piece.address + in_piece, Access::kLocalRead, to.subspan(at, bytes));
      });
}

bool scatter(Link& link, const KeyUser& user, std::span<const DataPiece> list, std::uint64_t offset,
             std::span<const std::byte> from) {
  return for_each_part(list, offset, from.size(),
                       [&](const DataPiece& piece, std::uint64_t in_piece, std::size_t at, std::size_t bytes) {
                         if (piece.is_physical) {
                           return link.services.dma().write(piece.address + in_piece, from.subspan(at, bytes));
                         }
                         return write_key(link, piece.lkey, user, piece.address + in_piece, Access::kLocalWrite,
                                          from.subspan(at, bytes));
                       });
}

bool ends_accessible(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes,
                     Access access) {
  if (bytes == 0) {
    return true;
  }
  return va + (bytes - 1) >= va && resolve(link, key, user, va, 1, access) &&
         (bytes == 1 || resolve(link, key, user, va + bytes - 1, 1, access));
}

bool list_accessible(Link& link, const KeyUser& user, std::span<const DataPiece> list, Access access) {
  return std::all_of(list.begin(), list.end(), [&](const DataPiece& piece) {
    return piece.is_inline || piece.is_physical ||
           ends_accessible(link, piece.lkey, user, piece.address, piece.bytes, access);
  });
}

}  // namespace softhca::hca
