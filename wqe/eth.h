// The Ethernet segment of raw-packet and TSO sends; the packet's first bytes are inlined in it, or a VLAN tag that the
// device inserts. Source: mlx5dv.h struct mlx5_wqe_eth_seg; for the tag <linux/mlx5/qp.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/units.h"

namespace umlx5::wqe {

// Everything but the inlined header, whose bytes begin at kInlineOffset and may go on past this structure.
struct EthernetSegment {
  static constexpr std::size_t kInlineOffset = 14;

  bool l3_checksum{};
  bool l4_checksum{};
  std::uint16_t mss_bytes{};  // TSO: payload bytes of each packet
  bool insert_vlan{};         // the tag's two bytes of TCI are inlined, and no header
  std::uint16_t inline_header_bytes{};

  static constexpr std::string_view kName = "eth";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"l4_csum", &EthernetSegment::l4_checksum, bits(4, 31, 31)},
             Field{"l3_csum", &EthernetSegment::l3_checksum, bits(4, 30, 30)},
             Field{"mss", &EthernetSegment::mss_bytes, bytes(6, 2), Format::kDecimal},
             Field{"insert_vlan", &EthernetSegment::insert_vlan, bits(12, 31, 31)},
             Field{"inline_header", &EthernetSegment::inline_header_bytes, bits(12, 30, 16), Format::kDecimal}};

  constexpr std::size_t inlined_bytes() const { return insert_vlan ? 2 : inline_header_bytes; }
  // Octowords of the segment with its inlined bytes; two fit in the first.
  constexpr std::size_t wire_octowords() const {
    return inlined_bytes() <= kBytes - kInlineOffset ? 1 : octowords_for(kInlineOffset + inlined_bytes());
  }
};
static_assert(layout_is_valid<EthernetSegment>());
static_assert(offset_bits_of(&EthernetSegment::insert_vlan) == 12 * 8);

}  // namespace umlx5::wqe
