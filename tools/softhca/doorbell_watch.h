// Wakes the device's thread when a program stores to a UAR page.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

namespace softhca {

// Write-protects memory by userfaultfd: the first store to it makes fd() readable and waits until disarm().
// Thread-safe.
class DoorbellWatch {
 public:
  DoorbellWatch();
  ~DoorbellWatch();
  DoorbellWatch(const DoorbellWatch&) = delete;
  DoorbellWatch& operator=(const DoorbellWatch&) = delete;

  // `memory` is whole pages of a shared mapping, to be watched from the next arm() on, for as long as the mapping
  // lasts. False if the system does not offer this.
  bool add(std::span<std::byte> memory);

  // False if the system does not offer this: arm() then does nothing, and the thread may only sleep for short times.
  bool available() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // From here on a store is noticed. Loads are not affected.
  void arm();
  // Lets stores through again, those that wait first.
  void disarm();

 private:
  void protect(bool on);

  int fd_;
  std::mutex mutex_;
  std::vector<std::span<std::byte>> ranges_;
};

}  // namespace softhca
