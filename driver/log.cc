#include "driver/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace umlx5 {
namespace {

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kInfo:
      return "info";
    default:
      return "debug";
  }
}

}  // namespace

LogLevel parse_log_level(std::string_view text) {
  for (const LogLevel level : {LogLevel::kError, LogLevel::kInfo, LogLevel::kDebug}) {
    if (text == name_of(level)) {
      return level;
    }
  }
  return LogLevel::kOff;
}

LogLevel log_level() {
  static const LogLevel level = [] {
    const char* text = std::getenv("UMLX5_LOG");
    return text == nullptr ? LogLevel::kOff : parse_log_level(text);
  }();
  return level;
}

void log(LogLevel level, std::string_view text) {
  if (level == LogLevel::kOff || !log_enabled(level)) {
    return;
  }
  const std::string line = fmt::format("umlx5 {}: {}\n", name_of(level), text);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());  // one call: lines stay whole
}

}  // namespace umlx5
