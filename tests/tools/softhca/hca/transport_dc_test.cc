// The dynamically connected transport: initiators that turn from target to target, and targets that serve many.
//
// How it looks on the wire is this device's own (wire/packet.h); opcodes from 0xc0 on are the manufacturer's.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint64_t kAccessKey = 0x0102030405060708;
constexpr std::uint32_t kFirstDctn = 0x300;
constexpr unsigned kKeyViolation = 0x1d;

PairOptions dci() {
  PairOptions options;
  options.type = QpType::kDci;
  return options;
}

// A target on a device, with its own SRQ and CQ.
struct Target {
  Target(Device& device, std::uint32_t number) : dctn(number), queue(device, number, 4) {
    queue.srq->kind = SrqKind::kBasic;
    auto created = std::make_unique<Qp>();
    qp = created.get();
    device.qps[number] = std::move(created);
    qp->qpn = number;
    qp->user_index = number + 0x1000;
    qp->type = QpType::kDct;
    qp->state = QpState::kRtr;
    qp->pdn = 1;
    qp->recv_cq = &cq;
    qp->srq = queue.srq;
    qp->has_sq = qp->has_rq = false;
    qp->path.log_mtu = 1;
    qp->remote_read = qp->remote_write = qp->remote_atomic = true;
    qp->max_target_rd_atomic = 4;
    qp->min_rnr_timer = 12;
    qp->dc_access_key = kAccessKey;
  }

  std::uint32_t dctn;
  SharedQueue queue;
  Cq cq;
  Qp* qp;
};

// A is the initiator, B has two targets.
struct DcFixture : Fixture {
  DcFixture() : Fixture(dci()), first(device_b, kFirstDctn), second(device_b, kFirstDctn + 1) {}
  WorkRequest to(const Target& target, WorkRequest request) {
    request.address.qpn = target.dctn;
    request.address.ipv4 = device_b.port->address().value;
    request.access_key = kAccessKey;
    return request;
  }
  std::vector<Completion>& receives(const Target& target) { return device_b.completions[&target.cq]; }

  Target first, second;
};

TEST(TransportDc, AnInitiatorTurnsFromTargetToTarget) {
  DcFixture pair;
  pair.wire.keep_log = true;
  for (std::uint32_t i = 0; i < 2; ++i) {
    pair.first.queue.post_receive({{pair.key_b, i * 1024, 1024}});
    pair.second.queue.post_receive({{pair.key_b, 2048 + i * 1024, 1024}});
  }
  pair.a.write_wqe(pair.to(pair.first, pair.send(8)));
  pair.a.write_wqe(pair.to(pair.second, pair.send(700)));
  pair.a.write_wqe(pair.to(pair.second, pair.send(9)));
  pair.a.post(pair.to(pair.first, pair.send(600)));
  pair.run();
  ASSERT_EQ(pair.a.sends().size(), 4u) << pair.a.send_text();
  for (const Completion& completion : pair.a.sends()) {
    EXPECT_EQ(completion.opcode(), 0u);
  }
  ASSERT_EQ(pair.receives(pair.first).size(), 2u);
  ASSERT_EQ(pair.receives(pair.second).size(), 2u);
  EXPECT_EQ(pair.receives(pair.first)[1].byte_count(), 600u);
  EXPECT_EQ(pair.receives(pair.first)[1].qpn(), kFirstDctn);
  EXPECT_EQ(pair.receives(pair.first)[1].user_index(), kFirstDctn + 0x1000);
  EXPECT_EQ(pair.receives(pair.second)[0].byte_count(), 700u);
  EXPECT_TRUE(same(pair.memory_a().first(700), pair.memory_b().subspan(2048)));
  const Bytes& packet = pair.wire.log.front();
  EXPECT_EQ(get<std::uint8_t>(packet, 0), 0xc4u) << "SEND_ONLY";
  EXPECT_EQ(get<std::uint64_t>(packet, 12), kAccessKey);
  EXPECT_EQ(get<std::uint32_t>(packet, 28), pair.a.qp->qpn);
  EXPECT_EQ(get<std::uint32_t>(packet, 32), 100u) << "the connection's first PSN";
}

