#include "tools/softhca/kernel/rdma_device.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "tools/softhca/kernel/counters.h"
#include "tools/softhca/kernel/log.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/pd_uar.h"
#include "wqe/prm/roce.h"

namespace softhca::kernel {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint32_t kCompletionVectors = 4;
constexpr std::array<std::uint8_t, 2> kLocalMacPrefix{0x02, 0x00};

std::array<std::uint8_t, 6> mac_of_ipv4(std::uint32_t address) {
  return {kLocalMacPrefix[0],
          kLocalMacPrefix[1],
          static_cast<std::uint8_t>(address >> 24),
          static_cast<std::uint8_t>(address >> 16),
          static_cast<std::uint8_t>(address >> 8),
          static_cast<std::uint8_t>(address)};
}

std::uint32_t last_32_bits(const Gid& gid) {
  return static_cast<std::uint32_t>(gid[12]) << 24 | gid[13] << 16 | gid[14] << 8 | gid[15];
}

// The structure of one capability group.
template <umlx5::wqe::Structure Capabilities>
std::expected<Capabilities, int> query_group(Firmware& firmware, prm::CapabilityGroup group) {
  const prm::QueryHcaCapIn in{
      .header = {.opcode = prm::Opcode::kQueryHcaCap,
                 .op_mod = static_cast<std::uint16_t>(static_cast<std::uint16_t>(group) << 1 | 1)}};
  std::array<std::byte, prm::QueryHcaCapIn::kBytes> request{};
  umlx5::wqe::store(request.data(), in);
  std::vector<std::byte> reply(prm::kCapabilityOffset + prm::kCapabilityBytes);
  if (const int error = execute_checked(firmware, request, reply); error != 0) {
    return std::unexpected(error);
  }
  return umlx5::wqe::load<Capabilities>(reply.data() + prm::kCapabilityOffset);
}

Capabilities select(const prm::GeneralCapabilities& all) {
  return {.log_max_qp = all.log_max_qp,
          .log_max_qp_sz = all.log_max_qp_sz,
          .log_max_cq = all.log_max_cq,
          .log_max_cq_sz = all.log_max_cq_sz,
          .log_max_srq = all.log_max_srq,
          .log_max_srq_sz = all.log_max_srq_sz,
          .log_max_mkey = all.log_max_mkey,
          .log_max_pd = all.log_max_pd,
          .log_max_mcg = all.log_max_mcg,
          .log_max_msg = all.log_max_msg,
          .log_max_uctx = all.log_max_uctx,
          .log_max_ra_req_qp = all.log_max_ra_req_qp,
          .log_max_ra_res_qp = all.log_max_ra_res_qp,
          .log_bf_reg_size = all.log_bf_reg_size,
          .local_ca_ack_delay = all.local_ca_ack_delay,
          .log_max_dci_streams = all.log_max_dci_stream_channels,
          .log_max_dci_errored_streams = all.log_max_dci_errored_streams,
          .cqe_version = all.cqe_version,
          .max_wqe_sz_sq = all.max_wqe_sz_sq,
          .max_wqe_sz_rq = all.max_wqe_sz_rq,
          .cqe_compression_max_num = all.cqe_compression_max_num,
          .max_qp_mcg = all.max_qp_mcg,
          .device_frequency_khz = all.device_frequency_khz,
          .bf = all.bf,
          .ece_support = all.ece_support,
          .pkv = all.pkv,
          .qkv = all.qkv,
          .apm = all.apm,
          .rc = all.rc,
          .uc = all.uc,
          .ud = all.ud,
          .xrc = all.xrc,
          .cq_moderation = all.cq_moderation,
          .cq_resize = all.cq_resize,
          .cqe_compression = all.cqe_compression,
          .cqe_compression_128 = all.cqe_compression_128,
          .mini_cqe_resp_stride_index = all.mini_cqe_resp_stride_index,
          .cqe_128_always = all.cqe_128_always,
          .qp_packet_based = all.qp_packet_based,
          .sctr_data_cqe = all.sctr_data_cqe,
          .block_lb_mc = all.block_lb_mc,
          .imaicl = all.imaicl,
          .drain_sigerr = all.drain_sigerr,
          .dct = all.dct,
          .raw_packets = all.eth_net_offloads,
          .striding_rq = all.striding_rq,
          .few_strides = all.ext_stride_num_range,
          .log_max_rq = all.log_max_rq,
          .log_max_rqt = all.log_max_rqt,
          .log_max_rqt_size = all.log_max_rqt_size};
}

std::string gid_text(const Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid[i], gid[i + 1]);
  }
  return text;
}

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
                     guid & 0xffff);
}

