// Capabilities and identity: QUERY_HCA_CAP, SET_HCA_CAP, QUERY_ADAPTER.
//
// Layouts: query_hca_cap_in/out, set_hca_cap_in, cmd_hca_cap, atomic_caps, roce_cap, odp_cap, query_adapter_out of
// <linux/mlx5/mlx5_ifc.h>. A bit that a structure below does not name is one that this code neither sets nor asks for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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
  kCrypto = 0x1a,
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
  std::uint8_t log_max_srq_sz{};
  std::uint8_t log_max_qp_sz{};
  std::uint8_t log_dma_mmo_max_size{};  // bytes of one memory-to-memory operation; 0: not told
  bool event_cap{};
  std::uint8_t log_max_qp{};
  bool ece_support{};
  std::uint8_t log_max_srq{};
  std::uint8_t max_sgl_for_optimized_performance{};
  std::uint8_t log_max_cq_sz{};
  std::uint8_t log_max_cq{};
  std::uint8_t log_max_eq_sz{};
  std::uint8_t log_max_mkey{};
  bool dump_fill_mkey{};
  std::uint8_t log_max_eq{};
  std::uint8_t max_indirection{};
  std::uint8_t log_max_mrw_sz{};
  std::uint8_t log_max_bsf_list_size{};
  bool null_mkey{};
  std::uint8_t log_max_klm_list_size{};
  bool qpc_extension{};
  std::uint8_t log_max_ra_req_dc{};
  std::uint8_t log_max_ra_res_dc{};
  bool sig_crc64_xp10{};
  bool sig_crc32c{};
  bool dma_mmo_sq{};  // memory-to-memory operations on any send queue
  std::uint8_t log_max_ra_req_qp{};
  std::uint8_t log_max_ra_res_qp{};
  std::uint16_t gid_table_size{};   // code: 8 << n entries
  std::uint16_t max_qp_cnt{};       // q counter sets
  std::uint16_t pkey_table_size{};  // code: 128 << n entries
  bool ib_virt{};
  bool device_memory{};
  std::uint8_t local_ca_ack_delay{};
  std::uint8_t port_type{};
  std::uint8_t num_ports{};
  std::uint8_t log_max_msg{};
  std::uint8_t max_tc{};
  std::uint16_t stat_rate_support{};
  bool sig_block_4048{};
  std::uint8_t cqe_version{};
  bool umr_modify_entity_size_disabled{};
  std::uint8_t umr_fence{};
  bool drain_sigerr{};  // QPs may stop at a signature error
  bool sigerr_cqe{};
  bool wq_signature{};
  bool sctr_data_cqe{};
  bool sho{};  // signatures
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
  bool apm{};
  bool imaicl{};
  bool qp_packet_based{};
  bool qkv{};
  bool pkv{};
  bool xrc{};
  bool ud{};
  bool uc{};
  bool rc{};
  bool uar_4k{};
  std::uint8_t uar_sz{};  // BAR bytes 1 << n MB
  std::uint8_t log_pg_sz{};
  bool bf{};
  bool mkey_by_name{};
  std::uint8_t log_bf_reg_size{};
  std::uint16_t max_wqe_sz_sq{};  // bytes
  std::uint16_t max_wqe_sz_rq{};
  std::uint32_t max_qp_mcg{};
  std::uint8_t log_max_mcg{};
  std::uint8_t log_max_transport_domain{};
  std::uint8_t log_max_pd{};
  bool striding_rq{};
  bool ext_stride_num_range{};    // receive WQEs of less than 2^9 strides
  bool dp_ordering_ooo_all_ud{};  // out-of-order placement of all operations, by transport
  bool dp_ordering_ooo_all_uc{};
  bool dp_ordering_ooo_all_xrc{};
  bool dp_ordering_ooo_all_dc{};
  bool dp_ordering_ooo_all_rc{};
  std::uint8_t log_max_xrcd{};
  std::uint8_t log_max_rmp{};
  bool nic_flow_table{};
  std::uint8_t log_max_rq{};
  std::uint8_t log_max_sq{};
  std::uint8_t log_max_tir{};
  std::uint8_t log_max_tis{};
  std::uint8_t log_max_rqt{};
  std::uint8_t log_max_rqt_size{};  // queues of one table
  bool aes_xts_single_block_le_tweak{};
  bool aes_xts_multi_block_be_tweak{};
  std::uint64_t general_obj_types{};
  std::uint8_t sq_ts_format{};
  std::uint8_t rq_ts_format{};
  std::uint8_t log_max_uctx{};
  bool crypto{};
  bool sigerr_domain_and_sig_type{};  // signature error CQEs tell these
  std::uint16_t log_uar_page_sz{};
  std::uint32_t device_frequency_mhz{};
  std::uint32_t device_frequency_khz{};
  std::uint32_t num_of_uars_per_page{};
  std::uint8_t log_max_dci_stream_channels{};
  std::uint8_t log_max_dci_errored_streams{};
  bool enhanced_cqe_compression{};
  bool mini_cqe_resp_stride_index{};
  bool cqe_128_always{};
  bool cqe_compression_128{};
  bool cqe_compression{};
  std::uint16_t cqe_compression_timeout{};  // microseconds
  std::uint16_t cqe_compression_max_num{};  // completions of one session
  std::uint8_t native_port_num{};
  std::uint32_t uctx_cap{};
  bool dma_mmo_qp{};  // memory-to-memory operations on queue pairs whose context says so
  static constexpr std::string_view kName = "general";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields = Fields{
      Field{"hca_cap_2", &GeneralCapabilities::hca_cap_2, bits(0x4, 31, 31)},
      Field{"log_max_srq_sz", &GeneralCapabilities::log_max_srq_sz, bits(0x10, 31, 24), Format::kDecimal},
      Field{"log_max_qp_sz", &GeneralCapabilities::log_max_qp_sz, bits(0x10, 23, 16), Format::kDecimal},
      Field{"log_dma_mmo_max_size", &GeneralCapabilities::log_dma_mmo_max_size, bits(0xc, 20, 16), Format::kDecimal},
      Field{"event_cap", &GeneralCapabilities::event_cap, bits(0x10, 15, 15)},
      Field{"log_max_qp", &GeneralCapabilities::log_max_qp, bits(0x10, 4, 0), Format::kDecimal},
      Field{"ece_support", &GeneralCapabilities::ece_support, bits(0x14, 28, 28)},
      Field{"log_max_srq", &GeneralCapabilities::log_max_srq, bits(0x14, 20, 16), Format::kDecimal},
      Field{"max_sgl_for_optimized_performance", &GeneralCapabilities::max_sgl_for_optimized_performance,
            bits(0x18, 31, 24), Format::kDecimal},
      Field{"log_max_cq_sz", &GeneralCapabilities::log_max_cq_sz, bits(0x18, 23, 16), Format::kDecimal},
      Field{"log_max_cq", &GeneralCapabilities::log_max_cq, bits(0x18, 4, 0), Format::kDecimal},
      Field{"log_max_eq_sz", &GeneralCapabilities::log_max_eq_sz, bits(0x1c, 31, 24), Format::kDecimal},
      Field{"log_max_mkey", &GeneralCapabilities::log_max_mkey, bits(0x1c, 21, 16), Format::kDecimal},
      Field{"dump_fill_mkey", &GeneralCapabilities::dump_fill_mkey, bits(0x1c, 7, 7)},
      Field{"log_max_eq", &GeneralCapabilities::log_max_eq, bits(0x1c, 3, 0), Format::kDecimal},
      Field{"max_indirection", &GeneralCapabilities::max_indirection, bits(0x20, 31, 24), Format::kDecimal},
      Field{"log_max_mrw_sz", &GeneralCapabilities::log_max_mrw_sz, bits(0x20, 22, 16), Format::kDecimal},
      Field{"log_max_bsf_list_size", &GeneralCapabilities::log_max_bsf_list_size, bits(0x20, 13, 8)},
      Field{"null_mkey", &GeneralCapabilities::null_mkey, bits(0x20, 6, 6)},
      Field{"log_max_klm_list_size", &GeneralCapabilities::log_max_klm_list_size, bits(0x20, 5, 0), Format::kDecimal},
      Field{"qpc_extension", &GeneralCapabilities::qpc_extension, bits(0x24, 29, 29)},
      Field{"log_max_ra_req_dc", &GeneralCapabilities::log_max_ra_req_dc, bits(0x24, 21, 16), Format::kDecimal},
      Field{"log_max_ra_res_dc", &GeneralCapabilities::log_max_ra_res_dc, bits(0x24, 5, 0), Format::kDecimal},
      Field{"sig_crc64_xp10", &GeneralCapabilities::sig_crc64_xp10, bits(0x28, 24, 24)},
      Field{"sig_crc32c", &GeneralCapabilities::sig_crc32c, bits(0x28, 23, 23)},
      Field{"dma_mmo_sq", &GeneralCapabilities::dma_mmo_sq, bits(0x28, 12, 12)},
      Field{"log_max_ra_req_qp", &GeneralCapabilities::log_max_ra_req_qp, bits(0x28, 21, 16), Format::kDecimal},
      Field{"log_max_ra_res_qp", &GeneralCapabilities::log_max_ra_res_qp, bits(0x28, 5, 0), Format::kDecimal},
      Field{"gid_table_size", &GeneralCapabilities::gid_table_size, bits(0x2c, 15, 0)},
      Field{"max_qp_cnt", &GeneralCapabilities::max_qp_cnt, bits(0x30, 25, 16), Format::kDecimal},
      Field{"pkey_table_size", &GeneralCapabilities::pkey_table_size, bits(0x30, 15, 0)},
      Field{"ib_virt", &GeneralCapabilities::ib_virt, bits(0x34, 29, 29)},
      Field{"device_memory", &GeneralCapabilities::device_memory, bits(0x34, 23, 23)},
      Field{"local_ca_ack_delay", &GeneralCapabilities::local_ca_ack_delay, bits(0x34, 20, 16), Format::kDecimal},
      Field{"port_type", &GeneralCapabilities::port_type, bits(0x34, 9, 8)},
      Field{"num_ports", &GeneralCapabilities::num_ports, bits(0x34, 7, 0), Format::kDecimal},
      Field{"log_max_msg", &GeneralCapabilities::log_max_msg, bits(0x38, 28, 24), Format::kDecimal},
      Field{"max_tc", &GeneralCapabilities::max_tc, bits(0x38, 19, 16), Format::kDecimal},
      Field{"stat_rate_support", &GeneralCapabilities::stat_rate_support, bits(0x3c, 31, 16)},
      Field{"sig_block_4048", &GeneralCapabilities::sig_block_4048, bits(0x3c, 15, 15)},
      Field{"cqe_version", &GeneralCapabilities::cqe_version, bits(0x3c, 3, 0), Format::kDecimal},
      Field{"striding_rq", &GeneralCapabilities::striding_rq, bits(0x40, 30, 30)},
      Field{"umr_modify_entity_size_disabled", &GeneralCapabilities::umr_modify_entity_size_disabled,
            bits(0x40, 24, 24)},
      Field{"umr_fence", &GeneralCapabilities::umr_fence, bits(0x40, 21, 20)},
      Field{"drain_sigerr", &GeneralCapabilities::drain_sigerr, bits(0x40, 16, 16)},
      Field{"sigerr_cqe", &GeneralCapabilities::sigerr_cqe, bits(0x40, 13, 13)},
      Field{"wq_signature", &GeneralCapabilities::wq_signature, bits(0x40, 11, 11)},
      Field{"sctr_data_cqe", &GeneralCapabilities::sctr_data_cqe, bits(0x40, 10, 10)},
      Field{"sho", &GeneralCapabilities::sho, bits(0x40, 8, 8)},
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
      Field{"apm", &GeneralCapabilities::apm, bits(0x44, 17, 17)},
      Field{"imaicl", &GeneralCapabilities::imaicl, bits(0x44, 14, 14)},
      Field{"qp_packet_based", &GeneralCapabilities::qp_packet_based, bits(0x44, 13, 13)},
      Field{"qkv", &GeneralCapabilities::qkv, bits(0x44, 9, 9)},
      Field{"pkv", &GeneralCapabilities::pkv, bits(0x44, 8, 8)},
      Field{"xrc", &GeneralCapabilities::xrc, bits(0x44, 3, 3)},
      Field{"ud", &GeneralCapabilities::ud, bits(0x44, 2, 2)},
      Field{"uc", &GeneralCapabilities::uc, bits(0x44, 1, 1)},
      Field{"rc", &GeneralCapabilities::rc, bits(0x44, 0, 0)},
      Field{"uar_4k", &GeneralCapabilities::uar_4k, bits(0x48, 31, 31)},
      Field{"uar_sz", &GeneralCapabilities::uar_sz, bits(0x48, 21, 16), Format::kDecimal},
      Field{"log_pg_sz", &GeneralCapabilities::log_pg_sz, bits(0x48, 7, 0), Format::kDecimal},
      Field{"bf", &GeneralCapabilities::bf, bits(0x4c, 31, 31)},
      Field{"mkey_by_name", &GeneralCapabilities::mkey_by_name, bits(0x4c, 25, 25)},
      Field{"log_bf_reg_size", &GeneralCapabilities::log_bf_reg_size, bits(0x4c, 20, 16), Format::kDecimal},
      Field{"max_wqe_sz_sq", &GeneralCapabilities::max_wqe_sz_sq, bits(0x50, 15, 0), Format::kDecimal},
      Field{"max_wqe_sz_rq", &GeneralCapabilities::max_wqe_sz_rq, bits(0x54, 15, 0), Format::kDecimal},
      Field{"max_qp_mcg", &GeneralCapabilities::max_qp_mcg, bits(0x5c, 24, 0), Format::kDecimal},
      Field{"log_max_mcg", &GeneralCapabilities::log_max_mcg, bits(0x60, 7, 0), Format::kDecimal},
      Field{"log_max_transport_domain", &GeneralCapabilities::log_max_transport_domain, bits(0x64, 28, 24),
            Format::kDecimal},
      Field{"log_max_pd", &GeneralCapabilities::log_max_pd, bits(0x64, 20, 16), Format::kDecimal},
      Field{"dp_ordering_ooo_all_ud", &GeneralCapabilities::dp_ordering_ooo_all_ud, bits(0x64, 15, 15)},
      Field{"dp_ordering_ooo_all_uc", &GeneralCapabilities::dp_ordering_ooo_all_uc, bits(0x64, 14, 14)},
      Field{"dp_ordering_ooo_all_xrc", &GeneralCapabilities::dp_ordering_ooo_all_xrc, bits(0x64, 13, 13)},
      Field{"dp_ordering_ooo_all_dc", &GeneralCapabilities::dp_ordering_ooo_all_dc, bits(0x64, 12, 12)},
      Field{"dp_ordering_ooo_all_rc", &GeneralCapabilities::dp_ordering_ooo_all_rc, bits(0x64, 11, 11)},
      Field{"log_max_xrcd", &GeneralCapabilities::log_max_xrcd, bits(0x64, 4, 0), Format::kDecimal},
      Field{"nic_flow_table", &GeneralCapabilities::nic_flow_table, bits(0x34, 25, 25)},
      Field{"log_max_rq", &GeneralCapabilities::log_max_rq, bits(0x6c, 28, 24), Format::kDecimal},
      Field{"log_max_sq", &GeneralCapabilities::log_max_sq, bits(0x6c, 20, 16), Format::kDecimal},
      Field{"log_max_tir", &GeneralCapabilities::log_max_tir, bits(0x6c, 12, 8), Format::kDecimal},
      Field{"log_max_tis", &GeneralCapabilities::log_max_tis, bits(0x6c, 4, 0), Format::kDecimal},
      Field{"log_max_rqt", &GeneralCapabilities::log_max_rqt, bits(0x70, 20, 16), Format::kDecimal},
      Field{"log_max_rqt_size", &GeneralCapabilities::log_max_rqt_size, bits(0x70, 12, 8), Format::kDecimal},
      Field{"log_max_rmp", &GeneralCapabilities::log_max_rmp, bits(0x70, 28, 24), Format::kDecimal},
      Field{"ext_stride_num_range", &GeneralCapabilities::ext_stride_num_range, bits(0x74, 31, 31)},
      Field{"aes_xts_single_block_le_tweak", &GeneralCapabilities::aes_xts_single_block_le_tweak, bits(0x7c, 14, 14)},
      Field{"aes_xts_multi_block_be_tweak", &GeneralCapabilities::aes_xts_multi_block_be_tweak, bits(0x7c, 13, 13)},
      Field{"general_obj_types", &GeneralCapabilities::general_obj_types, bytes(0x80, 8)},
      Field{"sq_ts_format", &GeneralCapabilities::sq_ts_format, bits(0x88, 31, 30)},
      Field{"rq_ts_format", &GeneralCapabilities::rq_ts_format, bits(0x88, 29, 28)},
      Field{"log_max_uctx", &GeneralCapabilities::log_max_uctx, bits(0x8c, 28, 24), Format::kDecimal},
      Field{"crypto", &GeneralCapabilities::crypto, bits(0x8c, 22, 22)},
      Field{"sigerr_domain_and_sig_type", &GeneralCapabilities::sigerr_domain_and_sig_type, bits(0x90, 31, 31)},
      Field{"log_uar_page_sz", &GeneralCapabilities::log_uar_page_sz, bits(0x90, 15, 0), Format::kDecimal},
      Field{"device_frequency_mhz", &GeneralCapabilities::device_frequency_mhz, bytes(0x98, 4), Format::kDecimal},
      Field{"device_frequency_khz", &GeneralCapabilities::device_frequency_khz, bytes(0x9c, 4), Format::kDecimal},
      Field{"num_of_uars_per_page", &GeneralCapabilities::num_of_uars_per_page, bytes(0xa4, 4), Format::kDecimal},
      Field{"log_max_dci_stream_channels", &GeneralCapabilities::log_max_dci_stream_channels, bits(0xb0, 20, 16),
            Format::kDecimal},
      Field{"log_max_dci_errored_streams", &GeneralCapabilities::log_max_dci_errored_streams, bits(0xb0, 12, 8),
            Format::kDecimal},
      Field{"enhanced_cqe_compression", &GeneralCapabilities::enhanced_cqe_compression, bits(0xb4, 15, 15)},
      Field{"mini_cqe_resp_stride_index", &GeneralCapabilities::mini_cqe_resp_stride_index, bits(0xb4, 3, 3)},
      Field{"cqe_128_always", &GeneralCapabilities::cqe_128_always, bits(0xb4, 2, 2)},
      Field{"cqe_compression_128", &GeneralCapabilities::cqe_compression_128, bits(0xb4, 1, 1)},
      Field{"cqe_compression", &GeneralCapabilities::cqe_compression, bits(0xb4, 0, 0)},
      Field{"cqe_compression_timeout", &GeneralCapabilities::cqe_compression_timeout, bytes(0xb8, 2), Format::kDecimal},
      Field{"cqe_compression_max_num", &GeneralCapabilities::cqe_compression_max_num, bytes(0xba, 2), Format::kDecimal},
      Field{"native_port_num", &GeneralCapabilities::native_port_num, bits(0xc0, 23, 16), Format::kDecimal},
      Field{"uctx_cap", &GeneralCapabilities::uctx_cap, bytes(0xd4, 4)},
      Field{"dma_mmo_qp", &GeneralCapabilities::dma_mmo_qp, bits(0xe8, 23, 23)}};
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

