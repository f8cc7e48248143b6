#include "driver/verbs/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "driver/log.h"
#include "uapi/devx.h"

namespace umlx5::verbs {

int report(const Error& error) {
  if (log_enabled(LogLevel::kInfo)) {
    log(LogLevel::kInfo, error.message());
  }
  errno = error.errno_value;
  return error.errno_value;
}

Error as_firmware_error(Error error) {
  if (error.errno_value == EREMOTEIO && error.firmware_status != 0) {
    error.errno_value = uapi::firmware_status_errno(error.firmware_status);
  }
  return error;
}

int unsupported(const char* call) {
  return report({.errno_value = EOPNOTSUPP, .what = fmt::format("{}: this library does not have it", call)});
}

}  // namespace umlx5::verbs
