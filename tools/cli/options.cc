#include "tools/cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <vector>

namespace umlx5::tools {
namespace {

constexpr std::string_view kVersion = "0.1.0";
constexpr std::uint32_t kMaxSizeBytes = 1u << 30;
constexpr std::uint64_t kMaxIterations = 1'000'000'000'000;
constexpr int kUsage = 2;

// What CLI11 fills in as text, before it is checked and put into TestOptions.
struct TestArguments {
  TestOptions options;
  std::string op = "write", size;
  std::uint32_t mtu = 0;
  int gid_index = -1;
  double timeout_seconds = 10;
  bool server = false;
};

std::string check_size(const std::string& text) {
  const auto size = parse_size(text);
  return size && *size <= kMaxSizeBytes ? "" : fmt::format("'{}' is not a size from 0 to 1024m", text);
}

void add_test_options(CLI::App& app, TestArguments& arguments, std::vector<std::string> ops) {
  TestOptions& options = arguments.options;
  const bool latency = options.test == Test::kLatency;
  app.add_option("host", options.host, "run the client side, with the server at this host");
  app.add_flag("--server", arguments.server, "run the server side, and wait for a client");
  app.add_option("-p,--port", options.port, "TCP port where the two sides meet")->capture_default_str();
  app.add_option("-o,--op", arguments.op, "operation: " + CLI::detail::join(ops, ", "))
      ->check(CLI::IsMember(ops))
      ->capture_default_str();
  app.add_option("-s,--size", arguments.size, "bytes of a message, with k or m for more")
      ->check(check_size, "SIZE")
      ->default_str(latency ? "2; atomic: 8" : "64k");
  app.add_option("-n,--iters", options.iterations, "messages that are measured")
      ->check(CLI::Range(std::uint64_t{1}, kMaxIterations))
      ->capture_default_str();
  app.add_option("-w,--warmup", options.warmup, "messages before those")
      ->check(CLI::Range(std::uint64_t{0}, kMaxIterations))
      ->capture_default_str();
  app.add_flag("-I,--inline", options.send_inline, "put the payload into the WQE");
  if (latency) {
    app.add_flag("-e,--events", options.events, "sleep until a completion event instead of polling");
  } else {
    app.add_option("-t,--depth", options.depth, "messages under way at once")
        ->check(CLI::Range(1u, 8192u))
        ->capture_default_str();
  }
  app.add_option("-d,--device", options.device, "device name, or soft for a software device");
  app.add_option("-i,--ib-port", options.device_port, "the device's port")
      ->check(CLI::Range(1, 255))
      ->capture_default_str();
  app.add_option("-x,--gid-index", arguments.gid_index, "GID to use; the first RoCE v2 one if not given")
      ->check(CLI::Range(0, 255));
  app.add_option("-m,--mtu", arguments.mtu, "path MTU in bytes; the port's if not given")
      ->check(CLI::IsMember(std::vector<std::uint32_t>{256, 512, 1024, 2048, 4096}));
  app.add_option("--seed", options.seed, "the payloads' seed")->capture_default_str();
  app.add_option("--timeout", arguments.timeout_seconds, "seconds to wait for the other side")
      ->check(CLI::Range(0.01, 86400.0))
      ->check([](const std::string& text) {  // which the range lets pass
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? "'" + text + "' is not a number of seconds" : "";
      })
      ->capture_default_str();
  app.add_option("--json", options.json_path, "write the result to this file; - for standard output");
  app.add_option("--exchange-fd", options.exchange_fd)->group("");
  app.add_option("--report-fd", options.report_fd)->group("");
}

// What the options say together. Empty if they fit.
std::string refuse(const TestOptions& options) {
  if (options.role == Role::kServer && !options.host.empty()) {
    return "--server takes no host";
  }
  if (options.op == Op::kAtomic && options.size_bytes != 8) {
    return fmt::format("--op atomic works on 8 bytes, not on --size {}", options.size_bytes);
  }
  if (options.send_inline && (options.op == Op::kRead || options.op == Op::kAtomic)) {
    return fmt::format("--op {} carries no payload to put --inline", to_string(options.op));
  }
  if (options.test == Test::kBandwidth && options.size_bytes == 0) {
    return "--size 0 has no bandwidth";
  }
  return {};
}

std::optional<Answer> finish(TestArguments& arguments) {
  TestOptions& options = arguments.options;
  static const std::map<std::string, Op, std::less<>> kOps = {
      {"write", Op::kWrite}, {"send", Op::kSend}, {"read", Op::kRead}, {"atomic", Op::kAtomic}};
  options.op = kOps.at(arguments.op);
  options.size_bytes = !arguments.size.empty()            ? *parse_size(arguments.size)
                       : options.test == Test::kBandwidth ? 65536
                       : options.op == Op::kAtomic        ? 8
                                                          : 2;
  options.role = arguments.server ? Role::kServer : options.host.empty() ? Role::kAlone : Role::kClient;
  if (options.exchange_fd >= 0 && !arguments.server) {
    options.role = Role::kClient;
  }
  if (arguments.mtu != 0) {
    for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
      options.mtu = bytes_of(mtu) == arguments.mtu ? mtu : options.mtu;
    }
  }
  if (arguments.gid_index >= 0) {
    options.gid_index = static_cast<std::uint8_t>(arguments.gid_index);
  }
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(arguments.timeout_seconds * 1000));
  if (std::string why = refuse(options); !why.empty()) {
    return Answer{kUsage, fmt::format("umlx5 {}: {}", to_string(options.test), why)};
  }
  return std::nullopt;
}

