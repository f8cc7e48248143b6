// Capabilities, identity, the GID table.
#include <algorithm>
#include <string>

#include "tools/softhca/hca/command.h"
#include "tools/softhca/hca/profile.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/roce.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

bool is_empty(const prm::RoceAddress& address) {
  return std::ranges::all_of(address.source_l3_address, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

Refusal nop(Device&, const Request&) { return {}; }

Refusal query_hca_cap(Device& device, const Request& request) {
  const auto in = request.as<prm::QueryHcaCapIn>();
  if (in.other_function || in.function_id != 0) {
    return bad_parameter(Syndrome::kOtherFunction);
  }
  if (!write_capabilities(device.profile, in.header.op_mod >> 1, request.out.subspan(prm::kCapabilityOffset))) {
    return bad_parameter(Syndrome::kCapabilityGroup);
  }
  return {};
}

Refusal query_adapter(Device& device, const Request& request) {
  prm::QueryAdapterOut out;
  out.ieee_vendor_id = 0x0002c9;
  out.vsd_vendor_id = device.profile.vendor_id;
  const std::string& psid = device.profile.board_id;
  std::copy_n(psid.begin(), std::min(psid.size(), out.psid.size()), out.psid.begin());
  request.reply(out);
  return {};
}

Refusal set_roce_address(Device& device, const Request& request) {
  const auto in = request.as<prm::SetRoceAddressIn>();
  if (in.header.uid != 0) {
    return bad_parameter(Syndrome::kNeedsKernel);
  }
  if (in.vhca_port_num > 1) {
    return bad_parameter(Syndrome::kQpPort);
  }
  if (in.roce_address_index >= device.gids.size()) {
    return bad_index(Syndrome::kGidTableIndex);
  }
  if (is_empty(in.roce_address)) {
    device.gids[in.roce_address_index] = {};
    return {};
  }
  const std::uint8_t version = in.roce_address.roce_version;
  if ((version != prm::kRoceAddressV1 && version != prm::kRoceAddressV2) ||
      in.roce_address.roce_l3_type > prm::kRoceAddressIpv6) {
    return bad_parameter(Syndrome::kGidType);
  }
  device.gids[in.roce_address_index] = in.roce_address;
  return {};
}

Refusal query_roce_address(Device& device, const Request& request) {
  const auto in = request.as<prm::QueryRoceAddressIn>();
  if (in.vhca_port_num > 1) {
    return bad_parameter(Syndrome::kQpPort);
  }
  if (in.roce_address_index >= device.gids.size()) {
    return bad_index(Syndrome::kGidTableIndex);
  }
  request.reply(prm::QueryRoceAddressOut{.header = {}, .roce_address = device.gids[in.roce_address_index]});
  return {};
}

}  // namespace softhca::hca
