// Posting: the bytes of WQEs, records and registers, wrapping, accounting, and what is refused.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "driver/qp.h"
#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using testing::big32;
using testing::big64;
using testing::ConnectedQp;

constexpr std::size_t kBlock = 64;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

// `count` bytes of the ring from block `block` on, unwrapped.
std::vector<std::byte> ring_bytes(const ConnectedQp& c, std::uint32_t block, std::size_t count) {
  const std::size_t size = c.qp->send_queue().config().wqebbs * kBlock;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.push_back(c.ring()[(block * kBlock + i) % size]);
  }
  return bytes;
}

const Sge kSge{.address = 0x1122334455667788, .length_bytes = 0x1000, .lkey = 0xaabbccdd};

TEST(PostSend, RdmaWriteBytes) {
  ConnectedQp c;
  const PostResult result = c.post(SendWr{.wr_id = 1,
                                          .opcode = SendOpcode::kRdmaWrite,
                                          .flags = SendFlag::kSignaled,
                                          .sges = {&kSge, 1},
                                          .remote_address = 0x0102030405060708,
                                          .rkey = 0x99887766});
  EXPECT_EQ(result.posted, 1u);
  EXPECT_EQ(result.error, 0);
  // ctrl {opmod 0, index 0, RDMA_WRITE; QPN 0x1234, DS 3; CE 0x08}, raddr, data pointer.
  EXPECT_EQ(ring_bytes(c, 0, 48),
            bytes_of({0, 0, 0,    0x08, 0,    0x12, 0x34, 3,    0,    0,    0,    0x08, 0,    0,    0,    0,
                      1, 2, 3,    4,    5,    6,    7,    8,    0x99, 0x88, 0x77, 0x66, 0,    0,    0,    0,
                      0, 0, 0x10, 0,    0xaa, 0xbb, 0xcc, 0xdd, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}));
  EXPECT_EQ(c.send_record(), 1u);
  EXPECT_EQ(c.receive_record(), 0u);
}

