// Shared receive queues: many queue pairs take from one, their limit event, and the domain of XRC.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>

#include "driver/xrcd.h"
#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

constexpr std::size_t kTo = 128 * 1024;

class SharedReceiveTest : public SoftTest {
 protected:
  static PairOptions shared(Topology topology, std::uint32_t requests) {
    EndOptions b;
    b.srq_requests = requests;
    return {.topology = topology, .a = {}, .b = b};
  }
};

INSTANTIATE_TEST_SUITE_P(Soft, SharedReceiveTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback),
                         name_of);

TEST_P(SharedReceiveTest, MessagesOfEverySize) {
  Pair pair(shared(GetParam(), 15));
  End &a = *pair.a, &b = *pair.b;
  EXPECT_EQ(b.srq->max_wr(), 15u);
  std::uint8_t stream = 0;
  for (int lap = 0; lap < 5; ++lap) {  // more than the ring holds
    for (const std::uint32_t bytes : {0u, 1u, 32u, 33u, 1024u, 5000u}) {
      SCOPED_TRACE(bytes);
      a.fill(0, bytes, ++stream);
      const Sge from = a.sge(0, bytes), to = b.sge(kTo, 8192);
      b.post(RecvWr{.wr_id = stream, .sges = {&to, 1}});
      a.post(Pair::send(9, {&from, 1}));
      EXPECT_EQ(text(a.wait_sends(1)), "9 ok");
      const Completion received = b.wait_receives(1).at(0);
      ASSERT_EQ(received.status, CompletionStatus::kSuccess) << describe(received);
      EXPECT_EQ(received.wr_id, stream);
      EXPECT_EQ(received.qp, b.qp.get());
      EXPECT_EQ(received.srq, b.srq.get());
      EXPECT_EQ(received.byte_count, bytes);
      EXPECT_TRUE(std::equal(a.at(0), a.at(bytes), b.at(kTo)));
    }
  }
}

TEST_P(SharedReceiveTest, TwoQueuePairsTakeFromOne) {
  Pair pair(shared(GetParam(), 31));
  End &a = *pair.a, &b = *pair.b;
  End c(pair.machine_a.context());
  auto second = must(b.pd->create_qp({.send_cq = b.send_cq.get(),
                                      .recv_cq = b.recv_cq.get(),
                                      .srq = b.srq.get(),
                                      .capacity = {.max_send_wr = 4, .max_send_sge = 1}}));
  must(second->connect(c.address(30), 40, {.remote_access = kAllAccess}, b.options.rtr, b.options.rts));
  c.connect({.gid = b.address(0).gid, .qpn = second->qpn(), .psn = 40}, 30);
  b.post_receives(0, 20);
  const Sge from = a.sge(0, 8), from_c = c.sge(0, 8);
  for (std::uint64_t n = 0; n < 10; ++n) {
    a.post(Pair::send(n, {&from, 1}));
    c.post(Pair::send(n, {&from_c, 1}));
  }
  a.wait_sends(10);
  c.wait_sends(10);
  std::set<std::uint64_t> seen;
  std::size_t by_second = 0;
  for (const Completion& completion : b.wait_receives(20)) {
    EXPECT_EQ(completion.status, CompletionStatus::kSuccess) << describe(completion);
    seen.insert(completion.wr_id);
    by_second += completion.qp == second.get() ? 1 : 0;
  }
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_EQ(by_second, 10u);
}

TEST_P(SharedReceiveTest, FullAndTooLong) {
  Pair pair(shared(GetParam(), 3));
  Srq& srq = *pair.b->srq;
  const Sge piece = pair.b->sge(0, 8);
  const RecvWr request{.wr_id = 1, .sges = {&piece, 1}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(srq.post_recv({&request, 1}).error, 0);
  }
  EXPECT_EQ(srq.post_recv({&request, 1}).error, ENOMEM);
  const std::vector<Sge> many(srq.max_sge() + 1, piece);
  Pair other(shared(GetParam(), 3));
  const RecvWr too_long{.wr_id = 1, .sges = many};
  EXPECT_EQ(other.b->srq->post_recv({&too_long, 1}).error, EINVAL);
  // The QP has no receive queue of its own.
  EXPECT_EQ(pair.b->qp->post_recv({&request, 1}).error, EINVAL);
}

// What completions that nobody polled took from the SRQ goes back to it when their QP is destroyed.
TEST_P(SharedReceiveTest, DestroyedQpGivesItsRequestsBack) {
  Pair pair(shared(GetParam(), 7));
  End &a = *pair.a, &b = *pair.b;
  b.post_receives(0, 7);
  const Sge from = a.sge(0, 8);
  for (std::uint64_t n = 0; n < 5; ++n) {
    a.post(Pair::send(n, {&from, 1}));
  }
  a.wait_sends(5);  // the receiver has its completions by then
  EXPECT_EQ(b.srq->post_recv(std::array{RecvWr{}}).error, ENOMEM);
  must(b.qp.destroy());
  b.expect_quiet();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(b.srq->post_recv(std::array{RecvWr{}}).error, 0) << i;
  }
  EXPECT_EQ(b.srq->post_recv(std::array{RecvWr{}}).error, ENOMEM);
}

