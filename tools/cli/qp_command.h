// `umlx5 qp`: what a queue pair with given attributes would get, or why it would not be made.
#pragma once

#include <span>

#include "tools/cli/qp_options.h"
#include "uapi/channel.h"

namespace umlx5::tools {

// The exit code. A refusal is one line on standard error; with --json it is on standard output too.
int run_qp(const QpCommandOptions& options, std::span<uapi::DeviceSource* const> sources);

}  // namespace umlx5::tools
