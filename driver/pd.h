// Protection domain and memory region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/resource.h"
#include "driver/types.h"
#include "uapi/error.h"
#include "uapi/mr.h"
#include "uapi/pd.h"

namespace umlx5 {

class Context;
class MemoryRegion;
class Qp;
struct QpOptions;

// Thread-safe.
class Pd : public ResourceHook {
 public:
  // Registers `memory` (of this process; it must stay mapped until the region is destroyed).
  // Errors: EINVAL (remote write or atomic without local write), EFAULT (not mapped, or not writable), ENOMEM.
  Expected<Owned<MemoryRegion>> register_memory(std::span<std::byte> memory, AccessFlags access);
  Expected<Owned<Qp>> create_qp(const QpOptions& options);

  Context& context() const { return *context_; }
  std::uint32_t pdn() const { return pdn_; }
  uapi::PdHandle handle() const { return handle_; }

  // EBUSY while a region or a QP is in it.
  static Expected<void> destroy(Pd& pd);
  static void abandon(Pd& pd, const Error& why);

 private:
  friend class Context;
  Context* context_ = nullptr;
  uapi::PdHandle handle_{};
  std::uint32_t pdn_ = 0;
};

// Thread-safe.
class MemoryRegion : public ResourceHook {
 public:
  std::uint32_t lkey() const { return lkey_; }
  std::uint32_t rkey() const { return rkey_; }
  std::byte* address() const { return address_; }
  std::size_t length_bytes() const { return length_bytes_; }
  Pd& pd() const { return *pd_; }
  Sge sge(std::size_t offset_bytes, std::uint32_t bytes) const {
    return {reinterpret_cast<std::uint64_t>(address_) + offset_bytes, bytes, lkey_};
  }

  static Expected<void> destroy(MemoryRegion& region);
  static void abandon(MemoryRegion& region, const Error& why);

 private:
  friend class Pd;
  Context* context_ = nullptr;
  Pd* pd_ = nullptr;
  uapi::MrHandle handle_{};
  std::byte* address_ = nullptr;
  std::size_t length_bytes_ = 0;
  std::uint32_t lkey_ = 0, rkey_ = 0;
};

}  // namespace umlx5
