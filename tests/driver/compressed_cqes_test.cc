// Compressed CQEs, written by hand as Linux's mlx5e_decompress_cqes_start() and _cont() and DPDK's mlx5_rx_poll_len()
// expect them: the title with the count in byte_cnt; mini CQEs 0 to 7 in the entry behind it, 8 to 15 in the eighth
// behind it, 16 to 23 in the sixteenth; nothing in the others.
#include "driver/compressed_cqes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "driver/cq.h"
#include "driver/qp.h"
#include "driver/srq.h"
#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using testing::big32;
using testing::ConnectedQp;
using testing::CqeWriter;
using testing::put_big32;

constexpr std::uint8_t kHashBit = 1, kCsumBit = 2, kStrideBit = 4;  // enum mlx5dv_cqe_comp_res_format

void put_hex(std::byte* to, std::string_view hex) {
  unsigned high = 16;
  for (const char c : hex) {
    if (c == ' ') {
      continue;
    }
    const auto digit = static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (high == 16) {
      high = digit;
    } else {
      *to++ = static_cast<std::byte>(high << 4 | digit);
      high = 16;
    }
  }
}

using Own = CqeWriter::Own;

QpOptions deep_queues() {
  QpOptions options = ConnectedQp::default_options();
  options.capacity.max_recv_wr = 64;
  return options;
}

struct Queue : ConnectedQp {
  explicit Queue(CqOptions options) : ConnectedQp(deep_queues(), options) {}
  std::uint32_t entries() const { return cq->entries() + 1; }
  std::byte* cqe(std::uint32_t index) const { return writer->cqe(index); }
  void post_receives(std::uint64_t wr_id, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(post(RecvWr{.wr_id = wr_id + i}));
    }
  }
  // Receives that count up from `counter`, the n-th of 100 + n bytes.
  void write_receives(std::uint16_t counter, std::size_t count) {
    std::vector<Own> own(count);
    for (std::size_t n = 0; n < count; ++n) {
      own[n].byte_count = static_cast<std::uint32_t>(100 + n);
    }
    writer->write_session(entry(2, counter), own);
  }
};

// Thirteen receives in two arrays; the entries 2 to 7 and 9 to 12 are as they were. The byte behind the mini CQEs of an
// array, where whole CQEs have their owner bit, is the last one's byte count.
TEST(CompressedCqes, ThirteenReceivesByTheirBytes) {
  Queue q({.entries = 15, .compression = kHashBit});
  q.post_receives(1000, 13);
  put_hex(q.cqe(1),
          "a0000000 00000040 a0000001 00000041 a0000002 00000042 a0000003 00000043 "
          "a0000004 00000044 a0000005 00000045 a0000006 00000046 a0000007 000012f0");
  put_hex(q.cqe(8),
          "a0000008 00000048 a0000009 00000049 a000000a 0000004a a000000b 0000004b "
          "a000000c 0000ffff 00000000 00000000 00000000 00000000 00000000 00000000");
  put_hex(q.cqe(0),
          "00000000 00000000 00000000 a0000000 21000000 beef0000 00778899 07080064 "
          "00000000 00000000 00000000 0000000d 01020304 05060708 00001234 00000000");
  put_big32(q.cqe(0) + 32, q.kernel.create_qp.uidx);
  q.cqe(0)[63] = std::byte{0x2c};
  const auto completions = q.poll();
  ASSERT_EQ(completions.size(), 13u);
  const std::uint32_t bytes[] = {0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x12f0, 0x48, 0x49, 0x4a, 0x4b, 0xffff};
  for (std::uint32_t i = 0; i < 13; ++i) {
    EXPECT_EQ(completions[i].wr_id, 1000 + i);
    EXPECT_EQ(completions[i].status, CompletionStatus::kSuccess);
    EXPECT_EQ(completions[i].opcode, CompletionOpcode::kRecv);
    EXPECT_EQ(completions[i].byte_count, bytes[i]);
    EXPECT_EQ(completions[i].qp, q.qp.get());
    EXPECT_EQ(completions[i].qpn, 0x1234u);
    EXPECT_EQ(completions[i].device_timestamp, 0x0102030405060708u);
    EXPECT_EQ(completions[i].frame_word, 0x07080064u);
    EXPECT_EQ(completions[i].source_word, 0x00778899u);
    // The hash is each one's own, the checksum is the title's. What is in the ring is of this lap, not of the next.
    EXPECT_EQ(big32(q.cqe(i) + 12), 0xa0000000u + i);
    EXPECT_EQ(big32(q.cqe(i) + 20) >> 16, i == 0 ? 0xbeefu : 0u);
    EXPECT_EQ(std::to_integer<unsigned>(q.cqe(i)[63]), 0x20u);
  }
  EXPECT_EQ(big32(q.cq_record()), 13u);
  EXPECT_EQ(q.cqe(13)[63], std::byte{0xf0});
  EXPECT_EQ(q.qp->receive_queue().outstanding_requests(), 0u);
}