// The public header's inline helpers write the same.
TEST(PostSend, SameBytesAsMlx5dvHelpers) {
  struct Case {
    SendOpcode opcode;
    std::uint8_t mlx5_opcode;
    bool raddr, atomic, imm, invalidate;
  };
  const Case cases[] = {
      {SendOpcode::kSend, MLX5_OPCODE_SEND, false, false, false, false},
      {SendOpcode::kSendWithImm, MLX5_OPCODE_SEND_IMM, false, false, true, false},
      {SendOpcode::kSendWithInvalidate, MLX5_OPCODE_SEND_INVAL, false, false, false, true},
      {SendOpcode::kRdmaWrite, MLX5_OPCODE_RDMA_WRITE, true, false, false, false},
      {SendOpcode::kRdmaWriteWithImm, MLX5_OPCODE_RDMA_WRITE_IMM, true, false, true, false},
      {SendOpcode::kRdmaRead, MLX5_OPCODE_RDMA_READ, true, false, false, false},
      {SendOpcode::kCompareSwap, MLX5_OPCODE_ATOMIC_CS, true, true, false, false},
      {SendOpcode::kFetchAdd, MLX5_OPCODE_ATOMIC_FA, true, true, false, false},
  };
  ConnectedQp c;
  std::uint16_t index = 0;
  for (const Case& test : cases) {
    for (const std::uint32_t flags : {0u, 1u, 2u, 4u, 7u}) {
      SendWr request{.opcode = test.opcode,
                     .flags = SendFlags::from_bits(flags),
                     .sges = {&kSge, 1},
                     .immediate_big_endian = htobe32(0x11223344),
                     .invalidate_rkey = 0xaabbcc01,
                     .remote_address = 0x7f0000001000,
                     .rkey = 0x700,
                     .compare_add = 0x1111111122222222,
                     .swap = 0x3333333344444444};
      ASSERT_TRUE(c.post(request));
      alignas(64) std::byte expected[64] = {};
      const std::uint8_t fm_ce_se = (flags & 1 ? MLX5_WQE_CTRL_FENCE : 0) | (flags & 2 ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
                                    (flags & 4 ? MLX5_WQE_CTRL_SOLICITED : 0);
      const std::uint8_t ds = 2 + test.raddr + test.atomic;
      const std::uint32_t imm = test.imm ? htobe32(0x11223344) : test.invalidate ? htobe32(0xaabbcc01) : 0;
      mlx5dv_set_ctrl_seg(reinterpret_cast<mlx5_wqe_ctrl_seg*>(expected), index, test.mlx5_opcode, 0, 0x1234, fm_ce_se,
                          ds, 0, imm);
      std::byte* at = expected + 16;
      if (test.raddr) {
        auto* raddr = reinterpret_cast<mlx5_wqe_raddr_seg*>(at);
        raddr->raddr = htobe64(request.remote_address);
        raddr->rkey = htobe32(request.rkey);
        at += 16;
      }
      if (test.atomic) {
        auto* atomic = reinterpret_cast<mlx5_wqe_atomic_seg*>(at);
        const bool swaps = test.opcode == SendOpcode::kCompareSwap;
        atomic->swap_add = htobe64(swaps ? request.swap : request.compare_add);
        atomic->compare = swaps ? htobe64(request.compare_add) : 0;
        at += 16;
      }
      // An atomic says 8 bytes, whatever its entry says.
      mlx5dv_set_data_seg(reinterpret_cast<mlx5_wqe_data_seg*>(at), test.atomic ? 8 : kSge.length_bytes, kSge.lkey,
                          kSge.address);
      EXPECT_EQ(std::memcmp(c.ring() + index * kBlock, expected, ds * 16), 0)
          << to_string(test.opcode) << " flags " << flags;
      ++index;
    }
  }
}

TEST(PostSend, SignalAll) {
  QpOptions options = ConnectedQp::default_options();
  options.signal_all = true;
  ConnectedQp c(options);
  ASSERT_TRUE(c.post(SendWr{}));
  EXPECT_EQ(c.ring()[11], std::byte{0x08});
}

TEST(PostSend, EntriesOfNoBytesAreLeftOut) {
  QpOptions options = ConnectedQp::default_options();
  options.capacity.max_send_sge = 4;
  ConnectedQp c(options);
  const Sge sges[] = {{1, 0, 1}, {0x10, 2, 0x20}, {3, 0, 3}, {0x30, 4, 0x40}};
  ASSERT_TRUE(c.post(SendWr{.sges = sges}));
  EXPECT_EQ(big32(c.ring() + 4) & 0xff, 3u);
  EXPECT_EQ(big32(c.ring() + 16), 2u);
  EXPECT_EQ(big32(c.ring() + 20), 0x20u);
  EXPECT_EQ(big32(c.ring() + 32), 4u);
  EXPECT_EQ(big64(c.ring() + 40), 0x30u);
  const Sge none[] = {{1, 0, 1}};
  ASSERT_TRUE(c.post(SendWr{.sges = none}));
  const std::uint32_t second = 1;
  EXPECT_EQ(big32(c.ring() + second * kBlock + 4) & 0xff, 1u);  // the control segment alone
}

TEST(PostSend, TwoGibibytesAreOneEntryAndMoreIsRefused) {
  ConnectedQp c;
  const Sge largest{.address = 1, .length_bytes = 0x80000000, .lkey = 2};
  const Sge too_large{.address = 1, .length_bytes = 0x80000001, .lkey = 2};
  ASSERT_TRUE(c.post(SendWr{.sges = {&largest, 1}}));
  EXPECT_EQ(big32(c.ring() + 16), 0u);
  EXPECT_EQ(c.post(SendWr{.sges = {&too_large, 1}}).error, EINVAL);
  EXPECT_NE(c.qp->explain_refusal(SendWr{.sges = {&too_large, 1}}).find("31 bits"), std::string::npos);
}

// A WQE of each length, inline and by pointers, starting at every block: the same bytes as at the ring's beginning,
// turned round the ring's end.
TEST(PostSend, WrapsFromEveryBlock) {
  QpOptions options = ConnectedQp::default_options();
  options.capacity = {.max_send_wr = 8, .max_send_sge = 16, .max_inline_bytes = 268};
  std::vector<std::byte> data(268);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * 7 + 1);
  }
  for (const bool inlined : {false, true}) {
    for (const std::size_t amount : {1, 2, 3, 6, 7, 10, 14, 15, 16}) {
      std::vector<std::byte> reference;
      for (std::uint32_t start = 0; start < 64; ++start) {
        ConnectedQp c(options);
        const std::uint32_t blocks = c.qp->send_queue().config().wqebbs;
        ASSERT_EQ(blocks, 64u);
        // One-block requests, each completed, bring the queue to `start`.
        for (std::uint32_t i = 0; i < start; ++i) {
          ASSERT_TRUE(c.post(SendWr{.flags = SendFlag::kSignaled}));
          c.writer->write(c.entry(0, static_cast<std::uint16_t>(i)));
          ASSERT_EQ(c.poll().size(), 1u);
        }
        std::vector<Sge> sges;
        for (std::size_t i = 0; i < amount; ++i) {
          const std::size_t bytes = inlined ? 268 / 16 : 100 + i;
          sges.push_back({.address = inlined ? reinterpret_cast<std::uint64_t>(data.data() + i * bytes) : 0x1000 + i,
                          .length_bytes = static_cast<std::uint32_t>(bytes),
                          .lkey = static_cast<std::uint32_t>(i + 1)});
        }
        const PostResult result = c.post(SendWr{.opcode = SendOpcode::kRdmaWrite,
                                                .flags = inlined ? SendFlag::kInline : SendFlag::kFence,
                                                .sges = sges,
                                                .remote_address = 0x77,
                                                .rkey = 0x88});
        ASSERT_TRUE(result) << c.qp->explain_refusal(SendWr{.sges = sges});
        const std::size_t wqe_bytes = (big32(c.ring() + start * kBlock + 4) & 0x3f) * 16;
        std::size_t payload = wqe_bytes;
        if (inlined) {
          ASSERT_EQ(wqe_bytes, 32 + (4 + amount * 16 + 15) / 16 * 16);
          payload = 32 + 4 + amount * 16;  // what follows is padding
        } else {
          ASSERT_EQ(wqe_bytes, 32 + amount * 16);
        }
        std::vector<std::byte> image = ring_bytes(c, start, payload);
        EXPECT_EQ(image[1], std::byte{0});
        EXPECT_EQ(image[2], static_cast<std::byte>(start));  // the WQE's index
        image[2] = std::byte{0};
        if (start == 0) {
          reference = image;
          if (inlined) {
            EXPECT_EQ(big32(image.data() + 32), 0x80000000u | amount * 16);
            EXPECT_EQ(std::memcmp(image.data() + 36, data.data(), amount * 16), 0);
          }
        } else {
          ASSERT_EQ(image, reference) << "start " << start << " amount " << amount << " inline " << inlined;
        }
        EXPECT_EQ(c.send_record(), start + (wqe_bytes + 63) / 64);
      }
    }
  }
}

