#include "driver/many_producers.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace umlx5 {
namespace {

struct Ring {
  std::uint32_t producer = 0, last = 0;
  int calls = 0;
  auto operator()(std::uint32_t /*before*/, std::uint32_t to, std::uint32_t last_block) {
    producer = to;
    last = last_block;
    ++calls;
  }
};

TEST(ManyProducers, PublishesOnlyWhatIsReadyAtTheFront) {
  ManyProducers queue;
  ASSERT_TRUE(queue.configure(8, 4));
  ManyProducers::Reservation first, second, third;
  ASSERT_TRUE(queue.reserve(2, first));
  ASSERT_TRUE(queue.reserve(1, second));
  ASSERT_TRUE(queue.reserve(2, third));
  EXPECT_EQ(first.first_block, 0u);
  EXPECT_EQ(second.first_block, 2u);
  EXPECT_EQ(third.first_block, 3u);

  Ring ring;
  queue.ready(second, 1);
  queue.publish(ring);
  EXPECT_EQ(ring.calls, 0);  // the first is not filled

  queue.ready(first, 2);
  queue.publish(ring);
  EXPECT_EQ(ring.calls, 1);
  EXPECT_EQ(ring.producer, 3u);
  EXPECT_EQ(ring.last, 2u);

  queue.ready(third, 2);
  queue.publish(ring);
  EXPECT_EQ(ring.calls, 2);
  EXPECT_EQ(ring.producer, 5u);
  EXPECT_EQ(ring.last, 3u);
}

TEST(ManyProducers, AFullQueueReservesNothing) {
  ManyProducers queue;
  ASSERT_TRUE(queue.configure(4, 2));
  ManyProducers::Reservation reservation;
  ASSERT_TRUE(queue.reserve(2, reservation));
  ASSERT_TRUE(queue.reserve(2, reservation));
  EXPECT_FALSE(queue.reserve(1, reservation));
  EXPECT_EQ(queue.outstanding_requests(), 2u);
  queue.complete_through(0);
  ASSERT_TRUE(queue.reserve(1, reservation));
  EXPECT_EQ(reservation.first_block, 4u);  // right behind the two
  EXPECT_EQ(reservation.request, 2u);
  EXPECT_FALSE(queue.reserve(1, reservation));
}

TEST(ManyProducers, ACompletionToldLateTakesNothingBack) {
  ManyProducers queue;
  ASSERT_TRUE(queue.configure(4, 4));
  ManyProducers::Reservation reservation;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue.reserve(1, reservation));
  }
  queue.complete_through(2);
  queue.complete_through(1);
  EXPECT_EQ(queue.outstanding_requests(), 1u);
}

// A block that was in the middle of a request for many laps, and then begins one, is not taken for ready.
TEST(ManyProducers, AnOldMarkIsNotTakenForReady) {
  ManyProducers queue;
  ASSERT_TRUE(queue.configure(4, 2));
  Ring ring;
  ManyProducers::Reservation reservation;
  std::uint32_t request = 0;
  for (int lap = 0; lap < 100; ++lap) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(queue.reserve(2, reservation));
      queue.ready(reservation, 2);
      queue.publish(ring);
      queue.complete_through(request++);
    }
  }
  ASSERT_TRUE(queue.reserve(1, reservation));
  queue.ready(reservation, 1);
  queue.publish(ring);
  const std::uint32_t producer = ring.producer;
  ASSERT_TRUE(queue.reserve(1, reservation));  // block 401: never the first one of a request before
  queue.publish(ring);
  EXPECT_EQ(ring.producer, producer);
  queue.ready(reservation, 1);
  queue.publish(ring);
  EXPECT_EQ(ring.producer, producer + 1);
}

TEST(ManyProducers, IndicesWrapAt32Bits) {
  ManyProducers queue;
  ASSERT_TRUE(queue.configure(4, 2));
  queue.reset(0xfffffffcu);
  Ring ring;
  ManyProducers::Reservation reservation;
  for (std::uint32_t request = 0, block = 0xfffffffcu; request < 8; ++request, block += 2) {
    ASSERT_TRUE(queue.reserve(2, reservation));
    EXPECT_EQ(reservation.first_block, block);
    queue.publish(ring);
    EXPECT_EQ(ring.calls, static_cast<int>(request));
    queue.ready(reservation, 2);
    queue.publish(ring);
    EXPECT_EQ(ring.calls, static_cast<int>(request + 1));
    EXPECT_EQ(ring.producer, block + 2);
    queue.complete_through(request);
  }
}

// Eight threads, one consumer that plays the device: every request is seen once, whole, and in the order of the
// indices.
class Stress : public testing::TestWithParam<bool> {};

TEST_P(Stress, EveryRequestIsPublishedOnceAndWhole) {
  constexpr std::uint32_t kThreads = 8, kEach = 40'000, kBlocks = 64, kMaxRequests = 16;
  struct Block {
    std::uint64_t value;
    std::uint32_t blocks;
  };
  const bool pauses = GetParam();
  ManyProducers queue;
  ASSERT_TRUE(queue.configure(kBlocks, kMaxRequests));
  std::vector<Block> blocks(kBlocks);  // ordered by the queue alone: ThreadSanitizer is the judge
  std::atomic<std::uint32_t> record{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> backwards{false};

  const auto produce = [&](std::uint32_t thread) {
    std::minstd_rand random(thread + 1);
    const auto pause = [&] {
      if (pauses && random() % 64 == 0) {
        sched_yield();
      }
    };
    for (std::uint32_t i = 0; i < kEach;) {
      const std::uint32_t size = 1 + random() % (kBlocks / kMaxRequests);
      ManyProducers::Reservation reservation;
      if (!queue.reserve(size, reservation)) {
        if (stop.load(std::memory_order_relaxed)) {
          return;
        }
        sched_yield();
        continue;
      }
      pause();
      for (std::uint32_t b = 0; b < size; ++b) {
        blocks[(reservation.first_block + b) % kBlocks] = {std::uint64_t{thread} << 32 | i, size};
      }
      pause();
      queue.ready(reservation, size);
      pause();
      queue.publish([&](std::uint32_t, std::uint32_t producer, std::uint32_t) {
        pause();
        if (static_cast<std::int32_t>(producer - record.load(std::memory_order_relaxed)) <= 0) {
          backwards.store(true);
        }
        record.store(producer, std::memory_order_release);
      });
      ++i;
    }
  };

  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back(produce, thread);
  }
  std::vector<std::uint32_t> next(kThreads, 0);
  std::uint32_t index = 0, request = 0, wrong = 0, idle = 0;
  while (request < kThreads * kEach && wrong == 0 && idle < 10'000'000) {
    if (record.load(std::memory_order_acquire) == index) {
      ++idle;
      sched_yield();
      continue;
    }
    idle = 0;
    const Block first = blocks[index % kBlocks];
    const auto thread = static_cast<std::uint32_t>(first.value >> 32);
    wrong += thread >= kThreads || static_cast<std::uint32_t>(first.value) != next[thread]++ ? 1 : 0;
    for (std::uint32_t b = 1; b < first.blocks; ++b) {
      wrong += blocks[(index + b) % kBlocks].value == first.value ? 0 : 1;
    }
    index += first.blocks;
    queue.complete_through(request++);
  }
  stop.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(request, kThreads * kEach);
  EXPECT_FALSE(backwards.load());
  EXPECT_EQ(queue.outstanding_requests(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Plain, Stress, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(WithPauses, Stress, testing::Values(true));

}  // namespace
}  // namespace umlx5
