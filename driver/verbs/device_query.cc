#include "driver/verbs/device_query.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/device_query.h"

namespace umlx5::verbs {
namespace {

Expected<uapi::DeviceAttributes> ask_device(ibv_context* context) {
  Context& native = native_of(context);
  const bool driver_part = (native.kernel_info().device.cmds_supp_uhw & MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE) != 0;
  return uapi::query_device(native.commands(), driver_part);
}

// Major, minor and build number of the firmware, as the vendor writes them.
void format_firmware_version(std::uint64_t version, char (&text)[64]) {
  const auto end = fmt::format_to_n(text, sizeof text - 1, "{}.{}.{:04}", (version >> 32) & 0xffff,
                                    (version >> 16) & 0xffff, version & 0xffff);
  *end.out = '\0';
}

void fill_base(const ib_uverbs_query_device_resp& from, ibv_device_attr& to) {
  format_firmware_version(from.fw_ver, to.fw_ver);
  to.node_guid = from.node_guid;
  to.sys_image_guid = from.sys_image_guid;
  to.max_mr_size = from.max_mr_size;
  to.page_size_cap = from.page_size_cap;
  to.vendor_id = from.vendor_id;
  to.vendor_part_id = from.vendor_part_id;
  to.hw_ver = from.hw_ver;
  to.max_qp = static_cast<int>(from.max_qp);
  to.max_qp_wr = static_cast<int>(from.max_qp_wr);
  to.device_cap_flags = from.device_cap_flags;
  to.max_sge = static_cast<int>(from.max_sge);
  to.max_sge_rd = static_cast<int>(from.max_sge_rd);
  to.max_cq = static_cast<int>(from.max_cq);
  to.max_cqe = static_cast<int>(from.max_cqe);
  to.max_mr = static_cast<int>(from.max_mr);
  to.max_pd = static_cast<int>(from.max_pd);
  to.max_qp_rd_atom = static_cast<int>(from.max_qp_rd_atom);
  to.max_ee_rd_atom = static_cast<int>(from.max_ee_rd_atom);
  to.max_res_rd_atom = static_cast<int>(from.max_res_rd_atom);
  to.max_qp_init_rd_atom = static_cast<int>(from.max_qp_init_rd_atom);
  to.max_ee_init_rd_atom = static_cast<int>(from.max_ee_init_rd_atom);
  to.atomic_cap = static_cast<ibv_atomic_cap>(from.atomic_cap);
  to.max_ee = static_cast<int>(from.max_ee);
  to.max_rdd = static_cast<int>(from.max_rdd);
  to.max_mw = static_cast<int>(from.max_mw);
  to.max_raw_ipv6_qp = static_cast<int>(from.max_raw_ipv6_qp);
  to.max_raw_ethy_qp = static_cast<int>(from.max_raw_ethy_qp);
  to.max_mcast_grp = static_cast<int>(from.max_mcast_grp);
  to.max_mcast_qp_attach = static_cast<int>(from.max_mcast_qp_attach);
  to.max_total_mcast_qp_attach = static_cast<int>(from.max_total_mcast_qp_attach);
  to.max_ah = static_cast<int>(from.max_ah);
  to.max_fmr = static_cast<int>(from.max_fmr);
  to.max_map_per_fmr = static_cast<int>(from.max_map_per_fmr);
  to.max_srq = static_cast<int>(from.max_srq);
  to.max_srq_wr = static_cast<int>(from.max_srq_wr);
  to.max_srq_sge = static_cast<int>(from.max_srq_sge);
  to.max_pkeys = from.max_pkeys;
  to.local_ca_ack_delay = from.local_ca_ack_delay;
  to.phys_port_cnt = from.phys_port_cnt;
}

void fill_core(const ib_uverbs_ex_query_device_resp& from, ibv_device_attr_ex& to) {
  fill_base(from.base, to.orig_attr);
  to.phys_port_cnt_ex = from.base.phys_port_cnt;
  to.odp_caps.general_caps = from.odp_caps.general_caps;
  to.odp_caps.per_transport_caps.rc_odp_caps = from.odp_caps.per_transport_caps.rc_odp_caps;
  to.odp_caps.per_transport_caps.uc_odp_caps = from.odp_caps.per_transport_caps.uc_odp_caps;
  to.odp_caps.per_transport_caps.ud_odp_caps = from.odp_caps.per_transport_caps.ud_odp_caps;
  to.xrc_odp_caps = from.xrc_odp_caps;
  to.completion_timestamp_mask = from.timestamp_mask;
  to.hca_core_clock = from.hca_core_clock;
  to.device_cap_flags_ex = from.device_cap_flags_ex;
  to.rss_caps.supported_qpts = from.rss_caps.supported_qpts;
  to.rss_caps.max_rwq_indirection_tables = from.rss_caps.max_rwq_indirection_tables;
  to.rss_caps.max_rwq_indirection_table_size = from.rss_caps.max_rwq_indirection_table_size;
  to.max_wq_type_rq = from.max_wq_type_rq;
  to.raw_packet_caps = from.raw_packet_caps;
  to.tm_caps.max_rndv_hdr_size = from.tm_caps.max_rndv_hdr_size;
  to.tm_caps.max_num_tags = from.tm_caps.max_num_tags;
  to.tm_caps.flags = from.tm_caps.flags;
  to.tm_caps.max_ops = from.tm_caps.max_ops;
  to.tm_caps.max_sge = from.tm_caps.max_sge;
  to.cq_mod_caps.max_cq_count = from.cq_moderation_caps.max_cq_moderation_count;
  to.cq_mod_caps.max_cq_period = from.cq_moderation_caps.max_cq_moderation_period;
  to.max_dm_size = from.max_dm_size;
}

void fill_driver(const mlx5_ib_query_device_resp& from, ibv_device_attr_ex& to) {
  to.tso_caps.max_tso = from.tso_caps.max_tso;
  to.tso_caps.supported_qpts = from.tso_caps.supported_qpts;
  to.rss_caps.rx_hash_fields_mask = from.rss_caps.rx_hash_fields_mask;
  to.rss_caps.rx_hash_function = from.rss_caps.rx_hash_function;
  to.packet_pacing_caps.qp_rate_limit_min = from.packet_pacing_caps.qp_rate_limit_min;
  to.packet_pacing_caps.qp_rate_limit_max = from.packet_pacing_caps.qp_rate_limit_max;
  to.packet_pacing_caps.supported_qpts = from.packet_pacing_caps.supported_qpts;
}

// The first `to_bytes` of `from`, which the caller's structure has; what a newer caller has beyond is 0.
template <typename T>
void copy_known(const T& from, T* to, std::size_t to_bytes) {
  std::memcpy(static_cast<void*>(to), &from, std::min(sizeof from, to_bytes));
  if (to_bytes > sizeof from) {
    std::memset(reinterpret_cast<std::byte*>(to) + sizeof from, 0, to_bytes - sizeof from);
  }
}

void fill_port(const uapi::PortAttributes& from, ibv_port_attr& to) {
  to.state = static_cast<ibv_port_state>(from.state);
  to.max_mtu = static_cast<ibv_mtu>(from.max_mtu);
  to.active_mtu = static_cast<ibv_mtu>(from.active_mtu);
  to.gid_tbl_len = static_cast<int>(from.gid_table_entries);
  to.port_cap_flags = from.capability_flags;
  to.max_msg_sz = from.max_message_bytes;
  to.bad_pkey_cntr = from.bad_pkey_counter;
  to.qkey_viol_cntr = from.qkey_violation_counter;
  to.pkey_tbl_len = from.pkey_table_entries;
  to.lid = from.lid;
  to.sm_lid = from.sm_lid;
  to.lmc = from.lmc;
  to.max_vl_num = from.max_vl_num;
  to.sm_sl = from.sm_sl;
  to.subnet_timeout = from.subnet_timeout;
  to.init_type_reply = from.init_type_reply;
  to.active_width = from.active_width;
  to.active_speed = from.active_speed;
  to.phys_state = from.physical_state;
  to.link_layer = static_cast<std::uint8_t>(from.link_layer);
  to.flags = from.grh_required ? IBV_QPF_GRH_REQUIRED : 0;
  to.port_cap_flags2 = from.capability_flags2;
}

}  // namespace

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  const auto answer = ask_device(context);
  if (!answer) {
    return report(answer.error());
  }
  *attributes = {};
  fill_base(answer->core.base, *attributes);
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    std::size_t attributes_bytes) {
  if (input != nullptr && input->comp_mask != 0) {
    return report({EINVAL, fmt::format("query device: input comp_mask {:#x} is not known; 0 is", input->comp_mask)});
  }
  if (attributes_bytes < sizeof attributes->orig_attr) {
    return report({EINVAL, fmt::format("query device: {} bytes of attributes are too few", attributes_bytes)});
  }
  const auto answer = ask_device(context);
  if (!answer) {
    return report(answer.error());
  }
  ibv_device_attr_ex filled{};
  fill_core(answer->core, filled);
  fill_driver(answer->driver.base, filled);
  copy_known(filled, attributes, attributes_bytes);
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t attributes_bytes) {
  if (attributes_bytes < offsetof(ibv_port_attr, link_layer)) {
    return report({EINVAL, fmt::format("query port: {} bytes of attributes are too few", attributes_bytes)});
  }
  const auto answer = uapi::query_port(native_of(context).commands(), port);
  if (!answer) {
    return report(answer.error());
  }
  ibv_port_attr filled{};
  fill_port(*answer, filled);
  copy_known(filled, attributes, attributes_bytes);
  return 0;
}

}  // namespace umlx5::verbs
