#include "uapi/cq.h"

#include <fmt/format.h>

namespace umlx5::uapi {
namespace {

constexpr std::uint32_t kModerate = 1U << 0;  // enum ibv_cq_attr_mask of <infiniband/verbs.h>

Expected<Cq> create_cq_plain(Commands& commands, const CqRequest& cq) {
  ib_uverbs_create_cq core{};
  core.user_handle = cq.user_handle;
  core.cqe = cq.entries;
  core.comp_vector = cq.completion_vector;
  core.comp_channel = cq.completion_channel_fd;
  ib_uverbs_create_cq_resp answer{};
  mlx5_ib_create_cq_resp driver{};
  const auto done = commands.write({.name = "CREATE_CQ",
                                    .number = IB_USER_VERBS_CMD_CREATE_CQ,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = bytes_of(cq.driver),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return Cq{{answer.cq_handle}, answer.cqe, driver.cqn};
}

Expected<Cq> create_cq_extended(Commands& commands, const CqRequest& cq) {
  ib_uverbs_ex_create_cq core{};
  core.user_handle = cq.user_handle;
  core.cqe = cq.entries;
  core.comp_vector = cq.completion_vector;
  core.comp_channel = cq.completion_channel_fd;
  core.flags = cq.flags;
  ib_uverbs_ex_create_cq_resp answer{};
  mlx5_ib_create_cq_resp driver{};
  const auto done = commands.write({.name = "CREATE_CQ",
                                    .number = IB_USER_VERBS_EX_CMD_CREATE_CQ,
                                    .extended = true,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = bytes_of(cq.driver),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return Cq{{answer.base.cq_handle}, answer.base.cqe, driver.cqn};
}

}  // namespace

Expected<Cq> create_cq(Commands& commands, const CqRequest& cq) {
  Cq result;
  mlx5_ib_create_cq_resp driver{};
  Request request(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, "CREATE_CQ");
  request.new_handle(UVERBS_ATTR_CREATE_CQ_HANDLE)
      .output(UVERBS_ATTR_CREATE_CQ_RESP_CQE, result.entries)
      .input(UVERBS_ATTR_CREATE_CQ_CQE, cq.entries)
      .input(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, cq.user_handle);
  if (cq.completion_channel_fd >= 0) request.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, cq.completion_channel_fd);
  request.input(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, cq.completion_vector);
  // Kernels that have the method but not this attribute report to the context's descriptor: the only one there is then.
  if (cq.async_event_fd >= 0) request.fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD, cq.async_event_fd).optional();
  if (cq.flags != 0) request.input(UVERBS_ATTR_CREATE_CQ_FLAGS, cq.flags);
  request.driver(bytes_of(cq.driver), writable_bytes_of(driver));

  const auto by_method = commands.try_method(request);
  if (!by_method) return std::unexpected(by_method.error());
  if (!*by_method) return cq.flags != 0 ? create_cq_extended(commands, cq) : create_cq_plain(commands, cq);
  result.handle = request.result_handle<CqHandle>(UVERBS_ATTR_CREATE_CQ_HANDLE);
  result.cqn = driver.cqn;
  return result;
}

Expected<std::uint32_t> resize_cq(Commands& commands, CqHandle cq, std::uint32_t entries,
                                  const mlx5_ib_resize_cq& driver) {
  ib_uverbs_resize_cq core{};
  core.cq_handle = cq.value;
  core.cqe = entries;
  ib_uverbs_resize_cq_resp answer{};
  const auto done = commands.write({.name = "RESIZE_CQ",
                                    .number = IB_USER_VERBS_CMD_RESIZE_CQ,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_in = bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return answer.cqe;
}

Expected<void> moderate_cq(Commands& commands, CqHandle cq, std::uint16_t count, std::uint16_t period_us) {
  ib_uverbs_ex_modify_cq core{};
  core.cq_handle = cq.value;
  core.attr_mask = kModerate;
  core.attr.cq_count = count;
  core.attr.cq_period = period_us;
  return commands.write({.name = "MODIFY_CQ",
                         .number = IB_USER_VERBS_EX_CMD_MODIFY_CQ,
                         .extended = true,
                         .core_in = writable_bytes_of(core)});
}

Expected<CqEventsReported> destroy_cq(Commands& commands, CqHandle cq) {
  ib_uverbs_destroy_cq_resp answer{};
  Request request(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, "DESTROY_CQ");
  request.output(UVERBS_ATTR_DESTROY_CQ_RESP, answer).handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, cq);
  ib_uverbs_destroy_cq core{};
  core.cq_handle = cq.value;
  const auto done = commands.destroy(request,
                                     {.name = "DESTROY_CQ",
                                      .number = IB_USER_VERBS_CMD_DESTROY_CQ,
                                      .core_in = writable_bytes_of(core),
                                      .core_out = writable_bytes_of(answer)},
                                     fmt::format("CQ handle {}", cq.value));
  if (!done) return std::unexpected(done.error());
  return CqEventsReported{answer.comp_events_reported, answer.async_events_reported};
}

}  // namespace umlx5::uapi
