// Posting in steps: the same bytes as whole requests, roll-back, refusals; and what only some queues post: memory
// windows, WQE signatures, WQEs made elsewhere, datagrams, XRC.
#include "driver/send_builder.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using testing::big32;
using testing::big64;
using testing::ConnectedQp;

constexpr std::size_t kBlock = 64;
constexpr std::uint32_t kQpn = 0x1234;  // the fake kernel's first

const Sge kSge{.address = 0x1122334455667788, .length_bytes = 0x1000, .lkey = 0xaabbccdd};

// All operations, WQEs of four blocks, a ring of 16 blocks.
QpOptions wide_options() { return {.capacity = {.max_send_wr = 4, .max_send_sge = 4, .max_inline_bytes = 60}}; }

std::vector<std::byte> ring_bytes(const ConnectedQp& c, std::uint32_t block, std::size_t count) {
  const std::size_t size = c.qp->send_queue().config().wqebbs * kBlock;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.push_back(c.ring()[(block * kBlock + i) % size]);
  }
  return bytes;
}

// Brings the queue to a position by requests of one block, each completed.
void advance(ConnectedQp& c, std::uint32_t blocks) {
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const auto at = static_cast<std::uint16_t>(c.qp->send_queue().next_wqebb());
    ASSERT_TRUE(c.post(SendWr{.flags = SendFlag::kSignaled}));
    c.writer->write(c.entry(0, at));
    ASSERT_EQ(c.poll().size(), 1u);
  }
}

TEST(SendBuilder, SameBytesAsWholeRequestsFromEveryBlock) {
  std::array<std::byte, 60> data;
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i + 1);
  }
  const Sge inline_sge{.address = reinterpret_cast<std::uint64_t>(data.data()), .length_bytes = 60};
  for (std::uint32_t start = 0; start < 16; ++start) {
    ConnectedQp whole(wide_options()), steps(wide_options());
    advance(whole, start);
    advance(steps, start);
    const std::array<Sge, 3> sges{kSge, Sge{}, kSge};
    const SendWr requests[] = {
        {.wr_id = 1, .opcode = SendOpcode::kLocalInvalidate, .invalidate_rkey = 0x99},
        {.wr_id = 2, .opcode = SendOpcode::kRdmaWrite, .sges = sges, .remote_address = 0x77, .rkey = 0x88},
        {.wr_id = 3,
         .opcode = SendOpcode::kSendWithImm,
         .flags = SendFlag::kInline,
         .sges = {&inline_sge, 1},
         .immediate_big_endian = 0x44332211}};
    ASSERT_TRUE(whole.qp->post_send(requests));
    SendBuilder builder(&steps.qp->send_queue());
    builder.start();
    builder.change_window(SendOpcode::kLocalInvalidate, {}, 0x99, 1, {});
    builder.begin<SendTransport::kConnected, SendOpcode::kRdmaWrite>(
        {.id = 2, .remote_address_value = 0x77, .rkey_value = 0x88});
    builder.set_sges(sges);
    builder.begin<SendTransport::kConnected, SendOpcode::kSendWithImm>(
        {.id = 3, .send_flags = SendFlag::kInline, .immediate_or_rkey = 0x44332211});
    const InlinePiece pieces[] = {{data.data(), 20}, {data.data() + 20, 40}};
    builder.set_inline(pieces);
    ASSERT_EQ(builder.complete(), Refusal::kNone);
    EXPECT_EQ(ring_bytes(steps, start, 5 * kBlock), ring_bytes(whole, start, 5 * kBlock)) << start;
    EXPECT_EQ(steps.send_record(), start + 5);
    EXPECT_EQ(whole.send_record(), start + 5);
    // The request after the invalidation waits for it: initiator small fence.
    EXPECT_EQ(ring_bytes(steps, start + 2, 12)[11], std::byte{0x20});
    EXPECT_EQ(ring_bytes(steps, start + 3, 12)[11], std::byte{0});
  }
}

