// Random RC traffic between two processes, every byte checked on the side where it lands.
//
// The initiator posts messages of random operation, size and SGE split; both sides derive message n from the seed
// alone, so the target knows what must have arrived. RDMA WRITEs are checked by the target when the next message that
// consumes a receive arrives, since RC places in order. The target tells how far it has checked by an RDMA WRITE of its
// own into the initiator's memory, which is also the flow control of the slots.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "tools/softhca/source.h"

namespace {

using namespace umlx5;  // NOLINT: a program
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kSlots = 64;
constexpr std::uint32_t kMaxBytes = 64 * 1024;
constexpr std::uint32_t kSlotBytes = kMaxBytes + 64;
constexpr std::uint32_t kMaxSge = 8;
constexpr std::uint32_t kAtomics = 16;
constexpr std::uint32_t kConsumingEvery = 8;  // at least one message in so many consumes a receive
constexpr std::uint64_t kStaticSeed = 0x5eed;

struct Options {
  std::uint64_t messages = 20000;
  std::uint64_t seed = 1;
  std::string faults;
  std::string pcap;
  unsigned timeout_seconds = 300;
  std::uint32_t max_bytes = kMaxBytes;
  bool progress = false;
};

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Pattern byte k of stream s is byte k % 8 of word_of(s, k / 8).
std::uint64_t word_of(std::uint64_t stream, std::uint64_t index) { return mix(stream ^ (index * 0xd6e8feb86659fd93)); }

void fill(std::byte* to, std::size_t bytes, std::uint64_t stream, std::uint64_t first = 0) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint64_t position = first + i;
    if (position % 8 == 0 && i + 8 <= bytes) {
      const std::uint64_t word = word_of(stream, position / 8);
      std::memcpy(to + i, &word, 8);
      i += 7;
    } else {
      to[i] = static_cast<std::byte>(word_of(stream, position / 8) >> (position % 8 * 8));
    }
  }
}

// Offset of the first wrong byte, or bytes if all are right.
std::size_t first_wrong(const std::byte* data, std::size_t bytes, std::uint64_t stream, std::uint64_t first = 0) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint64_t position = first + i;
    const std::uint64_t word = word_of(stream, position / 8);
    if (position % 8 == 0 && i + 8 <= bytes && std::memcmp(data + i, &word, 8) == 0) {
      i += 7;
    } else if (data[i] != static_cast<std::byte>(word >> (position % 8 * 8))) {
      return i;
    }
  }
  return bytes;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix(state_++); }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((next() >> 32) * bound >> 32); }

 private:
  std::uint64_t state_;
};

enum class Op { kSend, kSendImm, kWrite, kWriteImm, kRead, kCompareSwap, kFetchAdd };

// Message n, the same on both sides.
struct Message {
  Op op;
  std::uint32_t bytes;
  std::uint32_t offset;  // READ: where in the target's static region; atomics: which word
  std::uint64_t stream;  // payload pattern
  std::uint32_t immediate;
  bool is_inline, fence, solicited, signaled, match;
  bool consumes() const { return op == Op::kSend || op == Op::kSendImm || op == Op::kWriteImm; }
  bool writes() const { return op == Op::kWrite || op == Op::kWriteImm; }
};

Message message(const Options& options, std::uint64_t n) {
  Random random(mix(options.seed) ^ mix(n * 2 + 1));
  Message m{};
  if (n % kConsumingEvery == kConsumingEvery - 1 || n + 1 == options.messages) {
    m.op = std::array{Op::kSend, Op::kSendImm, Op::kWriteImm}[random.below(3)];
  } else {
    m.op = static_cast<Op>(random.below(7));
  }
  switch (random.below(4)) {  // small, around the MTU, anything
    case 0:
      m.bytes = random.below(256);
      break;
    case 1:
      m.bytes = 4096 * (1 + random.below(3)) + random.below(3) - 1;
      break;
    default:
      m.bytes = random.below(options.max_bytes + 1);
      break;
  }
  m.bytes = std::min(m.bytes, options.max_bytes);
  if (m.op == Op::kCompareSwap || m.op == Op::kFetchAdd) {
    m.bytes = 8;
    m.offset = random.below(kAtomics);
  } else {
    m.offset = random.below(kMaxBytes - m.bytes + 1);
  }
  m.stream = random.next();
  m.immediate = static_cast<std::uint32_t>(random.next());
  m.is_inline = random.below(2) == 0;
  m.fence = random.below(16) == 0;
  m.solicited = random.below(4) == 0;
  m.signaled = random.below(4) == 0;
  m.match = random.below(2) == 0;
  return m;
}

