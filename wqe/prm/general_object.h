// General objects, of which data encryption keys are one type: CREATE_, QUERY_ and DESTROY_GENERAL_OBJECT.
//
// Layouts: general_obj_in_cmd_hdr, general_obj_out_cmd_hdr of <linux/mlx5/mlx5_ifc.h>; encryption_key_obj of
// rdma-core's mlx5_ifc.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// The bit 1 << value of GeneralCapabilities::general_obj_types tells that the device has the type.
enum class GeneralObjectType : std::uint16_t { kEncryptionKey = 0xc, kCryptoLogin = 0x1f };

// What every command on general objects begins with. Op_mod is the object type here.
struct GeneralObjectIn {
  InputHeader header{};
  std::uint32_t object_id{};  // to query and destroy
  static constexpr std::string_view kName = "general_obj_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"header", &GeneralObjectIn::header, bytes(0x0, 8)},
                                         Field{"object_id", &GeneralObjectIn::object_id, bytes(0x8, 4)}};
};
static_assert(layout_is_valid<GeneralObjectIn>());

struct GeneralObjectOut {
  OutputHeader header{};
  std::uint32_t object_id{};
  static constexpr std::string_view kName = "general_obj_out";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"header", &GeneralObjectOut::header, bytes(0x0, 8)},
                                         Field{"object_id", &GeneralObjectOut::object_id, bytes(0x8, 4)}};
};
static_assert(layout_is_valid<GeneralObjectOut>());

// The object itself, behind the headers.
inline constexpr std::size_t kGeneralObjectOffset = 0x10;

enum class EncryptionKeyState : std::uint8_t { kReady = 0, kError = 1 };
enum class EncryptionKeySize : std::uint8_t { k128 = 0, k256 = 1 };
enum class EncryptionKeyPurpose : std::uint8_t { kAesXts = 3 };

struct EncryptionKey {
  static constexpr std::size_t kKeyBytes = 128;

  EncryptionKeyState state{};
  EncryptionKeySize key_size{};
  bool has_keytag{};
  EncryptionKeyPurpose key_purpose{};
  std::uint32_t pd{};
  std::array<std::uint8_t, 8> opaque{};
  std::array<std::uint8_t, kKeyBytes> key{};  // both XTS keys, then the key tag if there is one; reads as zeros
  static constexpr std::string_view kName = "encryption_key_obj";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields = Fields{Field{"state", &EncryptionKey::state, bytes(0x8, 1)},
                                         Field{"key_size", &EncryptionKey::key_size, bits(0x8, 11, 8)},
                                         Field{"has_keytag", &EncryptionKey::has_keytag, bits(0x8, 7, 7)},
                                         Field{"key_purpose", &EncryptionKey::key_purpose, bits(0x8, 3, 0)},
                                         Field{"pd", &EncryptionKey::pd, bits(0xc, 23, 0)},
                                         Field{"opaque", &EncryptionKey::opaque, bytes(0x30, 8)},
                                         Field{"key", &EncryptionKey::key, bytes(0x40, kKeyBytes)}};
};
static_assert(layout_is_valid<EncryptionKey>());
static_assert(offset_bits_of(&EncryptionKey::key) == 0x40 * 8);

// A login to a device that imports wrapped keys (crypto_login_obj).
struct CryptoLogin {
  std::uint8_t state{};  // 0: valid
  std::uint32_t credential_pointer{};
  std::uint32_t session_import_kek{};
  std::array<std::uint8_t, 48> credential{};
  bool valid() const { return state == 0; }
  static constexpr std::string_view kName = "crypto_login_obj";
  static constexpr std::size_t kBytes = 256;
  static constexpr auto kFields =
      Fields{Field{"state", &CryptoLogin::state, bits(0x10, 27, 24)},
             Field{"credential_pointer", &CryptoLogin::credential_pointer, bits(0x10, 23, 0)},
             Field{"session_import_kek", &CryptoLogin::session_import_kek, bits(0x14, 23, 0)},
             Field{"credential", &CryptoLogin::credential, bytes(0x40, 48)}};
};
static_assert(layout_is_valid<CryptoLogin>());
static_assert(offset_bits_of(&CryptoLogin::credential) == 0x40 * 8);

}  // namespace umlx5::wqe::prm
