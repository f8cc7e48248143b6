#include <rdma/mlx5-abi.h>

#include <initializer_list>

#include "driver/verbs/device_capabilities.h"
#include "driver/verbs/device_query.h"
#include "driver/verbs/mlx5dv_additions.h"
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

// The optional parts of mlx5dv_context that the caller wants, filled one after another.
class Parts {
 public:
  explicit Parts(std::uint64_t wanted) : wanted_(wanted) {}
  template <typename T>
  void set(std::uint64_t mask, T& to, const T& from, bool available = true) {
    if (available && take(mask)) {
      to = from;
    }
  }
  // Whether the caller wants it; then it is to be filled.
  bool take(std::uint64_t mask) {
    given_ |= wanted_ & mask;
    return (wanted_ & mask) != 0;
  }
  std::uint64_t given() const { return given_; }

 private:
  std::uint64_t wanted_;
  std::uint64_t given_ = 0;
};

void set_driver_parts(const mlx5_ib_query_device_resp& driver, Parts& parts, mlx5dv_context& to) {
  mlx5dv_context all{};
  fill_driver_caps(driver, all);
  parts.set(MLX5DV_CONTEXT_MASK_CQE_COMPRESION, to.cqe_comp_caps, all.cqe_comp_caps);
  parts.set(MLX5DV_CONTEXT_MASK_SWP, to.sw_parsing_caps, all.sw_parsing_caps);
  parts.set(MLX5DV_CONTEXT_MASK_STRIDING_RQ, to.striding_rq_caps, all.striding_rq_caps);
  parts.set(MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS, to.tunnel_offloads_caps, all.tunnel_offloads_caps);
  parts.set(MLX5DV_CONTEXT_MASK_DCI_STREAMS, to.dci_streams_caps, all.dci_streams_caps);
}

void set_device_parts(const HcaCapabilities& device, Parts& parts, mlx5dv_context& to) {
  if (parts.take(MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD)) {
    fill(device, to.sig_caps);
  }
  if (parts.take(MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD)) {
    fill(device, to.crypto_caps);
  }
  parts.set(MLX5DV_CONTEXT_MASK_DC_ODP_CAPS, to.dc_odp_caps, device.dc_on_demand);
  parts.set(MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH, to.max_wr_memcpy_length, std::size_t{device.max_memcpy_bytes});
}

// Where a newer program has room for them.
void set_newer_parts(const uapi::Mlx5QueryDeviceResponse& driver, const HcaCapabilities& device, Parts& parts,
                     umlx5dv_context& to) {
  if (parts.take(UMLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM)) {
    to.max_dc_rd_atom = device.max_dc_rd_atomic;
    to.max_dc_init_rd_atom = device.max_dc_init_rd_atomic;
  }
  parts.set(UMLX5DV_CONTEXT_MASK_REG_C0, to.reg_c0,
            umlx5dv_reg{.value = driver.reg_c0_value, .mask = driver.reg_c0_mask}, driver.reg_c0_mask != 0);
  const HcaCapabilities::OutOfOrder& most = device.out_of_order;
  parts.set(UMLX5DV_CONTEXT_MASK_OOO_RECV_WRS, to.ooo_recv_wrs_caps,
            umlx5dv_ooo_recv_wrs_caps{.max_rc = most.max_rc,
                                      .max_xrc = most.max_xrc,
                                      .max_dct = most.max_dct,
                                      .max_ud = most.max_ud,
                                      .max_uc = most.max_uc},
            (driver.base.flags & uapi::kMlx5QueryDeviceOutOfOrderPlacement) != 0);
}

void set_clock_parts(ContextObject& object, Parts& parts, mlx5dv_context& to) {
  const mlx5_ib_clock_info* info = object.clocks.clock_info(*object.native);
  const volatile std::uint32_t* clock = object.clocks.core_clock(*object.native);
  parts.set(MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE, to.max_clock_info_update_nsec,
            info == nullptr ? std::uint64_t{0} : std::uint64_t{info->overflow_period}, info != nullptr);
  parts.set(MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK, to.hca_core_clock,
            static_cast<void*>(const_cast<std::uint32_t*>(clock)), clock != nullptr);
}

}  // namespace

int query_mlx5_device(ibv_context* context, mlx5dv_context* attributes) {
  ContextObject& object = object_of(context);
  const auto answer = uapi::query_device(object.native->commands());
  if (!answer) {
    return report(answer.error());
  }
  const mlx5_ib_alloc_ucontext_resp& kernel = object.native->kernel_info().device;
  Parts parts(attributes->comp_mask);
  attributes->version = 0;
  attributes->flags = device_flags(answer->driver.base, kernel);
  set_driver_parts(answer->driver.base, parts, *attributes);
  set_device_parts(object.native->capabilities(), parts, *attributes);
  set_newer_parts(answer->driver, object.native->capabilities(), parts,
                  *reinterpret_cast<umlx5dv_context*>(attributes));
  set_clock_parts(object, parts, *attributes);
  parts.set(MLX5DV_CONTEXT_MASK_DYN_BFREGS, attributes->max_dynamic_bfregs, std::uint32_t{kernel.num_dyn_bfregs});
  parts.set(MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS, attributes->flow_action_flags,
            std::uint32_t{kernel.flow_action_flags});
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