TEST(PostSend, InlineOfNothingWritesNoSegment) {
  ConnectedQp c;
  ASSERT_TRUE(c.post(SendWr{.flags = SendFlag::kInline}));
  EXPECT_EQ(big32(c.ring() + 4) & 0x3f, 1u);
}

TEST(PostSend, InlineLimits) {
  ConnectedQp c;
  ASSERT_EQ(c.qp->capacity().max_inline_bytes, 12u);  // 64 less 48 for an atomic, less the inline header
  std::array<std::byte, 64> data{};
  Sge sge{.address = reinterpret_cast<std::uint64_t>(data.data()), .length_bytes = 12};
  EXPECT_TRUE(c.post(SendWr{.flags = SendFlag::kInline, .sges = {&sge, 1}}));
  sge.length_bytes = 13;
  EXPECT_EQ(c.post(SendWr{.flags = SendFlag::kInline, .sges = {&sge, 1}}).error, EINVAL);
  sge.length_bytes = 0xffffffff;
  EXPECT_EQ(c.post(SendWr{.flags = SendFlag::kInline, .sges = {&sge, 1}}).error, EINVAL);
  sge.length_bytes = 8;
  for (const SendOpcode opcode : {SendOpcode::kRdmaRead, SendOpcode::kCompareSwap, SendOpcode::kFetchAdd}) {
    EXPECT_EQ(c.post(SendWr{.opcode = opcode, .flags = SendFlag::kInline, .sges = {&sge, 1}}).error, EINVAL);
  }
  EXPECT_EQ(c.send_record(), 1u);
}

TEST(PostSend, ListStopsAtTheBadRequest) {
  ConnectedQp c;
  const Sge two[] = {kSge, kSge};
  const SendWr requests[] = {{.wr_id = 1, .sges = {&kSge, 1}}, {.wr_id = 2, .sges = two}, {.wr_id = 3}};
  const PostResult result = c.qp->post_send(requests);
  EXPECT_EQ(result.posted, 1u);
  EXPECT_EQ(result.error, EINVAL);
  EXPECT_EQ(c.send_record(), 1u);
  EXPECT_EQ(c.qp->explain_refusal(requests[1]), "QP 0x1234: 2 SGEs; at most 1 (max_send_sge of the QP)");
  EXPECT_EQ(c.qp->explain_refusal(requests[2]), "");
}

