// Commands on general objects: data encryption keys, and the logins that a device wants which imports them wrapped.
#include <algorithm>
#include <array>
#include <memory>

#include "tools/softhca/hca/command.h"
#include "tools/softhca/hca/crypto_officer.h"
#include "tools/softhca/hca/key_wrap.h"
#include "wqe/prm/general_object.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::EncryptionKey;
using prm::EncryptionKeySize;
using prm::GeneralObjectType;

namespace {

constexpr std::size_t kKeytagBytes = 8;

bool is_logged_in(Device& device, const Request& request) {
  bool found = false;
  device.logins.for_each([&](const CryptoLogin& login) { found = found || login.uid == request.header.uid; });
  return found;
}

template <typename Object>
Refusal take_object(const Request& request, Object& object) {
  if (request.in.size() < prm::kGeneralObjectOffset + Object::kBytes) {
    return {prm::Status::kBadInputLength, Syndrome::kInputTooShort};
  }
  object = umlx5::wqe::load<Object>(request.in.data() + prm::kGeneralObjectOffset);
  return {};
}

void reply_number(const Request& request, std::uint32_t number) {
  request.reply(prm::GeneralObjectOut{.header = {}, .object_id = number});
}

template <typename Object>
Refusal reply_object(const Request& request, std::uint32_t number, const Object& object) {
  if (request.out.size() < prm::kGeneralObjectOffset + Object::kBytes) {
    return {prm::Status::kBadOutputLength, Syndrome::kOutputTooShort};
  }
  reply_number(request, number);
  umlx5::wqe::store(request.out.data() + prm::kGeneralObjectOffset, object);
  return {};
}

// ---- Data encryption keys ----

Refusal take_key(const Profile& profile, const EncryptionKey& object, Dek& dek) {
  if (object.key_purpose != prm::EncryptionKeyPurpose::kAesXts || object.key_size > EncryptionKeySize::k256) {
    return bad_parameter(Syndrome::kDekKind);
  }
  dek.key.used_bytes = object.key_size == EncryptionKeySize::k256 ? 64 : 32;
  const std::size_t plain_bytes = dek.key.used_bytes + (object.has_keytag ? kKeytagBytes : 0);
  std::array<std::byte, EncryptionKey::kKeyBytes> plain{};
  const auto given = std::as_bytes(std::span(object.key));
  if (profile.plain_keys) {
    std::ranges::copy(given.first(plain_bytes), plain.begin());
  } else if (!unwrap(kImportKek, given.first(plain_bytes + kWrapBytes), std::span(plain).first(plain_bytes))) {
    return bad_parameter(Syndrome::kDekUnwrap);
  }
  std::copy_n(plain.begin(), dek.key.used_bytes, dek.key.bytes.begin());
  const auto halves = std::span(dek.key.bytes).first(dek.key.used_bytes);
  if (std::ranges::equal(halves.first(halves.size() / 2), halves.last(halves.size() / 2))) {
    return bad_parameter(Syndrome::kDekHalves);
  }
  if (object.has_keytag) {
    dek.keytag.emplace();
    std::transform(plain.begin() + static_cast<std::ptrdiff_t>(dek.key.used_bytes),
                   plain.begin() + static_cast<std::ptrdiff_t>(plain_bytes), dek.keytag->begin(),
                   [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  }
  dek.opaque = object.opaque;
  return {};
}

Refusal create_dek(Device& device, const Request& request) {
  EncryptionKey object;
  if (const Refusal refusal = take_object(request, object)) {
    return refusal;
  }
  Domain* pd = nullptr;
  if (const Refusal refusal = find(request, device.pds, object.pd, Syndrome::kNoSuchPd, pd)) {
    return refusal;
  }
  if (!device.profile.plain_keys && !is_logged_in(device, request)) {
    return bad_resource_state(Syndrome::kNoLogin);
  }
  auto dek = std::make_unique<Dek>();
  dek->uid = request.header.uid;
  dek->pdn = object.pd;
  if (const Refusal refusal = take_key(device.profile, object, *dek)) {
    return refusal;
  }
  std::uint32_t number = 0;
  if (!device.deks.insert(dek, number)) {
    return no_resources();
  }
  ++pd->users;
  reply_number(request, number);
  return {};
}

Refusal query_dek(Device& device, const Request& request, std::uint32_t number, const Dek& dek) {
  if (!device.profile.plain_keys && !is_logged_in(device, request)) {
    return bad_resource_state(Syndrome::kNoLogin);
  }
  return reply_object(
      request, number,
      EncryptionKey{.state = prm::EncryptionKeyState::kReady,
                    .key_size = dek.key.used_bytes == 64 ? EncryptionKeySize::k256 : EncryptionKeySize::k128,
                    .has_keytag = dek.keytag.has_value(),
                    .key_purpose = prm::EncryptionKeyPurpose::kAesXts,
                    .pd = dek.pdn,
                    .opaque = dek.opaque,
                    .key = {}});
}

// ---- Logins ----

Refusal create_login(Device& device, const Request& request) {
  prm::CryptoLogin object;
  if (const Refusal refusal = take_object(request, object)) {
    return refusal;
  }
  if (device.profile.plain_keys) {
    return bad_parameter(Syndrome::kLoginNotNeeded);
  }
  if (object.credential_pointer != kCredentialNumber || object.session_import_kek != kImportKekNumber) {
    return bad_parameter(Syndrome::kLoginNumbers);
  }
  std::array<std::byte, kCredential.size()> credential;
  if (!unwrap(kImportKek, std::as_bytes(std::span(object.credential)), credential) ||
      !std::ranges::equal(credential, std::as_bytes(std::span(kCredential)))) {
    return bad_parameter(Syndrome::kLoginCredential);
  }
  if (is_logged_in(device, request)) {
    return {prm::Status::kResourceBusy, Syndrome::kLoggedIn};
  }
  auto login = std::make_unique<CryptoLogin>(CryptoLogin{.uid = request.header.uid});
  std::uint32_t number = 0;
  if (!device.logins.insert(login, number)) {
    return no_resources();
  }
  reply_number(request, number);
  return {};
}

// Calls what the named object's type wants, with its number and itself.
template <typename OnDek, typename OnLogin>
Refusal on_object(Device& device, const Request& request, OnDek on_dek, OnLogin on_login) {
  const std::uint32_t number = request.as<prm::GeneralObjectIn>().object_id;
  switch (static_cast<GeneralObjectType>(request.header.op_mod)) {
    case GeneralObjectType::kEncryptionKey: {
      Dek* dek = nullptr;
      const Refusal refusal = find(request, device.deks, number, Syndrome::kNoSuchDek, dek);
      return refusal ? refusal : on_dek(number, *dek);
    }
    case GeneralObjectType::kCryptoLogin: {
      CryptoLogin* login = nullptr;
      const Refusal refusal = find(request, device.logins, number, Syndrome::kNoSuchLogin, login);
      return refusal ? refusal : on_login(number);
    }
  }
  return bad_parameter(Syndrome::kGeneralObjectType);
}

}  // namespace

Refusal create_general_object(Device& device, const Request& request) {
  switch (static_cast<GeneralObjectType>(request.header.op_mod)) {
    case GeneralObjectType::kEncryptionKey:
      return create_dek(device, request);
    case GeneralObjectType::kCryptoLogin:
      return create_login(device, request);
  }
  return bad_parameter(Syndrome::kGeneralObjectType);
}

Refusal query_general_object(Device& device, const Request& request) {
  return on_object(
      device, request, [&](std::uint32_t number, const Dek& dek) { return query_dek(device, request, number, dek); },
      [&](std::uint32_t number) {
        return reply_object(
            request, number,
            prm::CryptoLogin{.credential_pointer = kCredentialNumber, .session_import_kek = kImportKekNumber});
      });
}

Refusal destroy_general_object(Device& device, const Request& request) {
  return on_object(
      device, request,
      [&](std::uint32_t number, const Dek& dek) -> Refusal {
        --device.pds.find(dek.pdn)->users;
        device.deks.erase(number);
        return {};
      },
      [&](std::uint32_t number) -> Refusal {
        device.logins.erase(number);
        return {};
      });
}

}  // namespace softhca::hca
