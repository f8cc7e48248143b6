// Where raw packets come from and go to: transport interface send (TIS) and receive (TIR), tables of receive queues.
//
// Layouts: tisc, tirc, rx_hash_field_select, rqtc, create_tis_in, create_tir_in, create_rqt_in, modify_rqt_in of
// <linux/mlx5/mlx5_ifc.h>. Output of all of them: ObjectOut.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// tirc.disp_type: one queue, or the queue that the packet's hash chooses of a table.
inline constexpr std::uint8_t kTirDirect = 0, kTirIndirect = 1;
// tirc.rx_hash_fn.
inline constexpr std::uint8_t kRxHashNone = 0, kRxHashInvertedXor8 = 1, kRxHashToeplitz = 2;
// tirc.self_lb_block. The name says the contrary of what drivers set the bits for: packets that a send queue of the
// TIR's own transport domain has sent are received too.
inline constexpr std::uint8_t kSelfLoopbackUnicast = 1, kSelfLoopbackMulticast = 2;
// rx_hash_field_select.
inline constexpr bool kHashIpv4 = false, kHashIpv6 = true, kHashTcp = false, kHashUdp = true;
inline constexpr std::uint32_t kHashSourceIp = 1 << 0, kHashDestinationIp = 1 << 1, kHashSourcePort = 1 << 2,
                               kHashDestinationPort = 1 << 3;

struct CreateTisIn {
  InputHeader header{};
  std::uint8_t prio{};
  std::uint32_t transport_domain{};
  std::uint32_t underlay_qpn{};
  std::uint32_t pd{};
  static constexpr std::string_view kName = "create_tis_in";
  static constexpr std::size_t kBytes = 192;
  static constexpr auto kFields = Fields{Field{"header", &CreateTisIn::header, bytes(0x0, 8)},
                                         Field{"prio", &CreateTisIn::prio, bits(0x20, 19, 16)},
                                         Field{"transport_domain", &CreateTisIn::transport_domain, bits(0x44, 23, 0)},
                                         Field{"underlay_qpn", &CreateTisIn::underlay_qpn, bits(0x48, 23, 0)},
                                         Field{"pd", &CreateTisIn::pd, bits(0x4c, 23, 0)}};
};
static_assert(layout_is_valid<CreateTisIn>());
static_assert(offset_bits_of(&CreateTisIn::transport_domain) == 0x100 + 0x120 + 8);

// Which fields of a packet are hashed.
struct RxHashFieldSelect {
  bool l3_prot_type{};  // kHashIpv4, kHashIpv6
  bool l4_prot_type{};  // kHashTcp, kHashUdp
  std::uint32_t selected_fields{};
  static constexpr std::string_view kName = "rx_hash_field_select";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields =
      Fields{Field{"l3_prot_type", &RxHashFieldSelect::l3_prot_type, bits(0x0, 31, 31)},
             Field{"l4_prot_type", &RxHashFieldSelect::l4_prot_type, bits(0x0, 30, 30)},
             Field{"selected_fields", &RxHashFieldSelect::selected_fields, bits(0x0, 29, 0)}};
};
static_assert(layout_is_valid<RxHashFieldSelect>());

struct Tirc {
  std::uint8_t disp_type{};
  std::uint8_t packet_merge_mask{};
  std::uint32_t inline_rqn{};
  bool rx_hash_symmetric{};
  bool tunneled_offload_en{};
  std::uint32_t indirect_table{};
  std::uint8_t rx_hash_fn{};
  std::uint8_t self_lb_block{};
  std::uint32_t transport_domain{};
  std::array<std::uint8_t, 40> rx_hash_toeplitz_key{};
  RxHashFieldSelect rx_hash_field_selector_outer{};
  RxHashFieldSelect rx_hash_field_selector_inner{};
  static constexpr std::string_view kName = "tirc";
  static constexpr std::size_t kBytes = 240;
  static constexpr auto kFields =
      Fields{Field{"disp_type", &Tirc::disp_type, bits(0x4, 31, 28)},
             Field{"packet_merge_mask", &Tirc::packet_merge_mask, bits(0x10, 11, 8)},
             Field{"inline_rqn", &Tirc::inline_rqn, bits(0x1c, 23, 0)},
             Field{"rx_hash_symmetric", &Tirc::rx_hash_symmetric, bits(0x20, 31, 31)},
             Field{"tunneled_offload_en", &Tirc::tunneled_offload_en, bits(0x20, 29, 29)},
             Field{"indirect_table", &Tirc::indirect_table, bits(0x20, 23, 0)},
             Field{"rx_hash_fn", &Tirc::rx_hash_fn, bits(0x24, 31, 28)},
             Field{"self_lb_block", &Tirc::self_lb_block, bits(0x24, 25, 24)},
             Field{"transport_domain", &Tirc::transport_domain, bits(0x24, 23, 0)},
             Field{"rx_hash_toeplitz_key", &Tirc::rx_hash_toeplitz_key, bytes(0x28, 40)},
             Field{"rx_hash_field_selector_outer", &Tirc::rx_hash_field_selector_outer, bytes(0x50, 4)},
             Field{"rx_hash_field_selector_inner", &Tirc::rx_hash_field_selector_inner, bytes(0x54, 4)}};
};
static_assert(layout_is_valid<Tirc>());
static_assert(offset_bits_of(&Tirc::inline_rqn) == 0xe8);
static_assert(offset_bits_of(&Tirc::self_lb_block) == 0x126);
static_assert(offset_bits_of(&Tirc::rx_hash_field_selector_outer) == 0x140 + 40 * 8);

struct CreateTirIn {
  InputHeader header{};
  Tirc tirc{};
  static constexpr std::string_view kName = "create_tir_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateTirIn::header, bytes(0x0, 8)}, Field{"tirc", &CreateTirIn::tirc, bytes(0x20, 240)}};
};
static_assert(layout_is_valid<CreateTirIn>());

// Receive queue table. The numbers of the queues follow at kRqListOffset, 4 bytes each.
struct CreateRqtIn {
  InputHeader header{};
  std::uint16_t rqt_max_size{};
  std::uint16_t rqt_actual_size{};
  static constexpr std::string_view kName = "create_rqt_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateRqtIn::header, bytes(0x0, 8)},
             Field{"rqt_max_size", &CreateRqtIn::rqt_max_size, bits(0x34, 15, 0), Format::kDecimal},
             Field{"rqt_actual_size", &CreateRqtIn::rqt_actual_size, bits(0x38, 15, 0), Format::kDecimal}};
};
static_assert(layout_is_valid<CreateRqtIn>());
static_assert(offset_bits_of(&CreateRqtIn::rqt_max_size) == 0x100 + 0xb0);
inline constexpr std::size_t kRqListOffset = 0x110;

}  // namespace umlx5::wqe::prm
