#include "tools/softhca/hca/profile.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tools/softhca/hca/device_memory.h"
#include "wqe/layout.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/general_object.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

constexpr std::uint16_t kRoceV2UdpPort = 4791;
constexpr std::uint16_t kFirstFlowPort = 0xc000, kLastFlowPort = 0xffff;
constexpr std::uint8_t kLogBlueFlameRegisterBytes = 9;
constexpr std::uint8_t kLogMaxFormats = 1;       // of a memory key
constexpr std::uint8_t kImportByAesKeyWrap = 4;  // CryptoCapabilities::wrapped_import_method

constexpr std::uint64_t object_type_bit(prm::GeneralObjectType type) {
  return std::uint64_t{1} << static_cast<unsigned>(type);
}

// Code of a table of `base` << code entries.
std::uint16_t table_size_code(unsigned entries, unsigned base) {
  return static_cast<std::uint16_t>(std::bit_width(entries / base) - 1);
}

void set_queue_limits(const Profile& profile, prm::GeneralCapabilities& cap) {
  cap.log_max_qp = profile.log_max_qp;
  cap.log_max_qp_sz = profile.log_max_qp_sz;
  cap.log_max_cq = profile.log_max_cq;
  cap.log_max_cq_sz = profile.log_max_cq_sz;
  cap.log_max_srq = profile.log_max_srq;
  cap.log_max_srq_sz = profile.log_max_srq_sz;
  cap.log_max_rmp = profile.log_max_srq;
  cap.log_max_eq = profile.log_max_eq;
  cap.log_max_eq_sz = profile.log_max_eq_sz;
  cap.log_max_mkey = profile.log_max_mkey;
  cap.log_max_mrw_sz = profile.log_max_region_bytes;
  cap.log_max_pd = profile.log_max_pd;
  cap.log_max_xrcd = profile.log_max_xrcd;
  cap.log_max_transport_domain = profile.log_max_transport_domain;
  cap.log_max_uctx = profile.log_max_uctx;
  cap.log_max_ra_req_qp = profile.log_max_ra_req_qp;
  cap.log_max_ra_res_qp = profile.log_max_ra_res_qp;
  cap.log_max_mcg = profile.log_max_mcg;
  cap.max_qp_mcg = profile.max_qp_mcg;
  cap.log_max_msg = profile.log_max_message_bytes;
  cap.max_wqe_sz_sq = profile.max_wqe_sz_sq_bytes;
  cap.max_wqe_sz_rq = profile.max_wqe_sz_rq_bytes;
  cap.max_sgl_for_optimized_performance = 3;
}

void set_raw_packets(const Profile& profile, prm::GeneralCapabilities& cap) {
  if (!profile.raw_packets) {
    return;
  }
  cap.eth_net_offloads = cap.nic_flow_table = true;
  cap.log_max_sq = cap.log_max_rq = profile.log_max_qp;
  cap.log_max_tir = cap.log_max_tis = cap.log_max_rqt = profile.log_max_tir;
  cap.log_max_rqt_size = profile.log_max_rqt_entries;
  cap.striding_rq = cap.ext_stride_num_range = profile.striding_rq;
}

void set_port(const Profile& profile, prm::GeneralCapabilities& cap) {
  cap.num_ports = 1;
  cap.native_port_num = 1;
  cap.port_type = profile.infiniband_port ? prm::kPortTypeInfiniband : prm::kPortTypeEthernet;
  cap.ib_virt = profile.infiniband_port;
  cap.roce = !profile.infiniband_port;
  cap.gid_table_size = table_size_code(profile.gid_table_entries, 8);
  cap.pkey_table_size = table_size_code(profile.pkey_table_entries, 128);
  cap.local_ca_ack_delay = 16;
  cap.max_tc = 8;
  cap.device_memory = profile.device_memory;
}

