// Data encryption keys and crypto logins that libmlx5 exports.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "driver/verbs/mkey_objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

// The program's object around a native one; null with errno.
template <typename Object, typename Native>
Object* wrap(Expected<Owned<Native>> created) {
  if (!created) {
    return report_null(created.error());
  }
  auto* const object = new (std::nothrow) Object{std::move(*created)};
  return object != nullptr ? object : report_null({ENOMEM, "no memory"});
}

template <typename Object>
int destroy(Object* object) {
  const int error = result_of(object->native.destroy());
  if (error == 0) {
    delete object;
  }
  return error;
}

// ---- Data encryption keys ----

// Which form the key has, a login tells: that of the attributes, or the context's.
Expected<DekImport> import_of(ibv_context* context, const mlx5dv_dek_init_attr& attr) {
  if ((attr.comp_mask & MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN) != 0) {
    return attr.crypto_login != nullptr ? DekImport::kWrapped : DekImport::kPlain;
  }
  ContextObject& object = object_of(context);
  const std::lock_guard lock(object.crypto_mutex);
  return object.crypto_login != nullptr
             ? Expected<DekImport>(DekImport::kWrapped)
             : fail(EINVAL, "DEK: there is no crypto login, and comp_mask does not say that none is meant");
}

Expected<Owned<Dek>> create_dek(ibv_context* context, const mlx5dv_dek_init_attr& attr) {
  if (!native_of(context).capabilities().encrypts()) {
    return fail(EOPNOTSUPP, "DEK: the device does not encrypt");
  }
  if (attr.key_purpose != MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS ||
      (attr.key_size != MLX5DV_CRYPTO_KEY_SIZE_128 && attr.key_size != MLX5DV_CRYPTO_KEY_SIZE_256) ||
      (attr.comp_mask & ~std::uint64_t{MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN}) != 0) {
    return fail(EINVAL, "DEK: a key purpose, key size or comp_mask that does not exist");
  }
  const auto import = import_of(context, attr);
  if (!import) {
    return std::unexpected(import.error());
  }
  DekOptions options{
      .key = {}, .size = static_cast<DekSize>(attr.key_size), .import = *import, .has_keytag = attr.has_keytag};
  options.key = std::as_bytes(std::span(attr.key)).first(dek_bytes(options.size, options.has_keytag, options.import));
  std::ranges::copy(attr.opaque, options.opaque.begin());
  return native_of(attr.pd).create_dek(options);
}

int query_dek(const mlx5dv_dek& dek, mlx5dv_dek_attr& attr) {
  if (attr.comp_mask != 0) {
    return report({EINVAL, fmt::format("DEK query: comp_mask {:#x} is not known; 0 is", attr.comp_mask)});
  }
  const auto told = dek.native->query();
  if (!told) {
    return report(told.error());
  }
  attr.state = told->ready ? MLX5DV_DEK_STATE_READY : MLX5DV_DEK_STATE_ERROR;
  std::ranges::copy(told->opaque, attr.opaque);
  return 0;
}

// ---- Logins ----

mlx5dv_crypto_login_obj* log_in(ibv_context* context, const mlx5dv_crypto_login_attr_ex& attr) {
  if (attr.comp_mask != 0) {
    return report_null({EINVAL, "crypto login: comp_mask is to be 0"});
  }
  return wrap<mlx5dv_crypto_login_obj>(native_of(context).crypto_login(
      {.credential = attr.credential_id,
       .import_kek = attr.import_kek_id,
       .wrapped_credential = {static_cast<const std::byte*>(attr.credential), attr.credential_len}}));
}

int query_login(mlx5dv_crypto_login_obj& login, mlx5dv_crypto_login_state& state) {
  const auto valid = login.native->is_valid();
  if (!valid) {
    return report(valid.error());
  }
  state = *valid ? MLX5DV_CRYPTO_LOGIN_STATE_VALID : MLX5DV_CRYPTO_LOGIN_STATE_INVALID;
  return 0;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5::verbs;

extern "C" {

mlx5dv_dek* mlx5dv_dek_create(ibv_context* context, mlx5dv_dek_init_attr* attr) {
  return wrap<mlx5dv_dek>(create_dek(context, *attr));
}
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
