// Queue pairs: changed and queried.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "driver/verbs/address_handles.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/report.h"
#include "uapi/qp.h"

namespace umlx5::verbs {
namespace {

constexpr std::uint32_t kMellanoxPciVendor = 0x15b3;

ibv_ah_attr verbs_address(const uapi::AddressVector& address) {
  ibv_ah_attr attr{};
  std::ranges::copy(address.dgid, std::begin(attr.grh.dgid.raw));
  attr.grh.flow_label = address.flow_label;
  attr.grh.sgid_index = address.sgid_index;
  attr.grh.hop_limit = address.hop_limit;
  attr.grh.traffic_class = address.traffic_class;
  attr.dlid = address.dlid;
  attr.sl = address.sl;
  attr.src_path_bits = address.src_path_bits;
  attr.static_rate = address.static_rate;
  attr.is_global = address.is_global ? 1 : 0;
  attr.port_num = address.port;
  return attr;
}

uapi::QpAttributes native_attributes(const ibv_qp_attr& attr, int mask) {
  uapi::QpAttributes native;
  native.state = static_cast<std::uint8_t>(attr.qp_state);
  native.current_state = static_cast<std::uint8_t>(attr.cur_qp_state);
  native.path_mtu = static_cast<std::uint8_t>(attr.path_mtu);
  native.path_migration_state = static_cast<std::uint8_t>(attr.path_mig_state);
  native.qkey = attr.qkey;
  native.rq_psn = attr.rq_psn;
  native.sq_psn = attr.sq_psn;
  native.destination_qpn = attr.dest_qp_num;
  native.access = attr.qp_access_flags;
  native.primary = address_vector(attr.ah_attr);
  native.alternate = address_vector(attr.alt_ah_attr);
  native.pkey_index = attr.pkey_index;
  native.alternate_pkey_index = attr.alt_pkey_index;
  native.notify_when_drained = attr.en_sqd_async_notify;
  native.max_rd_atomic = attr.max_rd_atomic;
  native.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  native.min_rnr_timer = attr.min_rnr_timer;
  native.port = attr.port_num;
  native.timeout = attr.timeout;
  native.retry_count = attr.retry_cnt;
  native.rnr_retry = attr.rnr_retry;
  native.alternate_port = attr.alt_port_num;
  native.alternate_timeout = attr.alt_timeout;
  if ((mask & IBV_QP_RATE_LIMIT) != 0) {  // beyond the structure that older programs have
    native.rate_limit_kbps = attr.rate_limit;
  }
  return native;
}

// All but rate_limit, which programs that were built with an older header have no room for.
void set_attributes(const uapi::QpAttributes& native, const QpCapacity& capacity, ibv_qp_attr& attr) {
  attr.qp_state = static_cast<ibv_qp_state>(native.state);
  attr.cur_qp_state = static_cast<ibv_qp_state>(native.current_state);
  attr.path_mtu = static_cast<ibv_mtu>(native.path_mtu);
  attr.path_mig_state = static_cast<ibv_mig_state>(native.path_migration_state);
  attr.qkey = native.qkey;
  attr.rq_psn = native.rq_psn;
  attr.sq_psn = native.sq_psn;
  attr.dest_qp_num = native.destination_qpn;
  attr.qp_access_flags = native.access;
  attr.cap = {.max_send_wr = capacity.max_send_wr,
              .max_recv_wr = capacity.max_recv_wr,
              .max_send_sge = capacity.max_send_sge,
              .max_recv_sge = capacity.max_recv_sge,
              .max_inline_data = capacity.max_inline_bytes};
  attr.ah_attr = verbs_address(native.primary);
  attr.alt_ah_attr = verbs_address(native.alternate);
  attr.pkey_index = native.pkey_index;
  attr.alt_pkey_index = native.alternate_pkey_index;
  attr.en_sqd_async_notify = native.notify_when_drained;
  attr.sq_draining = native.draining;
  attr.max_rd_atomic = native.max_rd_atomic;
  attr.max_dest_rd_atomic = native.max_dest_rd_atomic;
  attr.min_rnr_timer = native.min_rnr_timer;
  attr.port_num = native.port;
  attr.timeout = native.timeout;
  attr.retry_cnt = native.retry_count;
  attr.rnr_retry = native.rnr_retry;
  attr.alt_port_num = native.alternate_port;
  attr.alt_timeout = native.alternate_timeout;
}

}  // namespace

int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  Qp& native = *object_of(qp).native;
  const auto change = native.modify(native_attributes(*attr, mask), static_cast<std::uint32_t>(mask));
  if (!change) {
    return report(change.error());
  }
  if ((mask & IBV_QP_STATE) != 0) {
    qp->state = attr->qp_state;
  }
  qp->qp_num = native.qpn();  // a DCT has got its number in RTR
  return 0;
}

int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) {
  Qp& native = *object_of(qp).native;
  const auto answer = native.query(static_cast<std::uint32_t>(mask));
  if (!answer) {
    return report(answer.error());
  }
  set_attributes(*answer, native.capacity(), *attr);
  init_attr->qp_context = qp->qp_context;
  init_attr->send_cq = qp->send_cq;
  init_attr->recv_cq = qp->recv_cq;
  init_attr->srq = qp->srq;
  init_attr->cap = attr->cap;
  init_attr->qp_type = qp->qp_type;
  init_attr->sq_sig_all = native.send_queue().config().signal_all ? 1 : 0;
  if ((mask & IBV_QP_STATE) != 0) {
    qp->state = attr->qp_state;
  }
  return 0;
}

int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr) {
  if (attr->comp_mask != 0 || (attr->rate_limit == 0 && (attr->max_burst_sz != 0 || attr->typical_pkt_sz != 0))) {
    return report({EINVAL, fmt::format("QP rate limit: comp_mask {:#x}, or a burst without a rate", attr->comp_mask)});
  }
  uapi::QpAttributes native;
  native.rate_limit_kbps = attr->rate_limit;
  mlx5_ib_modify_qp driver{};
  driver.burst_info.max_burst_sz = attr->max_burst_sz;
  driver.burst_info.typical_pkt_sz = attr->typical_pkt_sz;
  const auto change = object_of(qp).native->modify(native, IBV_QP_RATE_LIMIT, driver);
  return change ? 0 : report(change.error());
}

int reset_dci_stream(ibv_qp* qp, std::uint16_t stream) {
  const auto done = object_of(qp).native->reset_dci_stream(stream);
  return done ? 0 : report(done.error());
}

int query_ece(ibv_qp* qp, ibv_ece* ece) {
  ece->vendor_id = kMellanoxPciVendor;
  ece->options = object_of(qp).native->ece_options();
  ece->comp_mask = 0;
  return 0;
}

int set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (ece->comp_mask != 0 || ece->vendor_id != kMellanoxPciVendor) {
    return report({EINVAL, fmt::format("QP ECE: vendor {:#x}, comp_mask {:#x}; {:#x} and 0 are possible",
                                       ece->vendor_id, ece->comp_mask, kMellanoxPciVendor)});
  }
  object_of(qp).native->set_ece(ece->options);
  return 0;
}

// The device promises nothing of the kind without being asked.
int query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }

}  // namespace umlx5::verbs
