#include "tools/softhca/wire/endpoint.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "tools/softhca/wire/faults.h"
#include "tools/softhca/wire/group_sockets.h"
#include "tools/softhca/wire/icrc.h"
#include "tools/softhca/wire/packet.h"
#include "tools/softhca/wire/pcap.h"
#include "tools/softhca/wire/udp_socket.h"

namespace softhca::wire {
namespace {

constexpr std::size_t kSlotBytes = kMaxPacketBytes + kIcrcBytes;
constexpr std::size_t kArenaBytes = 256 << 10;       // stays in the second-level cache
constexpr std::size_t kMaxQueuedPackets = 256;       // sent at the latest when so many wait
constexpr std::size_t kMaxLoopedPackets = 8192;      // like a socket's receive buffer: more are lost
constexpr std::uint64_t kReorderHoldNs = 1'000'000;  // a packet to be overtaken waits so long for another
constexpr std::uint8_t kHopLimit = 64;

std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

constexpr std::size_t kIpAndUdpBytes = 28;

void count(Traffic& traffic, std::span<const std::byte> packet) {
  ++traffic.packets;
  traffic.bytes += kIpAndUdpBytes + packet.size();
}

using Buffer = std::array<std::byte, kSlotBytes>;

// A packet with its ICRC, kept outside the send arena: looped back, or held by a fault.
struct KeptPacket {
  Route route{};
  std::unique_ptr<Buffer> buffer{};
  std::size_t bytes = 0;
  std::uint64_t deadline_ns = 0;

  std::span<std::byte> data() const { return std::span(*buffer).first(bytes); }
};

class BufferPool {
 public:
  std::unique_ptr<Buffer> take() {
    if (free_.empty()) {
      return std::make_unique_for_overwrite<Buffer>();
    }
    std::unique_ptr<Buffer> buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void give_back(std::unique_ptr<Buffer> buffer) { free_.push_back(std::move(buffer)); }

 private:
  std::vector<std::unique_ptr<Buffer>> free_;
};

class UdpEndpoint final : public Endpoint {
 public:
  UdpEndpoint(Ipv4 address, std::unique_ptr<UdpSocket> socket, FaultPlan faults, std::unique_ptr<Capture> capture)
      : address_(address), socket_(std::move(socket)), faults_(faults), capture_(std::move(capture)) {
    queued_.reserve(kMaxQueuedPackets + 2);
  }

  Ipv4 address() const override { return address_; }
  int fd() const override { return socket_->fd(); }
  int groups_fd() const override { return groups_.fd(); }
  Expected<void> join(Ipv4 group) override { return groups_.join(group, address_); }
  void leave(Ipv4 group) override { groups_.leave(group); }
  std::span<std::byte> reserve() override;
  void commit(const Route& route, std::size_t bytes) override;
  void flush() override;
  std::size_t receive(std::span<Received> out) override;
  std::optional<std::uint64_t> next_deadline_ns() const override;
  const EndpointCounters& counters() const override { return counters_; }
  std::uint64_t seed() const override { return faults_.seed(); }

 private:
  Flow flow_to(Ipv4 destination) const { return {.source = address_, .destination = destination}; }
  KeptPacket kept(const Route& route, std::span<const std::byte> packet, std::uint64_t hold_ns);

  void commit_with_faults(const Route& route, std::span<std::byte> packet);
  void put(const Route& route, std::span<const std::byte> packet);
  void put(KeptPacket packet);
  void loop_back(KeptPacket packet);
  void release_due();
  void send_queued();

  std::size_t receive_looped(std::span<Received> out);
  std::size_t receive_socket(std::span<Received> out);
  std::size_t receive_groups(std::span<Received> out);
  bool take(const IncomingDatagram& datagram, Ipv4 destination, Received& out);
  bool accept(const Flow& flow, std::uint8_t traffic_class, std::uint8_t hop_limit, std::span<const std::byte> packet);

