// Steering of received packets: flow tables, their groups and entries.
//
// Layouts: fte_match_set_lyr_2_4, flow_context, dest_format_struct, create_flow_table_in, set_flow_table_root_in,
// create_flow_group_in, set_fte_in, delete_fte_in, destroy_flow_table_in, destroy_flow_group_in of
// <linux/mlx5/mlx5_ifc.h>. Output of all of them: ObjectOut. Entries of a table are looked at in the order of their
// indices; a group is a range of indices whose entries look at the same bits of a packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// Table type: what the port receives.
inline constexpr std::uint8_t kFlowTableNicReceive = 0;
// create_flow_group_in.match_criteria_enable.
inline constexpr std::uint8_t kMatchOuterHeaders = 1;
// flow_context.action.
inline constexpr std::uint16_t kFlowDrop = 0x2, kFlowForward = 0x4, kFlowCount = 0x8;
// dest_format_struct.destination_type.
inline constexpr std::uint8_t kFlowToTable = 1, kFlowToTir = 2;
// set_fte_in.op_mod, and modify_enable_mask of a change.
inline constexpr std::uint16_t kSetNewEntry = 0, kModifyEntry = 1;
inline constexpr std::uint8_t kModifyDestinations = 1 << 2;

// A packet's headers, or which of their bits matter (fte_match_set_lyr_2_4).
struct MatchHeaders {
  std::array<std::uint8_t, 6> smac{};
  std::uint16_t ethertype{};  // behind VLAN tags
  std::array<std::uint8_t, 6> dmac{};
  std::uint8_t first_prio{};
  bool first_cfi{};
  std::uint16_t first_vid{};
  std::uint8_t ip_protocol{};
  std::uint8_t ip_dscp{};
  std::uint8_t ip_ecn{};
  bool cvlan_tag{};
  bool svlan_tag{};
  bool frag{};
  std::uint8_t ip_version{};
  std::uint16_t tcp_flags{};
  std::uint16_t tcp_sport{};
  std::uint16_t tcp_dport{};
  std::uint8_t ttl_hoplimit{};
  std::uint16_t udp_sport{};
  std::uint16_t udp_dport{};
  std::array<std::uint8_t, 16> src_ip{};  // an IPv4 address is the last four bytes
  std::array<std::uint8_t, 16> dst_ip{};
  static constexpr std::string_view kName = "headers";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields = Fields{Field{"smac", &MatchHeaders::smac, bytes(0x0, 6)},
                                         Field{"ethertype", &MatchHeaders::ethertype, bytes(0x6, 2)},
                                         Field{"dmac", &MatchHeaders::dmac, bytes(0x8, 6)},
                                         Field{"first_prio", &MatchHeaders::first_prio, bits(0xc, 15, 13)},
                                         Field{"first_cfi", &MatchHeaders::first_cfi, bits(0xc, 12, 12)},
                                         Field{"first_vid", &MatchHeaders::first_vid, bits(0xc, 11, 0)},
                                         Field{"ip_protocol", &MatchHeaders::ip_protocol, bits(0x10, 31, 24)},
                                         Field{"ip_dscp", &MatchHeaders::ip_dscp, bits(0x10, 23, 18)},
                                         Field{"ip_ecn", &MatchHeaders::ip_ecn, bits(0x10, 17, 16)},
                                         Field{"cvlan_tag", &MatchHeaders::cvlan_tag, bits(0x10, 15, 15)},
                                         Field{"svlan_tag", &MatchHeaders::svlan_tag, bits(0x10, 14, 14)},
                                         Field{"frag", &MatchHeaders::frag, bits(0x10, 13, 13)},
                                         Field{"ip_version", &MatchHeaders::ip_version, bits(0x10, 12, 9)},
                                         Field{"tcp_flags", &MatchHeaders::tcp_flags, bits(0x10, 8, 0)},
                                         Field{"tcp_sport", &MatchHeaders::tcp_sport, bytes(0x14, 2)},
                                         Field{"tcp_dport", &MatchHeaders::tcp_dport, bytes(0x16, 2)},
                                         Field{"ttl_hoplimit", &MatchHeaders::ttl_hoplimit, bits(0x18, 7, 0)},
                                         Field{"udp_sport", &MatchHeaders::udp_sport, bytes(0x1c, 2)},
                                         Field{"udp_dport", &MatchHeaders::udp_dport, bytes(0x1e, 2)},
                                         Field{"src_ip", &MatchHeaders::src_ip, bytes(0x20, 16)},
                                         Field{"dst_ip", &MatchHeaders::dst_ip, bytes(0x30, 16)}};
};
static_assert(layout_is_valid<MatchHeaders>());

struct CreateFlowTableIn {
  InputHeader header{};
  std::uint8_t table_type{};
  std::uint8_t level{};
  std::uint8_t log_size{};
  static constexpr std::string_view kName = "create_flow_table_in";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields = Fields{Field{"header", &CreateFlowTableIn::header, bytes(0x0, 8)},
                                         Field{"table_type", &CreateFlowTableIn::table_type, bits(0x10, 31, 24)},
                                         Field{"level", &CreateFlowTableIn::level, bits(0x18, 23, 16)},
                                         Field{"log_size", &CreateFlowTableIn::log_size, bits(0x18, 7, 0)}};
};
static_assert(layout_is_valid<CreateFlowTableIn>());