// The second group of general capabilities (cmd_hca_cap_2), of which GeneralCapabilities::hca_cap_2 tells.
struct GeneralCapabilities2 {
  bool dp_ordering_force{};
  static constexpr std::string_view kName = "general2";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields =
      Fields{Field{"dp_ordering_force", &GeneralCapabilities2::dp_ordering_force, bits(0x10, 23, 23)}};
};
static_assert(layout_is_valid<GeneralCapabilities2>());

// Encryption capabilities (crypto_caps of rdma-core's mlx5_ifc.h).
struct CryptoCapabilities {
  bool wrapped_crypto_operational{};  // keys can be imported wrapped by others
  bool wrapped_crypto_going_to_commissioning{};
  std::uint8_t wrapped_import_method{};  // 4: AES; 0: keys come in plain text
  std::uint8_t log_max_num_deks{};
  std::uint16_t failed_selftests{};
  static constexpr std::string_view kName = "crypto";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields =
      Fields{Field{"wrapped_crypto_operational", &CryptoCapabilities::wrapped_crypto_operational, bits(0x0, 31, 31)},
             Field{"wrapped_crypto_going_to_commissioning", &CryptoCapabilities::wrapped_crypto_going_to_commissioning,
                   bits(0x0, 30, 30)},
             Field{"wrapped_import_method", &CryptoCapabilities::wrapped_import_method, bits(0x0, 7, 0)},
             Field{"log_max_num_deks", &CryptoCapabilities::log_max_num_deks, bits(0x4, 20, 16), Format::kDecimal},
             Field{"failed_selftests", &CryptoCapabilities::failed_selftests, bits(0x8, 31, 16)}};
};
static_assert(layout_is_valid<CryptoCapabilities>());

