// Registers on a page of plain memory, and the order of every store and barrier.
#include "doorbell/uar.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <type_traits>

#include "doorbell/submit.h"
#include "tests/doorbell/recording_io.h"

namespace umlx5::doorbell {
namespace {

using Kind = IoEvent::Kind;

static_assert(!std::is_copy_constructible_v<ExclusiveRegister<>> && !std::is_copy_assignable_v<ExclusiveRegister<>>);
static_assert(std::is_move_constructible_v<ExclusiveRegister<>>);
static_assert(!std::is_constructible_v<ExclusiveRegister<>, std::byte*, std::size_t>);
static_assert(!std::is_copy_constructible_v<SharedRegister<>> && !std::is_move_constructible_v<SharedRegister<>>);
static_assert(!std::is_copy_constructible_v<UarPage<>>);

struct alignas(kUarPageBytes) Memory {
  std::array<std::byte, kUarPageBytes> bytes{};
  std::byte* data() { return bytes.data(); }
};

// A send ring of four WQEBBs whose bytes are all different from their neighbours'.
struct alignas(64) Ring {
  std::array<std::byte, 256> bytes;
  Ring() {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i * 7 + 1);
    }
  }
  const std::byte* wqebb(std::size_t index) const { return bytes.data() + index * 64; }
  SendRing ring() const { return {bytes.data(), bytes.data() + bytes.size()}; }
};

