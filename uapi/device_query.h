// What a device and its ports are and can do.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/kernel_additions.h"

namespace umlx5::uapi {

struct DeviceAttributes {
  // As the kernel's header describes it, in host order but for the two GUIDs in `base`, which are big-endian and given
  // below in host order. What the kernel does not know is zero, and zero means unsupported.
  ib_uverbs_ex_query_device_resp core{};
  Mlx5QueryDeviceResponse driver{};
  std::uint64_t node_guid = 0;
  std::uint64_t system_image_guid = 0;
  bool extended = false;  // the kernel knew the extended command; if not, only core.base is filled
};

// QUERY_DEVICE, extended; the old form where the kernel lacks that (EOPNOTSUPP, ENOSYS). `driver_part` asks for the
// driver's answer too, which a kernel refuses unless its cmds_supp_uhw has MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE.
Expected<DeviceAttributes> query_device(Commands& commands, bool driver_part = true);

enum class LinkLayer : std::uint8_t { kUnspecified = 0, kInfiniBand = 1, kEthernet = 2 };

// Host units. Codes are those of the InfiniBand specification's PortInfo, as in <infiniband/verbs.h>.
struct PortAttributes {
  std::uint32_t capability_flags = 0;  // enum ib_uverbs_query_port_cap_flags
  std::uint16_t capability_flags2 = 0;
  std::uint32_t max_message_bytes = 0;
  std::uint32_t bad_pkey_counter = 0;
  std::uint32_t qkey_violation_counter = 0;
  std::uint32_t gid_table_entries = 0;
  std::uint16_t pkey_table_entries = 0;
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 0;
  std::uint8_t state = 0;    // 1 down, 2 init, 3 armed, 4 active, 5 active deferred
  std::uint8_t max_mtu = 0;  // 1..5: 256..4096 bytes
  std::uint8_t active_mtu = 0;
  std::uint8_t lmc = 0;
  std::uint8_t max_vl_num = 0;
  std::uint8_t sm_sl = 0;
  std::uint8_t subnet_timeout = 0;
  std::uint8_t init_type_reply = 0;
  std::uint8_t active_width = 0;
  std::uint8_t active_speed = 0;
  std::uint32_t active_speed_extended = 0;
  std::uint8_t physical_state = 0;
  LinkLayer link_layer = LinkLayer::kUnspecified;
  bool grh_required = false;
};

// QUERY_PORT. Ports count from 1.
Expected<PortAttributes> query_port(Commands& commands, std::uint8_t port);

enum class GidType : std::uint32_t { kInfiniBand = 0, kRoceV1 = 1, kRoceV2 = 2 };

struct GidEntry {
  std::array<std::uint8_t, 16> gid{};  // network order
  std::uint32_t index = 0;
  std::uint32_t port = 0;
  GidType type = GidType::kInfiniBand;
  std::uint32_t netdev_ifindex = 0;  // 0 if there is none
};

// One entry of a port's GID table; from sysfs where the kernel lacks the method. ENODATA if the entry is empty.
Expected<GidEntry> query_gid_entry(Commands& commands, std::uint8_t port, std::uint32_t index);

// The entries in use, of all ports, at most `max_entries` of them; `ports` is the device's number of ports. From sysfs
// where the kernel lacks the method. EINVAL if there are more, or max_entries is 0 or above 2047.
Expected<std::vector<GidEntry>> query_gid_table(Commands& commands, std::uint8_t ports, std::size_t max_entries);

// One entry of a port's partition key table, in host order; from sysfs. EINVAL if there is no such entry.
Expected<std::uint16_t> query_pkey(Commands& commands, std::uint8_t port, std::uint16_t index);

}  // namespace umlx5::uapi