// Input of SET_FLOW_TABLE_ROOT, DESTROY_FLOW_TABLE, and, each with one number more, DESTROY_FLOW_GROUP and
// DELETE_FLOW_TABLE_ENTRY. A root of table 0 is none.
struct FlowTableIn {
  InputHeader header{};
  std::uint8_t table_type{};
  std::uint32_t table_id{};
  std::uint32_t group_id{};    // DESTROY_FLOW_GROUP
  std::uint32_t flow_index{};  // DELETE_FLOW_TABLE_ENTRY
  static constexpr std::string_view kName = "flow_table_in";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields = Fields{Field{"header", &FlowTableIn::header, bytes(0x0, 8)},
                                         Field{"table_type", &FlowTableIn::table_type, bits(0x10, 31, 24)},
                                         Field{"table_id", &FlowTableIn::table_id, bits(0x14, 23, 0)},
                                         Field{"group_id", &FlowTableIn::group_id, bytes(0x18, 4)},
                                         Field{"flow_index", &FlowTableIn::flow_index, bytes(0x20, 4)}};
};
static_assert(layout_is_valid<FlowTableIn>());

struct CreateFlowGroupIn {
  InputHeader header{};
  std::uint8_t table_type{};
  std::uint32_t table_id{};
  std::uint32_t start_flow_index{};
  std::uint32_t end_flow_index{};
  std::uint8_t match_criteria_enable{};
  MatchHeaders outer_headers{};  // of match_criteria
  static constexpr std::string_view kName = "create_flow_group_in";
  static constexpr std::size_t kBytes = 1024;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateFlowGroupIn::header, bytes(0x0, 8)},
             Field{"table_type", &CreateFlowGroupIn::table_type, bits(0x10, 31, 24)},
             Field{"table_id", &CreateFlowGroupIn::table_id, bits(0x14, 23, 0)},
             Field{"start_flow_index", &CreateFlowGroupIn::start_flow_index, bytes(0x1c, 4)},
             Field{"end_flow_index", &CreateFlowGroupIn::end_flow_index, bytes(0x24, 4)},
             Field{"match_criteria_enable", &CreateFlowGroupIn::match_criteria_enable, bits(0x3c, 7, 0)},
             Field{"outer_headers", &CreateFlowGroupIn::outer_headers, bytes(0x40, 64)}};
};
static_assert(layout_is_valid<CreateFlowGroupIn>());
static_assert(offset_bits_of(&CreateFlowGroupIn::match_criteria_enable) == 0x1f8);

// Where packets that match go: `destination_list_size` FlowDestinations at kFlowDestinationsOffset, and behind them
// `flow_counter_list_size` numbers of counters, in the first four of 8 bytes each.
struct SetFlowEntryIn {
  InputHeader header{};
  std::uint8_t table_type{};
  std::uint32_t table_id{};
  std::uint8_t modify_enable_mask{};
  std::uint32_t flow_index{};
  std::uint32_t group_id{};
  std::uint32_t flow_tag{};
  std::uint16_t action{};
  std::uint32_t destination_list_size{};
  std::uint32_t flow_counter_list_size{};
  MatchHeaders outer_headers{};  // of match_value
  static constexpr std::string_view kName = "set_fte_in";
  static constexpr std::size_t kBytes = 0x340;
  static constexpr auto kFields =
      Fields{Field{"header", &SetFlowEntryIn::header, bytes(0x0, 8)},
             Field{"table_type", &SetFlowEntryIn::table_type, bits(0x10, 31, 24)},
             Field{"table_id", &SetFlowEntryIn::table_id, bits(0x14, 23, 0)},
             Field{"modify_enable_mask", &SetFlowEntryIn::modify_enable_mask, bits(0x18, 7, 0)},
             Field{"flow_index", &SetFlowEntryIn::flow_index, bytes(0x20, 4)},
             Field{"group_id", &SetFlowEntryIn::group_id, bytes(0x44, 4)},
             Field{"flow_tag", &SetFlowEntryIn::flow_tag, bits(0x48, 23, 0)},
             Field{"action", &SetFlowEntryIn::action, bits(0x4c, 15, 0)},
             Field{"destination_list_size", &SetFlowEntryIn::destination_list_size, bits(0x50, 23, 0)},
             Field{"flow_counter_list_size", &SetFlowEntryIn::flow_counter_list_size, bits(0x54, 23, 0)},
             Field{"outer_headers", &SetFlowEntryIn::outer_headers, bytes(0x80, 64)}};
};
static_assert(layout_is_valid<SetFlowEntryIn>());
static_assert(offset_bits_of(&SetFlowEntryIn::outer_headers) == 0x200 + 0x200);
inline constexpr std::size_t kFlowDestinationsOffset = 0x340;

struct FlowDestination {
  std::uint8_t type{};
  std::uint32_t id{};
  static constexpr std::string_view kName = "destination";
  static constexpr std::size_t kBytes = 8;
  static constexpr auto kFields = Fields{Field{"type", &FlowDestination::type, bits(0x0, 31, 24)},
                                         Field{"id", &FlowDestination::id, bits(0x0, 23, 0)}};
};
static_assert(layout_is_valid<FlowDestination>());

}  // namespace umlx5::wqe::prm
