#include "tools/softhca/kernel/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace softhca::kernel {
namespace {

LogLevel level_from_environment() {
  const char* const text = std::getenv("UMLX5_LOG");
  const std::string_view name = text == nullptr ? "" : text;
  if (name == "debug") {
    return LogLevel::kDebug;
  }
  if (name == "info") {
    return LogLevel::kInfo;
  }
  return name == "warning" ? LogLevel::kWarning : LogLevel::kError;
}

}  // namespace

bool log_enabled(LogLevel level) {
  static const LogLevel enabled = level_from_environment();
  return level <= enabled;
}

void log(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) {
    return;
  }
  const int saved = errno;
  std::string line = "softhca: ";
  line += text;
  line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  errno = saved;
}

}  // namespace softhca::kernel
