// What the wire costs: ICRC, parsing and building, and two endpoints on the loopback network, each with a thread of its
// own that polls without sleeping. The receiver lets the sender run at most kWindowBytes ahead, as a transport does.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tools/softhca/wire/endpoint.h"
#include "tools/softhca/wire/icrc.h"
#include "tools/softhca/wire/packet.h"

namespace softhca::wire {
namespace {

constexpr std::size_t kMessageBytes = 64 << 10;
constexpr std::size_t kWindowBytes = 1 << 20;

std::unique_ptr<Endpoint> opened() {
  auto endpoint = Endpoint::open({});
  if (!endpoint) {
    std::fprintf(stderr, "%s\n", endpoint.error().message().c_str());
    std::exit(1);
  }
  return std::move(*endpoint);
}

void BM_Icrc(benchmark::State& state) {
  const std::vector<std::byte> packet(static_cast<std::size_t>(state.range(0)), std::byte{1});
  const Flow flow{.source = {0x7f000002}, .destination = {0x7f000003}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(icrc(flow, packet));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Icrc)->Arg(16)->Arg(76)->Arg(1036)->Arg(4108);

Packet write_packet() {
  Packet packet;
  packet.bth = {.opcode = opcode_of(Transport::kRc, Operation::kRdmaWriteOnly), .destination_qpn = 1, .psn = 1};
  packet.reth = {1, 2, 64};
  return packet;
}

void BM_BuildHeaders(benchmark::State& state) {
  Packet packet = write_packet();
  std::array<std::byte, kMaxPacketBytes> out;
  for (auto _ : state) {
    ++packet.bth.psn;
    benchmark::DoNotOptimize(build_headers(packet, 64, out));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_BuildHeaders);

void BM_Parse(benchmark::State& state) {
  std::array<std::byte, kMaxPacketBytes> out;
  const Packet packet = write_packet();
  build_headers(packet, 64, out);
  const std::span<const std::byte> wire = std::span(out).first(packet_bytes(packet.bth.opcode, 64));
  for (auto _ : state) {
    benchmark::DoNotOptimize(parse(wire));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_Parse);

// Receives until `stop`, counting payload bytes.
void drain(Endpoint& at, std::atomic<std::uint64_t>& received_bytes, const std::atomic<bool>& stop) {
  std::array<Received, 64> received;
  std::uint64_t total = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    const std::size_t count = at.receive(received);
    for (std::size_t i = 0; i < count; ++i) {
      const auto packet = parse(received[i].packet);
      total += packet ? packet->payload.size() : 0;
    }
    if (count != 0) {
      received_bytes.store(total, std::memory_order_release);
    }
  }
}

// One RDMA WRITE of kMessageBytes in packets of `mtu_bytes`.
void send_message(Endpoint& from, const Route& route, std::size_t mtu_bytes, std::uint32_t& psn) {
  Packet packet = write_packet();
  for (std::size_t sent = 0; sent < kMessageBytes; sent += mtu_bytes) {
    const bool first = sent == 0;
    const bool last = sent + mtu_bytes == kMessageBytes;
    packet.bth.opcode = opcode_of(Transport::kRc, first  ? Operation::kRdmaWriteFirst
                                                  : last ? Operation::kRdmaWriteLast
                                                         : Operation::kRdmaWriteMiddle);
    packet.bth.psn = psn++;
    build_headers(packet, mtu_bytes, from.reserve());  // the payload is whatever was there
    from.commit(route, packet_bytes(packet.bth.opcode, mtu_bytes));
  }
  from.flush();
}

void BM_OneWay(benchmark::State& state) {
  const auto a = opened();
  const auto b = opened();
  const auto mtu_bytes = static_cast<std::size_t>(state.range(0));
  std::atomic<std::uint64_t> received_bytes = 0;
  std::atomic<bool> stop = false;
  std::thread receiver([&] { drain(*b, received_bytes, stop); });
  std::uint64_t sent_bytes = 0;
  std::uint32_t psn = 0;
  const auto wait_for = [&](std::uint64_t bytes) {
    for (int spins = 0; received_bytes.load(std::memory_order_acquire) < bytes && spins < 100'000'000; ++spins) {
    }
  };
  for (auto _ : state) {
    wait_for(sent_bytes < kWindowBytes ? 0 : sent_bytes - kWindowBytes);
    send_message(*a, {.destination = b->address()}, mtu_bytes, psn);
    sent_bytes += kMessageBytes;
  }
  wait_for(sent_bytes);
  stop = true;
  receiver.join();
  state.SetBytesProcessed(static_cast<std::int64_t>(received_bytes));
  state.counters["lost_packets"] =
      static_cast<double>(a->counters().sent_packets - b->counters().received_packets + b->counters().icrc_errors);
}
BENCHMARK(BM_OneWay)->Arg(1024)->Arg(4096)->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);

void send_small(Endpoint& from, Ipv4 to) {
  const Packet packet = write_packet();
  build_headers(packet, 64, from.reserve());
  from.commit({.destination = to}, packet_bytes(packet.bth.opcode, 64));
  from.flush();
}

// True when a packet has come.
bool await_packet(Endpoint& at, const std::atomic<bool>& stop) {
  Received received;
  while (at.receive({&received, 1}) == 0) {
    if (stop.load(std::memory_order_relaxed)) {
      return false;
    }
  }
  return parse(received.packet).has_value();
}

// Both sides in one thread: the processor time of sending and receiving a message, which a busy machine does not spoil.
void BM_SendAndReceive(benchmark::State& state) {
  const auto a = opened();
  const auto b = opened();
  const auto mtu_bytes = static_cast<std::size_t>(state.range(0));
  std::array<Received, 64> received;
  std::uint32_t psn = 0;
  std::int64_t packets = 0;
  for (auto _ : state) {
    send_message(*a, {.destination = b->address()}, mtu_bytes, psn);
    for (std::size_t got = 0; got < kMessageBytes / mtu_bytes;) {
      const std::size_t count = b->receive(received);
      got += count;
      packets += static_cast<std::int64_t>(count);
    }
  }
  state.SetBytesProcessed(packets * static_cast<std::int64_t>(mtu_bytes));
}
BENCHMARK(BM_SendAndReceive)->Arg(1024)->Arg(4096)->Unit(benchmark::kMicrosecond);

// An iteration is half a round trip.
void BM_PingPong(benchmark::State& state) {
  const auto a = opened();
  const auto b = opened();
  std::atomic<bool> stop = false;
  std::thread peer([&] {
    while (await_packet(*b, stop)) {
      send_small(*b, a->address());
    }
  });
  while (state.KeepRunningBatch(2)) {
    send_small(*a, b->address());
    await_packet(*a, stop);
  }
  stop = true;
  peer.join();
}
BENCHMARK(BM_PingPong)->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);

// The same in one thread: what one small packet costs its sender and its receiver together.
void BM_SmallSendAndReceive(benchmark::State& state) {
  const auto a = opened();
  const auto b = opened();
  const std::atomic<bool> never = false;
  for (auto _ : state) {
    send_small(*a, b->address());
    await_packet(*b, never);
  }
}
BENCHMARK(BM_SmallSendAndReceive)->Unit(benchmark::kMicrosecond);

// What a processor pays to look for a packet.
void BM_EmptyReceive(benchmark::State& state) {
  const auto a = opened();
  std::array<Received, 64> received;
  for (auto _ : state) {
    benchmark::DoNotOptimize(a->receive(received));
  }
}
BENCHMARK(BM_EmptyReceive);

void BM_LoopedBack(benchmark::State& state) {
  const auto a = opened();
  std::array<Received, 64> received;
  std::uint32_t psn = 0;
  std::int64_t total = 0;
  for (auto _ : state) {
    send_message(*a, {.destination = a->address()}, 4096, psn);
    total += static_cast<std::int64_t>(a->receive(received) * 4096);
  }
  state.SetBytesProcessed(total);
}
BENCHMARK(BM_LoopedBack);

}  // namespace
}  // namespace softhca::wire

BENCHMARK_MAIN();
