#include "driver/wq.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/log.h"
#include "driver/qp_geometry.h"
#include "driver/users.h"

namespace umlx5 {
namespace {

constexpr std::uint32_t kState = 1;  // enum ibv_wq_attr_mask

Error explained(Error error, const std::string& prefix) {
  error.what = prefix + ": " + error.what;
  return error;
}

// A receive queue as a RAW_PACKET QP would have it.
QpGeometryRequest geometry_of(const WqOptions& options) {
  QpGeometryRequest request;
  request.type = SizedQpType::kRawPacket;
  request.max_recv_wr = options.max_wr;
  request.max_recv_sge = options.max_sge;
  request.next_segment = options.striding.has_value();
  return request;
}

Expected<void> check_striding(const uapi::DeviceAttributes& device, const WqOptions& options) {
  const mlx5_ib_striding_rq_caps& caps = device.driver.base.striding_rq_caps;
  const auto& [log_stride_bytes, log_strides, two_byte_shift] = *options.striding;
  if (caps.supported_qpts == 0) {
    return fail(EOPNOTSUPP, "WQ create: the device has no striding receive queues (striding_rq_caps)");
  }
  if (log_stride_bytes < caps.min_single_stride_log_num_of_bytes ||
      log_stride_bytes > caps.max_single_stride_log_num_of_bytes) {
    return fail(EINVAL, fmt::format("WQ create: strides of 2^{} bytes; 2^{} to 2^{} are possible (striding_rq_caps)",
                                    log_stride_bytes, caps.min_single_stride_log_num_of_bytes,
                                    caps.max_single_stride_log_num_of_bytes));
  }
  if (log_strides < caps.min_single_wqe_log_num_of_strides || log_strides > caps.max_single_wqe_log_num_of_strides) {
    return fail(EINVAL,
                fmt::format("WQ create: 2^{} strides a WQE; 2^{} to 2^{} are possible (striding_rq_caps)", log_strides,
                            caps.min_single_wqe_log_num_of_strides, caps.max_single_wqe_log_num_of_strides));
  }
  if (options.cq->has_many_pollers()) {
    return fail(EOPNOTSUPP, "WQ create: completions of a striding queue come to one thread at a time");
  }
  return {};
}

}  // namespace

Expected<Owned<Wq>> Pd::create_wq(const WqOptions& options) {
  auto wq = Wq::create(*this, options);
  if (!wq) {
    return std::unexpected(std::move(wq.error()));
  }
  return Owned<Wq>(*wq);
}

Expected<Wq*> Wq::create(Pd& pd, const WqOptions& options) {
  Context& context = pd.context();
  if (options.cq == nullptr || options.max_wr == 0) {
    return fail(EINVAL, options.cq == nullptr ? "WQ create: no CQ" : "WQ create: max_wr is 0");
  }
  if (&options.cq->context() != &context) {
    return fail(EINVAL, "WQ create: the CQ is of another context than the PD");
  }
  if (!context.state().cqes_carry_user_index()) {
    return fail(EOPNOTSUPP, "WQ create: receive work queues need CQEs that carry a user index");
  }
  if (options.striding) {
    if (auto result = check_striding(context.queried_device(), options); !result) {
      return std::unexpected(std::move(result.error()));
    }
  }
  std::unique_ptr<Wq> wq(new (std::nothrow) Wq(context, pd));
  if (wq == nullptr) {
    return fail(ENOMEM, "WQ create: no memory");
  }
  if (auto result = wq->allocate(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  if (auto result = wq->create_in_kernel(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  context.state().add(context.state().wqs, *wq);
  return wq.release();
}

Expected<void> Wq::allocate(const WqOptions& options) {
  Context::State& state = context_->state();
  const auto plan = plan_qp(state.limits, geometry_of(options));
  if (!plan) {
    return std::unexpected(explained(plan.error(), "WQ create"));
  }
  cq_ = options.cq;
  user_ = options.user;
  event_handle_ = options.event_handle != 0 ? options.event_handle : reinterpret_cast<std::uint64_t>(this);
  auto memory = QueueMemory::allocate(state.fork_guard, options.allocator, MemoryUse::kReceiveWq, plan->buffer_bytes,
                                      system_page_bytes(), "WQ create");
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  memory_ = std::move(*memory);
  auto record = DoorbellRecord::allocate(state.records, options.allocator, "WQ create");
  if (!record) {
    return std::unexpected(std::move(record.error()));
  }
  record_ = std::move(*record);
  std::byte* ring = memory_.data();
  if (options.striding) {  // link segments stay as they are
    striding_.emplace(queue_, 1u << options.striding->log_strides);
    ring += wqe::SrqNextSegment::kBytes;
  }
  if (!queue_.configure({.ring = ring,
                         .wqes = plan->recv_wqes,
                         .wqe_bytes_log2 = plan->recv_wqe_bytes_log2,
                         .max_requests = plan->max_recv_wr,
                         .max_sge = plan->max_recv_sge,
                         .many_completers = cq_->has_many_pollers(),
                         .record = record_.memory()})) {
    return fail(ENOMEM, "WQ create: no memory for the work request identifiers");
  }
  const auto index = state.queues.add(this);
  if (!index) {
    return std::unexpected(explained(index.error(), "WQ create"));
  }
  user_index_ = *index;
  return {};
}

Expected<void> Wq::create_in_kernel(const WqOptions& options) {
  uapi::WqRequest request{.pd = pd_->handle(),
                          .cq = cq_->handle(),
                          .user_handle = event_handle_,
                          .async_event_fd = context_->async_fd(),
                          .max_wr = options.max_wr,
                          .max_sge = options.max_sge,
                          .flags = options.strip_vlan ? std::uint32_t{IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING} : 0,
                          .driver = {}};
  request.driver.buf_addr = reinterpret_cast<std::uint64_t>(memory_.data());
  request.driver.db_addr = reinterpret_cast<std::uint64_t>(record_.memory());
  request.driver.rq_wqe_count = queue_.config().wqes;
  request.driver.rq_wqe_shift = queue_.config().wqe_bytes_log2;
  request.driver.user_index = user_index_;
  if (options.striding) {
    request.driver.comp_mask = MLX5_IB_CREATE_WQ_STRIDING_RQ;
    request.driver.single_stride_log_num_of_bytes = options.striding->log_stride_bytes;
    request.driver.single_wqe_log_num_of_strides = options.striding->log_strides;
    request.driver.two_byte_shift_en = options.striding->two_byte_shift;
  }
  auto created = uapi::create_wq(*context_->state().commands, request);
  if (!created) {
    return std::unexpected(explained(std::move(created.error()), "WQ create"));
  }
  handle_ = created->handle;
  wqn_ = created->wqn;
  in_kernel_ = true;
  return {};
}

Expected<void> Wq::modify(const uapi::WqChange& change) {
  if (auto result = uapi::modify_wq(*context_->state().commands, handle_, change); !result) {
    return std::unexpected(explained(std::move(result.error()), name()));
  }
  if ((change.mask & kState) == 0) {
    return {};
  }
  state_ = static_cast<WqState>(change.state);
  queue_.set_usable(state_ != WqState::kReset);
  if (state_ == WqState::kReset) {
    cq_->forget(*this);
    queue_.reset();
    if (striding_) {
      striding_->reset();
    }
  }
  return {};
}

Wq::~Wq() {
  Context::State& state = context_->state();
  if (in_kernel_) {
    if (auto result = uapi::destroy_wq(*state.commands, handle_); !result) {
      log(LogLevel::kError, name() + ": " + result.error().message());
    }
  }
  if (user_index_ != kNoUserIndex) {
    state.queues.remove(user_index_);
  }
}

Expected<void> Wq::destroy(Wq& wq, EventsReported* reported) {
  Context::State& state = wq.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    Users users;
    for (const RwqTable& table : state.rwq_tables) {
      users.add_if(std::ranges::find(table.queues(), &wq) != table.queues().end(), "table", table.number());
    }
    if (users) {
      return fail(EBUSY, fmt::format("{} is still used by {}", wq.name(), users.text()));
    }
    state.remove(state.wqs, wq);
  }
  auto events = uapi::destroy_wq(*state.commands, wq.handle_);
  if (!events) {
    state.add(state.wqs, wq);
    return std::unexpected(explained(std::move(events.error()), wq.name()));
  }
  if (reported != nullptr) {
    *reported = {.asynchronous = *events};
  }
  wq.in_kernel_ = false;
  wq.cq_->forget(wq);
  delete &wq;
  return {};
}

void Wq::abandon(Wq& wq, const Error& why) { log_abandoned(wq.name(), why); }

std::string Wq::name() const { return fmt::format("WQ {:#x}", wqn_); }

// ---- Tables ----

Expected<Owned<RwqTable>> Context::create_rwq_table(std::span<Wq* const> queues) {
  std::vector<uapi::WqHandle> handles;
  for (Wq* const wq : queues) {
    if (wq == nullptr || &wq->context() != this) {
      return fail(EINVAL, "table of receive queues: a queue is of another context, or none");
    }
    handles.push_back(wq->handle());
  }
  auto created = uapi::create_rwq_ind_table(*state_->commands, handles);
  if (!created) {
    return std::unexpected(std::move(created.error()));
  }
  auto table = std::make_unique<RwqTable>();
  table->context_ = this;
  table->handle_ = created->handle;
  table->number_ = created->number;
  table->queues_.assign(queues.begin(), queues.end());
  state_->add(state_->rwq_tables, *table);
  return Owned<RwqTable>(table.release());
}

Expected<void> RwqTable::destroy(RwqTable& table) {
  Context::State& state = table.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.rwq_tables, table);
  }
  if (auto result = uapi::destroy_rwq_ind_table(*state.commands, table.handle_); !result) {
    state.add(state.rwq_tables, table);
    return result;
  }
  delete &table;
  return {};
}

void RwqTable::abandon(RwqTable& table, const Error& why) {
  log_abandoned(fmt::format("table {:#x} of receive queues", table.number_), why);
}

// ---- Flows ----

Expected<Owned<Flow>> Qp::create_flow(const uapi::FlowRequest& request) {
  if (type_ != QpType::kRawPacket) {
    return fail(EINVAL, name() + ": flows lead to RAW_PACKET QPs");
  }
  uapi::FlowRequest own = request;
  own.qp = handle_;
  auto handle = uapi::create_flow(*context_->state().commands, own);
  if (!handle) {
    return std::unexpected(explained(std::move(handle.error()), name()));
  }
  auto flow = std::make_unique<Flow>();
  flow->context_ = context_;
  flow->handle_ = *handle;
  context_->state().add(context_->state().flows, *flow);
  return Owned<Flow>(flow.release());
}

Expected<void> Flow::destroy(Flow& flow) {
  Context::State& state = flow.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.flows, flow);
  }
  if (auto result = uapi::destroy_flow(*state.commands, flow.handle_); !result) {
    state.add(state.flows, flow);
    return result;
  }
  delete &flow;
  return {};
}

void Flow::abandon(Flow& flow, const Error& why) {
  log_abandoned(fmt::format("flow with handle {}", flow.handle_.value), why);
}

}  // namespace umlx5