prm::GeneralCapabilities general_capabilities(const Profile& profile) {
  prm::GeneralCapabilities cap;
  set_queue_limits(profile, cap);
  set_port(profile, cap);
  set_raw_packets(profile, cap);
  cap.rc = cap.uc = cap.ud = true;
  cap.xrc = profile.xrc;
  cap.qp_packet_based = profile.packet_based_credit;
  cap.dct = profile.dct;
  cap.hca_cap_2 = profile.out_of_order;
  cap.dp_ordering_ooo_all_rc = cap.dp_ordering_ooo_all_uc = cap.dp_ordering_ooo_all_ud = profile.out_of_order;
  cap.dp_ordering_ooo_all_xrc = profile.out_of_order && profile.xrc;
  cap.dp_ordering_ooo_all_dc = profile.out_of_order && profile.dct;
  cap.qpc_extension = true;
  cap.dma_mmo_qp = profile.mmo;
  cap.log_max_ra_req_dc = profile.log_max_ra_req_qp;
  cap.log_max_ra_res_dc = profile.log_max_ra_res_qp;
  cap.log_max_dci_stream_channels = profile.log_max_dci_streams;
  cap.log_max_dci_errored_streams = profile.log_max_dci_errored_streams;
  cap.atomic = profile.atomic;
  cap.cqe_version = 1;
  cap.sctr_data_cqe = profile.scatter_to_cqe;
  cap.cq_resize = cap.cq_oi = cap.cq_eq_remap = true;
  if (profile.cqe_compression) {  // nothing is held back for more to come: there is no timeout
    cap.cqe_compression = cap.cqe_compression_128 = cap.enhanced_cqe_compression = true;
    cap.mini_cqe_resp_stride_index = true;
    cap.cqe_compression_max_num = profile.max_compressed_cqes;
  }
  cap.block_lb_mc = true;
  cap.dump_fill_mkey = cap.null_mkey = true;
  cap.imaicl = profile.memory_windows;
  cap.pg = profile.odp;
  cap.mkey_by_name = true;
  cap.max_indirection = profile.max_indirection;
  cap.log_max_klm_list_size = profile.log_max_klm_entries;
  cap.sho = cap.sigerr_cqe = cap.sigerr_domain_and_sig_type = cap.drain_sigerr = true;
  cap.sig_crc32c = cap.sig_crc64_xp10 = cap.sig_block_4048 = true;
  cap.log_max_bsf_list_size = kLogMaxFormats;
  cap.crypto = cap.aes_xts_single_block_le_tweak = cap.aes_xts_multi_block_be_tweak = true;
  cap.general_obj_types = object_type_bit(prm::GeneralObjectType::kEncryptionKey);
  if (!profile.plain_keys) {
    cap.general_obj_types |= object_type_bit(prm::GeneralObjectType::kCryptoLogin);
  }
  cap.umr_modify_entity_size_disabled = true;  // page lists come with CREATE_MKEY, not by UMR work requests
  cap.umr_fence = prm::kUmrFenceNone;
  cap.uar_4k = true;
  cap.log_pg_sz = 12;
  cap.log_uar_page_sz = 0;  // 4 KB << n
  cap.num_of_uars_per_page = 1;
  cap.uar_sz = 5;  // a BAR of 32 MB
  cap.bf = true;
  cap.log_bf_reg_size = kLogBlueFlameRegisterBytes;
  cap.device_frequency_khz = profile.clock_khz;
  cap.device_frequency_mhz = profile.clock_khz / 1000;
  return cap;
}

prm::AtomicCapabilities atomic_capabilities(const Profile&) {
  prm::AtomicCapabilities cap;
  cap.atomic_operations = prm::kAtomicCompareSwap | prm::kAtomicFetchAdd;
  cap.atomic_size_qp = cap.atomic_size_dc = 1 << 3;  // 8 bytes
  cap.supported_req_8b_endianness_mode_1 = true;     // operands in the host's byte order
  cap.req_8b_endianness_mode = 1;
  return cap;
}

prm::RoceCapabilities roce_capabilities(const Profile& profile) {
  prm::RoceCapabilities cap;
  if (profile.infiniband_port) {
    return cap;
  }
  cap.roce_version = prm::kRoceVersion2;
  cap.l3_type = prm::kRoceL3Ipv4AndIpv6;
  cap.r_roce_dest_udp_port = kRoceV2UdpPort;
  cap.r_roce_min_src_udp_port = kFirstFlowPort;
  cap.r_roce_max_src_udp_port = kLastFlowPort;
  cap.roce_address_table_size = profile.gid_table_entries;
  return cap;
}

