// One RDMA device as the kernel presents it: what mlx5_core and mlx5_ib know of a device, whoever opens it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tools/softhca/kernel/clock_info.h"
#include "tools/softhca/kernel/device_resources.h"
#include "tools/softhca/kernel/event_hub.h"
#include "tools/softhca/kernel/firmware.h"
#include "tools/softhca/kernel/flow_rules.h"
#include "uapi/error.h"
#include "wqe/prm/cap.h"

namespace softhca::kernel {

// What a driver learns from the PCI function, the initialization segment and the network interface.
struct Identity {
  std::string name = "mlx5_0";
  std::uint16_t vendor_id = 0x15b3;
  std::uint16_t device_id = 0x101d;
  std::string board_id;
  std::array<std::uint16_t, 3> firmware{};
  std::uint64_t node_guid = 0;     // host order
  std::uint32_t ipv4_address = 0;  // host order; the port's address
};

// The device's capabilities that matter here, under their PRM names.
struct Capabilities {
  std::uint8_t log_max_qp = 0, log_max_qp_sz = 0, log_max_cq = 0, log_max_cq_sz = 0, log_max_srq = 0,
               log_max_srq_sz = 0, log_max_mkey = 0, log_max_pd = 0, log_max_mcg = 0, log_max_msg = 0, log_max_uctx = 0,
               log_max_ra_req_qp = 0, log_max_ra_res_qp = 0, log_bf_reg_size = 0, local_ca_ack_delay = 0,
               log_max_dci_streams = 0, log_max_dci_errored_streams = 0, cqe_version = 0;
  std::uint16_t max_wqe_sz_sq = 0, max_wqe_sz_rq = 0;  // bytes
  std::uint16_t cqe_compression_max_num = 0;
  std::uint32_t max_qp_mcg = 0, device_frequency_khz = 0;
  bool bf = false, ece_support = false, pkv = false, qkv = false, apm = false, rc = false, uc = false, ud = false,
       xrc = false, cq_moderation = false, cq_resize = false, cqe_compression = false, cqe_compression_128 = false,
       mini_cqe_resp_stride_index = false, cqe_128_always = false, qp_packet_based = false, sctr_data_cqe = false,
       block_lb_mc = false, imaicl = false, drain_sigerr = false, dct = false, memic = false;
  // Out-of-order placement, by service type.
  bool ooo_rc = false, ooo_uc = false, ooo_ud = false, ooo_xrc = false, ooo_dc = false;
  bool odp = false, implicit_odp = false;
  std::uint32_t odp_rc = 0, odp_uc = 0, odp_ud = 0, odp_xrc = 0;  // PRM bits
  std::uint64_t memic_start = 0;                                  // in the BAR
  std::uint32_t memic_bytes = 0;
  std::uint8_t log_max_memic_alignment = 0;  // of 64 bytes
  // Raw packets.
  bool raw_packets = false, raw_checksums = false, vlan_stripping = false, tunnel_offloads = false,
       nic_flow_table = false, striding_rq = false, few_strides = false;
  std::uint32_t min_log_strides() const { return few_strides ? 3 : 9; }  // of a receive WQE
  std::uint8_t log_max_large_send = 0, log_max_rq = 0, log_max_rqt = 0, log_max_rqt_size = 0;
  bool atomic_64_bits = false;  // compare-and-swap and fetch-and-add of 8 bytes
};

// Of striding receive queues, as mlx5_ib has them.
inline constexpr std::uint32_t kMinLogStrideBytes = 6, kMaxLogStrideBytes = 13, kMaxLogStrides = 16;

using Gid = std::array<std::uint8_t, 16>;

// ::ffff:a.b.c.d of an address in host order.
Gid gid_of_ipv4(std::uint32_t address);

// True for the GID of a multicast group, also one of IPv4.
bool is_multicast(const Gid& gid);

// The Ethernet address that stands for a RoCE peer or group; none if the GID has no route from here.
std::optional<std::array<std::uint8_t, 6>> mac_of_gid(const Gid& gid);

struct QpCommon;

// An XRC target that others may open by its number.
struct XrcTarget {
  std::uint16_t uid = 0;  // DEVX user that made it
  std::weak_ptr<QpCommon> common;
};

// An XRC domain on the device; freed with the last that has it open.
struct XrcDomain {
  XrcDomain(Firmware& device_firmware, std::uint32_t xrcdn) : firmware(device_firmware), number(xrcdn) {}
  ~XrcDomain();
  XrcDomain(const XrcDomain&) = delete;
  XrcDomain& operator=(const XrcDomain&) = delete;

