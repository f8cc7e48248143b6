// Two processes with a data path each, over UDP on loopback: bandwidth of large messages and latency of small ones.
// Usage: transport_benchmark [seconds per measurement]
//
// Numbers are those of this machine and of its other load; both processes spin.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>

#include "tests/tools/softhca/hca/data_path_harness.h"

namespace {

using namespace softhca;
using namespace softhca::hca;
using namespace softhca::hca::harness;

constexpr std::size_t kBufferBytes = 16 << 20;
constexpr unsigned kDepth = 32;

std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// What the two processes tell each other.
struct Shared {
  struct Side {
    std::atomic<std::uint32_t> address;
    std::atomic<std::uint64_t> buffer;
  } side[2];
  std::atomic<unsigned> ready, phase, left;
};

struct Node {
  Node(Shared& shared, unsigned self) {
    auto opened = wire::Endpoint::open({});
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message().c_str());
      std::exit(1);
    }
    device = std::make_unique<Device>(std::move(*opened));
    device->memory.trust();
    queue = std::make_unique<Queue>(
        *device, Queue::Options{.log_sq_wqebbs = 7, .log_rq_entries = 7, .rq_wqe_bytes = 64, .qpn = 0x100 + self});
    key = device->add_key(kBufferBytes);
    shared.side[self].buffer = address_of(device->memory_of(key));
    shared.side[self].address = device->endpoint->address().value;
    ++shared.ready;
    while (shared.ready != 2) {
      std::this_thread::yield();
    }
    Qp& qp = *queue->qp;
    qp.path.route.destination = wire::Ipv4{shared.side[1 - self].address};
    qp.path.log_mtu = 5;
    qp.remote_qpn = 0x100 + (1 - self);
    qp.retry_count = qp.rnr_retry = 7;
    qp.ack_timeout = 14;
    qp.min_rnr_timer = 12;
    qp.max_initiated_rd_atomic = qp.max_target_rd_atomic = 16;
    qp.remote_read = qp.remote_write = qp.remote_atomic = true;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      device->set_state(qp, state);
    }
    peer_buffer = shared.side[1 - self].buffer;
  }

  void progress() {
    if (!device->transport.progress(monotonic_ns())) {
      std::this_thread::yield();
    }
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue;
  std::uint32_t key = 0;
  std::uint64_t peer_buffer = 0;
};

void report(const Node& node, const char* name, std::uint64_t count, std::uint64_t bytes, std::uint64_t took_ns,
            double cpu, std::uint64_t packets) {
  const double seconds = static_cast<double>(took_ns) * 1e-9;
  const double messages = static_cast<double>(count);
  std::printf("%-24s %8.3f GB/s %10.0f messages/s %8.2f us each, %6.2f us CPU here, %4.1f packets sent\n", name,
              messages * static_cast<double>(bytes) / seconds * 1e-9, messages / seconds, seconds / messages * 1e6,
              cpu / messages * 1e6, static_cast<double>(packets) / messages);
  (void)node;
}

void stream(Node& node, const char* name, std::uint8_t opcode, std::uint32_t bytes, unsigned depth, double seconds) {
  auto& done = node.queue->sends();
  done.clear();
  const std::uint64_t slots = kBufferBytes / bytes;
  std::uint64_t posted = 0, completed = 0;
  const std::uint64_t start_ns = monotonic_ns(), end_ns = start_ns + static_cast<std::uint64_t>(seconds * 1e9);
  const double cpu = cpu_seconds();
  const std::uint64_t packets = node.device->endpoint->counters().sent_packets;
  bool posting = true;
  while (posting || completed < posted) {
    bool rings = false;
    while (posting && posted - completed < depth) {
      const std::uint64_t offset = posted % slots * bytes;
      node.queue->write_wqe({.opcode = opcode,
                             .list = {{node.key, static_cast<std::uint32_t>(offset), bytes}},
                             .remote_address = node.peer_buffer + offset,
                             .rkey = node.key});  // both sides make the same keys
      ++posted;
      rings = true;
    }
    if (rings) {
      node.queue->ring();
    }
    node.progress();
    for (const Completion& completion : done) {
      if (completion.opcode() != 0) {
        std::printf("%s: %s\n", name, completion.text().c_str());
        return;
      }
    }
    completed += done.size();
    done.clear();
    posting = monotonic_ns() < end_ns;
  }
  report(node, name, completed, bytes, monotonic_ns() - start_ns, cpu_seconds() - cpu,
         node.device->endpoint->counters().sent_packets - packets);
}

void ping(Node& node, const char* name, double seconds) {
  auto& sent = node.queue->sends();
  auto& received = node.queue->receives();
  sent.clear();
  received.clear();
  std::uint64_t rounds = 0;
  const std::uint64_t start_ns = monotonic_ns(), end_ns = start_ns + static_cast<std::uint64_t>(seconds * 1e9);
  const double cpu = cpu_seconds();
  while (monotonic_ns() < end_ns) {
    node.queue->post_receive({{node.key, 0, 64}});
    node.queue->post({.opcode = kSend, .inline_data = Bytes(32)});
    while (received.empty() && monotonic_ns() < end_ns + 1'000'000'000) {
      node.progress();
    }
    received.clear();
    sent.clear();
    ++rounds;
  }
  report(node, name, rounds, 32, monotonic_ns() - start_ns, cpu_seconds() - cpu, 0);
}

void serve(Node& node, Shared& shared) {
  for (unsigned i = 0; i < 64; ++i) {
    node.queue->post_receive({{node.key, 0, 1 << 20}});
  }
  while (shared.left == 0) {
    node.progress();
    for (std::size_t i = node.queue->receives().size(); i > 0; --i) {
      node.queue->post_receive({{node.key, 0, 1 << 20}});
      if (shared.phase == 1) {
        node.queue->post({.opcode = kSend, .inline_data = Bytes(32)});
      }
    }
    node.queue->receives().clear();
    node.queue->sends().clear();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  auto& shared = *new (memory) Shared();
  const pid_t child = fork();
  if (child == 0) {
    Node node(shared, 1);
    serve(node, shared);
    _exit(0);
  }
  {
    Node node(shared, 0);
    stream(node, "WRITE 64 KiB", kWrite, 65536, kDepth, seconds);
    stream(node, "WRITE 1 MiB", kWrite, 1 << 20, 8, seconds);
    stream(node, "READ 64 KiB", kRead, 65536, kDepth, seconds);
    stream(node, "SEND 64 KiB", kSend, 65536, kDepth, seconds);
    stream(node, "WRITE 64 B", kWrite, 64, kDepth, seconds);
    stream(node, "WRITE 64 B, one by one", kWrite, 64, 1, seconds);
    shared.phase = 1;
    ping(node, "SEND 32 B ping-pong", seconds);
    std::printf("packets not sent: %llu\n",
                static_cast<unsigned long long>(node.device->endpoint->counters().send_errors));
    shared.left = 1;
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
