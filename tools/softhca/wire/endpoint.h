// The soft HCA's port: RoCE v2 packets in and out of one IPv4 address.
//
// A packet here is the bytes from the BTH to the end of the padded payload, without the ICRC: the endpoint adds the
// ICRC when it sends and checks and removes it when it receives. IPv4 and UDP headers are the socket's: don't-fragment,
// identification 0 and source port 4791 on every packet sent, and the ICRC is computed of these. A socket does not
// show the identification of what it receives; it is taken as 0, so packets of an implementation that numbers them
// have a wrong ICRC here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tools/softhca/wire/ip.h"
#include "uapi/error.h"

namespace softhca::wire {

using umlx5::Expected;

inline constexpr std::size_t kMaxPathMtuBytes = 4096;
// The payload and room for the BTH and any set of extension headers.
inline constexpr std::size_t kMaxPacketBytes = kMaxPathMtuBytes + 128;

struct Route {
  Ipv4 destination{};
  // The UDP source port that the flow's entropy asks for, 0xc000..0xffff. The endpoint has one socket and sends from
  // 4791 all the same; a packet looped back shows this port to its receiver.
  std::uint16_t source_port = 0xc000;
  std::uint8_t traffic_class = 0;  // IP type of service
};

struct EndpointOptions {
  std::optional<Ipv4> address{};  // none: the first free address of 127.0.0.2 .. 127.0.0.254
  // Where to record what the wire carries, after faults; "%p" in it becomes the process id. Empty: no capture. See
  // pcap.h.
  std::string pcap_path{};
  std::string faults{};  // see faults.h; empty: a perfect wire
};

// IP datagrams, and their bytes.
struct Traffic {
  std::uint64_t packets = 0, bytes = 0;
};

struct EndpointCounters {
  // What commit() was given, whatever the wire makes of it, and what receive() gave out.
  Traffic sent_unicast{}, sent_multicast{}, received_unicast{}, received_multicast{};
  std::uint64_t sent_packets = 0;      // put on the wire or looped back, copies included
  std::uint64_t received_packets = 0;  // given out by receive()
  std::uint64_t icrc_errors = 0;
  std::uint64_t malformed_packets = 0;  // shorter than BTH and ICRC, or longer than any packet
  std::uint64_t dropped_by_fault = 0;
  std::uint64_t duplicated_by_fault = 0;
  std::uint64_t reordered_by_fault = 0;
  std::uint64_t delayed_by_fault = 0;
  std::uint64_t corrupted_by_fault = 0;
  std::uint64_t send_errors = 0;  // refused by the socket (no route, no buffer) or by a full loopback queue: like loss
};

struct Received {
  Ipv4 source{};
  Ipv4 destination{};  // the endpoint's address, or a group that it has joined
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  bool looped_back = false;             // sent by this endpoint to its own address
  std::span<const std::byte> packet{};  // BTH .. padded payload; valid until the next receive()
};

// Not thread-safe: the device's one thread owns it.
class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  virtual ~Endpoint() = default;

  // Errors: EADDRINUSE (the address, or all of them, taken), EADDRNOTAVAIL (not an address of this machine), EINVAL
  // (not an address of one machine; faults text), or what opening the capture file gives; each says which.
  static Expected<std::unique_ptr<Endpoint>> open(const EndpointOptions& options);

  virtual Ipv4 address() const = 0;

  // Readable when a packet waits in the kernel: for poll(). See next_deadline_ns() for those that do not.
  virtual int fd() const = 0;
  // The same for packets to groups.
  virtual int groups_fd() const = 0;

  // Packets to the multicast address `group` arrive too, this endpoint's own included, until leave(). Joining twice is
  // as good as once. Errors: what the kernel gives, in words.
  virtual Expected<void> join(Ipv4 group) = 0;
  virtual void leave(Ipv4 group) = 0;

  // A buffer of kMaxPacketBytes for the next packet; commit() queues its first `bytes` bytes, at least a BTH, for
  // `route`, in order. Packets may leave at once or wait for flush(); flush() leaves none waiting but those that a
  // fault holds. Packets of one size to one destination cost the least when they follow each other.
  virtual std::span<std::byte> reserve() = 0;
  virtual void commit(const Route& route, std::size_t bytes) = 0;
  virtual void flush() = 0;

  // Fills `out` with packets that have arrived, looped-back ones included; never blocks. Packets with a wrong ICRC and
  // those shorter than a BTH are counted and dropped. Fewer than out.size() does not mean that no more wait.
  virtual std::size_t receive(std::span<Received> out) = 0;

  // Until when the owner may wait for fd(), CLOCK_MONOTONIC nanoseconds; then it calls flush() and receive(). That is
  // the time to let a packet go that a fault holds, or 0 if packets wait already where fd() does not show them (looped
  // back, or received together with others). None: no limit.
  virtual std::optional<std::uint64_t> next_deadline_ns() const = 0;

  virtual const EndpointCounters& counters() const = 0;

  // The seed of the faults, 1 without any, for what else a device decides by chance.
  virtual std::uint64_t seed() const { return 1; }
};

}  // namespace softhca::wire
