// Life and death: objects destroyed in the wrong order or left behind, threads, and a peer that is killed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

void expect_busy(const Expected<void>& result, const std::string& words) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().errno_value, EBUSY);
  EXPECT_NE(result.error().message().find(words), std::string::npos) << result.error().message();
}

TEST(Life, WrongOrderIsRefusedAndNamesTheUser) {
  EndOptions options;
  options.events = true;
  Pair pair({.a = options, .b = options});
  End& a = *pair.a;
  const std::string qp = fmt::format("still used by QP {:#x}", a.qp->qpn());
  expect_busy(a.pd.destroy(), qp);
  expect_busy(a.send_cq.destroy(), qp);
  expect_busy(a.recv_cq.destroy(), qp);
  expect_busy(a.send_channel.destroy(), fmt::format("still used by CQ {:#x}", a.send_cq->cqn()));
  // All of it still works.
  const Sge from = a.sge(0, 8);
  a.post(pair.write(1, {&from, 1}, 0));
  EXPECT_EQ(text(a.wait_sends(1)), "1 ok");

  must(a.qp.destroy());
  expect_busy(a.pd.destroy(), fmt::format("still used by MR with lkey {:#x}", a.region->lkey()));
  must(a.region.destroy());
  must(a.pd.destroy());
  must(a.send_cq.destroy());
  must(a.send_channel.destroy());
  must(a.send_channel.destroy());  // nothing left to do
  must(a.recv_cq.destroy());
}

TEST(Life, WhatIsLeftIsClosedWithTheContext) {
  Machine machine;
  for (int round = 0; round < 3; ++round) {
    softhca::SoftDeviceSource source(1);
    uapi::DeviceSource* const sources[] = {&source};
    auto context = must(open_device(sources, ""));
    std::vector<std::byte> memory(8192);
    // In the wrong order, so that each owner's destructor is refused and leaves its object to the context.
    {
      auto pd = must(context->alloc_pd());
      auto channel = must(context->create_completion_channel());
      auto cq = must(context->create_cq({.entries = 10, .channel = channel.get()}));
      auto region = must(pd->register_memory(memory, kAllAccess));
      auto qp = must(pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get(), .capacity = {.max_send_wr = 4}}));
      const auto drop = [](auto owner) { static_cast<void>(owner); };
      drop(std::move(pd));
      drop(std::move(channel));
      drop(std::move(cq));
      // Moved to where they are never destroyed.
      alignas(Owned<MemoryRegion>) std::byte kept_region[sizeof(Owned<MemoryRegion>)];
      alignas(Owned<Qp>) std::byte kept_qp[sizeof(Owned<Qp>)];
      new (kept_region) Owned<MemoryRegion>(std::move(region));
      new (kept_qp) Owned<Qp>(std::move(qp));
    }
  }
}

