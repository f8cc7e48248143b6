#include "driver/verbs/device_capabilities.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "uapi/devx.h"
#include "wqe/layout.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/command.h"

namespace umlx5::verbs {
namespace {

namespace prm = wqe::prm;

// The structure of one group, as it is set now.
template <typename Group>
std::optional<Group> query(uapi::Commands& commands, prm::CapabilityGroup group) {
  constexpr std::uint16_t kCurrent = 1;
  std::array<std::byte, prm::QueryHcaCapIn::kBytes> in{};
  std::array<std::byte, prm::kCapabilityOffset + prm::kCapabilityBytes> out{};
  const prm::InputHeader header{
      .opcode = prm::Opcode::kQueryHcaCap,
      .op_mod = static_cast<std::uint16_t>(static_cast<std::uint16_t>(group) << 1 | kCurrent)};
  wqe::store(in.data(), prm::QueryHcaCapIn{.header = header});
  if (!uapi::devx_general(commands, in, out)) {
    return std::nullopt;
  }
  return wqe::load<Group>(out.data() + prm::kCapabilityOffset);
}

mlx5dv_sig_caps signature_of(const prm::GeneralCapabilities& general) {
  if (!general.sho) {
    return {};
  }
  mlx5dv_sig_caps caps{};
  caps.block_size = MLX5DV_BLOCK_SIZE_CAP_512 | MLX5DV_BLOCK_SIZE_CAP_520 | MLX5DV_BLOCK_SIZE_CAP_4096 |
                    MLX5DV_BLOCK_SIZE_CAP_4160 | (general.sig_block_4048 ? MLX5DV_BLOCK_SIZE_CAP_4048 : 0);
  caps.block_prot = MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC;
  caps.t10dif_bg = MLX5DV_SIG_T10DIF_BG_CAP_CRC | MLX5DV_SIG_T10DIF_BG_CAP_CSUM;
  caps.crc_type = static_cast<std::uint16_t>(MLX5DV_SIG_CRC_TYPE_CAP_CRC32 |
                                             (general.sig_crc32c ? MLX5DV_SIG_CRC_TYPE_CAP_CRC32C : 0) |
                                             (general.sig_crc64_xp10 ? MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10 : 0));
  return caps;
}

mlx5dv_crypto_caps crypto_of(const prm::GeneralCapabilities& general, const prm::CryptoCapabilities& crypto) {
  constexpr std::uint8_t kImportAes = 4;
  mlx5dv_crypto_caps caps{};
  caps.failed_selftests = crypto.failed_selftests;
  caps.crypto_engines = static_cast<std::uint8_t>(
      (general.aes_xts_single_block_le_tweak ? MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK : 0) |
      (general.aes_xts_multi_block_be_tweak ? MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK : 0));
  caps.wrapped_import_method =
      (crypto.wrapped_import_method & kImportAes) != 0 ? MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS : 0;
  caps.log_max_num_deks = crypto.log_max_num_deks;
  caps.flags = MLX5DV_CRYPTO_CAPS_CRYPTO |
               (crypto.wrapped_crypto_operational ? MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL : 0);
  return caps;
}

}  // namespace

DeviceCapabilities query_capabilities(uapi::Commands& commands) {
  DeviceCapabilities capabilities;
  const auto general = query<prm::GeneralCapabilities>(commands, prm::CapabilityGroup::kGeneral);
  if (!general) {
    return capabilities;
  }
  capabilities.signature = signature_of(*general);
  if (general->crypto) {
    if (const auto crypto = query<prm::CryptoCapabilities>(commands, prm::CapabilityGroup::kCrypto)) {
      capabilities.crypto = crypto_of(*general, *crypto);
    }
  }
  return capabilities;
}

}  // namespace umlx5::verbs
