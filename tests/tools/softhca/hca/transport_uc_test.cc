// Unreliable connections: everything arrives once or not at all, and nobody is told.
//
// Wire opcodes: IBA table 38; syndromes: mlx5dv.h MLX5_CQE_SYNDROME_*.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

struct UcFixture : Fixture {
  explicit UcFixture(PairOptions options = {}) : Fixture(with_type(options)) {}
  static PairOptions with_type(PairOptions options) {
    options.type = QpType::kUc;
    return options;
  }
  WorkRequest write_immediate(std::uint32_t bytes) {
    WorkRequest request = write(bytes);
    request.opcode = kWriteImmediate;
    request.immediate = 0x11223344;
    return request;
  }
  // First bytes of the packets sent, in order.
  std::vector<unsigned> wire_opcodes() {
    std::vector<unsigned> opcodes;
    for (const Bytes& packet : wire.log) {
      opcodes.push_back(static_cast<unsigned>(packet[0]));
    }
    return opcodes;
  }
};

const std::uint32_t kSizes[] = {0, 1, 255, 256, 257, 511, 512, 513, 8192};

class UcSizes : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(TransportUc, UcSizes, testing::ValuesIn(kSizes));

TEST_P(UcSizes, SendArrives) {
  UcFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  WorkRequest request = pair.send(GetParam());
  request.opcode = kSendImmediate;
  request.immediate = 0x55667788;
  request.fm_ce_se = 0x0a;
  pair.a.post(request);
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ SEND_IMM #0");
  ASSERT_EQ(pair.b.receive_text(), "RECV_IMM #0");
  EXPECT_EQ(pair.b.receives()[0].byte_count(), GetParam());
  EXPECT_EQ(pair.b.receives()[0].immediate(), 0x55667788u);
  EXPECT_TRUE(pair.b.receives()[0].solicited);
  EXPECT_EQ(get<std::uint32_t>(pair.b.receives()[0].cqe, 24), 0x100u) << "no GRH, source QPN";
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b()));
}

TEST_P(UcSizes, WriteArrives) {
  UcFixture pair;
  pair.a.post(pair.write(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE #0");
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b()));
}

TEST_P(UcSizes, WriteWithImmediateArrivesAndCompletesAReceive) {
  UcFixture pair;
  pair.b.post_receive({});
  pair.a.post(pair.write_immediate(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE_IMM #0");
  ASSERT_EQ(pair.b.receive_text(), "WRITE_IMM #0");
  EXPECT_EQ(pair.b.receives()[0].byte_count(), GetParam());
  EXPECT_EQ(pair.b.receives()[0].immediate(), 0x11223344u);
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b()));
}

TEST(TransportUc, PacketsHaveTheTransportsOpcodesAndAskForNothing) {
  UcFixture pair({.psn_a = 0xfffffe});
  pair.wire.keep_log = true;
  for (int i = 0; i < 4; ++i) {
    pair.b.post_receive({{pair.key_b, 0, 8192}});
  }
  pair.a.post(pair.send(600));
  pair.a.post(pair.send(5));
  pair.a.post(pair.write(513));
  pair.a.post(pair.write_immediate(257));
  pair.a.post(pair.write_immediate(4));
  pair.run();
  EXPECT_EQ(pair.wire_opcodes(), (std::vector<unsigned>{0x20, 0x21, 0x22, 0x24, 0x26, 0x27, 0x28, 0x26, 0x29, 0x2b}));
  for (std::size_t i = 0; i < pair.wire.log.size(); ++i) {
    EXPECT_EQ(get<std::uint32_t>(pair.wire.log[i], 8), (0xfffffe + i) & 0xffffff) << "PSN, no acknowledge request";
    EXPECT_EQ(get<std::uint32_t>(pair.wire.log[i], 4), 0x200u) << "destination QPN";
  }
  EXPECT_EQ(pair.b.receive_text(), "RECV #0; RECV #1; WRITE_IMM #2; WRITE_IMM #3");
}

