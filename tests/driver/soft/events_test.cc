// Completion channels and asynchronous events of real traffic.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <thread>

#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

using std::chrono::milliseconds;

class EventsTest : public SoftTest {
 protected:
  PairOptions with_events() const {
    EndOptions end;
    end.events = true;
    return options(end, end);
  }
};

INSTANTIATE_TEST_SUITE_P(Soft, EventsTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

bool comes(CompletionChannel& channel, Cq& cq, milliseconds within) {
  const auto event = channel.wait(within);
  EXPECT_TRUE(event) << event.error().message();
  if (!event || !*event) {
    return false;
  }
  EXPECT_EQ(**event, &cq);
  return true;
}

// Nobody polls or relaxes: the devices' own threads do all the work.
TEST_P(EventsTest, WaitingInsteadOfPolling) {
  Pair pair(with_events());
  End &a = *pair.a, &b = *pair.b;
  std::array<Completion, 4> completions;
  for (std::uint64_t n = 0; n < 200; ++n) {
    b.post_receives(n, 1);
    b.recv_cq->arm();
    a.send_cq->arm();
    *a.at(0) = static_cast<std::byte>(n);
    const Sge from = a.sge(0, 1);
    a.post(Pair::send(n, {&from, 1}));
    ASSERT_TRUE(comes(*b.recv_channel, *b.recv_cq, kLimit)) << n;
    ASSERT_EQ(b.recv_cq->poll(completions), 1u);
    EXPECT_EQ(completions[0].wr_id, n);
    EXPECT_EQ(*b.at(128 * 1024), static_cast<std::byte>(n));
    ASSERT_TRUE(comes(*a.send_channel, *a.send_cq, kLimit)) << n;
    ASSERT_EQ(a.send_cq->poll(completions), 1u);
    EXPECT_EQ(completions[0].wr_id, n);
  }
  EXPECT_FALSE(comes(*a.send_channel, *a.send_cq, milliseconds(0)));
  EXPECT_FALSE(comes(*b.recv_channel, *b.recv_cq, milliseconds(0)));
}

TEST_P(EventsTest, OneEventForEachTimeItIsArmed) {
  Pair pair(with_events());
  End &a = *pair.a, &b = *pair.b;
  b.post_receives(0, 6);
  const Sge from = a.sge(0, 8);
  b.recv_cq->arm();
  for (std::uint64_t n = 0; n < 3; ++n) {
    a.post(Pair::send(n, {&from, 1}));
  }
  a.wait_sends(3);
  EXPECT_TRUE(comes(*b.recv_channel, *b.recv_cq, kLimit));
  EXPECT_FALSE(comes(*b.recv_channel, *b.recv_cq, milliseconds(20)));
  EXPECT_EQ(text(b.wait_receives(3)), "0 ok, 1 ok, 2 ok");
  // Not armed, no event.
  a.post(Pair::send(3, {&from, 1}));
  EXPECT_EQ(text(b.wait_receives(1)), "3 ok");
  EXPECT_FALSE(comes(*b.recv_channel, *b.recv_cq, milliseconds(20)));
  // Armed twice is armed once.
  b.recv_cq->arm();
  b.recv_cq->arm();
  a.post(Pair::send(4, {&from, 1}));
  EXPECT_TRUE(comes(*b.recv_channel, *b.recv_cq, kLimit));
  EXPECT_FALSE(comes(*b.recv_channel, *b.recv_cq, milliseconds(20)));
}

TEST_P(EventsTest, SolicitedOnly) {
  Pair pair(with_events());
  End &a = *pair.a, &b = *pair.b;
  const Sge from = a.sge(0, 8);
  const auto send = [&](std::uint64_t n, SendOpcode opcode, bool solicited) {
    SendWr request = pair.write(n, {&from, 1}, 0);
    request.opcode = opcode;
    request.flags = solicited ? SendFlag::kSignaled | SendFlag::kSolicited : SendFlags(SendFlag::kSignaled);
    b.post_receives(n, 1);
    a.post(request);
    EXPECT_EQ(a.wait_sends(1).at(0).status, CompletionStatus::kSuccess);
  };
  std::uint64_t n = 0;
  for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kSendWithImm, SendOpcode::kRdmaWriteWithImm}) {
    SCOPED_TRACE(to_string(opcode));
    b.recv_cq->arm(Arm::kSolicited);
    send(n++, opcode, false);
    send(n++, opcode, false);
    EXPECT_FALSE(comes(*b.recv_channel, *b.recv_cq, milliseconds(20)));
    send(n++, opcode, true);
    EXPECT_TRUE(comes(*b.recv_channel, *b.recv_cq, kLimit));
    b.wait_receives(3);
  }
  // An error is always worth an event.
  b.post_receives(n, 1);
  b.recv_cq->arm(Arm::kSolicited);
  must(b.qp->to_error());
  EXPECT_TRUE(comes(*b.recv_channel, *b.recv_cq, kLimit));
  EXPECT_EQ(text(b.wait_receives(1)), fmt::format("{} 05/f9", n));
}