TEST(Life, ContextClosesWithTrafficUnderWay) {
  for (int round = 0; round < 10; ++round) {
    Pair pair;
    const Sge from = pair.a->sge(0, 64 * 1024);
    for (std::uint64_t n = 0; n < 30; ++n) {
      SendWr request = pair.write(n, {&from, 1}, 0);
      if (n % 2 != 0) {
        request.opcode = SendOpcode::kRdmaRead;
      }
      pair.a->post(request);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    if (round % 2 == 0) {  // the peer first, under fire
      pair.b.reset();
      pair.machine_b->close();
    }
  }
}

TEST(Life, QpIsDestroyedWithTrafficUnderWay) {
  Pair pair;
  for (int round = 0; round < 20; ++round) {
    const Sge from = pair.a->sge(0, 64 * 1024);
    for (std::uint64_t n = 0; n < 10; ++n) {
      pair.a->post(pair.write(n, {&from, 1}, 0));
    }
    must(pair.a->qp.destroy());
    pair.a->expect_quiet();
    pair.a->qp = must(pair.a->pd->create_qp(
        {.send_cq = pair.a->send_cq.get(), .recv_cq = pair.a->recv_cq.get(), .capacity = pair.a->options.capacity}));
    must(pair.b->qp->to_reset());
    const QpAddress address_a = pair.a->address(1), address_b = pair.b->address(2);
    pair.b->connect(address_a, 2);
    pair.a->connect(address_b, 1);
    pair.a->post(pair.write(99, {&from, 1}, 0));
    ASSERT_EQ(text(pair.a->wait_sends(1)), "99 ok");
  }
}

// ---- Threads ----

// One posts, one polls, nothing between them but the queue.
void post_all(Pair& pair, End& end, std::uint64_t requests, std::atomic<bool>& failed) {
  for (std::uint64_t n = 0; n < requests && !failed;) {
    const Sge from = end.sge(n % 1024 * 8, 8);
    SendWr request = pair.write(n, {&from, 1}, 64 * 1024 + n % 1024 * 8);
    request.flags = n % 8 == 7 ? SendFlags(SendFlag::kSignaled) : SendFlags();
    const PostResult result = end.qp->post_send({&request, 1});
    if (result.error == 0) {
      ++n;
    } else if (result.error == ENOMEM) {
      std::this_thread::yield();
    } else {
      failed = true;
    }
  }
}

void poll_all(End& end, std::uint64_t requests, std::atomic<bool>& failed) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  std::array<Completion, 16> completions;
  for (std::uint64_t next = 7; next < requests && !failed;) {
    const std::size_t count = end.send_cq->poll(completions);
    for (std::size_t i = 0; i < count; ++i, next += 8) {
      if (completions[i].status != CompletionStatus::kSuccess || completions[i].wr_id != next) {
        ADD_FAILURE() << describe(completions[i]) << ", " << next << " was next";
        failed = true;
      }
    }
    if (count == 0) {
      end.context.relax();
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "time is up before " << next;
        failed = true;
      }
    }
  }
}

class LifeTest : public SoftTest {};
INSTANTIATE_TEST_SUITE_P(Soft, LifeTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

TEST_P(LifeTest, OneThreadPostsAnotherPolls) {
  Pair pair(options());
  std::atomic<bool> failed = false;
  pair.a->fill(0, 8192, 1);
  std::thread posts([&] { post_all(pair, *pair.a, 8000, failed); });
  poll_all(*pair.a, 8000, failed);
  posts.join();
  EXPECT_FALSE(failed);
  EXPECT_TRUE(std::equal(pair.a->at(0), pair.a->at(8192), pair.b->at(64 * 1024)));
}

TEST_P(LifeTest, TwoQpsInTwoThreadsOnOneDevice) {
  Pair pair(options());
  End c(pair.machine_a.context()), d(pair.context_b());
  const QpAddress address_c = c.address(3), address_d = d.address(4);
  c.connect(address_d, 3);
  d.connect(address_c, 4);
  std::atomic<bool> failed = false;
  pair.a->fill(0, 8192, 1);
  c.fill(0, 8192, 2);
  const auto run = [&](End& end, End& peer) {
    std::array<Completion, 4> completions;
    for (std::uint64_t n = 0; n < 1000 && !failed; ++n) {
      const Sge from = end.sge(n % 1024 * 8, 8);
      const SendWr request{.wr_id = n,
                           .opcode = SendOpcode::kRdmaWrite,
                           .flags = SendFlag::kSignaled,
                           .sges = {&from, 1},
                           .remote_address = peer.address_of(64 * 1024 + n % 1024 * 8),
                           .rkey = peer.region->rkey()};
      end.post(request);
      if (text(end.wait_sends(1)) != std::to_string(n) + " ok") {
        failed = true;
      }
    }
  };
  std::thread other([&] { run(c, d); });
  run(*pair.a, *pair.b);
  other.join();
  EXPECT_FALSE(failed);
  EXPECT_TRUE(std::equal(pair.a->at(0), pair.a->at(8000), pair.b->at(64 * 1024)));
  EXPECT_TRUE(std::equal(c.at(0), c.at(8000), d.at(64 * 1024)));
}

TEST(Life, ThreadsCreateAndDestroyOnOneContext) {
  Machine machine;
  const auto churn = [&] {
    for (int round = 0; round < 20; ++round) {
      End end(machine.context());
    }
  };
  std::thread other(churn);
  churn();
  other.join();
}

// ---- A process that dies ----

struct Peer {
  QpAddress address;
  std::uint64_t memory = 0;
  std::uint32_t rkey = 0;
};

bool exchange(int socket, const Peer& mine, Peer& theirs) {
  return ::write(socket, &mine, sizeof mine) == sizeof mine && ::read(socket, &theirs, sizeof theirs) == sizeof theirs;
}

Peer self(const End& end, std::uint32_t psn) {
  return {.address = end.address(psn), .memory = end.address_of(0), .rkey = end.region->rkey()};
}

SendWr write_to(const Peer& peer, std::uint64_t wr_id, std::span<const Sge> sges) {
  return {.wr_id = wr_id,
          .opcode = SendOpcode::kRdmaWrite,
          .flags = SendFlag::kSignaled,
          .sges = sges,
          .remote_address = peer.memory,
          .rkey = peer.rkey};
}

softhca::wire::EndpointOptions own_address() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return {.address = softhca::wire::Ipv4{127u << 24 | 78u << 16 | pid / 250 % 250 << 8 | (pid % 250 + 1)}};
}

