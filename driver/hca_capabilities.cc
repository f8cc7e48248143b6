#include "driver/hca_capabilities.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include "driver/log.h"
#include "uapi/devx.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/command.h"

namespace umlx5 {
namespace {

namespace prm = wqe::prm;

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

constexpr std::uint8_t kImportWrappedByAes = 4;  // CryptoCapabilities::wrapped_import_method

template <typename Capabilities>
Expected<Capabilities> query_group(uapi::Commands& commands, prm::CapabilityGroup group) {
  constexpr unsigned kCurrent = 1;  // not the highest that could be set
  std::array<std::byte, prm::QueryHcaCapIn::kBytes> in{};
  std::array<std::byte, prm::kCapabilityOffset + prm::kCapabilityBytes> out{};
  wqe::store(in.data(), prm::QueryHcaCapIn{.header = {.opcode = prm::Opcode::kQueryHcaCap,
                                                      .op_mod = static_cast<std::uint16_t>(
                                                          static_cast<unsigned>(group) << 1 | kCurrent)}});
  if (auto done = uapi::devx_general(commands, in, out); !done) {
    return std::unexpected(std::move(done.error()));
  }
  return wqe::load<Capabilities>(out.data() + prm::kCapabilityOffset);
}

// What concerns the signatures and encryption of memory keys.
void set_mkey_capabilities(uapi::Commands& commands, const prm::GeneralCapabilities& device,
                           HcaCapabilities& capabilities) {
  if (device.sho) {
    capabilities.signature_handover = true;
    capabilities.signatures = device.sigerr_domain_and_sig_type;
    capabilities.signature_block_4048 = device.sig_block_4048;
    capabilities.signature_crc32c = device.sig_crc32c;
    capabilities.signature_crc64 = device.sig_crc64_xp10;
  }
  capabilities.general_objects = device.general_obj_types;
  capabilities.encrypts_single_block = device.aes_xts_single_block_le_tweak;
  capabilities.encrypts_many_blocks = device.aes_xts_multi_block_be_tweak;
  if (!device.crypto) {
    return;
  }
  if (const auto crypto = query_group<prm::CryptoCapabilities>(commands, prm::CapabilityGroup::kCrypto)) {
    capabilities.crypto = true;
    capabilities.wrapped_keys = (crypto->wrapped_import_method & kImportWrappedByAes) != 0;
    capabilities.wrapped_keys_operational = crypto->wrapped_crypto_operational;
    capabilities.wrapped_keys_commissioning = crypto->wrapped_crypto_going_to_commissioning;
    capabilities.log_max_encryption_keys = crypto->log_max_num_deks;
    capabilities.failed_crypto_selftests = crypto->failed_selftests;
  }
}

// The kernel tells of the other transports.
std::uint32_t dc_on_demand(uapi::Commands& commands) {
  const auto odp = query_group<prm::OdpCapabilities>(commands, prm::CapabilityGroup::kOdp);
  if (!odp) {
    return 0;
  }
  // In the verbs' order, SEND being bit 0.
  constexpr std::uint32_t kBits[] = {prm::kOdpSend, prm::kOdpReceive, prm::kOdpWrite,
                                     prm::kOdpRead, prm::kOdpAtomic,  prm::kOdpSrqReceive};
  std::uint32_t result = 0;
  for (std::size_t i = 0; i < std::size(kBits); ++i) {
    result |= (odp->dc & kBits[i]) != 0 ? 1u << i : 0;
  }
  return result;
}

}  // namespace

HcaCapabilities query_hca_capabilities(uapi::Commands& commands, std::uint32_t max_recv_wr) {
  const auto device = query_group<prm::GeneralCapabilities>(commands, prm::CapabilityGroup::kGeneral);
  if (!device) {
    log(LogLevel::kInfo, fmt::format("HCA capabilities are not known: {}", device.error().message()));
    return {};
  }
  HcaCapabilities capabilities = from_device(*device, max_recv_wr);
  set_mkey_capabilities(commands, *device, capabilities);
  capabilities.dc_on_demand = device->pg ? dc_on_demand(commands) : 0;
  return capabilities;
}

}  // namespace umlx5
