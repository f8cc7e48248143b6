// A UDP socket on one IPv4 address and port 4791 that moves many datagrams in few system calls.
//
// What leaves it has don't-fragment set and IPv4 identification 0 (Linux gives a number only to connected or
// fragmentable datagrams), which the ICRC covers. On the loopback network runs of datagrams of one size go down as one
// large buffer (UDP segmentation offload) and come up as one (UDP receive offload); elsewhere they do not, because
// segmentation would number them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tools/softhca/wire/ip.h"
#include "uapi/error.h"

namespace softhca::wire {

struct OutgoingDatagram {
  Ipv4 destination{};
  std::uint8_t traffic_class = 0;
  std::span<const std::byte> data{};
};

struct IncomingDatagram {
  Ipv4 source{};
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::span<const std::byte> data{};
};

// Not thread-safe.
class UdpSocket {
 public:
  // Errors: EADDRINUSE, EADDRNOTAVAIL or what the kernel gives, in words with the address.
  static umlx5::Expected<std::unique_ptr<UdpSocket>> open(Ipv4 address);

  // One that hears what is sent to the multicast group on the interface with the address `local`; others of this
  // machine may have the group too. Errors: what the kernel gives, in words.
  static umlx5::Expected<std::unique_ptr<UdpSocket>> open_group(Ipv4 group, Ipv4 local);

  ~UdpSocket();
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  int fd() const { return fd_; }
  Ipv4 address() const { return address_; }  // or the group

  // Sends all of `datagrams`, in order; waits at most some milliseconds for a full socket. Returns how many the
  // kernel refused.
  std::size_t send(std::span<const OutgoingDatagram> datagrams);

  // Asks the kernel for datagrams that have arrived; false if there are none. Never blocks. Ends the validity of
  // those that next() gave before, and drops those that it has not given.
  bool receive();
  // The next datagram of the last receive(), or false.
  bool next(IncomingDatagram& out);
  // Whether next() has something to give.
  bool has_next() const;

 private:
  struct SendBatch;
  struct ReceiveBatch;

  UdpSocket(int fd, Ipv4 address);
  static umlx5::Expected<std::unique_ptr<UdpSocket>> create(Ipv4 address);
  void ask_for_headers();
  std::size_t transmit();

  int fd_;
  Ipv4 address_;
  bool segmentation_ = false;  // the kernel splits large buffers
  std::unique_ptr<SendBatch> send_;
  std::unique_ptr<ReceiveBatch> receive_;
};

}  // namespace softhca::wire
