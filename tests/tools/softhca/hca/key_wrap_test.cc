// AES key wrap against the vectors of RFC 3394, section 4, that have a KEK of 256 bits.
#include "tools/softhca/hca/key_wrap.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "tests/wqe/bytes.h"

namespace softhca {
namespace {

using umlx5::wqe::testing_bytes::hex;
using umlx5::wqe::testing_bytes::unhex;

std::vector<std::byte> kek() { return unhex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"); }

struct Vector {
  std::string_view section, plain, wrapped;
};
constexpr Vector kVectors[] = {
    {"4.3", "00112233445566778899aabbccddeeff", "64e8c3f9ce0f5ba263e9777905818a2a93c8191e7d6e8ae7"},
    {"4.5", "00112233445566778899aabbccddeeff0001020304050607",
     "a8f9bc1612c68b3ff6e6f4fbe30e71e4769c8b80a32cb8958cd5d17d6b254da1"},
    {"4.6", "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f",
     "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21"},
};

TEST(KeyWrap, IsThatOfRfc3394) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.section);
    const auto wrapped = unhex(vector.wrapped), key = kek();
    std::vector<std::byte> plain(wrapped.size() - kWrapBytes);
    ASSERT_TRUE(unwrap(std::span<const std::byte, kKekBytes>(key), wrapped, plain));
    EXPECT_EQ(hex(plain), hex(unhex(vector.plain)));
  }
}

TEST(KeyWrap, EveryBitCounts) {
  const auto good = unhex(kVectors[2].wrapped), key = kek();
  std::vector<std::byte> plain(good.size() - kWrapBytes);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto wrapped = good;
    wrapped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(unwrap(std::span<const std::byte, kKekBytes>(key), wrapped, plain)) << bit;
  }
  auto other = key;
  other[31] ^= std::byte{1};
  EXPECT_FALSE(unwrap(std::span<const std::byte, kKekBytes>(other), good, plain));
}

TEST(KeyWrap, LengthsThatNothingIsWrappedTo) {
  const auto key = kek();
  for (const std::size_t bytes : {0u, 8u, 16u, 25u, 39u, 41u}) {
    const std::vector<std::byte> wrapped(bytes);
    std::vector<std::byte> plain(bytes < kWrapBytes ? 0 : bytes - kWrapBytes);
    EXPECT_FALSE(unwrap(std::span<const std::byte, kKekBytes>(key), wrapped, plain)) << bytes;
  }
  const auto good = unhex(kVectors[2].wrapped);
  std::vector<std::byte> too_short(31), too_long(33);
  EXPECT_FALSE(unwrap(std::span<const std::byte, kKekBytes>(key), good, too_short));
  EXPECT_FALSE(unwrap(std::span<const std::byte, kKekBytes>(key), good, too_long));
}

}  // namespace
}  // namespace softhca