TEST(SendBuilder, AfterARefusedStepNothingIsWritten) {
  ConnectedQp c(wide_options());
  SendBuilder builder(&c.qp->send_queue());
  builder.start();
  builder.begin<SendTransport::kConnected, SendOpcode::kRdmaWrite>({.id = 1});
  const std::vector<Sge> five(5, kSge);
  builder.set_sges(five);
  const auto before = ring_bytes(c, 0, 16 * kBlock);
  builder.set_sges({&kSge, 1});
  builder.begin<SendTransport::kConnected, SendOpcode::kSend>({.id = 2});
  builder.set_sges({&kSge, 1});
  const std::array<std::byte, 64> wqe{};
  builder.raw(wqe.data(), 3);
  EXPECT_EQ(ring_bytes(c, 0, 16 * kBlock), before);
  EXPECT_EQ(builder.complete(), Refusal::kSges);
  EXPECT_EQ(c.send_record(), 0u);
  EXPECT_EQ(c.qp->send_queue().outstanding_requests(), 0u);
}

TEST(SendBuilder, FullAbortedAndUnusable) {
  ConnectedQp c(wide_options());
  SendBuilder builder(&c.qp->send_queue());
  builder.start();
  for (int i = 0; i < 5; ++i) {  // one more than the queue holds
    builder.begin<SendTransport::kConnected, SendOpcode::kSend>({});
  }
  EXPECT_EQ(builder.complete(), Refusal::kFull);
  builder.start();
  builder.change_window(SendOpcode::kLocalInvalidate, {}, 0, 0, {});
  builder.abort();
  EXPECT_EQ(c.send_record(), 0u);
  // The fence that the aborted request asked for is gone with it.
  ASSERT_TRUE(c.post(SendWr{}));
  EXPECT_EQ(ring_bytes(c, 0, 12)[11], std::byte{0});
  ASSERT_TRUE(c.qp->to_reset());
  builder.start();
  builder.begin<SendTransport::kConnected, SendOpcode::kSend>({});
  EXPECT_EQ(builder.complete(), Refusal::kState);
  builder.start();
  EXPECT_EQ(builder.complete(), Refusal::kNone);  // nothing was asked
}

// The same by frames, of one block each.
void advance_frames(ConnectedQp& c, std::uint32_t blocks, std::span<const Sge> sges) {
  for (std::uint32_t i = 0; i < blocks; ++i) {
    ASSERT_TRUE(c.post(SendWr{.flags = SendFlag::kSignaled, .sges = sges}));
    c.writer->write(c.entry(0, static_cast<std::uint16_t>(i)));
    ASSERT_EQ(c.poll().size(), 1u);
  }
}

TEST(SendBuilder, RawWqeIsCopiedButForItsIndex) {
  for (const std::uint32_t start : {0u, 14u, 15u}) {
    ConnectedQp c(wide_options());
    advance(c, start);
    std::array<std::byte, 192> wqe;
    for (std::size_t i = 0; i < wqe.size(); ++i) {
      wqe[i] = static_cast<std::byte>(i);
    }
    wqe[7] = std::byte{12};  // DS
    SendBuilder builder(&c.qp->send_queue());
    builder.start();
    builder.raw(wqe.data(), 42);
    builder.set_sges({&kSge, 1});  // it is whole already
    ASSERT_EQ(builder.complete(), Refusal::kNone);
    auto image = ring_bytes(c, start, wqe.size());
    EXPECT_EQ(image[2], static_cast<std::byte>(start));
    wqe[1] = std::byte{0};
    wqe[2] = static_cast<std::byte>(start);
    EXPECT_EQ(std::memcmp(image.data(), wqe.data(), wqe.size()), 0);
    EXPECT_EQ(c.send_record(), start + 3);
    c.writer->write(c.entry(0, static_cast<std::uint16_t>(start)));
    const auto completions = c.poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].wr_id, 42u);
    EXPECT_EQ(completions[0].opcode, CompletionOpcode::kRawWqe);
    // The slot's next request is not taken for a raw one.
    advance(c, 13);
    EXPECT_TRUE(c.post(SendWr{.wr_id = 43, .flags = SendFlag::kSignaled}));
    c.writer->write(c.entry(0, static_cast<std::uint16_t>(start + 16)));
    EXPECT_EQ(c.poll().at(0).opcode, CompletionOpcode::kSend);
  }
}

TEST(SendBuilder, RawWqeOfAnImpossibleLength) {
  ConnectedQp c(wide_options());
  std::array<std::byte, 1024> wqe{};
  for (const int octowords : {0, 17, 63}) {
    wqe[7] = static_cast<std::byte>(octowords);
    SendBuilder builder(&c.qp->send_queue());
    builder.start();
    builder.raw(wqe.data(), 1);
    EXPECT_EQ(builder.complete(), Refusal::kRawLength) << octowords;
  }
}

