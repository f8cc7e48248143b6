#include "tools/softhca/hca/mkey.h"

#include <algorithm>
#include <limits>

namespace softhca::hca {
namespace {

bool has_right(const Mkey& mkey, Access access) {
  switch (access) {
    case Access::kLocalRead:
      return mkey.local_read;
    case Access::kLocalWrite:
      return mkey.local_write;
    case Access::kRemoteRead:
      return mkey.remote_read;
    case Access::kRemoteWrite:
      return mkey.remote_write;
    case Access::kRemoteAtomic:
      return mkey.remote_atomic;
  }
  return false;
}

}  // namespace

MkeyFault Mkey::check(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes,
                      Access access) const {
  if (free || tag != (key & 0xff)) {
    return MkeyFault::kNoSuchKey;
  }
  if (pdn != user.pdn) {
    return MkeyFault::kWrongPd;
  }
  if (qpn != kAnyQp && qpn != user.qpn) {
    return MkeyFault::kWrongQp;
  }
  if (!has_right(*this, access)) {
    return MkeyFault::kNoRight;
  }
  if (bytes - 1 > std::numeric_limits<std::uint64_t>::max() - va) {
    return MkeyFault::kOutOfBounds;
  }
  if (!whole_address_space && (va < start || va - start > length_bytes || bytes > length_bytes - (va - start))) {
    return MkeyFault::kOutOfBounds;
  }
  return MkeyFault::kNone;
}

MkeyFault Mkey::translate(std::uint64_t va, std::uint64_t bytes, std::vector<DmaRange>& ranges) const {
  if (translation == MkeyTranslation::kPhysical) {
    if (base == 0 && va + bytes > kBarAddress) {
      return MkeyFault::kNotMapped;  // no memory is up there
    }
    append_range(base + va, bytes, ranges);
    return MkeyFault::kNone;
  }
  const std::uint64_t page_bytes = std::uint64_t{1} << log_page_bytes;
  std::uint64_t position = (start & (page_bytes - 1)) + (va - start);
  while (bytes != 0) {
    const std::uint64_t page = position >> log_page_bytes;
    const std::uint64_t offset = position & (page_bytes - 1);
    if (page >= pages.size()) {
      return MkeyFault::kNotMapped;
    }
    const std::uint64_t part = std::min(bytes, page_bytes - offset);
    append_range(pages[page] + offset, part, ranges);
    position += part;
    bytes -= part;
  }
  return MkeyFault::kNone;
}

void append_range(std::uint64_t address, std::uint64_t bytes, std::vector<DmaRange>& ranges) {
  constexpr std::uint64_t kMost = std::uint32_t{1} << 31;
  while (bytes != 0) {
    if (!ranges.empty() && ranges.back().bytes < kMost && ranges.back().address + ranges.back().bytes == address) {
      const std::uint64_t part = std::min(bytes, kMost - ranges.back().bytes);
      ranges.back().bytes += static_cast<std::uint32_t>(part);
      address += part;
      bytes -= part;
    } else {
      const std::uint64_t part = std::min(bytes, kMost);
      ranges.push_back({address, static_cast<std::uint32_t>(part)});
      address += part;
      bytes -= part;
    }
  }
}

}  // namespace softhca::hca
