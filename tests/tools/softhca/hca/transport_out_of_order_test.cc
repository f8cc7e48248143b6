// Connections that place data out of order: what arrives early is placed early, told of in its turn, and never in the
// way of what comes before it.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "tests/tools/softhca/hca/data_path_fixture.h"
#include "tools/softhca/wire/packet.h"

namespace softhca::hca {
namespace {

using namespace harness;

struct Unordered : Fixture {
  explicit Unordered(const PairOptions& options = {}) : Fixture(options) {
    a.qp->out_of_order = b.qp->out_of_order = true;
    wire.keep_log = true;
  }
  // The first packet of the program's is lost, once.
  void lose_first() {
    wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
      return Fate{.copies = number == 0 ? 0u : 1u};
    };
  }
  std::size_t negative_acknowledgements() const {
    std::size_t count = 0;
    for (const Bytes& packet : wire.log) {
      const auto parsed = wire::parse(packet);
      count += parsed && parsed->info().kind == wire::Kind::kAcknowledge && parsed->aeth.kind != wire::AckKind::kAck;
    }
    return count;
  }
  WorkRequest part(std::uint8_t opcode, std::uint32_t from, std::uint32_t bytes, std::uint64_t to = 0) {
    return {.opcode = opcode, .list = {{key_a, from, bytes}}, .remote_address = address_b(to), .rkey = key_b};
  }
  bool zero(std::size_t offset, std::size_t bytes) {
    return std::ranges::all_of(memory_b().subspan(offset, bytes), [](std::byte b) { return b == std::byte{}; });
  }
};

TEST(TransportOutOfOrder, WhatArrivesEarlyIsPlacedAndNotToldOf) {
  Unordered pair;
  pair.lose_first();
  for (std::uint32_t i = 0; i < 4; ++i) {
    pair.b.post_receive({{pair.key_b, 4096 + i * 1024, 1024}});
  }
  pair.a.write_wqe(pair.part(kSend, 0, 100));            // lost
  pair.a.write_wqe(pair.part(kWrite, 1000, 700, 1000));  // of three packets
  pair.a.post(pair.part(kSend, 2000, 600));
  pair.run_now();
  EXPECT_TRUE(same(pair.memory_a().subspan(1000, 700), pair.memory_b().subspan(1000)));
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_EQ(pair.a.send_text(), "");
  std::size_t early = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    early += same(pair.memory_a().subspan(2000, 600), pair.memory_b().subspan(4096 + i * 1024)) ? 1 : 0;
  }
  EXPECT_EQ(early, 1u) << "in a receive request";

  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0; REQ WRITE #1; REQ SEND #2");
  ASSERT_EQ(pair.b.receives().size(), 2u);
  const Completion &first = pair.b.receives()[0], &second = pair.b.receives()[1];
  EXPECT_EQ(first.byte_count(), 100u);
  EXPECT_EQ(second.byte_count(), 600u);
  EXPECT_TRUE(same(pair.memory_a().first(100), pair.memory_b().subspan(4096 + first.wqe_counter() * 1024)));
  EXPECT_TRUE(same(pair.memory_a().subspan(2000, 600), pair.memory_b().subspan(4096 + second.wqe_counter() * 1024)));
}

TEST(TransportOutOfOrder, APlainConnectionPlacesNothingEarly) {
  Unordered pair;
  pair.a.qp->out_of_order = pair.b.qp->out_of_order = false;
  pair.lose_first();
  pair.a.write_wqe(pair.part(kWrite, 0, 100));
  pair.a.post(pair.part(kWrite, 1000, 100, 1000));
  pair.device_a.transport.progress(pair.now_ns);
  pair.device_b.transport.progress(pair.now_ns);
  EXPECT_TRUE(pair.zero(1000, 100));
  pair.run();
  EXPECT_EQ(pair.negative_acknowledgements(), 1u);
}

TEST(TransportOutOfOrder, SwappedPacketsAreNoLoss) {
  Unordered pair;
  pair.wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    return Fate{.copies = 1, .behind = number % 3 == 0 ? 2u : 0u};
  };
  for (std::uint32_t i = 0; i < 30; ++i) {
    pair.a.write_wqe(pair.part(kWrite, i * 200, 200, i * 200));
  }
  pair.a.ring();
  pair.run();
  EXPECT_EQ(pair.a.sends().size(), 30u);
  EXPECT_TRUE(same(pair.memory_a().first(6000), pair.memory_b()));
  EXPECT_EQ(pair.negative_acknowledgements(), 0u);
}