// Layout: mlx5dv.h struct mlx5_wqe_eth_seg. The device wants to see 18 bytes of a frame in its WQE.
TEST(Frame, WholeAndInStepsFromEveryBlock) {
  std::array<std::uint8_t, 64> frame;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    frame[i] = static_cast<std::uint8_t>(0x40 + i);
  }
  const auto address = reinterpret_cast<std::uint64_t>(frame.data());
  // The first ends within what is inlined.
  const std::array sges{Sge{.address = address, .length_bytes = 10, .lkey = 0x0a0b0c0d},
                        Sge{.address = address + 10, .length_bytes = 20, .lkey = 0x1a1b1c1d},
                        Sge{.address = address + 30, .length_bytes = 34, .lkey = 0x2a2b2c2d}};
  for (std::uint32_t start = 0; start < 8; ++start) {
    const QpOptions options{.type = QpType::kRawPacket, .capacity = {.max_send_wr = 4, .max_send_sge = 4}};
    ConnectedQp whole(options), steps(options);
    ASSERT_EQ(whole.qp->send_queue().config().wqebbs, 8u);
    advance_frames(whole, start, {&sges[2], 1});
    advance_frames(steps, start, {&sges[2], 1});
    ASSERT_TRUE(whole.post(SendWr{.wr_id = 7, .flags = SendFlag::kSignaled, .sges = sges}));
    SendBuilder builder(&steps.qp->send_queue());
    builder.start();
    builder.begin_frame({.wr_id = 7, .flags = SendFlag::kSignaled});
    builder.put_frame(sges, false);
    ASSERT_EQ(builder.complete(), Refusal::kNone);

    const auto image = ring_bytes(whole, start, 80);
    EXPECT_EQ(ring_bytes(steps, start, 80), image) << start;
    EXPECT_EQ(big32(image.data()), start << 8 | 0x0a);
    EXPECT_EQ(big32(image.data() + 4), kQpn << 8 | 5);  // control, two of Ethernet, two of data
    EXPECT_EQ(big32(image.data() + 8), 0x08u);
    EXPECT_EQ(big32(image.data() + 12), 0u);
    EXPECT_EQ(big64(image.data() + 16), 0u);
    EXPECT_EQ(big32(image.data() + 24), 0u);
    EXPECT_EQ(big32(image.data() + 28) >> 16, 18u);
    EXPECT_EQ(std::memcmp(image.data() + 30, frame.data(), 18), 0);
    EXPECT_EQ(big32(image.data() + 48), 12u);  // of the second, behind what is inlined
    EXPECT_EQ(big32(image.data() + 52), 0x1a1b1c1du);
    EXPECT_EQ(big64(image.data() + 56), address + 18);
    EXPECT_EQ(big32(image.data() + 64), 34u);
    EXPECT_EQ(big32(image.data() + 68), 0x2a2b2c2du);
    EXPECT_EQ(big64(image.data() + 72), address + 30);
    EXPECT_EQ(whole.send_record(), start + 2);
    EXPECT_EQ(steps.send_record(), start + 2);
  }
}

// Layout: mlx5dv.h struct mlx5_wqe_umr_ctrl_seg, mlx5_wqe_mkey_context_seg, mlx5_wqe_umr_klm_seg.
TEST(MemoryWindow, BindFromEveryBlock) {
  for (std::uint32_t start = 0; start < 16; ++start) {
    ConnectedQp c(wide_options());
    advance(c, start);
    ASSERT_TRUE(c.post(SendWr{.wr_id = 7,
                              .opcode = SendOpcode::kBindMemoryWindow,
                              .window = {.old_rkey = 0x11223344,
                                         .new_rkey = 0x11223345,
                                         .lkey = 0x55667788,
                                         .address = 0x0102030405060708,
                                         .length_bytes = 4096,
                                         .access = Access::kRemoteRead | Access::kRemoteWrite}}));
    const auto image = ring_bytes(c, start, 192);
    EXPECT_EQ(big32(image.data()), start << 8 | 0x25);
    EXPECT_EQ(big32(image.data() + 4), kQpn << 8 | 12);
    EXPECT_EQ(big32(image.data() + 12), 0x11223344u);
    EXPECT_EQ(image[16], std::byte{0xb0});          // INLINE, CHECK_FREE, TRANSLATION_OFFSET
    EXPECT_EQ(big32(image.data() + 20), 4u << 16);  // klm_octowords
    EXPECT_EQ(big64(image.data() + 24), 0x203c6041u);
    EXPECT_EQ(big32(image.data() + 64), 0x3000u);  // remote read, remote write
    EXPECT_EQ(big32(image.data() + 68), kQpn << 8 | 0x45);
    EXPECT_EQ(big64(image.data() + 80), 0x0102030405060708u);
    EXPECT_EQ(big64(image.data() + 88), 4096u);
    EXPECT_EQ(big32(image.data() + 128), 4096u);
    EXPECT_EQ(big32(image.data() + 132), 0x55667788u);
    EXPECT_EQ(big64(image.data() + 136), 0x0102030405060708u);
    EXPECT_EQ(c.send_record(), start + 3);
    c.writer->write(c.entry(0, static_cast<std::uint16_t>(start)));
    EXPECT_EQ(c.poll().at(0).opcode, CompletionOpcode::kBindMemoryWindow);
  }
}

