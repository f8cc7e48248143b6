// Datagrams: one packet each, a network header before the data, and a Q_Key at the door.
//
// Wire opcodes and headers: IBA table 38 and 9.6; syndromes: mlx5dv.h MLX5_CQE_SYNDROME_*.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint32_t kGrhBytes = 40;

struct UdFixture : Fixture {
  explicit UdFixture(PairOptions options = {}) : Fixture(with_type(options)) {}
  static PairOptions with_type(PairOptions options) {
    options.type = QpType::kUd;
    return options;
  }
};

Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes bytes;
  for (const unsigned value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

TEST(TransportUd, DatagramsOfEverySizeUpToTheMtuArriveBehindTheNetworkHeader) {
  for (const std::uint32_t size : {0u, 1u, 2u, 3u, 100u, 255u, 256u}) {
    UdFixture pair;
    pair.b.post_receive({{pair.key_b, 0, 8192}});
    pair.a.post(pair.datagram(size));
    pair.run();
    ASSERT_EQ(pair.a.send_text(), "REQ SEND #0") << size;
    ASSERT_EQ(pair.b.receive_text(), "RECV #0") << size;
    EXPECT_EQ(pair.b.receives()[0].byte_count(), size + kGrhBytes);
    EXPECT_TRUE(same(pair.memory_a().first(size), pair.memory_b().subspan(kGrhBytes))) << size;
  }
}

TEST(TransportUd, NetworkHeaderIsTheIpv4HeaderThatCame) {
  UdFixture pair;
  pair.device_b.port->traffic_class = 0x20;
  pair.device_b.port->hop_limit = 63;
  fill(pair.memory_b(), 9);
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  pair.a.post(pair.datagram(100));
  pair.run();
  // RFC 791: 152 bytes are IP 20, UDP 8, BTH 12, DETH 8, data 100, ICRC 4; the checksum of an independent sum.
  const Bytes expected =
      bytes_of({0,    0,    0, 0,    0, 0, 0,    0, 0,    0,    0,    0,    0,    0, 0, 0, 0,    0, 0, 0,
                0x45, 0x20, 0, 0x98, 0, 0, 0x40, 0, 0x3f, 0x11, 0x3d, 0x30, 0x7f, 0, 0, 2, 0x7f, 0, 0, 3});
  EXPECT_EQ(Bytes(pair.memory_b().begin(), pair.memory_b().begin() + 40), expected);
}

TEST(TransportUd, CqeHasTheDocumentedBytes) {
  UdFixture pair({.a = {.qpn = 0x0a0b0c}});
  pair.b.qp->user_index = 0x010203;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  WorkRequest request = pair.datagram(100);
  request.opcode = kSendImmediate;
  request.immediate = 0x11223344;
  request.fm_ce_se = 0x0a;
  pair.a.post(request);
  pair.run();
  ASSERT_EQ(pair.b.receive_text(), "RECV_IMM #0");
  EXPECT_TRUE(pair.b.receives()[0].solicited);
  std::array<std::byte, 64> expected{};
  expected[24] = std::byte{0x12};  // GRH; in the SL's place the header's kind, IPv4 (device.h)
  expected[25] = std::byte{0x0a};
  expected[26] = std::byte{0x0b};
  expected[27] = std::byte{0x0c};
  expected[33] = std::byte{0x01};
  expected[34] = std::byte{0x02};
  expected[35] = std::byte{0x03};
  put<std::uint32_t>(expected, 36, 0x11223344);
  expected[47] = std::byte{140};
  put<std::uint64_t>(expected, 48, pair.now_ns);
  expected[58] = std::byte{0x02};
  expected[63] = std::byte{0x32};
  EXPECT_EQ(pair.b.receives()[0].cqe, expected);
}

TEST(TransportUd, PacketsCarryTheAddressVector) {
  UdFixture pair({.psn_a = 0xffffff});
  pair.wire.keep_log = true;
  WorkRequest request = pair.datagram(3);
  request.address.traffic_class = 0x68;
  request.address.source_port = 0xd00d;
  request.address.qpn = 0xabcdef;
  request.address.qkey = 0x7654321;
  pair.a.post(request);
  request.opcode = kSendImmediate;
  request.immediate = 0x99887766;
  pair.a.post(request);
  pair.run();
  ASSERT_EQ(pair.wire.log.size(), 2u);
  Bytes expected = bytes_of({0x64, 0x50, 0xff, 0xff, 0, 0xab, 0xcd, 0xef, 0, 0xff, 0xff, 0xff,  // BTH, one pad byte
                             0x07, 0x65, 0x43, 0x21, 0, 0,    1,    0});                        // DETH
  expected.insert(expected.end(), pair.memory_a().begin(), pair.memory_a().begin() + 3);
  expected.push_back(std::byte{0});
  EXPECT_EQ(pair.wire.log[0], expected);
  EXPECT_EQ(get<std::uint32_t>(pair.wire.log[1], 0), 0x6550ffffu);
  EXPECT_EQ(get<std::uint32_t>(pair.wire.log[1], 8), 0u) << "PSN";
  EXPECT_EQ(get<std::uint32_t>(pair.wire.log[1], 20), 0x99887766u);
  const wire::Route& route = pair.device_a.port->last_route;
  EXPECT_EQ(route.destination.value, 0x7f000003u);
  EXPECT_EQ(route.source_port, 0xd00d);
  EXPECT_EQ(route.traffic_class, 0x68);
}

TEST(TransportUd, HeaderAndDataScatterOverTheList) {
  for (std::uint32_t first = 0; first <= 80; first += 8) {
    UdFixture pair;
    pair.b.post_receive({{pair.key_b, 1000, first}, {pair.key_b, 2000, 17}, {pair.key_b, 3000, 200}});
    pair.a.post(pair.datagram(100));
    pair.run();
    ASSERT_EQ(pair.b.receive_text(), "RECV #0") << first;
    Bytes got;
    const auto add = [&](std::span<std::byte> from) { got.insert(got.end(), from.begin(), from.end()); };
    add(pair.memory_b().subspan(1000, first));
    add(pair.memory_b().subspan(2000, 17));
    add(pair.memory_b().subspan(3000, 200));
    EXPECT_EQ(got[20], std::byte{0x45});
    EXPECT_TRUE(same(pair.memory_a().first(100), std::span{got}.subspan(kGrhBytes))) << first;
  }
}

TEST(TransportUd, InlineDataNopAndUnsignaledRequests) {
  UdFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  WorkRequest quiet = pair.datagram(4);
  quiet.fm_ce_se = 0;
  WorkRequest in_line = pair.datagram(0);
  in_line.list.clear();
  in_line.inline_data = bytes_of({1, 2, 3, 4, 5, 6, 7});
  pair.a.post(quiet);
  pair.a.post({.opcode = kNop});
  pair.a.post(in_line);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ NOP #2; REQ SEND #3");
  ASSERT_EQ(pair.b.receive_text(), "RECV #0; RECV #1");
  EXPECT_TRUE(same(*in_line.inline_data, pair.memory_b().subspan(kGrhBytes)));
}

TEST(TransportUd, OneQueueSpeaksWithManyAndWithItself) {
  UdFixture pair;
  pair.a.post_receive({{pair.key_a, 4096, 1024}});
  pair.a.post_receive({{pair.key_a, 5120, 1024}});
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  WorkRequest self = pair.datagram(20);
  self.address.qpn = pair.a.qp->qpn;
  self.address.ipv4 = pair.device_a.port->address().value;
  pair.a.post(self);
  pair.a.post(pair.datagram(30));
  WorkRequest back{.opcode = kSend, .list = {{pair.key_b, 0, 50}}, .address = self.address};
  pair.run();
  pair.b.post(back);
  pair.run();
  ASSERT_EQ(pair.a.receive_text(), "RECV #0; RECV #1");
  EXPECT_EQ(get<std::uint32_t>(pair.a.receives()[0].cqe, 24) & 0xffffff, 0x100u);
  EXPECT_EQ(get<std::uint32_t>(pair.a.receives()[1].cqe, 24) & 0xffffff, 0x200u);
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
}

// ---- What is dropped ----

TEST(TransportUd, LostDatagramsAreNotMissed) {
  UdFixture pair;
  pair.wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    return Fate{.copies = static_cast<unsigned>(number % 3)};  // lost, once, twice
  };
  for (int i = 0; i < 4; ++i) {
    pair.b.post_receive({{pair.key_b, 0, 1024}});
  }
  for (std::uint32_t size : {1u, 2u, 3u, 4u, 5u}) {
    pair.a.post(pair.datagram(size));
  }
  pair.run();
  EXPECT_EQ(pair.a.sends().size(), 5u);
  ASSERT_EQ(pair.b.receives().size(), 4u);
  std::vector<std::uint32_t> sizes;
  for (const Completion& completion : pair.b.receives()) {
    sizes.push_back(completion.byte_count() - kGrhBytes);
  }
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{2, 3, 3, 5}));
}

