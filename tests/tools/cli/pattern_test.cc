#include "tools/cli/pattern.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace umlx5::tools {
namespace {

TEST(Pattern, EveryLengthAndEveryOffsetAgree) {
  const PatternKey key{.seed = 1, .stream = 1, .iteration = 42};
  std::vector<std::byte> longest(70);
  fill_pattern(longest, key);
  for (std::size_t offset = 0; offset < longest.size(); ++offset) {
    EXPECT_EQ(longest[offset], pattern_byte(key, offset)) << offset;
    EXPECT_EQ(static_cast<std::uint8_t>(longest[offset]),
              static_cast<std::uint8_t>(pattern_word(key, offset / 8) >> (8 * (offset % 8))));
  }
  for (std::size_t bytes = 0; bytes <= longest.size(); ++bytes) {
    std::vector<std::byte> guarded(bytes + 1, std::byte{0xee});
    fill_pattern(std::span(guarded).first(bytes), key);
    EXPECT_TRUE(std::equal(guarded.begin(), guarded.end() - 1, longest.begin())) << bytes;
    EXPECT_EQ(guarded.back(), std::byte{0xee}) << bytes;
    EXPECT_FALSE(check_pattern(std::span(guarded).first(bytes), key)) << bytes;
  }
}

TEST(Pattern, TheFirstWrongByteIsFoundAnywhere) {
  const PatternKey key{.seed = 9, .stream = 2, .iteration = 7};
  std::vector<std::byte> payload(37);
  for (std::size_t wrong = 0; wrong < payload.size(); ++wrong) {
    fill_pattern(payload, key);
    payload[wrong] ^= std::byte{0x10};
    if (wrong + 1 < payload.size()) {
      payload.back() ^= std::byte{1};  // a later one must not be the one that is told
    }
    const auto mismatch = check_pattern(payload, key);
    ASSERT_TRUE(mismatch) << wrong;
    EXPECT_EQ(mismatch->offset, wrong);
    EXPECT_EQ(mismatch->want, pattern_byte(key, wrong));
    EXPECT_EQ(mismatch->got, pattern_byte(key, wrong) ^ std::byte{0x10});
  }
}

TEST(Pattern, AnotherMessageIsSeen) {
  const PatternKey key{.seed = 1, .stream = 1, .iteration = 100};
  std::array<std::byte, 16> payload{};
  std::set<std::uint64_t> words;
  fill_pattern(payload, key);
  EXPECT_FALSE(check_pattern(payload, key));
  words.insert(pattern_word(key, 0));
  for (const PatternKey& other :
       {PatternKey{2, 1, 100}, PatternKey{1, 2, 100}, PatternKey{1, 1, 101}, PatternKey{1, 1, 98}}) {
    fill_pattern(payload, other);
    EXPECT_TRUE(check_pattern(payload, key));
    words.insert(pattern_word(other, 0));
  }
  EXPECT_EQ(words.size(), 5u);
}

TEST(Pattern, MismatchInWords) {
  EXPECT_EQ(describe(Mismatch{3, std::byte{0}, std::byte{0x5c}}, 17, 64),
            "payload mismatch in iteration 17: offset 3 of 64 has 0x00, want 0x5c");
}

}  // namespace
}  // namespace umlx5::tools