// What of a transport may use memory without pages (odp_per_transport_service_cap).
inline constexpr std::uint32_t kOdpSend = 1u << 31, kOdpReceive = 1u << 30, kOdpWrite = 1u << 29, kOdpRead = 1u << 28,
                               kOdpAtomic = 1u << 27, kOdpSrqReceive = 1u << 26;

// On-demand paging (odp_cap), the head of its first scheme.
struct OdpCapabilities {
  bool sig{};
  bool page_prefetch{};
  std::uint32_t rc{}, uc{}, ud{}, xrc{}, dc{};
  static constexpr std::string_view kName = "odp";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields = Fields{Field{"sig", &OdpCapabilities::sig, bits(0x8, 31, 31)},
                                         Field{"page_prefetch", &OdpCapabilities::page_prefetch, bits(0x8, 26, 26)},
                                         Field{"rc", &OdpCapabilities::rc, bytes(0x10, 4)},
                                         Field{"uc", &OdpCapabilities::uc, bytes(0x14, 4)},
                                         Field{"ud", &OdpCapabilities::ud, bytes(0x18, 4)},
                                         Field{"xrc", &OdpCapabilities::xrc, bytes(0x1c, 4)},
                                         Field{"dc", &OdpCapabilities::dc, bytes(0x20, 4)}};
};
static_assert(layout_is_valid<OdpCapabilities>());
static_assert(offset_bits_of(&OdpCapabilities::rc) == 0x10 * 8);

