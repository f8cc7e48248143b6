#include "wqe/layout.h"

#include <gtest/gtest.h>

namespace umlx5::wqe {
namespace {

struct Sample {
  std::uint8_t a{};
  std::uint16_t b{};
  std::uint64_t straddles{};
  std::array<std::uint8_t, 3> raw{};
  static constexpr std::string_view kName = "sample";
  static constexpr std::size_t kBytes = 20;
  static constexpr auto kFields =
      Fields{Field{"a", &Sample::a, bits(0, 31, 28)}, Field{"b", &Sample::b, bits(0, 23, 8)},
             Field{"straddles", &Sample::straddles, bit_offset(44, 64)}, Field{"raw", &Sample::raw, bytes(17, 3)}};
};
static_assert(layout_is_valid<Sample>());

TEST(Layout, StoresBigEndianAtItsPlace) {
  std::array<std::byte, 20> out;
  out.fill(std::byte{0xee});
  store(out.data(), Sample{.a = 0x9, .b = 0x1234, .straddles = 0xfedcba9876543210, .raw = {1, 2, 3}});
  const std::array<std::uint8_t, 20> want = {0x90, 0x12, 0x34, 0x00, 0x00, 0x0f, 0xed, 0xcb, 0xa9, 0x87,
                                             0x65, 0x43, 0x21, 0x00, 0x00, 0x00, 0x00, 1,    2,    3};
  EXPECT_EQ(std::memcmp(out.data(), want.data(), 20), 0);
  const auto back = load<Sample>(out.data());
  EXPECT_EQ(back.a, 9);
  EXPECT_EQ(back.b, 0x1234);
  EXPECT_EQ(back.straddles, 0xfedcba9876543210u);
  EXPECT_EQ(back.raw[2], 3);
}

TEST(Layout, CutsValuesWiderThanTheirField) {
  std::array<std::byte, 20> out;
  store(out.data(), Sample{.a = 0xff});
  EXPECT_EQ(out[0], std::byte{0xf0});
}

// Larger than 64 bytes: fields are placed at run time.
struct LargeSample {
  std::uint16_t a{};
  std::uint64_t straddles{};
  bool flag{};
  std::uint64_t last{};
  static constexpr std::string_view kName = "large";
  static constexpr std::size_t kBytes = 72;
  static constexpr auto kFields = Fields{
      Field{"a", &LargeSample::a, bits(0, 23, 8)}, Field{"straddles", &LargeSample::straddles, bit_offset(44, 64)},
      Field{"flag", &LargeSample::flag, bits(32, 5, 5)}, Field{"last", &LargeSample::last, bytes(64, 8)}};
};
static_assert(layout_is_valid<LargeSample>());
static_assert(offset_bits_of(&LargeSample::last) == 512);

TEST(Layout, PlacesFieldsOfLargeStructures) {
  std::array<std::byte, 72> out;
  out.fill(std::byte{0xee});
  store(out.data(),
        LargeSample{.a = 0x1234, .straddles = 0xfedcba9876543210, .flag = true, .last = 0x0102030405060708});
  std::array<std::uint8_t, 72> want{0x00, 0x12, 0x34, 0x00, 0x00, 0x0f, 0xed, 0xcb, 0xa9, 0x87, 0x65, 0x43, 0x21, 0x00};
  want[35] = 0x20;
  for (std::uint8_t i = 0; i < 8; ++i) {
    want[64 + i] = i + 1;
  }
  EXPECT_EQ(std::memcmp(out.data(), want.data(), 72), 0);
  const auto back = load<LargeSample>(out.data());
  EXPECT_EQ(back.a, 0x1234);
  EXPECT_EQ(back.straddles, 0xfedcba9876543210u);
  EXPECT_TRUE(back.flag);
  EXPECT_EQ(back.last, 0x0102030405060708u);
}

TEST(Layout, PrintsOnlyWhatIsSet) { EXPECT_EQ(print(Sample{.b = 16}), "sample{b=0x10}"); }

}  // namespace
}  // namespace umlx5::wqe
