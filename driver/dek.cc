#include "driver/dek.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "uapi/devx.h"
#include "wqe/prm/general_object.h"

namespace umlx5 {
namespace {

namespace prm = wqe::prm;
using prm::GeneralObjectType;

template <typename Object>
using Mailbox = std::array<std::byte, prm::kGeneralObjectOffset + Object::kBytes>;

constexpr prm::GeneralObjectIn header(prm::Opcode opcode, GeneralObjectType type, std::uint32_t number) {
  return {.header = {.opcode = opcode, .op_mod = static_cast<std::uint16_t>(type)}, .object_id = number};
}

struct Created {
  uapi::DevxObjectHandle handle{};
  std::uint32_t number = 0;
};

template <typename Object>
Expected<Created> create(uapi::Commands& commands, GeneralObjectType type, const Object& object) {
  Mailbox<Object> in{};
  std::array<std::byte, prm::GeneralObjectOut::kBytes> out{};
  wqe::store(in.data(), header(prm::Opcode::kCreateGeneralObject, type, 0));
  wqe::store(in.data() + prm::kGeneralObjectOffset, object);
  auto handle = uapi::devx_create(commands, in, out);
  std::ranges::fill(in, std::byte{0});  // keys stay nowhere
  if (!handle) {
    return std::unexpected(uapi::with_firmware_errno(std::move(handle.error())));
  }
  return Created{*handle, wqe::load<prm::GeneralObjectOut>(out.data()).object_id};
}

template <typename Object>
Expected<Object> query(uapi::Commands& commands, GeneralObjectType type, const Created& object) {
  std::array<std::byte, prm::GeneralObjectIn::kBytes> in{};
  Mailbox<Object> out{};
  wqe::store(in.data(), header(prm::Opcode::kQueryGeneralObject, type, object.number));
  if (auto result = uapi::devx_query(commands, object.handle, in, out); !result) {
    return std::unexpected(uapi::with_firmware_errno(std::move(result.error())));
  }
  return wqe::load<Object>(out.data() + prm::kGeneralObjectOffset);
}

// Takes the object out of its context's list and ends it in the device; it is back in the list if that is refused.
template <typename Object>
Expected<void> end_object(Context::State& state, ResourceList<Object>& list, Object& object,
                          uapi::DevxObjectHandle handle) {
  {
    const std::lock_guard lock(state.mutex);
    state.remove(list, object);
  }
  if (auto result = uapi::devx_destroy(*state.commands, handle); !result) {
    state.add(list, object);
    return result;
  }
  delete &object;
  return {};
}

Expected<void> check_dek(const DekOptions& options, const HcaCapabilities& device) {
  if (!device.encrypts() || !device.has_general_object(static_cast<unsigned>(GeneralObjectType::kEncryptionKey))) {
    return fail(EOPNOTSUPP, "DEK: the device does not encrypt (HCA capabilities aes_xts_*, general_obj_types)");
  }
  if (options.size > DekSize::k256) {
    return fail(EINVAL, "DEK: a key size that does not exist");
  }
  if ((options.import == DekImport::kWrapped) != device.wrapped_keys) {
    return fail(EINVAL, fmt::format("DEK: this device imports keys {} only (HCA capability wrapped_import_method)",
                                    device.wrapped_keys ? "wrapped" : "plain"));
  }
  const std::size_t wanted = dek_bytes(options.size, options.has_keytag, options.import);
  return options.key.size() == wanted
             ? Expected<void>{}
             : fail(EINVAL,
                    fmt::format("DEK: {} bytes; two keys of {} bits{} take {}{}", options.key.size(),
                                options.size == DekSize::k256 ? 256 : 128, options.has_keytag ? " and a key tag" : "",
                                wanted, options.import == DekImport::kWrapped ? " when they are wrapped" : ""));
}

}  // namespace

// ---- Data encryption keys ----

Expected<Owned<Dek>> Pd::create_dek(const DekOptions& options) {
  Context::State& state = context_->state();
  if (auto result = check_dek(options, state.capabilities); !result) {
    return std::unexpected(std::move(result.error()));
  }
  prm::EncryptionKey key{
      .key_size = options.size == DekSize::k256 ? prm::EncryptionKeySize::k256 : prm::EncryptionKeySize::k128,
      .has_keytag = options.has_keytag,
      .key_purpose = prm::EncryptionKeyPurpose::kAesXts,
      .pd = pdn_,
      .opaque = options.opaque};
  std::ranges::transform(options.key, key.key.begin(),
                         [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  std::unique_ptr<Dek> dek(new (std::nothrow) Dek);
  if (dek == nullptr) {
    return fail(ENOMEM, "DEK: no memory");
  }
  auto created = create(*state.commands, GeneralObjectType::kEncryptionKey, key);
  key.key.fill(0);
  if (!created) {
    created.error().what = "DEK: " + created.error().what;
    return std::unexpected(std::move(created.error()));
  }
  dek->context_ = context_;
  dek->pd_ = this;
  dek->handle_ = created->handle;
  dek->number_ = created->number;
  state.add(state.deks, *dek);
  return Owned<Dek>(dek.release());
}

Expected<DekAttributes> Dek::query() {
  const auto key =
      umlx5::query<prm::EncryptionKey>(context_->commands(), GeneralObjectType::kEncryptionKey, {handle_, number_});
  if (!key) {
    return std::unexpected(key.error());
  }
  return DekAttributes{.ready = key->state == prm::EncryptionKeyState::kReady, .opaque = key->opaque};
}

Expected<void> Dek::destroy(Dek& dek) {
  Context::State& state = dek.context_->state();
  return end_object(state, state.deks, dek, dek.handle_);
}

void Dek::abandon(Dek& dek, const Error& why) { log_abandoned(fmt::format("DEK {:#x}", dek.number_), why); }

// ---- Logins ----

Expected<Owned<CryptoLogin>> Context::crypto_login(const CryptoLoginOptions& options) {
  constexpr std::uint32_t kMostNumber = 0xffffff;
  State& state = *state_;
  if (!state.capabilities.wrapped_keys_operational ||
      !state.capabilities.has_general_object(static_cast<unsigned>(GeneralObjectType::kCryptoLogin))) {
    return fail(EOPNOTSUPP,
                "crypto login: the device does not import wrapped keys (HCA capability wrapped_crypto_operational)");
  }
  if (options.credential > kMostNumber || options.import_kek > kMostNumber) {
    return fail(EINVAL, fmt::format("crypto login: credential {:#x} and import KEK {:#x}; their numbers have 24 bits",
                                    options.credential, options.import_kek));
  }
  prm::CryptoLogin login{.credential_pointer = options.credential, .session_import_kek = options.import_kek};
  static_assert(sizeof login.credential == CryptoLoginOptions::kCredentialBytes);
  if (options.wrapped_credential.size() != CryptoLoginOptions::kCredentialBytes) {
    return fail(EINVAL, fmt::format("crypto login: a wrapped credential of {} bytes; it has {}",
                                    options.wrapped_credential.size(), CryptoLoginOptions::kCredentialBytes));
  }
  std::ranges::transform(options.wrapped_credential, login.credential.begin(),
                         [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  std::unique_ptr<CryptoLogin> object(new (std::nothrow) CryptoLogin);
  if (object == nullptr) {
    return fail(ENOMEM, "crypto login: no memory");
  }
  auto created = create(*state.commands, GeneralObjectType::kCryptoLogin, login);
  if (!created) {
    created.error().what = "crypto login: " + created.error().what;
    return std::unexpected(std::move(created.error()));
  }
  object->context_ = this;
  object->handle_ = created->handle;
  object->number_ = created->number;
  state.add(state.logins, *object);
  return Owned<CryptoLogin>(object.release());
}

Expected<bool> CryptoLogin::is_valid() {
  const auto object =
      query<prm::CryptoLogin>(context_->commands(), GeneralObjectType::kCryptoLogin, {handle_, number_});
  if (!object) {
    return std::unexpected(object.error());
  }
  return object->valid();
}

Expected<void> CryptoLogin::destroy(CryptoLogin& login) {
  Context::State& state = login.context_->state();
  return end_object(state, state.logins, login, login.handle_);
}

void CryptoLogin::abandon(CryptoLogin& login, const Error& why) {
  log_abandoned(fmt::format("crypto login {:#x}", login.number_), why);
}

}  // namespace umlx5