// Memory on the device (device_mem_cap). Addresses are offsets into the BAR.
struct DeviceMemoryCapabilities {
  bool memic{};
  std::uint8_t log_min_memic_alloc_size{};
  std::uint8_t log_max_memic_addr_alignment{};  // of 64 bytes
  std::uint64_t memic_bar_start_addr{};
  std::uint32_t memic_bar_size{};  // pages of 4096 bytes
  std::uint32_t max_memic_size{};  // bytes
  std::uint32_t memic_operations{};
  static constexpr std::string_view kName = "device_mem";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields =
      Fields{Field{"memic", &DeviceMemoryCapabilities::memic, bits(0x0, 31, 31)},
             Field{"log_min_memic_alloc_size", &DeviceMemoryCapabilities::log_min_memic_alloc_size, bits(0x4, 20, 16),
                   Format::kDecimal},
             Field{"log_max_memic_addr_alignment", &DeviceMemoryCapabilities::log_max_memic_addr_alignment,
                   bits(0x4, 7, 0), Format::kDecimal},
             Field{"memic_bar_start_addr", &DeviceMemoryCapabilities::memic_bar_start_addr, bytes(0x8, 8)},
             Field{"memic_bar_size", &DeviceMemoryCapabilities::memic_bar_size, bytes(0x10, 4), Format::kDecimal},
             Field{"max_memic_size", &DeviceMemoryCapabilities::max_memic_size, bytes(0x14, 4), Format::kDecimal},
             Field{"memic_operations", &DeviceMemoryCapabilities::memic_operations, bytes(0x40, 4)}};
};
static_assert(layout_is_valid<DeviceMemoryCapabilities>());
static_assert(offset_bits_of(&DeviceMemoryCapabilities::memic_operations) == 0x40 * 8);

