// Block signatures that others have published, through real transfers: generated, checked, stripped and told as wrong,
// in the wire and in the memory domain.
//
// The device has blocks of 512 bytes and more; most of what is published is of shorter messages. A running CRC of 0
// stays 0 over zeros, so a block that ends with a message and is zeros before has the message's CRC of seed 0; and a
// seed of ones is the same as seed 0 with as many bits inverted at the front. Either way the published value is to come
// out as it is. CRCs are stored least significant byte first; of CRC32 and CRC64 no adapter was seen to do so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/driver/soft/keys.h"
#include "tests/wqe/bytes.h"

namespace umlx5::testing {
namespace {

using wqe::testing_bytes::unhex;

constexpr BlockSize kBlockSizes[] = {BlockSize::k512, BlockSize::k520, BlockSize::k4048, BlockSize::k4096,
                                     BlockSize::k4160};

std::size_t bytes_of(BlockSize size) {
  constexpr std::size_t kBytes[] = {512, 520, 4048, 4096, 4160};  // mlx5dv_block_size
  return kBytes[static_cast<unsigned>(size)];
}

struct KnownAnswer {
  Bytes message;
  std::uint64_t value;         // as it is published
  std::string_view signature;  // the bytes behind the block
};

// Bytes first, first + step, ...
Bytes counting(std::size_t bytes, int first, int step) {
  Bytes out;
  for (std::size_t i = 0; i < bytes; ++i, first += step) {
    out.push_back(static_cast<std::byte>(first));
  }
  return out;
}

Bytes characters(std::string_view text) {
  Bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

void invert(Bytes& bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = ~bytes[i];
  }
}

// A block with the message's CRC. The CRC begins with ones in so many bytes where it is published and in the block; 0:
// with zero.
Bytes block_of(Bytes message, std::size_t published_ones, std::size_t block_ones, std::size_t bytes) {
  invert(message, published_ones);
  Bytes block(bytes);
  std::ranges::copy_backward(message, block.end());
  invert(block, block_ones);
  return block;
}

class KnownSignatures : public SoftTest {
 protected:
  // A block through every domain there is.
  void expect(const SignatureDomain& domain, const Bytes& block, const KnownAnswer& answer) {
    SCOPED_TRACE(::testing::Message() << answer.signature << ", blocks of " << block.size());
    data_.clear();
    whole_.clear();
    add(block, answer.signature);
    expect_generated(domain);
    expect_stripped(domain);
    expect_told(domain, answer.value);
  }

  // Several blocks, which are their own messages, in one transfer.
  void expect_together(const SignatureDomain& domain, const std::vector<KnownAnswer>& answers) {
    SCOPED_TRACE("together");
    data_.clear();
    whole_.clear();
    for (const KnownAnswer& answer : answers) {
      add(answer.message, answer.signature);
    }
    expect_generated(domain);
    expect_stripped(domain);
  }

  // CRCs of messages that are published with a seed of ones of so many bytes, in each block size and with both seeds.
  void expect_crcs(CrcType type, std::size_t crc_bytes, const std::vector<KnownAnswer>& answers) {
    const std::uint64_t ones = crc_bytes == 8 ? ~std::uint64_t{0} : 0xffffffff;
    for (const BlockSize size : kBlockSizes) {
      for (const KnownAnswer& answer : answers) {
        expect({CrcSignature{type, 0}, size}, block_of(answer.message, crc_bytes, 0, bytes_of(size)), answer);
        expect({CrcSignature{type, ones}, size}, block_of(answer.message, crc_bytes, crc_bytes, bytes_of(size)),
               answer);
      }
    }
  }

 private:
  void add(const Bytes& block, std::string_view signature) {
    data_.insert(data_.end(), block.begin(), block.end());
    whole_.insert(whole_.end(), block.begin(), block.end());
    const Bytes bytes = unhex(signature);
    whole_.insert(whole_.end(), bytes.begin(), bytes.end());
  }
  std::uint32_t data_bytes() const { return static_cast<std::uint32_t>(data_.size()); }
  std::uint32_t whole_bytes() const { return static_cast<std::uint32_t>(whole_.size()); }

