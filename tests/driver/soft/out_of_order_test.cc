// Queue pairs that place data out of order (MLX5DV_QP_CREATE_OOO_DP).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "driver/ah.h"
#include "driver/dv_flags.h"
#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

constexpr std::size_t kSlotBytes = 1024, kTo = 128 * 1024;
constexpr char kRoughWire[] = "seed=11,loss=0.03,dup=0.05,reorder=0.3,delay=0.05,delay_us=300";

EndOptions unordered() {
  EndOptions end;
  end.dv_create_flags = dv::kOutOfOrderPlacement;
  return end;
}

class OutOfOrderTest : public SoftTest {
 protected:
  PairOptions both(EndOptions end = unordered()) const { return options(end, end); }
};
INSTANTIATE_TEST_SUITE_P(Soft, OutOfOrderTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

// Receive requests of a ring, each with memory of its own; messages are numbered by their content.
class Inbox {
 public:
  explicit Inbox(End& end) : end_(end) {}
  void post(std::uint64_t slot, std::uint32_t bytes = kSlotBytes) {
    const Sge sge = end_.sge(kTo + slot * kSlotBytes, bytes);
    end_.post(RecvWr{.wr_id = slot, .sges = {&sge, 1}});
  }
  std::uint32_t number_in(std::uint64_t slot) const {
    std::uint32_t number;
    std::memcpy(&number, end_.at(kTo + slot * kSlotBytes), sizeof number);
    return number;
  }

 private:
  End& end_;
};

void post_numbered(End& from, std::uint32_t number, std::uint32_t bytes = 256) {
  const std::size_t offset = number % 64 * kSlotBytes;
  from.fill(offset, bytes, static_cast<std::uint8_t>(number));
  std::memcpy(from.at(offset), &number, sizeof number);
  const Sge sge = from.sge(offset, bytes);
  from.post(Pair::send(number, {&sge, 1}));
}

// Sends `count` numbered messages, each into a receive request that is posted again once it is done. Which requests
// they took, in the order of the messages.
std::vector<std::uint64_t> exchange(Pair& pair, std::uint32_t count, std::uint32_t receives) {
  Inbox inbox(*pair.b);
  for (std::uint64_t slot = 0; slot < receives; ++slot) {
    inbox.post(slot);
  }
  std::vector<std::uint64_t> slots;
  std::uint32_t sent = 0, acknowledged = 0;
  while (slots.size() < count || acknowledged < count) {
    for (; sent < count && sent - std::min<std::size_t>(acknowledged, slots.size()) < 32; ++sent) {
      post_numbered(*pair.a, sent);
    }
    if (slots.size() < count) {
      const Completion received = pair.b->wait_receives(1).at(0);
      EXPECT_EQ(received.status, CompletionStatus::kSuccess) << describe(received);
      EXPECT_EQ(inbox.number_in(received.wr_id), slots.size()) << "in the request that the completion names";
      slots.push_back(received.wr_id);
      inbox.post(received.wr_id);
    }
    std::array<Completion, 16> done;
    const std::size_t got = pair.a->send_cq->poll(done);
    for (std::size_t i = 0; i < got; ++i) {
      EXPECT_EQ(done[i].status, CompletionStatus::kSuccess) << describe(done[i]);
      EXPECT_EQ(done[i].wr_id, acknowledged);
      ++acknowledged;
    }
    if (got == 0) {
      pair.a->context.relax();
    }
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  return slots;
}

TEST_P(OutOfOrderTest, MessagesCompleteInOrderInRequestsOfAnyOrder) {
  Pair pair(both());
  EXPECT_EQ(pair.b->qp->capacity().max_recv_wr, 64u);
  const std::vector<std::uint64_t> slots = exchange(pair, 2000, 64);
  EXPECT_FALSE(std::is_sorted(slots.begin(), slots.begin() + 64)) << "a device that takes them in order shows nothing";
  EXPECT_EQ(std::set(slots.begin(), slots.begin() + 200).size(), 64u);
}

TEST_P(OutOfOrderTest, OverAWireThatLosesAndReorders) {
  PairOptions options = both();
  options.faults_a = kRoughWire;
  {
    Pair pair(options);
    exchange(pair, 2000, 64);
  }
  Pair pair(options);
  exchange(pair, 300, 3);  // fewer receives than messages under way
}

TEST_P(OutOfOrderTest, FewReceiveRequests) {
  for (const std::uint32_t receives : {1u, 2u, 3u, 8u}) {
    SCOPED_TRACE(receives);
    EndOptions end = unordered();
    end.capacity.max_recv_wr = receives;
    end.capacity.max_recv_sge = 1;
    PairOptions options = both(end);
    options.faults_a = kRoughWire;
    Pair pair(options);
    exchange(pair, 200, pair.b->qp->capacity().max_recv_wr);
  }
}

TEST_P(OutOfOrderTest, SharedReceiveQueue) {
  EndOptions end = unordered();
  end.srq_requests = 63;
  PairOptions options = both(end);
  options.faults_a = kRoughWire;
  Pair pair(options);
  exchange(pair, 1000, 63);
}

TEST_P(OutOfOrderTest, LargeMessagesOfEveryKind) {
  PairOptions options = both();
  options.faults_a = kRoughWire;
  Pair pair(options);
  End &a = *pair.a, &b = *pair.b;
  constexpr std::uint32_t kBytes = 20'000;  // 20 packets
  for (std::uint8_t round = 0; round < 40; ++round) {
    a.fill(0, 3 * kBytes, round);
    std::memset(b.at(0), 0, 5 * kBytes);
    const std::array from{a.sge(0, kBytes), a.sge(kBytes, kBytes), a.sge(2 * kBytes, kBytes)};
    const Sge to = b.sge(2 * kBytes, kBytes), to_other = b.sge(3 * kBytes, kBytes);
    b.post(RecvWr{.wr_id = 1, .sges = {&to, 1}});
    b.post(RecvWr{.wr_id = 2, .sges = {&to_other, 1}});
    a.post(pair.write(1, {&from[0], 1}, 0));
    SendWr immediate = pair.write(2, {&from[1], 1}, kBytes);
    immediate.opcode = SendOpcode::kRdmaWriteWithImm;
    immediate.immediate_big_endian = round;
    a.post(Pair::send(3, {&from[2], 1}));
    a.post(immediate);
    const auto received = b.wait_receives(2);
    EXPECT_EQ(received[0].opcode, CompletionOpcode::kRecv);
    EXPECT_EQ(received[0].byte_count, kBytes);
    EXPECT_EQ(received[1].opcode, CompletionOpcode::kRecvRdmaWithImm);
    EXPECT_EQ(received[1].byte_count, kBytes);
    EXPECT_EQ(received[1].immediate_big_endian, round);
    EXPECT_EQ(text(a.wait_sends(3)), "1 ok, 3 ok, 2 ok");
    const std::size_t sent_to = received[0].wr_id == 1 ? 2 * kBytes : 3 * kBytes;
    EXPECT_TRUE(std::equal(a.at(0), a.at(2 * kBytes), b.at(0)));
    EXPECT_TRUE(std::equal(a.at(kBytes), a.at(2 * kBytes), b.at(kBytes)));
    EXPECT_TRUE(std::equal(a.at(2 * kBytes), a.at(3 * kBytes), b.at(sent_to)));
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// What a read returns, and an atomic changes, is what all earlier messages have left.
TEST_P(OutOfOrderTest, ReadsAndAtomicsComeAfterEarlierMessages) {
  PairOptions options = both();
  options.faults_a = kRoughWire;
  Pair pair(options);
  End &a = *pair.a, &b = *pair.b;
  constexpr std::uint64_t kBatch = 12, kRounds = 60, kValues = 8 * 1024, kResults = 16 * 1024, kCounter = 4096;
  const auto word = [&](std::size_t offset) {
    std::uint64_t value;
    std::memcpy(&value, a.at(offset), sizeof value);
    return value;
  };
  std::uint64_t adds = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      const std::uint64_t number = round * kBatch + i + 1;
      std::memcpy(a.at(kValues + i * 8), &number, sizeof number);
      // Writes may pass each other, so each has memory of its own.
      const std::size_t there = (round % 2 * kBatch + i) * 8;
      const Sge from = a.sge(kValues + i * 8, 8), read_to = a.sge(kResults + i * 8, 8),
                old_to = a.sge(kResults + 4096 + i * 8, 8);
      a.post(pair.write(1, {&from, 1}, there));
      a.post(pair.read(2, {&read_to, 1}, there));
      a.post(pair.fetch_add(3, {&old_to, 1}, kCounter, 1));
    }
    for (const Completion& done : a.wait_sends(3 * kBatch)) {
      ASSERT_EQ(done.status, CompletionStatus::kSuccess) << describe(done);
    }
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      ASSERT_EQ(word(kResults + i * 8), round * kBatch + i + 1);
      ASSERT_EQ(word(kResults + 4096 + i * 8), adds++);
    }
  }
  std::uint64_t counter;
  std::memcpy(&counter, b.at(kCounter), sizeof counter);
  EXPECT_EQ(counter, kRounds * kBatch);
}

TEST_P(OutOfOrderTest, DatagramsToo) {
  EndOptions end = unordered();
  end.type = QpType::kUd;
  Pair pair(both(end));
  uapi::AddressVector way;
  way.dgid = pair.b->address(0).gid;
  way.hop_limit = 64;
  way.is_global = true;
  way.port = 1;
  const auto ah = must(pair.a->pd->create_ah(way));
  pair.b->post_receives(0, 64, kTo);
  std::vector<std::uint64_t> slots;
  for (std::uint32_t number = 0; number < 64; ++number) {
    std::memcpy(pair.a->at(0), &number, sizeof number);
    const Sge sge = pair.a->sge(0, 64);
    SendWr request = Pair::send(number, {&sge, 1});
    request.destination = &ah->address_vector();
    request.remote_qpn = pair.b->qp->qpn();
    request.remote_qkey = end.qkey;
    pair.a->post(request);
    const Completion received = pair.b->wait_receives(1).at(0);
    pair.a->wait_sends(1);
    std::uint32_t arrived;
    std::memcpy(&arrived, pair.b->at(kTo + received.wr_id * 1024 + 40), sizeof arrived);
    EXPECT_EQ(arrived, number);
    slots.push_back(received.wr_id);
  }
  EXPECT_FALSE(std::ranges::is_sorted(slots));
}

TEST_P(OutOfOrderTest, UnreliableConnection) {
  EndOptions end = unordered();
  end.type = QpType::kUc;
  Pair pair(both(end));
  const std::vector<std::uint64_t> slots = exchange(pair, 300, 64);
  EXPECT_FALSE(std::is_sorted(slots.begin(), slots.begin() + 64));
}

// A request that cannot be executed fails in its turn, and takes with it what came early.
TEST_P(OutOfOrderTest, ErrorsComeInOrder) {
  Pair pair(both());
  End &a = *pair.a, &b = *pair.b;
  b.post_receives(0, 32, kTo);
  const Sge small = a.sge(0, 64), large = a.sge(0, 2000);
  std::vector<SendWr> requests;
  for (std::uint64_t i = 0; i < 24; ++i) {
    requests.push_back(Pair::send(i, {i == 12 ? &large : &small, 1}));
  }
  ASSERT_EQ(a.qp->post_send(requests).error, 0);
  const auto sent = a.wait_sends(24);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(sent[i].status, CompletionStatus::kSuccess) << i;
  }
  EXPECT_EQ(sent[12].status, CompletionStatus::kRemoteInvalidRequest);
  EXPECT_EQ(sent[13].status, CompletionStatus::kWorkRequestFlushed);
  const auto received = b.wait_receives(32);  // each once
  std::set<std::uint64_t> requests_done;
  std::size_t good = 0, too_short = 0, flushed = 0;
  for (const Completion& completion : received) {
    requests_done.insert(completion.wr_id);
    good += completion.status == CompletionStatus::kSuccess ? 1 : 0;
    too_short += completion.status == CompletionStatus::kLocalLength ? 1 : 0;
    flushed += completion.status == CompletionStatus::kWorkRequestFlushed ? 1 : 0;
  }
  EXPECT_EQ(requests_done.size(), 32u);
  EXPECT_EQ(good, 12u);
  EXPECT_EQ(too_short, 1u);
  EXPECT_EQ(flushed, 19u);
}