// MLX5_CQE_FORMAT_CSUM: what is hash in the other format is the checksum, and the hash is the title's for the first.
TEST(CompressedCqes, ChecksumsByTheirBytes) {
  for (const std::uint8_t format : {kCsumBit, kStrideBit}) {
    Queue q({.entries = 7, .compression = format});
    q.post_receives(0, 3);
    put_hex(q.cqe(1), "c0010000 00000040 c0020001 00000041 c0030002 00000042");
    put_hex(q.cqe(0),
            "00000000 00000000 00000000 a0000000 21000000 c0010000 00000000 07080064 "
            "00000000 00000000 00000000 00000003 00000000 00000000 00001234 00000000");
    put_big32(q.cqe(0) + 32, q.kernel.create_qp.uidx);
    q.cqe(0)[63] = std::byte{0x2c};
    ASSERT_EQ(q.poll().size(), 3u);
    for (std::uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(big32(q.cqe(i) + 20) >> 16, 0xc001u + i);
      EXPECT_EQ(big32(q.cqe(i) + 12), i == 0 ? 0xa0000000u : 0u);
      EXPECT_EQ(big32(q.cqe(i) + 60) >> 16, i);  // this queue has no strides: it counts
    }
  }
}

// A striding receive queue counts the strides that byte counts tell (30:16; 31: left out), or the format has the index.
// The WQE is the title's (wqe_id at 2).
TEST(CompressedCqes, StridesByTheirBytes) {
  for (const auto format :
       {wqe::MiniCqeFormat::kRxHash, wqe::MiniCqeFormat::kChecksum, wqe::MiniCqeFormat::kChecksumStrideIndex}) {
    alignas(64) std::array<std::byte, 16 * 64> memory{};
    const CompletionRing ring(memory.data(), 16, 64);
    ring.cqe(5)[63] = std::byte{0xff};  // not looked at
    put_hex(ring.cqe(12),
            "00000042 00000000 00000000 00000000 00000000 00000000 00000000 01000000 "
            "00000000 00000000 00000000 0000000a 00000000 00000000 00000000 0003002c");
    put_hex(ring.cqe(13),
            "c0010003 0001003c c0020004 00030082 c0030007 80020000 c0040009 00010040 "
            "c005000a 000f03c0 c0060019 00010001 c007001a 00010001 c008001b 00010001");
    put_hex(ring.cqe(12 + 8), "c009001c 00020050 c00a001e 00010001");
    ASSERT_TRUE(expand_session(ring, ring.cqe(12), format, true));
    const std::uint32_t first_strides[] = {0x03, 0x04, 0x07, 0x09, 0x0a, 0x19, 0x1a, 0x1b, 0x1c, 0x1e};
    for (std::uint32_t n = 0; n < 10; ++n) {
      EXPECT_EQ(big32(ring.cqe(12 + n) + 60) >> 16, first_strides[n]);
      EXPECT_EQ(big32(ring.cqe(12 + n)), 0x42u);
      EXPECT_EQ(big32(ring.cqe(12 + n) + 20) >> 16, format == wqe::MiniCqeFormat::kRxHash ? 0 : 0xc001 + n);
      EXPECT_EQ(std::to_integer<unsigned>(ring.cqe(12 + n)[63]), n < 4 ? 0x20u : 0x21u);
    }
    EXPECT_EQ(big32(ring.cqe(14) + 44), 0x80020000u);
  }
}

