#include "driver/srq.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <bit>
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

constexpr std::uint32_t kLimit = 1 << 1;  // enum ibv_srq_attr_mask

Error explained(Error error, const std::string& prefix) {
  error.what = prefix + ": " + error.what;
  return error;
}

Expected<void> check_options(const Context& context, const SrqOptions& options) {
  if (options.type == SrqType::kBasic) {
    return {};
  }
  if (options.type != SrqType::kXrc) {
    return fail(EOPNOTSUPP, fmt::format("SRQ create: type {} is not there; basic (0) and XRC (1) are",
                                        static_cast<unsigned>(options.type)));
  }
  if (options.xrcd == nullptr || options.cq == nullptr) {
    return fail(EINVAL, "SRQ create: an XRC SRQ needs an XRC domain and a CQ");
  }
  if (&options.xrcd->context() != &context || &options.cq->context() != &context) {
    return fail(EINVAL, "SRQ create: the XRC domain or the CQ is of another context than the PD");
  }
  if (!const_cast<Context&>(context).state().cqes_carry_user_index()) {
    return fail(EOPNOTSUPP, "SRQ create: XRC needs CQEs that carry a user index");
  }
  return {};
}

}  // namespace

Expected<Owned<Srq>> Pd::create_srq(const SrqOptions& options) {
  auto srq = Srq::create(*this, options);
  if (!srq) {
    return std::unexpected(std::move(srq.error()));
  }
  return Owned<Srq>(*srq);
}

Expected<Srq*> Srq::create(Pd& pd, const SrqOptions& options) {
  Context& context = pd.context();
  if (auto result = check_options(context, options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  std::unique_ptr<Srq> srq(new (std::nothrow) Srq(context, pd));
  if (srq == nullptr) {
    return fail(ENOMEM, "SRQ create: no memory");
  }
  if (auto result = srq->allocate(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  if (auto result = srq->create_in_kernel(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  context.state().add(context.state().srqs, *srq);
  return srq.release();
}

Expected<void> Srq::allocate(const SrqOptions& options) {
  Context::State& state = context_->state();
  const auto plan = plan_srq(state.limits, options.max_wr, options.max_sge);
  if (!plan) {
    return std::unexpected(plan.error());
  }
  type_ = options.type;
  user_ = options.user;
  event_handle_ = options.event_handle != 0 ? options.event_handle : reinterpret_cast<std::uint64_t>(this);
  if (type_ == SrqType::kXrc) {
    xrcd_ = options.xrcd;
    cq_ = options.cq;
  }
  buffer_wqes_ = plan->buffer_wqes;
  auto memory =
      QueueMemory::allocate(state.fork_guard, options.allocator, MemoryUse::kSrq,
                            std::size_t{plan->buffer_wqes} * plan->wqe_bytes, system_page_bytes(), "SRQ create");
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  memory_ = std::move(*memory);
  auto record = DoorbellRecord::allocate(state.records, options.allocator, "SRQ create");
  if (!record) {
    return std::unexpected(std::move(record.error()));
  }
  record_ = std::move(*record);
  if (!queue_.configure({.ring = memory_.data(),
                         .ring_wqes = plan->ring_wqes,
                         .wqe_bytes_log2 = static_cast<std::uint32_t>(std::countr_zero(plan->wqe_bytes)),
                         .max_requests = plan->max_wr,
                         .max_sge = plan->max_sge,
                         .record = record_.memory()})) {
    return fail(ENOMEM, "SRQ create: no memory for the work request identifiers");
  }
  if (type_ == SrqType::kXrc) {  // its completions are its own, not those of a QP
    const auto index = state.queues.add(this);
    if (!index) {
      return std::unexpected(explained(index.error(), "SRQ create"));
    }
    user_index_ = *index;
  }
  return {};
}

Expected<void> Srq::create_in_kernel(const SrqOptions& options) {
  uapi::SrqRequest request;
  request.type = static_cast<std::uint32_t>(type_);
  request.pd = pd_->handle();
  if (type_ == SrqType::kXrc) {
    request.xrcd = xrcd_->handle();
    request.cq = cq_->handle();
  }
  request.user_handle = event_handle_;
  request.async_event_fd = context_->async_fd();
  request.max_wr = buffer_wqes_ - 1;
  request.max_sge = queue_.config().max_sge;
  request.limit = options.limit;
  request.driver.buf_addr = reinterpret_cast<std::uint64_t>(memory_.data());
  request.driver.db_addr = reinterpret_cast<std::uint64_t>(record_.memory());
  request.driver.uidx = user_index_ == kNoUserIndex ? 0 : user_index_;
  auto created = uapi::create_srq(*context_->state().commands, request);
  if (!created) {
    return std::unexpected(explained(std::move(created.error()), "SRQ create"));
  }
  handle_ = created->handle;
  srqn_ = created->srqn;
  in_kernel_ = true;
  return {};
}

Expected<void> Srq::set_limit(std::uint32_t limit) {
  auto result = uapi::modify_srq(*context_->state().commands, handle_, {.limit = limit}, kLimit);
  if (!result) {
    return std::unexpected(explained(std::move(result.error()), fmt::format("{} limit {}", name(), limit)));
  }
  return {};
}

Expected<uapi::SrqAttributes> Srq::query() {
  auto attributes = uapi::query_srq(*context_->state().commands, handle_);
  if (!attributes) {
    return std::unexpected(explained(std::move(attributes.error()), name()));
  }
  return attributes;
}

Srq::~Srq() {
  Context::State& state = context_->state();
  if (in_kernel_) {
    if (auto result = uapi::destroy_srq(*state.commands, handle_); !result) {
      log(LogLevel::kError, name() + ": " + result.error().message());
    }
  }
  if (user_index_ != kNoUserIndex) {
    state.queues.remove(user_index_);
  }
}

Expected<void> Srq::destroy(Srq& srq, EventsReported* reported) {
  Context::State& state = srq.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    Users users;
    for (const Qp& qp : state.qps) {
      users.add_if(qp.srq() == &srq, "QP", qp.qpn());
    }
    if (users) {
      return fail(EBUSY, fmt::format("{} is still used by {}", srq.name(), users.text()));
    }
    state.remove(state.srqs, srq);
  }
  auto events = uapi::destroy_srq(*state.commands, srq.handle_);
  if (!events) {
    state.add(state.srqs, srq);
    return std::unexpected(explained(std::move(events.error()), srq.name()));
  }
  if (reported != nullptr) {
    *reported = {.asynchronous = *events};
  }
  srq.in_kernel_ = false;
  if (srq.cq_ != nullptr) {
    srq.cq_->forget(srq);
  }
  delete &srq;
  return {};
}

void Srq::abandon(Srq& srq, const Error& why) { log_abandoned(srq.name(), why); }

std::string Srq::name() const { return fmt::format("SRQ {:#x}", srqn_); }

}  // namespace umlx5
