// Address handle: where a datagram goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "driver/resource.h"
#include "uapi/ah.h"
#include "uapi/error.h"
#include "uapi/handles.h"
#include "wqe/address_vector.h"

namespace umlx5 {

class Context;
class Pd;

// Immutable after it is made, so any number of threads may post with it.
class Ah : public ResourceHook {
 public:
  // The destination as a WQE holds it (48 bytes, wqe/address_vector.h), but for the destination QPN and Q_Key.
  const std::array<std::byte, wqe::AddressVector::kBytes>& address_vector() const { return address_vector_; }
  uapi::AhHandle handle() const { return handle_; }  // 0: the kernel knows nothing of it
  Pd& pd() const { return *pd_; }

  // A datagram that was posted with it must have completed.
  static Expected<void> destroy(Ah& ah);
  static void abandon(Ah& ah, const Error& why);

 private:
  friend class Pd;
  friend class Context;
  Expected<void> resolve(const uapi::AddressVector& address, wqe::AddressVector& vector);
  Context* context_ = nullptr;
  Pd* pd_ = nullptr;
  bool in_kernel_ = false;  // the kernel was asked for the MAC address
  uapi::AhHandle handle_{};
  // First, so that a post reads one cache line of it.
  alignas(64) std::array<std::byte, wqe::AddressVector::kBytes> address_vector_{};
};

}  // namespace umlx5
