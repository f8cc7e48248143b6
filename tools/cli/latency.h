// The ping-pong of `umlx5 lat`.
#pragma once

#include <cstdint>
#include <functional>

#include "tools/cli/exchange.h"
#include "tools/cli/options.h"
#include "tools/cli/side.h"
#include "tools/hdr/histogram.h"

namespace umlx5::tools {

struct LatencyResult {
  Histogram times;             // nanoseconds; empty at the server
  std::uint64_t verified = 0;  // measured iterations whose payload was right here and at the other side
};

// True if a message makes a receive completion at the other side: sends, and those writes whose arrival polling memory
// cannot show (with --events, and of no bytes), which then carry an immediate.
bool uses_receives(const TestOptions& options);
// True if only the client works: read and atomic. Then a time is that of the whole round trip, else of half of it.
bool is_one_sided(const TestOptions& options);

SideNeeds latency_needs(const TestOptions& options);

// Runs this side's part; `side` is connected. `peer` is where the other side's memory is. Errors: the driver's and the
// exchange's; 0 for a payload that is not what was sent, with iteration, offset, got and want in the text.
Expected<LatencyResult> run_latency(Side& side, const SideAddress& peer, Exchange& exchange, const TestOptions& options,
                                    const std::function<void(std::uint64_t done)>& tick);

}  // namespace umlx5::tools
