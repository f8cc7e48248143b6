// Every operation between two QPs, every byte verified; and what a program may do to queues while they are in use.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>

#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

// Topology, and bytes of a CQE: with 64 the device may put 32 bytes of data into a CQE, with 128 it may put 64.
class TrafficTest : public ::testing::TestWithParam<std::tuple<Topology, std::uint32_t>> {
 protected:
  PairOptions options(EndOptions a = {}, EndOptions b = {}) const {
    a.cqe_bytes = b.cqe_bytes = std::get<1>(GetParam());
    return {.topology = std::get<0>(GetParam()), .a = a, .b = b};
  }
};

INSTANTIATE_TEST_SUITE_P(Soft, TrafficTest,
                         ::testing::Combine(::testing::Values(Topology::kTwoDevices, Topology::kLoopback),
                                            ::testing::Values(64u, 128u)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Topology::kLoopback ? "Loopback"
                                                                                             : "TwoDevices") +
                                  std::to_string(std::get<1>(info.param));
                         });

// Around what fits into a CQE, the MTU (1024) and the device's window.
constexpr std::uint32_t kSizes[] = {0, 1, 7, 31, 32, 33, 63, 64, 65, 1000, 1023, 1024, 1025, 2048, 5000, 65536};
constexpr std::size_t kFrom = 0, kTo = 80 * 1024, kSpace = 72 * 1024;

void expect_landed(End& from, std::size_t from_offset, End& to, std::size_t to_offset, std::size_t bytes) {
  const auto [at_from, at_to] = std::mismatch(from.at(from_offset), from.at(from_offset) + bytes, to.at(to_offset));
  EXPECT_EQ(at_from - from.at(from_offset), static_cast<std::ptrdiff_t>(bytes)) << "first wrong byte of " << bytes;
}

// Bytes around what was written are as they were.
void expect_untouched(End& end, std::size_t offset, std::size_t bytes) {
  EXPECT_TRUE(std::all_of(end.at(offset), end.at(offset + bytes), [](std::byte b) { return b == std::byte{}; }));
}

void clear(End& end, std::size_t offset, std::size_t bytes) { std::memset(end.at(offset), 0, bytes); }

TEST_P(TrafficTest, SendsOfEverySize) {
  Pair pair(options());
  std::uint8_t stream = 0;
  for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kSendWithImm}) {
    for (const std::uint32_t bytes : kSizes) {
      SCOPED_TRACE(bytes);
      pair.a->fill(kFrom, bytes, ++stream);
      clear(*pair.b, kTo, kSpace);
      const Sge from = pair.a->sge(kFrom, bytes), to = pair.b->sge(kTo, kSpace - 64);
      pair.b->post(RecvWr{.wr_id = 7, .sges = {&to, 1}});
      SendWr request = Pair::send(9, {&from, 1});
      request.opcode = opcode;
      request.immediate_big_endian = 0x01020304 + bytes;
      pair.a->post(request);
      const Completion sent = pair.a->wait_sends(1).at(0), received = pair.b->wait_receives(1).at(0);
      ASSERT_EQ(sent.status, CompletionStatus::kSuccess) << describe(sent);
      ASSERT_EQ(received.status, CompletionStatus::kSuccess) << describe(received);
      EXPECT_EQ(sent.wr_id, 9u);
      EXPECT_EQ(sent.opcode, CompletionOpcode::kSend);
      EXPECT_EQ(sent.qp, pair.a->qp.get());
      EXPECT_EQ(received.wr_id, 7u);
      EXPECT_EQ(received.opcode, CompletionOpcode::kRecv);
      EXPECT_EQ(received.byte_count, bytes);
      EXPECT_EQ(received.qp, pair.b->qp.get());
      EXPECT_EQ(received.has_immediate, opcode == SendOpcode::kSendWithImm);
      EXPECT_EQ(received.immediate_big_endian, received.has_immediate ? 0x01020304 + bytes : 0);
      expect_landed(*pair.a, kFrom, *pair.b, kTo, bytes);
      expect_untouched(*pair.b, kTo + bytes, kSpace - bytes);
    }
  }
}

