// From the number that a CQE carries (a user index, or a QPN with old CQEs) to the object whose queues it is about.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "uapi/error.h"

namespace umlx5 {

class Qp;
class Srq;
class Wq;

// 2^24 numbers in two levels. find() takes no lock and may run beside anything else; the others take one.
class UserIndexTable {
 public:
  static constexpr std::uint32_t kLeafEntries = 4096;
  static constexpr std::uint32_t kLeaves = 4096;

  UserIndexTable() = default;
  ~UserIndexTable();
  UserIndexTable(const UserIndexTable&) = delete;
  UserIndexTable& operator=(const UserIndexTable&) = delete;

  // The lowest free number, for the object. Errors: ENOMEM when all are taken or there is no memory for a leaf.
  Expected<std::uint32_t> add(Qp* qp) { return add_entry(entry_of(qp)); }
  Expected<std::uint32_t> add(Srq* srq) { return add_entry(entry_of(srq)); }
  Expected<std::uint32_t> add(Wq* wq) { return add_entry(entry_of(wq)); }
  // A number that the device chose. Errors: EEXIST if it is taken, ENOMEM.
  Expected<void> add_at(std::uint32_t index, Qp* qp);
  void remove(std::uint32_t index);

  // Null for a number that nobody has, or an object of the other kind; any 32-bit value may be asked for.
  Qp* find(std::uint32_t index) const {
    const std::uintptr_t entry = entry_at(index);
    return (entry & kKinds) == 0 ? reinterpret_cast<Qp*>(entry) : nullptr;
  }
  Srq* find_srq(std::uint32_t index) const {
    const std::uintptr_t entry = entry_at(index);
    return (entry & kIsSrq) != 0 ? reinterpret_cast<Srq*>(entry - kIsSrq) : nullptr;
  }
  Wq* find_wq(std::uint32_t index) const {
    const std::uintptr_t entry = entry_at(index);
    return (entry & kIsWq) != 0 ? reinterpret_cast<Wq*>(entry - kIsWq) : nullptr;
  }

 private:
  // An entry is a pointer, marked in its lowest bits if it is an SRQ's or a WQ's, or 0.
  static constexpr std::uintptr_t kIsSrq = 1, kIsWq = 2, kKinds = kIsSrq | kIsWq;
  static std::uintptr_t entry_of(Qp* qp) { return reinterpret_cast<std::uintptr_t>(qp); }
  static std::uintptr_t entry_of(Srq* srq) { return reinterpret_cast<std::uintptr_t>(srq) | kIsSrq; }
  static std::uintptr_t entry_of(Wq* wq) { return reinterpret_cast<std::uintptr_t>(wq) | kIsWq; }

  struct Leaf {
    std::array<std::atomic<std::uintptr_t>, kLeafEntries> entries{};
    std::uint32_t used = 0;
  };

  std::uintptr_t entry_at(std::uint32_t index) const {
    const std::uint32_t top = index / kLeafEntries;
    if (top >= kLeaves) [[unlikely]] {
      return 0;
    }
    const Leaf* const leaf = leaves_[top].load(std::memory_order_acquire);
    return leaf == nullptr ? 0 : leaf->entries[index % kLeafEntries].load(std::memory_order_acquire);
  }
  Leaf* leaf_for(std::uint32_t top);
  Expected<std::uint32_t> add_entry(std::uintptr_t entry);

  std::mutex mutex_;
  std::array<std::atomic<Leaf*>, kLeaves> leaves_{};
};

}  // namespace umlx5
