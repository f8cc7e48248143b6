#include "tools/softhca/doorbell_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

namespace softhca {
namespace {

bool readable(int fd, int timeout_ms) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

TEST(DoorbellWatch, NoticesAStoreAndLetsItThrough) {
  constexpr std::size_t kBytes = 4 * 4096;
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  {
    DoorbellWatch watch({memory, kBytes});
    if (!watch.available()) {
      GTEST_SKIP() << "no userfaultfd on this system";
    }
    memory[0] = std::byte{1};
    EXPECT_FALSE(readable(watch.fd(), 0));
    watch.arm();
    EXPECT_EQ(memory[0], std::byte{1});  // loads pass
    EXPECT_FALSE(readable(watch.fd(), 0));
    std::atomic<bool> stored = false;
    std::thread program([&] {
      std::atomic_ref(memory[2 * 4096]).store(std::byte{7});
      stored = true;
    });
    EXPECT_TRUE(readable(watch.fd(), 5000));
    EXPECT_FALSE(stored);
    watch.disarm();
    program.join();
    EXPECT_EQ(memory[2 * 4096], std::byte{7});
    memory[4096] = std::byte{1};
    EXPECT_FALSE(readable(watch.fd(), 0));
    watch.arm();
  }
  memory[4096] = std::byte{2};  // closing the watch ends the protection
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace softhca
