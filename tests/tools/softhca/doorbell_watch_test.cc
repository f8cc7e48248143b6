#include "tools/softhca/doorbell_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "tools/softhca/shared_memory.h"

namespace softhca {
namespace {

bool readable(int fd, int timeout_ms) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

TEST(DoorbellWatch, NoticesAStoreAndLetsItThrough) {
  SharedMemory pages(4 * 4096);
  std::byte* memory = nullptr;
  {
    DoorbellWatch watch;
    if (!watch.available()) {
      GTEST_SKIP() << "no userfaultfd on this system";
    }
    memory = *pages.map(0, 4 * 4096, PROT_READ | PROT_WRITE);
    ASSERT_TRUE(watch.add({memory, 4 * 4096}));
    memory[0] = std::byte{1};
    EXPECT_FALSE(readable(watch.fd(), 0));
    watch.arm();
    EXPECT_EQ(memory[0], std::byte{1});      // loads pass
    pages.bytes()[2 * 4096] = std::byte{6};  // and the device's own stores
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
    EXPECT_EQ(pages.bytes()[2 * 4096], std::byte{7});
    memory[4096] = std::byte{1};
    EXPECT_FALSE(readable(watch.fd(), 0));
    watch.arm();
  }
  memory[4096] = std::byte{2};  // closing the watch ends the protection
  ::munmap(memory, 4 * 4096);
}

TEST(DoorbellWatch, AMappingThatIsGoneIsForgotten) {
  SharedMemory pages(4096);
  DoorbellWatch watch;
  if (!watch.available()) {
    GTEST_SKIP() << "no userfaultfd on this system";
  }
  std::byte* const gone = *pages.map(0, 4096, PROT_READ | PROT_WRITE);
  std::byte* const kept = *pages.map(0, 4096, PROT_READ | PROT_WRITE);
  ASSERT_TRUE(watch.add({gone, 4096}));
  ASSERT_TRUE(watch.add({kept, 4096}));
  ::munmap(gone, 4096);
  watch.arm();
  std::thread program([&] { std::atomic_ref(kept[8]).store(std::byte{7}); });
  EXPECT_TRUE(readable(watch.fd(), 5000));
  watch.disarm();
  program.join();
  EXPECT_EQ(pages.bytes()[8], std::byte{7});
  ::munmap(kept, 4096);
}

TEST(SharedMemory, MapsWhatItHas) {
  const SharedMemory pages(2 * 4096);
  EXPECT_EQ(pages.map(0, 0, PROT_READ).error(), EINVAL);
  EXPECT_EQ(pages.map(4096, 2 * 4096, PROT_READ).error(), EINVAL);
  EXPECT_EQ(pages.map(64, 4096, PROT_READ).error(), EINVAL);
  EXPECT_EQ(pages.map(3 * 4096, 4096, PROT_READ).error(), EINVAL);
  const auto second = pages.map(4096, 4096, PROT_READ);
  ASSERT_TRUE(second);
  pages.bytes()[4096] = std::byte{9};
  EXPECT_EQ((*second)[0], std::byte{9});
  pages.drop();
  EXPECT_EQ((*second)[0], std::byte{0});
  ::munmap(*second, 4096);
}

}  // namespace
}  // namespace softhca