TEST(TransportUd, AWrongQkeyIsNotLetIn) {
  UdFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  WorkRequest wrong = pair.datagram(10);
  wrong.address.qkey = 0x11111112;
  pair.a.post(wrong);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0");
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_TRUE(pair.device_b.events.empty());
  pair.a.post(pair.datagram(10));
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "RECV #0") << "its WQE is still there";
}

TEST(TransportUd, AQkeyWithTheHighBitStandsForTheQueuesOwn) {
  UdFixture pair;
  pair.wire.keep_log = true;
  pair.a.qp->qkey = pair.b.qp->qkey = 0x80010000;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  WorkRequest request = pair.datagram(10);
  request.address.qkey = 0xffffffff;
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(get<std::uint32_t>(pair.wire.log.at(0), 12), 0x80010000u);
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
}

TEST(TransportUd, WithoutAReceiveOrAQueueADatagramIsDropped) {
  UdFixture pair;
  pair.a.post(pair.datagram(10));
  pair.run();
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  WorkRequest nobody = pair.datagram(10);
  nobody.address.qpn = 0x201;
  pair.a.post(nobody);
  nobody = pair.datagram(10);
  nobody.address.ipv4 = 0x7f000063;
  pair.a.post(nobody);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0; REQ SEND #2; REQ SEND #4");
  EXPECT_EQ(pair.b.receive_text(), "");
}