  Owned<Mkey> key_of(End& end, std::size_t offset, std::uint32_t bytes, const SignatureBlock& block) {
    auto key = make_key(end, {.signatures = true});
    const Sge memory = end.sge(offset, bytes);
    configure(end, *key,
              {.access = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead),
               .layout = ListLayout{{&memory, 1}},
               .signature = block});
    return key;
  }
  static SignatureBlock on_wire(const SignatureDomain& domain) { return {.wire = domain, .check_mask = 0xff}; }
  static SignatureBlock in_memory(const SignatureDomain& domain) { return {.memory = domain, .check_mask = 0xff}; }

  void clear(End& end, std::size_t offset) { testing::clear(end, offset, whole_.size() + 1); }

  // Behind a sender's block on the wire, and behind a receiver's in memory.
  void expect_generated(const SignatureDomain& domain) {
    put(a_, kFrom, data_);
    clear(b_, kTo);
    const auto sender = key_of(a_, kFrom, data_bytes(), on_wire(domain));
    const Sge from = key_sge(*sender, 0, data_bytes());
    a_.post(pair_.write(1, {&from, 1}, kTo));
    EXPECT_EQ(text(a_.wait_sends(1)), "1 ok");
    expect_bytes(b_, kTo, whole_);

    clear(b_, kTo);
    const auto receiver = key_of(b_, kTo, whole_bytes(), in_memory(domain));
    write_key(pair_, a_.sge(kFrom, data_bytes()), *receiver);
    expect_bytes(b_, kTo, whole_);
  }

  // By a receiver that knows of the wire's signature, and by one who is read from and knows of the memory's.
  void expect_stripped(const SignatureDomain& domain) {
    put(a_, kFrom, whole_);
    clear(b_, kTo);
    const auto receiver = key_of(b_, kTo, data_bytes(), on_wire(domain));
    write_key(pair_, a_.sge(kFrom, whole_bytes()), *receiver);
    expect_bytes(b_, kTo, data_);
    EXPECT_FALSE(told(pair_, *receiver));

    put(b_, kTo, whole_);
    clear(a_, kFrom);
    const auto responder = key_of(b_, kTo, whole_bytes(), in_memory(domain));
    read_key(pair_, a_.sge(kFrom, data_bytes()), *responder);
    expect_bytes(a_, kFrom, data_);
    EXPECT_FALSE(told(pair_, *responder));
  }

  // With one bit of the signature wrong, then one of the data: on the wire to a receiver, and in the memory of one who
  // is read from.
  void expect_told(const SignatureDomain& domain, std::uint64_t value) {
    const auto receiver = key_of(b_, kTo, data_bytes(), on_wire(domain));
    const auto responder = key_of(b_, kTo, whole_bytes(), in_memory(domain));
    for (const std::size_t wrong : {data_.size(), data_.size() - 1}) {
      SCOPED_TRACE(wrong);
      Bytes altered = whole_;
      altered[wrong] ^= std::byte{1};
      put(a_, kFrom, altered);
      configure(b_, *receiver, {});
      write_key(pair_, a_.sge(kFrom, whole_bytes()), *receiver);
      expect_mismatch(told(pair_, *receiver), true, value, wrong == data_.size());

      put(b_, kTo, altered);
      configure(b_, *responder, {});
      read_key(pair_, a_.sge(kFrom, data_bytes()), *responder);
      expect_mismatch(told(pair_, *responder), false, value, wrong == data_.size());
    }
  }

  static void expect_mismatch(const std::optional<SignatureMismatch>& mismatch, bool on_wire, std::uint64_t value,
                              bool signature_is_wrong) {
    ASSERT_TRUE(mismatch);
    EXPECT_EQ(mismatch->field, SignatureMismatch::Field::kGuard);
    EXPECT_EQ(mismatch->on_wire, on_wire);
    EXPECT_EQ(mismatch->actual == value, signature_is_wrong);     // what the data gives
    EXPECT_EQ(mismatch->expected == value, !signature_is_wrong);  // what came with it
  }

