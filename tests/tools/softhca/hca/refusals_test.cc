// Commands that must be refused, each with its reason; who may touch what; and that what QUERY_HCA_CAP offers is there.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/softhca/hca/hca_rig.h"
#include "tools/softhca/hca/syndrome.h"

namespace softhca::hca {
namespace {

using namespace harness;

struct RefusalsTest : ::testing::Test, ReadyRig {
  // A good mailbox with some words changed.
  static Words with(Words words, const Words& changes) {
    words.insert(words.end(), changes.begin(), changes.end());
    return words;
  }
  void expect(const std::string& what, const Words& words, const std::vector<std::uint64_t>& pages,
              std::uint32_t status, Syndrome reason) {
    EXPECT_EQ(run(0, words, pages), status) << what;
    EXPECT_EQ(syndrome(), static_cast<std::uint32_t>(reason)) << what << ": " << words_of(syndrome());
    EXPECT_FALSE(hca::words(reason).empty()) << what;
  }
  static std::string words_of(std::uint32_t syndrome) { return std::string(hca::words(Syndrome{syndrome})); }

  struct Row {
    const char* what;
    Words changes;
    std::uint32_t status;
    Syndrome reason;
  };
  void expect_all(const Words& good, const std::vector<std::uint64_t>& pages, const std::vector<Row>& rows) {
    ASSERT_EQ(run(0, good, pages), kOk) << "the mailbox that the rows change";
    for (const Row& row : rows) {
      expect(row.what, with(good, row.changes), pages, row.status, row.reason);
    }
  }
};

TEST_F(RefusalsTest, CreateCq) {
  expect_all(cq_words(uar, eqn, 2, record(2)), {address_of(page())},
             {{"size", {{0x1c, 23u << 24 | uar}}, kExceedsLimit, Syndrome::kCqSize},
              {"entry size", {{0x10, 3u << 21}}, kBadParam, Syndrome::kCqeSize},
              {"mini CQE format", {{0x10, 1u << 14 | 2u << 12}}, kBadParam, Syndrome::kCqCompression},
              {"compression layout", {{0x10, 1u << 14 | 2}}, kBadParam, Syndrome::kCqCompression},
              {"collapsed", {{0x10, 1u << 20}}, kBadParam, Syndrome::kCqCollapsed},
              {"APU", {{0x10, 1u << 24}}, kBadParam, Syndrome::kCqApu},
              {"moderation", {{0x20, 16u << 16 | 8}}, kBadParam, Syndrome::kCqModeration},
              {"record in umem", {{0x10, 1u << 25}}, kBadRes, Syndrome::kNoSuchUmem},
              {"buffer in umem", {{0x5c, 1u << 31}}, kBadRes, Syndrome::kNoSuchUmem},
              {"record", {{0x4c, low(record(2)) + 4}}, kBadParam, Syndrome::kDoorbellRecordMisaligned},
              {"UAR", {{0x1c, 2u << 24 | 99}}, kBadRes, Syndrome::kNoSuchUar},
              {"EQ", {{0x24, 63}}, kBadRes, Syndrome::kNoSuchEq},
              {"page size", {{0x28, 20u << 24}}, kBadParam, Syndrome::kPageSize},
              {"more pages", {{0x1c, 7u << 24 | uar}}, kBadInputLength, Syndrome::kPageListTooShort}});
  expect("page address", cq_words(uar, eqn, 2, record(2)), {address_of(cq) + 64}, kBadParam, Syndrome::kPageMisaligned);
}

TEST_F(RefusalsTest, ModifyCq) {
  const std::vector<std::uint64_t> pages = {address_of(page())};
  expect("no such CQ", {{0, 0x0403u << 16}, {8, 0xffff}}, pages, kBadRes, Syndrome::kNoSuchCq);
  expect("op_mod", {{0, 0x0403u << 16}, {4, 2}, {8, cqn}}, pages, kBadParam, Syndrome::kUnknownModifier);
  expect("period", {{0, 0x0403u << 16}, {8, cqn}, {0xc, 1}}, pages, kBadParam, Syndrome::kCqModeration);
  expect("unknown field", {{0, 0x0403u << 16}, {8, cqn}, {0xc, 1u << 7}}, pages, kBadParam, Syndrome::kCqFieldSelect);
  expect("EQ", {{0, 0x0403u << 16}, {8, cqn}, {0xc, 1u << 3}, {0x24, 63}}, pages, kBadRes, Syndrome::kNoSuchEq);
}

TEST_F(RefusalsTest, CreateEq) {
  expect_all(eq_words(uar, 3, 0), {address_of(page())},
             {{"size", {{0x1c, 23u << 24 | uar}}, kExceedsLimit, Syndrome::kEqSize},
              {"vector", {{0x24, 16}}, kBadParam, Syndrome::kEqVector},
              {"UAR", {{0x1c, 3u << 24 | 99}}, kBadRes, Syndrome::kNoSuchUar},
              {"more pages", {{0x1c, 7u << 24 | uar}}, kBadInputLength, Syndrome::kPageListTooShort}});
}

// A data encryption key of 128 bits (encryption_key_obj of rdma-core's mlx5_ifc.h): purpose 3, key size 0.
TEST_F(RefusalsTest, GeneralObjects) {
  const auto dek = [&](const Words& changes) {
    Words words = {{0, 0x0a00u << 16}, {4, 0xc}, {0x18, 3}, {0x1c, pd}, {0x50, 1}, {0x60, 2}, {0x10c, 0}};
    words.insert(words.end(), changes.begin(), changes.end());
    return words;
  };
  const std::size_t bytes = 0x110;
  const auto expect_dek = [&](const char* what, const Words& changes, std::uint32_t status, Syndrome reason) {
    EXPECT_EQ(run(bytes, dek(changes)), status) << what;
    EXPECT_EQ(syndrome(), static_cast<std::uint32_t>(reason)) << what << ": " << words_of(syndrome());
  };
  ASSERT_EQ(run(bytes, dek({})), kOk);
  const std::uint32_t number = get<std::uint32_t>(out, 8);
  EXPECT_EQ(run_on(0x801, pd), kBadResState) << "the PD is in use";
  expect_dek("type", {{4, 0xd}}, kBadParam, Syndrome::kGeneralObjectType);
  expect_dek("purpose", {{0x18, 1}}, kBadParam, Syndrome::kDekKind);
  expect_dek("size", {{0x18, 2u << 8 | 3}}, kBadParam, Syndrome::kDekKind);
  expect_dek("halves", {{0x60, 1}}, kBadParam, Syndrome::kDekHalves);
  expect_dek("PD", {{0x1c, 0xffff}}, kBadRes, Syndrome::kNoSuchPd);
  expect_dek("login", {{4, 0x1f}}, kBadParam, Syndrome::kLoginNotNeeded);
  EXPECT_EQ(run(16, {{0, 0x0a00u << 16}, {4, 0xc}}), kBadInputLength);
  EXPECT_EQ(run(16, {{0, 0x0a02u << 16}, {4, 0xc}, {8, number}}, {}, 0x40), kBadOutputLength);
  EXPECT_EQ(run(16, {{0, 0x0a02u << 16}, {4, 0xc}, {8, number + 100}}), kBadRes);
  EXPECT_EQ(run(16, {{0, 0x0a02u << 16}, {4, 0x1f}, {8, number}}), kBadRes) << "no login";
  EXPECT_EQ(run(16, {{0, 0x0a03u << 16}, {4, 0xc}, {8, number}}), kOk);
  EXPECT_EQ(run(16, {{0, 0x0a03u << 16}, {4, 0xc}, {8, number}}), kBadRes) << "gone";
}

TEST_F(RefusalsTest, CreateMkey) {
  const std::uint64_t start = address_of(page());
  expect_all(mkey_words(pd, start, 4096), {start, 0},
             {{"KSM", {{0x10, 3u << 8}}, kBadParam, Syndrome::kMkeyMode},
              {"by a name never used", {{8, 5}}, kBadIndex, Syndrome::kMkeyByName},
              {"keys, more than declared", {{0x10, 2u << 8}, {0x44, 0}}, kBadParam, Syndrome::kMkeyTranslations},
              {"keys, list ends", {{0x10, 2u << 8}, {0x60, 2}}, kBadInputLength, Syndrome::kPageListTooShort},
              {"umem", {{0xc, 1u << 30}}, kBadRes, Syndrome::kNoSuchUmem},
              {"signature", {{0x1c, 1u << 30 | pd}}, kBadParam, Syndrome::kMkeyBsf},
              {"whole space by pages", {{0x1c, 1u << 31 | pd}}, kBadParam, Syndrome::kMkeyLength},
              {"no length", {{0x2c, 0}}, kBadParam, Syndrome::kMkeyLength},
              {"length", {{0x28, 1u << 16}}, kBadParam, Syndrome::kMkeyLength},
              {"wraps", {{0x20, 0xffffffff}, {0x24, 0xfffff000}, {0x2c, 4097}}, kBadParam, Syndrome::kMkeyAddressWraps},
              {"page size", {{0x48, 11}}, kBadParam, Syndrome::kPageSize},
              {"translations", {{0x44, 0}}, kBadParam, Syndrome::kMkeyTranslations},
              {"too few pages", {{0x2c, 8193}}, kBadParam, Syndrome::kMkeyTooFewPages},
              {"list ends", {{0x44, 2}, {0x60, 2}}, kBadInputLength, Syndrome::kPageListTooShort},
              {"PD", {{0x1c, 0xfff}}, kBadRes, Syndrome::kNoSuchPd}});
}

TEST_F(RefusalsTest, DcTargets) {
  ASSERT_EQ(run(0, srq_words(pd, record(3)), {address_of(page())}), kOk);
  const std::uint32_t srqn = number();
  // dctc at 0x10: cqn 0x18, rights and atomic mode 0x1c, srqn 0x24, pd 0x28, mtu and port 0x38, GID index 0x3c.
  Words dct = {{0, 0x0710u << 16}, {0x18, cqn}, {0x1c, 7u << 17 | 1u << 20},
               {0x24, srqn},       {0x28, pd},  {0x38, 3u << 24 | 1u << 16}};
  const auto refused = [&](const char* what, const Words& change, std::uint32_t status, Syndrome reason) {
    EXPECT_EQ(run(128, with(dct, change)), status) << what;
    EXPECT_EQ(syndrome(), static_cast<std::uint32_t>(reason)) << what;
  };
  refused("MTU", {{0x38, 6u << 24 | 1u << 16}}, kBadParam, Syndrome::kQpMtu);
  refused("port", {{0x38, 3u << 24 | 2u << 16}}, kBadParam, Syndrome::kQpPort);
  refused("P_Key", {{0x38, 3u << 24 | 1u << 16 | 200}}, kBadParam, Syndrome::kQpPkeyIndex);
  refused("atomic mode", {{0x1c, 7u << 17}}, kBadParam, Syndrome::kQpAtomicMode);
  refused("CQ", {{0x18, 0xffff}}, kBadRes, Syndrome::kNoSuchCq);
  refused("SRQ", {{0x24, 0xffff}}, kBadRes, Syndrome::kNoSuchSrq);
  refused("PD", {{0x28, 0xffff}}, kBadRes, Syndrome::kNoSuchPd);
  refused("64 bytes into a CQE of 64", {{0x20, 2u << 16}}, kBadParam, Syndrome::kQpScatterCqe);
  ASSERT_EQ(run(128, dct), kOk);
  const std::uint32_t dctn = number();
  EXPECT_EQ(run_on(0x713, dctn), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x1c), 7u << 17 | 1u << 20) << "QUERY_DCT";
  EXPECT_EQ(run_on(0x50b, dctn), kBadRes) << "QUERY_QP of a DCT";
  EXPECT_EQ(run_on(0x501, dctn), kBadRes) << "DESTROY_QP of a DCT";
  EXPECT_EQ(run_on(0x701, srqn), kBadResState) << "its SRQ";
  EXPECT_EQ(run_on(0x711, dctn), kBadResState) << "not drained";
  EXPECT_EQ(run_on(0x712, dctn), kOk);
  EXPECT_EQ(run_on(0x711, dctn), kOk);
  EXPECT_EQ(run_on(0x701, srqn), kOk);
  EXPECT_EQ(create_qp(0), kOk);
  EXPECT_EQ(run_on(0x713, number()), kBadRes) << "QUERY_DCT of a QP";
}

TEST_F(RefusalsTest, CreateSrq) {
  expect_all(srq_words(pd, record(3)), {address_of(page())},
             {{"container", {{0x14, 1u << 30 | 2u << 24}}, kBadParam, Syndrome::kSrqContainer},
              {"signature", {{0x14, 1u << 31 | 2u << 24}}, kBadParam, Syndrome::kSrqSignature},
              {"stride below", {{0x14, 0}}, kBadParam, Syndrome::kSrqStride},
              {"stride above", {{0x14, 6u << 24}}, kBadParam, Syndrome::kSrqStride},
              {"limit", {{0x2c, 5u << 16}}, kBadParam, Syndrome::kSrqLimit},
              {"record", {{0x3c, low(record(3)) + 2}}, kBadParam, Syndrome::kDoorbellRecordMisaligned},
              {"PD", {{0x28, 0xfff}}, kBadRes, Syndrome::kNoSuchPd},
              {"more pages", {{0x10, 7u << 24}}, kBadInputLength, Syndrome::kPageListTooShort}});
  const std::uint32_t srqn = number();
  EXPECT_EQ(srqn, 0u) << "a refused command gives no number";
  expect("no such SRQ", {{0, 0x0703u << 16}, {4, 1}, {8, 0xffff}}, {0}, kBadRes, Syndrome::kNoSuchSrq);
}

TEST_F(RefusalsTest, CreateQp) {
  expect_all(qp_words(pd, uar, cqn, record(1)), {address_of(queue)},
             {{"MLX", {{0x18, 4u << 16}}, kBadParam, Syndrome::kQpType},
              {"DCI that receives", {{0x18, 5u << 16}}, kBadParam, Syndrome::kQpRqType},
              {"DCI with too many streams",
               {{0x18, 5u << 16}, {0x94, 9u << 24 | cqn}, {0xc4, 3u << 24}},
               kExceedsLimit,
               Syndrome::kDciStreams},
              {"credits by packet on UC", {{0x18, 1u << 16 | 1u << 8}}, kBadParam, Syndrome::kQpCreditMode},
              {"offload", {{0x18, 1u << 4}}, kBadParam, Syndrome::kQpOffload},
              {"extension", {{8, 1u << 31}}, kBadParam, Syndrome::kQpExtension},
              {"by number", {{8, 0x80}}, kBadParam, Syndrome::kQpInputNumber},
              {"ECE", {{0x14, 1}}, kBadParam, Syndrome::kQpEce},
              {"signature", {{0x1c, 1u << 31 | pd}}, kBadParam, Syndrome::kQpSignature},
              {"cross-channel", {{0xa8, 1}}, kBadParam, Syndrome::kQpCrossChannel},
              {"umem", {{0x10c, 1u << 31}}, kBadRes, Syndrome::kNoSuchUmem},
              {"no queue", {{0x20, 1u << 15}, {0xc4, 3u << 24}}, kBadParam, Syndrome::kQpNoQueue},
              {"RQ type", {{0xc4, 5u << 24}}, kBadParam, Syndrome::kQpRqType},
              {"RQ stride", {{0x20, 2u << 19 | 6u << 16 | 4u << 11}}, kExceedsLimit, Syndrome::kQpRqStride},
              {"message", {{0x20, 31u << 24}}, kExceedsLimit, Syndrome::kQpMessageSize},
              {"scatter 64 into 64-byte CQEs", {{0xdc, 0x02}}, kBadParam, Syndrome::kQpScatterCqe},
              {"scatter code", {{0xdc, 0x03}}, kBadParam, Syndrome::kQpScatterCqe},
              {"record", {{0xbc, low(record(1)) + 4}}, kBadParam, Syndrome::kDoorbellRecordMisaligned},
              {"PD", {{0x1c, 0xfff}}, kBadRes, Syndrome::kNoSuchPd},
              {"send CQ", {{0x94, 0xfff}}, kBadRes, Syndrome::kNoSuchCq},
              {"receive CQ", {{0xb4, 0xfff}}, kBadRes, Syndrome::kNoSuchCq},
              {"SRQ", {{0xc4, 1u << 24 | 0xfff}}, kBadRes, Syndrome::kNoSuchSrq},
              {"UAR", {{0x24, 99}}, kBadRes, Syndrome::kNoSuchUar}});
}

TEST_F(RefusalsTest, ModifyQp) {
  ASSERT_EQ(create_qp(0), kOk);
  const std::uint32_t qpn = number();
  const std::vector<std::uint64_t> none = {0};
  expect("no such QP", {{0, 0x0502u << 16}, {8, 0xffff}}, none, kBadRes, Syndrome::kNoSuchQp);
  expect("order", {{0, 0x0504u << 16}, {8, qpn}}, none, kBadQpState, Syndrome::kQpState);
  const Words init = {{0, 0x0502u << 16}, {8, qpn}, {0x54, 1u << 16}};
  expect("port", with(init, {{0x54, 2u << 16}}), none, kBadParam, Syndrome::kQpPort);
  expect("P_Key index", with(init, {{0x30, 128}}), none, kBadParam, Syndrome::kQpPkeyIndex);
  expect("atomics without a mode", with(init, {{0xa8, 1u << 13}}), none, kBadParam, Syndrome::kQpAtomicMode);
  expect("alternate path", with(init, {{0x10, 1}}), none, kBadParam, Syndrome::kQpAlternatePath);
  expect("option", with(init, {{0x10, 1u << 5}}), none, kBadParam, Syndrome::kQpOptionalParameter);
  ASSERT_EQ(to_init(qpn), kOk);
  const Words rtr = {{0, 0x0503u << 16}, {8, qpn}, {0x20, 5u << 29}, {0x2c, 5}, {0x48, 0xffff}, {0x4c, kRigAddress}};
  expect("empty GID", rtr, none, kBadParam, Syndrome::kQpGidIndex);
  ASSERT_EQ(set_gid(), kOk);
  expect("MTU", with(rtr, {{0x20, 6u << 29}}), none, kBadParam, Syndrome::kQpMtu);
  expect("no MTU", with(rtr, {{0x20, 0}}), none, kBadParam, Syndrome::kQpMtu);
  expect("remote GID", with(rtr, {{0x48, 0}}), none, kBadParam, Syndrome::kQpRemoteGid);
  expect("reads", with(rtr, {{0xa8, 5u << 21}}), none, kExceedsLimit, Syndrome::kQpRdAtomic);
  // Nothing of what was refused has stayed.
  ASSERT_EQ(run_on(0x50b, qpn), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x18) >> 28, 1u);
  EXPECT_EQ(get<std::uint32_t>(out, 0x2c) & 0xffffff, 0u);
}