TEST(TransportUd, PacketsOfConnectionsAreNotHeard) {
  UdFixture pair;
  pair.wire.keep_log = true;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.a.post(pair.datagram(12));
  pair.run();
  ASSERT_EQ(pair.b.receive_text(), "RECV #0");
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  for (const unsigned opcode : {0x04u, 0x24u, 0xa4u}) {  // SEND_ONLY of RC, UC, XRC
    Bytes packet = pair.wire.log[0];
    packet[0] = static_cast<std::byte>(opcode);
    pair.device_b.port->arrive(pair.device_a.port->address(), packet);
  }
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
}

// ---- Errors ----

// Posts `bad` between two good datagrams.
void expect_refused(UdFixture& pair, const WorkRequest& bad, const std::string& failure) {
  pair.a.write_wqe(pair.datagram(10));
  const std::uint16_t counter = pair.a.write_wqe(bad);
  const std::uint16_t last = pair.a.write_wqe(pair.datagram(10));
  pair.a.ring();
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0; REQ_ERR " + failure + " #" + std::to_string(counter) +
                                    "; REQ_ERR 05 SEND #" + std::to_string(last));
  EXPECT_EQ(pair.a.qp->state, QpState::kSqEr);
  EXPECT_EQ(pair.wire.packets, 1u);
  EXPECT_EQ(pair.b.qp->state, QpState::kRts);
}

TEST(TransportUd, AMessageLongerThanTheMtuIsRefused) {
  UdFixture pair;
  expect_refused(pair, pair.datagram(257), "01 SEND");
}

TEST(TransportUd, OperationsOfConnectionsAreRefused) {
  for (const auto& [opcode, name] : {std::pair{kWrite, "WRITE"},
                                     {kWriteImmediate, "WRITE_IMM"},
                                     {kRead, "READ"},
                                     {kFetchAdd, "FA"},
                                     {kSendInvalidate, "SEND_INV"}}) {
    UdFixture pair;
    WorkRequest bad = pair.datagram(8);
    bad.opcode = opcode;
    expect_refused(pair, bad, std::string("02 ") + name);
  }
}

