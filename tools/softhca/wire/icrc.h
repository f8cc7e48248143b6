// The invariant CRC at the end of a RoCE v2 packet.
//
// Source: InfiniBand Architecture Specification, volume 1, 7.8.1, and annex A17 (RoCE v2) for the fields masked: the
// CRC-32 of Ethernet over 8 bytes of ones in place of an LRH, the IPv4 header with type of service, TTL and checksum as
// ones, the UDP header with its checksum as ones, and the packet with the BTH's fifth byte (FECN, BECN, reserved) as
// ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/softhca/wire/ip.h"

namespace softhca::wire {

inline constexpr std::size_t kIcrcBytes = 4;

// `packet` is BTH .. padding, at least a BTH long, sent with the headers of ipv4_header() and udp_header().
// Thread-safe.
std::uint32_t icrc(const Flow& flow, std::span<const std::byte> packet);

// On the wire the ICRC's least significant byte comes first.
void store_icrc(std::byte* to, std::uint32_t value);
std::uint32_t load_icrc(const std::byte* from);

}  // namespace softhca::wire
