// Running values of signatures (PSV) and data encryption keys: CREATE_PSV, DESTROY_PSV and the commands on general
// objects.
#include <algorithm>
#include <array>
#include <memory>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/general_object.h"
#include "wqe/prm/psv.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::EncryptionKey;
using prm::EncryptionKeySize;

namespace {

constexpr std::size_t kKeytagBytes = 8;

Refusal check_type(const Request& request) {
  return request.header.op_mod == static_cast<std::uint16_t>(prm::GeneralObjectType::kEncryptionKey)
             ? Refusal{}
             : bad_parameter(Syndrome::kGeneralObjectType);
}

Refusal find_dek(Device& device, const Request& request, std::uint32_t& number, Dek*& dek) {
  if (const Refusal refusal = check_type(request)) {
    return refusal;
  }
  number = request.as<prm::GeneralObjectIn>().object_id;
  return find(request, device.deks, number, Syndrome::kNoSuchDek, dek);
}

Refusal take_key(const EncryptionKey& object, Dek& dek) {
  if (object.key_purpose != prm::EncryptionKeyPurpose::kAesXts || object.key_size > EncryptionKeySize::k256) {
    return bad_parameter(Syndrome::kDekKind);
  }
  dek.key.used_bytes = object.key_size == EncryptionKeySize::k256 ? 64 : 32;
  std::ranges::copy(std::as_bytes(std::span(object.key)).first(dek.key.used_bytes), dek.key.bytes.begin());
  const auto halves = std::span(dek.key.bytes).first(dek.key.used_bytes);
  if (std::ranges::equal(halves.first(halves.size() / 2), halves.last(halves.size() / 2))) {
    return bad_parameter(Syndrome::kDekHalves);
  }
  if (object.has_keytag) {
    dek.keytag.emplace();
    std::copy_n(object.key.begin() + static_cast<std::ptrdiff_t>(dek.key.used_bytes), kKeytagBytes,
                dek.keytag->begin());
  }
  dek.opaque = object.opaque;
  return {};
}

}  // namespace

Refusal create_psv(Device& device, const Request& request) {
  const auto in = request.as<prm::CreatePsvIn>();
  if (in.num_psv == 0 || in.num_psv > prm::kMaxPsvsPerCommand) {
    return bad_parameter(Syndrome::kPsvCount);
  }
  Domain* pd = nullptr;
  if (const Refusal refusal = find(request, device.pds, in.pd, Syndrome::kNoSuchPd, pd)) {
    return refusal;
  }
  std::array<std::uint32_t, prm::kMaxPsvsPerCommand> numbers{};
  for (unsigned i = 0; i < in.num_psv; ++i) {
    auto psv = std::make_unique<Psv>(Psv{.uid = request.header.uid, .pdn = in.pd, .value = std::nullopt});
    if (!device.psvs.insert(psv, numbers[i])) {
      std::for_each_n(numbers.begin(), i, [&](std::uint32_t number) { device.psvs.erase(number); });
      return no_resources();
    }
  }
  pd->users += in.num_psv;
  request.reply(prm::CreatePsvOut{.header = {},
                                  .psv0_index = numbers[0],
                                  .psv1_index = numbers[1],
                                  .psv2_index = numbers[2],
                                  .psv3_index = numbers[3]});
  return {};
}

Refusal destroy_psv(Device& device, const Request& request) {
  Psv* psv = nullptr;
  if (const Refusal refusal = find(request, device.psvs, request.number(), Syndrome::kNoSuchPsv, psv)) {
    return refusal;
  }
  --device.pds.find(psv->pdn)->users;
  device.psvs.erase(request.number());
  return {};
}

Refusal create_general_object(Device& device, const Request& request) {
  if (const Refusal refusal = check_type(request)) {
    return refusal;
  }
  if (request.in.size() < prm::kGeneralObjectOffset + EncryptionKey::kBytes) {
    return {prm::Status::kBadInputLength, Syndrome::kInputTooShort};
  }
  const auto object = umlx5::wqe::load<EncryptionKey>(request.in.data() + prm::kGeneralObjectOffset);
  Domain* pd = nullptr;
  if (const Refusal refusal = find(request, device.pds, object.pd, Syndrome::kNoSuchPd, pd)) {
    return refusal;
  }
  auto dek = std::make_unique<Dek>();
  dek->uid = request.header.uid;
  dek->pdn = object.pd;
  if (const Refusal refusal = take_key(object, *dek)) {
    return refusal;
  }
  std::uint32_t number = 0;
  if (!device.deks.insert(dek, number)) {
    return no_resources();
  }
  ++pd->users;
  request.reply(prm::GeneralObjectOut{.header = {}, .object_id = number});
  return {};
}

Refusal query_general_object(Device& device, const Request& request) {
  std::uint32_t number = 0;
  Dek* dek = nullptr;
  if (const Refusal refusal = find_dek(device, request, number, dek)) {
    return refusal;
  }
  if (request.out.size() < prm::kGeneralObjectOffset + EncryptionKey::kBytes) {
    return {prm::Status::kBadOutputLength, Syndrome::kOutputTooShort};
  }
  request.reply(prm::GeneralObjectOut{.header = {}, .object_id = number});
  umlx5::wqe::store(
      request.out.data() + prm::kGeneralObjectOffset,
      EncryptionKey{.state = prm::EncryptionKeyState::kReady,
                    .key_size = dek->key.used_bytes == 64 ? EncryptionKeySize::k256 : EncryptionKeySize::k128,
                    .has_keytag = dek->keytag.has_value(),
                    .key_purpose = prm::EncryptionKeyPurpose::kAesXts,
                    .pd = dek->pdn,
                    .opaque = dek->opaque,
                    .key = {}});
  return {};
}

Refusal destroy_general_object(Device& device, const Request& request) {
  std::uint32_t number = 0;
  Dek* dek = nullptr;
  if (const Refusal refusal = find_dek(device, request, number, dek)) {
    return refusal;
  }
  --device.pds.find(dek->pdn)->users;
  device.deks.erase(number);
  return {};
}

}  // namespace softhca::hca