TEST(TransportDc, WritesReadsAndAtomics) {
  DcFixture pair;
  fill(pair.memory_b(), 2);
  pair.a.post(pair.to(pair.first, pair.read(3000)));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ READ #0");
  EXPECT_TRUE(same(pair.memory_b().first(3000), pair.memory_a()));
  std::uint64_t before = 0, after = 0;
  std::memcpy(&before, pair.memory_b().data(), 8);
  pair.a.post(pair.to(pair.second, pair.fetch_add(3)));
  pair.run();
  std::memcpy(&after, pair.memory_b().data(), 8);
  EXPECT_EQ(after, before + 3);
  pair.a.post(pair.to(pair.first, pair.write(2000)));
  pair.run();
  EXPECT_TRUE(same(pair.memory_a().first(2000), pair.memory_b()));
  EXPECT_EQ(pair.a.sends().size(), 3u);
}

TEST(TransportDc, LostPacketsComeAgain) {
  DcFixture pair;
  pair.wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    return Fate{.copies = number % 5 == 0 ? 0u : number % 7 == 0 ? 2u : 1u};
  };
  for (std::uint32_t i = 0; i < 4; ++i) {
    Target& target = i % 2 == 0 ? pair.first : pair.second;
    target.queue.post_receive({{pair.key_b, i * 2048, 2048}});
    pair.a.write_wqe(pair.to(target, pair.send(1500 + i)));
  }
  pair.a.ring();
  pair.run();
  ASSERT_EQ(pair.a.sends().size(), 4u) << pair.a.send_text();
  EXPECT_EQ(pair.receives(pair.first).size(), 2u);
  EXPECT_EQ(pair.receives(pair.second).size(), 2u);
  EXPECT_TRUE(same(pair.memory_a().first(1503), pair.memory_b().subspan(3 * 2048)));
}

TEST(TransportDc, WhatComesLateFromAnOldConnectionIsOld) {
  DcFixture pair;
  pair.wire.keep_log = true;
  for (std::uint32_t i = 0; i < 3; ++i) {
    pair.first.queue.post_receive({{pair.key_b, 0, 64}});
  }
  pair.second.queue.post_receive({{pair.key_b, 0, 64}});
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run();
  const Bytes old = pair.wire.log.front();
  pair.a.post(pair.to(pair.second, pair.send(8)));
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run();
  ASSERT_EQ(pair.receives(pair.first).size(), 2u);
  pair.device_b.port->arrive(pair.device_a.port->address(), old);
  pair.run();
  EXPECT_EQ(pair.receives(pair.first).size(), 2u);
}

TEST(TransportDc, AWrongKeyIsTurnedAwayAndCounted) {
  DcFixture pair;
  pair.first.queue.post_receive({{pair.key_b, 0, 64}});
  WorkRequest wrong = pair.to(pair.first, pair.send(8));
  wrong.access_key = kAccessKey + 1;
  pair.a.post(wrong);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 13 SEND #0");
  EXPECT_EQ(pair.a.qp->state, QpState::kErr);
  EXPECT_TRUE(pair.receives(pair.first).empty());
  EXPECT_EQ(pair.first.qp->dc_key_violations, 1u);
  EXPECT_EQ(pair.device_b.events, (std::vector<Event>{{kKeyViolation, kFirstDctn}}));
}

