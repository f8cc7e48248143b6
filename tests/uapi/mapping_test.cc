#include "uapi/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/uapi/fake_channel.h"
#include "uapi/uar.h"

namespace umlx5::uapi {
namespace {

TEST(MmapOffset, Encoding) {
  EXPECT_EQ(mmap_offset_bytes(0, 15, 4096), 15u * 4096);
  EXPECT_EQ(mmap_offset_bytes(5, 0, 4096), 0x500u * 4096);  // the recorded offset of the core clock's page
  EXPECT_EQ(mmap_offset_bytes(7, 0, 4096), 0x700u * 4096);
  EXPECT_EQ(mmap_offset_bytes(6, 0x1ff, 4096), 0x106ffu * 4096) << "the index continues above the command";
  EXPECT_EQ(mmap_offset_bytes(8, 0x12345, 4096), 0x1230845ull * 4096);
  EXPECT_EQ(mmap_offset_bytes(3, 1, 65536), 0x301u * 65536);
}

class MappingTest : public ::testing::Test {
 protected:
  const FakeChannel::Mmap& last() const { return channel.mmaps.back(); }

  FakeChannel channel;
  const std::size_t page = page_bytes();
};

TEST_F(MappingTest, ClockPagesAreReadOnly) {
  ASSERT_TRUE(map_core_clock(channel));
  EXPECT_EQ(last().length_bytes, page);
  EXPECT_EQ(last().protection, PROT_READ);
  EXPECT_EQ(last().offset_bytes, 0x500 * page);
  ASSERT_TRUE(map_clock_info(channel));
  EXPECT_EQ(last().protection, PROT_READ);
  EXPECT_EQ(last().offset_bytes, 0x700 * page);
}

TEST_F(MappingTest, UarsAreWriteOnly) {
  ASSERT_TRUE(map_uar(channel, {.handle = {1}, .mmap_offset_bytes = 0x1001000, .mmap_length_bytes = 4096}));
  EXPECT_EQ(last().length_bytes, 4096u);
  EXPECT_EQ(last().protection, PROT_WRITE);
  EXPECT_EQ(last().offset_bytes, 0x1001000u);
  ASSERT_TRUE(map_static_uar(channel, StaticUarMap::kRegular, 15));
  EXPECT_EQ(last().length_bytes, page);
  EXPECT_EQ(last().protection, PROT_WRITE);
  EXPECT_EQ(last().offset_bytes, 15 * page);
  ASSERT_TRUE(map_static_uar(channel, StaticUarMap::kAllocWriteCombining, 0x100));
  EXPECT_EQ(last().offset_bytes, 0x10600 * page);
}

TEST_F(MappingTest, IsUnmappedOnceByItsLastOwner) {
  {
    auto first = map(channel, 4096, PROT_READ, 0, "a page");
    ASSERT_TRUE(first);
    Mapping second = std::move(*first);
    Mapping third;
    third = std::move(second);
    EXPECT_EQ(third.address(), channel.mapped.data());
    EXPECT_FALSE(second);
    EXPECT_TRUE(channel.munmaps.empty());
    Mapping other(channel, channel.mapped.data() + 4096, 8192);
    other = std::move(third);
    ASSERT_EQ(channel.munmaps.size(), 1u) << "what it held before";
    EXPECT_EQ(channel.munmaps[0].second, 8192u);
  }
  ASSERT_EQ(channel.munmaps.size(), 2u);
  EXPECT_EQ(channel.munmaps[1], std::pair(channel.mapped.data(), std::size_t{4096}));
}

TEST_F(MappingTest, RefusalsSayWhat) {
  channel.mmap_error = EAGAIN;
  const auto refused = map_static_uar(channel, StaticUarMap::kRegular, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EAGAIN);
  EXPECT_NE(refused.error().what.find("UAR page 3"), std::string::npos);
  EXPECT_TRUE(channel.munmaps.empty());
}

}  // namespace
}  // namespace umlx5::uapi
