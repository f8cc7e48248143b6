#include "driver/hca_capabilities.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "driver/log.h"
#include "uapi/devx.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/command.h"

namespace umlx5 {
namespace {

namespace prm = wqe::prm;

constexpr std::uint16_t kCurrent = 1;  // QUERY_HCA_CAP's op_mod: the group moved up by one, and this
constexpr std::uint64_t kMaxMemcpyBytes = std::uint64_t{1} << 31;  // 31 bits of a data segment

HcaCapabilities from_device(const prm::GeneralCapabilities& device, std::uint32_t max_recv_wr) {
  // A ring for out-of-order receives has twice the entries; linked lists (XRC, DC) have not.
  const std::uint32_t of_a_ring = max_recv_wr > 1 ? max_recv_wr / 2 : max_recv_wr;
  HcaCapabilities capabilities;
  capabilities.out_of_order = {.max_rc = device.dp_ordering_ooo_all_rc ? of_a_ring : 0,
                               .max_xrc = device.dp_ordering_ooo_all_xrc ? max_recv_wr : 0,
                               .max_dct = device.dp_ordering_ooo_all_dc ? max_recv_wr : 0,
                               .max_ud = device.dp_ordering_ooo_all_ud ? of_a_ring : 0,
                               .max_uc = device.dp_ordering_ooo_all_uc ? of_a_ring : 0};
  capabilities.dma_mmo_sq = device.dma_mmo_sq;
  capabilities.dma_mmo_qp = device.dma_mmo_qp;
  if (capabilities.memcpy()) {
    capabilities.max_memcpy_bytes =
        device.log_dma_mmo_max_size != 0 ? std::uint64_t{1} << device.log_dma_mmo_max_size : kMaxMemcpyBytes;
  }
  capabilities.qpc_extension = device.qpc_extension;
  capabilities.max_dc_rd_atomic = std::uint32_t{1} << (device.log_max_ra_req_dc & 31);
  capabilities.max_dc_init_rd_atomic = std::uint32_t{1} << (device.log_max_ra_res_dc & 31);
  return capabilities;
}

}  // namespace

HcaCapabilities query_hca_capabilities(uapi::Commands& commands, std::uint32_t max_recv_wr) {
  std::array<std::byte, prm::QueryHcaCapIn::kBytes> in{};
  std::array<std::byte, prm::kCapabilityOffset + prm::kCapabilityBytes> out{};
  prm::QueryHcaCapIn query;
  query.header.opcode = prm::Opcode::kQueryHcaCap;
  query.header.op_mod =
      static_cast<std::uint16_t>(static_cast<unsigned>(prm::CapabilityGroup::kGeneral) << 1 | kCurrent);
  wqe::store(in.data(), query);
  if (auto done = uapi::devx_general(commands, in, out); !done) {
    log(LogLevel::kInfo, fmt::format("HCA capabilities are not known: {}", done.error().message()));
    return {};
  }
  return from_device(wqe::load<prm::GeneralCapabilities>(out.data() + prm::kCapabilityOffset), max_recv_wr);
}

}  // namespace umlx5