TEST(MemoryWindow, InvalidateAndTooLong) {
  ConnectedQp c(wide_options());
  ASSERT_TRUE(c.post(SendWr{.opcode = SendOpcode::kLocalInvalidate, .invalidate_rkey = 0x1122}));
  const auto image = ring_bytes(c, 0, 128);
  EXPECT_EQ(big32(image.data() + 4), kQpn << 8 | 8);
  EXPECT_EQ(big32(image.data() + 12), 0x1122u);
  EXPECT_EQ(image[16], std::byte{0x98});  // INLINE, TRANSLATION_OFFSET, CHECK_QPN
  EXPECT_EQ(big64(image.data() + 24), 0x20006000u);
  EXPECT_EQ(image[64], std::byte{0x40});  // free
  c.writer->write(c.entry(0, 0));
  const auto completions = c.poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].opcode, CompletionOpcode::kLocalInvalidate);
  const SendWr too_long{.opcode = SendOpcode::kBindMemoryWindow, .window = {.length_bytes = 0x80000001}};
  EXPECT_EQ(c.post(too_long).refusal, Refusal::kWindow);
  EXPECT_NE(c.qp->explain_refusal(too_long).find("2147483649 bytes; at most 2147483648"), std::string::npos);
}

// Layout: mlx5dv.h struct mlx5_wqe_ctrl_seg, mlx5_wqe_av (key, dqp_dct with the extended bit), mlx5_wqe_raddr_seg,
// mlx5_wqe_atomic_seg, mlx5_wqe_data_seg; the operation begins the WQE's second block.
TEST(Dc, WholeAndInStepsFromEveryBlock) {
  QpOptions options = wide_options();
  options.type = QpType::kDriver;
  options.dc_type = DcType::kDci;
  WireAddressVector to{};
  to[47] = std::byte{0x99};  // the GID's last byte
  const Sge sge{.address = kSge.address, .length_bytes = 8, .lkey = kSge.lkey};
  for (std::uint32_t start = 0; start < 32; ++start) {
    ConnectedQp whole(options), steps(options);
    ASSERT_EQ(whole.qp->send_queue().config().wqebbs, 32u);
    const SendWr request{.wr_id = 7,
                         .opcode = SendOpcode::kCompareSwap,
                         .flags = SendFlag::kSignaled,
                         .sges = {&sge, 1},
                         .remote_address = 0x0102030405060708,
                         .rkey = 0x55667788,
                         .compare_add = 0x1111,
                         .swap = 0x2222,
                         .destination = &to,
                         .remote_qpn = 0xabcdef,
                         .dc_access_key = 0x1122334455667788,
                         .dci_stream = 0x0304};
    for (ConnectedQp* const c : {&whole, &steps}) {
      for (std::uint32_t i = 0; i < start; ++i) {
        ASSERT_TRUE(c->post(SendWr{.flags = SendFlag::kSignaled, .destination = &to}));
        c->writer->write(c->entry(0, static_cast<std::uint16_t>(i)));
        ASSERT_EQ(c->poll().size(), 1u);
      }
    }
    ASSERT_TRUE(whole.post(request));
    SendBuilder builder(&steps.qp->send_queue());
    builder.start();
    builder.begin<SendTransport::kDc, SendOpcode::kCompareSwap>({.id = 7,
                                                                 .send_flags = SendFlag::kSignaled,
                                                                 .remote_address_value = 0x0102030405060708,
                                                                 .rkey_value = 0x55667788,
                                                                 .compare_add_value = 0x1111,
                                                                 .swap_value = 0x2222});
    builder.set_sges({&sge, 1});
    builder.set_dc_destination(to, 0xabcdef, 0x1122334455667788, 0x0304);
    ASSERT_EQ(builder.complete(), Refusal::kNone);
    const auto image = ring_bytes(whole, start, 112);
    EXPECT_EQ(ring_bytes(steps, start, 112), image) << start;
    EXPECT_EQ(big32(image.data()), start << 8 | 0x11);
    EXPECT_EQ(big32(image.data() + 4), kQpn << 8 | 7);
    EXPECT_EQ(big32(image.data() + 8), 0x00030408u);  // stream, completion
    EXPECT_EQ(big64(image.data() + 16), 0x1122334455667788u);
    EXPECT_EQ(big32(image.data() + 24), 0x80abcdefu);
    EXPECT_EQ(image[63], std::byte{0x99});
    EXPECT_EQ(big64(image.data() + 64), 0x0102030405060708u);
    EXPECT_EQ(big32(image.data() + 72), 0x55667788u);
    EXPECT_EQ(big64(image.data() + 80), 0x2222u);
    EXPECT_EQ(big64(image.data() + 88), 0x1111u);
    EXPECT_EQ(big32(image.data() + 96), 8u);
    EXPECT_EQ(big64(image.data() + 104), kSge.address);
    EXPECT_EQ(whole.send_record(), start + 2);
    EXPECT_EQ(steps.send_record(), start + 2);
  }
}

