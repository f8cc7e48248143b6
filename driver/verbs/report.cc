#include "driver/verbs/report.h"

#include <fmt/format.h>

#include <cerrno>

#include "driver/log.h"

namespace umlx5::verbs {

int report(const Error& error) {
  if (log_enabled(LogLevel::kInfo)) {
    log(LogLevel::kInfo, error.message());
  }
  errno = error.errno_value;
  return error.errno_value;
}

int unsupported(const char* call) {
  return report({.errno_value = EOPNOTSUPP, .what = fmt::format("{}: this library does not have it", call)});
}

}  // namespace umlx5::verbs