// The number after `prefix` if `path` is exactly that.
std::optional<std::uint32_t> index_after(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) {
    return std::nullopt;
  }
  path.remove_prefix(prefix.size());
  std::uint32_t index = 0;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), index);
  return error == std::errc{} && end == path.data() + path.size() ? std::optional(index) : std::nullopt;
}

}  // namespace

Gid gid_of_ipv4(std::uint32_t address) {
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  for (std::size_t i = 0; i < 4; ++i) {
    gid[12 + i] = static_cast<std::uint8_t>(address >> (24 - 8 * i));
  }
  return gid;
}

bool is_multicast(const Gid& gid) {
  return gid == gid_of_ipv4(last_32_bits(gid)) ? gid[12] >> 4 == 0xe : gid[0] == 0xff;
}

std::optional<std::array<std::uint8_t, 6>> mac_of_gid(const Gid& gid) {
  const std::uint32_t address = last_32_bits(gid);
  const bool is_ipv4 = gid == gid_of_ipv4(address);
  if (is_multicast(gid)) {
    // RFC 1112, 6.4, and RFC 2464, 7.
    return is_ipv4 ? std::array<std::uint8_t, 6>{0x01,    0x00,   0x5e, static_cast<std::uint8_t>(gid[13] & 0x7f),
                                                 gid[14], gid[15]}
                   : std::array<std::uint8_t, 6>{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]};
  }
  return is_ipv4 && address != 0 ? std::optional(mac_of_ipv4(address)) : std::nullopt;
}

namespace {

// How many forks lie between this process and the first one. Asking the kernel for the process id would cost a system
// call each time a program lends its idle time.
std::atomic<std::uint64_t>& process_generation() {
  static std::atomic<std::uint64_t> generation = 0;
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return generation;
}

}  // namespace

RdmaDevice::RdmaDevice(Firmware& firmware, const Identity& identity)
    : firmware_(firmware), identity_(identity), generation_(process_generation().load()) {}

RdmaDevice::~RdmaDevice() = default;

bool RdmaDevice::is_own_process() const { return process_generation().load(std::memory_order_relaxed) == generation_; }

umlx5::Expected<std::unique_ptr<RdmaDevice>> RdmaDevice::start(Firmware& firmware, const Identity& identity) {
  std::unique_ptr<RdmaDevice> device(new RdmaDevice(firmware, identity));
  if (const int error = device->bring_up(); error != 0) {
    return umlx5::fail(error, fmt::format("{}: the device refused a command while it was brought up", identity.name));
  }
  return device;
}

int RdmaDevice::bring_up() {
  if (const int error = query_capabilities(); error != 0) {
    return error;
  }
  auto events = EventHub::start(firmware_, kCompletionVectors);
  if (!events) {
    return events.error();
  }
  events_ = std::move(*events);
  auto resources = DeviceResources::create(firmware_, events_->eqn_of_vector(0));
  if (!resources) {
    return resources.error();
  }
  resources_ = std::move(*resources);
  flows_ = std::make_unique<FlowRules>(firmware_);
  for (const std::uint32_t index : {kRoceV2Index, kRoceV1Index}) {
    if (const int error = set_gid(index); error != 0) {
      return error;
    }
  }
  return 0;
}

