// Keys that encrypt and sign, in every order there is: the rows A to J of the table in mlx5dv_wr_set_mkey_crypto(3),
// each between memory and the wire in all directions.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "tests/driver/soft/keys.h"
#include "tests/driver/soft/order_vectors.h"
#include "tests/wqe/bytes.h"

namespace umlx5::testing {
namespace {

using wqe::testing_bytes::unhex;

constexpr std::size_t kBlockBytes = 512, kDataBytes = 1024;
constexpr std::uint8_t kFirstUnit = 0xff;

Bytes plain() {
  Bytes bytes(kDataBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8) * 31 + 1);
  }
  return bytes;
}

Bytes with(const Bytes& data, std::span<const std::string_view> signatures) {
  Bytes out;
  for (std::size_t block = 0; block < signatures.size(); ++block) {
    const auto begin = data.begin() + static_cast<std::ptrdiff_t>(block * kBlockBytes);
    out.insert(out.end(), begin, begin + kBlockBytes);
    const Bytes signature = unhex(signatures[block]);
    out.insert(out.end(), signature.begin(), signature.end());
  }
  return out;
}

const SignatureDomain kT10Dif{
    T10Dif{.application_tag = 0xabcd, .reference_tag = 0x01234567, .increment_reference_tag = true}};
const SignatureDomain kCrc64{CrcSignature{CrcType::kCrc64Xp10, ~std::uint64_t{0}}};
const SignatureDomain kCrc32c{CrcSignature{CrcType::kCrc32c, 0xffffffff}};

constexpr auto kAfter = SignatureOrder::kAfterEncryption, kBefore = SignatureOrder::kBeforeEncryption;

struct Row {
  std::string_view name;
  bool encrypt_on_transmit;
  SignatureOrder order;
  BlockSize data_unit;
  std::optional<SignatureDomain> in_memory, on_wire;
  Bytes memory, wire;
};

class CryptoOrders : public SoftTest {
 protected:
  static Row row_of(char name) {
    const Bytes data = plain(), cipher = unhex(kCipher), cipher_of_t10 = unhex(kCipherOfT10),
                cipher_of_crc64 = unhex(kCipherOfCrc64);
    switch (name) {
      case 'A':
        return {"A", true, kAfter, BlockSize::k512, {}, {}, data, cipher};
      case 'B':
        return {"B", true, kAfter, BlockSize::k512, {}, kCrc32c, data, with(cipher, kCipherCrc32c)};
      case 'C':
        return {"C", true, kBefore, BlockSize::k520, {}, kT10Dif, data, cipher_of_t10};
      case 'D':
        return {"D", true, kBefore, BlockSize::k512, kT10Dif, {}, with(data, kPlainT10Dif), cipher};
      case 'E':
        return {"E", true, kBefore, BlockSize::k520, kT10Dif, kCrc64, with(data, kPlainT10Dif), cipher_of_crc64};
      case 'F':
        return {"F", false, kBefore, BlockSize::k512, {}, {}, cipher, data};
      case 'G':
        return {"G", false, kAfter, BlockSize::k512, {}, kCrc64, cipher, with(data, kPlainCrc64)};
      case 'H':
        return {"H", false, kAfter, BlockSize::k520, kCrc64, {}, cipher_of_crc64, data};
      case 'I':
        return {"I", false, kAfter, BlockSize::k520, kT10Dif, kCrc64, cipher_of_t10, with(data, kPlainCrc64)};
      default:
        return {"J", false, kBefore, BlockSize::k512, kT10Dif, {}, with(cipher, kCipherT10Dif), data};
    }
  }