// A requester's mini CQEs have its WQE counters, which skip what was not signalled, and opcodes.
TEST(CompressedCqes, RequestsByTheirBytes) {
  Queue q({.entries = 7, .compression = kHashBit});
  for (std::uint64_t i = 0; i < 6; ++i) {
    const bool is_read = i == 3;
    ASSERT_TRUE(q.post(SendWr{.wr_id = i,
                              .opcode = is_read ? SendOpcode::kRdmaRead : SendOpcode::kRdmaWrite,
                              .flags = i % 2 == 1 ? SendFlag::kSignaled : SendFlags{}}));
  }
  put_hex(q.cqe(1), "00010800 00000000 00031000 00000309 00050800 00000000");
  put_hex(q.cqe(0),
          "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
          "00000000 00000000 00000000 00000003 00000000 00000000 08001234 00010000");
  put_big32(q.cqe(0) + 32, q.kernel.create_qp.uidx);
  q.cqe(0)[63] = std::byte{0x0c};
  const auto completions = q.poll();
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[0].opcode, CompletionOpcode::kRdmaWrite);
  EXPECT_EQ(completions[1].wr_id, 3u);
  EXPECT_EQ(completions[1].opcode, CompletionOpcode::kRdmaRead);
  EXPECT_EQ(completions[1].byte_count, 0x309u);
  EXPECT_EQ(completions[2].wr_id, 5u);
  EXPECT_EQ(std::to_integer<unsigned>(q.cqe(1)[56]), 0x10u);
}

TEST(CompressedCqes, ABatchMayEndInASession) {
  Queue q({.entries = 31, .compression = kHashBit});
  q.post_receives(0, 20);
  q.write_receives(0, 20);
  std::uint32_t taken = 0;
  for (const std::size_t most : {1, 3, 5, 1, 7, 9}) {
    for (const Completion& completion : q.poll(most)) {
      EXPECT_EQ(completion.wr_id, taken);
      EXPECT_EQ(completion.byte_count, 100 + taken);
      ++taken;
    }
    EXPECT_EQ(big32(q.cq_record()), taken);
    q.cq->arm();
    EXPECT_EQ(big32(q.cq_record() + 1), taken);
  }
  EXPECT_EQ(taken, 20u);
}

// Whole CQEs, sessions of every length and errors in any order, over many laps, with every batch; the bytes around the
// ring stay.
class Guarded final : public Allocator {
 public:
  std::optional<void*> allocate(MemoryUse use, std::size_t bytes, std::size_t) override {
    if (use != MemoryUse::kCq) {
      return std::nullopt;
    }
    memory_.assign(bytes + 2 * kZone, std::byte{0x5a});
    return memory_.data() + kZone;
  }
  void release(MemoryUse, void*) override {}
  bool is_whole() const {
    return std::all_of(memory_.begin(), memory_.begin() + kZone, [](std::byte b) { return b == std::byte{0x5a}; }) &&
           std::all_of(memory_.end() - kZone, memory_.end(), [](std::byte b) { return b == std::byte{0x5a}; });
  }

 private:
  static constexpr std::ptrdiff_t kZone = 4096;
  std::vector<std::byte> memory_;
};