  Ipv4 address_;
  std::unique_ptr<UdpSocket> socket_;
  GroupSockets groups_;
  FaultPlan faults_;
  std::unique_ptr<Capture> capture_;
  EndpointCounters counters_;
  std::uint64_t next_packet_number_ = 0;  // what the fault plan goes by

  // Queued packets lie one behind the other in the arena, so that runs of them go down as one buffer.
  std::unique_ptr<std::byte[]> arena_ = std::make_unique_for_overwrite<std::byte[]>(kArenaBytes);
  std::size_t arena_used_bytes_ = 0;
  std::vector<OutgoingDatagram> queued_;

  BufferPool pool_;
  std::deque<KeptPacket> looped_;
  std::vector<KeptPacket> given_out_;    // looped-back packets that the last receive() gave out
  std::deque<KeptPacket> delayed_;       // in the order of their deadlines: all are held for the same time
  std::optional<KeptPacket> overtaken_;  // waits for the next packet to pass it
  bool looped_first_ = false;
};

std::span<std::byte> UdpEndpoint::reserve() {
  if (arena_used_bytes_ + kSlotBytes > kArenaBytes || queued_.size() >= kMaxQueuedPackets) {
    send_queued();
  }
  return {arena_.get() + arena_used_bytes_, kMaxPacketBytes};
}

void UdpEndpoint::commit(const Route& route, std::size_t bytes) {
  if (bytes < Bth::kBytes || bytes > kMaxPacketBytes) {
    ++counters_.send_errors;
    return;
  }
  const std::span<std::byte> packet{arena_.get() + arena_used_bytes_, bytes + kIcrcBytes};
  count(route.destination.is_multicast() ? counters_.sent_multicast : counters_.sent_unicast, packet);
  store_icrc(packet.data() + bytes, icrc(flow_to(route.destination), packet.first(bytes)));
  if (faults_.active()) {
    commit_with_faults(route, packet);
  } else {
    put(route, packet);
  }
}

void UdpEndpoint::commit_with_faults(const Route& route, std::span<std::byte> packet) {
  const Fault fault = faults_.decide(next_packet_number_++);
  if (fault.lose) {
    ++counters_.dropped_by_fault;
    return;
  }
  if (fault.corrupt) {
    ++counters_.corrupted_by_fault;
    flip_bit(packet, fault.entropy);
  }
  const bool is_overtaken = fault.reorder && !fault.delay && !overtaken_;
  const bool goes_now = fault.duplicate || !(fault.delay || is_overtaken);
  std::optional<KeptPacket> passed = goes_now ? std::exchange(overtaken_, std::nullopt) : std::nullopt;
  if (fault.duplicate) {
    ++counters_.duplicated_by_fault;
    put(route, packet);
  }
  if (fault.delay) {
    ++counters_.delayed_by_fault;
    delayed_.push_back(kept(route, packet, faults_.delay_ns()));
  } else if (is_overtaken) {
    ++counters_.reordered_by_fault;
    overtaken_ = kept(route, packet, kReorderHoldNs);
  } else {
    put(route, packet);
  }
  if (passed) {
    put(std::move(*passed));
  }
}

KeptPacket UdpEndpoint::kept(const Route& route, std::span<const std::byte> packet, std::uint64_t hold_ns) {
  KeptPacket result{.route = route,
                    .buffer = pool_.take(),
                    .bytes = packet.size(),
                    .deadline_ns = hold_ns == 0 ? 0 : monotonic_ns() + hold_ns};
  std::memcpy(result.buffer->data(), packet.data(), packet.size());
  return result;
}

// `packet` lies in the arena; the same bytes may be put more than once.
void UdpEndpoint::put(const Route& route, std::span<const std::byte> packet) {
  if (route.destination == address_) {
    loop_back(kept(route, packet, 0));
    return;
  }
  queued_.push_back({route.destination, route.traffic_class, packet});
  arena_used_bytes_ = static_cast<std::size_t>(packet.data() + packet.size() - arena_.get());
}

void UdpEndpoint::put(KeptPacket packet) {
  if (packet.route.destination == address_) {
    loop_back(std::move(packet));
    return;
  }
  std::byte* const place = reserve().data();
  std::memcpy(place, packet.buffer->data(), packet.bytes);
  put(packet.route, {place, packet.bytes});
  pool_.give_back(std::move(packet.buffer));
}

void UdpEndpoint::loop_back(KeptPacket packet) {
  if (looped_.size() >= kMaxLoopedPackets) {
    ++counters_.send_errors;
    pool_.give_back(std::move(packet.buffer));
    return;
  }
  ++counters_.sent_packets;
  if (capture_) {
    capture_->add(Direction::kSent, flow_to(address_), packet.route.traffic_class, kHopLimit, packet.data());
  }
  looped_.push_back(std::move(packet));
}

void UdpEndpoint::flush() {
  if (overtaken_ || !delayed_.empty()) {
    release_due();
  }
  if (!queued_.empty()) {
    send_queued();
  }
  if (capture_) {
    capture_->flush();
  }
}

void UdpEndpoint::release_due() {
  const std::uint64_t now_ns = monotonic_ns();
  if (overtaken_ && overtaken_->deadline_ns <= now_ns) {
    put(*std::exchange(overtaken_, std::nullopt));
  }
  while (!delayed_.empty() && delayed_.front().deadline_ns <= now_ns) {
    KeptPacket packet = std::move(delayed_.front());
    delayed_.pop_front();
    put(std::move(packet));
  }
}

void UdpEndpoint::send_queued() {
  if (capture_) {
    for (const OutgoingDatagram& datagram : queued_) {
      capture_->add(Direction::kSent, flow_to(datagram.destination), datagram.traffic_class, kHopLimit, datagram.data);
    }
  }
  const std::size_t refused = socket_->send(queued_);
  counters_.send_errors += refused;
  counters_.sent_packets += queued_.size() - refused;
  queued_.clear();
  arena_used_bytes_ = 0;
}

std::size_t UdpEndpoint::receive(std::span<Received> out) {
  for (KeptPacket& packet : given_out_) {
    pool_.give_back(std::move(packet.buffer));
  }
  given_out_.clear();
  // By turns, and not all of it from groups, so that no source can starve the others.
  std::size_t count = receive_groups(out.first(out.size() / 2));
  out = out.subspan(count);
  looped_first_ = !looped_first_;
  const std::size_t first = looped_first_ ? receive_looped(out) : receive_socket(out);
  out = out.subspan(first);
  count += first + (looped_first_ ? receive_socket(out) : receive_looped(out));
  if (capture_) {
    capture_->flush();
  }
  return count;
}

std::size_t UdpEndpoint::receive_looped(std::span<Received> out) {
  std::size_t count = 0;
  while (count < out.size() && !looped_.empty()) {
    KeptPacket packet = std::move(looped_.front());
    looped_.pop_front();
    const std::span<const std::byte> data = packet.data();
    if (accept(flow_to(address_), packet.route.traffic_class, kHopLimit, data)) {
      out[count++] = {.source = address_,
                      .destination = address_,
                      .source_port = packet.route.source_port,
                      .traffic_class = packet.route.traffic_class,
                      .hop_limit = kHopLimit,
                      .looped_back = true,
                      .packet = data.first(data.size() - kIcrcBytes)};
    }
    given_out_.push_back(std::move(packet));
  }
  return count;
}

std::size_t UdpEndpoint::receive_socket(std::span<Received> out) {
  // What an earlier call left over is given out alone: asking the kernel again would overwrite it.
  if (out.empty() || (!socket_->has_next() && !socket_->receive())) {
    return 0;
  }
  std::size_t count = 0;
  IncomingDatagram datagram;
  while (count < out.size() && socket_->next(datagram)) {
    count += take(datagram, address_, out[count]) ? 1 : 0;
  }
  return count;
}

std::size_t UdpEndpoint::receive_groups(std::span<Received> out) {
  if (out.empty() || (!groups_.has_next() && !groups_.receive())) {
    return 0;
  }
  std::size_t count = 0;
  IncomingDatagram datagram;
  Ipv4 group;
  while (count < out.size() && groups_.next(datagram, group)) {
    count += take(datagram, group, out[count]) ? 1 : 0;
  }
  return count;
}

bool UdpEndpoint::take(const IncomingDatagram& datagram, Ipv4 destination, Received& out) {
  const Flow flow{.source = datagram.source, .destination = destination, .source_port = datagram.source_port};
  if (!accept(flow, datagram.traffic_class, datagram.hop_limit, datagram.data)) {
    return false;
  }
  out = {.source = datagram.source,
         .destination = destination,
         .source_port = datagram.source_port,
         .traffic_class = datagram.traffic_class,
         .hop_limit = datagram.hop_limit,
         .packet = datagram.data.first(datagram.data.size() - kIcrcBytes)};
  return true;
}

bool UdpEndpoint::accept(const Flow& flow, std::uint8_t traffic_class, std::uint8_t hop_limit,
                         std::span<const std::byte> packet) {
  if (capture_) {
    capture_->add(Direction::kReceived, flow, traffic_class, hop_limit, packet);
  }
  if (packet.size() < Bth::kBytes + kIcrcBytes || packet.size() > kSlotBytes) {
    ++counters_.malformed_packets;
    return false;
  }
  const std::span<const std::byte> covered = packet.first(packet.size() - kIcrcBytes);
  if (icrc(flow, covered) != load_icrc(packet.data() + covered.size())) {
    ++counters_.icrc_errors;
    return false;
  }
  ++counters_.received_packets;
  count(flow.destination.is_multicast() ? counters_.received_multicast : counters_.received_unicast, packet);
  return true;
}

std::optional<std::uint64_t> UdpEndpoint::next_deadline_ns() const {
  if (!looped_.empty() || socket_->has_next() || groups_.has_next()) {
    return 0;
  }
  std::optional<std::uint64_t> earliest;
  if (overtaken_) {
    earliest = overtaken_->deadline_ns;
  }
  if (!delayed_.empty()) {
    earliest = std::min(earliest.value_or(~std::uint64_t{0}), delayed_.front().deadline_ns);
  }
  return earliest;
}

umlx5::Expected<std::unique_ptr<UdpSocket>> open_first_free() {
  constexpr std::uint32_t kFirst = 0x7f000002;
  constexpr std::uint32_t kLast = 0x7f0000fe;
  for (std::uint32_t address = kFirst; address <= kLast; ++address) {
    auto socket = UdpSocket::open({address});
    if (socket || socket.error().errno_value != EADDRINUSE) {
      return socket;
    }
  }
  return umlx5::fail(EADDRINUSE,
                     fmt::format("UDP port {}: all addresses of 127.0.0.2 .. 127.0.0.254 are taken", kRoceV2Port));
}

bool is_unicast(Ipv4 address) { return address.value >> 24 != 0 && address.value >> 28 < 0xe; }

}  // namespace

Expected<std::unique_ptr<Endpoint>> Endpoint::open(const EndpointOptions& options) {
  auto faults = FaultPlan::parse(options.faults);
  if (!faults) {
    return std::unexpected(std::move(faults.error()));
  }
  if (options.address && !is_unicast(*options.address)) {
    return umlx5::fail(EINVAL,
                       fmt::format("wire endpoint: {} is not the address of one machine", to_string(*options.address)));
  }
  auto socket = options.address ? UdpSocket::open(*options.address) : open_first_free();
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  const Ipv4 address = (*socket)->address();
  std::unique_ptr<Capture> capture;
  if (!options.pcap_path.empty()) {
    auto opened = Capture::open(expand_process_id(options.pcap_path), "softhca " + to_string(address));
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    capture = std::move(*opened);
  }
  return std::make_unique<UdpEndpoint>(address, std::move(*socket), *faults, std::move(capture));
}

}  // namespace softhca::wire
