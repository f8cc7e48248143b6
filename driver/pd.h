// Protection domain and memory region.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "driver/resource.h"
#include "driver/types.h"
#include "uapi/error.h"
#include "uapi/mr.h"
#include "uapi/pd.h"
#include "uapi/qp.h"

namespace umlx5 {

class Context;
class Ah;
class Dek;
class MemoryRegion;
class MemoryWindow;
class Mkey;
class Pd;
class Qp;
class Srq;
class Wq;
struct DekOptions;
struct MkeyOptions;
struct QpOptions;
struct SrqOptions;
struct WqOptions;
enum class MemoryWindowType : std::uint8_t;

// A piece of memory of this process, and what the device may do with it.
struct MemoryRequest {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  std::uint64_t iova = 0;  // what SGEs and remote requests call `address`; the same as it within its page
  AccessFlags access{};
};

struct DmabufRequest {
  int fd = -1;
  std::uint64_t offset_bytes = 0;  // into the dmabuf
  std::uint64_t length_bytes = 0;
  std::uint64_t iova = 0;
  AccessFlags access{};
  std::uint32_t mlx5_access = 0;  // kMlx5RegDmabufMr* of uapi/kernel_additions.h
};

// What is given changes.
struct MemoryChange {
  struct Translation {
    std::uint64_t address = 0, length_bytes = 0, iova = 0;
  };
  std::optional<Translation> translation{};
  Pd* pd = nullptr;
  std::optional<AccessFlags> access{};
};

// Thread-safe.
class Pd : public ResourceHook {
 public:
  // Registers `memory` (of this process; it must stay mapped until the region is destroyed).
  // Errors: EINVAL (remote write or atomic without local write), EFAULT (not mapped, or not writable), ENOMEM.
  Expected<Owned<MemoryRegion>> register_memory(std::span<std::byte> memory, AccessFlags access);
  Expected<Owned<MemoryRegion>> register_memory(const MemoryRequest& request);
  Expected<Owned<MemoryRegion>> register_dmabuf(const DmabufRequest& request);
  // Errors: EINVAL (too many entries), EOPNOTSUPP (no signatures or encryption in the device), what DEVX says.
  Expected<Owned<Mkey>> create_mkey(const MkeyOptions& options);
  // Errors: EINVAL (size, plain or wrapped, or the device refuses the key), EOPNOTSUPP (it does not encrypt).
  Expected<Owned<Dek>> create_dek(const DekOptions& options);
  Expected<Owned<MemoryWindow>> alloc_memory_window(MemoryWindowType type);
  // Errors: EINVAL for a port that is not there or, on Ethernet, an address without a GID; ENOENT and the like when
  // the kernel finds no way to the destination.
  Expected<Owned<Ah>> create_ah(const uapi::AddressVector& address);
  Expected<Owned<Qp>> create_qp(const QpOptions& options);
  Expected<Owned<Srq>> create_srq(const SrqOptions& options);
  // For the frames of RSS QPs. Errors: EINVAL (sizes), EOPNOTSUPP (no raw packets in the device).
  Expected<Owned<Wq>> create_wq(const WqOptions& options);
  // Memory that copying by work request wants to write to: registered when it is first asked for, and the PD's own.
  Expected<const MemoryRegion*> memcpy_scratch();

  Context& context() const { return *context_; }
  std::uint32_t pdn() const { return pdn_; }
  uapi::PdHandle handle() const { return handle_; }

  // Whether the kernel's PD ends with this object. It does, but for imported ones.
  void end_in_kernel(bool wanted) { ends_in_kernel_ = wanted; }

  // EBUSY while something is in it.
  static Expected<void> destroy(Pd& pd);
  static void abandon(Pd& pd, const Error& why);

 private:
  friend class Context;
  friend class MemoryRegion;
  Expected<Owned<MemoryRegion>> adopt(const uapi::Mr& registered, const MemoryRequest& request);
  Context* context_ = nullptr;
  uapi::PdHandle handle_{};
  std::uint32_t pdn_ = 0;
  bool ends_in_kernel_ = true;
  std::mutex scratch_mutex_;
  alignas(64) std::array<std::byte, 64> scratch_memory_{};
  MemoryRegion* scratch_ = nullptr;  // in the context's list like any other
};

// Thread-safe.
class MemoryRegion : public ResourceHook {
 public:
  std::uint32_t lkey() const { return lkey_; }
  std::uint32_t rkey() const { return rkey_; }
  std::byte* address() const { return address_; }
  std::size_t length_bytes() const { return length_bytes_; }
  std::uint64_t iova() const { return iova_; }
  AccessFlags access() const { return access_; }
  uapi::MrHandle handle() const { return handle_; }
  Pd& pd() const { return *pd_; }
  // `offset_bytes` from the start of the region.
  Sge sge(std::size_t offset_bytes, std::uint32_t bytes) const { return {iova_ + offset_bytes, bytes, lkey_}; }

  // Keys may be new. When it fails after the kernel began, the region is only fit to be destroyed. Nobody may use the
  // region meanwhile.
  Expected<void> reregister(const MemoryChange& change);

  static Expected<void> destroy(MemoryRegion& region);
  static void abandon(MemoryRegion& region, const Error& why);

 private:
  friend class Pd;
  Context* context_ = nullptr;
  Pd* pd_ = nullptr;
  uapi::MrHandle handle_{};
  std::byte* address_ = nullptr;
  std::size_t length_bytes_ = 0;
  std::uint64_t iova_ = 0;
  AccessFlags access_{};
  std::uint32_t lkey_ = 0, rkey_ = 0;
};

}  // namespace umlx5
