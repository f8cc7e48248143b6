// Keys that name other keys, and what UMR work requests do to them. WQE layouts: mlx5dv.h struct mlx5_wqe_umr_ctrl_seg,
// mlx5_wqe_mkey_context_seg, mlx5_wqe_umr_klm_seg and mlx5_wqe_umr_repeat_*; written out by hand here.
#include "tools/softhca/hca/mkey.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace softhca::hca {
namespace {

constexpr std::uint32_t kPd = 5, kQpn = 0x80, kOtherQpn = 0x81;
constexpr KeyUser kUser{kPd, kQpn};
constexpr unsigned kDepth = 4;

// mkey_mask bits, mlx5dv.h MLX5_WQE_UMR_CTRL_MKEY_MASK_*.
constexpr std::uint64_t kLen = 1, kStart = 1 << 6, kMkeyBit = 1 << 13, kQpnBit = 1 << 14, kLw = 1 << 18, kRr = 1 << 19,
                        kRw = 1 << 20, kAtomic = 1 << 21, kFree = 1 << 29;
// Flags of the control segment.
constexpr std::uint32_t kInline = 0x80u << 24, kCheckFree = 0x20u << 24, kOffset = 0x10u << 24, kCheckQpn = 0x08u << 24;

class Body {
 public:
  Body& word(std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes_.push_back(static_cast<std::byte>(value >> shift));
    }
    return *this;
  }
  Body& dword(std::uint64_t value) {
    return word(static_cast<std::uint32_t>(value >> 32)).word(static_cast<std::uint32_t>(value));
  }
  Body& zeros(std::size_t bytes) {
    bytes_.resize(bytes_.size() + bytes);
    return *this;
  }
  Body& control(std::uint32_t flags, std::uint32_t octowords, std::uint64_t mask) {
    return word(flags).word(octowords << 16).dword(mask).zeros(32);
  }
  // `first`: free bit 30, rights 10..14.
  Body& context(std::uint32_t first, std::uint32_t qpn, std::uint32_t tag, std::uint64_t start, std::uint64_t length) {
    return word(first).word(qpn << 8 | tag).zeros(8).dword(start).dword(length).zeros(32);
  }
  Body& klm(std::uint32_t bytes, std::uint32_t key, std::uint64_t address) {
    return word(bytes).word(key).dword(address);
  }
  std::optional<KeyUpdate> parse(std::uint32_t key) const { return parse_key_update(key, bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class MkeyTest : public testing::Test {
 protected:
  // A region of 8 KiB at `address`, which is its DMA address too.
  std::uint32_t region(std::uint64_t address, std::uint32_t pdn = kPd) {
    auto mkey = std::make_unique<Mkey>();
    mkey->pdn = pdn;
    mkey->local_read = mkey->local_write = true;
    mkey->start = address;
    mkey->length_bytes = 8192;
    mkey->pages = {address, address + 4096};
    return add(std::move(mkey));
  }
  // As ALLOC_MW makes a window of type 2.
  std::uint32_t window() {
    auto mkey = std::make_unique<Mkey>();
    mkey->pdn = kPd;
    mkey->free = mkey->umr_enabled = mkey->remote_invalidate = true;
    mkey->local_read = true;
    mkey->translation = MkeyTranslation::kKeys;
    mkey->max_octowords = 4;
    return add(std::move(mkey));
  }
  std::uint32_t add(std::unique_ptr<Mkey> mkey) {
    std::uint32_t index = 0;
    EXPECT_TRUE(keys.insert(mkey, index));
    return index << 8;
  }
  bool update(std::uint32_t key, const Body& body, const KeyUser& user = kUser) {
    const auto parsed = body.parse(key);
    return parsed && update_key(keys, user, *parsed);
  }
  // The bind of a window of type 2, as libmlx5 builds it (qp.c set_umr_control_seg, set_umr_mkey_seg).
  static Body bind(std::uint32_t tag, std::uint32_t target, std::uint64_t start, std::uint32_t length) {
    Body body;
    body.control(kInline | kOffset | kCheckFree, 4,
                 kLen | kStart | kMkeyBit | kQpnBit | kLw | kRr | kRw | kAtomic | kFree)
        .context(1u << 13 | 1u << 12, kQpn, tag, start, length)
        .klm(length, target, start)
        .zeros(48);
    return body;
  }
  static Body invalidate(std::uint32_t flags = kInline | kOffset | kCheckQpn) {
    Body body;
    body.control(flags, 0, kMkeyBit | kFree).context(1u << 30, 0, 0, 0, 0);
    return body;
  }
  MkeyFault resolve(std::uint32_t key, std::uint64_t va, std::uint64_t bytes, Access access = Access::kRemoteWrite,
                    const KeyUser& user = kUser) {
    ranges.clear();
    return resolve_key(keys, kDepth, key, user, va, bytes, access, ranges);
  }

  MkeyTable keys{kFirstMkeyIndex, 64};
  std::vector<DmaRange> ranges;
};

TEST_F(MkeyTest, AWindowIsBoundAndInvalidated) {
  const std::uint32_t target = region(0x10000), key = window();
  EXPECT_EQ(resolve(key, 0x10100, 8), MkeyFault::kNoSuchKey) << "not bound";
  ASSERT_TRUE(update(key, bind(7, target, 0x10100, 0x1000)));
  EXPECT_EQ(resolve(key | 7, 0x10200, 0xf00), MkeyFault::kNone);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].address, 0x10200u);
  EXPECT_EQ(ranges[0].bytes, 0xf00u);
  EXPECT_EQ(resolve(key | 7, 0x10200, 0xf01), MkeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(key | 7, 0x100ff, 1), MkeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(key, 0x10100, 8), MkeyFault::kNoSuchKey) << "the tag before";
  EXPECT_EQ(resolve(key | 7, 0x10100, 8, Access::kRemoteAtomic), MkeyFault::kNoRight);
  EXPECT_EQ(resolve(key | 7, 0x10100, 8, Access::kRemoteWrite, {kPd, kOtherQpn}), MkeyFault::kWrongQp);
  EXPECT_FALSE(update(key, bind(8, target, 0x10100, 64))) << "bound already";
  EXPECT_FALSE(update(key, invalidate(), {kPd, kOtherQpn})) << "another QP's";
  EXPECT_TRUE(update(key, invalidate()));
  EXPECT_EQ(resolve(key, 0x10100, 8), MkeyFault::kNoSuchKey);
}

TEST_F(MkeyTest, APeerInvalidatesWhatIsBoundToItsQp) {
  const std::uint32_t target = region(0x10000), key = window();
  ASSERT_TRUE(update(key, bind(7, target, 0x10000, 64)));
  EXPECT_FALSE(invalidate_key(keys, {kPd, kOtherQpn}, key | 7));
  EXPECT_FALSE(invalidate_key(keys, {kPd + 1, kQpn}, key | 7));
  EXPECT_FALSE(invalidate_key(keys, kUser, key | 6));
  EXPECT_FALSE(invalidate_key(keys, kUser, target)) << "a region";
  EXPECT_TRUE(invalidate_key(keys, kUser, key | 7));
  EXPECT_FALSE(invalidate_key(keys, kUser, key | 7)) << "free";
}

TEST_F(MkeyTest, TheRegionBehindAWindowMustAllowIt) {
  const std::uint32_t foreign = region(0x10000, kPd + 1), key = window();
  ASSERT_TRUE(update(key, bind(1, foreign, 0x10000, 64)));
  EXPECT_EQ(resolve(key | 1, 0x10000, 8), MkeyFault::kWrongPd);
  const std::uint32_t read_only = region(0x20000), other = window();
  keys.find(read_only >> 8)->local_write = false;
  ASSERT_TRUE(update(other, bind(1, read_only, 0x20000, 64)));
  EXPECT_EQ(resolve(other | 1, 0x20000, 8), MkeyFault::kNoRight);
  EXPECT_EQ(resolve(other | 1, 0x20000, 8, Access::kRemoteRead), MkeyFault::kNone);
  const std::uint32_t beyond = window();
  ASSERT_TRUE(update(beyond, bind(1, region(0x30000), 0x31ff0, 64)));
  EXPECT_EQ(resolve(beyond | 1, 0x31ff0, 0x11), MkeyFault::kOutOfBounds) << "the region ends";
}

TEST_F(MkeyTest, AListOfRangesIsOneRange) {
  const std::uint32_t first = region(0x10000), second = region(0x20000), key = window();
  Body body;
  body.control(kInline, 4, kLen | kStart | kMkeyBit | kLw | kFree)
      .context(1u << 11, 0, 0, 0, 300)
      .klm(100, first, 0x10010)
      .klm(0, 0, 0)
      .klm(200, second, 0x20000)
      .zeros(16);
  ASSERT_TRUE(update(key, body));
  EXPECT_EQ(resolve(key, 90, 20, Access::kLocalWrite), MkeyFault::kNone);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].address, 0x10010u + 90);
  EXPECT_EQ(ranges[0].bytes, 10u);
  EXPECT_EQ(ranges[1].address, 0x20000u);
  EXPECT_EQ(ranges[1].bytes, 10u);
  EXPECT_EQ(resolve(key, 0, 301, Access::kLocalWrite), MkeyFault::kOutOfBounds);
  keys.find(key >> 8)->length_bytes = 400;
  EXPECT_EQ(resolve(key, 299, 2, Access::kLocalWrite), MkeyFault::kNotMapped) << "longer than its list";
}