// Connects to the other end of `socket` and writes to it until killed.
[[noreturn]] void be_killed(int socket, const softhca::wire::EndpointOptions& endpoint) {
  Machine machine(endpoint);
  End end(machine.context());
  Peer peer;
  if (!exchange(socket, self(end, 10), peer)) {
    ::_exit(1);
  }
  end.connect(peer.address, 10);
  const char ready = 1;
  if (::write(socket, &ready, 1) != 1) {
    ::_exit(1);
  }
  const Sge from = end.sge(0, 8192);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  for (std::uint64_t n = 0; std::chrono::steady_clock::now() < deadline; ++n) {
    end.post(write_to(peer, n, {&from, 1}));
    end.wait_sends(1);
  }
  ::_exit(2);
}

// The child is made while this process has one thread: no device is open yet.
void kill_a_peer() {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const auto endpoint = own_address();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(sockets[0]);
    be_killed(sockets[1], endpoint);
  }
  ::close(sockets[1]);
  Machine machine;
  End end(machine.context());
  Peer peer;
  char ready = 0;
  ASSERT_TRUE(exchange(sockets[0], self(end, 20), peer));
  end.connect(peer.address, 20);
  ASSERT_EQ(::read(sockets[0], &ready, 1), 1);
  const Sge from = end.sge(16 * 1024, 8192);
  const auto start = std::chrono::steady_clock::now();
  const auto deadline = start + kLimit;
  bool killed = false;
  Completion last;
  for (std::uint64_t n = 0; last.status == CompletionStatus::kSuccess; ++n) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    if (!killed && std::chrono::steady_clock::now() - start > std::chrono::milliseconds(30) && n > 10) {
      ASSERT_EQ(::kill(child, SIGKILL), 0);
      killed = true;
    }
    end.post(write_to(peer, n, {&from, 1}));
    last = end.wait_sends(1).at(0);
  }
  EXPECT_TRUE(killed);
  EXPECT_EQ(last.status, CompletionStatus::kTransportRetryExceeded) << describe(last);
  EXPECT_EQ(end.state(), QpState::kErr);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  ::close(sockets[0]);
}

// The second peer has the address of the first: nothing of that is left.
TEST(Life, KilledProcessLeavesNothingBehind) {
  kill_a_peer();
  kill_a_peer();
}

}  // namespace
}  // namespace umlx5::testing
