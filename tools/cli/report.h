// What a test tells: the text for a person, and the JSON for a program.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/cli/bandwidth.h"
#include "tools/cli/latency.h"
#include "tools/cli/options.h"
#include "tools/cli/side.h"
#include "tools/hdr/draw.h"
#include "uapi/error.h"

namespace umlx5::tools {

// What runs, on which device; printed before it runs.
std::string headline(const TestOptions& options, const Side& side);

std::string text_of(const LatencyResult& result, const TestOptions& options, const DrawOptions& draw_options);
std::string text_of(const BandwidthResult& result, const TestOptions& options);
nlohmann::json json_of(const LatencyResult& result, const TestOptions& options, const Side& side);
nlohmann::json json_of(const BandwidthResult& result, const TestOptions& options, const Side& side);

// Writes `value` to `path`, "-" for standard output. Errors: errno, with the path in the text.
Expected<void> write_json(const nlohmann::json& value, const std::string& path);

}  // namespace umlx5::tools
