#include "tools/softhca/hca/transport.h"

#include <gtest/gtest.h>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

// Sizes at and around multiples of the 256-byte path MTU.
const std::uint32_t kSizes[] = {0, 1, 3, 255, 256, 257, 511, 512, 513, 1024, 4095, 8192};

class Sizes : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Transport, Sizes, testing::ValuesIn(kSizes));

TEST_P(Sizes, SendArrives) {
  Fixture pair;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  pair.a.post(pair.send(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ SEND #0");
  ASSERT_EQ(pair.b.receive_text(), "RECV #0");
  EXPECT_EQ(pair.b.receives()[0].byte_count(), GetParam());
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
  EXPECT_EQ(std::count(pair.memory_b().begin() + GetParam(), pair.memory_b().end(), std::byte{0}), 8192 - GetParam());
}

TEST_P(Sizes, WriteArrives) {
  Fixture pair;
  pair.a.post(pair.write(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE #0");
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
}

TEST_P(Sizes, WriteWithImmediateArrivesAndCompletesAReceive) {
  Fixture pair;
  pair.b.post_receive({});
  WorkRequest request = pair.write(GetParam());
  request.opcode = kWriteImmediate;
  request.immediate = 0x11223344;
  pair.a.post(request);
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE_IMM #0");
  ASSERT_EQ(pair.b.receive_text(), "WRITE_IMM #0");
  EXPECT_EQ(pair.b.receives()[0].byte_count(), GetParam());
  EXPECT_EQ(pair.b.receives()[0].immediate(), 0x11223344u);
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
}

TEST_P(Sizes, ReadBringsBytes) {
  Fixture pair;
  fill(pair.memory_b(), 2);
  pair.a.post(pair.read(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ READ #0");
  EXPECT_EQ(pair.a.sends()[0].byte_count(), GetParam());
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
}

// ---- Opcodes ----

TEST(Transport, SendWithImmediateAndSolicitedEvent) {
  Fixture pair;
  pair.b.post_receive({{pair.key_b, 16, 100}});
  WorkRequest request = pair.send(100);
  request.opcode = kSendImmediate;
  request.immediate = 0x11223344;
  request.fm_ce_se = 0x0a;  // always a CQE, solicited
  pair.a.post(request);
  pair.run();
  ASSERT_EQ(pair.b.receive_text(), "RECV_IMM #0");
  const Completion& receive = pair.b.receives()[0];
  EXPECT_EQ(receive.immediate(), 0x11223344u);
  EXPECT_TRUE(receive.solicited);
  EXPECT_EQ(static_cast<unsigned>(receive.cqe[63]), 0x32u) << "opcode 3, SE";
  EXPECT_EQ(get<std::uint32_t>(receive.cqe, 24) & 0xffffff, 0x100u) << "source QPN";
  EXPECT_EQ(receive.qpn(), 0x200u);
  EXPECT_TRUE(same(pair.memory_a().first(100), pair.memory_b().subspan(16)));
}

TEST(Transport, SendWithInvalidateFreesTheKey) {
  Fixture pair;
  const std::uint32_t window = pair.device_b.add_key(64);
  pair.device_b.keys[window].may_invalidate = true;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  WorkRequest request = pair.send(300);
  request.opcode = kSendInvalidate;
  request.immediate = window;
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND_INV #0");
  ASSERT_EQ(pair.b.receive_text(), "RECV_INV #0");
  EXPECT_EQ(pair.b.receives()[0].immediate(), window);
  EXPECT_EQ(pair.device_b.keys.count(window), 0u);
}

TEST(Transport, AtomicsChangeAndReturnWhatWasThere) {
  Fixture pair;
  std::uint64_t value = 0x0102030405060708;
  std::memcpy(pair.memory_b().data(), &value, 8);
  WorkRequest add = pair.fetch_add(5);
  WorkRequest swap = pair.fetch_add(0x77);
  swap.opcode = kCompareSwap;
  swap.compare = value + 5;
  swap.list[0].offset_bytes = 8;
  WorkRequest miss = swap;
  miss.list[0].offset_bytes = 16;
  pair.a.post(add);
  pair.a.post(swap);
  pair.a.post(miss);
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ FA #0; REQ CS #1; REQ CS #2");
  EXPECT_EQ(pair.a.sends()[0].byte_count(), 8u);
  std::uint64_t got[3];
  std::memcpy(got, pair.memory_a().data(), 24);
  EXPECT_EQ(got[0], value);
  EXPECT_EQ(got[1], value + 5);
  EXPECT_EQ(got[2], 0x77u);
  std::memcpy(&value, pair.memory_b().data(), 8);
  EXPECT_EQ(value, 0x77u);
}

TEST(Transport, NopCompletesInItsTurn) {
  Fixture pair;
  pair.a.write_wqe({.opcode = kNop});
  pair.a.write_wqe(pair.write(5000));
  pair.a.write_wqe({.opcode = kNop});
  pair.a.write_wqe({.opcode = kNop});
  pair.a.ring();
  pair.device_a.transport.progress(pair.now_ns);
  EXPECT_EQ(pair.a.send_text(), "REQ NOP #0");
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ NOP #0; REQ WRITE #1; REQ NOP #2; REQ NOP #3");
}

TEST(Transport, UnsignaledRequestsCompleteSilently) {
  Fixture pair;
  WorkRequest quiet = pair.write(10);
  quiet.fm_ce_se = 0;
  pair.a.post(quiet);
  pair.a.post(quiet);
  pair.a.post(pair.write(10));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #2");
}

// ---- Lists ----

TEST(Transport, GatherAndScatterListsOfEverySplit) {
  for (std::uint32_t split = 0; split <= 600; split += 25) {
    Fixture pair({.a = {.log_sq_wqebbs = 6}});
    pair.device_a.keys[pair.key_a].split_bytes = 96;
    pair.device_b.keys[pair.key_b].split_bytes = 160;
    pair.b.post_receive({{pair.key_b, 1000, 600 - split}, {pair.key_b, 3000, 37}, {pair.key_b, 5000, 700}});
    pair.a.post({.opcode = kSend, .list = {{pair.key_a, 7, split}, {pair.key_a, 4000, 601 - split}}});
    pair.run();
    ASSERT_EQ(pair.b.receive_text(), "RECV #0") << split;
    Bytes sent, got;
    const auto add = [](Bytes& to, std::span<std::byte> from) { to.insert(to.end(), from.begin(), from.end()); };
    add(sent, pair.memory_a().subspan(7, split));
    add(sent, pair.memory_a().subspan(4000, 601 - split));
    add(got, pair.memory_b().subspan(1000, 600 - split));
    add(got, pair.memory_b().subspan(3000, 37));
    add(got, pair.memory_b().subspan(5000, 700));
    got.resize(601);
    EXPECT_EQ(sent, got) << split;
  }
}

TEST(Transport, InlineDataOfEverySizeWrapsInTheRing) {
  // A ring of 8 WQEBBs: WQEs of up to 5 WQEBBs start at every block.
  Fixture pair({.a = {.log_sq_wqebbs = 3}});
  for (std::uint32_t size = 0; size <= 280; ++size) {
    Bytes data(size);
    fill(data, size);
    pair.a.post({.opcode = kWrite, .inline_data = data, .remote_address = pair.address_b(size), .rkey = pair.key_b});
    pair.run();
    ASSERT_EQ(pair.a.sends().size(), size + 1u);
    ASSERT_EQ(pair.a.sends().back().opcode(), 0u) << size;
    ASSERT_TRUE(same(data, pair.memory_b().subspan(size))) << size;
  }
}

TEST(Transport, LongGatherListsWrapInTheRing) {
  Fixture pair({.a = {.log_sq_wqebbs = 4, .sq_page_offset_bytes = 3968}});
  for (unsigned round = 0; round < 64; ++round) {
    WorkRequest request = pair.write(0);
    request.list.clear();
    Bytes sent;
    for (unsigned i = 0; i < 1 + round % 60; ++i) {
      request.list.push_back({pair.key_a, i * 100 + round, 13});
      const auto part = pair.memory_a().subspan(i * 100 + round, 13);
      sent.insert(sent.end(), part.begin(), part.end());
    }
    pair.a.post(request);
    pair.run();
    ASSERT_EQ(pair.a.sends().back().opcode(), 0u) << round;
    ASSERT_TRUE(same(sent, pair.memory_b())) << round;
  }
}

// ---- Counters that wrap ----

TEST(Transport, PsnsWrapAt24Bits) {
  for (std::uint32_t before = 1; before <= 12; ++before) {
    Fixture pair({.psn_a = 0x1000000 - before});
    fill(pair.memory_b(), 3);
    Bytes expected(pair.memory_b().begin(), pair.memory_b().begin() + 1000);
    pair.b.post_receive({{pair.key_b, 4096, 2048}});
    pair.a.post(pair.send(1300));
    WorkRequest read = pair.read(1000);
    read.list[0].offset_bytes = 2048;
    pair.a.post(read);
    WorkRequest write = pair.write(700);  // elsewhere: without a fence it may overtake the read
    write.remote_address = pair.address_b(6144);
    pair.a.post(write);
    pair.run();
    ASSERT_EQ(pair.a.send_text(), "REQ SEND #0; REQ READ #1; REQ WRITE #2") << before;
    EXPECT_TRUE(same(expected, pair.memory_a().subspan(2048)));
    EXPECT_TRUE(same(pair.memory_a().first(1300), pair.memory_b().subspan(4096)));
    EXPECT_TRUE(same(pair.memory_a().first(700), pair.memory_b().subspan(6144)));
  }
}

TEST(Transport, WqeCountersWrapAt16Bits) {
  Fixture pair;
  const unsigned total = 0x10000 + 114;  // a multiple of 50
  for (unsigned posted = 0; posted < total; posted += 50) {
    for (unsigned i = 0; i < 50; ++i) {
      pair.b.post_receive({{pair.key_b, 0, 64}});
      WorkRequest request = pair.send(8);
      request.fm_ce_se = i == 49 ? 0x08 : 0;
      pair.a.write_wqe(request);
    }
    pair.a.ring();
    pair.run();
    ASSERT_EQ(pair.a.sends().back().wqe_counter(), static_cast<std::uint16_t>(posted + 49));
    ASSERT_EQ(pair.a.sends().back().opcode(), 0u);
    ASSERT_EQ(pair.b.receives().back().wqe_counter(), static_cast<std::uint16_t>(posted + 49));
  }
  EXPECT_EQ(pair.b.receives().size(), total + 0u);
}

// ---- What CQEs carry ----

TEST(Transport, CqesNameTheUserIndexOrTheSrq) {
  Fixture pair;
  pair.a.qp->user_index = 0x123456;
  pair.b.post_receive({{pair.key_b, 0, 64}});
  pair.b.post_receive({{pair.key_b, 0, 64}});
  pair.a.post(pair.send(1));
  pair.run();
  EXPECT_EQ(pair.a.sends()[0].user_index(), 0x123456u);
  EXPECT_EQ(pair.b.receives()[0].user_index(), 0u) << "CQE version 0, no SRQ";
  pair.b.qp->user_index = 0x42;
  pair.a.post(pair.send(1));
  pair.run();
  EXPECT_EQ(pair.b.receives()[1].user_index(), 0x42u);
}

TEST(Transport, ShortMessagesAreScatteredToTheCqe) {
  Fixture pair;
  pair.b.qp->inline_scatter_responder_bytes = 32;
  pair.a.qp->inline_scatter_requester_bytes = 64;
  for (std::uint32_t size : {0u, 1u, 32u, 33u}) {
    fill(pair.memory_b(), 9);
    const Bytes before(pair.memory_b().begin(), pair.memory_b().end());
    pair.b.post_receive({{pair.key_b, 0, 64}});
    pair.a.post(pair.send(size));
    pair.run();
    const Completion& receive = pair.b.receives().back();
    ASSERT_EQ(receive.byte_count(), size);
    if (size == 0 || size > 32) {
      EXPECT_TRUE(receive.data.empty());
      EXPECT_TRUE(same(pair.memory_a().first(size), pair.memory_b()));
    } else {
      ASSERT_EQ(receive.data.size(), 32u);
      EXPECT_TRUE(same(pair.memory_a().first(size), receive.data));
      EXPECT_TRUE(same(before, pair.memory_b())) << "memory stays as it was";
    }
  }
  pair.a.sends().clear();
  pair.a.post(pair.read(64));
  pair.a.post(pair.fetch_add(1));
  pair.a.post(pair.read(65));
  WorkRequest quiet = pair.read(40);
  quiet.fm_ce_se = 0;
  quiet.list[0].offset_bytes = 1000;
  pair.a.post(quiet);
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ READ #4; REQ FA #5; REQ READ #6");
  EXPECT_EQ(pair.a.sends()[0].data.size(), 64u);
  EXPECT_EQ(pair.a.sends()[1].data.size(), 64u);
  EXPECT_TRUE(pair.a.sends()[2].data.empty());
  EXPECT_TRUE(same(pair.memory_b().subspan(8, 32), pair.memory_a().subspan(1008)))
      << "without a CQE the data goes to memory";
}

// ---- Shared receive queues ----

TEST(Transport, SharedReceiveQueueFollowsItsLinks) {
  PairOptions options;
  Pair bare(options);
  SharedQueue shared(bare.device_b, 0x777, 2);
  Queue x(bare.device_b, {.qpn = 0x300, .srq = shared.srq});
  bare.b.qp->srq = shared.srq;
  const std::uint32_t key_a = bare.device_a.add_key(256), key_b = bare.device_b.add_key(256);
  shared.srq->limit = 2;
  for (unsigned i = 0; i < 4; ++i) {
    shared.post_receive({{key_b, i * 32, 32}});
  }
  const std::uint16_t order[] = {0, 3, 2, 1};
  for (unsigned i = 0; i < 4; ++i) {
    bare.a.post({.opcode = kSend, .list = {{key_a, 0, 8 + i}}});
    bare.run();
    ASSERT_EQ(bare.b.receives().size(), i + 1u);
    EXPECT_EQ(bare.b.receives()[i].wqe_counter(), order[i]);
    EXPECT_EQ(bare.b.receives()[i].user_index(), 0x777u);
    EXPECT_EQ(bare.device_b.events.size(), i < 2 ? 0u : 1u) << "limit event when fewer than 2 are left, once";
  }
  EXPECT_EQ(bare.device_b.events[0], (Event{0x14, 0x777}));
}

TEST(Transport, EmptyEntriesOfASharedReceiveListAreSkipped) {
  Pair pair;
  SharedQueue shared(pair.device_b, 0x777, 2);
  pair.b.qp->srq = shared.srq;
  const std::uint32_t key_a = pair.device_a.add_key(256), key_b = pair.device_b.add_key(256);
  fill(pair.device_a.memory_of(key_a), 4);
  shared.post_receive({{key_b, 0, 0}, {key_b, 100, 64}});
  pair.a.post({.opcode = kSend, .list = {{key_a, 0, 64}}});
  pair.run();
  EXPECT_TRUE(same(pair.device_a.memory_of(key_a).first(64), pair.device_b.memory_of(key_b).subspan(100)));
}

// ---- States ----

TEST(Transport, FirstPacketInRtrRaisesCommunicationEstablished) {
  Fixture pair;
  pair.device_b.set_state(*pair.b.qp, QpState::kReset);
  pair.device_b.set_state(*pair.b.qp, QpState::kInit);
  pair.device_b.set_state(*pair.b.qp, QpState::kRtr);
  pair.a.post(pair.write(600));
  pair.a.post(pair.write(600));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ WRITE #1");
  EXPECT_EQ(pair.device_b.events, (std::vector<Event>{{0x02, 0x200}}));
}

TEST(Transport, SqdFinishesWhatIsStartedAndHoldsTheRest) {
  Fixture pair;
  pair.a.post(pair.write(8192));
  pair.device_a.transport.progress(pair.now_ns);  // 16 packets of 32 are out
  pair.a.post(pair.write(1));
  pair.device_a.set_state(*pair.a.qp, QpState::kSqDrained);
  EXPECT_TRUE(pair.device_a.events.empty());
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0");
  EXPECT_EQ(pair.device_a.events, (std::vector<Event>{{0x03, 0x100}}));
  pair.device_a.set_state(*pair.a.qp, QpState::kRts);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ WRITE #1");
}

TEST(Transport, SqdOfAnIdleQueueIsDrainedAtOnce) {
  Fixture pair;
  pair.device_a.set_state(*pair.a.qp, QpState::kSqDrained);
  EXPECT_EQ(pair.device_a.events, (std::vector<Event>{{0x03, 0x100}}));
}

TEST(Transport, AForgottenQpLeavesNothingBehind) {
  Fixture pair;
  pair.a.post(pair.write(8192));
  pair.device_a.transport.progress(pair.now_ns);
  pair.device_a.transport.forget(*pair.a.qp);
  pair.device_a.qps.clear();
  EXPECT_EQ(pair.device_a.transport.next_deadline_ns().has_value(), false);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "");
}

TEST(Transport, ResetAndReuseStartsAtIndexZero) {
  Fixture pair;
  pair.a.post(pair.write(100));
  pair.run();
  for (Queue* queue : {&pair.a, &pair.b}) {
    queue->device.set_state(*queue->qp, QpState::kReset);
    put<std::uint64_t>(queue->doorbell_record, 0, 0);
    queue->sq_producer = queue->rq_producer = 0;
    queue->device.set_state(*queue->qp, QpState::kInit);
    queue->device.set_state(*queue->qp, QpState::kRtr);
    queue->device.set_state(*queue->qp, QpState::kRts);
  }
  pair.a.post(pair.write(100));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ WRITE #0");
}

// ---- Order ----

// What a test sees of the packets of one direction: "SEND_ONLY@5" and so on would be long; opcodes in hex are enough.
std::string opcodes(const std::vector<Bytes>& log) {
  std::string out;
  for (const Bytes& packet : log) {
    char text[8];
    std::snprintf(text, sizeof text, "%02x ", static_cast<unsigned>(packet[0]));
    out += text;
  }
  return out;
}

TEST(Transport, AFencedRequestWaitsForReads) {
  for (const bool fenced : {false, true}) {
    Fixture pair;
    pair.wire.keep_log = true;
    pair.a.write_wqe(pair.read(100));
    WorkRequest write = pair.write(100);
    write.fm_ce_se = fenced ? 0x88 : 0x08;
    pair.a.write_wqe(write);
    pair.a.ring();
    pair.run();
    // 0c READ request, 0a WRITE only, 10 READ response only, 11 ACK.
    EXPECT_EQ(opcodes(pair.wire.log), fenced ? "0c 10 0a 11 " : "0c 0a 10 11 ");
  }
}

TEST(Transport, NoMoreReadsUnderWayThanTheInitiatorDepth) {
  Fixture pair({.rd_atomic = 2});
  pair.wire.keep_log = true;
  for (unsigned i = 0; i < 3; ++i) {
    pair.a.write_wqe(pair.fetch_add(1));
  }
  pair.a.ring();
  pair.run();
  // 14 FETCH_ADD, 12 ATOMIC_ACK.
  EXPECT_EQ(opcodes(pair.wire.log), "14 14 12 12 14 12 ");
  EXPECT_EQ(pair.a.sends().size(), 3u);
}

TEST(Transport, LongMessagesOfTwoQpsShareTheWire) {
  Fixture pair;
  Queue second(pair.device_a, {.qpn = 0x101});
  Qp& qp = *second.qp;
  qp.path = pair.a.qp->path;
  qp.remote_qpn = 0x999;  // nobody: its packets are seen on the wire only
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    pair.device_a.set_state(qp, state);
  }
  pair.wire.keep_log = true;
  pair.a.post(pair.write(8192));
  second.post(pair.write(8192));
  pair.device_a.transport.progress(pair.now_ns);
  unsigned to_first = 0, to_second = 0;
  for (const Bytes& packet : pair.wire.log) {
    (get<std::uint32_t>(packet, 4) == 0x200 ? to_first : to_second) += 1;
  }
  EXPECT_EQ(to_first, 16u);
  EXPECT_EQ(to_second, 16u);
}

}  // namespace
}  // namespace softhca::hca
