// XRC: a message names the shared receive queue that takes it, among those of the target's domain.
//
// Wire opcodes and the XRCETH: IBA table 38 and annex A14.
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint32_t kDomain = 7, kSrqn = 0x31, kOtherPd = 2;

PairOptions xrc() {
  PairOptions options;
  options.type = QpType::kXrc;
  return options;
}

// B is the target; its queues lie in another protection domain than its QP.
struct XrcFixture : Fixture {
  XrcFixture() : Fixture(xrc()), first(device_b, kSrqn, 4), second(device_b, kSrqn + 1, 4) {
    b.qp->xrcd = kDomain;
    b.qp->has_rq = false;
    for (SharedQueue* const queue : {&first, &second}) {
      queue->srq->kind = SrqKind::kXrc;
      queue->srq->xrcd = kDomain;
      queue->srq->pdn = kOtherPd;
      queue->srq->user_index = 0x600 + queue->srq->srqn;
    }
    device_b.keys[key_b].pdn = kOtherPd;
  }
  WorkRequest to(const SharedQueue& queue, WorkRequest request) {
    request.xrc_srqn = queue.srq->srqn;
    return request;
  }
  std::vector<Completion>& receives(const SharedQueue& queue) { return device_b.completions[&queue.cq]; }

  SharedQueue first, second;
};

TEST(TransportXrc, EachMessageGoesToTheQueueThatItNames) {
  XrcFixture pair;
  pair.wire.keep_log = true;
  pair.first.post_receive({{pair.key_b, 0, 1024}});
  pair.second.post_receive({{pair.key_b, 1024, 1024}});
  pair.a.post(pair.to(pair.second, pair.send(700)));
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ SEND #0; REQ SEND #1");
  ASSERT_EQ(pair.receives(pair.first).size(), 1u);
  ASSERT_EQ(pair.receives(pair.second).size(), 1u);
  EXPECT_EQ(pair.receives(pair.first)[0].byte_count(), 8u);
  EXPECT_EQ(pair.receives(pair.first)[0].user_index(), 0x631u);
  EXPECT_EQ(pair.receives(pair.first)[0].qpn(), pair.b.qp->qpn);
  EXPECT_EQ(pair.receives(pair.second)[0].user_index(), 0x632u);
  EXPECT_TRUE(pair.b.receives().empty()) << "the QP's own CQ";
  EXPECT_TRUE(same(pair.memory_a().first(700), pair.memory_b().subspan(1024)));
  EXPECT_TRUE(same(pair.memory_a().first(8), pair.memory_b()));
  ASSERT_GE(pair.wire.log.size(), 4u);
  const Bytes& first_packet = pair.wire.log[0];
  EXPECT_EQ(get<std::uint8_t>(first_packet, 0), 0xa0u) << "XRC SEND_FIRST";
  EXPECT_EQ(get<std::uint32_t>(first_packet, 12), kSrqn + 1) << "XRCETH";
  EXPECT_EQ(get<std::uint8_t>(pair.wire.log.back(), 0), 0xb1u) << "XRC ACKNOWLEDGE";
  EXPECT_EQ(pair.wire.log.back().size(), 16u) << "BTH and AETH";
}

TEST(TransportXrc, ReadsWritesAndAtomicsUseTheKeysOfTheQueuesDomain) {
  XrcFixture pair;
  fill(pair.memory_b(), 2);
  std::uint64_t before = 0;
  std::memcpy(&before, pair.memory_b().data(), sizeof before);
  pair.a.post(pair.to(pair.first, pair.read(3000)));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ READ #0");
  EXPECT_TRUE(same(pair.memory_b().first(3000), pair.memory_a()));
  pair.a.post(pair.to(pair.first, pair.fetch_add(5)));
  pair.run();
  std::uint64_t after = 0;
  std::memcpy(&after, pair.memory_b().data(), sizeof after);
  EXPECT_EQ(after, before + 5);
  fill(pair.memory_a(), 3);
  pair.a.post(pair.to(pair.first, pair.write(600)));
  pair.run();
  EXPECT_TRUE(same(pair.memory_a().first(600), pair.memory_b()));
  EXPECT_EQ(pair.a.sends().size(), 3u);
  EXPECT_EQ(pair.a.sends().back().opcode(), 0u);
}

TEST(TransportXrc, WriteWithImmediateTakesAReceive) {
  XrcFixture pair;
  pair.second.post_receive({});
  WorkRequest write = pair.to(pair.second, pair.write(600));
  write.opcode = kWriteImmediate;
  write.immediate = 0x01020304;
  pair.a.post(write);
  pair.run();
  ASSERT_EQ(pair.receives(pair.second).size(), 1u);
  EXPECT_EQ(pair.receives(pair.second)[0].immediate(), 0x01020304u);
  EXPECT_EQ(pair.receives(pair.second)[0].byte_count(), 600u);
}

TEST(TransportXrc, AnEmptyQueueIsNotReady) {
  XrcFixture pair;
  pair.a.qp->rnr_retry = 1;
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 16 SEND #0") << "RNR retries exceeded";
}

TEST(TransportXrc, AQueueOfAnotherDomainOrNoneIsAnInvalidRequest) {
  for (const bool exists : {true, false}) {
    XrcFixture pair;
    pair.first.post_receive({{pair.key_b, 0, 64}});
    pair.first.srq->xrcd = exists ? kDomain + 1 : kDomain;
    WorkRequest send = pair.to(pair.first, pair.send(8));
    send.xrc_srqn = exists ? send.xrc_srqn : 0x99;
    pair.a.post(send);
    pair.run();
    EXPECT_EQ(pair.a.send_text(), "REQ_ERR 12 SEND #0") << exists;
    EXPECT_TRUE(pair.receives(pair.first).empty());
  }
}

TEST(TransportXrc, ABasicQueueIsNone) {
  XrcFixture pair;
  pair.first.srq->kind = SrqKind::kBasic;
  pair.first.post_receive({{pair.key_b, 0, 64}});
  pair.a.post(pair.to(pair.first, pair.send(8)));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 12 SEND #0");
}

TEST(TransportXrc, KeysOfTheQpsOwnDomainAreNotTheQueues) {
  XrcFixture pair;
  pair.device_b.keys[pair.key_b].pdn = 1;
  pair.a.post(pair.to(pair.first, pair.write(8)));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 13 WRITE #0") << "remote access";
}

TEST(TransportXrc, LostPacketsComeAgain) {
  XrcFixture pair;
  pair.wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    return Fate{.copies = number % 7 == 1 ? 0u : 1u};
  };
  pair.first.post_receive({{pair.key_b, 0, 8192}});
  pair.a.post(pair.to(pair.first, pair.send(8192)));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ SEND #0");
  EXPECT_TRUE(same(pair.memory_a(), pair.memory_b()));
}

TEST(TransportXrc, AQueueThatGoesAwayAmidAMessageGetsNoCompletion) {
  XrcFixture pair;
  pair.first.post_receive({{pair.key_b, 0, 8192}});
  pair.wire.fate = [&](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    if (number == 3) {
      pair.device_b.srqs.erase(kSrqn);
    }
    return Fate{};
  };
  pair.a.post(pair.to(pair.first, pair.send(8192)));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 12 SEND #0");
  EXPECT_TRUE(pair.receives(pair.first).empty());
}

}  // namespace
}  // namespace softhca::hca
