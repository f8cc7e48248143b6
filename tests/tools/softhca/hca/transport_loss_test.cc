// What is lost, doubled or late on the wire must not be seen above it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

// One of every operation, several of them of more than one packet, each with memory of its own.
struct Mixture : Fixture {
  explicit Mixture(const PairOptions& options = {}) : Fixture(options) {
    fill(memory_b().first(2048), 5);
    std::copy_n(memory_b().begin(), 2048, source_b.begin());
    std::uint64_t counter = 1000;
    std::memcpy(&memory_b()[8000], &counter, 8);
    b.post_receive({{key_b, 2048, 1024}});
    b.post_receive({{key_b, 3072, 1024}});
    b.post_receive({});
    a.write_wqe({.opcode = kSend, .list = {{key_a, 0, 700}}});
    a.write_wqe({.opcode = kRead, .list = {{key_a, 4096, 900}}, .remote_address = address_b(), .rkey = key_b});
    add(1, 7000);
    a.write_wqe({.opcode = kWrite, .list = {{key_a, 700, 600}}, .remote_address = address_b(4096), .rkey = key_b});
    add(2, 7008);
    a.write_wqe({.opcode = kSendImmediate, .list = {{key_a, 1300, 300}}, .immediate = 7});
    a.write_wqe({.opcode = kRead, .list = {{key_a, 5000, 100}}, .remote_address = address_b(1000), .rkey = key_b});
    a.write_wqe({.opcode = kWriteImmediate,
                 .list = {{key_a, 1600, 500}},
                 .remote_address = address_b(5120),
                 .rkey = key_b,
                 .immediate = 8});
    add(4, 7016);
    a.ring();
  }

  void add(std::uint64_t value, std::uint32_t result_offset) {
    WorkRequest request = fetch_add(value);
    request.remote_address = address_b(8000);
    request.list[0].offset_bytes = result_offset;
    a.write_wqe(request);
  }

  std::uint64_t word(std::span<std::byte> memory, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, &memory[offset], 8);
    return value;
  }

  // Everything happened exactly once.
  void check() {
    ASSERT_EQ(a.send_text(),
              "REQ SEND #0; REQ READ #1; REQ FA #2; REQ WRITE #3; REQ FA #4; REQ SEND_IMM #5; REQ READ #6; "
              "REQ WRITE_IMM #7; REQ FA #8");
    ASSERT_EQ(b.receive_text(), "RECV #0; RECV_IMM #1; WRITE_IMM #2");
    EXPECT_TRUE(same(memory_a().first(700), memory_b().subspan(2048)));
    EXPECT_TRUE(same(std::span{source_b}.first(900), memory_a().subspan(4096)));
    EXPECT_TRUE(same(memory_a().subspan(700, 600), memory_b().subspan(4096)));
    EXPECT_TRUE(same(memory_a().subspan(1300, 300), memory_b().subspan(3072)));
    EXPECT_TRUE(same(std::span{source_b}.subspan(1000, 100), memory_a().subspan(5000)));
    EXPECT_TRUE(same(memory_a().subspan(1600, 500), memory_b().subspan(5120)));
    EXPECT_EQ(word(memory_a(), 7000), 1000u);
    EXPECT_EQ(word(memory_a(), 7008), 1001u);
    EXPECT_EQ(word(memory_a(), 7016), 1003u);
    EXPECT_EQ(word(memory_b(), 8000), 1007u);
  }

  Bytes source_b = Bytes(2048);
};

std::size_t packets_on_a_perfect_wire() {
  Mixture pair;
  pair.run();
  pair.check();
  return pair.wire.packets;
}

TEST(TransportLoss, EachSinglePacketLost) {
  const std::size_t total = packets_on_a_perfect_wire();
  ASSERT_GE(total, 20u);
  for (std::size_t lost = 0; lost < total; ++lost) {
    SCOPED_TRACE(lost);
    Mixture pair;
    pair.wire.fate = [&](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
      return Fate{.copies = number == lost ? 0u : 1u};
    };
    pair.run();
    pair.check();
  }
}

