// GIDs of RoCE v2 over IPv4, and where those of multicast groups lead.
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

// The address to which datagrams for a multicast GID go; none for any other GID. ::ffff:a.b.c.d stands for itself.
// Those of IPv6 have no room in IPv4 and share addresses: ff0e::ffff:a.b.c.d goes to a.b.c.d, as others with the same
// last 28 bits.
constexpr std::optional<wire::Ipv4> group_of(const std::array<std::uint8_t, 16>& gid) {
  const auto mapped = ipv4_of(gid);
  if (mapped || gid[0] != 0xff) {
    return mapped && mapped->is_multicast() ? mapped : std::nullopt;
  }
  const std::uint32_t last =
      std::uint32_t{gid[12]} << 24 | std::uint32_t{gid[13]} << 16 | std::uint32_t{gid[14]} << 8 | gid[15];
  return wire::Ipv4{0xe0000000 | (last & 0x0fffffff)};
}

}  // namespace softhca::hca
