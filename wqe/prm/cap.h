// Capabilities and identity: QUERY_HCA_CAP, SET_HCA_CAP, QUERY_ADAPTER.
//
// Layouts: query_hca_cap_in/out, set_hca_cap_in, cmd_hca_cap, atomic_caps, roce_cap, odp_cap, query_adapter_out of
// <linux/mlx5/mlx5_ifc.h>. A bit that a structure below does not name is one that this code neither sets nor asks for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// Capability groups: op_mod of QUERY_HCA_CAP is group << 1 | (0 maximum, 1 current), of SET_HCA_CAP group << 1.
enum class CapabilityGroup : std::uint16_t {
  kGeneral = 0x00,
  kEthernetOffloads = 0x01,
  kOdp = 0x02,
  kAtomic = 0x03,
  kRoce = 0x04,
  kIpoibOffloads = 0x05,
  kIpoibEnhancedOffloads = 0x06,
  kFlowTable = 0x07,
  kEswitchFlowTable = 0x08,
  kEswitch = 0x09,
  kVectorCalc = 0x0b,
  kQos = 0x0c,
  kDebug = 0x0d,
  kDeviceMemory = 0x0f,
  kTls = 0x11,
  kVdpaEmulation = 0x13,
  kDeviceEvent = 0x14,
  kIpsec = 0x15,
  kShampo = 0x1d,
  kMacsec = 0x1f,
  kGeneral2 = 0x20,
  kPortSelection = 0x25,
  kAdvVirtualization = 0x26,
};
std::string_view to_string(CapabilityGroup group);

// The capability structure of any group: bytes of QUERY_HCA_CAP's output from kCapabilityOffset on.
inline constexpr std::size_t kCapabilityOffset = 0x10, kCapabilityBytes = 0x1000;

// GeneralCapabilities.port_type.
inline constexpr std::uint8_t kPortTypeInfiniband = 0, kPortTypeEthernet = 1;
// GeneralCapabilities.umr_fence.
inline constexpr std::uint8_t kUmrFenceStrong = 0, kUmrFenceSmall = 1, kUmrFenceNone = 2;
// AtomicCapabilities.atomic_operations; a size of 2^n bytes is bit n of atomic_size_qp.
inline constexpr std::uint16_t kAtomicSwap = 1 << 0, kAtomicCompareSwap = 1 << 1, kAtomicFetchAdd = 1 << 2,
                               kAtomicMaskedCompareSwap = 1 << 3, kAtomicMaskedFetchAdd = 1 << 4;
// RoceCapabilities.roce_version: bit n is version n (0: v1, 2: v2). l3_type: bits 1 IPv4, 2 IPv6.
inline constexpr std::uint8_t kRoceVersion1 = 1 << 0, kRoceVersion2 = 1 << 2;
inline constexpr std::uint8_t kRoceL3Ipv4AndIpv6 = 6;

// Input of QUERY_HCA_CAP. Output: OutputHeader and the group's structure at kCapabilityOffset.
struct QueryHcaCapIn {
  InputHeader header{};
  bool other_function{};
  std::uint16_t function_id{};
  static constexpr std::string_view kName = "query_hca_cap_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"header", &QueryHcaCapIn::header, bytes(0x0, 8)},
                                             Field{"other_function", &QueryHcaCapIn::other_function, bits(0x8, 31, 31)},
                                             Field{"function_id", &QueryHcaCapIn::function_id, bits(0x8, 15, 0)}};
};
static_assert(layout_is_valid<QueryHcaCapIn>());

// Input of SET_HCA_CAP, general group only: the capabilities wanted follow at kCapabilityOffset.
struct SetHcaCapIn {
  InputHeader header{};
  bool other_function{};
  std::uint16_t function_id{};
  static constexpr std::string_view kName = "set_hca_cap_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"header", &SetHcaCapIn::header, bytes(0x0, 8)},
                                             Field{"other_function", &SetHcaCapIn::other_function, bits(0x8, 31, 31)},
                                             Field{"function_id", &SetHcaCapIn::function_id, bits(0x8, 15, 0)}};
};
static_assert(layout_is_valid<SetHcaCapIn>());

