// Registered user memory: CREATE_UMEM and DESTROY_UMEM (mlx5_ifc.h umem, create_umem_in), and objects that lie in it
// (create_cq_in.cq_umem_valid, create_qp_in.wq_umem_valid, dbr_umem_valid of their contexts).
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/tools/softhca/hca/hca_rig.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint32_t kBusy = 6, kReadWrite = 3, kReadOnly = 1;

class UmemTest : public testing::Test, protected ReadyRig {
 protected:
  UmemTest() {
    user = run(64, {{0, 0xa04u << 16}}) == kOk ? number() : 0;
    other_user = run(64, {{0, 0xa04u << 16}}) == kOk ? number() : 0;
  }

  std::uint32_t create(const std::vector<std::span<std::byte>>& pages, std::uint32_t offset = 0,
                       std::uint32_t flags = kReadWrite) {
    const auto count = static_cast<std::uint32_t>(pages.size());
    Bytes in = mailbox(0x30 + pages.size() * 8, {{0, 0xa08u << 16 | user}, {0x24, offset}, {0x2c, count}});
    for (std::size_t i = 0; i < pages.size(); ++i) {
      put<std::uint64_t>(in, 0x30 + i * 8, address_of(pages[i]) | flags);
    }
    return execute(in);
  }
  std::uint32_t made(const std::vector<std::span<std::byte>>& pages, std::uint32_t offset = 0) {
    return create(pages, offset) == kOk ? number() : 0;
  }
  // A CQ of 64 entries of 64 bytes, one page, with its record at an offset of another umem.
  std::uint32_t create_cq(std::uint32_t umem, std::uint32_t offset, std::uint32_t record_umem,
                          std::uint32_t record_offset, std::uint32_t uid = 0) {
    Words words = cq_words(uar, eqn, 6, record_offset);
    words[0] = {0, 0x400u << 16 | uid};
    words[1] = {0x10, 1u << 25};
    words.insert(words.end(), {{0x14, record_umem}, {0x54, offset}, {0x58, umem}, {0x5c, 1u << 31}});
    return run(0x110, words);
  }
  // An RC QP with 4 receive WQEs and 16 WQEBBs: 1280 bytes.
  std::uint32_t create_qp_in(std::uint32_t umem, std::uint32_t offset, std::uint32_t record_umem,
                             std::uint32_t record_offset, std::uint32_t cq_number) {
    Words words = qp_words(pd, uar, cq_number, record_offset);
    words.insert(words.end(),
                 {{0xe8, 1u << 28}, {0xfc, record_umem}, {0x104, offset}, {0x108, umem}, {0x10c, 1u << 31}});
    return run(0x110, words);
  }

  std::uint32_t user = 0, other_user = 0;
};

TEST_F(UmemTest, QueuesLieInIt) {
  // Pages in an order that is not that of their addresses; the queues begin in the second.
  const auto first = page(), second = page(), third = page(), dbr = page();
  const std::uint32_t buffers = made({third, first, second}), record_umem = made({dbr}, 64);
  ASSERT_EQ(create_cq(buffers, 4096, record_umem, 8), kOk);
  const std::uint32_t cq_number = number();
  ASSERT_EQ(create_qp_in(buffers, 8192 + 256, record_umem, 192, cq_number), kOk);
  const std::uint32_t qpn = number();
  ASSERT_EQ(set_gid(), kOk);
  ASSERT_EQ(to_init(qpn), kOk);
  ASSERT_EQ(to_rtr(qpn, qpn), kOk);
  ASSERT_EQ(to_rts(qpn), kOk);
  std::ranges::fill(first, std::byte{0xff});
  const auto wqe = second.subspan(256 + 256, 64);  // behind the receive queue
  put<std::uint32_t>(wqe, 4, qpn << 8 | 1);
  put<std::uint32_t>(wqe, 8, 0x08);
  put<std::uint32_t>(dbr, 64 + 192 + 4, 1);  // the record, from where the umem starts in its page
  hca.ring(uar, 0x800, 0);
  poll_all();
  EXPECT_EQ(first[63], std::byte{0}) << "a completion of a send, the first owner bit";
  EXPECT_EQ(get<std::uint32_t>(first, 56) & 0xffffff, qpn);
  EXPECT_EQ(get<std::uint32_t>(dbr, 64 + 8 + 4), 0xffffffff) << "the CQ's record, marked as never armed";
}

TEST_F(UmemTest, StaysWhileSomethingLiesInIt) {
  const std::uint32_t buffers = made({page()}), record_umem = made({page()});
  ASSERT_EQ(create_cq(buffers, 0, record_umem, 0), kOk);
  const std::uint32_t cq_number = number();
  EXPECT_EQ(run_on(0xa0a, buffers), kBusy);
  EXPECT_EQ(run_on(0xa0a, record_umem), kBusy);
  ASSERT_EQ(run_on(0x401, cq_number), kOk);
  EXPECT_EQ(run_on(0xa0a, buffers), kOk);
  EXPECT_EQ(run_on(0xa0a, record_umem), kOk);
  EXPECT_EQ(run_on(0xa0a, record_umem), kBadRes);
}