TEST_F(RefusalsTest, GidTable) {
  expect("index", {{0, 0x0761u << 16}, {8, 256u << 16}, {0x1c, 1}, {0x28, 2}}, {0}, kBadIndex,
         Syndrome::kGidTableIndex);
  expect("version 1.5", {{0, 0x0761u << 16}, {0x1c, 1}, {0x28, 1}}, {0}, kBadParam, Syndrome::kGidType);
}

TEST_F(RefusalsTest, NumbersRunOut) {
  Profile small;
  small.log_max_pd = 2;
  HcaRig rig(small);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.run_on(0x800, 0), kOk);
  }
  EXPECT_EQ(rig.run_on(0x800, 0), kNoResources);
  EXPECT_EQ(rig.syndrome(), static_cast<std::uint32_t>(Syndrome::kNoNumberLeft));
  EXPECT_EQ(rig.run_on(0x801, 2), kOk);
  EXPECT_EQ(rig.run_on(0x800, 0), kOk);
  EXPECT_EQ(rig.number(), 2u);
}

// ---- Users ----

TEST_F(RefusalsTest, UsersTouchTheirOwn) {
  ASSERT_EQ(run(0x40, {{0, 0x0a04u << 16}}), kOk);
  const std::uint32_t mine = number();
  ASSERT_EQ(run(0x40, {{0, 0x0a04u << 16}}), kOk);
  const std::uint32_t other = number();
  ASSERT_EQ(run_on(0x800, 0, mine), kOk);
  const std::uint32_t my_pd = number();
  ASSERT_EQ(run_on(0x802, 0, mine), kOk);
  const std::uint32_t my_uar = number();
  ASSERT_EQ(run(0, with(cq_words(my_uar, eqn, 2, record(2)), {{0, 0x0400u << 16 | mine}}), {address_of(page())}), kOk);
  const std::uint32_t my_cq = number();

  const auto refused = static_cast<std::uint32_t>(Syndrome::kNotOwner);
  for (const auto& [opcode, object] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0x801, my_pd}, {0x803, my_uar}, {0x401, my_cq}, {0x402, my_cq}}) {
    EXPECT_EQ(run_on(opcode, object, other), kBadRes) << opcode;
    EXPECT_EQ(syndrome(), refused) << opcode;
  }
  // Nor may an object be built on another's.
  expect("CQ on my UAR", with(cq_words(my_uar, eqn, 2, record(3)), {{0, 0x0400u << 16 | other}}), {address_of(page())},
         kBadRes, Syndrome::kNotOwner);
  expect("key in my PD", with(mkey_words(my_pd, 0x1000, 4096), {{0, 0x0200u << 16 | other}}), {address_of(page()), 0},
         kBadRes, Syndrome::kNotOwner);
  // What is the kernel's.
  expect("EQ", with(eq_words(uar, 3, 0), {{0, 0x0301u << 16 | mine}}), {address_of(page())}, kBadParam,
         Syndrome::kNeedsKernel);
  expect("GID", {{0, 0x0761u << 16 | mine}, {0x1c, 1}, {0x28, 2}}, {0}, kBadParam, Syndrome::kNeedsKernel);
  expect("physical key", with(mkey_words(my_pd, 0, 4096), {{0, 0x0200u << 16 | mine}, {0x10, 0x1fu << 10}}), {0},
         kBadParam, Syndrome::kMkeyPhysicalByUser);
  expect("reserved lkey",
         with(qp_words(my_pd, my_uar, my_cq, record(1)),
              {{0, 0x0500u << 16 | mine}, {0x20, 2u << 19 | 2u << 16 | 4u << 11 | 1u << 4}}),
         {address_of(queue)}, kBadParam, Syndrome::kQpReservedLkey);
  // A user context goes when its objects have.
  EXPECT_EQ(run_on(0xa06, mine), kBadResState);
  EXPECT_EQ(syndrome(), static_cast<std::uint32_t>(Syndrome::kUctxInUse));
  EXPECT_EQ(run_on(0x401, my_cq), kOk) << "the kernel may";
  EXPECT_EQ(run_on(0x801, my_pd, mine), kOk);
  EXPECT_EQ(run_on(0x803, my_uar, mine), kOk);
  EXPECT_EQ(run_on(0xa06, mine), kOk);
  EXPECT_EQ(run_on(0x800, 0, mine), kBadParam);
  EXPECT_EQ(syndrome(), static_cast<std::uint32_t>(Syndrome::kUnknownUser));
}

