// Signatures against published values. Where a value is of fewer bytes than a block, the block begins with bytes that
// leave the CRC's register as it was at the start.
#include "tools/softhca/hca/signature.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "wqe/bsf.h"

namespace softhca {
namespace {

namespace wqe = umlx5::wqe;
using Bytes = std::vector<std::byte>;
using Direction = SignatureStream::Direction;
using wqe::BlockSelector;
using wqe::BsfInline;

BsfInline t10_dif(std::uint8_t guard = BsfInline::kTypeCrc, bool ones = false, std::uint8_t flags = 0) {
  return {.valid_refresh = BsfInline::kValid | BsfInline::kRefresh,
          .application_tag = 0xabcd,
          .reference_tag = 0x01234567,
          .guard_type = guard,
          .repeat_and_seed = static_cast<std::uint8_t>(BsfInline::kRepeatBlock | (ones ? BsfInline::kSeedInverted : 0)),
          .flags = flags,
          .application_mask = 0xffff};
}

wqe::SignatureBsf wire_dif(const BsfInline& dif, BlockSelector block = BlockSelector::k512) {
  return {.check_mask = 0xff, .wire_or_copy = static_cast<std::uint8_t>(block), .wire = dif};
}

wqe::SignatureBsf wire_crc(std::uint8_t kind, BlockSelector block, bool ones = true) {
  return {.check_mask = 0xff,
          .wire_or_copy = static_cast<std::uint8_t>(block),
          .wire_format = static_cast<std::uint8_t>(kind | wqe::block_format::kRepeatEachBlock |
                                                   (ones ? 0 : wqe::block_format::kSeedZero))};
}

Bytes run(const wqe::SignatureBsf& bsf, Direction direction, const Bytes& input,
          std::optional<SignatureError>* error = nullptr) {
  auto stream = SignatureStream::make(bsf, direction);
  EXPECT_TRUE(stream.has_value());
  Bytes output;
  stream->feed(input, output);
  if (error != nullptr) {
    *error = stream->error();
  } else {
    EXPECT_FALSE(stream->error().has_value());
  }
  return output;
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  std::ranges::transform(values, std::back_inserter(bytes), [](int value) { return static_cast<std::byte>(value); });
  return bytes;
}

Bytes last(const Bytes& bytes, std::size_t count) {
  return {bytes.end() - static_cast<std::ptrdiff_t>(count), bytes.end()};
}

Bytes random_bytes(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random(seed);
  Bytes bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() >> 8); });
  return bytes;
}

// ---- Published values

// T10 SBC-3, "CRC test cases": of 32 bytes.
TEST(Signature, T10DifCrcIsThatOfSbc3) {
  struct Case {
    Bytes data;
    std::uint16_t crc;
  };
  Bytes ones(32, std::byte{0xff}), up(32), ones_then_zero(32), down(32);
  for (int i = 0; i < 32; ++i) {
    up[i] = static_cast<std::byte>(i);
    down[i] = static_cast<std::byte>(0xff - i);
  }
  ones_then_zero[0] = ones_then_zero[1] = std::byte{0xff};
  for (const Case& test : {Case{Bytes(32), 0x0000}, Case{ones, 0xa293}, Case{up, 0x0224}, Case{ones_then_zero, 0x21b8},
                           Case{down, 0xa0b7}}) {
    Bytes block(480);  // zeros leave a register of zero as it is
    block.insert(block.end(), test.data.begin(), test.data.end());
    EXPECT_EQ(last(run(wire_dif(t10_dif()), Direction::kTransmit, block), 8),
              bytes_of({test.crc >> 8, test.crc & 0xff, 0xab, 0xcd, 0x01, 0x23, 0x45, 0x67}));
  }
}

// RFC 1071, section 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2; the checksum is its complement.
TEST(Signature, T10DifChecksumIsThatOfRfc1071) {
  Bytes block(504);
  const Bytes example = bytes_of({0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7});
  block.insert(block.end(), example.begin(), example.end());
  EXPECT_EQ(last(run(wire_dif(t10_dif(BsfInline::kTypeChecksum)), Direction::kTransmit, block), 8),
            bytes_of({0x22, 0x0d, 0xab, 0xcd, 0x01, 0x23, 0x45, 0x67}));
}

