// What raw packets are received through: receive work queues, tables of them, flows.
#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "driver/verbs/events.h"
#include "driver/verbs/post_list.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

static_assert(IBV_FLOW_ATTR_NORMAL == 0 && IBV_WQ_ATTR_STATE == 1 && IBV_WQ_ATTR_CURR_STATE == 2 &&
              IBV_WQ_ATTR_FLAGS == 4);
static_assert(IBV_WQS_RDY == static_cast<int>(WqState::kReady) && IBV_WQS_ERR == static_cast<int>(WqState::kError));

int post_wq_recv(ibv_wq* wq, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  WqObject& object = object_of(wq);
  const std::lock_guard guard(object.lock);
  return post_list(*object.queue, requests, bad);
}

Expected<std::optional<StridingOptions>> striding_of(const mlx5dv_wq_init_attr* attr) {
  if (attr == nullptr || attr->comp_mask == 0) {
    return std::nullopt;
  }
  if (attr->comp_mask != MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ) {
    return fail(EINVAL, fmt::format("WQ create: mlx5dv comp_mask {:#x} has bits besides {:#x}", attr->comp_mask,
                                    static_cast<unsigned>(MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ)));
  }
  const mlx5dv_striding_rq_init_attr& asked = attr->striding_rq_attrs;
  return StridingOptions{.log_stride_bytes = asked.single_stride_log_num_of_bytes,
                         .log_strides = asked.single_wqe_log_num_of_strides,
                         .two_byte_shift = asked.two_byte_shift_en != 0};
}

Expected<WqObject*> create(ibv_context* context, ibv_wq_init_attr& attr, const mlx5dv_wq_init_attr* mlx5_attr) {
  constexpr std::uint32_t kMasks = IBV_WQ_INIT_ATTR_FLAGS;
  const std::uint32_t flags = (attr.comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0 ? attr.create_flags : 0;
  if (attr.wq_type != IBV_WQT_RQ || (attr.comp_mask & ~kMasks) != 0) {
    return fail(EINVAL, fmt::format("WQ create: type {}, comp_mask {:#x}; receive queues with flags are possible",
                                    static_cast<int>(attr.wq_type), attr.comp_mask));
  }
  if ((flags & ~std::uint32_t{IBV_WQ_FLAGS_CVLAN_STRIPPING}) != 0) {
    return fail(EOPNOTSUPP, fmt::format("WQ create: create_flags {:#x}; the device strips VLAN tags at most", flags));
  }
  if (attr.pd == nullptr || attr.cq == nullptr) {
    return fail(EINVAL, "WQ create: no PD or no CQ");
  }
  const auto striding = striding_of(mlx5_attr);
  if (!striding) {
    return std::unexpected(striding.error());
  }
  PdObject& pd = object_of(attr.pd);
  auto object = std::make_unique<WqObject>();
  object->lock.set_needed(!pd.single_threaded && !object_of(context).single_threaded);
  auto native = native_of(attr.pd).create_wq({.cq = object_of(attr.cq).cq,
                                              .max_wr = attr.max_wr,
                                              .max_sge = attr.max_sge,
                                              .strip_vlan = flags != 0,
                                              .striding = *striding,
                                              .allocator = allocator_of(attr.pd),
                                              .user = object.get()});
  if (!native) {
    return std::unexpected(std::move(native.error()));
  }
  object->native = std::move(*native);
  object->queue = &object->native->queue();
  ibv_wq& wq = object->wq;
  wq.context = context;
  wq.wq_context = attr.wq_context;
  wq.pd = attr.pd;
  wq.cq = attr.cq;
  wq.wq_num = object->native->wqn();
  wq.handle = object->native->handle().value;
  wq.state = IBV_WQS_RESET;
  wq.wq_type = IBV_WQT_RQ;
  wq.post_recv = post_wq_recv;
  attr.max_wr = object->native->max_wr();
  attr.max_sge = object->native->max_sge();
  return object.release();
}

// ---- Flows ----

// Appends a specification of the verbs as the kernel has it: a header of 8 bytes, the value, the mask. `filter_bytes`
// are of the verbs' value and mask each, which begin at `value_offset`; the kernel's filters have `kernel_bytes`.
void append(const void* specification, std::uint32_t type, std::size_t value_offset, std::size_t filter_bytes,
            std::size_t kernel_bytes, std::vector<std::byte>& out) {
  ib_uverbs_flow_spec_hdr header{};
  header.type = type;
  header.size = static_cast<__u16>(sizeof header + 2 * kernel_bytes);
  const std::size_t at = out.size();
  out.resize(at + header.size);
  const auto* const from = static_cast<const std::byte*>(specification) + value_offset;
  std::memcpy(&out[at], &header, sizeof header);
  std::memcpy(&out[at + sizeof header], from, filter_bytes);
  std::memcpy(&out[at + sizeof header + kernel_bytes], from + filter_bytes, filter_bytes);
}

template <typename Specification, typename KernelFilter>
void append_as(const void* specification, std::uint32_t type, std::vector<std::byte>& out) {
  constexpr std::size_t kFilterBytes = sizeof(Specification::val);
  static_assert(offsetof(Specification, mask) == offsetof(Specification, val) + kFilterBytes);
  static_assert(sizeof(KernelFilter) >= kFilterBytes);
  append(specification, type, offsetof(Specification, val), kFilterBytes, sizeof(KernelFilter), out);
}

Expected<void> append_specification(const void* specification, std::vector<std::byte>& out) {
  const auto& header = *static_cast<const ibv_flow_spec_eth*>(specification);
  switch (header.type) {
    case IBV_FLOW_SPEC_ETH:
      append_as<ibv_flow_spec_eth, ib_uverbs_flow_eth_filter>(specification, header.type, out);
      return {};
    case IBV_FLOW_SPEC_IPV4:
      append_as<ibv_flow_spec_ipv4, ib_uverbs_flow_ipv4_filter>(specification, header.type, out);
      return {};
    case IBV_FLOW_SPEC_IPV4_EXT:  // the kernel's own form of the one before
      append_as<ibv_flow_spec_ipv4_ext, ib_uverbs_flow_ipv4_filter>(specification, IBV_FLOW_SPEC_IPV4, out);
      return {};
    case IBV_FLOW_SPEC_IPV6:
      append_as<ibv_flow_spec_ipv6, ib_uverbs_flow_ipv6_filter>(specification, header.type, out);
      return {};
    case IBV_FLOW_SPEC_TCP:
    case IBV_FLOW_SPEC_UDP:
      append_as<ibv_flow_spec_tcp_udp, ib_uverbs_flow_tcp_udp_filter>(specification, header.type, out);
      return {};
    default:
      return fail(EOPNOTSUPP,
                  fmt::format("flow create: specifications of type {:#x} are not supported; Ethernet, IPv4, "
                              "IPv6, TCP and UDP are",
                              static_cast<unsigned>(header.type)));
  }
}

Expected<Owned<Flow>> create_flow_of(ibv_qp* qp, const ibv_flow_attr& attr) {
  if (attr.comp_mask != 0) {
    return fail(EOPNOTSUPP, fmt::format("flow create: comp_mask {:#x}; none is known", attr.comp_mask));
  }
  std::vector<std::byte> specifications;
  const auto* at = reinterpret_cast<const std::byte*>(&attr + 1);
  for (unsigned i = 0; i < attr.num_of_specs; ++i) {
    const auto& header = *reinterpret_cast<const ibv_flow_spec_eth*>(at);
    if (auto result = append_specification(at, specifications); !result) {
      return std::unexpected(std::move(result.error()));
    }
    at += header.size;
  }
  return object_of(qp).native->create_flow({.type = static_cast<std::uint32_t>(attr.type),
                                            .priority = attr.priority,
                                            .port = attr.port,
                                            .flags = attr.flags,
                                            .specification_count = attr.num_of_specs,
                                            .specifications = specifications});
}

}  // namespace

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr) { return mlx5_create_wq(context, attr, nullptr); }