TEST(PostSend, OperationsThatWereNotAskedForAreRefused) {
  QpOptions options = ConnectedQp::default_options();
  options.send_operations = 4;  // SEND
  options.capacity.max_send_sge = 3;
  ConnectedQp c(options);
  const Sge three[] = {kSge, kSge, kSge};
  EXPECT_TRUE(c.post(SendWr{.sges = three}));
  EXPECT_EQ(c.post(SendWr{.opcode = SendOpcode::kRdmaWrite, .sges = three}).error, EINVAL);
  EXPECT_NE(c.qp->explain_refusal(SendWr{.opcode = SendOpcode::kRdmaWrite}).find("RDMA_WRITE is not among"),
            std::string::npos);
  EXPECT_EQ(c.post(SendWr{.opcode = static_cast<SendOpcode>(99)}).error, EINVAL);
}

// Exactly max_send_wr requests fit; a completion gives back what it covers, unsignalled ones before it included.
TEST(PostSend, FullAndEmpty) {
  ConnectedQp c;
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(c.post(SendWr{.wr_id = static_cast<std::uint64_t>(i),
                              .flags = i % 7 == 6 ? SendFlags(SendFlag::kSignaled) : SendFlags()}));
  }
  const std::vector<std::byte> full = ring_bytes(c, 0, 64 * kBlock);
  EXPECT_EQ(c.post(SendWr{}).error, ENOMEM);
  EXPECT_EQ(ring_bytes(c, 0, 64 * kBlock), full);  // the oldest WQE is as it was
  EXPECT_NE(c.qp->explain_refusal(SendWr{}).find("queue is full: 64 requests"), std::string::npos);
  c.writer->write(c.entry(0, 6));
  const auto completions = c.poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 6u);
  std::array<SendWr, 10> more{};
  const PostResult result = c.qp->post_send(more);
  EXPECT_EQ(result.posted, 7u);
  EXPECT_EQ(result.error, ENOMEM);
}

// WQEs of one to four blocks, every seventh signalled, till the 16-bit index has wrapped three times.
TEST(PostSend, IndexWrapsAndBlocksAddUp) {
  QpOptions options = ConnectedQp::default_options();
  options.capacity = {.max_send_wr = 16, .max_send_sge = 13};
  ConnectedQp c(options);
  ASSERT_EQ(c.qp->send_queue().config().wqebbs, 64u);
  ASSERT_EQ(c.qp->capacity().max_send_wr, 16u);
  const std::vector<Sge> sges(13, kSge);
  std::uint32_t seed = 1, blocks = 0, outstanding = 0;
  while (blocks < 3 * 65536 + 100) {
    seed = seed * 1664525 + 1013904223;
    const std::size_t count = seed >> 28 < 13 ? seed >> 28 : 13;
    const bool signaled = ++outstanding == 7;
    const std::uint32_t start = blocks;
    ASSERT_TRUE(c.post(SendWr{.wr_id = start,
                              .flags = signaled ? SendFlags(SendFlag::kSignaled) : SendFlags(),
                              .sges = {sges.data(), count}}));
    ASSERT_EQ(big32(c.ring() + start % 64 * kBlock), (start & 0xffff) << 8 | 0x0a);
    blocks += static_cast<std::uint32_t>((1 + count + 3) / 4);
    ASSERT_EQ(c.send_record(), blocks & 0xffff);
    if (signaled) {
      c.writer->write(c.entry(0, static_cast<std::uint16_t>(start)));
      const auto completions = c.poll();
      ASSERT_EQ(completions.size(), 1u);
      ASSERT_EQ(completions[0].wr_id, start);
      ASSERT_EQ(c.qp->send_queue().outstanding_requests(), 0u);
      outstanding = 0;
    }
  }
}

