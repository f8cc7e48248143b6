// AES-XTS against the vectors of IEEE 1619-2007, annex B, and over several data units.
#include "tools/softhca/hca/xts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tests/wqe/bytes.h"

namespace softhca {
namespace {

using umlx5::wqe::testing_bytes::hex;
using umlx5::wqe::testing_bytes::unhex;

XtsKey key_of(std::string_view text) {
  XtsKey key;
  const auto bytes = unhex(text);
  std::ranges::copy(bytes, key.bytes.begin());
  key.used_bytes = bytes.size();
  return key;
}

// Vector 2.
TEST(Xts, Aes128) {
  const XtsKey key = key_of("11111111111111111111111111111111 22222222222222222222222222222222");
  const XtsTweak tweak{0x33, 0x33, 0x33, 0x33, 0x33};
  std::vector<std::byte> data(32, std::byte{0x44});
  ASSERT_TRUE(transform(key, XtsOperation::kEncrypt, tweak, 32, data));
  EXPECT_EQ(data, unhex("c454185e6a16936e39334038acef838b fb186fff7480adc4289382ecd6d394f0"));
  ASSERT_TRUE(transform(key, XtsOperation::kDecrypt, tweak, 32, data));
  EXPECT_EQ(data, std::vector(32, std::byte{0x44}));
}

// Vector 10: its first 32 of 512 bytes.
TEST(Xts, Aes256) {
  const XtsKey key = key_of(
      "2718281828459045235360287471352662497757247093699959574966967627"
      "3141592653589793238462643383279502884197169399375105820974944592");
  std::vector<std::byte> data(512);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i);
  }
  ASSERT_TRUE(transform(key, XtsOperation::kEncrypt, {0xff}, 512, data));
  EXPECT_EQ(hex(data, 0, 32), hex(unhex("1c3b3a102f770386e4836c99e370cf9b ea00803f5e482357a4ae12d414a3e63b")));
}

// Each data unit has the next number, also over a carry.
TEST(Xts, UnitsAreNumbered) {
  const XtsKey key = key_of("11111111111111111111111111111111 22222222222222222222222222222222");
  std::vector<std::byte> together(3 * 512, std::byte{7}), apart = together;
  const XtsTweak first{0xff, 0xff};
  ASSERT_TRUE(transform(key, XtsOperation::kEncrypt, first, 512, together));
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        transform(key, XtsOperation::kEncrypt, advanced(first, i), 512, std::span(apart).subspan(i * 512, 512)));
  }
  EXPECT_EQ(together, apart);
  EXPECT_EQ(advanced(first, 1), (XtsTweak{0, 0, 1}));
  XtsTweak last;
  last.fill(0xff);
  EXPECT_EQ(advanced(last, 1), XtsTweak{});
}

TEST(Xts, WhatCannotBe) {
  std::vector<std::byte> data(512 + 8);
  const XtsKey key = key_of("11111111111111111111111111111111 22222222222222222222222222222222");
  EXPECT_FALSE(transform(key, XtsOperation::kEncrypt, {}, 512, data));  // a unit of 8 bytes
  EXPECT_TRUE(transform(key, XtsOperation::kEncrypt, {}, 512, std::span(data).first(512)));
}

}  // namespace
}  // namespace softhca
