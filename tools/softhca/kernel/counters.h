// Counters as sysfs shows them, in ports/1/counters and ports/1/hw_counters.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "tools/softhca/kernel/firmware.h"

namespace softhca::kernel {

// Text of an attribute such as "counters/port_xmit_data"; ENOENT, or what the device answers.
std::expected<std::string, int> counter_text(Firmware& firmware, std::string_view path);

}  // namespace softhca::kernel
