// Data encryption keys and crypto logins that libmlx5 exports.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "driver/verbs/mkey_objects.h"
#include "driver/verbs/report.h"
#include "uapi/devx.h"
#include "wqe/prm/general_object.h"

namespace umlx5::verbs {
namespace {

namespace prm = wqe::prm;

struct GeneralObject {
  uapi::DevxObjectHandle handle{};
  std::uint32_t id = 0;
};

template <typename Object>
using Mailbox = std::array<std::byte, prm::kGeneralObjectOffset + Object::kBytes>;

constexpr prm::GeneralObjectIn header(prm::Opcode opcode, prm::GeneralObjectType type, std::uint32_t id) {
  return {.header = {.opcode = opcode, .op_mod = static_cast<std::uint16_t>(type)}, .object_id = id};
}

// A refusal of the device as the errno that its status stands for.
Error as_firmware_error(Error error) {
  if (error.errno_value == EREMOTEIO) {
    error.errno_value = uapi::firmware_status_errno(error.firmware_status);
  }
  return error;
}

template <typename Object>
Expected<GeneralObject> create(ibv_context* context, prm::GeneralObjectType type, const Object& object) {
  Mailbox<Object> in{};
  std::array<std::byte, prm::GeneralObjectOut::kBytes> out{};
  wqe::store(in.data(), header(prm::Opcode::kCreateGeneralObject, type, 0));
  wqe::store(in.data() + prm::kGeneralObjectOffset, object);
  auto handle = uapi::devx_create(native_of(context).commands(), in, out);
  if (!handle) {
    return std::unexpected(as_firmware_error(std::move(handle.error())));
  }
  return GeneralObject{*handle, wqe::load<prm::GeneralObjectOut>(out.data()).object_id};
}

template <typename Object>
Expected<Object> query(ibv_context* context, prm::GeneralObjectType type, const GeneralObject& object) {
  std::array<std::byte, prm::GeneralObjectIn::kBytes> in{};
  Mailbox<Object> out{};
  wqe::store(in.data(), header(prm::Opcode::kQueryGeneralObject, type, object.id));
  if (auto result = uapi::devx_query(native_of(context).commands(), object.handle, in, out); !result) {
    return std::unexpected(as_firmware_error(std::move(result.error())));
  }
  return wqe::load<Object>(out.data() + prm::kGeneralObjectOffset);
}

template <typename Object>
int destroy(Object* object) {
  const int error = result_of(uapi::devx_destroy(native_of(object->context).commands(), object->handle));
  if (error == 0) {
    delete object;
  }
  return error;
}

// ---- Data encryption keys ----

// Wrapped keys need a login, plain ones a device that takes such.
Expected<void> check_import(ibv_context* context, const mlx5dv_dek_init_attr& attr) {
  const bool wrapped_device = native_of(context).capabilities().wrapped_keys;
  const bool explicit_login = (attr.comp_mask & MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN) != 0;
  const bool wrapped = explicit_login ? attr.crypto_login != nullptr : object_of(context).crypto_login != nullptr;
  if (!explicit_login && !wrapped) {
    return fail(EINVAL, "DEK: there is no crypto login, and comp_mask does not say that none is meant");
  }
  return wrapped == wrapped_device
             ? Expected<void>{}
             : fail(EINVAL, fmt::format("DEK: this device imports keys {}", wrapped_device ? "wrapped" : "plain"));
}

Expected<prm::EncryptionKey> key_of(ibv_context* context, const mlx5dv_dek_init_attr& attr) {
  const HcaCapabilities& device = native_of(context).capabilities();
  if (!device.encrypts() || !device.has_general_object(static_cast<unsigned>(prm::GeneralObjectType::kEncryptionKey))) {
    return fail(EOPNOTSUPP, "DEK: the device does not encrypt");
  }
  if (attr.key_purpose != MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS ||
      (attr.key_size != MLX5DV_CRYPTO_KEY_SIZE_128 && attr.key_size != MLX5DV_CRYPTO_KEY_SIZE_256) ||
      (attr.comp_mask & ~std::uint64_t{MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN}) != 0) {
    return fail(EINVAL, "DEK: a key purpose, key size or comp_mask that does not exist");
  }
  if (auto result = check_import(context, attr); !result) {
    return std::unexpected(std::move(result.error()));
  }
  prm::EncryptionKey key{.key_size = attr.key_size == MLX5DV_CRYPTO_KEY_SIZE_256 ? prm::EncryptionKeySize::k256
                                                                                 : prm::EncryptionKeySize::k128,
                         .has_keytag = attr.has_keytag,
                         .key_purpose = prm::EncryptionKeyPurpose::kAesXts,
                         .pd = native_of(attr.pd).pdn()};
  std::ranges::copy(attr.opaque, key.opaque.begin());
  std::ranges::copy(attr.key, key.key.begin());
  return key;
}

mlx5dv_dek* create_dek(ibv_context* context, const mlx5dv_dek_init_attr& attr) {
  const auto key = key_of(context, attr);
  if (!key) {
    return report_null(key.error());
  }
  const auto created = create(context, prm::GeneralObjectType::kEncryptionKey, *key);
  if (!created) {
    return report_null(created.error());
  }
  return new mlx5dv_dek{.context = context, .handle = created->handle, .id = created->id};
}

int query_dek(const mlx5dv_dek& dek, mlx5dv_dek_attr& attr) {
  if (attr.comp_mask != 0) {
    return report({EINVAL, fmt::format("DEK query: comp_mask {:#x} is not known; 0 is", attr.comp_mask)});
  }
  const auto key = query<prm::EncryptionKey>(dek.context, prm::GeneralObjectType::kEncryptionKey, {dek.handle, dek.id});
  if (!key) {
    return report(key.error());
  }
  attr.state = key->state == prm::EncryptionKeyState::kReady ? MLX5DV_DEK_STATE_READY : MLX5DV_DEK_STATE_ERROR;
  std::ranges::copy(key->opaque, attr.opaque);
  return 0;
}

// ---- Logins ----

mlx5dv_crypto_login_obj* log_in(ibv_context* context, const mlx5dv_crypto_login_attr_ex& attr) {
  constexpr std::uint32_t kMostId = 0xffffff;
  const HcaCapabilities& device = native_of(context).capabilities();
  if (!device.wrapped_keys_operational ||
      !device.has_general_object(static_cast<unsigned>(prm::GeneralObjectType::kCryptoLogin))) {
    return report_null({EOPNOTSUPP, "crypto login: the device does not import wrapped keys"});
  }
  prm::CryptoLogin login{.credential_pointer = attr.credential_id, .session_import_kek = attr.import_kek_id};
  if (attr.comp_mask != 0 || attr.credential_id > kMostId || attr.import_kek_id > kMostId ||
      attr.credential_len > login.credential.size()) {
    return report_null({EINVAL, fmt::format("crypto login: identifiers have 24 bits, a credential has at most {} bytes",
                                            login.credential.size())});
  }
  std::copy_n(static_cast<const std::uint8_t*>(attr.credential), attr.credential_len, login.credential.begin());
  const auto created = create(context, prm::GeneralObjectType::kCryptoLogin, login);
  if (!created) {
    return report_null(created.error());
  }
  return new mlx5dv_crypto_login_obj{.context = context, .handle = created->handle, .id = created->id};
}

int query_login(const mlx5dv_crypto_login_obj& login, mlx5dv_crypto_login_state& state) {
  const auto object =
      query<prm::CryptoLogin>(login.context, prm::GeneralObjectType::kCryptoLogin, {login.handle, login.id});
  if (!object) {
    return report(object.error());
  }
  state = object->valid() ? MLX5DV_CRYPTO_LOGIN_STATE_VALID : MLX5DV_CRYPTO_LOGIN_STATE_INVALID;
  return 0;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5::verbs;

extern "C" {

mlx5dv_dek* mlx5dv_dek_create(ibv_context* context, mlx5dv_dek_init_attr* attr) { return create_dek(context, *attr); }
int mlx5dv_dek_query(mlx5dv_dek* dek, mlx5dv_dek_attr* attr) { return query_dek(*dek, *attr); }
int mlx5dv_dek_destroy(mlx5dv_dek* dek) { return destroy(dek); }

mlx5dv_crypto_login_obj* mlx5dv_crypto_login_create(ibv_context* context, mlx5dv_crypto_login_attr_ex* attr) {
  return log_in(context, *attr);
}
int mlx5dv_crypto_login_query(mlx5dv_crypto_login_obj* login, mlx5dv_crypto_login_query_attr* attr) {
  return attr->comp_mask != 0 ? report({EINVAL, "crypto login query: comp_mask is to be 0"})
                              : query_login(*login, attr->state);
}
int mlx5dv_crypto_login_destroy(mlx5dv_crypto_login_obj* login) { return destroy(login); }

// The older calls: one login for the whole context.
int mlx5dv_crypto_login(ibv_context* context, mlx5dv_crypto_login_attr* attr) {
  ContextObject& object = object_of(context);
  const std::lock_guard lock(object.crypto_mutex);
  if (attr->comp_mask != 0) {
    return report({EINVAL, "crypto login: comp_mask is to be 0"});
  }
  if (object.crypto_login != nullptr) {
    return report({EEXIST, "crypto login: the context is logged in"});
  }
  object.crypto_login = log_in(context, {.credential_id = attr->credential_id,
                                         .import_kek_id = attr->import_kek_id,
                                         .credential = attr->credential,
                                         .credential_len = sizeof attr->credential,
                                         .comp_mask = 0});
  return object.crypto_login != nullptr ? 0 : errno;
}
int mlx5dv_crypto_login_query_state(ibv_context* context, mlx5dv_crypto_login_state* state) {
  ContextObject& object = object_of(context);
  const std::lock_guard lock(object.crypto_mutex);
  if (object.crypto_login == nullptr) {
    *state = MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN;
    return 0;
  }
  return query_login(*object.crypto_login, *state);
}
int mlx5dv_crypto_logout(ibv_context* context) {
  ContextObject& object = object_of(context);
  const std::lock_guard lock(object.crypto_mutex);
  if (object.crypto_login == nullptr) {
    return report({ENOENT, "crypto logout: the context is not logged in"});
  }
  const int error = destroy(object.crypto_login);
  object.crypto_login = error == 0 ? nullptr : object.crypto_login;
  return error;
}

}  // extern "C"