  Owned<Mkey> key_of(const Row& row, End& end, std::size_t offset, std::uint32_t bytes) {
    const bool signs = row.in_memory || row.on_wire;
    auto key = make_key(end, {.signatures = signs, .encryption = true});
    const Sge memory = end.sge(offset, bytes);
    MkeyChange change{.access = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead),
                      .layout = ListLayout{{&memory, 1}},
                      .encryption = EncryptionBlock{.encrypt_on_transmit = row.encrypt_on_transmit,
                                                    .signature_order = row.order,
                                                    .data_unit = row.data_unit,
                                                    .initial_tweak = {kFirstUnit},
                                                    .dek = (&end == &a_ ? dek_a_ : dek_b_)->number()}};
    if (signs) {
      change.signature = SignatureBlock{.memory = row.in_memory, .wire = row.on_wire, .check_mask = 0xff};
    }
    configure(end, *key, change);
    return key;
  }
  MakeKey maker_of(const Row& row) {
    return [&](End& end, std::size_t offset, std::uint32_t bytes) { return key_of(row, end, offset, bytes); };
  }

  // Receives `wire` with its bit at `at` wrong, and what the key then tells.
  std::optional<SignatureMismatch> received_with(const Row& row, std::size_t at) {
    Bytes wire = row.wire;
    wire[at] ^= std::byte{1};
    put(a_, kFrom, wire);
    const auto key = key_of(row, b_, kTo, static_cast<std::uint32_t>(row.memory.size()));
    write_key(pair_, a_.sge(kFrom, static_cast<std::uint32_t>(wire.size())), *key);
    return told(pair_, *key);
  }
  // Sends memory with its bit at `at` wrong.
  std::optional<SignatureMismatch> sent_with(const Row& row, std::size_t at) {
    Bytes memory = row.memory;
    memory[at] ^= std::byte{1};
    put(b_, kTo, memory);
    const auto key = key_of(row, b_, kTo, static_cast<std::uint32_t>(memory.size()));
    read_key(pair_, a_.sge(kFrom, static_cast<std::uint32_t>(row.wire.size())), *key);
    return told(pair_, *key);
  }

  Pair pair_{key_pair_options(GetParam())};
  End& a_ = *pair_.a;
  End& b_ = *pair_.b;
  Owned<Dek> dek_a_ = make_dek(a_, kOrderKeys), dek_b_ = make_dek(b_, kOrderKeys);
};
INSTANTIATE_TEST_SUITE_P(Soft, CryptoOrders, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

TEST_P(CryptoOrders, EveryRowOfTheTable) {
  for (char name = 'A'; name <= 'J'; ++name) {
    const Row row = row_of(name);
    SCOPED_TRACE(row.name);
    const bool both = row.in_memory && row.on_wire;
    expect_passage(pair_, maker_of(row),
                   {row.memory, row.wire, static_cast<std::uint32_t>(both ? row.memory.size() : kDataBytes)});
  }
}

// In the second block's data, whatever is encrypted: a guard that does not match, in the domain that was read.
TEST_P(CryptoOrders, WhatIsWrongIsTold) {
  for (char name = 'A'; name <= 'J'; ++name) {
    const Row row = row_of(name);
    SCOPED_TRACE(row.name);
    const auto expect_guard = [](const std::optional<SignatureMismatch>& mismatch, bool on_wire, std::size_t bytes) {
      ASSERT_TRUE(mismatch);
      EXPECT_EQ(mismatch->field, SignatureMismatch::Field::kGuard);
      EXPECT_EQ(mismatch->on_wire, on_wire);
      EXPECT_EQ(mismatch->offset_bytes, bytes / 2 + kBlockBytes);
      EXPECT_NE(mismatch->expected, mismatch->actual);
    };
    if (row.on_wire) {
      expect_guard(received_with(row, row.wire.size() / 2 + 40), true, row.wire.size());
    }
    if (row.in_memory) {
      expect_guard(sent_with(row, row.memory.size() / 2 + 40), false, row.memory.size());
    }
  }
}

// A signature outside of the encryption is of the encrypted bytes: its value is told as it is.
TEST_P(CryptoOrders, SignaturesOfEncryptedBytesAreToldAsTheyAre) {
  const Row b = row_of('B'), j = row_of('J');
  const auto on_wire = received_with(b, kBlockBytes);  // the first byte of 6e385926
  ASSERT_TRUE(on_wire);
  EXPECT_EQ(on_wire->expected, 0x2659386fu);
  EXPECT_EQ(on_wire->actual, 0x2659386eu);
  EXPECT_EQ(on_wire->offset_bytes, kBlockBytes);
  const auto in_memory = sent_with(j, kBlockBytes + 7);  // the last byte of the reference tag 01234567
  ASSERT_TRUE(in_memory);
  EXPECT_EQ(in_memory->field, SignatureMismatch::Field::kReferenceTag);
  EXPECT_EQ(in_memory->expected, 0x01234566u);
  EXPECT_EQ(in_memory->actual, 0x01234567u);
}

// One side's key encrypts what the other's decrypts, through both signatures.
TEST_P(CryptoOrders, WhatOneEncryptsTheOtherDecrypts) {
  for (const char name : {'A', 'B', 'C', 'D', 'E'}) {
    const Row row = row_of(name);
    SCOPED_TRACE(row.name);
    const auto bytes = static_cast<std::uint32_t>(row.memory.size());
    const auto local = static_cast<std::uint32_t>(row.in_memory && row.on_wire ? bytes : kDataBytes);
    put(a_, kFrom, row.memory);
    clear(b_, kTo, bytes + 1);
    const auto from = key_of(row, a_, kFrom, bytes), to = key_of(row, b_, kTo, bytes);
    send(pair_, key_sge(*from, 0, local), key_sge(*to, 0, local));
    expect_bytes(b_, kTo, row.memory);
  }
}

}  // namespace
}  // namespace umlx5::testing