TEST(TransportUc, RequestsCompleteThoughNothingArrives) {
  UcFixture pair;
  pair.wire.fate = [](std::size_t, wire::Ipv4, std::span<const std::byte>) { return Fate{.copies = 0}; };
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  for (int i = 0; i < 40; ++i) {
    pair.a.post(pair.send(8192));
  }
  pair.run();
  EXPECT_EQ(pair.a.sends().size(), 40u);
  EXPECT_EQ(pair.a.sends().back().text(), "REQ SEND #39");
  EXPECT_EQ(pair.wire.packets, 40u * 32);
  EXPECT_EQ(pair.b.receive_text(), "");
}

// Messages of three packets, the n-th packet lost: the message is not there and its receive WQE serves the next.
TEST(TransportUc, AMessageThatMissesAPacketIsDropped) {
  for (std::size_t lost = 0; lost < 3; ++lost) {
    for (const bool is_write : {false, true}) {
      UcFixture pair;
      pair.wire.fate = [lost](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
        return Fate{.copies = number == lost ? 0u : 1u};
      };
      pair.b.post_receive({{pair.key_b, 4096, 1024}});
      pair.b.post_receive({{pair.key_b, 5120, 1024}});
      pair.a.post(is_write ? pair.write_immediate(700) : pair.send(700));
      WorkRequest second = is_write ? pair.write_immediate(300) : pair.send(300);
      second.list[0].offset_bytes = 1000;
      pair.a.post(second);
      pair.run();
      EXPECT_EQ(pair.a.sends().size(), 2u);
      ASSERT_EQ(pair.b.receive_text(), is_write ? "WRITE_IMM #0" : "RECV #0") << lost;
      EXPECT_EQ(pair.b.receives()[0].byte_count(), 300u);
      EXPECT_TRUE(same(pair.memory_a().subspan(1000, 300), pair.memory_b().subspan(is_write ? 0 : 4096)));
      EXPECT_TRUE(pair.device_b.events.empty());
      EXPECT_EQ(pair.b.qp->state, QpState::kRts);
    }
  }
}

TEST(TransportUc, AMessageOutOfOrderOrWithADoubledPacketIsDropped) {
  for (const Fate fate : {Fate{.copies = 2}, Fate{.behind = 1}}) {
    UcFixture pair;
    pair.wire.fate = [fate](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
      return number == 1 ? fate : Fate{};
    };
    pair.b.post_receive({{pair.key_b, 0, 1024}});
    pair.a.post(pair.send(700));
    pair.run();
    EXPECT_EQ(pair.b.receive_text(), "");
    pair.a.post(pair.send(100));
    pair.run();
    EXPECT_EQ(pair.b.receive_text(), "RECV #0");
  }
}

TEST(TransportUc, APlainWriteDoesNotCompleteTheReceiveThatADroppedSendHasLeft) {
  UcFixture pair;
  pair.wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    return Fate{.copies = number == 1 ? 0u : 1u};
  };
  pair.b.post_receive({{pair.key_b, 4096, 1024}});
  pair.a.post(pair.send(300));
  pair.a.post(pair.write(300));
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_TRUE(same(pair.memory_a().first(300), pair.memory_b()));
  pair.a.post(pair.write_immediate(0));
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "WRITE_IMM #0");
}

TEST(TransportUc, WithoutAReceiveAMessageIsDropped) {
  UcFixture pair;
  pair.a.post(pair.send(600));
  pair.a.post(pair.write_immediate(600));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0; REQ WRITE_IMM #1");
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "");
  pair.a.post(pair.send(10));
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
}

// ---- Errors ----

TEST(TransportUc, WhatThePeerMayNotDoIsDroppedInSilence) {
  UcFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 599}});
  WorkRequest bad_key = pair.write(10);
  bad_key.rkey = 0xdead00;
  WorkRequest beyond = pair.write(600);
  beyond.remote_address = pair.address_b(8192 - 599);
  pair.a.post(bad_key);
  pair.a.post(beyond);
  pair.a.post(pair.send(600));  // one byte more than the receive WQE has room for
  pair.run();
  pair.b.qp->remote_write = false;
  pair.a.post(pair.write(10));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ WRITE #1; REQ SEND #2; REQ WRITE #3");
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_TRUE(pair.device_b.events.empty());
  EXPECT_EQ(pair.b.qp->state, QpState::kRts);
  pair.a.post(pair.send(599));
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
}