// The device reaches a process's memory as its CPU does: a page that is not there yet is no fault to report.
prm::OdpCapabilities odp_capabilities(const Profile& profile) {
  prm::OdpCapabilities cap;
  if (profile.odp) {
    cap.page_prefetch = true;
    cap.ud = prm::kOdpSend | prm::kOdpReceive | prm::kOdpSrqReceive;
    cap.uc = cap.ud | prm::kOdpWrite;
    cap.rc = cap.xrc = cap.dc = cap.uc | prm::kOdpRead | prm::kOdpAtomic;
  }
  return cap;
}

prm::DeviceMemoryCapabilities device_memory_capabilities(const Profile& profile) {
  prm::DeviceMemoryCapabilities cap;
  cap.memic = profile.device_memory;
  cap.log_min_memic_alloc_size = static_cast<std::uint8_t>(std::countr_zero(kMemicGranuleBytes));
  cap.log_max_memic_addr_alignment = profile.log_max_memic_addr_alignment;
  cap.memic_bar_start_addr = kMemicBarStart;
  cap.memic_bar_size = profile.memic_bytes / 4096;
  cap.max_memic_size = profile.memic_bytes;
  return cap;
}

prm::EthernetCapabilities ethernet_capabilities(const Profile& profile) {
  constexpr std::uint8_t kNoInlineNeeded = 2;
  if (!profile.raw_packets) {
    return {};
  }
  return {.csum_cap = true,
          .vlan_cap = true,
          .wqe_vlan_insert = true,
          .max_lso_cap = profile.log_max_large_send_bytes,
          .wqe_inline_mode = kNoInlineNeeded,
          .rss_ind_tbl_cap = profile.log_max_rqt_entries,
          .tunnel_stateless_vxlan = profile.tunnel_offloads};
}

prm::FlowTableCapabilities flow_table_capabilities(const Profile& profile) {
  if (!profile.raw_packets) {
    return {};
  }
  return {.nic_receive_ft_support = true,
          .nic_receive_flow_modify_en = true,
          .nic_receive_modify_root = true,
          .nic_receive_log_max_ft_size = 12,
          .nic_receive_max_ft_level = 255,
          .nic_receive_log_max_ft_num = profile.log_max_flow_tables,
          .nic_receive_log_max_destination = 5};
}

prm::CryptoCapabilities crypto_capabilities(const Profile& profile) {
  prm::CryptoCapabilities cap;
  cap.log_max_num_deks = profile.log_max_dek;
  if (!profile.plain_keys) {
    cap.wrapped_crypto_operational = true;
    cap.wrapped_import_method = kImportByAesKeyWrap;
  }
  return cap;
}

// A reader may ask for the head of a group only.
template <typename Capabilities>
void write_head(const Capabilities& capabilities, std::span<std::byte> out) {
  std::array<std::byte, Capabilities::kBytes> bytes;
  umlx5::wqe::store(bytes.data(), capabilities);
  std::ranges::copy(std::span(bytes).first(std::min(bytes.size(), out.size())), out.begin());
}

}  // namespace

bool write_capabilities(const Profile& profile, std::uint16_t group, std::span<std::byte> out) {
  switch (static_cast<prm::CapabilityGroup>(group)) {
    case prm::CapabilityGroup::kGeneral:
      write_head(general_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kGeneral2:
      if (!profile.out_of_order) {  // it has nothing else
        return false;
      }
      write_head(prm::GeneralCapabilities2{.dp_ordering_force = true}, out);
      return true;
    case prm::CapabilityGroup::kAtomic:
      write_head(atomic_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kRoce:
      write_head(roce_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kCrypto:
      write_head(crypto_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kDeviceMemory:
      write_head(device_memory_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kOdp:
      write_head(odp_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kEthernetOffloads:
      write_head(ethernet_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kFlowTable:
      write_head(flow_table_capabilities(profile), out);
      return true;
    case prm::CapabilityGroup::kQos:  // known and without any capability
    case prm::CapabilityGroup::kDeviceEvent:
      return true;
    default:
      return false;
  }
}

}  // namespace softhca::hca
