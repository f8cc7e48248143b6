// Context, device, port and GID requests.
#include <fmt/format.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>

#include "tools/softhca/kernel/log.h"
#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "uapi/kernel_additions.h"
#include "wqe/prm/cap.h"
#include "wqe/prm/pd_uar.h"

namespace softhca::kernel::handlers {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint8_t kPortActive = 4, kPhysicalLinkUp = 5, kMtu4096 = 5;
constexpr std::uint8_t kWidth4x = 2, kSpeedEdr = 32, kLinkEthernet = 2;
constexpr std::uint32_t kMaxSgeRead = 30;
constexpr std::size_t kCacheLineBytes = 64;
constexpr std::uint64_t kTimestampMask = 0x7fffffffffffffff;

// DEVX user of a new context: 0 unless asked for. Errno on failure.
std::expected<std::uint16_t, int> create_user(Request& request, std::uint32_t flags) {
  if ((flags & MLX5_IB_ALLOC_UCTX_DEVX) == 0) {
    return 0;
  }
  if (request.device().caps().log_max_uctx == 0) {
    return std::unexpected(EINVAL);
  }
  const auto out = command<prm::ObjectOut>(request.firmware(),
                                           prm::CreateUctxIn{.header = {.opcode = prm::Opcode::kCreateUctx}, .cap = 0});
  if (!out) {
    return std::unexpected(out.error());
  }
  return static_cast<std::uint16_t>(out->number);
}

mlx5_ib_alloc_ucontext_resp context_response(RdmaDevice& device, std::uint8_t cqe_version) {
  const auto& caps = device.caps();
  mlx5_ib_alloc_ucontext_resp response{};
  response.qp_tab_size = 1u << caps.log_max_qp;
  response.bf_reg_size = caps.bf ? 1u << caps.log_bf_reg_size : 0;
  response.cache_line_size = kCacheLineBytes;
  response.max_sq_desc_sz = caps.max_wqe_sz_sq;
  response.max_rq_desc_sz = caps.max_wqe_sz_rq;
  response.max_send_wqebb = response.max_recv_wr = 1u << caps.log_max_qp_sz;
  response.max_srq_recv_wr = 1u << caps.log_max_srq_sz;
  response.num_ports = 1;
  response.cqe_version = cqe_version;
  response.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
  response.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
  response.log_uar_size = 12;
  response.num_uars_per_page = 1;
  if (device.dump_fill_mkey() != 0) {
    response.dump_fill_mkey = device.dump_fill_mkey();
    response.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY;
  }
  response.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET;
  response.hca_core_clock_offset = 0;
  response.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1;
  if (caps.drain_sigerr) {
    response.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS;
  }
  response.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG;
  if (caps.ece_support) {
    response.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE;
  }
  return response;
}

int check_context_request(Request& request, mlx5_ib_alloc_ucontext_req_v2& asked) {
  if (request.driver_in().size() < offsetof(mlx5_ib_alloc_ucontext_req_v2, max_cqe_version)) {
    return EINVAL;
  }
  request.get_driver(asked);
  if ((asked.flags & ~std::uint32_t{MLX5_IB_ALLOC_UCTX_DEVX}) != 0 || asked.comp_mask != 0 || asked.reserved0 != 0 ||
      asked.reserved1 != 0 || asked.reserved2 != 0) {
    return EOPNOTSUPP;
  }
  if ((asked.lib_caps & MLX5_LIB_CAP_DYN_UAR) == 0) {
    log(LogLevel::kInfo, "GET_CONTEXT: a library without dynamic UARs (older than rdma-core 28) is not supported");
    return EOPNOTSUPP;
  }
  return 0;
}

// The driver's part of GET_CONTEXT.
int make_context(Request& request) {
  if (request.file().context() != nullptr) {
    return EINVAL;
  }
  mlx5_ib_alloc_ucontext_req_v2 asked{};
  if (const int error = check_context_request(request, asked); error != 0) {
    return error;
  }
  RdmaDevice& device = request.device();
  const auto uid = create_user(request, asked.flags);
  if (!uid) {
    return uid.error();
  }
  const auto domain = allocate(device.firmware(), prm::Opcode::kAllocTransportDomain, *uid);
  Context context{.uid = *uid, .cqe_version = std::min(device.caps().cqe_version, asked.max_cqe_version)};
  int error = domain ? 0 : domain.error();
  if (error == 0) {
    context.transport_domain = *domain;
    auto response = context_response(device, context.cqe_version);
    response.response_length = static_cast<std::uint32_t>(std::min(request.driver_out_bytes(), sizeof response));
    error = request.put_driver(&response, sizeof response);
    if (error != 0) {
      command_on_object(device.firmware(), prm::Opcode::kDeallocTransportDomain, *uid, *domain);
    }
  }
  if (error != 0) {
    if (*uid != 0) {
      command_on_object(device.firmware(), prm::Opcode::kDestroyUctx, 0, *uid);
    }
    return error;
  }
  request.file().set_context(context);
  return 0;
}

int put_if_asked(Request& request, std::uint16_t id, const auto& value) {
  return request.has(id) ? request.put_value(id, value) : 0;
}

// An asynchronous event file; the first one is the file's default.
std::expected<std::shared_ptr<EventFile>, int> make_async_file(Request& request) {
  auto file = EventFile::open(UVERBS_OBJECT_ASYNC_EVENT, sizeof(ib_uverbs_async_event_desc));
  if (!file) {
    return std::unexpected(file.error());
  }
  request.adopt(*file);
  request.device().events().add_port_listener(*file);
  if (request.file().default_async_file() == nullptr) {
    request.file().set_default_async_file(*file);
  }
  return *file;
}

std::uint32_t device_flags(const Capabilities& caps) {
  std::uint32_t flags = IB_UVERBS_DEVICE_CHANGE_PHY_PORT | IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT |
                        IB_UVERBS_DEVICE_SYS_IMAGE_GUID | IB_UVERBS_DEVICE_RC_RNR_NAK_GEN |
                        IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS;
  flags |= caps.pkv ? std::uint32_t{IB_UVERBS_DEVICE_BAD_PKEY_CNTR} : 0;
  flags |= caps.qkv ? std::uint32_t{IB_UVERBS_DEVICE_BAD_QKEY_CNTR} : 0;
  flags |= caps.apm ? std::uint32_t{IB_UVERBS_DEVICE_AUTO_PATH_MIG} : 0;
  flags |= caps.imaicl ? std::uint32_t{IB_UVERBS_DEVICE_MEM_WINDOW | IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B} : 0;
  flags |= caps.xrc ? std::uint32_t{IB_UVERBS_DEVICE_XRC} : 0;
  flags |= caps.raw_checksums ? std::uint32_t{IB_UVERBS_DEVICE_RAW_IP_CSUM} : 0;
  flags |= caps.nic_flow_table ? std::uint32_t{IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING} : 0;
  return flags;
}

ib_uverbs_query_device_resp device_attributes(RdmaDevice& device) {
  const auto& caps = device.caps();
  const auto& identity = device.identity();
  ib_uverbs_query_device_resp r{};
  r.fw_ver = static_cast<std::uint64_t>(identity.firmware[0]) << 32 |
             static_cast<std::uint64_t>(identity.firmware[1]) << 16 | identity.firmware[2];
  r.node_guid = r.sys_image_guid = __builtin_bswap64(identity.node_guid);
  r.max_mr_size = ~std::uint64_t{0};
  r.page_size_cap = 0xfffff000;
  r.vendor_id = device.ieee_vendor_id();
  r.vendor_part_id = identity.device_id;
  r.max_qp = 1u << caps.log_max_qp;
  r.max_qp_wr = 1u << caps.log_max_qp_sz;
  r.device_cap_flags = device_flags(caps);
  const std::uint32_t max_receive_sge = caps.max_wqe_sz_rq / 16;
  const std::uint32_t max_send_sge = (std::min<std::uint32_t>(caps.max_wqe_sz_sq, 512) - 32) / 16;
  r.max_sge = std::min(max_receive_sge, max_send_sge);
  r.max_sge_rd = kMaxSgeRead;
  r.max_cq = 1u << caps.log_max_cq;
  r.max_cqe = (1u << caps.log_max_cq_sz) - 1;
  r.max_mr = 1u << caps.log_max_mkey;
  r.max_mw = caps.imaicl ? r.max_mr : 0;
  r.max_pd = 1u << caps.log_max_pd;
  r.max_qp_rd_atom = 1u << caps.log_max_ra_req_qp;
  r.max_qp_init_rd_atom = 1u << caps.log_max_ra_res_qp;
  r.max_res_rd_atom = r.max_qp_rd_atom * r.max_qp;
  r.atomic_cap = caps.atomic_64_bits ? 1 : 0;  // against other accesses through this device
  r.max_mcast_grp = caps.log_max_mcg == 0 ? 0 : 1u << caps.log_max_mcg;
  r.max_mcast_qp_attach = caps.max_qp_mcg;
  r.max_total_mcast_qp_attach = r.max_mcast_grp * r.max_mcast_qp_attach;
  r.max_ah = INT_MAX;
  r.max_srq = 1u << caps.log_max_srq;
  r.max_srq_wr = (1u << caps.log_max_srq_sz) - 1;
  r.max_srq_sge = max_receive_sge - 1;
  r.max_pkeys = 1;
  r.local_ca_ack_delay = caps.local_ca_ack_delay;
  r.phys_port_cnt = 1;
  return r;
}

ib_uverbs_query_port_resp port_attributes(RdmaDevice& device) {
  ib_uverbs_query_port_resp r{};
  r.port_cap_flags = IB_UVERBS_PCF_CM_SUP | IB_UVERBS_PCF_IP_BASED_GIDS;
  r.max_msg_sz = 1u << device.caps().log_max_msg;
  r.gid_tbl_len = device.gid_table_entries();
  r.pkey_tbl_len = 1;
  r.state = kPortActive;
  r.max_mtu = r.active_mtu = kMtu4096;
  r.active_width = kWidth4x;
  r.active_speed = kSpeedEdr;
  r.phys_state = kPhysicalLinkUp;
  r.link_layer = kLinkEthernet;
  r.flags = IB_UVERBS_QPF_GRH_REQUIRED;
  return r;
}

ib_uverbs_gid_entry gid_entry(const Gid& gid, std::uint32_t index) {
  ib_uverbs_gid_entry entry{};
  std::memcpy(entry.gid, gid.data(), gid.size());
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = RdmaDevice::is_roce_v1(index) ? IB_UVERBS_GID_TYPE_ROCE_V1 : IB_UVERBS_GID_TYPE_ROCE_V2;
  entry.netdev_ifindex = ::if_nametoindex("lo");
  return entry;
}

// enum ib_odp_transport_cap_bits of the device's bits: the same, from the other end.
std::uint32_t odp_verbs(std::uint32_t device_bits) {
  constexpr std::uint32_t kBits[] = {prm::kOdpSend, prm::kOdpReceive, prm::kOdpWrite,
                                     prm::kOdpRead, prm::kOdpAtomic,  prm::kOdpSrqReceive};
  std::uint32_t verbs = 0;
  for (unsigned i = 0; i < std::size(kBits); ++i) {
    verbs |= (device_bits & kBits[i]) != 0 ? 1u << i : 0u;
  }
  return verbs;
}

constexpr std::uint32_t kRawPacketType = 1u << IB_UVERBS_QPT_RAW_PACKET;
constexpr std::uint64_t kHashFields = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4 | MLX5_RX_HASH_SRC_IPV6 |
                                      MLX5_RX_HASH_DST_IPV6 | MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP |
                                      MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP | MLX5_RX_HASH_INNER;

void set_raw_packets(const Capabilities& caps, ib_uverbs_ex_query_device_resp& response) {
  if (!caps.raw_packets) {
    return;
  }
  response.rss_caps = {.supported_qpts = kRawPacketType,
                       .max_rwq_indirection_tables = 1u << caps.log_max_rqt,
                       .max_rwq_indirection_table_size = 1u << caps.log_max_rqt_size,
                       .reserved = 0};
  response.max_wq_type_rq = 1u << caps.log_max_rq;
  response.raw_packet_caps = (caps.vlan_stripping ? IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING : 0) |
                             (caps.raw_checksums ? IB_UVERBS_RAW_PACKET_CAP_IP_CSUM : 0);
}

void set_raw_packets(const Capabilities& caps, mlx5_ib_query_device_resp& response) {
  if (!caps.raw_packets) {
    return;
  }
  response.tso_caps = {.max_tso = 1u << caps.log_max_large_send, .supported_qpts = kRawPacketType};
  response.rss_caps.rx_hash_fields_mask =
      caps.tunnel_offloads ? kHashFields : kHashFields & ~std::uint64_t{MLX5_RX_HASH_INNER};
  response.rss_caps.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
  if (caps.striding_rq) {
    response.striding_rq_caps = {.min_single_stride_log_num_of_bytes = kMinLogStrideBytes,
                                 .max_single_stride_log_num_of_bytes = kMaxLogStrideBytes,
                                 .min_single_wqe_log_num_of_strides = caps.min_log_strides(),
                                 .max_single_wqe_log_num_of_strides = kMaxLogStrides,
                                 .supported_qpts = kRawPacketType,
                                 .reserved = 0};
  }
  response.tunnel_offloads_caps = caps.tunnel_offloads ? std::uint32_t{MLX5_IB_TUNNELED_OFFLOADS_VXLAN} : 0;
}

// The driver's part of EX_QUERY_DEVICE: everything that is zero is not supported.
int put_device_extension(Request& request) {
  const std::size_t bytes = request.driver_out_bytes();
  constexpr std::size_t kFixedBytes = offsetof(mlx5_ib_query_device_resp, tso_caps);
  if ((bytes != 0 && bytes < kFixedBytes) || !request.driver_in_is_zero_from(0)) {
    return EINVAL;
  }
  const auto& caps = request.device().caps();
  mlx5_ib_query_device_resp response{};
  response.response_length = static_cast<std::uint32_t>(std::min(bytes, sizeof response));
  response.flags = (caps.cqe_compression_128 ? MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP : 0) |
                   (caps.cqe_128_always ? MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD : 0) |
                   (caps.qp_packet_based ? MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE : 0) |
                   (caps.dct && caps.sctr_data_cqe ? MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT : 0) |
                   (caps.ooo_rc || caps.ooo_uc || caps.ooo_ud || caps.ooo_xrc || caps.ooo_dc
                        ? umlx5::uapi::kMlx5QueryDeviceOutOfOrderPlacement
                        : 0);
  response.dci_streams_caps = {.max_log_num_concurent = caps.log_max_dci_streams,
                               .max_log_num_errored = caps.log_max_dci_errored_streams};
  if (caps.cqe_compression) {
    response.cqe_comp_caps = {
        .max_num = caps.cqe_compression_max_num,
        .supported_format = std::uint32_t{MLX5_IB_CQE_RES_FORMAT_HASH} | MLX5_IB_CQE_RES_FORMAT_CSUM |
                            (caps.mini_cqe_resp_stride_index ? MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX : 0)};
  }
  set_raw_packets(caps, response);
  return bytes == 0 ? 0 : request.put_driver(&response, sizeof response);
}

}  // namespace

