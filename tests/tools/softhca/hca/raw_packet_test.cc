// Queues of raw packets from commands to completions: mailboxes, WQEs and CQEs written and read by hand.
//
// Positions: sqc, rqc, tisc, tirc, rqtc, flow table commands of <linux/mlx5/mlx5_ifc.h>; mlx5_wqe_eth_seg and
// mlx5_cqe64 of mlx5dv.h and <linux/mlx5/device.h>. Frames are scapy 2.5's.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/softhca/hca/hca_rig.h"
#include "tests/wqe/bytes.h"

namespace softhca::hca {
namespace {

using namespace harness;
using umlx5::wqe::testing_bytes::hex;
using umlx5::wqe::testing_bytes::unhex;

// To this device itself (127.0.0.2), from 66.9.149.187:2794 to 161.142.100.80:1766.
constexpr std::string_view kFrame =
    "02007f00 00020200 7f000002 08004500 00211234 00004011 8af54209 95bba18e 64500aea 06e6000d e6996162 636465";
constexpr std::size_t kFrameBytes = 47;
constexpr std::string_view kTagged =
    "01505619 20a7248a 07a528c8 8100bc0c 86dd6b90 00000017 06093ffe 25010200 1fff0000 00000000 00073ffe 25010200 "
    "00030000 00000000 00010aea 06e61122 33440000 00055018 006478a8 00007879 7a";
constexpr std::size_t kTaggedBytes = 81;

constexpr std::uint32_t kReset = 0, kReady = 1, kError = 3;

// A send queue of 4 WQEBBs and receive queues of 4 WQEs of 16 bytes, with doorbell records of their own.
class RawRig : public ReadyRig {
 public:
  RawRig() {
    domain = number_if(run_on(0x816, 0));
    tis = number_if(run(192, {{0, 0x0912u << 16}, {0x44, domain}}));
    sqn = number_if(create_sq());
    rqn = number_if(create_rq(rq_buffer, 2));
    tir = number_if(create_tir(rqn));
    key = number_if(run(0, mkey_words(pd, address_of(data), 4096), {address_of(data), 0})) << 8 | 0x5a;
  }

  std::span<std::byte> sq_buffer = page(), rq_buffer = page(), data = page();
  std::uint32_t domain = 0, tis = 0, sqn = 0, rqn = 0, tir = 0, key = 0;
  std::uint16_t sent_wqebbs = 0;

  std::uint32_t number_if(std::uint32_t status) const { return status == kOk ? number() : 0; }

  std::uint32_t create_sq(const Words& extra = {}) {
    const std::uint64_t record_address = record(1);
    Words words = {{0, 0x0904u << 16},  {0x24, 0x0a0b0c},  // user index
                   {0x28, cqn},         {0x40, 1u << 16},  // one TIS
                   {0x4c, tis},         {0x50, 1u << 28},  // cyclic
                   {0x58, pd},          {0x5c, uar},      {0x60, high(record_address)}, {0x64, low(record_address)},
                   {0x70, 6u << 16 | 2}};
    words.insert(words.end(), extra.begin(), extra.end());
    return run(0, words, {address_of(sq_buffer)});
  }
  std::uint32_t create_rq(std::span<std::byte> buffer, unsigned record_index, const Words& extra = {}) {
    Words words = {{0, 0x0908u << 16},
                   {0x20, 1u << 28},  // VLAN tags stay
                   {0x24, 0x010203},
                   {0x28, cqn},
                   {0x50, 1u << 28},
                   {0x58, pd},
                   {0x60, high(record(record_index))},
                   {0x64, low(record(record_index))},
                   {0x70, 4u << 16 | 2}};
    words.insert(words.end(), extra.begin(), extra.end());
    return run(0, words, {address_of(buffer)});
  }
  std::uint32_t create_tir(std::uint32_t direct_rqn, const Words& extra = {}) {
    Words words = {{0, 0x0900u << 16}, {0x3c, direct_rqn}, {0x44, 3u << 24 | domain}};  // own frames are received
    words.insert(words.end(), extra.begin(), extra.end());
    return run(272, words);
  }
  std::uint32_t modify(std::uint32_t opcode, std::uint32_t queue, std::uint32_t from, std::uint32_t to,
                       const Words& extra = {}) {
    Words words = {{0, opcode << 16}, {8, from << 28 | queue}, {0x20, to << 20}};
    words.insert(words.end(), extra.begin(), extra.end());
    return run(272, words);
  }
  bool ready() { return modify(0x905, sqn, kReset, kReady) == kOk && modify(0x909, rqn, kReset, kReady) == kOk; }