TEST(PostSend, StatesThatTakeRequests) {
  ConnectedQp c;
  ASSERT_TRUE(c.qp->to_reset());
  EXPECT_EQ(c.post(SendWr{}).error, EINVAL);
  EXPECT_EQ(c.post(RecvWr{}).error, EINVAL);
  EXPECT_EQ(c.qp->explain_refusal(SendWr{}),
            "QP 0x1234 is in RESET; requests to send are taken in RTS, SQD, SQE and ERR");
  ASSERT_TRUE(c.qp->to_init({}));
  EXPECT_EQ(c.post(SendWr{}).error, EINVAL);
  EXPECT_TRUE(c.post(RecvWr{}));
  ASSERT_TRUE(c.qp->to_rtr({}));
  EXPECT_EQ(c.post(SendWr{}).error, EINVAL);
  ASSERT_TRUE(c.qp->to_rts({}));
  EXPECT_TRUE(c.post(SendWr{}));
  ASSERT_TRUE(c.qp->to_sqd());
  EXPECT_TRUE(c.post(SendWr{}));
  ASSERT_TRUE(c.qp->to_rts({}));
  EXPECT_EQ(c.kernel.modifications.back().attr_mask, 1u);  // the state alone
  ASSERT_TRUE(c.qp->to_error());
  EXPECT_TRUE(c.post(SendWr{}));
  EXPECT_TRUE(c.post(RecvWr{}));
  EXPECT_EQ(c.send_record(), 3u);
  EXPECT_EQ(c.receive_record(), 2u);
  ASSERT_TRUE(c.qp->to_reset());
  EXPECT_EQ(c.send_record(), 0u);
  EXPECT_EQ(c.receive_record(), 0u);
  EXPECT_EQ(c.post(SendWr{}).error, EINVAL);
  c.connect();
  ASSERT_TRUE(c.post(SendWr{}));
  EXPECT_EQ(big32(c.ring()), 0x0au);  // indices begin anew
}

TEST(PostSend, BlueFlameForOneRequestAndADoorbellForMore) {
  QpOptions options = ConnectedQp::default_options();
  options.capacity = {.max_send_wr = 16, .max_send_sge = 20};
  ConnectedQp c(options);
  const std::vector<Sge> sges(20, kSge);
  // One block: copied whole to the register's first half.
  ASSERT_TRUE(c.post(SendWr{.sges = {sges.data(), 2}}));
  EXPECT_EQ(std::memcmp(c.uar() + 0x800, c.ring(), 64), 0);
  EXPECT_EQ(big64(c.uar() + 0x900), 0u);
  // Two blocks: the other half's turn.
  ASSERT_TRUE(c.post(SendWr{.sges = {sges.data(), 4}}));
  EXPECT_EQ(std::memcmp(c.uar() + 0x900, c.ring() + 64, 128), 0);
  // 21 octowords do not fit a half: the first 8 bytes only.
  ASSERT_TRUE(c.post(SendWr{.sges = sges}));
  EXPECT_EQ(std::memcmp(c.uar() + 0x800, c.ring() + 3 * 64, 8), 0);
  EXPECT_EQ(std::memcmp(c.uar() + 0x808, c.ring() + 8, 56), 0);  // still the first WQE's
  // Two requests: one doorbell, of the last.
  const SendWr two[] = {{}, {}};
  ASSERT_TRUE(c.qp->post_send(two));
  EXPECT_EQ(std::memcmp(c.uar() + 0x900, c.ring() + 10 * 64, 8), 0);
  EXPECT_EQ(big32(c.uar() + 0x900), 10u << 8 | 0x0a);
  EXPECT_EQ(c.send_record(), 11u);
}