TEST(TransportDc, ARefusalEndsOneInitiatorsConnectionOnly) {
  DcFixture pair;
  Queue other(pair.device_a, {.qpn = 0x110});
  other.qp->type = QpType::kDci;
  other.qp->path.log_mtu = 1;
  other.qp->max_initiated_rd_atomic = 4;
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    pair.device_a.set_state(*other.qp, state);
  }
  WorkRequest bad = pair.to(pair.first, pair.write(8));
  bad.rkey = 0x9900;
  pair.a.post(bad);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 13 WRITE #0");
  EXPECT_EQ(pair.first.qp->state, QpState::kRtr);
  other.post(pair.to(pair.first, pair.write(8)));
  pair.run();
  EXPECT_EQ(other.send_text(), "REQ WRITE #0");
}

TEST(TransportDc, AnEmptyQueueIsNotReadyAndThenIs) {
  DcFixture pair;
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run(kMillisecond / 10);
  EXPECT_EQ(pair.a.send_text(), "");
  pair.first.queue.post_receive({{pair.key_b, 0, 64}});
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0");
}

TEST(TransportDc, ATargetThatIsGoneAnswersNot) {
  DcFixture pair;
  pair.first.queue.post_receive({{pair.key_b, 0, 64}});
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run();
  pair.device_b.transport.forget(*pair.first.qp);
  pair.device_b.qps.erase(kFirstDctn);
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0; REQ_ERR 15 SEND #2") << "retries exceeded";
}

WorkRequest in_stream(std::uint16_t stream, WorkRequest request) {
  request.stream = stream;
  return request;
}

TEST(TransportDc, AFailedStreamLeavesTheOthers) {
  DcFixture pair;
  pair.a.qp->max_errored_streams = 2;
  WorkRequest bad = pair.to(pair.first, pair.write(8));
  bad.list[0].key = 0x9900;
  pair.a.write_wqe(in_stream(1, pair.to(pair.first, pair.write(8))));
  pair.a.write_wqe(in_stream(2, bad));
  pair.a.write_wqe(in_stream(2, pair.to(pair.first, pair.write(8))));
  pair.a.post(in_stream(1, pair.to(pair.second, pair.write(8))));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ_ERR 04 WRITE #2; REQ_ERR 05 WRITE #4; REQ WRITE #6");
  EXPECT_EQ(pair.a.qp->state, QpState::kRts);
  EXPECT_FALSE(pair.device_a.transport.reset_stream(*pair.a.qp, 1)) << "has not failed";
  EXPECT_TRUE(pair.device_a.transport.reset_stream(*pair.a.qp, 2));
  pair.a.sends().clear();
  pair.a.post(in_stream(2, pair.to(pair.first, pair.write(8))));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #8");
}

TEST(TransportDc, ARefusedStreamLeavesWhatIsUnderWayOfTheOthers) {
  DcFixture pair;
  pair.a.qp->max_errored_streams = 4;
  WorkRequest bad = pair.to(pair.first, pair.write(8));
  bad.rkey = 0x9900;
  pair.a.write_wqe(in_stream(1, bad));
  pair.a.write_wqe(in_stream(2, pair.to(pair.first, pair.write(1000))));
  pair.a.post(in_stream(3, pair.to(pair.first, pair.write(2000))));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 13 WRITE #0; REQ WRITE #2; REQ WRITE #4");
  EXPECT_TRUE(same(pair.memory_a().first(2000), pair.memory_b()));
}

TEST(TransportDc, TheLastStreamThatMayFailTakesTheQp) {
  DcFixture pair;
  pair.a.qp->max_errored_streams = 2;
  WorkRequest bad = pair.to(pair.first, pair.write(8));
  bad.list[0].key = 0x9900;
  pair.a.write_wqe(in_stream(1, bad));
  pair.a.write_wqe(in_stream(2, bad));
  pair.a.post(in_stream(3, pair.to(pair.first, pair.write(8))));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 04 WRITE #0; REQ_ERR 04 WRITE #2; REQ_ERR 05 WRITE #4");
  EXPECT_EQ(pair.a.qp->state, QpState::kErr);
}

}  // namespace
}  // namespace softhca::hca