int get_context(Request& request) {
  int error =
      put_if_asked(request, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, request.device().events().completion_vectors());
  if (error == 0) {
    error = put_if_asked(request, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
                         std::uint64_t{IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS});
  }
  return error != 0 ? error : make_context(request);
}

// What a library needs to take a file over that another has opened.
int query_context(Request& request) {
  int error =
      put_if_asked(request, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, request.device().events().completion_vectors());
  error = error != 0 ? error
                     : put_if_asked(request, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
                                    std::uint64_t{IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS});
  if (error != 0) {
    return error;
  }
  auto response = context_response(request.device(), request.file().context()->cqe_version);
  response.response_length =
      static_cast<std::uint32_t>(std::min(request.output_bytes(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX), sizeof response));
  return request.put(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, &response, sizeof response, true);
}

int write_get_context(Request& request) {
  if (request.file().context() != nullptr) {
    return EINVAL;
  }
  const auto file = make_async_file(request);
  if (!file) {
    return file.error();
  }
  struct {
    std::uint32_t async_fd, completion_vectors;
  } const response{static_cast<std::uint32_t>((*file)->fd()), request.device().events().completion_vectors()};
  const int error = request.put_core(response);
  return error != 0 ? error : make_context(request);
}

int alloc_async_fd(Request& request) {
  const auto file = make_async_file(request);
  return file ? request.put_handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, (*file)->fd()) : file.error();
}