// A block that ends with `message` and whose CRC is that of `message` alone, from a register of all ones.
Bytes block_ending_with(const Bytes& message, std::uint32_t reflected_polynomial) {
  std::uint32_t before = 0xffffffff, after = 0xffffffff;
  Bytes block(512 - message.size());
  for (std::size_t bit = 0; bit < (block.size() - 4) * 8; ++bit) {
    before = (before >> 1) ^ ((before & 1) != 0 ? reflected_polynomial : 0);
  }
  for (int bit = 0; bit < 32; ++bit) {
    after = (after & 0x80000000) != 0 ? (after ^ reflected_polynomial) << 1 | 1 : after << 1;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    block[block.size() - 4 + i] = static_cast<std::byte>((before ^ after) >> (8 * i));
  }
  block.insert(block.end(), message.begin(), message.end());
  return block;
}

Bytes text(std::string_view characters) {
  Bytes bytes;
  std::ranges::transform(characters, std::back_inserter(bytes), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

// RFC 3720, B.4: digests of 32 bytes, in the order of the wire.
TEST(Signature, Crc32cIsThatOfRfc3720) {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;
  Bytes up(32), down(32);
  for (int i = 0; i < 32; ++i) {
    up[i] = static_cast<std::byte>(i);
    down[i] = static_cast<std::byte>(31 - i);
  }
  struct Case {
    Bytes data, digest;
  };
  for (const Case& test :
       {Case{Bytes(32), bytes_of({0xaa, 0x36, 0x91, 0x8a})},
        Case{Bytes(32, std::byte{0xff}), bytes_of({0x43, 0xab, 0xa8, 0x62})},
        Case{up, bytes_of({0x4e, 0x79, 0xdd, 0x46})}, Case{down, bytes_of({0x5c, 0xdb, 0x3f, 0x11})}}) {
    const auto bsf = wire_crc(wqe::block_format::kCrc32c, BlockSelector::k512);
    EXPECT_EQ(last(run(bsf, Direction::kTransmit, block_ending_with(test.data, kPolynomial)), 4), test.digest);
  }
}

// The check value of the CRC catalogues for "123456789" is cbf43926.
TEST(Signature, Crc32IsThatOfEthernet) {
  const auto bsf = wire_crc(wqe::block_format::kCrc32, BlockSelector::k512);
  EXPECT_EQ(last(run(bsf, Direction::kTransmit, block_ending_with(text("123456789"), 0xedb88320)), 4),
            bytes_of({0x26, 0x39, 0xf4, 0xcb}));
}

// NVM Command Set specification 1.0c, 64b CRC test cases: of 4096 bytes.
TEST(Signature, Crc64IsThatOfNvme) {
  Bytes up(4096);
  for (std::size_t i = 0; i < up.size(); ++i) {
    up[i] = static_cast<std::byte>(i);
  }
  struct Case {
    Bytes data;
    std::uint64_t crc;
  };
  for (const Case& test : {Case{Bytes(4096), 0x6482d367eb22b64e},
                           Case{Bytes(4096, std::byte{0xff}), 0xc0ddba7302eca3ac}, Case{up, 0x3e729f5f6750449c}}) {
    Bytes expected(8);
    for (std::size_t i = 0; i < 8; ++i) {
      expected[i] = static_cast<std::byte>(test.crc >> (8 * i));
    }
    const auto bsf = wire_crc(wqe::block_format::kCrc64Xp10, BlockSelector::k4096);
    EXPECT_EQ(last(run(bsf, Direction::kTransmit, test.data), 8), expected);
  }
}

// ---- Ways

struct Form {
  const char* name;
  wqe::SignatureBsf bsf;
  std::size_t block, signature;
};

std::vector<Form> wire_forms() {
  return {
      {"t10dif 512", wire_dif(t10_dif()), 512, 8},
      {"t10dif 520 ones", wire_dif(t10_dif(BsfInline::kTypeCrc, true), BlockSelector::k520), 520, 8},
      {"checksum 4096", wire_dif(t10_dif(BsfInline::kTypeChecksum, true), BlockSelector::k4096), 4096, 8},
      {"t10dif 4160 increments",
       wire_dif(t10_dif(BsfInline::kTypeCrc, false, BsfInline::kIncrementReferenceTag), BlockSelector::k4160), 4160, 8},
      {"crc32 512 zero", wire_crc(wqe::block_format::kCrc32, BlockSelector::k512, false), 512, 4},
      {"crc32c 4048", wire_crc(wqe::block_format::kCrc32c, BlockSelector::k4048), 4048, 4},
      {"crc64 4096", wire_crc(wqe::block_format::kCrc64Xp10, BlockSelector::k4096), 4096, 8}};
}

TEST(Signature, WhatIsInsertedIsCheckedAndStripped) {
  for (const Form& form : wire_forms()) {
    SCOPED_TRACE(form.name);
    const Bytes data = random_bytes(3 * form.block, 1);
    const Bytes wire = run(form.bsf, Direction::kTransmit, data);
    EXPECT_EQ(wire.size(), 3 * (form.block + form.signature));
    EXPECT_EQ(run(form.bsf, Direction::kReceive, wire), data);
  }
}

TEST(Signature, PiecesOfAnySizeGiveTheSame) {
  std::minstd_rand random(7);
  for (const Form& form : wire_forms()) {
    SCOPED_TRACE(form.name);
    const Bytes data = random_bytes(3 * form.block, 2);
    for (const Direction direction : {Direction::kTransmit, Direction::kReceive}) {
      const Bytes input = direction == Direction::kTransmit ? data : run(form.bsf, Direction::kTransmit, data);
      auto stream = SignatureStream::make(form.bsf, direction);
      Bytes output;
      for (std::size_t at = 0; at < input.size();) {
        const std::size_t count = std::min<std::size_t>(1 + random() % 700, input.size() - at);
        stream->feed(std::span(input).subspan(at, count), output);
        at += count;
      }
      EXPECT_EQ(output, run(form.bsf, direction, input));
      EXPECT_FALSE(stream->error().has_value());
    }
  }
}

TEST(Signature, ADamagedByteIsFoundWithItsKindAndPlace) {
  for (const Form& form : wire_forms()) {
    SCOPED_TRACE(form.name);
    const Bytes wire = run(form.bsf, Direction::kTransmit, random_bytes(3 * form.block, 3));
    const std::size_t second = form.block + form.signature;
    Bytes damaged = wire;
    damaged[second + 100] ^= std::byte{1};
    std::optional<SignatureError> error;
    run(form.bsf, Direction::kReceive, damaged, &error);
    ASSERT_TRUE(error.has_value());
    EXPECT_TRUE(error->guard && error->wire && !error->application_tag && !error->reference_tag);
    EXPECT_EQ(error->offset_bytes, second + form.block);
    EXPECT_NE(error->expected, error->actual);
  }
}

TEST(Signature, EachFieldOfT10DifIsCheckedByItsMask) {
  struct Case {
    std::size_t byte;
    std::uint8_t mask;
  };
  for (const Case& test : {Case{0, 0x80}, Case{1, 0x40}, Case{2, 0x20}, Case{3, 0x10}, Case{4, 0x08}, Case{7, 0x01}}) {
    auto bsf = wire_dif(t10_dif());
    Bytes wire = run(bsf, Direction::kTransmit, random_bytes(512, 4));
    wire[512 + test.byte] ^= std::byte{0x55};
    std::optional<SignatureError> error;
    bsf.check_mask = static_cast<std::uint8_t>(~test.mask);
    run(bsf, Direction::kReceive, wire, &error);
    EXPECT_FALSE(error.has_value()) << test.byte;
    bsf.check_mask = test.mask;
    run(bsf, Direction::kReceive, wire, &error);
    ASSERT_TRUE(error.has_value()) << test.byte;
    EXPECT_EQ(error->guard, test.byte < 2);
    EXPECT_EQ(error->application_tag, test.byte == 2 || test.byte == 3);
    EXPECT_EQ(error->reference_tag, test.byte >= 4);
    EXPECT_EQ(error->expected ^ error->actual, std::uint64_t{0x55} << (8 * (7 - test.byte)));
  }
}

TEST(Signature, EscapedBlocksAreNotChecked) {
  Bytes wire = run(wire_dif(t10_dif()), Direction::kTransmit, random_bytes(512, 5));
  wire[0] ^= std::byte{1};
  wire[514] = wire[515] = std::byte{0xff};
  const auto finds = [&](std::uint8_t flags) {
    std::optional<SignatureError> error;
    run(wire_dif(t10_dif(BsfInline::kTypeCrc, false, flags)), Direction::kReceive, wire, &error);
    return error.has_value();
  };
  EXPECT_TRUE(finds(0));
  EXPECT_FALSE(finds(BsfInline::kApplicationEscape));
  EXPECT_TRUE(finds(BsfInline::kApplicationAndReferenceEscape));
  for (std::size_t i = 516; i < 520; ++i) {
    wire[i] = std::byte{0xff};
  }
  EXPECT_FALSE(finds(BsfInline::kApplicationAndReferenceEscape));
}

TEST(Signature, ReferenceTagsCountBlocks) {
  const auto bsf = wire_dif(t10_dif(BsfInline::kTypeCrc, false, BsfInline::kIncrementReferenceTag));
  const Bytes wire = run(bsf, Direction::kTransmit, Bytes(2 * 512));
  EXPECT_EQ(std::to_integer<int>(wire[519]), 0x67);
  EXPECT_EQ(std::to_integer<int>(wire[2 * 520 - 1]), 0x68);
  auto later = SignatureStream::make(bsf, Direction::kTransmit, 5);
  Bytes output;
  later->feed(Bytes(512), output);
  EXPECT_EQ(std::to_integer<int>(output[519]), 0x6c);
}

TEST(Signature, BlocksOfOneStructureArePassedOnOrReplacedByteByByte) {
  wqe::SignatureBsf bsf{.same_structure = true,
                        .check_mask = 0xff,
                        .wire_or_copy = 0xcf,  // guard and reference tag as they come
                        .memory_block = BlockSelector::k512,
                        .wire = t10_dif(),
                        .memory = t10_dif()};
  bsf.wire.application_tag = 0x1111;
  const Bytes memory = run(wire_dif(t10_dif()), Direction::kTransmit, random_bytes(2 * 512, 6));
  Bytes expected = memory;
  for (const std::size_t end : {std::size_t{520}, std::size_t{1040}}) {
    expected[end - 6] = expected[end - 5] = std::byte{0x11};
  }
  EXPECT_EQ(run(bsf, Direction::kTransmit, memory), expected);
  EXPECT_EQ(run(bsf, Direction::kReceive, expected), memory);
}

TEST(Signature, BlocksOfDifferentStructureAreConverted) {
  // 512 bytes with T10-DIF in memory, 4096 bytes with CRC32C on the wire.
  auto bsf = wire_crc(wqe::block_format::kCrc32c, BlockSelector::k4096);
  bsf.memory = t10_dif(BsfInline::kTypeCrc, false, BsfInline::kIncrementReferenceTag);
  bsf.memory_block = BlockSelector::k512;
  const Bytes data = random_bytes(8192, 8);
  const Bytes memory =
      run(wire_dif(t10_dif(BsfInline::kTypeCrc, false, BsfInline::kIncrementReferenceTag)), Direction::kTransmit, data);
  const Bytes wire = run(wire_crc(wqe::block_format::kCrc32c, BlockSelector::k4096), Direction::kTransmit, data);
  EXPECT_EQ(run(bsf, Direction::kTransmit, memory), wire);
  EXPECT_EQ(run(bsf, Direction::kReceive, wire), memory);
  Bytes damaged = memory;
  damaged[3] ^= std::byte{4};
  std::optional<SignatureError> error;
  run(bsf, Direction::kTransmit, damaged, &error);
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->wire);
}

TEST(Signature, ABsfThatNoDriverWritesIsRefused) {
  auto unknown_kind = wire_crc(0x70, BlockSelector::k512);
  EXPECT_FALSE(SignatureStream::make(unknown_kind, Direction::kTransmit).has_value());
  EXPECT_FALSE(SignatureStream::make(wire_crc(wqe::block_format::kCrc32, BlockSelector::kNone), Direction::kTransmit));
  EXPECT_FALSE(SignatureStream::make(wire_dif(t10_dif(7)), Direction::kTransmit));
  EXPECT_FALSE(SignatureStream::make(wire_dif(t10_dif(), static_cast<BlockSelector>(200)), Direction::kReceive));
}

}  // namespace
}  // namespace softhca
