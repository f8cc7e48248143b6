// Data encryption keys, which memory keys encrypt with, and the logins that a device wants before it imports wrapped
// ones.
//
//   auto dek = pd.create_dek({.key = bytes, .size = DekSize::k256});
//   qp.configure_mkey(*mkey, {.encryption = EncryptionBlock{.dek = (*dek)->number()}}, {}, 7);
//
// Layouts: encryption_key_obj and crypto_login_obj of rdma-core's mlx5_ifc.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/resource.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5 {

class Context;
class Pd;

// Of each of the two AES keys of AES-XTS. Values are mlx5dv's (mlx5dv_crypto_key_size).
enum class DekSize : std::uint8_t { k128 = 0, k256 = 1 };

// How a key comes to the device: as it is, or wrapped (RFC 3394) by the import KEK of a login, which makes it 8 bytes
// longer. A device takes one of them only.
enum class DekImport : std::uint8_t { kPlain, kWrapped };

// Both AES keys (data key first), then 8 bytes of key tag if there is one.
constexpr std::size_t dek_bytes(DekSize size, bool has_keytag, DekImport import) {
  return (size == DekSize::k256 ? 64 : 32) + (has_keytag ? 8 : 0) + (import == DekImport::kWrapped ? 8 : 0);
}

struct DekOptions {
  std::span<const std::byte> key;  // dek_bytes(); read during the call only
  DekSize size = DekSize::k128;
  DekImport import = DekImport::kPlain;
  bool has_keytag = false;               // the device then compares it with what a memory key says
  std::array<std::uint8_t, 8> opaque{};  // the program's own
};

struct DekAttributes {
  bool ready = false;  // can encrypt
  std::array<std::uint8_t, 8> opaque{};
};

// Thread-safe.
class Dek : public ResourceHook {
 public:
  std::uint32_t number() const { return number_; }
  Pd& pd() const { return *pd_; }
  Expected<DekAttributes> query();

  // Requests that pass a memory key that names it fail from then on.
  static Expected<void> destroy(Dek& dek);
  static void abandon(Dek& dek, const Error& why);

 private:
  friend class Context;
  friend class Pd;
  Context* context_ = nullptr;
  Pd* pd_ = nullptr;
  uapi::DevxObjectHandle handle_{};
  std::uint32_t number_ = 0;
};

// Credential and import KEK are in the device, stored there by its crypto officer; numbers have 24 bits.
struct CryptoLoginOptions {
  static constexpr std::size_t kCredentialBytes = 48;
  std::uint32_t credential = 0, import_kek = 0;
  std::span<const std::byte> wrapped_credential;  // by the import KEK (RFC 3394); read during the call only
};

// A login of its context, under which wrapped keys are imported. Thread-safe.
class CryptoLogin : public ResourceHook {
 public:
  // False when the device no longer has what the login was made with.
  Expected<bool> is_valid();

  static Expected<void> destroy(CryptoLogin& login);
  static void abandon(CryptoLogin& login, const Error& why);

 private:
  friend class Context;
  Context* context_ = nullptr;
  uapi::DevxObjectHandle handle_{};
  std::uint32_t number_ = 0;
};

}  // namespace umlx5
