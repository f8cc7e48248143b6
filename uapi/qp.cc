#include "uapi/qp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <span>

namespace umlx5::uapi {
namespace {

// Bits of enum ibv_qp_attr_mask of <infiniband/verbs.h>: which attributes a change carries.
namespace mask_bit {
constexpr std::uint32_t kState = 1U << 0;
constexpr std::uint32_t kCurrentState = 1U << 1;
constexpr std::uint32_t kNotifyWhenDrained = 1U << 2;
constexpr std::uint32_t kAccess = 1U << 3;
constexpr std::uint32_t kPkeyIndex = 1U << 4;
constexpr std::uint32_t kPort = 1U << 5;
constexpr std::uint32_t kQkey = 1U << 6;
constexpr std::uint32_t kAddressVector = 1U << 7;
constexpr std::uint32_t kPathMtu = 1U << 8;
constexpr std::uint32_t kTimeout = 1U << 9;
constexpr std::uint32_t kRetryCount = 1U << 10;
constexpr std::uint32_t kRnrRetry = 1U << 11;
constexpr std::uint32_t kRqPsn = 1U << 12;
constexpr std::uint32_t kMaxRdAtomic = 1U << 13;
constexpr std::uint32_t kAlternatePath = 1U << 14;
constexpr std::uint32_t kMinRnrTimer = 1U << 15;
constexpr std::uint32_t kSqPsn = 1U << 16;
constexpr std::uint32_t kMaxDestRdAtomic = 1U << 17;
constexpr std::uint32_t kPathMigrationState = 1U << 18;
constexpr std::uint32_t kDestinationQpn = 1U << 20;
constexpr std::uint32_t kRateLimit = 1U << 25;
}  // namespace mask_bit

// Bit of create_flags that goes with source_qpn in the extended command: IBV_QP_CREATE_SOURCE_QPN.
constexpr std::uint32_t kCreateSourceQpn = 1U << 10;

std::span<const std::byte> driver_bytes(const QpRequest& qp) {
  return std::visit([](const auto& driver) { return bytes_of(driver); }, qp.driver);
}

bool signals_all(const QpRequest& qp) { return (qp.flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL) != 0; }

// An XRC target's domain travels where other types have their PD.
std::uint32_t domain(const QpRequest& qp) { return qp.type == IB_UVERBS_QPT_XRC_TGT ? qp.xrcd->value : qp.pd->value; }

template <typename H>
std::uint32_t value_or_zero(const std::optional<H>& handle) {
  return handle ? handle->value : 0;
}

Expected<void> check(const QpRequest& qp) {
  if (qp.type == IB_UVERBS_QPT_XRC_TGT) {
    if (!qp.xrcd) return fail(EINVAL, "CREATE_QP: an XRC target needs an XRCD");
  } else if (!qp.pd) {
    return fail(EINVAL, fmt::format("CREATE_QP: a QP of type {} needs a PD", qp.type));
  }
  return {};
}

// The members that both forms of the command have under the same names.
template <typename Core>
void fill_create(Core& core, const QpRequest& qp) {
  core.user_handle = qp.user_handle;
  core.pd_handle = domain(qp);
  core.send_cq_handle = value_or_zero(qp.send_cq);
  core.recv_cq_handle = value_or_zero(qp.recv_cq);
  core.srq_handle = value_or_zero(qp.srq);
  core.max_send_wr = qp.capabilities.max_send_wr;
  core.max_recv_wr = qp.capabilities.max_recv_wr;
  core.max_send_sge = qp.capabilities.max_send_sge;
  core.max_recv_sge = qp.capabilities.max_recv_sge;
  core.max_inline_data = qp.capabilities.max_inline_data;
  core.sq_sig_all = signals_all(qp) ? 1 : 0;
  core.qp_type = qp.type;
  core.is_srq = qp.srq ? 1 : 0;
}

Qp created(const ib_uverbs_create_qp_resp& answer, const mlx5_ib_create_qp_resp& driver) {
  return Qp{{answer.qp_handle},
            answer.qpn,
            {answer.max_send_wr, answer.max_recv_wr, answer.max_send_sge, answer.max_recv_sge, answer.max_inline_data},
            driver};
}

Expected<Qp> create_qp_plain(Commands& commands, const QpRequest& qp) {
  ib_uverbs_create_qp core{};
  fill_create(core, qp);
  ib_uverbs_create_qp_resp answer{};
  mlx5_ib_create_qp_resp driver{};
  const auto done = commands.write({.name = "CREATE_QP",
                                    .number = IB_USER_VERBS_CMD_CREATE_QP,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = driver_bytes(qp),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return created(answer, driver);
}

Expected<Qp> create_qp_extended(Commands& commands, const QpRequest& qp) {
  ib_uverbs_ex_create_qp core{};
  fill_create(core, qp);
  core.create_flags = qp.flags & ~std::uint32_t{IB_UVERBS_QP_CREATE_SQ_SIG_ALL};
  if (qp.rwq_ind_table) {
    core.comp_mask |= IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
    core.rwq_ind_tbl_handle = qp.rwq_ind_table->value;
  }
  if (qp.source_qpn) {
    core.create_flags |= kCreateSourceQpn;
    core.source_qpn = *qp.source_qpn;
  }
  ib_uverbs_ex_create_qp_resp answer{};
  mlx5_ib_create_qp_resp driver{};
  const auto done = commands.write({.name = "CREATE_QP",
                                    .number = IB_USER_VERBS_EX_CMD_CREATE_QP,
                                    .extended = true,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = driver_bytes(qp),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return created(answer.base, driver);
}

bool needs_extended(const QpRequest& qp) {
  return (qp.flags & ~std::uint32_t{IB_UVERBS_QP_CREATE_SQ_SIG_ALL}) != 0 || qp.rwq_ind_table || qp.source_qpn;
}

void add_inputs(Request& request, const QpRequest& qp) {
  if (qp.type == IB_UVERBS_QPT_XRC_TGT) {
    request.handle(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, *qp.xrcd);
  } else {
    request.handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, *qp.pd);
  }
  if (qp.send_cq) request.handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, *qp.send_cq);
  if (qp.recv_cq) request.handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, *qp.recv_cq);
  if (qp.rwq_ind_table) request.handle(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, *qp.rwq_ind_table);
  request.new_handle(UVERBS_ATTR_CREATE_QP_HANDLE)
      .constant(UVERBS_ATTR_CREATE_QP_TYPE, qp.type)
      .input(UVERBS_ATTR_CREATE_QP_USER_HANDLE, qp.user_handle)
      .input(UVERBS_ATTR_CREATE_QP_CAP, qp.capabilities);
  if (qp.async_event_fd >= 0) request.fd(UVERBS_ATTR_CREATE_QP_EVENT_FD, qp.async_event_fd);
  if (qp.srq) request.handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, *qp.srq);
  if (qp.flags != 0) request.input(UVERBS_ATTR_CREATE_QP_FLAGS, qp.flags);
  if (qp.source_qpn) request.input(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, *qp.source_qpn);
}

ib_uverbs_qp_dest to_kernel(const AddressVector& from) {
  ib_uverbs_qp_dest to{};
  std::ranges::copy(from.dgid, to.dgid);
  to.flow_label = from.flow_label;
  to.dlid = from.dlid;
  to.sgid_index = from.sgid_index;
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.is_global = from.is_global ? 1 : 0;
  to.port_num = from.port;
  return to;
}

AddressVector from_kernel(const ib_uverbs_qp_dest& from) {
  AddressVector to;
  std::ranges::copy(from.dgid, to.dgid.begin());
  to.flow_label = from.flow_label;
  to.sgid_index = from.sgid_index;
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  to.dlid = from.dlid;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.is_global = from.is_global != 0;
  to.port = from.port_num;
  return to;
}

ib_uverbs_modify_qp modify_core(QpHandle qp, const QpAttributes& from, std::uint32_t mask) {
  ib_uverbs_modify_qp core{};
  core.qp_handle = qp.value;
  core.attr_mask = mask;
  const auto has = [mask](std::uint32_t bits) { return (mask & bits) != 0; };
  if (has(mask_bit::kState)) core.qp_state = from.state;
  if (has(mask_bit::kCurrentState)) core.cur_qp_state = from.current_state;
  if (has(mask_bit::kNotifyWhenDrained)) core.en_sqd_async_notify = from.notify_when_drained;
  if (has(mask_bit::kAccess)) core.qp_access_flags = from.access;
  if (has(mask_bit::kPkeyIndex)) core.pkey_index = from.pkey_index;
  if (has(mask_bit::kPort)) core.port_num = from.port;
  if (has(mask_bit::kQkey)) core.qkey = from.qkey;
  if (has(mask_bit::kAddressVector)) core.dest = to_kernel(from.primary);
  if (has(mask_bit::kPathMtu)) core.path_mtu = from.path_mtu;
  if (has(mask_bit::kTimeout)) core.timeout = from.timeout;
  if (has(mask_bit::kRetryCount)) core.retry_cnt = from.retry_count;
  if (has(mask_bit::kRnrRetry)) core.rnr_retry = from.rnr_retry;
  if (has(mask_bit::kRqPsn)) core.rq_psn = from.rq_psn;
  if (has(mask_bit::kMaxRdAtomic)) core.max_rd_atomic = from.max_rd_atomic;
  if (has(mask_bit::kAlternatePath)) {
    core.alt_dest = to_kernel(from.alternate);
    core.alt_pkey_index = from.alternate_pkey_index;
    core.alt_port_num = from.alternate_port;
    core.alt_timeout = from.alternate_timeout;
  }
  if (has(mask_bit::kMinRnrTimer)) core.min_rnr_timer = from.min_rnr_timer;
  if (has(mask_bit::kSqPsn)) core.sq_psn = from.sq_psn;
  if (has(mask_bit::kMaxDestRdAtomic)) core.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (has(mask_bit::kPathMigrationState)) core.path_mig_state = from.path_migration_state;
  if (has(mask_bit::kDestinationQpn)) core.dest_qp_num = from.destination_qpn;
  return core;
}

Expected<QpChange> modify_qp_extended(Commands& commands, const ib_uverbs_modify_qp& base, std::uint32_t rate_limit,
                                      const mlx5_ib_modify_qp& driver_in) {
  ib_uverbs_ex_modify_qp core{};
  core.base = base;
  core.rate_limit = rate_limit;
  ib_uverbs_ex_modify_qp_resp answer{};
  mlx5_ib_modify_qp_resp driver{};
  const auto done = commands.write({.name = "MODIFY_QP",
                                    .number = IB_USER_VERBS_EX_CMD_MODIFY_QP,
                                    .extended = true,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = bytes_of(driver_in),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return QpChange{driver.dctn, driver.ece_options, driver.response_length};
}

QpAttributes from_kernel(const ib_uverbs_query_qp_resp& from) {
  QpAttributes to;
  to.state = from.qp_state;
  to.current_state = from.cur_qp_state;
  to.path_mtu = from.path_mtu;
  to.path_migration_state = from.path_mig_state;
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.destination_qpn = from.dest_qp_num;
  to.access = from.qp_access_flags;
  to.primary = from_kernel(from.dest);
  to.alternate = from_kernel(from.alt_dest);
  to.capabilities = {from.max_send_wr, from.max_recv_wr, from.max_send_sge, from.max_recv_sge, from.max_inline_data};
  to.pkey_index = from.pkey_index;
  to.alternate_pkey_index = from.alt_pkey_index;
  to.draining = from.sq_draining;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port = from.port_num;
  to.timeout = from.timeout;
  to.retry_count = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.alternate_port = from.alt_port_num;
  to.alternate_timeout = from.alt_timeout;
  to.sq_signal_all = from.sq_sig_all != 0;
  return to;
}

template <typename Core>
Expected<void> multicast(Commands& commands, std::string_view name, std::uint32_t number, QpHandle qp,
                         const std::array<std::uint8_t, 16>& gid, std::uint16_t lid) {
  Core core{};
  std::ranges::copy(gid, core.gid);
  core.qp_handle = qp.value;
  core.mlid = lid;
  return commands.write({.name = name, .number = number, .core_in = writable_bytes_of(core)});
}

}  // namespace

Expected<Qp> create_qp(Commands& commands, const QpRequest& qp) {
  if (auto fine = check(qp); !fine) return std::unexpected(fine.error());
  Qp result;
  Request request(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, "CREATE_QP");
  add_inputs(request, qp);
  request.output(UVERBS_ATTR_CREATE_QP_RESP_CAP, result.capabilities)
      .output(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, result.qpn)
      .driver(driver_bytes(qp), writable_bytes_of(result.driver));

  const auto by_method = commands.try_method(request);
  if (!by_method) return std::unexpected(by_method.error());
  if (!*by_method) return needs_extended(qp) ? create_qp_extended(commands, qp) : create_qp_plain(commands, qp);
  result.handle = request.result_handle<QpHandle>(UVERBS_ATTR_CREATE_QP_HANDLE);
  return result;
}

Expected<QpChange> modify_qp(Commands& commands, QpHandle qp, const QpAttributes& attributes, std::uint32_t mask,
                             const std::optional<mlx5_ib_modify_qp>& driver) {
  ib_uverbs_modify_qp core = modify_core(qp, attributes, mask);
  const bool has_rate = (mask & mask_bit::kRateLimit) != 0;
  if (driver || has_rate) {
    return modify_qp_extended(commands, core, has_rate ? attributes.rate_limit_kbps : 0,
                              driver.value_or(mlx5_ib_modify_qp{}));
  }
  const auto done =
      commands.write({.name = "MODIFY_QP", .number = IB_USER_VERBS_CMD_MODIFY_QP, .core_in = writable_bytes_of(core)});
  if (!done) return std::unexpected(done.error());
  return QpChange{};
}

Expected<QpAttributes> query_qp(Commands& commands, QpHandle qp, std::uint32_t mask) {
  ib_uverbs_query_qp core{};
  core.qp_handle = qp.value;
  core.attr_mask = mask;
  ib_uverbs_query_qp_resp answer{};
  const auto done = commands.write({.name = "QUERY_QP",
                                    .number = IB_USER_VERBS_CMD_QUERY_QP,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return from_kernel(answer);
}

Expected<std::uint32_t> destroy_qp(Commands& commands, QpHandle qp) {
  ib_uverbs_destroy_qp_resp answer{};
  Request request(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, "DESTROY_QP");
  request.output(UVERBS_ATTR_DESTROY_QP_RESP, answer).handle(UVERBS_ATTR_DESTROY_QP_HANDLE, qp);
  ib_uverbs_destroy_qp core{};
  core.qp_handle = qp.value;
  const auto done = commands.destroy(request,
                                     {.name = "DESTROY_QP",
                                      .number = IB_USER_VERBS_CMD_DESTROY_QP,
                                      .core_in = writable_bytes_of(core),
                                      .core_out = writable_bytes_of(answer)},
                                     fmt::format("QP handle {}", qp.value));
  if (!done) return std::unexpected(done.error());
  return answer.events_reported;
}

Expected<void> attach_multicast(Commands& commands, QpHandle qp, const std::array<std::uint8_t, 16>& gid,
                                std::uint16_t lid) {
  return multicast<ib_uverbs_attach_mcast>(commands, "ATTACH_MCAST", IB_USER_VERBS_CMD_ATTACH_MCAST, qp, gid, lid);
}

Expected<void> detach_multicast(Commands& commands, QpHandle qp, const std::array<std::uint8_t, 16>& gid,
                                std::uint16_t lid) {
  return multicast<ib_uverbs_detach_mcast>(commands, "DETACH_MCAST", IB_USER_VERBS_CMD_DETACH_MCAST, qp, gid, lid);
}

Expected<Qp> open_qp(Commands& commands, const SharedQpRequest& request) {
  ib_uverbs_open_qp core{};
  core.user_handle = request.user_handle;
  core.pd_handle = request.xrcd.value;
  core.qpn = request.qpn;
  core.qp_type = request.type;
  ib_uverbs_create_qp_resp answer{};
  const auto done = commands.write({.name = "OPEN_QP",
                                    .number = IB_USER_VERBS_CMD_OPEN_QP,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return created(answer, {});
}

}  // namespace umlx5::uapi
