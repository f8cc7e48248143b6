// Compressed completions as bytes in a CQ's memory. Positions of the title's fields are those of struct mlx5_cqe64, of
// mini CQEs those of struct mlx5_mini_cqe8 of <linux/mlx5/device.h>; where they lie is as Linux's en_rx.c (basic
// layout) and UCX's ib_mlx5.c (enhanced layout) read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "tests/tools/softhca/hca/hca_rig.h"
#include "tests/wqe/bytes.h"

namespace softhca::hca {
namespace {

using namespace harness;
using umlx5::wqe::testing_bytes::hex;

constexpr std::uint32_t kHash = 0, kChecksum = 1u << 12, kChecksumStride = 3u << 12, kEnhanced = 1;  // cqc, first word

// What a completion reports.
struct Told {
  std::uint8_t opcode = 2;  // a receive
  std::uint16_t counter = 0;
  std::uint32_t byte_count = 0;
  std::uint32_t hash = 0;
  std::uint16_t checksum = 0;
  std::uint32_t sop_qpn = 0x45;
  std::uint32_t user_index = 7;
  std::uint32_t immediate = 0;
  std::uint64_t timestamp = 0;
  bool is_frame = false;
  friend bool operator==(const Told&, const Told&) = default;
};

std::array<std::byte, 64> cqe_of(const Told& told) {
  std::array<std::byte, 64> cqe{};
  put<std::uint32_t>(cqe, 12, told.hash);
  put<std::uint16_t>(cqe, 20, told.checksum);
  cqe[28] = std::byte{told.is_frame};  // MLX5_CQE_L2_OK
  put<std::uint32_t>(cqe, 32, told.user_index);
  put<std::uint32_t>(cqe, 36, told.immediate);
  put<std::uint32_t>(cqe, 44, told.byte_count);
  put<std::uint64_t>(cqe, 48, told.timestamp);
  put<std::uint32_t>(cqe, 56, told.sop_qpn);
  put<std::uint16_t>(cqe, 60, told.counter);
  cqe[63] = static_cast<std::byte>(told.opcode << 4);
  return cqe;
}

struct CompressionTest : ::testing::Test, ReadyRig {
  // A CQ with compression, its memory full of 0xee.
  void make(std::uint32_t context_bits, std::uint32_t log_entries, std::uint32_t bytes = 64) {
    cqe_bytes = bytes;
    entries = 1u << log_entries;
    const std::size_t pages = (std::size_t{entries} * bytes + 4095) / 4096;
    buffer = memory.allocate(pages * 4096);
    std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
    std::vector<std::uint64_t> addresses;
    for (std::size_t i = 0; i < pages; ++i) {
      addresses.push_back(address_of(buffer) + i * 4096);
    }
    Words words = cq_words(uar, eqn, log_entries, record(2));
    words.emplace_back(0x10, (bytes == 128 ? 1u : 0u) << 21 | 1u << 14 | context_bits);
    ASSERT_EQ(run(0, words, addresses), kOk);
    cq_number = number();
    ASSERT_EQ(run(0, qp_words(pd, uar, cq_number, record(3)), {address_of(queue)}), kOk);
    qpn = number();
    object = hca.find_qp(qpn)->send_cq;
  }
  void complete(const Told& told, bool solicited = false) { hca.complete(*object, cqe_of(told), {}, solicited); }
  // The device's pass ends.
  void pass() { hca.poll(); }
  void consume(std::uint32_t consumer) { put(records, 2 * 64, consumer); }
  std::span<std::byte> cqe(std::uint32_t index) const {
    return buffer.subspan(std::size_t{index % entries} * cqe_bytes + cqe_bytes - 64, 64);
  }
  std::uint32_t producer() {
    EXPECT_EQ(run_on(0x402, cq_number), kOk);
    return get<std::uint32_t>(out, 0x3c);
  }
  bool is_untouched(std::uint32_t index) const {
    return std::ranges::all_of(cqe(index), [](std::byte byte) { return byte == std::byte{0xee}; });
  }