  // A table whose entry 0 gives every frame to `tirs`, as the root.
  std::uint32_t root_table(const std::vector<std::uint32_t>& tirs) {
    const std::uint32_t table = number_if(run(64, {{0, 0x0930u << 16}, {0x18, 2}}));
    const std::uint32_t group = number_if(run(1024, {{0, 0x0933u << 16}, {0x14, table}, {0x24, 3}}));
    Words words = {{0, 0x0936u << 16}, {0x14, table}, {0x44, group},
                   {0x48, 0x00123456}, {0x4c, 4},     {0x50, static_cast<std::uint32_t>(tirs.size())}};
    for (std::size_t i = 0; i < tirs.size(); ++i) {
      words.emplace_back(0x340 + i * 8, 2u << 24 | tirs[i]);
    }
    const bool made = run(0x340 + tirs.size() * 8, words) == kOk && run(64, {{0, 0x092fu << 16}, {0x14, table}}) == kOk;
    return made ? table : 0;
  }

  void post_receive(std::span<std::byte> buffer, unsigned record_index, unsigned index, std::uint32_t bytes,
                    std::uint32_t offset) {
    const auto wqe = buffer.subspan(index % 4 * 16, 16);
    put<std::uint32_t>(wqe, 0, bytes);
    put<std::uint32_t>(wqe, 4, key);
    put<std::uint64_t>(wqe, 8, address_of(data) + offset);
    put<std::uint32_t>(records, record_index * 64, index + 1);
  }

