// The address vector of datagram (UD) and dynamically connected (DC) sends.
// Source: mlx5dv.h struct mlx5_wqe_av; the 16-byte compact form: UCX ib_mlx5.h (uct_ib_mlx5_base_av_t).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

struct AddressVector {
  // Length on the wire when `extended` is clear: the structure ends before the MAC address.
  static constexpr std::size_t kCompactBytes = 16;

  std::uint64_t key{};  // DC: access key. UD: Q_Key in the upper half; see of_qkey().
  bool extended = true;
  std::uint32_t destination_qpn{};  // 24 bits; QPN, or DCT number for DC
  std::uint8_t stat_rate{};         // device's code, 4 bits
  std::uint8_t sl{};                // 4 bits; on Ethernet (SL & 7) << 1
  bool force_loopback{};
  std::uint8_t source_path_bits{};           // 7 bits
  std::uint16_t remote_lid_or_udp_sport{};   // IB: LID. RoCE v2: UDP source port
  std::array<std::uint8_t, 6> remote_mac{};  // RoCE
  std::uint8_t traffic_class{};
  std::uint8_t hop_limit{};
  bool grh_present{};  // IB only; Ethernet leaves it clear although it sends a GRH
  std::uint8_t sgid_index{};
  std::uint32_t flow_label{};  // 20 bits
  std::array<std::uint8_t, 16> remote_gid{};

  static constexpr std::uint64_t of_qkey(std::uint32_t qkey) { return std::uint64_t{qkey} << 32; }
  constexpr std::uint32_t qkey() const { return static_cast<std::uint32_t>(key >> 32); }
  constexpr std::size_t wire_bytes() const { return extended ? kBytes : kCompactBytes; }

  static constexpr std::string_view kName = "av";
  static constexpr std::size_t kBytes = 48;
  static constexpr auto kFields =
      Fields{Field{"key", &AddressVector::key, bytes(0, 8)},
             Field{"extended", &AddressVector::extended, bits(8, 31, 31)},
             Field{"dqpn", &AddressVector::destination_qpn, bits(8, 23, 0)},
             Field{"stat_rate", &AddressVector::stat_rate, bits(12, 31, 28), Format::kDecimal},
             Field{"sl", &AddressVector::sl, bits(12, 27, 24), Format::kDecimal},
             Field{"force_loopback", &AddressVector::force_loopback, bits(12, 23, 23)},
             Field{"path_bits", &AddressVector::source_path_bits, bits(12, 22, 16)},
             Field{"rlid_udp_sport", &AddressVector::remote_lid_or_udp_sport, bits(12, 15, 0)},
             Field{"rmac", &AddressVector::remote_mac, bytes(20, 6)},
             Field{"tclass", &AddressVector::traffic_class, bytes(26, 1)},
             Field{"hop_limit", &AddressVector::hop_limit, bytes(27, 1), Format::kDecimal},
             Field{"grh", &AddressVector::grh_present, bits(28, 30, 30)},
             Field{"sgid_index", &AddressVector::sgid_index, bits(28, 27, 20), Format::kDecimal},
             Field{"flow_label", &AddressVector::flow_label, bits(28, 19, 0)},
             Field{"rgid", &AddressVector::remote_gid, bytes(32, 16)}};
};
static_assert(layout_is_valid<AddressVector>());
static_assert(offset_bits_of(&AddressVector::remote_lid_or_udp_sport) == 14 * 8);
static_assert(offset_bits_of(&AddressVector::traffic_class) == 26 * 8);

}  // namespace umlx5::wqe