// ---- Keys ----

TEST_F(RefusalsTest, EachRightOfAKeyAllowsItsAccessOnly) {
  const auto region = page();
  const std::uint64_t start = address_of(region);
  // Bits of the context's first word: lr 10, lw 11, rr 12, rw 13, a 14.
  constexpr std::pair<unsigned, Access> kRights[] = {{10, Access::kLocalRead},
                                                     {11, Access::kLocalWrite},
                                                     {12, Access::kRemoteRead},
                                                     {13, Access::kRemoteWrite},
                                                     {14, Access::kRemoteAtomic}};
  for (const auto& [bit, right] : kRights) {
    ASSERT_EQ(run(0, with(mkey_words(pd, start, 4096), {{0x10, 1u << bit | 1u << 8}}), {start, 0}), kOk);
    const std::uint32_t key = number() << 8 | 0x5a;
    for (const auto& [other_bit, access] : kRights) {
      std::vector<DmaRange> ranges;
      EXPECT_EQ(hca.resolve(key, pd, start, 8, access, ranges),
                bit == other_bit ? MkeyFault::kNone : MkeyFault::kNoRight)
          << bit << ' ' << other_bit;
    }
  }
}

// ---- Capabilities ----

TEST_F(RefusalsTest, WhatIsOfferedIsThere) {
  // Group 0, current values: op_mod 1. Offsets are those of cmd_hca_cap, behind 0x10 bytes.
  ASSERT_EQ(run(16, {{0, 0x0100u << 16}, {4, 1}}, {}, 0x1010), kOk);
  const Bytes cap = out;
  const auto word = [&](std::size_t offset) { return get<std::uint32_t>(cap, 0x10 + offset); };
  // Transports: rc bit 0, uc 1, ud 2 of word 0x44 are QP types 0, 1, 2; xrc is bit 3. dct is bit 5 of 0x40.
  for (const std::uint32_t type : {0u, 1u, 2u}) {
    EXPECT_EQ(word(0x44) >> type & 1, 1u);
    EXPECT_EQ(create_qp(type), kOk) << type;
  }
  EXPECT_EQ(word(0x44) >> 3 & 1, 1u);
  EXPECT_EQ(word(0x40) >> 5 & 1, 1u) << "dct";
  EXPECT_EQ(create_qp(6), kBadParam) << "a DCT has a command of its own";
  EXPECT_EQ(word(0x44) >> 14 & 1, 1u) << "memory windows (imaicl)";
  EXPECT_EQ(word(0x44) >> 24 & 1, 1u) << "memory on demand (pg)";
  // Not there, so not offered: alternate paths (17), key violation counters (qkv 9, pkv 8), CQ moderation (29), rates,
  // WQE signatures.
  EXPECT_EQ(word(0x44) & (1u << 17 | 1u << 9 | 1u << 8 | 1u << 29), 0u);
  EXPECT_EQ(word(0x3c) >> 16, 0u);
  EXPECT_EQ(word(0x40) >> 11 & 1, 0u);
  EXPECT_EQ(word(0xb4) & 0x800b, 0x800bu) << "compression: enhanced, with stride index, of both CQE sizes";
  EXPECT_EQ(word(0xb8), 64u) << "no timeout, sessions of 64";
  // Limits hold: the largest CQ wants more pages than this mailbox has, one beyond is refused for its size.
  const std::uint32_t log_max_cq = word(0x18) >> 16 & 0xff;
  expect("largest CQ", cq_words(uar, eqn, log_max_cq, record(2)), {0}, kBadInputLength, Syndrome::kPageListTooShort);
  expect("larger CQ", cq_words(uar, eqn, log_max_cq + 1, record(2)), {0}, kExceedsLimit, Syndrome::kCqSize);
  // What is asked for and unknown is refused: group 0x7f, and another function's.
  EXPECT_EQ(run(16, {{0, 0x0100u << 16}, {4, 0x7f << 1}}, {}, 0x1010), kBadParam);
  EXPECT_EQ(run(16, {{0, 0x0100u << 16}, {8, 1}}, {}, 0x1010), kBadParam);
  EXPECT_EQ(run(16, {{0, 0x0100u << 16}}, {}, 12), kBadOutputLength);
}

}  // namespace
}  // namespace softhca::hca