  Pair pair_{key_pair_options(GetParam())};
  End& a_ = *pair_.a;
  End& b_ = *pair_.b;
  Bytes data_, whole_;  // blocks, and with the signatures behind them
};
INSTANTIATE_TEST_SUITE_P(Soft, KnownSignatures, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

// The iSCSI READ (10) PDU of RFC 3720, appendix B.4.
Bytes read_pdu() {
  return unhex(
      "01c00000 00000000 00000000 00000000 14000000 00000400 00000014 00000018 28000000 00000000 02000000 00000000");
}

// T10 SBC-3, the table of CRC test cases in the protection information model. Application and reference tag follow.
TEST_P(KnownSignatures, T10Dif) {
  const KnownAnswer answers[] = {
      {Bytes(32, std::byte{0}), 0x0000, "0000abcd01234567"},
      {Bytes(32, std::byte{0xff}), 0xa293, "a293abcd01234567"},
      {counting(32, 0, 1), 0x0224, "0224abcd01234567"},
      {unhex("ffff0000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"), 0x21b8, "21b8abcd01234567"},
      {counting(32, 0xff, -1), 0xa0b7, "a0b7abcd01234567"},
      // The check value of CRC-16/T10-DIF in the RevEng catalogue.
      {characters("123456789"), 0xd0db, "d0dbabcd01234567"},
  };
  for (const BlockSize size : kBlockSizes) {
    for (const KnownAnswer& answer : answers) {
      for (const std::uint16_t seed : {std::uint16_t{0}, std::uint16_t{0xffff}}) {
        const T10Dif dif{.background = seed, .application_tag = 0xabcd, .reference_tag = 0x01234567};
        expect({dif, size}, block_of(answer.message, 0, seed != 0 ? 2 : 0, bytes_of(size)), answer);
      }
    }
  }
}

// The same cases, each at the end of a block of zeros, in one transfer whose reference tags count.
TEST_P(KnownSignatures, T10DifOfSeveralBlocks) {
  const auto block = [](const Bytes& message) { return block_of(message, 0, 0, 512); };
  expect_together({T10Dif{.application_tag = 0xabcd, .reference_tag = 0xff, .increment_reference_tag = true}},
                  {{block(Bytes(32, std::byte{0xff})), 0xa293, "a293abcd000000ff"},
                   {block(counting(32, 0, 1)), 0x0224, "0224abcd00000100"},
                   {block(unhex("ffff0000 00000000 00000000 00000000 00000000 00000000 00000000 00000000")), 0x21b8,
                    "21b8abcd00000101"},
                   {block(counting(32, 0xff, -1)), 0xa0b7, "a0b7abcd00000102"}});
}

// The example of RFC 1071, section 3: its sum is ddf2, the checksum that sum's complement. Zeros before it add nothing.
TEST_P(KnownSignatures, IpChecksum) {
  const KnownAnswer answer{unhex("0001f203 f4f5f6f7"), 0x220d, "220dabcd01234567"};
  for (const BlockSize size : kBlockSizes) {
    const T10Dif dif{.guard = GuardType::kChecksum, .application_tag = 0xabcd, .reference_tag = 0x01234567};
    expect({dif, size}, block_of(answer.message, 0, 0, bytes_of(size)), answer);
  }
}

// RFC 3720, appendix B.4, in the byte order that it has there.
TEST_P(KnownSignatures, Crc32cOfRfc3720) {
  expect_crcs(CrcType::kCrc32c, 4,
              {{Bytes(32, std::byte{0}), 0x8a9136aa, "aa36918a"},
               {Bytes(32, std::byte{0xff}), 0x62a8ab43, "43aba862"},
               {counting(32, 0, 1), 0x46dd794e, "4e79dd46"},
               {counting(32, 31, -1), 0x113fdb5c, "5cdb3f11"},
               {read_pdu(), 0xd9963a56, "563a96d9"}});
}

// NVM Command Set specification 1.0c, 32b CRC test cases: data of 4096 bytes (as in SPDK's test/unit/lib/util).
TEST_P(KnownSignatures, Crc32cOfNvme) {
  const std::vector<KnownAnswer> answers = {{Bytes(4096, std::byte{0}), 0x98f94189, "8941f998"},
                                            {Bytes(4096, std::byte{0xff}), 0x25c1fe13, "13fec125"},
                                            {counting(4096, 0, 1), 0x9c71fe32, "32fe719c"},
                                            {counting(4096, 0xff, -1), 0x214941a8, "a8414921"}};
  const SignatureDomain domain{CrcSignature{CrcType::kCrc32c, 0xffffffff}, BlockSize::k4096};
  for (const KnownAnswer& answer : answers) {
    expect(domain, answer.message, answer);
  }
  expect_together(domain, answers);
}

// NVM Command Set specification 1.0a, section 5.2.1.3.5, 64b CRC test cases: data of 4096 bytes.
TEST_P(KnownSignatures, Crc64OfNvme) {
  const std::vector<KnownAnswer> answers = {{Bytes(4096, std::byte{0}), 0x6482d367eb22b64e, "4eb622eb67d38264"},
                                            {Bytes(4096, std::byte{0xff}), 0xc0ddba7302eca3ac, "aca3ec0273baddc0"},
                                            {counting(4096, 0, 1), 0x3e729f5f6750449c, "9c4450675f9f723e"},
                                            {counting(4096, 0xff, -1), 0x9a2df64b8e9e517e, "7e519e8e4bf62d9a"}};
  const SignatureDomain domain{CrcSignature{CrcType::kCrc64Xp10, ~std::uint64_t{0}}, BlockSize::k4096};
  for (const KnownAnswer& answer : answers) {
    expect(domain, answer.message, answer);
  }
  expect_together(domain, answers);
}

// The check value of CRC-64/NVME in the RevEng catalogue; the others are in awslabs/aws-checksums' tests.
TEST_P(KnownSignatures, Crc64OfShortMessages) {
  expect_crcs(CrcType::kCrc64Xp10, 8,
              {{characters("123456789"), 0xae8b14860a799888, "8898790a86148bae"},
               {Bytes(32, std::byte{0}), 0xcf3473434d4ecf3b, "3bcf4e4d437334cf"},
               {counting(32, 0, 1), 0xb9d9d4a8492cbd7f, "7fbd2c49a8d4d9b9"}});
}

// IEEE 802.3's CRC of RFC 3720's messages and of text, as OpenDataPlane's tests of odp_hash_crc32() have it; the last
// is the check value of CRC-32/ISO-HDLC in the RevEng catalogue too.
TEST_P(KnownSignatures, Crc32) {
  expect_crcs(CrcType::kCrc32, 4,
              {{Bytes(32, std::byte{0}), 0x190a55ad, "ad550a19"},
               {Bytes(32, std::byte{0xff}), 0xff6cab0b, "0bab6cff"},
               {counting(32, 0, 1), 0x91267e8a, "8a7e2691"},
               {counting(32, 31, -1), 0x9ab0ef72, "72efb09a"},
               {read_pdu(), 0x51e17412, "1274e151"},
               {characters("The quick brown fox jumps over the lazy dog."), 0x519025e9, "e9259051"},
               {characters("123456789"), 0xcbf43926, "2639f4cb"}});
  // A page of zeros, from PGM_STATE_CRC32_ZERO_PAGE of VirtualBox.
  expect({CrcSignature{CrcType::kCrc32, 0xffffffff}, BlockSize::k4096}, Bytes(4096),
         {Bytes(4096), 0xc71c0011, "11001cc7"});
}

}  // namespace
}  // namespace umlx5::testing