// Every byte and register as of post_send() with the same addresses: two queue pairs of the same kind side by side.
TEST(PostTemplate, SameBytesAsTheRequestItself) {
  for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kSendWithImm, SendOpcode::kRdmaWrite,
                                  SendOpcode::kRdmaWriteWithImm, SendOpcode::kRdmaRead}) {
    ConnectedQp c, expected;
    SendWr request{.opcode = opcode,
                   .flags = SendFlags(SendFlag::kSignaled) | SendFlag::kFence,
                   .sges = {&kSge, 1},
                   .immediate_big_endian = 0x01020304,
                   .remote_address = 0x5000,
                   .rkey = 0x99887766};
    const auto made = c.qp->make_template(request);
    ASSERT_TRUE(made) << made.error().message();
    const std::uint32_t blocks = c.qp->send_queue().config().wqebbs;
    for (std::uint32_t i = 0; i < 3 * blocks; ++i) {
      const std::uint64_t address = 0x700000000000u + i * 0x100u;
      const Sge sge{.address = address, .length_bytes = kSge.length_bytes, .lkey = kSge.lkey};
      const TemplateWr wr{.wr_id = i, .address = address, .remote_address = 0x8000000000u + i};
      request.wr_id = i;
      request.sges = {&sge, 1};
      request.remote_address = wr.remote_address;
      ASSERT_EQ(c.qp->post_send(*made, {&wr, 1}), 1u);
      ASSERT_TRUE(expected.post(request));
      ASSERT_EQ(ring_bytes(c, i, 64), ring_bytes(expected, i, 64)) << to_string(opcode) << " " << i;
      ASSERT_EQ(c.send_record(), expected.send_record());
      for (ConnectedQp* each : {&c, &expected}) {
        each->writer->write(each->entry(0, static_cast<std::uint16_t>(i)));
        const auto completions = each->poll();
        ASSERT_EQ(completions.size(), 1u);
        EXPECT_EQ(completions[0].wr_id, i);
        EXPECT_EQ(completions[0].opcode, opcode == SendOpcode::kRdmaRead ? CompletionOpcode::kRdmaRead
                                         : opcode == SendOpcode::kSend || opcode == SendOpcode::kSendWithImm
                                             ? CompletionOpcode::kSend
                                             : CompletionOpcode::kRdmaWrite);
      }
    }
  }
}

TEST(PostTemplate, ListStopsWhereTheQueueIsFull) {
  ConnectedQp c;
  const auto made = c.qp->make_template({.opcode = SendOpcode::kRdmaWrite, .sges = {&kSge, 1}});
  ASSERT_TRUE(made) << made.error().message();
  const std::uint32_t room = c.qp->send_queue().config().max_requests;
  const std::vector<TemplateWr> list(room + 3);
  EXPECT_EQ(c.qp->post_send(*made, list), std::size_t{room});
  EXPECT_EQ(c.qp->post_send(*made, {list.data(), 1}), 0u);
}

// mlx5_wqe_ctrl_seg.fm_ce_se: FM 1 (initiator small fence) in bits 7:5 behind a UMR, and only once.
TEST(PostTemplate, WaitsForAKeyThatChanges) {
  QpOptions options = ConnectedQp::default_options();
  options.send_operations = ConnectedQp::kAllPosted | (1u << static_cast<unsigned>(SendOpcode::kLocalInvalidate));
  ConnectedQp c(options);
  const auto made = c.qp->make_template({.opcode = SendOpcode::kRdmaWrite, .sges = {&kSge, 1}});
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_TRUE(c.post(SendWr{.opcode = SendOpcode::kLocalInvalidate, .invalidate_rkey = 0x100}));
  const std::uint32_t first = c.qp->send_queue().next_wqebb();
  const std::array<TemplateWr, 2> two{};
  ASSERT_EQ(c.qp->post_send(*made, two), 2u);
  EXPECT_EQ(ring_bytes(c, first, 12)[11], std::byte{0x20});
  EXPECT_EQ(ring_bytes(c, first + 1, 12)[11], std::byte{0});
}

TEST(PostTemplate, RefusalsInWords) {
  ConnectedQp c;
  const std::vector<Sge> two(2, kSge);
  for (const SendWr& request : {SendWr{.sges = two}, SendWr{}, SendWr{.flags = SendFlag::kInline, .sges = {&kSge, 1}},
                                SendWr{.opcode = SendOpcode::kFetchAdd, .sges = {&kSge, 1}}}) {
    const auto made = c.qp->make_template(request);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().errno_value, EINVAL);
    EXPECT_NE(made.error().message().find("a template is a SEND"), std::string::npos);
  }
}

TEST(PostSend, SharedRegisterTakesDoorbellsOnly) {
  testing::FakeKernel kernel;
  kernel.ucontext.bf_reg_size = 0;
  const auto context = testing::open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 3});
  auto qp = *pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get(), .capacity = {.max_send_wr = 8}});
  ASSERT_TRUE(qp->connect({}, 0, {}));
  EXPECT_EQ(kernel.create_qp.bfreg_index, testing::FakeKernel::kFirstPageId);
  const std::byte* uar = kernel.uars[0];
  for (int i = 0; i < 3; ++i) {
    const SendWr request;
    ASSERT_TRUE(qp->post_send({&request, 1}));
    EXPECT_EQ(big32(uar + 0x800), static_cast<std::uint32_t>(i) << 8 | 0x0a);
    EXPECT_EQ(big64(uar + 0x808), 0u);
    EXPECT_EQ(big64(uar + 0x900), 0u);
  }
}