TEST(Dc, WithoutADestination) {
  QpOptions options = wide_options();
  options.type = QpType::kDriver;
  options.dc_type = DcType::kDci;
  ConnectedQp c(options);
  EXPECT_EQ(c.post(SendWr{}).refusal, Refusal::kNoDestination);
  EXPECT_NE(c.qp->explain_refusal(SendWr{}).find("without a destination"), std::string::npos);
  // What changes a memory key goes nowhere.
  EXPECT_TRUE(c.post(SendWr{.opcode = SendOpcode::kLocalInvalidate, .invalidate_rkey = 0x99}));
}

// What the device returned of an atomic may lie in the CQE; its place is behind the header, over the ring's end.
TEST(Dc, DataInACqeGoesWhereTheRequestWantsIt) {
  QpOptions options = wide_options();
  options.type = QpType::kDriver;
  options.dc_type = DcType::kDci;
  const WireAddressVector to{};
  std::array<std::byte, 8> result{};
  const Sge sge{.address = reinterpret_cast<std::uint64_t>(result.data()), .length_bytes = 8, .lkey = 1};
  ConnectedQp c(options);
  for (std::uint16_t i = 0; i < 31; ++i) {
    ASSERT_TRUE(c.post(SendWr{.flags = SendFlag::kSignaled, .destination = &to}));
    c.writer->write(c.entry(0, i));
    ASSERT_EQ(c.poll().size(), 1u);
  }
  ASSERT_TRUE(c.post(
      SendWr{.opcode = SendOpcode::kFetchAdd, .flags = SendFlag::kSignaled, .sges = {&sge, 1}, .destination = &to}));
  auto entry = c.entry(0, 31);
  entry.send_opcode = 0x12;
  entry.byte_count = 8;
  entry.format = 1;
  const std::array<std::byte, 8> data{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                      std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}};
  c.writer->write(entry, data);
  const auto completions = c.poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(result, data);
}

TEST(Signature, AllBytesOfAWqeAddUpToOnes) {
  QpOptions options = wide_options();
  options.wqe_signature = true;
  for (const std::uint32_t start : {0u, 15u}) {
    ConnectedQp c(options);
    advance(c, start);
    const std::array<Sge, 4> sges{kSge, kSge, kSge, kSge};
    ASSERT_TRUE(c.post(SendWr{.opcode = SendOpcode::kRdmaWrite, .sges = sges, .remote_address = 3, .rkey = 5}));
    std::byte sum{0};
    for (const std::byte byte : ring_bytes(c, start, 6 * 16)) {
      sum ^= byte;
    }
    EXPECT_EQ(sum, std::byte{0xff}) << start;
  }
}

}  // namespace
}  // namespace umlx5
