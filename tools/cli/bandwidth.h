// The one-way stream of `umlx5 bw`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "tools/cli/exchange.h"
#include "tools/cli/options.h"
#include "tools/cli/side.h"

namespace umlx5::tools {

struct BandwidthResult {
  std::chrono::nanoseconds time{};     // from the first measured post to the last completion; 0 at the server
  std::uint64_t verified_buffers = 0;  // of the server, each as long as a message: those that hold their last message
  std::uint64_t buffers = 0;
};

SideNeeds bandwidth_needs(const TestOptions& options);

// Runs this side's part; `side` is connected. Errors as run_latency().
Expected<BandwidthResult> run_bandwidth(Side& side, const SideAddress& peer, Exchange& exchange,
                                        const TestOptions& options,
                                        const std::function<void(std::uint64_t done)>& tick);

}  // namespace umlx5::tools