  // SEND of [0, bytes) of the data, without inlined header; `flags_mss` is the Ethernet segment's word at 4.
  void post_send(std::uint32_t bytes, std::uint32_t flags_mss = 0, std::uint32_t insert = 0) {
    const auto wqe = sq_buffer.subspan(sent_wqebbs % 4 * 64, 64);
    put<std::uint32_t>(wqe, 0, std::uint32_t{sent_wqebbs} << 8 | 0x0a);
    put<std::uint32_t>(wqe, 4, sqn << 8 | 3);
    put<std::uint32_t>(wqe, 8, 0x08);
    put<std::uint32_t>(wqe, 12, 0);
    put<std::uint32_t>(wqe, 16, 0);
    put<std::uint32_t>(wqe, 20, flags_mss);
    put<std::uint32_t>(wqe, 24, 0);
    put<std::uint32_t>(wqe, 28, insert);
    put<std::uint32_t>(wqe, 32, bytes);
    put<std::uint32_t>(wqe, 36, key);
    put<std::uint64_t>(wqe, 40, address_of(data));
    ring(1);
  }
  void ring(std::uint16_t wqebbs) {
    sent_wqebbs = static_cast<std::uint16_t>(sent_wqebbs + wqebbs);
    put<std::uint32_t>(records, 64 + 4, sent_wqebbs);
    hca.ring(uar, 0x800, 1);
    poll_all();
  }
  void fill_data(std::string_view text) {
    const auto bytes = unhex(text);
    std::copy(bytes.begin(), bytes.end(), data.begin());
  }
  std::span<std::byte> cqe(unsigned index) { return cq.subspan(index * 64, 64); }
  std::string opcode_of(unsigned index) { return hex(cqe(index), 63, 1); }
};

TEST(RawPacket, AFrameArrivesAsItIsWithADocumentedCqe) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  ASSERT_NE(rig.root_table({rig.tir}), 0u);
  rig.fill_data(kFrame);
  rig.post_receive(rig.rq_buffer, 2, 0, 100, 1024);
  rig.post_send(kFrameBytes);
  EXPECT_EQ(hex(rig.data, 1024, kFrameBytes), kFrame);
  // Send: opcode 0 with the SQN and SEND; user index of the queue.
  EXPECT_EQ(hex(rig.cqe(0), 32, 4), "000a0b0c");
  EXPECT_EQ(get<std::uint32_t>(rig.cqe(0), 56), 0x0au << 24 | rig.sqn);
  EXPECT_EQ(rig.opcode_of(0), "00");
  // Receive: L2, L3 and L4 are right, IPv4 (2 << 2), UDP (2 << 4); flow tag in the QPN's place; length; opcode 2.
  EXPECT_EQ(hex(rig.cqe(1), 28, 4), "07280000");
  EXPECT_EQ(hex(rig.cqe(1), 32, 4), "00010203");
  EXPECT_EQ(get<std::uint32_t>(rig.cqe(1), 44), kFrameBytes);
  EXPECT_EQ(get<std::uint32_t>(rig.cqe(1), 56), 0x00123456u);
  EXPECT_EQ(hex(rig.cqe(1), 60, 2), "0000");
  EXPECT_EQ(rig.opcode_of(1), "20");
}

TEST(RawPacket, WireFormIsTheDocumentedOne) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  rig.wire.keep_log = true;
  rig.fill_data(kFrame);
  rig.data[5] = std::byte{3};  // to 127.0.0.3
  rig.post_send(kFrameBytes);
  ASSERT_EQ(rig.wire.log.size(), 1u);
  EXPECT_EQ(rig.port.last_route.destination.value, 0x7f000003u);
  // BTH: transport 7, SEND_ONLY, MigReq, one pad byte; the transport domain; the frame; the padding.
  EXPECT_EQ(hex(rig.wire.log[0], 0, 16), "e450ffff 00000000 00000000 0000" + hex(rig.wire.log[0], 14, 2));
  EXPECT_EQ(get<std::uint32_t>(rig.wire.log[0], 12), rig.domain);
  EXPECT_EQ(hex(rig.wire.log[0], 16, 6), "02007f00 0003");
  EXPECT_EQ(rig.wire.log[0].size(), 16 + kFrameBytes + 1);
}

TEST(RawPacket, WithoutARuleNothingArrives) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  rig.fill_data(kFrame);
  rig.post_receive(rig.rq_buffer, 2, 0, 100, 1024);
  rig.post_send(kFrameBytes);
  EXPECT_EQ(rig.opcode_of(0), "00");
  EXPECT_EQ(rig.opcode_of(1), "00") << "untouched memory of the test";
  EXPECT_EQ(hex(rig.data, 1024, 4), "00000000");
}

TEST(RawPacket, ChecksumsAreTheDevicesIfAsked) {
  for (const std::uint32_t asked : {0x00u, 0x40u, 0x80u, 0xc0u}) {
    RawRig rig;
    ASSERT_TRUE(rig.ready());
    ASSERT_NE(rig.root_table({rig.tir}), 0u);
    rig.fill_data(kFrame);
    put<std::uint16_t>(rig.data, 24, 0x1111);
    put<std::uint16_t>(rig.data, 40, 0x2222);
    rig.post_receive(rig.rq_buffer, 2, 0, 100, 1024);
    rig.post_send(kFrameBytes, asked << 24);
    EXPECT_EQ(hex(rig.data, 1024 + 24, 2), (asked & 0x40) != 0 ? "8af5" : "1111");
    EXPECT_EQ(hex(rig.data, 1024 + 40, 2), (asked & 0x80) != 0 ? "e699" : "2222");
    const unsigned right = 1u | ((asked & 0x40) != 0 ? 2u : 0u) | ((asked & 0x80) != 0 ? 4u : 0u);
    EXPECT_EQ(std::to_integer<unsigned>(rig.cqe(1)[28]), right);
  }
}

