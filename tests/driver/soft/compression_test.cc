// Traffic whose completions the device compresses.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "driver/wq.h"
#include "tests/driver/soft/pair.h"
#include "wqe/mini_cqe.h"

namespace umlx5::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kTo = 128 * 1024;
constexpr std::uint32_t kBytes = 100;  // more than a CQE carries

EndOptions compressed(std::uint8_t format, std::uint32_t cqe_bytes = 64, std::uint32_t cq_entries = 255) {
  EndOptions options;
  options.cq_entries = cq_entries;
  options.cqe_bytes = cqe_bytes;
  options.compression = format;
  return options;
}

// Whether a title is the next entry, or one that whole CQEs lie before.
bool title_waits(const Cq& cq) {
  const CompletionRing& ring = cq.ring();
  for (std::uint32_t index = cq.consumer_index(), looked = 0; looked != ring.entries(); ++index, ++looked) {
    const std::uint8_t op_own = ring.op_own(index);
    if (!ring.is_ready(index, op_own)) {
      return false;
    }
    if (wqe::is_compression_title(op_own)) {
      return true;
    }
  }
  return false;
}

// Polls until `count` completions have come, `most` at a time; remembers whether there was a title.
struct Poller {
  std::vector<Completion> wait(End& end, Cq& cq, std::size_t count, std::size_t most = 64) {
    std::vector<Completion> all, batch(most);
    const auto deadline = Clock::now() + kLimit;
    while (all.size() < count && Clock::now() < deadline) {
      saw_title |= title_waits(cq);
      const std::size_t got = cq.poll(std::span(batch).first(std::min(most, count - all.size())));
      all.insert(all.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(got));
      if (got == 0) {
        end.context.relax();
      }
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }
  bool saw_title = false;
};

// Whether to make another round: so many, and more until the device, which has to find completions together for that,
// has compressed some.
bool another(std::uint64_t round, std::uint64_t rounds, bool saw_title, Clock::time_point start) {
  return round < rounds || (!saw_title && Clock::now() < start + kLimit);
}

// A list of signalled SENDs of kBytes: one doorbell.
void send_list(End& from, std::uint64_t wr_id, std::size_t count) {
  std::vector<Sge> pieces;
  std::vector<SendWr> list;
  for (std::size_t i = 0; i < count; ++i) {
    pieces.push_back(from.sge(i * 1024, kBytes + static_cast<std::uint32_t>(i)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(Pair::send(wr_id + i, {&pieces[i], 1}));
  }
  ASSERT_EQ(from.qp->post_send(list).posted, count);
}

class Compression : public ::testing::TestWithParam<std::tuple<Topology, std::uint8_t, std::uint32_t>> {
 protected:
  PairOptions options(std::uint32_t cq_entries = 255) const {
    const auto [topology, format, cqe_bytes] = GetParam();
    const EndOptions end = compressed(format, cqe_bytes, cq_entries);
    return {.topology = topology, .a = end, .b = end};
  }
};
std::string name_of_case(const ::testing::TestParamInfo<Compression::ParamType>& test) {
  const auto [topology, format, cqe_bytes] = test.param;
  return fmt::format("{}Format{}Cqe{}", topology == Topology::kLoopback ? "Loopback" : "TwoDevices", format, cqe_bytes);
}
INSTANTIATE_TEST_SUITE_P(Soft, Compression,
                         ::testing::Combine(::testing::Values(Topology::kTwoDevices, Topology::kLoopback),
                                            ::testing::Values(std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{4}),
                                            ::testing::Values(64u, 128u)),
                         name_of_case);

// Sends and receives over many laps of small queues, polled a few at a time.
TEST_P(Compression, MessagesInOrder) {
  Pair pair(options(63));
  End &a = *pair.a, &b = *pair.b;
  a.fill(0, 64 * 1024, 5);
  Poller sends, receives;
  std::uint64_t wr_id = 0;
  std::minstd_rand random(7);
  const auto start = Clock::now();
  for (std::uint64_t round = 0; another(round, 40, sends.saw_title && receives.saw_title, start); ++round) {
    const std::size_t count = 1 + random() % 48;
    b.post_receives(wr_id, count);
    send_list(a, wr_id, count);
    const auto received = receives.wait(b, *b.recv_cq, count, 1 + random() % 9);
    const auto sent = sends.wait(a, *a.send_cq, count, 1 + random() % 9);
    ASSERT_EQ(received.size(), count);
    ASSERT_EQ(sent.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(received[i].status, CompletionStatus::kSuccess) << describe(received[i]);
      ASSERT_EQ(received[i].wr_id, wr_id + i);
      ASSERT_EQ(received[i].byte_count, kBytes + i);
      ASSERT_EQ(sent[i].wr_id, wr_id + i);
      ASSERT_EQ(sent[i].opcode, CompletionOpcode::kSend);
      ASSERT_EQ(std::memcmp(a.at(i * 1024), b.at(kTo + i * 1024), kBytes + i), 0);
    }
    wr_id += count;
  }
  EXPECT_TRUE(sends.saw_title);
  EXPECT_TRUE(receives.saw_title);
  EXPECT_EQ(a.qp->send_queue().outstanding_requests(), 0u);
  EXPECT_EQ(b.qp->receive_queue().outstanding_requests(), 0u);
}

TEST_P(Compression, ASharedReceiveQueue) {
  PairOptions shared = options();
  shared.b.srq_requests = 63;
  Pair pair(shared);
  End &a = *pair.a, &b = *pair.b;
  Poller receives;
  const auto start = Clock::now();
  for (std::uint64_t round = 0; another(round, 8, receives.saw_title, start); ++round) {
    b.post_receives(round * 40, 40);
    send_list(a, 0, 40);
    const auto received = receives.wait(b, *b.recv_cq, 40, 7);
    for (std::size_t i = 0; i < received.size(); ++i) {
      ASSERT_EQ(received[i].status, CompletionStatus::kSuccess) << describe(received[i]);
      ASSERT_EQ(received[i].wr_id, round * 40 + i);
      ASSERT_EQ(received[i].byte_count, kBytes + i);
      ASSERT_EQ(received[i].srq, b.srq.get());
    }
    a.wait_sends(40);
  }
  EXPECT_TRUE(receives.saw_title);
}

// A request that fails, and what is flushed behind it, between those that succeed.
TEST_P(Compression, AnErrorAmongThem) {
  Pair pair(options());
  End& a = *pair.a;
  const Sge piece = a.sge(0, kBytes);
  std::vector<SendWr> list;
  for (std::uint64_t i = 0; i < 30; ++i) {
    list.push_back(pair.write(i, {&piece, 1}, kTo));
  }
  list[20].rkey ^= 0x100;
  ASSERT_EQ(a.qp->post_send(list).posted, 30u);
  const auto completions = a.wait_sends(30);
  for (std::size_t i = 0; i < completions.size(); ++i) {
    EXPECT_EQ(completions[i].wr_id, i);
    EXPECT_EQ(completions[i].status, i < 20    ? CompletionStatus::kSuccess
                                     : i == 20 ? CompletionStatus::kRemoteAccess
                                               : CompletionStatus::kWorkRequestFlushed);
  }
}

TEST_P(Compression, AResizeInBetween) {
  Pair pair(options(63));
  End &a = *pair.a, &b = *pair.b;
  std::uint64_t wr_id = 0;
  for (const std::uint32_t entries : {127u, 63u, 255u, 63u}) {
    b.post_receives(wr_id, 40);
    send_list(a, wr_id, 40);
    a.wait_sends(40);
    Poller receives;
    std::vector<Completion> received = receives.wait(b, *b.recv_cq, 11, 4);
    must(b.recv_cq->resize(entries));
    for (const Completion& completion : receives.wait(b, *b.recv_cq, 29)) {
      received.push_back(completion);
    }
    for (std::size_t i = 0; i < received.size(); ++i) {
      ASSERT_EQ(received[i].wr_id, wr_id + i);
      ASSERT_EQ(received[i].byte_count, kBytes + i);
    }
    wr_id += 40;
  }
}

TEST_P(Compression, AQueuePairGoesInBetween) {
  Pair pair(options());
  End &a = *pair.a, &b = *pair.b;
  End c(pair.machine_a.context(), options().a);
  auto second =
      must(b.pd->create_qp({.send_cq = b.send_cq.get(), .recv_cq = b.recv_cq.get(), .capacity = b.options.capacity}));
  must(second->connect(c.address(30), 40, {.remote_access = kAllAccess}, b.options.rtr, b.options.rts));
  c.connect({.gid = b.address(0).gid, .qpn = second->qpn(), .psn = 40}, 30);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Sge piece = b.sge(kTo, 1024);
    const RecvWr request{.wr_id = 500 + i, .sges = {&piece, 1}};
    ASSERT_TRUE(second->post_recv({&request, 1}));
  }
  b.post_receives(0, 30);
  send_list(a, 0, 30);
  a.wait_sends(30);
  send_list(c, 0, 20);
  c.wait_sends(20);
  Poller receives;
  EXPECT_EQ(receives.wait(b, *b.recv_cq, 7, 3).size(), 7u);
  ASSERT_TRUE(b.qp.destroy());
  const auto left = receives.wait(b, *b.recv_cq, 20);
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].wr_id, 500 + i);
    EXPECT_EQ(left[i].qp, second.get());
  }
  std::array<Completion, 4> none;
  EXPECT_EQ(b.recv_cq->poll(none), 0u);
}