TEST_P(OutOfOrderTest, OnOneSideOnlyTheConnectionFails) {
  for (const bool sender : {true, false}) {
    SCOPED_TRACE(sender);
    Pair pair(options(sender ? unordered() : EndOptions{}, sender ? EndOptions{} : unordered()));
    pair.b->post_receives(0, 4, kTo);
    const Sge sge = pair.a->sge(0, 64);
    pair.a->post(Pair::send(7, {&sge, 1}));
    EXPECT_EQ(pair.a->wait_sends(1).at(0).status, CompletionStatus::kRemoteInvalidRequest);
    for (const Completion& completion : pair.b->wait_receives(4)) {
      EXPECT_EQ(completion.status, CompletionStatus::kWorkRequestFlushed);
    }
    EXPECT_EQ(pair.a->state(), QpState::kErr);
    EXPECT_EQ(pair.b->state(), QpState::kErr);
  }
  EndOptions plain, odd = unordered();
  plain.type = odd.type = QpType::kUc;
  Pair pair(options(plain, odd));
  pair.b->post_receives(0, 1, kTo);
  const Sge sge = pair.a->sge(0, 64);
  pair.a->post(Pair::send(7, {&sge, 1}));
  EXPECT_EQ(pair.b->wait_receives(1).at(0).status, CompletionStatus::kWorkRequestFlushed)
      << "no acknowledgement can tell the sender";
}

TEST_P(OutOfOrderTest, TheRingIsFullAtHalf) {
  Pair pair(both());
  Inbox inbox(*pair.b);
  for (std::uint64_t slot = 0; slot < 64; ++slot) {
    inbox.post(slot);
  }
  const Sge sge = pair.b->sge(kTo, 64);
  const RecvWr one_more{.wr_id = 64, .sges = {&sge, 1}};
  EXPECT_EQ(pair.b->qp->post_recv({&one_more, 1}).error, ENOMEM);
}

}  // namespace
}  // namespace umlx5::testing
