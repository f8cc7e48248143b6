#include "driver/mkey_capabilities.h"

#include <array>
#include <cstddef>
#include <optional>

#include "uapi/devx.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/command.h"

namespace umlx5 {
namespace {

namespace prm = wqe::prm;

constexpr std::uint8_t kImportWrappedByAes = 4;  // CryptoCapabilities::wrapped_import_method

template <typename Capabilities>
std::optional<Capabilities> query_group(uapi::Commands& commands, prm::CapabilityGroup group) {
  constexpr unsigned kCurrent = 1;  // not the highest that could be set
  std::array<std::byte, prm::QueryHcaCapIn::kBytes> in{};
  std::array<std::byte, prm::kCapabilityOffset + prm::kCapabilityBytes> out{};
  wqe::store(in.data(), prm::QueryHcaCapIn{.header = {.opcode = prm::Opcode::kQueryHcaCap,
                                                      .op_mod = static_cast<std::uint16_t>(
                                                          static_cast<unsigned>(group) << 1 | kCurrent)}});
  if (!uapi::devx_general(commands, in, out)) {
    return std::nullopt;
  }
  return wqe::load<Capabilities>(out.data() + prm::kCapabilityOffset);
}

}  // namespace

void query_mkey_capabilities(uapi::Commands& commands, HcaCapabilities& capabilities) {
  const auto device = query_group<prm::GeneralCapabilities>(commands, prm::CapabilityGroup::kGeneral);
  if (!device) {
    return;
  }
  if (device->sho && device->sigerr_domain_and_sig_type) {
    capabilities.signatures = true;
    capabilities.signature_block_4048 = device->sig_block_4048;
    capabilities.signature_crc32c = device->sig_crc32c;
    capabilities.signature_crc64 = device->sig_crc64_xp10;
  }
  capabilities.general_objects = device->general_obj_types;
  capabilities.encrypts_one_block = device->aes_xts_single_block_le_tweak || device->aes_xts_multi_block_be_tweak;
  capabilities.encrypts_many_blocks = device->aes_xts_multi_block_be_tweak;
  capabilities.crypto = device->crypto;
  if (!device->crypto) {
    return;
  }
  if (const auto crypto = query_group<prm::CryptoCapabilities>(commands, prm::CapabilityGroup::kCrypto)) {
    capabilities.wrapped_keys = (crypto->wrapped_import_method & kImportWrappedByAes) != 0;
    capabilities.wrapped_keys_operational = crypto->wrapped_crypto_operational;
    capabilities.wrapped_keys_commissioning = crypto->wrapped_crypto_going_to_commissioning;
    capabilities.log_max_encryption_keys = crypto->log_max_num_deks;
    capabilities.failed_crypto_selftests = crypto->failed_selftests;
  }
}

}  // namespace umlx5