void run_at_random(std::uint32_t seed, std::uint32_t cqe_bytes, bool many_pollers) {
  Guarded guarded;
  std::minstd_rand random(seed);
  const std::uint32_t entries = 2u << random() % 5;
  Queue q({.entries = entries - 1,
           .cqe_bytes = cqe_bytes,
           .compression = kHashBit,
           .allocator = &guarded,
           .many_pollers = many_pollers});
  ASSERT_EQ(q.entries(), entries);
  std::uint32_t sent = 0, received = 0, polled_sends = 0, polled_receives = 0;
  std::map<std::uint64_t, bool> failed;
  for (int round = 0; round < 300; ++round) {
    while (q.writer->producer() - (polled_sends + polled_receives) < entries && random() % 4 != 0) {
      const std::uint32_t room = entries - (q.writer->producer() - (polled_sends + polled_receives));
      const bool is_send = random() % 2 == 0;
      const std::uint32_t kind = random() % 4;
      const std::uint32_t count = kind < 2 || room < 2 ? 1 : 2 + random() % std::min(room - 1, 30u);
      std::vector<Own> own;
      const auto first = static_cast<std::uint16_t>(is_send ? sent : received);
      for (std::uint32_t n = 0; n < count; ++n) {
        const std::uint32_t wr = is_send ? sent++ : received++;
        if (is_send) {
          ASSERT_TRUE(q.post(SendWr{.wr_id = wr, .opcode = SendOpcode::kRdmaRead, .flags = SendFlag::kSignaled}));
        } else {
          ASSERT_TRUE(q.post(RecvWr{.wr_id = wr + (1u << 31)}));
        }
        own.push_back({.counter = static_cast<std::uint16_t>(wr), .send_opcode = 0x10, .byte_count = wr * 7919});
      }
      CqeWriter::Entry title = q.entry(is_send ? 0 : 2, first);
      title.send_opcode = is_send ? 0x10 : 0;
      if (count > 1) {
        q.writer->write_session(title, own);
      } else if (kind == 0) {
        title.opcode = is_send ? 13 : 14;
        title.syndrome = 0x13;
        failed[is_send ? first : first + (1u << 31)] = true;
        q.writer->write(title);
      } else {
        title.byte_count = own[0].byte_count;
        q.writer->write(title);
      }
      // Wrapped counters would need more care here than the queue does.
      ASSERT_LT(sent, 0x10000u);
      ASSERT_LT(received, 0x10000u);
    }
    for (const Completion& completion : q.poll(1 + random() % 40)) {
      const bool is_send = completion.wr_id < 1u << 31;
      const std::uint32_t wr = is_send ? polled_sends++ : polled_receives++;
      ASSERT_EQ(completion.wr_id & 0x7fffffff, wr);
      if (failed.contains(completion.wr_id)) {
        ASSERT_EQ(completion.status, CompletionStatus::kRemoteAccess);
      } else {
        ASSERT_EQ(completion.status, CompletionStatus::kSuccess);
        ASSERT_EQ(completion.byte_count, wr * 7919);
      }
    }
    ASSERT_EQ(big32(q.cq_record()), (polled_sends + polled_receives) & 0xffffff);
  }
  EXPECT_TRUE(guarded.is_whole());
  EXPECT_GT(polled_sends + polled_receives, 300u);
}

TEST(CompressedCqes, AnySequenceOverManyLaps) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    for (const std::uint32_t cqe_bytes : {64u, 128u}) {
      run_at_random(seed, cqe_bytes, seed % 3 == 0);
      if (HasFailure()) {
        FAIL() << "seed " << seed << ", " << cqe_bytes << " bytes";
      }
    }
  }
}

