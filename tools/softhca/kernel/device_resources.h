// What mlx5_ib makes on a device for itself, to give QPs something to name that they do not use: an XRC target has a
// protection domain, completion queues and a shared receive queue only in its context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>

#include "tools/softhca/kernel/firmware.h"

namespace softhca::kernel {

// Belongs to no user context. Not thread-safe; immutable once made.
class DeviceResources {
 public:
  // `eqn`: where the completion queue reports. Errno if the device refuses.
  static std::expected<std::unique_ptr<DeviceResources>, int> create(Firmware& firmware, std::uint32_t eqn);
  ~DeviceResources();
  DeviceResources(const DeviceResources&) = delete;
  DeviceResources& operator=(const DeviceResources&) = delete;

  std::uint32_t pdn() const { return pdn_; }
  std::uint32_t cqn() const { return cqn_; }
  std::uint32_t xrcdn() const { return xrcdn_; }  // a domain without any SRQ that programs could name
  std::uint32_t xrc_srqn() const { return srqn_; }

 private:
  explicit DeviceResources(Firmware& firmware) : firmware_(firmware) {}
  int make(std::uint32_t eqn);
  int make_cq(std::uint32_t eqn);
  int make_srq();
  void free(std::uint32_t number, umlx5::wqe::prm::Opcode opcode);

  Firmware& firmware_;
  std::byte* memory_ = nullptr;  // one page each for the CQ, the SRQ and their doorbell records
  std::uint32_t uar_ = 0, pdn_ = 0, cqn_ = 0, xrcdn_ = 0, srq_xrcdn_ = 0, srqn_ = 0;  // 0: not made
};

}  // namespace softhca::kernel
