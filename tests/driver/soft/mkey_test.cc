// Memory keys that work requests configure, through real transfers: layouts, signatures, errors that are told.
#include "driver/mkey.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "tests/driver/soft/keys.h"

namespace umlx5::testing {
namespace {

using Field = SignatureMismatch::Field;

class MkeyTest : public SoftTest {
 protected:
  Pair pair_{key_pair_options(GetParam())};
  End& a_ = *pair_.a;
  End& b_ = *pair_.b;
};
INSTANTIATE_TEST_SUITE_P(Soft, MkeyTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

TEST_P(MkeyTest, ListGathersAndScatters) {
  const auto key_a = make_key(a_, {}), key_b = make_key(b_, {});
  a_.fill(kFrom, 8192, 1);
  const Sge from[] = {a_.sge(kFrom, 100), a_.sge(kFrom + 4000, 3000), a_.sge(kFrom + 1000, 24)};
  const Sge to[] = {b_.sge(kTo + 5000, 2000), b_.sge(kTo, 1124)};
  configure(a_, *key_a, {.access = Access::kLocalWrite, .layout = ListLayout{from}});
  configure(b_, *key_b, {.access = Access::kLocalWrite, .layout = ListLayout{to}});
  send(pair_, key_sge(*key_a, 0, 3124), key_sge(*key_b, 0, 3124));
  std::vector<std::byte> sent;
  for (const Sge& sge : from) {
    const auto* at = reinterpret_cast<const std::byte*>(sge.address);
    sent.insert(sent.end(), at, at + sge.length_bytes);
  }
  EXPECT_EQ(std::memcmp(b_.at(kTo + 5000), sent.data(), 2000), 0);
  EXPECT_EQ(std::memcmp(b_.at(kTo), sent.data() + 2000, 1124), 0);
}

TEST_P(MkeyTest, InterleavedByAPeersWriteAndRead) {
  const auto key = make_key(b_, {});
  const InterleavedSge entries[] = {{.address = b_.address_of(kTo), .bytes = 8, .skip = 2, .lkey = b_.region->lkey()},
                                    {b_.address_of(kTo + 1000), 4, 12, b_.region->lkey()}};
  configure(b_, *key,
            {.access = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead),
             .layout = InterleavedLayout{.repeat = 100, .entries = entries}});
  a_.fill(kFrom, 1200, 3);
  const Sge from = a_.sge(kFrom, 1200), back = a_.sge(kFrom + 4096, 1200);
  SendWr write = pair_.write(1, {&from, 1}, 0);
  write.remote_address = 0;
  write.rkey = key->rkey();
  SendWr read = write;
  read.opcode = SendOpcode::kRdmaRead;
  read.wr_id = 2;
  read.sges = {&back, 1};
  a_.post(write);
  a_.post(read);
  EXPECT_EQ(text(a_.wait_sends(2)), "1 ok, 2 ok");
  for (std::size_t turn = 0; turn < 100; ++turn) {
    EXPECT_EQ(std::memcmp(b_.at(kTo + turn * 10), a_.at(kFrom + turn * 12), 8), 0);
    EXPECT_EQ(std::memcmp(b_.at(kTo + 1000 + turn * 16), a_.at(kFrom + turn * 12 + 8), 4), 0);
  }
  EXPECT_EQ(std::memcmp(a_.at(kFrom + 4096), a_.at(kFrom), 1200), 0);
}

TEST_P(MkeyTest, BoundsAndRightsHoldAtEveryLevel) {
  const auto inner = make_key(a_, {}), outer = make_key(a_, {});
  const Sge memory = a_.sge(kFrom, 64);
  const Sge too_much{0, 65, inner->lkey()};
  configure(a_, *inner, {.access = Access::kLocalWrite, .layout = ListLayout{{&memory, 1}}});
  configure(a_, *outer, {.access = Access::kLocalWrite, .layout = ListLayout{{&too_much, 1}}});
  b_.post_receives(1, 2);
  const Sge good = key_sge(*outer, 0, 64), bad = key_sge(*outer, 0, 65);
  a_.post(Pair::send(1, {&good, 1}));
  EXPECT_EQ(text(a_.wait_sends(1)), "1 ok");
  a_.post(Pair::send(2, {&bad, 1}));
  EXPECT_EQ(text(a_.wait_sends(1)), "2 04/51");  // local protection
}

// ---- Signatures (known_signatures_test has their values) ----

SignatureBlock on_wire(const std::variant<T10Dif, CrcSignature>& signature) {
  return {.wire = SignatureDomain{.signature = signature}, .check_mask = 0xff};
}
SignatureBlock in_memory(const std::variant<T10Dif, CrcSignature>& signature) {
  return {.memory = SignatureDomain{.signature = signature}, .check_mask = 0xff};
}

// Generated on one side's wire, checked and stripped on the other's, over many blocks and packets.
TEST_P(MkeyTest, WhatOneAddsTheOtherStrips) {
  constexpr std::uint32_t kBlocks = 20, kBytes = kBlocks * 512;
  const T10Dif dif{
      .background = 0xffff, .application_tag = 0x1234, .reference_tag = 77, .increment_reference_tag = true};
  const auto key_a = make_key(a_, {.signatures = true}), key_b = make_key(b_, {.signatures = true});
  a_.fill(kFrom, kBytes, 5);
  const Sge from = a_.sge(kFrom, kBytes), to = b_.sge(kTo, kBytes);
  configure(a_, *key_a, {.access = Access::kLocalWrite, .layout = ListLayout{{&from, 1}}, .signature = on_wire(dif)});
  configure(b_, *key_b,
            {.access = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead),
             .layout = ListLayout{{&to, 1}},
             .signature = on_wire(dif)});
  send(pair_, key_sge(*key_a, 0, kBytes), key_sge(*key_b, 0, kBytes));
  EXPECT_EQ(std::memcmp(b_.at(kTo), a_.at(kFrom), kBytes), 0);

