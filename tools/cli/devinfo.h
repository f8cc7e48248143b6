// `umlx5 devinfo`: what the devices are, and what they allow.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "driver/context.h"
#include "driver/qp_geometry.h"
#include "tools/cli/options.h"
#include "uapi/channel.h"

namespace umlx5::tools {

// The most that plan_qp() grants of each, asked for alone: the others are 1, inline data 0. 0 for what a type has not.
struct QpMaxima {
  std::uint32_t send_wr = 0, send_sge = 0, inline_bytes = 0, recv_wr = 0, recv_sge = 0;
  friend bool operator==(const QpMaxima&, const QpMaxima&) = default;
};
QpMaxima qp_maxima(const QueueLimits& limits, SizedQpType type);

// A device as a tree of names and values, in the order they are shown in.
nlohmann::ordered_json describe_device(Context& context);
// The tree as lines "name: value", deeper levels indented.
std::string text_of(const nlohmann::ordered_json& tree);

// The exit code. An error is one line on standard error.
int run_devinfo(const DevinfoOptions& options, std::span<uapi::DeviceSource* const> sources);

}  // namespace umlx5::tools