  std::span<std::byte> buffer;
  std::uint32_t cq_number = 0, qpn = 0, entries = 0, cqe_bytes = 64;
  Cq* object = nullptr;
};

TEST_F(CompressionTest, ThreeReceivesOfAPass) {
  make(kHash, 4);
  for (std::uint16_t i = 0; i < 3; ++i) {
    complete({.counter = static_cast<std::uint16_t>(0xffff + i),
              .byte_count = 0x40u + i,
              .hash = 0xa0000000u + i,
              .checksum = static_cast<std::uint16_t>(0xc001 + i),
              .timestamp = 0x1122334455667788u + i});
  }
  EXPECT_TRUE(is_untouched(0)) << "the pass is not over";
  pass();
  EXPECT_EQ(hex(cqe(0)),
            "00000000 00000000 00000000 a0000000 00000000 c0010000 00000000 00000000 "
            "00000007 00000000 00000000 00000003 11223344 55667788 00000045 ffff002c");
  EXPECT_EQ(hex(cqe(1)),
            "a0000000 00000040 a0000001 00000041 a0000002 00000042 00000000 00000000 "
            "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000");
  EXPECT_TRUE(is_untouched(2));
  EXPECT_TRUE(is_untouched(3));
  EXPECT_EQ(producer(), 3u);
  EXPECT_EQ(get<std::uint32_t>(out, 0x10) & 0x7003, 1u << 14) << "QUERY_CQ: cqe_comp_en, format and layout";
}

TEST_F(CompressionTest, ThirteenHaveTwoArrays) {
  for (const std::uint32_t bytes : {64u, 128u}) {
    make(kChecksum, 4, bytes);
    for (std::uint16_t i = 0; i < 13; ++i) {
      complete({.counter = i, .byte_count = 0x100u + i, .hash = i, .checksum = static_cast<std::uint16_t>(0xc001 + i)});
    }
    pass();
    EXPECT_EQ(hex(cqe(1)),
              "c0010000 00000100 c0020000 00000101 c0030000 00000102 c0040000 00000103 "
              "c0050000 00000104 c0060000 00000105 c0070000 00000106 c0080000 00000107");
    EXPECT_EQ(hex(cqe(8)),
              "c0090000 00000108 c00a0000 00000109 c00b0000 0000010a c00c0000 0000010b "
              "c00d0000 0000010c 00000000 00000000 00000000 00000000 00000000 00000000");
    EXPECT_EQ(get<std::uint32_t>(cqe(0), 44), 13u);
    EXPECT_EQ(cqe(0)[63], std::byte{0x2c});
    for (const std::uint32_t index : {2u, 7u, 9u, 12u, 13u, 15u}) {
      EXPECT_TRUE(is_untouched(index)) << index;
    }
    if (bytes == 128) {
      EXPECT_EQ(buffer[0], std::byte{0xee}) << "the first half of an entry";
    }
    EXPECT_EQ(producer(), 13u);
    ASSERT_EQ(run_on(0x501, qpn), kOk);
    ASSERT_EQ(run_on(0x401, cq_number), kOk);
  }
}

TEST_F(CompressionTest, StrideIndicesAreTheCounters) {
  make(kChecksumStride, 2);
  complete({.counter = 0x0102, .byte_count = 0x40, .checksum = 0xc001});
  complete({.counter = 0x0103, .byte_count = 0x41, .checksum = 0xc002});
  pass();
  EXPECT_EQ(hex(cqe(1).first(16)), "c0010102 00000040 c0020103 00000041");
  EXPECT_EQ(get<std::uint16_t>(cqe(0), 60), 0x0102);
}

// The next frame on a striding queue begins behind the strides of the one before, which its byte count tells.
TEST_F(CompressionTest, FramesOfAStridingQueueCountStrides) {
  make(kChecksumStride, 3);
  complete({.counter = 0, .byte_count = 0x00020050, .is_frame = true});
  complete({.counter = 2, .byte_count = 0x80010000, .is_frame = true});
  complete({.counter = 3, .byte_count = 0x00010040, .is_frame = true});
  complete({.counter = 5, .byte_count = 0x00010040, .is_frame = true});  // a stride is missing
  complete({.counter = 6, .byte_count = 0x00020050});                    // no frame: 131152 bytes
  complete({.counter = 8, .byte_count = 0x00010040});
  pass();
  EXPECT_EQ(get<std::uint32_t>(cqe(0), 44), 3u);
  EXPECT_EQ(hex(cqe(1).first(24)), "00000000 00020050 00000002 80010000 00000003 00010040");
  for (const std::uint32_t index : {3u, 4u, 5u}) {
    EXPECT_EQ(cqe(index)[63], std::byte{0x20});
  }
}

// A requester's counters and opcodes are its completions' own.
TEST_F(CompressionTest, RequestsOfAPass) {
  make(kChecksum, 2);
  complete({.opcode = 0, .counter = 3, .sop_qpn = 0x08000045});
  complete({.opcode = 0, .counter = 9, .byte_count = 0x200, .sop_qpn = 0x10000045});
  pass();
  EXPECT_EQ(hex(cqe(0).subspan(44)), "00000002 00000000 00000000 08000045 0003000c");
  EXPECT_EQ(hex(cqe(1).first(24)), "00030800 00000000 00091000 00000200 00000000 00000000");
}

TEST_F(CompressionTest, WhatIsNotAlikeIsApart) {
  const Told first{.counter = 5, .byte_count = 1};
  const auto apart = [&](Told second) {
    make(kHash, 2);
    complete(first);
    complete(second);
    pass();
    const bool whole = cqe(0)[63] == std::byte{0x20} && (std::to_integer<int>(cqe(1)[63]) & 0xc) == 0;
    EXPECT_EQ(producer(), 2u);
    EXPECT_EQ(run_on(0x501, qpn), kOk);
    EXPECT_EQ(run_on(0x401, cq_number), kOk);
    return whole;
  };
  Told second{.counter = 6, .byte_count = 2, .hash = 3, .checksum = 4, .timestamp = 5};
  EXPECT_FALSE(apart(second));
  const auto with = [&](auto change) {
    Told told = second;
    change(told);
    return told;
  };
  EXPECT_TRUE(apart(with([](Told& told) { told.counter = 7; })));
  EXPECT_TRUE(apart(with([](Told& told) { told.opcode = 3; })));
  EXPECT_TRUE(apart(with([](Told& told) { told.user_index = 8; })));
  EXPECT_TRUE(apart(with([](Told& told) { told.sop_qpn = 0x46; })));
  EXPECT_TRUE(apart(with([](Told& told) { told.immediate = 1; })));
}

// Errors, data in the entry, and what comes alone; in order.
TEST_F(CompressionTest, WholeEntriesBetweenSessions) {
  make(kHash, 4);
  complete({.counter = 0});
  complete({.counter = 1});
  complete({.opcode = 14, .counter = 2});
  complete({.counter = 3});
  const Bytes data(32, std::byte{0x77});
  hca.complete(*object, cqe_of({.counter = 4}), data, false);
  complete({.counter = 5});
  complete({.counter = 6});
  pass();
  EXPECT_EQ(producer(), 7u);
  const unsigned op_owns[] = {0x2c, 0, 0xe0, 0x20, 0x24, 0x2c, 0};
  for (std::uint32_t i = 0; i < 7; ++i) {
    if (op_owns[i] != 0) {
      EXPECT_EQ(std::to_integer<unsigned>(cqe(i)[63]), op_owns[i]) << i;
    }
  }
  EXPECT_EQ(get<std::uint16_t>(cqe(5), 60), 5);
}

TEST_F(CompressionTest, NothingWaitsForTheNextPass) {
  make(kHash, 3);
  for (std::uint16_t i = 0; i < 3; ++i) {
    complete({.counter = i});
    pass();
    EXPECT_EQ(cqe(i)[63], std::byte{0x20});
  }
}

TEST_F(CompressionTest, AtMostTheProfilesNumberTogether) {
  make(kHash, 7);
  for (std::uint16_t i = 0; i < 70; ++i) {
    complete({.counter = i});
  }
  pass();
  EXPECT_EQ(get<std::uint32_t>(cqe(0), 44), 64u);
  EXPECT_EQ(get<std::uint32_t>(cqe(64), 44), 6u);
  EXPECT_EQ(producer(), 70u);
  // And never more than the queue has entries.
  make(kHash, 1);
  complete({.counter = 0});
  complete({.counter = 1});
  pass();
  EXPECT_EQ(get<std::uint32_t>(cqe(0), 44), 2u);
}

TEST_F(CompressionTest, AnOverrunLeavesWhatHasRoom) {
  make(kHash, 3);
  for (std::uint16_t i = 0; i < 5; ++i) {
    complete({.counter = i});
  }
  pass();
  ASSERT_FALSE(object->in_error);
  for (std::uint16_t i = 5; i < 10; ++i) {
    complete({.counter = i});
  }
  pass();
  EXPECT_TRUE(object->in_error);
  EXPECT_EQ(object->producer, 8u);
  EXPECT_EQ(get<std::uint32_t>(cqe(5), 44), 3u);
  EXPECT_EQ(cqe(5)[63], std::byte{0x2c});
  complete({.counter = 10});
  pass();
  EXPECT_EQ(object->producer, 8u);
}

TEST_F(CompressionTest, OneEventForASession) {
  make(kHash, 3);
  const auto raises = [&] {
    hca.poll();
    const std::size_t count = raised.size();
    raised.clear();
    return count;
  };
  hca.ring(uar, 0x40, std::uint64_t{eqn << 24} << 32);
  hca.ring(uar, 0x20, std::uint64_t{1u << 28 | 1u << 24} << 32 | cq_number);
  complete({.counter = 0});
  complete({.counter = 1});
  EXPECT_EQ(raises(), 0u) << "armed for solicited ones";
  complete({.counter = 2}, true);
  complete({.counter = 3}, true);
  EXPECT_EQ(raises(), 1u);
  EXPECT_EQ(get<std::uint32_t>(cqe(2), 44), 2u);
}

TEST_F(CompressionTest, AResizeGoesOnCompressed) {
  make(kHash, 3);
  for (std::uint16_t i = 0; i < 3; ++i) {
    complete({.counter = i});
  }
  pass();
  const auto larger = page();
  ASSERT_EQ(run(0, {{0, 0x0403u << 16}, {4, 1}, {8, cq_number}, {0xc, 7}, {0x1c, 5u << 24}}, {address_of(larger)}),
            kOk);
  EXPECT_EQ(cqe(3)[63], std::byte{0x50});  // MLX5_CQE_RESIZE_CQ
  complete({.counter = 3});
  complete({.counter = 4});
  pass();
  EXPECT_EQ(hex(larger.subspan(4 * 64 + 44, 20)), "00000002 00000000 00000000 00000045 0003002c");
}

// Enhanced: the iteration count at 62 in every entry; a block's op_own has its count less one above the format.
TEST_F(CompressionTest, BlocksFollowTheirTitle) {
  make(kHash | kEnhanced, 4);
  for (std::uint16_t i = 0; i < 10; ++i) {
    complete({.counter = i, .byte_count = 0x40u + i, .hash = 0xa0000000u + i});
  }
  pass();
  EXPECT_EQ(hex(cqe(0).subspan(44)), "00000040 00000000 00000000 00000045 00000020");
  EXPECT_EQ(hex(cqe(1)),
            "a0000001 00000041 a0000002 00000042 a0000003 00000043 a0000004 00000044 "
            "a0000005 00000045 a0000006 00000046 a0000007 00000047 00000000 0000006c");
  EXPECT_EQ(hex(cqe(8)),
            "a0000008 00000048 a0000009 00000049 00000000 00000000 00000000 00000000 "
            "00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000001c");
  EXPECT_TRUE(is_untouched(2));
  EXPECT_TRUE(is_untouched(9));
  EXPECT_EQ(producer(), 10u);
  EXPECT_EQ(get<std::uint32_t>(out, 0x10) & 0x7003, 1u << 14 | 1u);
  consume(10);
  // The next pass continues the same title; one alone is a block too. Then a gap: whole again.
  complete({.counter = 10, .byte_count = 0x4a});
  pass();
  EXPECT_EQ(hex(cqe(10).first(8)), "00000000 0000004a");
  EXPECT_EQ(hex(cqe(10).subspan(60)), "0000000c");
  complete({.counter = 12});
  complete({.opcode = 14, .counter = 13});
  complete({.counter = 14});
  pass();
  EXPECT_EQ(hex(cqe(11).subspan(60)), "000c0020");
  EXPECT_EQ(hex(cqe(12).subspan(60)), "000d00e0");
  EXPECT_EQ(hex(cqe(13).subspan(60)), "000e0020");
}

TEST_F(CompressionTest, IterationsCountModulo256) {
  make(kHash | kEnhanced, 1);
  std::uint32_t index = 0;
  for (; index < 2 * 300; ++index) {
    complete({.counter = static_cast<std::uint16_t>(2 * index)});
    pass();
    ASSERT_EQ(std::to_integer<std::uint32_t>(cqe(index)[62]), index / 2 % 256);
    ASSERT_EQ(std::to_integer<std::uint32_t>(cqe(index)[63]), 0x20 | (index / 2 & 1));
    consume(index + 1);
  }
}

TEST_F(CompressionTest, RefusesWhatIsNotThere) {
  const auto status = [&](std::uint32_t bits) {
    Words words = cq_words(uar, eqn, 2, record(4));
    words.emplace_back(0x10, 1u << 14 | bits);
    return run(0, words, {address_of(page())});
  };
  EXPECT_EQ(status(2u << 12), kBadParam);  // the flow tag and the stride index: mini_cqe_resp_flow_tag is 0
  EXPECT_EQ(status(2), kBadParam);         // no such layout
  for (const std::uint32_t bits : {kHash, kChecksum, kChecksumStride, kEnhanced}) {
    EXPECT_EQ(status(bits), kOk);
  }
  HcaRig without(Profile{.cqe_compression = false});
  ASSERT_EQ(without.run_on(0x802, 0), kOk);
  const std::uint32_t page_uar = without.number();
  ASSERT_EQ(without.run(0, HcaRig::eq_words(page_uar, 3, 0), {address_of(without.page())}), kOk);
  Words words = HcaRig::cq_words(page_uar, without.number(), 2, address_of(without.page()));
  EXPECT_EQ(without.run(0, words, {address_of(without.page())}), kOk);
  words.emplace_back(0x10, 1u << 14);
  EXPECT_EQ(without.run(0, words, {address_of(without.page())}), kBadParam);
}

// Software that reads the basic layout as Linux does: it keeps the title and the current array, takes the counters from
// the title on, and gives the entries of a session their lap's owner bit.
class KernelReader {
 public:
  explicit KernelReader(const CompressionTest& test) : test_(test) {}

