#include "tools/bench/harness.h"

#include <benchmark/benchmark.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

namespace umlx5::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Without userfaultfd the software device looks for doorbells now and then, instead of sleeping with the registers
// protected: held while it sleeps so, it would let the first doorbell wait for ever.
void deny_userfaultfd() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    die("userfaultfd cannot be denied");
  }
}

// Holds every other thread of the process in a signal handler.
class OthersHeld {
 public:
  OthersHeld() {
    struct sigaction action {};
    action.sa_handler = &hold;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    held_.store(0);
    released_.store(0);
    for (const pid_t thread : others()) {
      syscall(SYS_tgkill, ::getpid(), thread, SIGUSR1);
    }
    // A thread that was joined may still be there for a moment; it does not answer.
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (static_cast<std::size_t>(held_.load()) != others().size()) {
      if (Clock::now() > limit) {
        die("the device's thread cannot be held", "no answer within 10 s");
      }
      std::this_thread::yield();
    }
  }
  ~OthersHeld() {
    released_.store(1);
    syscall(SYS_futex, &released_, FUTEX_WAKE_PRIVATE, 1000, nullptr, nullptr, 0);
    while (held_.load() != 0) {
      std::this_thread::yield();
    }
  }
  OthersHeld(const OthersHeld&) = delete;
  OthersHeld& operator=(const OthersHeld&) = delete;

 private:
  static std::vector<pid_t> others() {
    std::vector<pid_t> threads;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      if (const pid_t thread = std::stoi(entry.path().filename().string()); thread != ::gettid()) {
        threads.push_back(thread);
      }
    }
    return threads;
  }
  static void hold(int) {
    const int before = errno;
    held_.fetch_add(1);
    while (released_.load() == 0) {
      syscall(SYS_futex, &released_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
    held_.fetch_sub(1);
    errno = before;
  }
  static inline std::atomic<int> held_{0}, released_{0};
};

// Writes more than any cache holds.
void evict_caches() {
  constexpr std::size_t kBytes = 128 << 20, kLine = 64;
  static std::vector<std::byte> other(kBytes);
  for (std::size_t at = 0; at < kBytes; at += kLine) {
    other[at] ^= std::byte{1};
  }
  benchmark::ClobberMemory();
}

std::chrono::duration<double> time_two_threads(const Case& measured) {
  std::atomic<int> ready{0};
  const auto half = [&] {
    ready.fetch_add(1);
    while (ready.load(std::memory_order_relaxed) != 3) {
    }
    measured.run(measured.operations / 2);
  };
  std::thread first(half), second(half);
  while (ready.load() != 2) {
    std::this_thread::yield();
  }
  const auto begin = Clock::now();
  ready.store(3);
  first.join();
  second.join();
  return Clock::now() - begin;
}

std::chrono::duration<double> time_batch(const Case& measured) {
  measured.prepare();
  const OthersHeld held;
  if (measured.on_two_threads) {
    return time_two_threads(measured);
  }
  if (measured.on_cold_caches) {
    evict_caches();
  }
  const auto begin = Clock::now();
  measured.run(measured.operations);
  return Clock::now() - begin;
}

void measure(benchmark::State& state, const Case& measured) {
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(time_batch(measured).count());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * measured.operations);
}

// Other threads run meanwhile: callgrind is to count threads apart.
void count_instructions(const std::vector<Case>& cases, std::uint32_t operations) {
  for (const Case& counted : cases) {
    if (counted.counts_instructions()) {
      counted.prepare();
      counted.run(kList);  // binds symbols, faults pages in
      CALLGRIND_ZERO_STATS;
      counted.run(operations);
      CALLGRIND_DUMP_STATS_AT(counted.name);
    }
  }
}

}  // namespace

void die(const char* what, const char* why) {
  std::fprintf(stderr, "bench: %s: %s\n", what, why == nullptr ? std::strerror(errno) : why);
  std::exit(1);
}

int run(int argc, char** argv, const std::function<std::vector<Case>()>& make_cases) {
  if (argc == 3 && std::strcmp(argv[1], "--instructions") == 0) {
    count_instructions(make_cases(), static_cast<std::uint32_t>(std::atoi(argv[2])) / kList * kList);
    std::fflush(nullptr);
    std::_Exit(0);  // queue pairs with work in them go with the process
  }
  deny_userfaultfd();
  benchmark::Initialize(&argc, argv);
  const std::vector<Case> cases = make_cases();
  for (const Case& measured : cases) {
    benchmark::RegisterBenchmark(measured.name, measure, measured)->UseManualTime()->Iterations(measured.batches);
  }
  benchmark::RunSpecifiedBenchmarks();
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace umlx5::bench
