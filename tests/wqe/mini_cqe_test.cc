// Literal mini CQEs: positions of struct mlx5_mini_cqe8 of <linux/mlx5/device.h> (rx_hash_result or checksum and stridx
// at 0, s_wqe_info with wqe_counter at 0 and s_wqe_opcode at 2, byte_cnt at 4), big-endian.
#include "wqe/mini_cqe.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/wqe/bytes.h"

namespace umlx5::wqe {
namespace {

using testing_bytes::hex;
using testing_bytes::stored;
using testing_bytes::unhex;

TEST(MiniCqe, Bytes) {
  EXPECT_EQ(hex(stored(HashMiniCqe{.rx_hash = 0x12345678, .byte_count = 64})), "12345678 00000040");
  EXPECT_EQ(hex(stored(ChecksumMiniCqe{.checksum = 0xabcd, .stride_index = 0x0102, .byte_count = 0x80010040})),
            "abcd0102 80010040");
  EXPECT_EQ(hex(stored(RequesterMiniCqe{.wqe_counter = 9, .send_opcode = SendOpcode::kSend, .byte_count = 64})),
            "00090a00 00000040");
}

// MLX5_CQE_FORMAT_HASH, _CSUM and _CSUM_STRIDX of <linux/mlx5/device.h>.
TEST(MiniCqe, FormatsOfTheCqContext) {
  EXPECT_EQ(static_cast<int>(MiniCqeFormat::kRxHash), 0);
  EXPECT_EQ(static_cast<int>(MiniCqeFormat::kChecksum), 1);
  EXPECT_EQ(static_cast<int>(MiniCqeFormat::kChecksumStrideIndex), 3);
  EXPECT_EQ(to_string(MiniCqeFormat::kRxHash), "rx-hash");
  EXPECT_EQ(to_string(MiniCqeFormat::kChecksum), "checksum");
  EXPECT_EQ(to_string(MiniCqeFormat::kChecksumStrideIndex), "checksum-and-stride-index");
  EXPECT_EQ(to_string(MiniCqeFormat{2}), "reserved");
  EXPECT_EQ(to_string(CqeCompressionLayout::kBasic), "basic");
  EXPECT_EQ(to_string(CqeCompressionLayout::kEnhanced), "enhanced");
  EXPECT_EQ(to_string(CqeCompressionLayout{2}), "reserved");
}

// Where Linux's mlx5e_decompress_cqes_start() and _cont() look for them: behind the title, then at every eighth entry.
TEST(MiniCqe, EntryOfEach) {
  std::vector<std::uint32_t> entries;
  for (std::uint32_t n = 0; n < 26; ++n) {
    entries.push_back(mini_cqe_entry(n));
  }
  EXPECT_EQ(entries, (std::vector<std::uint32_t>{1, 1, 1, 1,  1,  1,  1,  1,  8,  8,  8,  8,  8,
                                                 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 24, 24}));
}

TEST(MiniCqe, OnlyCompletionsHaveTitles) {
  for (const int opcode : {0, 1, 2, 3, 4}) {
    EXPECT_TRUE(is_compression_title(static_cast<std::uint8_t>(opcode << 4 | 0xc))) << opcode;
    EXPECT_TRUE(is_compression_title(static_cast<std::uint8_t>(opcode << 4 | 0xf))) << opcode;
    EXPECT_FALSE(is_compression_title(static_cast<std::uint8_t>(opcode << 4 | 0x8))) << opcode;
    EXPECT_FALSE(is_compression_title(static_cast<std::uint8_t>(opcode << 4))) << opcode;
  }
  for (const int opcode : {5, 6, 12, 13, 14, 15}) {
    EXPECT_FALSE(is_compression_title(static_cast<std::uint8_t>(opcode << 4 | 0xc))) << opcode;
  }
}

// UCX takes the count from the upper half of op_own, and the iteration count where whole CQEs have their signature.
TEST(MiniCqe, TailOfABlock) {
  EXPECT_EQ(hex(stored(MiniCqeBlockTail{
                .validity_iteration_count = 0xfe, .count_less_one = 6, .format = CqeFormat::kCompressed})),
            "00000000 0000fe6c");
  const auto tail = load<MiniCqeBlockTail>(unhex("ffffffff ffff010d").data());
  EXPECT_EQ(tail.validity_iteration_count, 1);
  EXPECT_EQ(tail.count_less_one, 0);
  EXPECT_EQ(tail.format, CqeFormat::kCompressed);
}

}  // namespace
}  // namespace umlx5::wqe