// Of two queue pairs one goes while their sessions wait, the first half taken; the other's stay.
TEST(CompressedCqes, ADestroyedQpTakesItsSessionsAlong) {
  for (std::uint32_t before = 0; before < 32; ++before) {
    Queue q({.entries = 31, .compression = kHashBit});
    std::uint16_t counter = 0;
    for (; counter < before; ++counter) {
      q.post_receives(counter, 1);
      q.writer->write(q.entry(2, counter));
      ASSERT_EQ(q.poll().size(), 1u);
    }
    const CqeWriter::Entry mine = q.entry(2, counter);
    QpOptions options = deep_queues();
    options.send_cq = options.recv_cq = q.cq.get();
    auto other = *q.pd->create_qp(options);
    ASSERT_TRUE(other->connect({}, 0, {}));
    for (std::uint64_t i = 0; i < 10; ++i) {
      const RecvWr request{.wr_id = 500 + i};
      ASSERT_TRUE(other->post_recv({&request, 1}));
    }
    const CqeWriter::Entry others{.opcode = 2, .number = q.kernel.create_qp.uidx, .qpn = other->qpn()};
    q.post_receives(counter, 20);
    q.writer->write_session(mine, std::vector<Own>(9));
    q.writer->write_session(others, std::vector<Own>(10));
    CqeWriter::Entry later = mine;
    later.wqe_counter = static_cast<std::uint16_t>(counter + 9);
    q.writer->write_session(later, std::vector<Own>(3));
    ASSERT_EQ(q.poll(4).size(), 4u);
    ASSERT_TRUE(q.qp.destroy());
    const auto completions = q.poll();
    ASSERT_EQ(completions.size(), 10u) << before;
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(completions[i].wr_id, 500 + i);
    }
    EXPECT_EQ(big32(q.cq_record()), before + 22);
  }
}

TEST(CompressedCqes, ASharedReceiveQueueGetsItsWqesBack) {
  testing::FakeKernel kernel;
  kernel.device.cqe_comp_caps = {.max_num = 64, .supported_format = 7};
  const auto context = testing::open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 15, .compression = kHashBit});
  auto srq = *pd->create_srq({.max_wr = 8, .max_sge = 1});
  auto qp = *pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get(), .srq = srq.get()});
  ASSERT_TRUE(qp->connect({}, 0, {}));
  CqeWriter writer(kernel.create_cq.buf_addr, 16, 64);
  const CqeWriter::Entry title{.opcode = 2, .number = kernel.create_qp.uidx, .qpn = qp->qpn()};
  std::uint64_t posted = 0;
  const auto fill_up = [&] {
    std::uint64_t count = 0;
    for (;; ++count, ++posted) {
      const RecvWr request{.wr_id = posted};
      if (!srq->post_recv({&request, 1})) {
        return count;
      }
    }
  };
  const std::uint64_t all = fill_up();
  ASSERT_GE(all, 8u);
  writer.write_session(title, std::vector<Own>(5));
  std::vector<Completion> completions(3);
  ASSERT_EQ(cq->poll(completions), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(completions[i].wr_id, i);
    EXPECT_EQ(completions[i].srq, srq.get());
  }
  EXPECT_EQ(fill_up(), 3u);
  ASSERT_TRUE(qp.destroy());
  EXPECT_EQ(fill_up(), 2u);
  EXPECT_EQ(cq->poll(completions), 0u);
}

// What waits survives in a larger and a smaller ring, the session half taken or whole.
TEST(CompressedCqes, AResizeKeepsThem) {
  for (const std::uint32_t entries : {15u, 63u}) {
    for (std::uint32_t before = 0; before < 33; ++before) {
      Queue q({.entries = 31, .compression = kHashBit});
      std::uint16_t counter = 0;
      for (; counter < before; ++counter) {
        q.post_receives(counter, 1);
        q.writer->write(q.entry(2, counter));
        ASSERT_EQ(q.poll().size(), 1u);
      }
      q.post_receives(before, 21);
      q.write_receives(counter, 9);
      ASSERT_EQ(q.poll(6).size(), 6u);
      q.write_receives(static_cast<std::uint16_t>(counter + 9), 11);
      std::uint64_t new_buffer = 0;
      q.kernel.on_resize = [&](std::uint64_t buffer) {
        new_buffer = buffer;
        q.writer->write(q.entry(5, 0));  // RESIZE
      };
      ASSERT_TRUE(q.cq->resize(entries));
      CqeWriter writer(new_buffer, entries + 1, 64);
      writer.set_producer(q.writer->producer());
      writer.write_session(q.entry(2, static_cast<std::uint16_t>(counter + 20)), std::vector<Own>(1));
      const auto completions = q.poll();
      ASSERT_EQ(completions.size(), 15u) << before;
      for (std::uint32_t i = 0; i < 14; ++i) {
        EXPECT_EQ(completions[i].wr_id, before + 6 + i);
        EXPECT_EQ(completions[i].byte_count, i < 3 ? 106 + i : 97 + i);
      }
      EXPECT_EQ(completions[14].wr_id, before + 20);
    }
  }
  // Eleven wait, all in one session.
  Queue q({.entries = 31, .compression = kHashBit});
  q.post_receives(0, 11);
  q.write_receives(0, 11);
  EXPECT_EQ(q.cq->resize(7).error().what, "CQ 0x45 resize: 7 entries do not hold the 11 completions that wait");
  EXPECT_EQ(q.poll().size(), 11u);
}