TEST_P(SharedReceiveTest, LimitEvent) {
  Pair pair(shared(GetParam(), 15));
  End &a = *pair.a, &b = *pair.b;
  b.post_receives(0, 6);
  must(b.srq->set_limit(4));
  EXPECT_EQ(must(b.srq->query()).limit, 4u);
  const Sge from = a.sge(0, 8);
  for (std::uint64_t n = 0; n < 2; ++n) {
    a.post(Pair::send(n, {&from, 1}));
  }
  b.wait_receives(2);
  EXPECT_FALSE(must(pair.context_b().next_async_event(std::chrono::milliseconds(20))));  // four are left: not fewer
  a.post(Pair::send(2, {&from, 1}));
  b.wait_receives(1);
  const auto event = must(pair.context_b().next_async_event(kLimit));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, static_cast<std::uint32_t>(IBV_EVENT_SRQ_LIMIT_REACHED));
  EXPECT_EQ(event->srq, b.srq.get());
  EXPECT_EQ(event->text, fmt::format("limit reached on SRQ {:#x}", b.srq->srqn()));
  EXPECT_EQ(must(b.srq->query()).limit, 0u);  // an event disarms it
  EXPECT_EQ(b.srq->set_limit(1000).error().errno_value, EINVAL);
  // The kernel counts what it gave out.
  must(b.qp.destroy());
  EventsReported reported;
  must(b.srq.destroy(reported));
  EXPECT_EQ(reported.asynchronous, 1u);
}

TEST_P(SharedReceiveTest, IsNotDestroyedWhileAQpTakesFromIt) {
  Pair pair(shared(GetParam(), 3));
  End& b = *pair.b;
  const auto refused = b.srq.destroy();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EBUSY);
  EXPECT_EQ(refused.error().what, fmt::format("SRQ {:#x} is still used by QP {:#x}", b.srq->srqn(), b.qp->qpn()));
  must(b.qp.destroy());
  EXPECT_EQ(b.pd.destroy().error().errno_value, EBUSY);
  must(b.srq.destroy());
}

// A sender of one connection reaches every SRQ of the domain.
TEST(Xrc, SendsToSharedReceiveQueuesOfTheDomain) {
  Machine machine;
  Context& context = machine.context();
  End end(context);
  auto xrcd = must(context.open_xrcd(-1, 0));
  std::vector<Owned<Srq>> srqs;
  for (int i = 0; i < 2; ++i) {
    srqs.push_back(must(end.pd->create_srq(
        {.type = SrqType::kXrc, .max_wr = 7, .max_sge = 1, .xrcd = xrcd.get(), .cq = end.recv_cq.get()})));
  }
  auto target = must(xrcd->create_qp({.type = QpType::kXrcRecv}));
  auto sender = must(end.pd->create_qp(
      {.type = QpType::kXrcSend, .send_cq = end.send_cq.get(), .capacity = {.max_send_wr = 8, .max_send_sge = 1}}));
  const Gid gid = end.address(0).gid;
  must(target->connect({.gid = gid, .qpn = sender->qpn(), .psn = 1}, 2, {.remote_access = kAllAccess}, end.options.rtr,
                       end.options.rts));
  must(sender->connect({.gid = gid, .qpn = target->qpn(), .psn = 2}, 1, {}, end.options.rtr, end.options.rts));
  for (std::size_t i = 0; i < srqs.size(); ++i) {
    const Sge to = end.sge(kTo + i * 4096, 4096);
    EXPECT_EQ(srqs[i]->post_recv(std::array{RecvWr{.wr_id = 70 + i, .sges = {&to, 1}}}).error, 0);
  }
  for (std::size_t i = srqs.size(); i-- > 0;) {
    end.fill(0, 100, static_cast<std::uint8_t>(i));
    const Sge from = end.sge(0, 100);
    SendWr request = Pair::send(i, {&from, 1});
    request.remote_srqn = srqs[i]->srqn();
    ASSERT_EQ(sender->post_send({&request, 1}).error, 0);
    EXPECT_EQ(text(end.wait_sends(1)), fmt::format("{} ok", i));
    const Completion received = end.wait_receives(1).at(0);
    ASSERT_EQ(received.status, CompletionStatus::kSuccess) << describe(received);
    EXPECT_EQ(received.wr_id, 70 + i);
    EXPECT_EQ(received.srq, srqs[i].get());
    EXPECT_EQ(received.byte_count, 100u);
    EXPECT_TRUE(std::equal(end.at(0), end.at(100), end.at(kTo + i * 4096)));
  }
  EXPECT_EQ(xrcd.destroy().error().errno_value, EBUSY);
  EXPECT_EQ(end.recv_cq.destroy().error().errno_value, EBUSY);
  must(sender.destroy());
  must(target.destroy());
  srqs.clear();
  must(xrcd.destroy());
}

}  // namespace
}  // namespace umlx5::testing