TEST_P(TrafficTest, WritesOfEverySize) {
  Pair pair(options());
  std::uint8_t stream = 0;
  for (const bool with_immediate : {false, true}) {
    for (const std::uint32_t bytes : kSizes) {
      SCOPED_TRACE(bytes);
      pair.a->fill(kFrom, bytes, ++stream);
      clear(*pair.b, kTo - 1, kSpace);
      const Sge from = pair.a->sge(kFrom, bytes);
      SendWr request = pair.write(9, {&from, 1}, kTo);
      if (with_immediate) {
        request.opcode = SendOpcode::kRdmaWriteWithImm;
        request.immediate_big_endian = 0xf0e0d0c0 - bytes;
        pair.b->post(RecvWr{.wr_id = 7});
      }
      pair.a->post(request);
      const Completion sent = pair.a->wait_sends(1).at(0);
      ASSERT_EQ(sent.status, CompletionStatus::kSuccess) << describe(sent);
      EXPECT_EQ(sent.opcode, CompletionOpcode::kRdmaWrite);
      if (with_immediate) {
        const Completion received = pair.b->wait_receives(1).at(0);
        ASSERT_EQ(received.status, CompletionStatus::kSuccess) << describe(received);
        EXPECT_EQ(received.wr_id, 7u);
        EXPECT_EQ(received.opcode, CompletionOpcode::kRecvRdmaWithImm);
        EXPECT_EQ(received.byte_count, bytes);
        EXPECT_TRUE(received.has_immediate);
        EXPECT_EQ(received.immediate_big_endian, 0xf0e0d0c0 - bytes);
      }
      expect_landed(*pair.a, kFrom, *pair.b, kTo, bytes);
      expect_untouched(*pair.b, kTo - 1, 1);
      expect_untouched(*pair.b, kTo + bytes, kSpace - bytes - 1);
    }
  }
  pair.b->expect_quiet();
}

TEST_P(TrafficTest, ReadsOfEverySize) {
  Pair pair(options());
  std::uint8_t stream = 0;
  for (const std::uint32_t bytes : kSizes) {
    SCOPED_TRACE(bytes);
    pair.b->fill(kFrom, bytes, ++stream);
    clear(*pair.a, kTo, kSpace);
    const Sge to = pair.a->sge(kTo, bytes);
    pair.a->post(pair.read(9, {&to, 1}, kFrom));
    const Completion done = pair.a->wait_sends(1).at(0);
    ASSERT_EQ(done.status, CompletionStatus::kSuccess) << describe(done);
    EXPECT_EQ(done.opcode, CompletionOpcode::kRdmaRead);
    EXPECT_EQ(done.byte_count, bytes);
    expect_landed(*pair.b, kFrom, *pair.a, kTo, bytes);
    expect_untouched(*pair.a, kTo + bytes, kSpace - bytes);
  }
}

TEST_P(TrafficTest, Atomics) {
  Pair pair(options());
  auto* const word = reinterpret_cast<std::uint64_t*>(pair.b->at(64));
  auto* const result = reinterpret_cast<std::uint64_t*>(pair.a->at(0));
  const Sge to = pair.a->sge(0, 8);
  *word = 0xfffffffffffffff0;
  pair.a->post(pair.fetch_add(1, {&to, 1}, 64, 0x20));
  Completion done = pair.a->wait_sends(1).at(0);
  ASSERT_EQ(done.status, CompletionStatus::kSuccess) << describe(done);
  EXPECT_EQ(done.opcode, CompletionOpcode::kFetchAdd);
  EXPECT_EQ(done.byte_count, 8u);
  EXPECT_EQ(*result, 0xfffffffffffffff0);
  EXPECT_EQ(*word, 0x10u);

  pair.a->post(pair.compare_swap(2, {&to, 1}, 64, 0x11, 0x77));  // not equal
  done = pair.a->wait_sends(1).at(0);
  EXPECT_EQ(done.opcode, CompletionOpcode::kCompareSwap);
  EXPECT_EQ(*result, 0x10u);
  EXPECT_EQ(*word, 0x10u);

  pair.a->post(pair.compare_swap(3, {&to, 1}, 64, 0x10, 0x0102030405060708));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "3 ok");
  EXPECT_EQ(*result, 0x10u);
  EXPECT_EQ(*word, 0x0102030405060708u);
  EXPECT_EQ(word[-1], 0u);
  EXPECT_EQ(word[1], 0u);
}

