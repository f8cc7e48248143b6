#include "driver/qp.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/log.h"
#include "driver/qp_geometry.h"

namespace umlx5 {
namespace {

constexpr std::uint32_t kNoUserIndexForKernel = 0xffffff;  // MLX5_IB_DEFAULT_UIDX: CQEs carry the QPN

// Opcodes that the asked operations allow to be posted.
std::uint32_t opcodes_of(std::optional<std::uint64_t> operations, bool device_has_atomics) {
  struct Pair {
    SendOperation operation;
    SendOpcode opcode;
  };
  constexpr Pair kPairs[] = {
      {SendOperation::kSend, SendOpcode::kSend},
      {SendOperation::kSendWithImm, SendOpcode::kSendWithImm},
      {SendOperation::kSendWithInvalidate, SendOpcode::kSendWithInvalidate},
      {SendOperation::kRdmaWrite, SendOpcode::kRdmaWrite},
      {SendOperation::kRdmaWriteWithImm, SendOpcode::kRdmaWriteWithImm},
      {SendOperation::kRdmaRead, SendOpcode::kRdmaRead},
      {SendOperation::kCompareSwap, SendOpcode::kCompareSwap},
      {SendOperation::kFetchAdd, SendOpcode::kFetchAdd},
  };
  std::uint32_t opcodes = 0;
  for (const Pair& pair : kPairs) {
    if (!operations || (*operations & static_cast<std::uint64_t>(pair.operation)) != 0) {
      opcodes |= opcode_bit(pair.opcode);
    }
  }
  return device_has_atomics ? opcodes
                            : opcodes & ~(opcode_bit(SendOpcode::kCompareSwap) | opcode_bit(SendOpcode::kFetchAdd));
}

Error explained(Error error, const std::string& prefix) {
  error.what = prefix + ": " + error.what;
  return error;
}

Expected<void> check_options(const Pd& pd, const QpOptions& options) {
  if (options.type != QpType::kRc) {
    return fail(EOPNOTSUPP, fmt::format("QP create: type {} is not there yet; RC is", to_string(options.type)));
  }
  if (options.send_cq == nullptr || options.recv_cq == nullptr) {
    return fail(EINVAL, fmt::format("QP create: no {} CQ", options.send_cq == nullptr ? "send" : "receive"));
  }
  const Context* const context = &pd.context();
  if (&options.send_cq->context() != context || &options.recv_cq->context() != context) {
    return fail(EINVAL, "QP create: a CQ is of another context than the PD");
  }
  return {};
}

}  // namespace

Expected<Qp*> Qp::create(Pd& pd, const QpOptions& options) {
  if (auto result = check_options(pd, options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  std::unique_ptr<Qp> qp(new (std::nothrow) Qp(pd.context(), pd));
  if (qp == nullptr) {
    return fail(ENOMEM, "QP create: no memory");
  }
  if (auto result = qp->allocate(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  if (auto result = qp->create_in_kernel(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  Context::State& state = pd.context().state();
  state.add(state.qps, *qp);
  if (log_enabled(LogLevel::kDebug)) {
    log(LogLevel::kDebug,
        fmt::format("{} created: {} send and {} receive requests, {} inline bytes", qp->name(),
                    qp->capacity_.max_send_wr, qp->capacity_.max_recv_wr, qp->capacity_.max_inline_bytes));
  }
  return qp.release();
}

// Everything that needs no kernel object: sizes, buffer, doorbell record, register, user index.
Expected<void> Qp::allocate(const QpOptions& options) {
  Context::State& state = context_->state();
  const auto plan = plan_qp(state.limits, {.type = SizedQpType::kRc,
                                           .send_operations = options.send_operations,
                                           .max_send_wr = options.capacity.max_send_wr,
                                           .max_recv_wr = options.capacity.max_recv_wr,
                                           .max_send_sge = options.capacity.max_send_sge,
                                           .max_recv_sge = options.capacity.max_recv_sge,
                                           .max_inline_bytes = options.capacity.max_inline_bytes});
  if (!plan) {
    return std::unexpected(plan.error());
  }
  type_ = options.type;
  user_ = options.user;
  send_cq_ = options.send_cq;
  recv_cq_ = options.recv_cq;
  capacity_ = {.max_send_wr = plan->max_send_wr,
               .max_recv_wr = plan->max_recv_wr,
               .max_send_sge = plan->max_send_sge,
               .max_recv_sge = plan->max_recv_sge,
               .max_inline_bytes = plan->max_inline_bytes};

  auto memory = QueueMemory::allocate(plan->buffer_bytes, "QP create");
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  memory_ = std::move(*memory);
  auto slot = state.records.allocate();
  if (!slot) {
    return fail(ENOMEM, "QP create: no memory for a doorbell record");
  }
  record_ = std::move(*slot);
  if (state.cqes_carry_user_index()) {
    const auto index = state.queue_pairs.add(this);
    if (!index) {
      return std::unexpected(explained(index.error(), "QP create"));
    }
    user_index_ = *index;
  }

  const bool configured = send_.configure({.ring = memory_.data() + plan->send_offset_bytes,
                                           .wqebbs = plan->send_wqebbs,
                                           .max_requests = plan->max_send_wr,
                                           .max_sge = plan->max_send_sge,
                                           .max_inline_bytes = plan->max_inline_bytes,
                                           .opcodes = opcodes_of(options.send_operations, state.attributes.atomics),
                                           .signal_all = options.signal_all,
                                           .record = record_.memory(),
                                           .uar = state.uars.take()}) &&
                          recv_.configure({.ring = memory_.data() + plan->recv_offset_bytes,
                                           .wqes = plan->recv_wqes,
                                           .wqe_bytes_log2 = plan->recv_wqe_bytes_log2,
                                           .max_requests = plan->max_recv_wr,
                                           .max_sge = plan->max_recv_sge,
                                           .record = record_.memory()});
  if (!configured) {
    return fail(ENOMEM, "QP create: no memory for the work request identifiers");
  }
  send_.reset();
  recv_.reset();
  return {};
}

Expected<void> Qp::create_in_kernel(const QpOptions& options) {
  Context::State& state = context_->state();
  uapi::QpRequest request;
  request.type = static_cast<std::uint8_t>(type_);
  request.pd = pd_->handle();
  request.send_cq = send_cq_->handle_;
  request.recv_cq = recv_cq_->handle_;
  request.user_handle = reinterpret_cast<std::uint64_t>(this);
  request.capabilities = {.max_send_wr = capacity_.max_send_wr,
                          .max_recv_wr = capacity_.max_recv_wr,
                          .max_send_sge = capacity_.max_send_sge,
                          .max_recv_sge = capacity_.max_recv_sge,
                          .max_inline_data = capacity_.max_inline_bytes};
  request.flags = options.signal_all ? IB_UVERBS_QP_CREATE_SQ_SIG_ALL : 0;
  mlx5_ib_create_qp driver{};
  driver.buf_addr = reinterpret_cast<std::uint64_t>(memory_.data());
  driver.db_addr = reinterpret_cast<std::uint64_t>(record_.memory());
  driver.sq_wqe_count = send_.config().wqebbs;
  driver.rq_wqe_count = recv_.config().wqes;
  driver.rq_wqe_shift = recv_.config().wqe_bytes_log2;
  driver.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX | (state.scatter_to_cqe ? MLX5_QP_FLAG_SCATTER_CQE : 0);
  driver.uidx = state.cqes_carry_user_index() ? user_index_ : kNoUserIndexForKernel;
  driver.bfreg_index = send_.config().uar.page_id();
  request.driver = driver;

  auto created = uapi::create_qp(*state.commands, request);
  if (!created) {
    return std::unexpected(explained(std::move(created.error()), "QP create"));
  }
  handle_ = created->handle;
  in_kernel_ = true;
  qpn_ = created->qpn;
  send_.set_qpn(qpn_);
  if (!state.cqes_carry_user_index()) {
    if (auto result = state.queue_pairs.add_at(qpn_, this); !result) {
      return std::unexpected(explained(std::move(result.error()), "QP create"));
    }
    user_index_ = qpn_;
  }
  return {};
}

Qp::~Qp() {
  Context::State& state = context_->state();
  if (in_kernel_) {
    if (auto result = uapi::destroy_qp(*state.commands, handle_); !result) {
      log(LogLevel::kError, name() + ": " + result.error().message());
    }
  }
  if (user_index_ != kNoUserIndex) {
    state.queue_pairs.remove(user_index_);
  }
}

Expected<void> Qp::destroy(Qp& qp) {
  Context::State& state = qp.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.qps, qp);
  }
  if (auto result = uapi::destroy_qp(*state.commands, qp.handle_); !result) {
    state.add(state.qps, qp);
    return std::unexpected(explained(std::move(result.error()), qp.name()));
  }
  qp.in_kernel_ = false;
  qp.forget_completions();
  delete &qp;
  return {};
}

void Qp::abandon(Qp& qp, const Error& why) { log_abandoned(qp.name(), why); }

void Qp::forget_completions() {
  send_cq_->forget(*this);
  if (recv_cq_ != send_cq_) {
    recv_cq_->forget(*this);
  }
}

std::string Qp::name() const { return fmt::format("QP {:#x}", qpn_); }

}  // namespace umlx5
