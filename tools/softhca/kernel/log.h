// What the soft device says about itself on standard error.
#pragma once

#include <cstdint>
#include <string_view>

namespace softhca::kernel {

enum class LogLevel : std::uint8_t { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

// True if UMLX5_LOG (error, warning, info or debug; default error) asks for this level. Thread-safe and cheap.
bool log_enabled(LogLevel level);

// One line to standard error, "softhca: " before it. Thread-safe; keeps errno.
void log(LogLevel level, std::string_view text);

}  // namespace softhca::kernel