std::vector<Sge> split(Random& random, const MemoryRegion& region, std::size_t offset, std::uint32_t bytes,
                       std::uint32_t most) {
  const std::uint32_t pieces = 1 + random.below(most);
  std::vector<std::uint32_t> cuts{0, bytes};
  for (std::uint32_t i = 1; i < pieces; ++i) {
    cuts.push_back(random.below(bytes + 1));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<Sge> sges;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    sges.push_back(region.sge(offset + cuts[i], cuts[i + 1] - cuts[i]));
  }
  return sges;
}

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "rc_stress: {}\n", why);
  std::_Exit(1);
}

template <typename T>
T must(Expected<T> value, std::string_view what) {
  if (!value) {
    die(fmt::format("{}: {}", what, value.error().message()));
  }
  return std::move(*value);
}
void must(Expected<void> value, std::string_view what) {
  if (!value) {
    die(fmt::format("{}: {}", what, value.error().message()));
  }
}

struct Hello {
  QpAddress address;
  std::uint64_t slots = 0, statics = 0, atomics = 0, progress = 0;
  std::uint32_t rkey = 0;
};

// One process: device, memory, one QP connected to the other process.
struct Side {
  softhca::SoftDeviceSource source;
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<Cq> send_cq, recv_cq;
  Owned<MemoryRegion> region;
  Owned<Qp> qp;
  std::vector<std::byte> memory;
  Hello peer;
  Clock::time_point deadline;

  static constexpr std::size_t kStatics = std::size_t{kSlots} * kSlotBytes;
  static constexpr std::size_t kAtomicWords = kStatics + kMaxBytes;
  static constexpr std::size_t kProgress = kAtomicWords + kAtomics * 8;
  static constexpr std::size_t kBytes = kProgress + 64;

  Side(const Options& options, int socket) : deadline(Clock::now() + std::chrono::seconds(options.timeout_seconds)) {
    uapi::DeviceSource* sources[] = {&source};
    context = must(open_device(sources, ""), "open");
    memory.resize(kBytes + 64);
    auto* base =
        reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) & ~std::uintptr_t{63});
    pd = must(context->alloc_pd(), "PD");
    region = must(pd->register_memory({base, kBytes}, Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                                                          AccessFlags(Access::kRemoteAtomic)),
                  "MR");
    fill(base + kStatics, kMaxBytes, kStaticSeed);
    send_cq = must(context->create_cq({.entries = 512}), "CQ");
    recv_cq = must(context->create_cq({.entries = 512}), "CQ");
    QpOptions qp_options{.send_cq = send_cq.get(), .recv_cq = recv_cq.get()};
    qp_options.capacity = {
        .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = kMaxSge, .max_recv_sge = 4, .max_inline_bytes = 188};
    qp = must(pd->create_qp(qp_options), "QP");
    exchange(socket);
  }

  std::byte* at(std::size_t offset) const { return region->address() + offset; }

  void exchange(int socket) {
    const auto gid = must(context->query_gid(1, 0), "GID");
    Hello mine{.address = {.gid = gid.gid, .qpn = qp->qpn(), .psn = 0xfffff0}};
    const auto base = reinterpret_cast<std::uint64_t>(region->address());
    mine.slots = base;
    mine.statics = base + kStatics;
    mine.atomics = base + kAtomicWords;
    mine.progress = base + kProgress;
    mine.rkey = region->rkey();
    if (::write(socket, &mine, sizeof mine) != sizeof mine || ::read(socket, &peer, sizeof peer) != sizeof peer) {
      die("the other process is gone");
    }
    must(qp->connect(peer.address, mine.address.psn,
                     {.remote_access = Access::kRemoteWrite | Access::kRemoteRead | AccessFlags(Access::kRemoteAtomic)},
                     {.path_mtu = Mtu::k4096, .min_rnr_timer = 1}, {.timeout = 10}),
         "connect");
    char ready = 1;
    if (::write(socket, &ready, 1) != 1 || ::read(socket, &ready, 1) != 1) {
      die("the other process is gone");
    }
  }

  void check_time(std::string_view doing) const {
    if (Clock::now() > deadline) {
      die(fmt::format("time is up while {}", doing));
    }
  }
};