TEST_F(MkeyTest, ARepeatBlockTakesFromItsRangesByTurns) {
  const std::uint32_t data = region(0x10000), tags = region(0x20000), key = window();
  Body body;
  body.control(kInline, 4, kLen | kStart | kLw | kFree)
      .context(1u << 11, 0, 0, 0, 3 * 520)
      .word(520)
      .word(0x400)
      .word(3)
      .word(2)
      .word(600u << 16 | 512)
      .word(data)
      .dword(0x10000)
      .word(8u << 16 | 8)
      .word(tags)
      .dword(0x20000)
      .zeros(16);
  ASSERT_TRUE(update(key, body));
  EXPECT_EQ(resolve(key, 520 + 510, 12, Access::kLocalRead), MkeyFault::kNone);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].address, 0x10000u + 600 + 510);
  EXPECT_EQ(ranges[0].bytes, 2u);
  EXPECT_EQ(ranges[1].address, 0x20000u + 8);
  EXPECT_EQ(ranges[1].bytes, 8u);
  EXPECT_EQ(ranges[2].address, 0x10000u + 1200);
  EXPECT_EQ(ranges[2].bytes, 2u);
}

TEST_F(MkeyTest, ARepeatBlockMustFit) {
  const std::uint32_t key = window();
  for (const auto& [total, entries] : {std::pair{520u, 1u}, {512u, 4u}}) {  // wrong sum; more than the WQE holds
    Body body;
    body.control(kInline, 4, kFree).context(0, 0, 0, 0, 0).word(total).word(0x400).word(1).word(entries);
    body.word(512u << 16 | 512).word(0x1000).dword(0).zeros(32);
    EXPECT_FALSE(update(key, body)) << total;
    EXPECT_TRUE(keys.find(key >> 8)->free);
  }
}