ibv_wq* mlx5_create_wq(ibv_context* context, ibv_wq_init_attr* attr, mlx5dv_wq_init_attr* mlx5_attr) {
  auto object = create(context, *attr, mlx5_attr);
  return object ? &(*object)->wq : report_null(object.error());
}

int modify_wq(ibv_wq* wq, ibv_wq_attr* attr) {
  WqObject& object = object_of(wq);
  const auto has = [&](std::uint32_t mask) { return (attr->attr_mask & mask) != 0; };
  const int error = result_of(object.native->modify(
      {.mask = attr->attr_mask,
       .state = has(IBV_WQ_ATTR_STATE) ? static_cast<std::uint32_t>(attr->wq_state) : 0,
       .current_state = has(IBV_WQ_ATTR_CURR_STATE) ? static_cast<std::uint32_t>(attr->curr_wq_state) : 0,
       .flags = has(IBV_WQ_ATTR_FLAGS) ? attr->flags : 0,
       .flags_mask = has(IBV_WQ_ATTR_FLAGS) ? attr->flags_mask : 0}));
  if (error == 0 && has(IBV_WQ_ATTR_STATE)) {
    wq->state = attr->wq_state;
  }
  return error;
}

int destroy_wq(ibv_wq* wq) {
  WqObject& object = object_of(wq);
  EventsReported reported;
  if (const int error = result_of(object.native.destroy(reported)); error != 0) {
    return error;
  }
  {
    const MutexGuard guard(wq->mutex);
    wait_for(wq->cond, wq->mutex, wq->events_completed, reported.asynchronous);
  }
  delete &object;
  return 0;
}

ibv_rwq_ind_table* create_rwq_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr) {
  constexpr std::uint32_t kMostLogEntries = 13;  // IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE
  if (attr->comp_mask != 0 || attr->log_ind_tbl_size > kMostLogEntries) {
    return report_null({EINVAL, fmt::format("table of receive queues: comp_mask {:#x}, 2^{} queues", attr->comp_mask,
                                            attr->log_ind_tbl_size)});
  }
  std::vector<Wq*> queues;
  for (std::size_t i = 0; i < std::size_t{1} << attr->log_ind_tbl_size; ++i) {
    queues.push_back(object_of(attr->ind_tbl[i]).native.get());
  }
  auto native = native_of(context).create_rwq_table(queues);
  if (!native) {
    return report_null(native.error());
  }
  auto object = std::make_unique<RwqTableObject>();
  object->table.context = context;
  object->table.ind_tbl_handle = static_cast<int>((*native)->handle().value);
  object->table.ind_tbl_num = static_cast<int>((*native)->number());
  object->native = std::move(*native);
  return &object.release()->table;
}

int destroy_rwq_table(ibv_rwq_ind_table* table) {
  RwqTableObject& object = object_of(table);
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr) {
  auto native = create_flow_of(qp, *attr);
  if (!native) {
    return report_null(native.error());
  }
  auto object = std::make_unique<FlowObject>();
  object->flow.context = qp->context;
  object->flow.handle = (*native)->handle().value;
  object->native = std::move(*native);
  return &object.release()->flow;
}

int destroy_flow(ibv_flow* flow) {
  FlowObject& object = object_of(flow);
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

}  // namespace umlx5::verbs
