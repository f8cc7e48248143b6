#include "tools/cli/devinfo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/cli/devices.h"
#include "tools/cli/exchange.h"

namespace umlx5::tools {
namespace {

using Tree = nlohmann::ordered_json;

// The largest value up to `most` that fits, where a smaller one fits if a larger one does; 0 if not even 1 does.
template <typename Fits>
std::uint32_t largest(std::uint32_t most, Fits&& fits) {
  std::uint32_t good = 0, bad = most + 1;
  while (bad - good > 1) {
    const std::uint32_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::string guid(std::uint64_t value) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", value >> 48, value >> 32 & 0xffff, value >> 16 & 0xffff,
                     value & 0xffff);
}

std::string_view state_name(std::uint8_t state) {  // enum ibv_port_state
  static constexpr std::array<std::string_view, 6> kNames = {"nop",   "down",   "init",
                                                             "armed", "active", "active, deferred"};
  return state < kNames.size() ? kNames[state] : "unknown";
}

std::string_view link_name(std::uint8_t layer) {
  return layer == 1 ? "InfiniBand" : layer == 2 ? "Ethernet" : "unknown";
}

std::string_view gid_type_name(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "unknown";
}

Tree describe_port(Context& context, std::uint8_t number) {
  Tree port = {{"port", number}};
  const auto attributes = context.query_port(number);
  if (!attributes) {
    port["error"] = line_of(attributes.error());
    return port;
  }
  port["state"] = state_name(attributes->state);
  port["max_mtu"] = bytes_of(attributes->max_mtu);
  port["active_mtu"] = bytes_of(attributes->active_mtu);
  port["link_layer"] = link_name(attributes->link_layer);
  port["lid"] = attributes->lid;
  port["max_message_bytes"] = attributes->max_message_bytes;
  port["gid_table_length"] = attributes->gid_table_length;
  port["pkey_table_length"] = attributes->pkey_table_length;
  Tree gids = Tree::array();
  for (std::uint32_t i = 0; i < std::min(attributes->gid_table_length, 256u); ++i) {
    if (const auto entry = context.query_gid(number, i); entry && entry->gid != Gid{}) {
      gids.push_back({{"index", i}, {"gid", umlx5::to_string(entry->gid)}, {"type", gid_type_name(entry->type)}});
    }
  }
  port["gids"] = std::move(gids);
  return port;
}

Tree describe_create_qp(const DeviceAttributes& attributes) {
  const QueueLimits limits{.max_send_wqe_bytes = attributes.max_send_wqe_bytes,
                           .max_recv_wqe_bytes = attributes.max_recv_wqe_bytes,
                           .max_send_wqebbs = attributes.max_send_wqebbs,
                           .max_recv_wr = attributes.max_recv_wr,
                           .max_srq_recv_wr = attributes.max_srq_recv_wr};
  Tree types = Tree::array();
  for (const SizedQpType type : {SizedQpType::kRc, SizedQpType::kUc, SizedQpType::kUd, SizedQpType::kRawPacket,
                                 SizedQpType::kXrcSend, SizedQpType::kXrcRecv, SizedQpType::kDci, SizedQpType::kDct}) {
    const QpMaxima maxima = qp_maxima(limits, type);
    types.push_back({{"type", to_string(type)},
                     {"max_send_wr", maxima.send_wr},
                     {"max_send_sge", maxima.send_sge},
                     {"max_inline_bytes", maxima.inline_bytes},
                     {"max_recv_wr", maxima.recv_wr},
                     {"max_recv_sge", maxima.recv_sge}});
  }
  return types;
}

std::string text_of_value(const Tree& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Objects of plain values in an array are a table.
void append_table(const Tree& rows, const std::string& indent, std::string& text) {
  std::vector<std::pair<std::string, std::size_t>> columns;
  for (const auto& [name, first] : rows.front().items()) {
    std::size_t width = name.size();
    for (const Tree& row : rows) {
      width = std::max(width, text_of_value(row.at(name)).size());
    }
    columns.emplace_back(name, width);
  }
  const auto append_row = [&](auto&& value_of) {
    std::string line = indent;
    for (const auto& [name, width] : columns) {
      line += fmt::format("{:<{}}  ", value_of(name), width);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  append_row([](const std::string& name) { return name; });
  for (const Tree& row : rows) {
    append_row([&](const std::string& name) { return text_of_value(row.at(name)); });
  }
}

void append(const Tree& tree, const std::string& indent, std::string& text) {
  for (const auto& [name, value] : tree.items()) {
    if (value.is_object()) {
      text += fmt::format("{}{}:\n", indent, name);
      append(value, indent + "  ", text);
    } else if (!value.is_array()) {
      text += fmt::format("{}{:<{}} {}\n", indent, name + ":", 32 - indent.size(), text_of_value(value));
    } else if (!value.empty()) {
      const bool plain =
          std::none_of(value.begin()->begin(), value.begin()->end(), [](const Tree& v) { return v.is_structured(); });
      text += fmt::format("{}{}:\n", indent, name);
      if (plain) {
        append_table(value, indent + "  ", text);
      } else {
        for (const Tree& item : value) {
          append(item, indent + "  ", text);
        }
      }
    }
  }
}

Expected<Tree> describe(const FoundDevice& device) {
  auto channel = device.source->open(device.info);
  if (!channel) {
    return std::unexpected(std::move(channel.error()));
  }
  auto context = Context::open(device.info, std::move(*channel));
  if (!context) {
    return std::unexpected(std::move(context.error()));
  }
  return describe_device(**context);
}

Tree list_entry(const FoundDevice& device) {
  return {{"name", device.info.name}, {"software", device.info.software}, {"path", device.info.path}};
}

Expected<void> show(const DevinfoOptions& options, std::span<uapi::DeviceSource* const> sources) {
  auto devices = list_devices(sources);
  if (!devices) {
    return std::unexpected(devices.error());
  }
  // Also says so if there is none at all.
  const auto chosen = choose_device(*devices, options.device, Prefer::kHardware);
  if (!chosen) {
    return std::unexpected(chosen.error());
  }
  if (!options.device.empty()) {
    devices->assign({*chosen});
  }
  Tree all = Tree::array();
  for (const FoundDevice& device : *devices) {
    auto described = options.list ? Expected<Tree>(list_entry(device)) : describe(device);
    if (!described) {
      return std::unexpected(std::move(described.error()));
    }
    all.push_back(std::move(*described));
  }
  if (options.json) {
    fmt::print("{}\n", all.dump(2));
    return {};
  }
  for (const Tree& device : all) {
    if (options.list) {
      fmt::print("{}{}\n", device["name"].get<std::string>(), device["software"].get<bool>() ? " (software)" : "");
    } else {
      fmt::print("{}\n", text_of(device));
    }
  }
  return {};
}

}  // namespace

QpMaxima qp_maxima(const QueueLimits& limits, SizedQpType type) {
  const auto most = [&](std::uint32_t QpGeometryRequest::*member, std::uint32_t bound,
                        std::uint32_t QpGeometry::*granted) {
    return largest(bound, [&](std::uint32_t value) {
      QpGeometryRequest request{.type = type};
      const bool sends = member != &QpGeometryRequest::max_recv_wr && member != &QpGeometryRequest::max_recv_sge;
      (sends ? request.max_send_wr : request.max_recv_wr) = 1;
      (sends ? request.max_send_sge : request.max_recv_sge) = 1;
      request.*member = value;
      const auto plan = plan_qp(limits, request);
      // Without a queue of the kind, what was asked for comes back unread.
      return plan && (sends ? plan->max_send_wr : plan->max_recv_wr) != 0 && (*plan).*granted >= value;
    });
  };
  constexpr std::uint32_t kWrBound = 1u << 24, kSgeBound = 1u << 12, kInlineBound = 1u << 16;
  return {.send_wr = most(&QpGeometryRequest::max_send_wr, kWrBound, &QpGeometry::max_send_wr),
          .send_sge = most(&QpGeometryRequest::max_send_sge, kSgeBound, &QpGeometry::max_send_sge),
          .inline_bytes = most(&QpGeometryRequest::max_inline_bytes, kInlineBound, &QpGeometry::max_inline_bytes),
          .recv_wr = most(&QpGeometryRequest::max_recv_wr, kWrBound, &QpGeometry::max_recv_wr),
          .recv_sge = most(&QpGeometryRequest::max_recv_sge, kSgeBound, &QpGeometry::max_recv_sge)};
}

Tree describe_device(Context& context) {
  const uapi::DeviceInfo& device = context.device();
  const DeviceAttributes& attributes = context.attributes();
  Tree tree = {{"name", device.name},
               {"software", device.software},
               {"path", device.path},
               {"firmware_version", attributes.firmware_version},
               {"node_guid", guid(attributes.node_guid)},
               {"system_image_guid", guid(attributes.system_image_guid)},
               {"vendor_id", fmt::format("{:#06x}", attributes.vendor_id)},
               {"vendor_part_id", attributes.vendor_part_id},
               {"hardware_version", attributes.hardware_version},
               {"cqe_version", attributes.cqe_version},
               {"atomics", attributes.atomics}};
  tree["limits"] = {{"max_mr_size_bytes", attributes.max_mr_size_bytes},
                    {"max_qp", attributes.max_qp},
                    {"max_qp_wr", attributes.max_qp_wr},
                    {"max_sge", attributes.max_sge},
                    {"max_sge_rd", attributes.max_sge_rd},
                    {"max_cq", attributes.max_cq},
                    {"max_cqe", attributes.max_cqe},
                    {"max_mr", attributes.max_mr},
                    {"max_pd", attributes.max_pd},
                    {"max_qp_rd_atom", attributes.max_qp_rd_atom},
                    {"max_qp_init_rd_atom", attributes.max_qp_init_rd_atom},
                    {"max_ah", attributes.max_ah},
                    {"max_srq", attributes.max_srq},
                    {"max_srq_wr", attributes.max_srq_wr},
                    {"max_srq_sge", attributes.max_srq_sge}};
  tree["queues"] = {{"max_send_wqe_bytes", attributes.max_send_wqe_bytes},
                    {"max_recv_wqe_bytes", attributes.max_recv_wqe_bytes},
                    {"max_send_wqebbs", attributes.max_send_wqebbs},
                    {"max_recv_wr", attributes.max_recv_wr},
                    {"max_srq_recv_wr", attributes.max_srq_recv_wr},
                    {"blueflame_register_bytes", attributes.blueflame_register_bytes}};
  tree["create_qp"] = describe_create_qp(attributes);
  tree["ports"] = Tree::array();
  for (unsigned port = 1; port <= attributes.port_count; ++port) {
    tree["ports"].push_back(describe_port(context, static_cast<std::uint8_t>(port)));
  }
  return tree;
}

std::string text_of(const Tree& tree) {
  std::string text;
  append(tree, "", text);
  return text;
}

int run_devinfo(const DevinfoOptions& options, std::span<uapi::DeviceSource* const> sources) {
  if (auto shown = show(options, sources); !shown) {
    fmt::print(stderr, "umlx5 devinfo: {}\n", line_of(shown.error()));
    return 1;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace umlx5::tools
