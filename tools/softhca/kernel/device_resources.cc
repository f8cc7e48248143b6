#include "tools/softhca/kernel/device_resources.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>

#include "wqe/cqe.h"
#include "wqe/prm/cq.h"
#include "wqe/prm/srq.h"

namespace softhca::kernel {

namespace prm = umlx5::wqe::prm;

namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kSrqPage = kPageBytes, kRecordPage = 2 * kPageBytes, kMemoryBytes = 3 * kPageBytes;
constexpr std::size_t kSrqRecordOffset = 64;
constexpr std::uint8_t kLogCqEntries = 1, kLogSrqEntries = 2;
constexpr std::uint8_t kInvalidCqe = 0xf0;

std::uint64_t address_of(const std::byte* memory) { return reinterpret_cast<std::uint64_t>(memory); }

int take(std::expected<std::uint32_t, int> made, std::uint32_t& number) {
  number = made.value_or(0);
  return made ? 0 : made.error();
}

}  // namespace

std::expected<std::unique_ptr<DeviceResources>, int> DeviceResources::create(Firmware& firmware, std::uint32_t eqn) {
  std::unique_ptr<DeviceResources> resources(new DeviceResources(firmware));
  if (const int error = resources->make(eqn); error != 0) {
    return std::unexpected(error);
  }
  return resources;
}

DeviceResources::~DeviceResources() {
  free(srqn_, prm::Opcode::kDestroyXrcSrq);
  free(cqn_, prm::Opcode::kDestroyCq);
  free(srq_xrcdn_, prm::Opcode::kDeallocXrcd);
  free(xrcdn_, prm::Opcode::kDeallocXrcd);
  free(pdn_, prm::Opcode::kDeallocPd);
  free(uar_, prm::Opcode::kDeallocUar);
  if (memory_ != nullptr) {
    ::munmap(memory_, kMemoryBytes);
  }
}

void DeviceResources::free(std::uint32_t number, prm::Opcode opcode) {
  if (number != 0) {
    command_on_object(firmware_, opcode, 0, number);
  }
}

int DeviceResources::make(std::uint32_t eqn) {
  void* const memory = ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return ENOMEM;
  }
  memory_ = static_cast<std::byte*>(memory);
  int error = take(allocate(firmware_, prm::Opcode::kAllocUar, 0), uar_);
  error = error != 0 ? error : take(allocate(firmware_, prm::Opcode::kAllocPd, 0), pdn_);
  error = error != 0 ? error : take(allocate(firmware_, prm::Opcode::kAllocXrcd, 0), xrcdn_);
  error = error != 0 ? error : take(allocate(firmware_, prm::Opcode::kAllocXrcd, 0), srq_xrcdn_);
  error = error != 0 ? error : make_cq(eqn);
  return error != 0 ? error : make_srq();
}

int DeviceResources::make_cq(std::uint32_t eqn) {
  for (std::size_t i = 0; i < 1u << kLogCqEntries; ++i) {
    memory_[i * umlx5::wqe::kCqeBytes + umlx5::wqe::kCqeOpOwnOffset] = std::byte{kInvalidCqe};
  }
  prm::CreateCqIn in{.header = {.opcode = prm::Opcode::kCreateCq}};
  in.cqc.log_cq_size = kLogCqEntries;
  in.cqc.uar_page = uar_;
  in.cqc.c_eqn = static_cast<std::uint8_t>(eqn);
  in.cqc.dbr_addr = address_of(memory_ + kRecordPage);
  const std::array<std::uint64_t, 1> pages{address_of(memory_)};
  const auto out = command<prm::ObjectOut>(firmware_, in, pages);
  return take(out ? std::expected<std::uint32_t, int>(out->number) : std::unexpected(out.error()), cqn_);
}

int DeviceResources::make_srq() {
  prm::CreateXrcSrqIn in{.header = {.opcode = prm::Opcode::kCreateXrcSrq}};
  in.xrc_srqc.log_xrc_srq_size = kLogSrqEntries;
  in.xrc_srqc.log_rq_stride = 1;
  in.xrc_srqc.dbr_addr = address_of(memory_ + kRecordPage + kSrqRecordOffset);
  in.xrc_srqc.xrcd = srq_xrcdn_;
  in.xrc_srqc.cqn = cqn_;
  in.xrc_srqc.pd = pdn_;
  const std::array<std::uint64_t, 1> pages{address_of(memory_ + kSrqPage)};
  const auto out = command<prm::ObjectOut>(firmware_, in, pages);
  return take(out ? std::expected<std::uint32_t, int>(out->number) : std::unexpected(out.error()), srqn_);
}

}  // namespace softhca::kernel
