// Memory keys that lead through others: data, bounds and rights at every level, what may not be used yet or any more,
// and keys that come again under another tag.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/driver/soft/keys.h"

namespace umlx5::testing {
namespace {

const AccessFlags kRemote = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead);
const std::string kLocalProtection = "1 04/51", kRemoteAccess = "1 13/88";

class NestedKeys : public SoftTest {
 protected:
  static SendWr remote(SendOpcode opcode, const Sge& local, std::uint32_t rkey, std::uint64_t address) {
    return {.wr_id = 1,
            .opcode = opcode,
            .flags = SendFlag::kSignaled,
            .sges = {&local, 1},
            .remote_address = address,
            .rkey = rkey};
  }
  // How A's access to a key of B ends.
  static std::string access(Pair& pair, SendOpcode opcode, std::uint32_t rkey, std::uint32_t bytes,
                            std::uint64_t address = 0) {
    const Sge local = pair.a->sge(kFrom, bytes);
    pair.a->post(remote(opcode, local, rkey, address));
    return text(pair.a->wait_sends(1));
  }
  static std::string write(Pair& pair, const Mkey& key, std::uint32_t bytes, std::uint64_t address = 0) {
    return access(pair, SendOpcode::kRdmaWrite, key.rkey(), bytes, address);
  }
  static std::string read(Pair& pair, const Mkey& key, std::uint32_t bytes, std::uint64_t address = 0) {
    return access(pair, SendOpcode::kRdmaRead, key.rkey(), bytes, address);
  }
  static Owned<Mkey> list(End& end, const std::vector<Sge>& sges, AccessFlags rights = kRemote) {
    auto key = make_key(end, {});
    configure(end, *key, {.access = rights, .layout = ListLayout{sges}});
    return key;
  }
};
INSTANTIATE_TEST_SUITE_P(Soft, NestedKeys, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

// A list of an interleaved key of a list of an interleaved key of a region: four levels, as many as the device follows.
TEST_P(NestedKeys, DataPassesFourLevels) {
  Pair pair(key_pair_options(GetParam()));
  End &a = *pair.a, &b = *pair.b;
  const auto first = make_key(b, {}), third = make_key(b, {});
  // 64 times: 12 bytes, 4 left out.
  const InterleavedSge on_region{b.address_of(kTo), 12, 4, b.region->lkey()};
  configure(b, *first, {.access = kRemote, .layout = InterleavedLayout{64, {&on_region, 1}}});
  // Its halves the other way round.
  const auto second = list(b, {key_sge(*first, 384, 384), key_sge(*first, 0, 384)});
  // 32 times: 16 bytes of the first half, 8 of the second and 8 left out of either.
  const InterleavedSge on_second[] = {{0, 8, 4, second->lkey()}, {384, 4, 8, second->lkey()}};
  configure(b, *third, {.access = kRemote, .layout = InterleavedLayout{32, on_second}});
  const auto fourth = list(b, {key_sge(*third, 100, 200), key_sge(*third, 0, 100)});

  // The same in the test's words: where each byte of each level lies on the level below.
  const auto at_first = [](std::size_t i) { return i / 12 * 16 + i % 12; };
  const auto at_second = [&](std::size_t i) { return at_first(i < 384 ? i + 384 : i - 384); };
  const auto at_third = [&](std::size_t i) {
    const std::size_t turn = i / 12, in_turn = i % 12;
    return at_second(turn * 12 + (in_turn < 8 ? in_turn : 384 + in_turn - 8));
  };
  const auto at_fourth = [&](std::size_t i) { return at_third(i < 200 ? i + 100 : i - 200); };

  a.fill(kFrom, 300, 9);
  clear(b, kTo, 1024);
  EXPECT_EQ(write(pair, *fourth, 300), "1 ok");
  std::vector<std::byte> expected(1024, std::byte{0xee});
  for (std::size_t i = 0; i < 300; ++i) {
    expected[at_fourth(i)] = *a.at(kFrom + i);
  }
  EXPECT_EQ(hex(b.at(kTo), 1024), hex(expected.data(), 1024));
  // Back, from the middle of everything.
  std::vector<std::byte> sent(a.at(kFrom), a.at(kFrom) + 300);
  clear(a, kFrom, 301);
  EXPECT_EQ(read(pair, *fourth, 250, 37), "1 ok");
  EXPECT_EQ(hex(a.at(kFrom), 251), hex(sent.data() + 37, 250) + "ee");

  const auto fifth = list(b, {key_sge(*fourth, 0, 300)});
  EXPECT_EQ(write(pair, *fifth, 300), kRemoteAccess) << "one level too many";
}

// A key's own bounds, and those of each key that it leads to. A peer learns nothing of which it was.
TEST_P(NestedKeys, BoundsAtEachLevel) {
  for (const unsigned short_level : {0u, 1u, 2u, 3u}) {
    SCOPED_TRACE(short_level);
    Pair pair(key_pair_options(GetParam()));
    End& b = *pair.b;
    const auto length = [&](unsigned level) { return level == short_level ? 4095u : 4096u; };
    // The region is what ends first at level 0.
    auto region = must(b.pd->register_memory({b.at(kTo), length(0)}, kAllAccess));
    const auto inner = list(b, {{b.address_of(kTo), length(1), region->lkey()}});
    const auto middle = list(b, {key_sge(*inner, 0, length(2))});
    const auto outer = list(b, {key_sge(*middle, 0, length(3))});
    EXPECT_EQ(write(pair, *outer, 4095), "1 ok");
    EXPECT_EQ(write(pair, *outer, 1, 4095), kRemoteAccess);
  }
}

// Keys are used with local rights of those above them; the outermost one needs the peer's.
TEST_P(NestedKeys, RightsAtEachLevel) {
  const AccessFlags none{}, write_only = Access::kLocalWrite | Access::kRemoteWrite,
                            read_only = AccessFlags(Access::kRemoteRead);
  const struct {
    AccessFlags inner, outer;
    std::string write, read;
  } cases[] = {{AccessFlags(Access::kLocalWrite), kRemote, "1 ok", "1 ok"},
               {none, kRemote, kRemoteAccess, "1 ok"},  // reading locally is always allowed
               {AccessFlags(Access::kLocalWrite), write_only, "1 ok", kRemoteAccess},
               {AccessFlags(Access::kLocalWrite), read_only, kRemoteAccess, "1 ok"},
               {kRemote, AccessFlags(Access::kLocalWrite), kRemoteAccess, kRemoteAccess}};
  for (const auto& test : cases) {
    SCOPED_TRACE(&test - cases);
    for (const bool writes : {true, false}) {
      Pair pair(key_pair_options(GetParam()));
      End& b = *pair.b;
      const auto inner = list(b, {b.sge(kTo, 64)}, test.inner);
      const auto outer = list(b, {key_sge(*inner, 0, 64)}, test.outer);
      EXPECT_EQ(writes ? write(pair, *outer, 64) : read(pair, *outer, 64), writes ? test.write : test.read);
    }
  }
}

// The innermost right is the region's own.
TEST_P(NestedKeys, TheRegionsRights) {
  Pair pair(key_pair_options(GetParam()));
  End& b = *pair.b;
  auto region = must(b.pd->register_memory({b.at(kTo), 4096}, AccessFlags{}));
  const auto key = list(b, {{b.address_of(kTo), 64, region->lkey()}});
  EXPECT_EQ(read(pair, *key, 64), "1 ok");
  EXPECT_EQ(write(pair, *key, 64), kRemoteAccess);
}

// All of a way through keys is in one protection domain.
TEST_P(NestedKeys, AKeyOfAnotherDomainIsOutOfReach) {
  Pair pair(key_pair_options(GetParam()));
  End& b = *pair.b;
  auto pd = must(b.context.alloc_pd());
  auto region = must(pd->register_memory({b.at(kTo), 4096}, kAllAccess));
  const auto key = list(b, {{b.address_of(kTo), 64, region->lkey()}});
  EXPECT_EQ(write(pair, *key, 64), kRemoteAccess);
}

// Local requests are refused where they are made.
TEST_P(NestedKeys, OfThisSide) {
  for (const bool receives : {false, true}) {
    SCOPED_TRACE(receives);
    Pair pair(key_pair_options(GetParam()));
    End &a = *pair.a, &b = *pair.b;
    End& end = receives ? b : a;
    const auto inner = list(end, {end.sge(kTo, 63)});
    const auto outer = list(end, {key_sge(*inner, 0, 64)});
    const Sge key = key_sge(*outer, 0, 64), plain_a = a.sge(kFrom, 64), plain_b = b.sge(kTo, 64);
    b.post(RecvWr{.wr_id = 2, .sges = {receives ? &key : &plain_b, 1}});
    a.post(Pair::send(1, {receives ? &plain_a : &key, 1}));
    if (receives) {
      EXPECT_EQ(text(b.wait_receives(1)), "2 04/52");
    } else {
      EXPECT_EQ(text(a.wait_sends(1)), kLocalProtection);
    }
  }
}

// Nothing but an error comes of a key whose memory, or whose key, is gone.
TEST_P(NestedKeys, WhatAKeyLeadsToMayEnd) {
  for (const bool region_ends : {true, false}) {
    SCOPED_TRACE(region_ends);
    Pair pair(key_pair_options(GetParam()));
    End& b = *pair.b;
    auto region = must(b.pd->register_memory({b.at(kTo), 4096}, kAllAccess));
    auto inner = list(b, {{b.address_of(kTo), 64, region->lkey()}});
    const auto outer = list(b, {key_sge(*inner, 0, 64)});
    EXPECT_EQ(write(pair, *outer, 64), "1 ok");
    must(region_ends ? region.destroy() : inner.destroy());
    EXPECT_EQ(write(pair, *outer, 64), kRemoteAccess);
  }
}

TEST_P(NestedKeys, LeadingToThemselvesTheyLeadNowhere) {
  Pair pair(key_pair_options(GetParam()));
  End& b = *pair.b;
  const auto key = make_key(b, {});
  const Sge itself = key_sge(*key, 0, 64);
  configure(b, *key, {.access = kRemote, .layout = ListLayout{{&itself, 1}}});
  EXPECT_EQ(write(pair, *key, 64), kRemoteAccess);
}

TEST_P(NestedKeys, EmptyLayouts) {
  for (const char kind : {'l', 'i', 'r', 'z'}) {
    SCOPED_TRACE(kind);
    Pair pair(key_pair_options(GetParam()));
    End& b = *pair.b;
    const auto key = make_key(b, {});
    const InterleavedSge entry{b.address_of(kTo), 8, 8, b.region->lkey()},
        nothing{b.address_of(kTo), 0, 8, b.region->lkey()};
    MkeyChange change{.access = kRemote};
    switch (kind) {
      case 'l':
        change.layout = ListLayout{};
        break;
      case 'i':
        change.layout = InterleavedLayout{};
        break;
      case 'r':
        change.layout = InterleavedLayout{0, {&entry, 1}};
        break;
      default:
        change.layout = InterleavedLayout{0xffffffff, {&nothing, 1}};
    }
    configure(b, *key, change);
    EXPECT_EQ(write(pair, *key, 0), "1 ok");
    EXPECT_EQ(write(pair, *key, 1), kRemoteAccess);
  }
}

// A count of rounds that no memory has is no access to more than there is.
TEST_P(NestedKeys, HugeRepeats) {
  Pair pair(key_pair_options(GetParam()));
  End& b = *pair.b;
  const auto key = make_key(b, {});
  const InterleavedSge entry{b.address_of(0), 0xfffe, 1, b.region->lkey()};
  configure(b, *key, {.access = kRemote, .layout = InterleavedLayout{0xffffffff, {&entry, 1}}});
  EXPECT_EQ(write(pair, *key, 64, 0xfffe * 2), "1 ok");
  EXPECT_EQ(write(pair, *key, 64, std::uint64_t{0xfffe} * 0xffffffff - 64), kRemoteAccess);
}

// ---- States ----

TEST_P(NestedKeys, BeforeItIsConfiguredAKeyIsNone) {
  for (const bool encryption : {false, true}) {
    SCOPED_TRACE(encryption);
    Pair pair(key_pair_options(GetParam()));
    End& b = *pair.b;
    const auto key = make_key(b, {.encryption = encryption});
    if (encryption) {
      // With memory, but without being told how to encrypt.
      const Sge memory = b.sge(kTo, 64);
      configure(b, *key, {.access = kRemote, .layout = ListLayout{{&memory, 1}}});
    }
    EXPECT_EQ(write(pair, *key, 64), kRemoteAccess);
  }
}

// A tag is a new name: the old one, and any other, opens nothing.
TEST_P(NestedKeys, ANewTagShutsOldUsersOut) {
  Pair first(key_pair_options(GetParam())), second(key_pair_options(GetParam()));
  for (const bool old_tag : {true, false}) {
    Pair& pair = old_tag ? first : second;
    End& b = *pair.b;
    const auto key = list(b, {b.sge(kTo, 64)});
    const std::uint32_t old = key->rkey();
    EXPECT_EQ(access(pair, SendOpcode::kRdmaWrite, old, 64), "1 ok");
    configure(b, *key, {.tag = 0x5a});
    EXPECT_EQ(key->rkey(), old | 0x5a);
    EXPECT_EQ(access(pair, SendOpcode::kRdmaWrite, key->rkey(), 64), "1 ok");
    EXPECT_EQ(access(pair, SendOpcode::kRdmaWrite, old_tag ? old : key->rkey() + 1, 64), kRemoteAccess);
  }
}

// A peer's SEND with Invalidate frees a key that allows it; then it is none, until it is configured again.
TEST_P(NestedKeys, InvalidatedAndUsedAgain) {
  for (const bool again : {true, false}) {
    SCOPED_TRACE(again);
    Pair pair(key_pair_options(GetParam()));
    End &a = *pair.a, &b = *pair.b;
    const auto key = make_key(b, {.remote_invalidate = true});
    const Sge memory = b.sge(kTo, 64);
    configure(b, *key, {.tag = 1, .access = kRemote, .layout = ListLayout{{&memory, 1}}});
    EXPECT_EQ(write(pair, *key, 64), "1 ok");
    b.post_receives(2, 1, 192 * 1024);
    const Sge note = a.sge(kFrom, 16);
    SendWr invalidate = Pair::send(1, {&note, 1});
    invalidate.opcode = SendOpcode::kSendWithInvalidate;
    invalidate.invalidate_rkey = key->rkey();
    a.post(invalidate);
    EXPECT_EQ(text(a.wait_sends(1)), "1 ok");
    EXPECT_EQ(text(b.wait_receives(1)), "2 ok");
    if (again) {
      configure(b, *key, {.tag = 2});
      EXPECT_EQ(write(pair, *key, 64), "1 ok");
    } else {
      EXPECT_EQ(write(pair, *key, 64), kRemoteAccess);
    }
  }
}

// A key that does not allow it, another tag, a region: the message is an error on both sides.
TEST_P(NestedKeys, WhatAPeerMayNotInvalidate) {
  for (const char kind : {'k', 't', 'r'}) {
    SCOPED_TRACE(kind);
    Pair pair(key_pair_options(GetParam()));
    End &a = *pair.a, &b = *pair.b;
    const auto key = make_key(b, {.remote_invalidate = kind != 'k'});
    const Sge memory = b.sge(kTo, 64), note = a.sge(kFrom, 16);
    configure(b, *key, {.access = kRemote, .layout = ListLayout{{&memory, 1}}});
    b.post_receives(2, 1, 192 * 1024);
    SendWr invalidate = Pair::send(1, {&note, 1});
    invalidate.opcode = SendOpcode::kSendWithInvalidate;
    invalidate.invalidate_rkey = kind == 'r' ? b.region->rkey() : key->rkey() + (kind == 't' ? 1 : 0);
    a.post(invalidate);
    EXPECT_NE(text(a.wait_sends(1)), "1 ok");
    EXPECT_NE(text(b.wait_receives(1)), "2 ok");
  }
}

// A UMR of another domain's queue changes nothing.
TEST_P(NestedKeys, OnlyQueuesOfItsDomainChangeAKey) {
  Pair pair(key_pair_options(GetParam()));
  End& a = *pair.a;
  auto pd = must(a.context.alloc_pd());
  const auto key = must(pd->create_mkey({.max_entries = 4}));
  const Sge memory = a.sge(kFrom, 64);
  must(a.qp->configure_mkey(*key, {.layout = ListLayout{{&memory, 1}}}, SendFlag::kSignaled, 1));
  const auto completions = a.wait_sends(1);
  EXPECT_EQ(completions[0].status, CompletionStatus::kMemoryWindowBind) << text(completions);
}

}  // namespace
}  // namespace umlx5::testing