int write_query_device(Request& request) { return request.put_core(device_attributes(request.device())); }

int ex_query_device(Request& request) {
  ib_uverbs_ex_query_device asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  if (asked.comp_mask != 0 || asked.reserved != 0) {
    return EINVAL;
  }
  const auto& caps = request.device().caps();
  ib_uverbs_ex_query_device_resp response{};
  response.base = device_attributes(request.device());
  response.response_length = static_cast<std::uint32_t>(std::min(request.core_out_bytes(), sizeof response));
  response.timestamp_mask = kTimestampMask;
  response.hca_core_clock = caps.device_frequency_khz;
  response.device_cap_flags_ex = response.base.device_cap_flags;
  constexpr std::uint64_t kOdpSupport = 1, kOdpSupportImplicit = 2;
  response.odp_caps.general_caps = (caps.odp ? kOdpSupport : 0) | (caps.implicit_odp ? kOdpSupportImplicit : 0);
  response.odp_caps.per_transport_caps = {.rc_odp_caps = odp_verbs(caps.odp_rc),
                                          .uc_odp_caps = odp_verbs(caps.odp_uc),
                                          .ud_odp_caps = odp_verbs(caps.odp_ud)};
  response.xrc_odp_caps = odp_verbs(caps.odp_xrc);
  response.max_dm_size = caps.memic ? caps.memic_bytes : 0;
  set_raw_packets(caps, response);
  if (caps.cq_moderation) {
    response.cq_moderation_caps.max_cq_moderation_count = 0xffff;
    response.cq_moderation_caps.max_cq_moderation_period = 0xfff;
  }
  const int error = put_device_extension(request);
  return error != 0 ? error : request.put_core(response);
}

