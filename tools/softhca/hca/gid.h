// GIDs of RoCE v2 over IPv4.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "tools/softhca/wire/ip.h"

namespace softhca::hca {

// The address a.b.c.d of ::ffff:a.b.c.d; none for any other GID and for 0.0.0.0.
constexpr std::optional<wire::Ipv4> ipv4_of(const std::array<std::uint8_t, 16>& gid) {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const wire::Ipv4 address{std::uint32_t{gid[12]} << 24 | std::uint32_t{gid[13]} << 16 | std::uint32_t{gid[14]} << 8 |
                           gid[15]};
  return std::equal(kMapped.begin(), kMapped.end(), gid.begin()) && address.value != 0 ? std::optional(address)
                                                                                       : std::nullopt;
}

}  // namespace softhca::hca