void check_status(const Completion& completion) {
  if (completion.status != CompletionStatus::kSuccess) {
    die(describe(completion));
  }
}

// Both stay until both are done: the other side's last packets may need an answer again.
int say_goodbye(int socket) {
  char done = 1;
  return ::write(socket, &done, 1) == 1 && ::read(socket, &done, 1) == 1 ? 0 : 1;
}

int run_initiator(const Options& options, int socket) {
  Side side(options, socket);
  struct Pending {
    std::uint64_t n;
    Message m;
    std::uint64_t expected_word;
  };
  std::deque<Pending> pending;
  std::array<std::uint64_t, kAtomics> words{};
  std::atomic_ref<std::uint64_t> verified(*reinterpret_cast<std::uint64_t*>(side.at(Side::kProgress)));
  std::array<Completion, 32> completions;
  std::uint64_t posted = 0, completed = 0, wait_rounds = 0;
  auto finish = [&](const Pending& p) {  // an initiator-side check of what came back
    const std::byte* slot = side.at(std::size_t{p.n % kSlots} * kSlotBytes);
    if (p.m.op == Op::kRead) {
      const std::size_t wrong = first_wrong(slot, p.m.bytes, kStaticSeed, p.m.offset);
      if (wrong != p.m.bytes) {
        die(fmt::format("message {}: READ of {} bytes at {}: byte {} is wrong", p.n, p.m.bytes, p.m.offset, wrong));
      }
    } else if (p.m.bytes == 8 && (p.m.op == Op::kFetchAdd || p.m.op == Op::kCompareSwap)) {
      std::uint64_t got;
      std::memcpy(&got, slot, 8);
      if (got != p.expected_word) {
        die(fmt::format("message {}: atomic on word {} returned {:#x}, want {:#x}", p.n, p.m.offset, got,
                        p.expected_word));
      }
    }
  };
  while (completed < options.messages) {
    bool moved = false;
    if (posted < options.messages && posted - completed < 60 &&
        posted < verified.load(std::memory_order_acquire) + kSlots) {
      const Message m = message(options, posted);
      Random random(mix(posted) ^ 0x5911);
      const std::size_t slot = std::size_t{posted % kSlots} * kSlotBytes;
      SendWr wr{.wr_id = posted};
      Pending p{posted, m, 0};
      std::vector<Sge> sges = split(random, *side.region, slot, m.bytes, kMaxSge);
      wr.sges = sges;
      const bool payload = m.consumes() || m.writes();
      if (payload) {
        fill(side.at(slot), m.bytes, m.stream);
        wr.flags = m.is_inline && m.bytes <= 188 ? SendFlags(SendFlag::kInline) : SendFlags();
      }
      wr.immediate_big_endian = m.immediate;
      wr.rkey = side.peer.rkey;
      switch (m.op) {
        case Op::kSend:
          wr.opcode = SendOpcode::kSend;
          break;
        case Op::kSendImm:
          wr.opcode = SendOpcode::kSendWithImm;
          break;
        case Op::kWrite:
          wr.opcode = SendOpcode::kRdmaWrite;
          break;
        case Op::kWriteImm:
          wr.opcode = SendOpcode::kRdmaWriteWithImm;
          break;
        case Op::kRead:
          wr.opcode = SendOpcode::kRdmaRead;
          break;
        case Op::kCompareSwap:
          wr.opcode = SendOpcode::kCompareSwap;
          break;
        case Op::kFetchAdd:
          wr.opcode = SendOpcode::kFetchAdd;
          break;
      }
      if (m.writes()) {
        wr.remote_address = side.peer.slots + slot;
      } else if (m.op == Op::kRead) {
        wr.remote_address = side.peer.statics + m.offset;
      } else if (!payload) {
        sges.assign(1, side.region->sge(slot, 8));
        wr.sges = sges;
        wr.remote_address = side.peer.atomics + m.offset * 8;
        std::uint64_t& word = words[m.offset];
        p.expected_word = word;
        if (m.op == Op::kFetchAdd) {
          wr.compare_add = m.stream;
          word += m.stream;
        } else {
          wr.compare_add = m.match ? word : word + 1;
          wr.swap = m.stream;
          word = m.match ? m.stream : word;
        }
      }
      if (m.fence) wr.flags = wr.flags | SendFlags(SendFlag::kFence);
      if (m.solicited) wr.flags = wr.flags | SendFlags(SendFlag::kSolicited);
      if (m.signaled || posted % 16 == 15 || posted + 1 == options.messages || !payload) {
        wr.flags = wr.flags | SendFlags(SendFlag::kSignaled);
      }
      const PostResult result = side.qp->post_send({&wr, 1});
      if (result.error != 0) {
        die(fmt::format("post of message {}: {}", posted, side.qp->explain_refusal(wr)));
      }
      pending.push_back(p);
      ++posted;
      moved = true;
    }
    const std::size_t count = side.send_cq->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      check_status(completions[i]);
      while (!pending.empty() && pending.front().n <= completions[i].wr_id) {
        finish(pending.front());
        pending.pop_front();
        ++completed;
      }
    }
    moved |= count != 0;
    if (!moved) {
      side.context->relax();
      if (++wait_rounds % 4096 == 0) {
        side.check_time(fmt::format("{} of {} are posted, {} completed, {} verified", posted, options.messages,
                                    completed, verified.load()));
      }
    } else if (options.progress && completed % 8192 == 0 && count != 0) {
      fmt::print(stderr, "\r{} of {}", completed, options.messages);
    }
  }
  while (verified.load(std::memory_order_acquire) < options.messages) {
    side.context->relax();
    if (++wait_rounds % 4096 == 0) side.check_time("the target checks the last messages");
  }
  return say_goodbye(socket);
}