int RdmaDevice::query_capabilities() {
  const auto general = query_group<prm::GeneralCapabilities>(firmware_, prm::CapabilityGroup::kGeneral);
  if (!general) {
    return general.error();
  }
  caps_ = select(*general);
  if (general->atomic) {
    const auto atomic = query_group<prm::AtomicCapabilities>(firmware_, prm::CapabilityGroup::kAtomic);
    if (!atomic) {
      return atomic.error();
    }
    constexpr std::uint16_t kBoth = prm::kAtomicCompareSwap | prm::kAtomicFetchAdd;
    constexpr std::uint16_t k8Bytes = 1 << 3;
    caps_.atomic_64_bits = (atomic->atomic_operations & kBoth) == kBoth && (atomic->atomic_size_qp & k8Bytes) != 0;
  }
  if (const int error = general->hca_cap_2 ? query_ordering(*general) : 0; error != 0) {
    return error;
  }
  if (general->pg) {
    const auto odp = query_group<prm::OdpCapabilities>(firmware_, prm::CapabilityGroup::kOdp);
    if (!odp) {
      return odp.error();
    }
    caps_.odp = true;
    caps_.implicit_odp = general->null_mkey;
    caps_.odp_rc = odp->rc;
    caps_.odp_uc = odp->uc;
    caps_.odp_ud = odp->ud;
    caps_.odp_xrc = odp->xrc;
  }
  if (general->device_memory) {
    const auto memory = query_group<prm::DeviceMemoryCapabilities>(firmware_, prm::CapabilityGroup::kDeviceMemory);
    if (!memory) {
      return memory.error();
    }
    caps_.memic = memory->memic;
    caps_.memic_start = memory->memic_bar_start_addr;
    caps_.memic_bytes = memory->max_memic_size;
    caps_.log_max_memic_alignment = memory->log_max_memic_addr_alignment;
    memic_pages_ = std::make_unique<bool[]>(caps_.memic_bytes / 4096);
  }
  if (const int error = caps_.raw_packets ? query_raw_packets() : 0; error != 0) {
    return error;
  }
  const auto roce = query_group<prm::RoceCapabilities>(firmware_, prm::CapabilityGroup::kRoce);
  if (!roce) {
    return roce.error();
  }
  gid_table_entries_ = roce->roce_address_table_size;
  const auto adapter =
      command<prm::QueryAdapterOut>(firmware_, prm::ObjectIn{.header = {.opcode = prm::Opcode::kQueryAdapter}});
  if (!adapter) {
    return adapter.error();
  }
  ieee_vendor_id_ = adapter->ieee_vendor_id;
  if (general->dump_fill_mkey) {
    const auto keys = command<prm::SpecialContextsOut>(
        firmware_, prm::ObjectIn{.header = {.opcode = prm::Opcode::kQuerySpecialContexts}});
    if (!keys) {
      return keys.error();
    }
    dump_fill_mkey_ = keys->dump_fill_mkey;
  }
  return 0;
}

// What the device orders freely counts only if it can be told to, whatever the service level of a path says.
int RdmaDevice::query_ordering(const prm::GeneralCapabilities& general) {
  const auto more = query_group<prm::GeneralCapabilities2>(firmware_, prm::CapabilityGroup::kGeneral2);
  if (!more) {
    return more.error();
  }
  if (more->dp_ordering_force) {
    caps_.ooo_rc = general.dp_ordering_ooo_all_rc;
    caps_.ooo_uc = general.dp_ordering_ooo_all_uc;
    caps_.ooo_ud = general.dp_ordering_ooo_all_ud;
    caps_.ooo_xrc = general.dp_ordering_ooo_all_xrc;
    caps_.ooo_dc = general.dp_ordering_ooo_all_dc;
  }
  return 0;
}

int RdmaDevice::query_raw_packets() {
  const auto ethernet = query_group<prm::EthernetCapabilities>(firmware_, prm::CapabilityGroup::kEthernetOffloads);
  if (!ethernet) {
    return ethernet.error();
  }
  const auto flows = query_group<prm::FlowTableCapabilities>(firmware_, prm::CapabilityGroup::kFlowTable);
  if (!flows) {
    return flows.error();
  }
  caps_.raw_checksums = ethernet->csum_cap;
  caps_.vlan_stripping = ethernet->vlan_cap;
  caps_.log_max_large_send = ethernet->max_lso_cap;
  caps_.tunnel_offloads = ethernet->tunnel_stateless_vxlan;
  caps_.nic_flow_table = flows->nic_receive_ft_support;
  return 0;
}