  std::optional<Told> next() {
    const std::uint32_t lap = consumer_ / test_.entries & 1;
    if (left_ == 0) {
      const auto cqe = test_.cqe(consumer_);
      const auto op_own = std::to_integer<std::uint32_t>(cqe[63]);
      if ((op_own & 1) != lap || op_own >> 4 == 15) {
        return std::nullopt;
      }
      std::copy(cqe.begin(), cqe.end(), title_.begin());
      if ((op_own & 0xc) != 0xc) {
        ++consumer_;
        return told(get<std::uint16_t>(title_, 60), get<std::uint32_t>(title_, 44), get<std::uint32_t>(title_, 56));
      }
      left_ = get<std::uint32_t>(title_, 44);
      read_ = 0;
      read_array(consumer_ + 1);
    } else if (read_ % 8 == 0) {
      read_array(consumer_);
    }
    const std::size_t at = read_ % 8 * 8;
    test_.cqe(consumer_)[63] = static_cast<std::byte>(lap);
    ++consumer_;
    --left_;
    ++read_;
    const bool is_send = std::to_integer<unsigned>(title_[63]) >> 4 == 0;
    const auto base = static_cast<std::uint16_t>(get<std::uint16_t>(title_, 60) + read_ - 1);
    return told(is_send ? get<std::uint16_t>(array_, at) : base, get<std::uint32_t>(array_, at + 4),
                is_send ? std::to_integer<std::uint32_t>(array_[at + 2]) << 24 | 0x45 : get<std::uint32_t>(title_, 56));
  }
  std::uint32_t consumer() const { return consumer_; }

