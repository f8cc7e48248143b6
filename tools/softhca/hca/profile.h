// What the soft HCA advertises: the values behind QUERY_HCA_CAP, QUERY_ADAPTER and the port's registers.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace softhca::hca {

// Resembles a ConnectX-6 Dx with one RoCE port.
struct Profile {
  std::uint16_t vendor_id = 0x15b3;
  std::uint16_t device_id = 0x101d;
  std::string board_id = "UMX0000000001";  // PSID
  std::array<std::uint16_t, 3> firmware{22, 41, 1000};
  std::uint64_t node_guid = 0;  // big-endian meaning, set from the address
  std::uint8_t log_max_qp = 17, log_max_cq = 16, log_max_srq = 16, log_max_mkey = 20, log_max_eq = 6, log_max_pd = 16;
  std::uint8_t log_max_qp_sz = 15, log_max_cq_sz = 22, log_max_srq_sz = 15;
  std::uint16_t max_wqe_sz_sq_bytes = 1024, max_wqe_sz_rq_bytes = 512;
  std::uint8_t log_max_ra_req_qp = 4, log_max_ra_res_qp = 4;
  std::uint32_t uar_pages = 1024;
};

}  // namespace softhca::hca
