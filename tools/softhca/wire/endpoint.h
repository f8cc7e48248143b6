// The soft HCA's port: RoCE v2 packets in and out of one IPv4 address.
//
// A packet here is the bytes from the BTH to the end of the padded payload, without the ICRC: the endpoint adds the
// ICRC when it sends and checks and removes it when it receives. IPv4 and UDP headers are the socket's; for the ICRC
// and for captures they are taken as identification 0, don't-fragment, the TTL and the type of service masked as the
// specification says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "uapi/error.h"

namespace softhca::wire {

using umlx5::Expected;

inline constexpr std::uint16_t kRoceV2Port = 4791;
inline constexpr std::size_t kMaxPathMtuBytes = 4096;
// BTH 12 and the largest set of extension headers, the payload and the ICRC.
inline constexpr std::size_t kMaxPacketBytes = kMaxPathMtuBytes + 128;

// IPv4 address, host byte order.
struct Ipv4 {
  std::uint32_t value = 0;
  friend bool operator==(Ipv4, Ipv4) = default;
};

struct Route {
  Ipv4 destination;
  std::uint16_t source_port = 0xc000;  // UDP source port, 0xc000..0xffff: the flow's entropy
  std::uint8_t traffic_class = 0;      // IP type of service
};

struct EndpointOptions {
  std::optional<Ipv4> address;  // none: the first free address of 127.0.0.2 .. 127.0.0.254
  std::string pcap_path;        // empty: no capture; "%p" in it becomes the process id
  std::string faults;           // text of faults.h, empty: a perfect wire
};

struct EndpointCounters {
  std::uint64_t sent_packets, received_packets, icrc_errors, malformed_packets;
  std::uint64_t dropped_by_fault, duplicated_by_fault, reordered_by_fault, delayed_by_fault, corrupted_by_fault;
  std::uint64_t send_errors;  // the socket refused (no route, no buffer): like loss
};

struct Received {
  Ipv4 source;
  std::uint16_t source_port;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
  bool looped_back;                   // sent by this endpoint to its own address
  std::span<const std::byte> packet;  // BTH .. padded payload; valid until the next receive()
};

// Not thread-safe: the device's one thread owns it.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Errors: EADDRINUSE (the address, or all of them, taken), EADDRNOTAVAIL (not an address of this machine), EINVAL
  // (faults text), or what opening the capture file gives; each says which.
  static Expected<std::unique_ptr<Endpoint>> open(const EndpointOptions& options);

  virtual Ipv4 address() const = 0;

  // Readable when a packet waits: for poll(). Packets looped back or held by a fault do not show there:
  // next_deadline_ns().
  virtual int fd() const = 0;

  // A buffer of kMaxPacketBytes for the next packet; commit() queues its first `bytes` bytes for `route`, in order.
  // Packets may leave at once or wait for flush(); flush() leaves none waiting. Several packets of one flow leave in
  // one system call.
  virtual std::span<std::byte> reserve() = 0;
  virtual void commit(const Route& route, std::size_t bytes) = 0;
  virtual void flush() = 0;

  // Fills `out` with packets that have arrived, looped-back ones included; never blocks. Packets with a wrong ICRC and
  // those shorter than a BTH are counted and dropped.
  virtual std::size_t receive(std::span<Received> out) = 0;

  // When a delayed or reordered packet must be let go by calling flush(), monotonic nanoseconds; none if there is no
  // such packet.
  virtual std::optional<std::uint64_t> next_deadline_ns() const = 0;

  virtual const EndpointCounters& counters() const = 0;
};

}  // namespace softhca::wire
