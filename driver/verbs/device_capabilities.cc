#include "driver/verbs/device_capabilities.h"

#include <cstring>

namespace umlx5::verbs {

// Programs get the bytes of the structures, padding too, which a copy of one might leave out.
void fill(const HcaCapabilities& device, mlx5dv_sig_caps& caps) {
  std::memset(&caps, 0, sizeof caps);
  if (!device.signature_handover) {
    return;
  }
  caps.block_size = MLX5DV_BLOCK_SIZE_CAP_512 | MLX5DV_BLOCK_SIZE_CAP_520 | MLX5DV_BLOCK_SIZE_CAP_4096 |
                    MLX5DV_BLOCK_SIZE_CAP_4160 | (device.signature_block_4048 ? MLX5DV_BLOCK_SIZE_CAP_4048 : 0);
  caps.block_prot = MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC;
  caps.t10dif_bg = MLX5DV_SIG_T10DIF_BG_CAP_CRC | MLX5DV_SIG_T10DIF_BG_CAP_CSUM;
  caps.crc_type = static_cast<std::uint16_t>(MLX5DV_SIG_CRC_TYPE_CAP_CRC32 |
                                             (device.signature_crc32c ? MLX5DV_SIG_CRC_TYPE_CAP_CRC32C : 0) |
                                             (device.signature_crc64 ? MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10 : 0));
}

void fill(const HcaCapabilities& device, mlx5dv_crypto_caps& caps) {
  std::memset(&caps, 0, sizeof caps);
  if (!device.crypto) {
    return;
  }
  caps.failed_selftests = device.failed_crypto_selftests;
  caps.crypto_engines =
      static_cast<std::uint8_t>((device.encrypts_single_block ? MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK : 0) |
                                (device.encrypts_many_blocks ? MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK : 0));
  caps.wrapped_import_method = device.wrapped_keys ? MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS : 0;
  caps.log_max_num_deks = device.log_max_encryption_keys;
  caps.flags =
      MLX5DV_CRYPTO_CAPS_CRYPTO | (device.wrapped_keys_operational ? MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL : 0);
}

}  // namespace umlx5::verbs
