// Wakes the device's thread when a program stores to a UAR page.
#pragma once

#include <cstddef>
#include <span>

namespace softhca {

// Write-protects memory by userfaultfd: the first store to it makes fd() readable and waits until disarm().
// Not thread-safe.
class DoorbellWatch {
 public:
  // `memory` is whole pages of a private anonymous mapping and outlives the watch.
  explicit DoorbellWatch(std::span<std::byte> memory);
  ~DoorbellWatch();
  DoorbellWatch(const DoorbellWatch&) = delete;
  DoorbellWatch& operator=(const DoorbellWatch&) = delete;

  // False if the system does not offer this: arm() then does nothing, and the thread may only sleep for short times.
  bool available() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // From here on a store is noticed. Loads are not affected.
  void arm();
  // Lets stores through again, those that wait first.
  void disarm();

 private:
  void protect(bool on);

  std::span<std::byte> memory_;
  int fd_ = -1;
};

}  // namespace softhca