TEST(RawPacket, LargeSendsLeaveInPieces) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  rig.wire.keep_log = true;
  // A WQE of two WQEBBs: control, 54 bytes of header inlined from 14 on in the Ethernet segment, 20 bytes of data.
  const auto header = unhex(
      "02007f00 00030200 7f000002 08004500 0000ffff 00004006 00000101 01010202 020204d2 162effff fff80000 00075099 "
      "02000000 0000");
  const auto wqe = rig.sq_buffer;
  put<std::uint32_t>(wqe, 0, 0x0e);
  put<std::uint32_t>(wqe, 4, rig.sqn << 8 | 7);
  put<std::uint32_t>(wqe, 8, 0x08);
  put<std::uint32_t>(wqe, 20, 0xc0000008);
  put<std::uint16_t>(wqe, 28, 54);
  std::copy(header.begin(), header.end(), wqe.begin() + 30);
  put<std::uint32_t>(wqe, 96, 20);
  put<std::uint32_t>(wqe, 100, rig.key);
  put<std::uint64_t>(wqe, 104, address_of(rig.data));
  for (unsigned i = 0; i < 20; ++i) {
    rig.data[i] = static_cast<std::byte>(i);
  }
  rig.ring(2);
  ASSERT_EQ(rig.wire.log.size(), 3u);
  EXPECT_EQ(hex(rig.wire.log[1], 16, 62),
            "02007f00 00030200 7f000002 08004500 00300000 00004006 74c30101 01010202 020204d2 162e0000 00000000 "
            "00075010 02006090 00000809 0a0b0c0d 0e0f");
  EXPECT_EQ(hex(rig.wire.log[2], 16, 58),
            "02007f00 00030200 7f000002 08004500 002c0001 00004006 74c60101 01010202 020204d2 162e0000 00080000 "
            "00075019 02006a8f 00001011 1213");
  EXPECT_EQ(get<std::uint32_t>(rig.cqe(0), 56), 0x0eu << 24 | rig.sqn);
  EXPECT_EQ(rig.opcode_of(0), "00");
}

TEST(RawPacket, TagsAreInsertedAndStripped) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  ASSERT_NE(rig.root_table({rig.tir}), 0u);
  rig.fill_data(kTagged);
  rig.post_receive(rig.rq_buffer, 2, 0, 100, 1024);
  rig.post_send(kTaggedBytes);
  EXPECT_EQ(hex(rig.data, 1024, kTaggedBytes), kTagged);
  EXPECT_EQ(hex(rig.cqe(1), 28, 4), "07440000") << "the tag is in the data, IPv6, TCP with ACK and data";
  // MODIFY_RQ with the bit of vsd: the tag goes to the CQE.
  ASSERT_EQ(rig.modify(0x909, rig.rqn, kReady, kReady, {{0x14, 2}}), kOk);
  rig.post_receive(rig.rq_buffer, 2, 1, 100, 2048);
  rig.post_send(kTaggedBytes);
  EXPECT_EQ(hex(rig.data, 2048, 16), "01505619 20a7248a 07a528c8 86dd6b90");
  EXPECT_EQ(get<std::uint32_t>(rig.cqe(3), 44), kTaggedBytes - 4);
  EXPECT_EQ(hex(rig.cqe(3), 28, 4), "0745bc0c") << "a tag was stripped";
}

TEST(RawPacket, TheDeviceInsertsATag) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  rig.wire.keep_log = true;
  rig.fill_data(kFrame);
  rig.data[5] = std::byte{3};
  rig.post_send(kFrameBytes, 0, 0x8000a123);
  ASSERT_EQ(rig.wire.log.size(), 1u);
  EXPECT_EQ(hex(rig.wire.log[0], 16, 20), "02007f00 00030200 7f000002 8100a123 08004500");
}