// Ethernet offloads (per_protocol_networking_offload_caps).
struct EthernetCapabilities {
  bool csum_cap{};
  bool vlan_cap{};
  bool wqe_vlan_insert{};
  std::uint8_t max_lso_cap{};      // bytes of a large send, 2^n
  std::uint8_t wqe_inline_mode{};  // 0: L2 headers are inlined in WQEs, 1: the vport says, 2: none need be
  std::uint8_t rss_ind_tbl_cap{};  // queues of a table, 2^n
  bool tunnel_stateless_vxlan{};
  static constexpr std::string_view kName = "ethernet";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields =
      Fields{Field{"csum_cap", &EthernetCapabilities::csum_cap, bits(0x0, 31, 31)},
             Field{"vlan_cap", &EthernetCapabilities::vlan_cap, bits(0x0, 30, 30)},
             Field{"wqe_vlan_insert", &EthernetCapabilities::wqe_vlan_insert, bits(0x0, 24, 24)},
             Field{"max_lso_cap", &EthernetCapabilities::max_lso_cap, bits(0x0, 20, 16), Format::kDecimal},
             Field{"wqe_inline_mode", &EthernetCapabilities::wqe_inline_mode, bits(0x0, 13, 12)},
             Field{"rss_ind_tbl_cap", &EthernetCapabilities::rss_ind_tbl_cap, bits(0x0, 11, 8), Format::kDecimal},
             Field{"tunnel_stateless_vxlan", &EthernetCapabilities::tunnel_stateless_vxlan, bits(0x0, 0, 0)}};
};
static_assert(layout_is_valid<EthernetCapabilities>());

