// Memory of queues and doorbell records from the program instead of the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace umlx5 {

// What the memory is for. Values are the low 32 bits of mlx5dv's resource types (MLX5DV_RES_TYPE_*).
enum class MemoryUse : std::uint32_t { kQp = 1, kReceiveWq = 2, kDoorbellRecord = 3, kSrq = 4, kCq = 5 };

// Called while objects are created and destroyed, by whatever thread does that. Must outlive the objects.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // At least `bytes` at a multiple of `alignment_bytes` (a power of two); what it holds does not matter. Null: there is
  // no memory, and the object is not created. Nothing: the driver is to use its own memory.
  virtual std::optional<void*> allocate(MemoryUse use, std::size_t bytes, std::size_t alignment_bytes) = 0;
  // Takes back what allocate() gave.
  virtual void release(MemoryUse use, void* memory) = 0;
};

}  // namespace umlx5