  Firmware& firmware;
  const std::uint32_t number;
  std::map<std::uint32_t, XrcTarget> targets;  // by QPN
};

class RdmaDevice {
 public:
  // Brings the device up. `firmware` outlives it.
  static umlx5::Expected<std::unique_ptr<RdmaDevice>> start(Firmware& firmware, const Identity& identity);
  ~RdmaDevice();

  Firmware& firmware() { return firmware_; }
  EventHub& events() { return *events_; }
  const Identity& identity() const { return identity_; }
  const Capabilities& caps() const { return caps_; }
  std::uint32_t gid_table_entries() const { return gid_table_entries_; }
  std::uint32_t ieee_vendor_id() const { return ieee_vendor_id_; }
  // Key that gathers zeros and scatters into nothing; 0 if the device has none.
  std::uint32_t dump_fill_mkey() const { return dump_fill_mkey_; }

  // The port's GID, none for an empty index. The port has one address, as a GID of RoCE v2 first: programs that take
  // index 0 send packets that others understand (wire/packet.h on RoCE v1).
  std::optional<Gid> gid(std::uint32_t index) const;
  static bool is_roce_v1(std::uint32_t index) { return index == kRoceV1Index; }

  // Text of a sysfs attribute of the device ("ports/1/gids/0"); ENOENT or what reading the real one gives.
  std::expected<std::string, int> attribute(std::string_view path) const;

  // Commands of all files run one at a time.
  std::mutex& command_mutex() { return command_mutex_; }

  // True in the process that started the device; a forked child has no device.
  bool is_own_process() const;

  // A program's mapping of the page that tells how the device's clock relates to the time of day, as it is now. Errno.
  std::expected<std::byte*, int> map_clock_info();

  FlowRules& flows() { return *flows_; }
  const DeviceResources& resources() const { return *resources_; }
  // The open XRC domain that stands for a file, by its device and inode; empty if none is open. A device belongs to one
  // process, and so does what the file stands for.
  std::weak_ptr<XrcDomain>& xrc_domain_of(dev_t device, ino_t inode) { return xrc_domains_[{device, inode}]; }

  // Which pages of the memory on the device are taken.
  std::span<bool> memic_pages() { return {memic_pages_.get(), caps_.memic_bytes / 4096}; }

  std::uint8_t next_mkey_variant() { return mkey_variant_++; }

 private:
  static constexpr std::uint32_t kRoceV2Index = 0, kRoceV1Index = 1;

  RdmaDevice(Firmware& firmware, const Identity& identity);
  int bring_up();
  int query_capabilities();
  int query_raw_packets();
  int query_ordering(const umlx5::wqe::prm::GeneralCapabilities& general);
  int set_gid(std::uint32_t index);

  Firmware& firmware_;
  Identity identity_;
  std::uint64_t generation_;  // of the process that started the device
  Capabilities caps_;
  std::uint32_t gid_table_entries_ = 0;
  std::uint32_t ieee_vendor_id_ = 0;
  std::uint32_t dump_fill_mkey_ = 0;
  std::uint8_t mkey_variant_ = 1;
  std::unique_ptr<EventHub> events_;
  std::unique_ptr<DeviceResources> resources_;
  std::unique_ptr<FlowRules> flows_;
  ClockInfo clock_info_;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<XrcDomain>> xrc_domains_;
  std::unique_ptr<bool[]> memic_pages_;
  std::mutex command_mutex_;
};

}  // namespace softhca::kernel
