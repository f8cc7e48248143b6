// The page in which programs read the device's free-running clock, as they read a register of real hardware.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>

#include "tools/softhca/shared_memory.h"

namespace softhca {

// The clock is the first 8 bytes of the page, nanoseconds of CLOCK_MONOTONIC, most significant byte first. The thread
// that owns the page writes it while it is awake. When it rests, the page is not there: who reads it then makes fd()
// readable and waits for serve(). So the clock costs nothing while nobody looks. Not thread-safe, but for map() and the
// readers.
class ClockPage {
 public:
  ClockPage();
  ~ClockPage();
  ClockPage(const ClockPage&) = delete;
  ClockPage& operator=(const ClockPage&) = delete;

  // The page for a reader, to be given back to munmap(). Errno.
  std::expected<std::byte*, int> map();
  // Readable when somebody waits; -1 if the system does not offer this: the clock then stands while the owner sleeps.
  int fd() const { return fd_; }

  void tick(std::uint64_t now_ns);
  // Lets those go on who wait; looks at most once in some microseconds.
  void serve(std::uint64_t now_ns);
  // The owner will not call tick() for a while.
  void rest();

 private:
  SharedMemory page_;
  int fd_ = -1;
  bool present_ = true;
  std::uint64_t served_ns_ = 0;
};

}  // namespace softhca
