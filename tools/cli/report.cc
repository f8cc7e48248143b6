#include "tools/cli/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

namespace umlx5::tools {
namespace {

using nlohmann::json;

constexpr std::string_view kSoftwareNote = "software device: times say nothing about a NIC";

double microseconds(double nanoseconds) { return nanoseconds / 1000.0; }

std::string_view measure_of(const TestOptions& options) {
  return is_one_sided(options) ? "round trip" : "half round trip";
}

json common_json(const TestOptions& options, const Side& side) {
  json result = {{"test", to_string(options.test)},
                 {"op", to_string(options.op)},
                 {"size", options.size_bytes},
                 {"iterations", options.iterations},
                 {"warmup", options.warmup},
                 {"inline", options.send_inline},
                 {"mtu", bytes_of(side.mtu)},
                 {"seed", options.seed},
                 {"device", {{"name", side.device.name}, {"software", side.device.software}}}};
  if (side.device.software) {
    result["note"] = kSoftwareNote;
  }
  return result;
}

}  // namespace

std::string headline(const TestOptions& options, const Side& side) {
  std::string how = options.test == Test::kBandwidth ? fmt::format("{} under way", options.depth)
                    : options.events                 ? "completion events"
                                                     : "polling";
  if (options.send_inline) {
    how += ", inline";
  }
  if (options.op == Op::kWrite && options.test == Test::kLatency && uses_receives(options)) {
    how += ", with immediate";
  }
  return fmt::format("umlx5 {}: {} of {} bytes, {} times after {} to warm up, {}, MTU {}\ndevice {}, firmware {}{}\n",
                     to_string(options.test), to_string(options.op), options.size_bytes, options.iterations,
                     options.warmup, how, bytes_of(side.mtu), side.device.name,
                     side.context->attributes().firmware_version,
                     side.device.software ? fmt::format(" ({})", kSoftwareNote) : "");
}

std::string text_of(const LatencyResult& result, const TestOptions& options, const DrawOptions& draw_options) {
  const Histogram& times = result.times;
  const auto us = [](std::uint64_t nanoseconds) { return microseconds(static_cast<double>(nanoseconds)); };
  std::string text = "\n" + draw(times, draw_options) + "\n";
  text += fmt::format("{:<16} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", measure_of(options), "min", "p50", "p99",
                      "p99.9", "max", "mean", "stdev");
  text += fmt::format("{:<16} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", "microseconds",
                      us(times.min()), us(times.percentile(50)), us(times.percentile(99)), us(times.percentile(99.9)),
                      us(times.max()), microseconds(times.mean()), microseconds(times.stdev()));
  if (times.clamped() != 0) {
    text += fmt::format("{} times were longer than 100 s and count as that\n", times.clamped());
  }
  return text + fmt::format("verified: {} of {}\n", result.verified, options.iterations);
}

json json_of(const LatencyResult& result, const TestOptions& options, const Side& side) {
  const Histogram& times = result.times;
  const auto us = [](std::uint64_t nanoseconds) { return microseconds(static_cast<double>(nanoseconds)); };
  json value = common_json(options, side);
  value["verified"] = result.verified;
  value["measure"] = measure_of(options);
  value["mode"] = options.events ? "events" : "polling";
  value["latency_us"] = {{"min", us(times.min())},
                         {"p50", us(times.percentile(50))},
                         {"p99", us(times.percentile(99))},
                         {"p999", us(times.percentile(99.9))},
                         {"max", us(times.max())},
                         {"mean", microseconds(times.mean())},
                         {"stdev", microseconds(times.stdev())}};
  return value;
}

namespace {

struct Rates {
  double bytes_per_second = 0, messages_per_second = 0;
};

Rates rates_of(const BandwidthResult& result, const TestOptions& options) {
  const double seconds = std::chrono::duration<double>(result.time).count();
  const double messages = seconds > 0 ? static_cast<double>(options.iterations) / seconds : 0;
  return {messages * options.size_bytes, messages};
}

}  // namespace

std::string text_of(const BandwidthResult& result, const TestOptions& options) {
  const Rates rates = rates_of(result, options);
  return fmt::format("\n{:.1f} MB/s ({:.3f} Gbit/s), {:.0f} messages/s\nverified: {} of {} buffers at the end\n",
                     rates.bytes_per_second / 1e6, rates.bytes_per_second * 8 / 1e9, rates.messages_per_second,
                     result.verified_buffers, result.buffers);
}

json json_of(const BandwidthResult& result, const TestOptions& options, const Side& side) {
  const Rates rates = rates_of(result, options);
  json value = common_json(options, side);
  value["depth"] = options.depth;
  value["verified_buffers"] = result.verified_buffers;
  value["buffers"] = result.buffers;
  value["bandwidth"] = {{"bytes_per_second", rates.bytes_per_second},
                        {"messages_per_second", rates.messages_per_second}};
  return value;
}

Expected<void> write_json(const json& value, const std::string& path) {
  const std::string text = value.dump(2) + "\n";
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0 ? Expected<void>() : fail(errno, "cannot write to standard output");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "we"), &std::fclose);
  if (file == nullptr) {
    return fail(errno, fmt::format("cannot write the result to '{}'", path));
  }
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0) {
    return fail(errno, fmt::format("cannot write the result to '{}'", path));
  }
  return {};
}

}  // namespace umlx5::tools
