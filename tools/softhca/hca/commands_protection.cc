// Running values of signatures (PSV): CREATE_PSV, DESTROY_PSV.
#include <algorithm>
#include <array>
#include <memory>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/psv.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
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

}  // namespace softhca::hca
