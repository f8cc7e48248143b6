// The making and the end of a queue pair.
#include "driver/qp.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/log.h"
#include "driver/qp_geometry.h"
#include "driver/qp_rules.h"

namespace umlx5 {
namespace {

constexpr std::uint32_t kNoUserIndexForKernel = 0xffffff;  // MLX5_IB_DEFAULT_UIDX: CQEs carry the QPN
constexpr std::uint32_t kEceVersion1 = 0x10000000;         // asks for the options that the device would grant
constexpr std::size_t kPageOffsetUnits = 64;               // the device counts a buffer's offset in its page in 64ths

// The device's SendOperation bits are those of the opcodes, but for what is posted otherwise.
std::uint32_t opcodes_of(std::uint64_t operations) {
  constexpr std::uint32_t kOpcodes = (opcode_bit(SendOpcode::kSendWithInvalidate) << 1) - 1;
  return static_cast<std::uint32_t>(operations) & kOpcodes;
}

// Opcodes that posting takes: those of the operations asked for, and whatever else of the type fits into the WQEs that
// they lead to. None where posting does not know the type's headers.
std::uint32_t posted_opcodes(const QpOptions& options, const QpGeometry& plan, SendTransport transport) {
  if (options.source_qpn) {
    return 0;
  }
  if (options.type == QpType::kRawPacket) {
    return opcode_bit(SendOpcode::kSend) | opcode_bit(SendOpcode::kTso);
  }
  QpOptions all = options;
  all.send_operations = all.dv_send_operations = std::nullopt;
  return opcodes_of(operations_of(options)) |
         opcodes_that_fit(transport, opcodes_of(operations_of(all)), plan.send_wqe_bytes, plan.max_send_sge,
                          plan.max_inline_bytes);
}

SendTransport transport_of(QpType type) {
  switch (type) {
    case QpType::kXrcSend:
      return SendTransport::kXrc;
    case QpType::kUd:
      return SendTransport::kDatagram;
    case QpType::kDriver:
      return SendTransport::kDc;
    case QpType::kRawPacket:
      return SendTransport::kRaw;
    default:
      return SendTransport::kConnected;
  }
}

Error explained(Error error, const std::string& prefix) {
  error.what = prefix + ": " + error.what;
  return error;
}

// Bytes of a frame that the device wants to find in the WQE: the L2 header unless it says otherwise.
std::uint32_t min_inline_of(const Context::State& state) {
  constexpr std::uint32_t kL2HeaderBytes = 18;
  return state.info.device.eth_min_inline == MLX5_USER_INLINE_MODE_NONE ? 0 : kL2HeaderBytes;
}

// All objects are of one context.
Expected<void> check_contexts(const Context& context, const QpOptions& options) {
  const auto foreign = [&](const auto* object) { return object != nullptr && &object->context() != &context; };
  if (foreign(options.send_cq) || foreign(options.recv_cq) || foreign(options.srq) || foreign(options.thread_domain)) {
    return fail(EINVAL, "QP create: a CQ, SRQ or thread domain is of another context than the PD");
  }
  return {};
}

// The device finds a buffer by its pages and, in 64ths of a page, its offset in the first.
std::size_t buffer_alignment(const QpGeometry& plan) {
  const std::size_t page = system_page_bytes();
  const std::size_t pages_bytes = (plan.buffer_bytes + page - 1) / page * page;
  const std::size_t stride = std::max<std::size_t>(plan.recv_wqe_bytes, wqe::kWqebbBytes);
  return plan.separate_send_buffer ? page : std::max(stride, std::bit_ceil(pages_bytes) / kPageOffsetUnits);
}

mlx5_ib_create_qp_rss rss_request(const Context::State& state, const QpOptions& options) {
  mlx5_ib_create_qp_rss request{};
  request.rx_hash_fields_mask = options.rss->fields;
  request.rx_hash_function = options.rss->function;
  request.rx_key_len = static_cast<std::uint8_t>(options.rss->key.size());
  std::ranges::copy(options.rss->key, request.rx_hash_key);
  request.flags = kernel_flags_of(state, options);
  return request;
}

}  // namespace

Expected<Qp*> Qp::create(Context& context, Pd* pd, Xrcd* xrcd, const QpOptions& options) {
  Context::State& state = context.state();
  if (auto result = check_qp_options(state, options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  if (auto result = check_contexts(context, options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  if ((options.type == QpType::kXrcRecv) != (xrcd != nullptr)) {
    return fail(EINVAL, fmt::format("QP create: a QP of type {} belongs to {}", to_string(options.type),
                                    xrcd == nullptr ? "an XRC domain" : "a PD"));
  }
  std::unique_ptr<Qp> qp(new (std::nothrow) Qp(context, pd, xrcd));
  if (qp == nullptr) {
    return fail(ENOMEM, "QP create: no memory");
  }
  qp->adopt(options);
  if ((qp->send_operations_ & static_cast<std::uint64_t>(SendOperation::kMemcpy)) != 0) {
    const auto scratch = pd->memcpy_scratch();
    if (!scratch) {
      return std::unexpected(explained(scratch.error(), "QP create"));
    }
    qp->memcpy_scratch_ = *scratch;
  }
  if (auto result = qp->allocate(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  if (auto result = qp->create_in_kernel(options); !result) {
    return std::unexpected(std::move(result.error()));
  }
  state.add(state.qps, *qp);
  if (log_enabled(LogLevel::kDebug)) {
    log(LogLevel::kDebug, fmt::format("{} created: {}, {} send and {} receive requests, {} inline bytes", qp->name(),
                                      to_string(qp->type_), qp->capacity_.max_send_wr, qp->capacity_.max_recv_wr,
                                      qp->capacity_.max_inline_bytes));
  }
  return qp.release();
}

Expected<Qp*> Qp::open(Xrcd& xrcd, std::uint32_t qpn, void* user, std::uint64_t event_handle) {
  Context::State& state = xrcd.context().state();
  std::unique_ptr<Qp> qp(new (std::nothrow) Qp(xrcd.context(), nullptr, &xrcd));
  if (qp == nullptr) {
    return fail(ENOMEM, "QP open: no memory");
  }
  qp->adopt({.type = QpType::kXrcRecv, .user = user, .event_handle = event_handle});
  auto opened = uapi::open_qp(*state.commands, {.xrcd = xrcd.handle(),
                                                .user_handle = qp->event_handle_,
                                                .qpn = qpn,
                                                .type = static_cast<std::uint8_t>(QpType::kXrcRecv)});
  if (!opened) {
    return std::unexpected(explained(std::move(opened.error()), fmt::format("QP {:#x} open", qpn)));
  }
  qp->handle_ = opened->handle;
  qp->in_kernel_ = true;
  qp->qpn_ = opened->qpn;
  state.add(state.qps, *qp);
  return qp.release();
}

void Qp::adopt(const QpOptions& options) {
  type_ = options.type;
  dc_type_ = options.dc_type;
  user_ = options.user;
  event_handle_ = options.event_handle != 0 ? options.event_handle : reinterpret_cast<std::uint64_t>(this);
  send_cq_ = options.send_cq;
  recv_cq_ = options.recv_cq;
  srq_ = options.srq;
  thread_domain_ = options.thread_domain;
  is_rss_ = options.rss.has_value();
  underlay_ = options.source_qpn.has_value();
  dv_create_flags_ = options.dv_create_flags;
  send_operations_ = operations_of(options);
}

// Everything that needs no kernel object: sizes, buffers, doorbell record, register, user index.
Expected<void> Qp::allocate(const QpOptions& options) {
  Context::State& state = context_->state();
  if (!has_send_queue(options) && type_ != QpType::kXrcRecv) {  // RSS, DCT
    capacity_ = options.capacity;
    return allocate_user_index();
  }
  const auto plan = plan_qp(limits_of(state, options), geometry_of(state, options));
  if (!plan) {
    return std::unexpected(plan.error());
  }
  capacity_ = {.max_send_wr = plan->max_send_wr,
               .max_recv_wr = plan->max_recv_wr,
               .max_send_sge = plan->max_send_sge,
               .max_recv_sge = plan->max_recv_sge,
               .max_inline_bytes = plan->max_inline_bytes};
  auto memory = QueueMemory::allocate(state.fork_guard, options.allocator, MemoryUse::kQp, plan->buffer_bytes,
                                      buffer_alignment(*plan), "QP create");
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  memory_ = std::move(*memory);
  auto send_memory = QueueMemory::allocate(state.fork_guard, options.allocator, MemoryUse::kQp, plan->send_buffer_bytes,
                                           system_page_bytes(), "QP create");
  if (!send_memory) {
    return std::unexpected(std::move(send_memory.error()));
  }
  send_memory_ = std::move(*send_memory);
  auto record = DoorbellRecord::allocate(state.records, options.allocator, "QP create");
  if (!record) {
    return std::unexpected(std::move(record.error()));
  }
  record_ = std::move(*record);
  if (auto result = allocate_user_index(); !result) {
    return result;
  }
  return configure_queues(*plan, options);
}

// An XRC target has no completions of its own, so nothing looks for it.
Expected<void> Qp::allocate_user_index() {
  Context::State& state = context_->state();
  if (!state.cqes_carry_user_index() || type_ == QpType::kXrcRecv || is_rss_) {
    return {};
  }
  const auto index = state.queues.add(this);
  if (!index) {
    return std::unexpected(explained(index.error(), "QP create"));
  }
  user_index_ = *index;
  return {};
}

Expected<void> Qp::configure_queues(const QpGeometry& plan, const QpOptions& options) {
  Context::State& state = context_->state();
  std::byte* const send_ring =
      plan.separate_send_buffer ? send_memory_.data() : memory_.data() + plan.send_offset_bytes;
  const bool configured =
      send_.configure({.ring = send_ring,
                       .wqebbs = plan.send_wqebbs,
                       .max_requests = plan.max_send_wr,
                       .max_sge = plan.max_send_sge,
                       .max_inline_bytes = plan.max_inline_bytes,
                       .max_wqe_bytes = plan.send_wqe_bytes,
                       .transport = transport_of(type_),
                       .opcodes = posted_opcodes(options, plan, transport_of(type_)),
                       .device_has_atomics = state.attributes.atomics,
                       .signal_all = options.signal_all,
                       .wqe_signature = options.wqe_signature,
                       .many_producers = options.many_producers,
                       .many_completers = send_cq_ != nullptr && send_cq_->has_many_pollers(),
                       .min_inline_bytes = min_inline_of(state),
                       .has_checksums = (state.query.core.raw_packet_caps & IB_UVERBS_RAW_PACKET_CAP_IP_CSUM) != 0,
                       .max_tso_header_bytes = options.max_tso_header_bytes,
                       .max_tso_bytes = state.query.driver.base.tso_caps.max_tso,
                       .record = record_.memory(),
                       .uar = thread_domain_ != nullptr ? UarPool::borrow(thread_domain_->uar_) : state.uars.take()}) &&
      recv_.configure({.ring = memory_.data() + plan.recv_offset_bytes,
                       .wqes = plan.recv_wqes,
                       .wqe_bytes_log2 = plan.recv_wqe_bytes_log2,
                       .max_requests = plan.max_recv_wr,
                       .max_sge = plan.max_recv_sge,
                       .many_producers = options.many_producers,
                       .many_completers = recv_cq_ != nullptr && recv_cq_->has_many_pollers(),
                       .record = record_.memory()});
  if (!configured) {
    return fail(ENOMEM, "QP create: no memory for the work request identifiers");
  }
  send_.reset();
  hold_receives();
  return {};
}

// The driver's part of the request, but for RSS.
mlx5_ib_create_qp Qp::kernel_request(const QpOptions& options) const {
  const Context::State& state = context_->state();
  mlx5_ib_create_qp driver{};
  driver.flags = kernel_flags_of(state, options);
  driver.uidx = !state.cqes_carry_user_index() ? kNoUserIndexForKernel : user_index_ == kNoUserIndex ? 0 : user_index_;
  if ((state.info.device.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE) != 0) {
    driver.ece_options = kEceVersion1;
  }
  if (is_dct()) {
    driver.access_key = options.dct_access_key;
    if ((state.query.driver.base.flags & MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT) == 0) {
      driver.flags &= ~static_cast<std::uint32_t>(MLX5_QP_FLAG_SCATTER_CQE);
    }
    return driver;
  }
  driver.buf_addr = reinterpret_cast<std::uint64_t>(memory_.data());
  driver.db_addr = reinterpret_cast<std::uint64_t>(record_.memory());
  driver.sq_wqe_count = send_.config().wqebbs;
  driver.rq_wqe_count = recv_.config().wqes;
  driver.rq_wqe_shift = recv_.config().wqe_bytes_log2;
  driver.flags |= MLX5_QP_FLAG_UAR_PAGE_INDEX;
  driver.bfreg_index = send_.config().uar.page_id();
  driver.sq_buf_addr = reinterpret_cast<std::uint64_t>(send_memory_.data());
  if (options.dci_streams) {
    driver.dci_streams.log_num_concurent = options.dci_streams->log_concurrent;
    driver.dci_streams.log_num_errored = options.dci_streams->log_errored;
  }
  return driver;
}

Expected<void> Qp::create_in_kernel(const QpOptions& options) {
  Context::State& state = context_->state();
  uapi::QpRequest request;
  request.type = static_cast<std::uint8_t>(type_);
  if (pd_ != nullptr) {
    request.pd = pd_->handle();
  }
  if (xrcd_ != nullptr) {
    request.xrcd = xrcd_->handle();
  }
  if (srq_ != nullptr) {
    request.srq = srq_->handle();
  }
  const bool target = type_ == QpType::kXrcRecv;  // has neither CQs nor queues
  if (send_cq_ != nullptr && !target && (!options.rss || options.capacity.max_send_wr != 0)) {
    request.send_cq = send_cq_->handle_;
  }
  if (recv_cq_ != nullptr && !target && type_ != QpType::kXrcSend) {
    request.recv_cq = recv_cq_->handle_;
  }
  request.user_handle = event_handle_;
  request.async_event_fd = context_->async_fd();
  request.capabilities = {.max_send_wr = options.capacity.max_send_wr,
                          .max_recv_wr = options.capacity.max_recv_wr,
                          .max_send_sge = capacity_.max_send_sge,
                          .max_recv_sge = options.capacity.max_recv_sge,
                          .max_inline_data = capacity_.max_inline_bytes};
  if (target) {
    request.capabilities.max_send_wr = 0;
  }
  if (target || type_ == QpType::kXrcSend) {
    request.capabilities.max_recv_wr = request.capabilities.max_recv_sge = 0;
  }
  request.flags = options.create_flags | (options.signal_all ? IB_UVERBS_QP_CREATE_SQ_SIG_ALL : 0);
  request.source_qpn = options.source_qpn;
  if (options.rss) {
    request.rwq_ind_table = target ? std::nullopt : std::optional(options.rss->table);
    request.driver = rss_request(state, options);
  } else {
    request.driver = kernel_request(options);
  }

  auto created = uapi::create_qp(*state.commands, request);
  if (!created) {
    const std::string reason = kernel_reason(state, options, created.error().errno_value);
    return std::unexpected(explained(std::move(created.error()), "QP create" + (reason.empty() ? "" : ": " + reason)));
  }
  handle_ = created->handle;
  in_kernel_ = true;
  creation_ = created->driver;
  ece_options_ = creation_.ece_options;
  return is_dct() ? Expected<void>{} : set_number(created->qpn);
}

// The number that the device gave, by which it is found where CQEs carry no user index.
Expected<void> Qp::set_number(std::uint32_t qpn) {
  Context::State& state = context_->state();
  qpn_ = qpn;
  send_.set_qpn(qpn);
  if (state.cqes_carry_user_index() || type_ == QpType::kXrcRecv || is_rss_) {
    return {};
  }
  if (auto result = state.queues.add_at(qpn, this); !result) {
    return std::unexpected(explained(std::move(result.error()), name()));
  }
  user_index_ = qpn;
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
    state.queues.remove(user_index_);
  }
}

Expected<void> Qp::destroy(Qp& qp, EventsReported* reported) {
  Context::State& state = qp.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.qps, qp);
  }
  auto events = uapi::destroy_qp(*state.commands, qp.handle_);
  if (!events) {
    state.add(state.qps, qp);
    return std::unexpected(explained(std::move(events.error()), qp.name()));
  }
  if (reported != nullptr) {
    *reported = {.asynchronous = *events};
  }
  qp.in_kernel_ = false;
  qp.forget_completions();
  delete &qp;
  return {};
}

void Qp::abandon(Qp& qp, const Error& why) { log_abandoned(qp.name(), why); }

void Qp::forget_completions() {
  if (send_cq_ != nullptr) {
    send_cq_->forget(*this);
  }
  if (recv_cq_ != nullptr && recv_cq_ != send_cq_) {
    recv_cq_->forget(*this);
  }
}

std::string Qp::name() const { return fmt::format("QP {:#x}", qpn_); }

}  // namespace umlx5