TEST(RawPacket, OwnFramesComeBackOnlyIfTheInterfaceSaysSo) {
  for (const std::uint32_t allowed : {0u, 1u, 2u}) {  // 1 unicast, 2 multicast
    RawRig rig;
    ASSERT_TRUE(rig.ready());
    ASSERT_EQ(rig.create_tir(rig.rqn, {{0x44, allowed << 24 | rig.domain}}), kOk);
    ASSERT_NE(rig.root_table({rig.number()}), 0u);
    rig.fill_data(kFrame);
    rig.post_receive(rig.rq_buffer, 2, 0, 100, 1024);
    rig.post_receive(rig.rq_buffer, 2, 1, 100, 2048);
    rig.post_send(kFrameBytes);
    rig.fill_data(kTagged);
    rig.post_send(kTaggedBytes);
    const unsigned received = static_cast<unsigned>(rig.opcode_of(1) == "20") + (rig.opcode_of(2) == "20" ? 1u : 0u);
    EXPECT_EQ(received, allowed == 0 ? 0u : 1u);
    EXPECT_EQ(hex(rig.data, 1024, 4), allowed == 0 ? "00000000" : allowed == 1 ? "02007f00" : "01505619");
  }
}

TEST(RawPacket, FramesOfOtherDomainsComeBack) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  ASSERT_EQ(rig.run_on(0x816, 0), kOk);
  const std::uint32_t other = rig.number();
  ASSERT_EQ(rig.create_tir(rig.rqn, {{0x44, other}}), kOk);
  ASSERT_NE(rig.root_table({rig.number()}), 0u);
  rig.fill_data(kFrame);
  rig.post_receive(rig.rq_buffer, 2, 0, 100, 1024);
  rig.post_send(kFrameBytes);
  EXPECT_EQ(hex(rig.data, 1024, kFrameBytes), kFrame);
}

TEST(RawPacket, AllDestinationsOfAnEntryReceive) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  const auto second_buffer = rig.page();
  ASSERT_EQ(rig.create_rq(second_buffer, 3), kOk);
  const std::uint32_t second = rig.number();
  ASSERT_EQ(rig.modify(0x909, second, kReset, kReady), kOk);
  ASSERT_EQ(rig.create_tir(second), kOk);
  ASSERT_NE(rig.root_table({rig.tir, rig.number()}), 0u);
  rig.fill_data(kTagged);
  rig.post_receive(rig.rq_buffer, 2, 0, 100, 1024);
  rig.post_receive(second_buffer, 3, 0, 100, 2048);
  rig.post_send(kTaggedBytes);
  EXPECT_EQ(hex(rig.data, 1024, kTaggedBytes), kTagged);
  EXPECT_EQ(hex(rig.data, 2048, kTaggedBytes), kTagged);
}

// Microsoft's key and addresses: hash 0x323e8fc2 of both addresses, so queue 2 of 4.
TEST(RawPacket, TheHashChoosesTheQueue) {
  RawRig rig;
  ASSERT_EQ(rig.modify(0x905, rig.sqn, kReset, kReady), kOk);
  std::vector<std::span<std::byte>> buffers;
  Words table = {{0, 0x0916u << 16}, {0x34, 4}, {0x38, 4}};
  for (unsigned i = 0; i < 4; ++i) {
    buffers.push_back(rig.page());
    ASSERT_EQ(rig.create_rq(buffers.back(), 3 + i, {{0x24, 0x100 + i}}), kOk);
    table.emplace_back(0x110 + i * 4, rig.number());
    ASSERT_EQ(rig.modify(0x909, rig.number(), kReset, kReady), kOk);
    rig.post_receive(buffers[i], 3 + i, 0, 100, 1024 + i * 256);
  }
  ASSERT_EQ(rig.run(0x120, table), kOk);
  const std::uint32_t rqt = rig.number();
  const auto key = unhex("6d5a56da 255b0ec2 4167253d 43a38fb0 d0ca2bcb ae7b30b4 77cb2da3 8030f20c 6a42b73b beac01fa");
  Words tir = {{0x24, 1u << 28}, {0x3c, 0}, {0x40, rqt}, {0x44, 2u << 28 | 3u << 24 | rig.domain}, {0x70, 0x3}};
  for (std::size_t i = 0; i < key.size(); i += 4) {
    tir.emplace_back(0x48 + i, get<std::uint32_t>(key, i));
  }
  ASSERT_EQ(rig.create_tir(0, tir), kOk);
  ASSERT_NE(rig.root_table({rig.number()}), 0u);
  rig.fill_data(kFrame);
  rig.post_send(kFrameBytes);
  EXPECT_EQ(hex(rig.cqe(1), 12, 5), "323e8fc2 04");
  EXPECT_EQ(hex(rig.cqe(1), 32, 4), "00000102");
  EXPECT_EQ(hex(rig.data, 1024 + 2 * 256, kFrameBytes), kFrame);
}

