#include "uapi/device_query.h"

#include <endian.h>
#include <fmt/format.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace umlx5::uapi {
namespace {

constexpr std::size_t kMaxGidTableEntries = 65535 / sizeof(ib_uverbs_gid_entry);  // what an attribute's length holds
static_assert(kMaxGidTableEntries == 2047);

DeviceAttributes finished(DeviceAttributes attributes) {
  attributes.node_guid = be64toh(attributes.core.base.node_guid);
  attributes.system_image_guid = be64toh(attributes.core.base.sys_image_guid);
  return attributes;
}

PortAttributes from_kernel(const QueryPortResponse& from) {
  const ib_uverbs_query_port_resp& base = from.base;
  PortAttributes to;
  to.capability_flags = base.port_cap_flags;
  to.capability_flags2 = from.port_capability_flags2;
  to.max_message_bytes = base.max_msg_sz;
  to.bad_pkey_counter = base.bad_pkey_cntr;
  to.qkey_violation_counter = base.qkey_viol_cntr;
  to.gid_table_entries = base.gid_tbl_len;
  to.pkey_table_entries = base.pkey_tbl_len;
  to.lid = base.lid;
  to.sm_lid = base.sm_lid;
  to.state = base.state;
  to.max_mtu = base.max_mtu;
  to.active_mtu = base.active_mtu;
  to.lmc = base.lmc;
  to.max_vl_num = base.max_vl_num;
  to.sm_sl = base.sm_sl;
  to.subnet_timeout = base.subnet_timeout;
  to.init_type_reply = base.init_type_reply;
  to.active_width = base.active_width;
  to.active_speed = base.active_speed;
  to.active_speed_extended = from.active_speed_extended;
  to.physical_state = base.phys_state;
  to.link_layer = static_cast<LinkLayer>(base.link_layer);
  to.grh_required = (base.flags & IB_UVERBS_QPF_GRH_REQUIRED) != 0;
  return to;
}

GidEntry from_kernel(const ib_uverbs_gid_entry& from) {
  GidEntry to;
  std::memcpy(to.gid.data(), from.gid, to.gid.size());
  to.index = from.gid_index;
  to.port = from.port_num;
  to.type = static_cast<GidType>(from.gid_type);
  to.netdev_ifindex = from.netdev_ifindex;
  return to;
}

// Hexadecimal digits, all of `text`.
template <typename T>
std::optional<T> parse_hex(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Eight groups of four digits, as sysfs writes a GID.
std::optional<std::array<std::uint8_t, 16>> parse_gid(std::string_view text) {
  if (text.size() != 39) return std::nullopt;
  std::array<std::uint8_t, 16> gid{};
  for (std::size_t group = 0; group < 8; ++group) {
    if (group != 0 && text[group * 5 - 1] != ':') return std::nullopt;
    const auto value = parse_hex<std::uint16_t>(text.substr(group * 5, 4));
    if (!value) return std::nullopt;
    gid[group * 2] = static_cast<std::uint8_t>(*value >> 8);
    gid[group * 2 + 1] = static_cast<std::uint8_t>(*value);
  }
  return gid;
}

Expected<GidType> gid_type_from_sysfs(Commands& commands, std::uint8_t port, std::uint32_t index) {
  const auto text = commands.channel().attribute(fmt::format("ports/{}/gid_attrs/types/{}", port, index));
  if (text && *text == "RoCE v2") return GidType::kRoceV2;
  if (text && *text != "IB/RoCE v1") {
    return fail(EOPNOTSUPP, fmt::format("GID {} of port {}: unknown type \"{}\"", index, port, *text));
  }
  // Ports on InfiniBand answer EINVAL, kernels before GID types have no such file.
  if (!text && text.error() != EINVAL && text.error() != ENOENT) {
    return fail(text.error(), fmt::format("GID {} of port {}: its type cannot be read from sysfs", index, port));
  }
  const auto attributes = query_port(commands, port);
  if (!attributes) return std::unexpected(attributes.error());
  return attributes->link_layer == LinkLayer::kEthernet ? GidType::kRoceV1 : GidType::kInfiniBand;
}

Expected<GidEntry> gid_entry_from_sysfs(Commands& commands, std::uint8_t port, std::uint32_t index) {
  const auto text = commands.channel().attribute(fmt::format("ports/{}/gids/{}", port, index));
  if (!text) return fail(EINVAL, fmt::format("GID {} of port {}: there is no such entry", index, port));
  const auto gid = parse_gid(*text);
  if (!gid) return fail(EINVAL, fmt::format("GID {} of port {}: \"{}\" is no GID", index, port, *text));
  GidEntry entry{.gid = *gid, .index = index, .port = port};
  if (entry.gid == std::array<std::uint8_t, 16>{}) {
    return fail(ENODATA, fmt::format("GID {} of port {}: the entry is empty", index, port));
  }
  const auto type = gid_type_from_sysfs(commands, port, index);
  if (!type) return std::unexpected(type.error());
  entry.type = *type;
  const auto netdev = commands.channel().attribute(fmt::format("ports/{}/gid_attrs/ndevs/{}", port, index));
  if (netdev) entry.netdev_ifindex = ::if_nametoindex(netdev->c_str());
  return entry;
}

Expected<std::vector<GidEntry>> gid_table_from_sysfs(Commands& commands, std::uint8_t ports, std::size_t max_entries) {
  std::vector<GidEntry> table;
  for (unsigned port = 1; port <= ports; ++port) {
    const auto attributes = query_port(commands, static_cast<std::uint8_t>(port));
    if (!attributes) return std::unexpected(attributes.error());
    for (std::uint32_t index = 0; index < attributes->gid_table_entries; ++index) {
      const auto entry = gid_entry_from_sysfs(commands, static_cast<std::uint8_t>(port), index);
      if (!entry && entry.error().errno_value == ENODATA) continue;
      if (!entry) return std::unexpected(entry.error());
      if (table.size() == max_entries) {
        return fail(EINVAL, fmt::format("GID table: it has more than the {} entries asked for", max_entries));
      }
      table.push_back(*entry);
    }
  }
  return table;
}

}  // namespace

Expected<DeviceAttributes> query_device(Commands& commands, bool driver_part) {
  DeviceAttributes attributes;
  ib_uverbs_ex_query_device extended{};
  const auto done =
      commands.write({.name = "QUERY_DEVICE",
                      .number = IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
                      .extended = true,
                      .core_in = writable_bytes_of(extended),
                      .core_out = writable_bytes_of(attributes.core),
                      .driver_out = driver_part ? writable_bytes_of(attributes.driver) : std::span<std::byte>{}});
  if (done) {
    attributes.extended = true;
    return finished(attributes);
  }
  if (done.error().errno_value != EOPNOTSUPP && done.error().errno_value != ENOSYS) {
    return std::unexpected(done.error());
  }
  attributes = DeviceAttributes{};
  ib_uverbs_query_device core{};
  const auto old = commands.write({.name = "QUERY_DEVICE",
                                   .number = IB_USER_VERBS_CMD_QUERY_DEVICE,
                                   .core_in = writable_bytes_of(core),
                                   .core_out = writable_bytes_of(attributes.core.base)});
  if (!old) return std::unexpected(old.error());
  return finished(attributes);
}

Expected<PortAttributes> query_port(Commands& commands, std::uint8_t port) {
  QueryPortResponse answer{};
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, "QUERY_PORT");
  request.constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, port).output(UVERBS_ATTR_QUERY_PORT_RESP, answer);
  ib_uverbs_query_port core{};
  core.port_num = port;
  const auto done = commands.method_or_write(request, {.name = "QUERY_PORT",
                                                       .number = IB_USER_VERBS_CMD_QUERY_PORT,
                                                       .core_in = writable_bytes_of(core),
                                                       .core_out = writable_bytes_of(answer.base)});
  if (!done) return std::unexpected(done.error());
  return from_kernel(answer);
}

