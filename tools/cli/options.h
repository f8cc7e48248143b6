// The command line of the umlx5 program.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "driver/types.h"
#include "tools/cli/qp_options.h"

namespace umlx5::tools {

enum class Test : std::uint8_t { kLatency, kBandwidth };
enum class Op : std::uint8_t { kWrite, kSend, kRead, kAtomic };
// Alone: starts a server and a client of itself. The other two run one side.
enum class Role : std::uint8_t { kAlone, kServer, kClient };
std::string_view to_string(Test test);
std::string_view to_string(Op op);

// Of `umlx5 lat` and `umlx5 bw`.
struct TestOptions {
  Test test = Test::kLatency;
  Role role = Role::kAlone;
  std::string host;  // kClient
  std::uint16_t port = 18515;
  Op op = Op::kWrite;
  std::uint32_t size_bytes = 0;
  std::uint64_t iterations = 0, warmup = 0;
  std::uint32_t depth = 1;  // requests under way at once; bw only
  bool send_inline = false;
  bool events = false;
  std::string device;  // empty: choose
  std::optional<Mtu> mtu;
  std::optional<std::uint8_t> gid_index;
  std::uint8_t device_port = 1;
  std::uint64_t seed = 1;
  std::chrono::milliseconds timeout{10'000};  // the longest wait for the other side
  std::string json_path;                      // empty: none; "-": standard output
  // Given by the program to the sides that it starts: descriptors of the exchange and of the way to report back.
  int exchange_fd = -1, report_fd = -1;
};

struct DevinfoOptions {
  std::string device;  // empty: all
  bool list = false;
  bool json = false;
};

// Nothing to run: `text` is for standard output if exit_code is 0 (help, version), else one line for standard error.
struct Answer {
  int exit_code = 0;
  std::string text;
};

using CommandLine = std::variant<TestOptions, DevinfoOptions, QpCommandOptions, Answer>;

// `arguments` without the program's name. Thread-safe.
CommandLine parse_command_line(std::span<const std::string> arguments);

// "64", "64k" (1024), "1m". No value for anything else or more than 32 bits.
std::optional<std::uint32_t> parse_size(std::string_view text);

}  // namespace umlx5::tools
