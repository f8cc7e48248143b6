#include "doorbell/record.h"

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "doorbell/record_pool.h"
#include "wqe/byteorder.h"

namespace umlx5::doorbell {
namespace {

static_assert(QueueRecord<>::kReceiveWord == MLX5_RCV_DBR);
static_assert(QueueRecord<>::kSendWord == MLX5_SND_DBR);

std::vector<int> bytes_of(const RecordMemory& memory) {
  std::vector<int> out(sizeof memory);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = reinterpret_cast<const std::uint8_t*>(&memory)[i];
  }
  return out;
}

TEST(ByteOrder, MemoryIsBigEndian) {
  const wqe::Be32 word(0x01020304);
  EXPECT_EQ(std::memcmp(&word, "\x01\x02\x03\x04", 4), 0);
  const wqe::Be64 cell(0x0102030405060708);
  EXPECT_EQ(std::memcmp(&cell, "\x01\x02\x03\x04\x05\x06\x07\x08", 8), 0);
  const wqe::Be16 half(0x0102);
  EXPECT_EQ(std::memcmp(&half, "\x01\x02", 2), 0);
  EXPECT_EQ(word.value(), 0x01020304u);
  EXPECT_EQ(wqe::Be32::from_raw(word.raw()), word);
}

TEST(QueueRecord, SixteenBitsOfFreeRunningCounters) {
  RecordMemory memory{};
  QueueRecord<> record(&memory);
  record.publish_send(7);
  EXPECT_EQ(bytes_of(memory), (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 7}));
  record.publish_send(65536 + 5);
  record.publish_receive(0x1ffff);
  EXPECT_EQ(bytes_of(memory), (std::vector<int>{0, 0, 0xff, 0xff, 0, 0, 0, 5}));
  record.reset();
  EXPECT_EQ(bytes_of(memory), (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(CqRecord, TwentyFourBitsOfTheConsumerIndex) {
  RecordMemory memory{};
  CqRecord<> record(&memory);
  record.publish_consumer(0x1000123);
  record.publish_arm({.sequence = 6, .consumer_index = 0x1000123});
  EXPECT_EQ(bytes_of(memory), (std::vector<int>{0, 0, 1, 0x23, 0x20, 0, 1, 0x23}));
  record.publish_arm({.sequence = 6, .solicited_only = true, .consumer_index = 0x1000123});
  EXPECT_EQ(memory.words[1].value(), 0x21000123u);
}

TEST(RecordPool, ZeroAtAllocationAndOneCacheLineEach) {
  RecordPool pool(64);
  std::vector<PooledRecord> records;
  std::set<const void*> addresses;
  for (int i = 0; i < 200; ++i) {
    std::optional<PooledRecord> record = pool.allocate();
    ASSERT_TRUE(record);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(record->memory()) % 64, 0u);
    EXPECT_EQ(bytes_of(*record->memory()), std::vector<int>(8));
    EXPECT_TRUE(addresses.insert(record->memory()).second);
    *record->memory() = {wqe::Be32(~0u), wqe::Be32(~0u)};
    records.push_back(std::move(*record));
  }
  EXPECT_EQ(pool.records_in_use(), 200u);
  const std::size_t pages = pool.pages();
  records.clear();
  EXPECT_EQ(pool.records_in_use(), 0u);
  for (int i = 0; i < 200; ++i) {
    records.push_back(*pool.allocate());
    EXPECT_EQ(bytes_of(*records.back().memory()), std::vector<int>(8));
    EXPECT_TRUE(addresses.contains(records.back().memory()));
  }
  EXPECT_EQ(pool.pages(), pages);
}

TEST(RecordPool, MovingARecordReturnsTheOneItReplaces) {
  RecordPool pool;
  PooledRecord a = *pool.allocate();
  PooledRecord b = *pool.allocate();
  RecordMemory* const memory = b.memory();
  a = std::move(b);
  EXPECT_EQ(a.memory(), memory);
  EXPECT_EQ(b.memory(), nullptr);
  EXPECT_EQ(pool.records_in_use(), 1u);
}

int taken_pages = 0, given_back_pages = 0;

TEST(RecordPool, HooksSeeEveryPageAndMayRefuseIt) {
  {
    RecordPool pool;
    pool.set_page_hooks({.taken = [](void*, std::size_t) { return ++taken_pages == 2 ? -1 : 0; },
                         .given_back = [](void*, std::size_t) { return ++given_back_pages; }});
    std::vector<PooledRecord> records;
    while (auto record = pool.allocate()) {
      records.push_back(std::move(*record));
    }
    EXPECT_EQ(taken_pages, 2);  // the second was refused
    EXPECT_EQ(pool.pages(), 1u);
    EXPECT_EQ(given_back_pages, 0);
  }
  EXPECT_EQ(given_back_pages, 1);
}

TEST(RecordPool, StrideIsAtLeastARecordAndAtMostAPage) {
  for (const std::size_t stride : {std::size_t{1}, std::size_t{128}, std::size_t{1} << 20}) {
    RecordPool pool(stride);
    const PooledRecord a = *pool.allocate();
    const PooledRecord b = *pool.allocate();
    const auto distance = reinterpret_cast<std::byte*>(b.memory()) - reinterpret_cast<std::byte*>(a.memory());
    if (stride == 1) {
      EXPECT_EQ(distance, 8);
    } else if (stride == 128) {
      EXPECT_EQ(distance, 128);
    } else {
      EXPECT_EQ(pool.pages(), 2u);
    }
  }
}

TEST(RecordPool, ManyThreads) {
  RecordPool pool;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        PooledRecord record = *pool.allocate();
        QueueRecord<>(record.memory()).publish_send(static_cast<std::uint32_t>(t * 1000 + i));
        EXPECT_EQ(record.memory()->words[1].value(), static_cast<std::uint32_t>(t * 1000 + i));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(pool.records_in_use(), 0u);
}

TEST(CacheLine, IsAPowerOfTwo) {
  EXPECT_GE(cache_line_bytes(), 32u);
  EXPECT_TRUE(std::has_single_bit(cache_line_bytes()));
}

}  // namespace
}  // namespace umlx5::doorbell
