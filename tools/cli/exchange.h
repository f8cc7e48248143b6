// What the two sides of a test tell each other outside the device: lines of JSON over a stream socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "driver/types.h"
#include "uapi/error.h"
#include "uapi/file_descriptor.h"

namespace umlx5::tools {

using std::chrono::milliseconds;

// An error's line for the user: errno 0 in our own errors means that no errno says more than the text.
std::string line_of(const Error& error);

// A message is one line, an object with a member "type"; "error" carries the reason why the other side gives up.
// Not thread-safe.
class Exchange {
 public:
  // Takes over a connected stream socket.
  explicit Exchange(uapi::FileDescriptor socket);

  // Tries all addresses of `host`, and for a moment again if nobody listens there yet. Errors: ECONNREFUSED,
  // ETIMEDOUT and others with host and port in the text; 0 for a name that does not resolve.
  static Expected<Exchange> connect(const std::string& host, std::uint16_t port, milliseconds timeout);

  Expected<void> send(const nlohmann::json& message);
  // Tells the other side why this one gives up; if that fails there is nobody to tell.
  void send_error(std::string_view text);

  // The next message, which must be of `type`. Errors: ECONNRESET (the other side is gone), ETIMEDOUT, EPROTO (not a
  // message, or another type), EREMOTEIO (the other side gave up; the text is its own).
  Expected<nlohmann::json> receive(std::string_view type, milliseconds timeout);

  // Does not wait. An error if the other side is gone or gave up; messages that have come wait for receive().
  Expected<void> check();

  int fd() const { return socket_.get(); }

 private:
  Expected<bool> fill(milliseconds timeout);

  uapi::FileDescriptor socket_;
  std::string received_;
  bool ended_ = false;
};

// Waits for one side on a TCP port of all local addresses.
class Listener {
 public:
  static Expected<Listener> open(std::uint16_t port);
  // A negative timeout waits for ever.
  Expected<Exchange> accept(milliseconds timeout);
  std::uint16_t port() const { return port_; }

 private:
  uapi::FileDescriptor socket_;
  std::uint16_t port_ = 0;
};

// What must be the same on both sides. Both send theirs first and compare.
struct TestTerms {
  std::string test, op;  // "lat" or "bw"; "write", ...
  std::uint64_t size_bytes = 0, iterations = 0, warmup = 0, depth = 0, mtu_bytes = 0, seed = 0;
  bool events = false;
};

// Where a side's queue pair and memory are.
struct SideAddress {
  Gid gid{};
  std::uint32_t qpn = 0, psn = 0;  // 24 bits each
  std::uint64_t memory_address = 0, memory_bytes = 0;
  std::uint32_t rkey = 0;
  std::uint64_t start = 0;  // atomics: the value of the word at memory_address
};

// Errors besides the exchange's: EPROTO if the other side's program has another version or its terms differ; the text
// says in what.
Expected<void> agree(Exchange& exchange, const TestTerms& ours, milliseconds timeout);
Expected<SideAddress> swap_addresses(Exchange& exchange, const SideAddress& ours, milliseconds timeout);
// Both sides come here before either goes on. Gives the other side's number.
Expected<std::uint64_t> meet(Exchange& exchange, std::string_view where, std::uint64_t number, milliseconds timeout);

}  // namespace umlx5::tools
