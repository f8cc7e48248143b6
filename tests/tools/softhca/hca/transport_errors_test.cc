// Every way a request can fail: what both sides complete, raise and flush.
//
// Syndromes: mlx5dv.h MLX5_CQE_SYNDROME_*; event types: Linux device.h enum mlx5_event.
#include <gtest/gtest.h>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr unsigned kInvalidRequestEvent = 0x10;
constexpr unsigned kAccessErrorEvent = 0x11;
constexpr unsigned kCatastrophicEvent = 0x05;
constexpr unsigned kLastWqeEvent = 0x13;

// Posts `bad` between two good writes and expects it to fail and what follows to be flushed.
void expect_local_failure(Fixture& pair, const WorkRequest& bad, const std::string& failure) {
  pair.a.write_wqe(pair.write(10));
  pair.a.write_wqe(bad);
  pair.a.write_wqe(pair.write(20));
  pair.a.ring();
  pair.run(1'000'000'000);
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; " + failure + "; REQ_ERR 05 WRITE #2");
  EXPECT_EQ(pair.a.qp->state, QpState::kErr);
  EXPECT_EQ(pair.b.qp->state, QpState::kRts) << "the peer is not concerned";
}

TEST(TransportErrors, ErrorCqeHasTheDocumentedBytes) {
  Fixture pair;
  pair.a.qp->user_index = 0x0a0b0c;
  WorkRequest request = pair.send(10);
  request.list[0].key = 0xdead00;
  pair.a.post(pair.write(1));
  pair.a.post(request);
  pair.run(1'000'000'000);
  ASSERT_EQ(pair.a.sends().size(), 2u);
  std::array<std::byte, 64> expected{};
  expected[33] = std::byte{0x0a};
  expected[34] = std::byte{0x0b};
  expected[35] = std::byte{0x0c};
  expected[54] = std::byte{0x51};
  expected[55] = std::byte{0x04};
  expected[56] = std::byte{0x0a};  // SEND
  expected[58] = std::byte{0x01};  // QPN 0x100
  expected[61] = std::byte{0x01};  // WQE counter 1
  expected[63] = std::byte{0xd0};  // opcode 13
  EXPECT_EQ(pair.a.sends()[1].cqe, expected);
}

TEST(TransportErrors, GatherKeyThatDoesNotExist) {
  Fixture pair;
  WorkRequest bad = pair.write(10);
  bad.list[0].key = 0xdead00;
  expect_local_failure(pair, bad, "REQ_ERR 04 WRITE #1");
}

TEST(TransportErrors, ALongMessageWithABadPieceSendsNothing) {
  Fixture pair;
  WorkRequest bad = pair.write(1000);
  bad.list.push_back({0xdead00, 0, 1000});
  expect_local_failure(pair, bad, "REQ_ERR 04 WRITE #1");
  EXPECT_TRUE(same(pair.memory_a().first(10), pair.memory_b()));
  EXPECT_EQ(pair.memory_b()[10], std::byte{0});
}

TEST(TransportErrors, GatherBeyondTheKeysEnd) {
  Fixture pair;
  WorkRequest bad = pair.send(100);
  bad.list[0].offset_bytes = 8192 - 99;
  expect_local_failure(pair, bad, "REQ_ERR 04 SEND #1");
}

TEST(TransportErrors, GatherFromMemoryThatIsGone) {
  Fixture pair;
  const std::uint32_t gone = pair.device_a.add_key(4096);
  pair.device_a.memory.unmap(pair.device_a.memory_of(gone));
  WorkRequest bad = pair.send(100);
  bad.list[0].key = gone;
  expect_local_failure(pair, bad, "REQ_ERR 04 SEND #1");
}

TEST(TransportErrors, ReadIntoMemoryThatMayNotBeWritten) {
  Fixture pair;
  const std::uint32_t key = pair.device_a.add_key(4096);
  pair.device_a.keys[key].local_write = false;
  WorkRequest bad = pair.read(100);
  bad.list[0].key = key;
  expect_local_failure(pair, bad, "REQ_ERR 04 READ #1");
}

TEST(TransportErrors, KeyOfAnotherProtectionDomain) {
  Fixture pair;
  const std::uint32_t key = pair.device_a.add_key(4096);
  pair.device_a.keys[key].pdn = 2;
  WorkRequest bad = pair.send(100);
  bad.list[0].key = key;
  expect_local_failure(pair, bad, "REQ_ERR 04 SEND #1");
}

TEST(TransportErrors, MessagesOfMoreThanTwoGibibytes) {
  Fixture pair;
  WorkRequest bad = pair.write(0x7fffffff);
  bad.list.push_back({pair.key_a, 0, 2});
  expect_local_failure(pair, bad, "REQ_ERR 01 WRITE #1");
}

TEST(TransportErrors, AtomicsOfOtherThanEightBytes) {
  Fixture pair;
  WorkRequest bad = pair.fetch_add(1);
  bad.list[0].bytes = 4;
  expect_local_failure(pair, bad, "REQ_ERR 01 FA #1");
}

TEST(TransportErrors, OpcodesThatTheQueueDoesNotExecute) {
  for (const std::uint8_t opcode : {0x0e, 0x0f, 0x2c, 0x33, 0xff}) {
    Fixture pair;
    WorkRequest bad = pair.send(10);
    bad.opcode = opcode;
    expect_local_failure(pair, bad, "REQ_ERR 02 ? #1");
    EXPECT_EQ(pair.a.sends()[1].send_opcode(), opcode);
  }
}

TEST(TransportErrors, ReadsWithoutInitiatorDepth) {
  Fixture pair({.rd_atomic = 0});
  expect_local_failure(pair, pair.read(10), "REQ_ERR 02 READ #1");
}

// Spoils one byte of a WQE's control segment.
void expect_bad_wqe(std::size_t offset, std::uint8_t value) {
  SCOPED_TRACE(offset);
  Fixture pair;
  pair.a.write_wqe(pair.send(10));
  pair.a.sq[offset] = static_cast<std::byte>(value);
  pair.a.ring();
  pair.run(1'000'000'000);
  ASSERT_EQ(pair.a.sends().size(), 1u);
  EXPECT_EQ(pair.a.sends()[0].opcode(), 13u);
  EXPECT_EQ(pair.a.sends()[0].syndrome(), 2u);
}

TEST(TransportErrors, ControlSegmentsThatMakeNoSense) {
  expect_bad_wqe(7, 0);   // DS
  expect_bad_wqe(7, 63);  // DS beyond what is posted
  expect_bad_wqe(2, 1);   // WQE index
  expect_bad_wqe(5, 9);   // QPN
}

TEST(TransportErrors, ProducerCounterThatTheRingCannotHold) {
  Fixture pair;
  pair.a.sq_producer = 65;  // of 64 WQEBBs
  pair.a.ring();
  pair.run(1'000'000'000);
  EXPECT_EQ(pair.a.qp->state, QpState::kErr);
  EXPECT_EQ(pair.device_a.events, (std::vector<Event>{{kCatastrophicEvent, 0x100}}));
}

// ---- The peer refuses ----

struct Refusal {
  std::string sender;         // what the sender completes
  std::vector<Event> events;  // what the peer raises
  std::string receiver;       // what the peer completes
};

void expect_refused(Fixture& pair, const WorkRequest& bad, const Refusal& expected) {
  pair.a.write_wqe(pair.write(10));
  pair.a.write_wqe(bad);
  pair.a.write_wqe(pair.write(20));
  pair.a.ring();
  pair.run(1'000'000'000);
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; " + expected.sender + "; REQ_ERR 05 WRITE #2");
  EXPECT_EQ(pair.b.receive_text(), expected.receiver);
  EXPECT_EQ(pair.device_b.events, expected.events);
  EXPECT_TRUE(pair.device_a.events.empty());
  EXPECT_EQ(pair.a.qp->state, QpState::kErr);
  EXPECT_EQ(pair.b.qp->state, QpState::kErr);
}

TEST(TransportErrors, RemoteKeyThatDoesNotExist) {
  for (const std::uint8_t opcode : {kWrite, kRead}) {
    Fixture pair;
    WorkRequest bad = pair.write(1000);
    bad.opcode = opcode;
    bad.rkey = 0xdead00;
    expect_refused(pair, bad,
                   {opcode == kWrite ? "REQ_ERR 13 WRITE #1" : "REQ_ERR 13 READ #1", {{kAccessErrorEvent, 0x200}}, ""});
  }
}

TEST(TransportErrors, NoBytesNeedNoKey) {
  Fixture pair;
  WorkRequest request = pair.write(0);
  request.rkey = 0xdead00;
  pair.a.post(request);
  request.opcode = kRead;
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ READ #1");
}

TEST(TransportErrors, WriteBeyondTheRemoteKeysEndWritesNothing) {
  Fixture pair;
  WorkRequest bad = pair.write(1000);
  bad.remote_address = pair.address_b(8192 - 999);
  expect_refused(pair, bad, {"REQ_ERR 13 WRITE #1", {{kAccessErrorEvent, 0x200}}, ""});
  EXPECT_EQ(pair.memory_b()[8192 - 999], std::byte{0});
}

TEST(TransportErrors, RightsOfTheQpAndOfTheKeyBothCount) {
  const auto with = [](auto&& change, std::uint8_t opcode, const char* text) {
    Fixture pair;
    change(pair);
    WorkRequest bad = opcode == kFetchAdd ? pair.fetch_add(1) : pair.read(8);
    bad.opcode = opcode;
    pair.a.post(bad);
    pair.run(1'000'000'000);
    EXPECT_EQ(pair.a.send_text(), text);
    EXPECT_EQ(pair.device_b.events, (std::vector<Event>{{kAccessErrorEvent, 0x200}}));
  };
  with([](Fixture& pair) { pair.b.qp->remote_write = false; }, kWrite, "REQ_ERR 13 WRITE #0");
  with([](Fixture& pair) { pair.b.qp->remote_read = false; }, kRead, "REQ_ERR 13 READ #0");
  with([](Fixture& pair) { pair.b.qp->remote_atomic = false; }, kFetchAdd, "REQ_ERR 13 FA #0");
  with([](Fixture& pair) { pair.device_b.keys[pair.key_b].remote_write = false; }, kWrite, "REQ_ERR 13 WRITE #0");
  with([](Fixture& pair) { pair.device_b.keys[pair.key_b].remote_read = false; }, kRead, "REQ_ERR 13 READ #0");
  with([](Fixture& pair) { pair.device_b.keys[pair.key_b].remote_atomic = false; }, kFetchAdd, "REQ_ERR 13 FA #0");
  with([](Fixture& pair) { pair.b.qp->pdn = 2; }, kRead, "REQ_ERR 13 READ #0");
}

TEST(TransportErrors, AtomicOnAnAddressThatIsNotAligned) {
  Fixture pair;
  WorkRequest bad = pair.fetch_add(1);
  bad.remote_address += 4;
  expect_refused(pair, bad, {"REQ_ERR 12 FA #1", {{kInvalidRequestEvent, 0x200}}, ""});
}

TEST(TransportErrors, MoreReadsThanTheResponderHasRoomFor) {
  Fixture pair;
  pair.b.qp->max_target_rd_atomic = 0;
  expect_refused(pair, pair.read(8), {"REQ_ERR 12 READ #1", {{kInvalidRequestEvent, 0x200}}, ""});
}

TEST(TransportErrors, SendLongerThanTheReceiveRequest) {
  for (const std::uint32_t receive_bytes : {0u, 255u, 256u, 999u}) {
    Fixture pair;
    pair.b.post_receive({{pair.key_b, 100, receive_bytes}});
    pair.b.post_receive({{pair.key_b, 100, 8000}});
    expect_refused(pair, pair.send(1000), {"REQ_ERR 12 SEND #1", {}, "RESP_ERR 01 #0; RESP_ERR 05 #1"});
  }
}

TEST(TransportErrors, ReceiveIntoMemoryThatMayNotBeWritten) {
  Fixture pair;
  pair.device_b.keys[0xbad00] = pair.device_b.keys[pair.key_b];
  pair.device_b.keys[0xbad00].local_write = false;
  pair.b.post_receive({{0xbad00, 0, 1000}});
  expect_refused(pair, pair.send(300), {"REQ_ERR 14 SEND #1", {}, "RESP_ERR 04 #0"});
}

TEST(TransportErrors, InvalidateOfAKeyThatMayNotBe) {
  Fixture pair;
  pair.b.post_receive({{pair.key_b, 0, 1000}});
  WorkRequest bad = pair.send(300);
  bad.opcode = kSendInvalidate;
  bad.immediate = pair.key_b;
  expect_refused(pair, bad, {"REQ_ERR 13 SEND_INV #1", {}, "RESP_ERR 11 #0"});
  EXPECT_EQ(pair.device_b.keys.count(pair.key_b), 1u);
}

TEST(TransportErrors, ARefusalDoesNotOvertakeReadResponses) {
  Fixture pair;
  fill(pair.memory_b(), 2);
  WorkRequest bad = pair.write(10);
  bad.rkey = 0xdead00;
  pair.a.write_wqe(pair.read(8192));
  pair.a.write_wqe(pair.fetch_add(1));
  pair.a.write_wqe(bad);
  pair.a.ring();
  pair.run(1'000'000'000);
  EXPECT_EQ(pair.a.send_text(), "REQ READ #0; REQ FA #1; REQ_ERR 13 WRITE #2");
}

TEST(TransportErrors, MemoryThatGoesAwayDuringARead) {
  Fixture pair;
  pair.a.post(pair.read(8192));
  pair.device_a.transport.progress(pair.now_ns);
  pair.device_b.transport.progress(pair.now_ns);  // the first 16 packets
  pair.device_b.memory.unmap(pair.memory_b());
  pair.run(1'000'000'000);
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 13 READ #0");
  EXPECT_EQ(pair.device_b.events, (std::vector<Event>{{kAccessErrorEvent, 0x200}}));
}

// ---- Requests that no requester of ours would make ----

// A request packet of A's, as it would be on the wire.
Bytes request_packet(std::uint8_t opcode, std::uint32_t psn, std::size_t payload_bytes, std::uint32_t dma_bytes = 0,
                     std::uint64_t address = 0, std::uint32_t rkey = 0) {
  Bytes packet(12);
  packet[0] = static_cast<std::byte>(opcode);
  packet[1] = static_cast<std::byte>(0x40 | (-payload_bytes & 3) << 4);
  put<std::uint16_t>(packet, 2, 0xffff);
  put<std::uint32_t>(packet, 4, 0x200);
  put<std::uint32_t>(packet, 8, 0x80000000u | psn);
  if (opcode == 0x06 || opcode == 0x0a || opcode == 0x0c) {
    packet.resize(28);
    put<std::uint64_t>(packet, 12, address);
    put<std::uint32_t>(packet, 20, rkey);
    put<std::uint32_t>(packet, 24, dma_bytes);
  }
  packet.resize(packet.size() + (payload_bytes + 3) / 4 * 4);
  return packet;
}

void expect_invalid(const std::vector<Bytes>& packets, const std::string& receives, const std::vector<Event>& events) {
  Fixture pair;
  pair.wire.keep_log = true;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  for (const Bytes& packet : packets) {
    pair.device_b.port->arrive(pair.device_a.port->address(), packet);
  }
  pair.run(1'000'000'000);
  EXPECT_EQ(pair.b.receive_text(), receives);
  EXPECT_EQ(pair.device_b.events, events);
  ASSERT_FALSE(pair.wire.log.empty());
  EXPECT_EQ(pair.wire.log.back()[0], std::byte{0x11});
  EXPECT_EQ(pair.wire.log.back()[12], std::byte{0x61}) << "NAK, invalid request";
  EXPECT_EQ(pair.b.qp->state, QpState::kErr);
}

TEST(TransportErrors, PacketsThatMakeNoMessage) {
  const std::vector<Event> event{{kInvalidRequestEvent, 0x200}};
  const std::string unused = "RESP_ERR 05 #0", used = "RESP_ERR 02 #0";
  expect_invalid({request_packet(0x01, 100, 256)}, unused, event);  // SEND_MIDDLE first
  expect_invalid({request_packet(0x02, 100, 10)}, unused, event);   // SEND_LAST first
  expect_invalid({request_packet(0x07, 100, 256)}, unused, event);  // WRITE_MIDDLE first
  expect_invalid({request_packet(0x00, 100, 255)}, unused, event);  // SEND_FIRST of less than the MTU
  expect_invalid({request_packet(0x04, 100, 257)}, unused, event);  // SEND_ONLY of more
  expect_invalid({request_packet(0x00, 100, 256), request_packet(0x04, 101, 1)}, used, {});    // ONLY inside
  expect_invalid({request_packet(0x00, 100, 256), request_packet(0x02, 101, 0)}, used, {});    // empty LAST
  expect_invalid({request_packet(0x00, 100, 256), request_packet(0x01, 101, 100)}, used, {});  // short MIDDLE
  expect_invalid({request_packet(0x00, 100, 256), request_packet(0x08, 101, 100)}, used, {});  // WRITE_LAST
  expect_invalid({request_packet(0x00, 100, 256), request_packet(0x0c, 101, 0)}, used, {});    // READ inside
  expect_invalid({request_packet(0x0a, 100, 0, 0x80000001)}, unused, event);                   // too long
  expect_invalid({request_packet(0x0c, 100, 0, 0x80000001)}, unused, event);
  expect_invalid({request_packet(0x0a, 100, 4, 0)}, unused, event);  // more than announced
}

TEST(TransportErrors, WriteOfOtherThanTheAnnouncedLength) {
  for (const std::uint32_t announced : {256u, 299u, 301u, 512u}) {
    Fixture pair;
    pair.device_b.port->arrive(pair.device_a.port->address(),
                               request_packet(0x06, 100, 256, announced, pair.address_b(), pair.key_b));
    pair.device_b.port->arrive(pair.device_a.port->address(), request_packet(0x08, 101, 44));
    pair.run(1'000'000'000);
    EXPECT_EQ(pair.device_b.events, (std::vector<Event>{{kInvalidRequestEvent, 0x200}})) << announced;
  }
}

TEST(TransportErrors, PacketsFromElsewhereAreIgnored) {
  Fixture pair;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  pair.device_b.port->arrive(wire::Ipv4{0x7f000009}, request_packet(0x04, 100, 1));
  Bytes wrong_partition = request_packet(0x04, 100, 1);
  put<std::uint16_t>(wrong_partition, 2, 0x8001);
  pair.device_b.port->arrive(pair.device_a.port->address(), wrong_partition);
  pair.run();
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_EQ(pair.wire.packets, 0u);
}

TEST(TransportErrors, ResponsesThatDoNotFitTheRequest) {
  // A READ of 100 bytes is out with PSN 100; what comes is of another length, or of another kind.
  const auto answered_with = [](const Bytes& response) {
    Fixture pair;
    pair.a.post(pair.read(100));
    pair.device_a.transport.progress(pair.now_ns);
    Bytes packet = response;
    put<std::uint32_t>(packet, 4, 0x100);
    pair.device_a.port->arrive(pair.device_b.port->address(), packet);
    pair.device_a.transport.progress(pair.now_ns);
    return pair.a.send_text();
  };
  Bytes only = request_packet(0x10, 100, 4 + 100);  // AETH and payload
  EXPECT_EQ(answered_with(only), "REQ READ #0");
  EXPECT_EQ(answered_with(request_packet(0x10, 100, 4 + 96)), "REQ_ERR 10 READ #0");
  EXPECT_EQ(answered_with(request_packet(0x10, 100, 4 + 104)), "REQ_ERR 10 READ #0");
  EXPECT_EQ(answered_with(request_packet(0x0d, 100, 4 + 100)), "REQ_ERR 10 READ #0") << "FIRST where LAST is due";
  EXPECT_EQ(answered_with(request_packet(0x12, 100, 12)), "REQ_ERR 10 READ #0") << "ATOMIC_ACK";
  EXPECT_EQ(answered_with(request_packet(0x10, 99, 4 + 96)), "") << "a ghost";
  EXPECT_EQ(answered_with(request_packet(0x10, 101, 4 + 96)), "") << "never asked for";
}

// ---- Retries ----

TEST(TransportErrors, APeerThatDoesNotAnswer) {
  Fixture pair({.retry_count = 3});
  pair.wire.fate = [](std::size_t, wire::Ipv4, std::span<const std::byte>) { return Fate{.copies = 0}; };
  const std::uint64_t start_ns = pair.now_ns;
  pair.a.post(pair.write(10));
  pair.a.post(pair.write(20));
  pair.run(500 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "");
  EXPECT_GE(pair.wire.packets, 4u) << "it is tried again";
  pair.run(20 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 15 WRITE #0; REQ_ERR 05 WRITE #1");
  // Four time-outs of 128 ms, the least that this device counts.
  EXPECT_EQ(pair.a.sends()[0].vendor_syndrome(), 0x81u);
  EXPECT_GE(pair.now_ns - start_ns, 512 * kMillisecond);
}

TEST(TransportErrors, NoTimeoutWaitsForEver) {
  Fixture pair({.ack_timeout = 0});
  bool dead = true;
  pair.wire.fate = [&](std::size_t, wire::Ipv4, std::span<const std::byte>) { return Fate{.copies = dead ? 0u : 1u}; };
  pair.a.post(pair.write(10));
  pair.run(100'000 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "");
  dead = false;
  pair.run(1000 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0");
}

TEST(TransportErrors, ReceiverThatIsNotReady) {
  // Timer code 12 is 0.64 ms (IBA table 45).
  for (const std::uint8_t retries : {0, 1, 6}) {
    Fixture pair({.rnr_retry = retries, .min_rnr_timer = 12});
    const std::uint64_t start_ns = pair.now_ns;
    pair.a.post(pair.send(10));
    pair.a.post(pair.send(20));
    while (pair.a.sends().empty() && pair.now_ns < start_ns + 100 * kMillisecond) {
      pair.run(10'000);
    }
    EXPECT_EQ(pair.a.send_text(), "REQ_ERR 16 SEND #0; REQ_ERR 05 SEND #1");
    EXPECT_GE(pair.now_ns - start_ns, retries * 640'000u);
    EXPECT_LE(pair.now_ns - start_ns, retries * 640'000u + 100'000u);
    EXPECT_EQ(pair.b.qp->state, QpState::kRts);
  }
}

TEST(TransportErrors, ReceiverThatBecomesReady) {
  Fixture pair({.rnr_retry = 7});
  WorkRequest write = pair.write(600);
  write.opcode = kWriteImmediate;
  pair.a.post(pair.send(600));
  pair.a.post(write);
  pair.run(5'000 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "");
  pair.b.post_receive({{pair.key_b, 1000, 600}});
  pair.run(5'000 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0");
  pair.b.post_receive({});
  pair.run(1'000 * kMillisecond);
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0; REQ WRITE_IMM #1");
  EXPECT_EQ(pair.b.receive_text(), "RECV #0; WRITE_IMM #1");
  EXPECT_TRUE(same(pair.memory_a().first(600), pair.memory_b()));
  EXPECT_TRUE(same(pair.memory_a().first(600), pair.memory_b().subspan(1000)));
}

// ---- Flush ----

TEST(TransportErrors, AllIsFlushedInOrderAndWhatIsPostedLaterToo) {
  Fixture pair;
  for (unsigned i = 0; i < 3; ++i) {
    pair.b.post_receive({{pair.key_b, 0, 100}});
  }
  WorkRequest quiet = pair.write(8000);
  quiet.fm_ce_se = 0;
  Bytes long_inline(200);
  pair.b.write_wqe({.opcode = kWrite,
                    .list = {{pair.key_b, 0, 8000}},
                    .remote_address = address_of(pair.memory_a()),
                    .rkey = pair.key_a,
                    .fm_ce_se = 0});
  pair.b.write_wqe({.opcode = kSend, .inline_data = long_inline});  // 4 WQEBBs
  pair.b.write_wqe({.opcode = kNop, .fm_ce_se = 0});
  pair.b.ring();
  pair.device_b.transport.progress(pair.now_ns);  // the first is under way
  pair.device_b.set_state(*pair.b.qp, QpState::kErr);
  EXPECT_EQ(pair.b.send_text(), "REQ_ERR 05 WRITE #0; REQ_ERR 05 SEND #1; REQ_ERR 05 NOP #5") << "at once";
  EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 05 #0; RESP_ERR 05 #1; RESP_ERR 05 #2");
  EXPECT_EQ(pair.b.sends()[0].vendor_syndrome(), 0xf5u);
  EXPECT_EQ(pair.b.receives()[0].vendor_syndrome(), 0xf9u);
  pair.b.sends().clear();
  pair.b.receives().clear();
  pair.b.post({.opcode = kSend, .inline_data = long_inline});
  EXPECT_EQ(pair.b.send_text(), "REQ_ERR 05 SEND #6");
  pair.b.post_receive({});
  pair.run(10 * kMillisecond);
  EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 05 #3");
  pair.run(10'000 * kMillisecond);
  pair.b.post_receive({});
  pair.run(64 * kMillisecond);
  EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 05 #3; RESP_ERR 05 #4") << "also after a long rest";
  EXPECT_TRUE(pair.device_b.events.empty()) << "whoever moves the QP to ERR knows it";
}

TEST(TransportErrors, TheReceiveRequestInUseIsFlushedFirst) {
  Fixture pair;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  pair.b.post_receive({});
  pair.a.post(pair.send(8192));
  pair.device_a.transport.progress(pair.now_ns);
  pair.device_b.transport.progress(pair.now_ns);
  pair.device_b.set_state(*pair.b.qp, QpState::kErr);
  EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 05 #0; RESP_ERR 05 #1");
}

TEST(TransportErrors, ASharedReceiveQueueIsNotFlushed) {
  Pair pair;
  SharedQueue shared(pair.device_b, 0x777, 2);
  pair.b.qp->srq = shared.srq;
  pair.b.qp->has_rq = false;
  shared.post_receive({});
  shared.post_receive({});
  pair.device_b.set_state(*pair.b.qp, QpState::kErr);
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_EQ(pair.device_b.events, (std::vector<Event>{{kLastWqeEvent, 0x200}}));
  EXPECT_EQ(shared.srq->consumed, 0u);
}

TEST(TransportErrors, FlushBeforeTheConnectionIsMade) {
  Fixture pair;
  pair.device_a.set_state(*pair.a.qp, QpState::kReset);
  pair.device_a.set_state(*pair.a.qp, QpState::kInit);
  pair.a.post_receive({});
  pair.device_a.set_state(*pair.a.qp, QpState::kErr);
  EXPECT_EQ(pair.a.receive_text(), "RESP_ERR 05 #0");
}

}  // namespace
}  // namespace softhca::hca
