// ALLOC_MEMIC, DEALLOC_MEMIC.
#include "tools/softhca/hca/command.h"
#include "wqe/prm/memic.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

Refusal alloc_memic(Device& device, const Request& request) {
  const auto in = request.as<prm::AllocMemicIn>();
  if (!device.profile.device_memory || in.memic_size == 0 || in.memic_size % kMemicGranuleBytes != 0 ||
      in.log_memic_addr_alignment > device.profile.log_max_memic_addr_alignment) {
    return bad_parameter(Syndrome::kMemicSize);
  }
  const std::uint64_t alignment = kMemicGranuleBytes << in.log_memic_addr_alignment;
  const auto address = device.memic.allocate(in.range_start_addr, in.range_size, in.memic_size, alignment);
  if (!address) {
    return {prm::Status::kNoResources, Syndrome::kMemicFull};
  }
  request.reply(prm::AllocMemicOut{.header = {}, .memic_start_addr = *address});
  return {};
}

Refusal dealloc_memic(Device& device, const Request& request) {
  const auto in = request.as<prm::DeallocMemicIn>();
  return device.memic.free(in.memic_start_addr, in.memic_size) ? Refusal{} : bad_resource(Syndrome::kNoSuchMemic);
}

}  // namespace softhca::hca