 private:
  void read_array(std::uint32_t index) {
    const auto cqe = test_.cqe(index);
    std::copy(cqe.begin(), cqe.end(), array_.begin());
  }
  Told told(std::uint16_t counter, std::uint32_t byte_count, std::uint32_t sop_qpn) const {
    return {.opcode = static_cast<std::uint8_t>(std::to_integer<unsigned>(title_[63]) >> 4),
            .counter = counter,
            .byte_count = byte_count,
            .sop_qpn = sop_qpn,
            .immediate = get<std::uint32_t>(title_, 36)};
  }

  const CompressionTest& test_;
  std::array<std::byte, 64> title_{}, array_{};
  std::uint32_t consumer_ = 0, left_ = 0, read_ = 0;
};

// And one that reads the enhanced layout as UCX does: the title is the whole CQE before a block, the counters go on
// from it over all blocks that follow.
class BlockReader {
 public:
  explicit BlockReader(const CompressionTest& test) : test_(test) {}

  std::optional<Told> next() {
    if (left_ == 0) {
      const auto cqe = test_.cqe(consumer_);
      const auto op_own = std::to_integer<std::uint32_t>(cqe[63]);
      if (std::to_integer<std::uint32_t>(cqe[62]) != (consumer_ / test_.entries & 0xff) || op_own >> 4 == 15) {
        return std::nullopt;
      }
      if ((op_own & 0xc) != 0xc) {
        std::copy(cqe.begin(), cqe.end(), title_.begin());
        since_title_ = 0;
        ++consumer_;
        return told(get<std::uint16_t>(title_, 60), get<std::uint32_t>(title_, 44), get<std::uint32_t>(title_, 56));
      }
      std::copy(cqe.begin(), cqe.end(), block_.begin());
      left_ = (op_own >> 4) + 1;
      at_ = 0;
    }
    ++consumer_;
    --left_;
    ++since_title_;
    const std::size_t at = at_++ * 8;
    const bool is_send = std::to_integer<unsigned>(title_[63]) >> 4 == 0;
    const auto counter = static_cast<std::uint16_t>(get<std::uint16_t>(title_, 60) + since_title_);
    return told(is_send ? get<std::uint16_t>(block_, at) : counter, get<std::uint32_t>(block_, at + 4),
                is_send ? std::to_integer<std::uint32_t>(block_[at + 2]) << 24 | 0x45 : get<std::uint32_t>(title_, 56));
  }
  std::uint32_t consumer() const { return consumer_; }