TEST(TransportUd, AnAddressThatIsNoneIsRefused) {
  {
    UdFixture pair;
    WorkRequest bad = pair.datagram(8);
    bad.address.sgid_index = 2;  // the harness has entries 0 and 1
    expect_refused(pair, bad, "02 SEND");
    EXPECT_EQ(pair.a.sends()[1].vendor_syndrome(), 0x6cu);
  }
  {
    UdFixture pair;
    WorkRequest bad = pair.datagram(8);
    bad.address.ipv4 = 0;
    expect_refused(pair, bad, "02 SEND");
  }
  UdFixture pair;
  pair.a.write_wqe(pair.datagram(8));
  pair.a.sq[16 + 32 + 10] = std::byte{0};  // no longer ::ffff:a.b.c.d
  pair.a.ring();
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 02 SEND #0");
}

TEST(TransportUd, GatherFault) {
  UdFixture pair;
  WorkRequest bad = pair.datagram(8);
  bad.list[0].key = 0xdead00;
  expect_refused(pair, bad, "04 SEND");
}

TEST(TransportUd, AfterAFailedSendReceivingGoesOnAndRtsSendsAgain) {
  UdFixture pair;
  expect_refused(pair, pair.datagram(257), "01 SEND");
  pair.a.post_receive({{pair.key_a, 4096, 1024}});
  WorkRequest back{.opcode = kSend, .list = {{pair.key_b, 0, 50}}};
  back.address.qpn = pair.a.qp->qpn;
  back.address.ipv4 = pair.device_a.port->address().value;
  pair.b.post(back);
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.receive_text(), "RECV #0");
  pair.device_a.set_state(*pair.a.qp, QpState::kRts);
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.a.post(pair.datagram(10));
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
}

TEST(TransportUd, AReceiveTooShortForHeaderAndDataFailsTheQp) {
  for (const std::uint32_t room : {0u, 39u, 139u}) {
    UdFixture pair;
    pair.b.post_receive({{pair.key_b, 0, room}});
    pair.b.post_receive({{pair.key_b, 0, 1024}});
    pair.a.post(pair.datagram(100));
    pair.run(10 * kMillisecond);
    EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 01 #0; RESP_ERR 05 #1") << room;
    EXPECT_EQ(pair.b.qp->state, QpState::kErr);
    EXPECT_EQ(pair.a.send_text(), "REQ SEND #0");
  }
  UdFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 140}});
  pair.a.post(pair.datagram(100));
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
}

TEST(TransportUd, ScatterFaultFailsTheQp) {
  UdFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 40}, {0xdead00, 0, 1024}});
  pair.a.post(pair.datagram(100));
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 04 #0");
  EXPECT_EQ(pair.b.qp->state, QpState::kErr);
}

TEST(TransportUd, ErrFlushesBothQueues) {
  UdFixture pair;
  pair.a.post_receive({{pair.key_a, 0, 1024}});
  pair.a.write_wqe(pair.datagram(10));
  pair.a.write_wqe(pair.datagram(10));
  pair.device_a.fail_qp(*pair.a.qp);
  pair.a.ring();
  pair.a.post_receive({{pair.key_a, 0, 1024}});
  pair.run(200 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 05 SEND #0; REQ_ERR 05 SEND #2");
  EXPECT_EQ(pair.a.receive_text(), "RESP_ERR 05 #0; RESP_ERR 05 #1");
  EXPECT_EQ(pair.wire.packets, 0u);
}

TEST(TransportUd, ManyQueuesShareAReceiveQueue) {
  UdFixture pair;
  SharedQueue shared(pair.device_b, 0x33, 2);
  shared.srq->limit = 2;
  pair.b.qp->srq = shared.srq;
  pair.b.qp->has_rq = false;
  for (std::uint32_t i = 0; i < 4; ++i) {
    shared.post_receive({{pair.key_b, i * 1024, 1024}});
  }
  for (int i = 0; i < 3; ++i) {
    pair.a.post(pair.datagram(10));
  }
  pair.run();
  EXPECT_EQ(pair.b.receives().size(), 3u);
  EXPECT_EQ(pair.device_b.events, (std::vector<Event>{{0x14, 0x33}})) << "SRQ limit";
  pair.device_b.fail_qp(*pair.b.qp);
  EXPECT_EQ(pair.device_b.events.back(), (Event{0x13, 0x200})) << "last WQE";
}

}  // namespace
}  // namespace softhca::hca
