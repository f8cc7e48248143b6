// The shared receive queue's list: bytes, order of reuse, and many threads that complete while one posts.
#include "driver/shared_receive_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using testing::big32;
using testing::big64;

constexpr std::uint32_t kWqes = 8, kStride = 64;

struct Queue {
  explicit Queue(std::uint32_t wqes = kWqes) : memory(std::size_t{wqes} * kStride) {
    EXPECT_TRUE(queue.configure({.ring = memory.data(),
                                 .ring_wqes = wqes,
                                 .wqe_bytes_log2 = 6,
                                 .max_requests = wqes - 1,
                                 .max_sge = 3,
                                 .record = &record}));
  }
  PostResult post(std::uint64_t wr_id, std::span<const Sge> sges = {}) {
    const RecvWr request{.wr_id = wr_id, .sges = sges};
    return queue.post({&request, 1});
  }
  const std::byte* wqe(std::uint32_t index) const { return memory.data() + std::size_t{index} * kStride; }
  std::uint32_t next(std::uint32_t index) const { return big32(wqe(index)) & 0xffff; }

  std::vector<std::byte> memory;
  doorbell::RecordMemory record{};
  SharedReceiveQueue queue;
};

TEST(SharedReceiveQueue, BytesLinksAndRecord) {
  Queue q;
  for (std::uint32_t i = 0; i + 1 < kWqes; ++i) {
    EXPECT_EQ(q.next(i), i + 1);
  }
  const std::array<Sge, 3> sges{Sge{0x1000, 0x20, 7}, Sge{0x2000, 0, 8}, Sge{0x3000, 0x30, 9}};
  ASSERT_TRUE(q.post(1, sges));
  EXPECT_EQ(q.next(0), 1u);
  EXPECT_EQ(big32(q.wqe(0) + 16), 0x20u);
  EXPECT_EQ(big32(q.wqe(0) + 20), 7u);
  EXPECT_EQ(big64(q.wqe(0) + 24), 0x1000u);
  EXPECT_EQ(big32(q.wqe(0) + 32), 0x30u);   // the entry of no bytes is left out
  EXPECT_EQ(big32(q.wqe(0) + 52), 0x100u);  // MLX5_INVALID_LKEY
  EXPECT_EQ(big32(&q.record.words[0]), 1u);
  const std::vector<Sge> four(4, sges[0]);
  EXPECT_EQ(q.post(2, four).error, EINVAL);
  const Sge too_long{.length_bytes = 0x80000001};
  EXPECT_EQ(q.post(2, {&too_long, 1}).error, EINVAL);
  EXPECT_EQ(big32(&q.record.words[0]), 1u);
}

TEST(SharedReceiveQueue, FullThenReusedInTheOrderOfCompletion) {
  Queue q;
  for (std::uint64_t i = 0; i < 7; ++i) {
    ASSERT_TRUE(q.post(100 + i));
  }
  EXPECT_EQ(q.post(0).error, ENOMEM);
  EXPECT_EQ(q.queue.complete(5), 105u);
  EXPECT_EQ(q.queue.complete(2), 102u);
  EXPECT_EQ(q.next(7), 5u);  // the one that was last is linked to the first that came back
  EXPECT_EQ(q.next(5), 2u);
  ASSERT_TRUE(q.post(200));  // takes 7, which is free and no longer the last
  EXPECT_EQ(q.queue.head(), 5u);
  ASSERT_TRUE(q.post(201));
  EXPECT_EQ(q.post(202).error, ENOMEM);
  EXPECT_EQ(q.queue.complete(7), 200u);
  EXPECT_EQ(q.queue.complete(5), 201u);
  EXPECT_EQ(big32(&q.record.words[0]), 9u);
}

TEST(SharedReceiveQueue, CounterWrapsAt16Bits) {
  Queue q;
  for (std::uint32_t i = 0; i < 70000; ++i) {
    ASSERT_TRUE(q.post(i));
    ASSERT_EQ(q.queue.complete(static_cast<std::uint16_t>(i % kWqes)), i);
  }
  EXPECT_EQ(big32(&q.record.words[0]), 70000u & 0xffff);
}

// The device hands each posted WQE to one of three threads; each comes back exactly once, and the queue holds as many
// as before.
TEST(SharedReceiveQueue, ManyComplete) {
  constexpr std::uint32_t kRing = 64, kRequests = 200000, kThreads = 3;
  Queue q(kRing);
  std::array<std::atomic<std::uint32_t>, kThreads> mailboxes{};  // index + 1 of a WQE that is done
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::thread> threads;
  for (auto& mailbox : mailboxes) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        if (const std::uint32_t index = mailbox.load(std::memory_order_acquire); index != 0) {
          mailbox.store(0, std::memory_order_relaxed);
          sum += q.queue.complete(static_cast<std::uint16_t>(index - 1));
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::uint64_t posted = 0;
  while (posted < kRequests) {
    const std::uint32_t index = q.queue.head();
    if (!q.post(posted)) {
      std::this_thread::yield();
      continue;
    }
    auto& mailbox = mailboxes[posted % kThreads];
    while (mailbox.load(std::memory_order_relaxed) != 0) {
      std::this_thread::yield();
    }
    mailbox.store(index + 1, std::memory_order_release);
    ++posted;
  }
  for (auto& mailbox : mailboxes) {
    while (mailbox.load() != 0) {
      std::this_thread::yield();
    }
  }
  stop.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(sum.load(), std::uint64_t{kRequests} * (kRequests - 1) / 2);
  std::set<std::uint32_t> free;
  for (std::uint32_t i = 0; i + 1 < kRing; ++i) {
    free.insert(q.queue.head());
    ASSERT_TRUE(q.post(i));
  }
  EXPECT_EQ(free.size(), kRing - 1);
  EXPECT_EQ(q.post(0).error, ENOMEM);
}

}  // namespace
}  // namespace umlx5
