// Many threads post to one queue pair and poll its completion queues; the device and the peer's memory tell whether
// every request was done once. UMLX5_TEST_POSTS: posts of each thread, for a long run.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

constexpr std::uint32_t kThreads = 8, kPollers = 2;
constexpr std::size_t kCounterOffset = 0, kLastOffset = 4096, kOwnOffset = 8192, kReceiveOffset = 128 * 1024;

std::uint32_t posts_of_each() {
  const char* const asked = std::getenv("UMLX5_TEST_POSTS");
  return asked != nullptr ? static_cast<std::uint32_t>(std::strtoul(asked, nullptr, 10)) : 2000;
}

std::chrono::steady_clock::time_point deadline() {
  return std::chrono::steady_clock::now() + kLimit + std::chrono::milliseconds(posts_of_each());
}

EndOptions many_threads() {
  return {.capacity = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_bytes = 64},
          .cq_entries = 127,
          .many_threads = true};
}

// Now and then a thread stops where it is.
class Pauses {
 public:
  explicit Pauses(std::uint32_t seed) : random_(seed) {}
  void maybe() {
    if (random_() % 64 == 0) {
      ::sched_yield();
    }
  }

 private:
  std::minstd_rand random_;
};

// How often each request completed.
class Tally {
 public:
  explicit Tally(std::size_t requests) : times_(requests) {}
  void count(const Completion& completion) {
    if (completion.status != CompletionStatus::kSuccess || completion.wr_id >= times_.size()) {
      ADD_FAILURE() << describe(completion);
      failed_ = true;
      return;
    }
    times_[completion.wr_id].fetch_add(1, std::memory_order_relaxed);
    completed_.fetch_add(1, std::memory_order_relaxed);
  }
  bool done() const { return failed_ || completed_.load(std::memory_order_relaxed) >= times_.size(); }
  void expect_once_each() const {
    for (std::size_t i = 0; i < times_.size(); ++i) {
      ASSERT_EQ(times_[i].load(), 1u) << "request " << i;
    }
  }

 private:
  std::vector<std::atomic<std::uint32_t>> times_;
  std::atomic<std::size_t> completed_{0};
  std::atomic<bool> failed_{false};
};

void poll_until_done(Cq& cq, Tally& tally, std::chrono::steady_clock::time_point limit, std::uint32_t seed) {
  std::array<Completion, 7> completions;
  Pauses pauses(seed);
  while (!tally.done() && std::chrono::steady_clock::now() < limit) {
    const std::size_t count = cq.poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      tally.count(completions[i]);
    }
    pauses.maybe();
    if (count == 0) {
      ::sched_yield();
    }
  }
}

// Posts until it is taken.
template <typename Post>
void insist(Post post, std::chrono::steady_clock::time_point limit) {
  for (;;) {
    const PostResult result = post();
    if (result.error == 0) {
      return;
    }
    if (result.error != ENOMEM || std::chrono::steady_clock::now() > limit) {
      ADD_FAILURE() << "post: errno " << result.error;
      return;
    }
    ::sched_yield();
  }
}

