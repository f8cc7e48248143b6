// `umlx5 lat` and `umlx5 bw`: one side, or both as processes.
#pragma once

#include <span>
#include <string>

#include "tools/cli/options.h"
#include "uapi/channel.h"

namespace umlx5::tools {

// The exit code. An error is one line on standard error.
int run_test(const TestOptions& options, std::span<const std::string> arguments,
             std::span<uapi::DeviceSource* const> sources);

}  // namespace umlx5::tools