TEST_P(EventsTest, DescriptorIsReadableWhenAnEventWaits) {
  Pair pair(with_events());
  End& a = *pair.a;
  pollfd channel{.fd = a.send_channel->fd(), .events = POLLIN, .revents = 0};
  a.send_cq->arm();
  EXPECT_EQ(::poll(&channel, 1, 0), 0);
  const Sge from = a.sge(0, 8);
  a.post(pair.write(1, {&from, 1}, 0));
  EXPECT_EQ(::poll(&channel, 1, 60'000), 1);
  EXPECT_TRUE(comes(*a.send_channel, *a.send_cq, milliseconds(0)));
  EXPECT_EQ(::poll(&channel, 1, 0), 0);
}

TEST_P(EventsTest, AThreadIsWoken) {
  Pair pair(with_events());
  End& a = *pair.a;
  a.send_cq->arm();
  bool woken = false;
  std::thread waits([&] { woken = comes(*a.send_channel, *a.send_cq, kLimit); });
  std::this_thread::sleep_for(milliseconds(20));
  const Sge from = a.sge(0, 8);
  a.post(pair.write(1, {&from, 1}, 0));
  waits.join();
  EXPECT_TRUE(woken);
}

// ---- Asynchronous events ----

AsyncEvent next(Context& context) {
  const auto event = context.next_async_event(kLimit);
  EXPECT_TRUE(event) << event.error().message();
  EXPECT_TRUE(event && *event);
  return event && *event ? **event : AsyncEvent{};
}

TEST_P(EventsTest, RefusedRequestIsTold) {
  Pair pair(options());
  pollfd waits{.fd = pair.context_b().async_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waits, 1, 0), 0);
  const Sge from = pair.a->sge(0, 8);
  SendWr request = pair.write(1, {&from, 1}, 0);
  request.rkey ^= 0xff00;
  pair.a->post(request);
  EXPECT_EQ(::poll(&waits, 1, 60'000), 1);
  const AsyncEvent event = next(pair.context_b());
  EXPECT_EQ(event.type, static_cast<std::uint32_t>(IBV_EVENT_QP_ACCESS_ERR));
  EXPECT_EQ(event.qp, pair.b->qp.get());
  EXPECT_EQ(event.text,
            fmt::format("QP access error (the other side may not do what it asked) on QP {:#x}", pair.b->qp->qpn()));
}

TEST_P(EventsTest, FirstPacketInRtrEstablishesCommunication) {
  Pair pair(options());
  must(pair.b->qp->to_reset());
  must(pair.a->qp->to_reset());
  ReadyToReceiveAttributes rtr = pair.b->options.rtr;
  rtr.remote.gid = pair.a->address(0).gid;
  rtr.remote_qpn = pair.a->qp->qpn();
  rtr.receive_psn = 77;
  must(pair.b->qp->to_init({.remote_access = kAllAccess}));
  must(pair.b->qp->to_rtr(rtr));
  pair.a->connect(pair.b->address(0), 77);
  const Sge from = pair.a->sge(0, 8);
  pair.a->post(pair.write(1, {&from, 1}, 0));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
  const AsyncEvent event = next(pair.context_b());
  EXPECT_EQ(event.type, static_cast<std::uint32_t>(IBV_EVENT_COMM_EST));
  EXPECT_EQ(event.text, fmt::format("communication established on QP {:#x}", pair.b->qp->qpn()));
}

// A CQ that is not polled in time overruns: it is lost, and so is its QP.
TEST_P(EventsTest, CqOverrun) {
  EndOptions a;
  a.cq_entries = 7;
  Pair pair(options(a));
  const Sge from = pair.a->sge(0, 8);
  for (std::uint64_t n = 0; n < 16; ++n) {
    pair.a->post(pair.write(n, {&from, 1}, 0));
  }
  const AsyncEvent event = next(pair.machine_a.context());
  EXPECT_EQ(event.type, static_cast<std::uint32_t>(IBV_EVENT_CQ_ERR));
  EXPECT_EQ(event.cq, pair.a->send_cq.get());
  EXPECT_EQ(event.text,
            fmt::format("CQ error (overrun, or its memory cannot be written) on CQ {:#x}", pair.a->send_cq->cqn()));
  EXPECT_EQ(pair.a->state(), QpState::kErr);
}

TEST(EventsSoft, NoEventAndNoTime) {
  Pair pair;
  const auto event = pair.machine_a.context().next_async_event(milliseconds(0));
  ASSERT_TRUE(event);
  EXPECT_FALSE(*event);
}

}  // namespace
}  // namespace umlx5::testing