int run_target(const Options& options, int socket) {
  Side side(options, socket);
  std::array<Completion, 32> completions;
  std::deque<std::pair<std::uint64_t, std::vector<Sge>>> receives;  // in posting order: where each receive's pieces lie
  std::uint64_t posted_receives = 0, checked = 0, wait_rounds = 0;
  // Receives land in their own memory, not in the slots that WRITEs use.
  std::vector<std::byte> landing(std::size_t{kSlots} * kSlotBytes);
  auto landing_region = must(side.pd->register_memory(landing, Access::kLocalWrite), "MR");
  Random random(options.seed ^ 0x7a6e7);
  auto post_receive = [&] {
    auto sges = split(random, *landing_region, std::size_t{posted_receives % kSlots} * kSlotBytes, kMaxBytes, 4);
    const RecvWr wr{.wr_id = posted_receives, .sges = sges};
    if (const auto result = side.qp->post_recv({&wr, 1}); result.error != 0) {
      die("post_recv: " + side.qp->explain_refusal(wr));
    }
    receives.emplace_back(posted_receives++, std::move(sges));
  };
  auto* report = reinterpret_cast<std::uint64_t*>(side.at(Side::kProgress));
  unsigned reports_outstanding = 0;
  auto take_report_completions = [&] {
    for (std::size_t n = side.send_cq->poll(completions), i = 0; i < n; ++i) {
      check_status(completions[i]);
      --reports_outstanding;
    }
  };
  auto report_progress = [&] {  // one report at a time, so that its word may change
    if (checked != *report && reports_outstanding == 0) {
      *report = checked;
      const Sge sge = side.region->sge(Side::kProgress, 8);
      const SendWr wr{.opcode = SendOpcode::kRdmaWrite,
                      .flags = SendFlag::kSignaled,
                      .sges = {&sge, 1},
                      .remote_address = side.peer.progress,
                      .rkey = side.peer.rkey};
      if (side.qp->post_send({&wr, 1}).error != 0) {
        die("post of the report: " + side.qp->explain_refusal(wr));
      }
      ++reports_outstanding;
    }
  };
  auto check_message = [&](std::uint64_t n, const Message& m, const Completion* completion) {
    if (m.writes()) {
      const std::byte* slot = side.at(std::size_t{n % kSlots} * kSlotBytes);
      if (const auto wrong = first_wrong(slot, m.bytes, m.stream); wrong != m.bytes) {
        die(fmt::format("message {}: WRITE of {} bytes: byte {} is wrong", n, m.bytes, wrong));
      }
    }
    if (completion == nullptr) return;
    const bool with_imm = m.op != Op::kSend;
    if (completion->has_immediate != with_imm || (with_imm && completion->immediate_big_endian != m.immediate) ||
        completion->byte_count != m.bytes) {
      die(fmt::format("message {}: want {} bytes, immediate {:#x}; got {}", n, m.bytes, m.immediate,
                      describe(*completion)));
    }
    if (!m.writes()) {
      std::uint64_t done = 0;
      for (const Sge& sge : receives.front().second) {
        const auto bytes = std::min<std::uint64_t>(sge.length_bytes, m.bytes - done);
        if (first_wrong(reinterpret_cast<const std::byte*>(sge.address), bytes, m.stream, done) != bytes) {
          die(fmt::format("message {}: SEND of {} bytes is wrong after byte {}", n, m.bytes, done));
        }
        done += bytes;
      }
    }
  };
  for (unsigned i = 0; i < 32; ++i) post_receive();
  while (checked < options.messages) {
    const std::size_t count = side.recv_cq->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      check_status(completions[i]);
      if (completions[i].wr_id != receives.front().first) {
        die(fmt::format("receive {} completed, {} was next", completions[i].wr_id, receives.front().first));
      }
      for (bool consumed = false; !consumed; ++checked) {
        const Message m = message(options, checked);
        consumed = m.consumes();
        check_message(checked, m, consumed ? &completions[i] : nullptr);
      }
      receives.pop_front();
      post_receive();
    }
    take_report_completions();
    report_progress();
    if (count == 0) {
      side.context->relax();
      if (++wait_rounds % 4096 == 0) side.check_time(fmt::format("{} of {} are checked", checked, options.messages));
    }
  }
  // The last report may still be on its way.
  while (reports_outstanding != 0 || *report != checked) {
    take_report_completions();
    report_progress();
    side.context->relax();
    if (++wait_rounds % 4096 == 0) side.check_time("the last report is on its way");
  }
  return say_goodbye(socket);
}