TEST_P(Compression, Frames) {
  const auto [topology, format, cqe_bytes] = GetParam();
  if (topology == Topology::kLoopback) {
    return;  // the frames are another device's
  }
  EndOptions raw = compressed(format, cqe_bytes);
  raw.type = QpType::kRawPacket;
  raw.capacity.max_inline_bytes = 0;
  Machine machine_a, machine_b;
  End a(machine_a.context(), raw), b(machine_b.context(), raw);
  for (End* const end : {&a, &b}) {
    must(end->qp->to_init({}));
    must(end->qp->to_rtr({}));
    must(end->qp->to_rts({}));
  }
  // To b's MAC: 02:00 and its IPv4 address.
  std::array<std::uint8_t, 14> header{2, 0, 0, 0, 0, 0, 2, 0, 9, 9, 9, 9, 0x88, 0xb5};
  const Gid gid = b.address(0).gid;
  std::memcpy(header.data() + 2, reinterpret_cast<const std::uint8_t*>(&gid) + 12, 4);
  ib_uverbs_flow_spec_eth specification{};
  specification.type = 0x20;  // IB_FLOW_SPEC_ETH
  specification.size = sizeof(specification);
  std::memcpy(specification.val.dst_mac, header.data(), 6);
  std::memset(specification.mask.dst_mac, 0xff, 6);
  const auto flow = must(
      b.qp->create_flow({.specification_count = 1, .specifications = std::as_bytes(std::span(&specification, 1))}));
  Poller receives;
  const auto start = Clock::now();
  for (std::uint64_t round = 0; another(round, 8, receives.saw_title, start); ++round) {
    b.post_receives(0, 40);
    a.fill(0, 40 * 1024, static_cast<std::uint8_t>(round));
    for (std::size_t i = 0; i < 40; ++i) {
      std::memcpy(a.at(i * 1024), header.data(), header.size());
    }
    send_list(a, 0, 40);
    const auto received = receives.wait(b, *b.recv_cq, 40, 11);
    a.wait_sends(40);
    for (std::size_t i = 0; i < received.size(); ++i) {
      ASSERT_EQ(received[i].wr_id, i);
      ASSERT_EQ(received[i].byte_count, kBytes + i);
      ASSERT_EQ(std::memcmp(a.at(i * 1024), b.at(kTo + i * 1024), kBytes + i), 0);
    }
  }
  EXPECT_TRUE(receives.saw_title);
}

}  // namespace
}  // namespace umlx5::testing