// Later data may be there when a read or an atomic is executed, all earlier data must.
TEST(TransportOutOfOrder, ReadsAndAtomicsWaitForWhatIsBeforeThem) {
  Unordered pair;
  pair.lose_first();
  std::uint64_t before = 40;
  std::memcpy(pair.memory_b().data(), &before, 8);
  pair.a.write_wqe(pair.part(kWrite, 0, 8));  // lost
  WorkRequest add = pair.fetch_add(2);
  add.list[0].offset_bytes = 4096;
  pair.a.write_wqe(add);
  WorkRequest read = pair.read(8);
  read.list[0].offset_bytes = 5000;
  pair.a.write_wqe(read);
  pair.a.post(pair.part(kWrite, 1000, 100, 2000));
  pair.run_now();
  EXPECT_EQ(pair.a.send_text(), "");
  std::uint64_t now = 0;
  std::memcpy(&now, pair.memory_b().data(), 8);
  EXPECT_EQ(now, 40u);
  EXPECT_TRUE(pair.zero(2000, 100)) << "nothing passes a read or an atomic";
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ FA #1; REQ READ #2; REQ WRITE #3");
  std::uint64_t written = 0, old = 0, got = 0;
  std::memcpy(&written, pair.memory_a().data(), 8);
  std::memcpy(&old, &pair.memory_a()[4096], 8);
  std::memcpy(&got, &pair.memory_a()[5000], 8);
  EXPECT_EQ(old, written);
  EXPECT_EQ(got, written + 2);
}

TEST(TransportOutOfOrder, AnEarlyMessageLeavesReceiveRequestsToThoseBefore) {
  Unordered pair;
  pair.lose_first();
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.a.write_wqe(pair.part(kSend, 0, 100));  // lost
  pair.a.post(pair.part(kSend, 1000, 200));
  pair.run_now();
  EXPECT_TRUE(pair.zero(0, 1024)) << "the only request is the first message's";
  pair.run(10 * kMillisecond);
  ASSERT_EQ(pair.b.receives().size(), 1u);
  EXPECT_EQ(pair.b.receives()[0].byte_count(), 100u);
  pair.b.post_receive({{pair.key_b, 2048, 1024}});
  pair.run();
  ASSERT_EQ(pair.b.receives().size(), 2u);
  EXPECT_EQ(pair.b.receives()[1].byte_count(), 200u);
  EXPECT_TRUE(same(pair.memory_a().subspan(1000, 200), pair.memory_b().subspan(2048)));
}

TEST(TransportOutOfOrder, ALostTailAndLargeGapsAreRepaired) {
  Unordered pair;
  for (std::uint32_t i = 0; i < 20; ++i) {
    pair.b.post_receive({{pair.key_b, i * 256, 256}});
  }
  pair.wire.fate = [](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    return Fate{.copies = number == 2 || number == 19 ? 0u : 1u};
  };
  for (std::uint32_t i = 0; i < 20; ++i) {
    pair.a.write_wqe(pair.part(kSend, i * 256, 256));
  }
  pair.a.ring();
  pair.run();
  EXPECT_EQ(pair.a.sends().size(), 20u);
  ASSERT_EQ(pair.b.receives().size(), 20u);
  bool sorted = true;
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::uint16_t wqe = pair.b.receives()[i].wqe_counter();
    EXPECT_TRUE(same(pair.memory_a().subspan(i * 256, 256), pair.memory_b().subspan(wqe * 256))) << i;
    sorted = sorted && wqe == i;
  }
  EXPECT_FALSE(sorted);
}

// An early message that cannot be executed fails in its turn; what else came early is flushed, each request once.
TEST(TransportOutOfOrder, AnEarlyMessageFailsInItsTurn) {
  Unordered pair;
  pair.lose_first();
  for (std::uint32_t i = 0; i < 8; ++i) {
    pair.b.post_receive({{pair.key_b, i * 512, 512}});
  }
  pair.a.write_wqe(pair.part(kSend, 0, 100));  // lost
  pair.a.write_wqe(pair.part(kSend, 0, 700));  // too long
  pair.a.post(pair.part(kSend, 0, 200));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0; REQ_ERR 12 SEND #1; REQ_ERR 05 SEND #2");
  std::map<unsigned, unsigned> opcodes;
  std::set<std::uint16_t> requests;
  for (const Completion& completion : pair.b.receives()) {
    ++opcodes[completion.opcode() == 14 ? completion.syndrome() : 0];
    requests.insert(completion.wqe_counter());
  }
  EXPECT_EQ(opcodes, (std::map<unsigned, unsigned>{{0, 1}, {1, 1}, {5, 6}}));
  EXPECT_EQ(requests.size(), 8u);
}

TEST(TransportOutOfOrder, BothEndsMustAgree) {
  for (const bool requester : {true, false}) {
    Unordered pair;
    (requester ? pair.b : pair.a).qp->out_of_order = false;
    pair.b.post_receive({{pair.key_b, 0, 512}});
    pair.a.post(pair.send(100));
    pair.run();
    EXPECT_EQ(pair.a.send_text(), "REQ_ERR 12 SEND #0");
    EXPECT_EQ(pair.b.receive_text(), "RESP_ERR 05 #0");
    EXPECT_EQ(pair.b.qp->state, QpState::kErr);
  }
}

}  // namespace
}  // namespace softhca::hca