Expected<GidEntry> query_gid_entry(Commands& commands, std::uint8_t port, std::uint32_t index) {
  ib_uverbs_gid_entry answer{};
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, "QUERY_GID_ENTRY");
  request.constant(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port)
      .constant(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index)
      .input(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, std::uint32_t{0})
      .output(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, answer);
  const auto by_method = commands.try_method(request);
  if (!by_method) return std::unexpected(by_method.error());
  return *by_method ? from_kernel(answer) : gid_entry_from_sysfs(commands, port, index);
}

Expected<std::vector<GidEntry>> query_gid_table(Commands& commands, std::uint8_t ports, std::size_t max_entries) {
  if (max_entries == 0 || max_entries > kMaxGidTableEntries) {
    return fail(EINVAL,
                fmt::format("GID table: {} entries asked for, possible are 1 to {}", max_entries, kMaxGidTableEntries));
  }
  std::vector<ib_uverbs_gid_entry> answer(max_entries);
  std::uint64_t count = 0;
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, "QUERY_GID_TABLE");
  request.constant(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, sizeof(ib_uverbs_gid_entry))
      .input(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, std::uint32_t{0})
      .output_bytes(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, std::as_writable_bytes(std::span(answer)))
      .output(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count);
  const auto by_method = commands.try_method(request);
  if (!by_method) return std::unexpected(by_method.error());
  if (!*by_method) return gid_table_from_sysfs(commands, ports, max_entries);
  std::vector<GidEntry> table(std::min<std::uint64_t>(count, max_entries));
  std::transform(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(table.size()), table.begin(),
                 [](const ib_uverbs_gid_entry& entry) { return from_kernel(entry); });
  return table;
}

Expected<std::uint16_t> query_pkey(Commands& commands, std::uint8_t port, std::uint16_t index) {
  const auto text = commands.channel().attribute(fmt::format("ports/{}/pkeys/{}", port, index));
  if (!text) return fail(EINVAL, fmt::format("P_Key {} of port {}: there is no such entry", index, port));
  const std::string_view digits = text->starts_with("0x") ? std::string_view(*text).substr(2) : std::string_view{};
  const auto pkey = parse_hex<std::uint16_t>(digits);
  if (!pkey) return fail(EINVAL, fmt::format("P_Key {} of port {}: \"{}\" is no number", index, port, *text));
  return *pkey;
}

}  // namespace umlx5::uapi