int query_port(Request& request) {
  if (request.value<std::uint64_t>(UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1) {
    return EINVAL;
  }
  ib_uverbs_query_port_resp_ex response{};
  response.legacy_resp = port_attributes(request.device());
  return request.put(UVERBS_ATTR_QUERY_PORT_RESP, &response, sizeof response, true);
}

int write_query_port(Request& request) {
  ib_uverbs_query_port asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  return asked.port_num == 1 ? request.put_core(port_attributes(request.device())) : EINVAL;
}

int query_gid_entry(Request& request) {
  const auto port = request.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
  const auto index = request.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
  if (!request.flags(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0) || port != 1 ||
      index >= request.device().gid_table_entries()) {
    return EINVAL;
  }
  const auto gid = request.device().gid(static_cast<std::uint32_t>(index));
  if (!gid) {
    return ENODATA;
  }
  const auto entry = gid_entry(*gid, static_cast<std::uint32_t>(index));
  return request.put(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry, sizeof entry, true);
}

int query_gid_table(Request& request) {
  const auto entry_bytes = request.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
  const std::size_t space = request.output_bytes(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
  if (!request.flags(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0) || entry_bytes == 0 || space % entry_bytes != 0) {
    return EINVAL;
  }
  std::vector<std::byte> table;
  std::uint64_t count = 0;
  for (std::uint32_t index = 0; index < request.device().gid_table_entries(); ++index) {
    if (const auto gid = request.device().gid(index); gid) {
      const auto entry = gid_entry(*gid, index);
      if (space / entry_bytes <= count) {
        return EINVAL;  // more GIDs than there is room for
      }
      table.resize((count + 1) * entry_bytes);
      std::memcpy(table.data() + count * entry_bytes, &entry, std::min<std::size_t>(sizeof entry, entry_bytes));
      ++count;
    }
  }
  const int error = request.put(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, table.data(), table.size());
  return error != 0 ? error : request.put_value(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count);
}

}  // namespace softhca::kernel::handlers