TEST(TransportLoss, EachPairOfPacketsLost) {
  const std::size_t total = packets_on_a_perfect_wire();
  for (std::size_t first = 0; first < total; ++first) {
    for (std::size_t second = first + 1; second < total + 4; ++second) {
      Mixture pair;
      pair.wire.fate = [&](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
        return Fate{.copies = number == first || number == second ? 0u : 1u};
      };
      pair.run();
      pair.check();
      ASSERT_FALSE(testing::Test::HasFailure()) << first << " and " << second;
    }
  }
}

TEST(TransportLoss, EachSinglePacketDoubled) {
  const std::size_t total = packets_on_a_perfect_wire();
  for (std::size_t doubled = 0; doubled < total; ++doubled) {
    for (const unsigned behind : {0u, 1u, 3u}) {
      SCOPED_TRACE(std::to_string(doubled) + " late by " + std::to_string(behind));
      Mixture pair;
      pair.wire.fate = [&](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
        return Fate{.copies = number == doubled ? 2u : 1u, .behind = number == doubled ? behind : 0};
      };
      pair.run();
      pair.check();
    }
  }
}

TEST(TransportLoss, EachSinglePacketLate) {
  const std::size_t total = packets_on_a_perfect_wire();
  for (std::size_t late = 0; late < total; ++late) {
    for (const unsigned behind : {1u, 2u, 5u, 20u}) {
      SCOPED_TRACE(std::to_string(late) + " late by " + std::to_string(behind));
      Mixture pair;
      pair.wire.fate = [&](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
        return Fate{.copies = 1, .behind = number == late ? behind : 0};
      };
      pair.run();
      pair.check();
    }
  }
}

TEST(TransportLoss, SeededChaos) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PairOptions options;
    options.psn_a = static_cast<std::uint32_t>(random() & 0xffffff);
    options.psn_b = static_cast<std::uint32_t>(random() & 0xffffff);
    options.rd_atomic = static_cast<std::uint32_t>(1 + random() % 4);
    options.ack_timeout = 18;
    Mixture pair(options);
    pair.wire.fate = [&](std::size_t, wire::Ipv4, std::span<const std::byte>) {
      const auto dice = static_cast<unsigned>(random() % 100);
      return Fate{.copies = dice < 10   ? 0u
                            : dice < 20 ? 2u
                                        : 1u,
                  .behind = dice % 5 == 4 ? 1u + static_cast<unsigned>(random() % 6) : 0u};
    };
    pair.run(60'000'000'000);
    pair.check();
  }
}

// ---- A model: random operations over a wire that loses packets, compared with memory that they are applied to ----

struct Model {
  explicit Model(unsigned seed) : random(seed), pair(options_of(seed)) {
    const auto memory_a = pair.memory_a();
    const auto memory_b = pair.memory_b();
    fill(memory_b, seed + 1);
    mirror_a.assign(memory_a.begin(), memory_a.end());
    mirror_b.assign(memory_b.begin(), memory_b.end());
    pair.device_a.keys[pair.key_a].split_bytes = 128;
    const unsigned loss_percent = seed % 4 * 3;
    pair.wire.fate = [this, loss_percent](std::size_t, wire::Ipv4, std::span<const std::byte>) {
      return Fate{.copies = random() % 100 < loss_percent ? 0u : 1u};
    };
  }

  static PairOptions options_of(unsigned seed) {
    PairOptions options;
    options.log_mtu = static_cast<std::uint8_t>(1 + seed % 3);
    options.psn_a = 0xffff00 + seed;
    options.ack_timeout = 18;
    options.a.log_sq_wqebbs = 5;
    return options;
  }