TEST_F(UmemTest, ARefusedObjectLeavesItUnused) {
  const std::uint32_t buffers = made({page()}), record_umem = made({page()});
  EXPECT_EQ(create_cq(buffers, 0, record_umem, 4), kBadParam) << "a record is a multiple of 8 bytes";
  EXPECT_EQ(create_cq(buffers, 0, record_umem, 4096), kBadParam) << "a record beyond the end";
  EXPECT_EQ(run_on(0xa0a, buffers), kOk);
}

TEST_F(UmemTest, WhatDoesNotFitIsRefused) {
  const std::uint32_t one_page = made({page()}), record_umem = made({page()}), from_64 = made({page(), page()}, 64);
  EXPECT_EQ(create_cq(one_page, 64, record_umem, 0), kBadParam) << "64 bytes too far";
  EXPECT_EQ(create_cq(from_64, 4096 - 64, record_umem, 0), kOk);
  EXPECT_EQ(create_cq(from_64, 4096, record_umem, 0), kBadParam);
  EXPECT_EQ(create_cq(from_64, 32, record_umem, 0), kBadParam) << "not at a multiple of 64 bytes";
  EXPECT_EQ(create_cq(0, 0, record_umem, 0), kBadRes);
  EXPECT_EQ(create_cq(0xffffff, 0, record_umem, 0), kBadRes);
  EXPECT_EQ(create_cq(one_page, 0, 0xffffff, 0), kBadRes);
  EXPECT_EQ(create_cq(one_page, 0, record_umem, 0, other_user), kBadRes) << "of another user";
  EXPECT_EQ(create_qp_in(one_page, 4096 - 1216, record_umem, 0, cqn), kBadParam);
  EXPECT_EQ(create_qp_in(one_page, 0xfffffff0, record_umem, 0, cqn), kBadParam);
  EXPECT_EQ(create_qp_in(one_page, 0, record_umem, 0xfffffff8, cqn), kBadParam);
  ASSERT_EQ(create({page()}, 0, kReadOnly), kOk);
  EXPECT_EQ(create_cq(number(), 0, record_umem, 0), kBadRes) << "the device could not write it";
}

TEST_F(UmemTest, HasPagesOfAUser) {
  EXPECT_EQ(create({}), kBadParam);
  EXPECT_EQ(create({page()}, 4096), kBadParam);
  EXPECT_EQ(run(0x38, {{0, 0xa08u << 16}, {0x2c, 1}}), kBadParam) << "the kernel's";
  EXPECT_EQ(run(0x38, {{0, 0xa08u << 16 | user}, {0x28, 1}, {0x2c, 1}}), kBadInputLength) << "2^32 pages";
  EXPECT_EQ(run(0x38, {{0, 0xa08u << 16 | user}, {0x20, 31}, {0x2c, 1}}), kBadParam) << "pages of 2^43 bytes";
}

// Receives of several queue pairs, in memory that the device only reads: a list, or a ring (rmpc.wq.wq_type).
TEST_F(UmemTest, ReceivesNeedNotBeWritable) {
  ASSERT_EQ(create({page(), page()}, 0, kReadOnly), kOk);
  const std::uint32_t umem = number();
  const auto create_rmp = [&](std::uint32_t wq_type) {
    return run(0x110, {{0, 0x90cu << 16},
                       {0x20, 1u << 20},
                       {0x50, wq_type << 28},
                       {0x58, pd},
                       {0x64, 4096},
                       {0x70, 6u << 16 | 2},
                       {0x74, 3u << 30},
                       {0x78, umem},
                       {0x7c, umem}});
  };
  for (const std::uint32_t wq_type : {0u, 1u}) {
    ASSERT_EQ(create_rmp(wq_type), kOk);
    const std::uint32_t rmpn = number();
    EXPECT_EQ(run_on(0xa0a, umem), kBusy);
    ASSERT_EQ(run_on(0x90f, rmpn), kOk);
    EXPECT_EQ(get<std::uint32_t>(out, 0x50) >> 28, wq_type);
    EXPECT_EQ(run_on(0x90e, rmpn), kOk);
  }
  EXPECT_EQ(create_rmp(2), kBadParam) << "striding";
  EXPECT_EQ(run_on(0xa0a, umem), kOk);
}

// A memory key whose pages are a part of a umem (create_mkey_in.mkey_umem_valid).
TEST_F(UmemTest, KeysLieInIt) {
  const std::uint32_t umem = made({page(), page()});
  const auto create_key = [&](std::uint64_t start, std::uint32_t bytes, std::uint32_t offset) {
    Words words = mkey_words(pd, start, bytes);
    words.insert(words.end(), {{0xc, 1u << 30}, {0x64, umem}, {0x6c, offset}});
    return run(0x110, words);
  };
  ASSERT_EQ(create_key(0x1000, 8192, 0), kOk);
  const std::uint32_t key = number();
  EXPECT_EQ(run_on(0xa0a, umem), kBusy);
  EXPECT_EQ(create_key(0x1000, 8193, 0), kBadParam);
  EXPECT_EQ(create_key(0x1000, 4096, 8192), kBadParam);
  EXPECT_EQ(create_key(0x1010, 4096, 0), kBadParam) << "not the same place in a page";
  EXPECT_EQ(create_key(0x1010, 4096, 16), kOk);
  EXPECT_EQ(run_on(0x202, number()), kOk);
  EXPECT_EQ(run_on(0x202, key), kOk);
  EXPECT_EQ(run_on(0xa0a, umem), kOk);
}

}  // namespace
}  // namespace softhca::hca