std::expected<std::byte*, int> RdmaDevice::map_clock_info() {
  clock_info_.update();
  return clock_info_.map();
}

int RdmaDevice::set_gid(std::uint32_t index) {
  Gid address = gid_of_ipv4(identity_.ipv4_address);
  if (!is_roce_v1(index)) {
    address[10] = address[11] = 0;
  }
  const prm::SetRoceAddressIn in{
      .header = {.opcode = prm::Opcode::kSetRoceAddress},
      .roce_address_index = static_cast<std::uint16_t>(index),
      .vhca_port_num = 0,
      .roce_address = {.source_l3_address = address,
                       .vlan_valid = false,
                       .vlan_id = 0,
                       .source_mac = mac_of_ipv4(identity_.ipv4_address),
                       .roce_l3_type = prm::kRoceAddressIpv4,
                       .roce_version = is_roce_v1(index) ? prm::kRoceAddressV1 : prm::kRoceAddressV2}};
  const auto out = command<prm::ObjectOut>(firmware_, in);
  return out ? 0 : out.error();
}

std::optional<Gid> RdmaDevice::gid(std::uint32_t index) const {
  return index == kRoceV2Index || index == kRoceV1Index ? std::optional(gid_of_ipv4(identity_.ipv4_address))
                                                        : std::nullopt;
}

std::expected<std::string, int> RdmaDevice::attribute(std::string_view path) const {
  const std::pair<std::string_view, std::string> fixed[] = {
      {"node_type", "1: CA"},
      {"node_guid", guid_text(identity_.node_guid)},
      {"sys_image_guid", guid_text(identity_.node_guid)},
      {"node_desc", identity_.name},
      {"fw_ver", fmt::format("{}.{}.{:04}", identity_.firmware[0], identity_.firmware[1], identity_.firmware[2])},
      {"board_id", identity_.board_id},
      {"hca_type", fmt::format("MT{}", identity_.device_id)},
      {"hw_rev", "0"},
      {"device/vendor", fmt::format("0x{:04x}", identity_.vendor_id)},
      {"device/device", fmt::format("0x{:04x}", identity_.device_id)},
      {"device/subsystem_vendor", fmt::format("0x{:04x}", identity_.vendor_id)},
      {"device/subsystem_device", "0x0016"},
      {"device/class", "0x020000"},
      {"device/modalias", fmt::format("pci:v{:08X}d{:08X}sv{:08X}sd00000016bc02sc00i00", identity_.vendor_id,
                                      identity_.device_id, identity_.vendor_id)},
      {"device/numa_node", "-1"},
      {"ports/1/state", "4: ACTIVE"},
      {"ports/1/phys_state", "5: LinkUp"},
      {"ports/1/link_layer", "Ethernet"},
      {"ports/1/rate", "100 Gb/sec (4X EDR)"},
      {"ports/1/lid", "0x0"},
      {"ports/1/sm_lid", "0x0"},
      {"ports/1/lid_mask_count", "0"},
      {"ports/1/sm_sl", "0"},
      {"ports/1/cap_mask", "0x04010000"},
      {"ports/1/pkeys/0", "0xffff"},
  };
  for (const auto& [name, text] : fixed) {
    if (path == name) {
      return text;
    }
  }
  if (const auto index = index_after(path, "ports/1/gids/"); index && *index < gid_table_entries_) {
    return gid_text(gid(*index).value_or(Gid{}));
  }
  // An index without a GID has these files too, but reading them fails.
  if (const auto index = index_after(path, "ports/1/gid_attrs/types/"); index && *index < gid_table_entries_) {
    return gid(*index) ? std::expected<std::string, int>(is_roce_v1(*index) ? "IB/RoCE v1" : "RoCE v2")
                       : std::unexpected(EINVAL);
  }
  if (const auto index = index_after(path, "ports/1/gid_attrs/ndevs/"); index && *index < gid_table_entries_) {
    return gid(*index) ? std::expected<std::string, int>("lo") : std::unexpected(EINVAL);
  }
  constexpr std::string_view kPort = "ports/1/";
  return path.starts_with(kPort) ? counter_text(firmware_, path.substr(kPort.size())) : std::unexpected(ENOENT);
}

}  // namespace softhca::kernel
