// From the number that a CQE carries (a user index, or a QPN with old CQEs) to the queue pair.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "uapi/error.h"

namespace umlx5 {

class Qp;

// 2^24 numbers in two levels. find() takes no lock and may run beside anything else; the others take one.
class UserIndexTable {
 public:
  static constexpr std::uint32_t kLeafEntries = 4096;
  static constexpr std::uint32_t kLeaves = 4096;

  UserIndexTable() = default;
  ~UserIndexTable();
  UserIndexTable(const UserIndexTable&) = delete;
  UserIndexTable& operator=(const UserIndexTable&) = delete;

  // The lowest free number, for `qp`. Errors: ENOMEM when all are taken or there is no memory for a leaf.
  Expected<std::uint32_t> add(Qp* qp);
  // A number that the device chose. Errors: EEXIST if it is taken, ENOMEM.
  Expected<void> add_at(std::uint32_t index, Qp* qp);
  void remove(std::uint32_t index);

  // Null for a number that nobody has; any 32-bit value may be asked for.
  Qp* find(std::uint32_t index) const {
    const std::uint32_t top = index / kLeafEntries;
    if (top >= kLeaves) [[unlikely]] {
      return nullptr;
    }
    const Leaf* const leaf = leaves_[top].load(std::memory_order_acquire);
    return leaf == nullptr ? nullptr : leaf->entries[index % kLeafEntries].load(std::memory_order_acquire);
  }

 private:
  struct Leaf {
    std::array<std::atomic<Qp*>, kLeafEntries> entries{};
    std::uint32_t used = 0;
  };

  Leaf* leaf_for(std::uint32_t top);

  std::mutex mutex_;
  std::array<std::atomic<Leaf*>, kLeaves> leaves_{};
};

}  // namespace umlx5