TEST(TransportUc, AReceiveThatCannotBeUsedFailsTheQp) {
  UcFixture pair;
  pair.b.post_receive({{0xdead00, 0, 1024}});
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.a.post(pair.send(300));
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0");
  EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 04 #0; RESP_ERR 05 #1");
  EXPECT_EQ(pair.b.qp->state, QpState::kErr);
}

TEST(TransportUc, OperationsThatNeedReliabilityAreRefused) {
  UcFixture probe;
  WorkRequest invalidate = probe.send(8);
  invalidate.opcode = kSendInvalidate;
  WorkRequest swap = probe.fetch_add(1);
  swap.opcode = kCompareSwap;
  const std::pair<WorkRequest, std::string> cases[] = {
      {probe.read(8), "READ"}, {probe.fetch_add(1), "FA"}, {swap, "CS"}, {invalidate, "SEND_INV"}};
  for (const auto& [request, name] : cases) {
    UcFixture pair;
    pair.a.post(request);
    pair.run(10 * kMillisecond);
    EXPECT_EQ(pair.a.send_text(), "REQ_ERR 02 " + name + " #0");
    EXPECT_EQ(pair.wire.packets, 0u);
  }
}

TEST(TransportUc, AFailedSendFlushesTheSendQueueAloneUntilItIsRepaired) {
  UcFixture pair;
  WorkRequest bad = pair.send(700);
  bad.list[0].key = 0xdead00;
  pair.a.post_receive({{pair.key_a, 4096, 1024}});
  pair.a.write_wqe(pair.write(10));
  pair.a.write_wqe(bad);
  pair.a.write_wqe(pair.write(10));
  pair.a.ring();
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ_ERR 04 SEND #1; REQ_ERR 05 WRITE #2");
  EXPECT_EQ(pair.a.qp->state, QpState::kSqEr);
  EXPECT_EQ(pair.wire.packets, 1u);

  pair.a.post(pair.write(10));
  EXPECT_EQ(pair.a.sends().back().text(), "REQ_ERR 05 WRITE #3");
  pair.b.post({.opcode = kSend, .list = {{pair.key_b, 0, 10}}});
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.receive_text(), "RECV #0");

  pair.device_a.set_state(*pair.a.qp, QpState::kRts);
  pair.a.post(pair.write(300));
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.sends().back().text(), "REQ WRITE #4");
  EXPECT_TRUE(same(pair.memory_a().first(300), pair.memory_b()));
}

TEST(TransportUc, ErrFlushesBothQueues) {
  UcFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    return Fate{.copies = number == 1 ? 0u : 1u};
  };
  pair.a.post(pair.send(600));  // takes the first receive WQE and is dropped
  pair.run();
  pair.device_b.fail_qp(*pair.b.qp);
  pair.b.post({.opcode = kSend, .list = {{pair.key_b, 0, 10}}});
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.run(200 * kMillisecond);
  EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 05 #0; RESP_ERR 05 #1; RESP_ERR 05 #2");
  EXPECT_EQ(pair.b.send_text(), "REQ_ERR 05 SEND #0");
}

TEST(TransportUc, PacketsOfAnotherTransportOrPeerAreNotHeard) {
  UcFixture pair;
  pair.wire.keep_log = true;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.a.post(pair.send(10));
  pair.run();
  Bytes packet = pair.wire.log[0];
  ASSERT_EQ(pair.b.receive_text(), "RECV #0");
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.device_b.port->arrive(wire::Ipv4{0x7f000009}, packet);
  packet[0] = std::byte{0x04};  // RC SEND_ONLY
  pair.device_b.port->arrive(pair.device_a.port->address(), packet);
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
  EXPECT_EQ(pair.wire.packets, 1u) << "no answer";
}

TEST(TransportUc, SqdSendsTheRestOfAStartedMessageAndThenTellsOfIt) {
  UcFixture pair;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  pair.a.post(pair.send(8192));  // 32 packets, more than one turn
  pair.a.post(pair.send(10));
  pair.device_a.transport.progress(pair.now_ns);
  ASSERT_LT(pair.wire.packets, 32u);
  pair.device_a.set_state(*pair.a.qp, QpState::kSqDrained);
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0");
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
  EXPECT_EQ(pair.device_a.events, (std::vector<Event>{{0x03, 0x100}})) << "send queue drained";
}

}  // namespace
}  // namespace softhca::hca