  // Every request is fenced by waiting, so the model is sequential; memory halves keep source and target apart.
  void step() {
    const auto bytes = static_cast<std::uint32_t>(1 + random() % 3000);
    const auto local = static_cast<std::uint32_t>(random() % (8192 - bytes));
    const auto remote = static_cast<std::uint32_t>(random() % (8192 - bytes));
    const auto cut = static_cast<std::uint32_t>(random() % bytes);
    WorkRequest request{.list = {{pair.key_a, local, cut}, {pair.key_a, local + cut, bytes - cut}}};
    request.remote_address = pair.address_b(remote);
    request.rkey = pair.key_b;
    const auto from_a = mirror_a.begin() + local;
    const auto from_b = mirror_b.begin() + remote;
    switch (random() % 4) {
      case 0:
        request.opcode = kRead;
        std::copy_n(from_b, bytes, from_a);
        break;
      case 1:
        request.opcode = kWrite;
        std::copy_n(from_a, bytes, from_b);
        break;
      case 2:
        request.opcode = kSend;
        pair.b.post_receive({{pair.key_b, remote, bytes}});
        std::copy_n(from_a, bytes, from_b);
        break;
      default: {
        const std::uint32_t at = remote / 8 * 8, to = local / 8 * 8;
        request.opcode = kFetchAdd;
        request.list = {{pair.key_a, to, 8}};
        request.remote_address = pair.address_b(at);
        request.swap_or_add = random();
        std::uint64_t value;
        std::memcpy(&value, &mirror_b[at], 8);
        std::memcpy(&mirror_a[to], &value, 8);
        value += request.swap_or_add;
        std::memcpy(&mirror_b[at], &value, 8);
        break;
      }
    }
    pair.a.post(request);
    pair.run();
    ++done;
  }

  std::mt19937 random;
  Fixture pair;
  Bytes mirror_a, mirror_b;
  std::size_t done = 0;
};

TEST(TransportLoss, RandomOperationsMatchTheModel) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed);
    for (unsigned i = 0; i < 60; ++i) {
      model.step();
      ASSERT_EQ(model.pair.a.sends().size(), model.done) << "at operation " << i;
      ASSERT_EQ(model.pair.a.sends().back().opcode(), 0u) << "at operation " << i;
      ASSERT_TRUE(same(model.mirror_a, model.pair.memory_a())) << "at operation " << i;
      ASSERT_TRUE(same(model.mirror_b, model.pair.memory_b())) << "at operation " << i;
    }
  }
}

// ---- Long transfers: windows open and close ----

TEST(TransportLoss, LongMessagesSurviveOneLostPacketInTwenty) {
  for (const std::uint8_t opcode : {kWrite, kRead, kSend}) {
    PairOptions options;
    options.ack_timeout = 18;
    Pair pair(options);
    const std::size_t bytes = 1 << 20;
    const std::uint32_t key_a = pair.device_a.add_key(bytes), key_b = pair.device_b.add_key(bytes);
    const auto memory_a = pair.device_a.memory_of(key_a), memory_b = pair.device_b.memory_of(key_b);
    fill(opcode == kRead ? memory_b : memory_a, opcode);
    std::mt19937 random(opcode);
    pair.wire.fate = [&](std::size_t, wire::Ipv4, std::span<const std::byte>) {
      return Fate{.copies = random() % 20 == 0 ? 0u : 1u};
    };
    pair.b.post_receive({{key_b, 0, bytes}});
    pair.a.post({.opcode = opcode, .list = {{key_a, 0, bytes}}, .remote_address = address_of(memory_b), .rkey = key_b});
    pair.run(600'000'000'000);
    ASSERT_EQ(pair.a.sends().size(), 1u);
    EXPECT_EQ(pair.a.sends()[0].opcode(), 0u) << pair.a.send_text();
    EXPECT_TRUE(same(memory_a, memory_b));
  }
}

TEST(TransportLoss, ReadsOnAPerfectWireAreAskedForOnce) {
  PairOptions options;
  Pair pair(options);
  const std::size_t bytes = 1 << 20;
  const std::uint32_t key_a = pair.device_a.add_key(bytes), key_b = pair.device_b.add_key(bytes);
  pair.a.post({.opcode = kRead,
               .list = {{key_a, 0, bytes}},
               .remote_address = address_of(pair.device_b.memory_of(key_b)),
               .rkey = key_b});
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ READ #0");
  // 4096 responses of 256 bytes, and requests for 32 at a time.
  EXPECT_EQ(pair.wire.packets, 4096u + 4096 / 32);
}

}  // namespace
}  // namespace softhca::hca