  // By a write, and by a read in pieces that begin inside of blocks.
  std::memset(b_.at(kTo), 0, kBytes);
  const Sge whole = key_sge(*key_a, 0, kBytes);
  write_key(pair_, whole, *key_b);
  EXPECT_EQ(std::memcmp(b_.at(kTo), a_.at(kFrom), kBytes), 0);
  const std::vector<std::byte> sent(a_.at(kFrom), a_.at(kFrom) + kBytes);
  std::memset(a_.at(kFrom), 0, kBytes);
  read_key(pair_, whole, *key_b);
  EXPECT_EQ(std::memcmp(a_.at(kFrom), sent.data(), kBytes), 0);
  EXPECT_EQ(must(key_a->check()), std::nullopt);
  EXPECT_EQ(must(key_b->check()), std::nullopt);
}

// Both domains have blocks of one structure: a guard that is not checked is passed on as it came.
TEST_P(MkeyTest, SignaturesArePassedOn) {
  const SignatureDomain domain{T10Dif{.application_tag = 0x1111, .reference_tag = 5}};
  const auto key = make_key(a_, {.signatures = true});
  std::memset(a_.at(kFrom), 0, 520);
  std::memcpy(a_.at(kFrom + 512), "\xde\xad\x11\x11\x00\x00\x00\x05", 8);
  const Sge from = a_.sge(kFrom, 520);
  configure(
      a_, *key,
      {.access = Access::kLocalWrite,
       .layout = ListLayout{{&from, 1}},
       .signature = SignatureBlock{.memory = domain, .wire = domain, .check_mask = signature_mask::kApplicationTag}});
  send(pair_, key_sge(*key, 0, 520), b_.sge(kTo, 520));
  EXPECT_EQ(hex(b_.at(kTo + 512), 8), "dead111100000005");
  EXPECT_EQ(must(key->check()), std::nullopt);
}

// ---- What does not match ----

struct Corruption {
  std::size_t offset;  // in block 1 of 3, data and signature
  Field field;
  std::uint64_t expected, actual;  // 0: not looked at
};

TEST_P(MkeyTest, EachFieldThatIsWrongIsTold) {
  constexpr std::uint32_t kBlocks = 3;
  const T10Dif dif{.application_tag = 0xabcd, .reference_tag = 100, .increment_reference_tag = true};
  const Corruption cases[] = {{.offset = 100, .field = Field::kGuard, .expected = 0, .actual = 0},
                              {512, Field::kGuard, 0xff00, 0x0000},
                              {514, Field::kApplicationTag, 0x54cd, 0xabcd},
                              {519, Field::kReferenceTag, 0x9a, 101}};
  const auto key = make_key(a_, {.signatures = true});
  const Sge memory = a_.sge(kFrom, kBlocks * 520);
  bool first = true;
  for (const Corruption& corruption : cases) {
    SCOPED_TRACE(corruption.offset);
    std::memset(a_.at(kFrom), 0, kBlocks * 520);
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      const std::uint8_t tail[] = {0, 0, 0xab, 0xcd, 0, 0, 0, static_cast<std::uint8_t>(100 + block)};
      std::memcpy(a_.at(kFrom + block * 520 + 512), tail, sizeof tail);
    }
    *a_.at(kFrom + 520 + corruption.offset) ^= std::byte{0xff};
    // Once told of an error, the key tells of the next after a change that says nothing of signatures.
    MkeyChange change{.access = Access::kLocalWrite, .layout = ListLayout{{&memory, 1}}};
    if (std::exchange(first, false)) {
      change.signature = in_memory(dif);
    }
    configure(a_, *key, change);
    send(pair_, key_sge(*key, 0, kBlocks * 512), b_.sge(kTo, kBlocks * 512));  // goes on all the same
    const auto mismatch = must(key->check());
    ASSERT_TRUE(mismatch);
    EXPECT_EQ(mismatch->field, corruption.field);
    EXPECT_FALSE(mismatch->on_wire);
    EXPECT_EQ(mismatch->offset_bytes, 520u + 512);
    if (corruption.actual != 0 || corruption.expected != 0) {
      EXPECT_EQ(mismatch->expected, corruption.expected);
      EXPECT_EQ(mismatch->actual, corruption.actual);
    } else {
      EXPECT_EQ(mismatch->expected, 0u);
      EXPECT_NE(mismatch->actual, 0u);
    }
    EXPECT_EQ(must(key->check()), std::nullopt);  // told once
  }
}

