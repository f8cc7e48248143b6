// Forks in the middle of RC traffic and prints what parent and child get. Linked with Debian's libraries; fork_test.py
// runs it with those and with ours, with and without ibv_fork_init(), and kills one that runs on.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "tests/driver/verbs/loop.h"

namespace {

using namespace umlx5::probe;

constexpr std::size_t kBytes = 4096;

// One message from the first half of the memory to the second; whether it arrived whole.
bool transfer(const Loop& loop, char* memory, char value) {
  std::memset(memory, value, kBytes);
  return loop.send(memory, kBytes, memory + kBytes) && std::memcmp(memory, memory + kBytes, kBytes) == 0;
}

// How a child that runs `body` ends, in words.
void child(const char* what, const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) {
    std::printf("%s: signal %d\n", what, WTERMSIG(status));
  } else {
    std::printf("%s: %d\n", what, WEXITSTATUS(status));
  }
}

// 0, or the number of the step that failed. The parent's device serves a child's requests for what lies on it.
int use_device_memory(ibv_context* context) {
  ibv_alloc_dm_attr attr{};
  attr.length = kBytes;
  ibv_dm* const dm = ibv_alloc_dm(context, &attr);
  if (dm == nullptr) {
    return 1;
  }
  char in[64];
  char out[64] = {};
  std::memset(in, 7, sizeof in);
  if (ibv_memcpy_to_dm(dm, 64, in, sizeof in) != 0 || ibv_memcpy_from_dm(out, dm, 64, sizeof out) != 0) {
    return 2;
  }
  if (std::memcmp(in, out, sizeof in) != 0) {
    return 3;
  }
  return ibv_free_dm(dm) == 0 ? 0 : 4;
}

// 0, or the number of the step that failed. A device that a child opens is not its parent's: it has another address.
int use_own_device(ibv_context* parents) {
  static char memory[2 * kBytes];
  Loop loop;
  if (!loop.open() || !loop.register_memory(memory, sizeof memory)) {
    return 1;
  }
  if (!transfer(loop, memory, 9)) {
    return 2;
  }
  ibv_gid own{};
  ibv_gid other{};
  if (ibv_query_gid(loop.context, 1, 0, &own) != 0 || ibv_query_gid(parents, 1, 0, &other) != 0) {
    return 3;
  }
  if (std::memcmp(&own, &other, sizeof own) == 0) {
    return 4;
  }
  return loop.close() ? 0 : 5;
}

void children(const Loop& loop, char* memory) {
  child("poll_cq", [&] {
    ibv_wc wc{};
    return ibv_poll_cq(loop.cq, 1, &wc);
  });
  child("post_recv", [&] {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(loop.qp, &wr, &bad);
  });
  child("post_send", [&] {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(loop.qp, &wr, &bad);
  });
  child("registered memory", [&] { return memory[0]; });
  child("reg_mr", [&] { return ibv_reg_mr(loop.pd, memory, kBytes, 0) == nullptr ? errno : 0; });
  child("device memory", [&] { return use_device_memory(loop.context); });
  child("a device of its own", [&] { return use_own_device(loop.context); });
}

// Traffic until the program is killed, a minute at most.
int run_on() {
  Loop loop;
  static char memory[2 * kBytes];
  if (!loop.open() || !loop.register_memory(memory, sizeof memory)) {
    return 1;
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int i = 0; std::chrono::steady_clock::now() < limit; ++i) {
    if (!transfer(loop, memory, static_cast<char>(i))) {
      return 1;
    }
    if (i == 0) {
      std::printf("running\n");
      std::fflush(stdout);
    }
  }
  return loop.close() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "run") {
    return run_on();
  }
  if (argc > 1 && std::string_view(argv[1]) == "init") {
    std::printf("ibv_fork_init: %d\n", ibv_fork_init());
  }
  std::printf("ibv_is_fork_initialized: %d\n", ibv_is_fork_initialized());
  Loop loop;
  void* const mapped = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const memory = static_cast<char*>(mapped);
  if (!loop.open() || !loop.register_memory(memory, 2 * kBytes)) {
    return 1;
  }
  std::printf("before: %d\n", transfer(loop, memory, 1));
  children(loop, memory);
  std::printf("after: %d\n", transfer(loop, memory, 2));
  // A child that lives on beside the parent's traffic.
  int stop[2];
  if (pipe(stop) != 0) {
    return 1;
  }
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    char byte = 0;
    close(stop[1]);
    _exit(read(stop[0], &byte, 1) == 0 ? 0 : 1);
  }
  int good = 0;
  for (char value = 3; value < 103; ++value) {
    good += transfer(loop, memory, value) ? 1 : 0;
  }
  std::printf("beside a child: %d of 100\n", good);
  close(stop[1]);
  int status = 0;
  waitpid(pid, &status, 0);
  std::printf("the child: %d\n", status);
  std::printf("ibv_fork_init, late: %d\n", ibv_fork_init());
  return loop.close() ? 0 : 1;
}
