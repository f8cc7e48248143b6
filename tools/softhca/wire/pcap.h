// Captures of the wire that tshark and Wireshark read: pcapng (draft-ietf-opsawg-pcapng), link type IPV4 (228),
// nanosecond timestamps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/softhca/wire/ip.h"
#include "uapi/error.h"

namespace softhca::wire {

// epb_flags, bits 1..0.
enum class Direction : std::uint8_t { kReceived = 1, kSent = 2 };

// Not thread-safe; several captures, of several processes too, may write to one file at the same time.
class Capture {
 public:
  // Creates `path`, or appends a section to it if it is a pcapng file already. `interface` is the name that tshark
  // shows. Errors: EINVAL (a file that is not pcapng), or what opening or writing gives; each names the path.
  static umlx5::Expected<std::unique_ptr<Capture>> open(const std::string& path, const std::string& interface);

  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Records one packet, BTH .. ICRC, with IPv4 and UDP headers before it, at the present time.
  void add(Direction direction, const Flow& flow, std::uint8_t traffic_class, std::uint8_t hop_limit,
           std::span<const std::byte> packet);

  // Hands all that was added to the kernel in whole blocks, so that a process killed later leaves a readable file. A
  // file that cannot be written any more (disk full) ends the capture, not the device.
  void flush();

 private:
  explicit Capture(int fd) : fd_(fd) {}

  int fd_;
  std::vector<std::byte> pending_;
};

// `path` with every "%p" replaced by the process id.
std::string expand_process_id(std::string path);

}  // namespace softhca::wire