pid_t spawn(const Options& options, int socket, int other, int (*run)(const Options&, int)) {
  const pid_t pid = fork();
  if (pid == 0) {
    close(other);
    if (!options.faults.empty()) setenv("UMLX5_SOFT_FAULTS", options.faults.c_str(), 1);
    if (!options.pcap.empty()) setenv("UMLX5_SOFT_PCAP", options.pcap.c_str(), 1);
    std::_Exit(run(options, socket));
  }
  return pid;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Random RC traffic between two processes on soft devices, every byte checked"};
  app.add_option("--messages", options.messages, "messages of random operation, size and SGE split")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of messages")->capture_default_str();
  app.add_option("--faults", options.faults, "faults of the wire, as UMLX5_SOFT_FAULTS");
  app.add_option("--pcap", options.pcap, "capture of both sides; %p becomes the process id");
  app.add_option("--max-bytes", options.max_bytes, "largest message")
      ->check(CLI::Range(0u, kMaxBytes))
      ->capture_default_str();
  app.add_option("--timeout", options.timeout_seconds, "seconds after which it has failed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.progress = isatty(2) != 0;

  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) die("socketpair");
  const auto start = Clock::now();
  const pid_t initiator = spawn(options, sockets[0], sockets[1], run_initiator);
  const pid_t target = spawn(options, sockets[1], sockets[0], run_target);
  close(sockets[0]);
  close(sockets[1]);
  int failed = 0;
  for (int left = 2; left > 0; --left) {
    int status = 0;
    const pid_t pid = wait(&status);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      fmt::print(stderr, "rc_stress: the {} failed (wait status {:#x})\n", pid == initiator ? "initiator" : "target",
                 status);
      if (failed == 0) kill(pid == initiator ? target : initiator, SIGTERM);
      ++failed;
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (failed != 0) return 1;
  fmt::print("{} messages, all bytes right, seed {}, faults \"{}\", {:.1f} s\n", options.messages, options.seed,
             options.faults, seconds);
  return 0;
}