wqe::Be64 cell(const std::byte* at) {
  wqe::Be64 value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

TEST(UarPage, HandsOutEachRegisterOnce) {
  Memory memory;
  UarPage<> page(memory.data(), write_combining_layout(512));
  EXPECT_TRUE(page.all_free());
  auto first = page.take(0);
  auto second = page.take(1);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(page.take(0));
  EXPECT_FALSE(page.take(1));
  EXPECT_FALSE(page.take(2));
  page.give_back(std::move(*second));
  EXPECT_TRUE(page.take(1));
  EXPECT_FALSE(page.take(0));
}

TEST(UarPage, UncachedPageHasFourDoorbellsWithoutBlueflame) {
  Memory memory;
  const Ring ring;
  UarPage<> page(memory.data(), kUncachedLayout);
  for (unsigned i = 0; i < 4; ++i) {
    auto doorbell = page.take(i);
    ASSERT_TRUE(doorbell);
    EXPECT_EQ(doorbell->blueflame_bytes(), 0u);
    doorbell->ring(ring.wqebb(1));
    doorbell->ring(ring.wqebb(1));
    EXPECT_EQ(cell(memory.data() + 0x800 + i * 256), cell(ring.wqebb(1)));
  }
  EXPECT_FALSE(page.take(4));
}

TEST(ExclusiveRegister, RingStoresOneCellAndAlternatesHalves) {
  Memory memory;
  const Ring ring;
  UarPage<> page(memory.data(), write_combining_layout(512));
  auto doorbell = page.take(1);
  EXPECT_EQ(doorbell->blueflame_bytes(), 256u);
  Memory expected;
  const auto expect_at = [&](std::size_t offset, std::size_t wqebb) {
    std::memcpy(expected.data() + offset, ring.wqebb(wqebb), 8);
    EXPECT_EQ(memory.bytes, expected.bytes);
  };
  doorbell->ring(ring.wqebb(0));
  expect_at(0xa00, 0);
  doorbell->ring(ring.wqebb(1));
  expect_at(0xb00, 1);
  doorbell->ring(ring.wqebb(2));
  expect_at(0xa00, 2);
}

TEST(ExclusiveRegister, WithoutBlueflameTheHalvesDoNotAlternate) {
  Memory memory;
  const Ring ring;
  UarPage<> no_device_support(memory.data(), write_combining_layout(0));
  auto doorbell = no_device_support.take(1);
  doorbell->ring(ring.wqebb(0));
  doorbell->ring(ring.wqebb(1));
  EXPECT_EQ(cell(memory.data() + 0x900), cell(ring.wqebb(1)));
  EXPECT_EQ(std::accumulate(memory.bytes.begin(), memory.bytes.begin() + 0x900, 0,
                            [](int sum, std::byte byte) { return sum + static_cast<int>(byte); }),
            0);

  Memory other;
  UarPage<> not_wanted(other.data(), write_combining_layout(512));
  auto plain = not_wanted.take(1, false);
  EXPECT_EQ(plain->blueflame_bytes(), 0u);
  plain->ring(ring.wqebb(0));
  plain->ring(ring.wqebb(1));
  EXPECT_EQ(cell(other.data() + 0xa00), cell(ring.wqebb(1)));
  EXPECT_EQ(cell(other.data() + 0xb00).raw(), 0u);
}

TEST(ExclusiveRegister, BlueflameCopiesWholeBlocks) {
  Memory memory;
  const Ring ring;
  UarPage<> page(memory.data(), write_combining_layout(512));
  auto doorbell = page.take(0);
  doorbell->blueflame(ring.wqebb(0), 80, ring.ring());
  EXPECT_EQ(std::memcmp(memory.data() + 0x800, ring.wqebb(0), 128), 0);
  EXPECT_EQ(cell(memory.data() + 0x880).raw(), 0u);
  doorbell->blueflame(ring.wqebb(2), 64, ring.ring());
  EXPECT_EQ(std::memcmp(memory.data() + 0x900, ring.wqebb(2), 64), 0);
  EXPECT_EQ(cell(memory.data() + 0x940).raw(), 0u);
}

TEST(ExclusiveRegister, BlueflameWrapsAtTheRingEnd) {
  Memory memory;
  const Ring ring;
  UarPage<> page(memory.data(), write_combining_layout(512));
  auto doorbell = page.take(0);
  doorbell->blueflame(ring.wqebb(3), 256, ring.ring());
  EXPECT_EQ(std::memcmp(memory.data() + 0x800, ring.wqebb(3), 64), 0);
  EXPECT_EQ(std::memcmp(memory.data() + 0x840, ring.wqebb(0), 192), 0);
  EXPECT_EQ(cell(memory.data() + 0x900).raw(), 0u);
  // A WQE that ends with the ring does not touch its start.
  doorbell->blueflame(ring.wqebb(3), 64, ring.ring());
  EXPECT_EQ(std::memcmp(memory.data() + 0x900, ring.wqebb(3), 64), 0);
  EXPECT_EQ(cell(memory.data() + 0x940).raw(), 0u);
}

TEST(ExclusiveRegister, AMovedRegisterKeepsItsTurn) {
  Memory memory;
  const Ring ring;
  UarPage<> page(memory.data(), write_combining_layout(512));
  auto doorbell = page.take(0);
  doorbell->ring(ring.wqebb(0));
  ExclusiveRegister<> moved = std::move(*doorbell);
  moved.ring(ring.wqebb(1));
  EXPECT_EQ(cell(memory.data() + 0x900), cell(ring.wqebb(1)));
}

class Order : public ::testing::Test {
 protected:
  Order() { RecordingIo::log.clear(); }

  Memory memory_;
  const Ring ring_;
  UarPage<RecordingIo> page_{memory_.data(), write_combining_layout(512)};
  RecordMemory record_memory_{};
  QueueRecord<RecordingIo> record_{&record_memory_};
};

TEST_F(Order, Submit) {
  auto doorbell = page_.take(0);
  submit(record_, 0x10007, *doorbell, ring_.wqebb(1));
  EXPECT_EQ(RecordingIo::log,
            (std::vector<IoEvent>{{Kind::kToDevice},
                                  {Kind::kStore4, &record_memory_.words[1], nullptr, 7},
                                  {Kind::kBeforeRegister},
                                  {Kind::kStore8, memory_.data() + 0x800, nullptr, cell(ring_.wqebb(1)).value()},
                                  {Kind::kFlushRegister}}));
}

TEST_F(Order, SubmitBlueflameAcrossTheRingEnd) {
  auto doorbell = page_.take(0);
  submit_blueflame(record_, 9, *doorbell, ring_.wqebb(3), 80, ring_.ring());
  EXPECT_EQ(RecordingIo::log, (std::vector<IoEvent>{{Kind::kToDevice},
                                                    {Kind::kStore4, &record_memory_.words[1], nullptr, 9},
                                                    {Kind::kBeforeRegister},
                                                    {Kind::kBlock, memory_.data() + 0x800, ring_.wqebb(3)},
                                                    {Kind::kBlock, memory_.data() + 0x840, ring_.wqebb(0)},
                                                    {Kind::kFlushRegister}}));
}

TEST_F(Order, TooLongForBlueflameRingsInstead) {
  auto doorbell = page_.take(0);
  submit_blueflame(record_, 9, *doorbell, ring_.wqebb(0), 257, ring_.ring());
  EXPECT_EQ(RecordingIo::log[3].kind, Kind::kStore8);
  EXPECT_EQ(RecordingIo::log.size(), 5u);
  auto plain = page_.take(1, false);
  RecordingIo::log.clear();
  submit_blueflame(record_, 9, *plain, ring_.wqebb(0), 64, ring_.ring());
  EXPECT_EQ(RecordingIo::log[3],
            (IoEvent{Kind::kStore8, memory_.data() + 0xa00, nullptr, cell(ring_.wqebb(0)).value()}));
}

TEST_F(Order, SubmitReceiveRingsNothing) {
  submit_receive(record_, 0x20004);
  EXPECT_EQ(RecordingIo::log,
            (std::vector<IoEvent>{{Kind::kToDevice}, {Kind::kStore4, &record_memory_.words[0], nullptr, 4}}));
}

TEST_F(Order, ArmPublishesTheRecordFirst) {
  page_.arm_register().arm(CqRecord<RecordingIo>(&record_memory_), {.sequence = 6, .consumer_index = 0x1000123}, 0x45);
  EXPECT_EQ(RecordingIo::log, (std::vector<IoEvent>{{Kind::kStore4, &record_memory_.words[1], nullptr, 0x20000123},
                                                    {Kind::kBeforeRegister},
                                                    {Kind::kStore8, memory_.data() + 0x20, nullptr, 0x2000012300000045},
                                                    {Kind::kFlushRegister}}));
}

TEST_F(Order, SharedRegisterDoesTheSame) {
  SharedRegister<RecordingIo> shared(*page_.take(0));
  submit(record_, 1, shared, ring_.wqebb(0));
  submit_blueflame(record_, 2, shared, ring_.wqebb(1), 64, ring_.ring());
  ASSERT_EQ(RecordingIo::log.size(), 10u);
  EXPECT_EQ(RecordingIo::log[3].to, memory_.data() + 0x800);
  EXPECT_EQ(RecordingIo::log[8].to, memory_.data() + 0x900);
  EXPECT_EQ(RecordingIo::log[9].kind, Kind::kFlushRegister);
}

TEST(SharedRegister, WaitsForItsLock) {
  Memory memory;
  const Ring ring;
  UarPage<> page(memory.data(), write_combining_layout(512));
  SharedRegister<> shared(*page.take(0));
  std::atomic<bool> rung{false};
  shared.lock().lock();
  std::jthread other([&] {
    shared.ring(ring.wqebb(0));
    rung = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(rung);
  EXPECT_FALSE(shared.lock().try_lock());
  shared.lock().unlock();
  other.join();
  EXPECT_TRUE(rung);
  EXPECT_EQ(cell(memory.data() + 0x800), cell(ring.wqebb(0)));
}

// Each half of a register is given to the device by a flush: it must then hold one WQE's blocks only.
struct CheckingIo : NativeBarriers {
  static inline std::byte* page = nullptr;
  static inline std::atomic<int> mixed{0};
  static inline std::atomic<int> flushes{0};
  static inline thread_local std::byte* last = nullptr;
  static inline thread_local std::byte stamp{};

  static void store(wqe::Be32* to, wqe::Be32 value) { NativeIo::store(to, value); }
  static void store(wqe::Be64* to, wqe::Be64 value) { NativeIo::store(to, value); }
  static void copy_block(std::byte* to, const std::byte* from) {
    NativeIo::copy_block(to, from);
    last = to;
    stamp = *from;
  }
  static void flush_register() {
    NativeBarriers::flush_register();
    std::byte* const half = page + (last - page) / 256 * 256;
    ++flushes;
    for (std::size_t i = 0; i < 128; ++i) {
      mixed += __atomic_load_n(half + i, __ATOMIC_RELAXED) != stamp;
    }
  }
};
static_assert(IoPolicy<CheckingIo>);

TEST(SharedRegister, TwoThreadsNeverMixTheirWqes) {
  constexpr int kPosts = 20000;
  Memory memory;
  CheckingIo::page = memory.data();
  UarPage<CheckingIo> page(memory.data(), write_combining_layout(512));
  SharedRegister<CheckingIo> shared(*page.take(0));
  {
    std::vector<std::jthread> threads;
    for (int t = 1; t <= 2; ++t) {
      threads.emplace_back([&shared, t] {
        alignas(64) std::array<std::byte, 256> ring;
        ring.fill(static_cast<std::byte>(t));
        for (int i = 0; i < kPosts; ++i) {
          shared.blueflame(ring.data(), 128, {ring.data(), ring.data() + ring.size()});
        }
      });
    }
  }
  EXPECT_EQ(CheckingIo::flushes, 2 * kPosts);
  EXPECT_EQ(CheckingIo::mixed, 0);
}

}  // namespace
}  // namespace umlx5::doorbell
