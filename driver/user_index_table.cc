#include "driver/user_index_table.h"

#include <fmt/format.h>

#include <cerrno>
#include <new>

namespace umlx5 {

UserIndexTable::~UserIndexTable() {
  for (auto& leaf : leaves_) {
    delete leaf.load(std::memory_order_relaxed);
  }
}

// A leaf stays once it is there, so that find() needs no lock.
UserIndexTable::Leaf* UserIndexTable::leaf_for(std::uint32_t top) {
  Leaf* leaf = leaves_[top].load(std::memory_order_relaxed);
  if (leaf == nullptr) {
    leaf = new (std::nothrow) Leaf;
    leaves_[top].store(leaf, std::memory_order_release);
  }
  return leaf;
}

Expected<std::uint32_t> UserIndexTable::add_entry(std::uintptr_t entry) {
  constexpr std::uint32_t kNotANumber = 0xffffff;  // MLX5_IB_DEFAULT_UIDX: "no user index"
  const std::lock_guard lock(mutex_);
  for (std::uint32_t top = 0; top < kLeaves; ++top) {
    Leaf* const leaf = leaf_for(top);
    if (leaf == nullptr) {
      return fail(ENOMEM, "no memory for the table of user indices");
    }
    if (leaf->used == kLeafEntries) {
      continue;
    }
    for (std::uint32_t i = 0; i < kLeafEntries; ++i) {
      const std::uint32_t index = top * kLeafEntries + i;
      if (leaf->entries[i].load(std::memory_order_relaxed) == 0 && index != kNotANumber) {
        leaf->entries[i].store(entry, std::memory_order_release);
        ++leaf->used;
        return index;
      }
    }
  }
  return fail(ENOMEM, "all user indices are taken");
}

Expected<void> UserIndexTable::add_at(std::uint32_t index, Qp* qp) {
  const std::lock_guard lock(mutex_);
  Leaf* const leaf = index / kLeafEntries < kLeaves ? leaf_for(index / kLeafEntries) : nullptr;
  if (leaf == nullptr) {
    return fail(ENOMEM, fmt::format("no place for number {:#x} in the table of queues", index));
  }
  auto& entry = leaf->entries[index % kLeafEntries];
  if (entry.load(std::memory_order_relaxed) != 0) {
    return fail(EEXIST, fmt::format("number {:#x} is in the table of queues already", index));
  }
  entry.store(entry_of(qp), std::memory_order_release);
  ++leaf->used;
  return {};
}

void UserIndexTable::remove(std::uint32_t index) {
  const std::lock_guard lock(mutex_);
  Leaf* const leaf =
      index / kLeafEntries < kLeaves ? leaves_[index / kLeafEntries].load(std::memory_order_relaxed) : nullptr;
  if (leaf != nullptr && leaf->entries[index % kLeafEntries].exchange(0, std::memory_order_acq_rel) != 0) {
    --leaf->used;
  }
}

}  // namespace umlx5
