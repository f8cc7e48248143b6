// A clock that is read from a page which is there only while its owner is awake.
#include "tools/softhca/clock_page.h"

#include <endian.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <thread>

namespace softhca {
namespace {

std::uint64_t read_clock(const std::byte* reader) {
  return be64toh(__atomic_load_n(reinterpret_cast<const std::uint64_t*>(reader), __ATOMIC_ACQUIRE));
}

TEST(ClockPageTest, ShowsTheLastTick) {
  ClockPage clock;
  std::byte* const reader = *clock.map();
  clock.tick(0x0102030405060708);
  EXPECT_EQ(std::to_integer<unsigned>(reader[0]), 1u) << "big endian";
  EXPECT_EQ(read_clock(reader), 0x0102030405060708u);
  ::munmap(reader, 4096);
  clock.tick(2);  // the owner needs no reader
}

TEST(ClockPageTest, AReaderOfARestingClockWaitsForTheTime) {
  ClockPage clock;
  if (clock.fd() < 0) {
    GTEST_SKIP() << "no userfaultfd here";
  }
  std::byte* const page = *clock.map();
  std::byte* const other = *clock.map();
  clock.tick(1);
  for (std::uint64_t now = 1'000'000; now < 5'000'000; now += 1'000'000) {
    clock.rest();
    pollfd waits{clock.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waits, 1, 0), 0) << "nobody reads";
    std::uint64_t seen = 0;
    std::thread reader([&] { seen = read_clock(page); });
    EXPECT_EQ(::poll(&waits, 1, 5000), 1);
    clock.serve(now);
    reader.join();
    EXPECT_EQ(seen, now);
    clock.tick(now + 1);
    EXPECT_EQ(read_clock(other), now + 1);
  }
}

TEST(ClockPageTest, ATickAtRestTouchesNothing) {
  ClockPage clock;
  clock.rest();
  clock.tick(7);  // were it to touch the page that is not there, this thread would wait for itself
  clock.serve(1'000'000'000);
  SUCCEED();
}

}  // namespace
}  // namespace softhca
