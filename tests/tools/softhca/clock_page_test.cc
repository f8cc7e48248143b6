// A clock that is read from a page which is there only while its owner is awake.
#include "tools/softhca/clock_page.h"

#include <endian.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace softhca {
namespace {

std::uint64_t read_clock(const ClockPage& clock) {
  return be64toh(std::atomic_ref(*reinterpret_cast<std::uint64_t*>(clock.memory().data())).load());
}

TEST(ClockPageTest, ShowsTheLastTick) {
  ClockPage clock;
  ASSERT_EQ(clock.memory().size(), 4096u);
  clock.tick(0x0102030405060708);
  EXPECT_EQ(std::to_integer<unsigned>(clock.memory()[0]), 1u) << "big endian";
  EXPECT_EQ(read_clock(clock), 0x0102030405060708u);
}

TEST(ClockPageTest, AReaderOfARestingClockWaitsForTheTime) {
  ClockPage clock;
  if (clock.fd() < 0) {
    GTEST_SKIP() << "no userfaultfd here";
  }
  clock.tick(1);
  for (std::uint64_t now = 1'000'000; now < 5'000'000; now += 1'000'000) {
    clock.rest();
    pollfd waits{clock.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waits, 1, 0), 0) << "nobody reads";
    std::uint64_t seen = 0;
    std::thread reader([&] { seen = read_clock(clock); });
    EXPECT_EQ(::poll(&waits, 1, 5000), 1);
    clock.serve(now);
    reader.join();
    EXPECT_EQ(seen, now);
    clock.tick(now + 1);
    EXPECT_EQ(read_clock(clock), now + 1);
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