// General capabilities (cmd_hca_cap).
struct GeneralCapabilities {
  bool hca_cap_2{};
  std::uint16_t vhca_id{};
  std::uint8_t log_max_srq_sz{};
  std::uint8_t log_max_qp_sz{};
  bool event_cap{};
  std::uint8_t log_max_qp{};
  bool ece_support{};
  std::uint8_t log_max_srq{};
  std::uint8_t max_sgl_for_optimized_performance{};
  std::uint8_t log_max_cq_sz{};
  bool relaxed_ordering_write_umr{};
  bool relaxed_ordering_read_umr{};
  std::uint8_t log_max_cq{};
  std::uint8_t log_max_eq_sz{};
  bool relaxed_ordering_write{};
  bool relaxed_ordering_read{};
  std::uint8_t log_max_mkey{};
  bool dump_fill_mkey{};
  bool fast_teardown{};
  std::uint8_t log_max_eq{};
  std::uint8_t max_indirection{};
  bool fixed_buffer_size{};
  std::uint8_t log_max_mrw_sz{};
  bool force_teardown{};
  std::uint8_t log_max_bsf_list_size{};
  bool umr_extended_translation_offset{};
  bool null_mkey{};
  std::uint8_t log_max_klm_list_size{};
  std::uint8_t log_max_ra_req_dc{};
  bool eth_wqe_too_small{};
  std::uint8_t log_max_ra_res_dc{};
  bool release_all_pages{};
  bool roce_accl{};
  std::uint8_t log_max_ra_req_qp{};
  std::uint8_t log_max_ra_res_qp{};
  bool end_pad{};
  bool cc_query_allowed{};
  bool cc_modify_allowed{};
  bool start_pad{};
  bool cache_line_128byte{};
  bool rts2rts_qp_counters_set_id{};
  bool qcam_reg{};
  std::uint16_t gid_table_size{};  // code: 8 << n entries
  bool out_of_seq_cnt{};
  bool vport_counters{};
  bool retransmission_q_counters{};
  bool debug{};
  std::uint16_t max_qp_cnt{};       // q counter sets
  std::uint16_t pkey_table_size{};  // code: 128 << n entries
  bool vport_group_manager{};
  bool vhca_group_manager{};
  bool ib_virt{};
  bool eth_virt{};
  bool ets{};
  bool nic_flow_table{};
  bool eswitch_manager{};
  bool device_memory{};
  bool mcam_reg{};
  bool pcam_reg{};
  std::uint8_t local_ca_ack_delay{};
  bool port_module_event{};
  bool enhanced_error_q_counters{};
  bool ports_check{};
  std::uint8_t port_type{};
  std::uint8_t num_ports{};
  bool pps{};
  std::uint8_t log_max_msg{};
  std::uint8_t max_tc{};
  bool dcbx{};
  bool general_notification_event{};
  bool fpga{};
  std::uint16_t stat_rate_support{};
  std::uint8_t cqe_version{};
  bool compact_address_vector{};
  bool striding_rq{};
  bool ipoib_enhanced_offloads{};
  bool ipoib_basic_offloads{};
  bool repeated_block_disabled{};
  bool umr_modify_entity_size_disabled{};
  bool umr_modify_atomic_disabled{};
  bool umr_indirect_mkey_disabled{};
  std::uint8_t umr_fence{};
  bool dc_req_scat_data_cqe{};
  bool drain_sigerr{};
  std::uint8_t cmdif_checksum{};
  bool sigerr_cqe{};
  bool wq_signature{};
  bool sctr_data_cqe{};
  bool sho{};
  bool tph{};
  bool rf{};
  bool dct{};
  bool qos{};
  bool eth_net_offloads{};
  bool roce{};
  bool atomic{};
  bool cq_oi{};
  bool cq_resize{};
  bool cq_moderation{};
  bool cq_eq_remap{};
  bool pg{};  // on-demand paging
  bool block_lb_mc{};
  bool scqe_break_moderation{};
  bool cq_period_start_from_cqe{};
  bool cd{};
  bool apm{};
  bool vector_calc{};
  bool umr_ptr_rlky{};
  bool imaicl{};
  bool qp_packet_based{};
  bool qkv{};
  bool pkv{};
  bool set_deth_sqpn{};
  bool xrc{};
  bool ud{};
  bool uc{};
  bool rc{};
  bool uar_4k{};
  bool fl_rc_qp_when_roce_disabled{};
  std::uint8_t uar_sz{};  // BAR bytes 1 << n MB
  bool umem_uid_0{};
  std::uint8_t log_pg_sz{};
  bool bf{};
  bool driver_version{};
  bool pad_tx_eth_packet{};
  bool mkey_by_name{};
  std::uint8_t log_bf_reg_size{};
  std::uint16_t max_wqe_sz_sq{};  // bytes
  std::uint16_t max_wqe_sz_rq{};
  std::uint16_t max_wqe_sz_sq_dc{};
  std::uint32_t max_qp_mcg{};
  std::uint8_t log_max_mcg{};
  std::uint8_t log_max_transport_domain{};
  std::uint8_t log_max_pd{};
  std::uint8_t log_max_xrcd{};
  std::uint8_t log_max_rq{};
  std::uint8_t log_max_sq{};
  std::uint8_t log_max_tir{};
  std::uint8_t log_max_tis{};
  bool basic_cyclic_rcv_wqe{};
  std::uint8_t log_max_rmp{};
  std::uint8_t log_max_rqt{};
  std::uint8_t log_max_rqt_size{};
  std::uint8_t log_max_tis_per_sq{};
  std::uint8_t log_max_stride_sz_rq{};
  std::uint8_t log_min_stride_sz_rq{};
  std::uint8_t log_max_stride_sz_sq{};
  std::uint8_t log_min_stride_sz_sq{};
  std::uint8_t log_max_wq_sz{};
  bool nic_vport_change_event{};
  bool disable_local_lb_uc{};
  bool disable_local_lb_mc{};
  std::uint8_t log_max_vlan_list{};
  std::uint8_t log_max_current_mc_list{};
  std::uint8_t log_max_current_uc_list{};
  std::uint64_t general_obj_types{};
  std::uint8_t sq_ts_format{};
  std::uint8_t rq_ts_format{};
  std::uint8_t log_max_uctx{};
  std::uint8_t log_max_umem{};
  std::uint16_t max_num_eqs{};
  std::uint8_t log_max_l2_table{};
  std::uint16_t log_uar_page_sz{};
  std::uint32_t device_frequency_mhz{};
  std::uint32_t device_frequency_khz{};
  std::uint32_t num_of_uars_per_page{};
  std::uint8_t log_max_dci_stream_channels{};
  std::uint8_t log_max_dci_errored_streams{};
  bool mini_cqe_resp_stride_index{};
  bool cqe_128_always{};
  bool cqe_compression_128{};
  bool cqe_compression{};
  std::uint16_t cqe_compression_timeout{};
  std::uint16_t cqe_compression_max_num{};
  bool tag_matching{};
  std::uint8_t log_tag_matching_list_sz{};
  std::uint8_t log_max_xrq{};
  std::uint8_t native_port_num{};
  std::uint8_t num_vhca_ports{};
  bool sw_owner_id{};
  std::uint32_t uctx_cap{};
  static constexpr std::string_view kName = "general";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields = Fields{
      Field{"hca_cap_2", &GeneralCapabilities::hca_cap_2, bits(0x4, 31, 31)},
      Field{"vhca_id", &GeneralCapabilities::vhca_id, bits(0x4, 15, 0)},
      Field{"log_max_srq_sz", &GeneralCapabilities::log_max_srq_sz, bits(0x10, 31, 24), Format::kDecimal},
      Field{"log_max_qp_sz", &GeneralCapabilities::log_max_qp_sz, bits(0x10, 23, 16), Format::kDecimal},
      Field{"event_cap", &GeneralCapabilities::event_cap, bits(0x10, 15, 15)},
      Field{"log_max_qp", &GeneralCapabilities::log_max_qp, bits(0x10, 4, 0), Format::kDecimal},
      Field{"ece_support", &GeneralCapabilities::ece_support, bits(0x14, 28, 28)},
      Field{"log_max_srq", &GeneralCapabilities::log_max_srq, bits(0x14, 20, 16), Format::kDecimal},
      Field{"max_sgl_for_optimized_performance", &GeneralCapabilities::max_sgl_for_optimized_performance,
            bits(0x18, 31, 24), Format::kDecimal},
      Field{"log_max_cq_sz", &GeneralCapabilities::log_max_cq_sz, bits(0x18, 23, 16), Format::kDecimal},
      Field{"relaxed_ordering_write_umr", &GeneralCapabilities::relaxed_ordering_write_umr, bits(0x18, 15, 15)},
      Field{"relaxed_ordering_read_umr", &GeneralCapabilities::relaxed_ordering_read_umr, bits(0x18, 14, 14)},
      Field{"log_max_cq", &GeneralCapabilities::log_max_cq, bits(0x18, 4, 0), Format::kDecimal},
      Field{"log_max_eq_sz", &GeneralCapabilities::log_max_eq_sz, bits(0x1c, 31, 24), Format::kDecimal},
      Field{"relaxed_ordering_write", &GeneralCapabilities::relaxed_ordering_write, bits(0x1c, 23, 23)},
      Field{"relaxed_ordering_read", &GeneralCapabilities::relaxed_ordering_read, bits(0x1c, 22, 22)},
      Field{"log_max_mkey", &GeneralCapabilities::log_max_mkey, bits(0x1c, 21, 16), Format::kDecimal},
      Field{"dump_fill_mkey", &GeneralCapabilities::dump_fill_mkey, bits(0x1c, 7, 7)},
      Field{"fast_teardown", &GeneralCapabilities::fast_teardown, bits(0x1c, 4, 4)},
      Field{"log_max_eq", &GeneralCapabilities::log_max_eq, bits(0x1c, 3, 0), Format::kDecimal},
      Field{"max_indirection", &GeneralCapabilities::max_indirection, bits(0x20, 31, 24), Format::kDecimal},
      Field{"fixed_buffer_size", &GeneralCapabilities::fixed_buffer_size, bits(0x20, 23, 23)},
      Field{"log_max_mrw_sz", &GeneralCapabilities::log_max_mrw_sz, bits(0x20, 22, 16), Format::kDecimal},
      Field{"force_teardown", &GeneralCapabilities::force_teardown, bits(0x20, 15, 15)},
      Field{"log_max_bsf_list_size", &GeneralCapabilities::log_max_bsf_list_size, bits(0x20, 13, 8), Format::kDecimal},
      Field{"umr_extended_translation_offset", &GeneralCapabilities::umr_extended_translation_offset, bits(0x20, 7, 7)},
      Field{"null_mkey", &GeneralCapabilities::null_mkey, bits(0x20, 6, 6)},
      Field{"log_max_klm_list_size", &GeneralCapabilities::log_max_klm_list_size, bits(0x20, 5, 0), Format::kDecimal},
      Field{"log_max_ra_req_dc", &GeneralCapabilities::log_max_ra_req_dc, bits(0x24, 21, 16), Format::kDecimal},
      Field{"eth_wqe_too_small", &GeneralCapabilities::eth_wqe_too_small, bits(0x24, 13, 13)},
      Field{"log_max_ra_res_dc", &GeneralCapabilities::log_max_ra_res_dc, bits(0x24, 5, 0), Format::kDecimal},
      Field{"release_all_pages", &GeneralCapabilities::release_all_pages, bits(0x28, 26, 26)},
      Field{"roce_accl", &GeneralCapabilities::roce_accl, bits(0x28, 22, 22)},
      Field{"log_max_ra_req_qp", &GeneralCapabilities::log_max_ra_req_qp, bits(0x28, 21, 16), Format::kDecimal},
      Field{"log_max_ra_res_qp", &GeneralCapabilities::log_max_ra_res_qp, bits(0x28, 5, 0), Format::kDecimal},
      Field{"end_pad", &GeneralCapabilities::end_pad, bits(0x2c, 31, 31)},
      Field{"cc_query_allowed", &GeneralCapabilities::cc_query_allowed, bits(0x2c, 30, 30)},
      Field{"cc_modify_allowed", &GeneralCapabilities::cc_modify_allowed, bits(0x2c, 29, 29)},
      Field{"start_pad", &GeneralCapabilities::start_pad, bits(0x2c, 28, 28)},
      Field{"cache_line_128byte", &GeneralCapabilities::cache_line_128byte, bits(0x2c, 27, 27)},
      Field{"rts2rts_qp_counters_set_id", &GeneralCapabilities::rts2rts_qp_counters_set_id, bits(0x2c, 22, 22)},
      Field{"qcam_reg", &GeneralCapabilities::qcam_reg, bits(0x2c, 16, 16)},
      Field{"gid_table_size", &GeneralCapabilities::gid_table_size, bits(0x2c, 15, 0)},
      Field{"out_of_seq_cnt", &GeneralCapabilities::out_of_seq_cnt, bits(0x30, 31, 31)},
      Field{"vport_counters", &GeneralCapabilities::vport_counters, bits(0x30, 30, 30)},
      Field{"retransmission_q_counters", &GeneralCapabilities::retransmission_q_counters, bits(0x30, 29, 29)},
      Field{"debug", &GeneralCapabilities::debug, bits(0x30, 28, 28)},
      Field{"max_qp_cnt", &GeneralCapabilities::max_qp_cnt, bits(0x30, 25, 16), Format::kDecimal},
      Field{"pkey_table_size", &GeneralCapabilities::pkey_table_size, bits(0x30, 15, 0)},
      Field{"vport_group_manager", &GeneralCapabilities::vport_group_manager, bits(0x34, 31, 31)},
      Field{"vhca_group_manager", &GeneralCapabilities::vhca_group_manager, bits(0x34, 30, 30)},
      Field{"ib_virt", &GeneralCapabilities::ib_virt, bits(0x34, 29, 29)},
      Field{"eth_virt", &GeneralCapabilities::eth_virt, bits(0x34, 28, 28)},
      Field{"ets", &GeneralCapabilities::ets, bits(0x34, 26, 26)},
      Field{"nic_flow_table", &GeneralCapabilities::nic_flow_table, bits(0x34, 25, 25)},
      Field{"eswitch_manager", &GeneralCapabilities::eswitch_manager, bits(0x34, 24, 24)},
      Field{"device_memory", &GeneralCapabilities::device_memory, bits(0x34, 23, 23)},
      Field{"mcam_reg", &GeneralCapabilities::mcam_reg, bits(0x34, 22, 22)},
      Field{"pcam_reg", &GeneralCapabilities::pcam_reg, bits(0x34, 21, 21)},
      Field{"local_ca_ack_delay", &GeneralCapabilities::local_ca_ack_delay, bits(0x34, 20, 16), Format::kDecimal},
      Field{"port_module_event", &GeneralCapabilities::port_module_event, bits(0x34, 15, 15)},
      Field{"enhanced_error_q_counters", &GeneralCapabilities::enhanced_error_q_counters, bits(0x34, 14, 14)},
      Field{"ports_check", &GeneralCapabilities::ports_check, bits(0x34, 13, 13)},
      Field{"port_type", &GeneralCapabilities::port_type, bits(0x34, 9, 8)},
      Field{"num_ports", &GeneralCapabilities::num_ports, bits(0x34, 7, 0), Format::kDecimal},
      Field{"pps", &GeneralCapabilities::pps, bits(0x38, 30, 30)},
      Field{"log_max_msg", &GeneralCapabilities::log_max_msg, bits(0x38, 28, 24), Format::kDecimal},
      Field{"max_tc", &GeneralCapabilities::max_tc, bits(0x38, 19, 16), Format::kDecimal},
      Field{"dcbx", &GeneralCapabilities::dcbx, bits(0x38, 14, 14)},
      Field{"general_notification_event", &GeneralCapabilities::general_notification_event, bits(0x38, 13, 13)},
      Field{"fpga", &GeneralCapabilities::fpga, bits(0x38, 10, 10)},
      Field{"stat_rate_support", &GeneralCapabilities::stat_rate_support, bits(0x3c, 31, 16)},
      Field{"cqe_version", &GeneralCapabilities::cqe_version, bits(0x3c, 3, 0), Format::kDecimal},
      Field{"compact_address_vector", &GeneralCapabilities::compact_address_vector, bits(0x40, 31, 31)},
      Field{"striding_rq", &GeneralCapabilities::striding_rq, bits(0x40, 30, 30)},
      Field{"ipoib_enhanced_offloads", &GeneralCapabilities::ipoib_enhanced_offloads, bits(0x40, 28, 28)},
      Field{"ipoib_basic_offloads", &GeneralCapabilities::ipoib_basic_offloads, bits(0x40, 27, 27)},
      Field{"repeated_block_disabled", &GeneralCapabilities::repeated_block_disabled, bits(0x40, 25, 25)},
      Field{"umr_modify_entity_size_disabled", &GeneralCapabilities::umr_modify_entity_size_disabled,
            bits(0x40, 24, 24)},
      Field{"umr_modify_atomic_disabled", &GeneralCapabilities::umr_modify_atomic_disabled, bits(0x40, 23, 23)},
      Field{"umr_indirect_mkey_disabled", &GeneralCapabilities::umr_indirect_mkey_disabled, bits(0x40, 22, 22)},
      Field{"umr_fence", &GeneralCapabilities::umr_fence, bits(0x40, 21, 20)},
      Field{"dc_req_scat_data_cqe", &GeneralCapabilities::dc_req_scat_data_cqe, bits(0x40, 19, 19)},
      Field{"drain_sigerr", &GeneralCapabilities::drain_sigerr, bits(0x40, 16, 16)},
      Field{"cmdif_checksum", &GeneralCapabilities::cmdif_checksum, bits(0x40, 15, 14)},
      Field{"sigerr_cqe", &GeneralCapabilities::sigerr_cqe, bits(0x40, 13, 13)},
      Field{"wq_signature", &GeneralCapabilities::wq_signature, bits(0x40, 11, 11)},
      Field{"sctr_data_cqe", &GeneralCapabilities::sctr_data_cqe, bits(0x40, 10, 10)},
      Field{"sho", &GeneralCapabilities::sho, bits(0x40, 8, 8)},
      Field{"tph", &GeneralCapabilities::tph, bits(0x40, 7, 7)},
      Field{"rf", &GeneralCapabilities::rf, bits(0x40, 6, 6)},
      Field{"dct", &GeneralCapabilities::dct, bits(0x40, 5, 5)},
      Field{"qos", &GeneralCapabilities::qos, bits(0x40, 4, 4)},
      Field{"eth_net_offloads", &GeneralCapabilities::eth_net_offloads, bits(0x40, 3, 3)},
      Field{"roce", &GeneralCapabilities::roce, bits(0x40, 2, 2)},
      Field{"atomic", &GeneralCapabilities::atomic, bits(0x40, 1, 1)},
      Field{"cq_oi", &GeneralCapabilities::cq_oi, bits(0x44, 31, 31)},
      Field{"cq_resize", &GeneralCapabilities::cq_resize, bits(0x44, 30, 30)},
      Field{"cq_moderation", &GeneralCapabilities::cq_moderation, bits(0x44, 29, 29)},
      Field{"cq_eq_remap", &GeneralCapabilities::cq_eq_remap, bits(0x44, 25, 25)},
      Field{"pg", &GeneralCapabilities::pg, bits(0x44, 24, 24)},
      Field{"block_lb_mc", &GeneralCapabilities::block_lb_mc, bits(0x44, 23, 23)},
      Field{"scqe_break_moderation", &GeneralCapabilities::scqe_break_moderation, bits(0x44, 21, 21)},
      Field{"cq_period_start_from_cqe", &GeneralCapabilities::cq_period_start_from_cqe, bits(0x44, 20, 20)},
      Field{"cd", &GeneralCapabilities::cd, bits(0x44, 19, 19)},
      Field{"apm", &GeneralCapabilities::apm, bits(0x44, 17, 17)},
      Field{"vector_calc", &GeneralCapabilities::vector_calc, bits(0x44, 16, 16)},
      Field{"umr_ptr_rlky", &GeneralCapabilities::umr_ptr_rlky, bits(0x44, 15, 15)},
      Field{"imaicl", &GeneralCapabilities::imaicl, bits(0x44, 14, 14)},
      Field{"qp_packet_based", &GeneralCapabilities::qp_packet_based, bits(0x44, 13, 13)},
      Field{"qkv", &GeneralCapabilities::qkv, bits(0x44, 9, 9)},
      Field{"pkv", &GeneralCapabilities::pkv, bits(0x44, 8, 8)},
      Field{"set_deth_sqpn", &GeneralCapabilities::set_deth_sqpn, bits(0x44, 7, 7)},
      Field{"xrc", &GeneralCapabilities::xrc, bits(0x44, 3, 3)},
      Field{"ud", &GeneralCapabilities::ud, bits(0x44, 2, 2)},
      Field{"uc", &GeneralCapabilities::uc, bits(0x44, 1, 1)},
      Field{"rc", &GeneralCapabilities::rc, bits(0x44, 0, 0)},
      Field{"uar_4k", &GeneralCapabilities::uar_4k, bits(0x48, 31, 31)},
      Field{"fl_rc_qp_when_roce_disabled", &GeneralCapabilities::fl_rc_qp_when_roce_disabled, bits(0x48, 23, 23)},
      Field{"uar_sz", &GeneralCapabilities::uar_sz, bits(0x48, 21, 16), Format::kDecimal},
      Field{"umem_uid_0", &GeneralCapabilities::umem_uid_0, bits(0x48, 13, 13)},
      Field{"log_pg_sz", &GeneralCapabilities::log_pg_sz, bits(0x48, 7, 0), Format::kDecimal},
      Field{"bf", &GeneralCapabilities::bf, bits(0x4c, 31, 31)},
      Field{"driver_version", &GeneralCapabilities::driver_version, bits(0x4c, 30, 30)},
      Field{"pad_tx_eth_packet", &GeneralCapabilities::pad_tx_eth_packet, bits(0x4c, 29, 29)},
      Field{"mkey_by_name", &GeneralCapabilities::mkey_by_name, bits(0x4c, 25, 25)},
      Field{"log_bf_reg_size", &GeneralCapabilities::log_bf_reg_size, bits(0x4c, 20, 16), Format::kDecimal},
      Field{"max_wqe_sz_sq", &GeneralCapabilities::max_wqe_sz_sq, bits(0x50, 15, 0), Format::kDecimal},
      Field{"max_wqe_sz_rq", &GeneralCapabilities::max_wqe_sz_rq, bits(0x54, 15, 0), Format::kDecimal},
      Field{"max_wqe_sz_sq_dc", &GeneralCapabilities::max_wqe_sz_sq_dc, bits(0x58, 15, 0), Format::kDecimal},
      Field{"max_qp_mcg", &GeneralCapabilities::max_qp_mcg, bits(0x5c, 24, 0), Format::kDecimal},
      Field{"log_max_mcg", &GeneralCapabilities::log_max_mcg, bits(0x60, 7, 0), Format::kDecimal},
      Field{"log_max_transport_domain", &GeneralCapabilities::log_max_transport_domain, bits(0x64, 28, 24),
            Format::kDecimal},
      Field{"log_max_pd", &GeneralCapabilities::log_max_pd, bits(0x64, 20, 16), Format::kDecimal},
      Field{"log_max_xrcd", &GeneralCapabilities::log_max_xrcd, bits(0x64, 4, 0), Format::kDecimal},
      Field{"log_max_rq", &GeneralCapabilities::log_max_rq, bits(0x6c, 28, 24), Format::kDecimal},
      Field{"log_max_sq", &GeneralCapabilities::log_max_sq, bits(0x6c, 20, 16), Format::kDecimal},
      Field{"log_max_tir", &GeneralCapabilities::log_max_tir, bits(0x6c, 12, 8), Format::kDecimal},
      Field{"log_max_tis", &GeneralCapabilities::log_max_tis, bits(0x6c, 4, 0), Format::kDecimal},
      Field{"basic_cyclic_rcv_wqe", &GeneralCapabilities::basic_cyclic_rcv_wqe, bits(0x70, 31, 31)},
      Field{"log_max_rmp", &GeneralCapabilities::log_max_rmp, bits(0x70, 28, 24), Format::kDecimal},
      Field{"log_max_rqt", &GeneralCapabilities::log_max_rqt, bits(0x70, 20, 16), Format::kDecimal},
      Field{"log_max_rqt_size", &GeneralCapabilities::log_max_rqt_size, bits(0x70, 12, 8), Format::kDecimal},
      Field{"log_max_tis_per_sq", &GeneralCapabilities::log_max_tis_per_sq, bits(0x70, 4, 0), Format::kDecimal},
      Field{"log_max_stride_sz_rq", &GeneralCapabilities::log_max_stride_sz_rq, bits(0x74, 28, 24), Format::kDecimal},
      Field{"log_min_stride_sz_rq", &GeneralCapabilities::log_min_stride_sz_rq, bits(0x74, 20, 16), Format::kDecimal},
      Field{"log_max_stride_sz_sq", &GeneralCapabilities::log_max_stride_sz_sq, bits(0x74, 12, 8), Format::kDecimal},
      Field{"log_min_stride_sz_sq", &GeneralCapabilities::log_min_stride_sz_sq, bits(0x74, 4, 0), Format::kDecimal},
      Field{"log_max_wq_sz", &GeneralCapabilities::log_max_wq_sz, bits(0x78, 4, 0), Format::kDecimal},
      Field{"nic_vport_change_event", &GeneralCapabilities::nic_vport_change_event, bits(0x7c, 31, 31)},
      Field{"disable_local_lb_uc", &GeneralCapabilities::disable_local_lb_uc, bits(0x7c, 30, 30)},
      Field{"disable_local_lb_mc", &GeneralCapabilities::disable_local_lb_mc, bits(0x7c, 29, 29)},
      Field{"log_max_vlan_list", &GeneralCapabilities::log_max_vlan_list, bits(0x7c, 20, 16), Format::kDecimal},
      Field{"log_max_current_mc_list", &GeneralCapabilities::log_max_current_mc_list, bits(0x7c, 12, 8),
            Format::kDecimal},
      Field{"log_max_current_uc_list", &GeneralCapabilities::log_max_current_uc_list, bits(0x7c, 4, 0),
            Format::kDecimal},
      Field{"general_obj_types", &GeneralCapabilities::general_obj_types, bytes(0x80, 8)},
      Field{"sq_ts_format", &GeneralCapabilities::sq_ts_format, bits(0x88, 31, 30)},
      Field{"rq_ts_format", &GeneralCapabilities::rq_ts_format, bits(0x88, 29, 28)},
      Field{"log_max_uctx", &GeneralCapabilities::log_max_uctx, bits(0x8c, 28, 24), Format::kDecimal},
      Field{"log_max_umem", &GeneralCapabilities::log_max_umem, bits(0x8c, 20, 16), Format::kDecimal},
      Field{"max_num_eqs", &GeneralCapabilities::max_num_eqs, bits(0x8c, 15, 0), Format::kDecimal},
      Field{"log_max_l2_table", &GeneralCapabilities::log_max_l2_table, bits(0x90, 28, 24), Format::kDecimal},
      Field{"log_uar_page_sz", &GeneralCapabilities::log_uar_page_sz, bits(0x90, 15, 0), Format::kDecimal},
      Field{"device_frequency_mhz", &GeneralCapabilities::device_frequency_mhz, bytes(0x98, 4), Format::kDecimal},
      Field{"device_frequency_khz", &GeneralCapabilities::device_frequency_khz, bytes(0x9c, 4), Format::kDecimal},
      Field{"num_of_uars_per_page", &GeneralCapabilities::num_of_uars_per_page, bytes(0xa4, 4), Format::kDecimal},
      Field{"log_max_dci_stream_channels", &GeneralCapabilities::log_max_dci_stream_channels, bits(0xb0, 20, 16),
            Format::kDecimal},
      Field{"log_max_dci_errored_streams", &GeneralCapabilities::log_max_dci_errored_streams, bits(0xb0, 12, 8),
            Format::kDecimal},
      Field{"mini_cqe_resp_stride_index", &GeneralCapabilities::mini_cqe_resp_stride_index, bits(0xb4, 3, 3)},
      Field{"cqe_128_always", &GeneralCapabilities::cqe_128_always, bits(0xb4, 2, 2)},
      Field{"cqe_compression_128", &GeneralCapabilities::cqe_compression_128, bits(0xb4, 1, 1)},
      Field{"cqe_compression", &GeneralCapabilities::cqe_compression, bits(0xb4, 0, 0)},
      Field{"cqe_compression_timeout", &GeneralCapabilities::cqe_compression_timeout, bits(0xb8, 31, 16),
            Format::kDecimal},
      Field{"cqe_compression_max_num", &GeneralCapabilities::cqe_compression_max_num, bits(0xb8, 15, 0),
            Format::kDecimal},
      Field{"tag_matching", &GeneralCapabilities::tag_matching, bits(0xbc, 15, 15)},
      Field{"log_tag_matching_list_sz", &GeneralCapabilities::log_tag_matching_list_sz, bits(0xbc, 12, 8),
            Format::kDecimal},
      Field{"log_max_xrq", &GeneralCapabilities::log_max_xrq, bits(0xbc, 4, 0), Format::kDecimal},
      Field{"native_port_num", &GeneralCapabilities::native_port_num, bits(0xc0, 23, 16), Format::kDecimal},
      Field{"num_vhca_ports", &GeneralCapabilities::num_vhca_ports, bits(0xc0, 15, 8), Format::kDecimal},
      Field{"sw_owner_id", &GeneralCapabilities::sw_owner_id, bits(0xc0, 1, 1)},
      Field{"uctx_cap", &GeneralCapabilities::uctx_cap, bytes(0xd4, 4)}};
};
static_assert(layout_is_valid<GeneralCapabilities>());
static_assert(offset_bits_of(&GeneralCapabilities::log_max_srq_sz) == 0x10 * 8);
static_assert(offset_bits_of(&GeneralCapabilities::log_max_ra_req_qp) == 0x28 * 8 + 10);
static_assert(offset_bits_of(&GeneralCapabilities::port_type) == 0x34 * 8 + 22);
static_assert(offset_bits_of(&GeneralCapabilities::cqe_version) == 0x3c * 8 + 28);
static_assert(offset_bits_of(&GeneralCapabilities::uar_4k) == 0x48 * 8);
static_assert(offset_bits_of(&GeneralCapabilities::max_wqe_sz_sq) == 0x50 * 8 + 16);
static_assert(offset_bits_of(&GeneralCapabilities::general_obj_types) == 0x80 * 8);
static_assert(offset_bits_of(&GeneralCapabilities::device_frequency_khz) == 0x9c * 8);
static_assert(offset_bits_of(&GeneralCapabilities::uctx_cap) == 0xd4 * 8);

