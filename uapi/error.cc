#include "uapi/error.h"

#include <fmt/format.h>

#include <cstring>

namespace umlx5 {

std::string Error::message() const {
  const char* name = strerrorname_np(errno_value);
  std::string text =
      fmt::format("{}: {} ({})", what, strerrordesc_np(errno_value) ? strerrordesc_np(errno_value) : "unknown error",
                  name ? name : "?");
  if (firmware_status != 0 || firmware_syndrome != 0) {
    text += fmt::format(", device status {:#04x} syndrome {:#010x}", firmware_status, firmware_syndrome);
  }
  return text;
}

}  // namespace umlx5
