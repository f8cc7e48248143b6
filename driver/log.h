// What the driver tells a person on stderr, as far as the environment variable UMLX5_LOG asks for it:
// "error", "info" or "debug"; nothing without it. Never called from posting or polling that goes well. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace umlx5 {

enum class LogLevel : std::uint8_t { kOff = 0, kError = 1, kInfo = 2, kDebug = 3 };

// kOff for text that names no level.
LogLevel parse_log_level(std::string_view text);

// UMLX5_LOG as it was when the process first asked.
LogLevel log_level();

inline bool log_enabled(LogLevel level) { return level <= log_level(); }

// One line, "umlx5 error: ...", if the level is enabled.
void log(LogLevel level, std::string_view text);

}  // namespace umlx5
