#include "tools/cli/run_test.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/cli/bandwidth.h"
#include "tools/cli/devices.h"
#include "tools/cli/exchange.h"
#include "tools/cli/latency.h"
#include "tools/cli/report.h"
#include "tools/cli/side.h"
#include "tools/cli/supervisor.h"

namespace umlx5::tools {
namespace {

using std::chrono::steady_clock;

// On a terminal, a line that says how far a long run is; and reports to the supervisor, if there is one.
class Progress {
 public:
  Progress(const TestOptions& options, Reporter& reporter)
      : reporter_(reporter),
        total_(options.warmup + options.iterations),
        shown_(options.role != Role::kServer && ::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (written_) {
      fmt::print(stderr, "\r{:60}\r", "");
    }
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void tick(std::uint64_t done) {
    const auto now = steady_clock::now();
    if (now < next_) {
      return;
    }
    next_ = now + std::chrono::milliseconds(250);
    reporter_.alive(done);
    if (shown_ && now - start_ > std::chrono::seconds(1)) {
      written_ = true;
      fmt::print(stderr, "\r{} of {} ({} %)", done, total_, done * 100 / total_);
    }
  }

 private:
  Reporter& reporter_;
  std::uint64_t total_;
  bool shown_, written_ = false;
  steady_clock::time_point start_ = steady_clock::now(), next_ = start_;
};

TestTerms terms_of(const TestOptions& options, const Side& side) {
  return {.test = std::string(to_string(options.test)),
          .op = std::string(to_string(options.op)),
          .size_bytes = options.size_bytes,
          .iterations = options.iterations,
          .warmup = options.warmup,
          .depth = options.depth,
          .mtu_bytes = bytes_of(side.mtu),
          .seed = options.seed,
          .events = options.events};
}

Expected<Exchange> reach_other_side(const TestOptions& options) {
  if (options.exchange_fd >= 0) {
    return Exchange(uapi::FileDescriptor(options.exchange_fd));
  }
  if (options.role == Role::kClient) {
    return Exchange::connect(options.host, options.port, options.timeout);
  }
  auto listener = Listener::open(options.port);
  if (!listener) {
    return std::unexpected(listener.error());
  }
  fmt::print(stderr, "waiting for a client at TCP port {}\n", listener->port());
  return listener->accept(milliseconds(-1));
}

Expected<Side> open_side(const TestOptions& options, std::span<uapi::DeviceSource* const> sources) {
  const auto devices = list_devices(sources);
  if (!devices) {
    return std::unexpected(devices.error());
  }
  const bool alone = options.exchange_fd >= 0;
  const auto device = choose_device(*devices, options.device, alone ? Prefer::kSoftware : Prefer::kHardware);
  if (!device) {
    return std::unexpected(device.error());
  }
  return Side::open(*device, options,
                    options.test == Test::kLatency ? latency_needs(options) : bandwidth_needs(options));
}

// Everything after the two sides have met; the other side is told of an error by the caller.
Expected<void> measure(Side& side, Exchange& exchange, const TestOptions& options, Reporter& reporter) {
  const bool text = options.role == Role::kClient && options.json_path != "-";
  if (auto agreed = agree(exchange, terms_of(options, side), options.timeout); !agreed) {
    return agreed;
  }
  const auto peer = swap_addresses(exchange, side.address(), options.timeout);
  if (!peer) {
    return std::unexpected(peer.error());
  }
  if (auto connected = side.connect(*peer); !connected) {
    return connected;
  }
  if (text) {
    fmt::print("{}", headline(options, side));
    std::fflush(stdout);
  }
  std::optional<Progress> progress(std::in_place, options, reporter);
  const auto tick = [&](std::uint64_t done) { progress->tick(done); };
  nlohmann::json json;
  std::string report;
  if (options.test == Test::kLatency) {
    const auto result = run_latency(side, *peer, exchange, options, tick);
    if (!result) {
      return std::unexpected(result.error());
    }
    report = text_of(*result, options, draw_options_for(STDOUT_FILENO));
    json = json_of(*result, options, side);
  } else {
    const auto result = run_bandwidth(side, *peer, exchange, options, tick);
    if (!result) {
      return std::unexpected(result.error());
    }
    report = text_of(*result, options);
    json = json_of(*result, options, side);
  }
  progress.reset();
  if (text) {
    fmt::print("{}", report);
    std::fflush(stdout);
  }
  return options.role == Role::kClient && !options.json_path.empty() ? write_json(json, options.json_path)
                                                                     : Expected<void>();
}

// Whether the file for the result can be written is better known before than after the run.
Expected<void> try_json_path(const TestOptions& options) {
  if (options.json_path.empty() || options.json_path == "-") {
    return {};
  }
  const std::string folder = std::filesystem::path(options.json_path).parent_path();
  const bool exists = ::access(options.json_path.c_str(), F_OK) == 0;
  const std::string& written = exists ? options.json_path : folder.empty() ? std::string(".") : folder;
  return ::access(written.c_str(), W_OK) == 0
             ? Expected<void>()
             : fail(errno, fmt::format("cannot write the result to '{}'", options.json_path));
}

Expected<void> run_side(const TestOptions& options, std::span<uapi::DeviceSource* const> sources, Reporter& reporter) {
  std::optional<Exchange> exchange;
  if (options.exchange_fd >= 0) {  // there from the start: the other side hears of every error
    exchange.emplace(*reach_other_side(options));
  }
  auto ran = [&]() -> Expected<void> {
    auto side = open_side(options, sources);
    if (!side) {
      return std::unexpected(side.error());
    }
    if (!exchange) {
      auto reached = reach_other_side(options);
      if (!reached) {
        return std::unexpected(reached.error());
      }
      exchange.emplace(std::move(*reached));
    }
    return measure(*side, *exchange, options, reporter);
  }();
  if (!ran && exchange) {
    exchange->send_error(line_of(ran.error()));
  }
  return ran;
}

bool is_echo(const Error& error) {
  return error.errno_value == EREMOTEIO || error.errno_value == ECONNRESET || error.errno_value == EPIPE;
}

}  // namespace

int run_test(const TestOptions& options, std::span<const std::string> arguments,
             std::span<uapi::DeviceSource* const> sources) {
  Reporter reporter(options.report_fd);
  auto ran = try_json_path(options);
  if (ran) {
    ran = options.role == Role::kAlone ? run_both_sides(options, arguments) : run_side(options, sources, reporter);
  }
  if (ran) {
    return 0;
  }
  if (options.report_fd >= 0) {
    reporter.failed(line_of(ran.error()), is_echo(ran.error()));  // the supervisor prints it
  } else {
    fmt::print(stderr, "umlx5 {}: {}\n", to_string(options.test), line_of(ran.error()));
  }
  return 1;
}

}  // namespace umlx5::tools
