// What the soft HCA advertises: the values behind QUERY_HCA_CAP, QUERY_ADAPTER and the port's registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "uapi/error.h"

namespace softhca::hca {

// Resembles a ConnectX-6 Dx with one RoCE port.
struct Profile {
  std::uint16_t vendor_id = 0x15b3;
  std::uint16_t device_id = 0x101d;
  std::string board_id = "UMX0000000001";  // PSID, at most 16 characters
  std::array<std::uint16_t, 3> firmware{22, 41, 1000};
  std::uint64_t node_guid = 0;   // big-endian meaning, set from the address
  bool infiniband_port = false;  // the port is an InfiniBand one to its driver; packets stay RoCE v2
  std::uint8_t log_max_qp = 17, log_max_cq = 16, log_max_srq = 16, log_max_mkey = 20, log_max_eq = 6, log_max_pd = 16;
  std::uint8_t log_max_psv = 20, log_max_dek = 12, log_max_umem = 16;
  std::uint8_t log_max_xrcd = 16, log_max_transport_domain = 16, log_max_uctx = 10;
  std::uint8_t log_max_qp_sz = 15, log_max_cq_sz = 22, log_max_srq_sz = 15, log_max_eq_sz = 22;
  std::uint16_t max_wqe_sz_sq_bytes = 1024, max_wqe_sz_rq_bytes = 512;
  std::uint8_t log_max_ra_req_qp = 4, log_max_ra_res_qp = 4;
  bool xrc = true, dct = true, mmo = true, atomic = true, memory_windows = true, scatter_to_cqe = true,
       packet_based_credit = true, device_memory = true, odp = true, cqe_compression = true, out_of_order = true;
  bool raw_packets = true, tunnel_offloads = true, striding_rq = true;
  bool plain_keys = true;  // data encryption keys come as they are; without it they come wrapped, after a login
  std::uint8_t log_max_tir = 16, log_max_rqt_entries = 11, log_max_flow_tables = 6, log_max_flow_counters = 12,
               log_max_large_send_bytes = 16;
  std::uint8_t log_max_dci_streams = 8, log_max_dci_errored_streams = 8;
  std::uint8_t log_max_mcg = 8;    // multicast groups: each takes a descriptor of the process
  std::uint16_t max_qp_mcg = 240;  // queue pairs in one
  std::uint8_t log_max_message_bytes = 30;
  std::uint8_t max_indirection = 4;        // keys that name keys, in a row
  std::uint8_t log_max_klm_entries = 16;   // of a key that names others
  std::uint8_t log_max_region_bytes = 47;  // a memory key's
  std::uint8_t log_port_mtu = 5;           // IBA code: 5 is 4096 bytes
  std::uint16_t max_compressed_cqes = 64;  // completions of one session
  std::uint16_t gid_table_entries = 256;   // 8 << n
  std::uint16_t pkey_table_entries = 128;  // 128 << n
  std::uint32_t interrupt_vectors = 16;
  std::uint32_t clock_khz = 1'000'000;  // of the free-running clock in CQEs: nanoseconds
  std::uint32_t uar_pages = 1024;
  std::uint32_t memic_bytes = 128 << 10;  // memory on the device, whole pages
  std::uint8_t log_max_memic_addr_alignment = 6;
};

// Takes capabilities away from a profile, as "dci_streams=0,mmo=0" asks: names with values up to what the profile has.
// EINVAL names what is wrong and which names there are; the profile is then unchanged.
umlx5::Expected<void> restrict_profile(std::string_view text, Profile& profile);

// Writes the capability structure of `group` (prm::CapabilityGroup) as QUERY_HCA_CAP gives it, cut to `out`, which
// reads as zeros. What is not implemented is not advertised. False if the group is unknown.
bool write_capabilities(const Profile& profile, std::uint16_t group, std::span<std::byte> out);

}  // namespace softhca::hca