TEST_P(TrafficTest, ManyPieces) {
  constexpr std::uint32_t kPieces = 13;
  EndOptions many;
  many.capacity.max_send_sge = many.capacity.max_recv_sge = kPieces;
  Pair pair(options(many, many));
  ASSERT_GE(pair.a->qp->capacity().max_send_sge, kPieces);
  // Pieces of 0, 1, 2 ... bytes scattered backwards; the other side has other pieces.
  std::vector<Sge> from, to;
  std::uint32_t bytes = 0;
  for (std::uint32_t i = 0; i < kPieces; ++i) {
    const std::uint32_t piece = i * i * 7 % 301;
    pair.a->fill(60'000 - i * 1000, piece, static_cast<std::uint8_t>(i));
    from.push_back(pair.a->sge(60'000 - i * 1000, piece));
    bytes += piece;
  }
  for (std::uint32_t i = 0; i < kPieces; ++i) {
    to.push_back(pair.b->sge(100'000 - i * 1000, i + 1 == kPieces ? 1000 : i % 3 * 97));
  }
  std::vector<std::byte> whole, landed;
  for (const Sge& sge : from) {
    const auto* const at = reinterpret_cast<const std::byte*>(sge.address);
    whole.insert(whole.end(), at, at + sge.length_bytes);
  }
  pair.b->post(RecvWr{.wr_id = 7, .sges = to});
  pair.a->post(Pair::send(1, from));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
  EXPECT_EQ(text(pair.b->wait_receives(1)), "7 ok");
  for (const Sge& sge : to) {
    const auto* const at = reinterpret_cast<const std::byte*>(sge.address);
    landed.insert(landed.end(), at, at + sge.length_bytes);
  }
  landed.resize(bytes);
  EXPECT_EQ(landed, whole);

  pair.a->post(pair.write(2, from, 200'000));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "2 ok");
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), pair.b->at(200'000)));

  for (const Sge& sge : from) {
    std::memset(reinterpret_cast<void*>(sge.address), 0, sge.length_bytes);
  }
  pair.a->post(pair.read(3, from, 200'000));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "3 ok");
  landed.clear();
  for (const Sge& sge : from) {
    const auto* const at = reinterpret_cast<const std::byte*>(sge.address);
    landed.insert(landed.end(), at, at + sge.length_bytes);
  }
  EXPECT_EQ(landed, whole);
}

TEST_P(TrafficTest, Inline) {
  EndOptions large;
  large.capacity.max_inline_bytes = 400;
  Pair pair(options(large, large));
  const std::uint32_t most = pair.a->qp->capacity().max_inline_bytes;
  for (const std::uint32_t bytes : {0u, 1u, 12u, 13u, 28u, 44u, 45u, 63u, 64u, 100u, 399u, most}) {
    for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kRdmaWrite}) {
      SCOPED_TRACE(bytes);
      pair.a->fill(kFrom, bytes, static_cast<std::uint8_t>(bytes));
      const std::vector<std::byte> sent(pair.a->at(kFrom), pair.a->at(kFrom + bytes));
      clear(*pair.b, kTo, 2048);
      const Sge to = pair.b->sge(kTo, 2048);
      // Two pieces, with lkeys that are no one's.
      const std::array<Sge, 2> from{Sge{pair.a->address_of(kFrom), bytes / 3, 0xdead},
                                    Sge{pair.a->address_of(kFrom) + bytes / 3, bytes - bytes / 3, 0xbeef}};
      SendWr request = pair.write(1, from, kTo);
      request.opcode = opcode;
      request.flags = SendFlag::kInline | SendFlag::kSignaled;
      if (opcode == SendOpcode::kSend) {
        pair.b->post(RecvWr{.wr_id = 7, .sges = {&to, 1}});
      }
      pair.a->post(request);
      clear(*pair.a, kFrom, bytes);  // it was copied
      EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
      if (opcode == SendOpcode::kSend) {
        const auto received = pair.b->wait_receives(1);
        EXPECT_EQ(text(received), "7 ok");
        EXPECT_EQ(received.at(0).byte_count, bytes);
      }
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), pair.b->at(kTo)));
      expect_untouched(*pair.b, kTo + bytes, 2048 - bytes);
    }
  }
}

// A fenced WRITE sends what the READ before it has brought.
TEST_P(TrafficTest, Fence) {
  Pair pair(options());
  for (int round = 0; round < 20; ++round) {
    pair.b->fill(kFrom, 32 * 1024, static_cast<std::uint8_t>(round + 1));
    const Sge buffer = pair.a->sge(0, 32 * 1024);
    SendWr read = pair.read(1, {&buffer, 1}, kFrom);
    read.flags = {};
    SendWr write = pair.write(2, {&buffer, 1}, kTo);
    write.flags = SendFlag::kFence | SendFlag::kSignaled;
    const std::array requests{read, write};
    ASSERT_EQ(pair.a->qp->post_send(requests).error, 0);
    ASSERT_EQ(text(pair.a->wait_sends(1)), "2 ok");
    expect_landed(*pair.b, kFrom, *pair.b, kTo, 32 * 1024);
  }
}

TEST_P(TrafficTest, UnsignalledRunsEndWithOneCompletion) {
  Pair pair(options());
  const std::uint32_t run = pair.a->qp->capacity().max_send_wr;
  for (int round = 0; round < 40; ++round) {
    for (std::uint32_t i = 0; i < run; ++i) {
      *pair.a->at(i) = static_cast<std::byte>(round + i);
      const Sge from = pair.a->sge(i, 1);
      SendWr request = pair.write(i, {&from, 1}, i);
      request.flags = i + 1 == run ? SendFlags(SendFlag::kSignaled) : SendFlags();
      pair.a->post(request);
    }
    ASSERT_EQ(text(pair.a->wait_sends(1)), std::to_string(run - 1) + " ok");
    ASSERT_EQ(pair.a->qp->send_queue().outstanding_requests(), 0u);
    expect_landed(*pair.a, 0, *pair.b, 0, run);
  }
  pair.a->expect_quiet();
}

TEST_P(TrafficTest, SignalAll) {
  EndOptions a;
  a.signal_all = true;
  Pair pair(options(a));
  const Sge from = pair.a->sge(0, 8);
  for (std::uint64_t i = 0; i < 3; ++i) {
    SendWr request = pair.write(i, {&from, 1}, 0);
    request.flags = {};
    pair.a->post(request);
  }
  EXPECT_EQ(text(pair.a->wait_sends(3)), "0 ok, 1 ok, 2 ok");
}

// As many requests as the queues hold, with WQEs as large as they may be, at every place of the ring.
TEST_P(TrafficTest, QueuesExactlyFull) {
  Pair pair(options());
  End &a = *pair.a, &b = *pair.b;
  const QpCapacity sends = a.qp->capacity(), receives = b.qp->capacity();
  std::vector<Sge> pieces;
  for (std::uint32_t i = 0; i < sends.max_send_sge; ++i) {
    pieces.push_back(a.sge(i * 8, 8));
  }
  const std::vector<Sge> landing(receives.max_recv_sge, b.sge(0, 64));
  for (int round = 0; round < 5; ++round) {
    std::vector<SendWr> requests;
    std::vector<RecvWr> waiting;
    for (std::uint32_t i = 0; i < receives.max_recv_wr; ++i) {
      waiting.push_back({.wr_id = 1000 + i, .sges = landing});
    }
    for (std::uint32_t i = 0; i < sends.max_send_wr; ++i) {
      requests.push_back(Pair::send(i, pieces));
    }
    ASSERT_EQ(b.qp->post_recv(waiting).posted, receives.max_recv_wr);
    PostResult refused = b.qp->post_recv({waiting.data(), 1});
    EXPECT_EQ(refused.error, ENOMEM);
    EXPECT_NE(b.qp->explain_refusal(waiting[0]).find("receive queue is full"), std::string::npos);
    const PostResult posted = a.qp->post_send(requests);
    ASSERT_EQ(posted.posted, sends.max_send_wr);
    refused = a.qp->post_send({requests.data(), 1});
    EXPECT_EQ(refused.error, ENOMEM);
    EXPECT_EQ(refused.posted, 0u);
    EXPECT_NE(a.qp->explain_refusal(requests[0]).find("send queue is full"), std::string::npos);
    const auto expect_done = [&](std::uint32_t first, std::uint32_t count, std::uint64_t first_receive) {
      const auto done = a.wait_sends(count), received = b.wait_receives(count);
      for (std::uint32_t i = 0; i < done.size(); ++i) {
        ASSERT_EQ(done[i].wr_id, first + i);
        ASSERT_EQ(done[i].status, CompletionStatus::kSuccess) << describe(done[i]);
      }
      for (std::uint32_t i = 0; i < received.size(); ++i) {
        ASSERT_EQ(received[i].wr_id, first_receive + i);
      }
    };
    ASSERT_GT(sends.max_send_wr, receives.max_recv_wr);
    expect_done(0, receives.max_recv_wr, 1000);
    const std::uint32_t rest = sends.max_send_wr - receives.max_recv_wr;
    ASSERT_EQ(b.qp->post_recv(std::span(waiting).first(rest)).posted, rest);
    expect_done(receives.max_recv_wr, rest, 1000);
    const Sge one = a.sge(0, 1);  // moves the next round to another place of the ring
    a.post(pair.write(5, {&one, 1}, 0));
    a.wait_sends(1);
  }
}

TEST_P(TrafficTest, CqResizeUnderTraffic) {
  EndOptions small;
  small.cq_entries = 127;
  Pair pair(options(small, small));
  End& a = *pair.a;
  const Sge from = a.sge(0, 64);
  std::uint64_t posted = 0, completed = 0;
  const std::uint32_t sizes[] = {300, 127, 1000, 63, 64, 4095, 127};
  std::array<Completion, 8> some;
  for (int round = 0; round < 70; ++round) {
    while (posted - completed < 48) {
      SendWr request = pair.write(posted++, {&from, 1}, 0);
      if (posted % 3 == 0) {  // with data in the CQE, where there is room for it
        request.opcode = SendOpcode::kRdmaRead;
      }
      a.post(request);
    }
    for (int i = 0; i < round % 7; ++i) {
      for (std::size_t n = a.send_cq->poll(some), k = 0; k < n; ++k) {
        ASSERT_EQ(some[k].wr_id, completed++) << describe(some[k]);
        ASSERT_EQ(some[k].status, CompletionStatus::kSuccess);
      }
    }
    const std::uint32_t size = sizes[round % std::size(sizes)];
    const auto resized = a.send_cq->resize(size);
    ASSERT_TRUE(resized) << resized.error().message();
    ASSERT_GE(a.send_cq->entries(), size);
  }
  for (const Completion& completion : a.wait_sends(posted - completed)) {
    ASSERT_EQ(completion.wr_id, completed++);
    ASSERT_EQ(completion.status, CompletionStatus::kSuccess) << describe(completion);
  }
  a.expect_quiet();
}

TEST_P(TrafficTest, CqTooSmallForWhatWaits) {
  Pair pair(options());
  End& a = *pair.a;
  const Sge from = a.sge(0, 8);
  for (std::uint64_t i = 0; i < 20; ++i) {
    a.post(pair.write(i, {&from, 1}, 0));
  }
  must(a.qp->to_error());
  a.context
      .relax();  // the device looks at the last doorbell; whatever was not done is flushed, so all completions wait
  const auto refused = a.send_cq->resize(7);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EINVAL);
  EXPECT_NE(refused.error().message().find("completions that wait"), std::string::npos) << refused.error().message();
  must(a.send_cq->resize(20));  // they just fit
  const auto done = a.wait_sends(20);
  for (std::uint64_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, i);
  }
}

// Linux' mlx5_ib has no way from RTS to SQD for a program; the QP goes on as it was.
TEST_P(TrafficTest, SendQueueDrainIsRefused) {
  Pair pair(options());
  const auto refused = pair.a->qp->to_sqd();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EINVAL);
  EXPECT_NE(refused.error().message().find("from RTS to SQD"), std::string::npos) << refused.error().message();
  EXPECT_EQ(pair.a->state(), QpState::kRts);
  const Sge from = pair.a->sge(0, 8);
  pair.a->post(pair.write(1, {&from, 1}, 0));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
}

TEST_P(TrafficTest, ResetAndReconnect) {
  Pair pair(options());
  End &a = *pair.a, &b = *pair.b;
  const Sge from = a.sge(0, 8);
  for (int round = 0; round < 10; ++round) {
    // Work is left everywhere: receives, completions that nobody polls, requests without receives.
    b.post_receives(70, 3);
    a.post_receives(80, 3);
    for (std::uint64_t i = 0; i < 10; ++i) {
      a.post(Pair::send(100 + i, {&from, 1}));
    }
    if (round % 2 == 0) {
      b.wait_receives(1);
    }
    must(a.qp->to_reset());
    must(b.qp->to_reset());
    EXPECT_EQ(a.qp->send_queue().outstanding_requests(), 0u);
    EXPECT_EQ(a.qp->post_send({}).posted, 0u);
    const SendWr request = pair.write(1, {&from, 1}, 512);
    EXPECT_EQ(a.qp->post_send({&request, 1}).error, EINVAL) << "RESET takes no requests";
    const QpAddress address_a = a.address(1000 + round), address_b = b.address(0xffffff - round);
    a.connect(address_b, 1000 + round);
    b.connect(address_a, 0xffffff - round);
    a.expect_quiet();  // nothing of before
    b.expect_quiet();
    a.fill(0, 8, static_cast<std::uint8_t>(round));
    b.post_receives(7, 1);
    a.post(request);
    a.post(Pair::send(2, {&from, 1}));
    EXPECT_EQ(text(a.wait_sends(2)), "1 ok, 2 ok");
    EXPECT_EQ(text(b.wait_receives(1)), "7 ok");
    expect_landed(a, 0, b, 512, 8);
  }
}

TEST_P(TrafficTest, BothDirectionsAtOnce) {
  Pair pair(options());
  End &a = *pair.a, &b = *pair.b;
  const auto write_to = [](End& from, End& to, std::uint64_t n, const Sge& piece) {
    from.post(SendWr{.wr_id = n,
                     .opcode = SendOpcode::kRdmaWrite,
                     .flags = SendFlag::kSignaled,
                     .sges = {&piece, 1},
                     .remote_address = to.address_of(kTo + n * 1500),
                     .rkey = to.region->rkey()});
  };
  a.fill(0, 48 * 1500, 1);
  b.fill(0, 48 * 1500, 2);
  for (std::uint64_t n = 0; n < 48; ++n) {
    write_to(a, b, n, a.sge(n * 1500, 1500));
    write_to(b, a, n, b.sge(n * 1500, 1500));
  }
  a.wait_sends(48);
  b.wait_sends(48);
  expect_landed(a, 0, b, kTo, 48 * 1500);
  expect_landed(b, 0, a, kTo, 48 * 1500);
}

TEST(TrafficSoft, EveryMtu) {
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    SCOPED_TRACE(bytes_of(mtu));
    EndOptions options;
    options.rtr.path_mtu = mtu;
    Pair pair({.a = options, .b = options});
    pair.a->fill(0, 30'000, 1);
    const Sge from = pair.a->sge(0, 30'000), back = pair.a->sge(100'000, 30'000);
    pair.a->post(pair.write(1, {&from, 1}, 64));
    pair.a->post(pair.read(2, {&back, 1}, 64));
    EXPECT_EQ(text(pair.a->wait_sends(2)), "1 ok, 2 ok");
    expect_landed(*pair.a, 0, *pair.b, 64, 30'000);
    expect_landed(*pair.a, 0, *pair.a, 100'000, 30'000);
  }
}

// Requests before the first bad one are posted.
TEST(TrafficSoft, PartOfAListIsPosted) {
  Pair pair;
  const Sge from = pair.a->sge(0, 8);
  const std::vector<Sge> many(pair.a->qp->capacity().max_send_sge + 1, from);
  const std::array requests{pair.write(1, {&from, 1}, 0), pair.write(2, {&from, 1}, 0), pair.write(3, many, 0),
                            pair.write(4, {&from, 1}, 0)};
  const PostResult result = pair.a->qp->post_send(requests);
  EXPECT_EQ(result.posted, 2u);
  EXPECT_EQ(result.error, EINVAL);
  EXPECT_EQ(text(pair.a->wait_sends(2)), "1 ok, 2 ok");
  pair.a->expect_quiet();
}

}  // namespace
}  // namespace umlx5::testing
