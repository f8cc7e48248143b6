#include <rdma/mlx5-abi.h>

#include <initializer_list>

#include "driver/verbs/device_query.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/device_query.h"

namespace umlx5::verbs {
namespace {

struct FlagRule {
  std::uint32_t from;
  std::uint64_t to;
};

std::uint64_t translate(std::uint32_t flags, std::initializer_list<FlagRule> rules) {
  std::uint64_t result = 0;
  for (const FlagRule& rule : rules) {
    result |= (flags & rule.from) != 0 ? rule.to : 0;
  }
  return result;
}

std::uint64_t device_flags(const mlx5_ib_query_device_resp& driver, const mlx5_ib_alloc_ucontext_resp& context) {
  return (context.cqe_version == 1 ? MLX5DV_CONTEXT_FLAGS_CQE_V1 : 0) |
         translate(driver.mlx5_ib_support_multi_pkt_send_wqes,
                   {{MLX5_IB_ALLOW_MPW, MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED},
                    {MLX5_IB_SUPPORT_EMPW, MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW}}) |
         translate(driver.flags,
                   {{MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP, MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP},
                    {MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD, MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD},
                    {MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE, MLX5DV_CONTEXT_FLAGS_PACKET_BASED_CREDIT_MODE}}) |
         translate(context.comp_mask,
                   {{MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS, MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS}});
}

void fill_driver_caps(const mlx5_ib_query_device_resp& driver, mlx5dv_context& to) {
  to.cqe_comp_caps.max_num = driver.cqe_comp_caps.max_num;
  to.cqe_comp_caps.supported_format = driver.cqe_comp_caps.supported_format;
  to.sw_parsing_caps.sw_parsing_offloads = driver.sw_parsing_caps.sw_parsing_offloads;
  to.sw_parsing_caps.supported_qpts = driver.sw_parsing_caps.supported_qpts;
  const mlx5_ib_striding_rq_caps& striding = driver.striding_rq_caps;
  to.striding_rq_caps = {.min_single_stride_log_num_of_bytes = striding.min_single_stride_log_num_of_bytes,
                         .max_single_stride_log_num_of_bytes = striding.max_single_stride_log_num_of_bytes,
                         .min_single_wqe_log_num_of_strides = striding.min_single_wqe_log_num_of_strides,
                         .max_single_wqe_log_num_of_strides = striding.max_single_wqe_log_num_of_strides,
                         .supported_qpts = striding.supported_qpts};
  to.tunnel_offloads_caps = driver.tunnel_offloads_caps;
  to.dci_streams_caps.max_log_num_concurent = driver.dci_streams_caps.max_log_num_concurent;
  to.dci_streams_caps.max_log_num_errored = driver.dci_streams_caps.max_log_num_errored;
}

// One optional part of mlx5dv_context after another: `fill` tells whether there is one.
class Parts {
 public:
  explicit Parts(std::uint64_t wanted) : wanted_(wanted) {}
  template <typename Fill>
  void add(std::uint64_t mask, Fill fill) {
    if ((wanted_ & mask) != 0 && fill()) {
      given_ |= mask;
    }
  }
  std::uint64_t given() const { return given_; }

 private:
  std::uint64_t wanted_;
  std::uint64_t given_ = 0;
};

}  // namespace

int query_mlx5_device(ibv_context* context, mlx5dv_context* attributes) {
  ContextObject& object = object_of(context);
  Context& native = *object.native;
  const auto answer = uapi::query_device(native.commands());
  if (!answer) {
    return report(answer.error());
  }
  const mlx5_ib_alloc_ucontext_resp& kernel = native.kernel_info().device;
  mlx5dv_context all{};
  fill_driver_caps(answer->driver.base, all);
  Parts parts(attributes->comp_mask);
  attributes->version = 0;
  attributes->flags = device_flags(answer->driver.base, kernel);
  parts.add(MLX5DV_CONTEXT_MASK_CQE_COMPRESION, [&] {
    attributes->cqe_comp_caps = all.cqe_comp_caps;
    return true;
  });
  parts.add(MLX5DV_CONTEXT_MASK_SWP, [&] {
    attributes->sw_parsing_caps = all.sw_parsing_caps;
    return true;
  });
  parts.add(MLX5DV_CONTEXT_MASK_STRIDING_RQ, [&] {
    attributes->striding_rq_caps = all.striding_rq_caps;
    return true;
  });
  parts.add(MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS, [&] {
    attributes->tunnel_offloads_caps = all.tunnel_offloads_caps;
    return true;
  });
  parts.add(MLX5DV_CONTEXT_MASK_DYN_BFREGS, [&] {
    attributes->max_dynamic_bfregs = kernel.num_dyn_bfregs;
    return true;
  });
  parts.add(MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE, [&] {
    const mlx5_ib_clock_info* info = object.clocks.clock_info(native);
    if (info != nullptr) {
      attributes->max_clock_info_update_nsec = info->overflow_period;
    }
    return info != nullptr;
  });
  parts.add(MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS, [&] {
    attributes->flow_action_flags = kernel.flow_action_flags;
    return true;
  });
  parts.add(MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK, [&] {
    const volatile std::uint32_t* clock = object.clocks.core_clock(native);
    if (clock != nullptr) {
      attributes->hca_core_clock = const_cast<std::uint32_t*>(clock);
    }
    return clock != nullptr;
  });
  parts.add(MLX5DV_CONTEXT_MASK_DCI_STREAMS, [&] {
    attributes->dci_streams_caps = all.dci_streams_caps;
    return true;
  });
  attributes->comp_mask = parts.given();
  return 0;
}

int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  ContextObject& object = object_of(context);
  const std::uint32_t wanted = values->comp_mask;
  values->comp_mask = 0;
  if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) == 0) {
    return 0;
  }
  const auto cycles = object.clocks.read(*object.native);
  if (!cycles) {
    return report(cycles.error());
  }
  values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<long>(*cycles)};
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

}  // namespace umlx5::verbs