TEST(PostRecv, BytesTerminatorAndRecord) {
  ConnectedQp c;
  const Sge sges[] = {{0x1000, 0, 9}, {0x2000, 0x30, 0x40}};
  EXPECT_EQ(c.receive_record(), 0u);
  ASSERT_TRUE(c.post(RecvWr{.wr_id = 1, .sges = sges}));
  const std::byte* wqe = c.receive_ring();
  EXPECT_EQ(big32(wqe), 0x30u);
  EXPECT_EQ(big32(wqe + 4), 0x40u);
  EXPECT_EQ(big64(wqe + 8), 0x2000u);
  EXPECT_EQ(big32(wqe + 16), 0u);
  EXPECT_EQ(big32(wqe + 20), 0x100u);  // MLX5_INVALID_LKEY
  EXPECT_EQ(big64(wqe + 24), 0u);
  const Sge three[] = {kSge, kSge, kSge};
  EXPECT_EQ(c.post(RecvWr{.sges = three}).error, EINVAL);
  const RecvWr list[] = {{}, {}, {}};
  ASSERT_TRUE(c.qp->post_recv(list));
  EXPECT_EQ(c.receive_record(), 4u);
  EXPECT_EQ(big32(wqe + 32 + 4), 0x100u);  // an empty list is a terminator
  EXPECT_EQ(c.send_record(), 0u);
}

TEST(PostRecv, FullAndCounterWrap) {
  ConnectedQp c;
  for (std::uint32_t i = 0; i < 65536 + 40; ++i) {
    ASSERT_TRUE(c.post(RecvWr{.wr_id = i}));
    ASSERT_EQ(c.receive_record(), (i + 1) & 0xffff);
    if (i >= 15) {  // all 16 outstanding
      ASSERT_EQ(c.post(RecvWr{}).error, ENOMEM);
      c.writer->write(c.entry(2, static_cast<std::uint16_t>(i - 15)));
      const auto completions = c.poll();
      ASSERT_EQ(completions.size(), 1u);
      ASSERT_EQ(completions[0].wr_id, i - 15);
    }
  }
}

TEST(QpState, MasksAndAttributesOfAConnection) {
  ConnectedQp c;
  ASSERT_EQ(c.kernel.modifications.size(), 3u);
  const auto& [init, rtr, rts] = reinterpret_cast<const ib_uverbs_modify_qp(&)[3]>(*c.kernel.modifications.data());
  EXPECT_EQ(init.attr_mask, unsigned{IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS});
  EXPECT_EQ(init.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(rtr.attr_mask, unsigned{IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER});
  EXPECT_EQ(rtr.dest_qp_num, 0x4321u);
  EXPECT_EQ(rtr.rq_psn, 5u);
  EXPECT_EQ(rtr.dest.is_global, 1);
  EXPECT_EQ(rtr.dest.hop_limit, 64);
  EXPECT_EQ(rts.attr_mask, unsigned{IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC});
  EXPECT_EQ(rts.sq_psn, 7u);
  c.kernel.reported_qp_state = IBV_QPS_ERR;
  EXPECT_EQ(c.qp->query_state().value(), QpState::kErr);
  EXPECT_EQ(c.qp->state(), QpState::kRts);
}

TEST(QpState, BadTransitionsAndAttributesInWords) {
  ConnectedQp c;
  EXPECT_EQ(c.qp->to_rtr({}).error().what, "QP 0x1234 is in RTS; RTR can be reached from INIT only");
  ASSERT_TRUE(c.qp->to_reset());
  EXPECT_EQ(c.qp->to_rts({}).error().errno_value, EINVAL);
  EXPECT_EQ(c.qp->to_sqd().error().errno_value, EINVAL);
  ASSERT_TRUE(c.qp->to_init({}));
  EXPECT_EQ(c.qp->to_rtr({.receive_psn = 0x1000000}).error().what,
            "QP 0x1234: receive_psn 16777216 is too large; at most 16777215 (width of the field)");
  EXPECT_EQ(c.qp->to_rtr({.min_rnr_timer = 32}).error().errno_value, EINVAL);
  ASSERT_TRUE(c.qp->to_rtr({}));
  EXPECT_EQ(c.qp->to_rts({.retry_count = 8}).error().errno_value, EINVAL);
  EXPECT_EQ(c.qp->state(), QpState::kRtr);
}

}  // namespace
}  // namespace umlx5