TEST(RawPacket, AFrameTooLongForItsWqeEndsTheQueue) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  ASSERT_NE(rig.root_table({rig.tir}), 0u);
  rig.fill_data(kFrame);
  rig.post_receive(rig.rq_buffer, 2, 0, kFrameBytes - 1, 1024);
  rig.post_send(kFrameBytes);
  EXPECT_EQ(rig.opcode_of(1), "e0");
  EXPECT_EQ(hex(rig.cqe(1), 55, 1), "01") << "local length error";
  ASSERT_EQ(rig.run_on(0x90b, rig.rqn), kOk);
  EXPECT_EQ(get<std::uint32_t>(rig.out, 0x20) >> 20 & 0xf, kError);
}

TEST(RawPacket, ABadSendEndsTheQueueAndFlushesIt) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  rig.fill_data(kFrame);
  rig.post_send(13);  // no Ethernet header
  EXPECT_EQ(rig.opcode_of(0), "d0");
  EXPECT_EQ(hex(rig.cqe(0), 55, 1), "02") << "local QP operation error";
  ASSERT_EQ(rig.run_on(0x907, rig.sqn), kOk);
  EXPECT_EQ(get<std::uint32_t>(rig.out, 0x20) >> 20 & 0xf, kError);
  rig.post_send(kFrameBytes);
  EXPECT_EQ(hex(rig.cqe(1), 55, 1), "05") << "flushed";
}

TEST(RawPacket, FramesLongerThanThePortTakesFail) {
  RawRig rig;
  ASSERT_TRUE(rig.ready());
  rig.fill_data(kFrame);
  // Two pointers: 4096 bytes and 22, then 23, are 4096 behind an Ethernet header with two VLAN tags, and one more.
  for (const std::uint32_t rest : {22u, 23u}) {
    const auto wqe = rig.sq_buffer.subspan(rig.sent_wqebbs % 4 * 64, 64);
    put<std::uint32_t>(wqe, 0, std::uint32_t{rig.sent_wqebbs} << 8 | 0x0a);
    put<std::uint32_t>(wqe, 4, rig.sqn << 8 | 4);
    put<std::uint32_t>(wqe, 8, 0x08);
    for (std::uint32_t i = 0; i < 2; ++i) {
      put<std::uint32_t>(wqe, 32 + i * 16, i == 0 ? 4096 : rest);
      put<std::uint32_t>(wqe, 36 + i * 16, rig.key);
      put<std::uint64_t>(wqe, 40 + i * 16, address_of(rig.data));
    }
    rig.ring(1);
  }
  EXPECT_EQ(rig.opcode_of(0), "00");
  EXPECT_EQ(rig.opcode_of(1), "d0");
  EXPECT_EQ(hex(rig.cqe(1), 55, 1), "01") << "local length error";
}

TEST(RawPacket, StatesAreChecked) {
  RawRig rig;
  EXPECT_EQ(rig.modify(0x905, rig.sqn, kReady, kReady), kBadResState);
  EXPECT_EQ(rig.modify(0x905, rig.sqn, kReset, 2), kBadParam);
  EXPECT_EQ(rig.modify(0x905, rig.rqn, kReset, kReady), kBadRes) << "a receive queue is no send queue";
  EXPECT_EQ(rig.modify(0x909, rig.sqn, kReset, kReady), kBadRes);
  ASSERT_EQ(rig.modify(0x905, rig.sqn, kReset, kError), kOk);
  EXPECT_EQ(rig.modify(0x905, rig.sqn, kError, kReady), kBadParam) << "by reset only";
  EXPECT_EQ(rig.modify(0x905, rig.sqn, kError, kReset), kOk);
  EXPECT_EQ(rig.run_on(0x50b, rig.sqn), kBadRes) << "QUERY_QP";
}