 private:
  Told told(std::uint16_t counter, std::uint32_t byte_count, std::uint32_t sop_qpn) const {
    return {.opcode = static_cast<std::uint8_t>(std::to_integer<unsigned>(title_[63]) >> 4),
            .counter = counter,
            .byte_count = byte_count,
            .sop_qpn = sop_qpn,
            .immediate = get<std::uint32_t>(title_, 36)};
  }

  const CompressionTest& test_;
  std::array<std::byte, 64> title_{}, block_{};
  std::uint32_t consumer_ = 0, left_ = 0, since_title_ = 0;
  std::size_t at_ = 0;
};

template <typename Reader>
void run_at_random(CompressionTest& test, std::uint32_t seed) {
  std::minstd_rand random(seed);
  Reader reader(test);
  std::deque<Told> expected;
  std::uint16_t sends = 0, receives = 0xfff0;
  std::uint32_t told = 0;
  const auto draw = [&](std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); };
  while (told < 4000) {
    while (expected.size() < test.entries && draw(12) != 0) {
      Told next{.opcode = static_cast<std::uint8_t>(draw(5) == 0 ? 0 : 2), .byte_count = draw(1u << 31)};
      if (draw(8) == 0) {
        next.opcode = static_cast<std::uint8_t>(next.opcode == 0 ? 13 : 14);
      }
      const bool is_send = next.opcode == 0 || next.opcode == 13;
      if (is_send) {
        next.sop_qpn |= (draw(2) == 0 ? 0x08u : 0x0au) << 24;
        sends = static_cast<std::uint16_t>(sends + 1 + draw(3));
      } else {
        receives = static_cast<std::uint16_t>(receives + (draw(10) == 0 ? 2 : 1));
        next.immediate = draw(10) == 0 ? 1 : 0;
      }
      next.counter = is_send ? sends : receives;
      test.complete(next);
      expected.push_back(next);
      ++told;
    }
    test.pass();
    while (!expected.empty() && draw(20) != 0) {
      ASSERT_EQ(reader.next(), expected.front()) << told;
      expected.pop_front();
    }
    if (expected.empty()) {
      ASSERT_EQ(reader.next(), std::nullopt);
    }
    test.consume(reader.consumer());
    ASSERT_FALSE(test.object->in_error);
  }
}

TEST_F(CompressionTest, ReadAsLinuxReadsIt) {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    make(kHash, 1 + seed % 5, seed % 2 == 0 ? 64 : 128);
    for (std::uint32_t i = 0; i < entries; ++i) {
      cqe(i)[63] = std::byte{0xf0};
    }
    consume(0);
    run_at_random<KernelReader>(*this, seed);
    ASSERT_FALSE(HasFailure()) << seed;
    EXPECT_EQ(run_on(0x501, qpn), kOk);
    EXPECT_EQ(run_on(0x401, cq_number), kOk);
  }
}

TEST_F(CompressionTest, ReadAsUcxReadsIt) {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    make(kHash | kEnhanced, 1 + seed % 5, seed % 2 == 0 ? 64 : 128);
    for (std::uint32_t i = 0; i < entries; ++i) {
      cqe(i)[62] = std::byte{0xff};
      cqe(i)[63] = std::byte{0xf0};
    }
    consume(0);
    run_at_random<BlockReader>(*this, seed);
    ASSERT_FALSE(HasFailure()) << seed;
    EXPECT_EQ(run_on(0x501, qpn), kOk);
    EXPECT_EQ(run_on(0x401, cq_number), kOk);
  }
}

}  // namespace
}  // namespace softhca::hca
