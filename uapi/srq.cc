#include "uapi/srq.h"

#include <fmt/format.h>

#include <cerrno>

namespace umlx5::uapi {
namespace {

Expected<void> check(const SrqRequest& srq) {
  if (srq.type > IB_UVERBS_SRQT_TM) return fail(EINVAL, fmt::format("CREATE_SRQ: no SRQ type has number {}", srq.type));
  if (srq.type == IB_UVERBS_SRQT_XRC && !srq.xrcd) return fail(EINVAL, "CREATE_SRQ: an XRC SRQ needs an XRCD");
  if (srq.type != IB_UVERBS_SRQT_BASIC && !srq.cq) {
    return fail(EINVAL, "CREATE_SRQ: an SRQ for XRC or tag matching needs a CQ");
  }
  return {};
}

Expected<Srq> create_srq_basic(Commands& commands, const SrqRequest& srq) {
  ib_uverbs_create_srq core{};
  core.user_handle = srq.user_handle;
  core.pd_handle = srq.pd.value;
  core.max_wr = srq.max_wr;
  core.max_sge = srq.max_sge;
  core.srq_limit = srq.limit;
  ib_uverbs_create_srq_resp answer{};
  mlx5_ib_create_srq_resp driver{};
  const auto done = commands.write({.name = "CREATE_SRQ",
                                    .number = IB_USER_VERBS_CMD_CREATE_SRQ,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = bytes_of(srq.driver),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return Srq{{answer.srq_handle}, answer.max_wr, answer.max_sge, driver.srqn};
}

Expected<Srq> create_srq_typed(Commands& commands, const SrqRequest& srq) {
  ib_uverbs_create_xsrq core{};
  core.user_handle = srq.user_handle;
  core.srq_type = srq.type;
  core.pd_handle = srq.pd.value;
  core.max_wr = srq.max_wr;
  core.max_sge = srq.max_sge;
  core.srq_limit = srq.limit;
  core.max_num_tags = srq.max_tags;
  core.xrcd_handle = srq.xrcd.value_or(XrcdHandle{}).value;
  core.cq_handle = srq.cq.value_or(CqHandle{}).value;
  ib_uverbs_create_srq_resp answer{};
  mlx5_ib_create_srq_resp driver{};
  const auto done = commands.write({.name = "CREATE_XSRQ",
                                    .number = IB_USER_VERBS_CMD_CREATE_XSRQ,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = bytes_of(srq.driver),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return Srq{{answer.srq_handle}, answer.max_wr, answer.max_sge, driver.srqn};
}

}  // namespace

Expected<Srq> create_srq(Commands& commands, const SrqRequest& srq) {
  if (auto fine = check(srq); !fine) return std::unexpected(fine.error());
  Srq result;
  mlx5_ib_create_srq_resp driver{};
  Request request(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, "CREATE_SRQ");
  request.new_handle(UVERBS_ATTR_CREATE_SRQ_HANDLE)
      .constant(UVERBS_ATTR_CREATE_SRQ_TYPE, srq.type)
      .input(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, srq.user_handle)
      .handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, srq.pd)
      .input(UVERBS_ATTR_CREATE_SRQ_MAX_WR, srq.max_wr)
      .input(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, srq.max_sge)
      .input(UVERBS_ATTR_CREATE_SRQ_LIMIT, srq.limit);
  if (srq.xrcd) request.handle(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, *srq.xrcd);
  if (srq.cq) request.handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, *srq.cq);
  if (srq.type == IB_UVERBS_SRQT_TM) request.input(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, srq.max_tags);
  if (srq.async_event_fd >= 0) request.fd(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, srq.async_event_fd);
  request.output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, result.max_wr)
      .output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, result.max_sge);
  if (srq.type == IB_UVERBS_SRQT_XRC) request.output(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, result.srqn);
  request.driver(bytes_of(srq.driver), writable_bytes_of(driver));

  const auto by_method = commands.try_method(request);
  if (!by_method) return std::unexpected(by_method.error());
  if (!*by_method) {
    return srq.type == IB_UVERBS_SRQT_BASIC ? create_srq_basic(commands, srq) : create_srq_typed(commands, srq);
  }
  result.handle = request.result_handle<SrqHandle>(UVERBS_ATTR_CREATE_SRQ_HANDLE);
  result.srqn = driver.srqn;
  return result;
}

Expected<void> modify_srq(Commands& commands, SrqHandle srq, const SrqAttributes& attributes, std::uint32_t mask) {
  ib_uverbs_modify_srq core{};
  core.srq_handle = srq.value;
  core.attr_mask = mask;
  core.max_wr = attributes.max_wr;
  core.srq_limit = attributes.limit;
  return commands.write(
      {.name = "MODIFY_SRQ", .number = IB_USER_VERBS_CMD_MODIFY_SRQ, .core_in = writable_bytes_of(core)});
}

Expected<SrqAttributes> query_srq(Commands& commands, SrqHandle srq) {
  ib_uverbs_query_srq core{};
  core.srq_handle = srq.value;
  ib_uverbs_query_srq_resp answer{};
  const auto done = commands.write({.name = "QUERY_SRQ",
                                    .number = IB_USER_VERBS_CMD_QUERY_SRQ,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return SrqAttributes{answer.max_wr, answer.max_sge, answer.srq_limit};
}

Expected<std::uint32_t> destroy_srq(Commands& commands, SrqHandle srq) {
  ib_uverbs_destroy_srq_resp answer{};
  Request request(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, "DESTROY_SRQ");
  request.output(UVERBS_ATTR_DESTROY_SRQ_RESP, answer).handle(UVERBS_ATTR_DESTROY_SRQ_HANDLE, srq);
  ib_uverbs_destroy_srq core{};
  core.srq_handle = srq.value;
  const auto done = commands.destroy(request,
                                     {.name = "DESTROY_SRQ",
                                      .number = IB_USER_VERBS_CMD_DESTROY_SRQ,
                                      .core_in = writable_bytes_of(core),
                                      .core_out = writable_bytes_of(answer)},
                                     fmt::format("SRQ handle {}", srq.value));
  if (!done) return std::unexpected(done.error());
  return answer.events_reported;
}

}  // namespace umlx5::uapi