TEST(RawPacket, WhatIsUsedStays) {
  RawRig rig;
  const std::uint32_t table = rig.root_table({rig.tir});
  EXPECT_EQ(rig.run_on(0x914, rig.tis), kBadResState);
  EXPECT_EQ(rig.run_on(0x90a, rig.rqn), kBadResState);
  EXPECT_EQ(rig.run_on(0x902, rig.tir), kBadResState);
  EXPECT_EQ(rig.run_on(0x817, rig.domain), kBadResState);
  EXPECT_EQ(rig.run(64, {{0, 0x0931u << 16}, {0x14, table}}), kBadResState);
  // From the flow down, all goes.
  EXPECT_EQ(rig.run(64, {{0, 0x0938u << 16}, {0x14, table}, {0x20, 0}}), kOk);
  EXPECT_EQ(rig.run(64, {{0, 0x0938u << 16}, {0x14, table}, {0x20, 0}}), kBadIndex);
  EXPECT_EQ(rig.run(64, {{0, 0x0934u << 16}, {0x14, table}, {0x18, 1}}), kOk);
  EXPECT_EQ(rig.run(64, {{0, 0x092fu << 16}}), kOk);
  EXPECT_EQ(rig.run(64, {{0, 0x0931u << 16}, {0x14, table}}), kOk);
  EXPECT_EQ(rig.run_on(0x902, rig.tir), kOk);
  EXPECT_EQ(rig.run_on(0x90a, rig.rqn), kOk);
  EXPECT_EQ(rig.run_on(0x906, rig.sqn), kOk);
  EXPECT_EQ(rig.run_on(0x914, rig.tis), kOk);
  EXPECT_EQ(rig.run_on(0x817, rig.domain), kOk);
}

TEST(RawPacket, BadParametersAreRefused) {
  RawRig rig;
  EXPECT_EQ(rig.create_sq({{0x50, 0}}), kBadParam) << "a linked list";
  EXPECT_EQ(rig.create_sq({{0x70, 7u << 16 | 2}}), kBadParam) << "WQEBBs have 64 bytes";
  EXPECT_EQ(rig.create_sq({{0x4c, 0xfff}}), kBadRes) << "TIS";
  EXPECT_EQ(rig.create_sq({{0x58, 0xfff}}), kBadRes) << "PD";
  EXPECT_EQ(rig.create_sq({{0x28, 0xfff}}), kBadRes) << "CQ";
  EXPECT_EQ(rig.create_sq({{0x5c, 0x3ff}}), kBadRes) << "UAR";
  EXPECT_EQ(rig.create_sq({{0x20, 1u << 20}}), kBadParam) << "ready at birth";
  EXPECT_EQ(rig.create_rq(rig.rq_buffer, 2, {{0x70, 10u << 16 | 2}}), kExceedsLimit) << "1024 bytes a WQE";
  EXPECT_EQ(rig.create_rq(rig.rq_buffer, 2, {{0x20, 1u << 29}}), kBadParam) << "FCS";
  EXPECT_EQ(rig.create_tir(rig.sqn), kBadRes);
  EXPECT_EQ(rig.create_tir(rig.rqn, {{0x44, 0xfff}}), kBadRes) << "transport domain";
  EXPECT_EQ(rig.create_tir(0, {{0x24, 1u << 28}, {0x3c, 0}, {0x40, 0xfff}}), kBadRes) << "table";
  EXPECT_EQ(rig.create_tir(rig.rqn, {{0x44, 1u << 28 | rig.domain}}), kBadParam) << "XOR8 hash";
  EXPECT_EQ(rig.run(0x120, {{0, 0x0916u << 16}, {0x34, 1}, {0x38, 2}}), kExceedsLimit);
  EXPECT_EQ(rig.run(0x110, {{0, 0x0916u << 16}, {0x34, 1}, {0x38, 1}}), kBadInputLength);
}

}  // namespace
}  // namespace softhca::hca