// Atomic capabilities (atomic_caps).
struct AtomicCapabilities {
  std::uint8_t req_8b_endianness_mode{};
  bool supported_req_8b_endianness_mode_1{};
  std::uint16_t atomic_operations{};
  std::uint16_t atomic_size_qp{};
  std::uint16_t atomic_size_dc{};
  static constexpr std::string_view kName = "atomic";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields =
      Fields{Field{"req_8b_endianness_mode", &AtomicCapabilities::req_8b_endianness_mode, bits(0x8, 31, 30)},
                 Field{"supported_req_8b_endianness_mode_1", &AtomicCapabilities::supported_req_8b_endianness_mode_1,
                       bits(0x8, 25, 25)},
                 Field{"atomic_operations", &AtomicCapabilities::atomic_operations, bits(0x10, 15, 0)},
                 Field{"atomic_size_qp", &AtomicCapabilities::atomic_size_qp, bits(0x14, 15, 0)},
                 Field{"atomic_size_dc", &AtomicCapabilities::atomic_size_dc, bits(0x18, 15, 0)}};
};
static_assert(layout_is_valid<AtomicCapabilities>());
static_assert(offset_bits_of(&AtomicCapabilities::atomic_operations) == 0x10 * 8 + 16);

// RoCE capabilities (roce_cap).
struct RoceCapabilities {
  bool roce_apm{};
  bool sw_r_roce_src_udp_port{};
  bool fl_rc_qp_when_roce_disabled{};
  bool fl_rc_qp_when_roce_enabled{};
  std::uint8_t qp_ts_format{};
  std::uint8_t l3_type{};
  std::uint8_t roce_version{};
  std::uint16_t r_roce_dest_udp_port{};
  std::uint16_t r_roce_max_src_udp_port{};
  std::uint16_t r_roce_min_src_udp_port{};
  std::uint16_t roce_address_table_size{};
  static constexpr std::string_view kName = "roce";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields = Fields{
      Field{"roce_apm", &RoceCapabilities::roce_apm, bits(0x0, 31, 31)},
      Field{"sw_r_roce_src_udp_port", &RoceCapabilities::sw_r_roce_src_udp_port, bits(0x0, 27, 27)},
      Field{"fl_rc_qp_when_roce_disabled", &RoceCapabilities::fl_rc_qp_when_roce_disabled, bits(0x0, 26, 26)},
      Field{"fl_rc_qp_when_roce_enabled", &RoceCapabilities::fl_rc_qp_when_roce_enabled, bits(0x0, 25, 25)},
      Field{"qp_ts_format", &RoceCapabilities::qp_ts_format, bits(0x0, 1, 0)},
      Field{"l3_type", &RoceCapabilities::l3_type, bits(0x10, 19, 16)},
      Field{"roce_version", &RoceCapabilities::roce_version, bits(0x10, 7, 0)},
      Field{"r_roce_dest_udp_port", &RoceCapabilities::r_roce_dest_udp_port, bits(0x14, 15, 0), Format::kDecimal},
      Field{"r_roce_max_src_udp_port", &RoceCapabilities::r_roce_max_src_udp_port, bits(0x18, 31, 16),
            Format::kDecimal},
      Field{"r_roce_min_src_udp_port", &RoceCapabilities::r_roce_min_src_udp_port, bits(0x18, 15, 0), Format::kDecimal},
      Field{"roce_address_table_size", &RoceCapabilities::roce_address_table_size, bits(0x1c, 15, 0),
            Format::kDecimal}};
};
static_assert(layout_is_valid<RoceCapabilities>());
static_assert(offset_bits_of(&RoceCapabilities::l3_type) == 0x10 * 8 + 12);
static_assert(offset_bits_of(&RoceCapabilities::roce_address_table_size) == 0x1c * 8 + 16);

// Output of QUERY_ADAPTER (input: ObjectIn).
struct QueryAdapterOut {
  OutputHeader header{};
  std::uint32_t ieee_vendor_id{};
  std::uint16_t vsd_vendor_id{};
  std::array<std::uint8_t, 16> psid{};
  static constexpr std::string_view kName = "query_adapter_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryAdapterOut::header, bytes(0x0, 8)},
                 Field{"ieee_vendor_id", &QueryAdapterOut::ieee_vendor_id, bits(0x28, 23, 0)},
                 Field{"vsd_vendor_id", &QueryAdapterOut::vsd_vendor_id, bits(0x2c, 15, 0)},
                 Field{"psid", &QueryAdapterOut::psid, bytes(0x100, 16)}};
};
static_assert(layout_is_valid<QueryAdapterOut>());
static_assert(offset_bits_of(&QueryAdapterOut::ieee_vendor_id) == 0x28 * 8 + 8);
static_assert(offset_bits_of(&QueryAdapterOut::psid) == 0x100 * 8);

}  // namespace umlx5::wqe::prm
