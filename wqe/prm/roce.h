// The RoCE address (GID) table: SET_ROCE_ADDRESS and QUERY_ROCE_ADDRESS.
//
// Layouts: roce_addr_layout, set_roce_address_in, query_roce_address_in/out of <linux/mlx5/mlx5_ifc.h>; codes of
// <linux/mlx5/device.h>.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// RoceAddress.roce_version and roce_l3_type.
inline constexpr std::uint8_t kRoceAddressV1 = 0, kRoceAddressV2 = 2;
inline constexpr std::uint8_t kRoceAddressIpv4 = 0, kRoceAddressIpv6 = 1;

// One entry; all zeros: empty.
struct RoceAddress {
  std::array<std::uint8_t, 16> source_l3_address{};  // the GID; for RoCE v2 over IPv4 its last 4 bytes, zeros before
  bool vlan_valid{};
  std::uint16_t vlan_id{};
  std::array<std::uint8_t, 6> source_mac{};
  std::uint8_t roce_l3_type{};
  std::uint8_t roce_version{};
  static constexpr std::string_view kName = "roce_address";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields = Fields{Field{"source_l3_address", &RoceAddress::source_l3_address, bytes(0x0, 16)},
                                         Field{"vlan_valid", &RoceAddress::vlan_valid, bits(0x10, 28, 28)},
                                         Field{"vlan_id", &RoceAddress::vlan_id, bits(0x10, 27, 16)},
                                         Field{"source_mac", &RoceAddress::source_mac, bytes(0x12, 6)},
                                         Field{"roce_l3_type", &RoceAddress::roce_l3_type, bits(0x18, 11, 8)},
                                         Field{"roce_version", &RoceAddress::roce_version, bits(0x18, 7, 0)}};
};
static_assert(layout_is_valid<RoceAddress>());
static_assert(offset_bits_of(&RoceAddress::source_mac) == 0x12 * 8);
static_assert(offset_bits_of(&RoceAddress::roce_l3_type) == 0x18 * 8 + 20);

// Input of SET_ROCE_ADDRESS (output: ObjectOut, empty).
struct SetRoceAddressIn {
  InputHeader header{};
  std::uint16_t roce_address_index{};
  std::uint8_t vhca_port_num{};
  RoceAddress roce_address{};
  static constexpr std::string_view kName = "set_roce_address_in";
  static constexpr std::size_t kBytes = 48;
  static constexpr auto kFields =
      Fields{Field{"header", &SetRoceAddressIn::header, bytes(0x0, 8)},
             Field{"roce_address_index", &SetRoceAddressIn::roce_address_index, bits(0x8, 31, 16), Format::kDecimal},
             Field{"vhca_port_num", &SetRoceAddressIn::vhca_port_num, bits(0x8, 3, 0), Format::kDecimal},
             Field{"roce_address", &SetRoceAddressIn::roce_address, bytes(0x10, 32)}};
};
static_assert(layout_is_valid<SetRoceAddressIn>());
static_assert(offset_bits_of(&SetRoceAddressIn::roce_address_index) == 0x8 * 8);
static_assert(offset_bits_of(&SetRoceAddressIn::roce_address) == 0x10 * 8);

// Input of QUERY_ROCE_ADDRESS.
struct QueryRoceAddressIn {
  InputHeader header{};
  std::uint16_t roce_address_index{};
  std::uint8_t vhca_port_num{};
  static constexpr std::string_view kName = "query_roce_address_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryRoceAddressIn::header, bytes(0x0, 8)},
             Field{"roce_address_index", &QueryRoceAddressIn::roce_address_index, bits(0x8, 31, 16), Format::kDecimal},
             Field{"vhca_port_num", &QueryRoceAddressIn::vhca_port_num, bits(0x8, 3, 0), Format::kDecimal}};
};
static_assert(layout_is_valid<QueryRoceAddressIn>());

// Output of QUERY_ROCE_ADDRESS.
struct QueryRoceAddressOut {
  OutputHeader header{};
  RoceAddress roce_address{};
  static constexpr std::string_view kName = "query_roce_address_out";
  static constexpr std::size_t kBytes = 48;
  static constexpr auto kFields = Fields{Field{"header", &QueryRoceAddressOut::header, bytes(0x0, 8)},
                                         Field{"roce_address", &QueryRoceAddressOut::roce_address, bytes(0x10, 32)}};
};
static_assert(layout_is_valid<QueryRoceAddressOut>());
static_assert(offset_bits_of(&QueryRoceAddressOut::roce_address) == 0x10 * 8);

}  // namespace umlx5::wqe::prm