// CLI11's messages may have several lines.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

Answer answer_of(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* used = &app;
  std::string name = "umlx5";
  while (!used->get_subcommands().empty()) {
    used = used->get_subcommands().front();
    name += " " + used->get_name();
  }
  if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
    return {0, used->help(name)};
  }
  if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) {
    return {0, fmt::format("umlx5 {}\n", kVersion)};
  }
  return {kUsage, fmt::format("{}: {}; --help tells more", name, one_line(error.what()))};
}

}  // namespace

std::string_view to_string(Test test) { return test == Test::kLatency ? "lat" : "bw"; }

std::string_view to_string(Op op) {
  switch (op) {
    case Op::kWrite:
      return "write";
    case Op::kSend:
      return "send";
    case Op::kRead:
      return "read";
    case Op::kAtomic:
      return "atomic";
  }
  return "?";
}

std::optional<std::uint32_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value > UINT32_MAX) {
    return std::nullopt;
  }
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit == "k" || unit == "K") {
    value <<= 10;
  } else if (unit == "m" || unit == "M") {
    value <<= 20;
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  return value <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

CommandLine parse_command_line(std::span<const std::string> arguments) {
  CLI::App app("Tools for mlx5 devices, real and software ones", "umlx5");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);

  TestArguments latency, bandwidth;
  latency.options.test = Test::kLatency;
  latency.options.iterations = 10'000;
  latency.options.warmup = 1'000;
  bandwidth.options.test = Test::kBandwidth;
  bandwidth.options.iterations = 5'000;
  bandwidth.options.warmup = 200;
  bandwidth.options.depth = 64;
  CLI::App* lat = app.add_subcommand("lat", "measure latency by a ping-pong, and check every byte of it");
  add_test_options(*lat, latency, {"write", "send", "read", "atomic"});
  CLI::App* bw = app.add_subcommand("bw", "measure one-way bandwidth");
  add_test_options(*bw, bandwidth, {"write", "send"});

  DevinfoOptions devinfo;
  CLI::App* info = app.add_subcommand("devinfo", "show devices, their limits, and what create_qp takes");
  info->add_option("-d,--device", devinfo.device, "only this device");
  info->add_flag("-l,--list", devinfo.list, "only the names");
  info->add_flag("--json", devinfo.json, "as JSON");

  QpCommandOptions qp;
  CLI::App* qp_command = app.add_subcommand("qp", "show what a queue pair would get, or why it would not be made");
  add_qp_options(*qp_command, qp);

  const auto known = [&](const std::string& name) {
    return !app.get_subcommands([&](CLI::App* command) { return command->get_name() == name; }).empty();
  };
  // CLI11 would only say that a command is missing.
  if (!arguments.empty() && !arguments[0].starts_with('-') && !known(arguments[0])) {
    return Answer{kUsage, fmt::format("umlx5: there is no command '{}'; there are lat, bw, devinfo and qp", arguments[0])};
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return answer_of(app, error);
  }
  if (info->parsed()) {
    return devinfo;
  }
  if (qp_command->parsed()) {
    return qp;
  }
  TestArguments& test = lat->parsed() ? latency : bandwidth;
  if (auto answer = finish(test)) {
    return *answer;
  }
  return test.options;
}

}  // namespace umlx5::tools