TEST_P(MkeyTest, OneErrorIsToldUntilTheKeyIsChanged) {
  const auto key = make_key(a_, {.signatures = true});
  const Sge memory = a_.sge(kFrom, 516);
  std::memset(a_.at(kFrom), 0, 516);  // no CRC32 of anything
  configure(
      a_, *key,
      {.access = Access::kLocalWrite, .layout = ListLayout{{&memory, 1}}, .signature = in_memory(CrcSignature{})});
  send(pair_, key_sge(*key, 0, 512), b_.sge(kTo, 512));
  EXPECT_TRUE(must(key->check()));
  send(pair_, key_sge(*key, 0, 512), b_.sge(kTo, 512));
  EXPECT_FALSE(must(key->check()));
  configure(a_, *key, {});
  send(pair_, key_sge(*key, 0, 512), b_.sge(kTo, 512));
  EXPECT_TRUE(must(key->check()));
}

// What arrives is checked by who receives it.
TEST_P(MkeyTest, AReceiverTellsOfTheWire) {
  const auto key = make_key(b_, {.signatures = true});
  const Sge memory = b_.sge(kTo, 512);
  configure(b_, *key,
            {.access = Access::kLocalWrite,
             .layout = ListLayout{{&memory, 1}},
             .signature = on_wire(CrcSignature{CrcType::kCrc32c, 0xffffffff})});
  std::memset(a_.at(kFrom), 0, 516);
  send(pair_, a_.sge(kFrom, 516), key_sge(*key, 0, 512));
  const auto mismatch = must(key->check());
  ASSERT_TRUE(mismatch);
  EXPECT_TRUE(mismatch->on_wire);
  EXPECT_EQ(mismatch->expected, 0u);
  EXPECT_EQ(mismatch->actual, 0x30fcedc0u);
}

TEST_P(MkeyTest, AKeyTakesNoMoreThanItIsMadeFor) {
  const auto plain = make_key(a_, {});
  const auto refused = a_.qp->configure_mkey(*plain, {.signature = on_wire(T10Dif{})}, {}, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EINVAL);
  const auto unchecked = plain->check();
  ASSERT_FALSE(unchecked);
  EXPECT_EQ(unchecked.error().errno_value, EINVAL);
  const std::vector<Sge> sges(5);
  const auto long_layout = a_.qp->configure_mkey(*plain, {.layout = ListLayout{sges}}, {}, 1);
  ASSERT_FALSE(long_layout);
  EXPECT_EQ(long_layout.error().errno_value, ENOMEM);
  EXPECT_FALSE(a_.pd->create_mkey({.max_entries = 65536}));
}

// A queue that has no room for all requests of a change takes none of them, and the key is as it was.
TEST_P(MkeyTest, AFullQueueTakesNoPart) {
  const auto key = make_key(a_, {.signatures = true});
  const std::uint32_t room = a_.qp->capacity().max_send_wr;
  const SignatureBlock both{.memory = SignatureDomain{T10Dif{}}, .wire = SignatureDomain{T10Dif{}}};
  std::uint32_t taken = 0;
  Expected<void> result;
  while (taken <= room && (result = a_.qp->configure_mkey(*key, {.signature = both}, {}, taken))) {
    taken += 3;
  }
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().errno_value, ENOMEM);
  EXPECT_EQ(taken, room / 3 * 3);
}

}  // namespace
}  // namespace umlx5::testing