class ManyThreads : public SoftTest {};
INSTANTIATE_TEST_SUITE_P(Soft, ManyThreads, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

// By turns a fetch-and-add of 1 to one counter, an RDMA WRITE by pointer, and one with the data inline, both of the
// thread's own count to a place of its own.
TEST_P(ManyThreads, EveryPostIsDoneOnce) {
  Pair pair(options(many_threads(), many_threads()));
  End& a = *pair.a;
  const std::uint32_t posts = posts_of_each();
  Tally tally(std::size_t{kThreads} * posts);
  const auto limit = deadline();
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Pauses pauses(thread + 1);
      for (std::uint32_t i = 0; i < posts && !tally.done(); ++i) {
        const std::uint64_t wr_id = std::uint64_t{thread} * posts + i;
        const std::size_t own = kOwnOffset + (std::size_t{thread} * 1024 + i % 1024) * 8;
        const Sge sge = a.sge(own, 8);
        SendWr request;
        if (i % 3 == 0) {
          request = pair.fetch_add(wr_id, {&sge, 1}, kCounterOffset, 1);
        } else {
          const std::uint64_t value = i;
          std::memcpy(a.at(own), &value, sizeof value);
          request = pair.write(wr_id, {&sge, 1}, kLastOffset + thread * 8);
          request.flags = i % 3 == 1 ? request.flags : request.flags | SendFlag::kInline;
        }
        insist([&] { return a.qp->post_send({&request, 1}); }, limit);
        pauses.maybe();
      }
    });
  }
  for (std::uint32_t poller = 0; poller < kPollers; ++poller) {
    threads.emplace_back([&, poller] { poll_until_done(*a.send_cq, tally, limit, 100 + poller); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  tally.expect_once_each();
  std::uint64_t added = 0;
  std::memcpy(&added, pair.b->at(kCounterOffset), sizeof added);
  EXPECT_EQ(added, std::uint64_t{kThreads} * ((posts + 2) / 3));
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    std::uint64_t last = 0;
    std::memcpy(&last, pair.b->at(kLastOffset + thread * 8), sizeof last);
    const std::uint32_t end = posts - 1;
    EXPECT_EQ(last, end % 3 == 0 ? end - 1 : end) << "thread " << thread;
  }
  EXPECT_EQ(a.qp->send_queue().outstanding_requests(), 0u);
}

TEST_P(ManyThreads, EveryReceiveIsTakenOnce) {
  Pair pair(options(many_threads(), many_threads()));
  const std::uint32_t posts = posts_of_each() / 2;
  Tally received(std::size_t{kThreads} * posts), sent(std::size_t{kThreads} * posts);
  const auto limit = deadline();
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Pauses pauses(thread + 1);
      for (std::uint32_t i = 0; i < posts && !received.done() && !sent.done(); ++i) {
        const std::uint64_t wr_id = std::uint64_t{thread} * posts + i;
        const Sge to = pair.b->sge(kReceiveOffset, 64), from = pair.a->sge(kOwnOffset, 64);
        const RecvWr receive{.wr_id = wr_id, .sges = {&to, 1}};
        insist([&] { return pair.b->qp->post_recv({&receive, 1}); }, limit);
        pauses.maybe();
        const SendWr send = Pair::send(wr_id, {&from, 1});
        insist([&] { return pair.a->qp->post_send({&send, 1}); }, limit);
      }
    });
  }
  for (std::uint32_t poller = 0; poller < kPollers; ++poller) {
    threads.emplace_back([&, poller] { poll_until_done(*pair.a->send_cq, sent, limit, 100 + poller); });
    threads.emplace_back([&, poller] { poll_until_done(*pair.b->recv_cq, received, limit, 200 + poller); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  sent.expect_once_each();
  received.expect_once_each();
}

// Lists, whose completions come compressed, taken by several pollers.
TEST_P(ManyThreads, CompressedCompletionsAreTakenOnce) {
  EndOptions compressed = many_threads();
  compressed.compression = 1;
  Pair pair(options(compressed, compressed));
  End& a = *pair.a;
  const std::uint32_t posts = posts_of_each();
  Tally tally(posts);
  const auto limit = deadline();
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    const Sge sge = a.sge(kOwnOffset, 64);
    std::minstd_rand random(1);
    for (std::uint32_t next = 0; next != posts && !tally.done();) {
      std::vector<SendWr> list;
      const auto count = std::min(posts - next, static_cast<std::uint32_t>(1 + random() % 24));
      for (std::uint32_t i = 0; i < count; ++i) {
        list.push_back(pair.write(next + i, {&sge, 1}, kLastOffset));
      }
      insist(
          [&] {
            const PostResult result = a.qp->post_send(list);
            list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(result.posted));
            return result;
          },
          limit);
      next += count;
    }
  });
  for (std::uint32_t poller = 0; poller < 4; ++poller) {
    threads.emplace_back([&, poller] { poll_until_done(*a.send_cq, tally, limit, 300 + poller); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  tally.expect_once_each();
  EXPECT_EQ(a.qp->send_queue().outstanding_requests(), 0u);
}

// An error is taken by one poller alone, and what follows it is flushed: all of it is told once.
TEST_P(ManyThreads, ErrorsAreToldOnce) {
  Pair pair(options(many_threads(), many_threads()));
  End& a = *pair.a;
  const Sge sge = a.sge(kOwnOffset, 8);
  SendWr bad = pair.write(0, {&sge, 1}, 0);
  bad.rkey ^= 0x100;
  std::vector<SendWr> requests{bad};
  for (std::uint64_t i = 1; i < 40; ++i) {
    requests.push_back(pair.write(i, {&sge, 1}, 0));
  }
  ASSERT_EQ(a.qp->post_send(requests).posted, 40u);
  std::vector<std::atomic<std::uint32_t>> times(40);
  std::atomic<std::uint32_t> total{0};
  const auto limit = deadline();
  std::vector<std::thread> threads;
  for (std::uint32_t poller = 0; poller < 4; ++poller) {
    threads.emplace_back([&] {
      std::array<Completion, 3> completions;
      while (total.load() < 40 && std::chrono::steady_clock::now() < limit) {
        const std::size_t count = a.send_cq->poll(completions);
        for (std::size_t i = 0; i < count; ++i) {
          const auto expected = completions[i].wr_id == 0 ? CompletionStatus::kRemoteAccess
                                                          : CompletionStatus::kWorkRequestFlushed;
          EXPECT_EQ(completions[i].status, expected);
          ++times[completions[i].wr_id];
          ++total;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].load(), 1u) << "request " << i;
  }
}

// A full queue has reserved nothing; what changes keys in steps is refused in words.
TEST(ManyThreadsRefusal, FullAndUnsupported) {
  Pair pair({.topology = Topology::kLoopback, .a = many_threads()});
  End& a = *pair.a;
  const std::uint32_t room = a.qp->capacity().max_send_wr;
  const Sge sge = a.sge(kOwnOffset, 8);
  std::vector<SendWr> requests(room + 1, pair.write(1, {&sge, 1}, 0));
  const PostResult result = a.qp->post_send(requests);
  EXPECT_GE(result.posted, std::size_t{room});
  EXPECT_EQ(a.qp->copy_memory({}, {}, 1).error().errno_value, EOPNOTSUPP);
  std::size_t completed = 0;
  const auto limit = deadline();
  std::array<Completion, 16> completions;
  while (completed < result.posted && std::chrono::steady_clock::now() < limit) {
    completed += a.send_cq->poll(completions);
  }
  EXPECT_EQ(completed, result.posted);
}

}  // namespace
}  // namespace umlx5::testing