TEST_F(MkeyTest, KeysLeadThroughOthersOnlySoFar) {
  std::uint32_t key = region(0x10000);
  for (unsigned depth = 1; depth <= kDepth + 1; ++depth) {
    const std::uint32_t next = window();
    Body body;
    body.control(kInline, 4, kLen | kStart | kLw | kFree).context(1u << 11, 0, 0, 0x10000, 64);
    body.klm(64, key, 0x10000).zeros(48);
    ASSERT_TRUE(update(next, body));
    key = next;
    EXPECT_EQ(resolve(key, 0x10000, 8, Access::kLocalWrite), depth <= kDepth ? MkeyFault::kNone : MkeyFault::kNotMapped)
        << depth;
  }
  Body loop;
  loop.control(kInline, 4, 0).context(0, 0, 0, 0, 0).klm(64, key, 0x10000).zeros(48);
  ASSERT_TRUE(update(key, loop)) << "a key that names itself";
  EXPECT_EQ(resolve(key, 0x10000, 8, Access::kLocalWrite), MkeyFault::kNotMapped);
}

TEST_F(MkeyTest, WhatAKeyDoesNotAllowChangesNothing) {
  const std::uint32_t plain = region(0x10000), key = window();
  EXPECT_FALSE(update(plain, invalidate(kInline))) << "a region without UMR";
  EXPECT_FALSE(update(0x9900, invalidate(kInline))) << "no such key";
  EXPECT_FALSE(update(key, bind(1, plain, 0x10000, 64), {kPd + 1, kQpn})) << "another PD";
  Body unknown;
  unknown.control(0, 0, 1ull << 40).context(0, 0, 0, 0, 0);
  EXPECT_FALSE(update(key, unknown)) << "a mask bit that the device does not know";
  Body large;
  large.control(kInline, 8, kFree).context(0, 0, 0, 0, 0).zeros(128);
  EXPECT_FALSE(update(key, large)) << "more translations than the key holds";
  EXPECT_TRUE(keys.find(key >> 8)->free);
}

TEST_F(MkeyTest, ABodyThatIsCutOffIsNoUpdate) {
  EXPECT_FALSE(Body().zeros(111).parse(0x100));
  EXPECT_TRUE(Body().zeros(112).parse(0x100));
  EXPECT_FALSE(Body().control(kInline, 4, 0).zeros(64 + 63).parse(0x100)) << "translations";
  EXPECT_FALSE(Body().control(0, 4, 0).zeros(64 + 64).parse(0x100)) << "translations in memory";
  EXPECT_FALSE(Body().control(kInline | kOffset, 4, 0).zeros(64 + 64).parse(0x100) &&
               Body().word(kInline | kOffset).word(4u << 16 | 1).zeros(40 + 64 + 64).parse(0x100))
      << "an offset";
}

}  // namespace
}  // namespace softhca::hca
