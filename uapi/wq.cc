#include "uapi/wq.h"

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

namespace umlx5::uapi {
namespace {

Expected<Wq> create_wq_by_command(Commands& commands, const WqRequest& wq) {
  ib_uverbs_ex_create_wq core{};
  core.wq_type = IB_UVERBS_WQT_RQ;
  core.user_handle = wq.user_handle;
  core.pd_handle = wq.pd.value;
  core.cq_handle = wq.cq.value;
  core.max_wr = wq.max_wr;
  core.max_sge = wq.max_sge;
  core.create_flags = wq.flags;
  ib_uverbs_ex_create_wq_resp answer{};
  mlx5_ib_create_wq_resp driver{};
  const auto done = commands.write({.name = "CREATE_WQ",
                                    .number = IB_USER_VERBS_EX_CMD_CREATE_WQ,
                                    .extended = true,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = bytes_of(wq.driver),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return Wq{{answer.wq_handle}, answer.wqn};
}

// A command with a list behind its fixed part, filled up to the unit that its header counts in.
template <typename Core>
std::vector<std::byte> with_list(const Core& core, std::span<const std::byte> list) {
  constexpr std::size_t kUnit = 8;
  std::vector<std::byte> bytes((sizeof core + list.size() + kUnit - 1) / kUnit * kUnit);
  std::memcpy(bytes.data(), &core, sizeof core);
  if (!list.empty()) std::memcpy(bytes.data() + sizeof core, list.data(), list.size());
  return bytes;
}

}  // namespace

Expected<Wq> create_wq(Commands& commands, const WqRequest& wq) {
  Wq result;
  std::uint32_t max_wr = 0, max_sge = 0;
  mlx5_ib_create_wq_resp driver{};
  Request request(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, "CREATE_WQ");
  request.new_handle(UVERBS_ATTR_CREATE_WQ_HANDLE)
      .handle(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, wq.pd)
      .handle(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, wq.cq)
      .input(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, wq.user_handle)
      .constant(UVERBS_ATTR_CREATE_WQ_TYPE, IB_UVERBS_WQT_RQ)
      .input(UVERBS_ATTR_CREATE_WQ_MAX_WR, wq.max_wr)
      .input(UVERBS_ATTR_CREATE_WQ_MAX_SGE, wq.max_sge)
      .input(UVERBS_ATTR_CREATE_WQ_FLAGS, wq.flags)
      .output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, max_wr)
      .output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, max_sge)
      .output(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, result.wqn)
      .driver(bytes_of(wq.driver), writable_bytes_of(driver));
  if (wq.async_event_fd >= 0) request.fd(UVERBS_ATTR_CREATE_WQ_EVENT_FD, wq.async_event_fd);
  const auto by_method = commands.try_method(request);
  if (!by_method) return std::unexpected(by_method.error());
  if (!*by_method) return create_wq_by_command(commands, wq);
  result.handle = request.result_handle<WqHandle>(UVERBS_ATTR_CREATE_WQ_HANDLE);
  return result;
}

Expected<void> modify_wq(Commands& commands, WqHandle wq, const WqChange& change) {
  ib_uverbs_ex_modify_wq core{};
  core.attr_mask = change.mask;
  core.wq_handle = wq.value;
  core.wq_state = change.state;
  core.curr_wq_state = change.current_state;
  core.flags = change.flags;
  core.flags_mask = change.flags_mask;
  mlx5_ib_modify_wq driver{};
  return commands.write({.name = "MODIFY_WQ",
                         .number = IB_USER_VERBS_EX_CMD_MODIFY_WQ,
                         .extended = true,
                         .core_in = writable_bytes_of(core),
                         .driver_in = bytes_of(driver)});
}

Expected<std::uint32_t> destroy_wq(Commands& commands, WqHandle wq) {
  std::uint32_t events = 0;
  Request request(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, "DESTROY_WQ");
  request.output(UVERBS_ATTR_DESTROY_WQ_RESP, events).handle(UVERBS_ATTR_DESTROY_WQ_HANDLE, wq);
  ib_uverbs_ex_destroy_wq core{};
  core.wq_handle = wq.value;
  ib_uverbs_ex_destroy_wq_resp answer{};
  const auto done = commands.destroy(request,
                                     {.name = "DESTROY_WQ",
                                      .number = IB_USER_VERBS_EX_CMD_DESTROY_WQ,
                                      .extended = true,
                                      .core_in = writable_bytes_of(core),
                                      .core_out = writable_bytes_of(answer)},
                                     fmt::format("WQ handle {}", wq.value));
  if (!done) return std::unexpected(done.error());
  return events + answer.events_reported;
}

Expected<RwqIndTable> create_rwq_ind_table(Commands& commands, std::span<const WqHandle> queues) {
  if (!std::has_single_bit(queues.size())) {
    return fail(EINVAL, fmt::format("CREATE_RWQ_IND_TBL: {} queues; a power of two is possible", queues.size()));
  }
  ib_uverbs_ex_create_rwq_ind_table core{};
  core.log_ind_tbl_size = static_cast<std::uint32_t>(std::countr_zero(queues.size()));
  static_assert(sizeof(WqHandle) == sizeof(__u32));
  std::vector<std::byte> bytes = with_list(core, std::as_bytes(queues));
  ib_uverbs_ex_create_rwq_ind_table_resp answer{};
  mlx5_ib_create_rwq_ind_tbl_resp driver{};
  const auto done = commands.write({.name = "CREATE_RWQ_IND_TBL",
                                    .number = IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL,
                                    .extended = true,
                                    .core_in = bytes,
                                    .core_out = writable_bytes_of(answer),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return RwqIndTable{{answer.ind_tbl_handle}, answer.ind_tbl_num};
}

Expected<void> destroy_rwq_ind_table(Commands& commands, RwqIndTableHandle table) {
  Request request(UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY, "DESTROY_RWQ_IND_TBL");
  request.handle(UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, table);
  ib_uverbs_ex_destroy_rwq_ind_table core{};
  core.ind_tbl_handle = table.value;
  return commands.destroy(request,
                          {.name = "DESTROY_RWQ_IND_TBL",
                           .number = IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
                           .extended = true,
                           .core_in = writable_bytes_of(core)},
                          fmt::format("table handle {}", table.value));
}

Expected<FlowHandle> create_flow(Commands& commands, const FlowRequest& request) {
  ib_uverbs_create_flow core{};
  core.qp_handle = request.qp.value;
  core.flow_attr.type = request.type;
  core.flow_attr.size = static_cast<__u16>(request.specifications.size());
  core.flow_attr.priority = request.priority;
  core.flow_attr.num_of_specs = request.specification_count;
  core.flow_attr.port = request.port;
  core.flow_attr.flags = request.flags;
  std::vector<std::byte> bytes = with_list(core, request.specifications);
  ib_uverbs_create_flow_resp answer{};
  const auto done = commands.write({.name = "CREATE_FLOW",
                                    .number = IB_USER_VERBS_EX_CMD_CREATE_FLOW,
                                    .extended = true,
                                    .core_in = bytes,
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return FlowHandle{answer.flow_handle};
}

Expected<void> destroy_flow(Commands& commands, FlowHandle flow) {
  Request request(UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, "DESTROY_FLOW");
  request.handle(UVERBS_ATTR_DESTROY_FLOW_HANDLE, flow);
  ib_uverbs_destroy_flow core{};
  core.flow_handle = flow.value;
  return commands.destroy(request,
                          {.name = "DESTROY_FLOW",
                           .number = IB_USER_VERBS_EX_CMD_DESTROY_FLOW,
                           .extended = true,
                           .core_in = writable_bytes_of(core)},
                          fmt::format("flow handle {}", flow.value));
}

}  // namespace umlx5::uapi