// Flow tables (flow_table_nic_cap): of what the port receives.
struct FlowTableCapabilities {
  bool nic_receive_ft_support{};
  bool nic_receive_flow_modify_en{};
  bool nic_receive_modify_root{};
  std::uint8_t nic_receive_log_max_ft_size{};
  std::uint8_t nic_receive_max_ft_level{};
  std::uint8_t nic_receive_log_max_ft_num{};
  std::uint8_t nic_receive_log_max_destination{};
  static constexpr std::string_view kName = "flow_table";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields = Fields{
      Field{"ft_support", &FlowTableCapabilities::nic_receive_ft_support, bits(0x40, 31, 31)},
      Field{"flow_modify_en", &FlowTableCapabilities::nic_receive_flow_modify_en, bits(0x40, 28, 28)},
      Field{"modify_root", &FlowTableCapabilities::nic_receive_modify_root, bits(0x40, 27, 27)},
      Field{"log_max_ft_size", &FlowTableCapabilities::nic_receive_log_max_ft_size, bits(0x44, 29, 24),
            Format::kDecimal},
      Field{"max_ft_level", &FlowTableCapabilities::nic_receive_max_ft_level, bits(0x44, 7, 0), Format::kDecimal},
      Field{"log_max_ft_num", &FlowTableCapabilities::nic_receive_log_max_ft_num, bits(0x4c, 7, 0), Format::kDecimal},
      Field{"log_max_destination", &FlowTableCapabilities::nic_receive_log_max_destination, bits(0x50, 7, 0),
            Format::kDecimal}};
};
static_assert(layout_is_valid<FlowTableCapabilities>());

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
  static constexpr auto kFields = Fields{Field{"header", &QueryAdapterOut::header, bytes(0x0, 8)},
                                         Field{"ieee_vendor_id", &QueryAdapterOut::ieee_vendor_id, bits(0x28, 23, 0)},
                                         Field{"vsd_vendor_id", &QueryAdapterOut::vsd_vendor_id, bits(0x2c, 15, 0)},
                                         Field{"psid", &QueryAdapterOut::psid, bytes(0x100, 16)}};
};
static_assert(layout_is_valid<QueryAdapterOut>());
static_assert(offset_bits_of(&QueryAdapterOut::ieee_vendor_id) == 0x28 * 8 + 8);
static_assert(offset_bits_of(&QueryAdapterOut::psid) == 0x100 * 8);

}  // namespace umlx5::wqe::prm
