// Registered user memory, and its uses.
#pragma once

#include <cstdint>
#include <utility>

#include "tools/softhca/hca/page_list.h"

namespace softhca::hca {

struct Umem {
  std::uint32_t umem_id = 0;
  std::uint32_t uid = 0;  // DEVX user that owns it
  PageList pages;
  std::uint64_t bytes = 0;
  bool writable = false;
  std::uint32_t users = 0;
};

// A use of a umem, which keeps it from being destroyed; or none.
class UmemUse {
 public:
  UmemUse() = default;
  explicit UmemUse(Umem& umem) : umem_(&umem) { ++umem.users; }
  ~UmemUse() {
    if (umem_ != nullptr) {
      --umem_->users;
    }
  }
  UmemUse(UmemUse&& other) noexcept : umem_(std::exchange(other.umem_, nullptr)) {}
  UmemUse& operator=(UmemUse&& other) noexcept {
    std::swap(umem_, other.umem_);
    return *this;
  }

 private:
  Umem* umem_ = nullptr;
};

}  // namespace softhca::hca