// Titles that no device writes: none of what they promise is taken, and the queue goes on behind them.
TEST(CompressedCqes, NonsenseCostsOneCompletion) {
  for (const bool many_pollers : {false, true}) {
    for (const std::uint32_t count : {0u, 9u, 64u, 0xffffffffu}) {
      Queue q({.entries = 7, .compression = kHashBit, .many_pollers = many_pollers});
      q.post_receives(0, 2);
      CqeWriter::Entry title = q.entry(2, 0);
      title.format = 3;
      title.byte_count = count;
      q.writer->write(title);
      q.writer->write(q.entry(2, 1));
      std::vector<Completion> completions = q.poll(1);
      ASSERT_EQ(completions.size(), 1u);
      EXPECT_EQ(completions[0].status, CompletionStatus::kLocalLength);
      completions = q.poll(1);
      ASSERT_EQ(completions.size(), 1u);
      EXPECT_EQ(completions[0].wr_id, 1u);
      EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
    }
  }
}

TEST(CompressedCqes, OnAQueueThatAskedForNoneTheyAreNonsense) {
  Queue q({.entries = 7});
  q.post_receives(0, 3);
  q.write_receives(0, 3);
  EXPECT_EQ(q.poll(1).at(0).status, CompletionStatus::kLocalLength);
}

// A session of a queue that nobody knows is left out whole: its arrays are not taken for CQEs.
TEST(CompressedCqes, NobodysSessionIsLeftOut) {
  Queue q({.entries = 15, .compression = kHashBit});
  q.post_receives(0, 1);
  CqeWriter::Entry stray = q.entry(2, 0);
  stray.number = 0x123456;
  q.writer->write_session(stray, std::vector<Own>(9, Own{.byte_count = 0x20}));
  q.writer->write(q.entry(2, 0));
  const auto completions = q.poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 0u);
  EXPECT_EQ(big32(q.cq_record()), 10u);
}

TEST(CompressedCqes, OnlyFormatsThatTheDeviceHas) {
  testing::FakeKernel kernel;
  kernel.device.cqe_comp_caps = {.max_num = 64, .supported_format = 3};
  const auto context = testing::open_fake(kernel);
  for (const std::uint8_t format : {kHashBit, kCsumBit}) {
    ASSERT_TRUE(context->create_cq({.entries = 7, .compression = format}));
    EXPECT_EQ(kernel.create_cq.cqe_comp_en, 1);
    EXPECT_EQ(kernel.create_cq.cqe_comp_res_format, format);
  }
  const Error stride = context->create_cq({.entries = 7, .compression = kStrideBit}).error();
  EXPECT_EQ(stride.errno_value, EINVAL);
  EXPECT_EQ(stride.what, "CQ create: compression format 0x4; the device has 0x3 (cqe_comp_caps)");
  const Error both = context->create_cq({.entries = 7, .compression = 3}).error();
  EXPECT_EQ(both.errno_value, EINVAL);
  EXPECT_EQ(both.what, "CQ create: compression formats 0x3; one at a time");
  testing::FakeKernel without;
  EXPECT_EQ(testing::open_fake(without)->create_cq({.entries = 7, .compression = 1}).error().errno_value, EINVAL);
}

}  // namespace
}  // namespace umlx5
