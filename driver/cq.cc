// The life of a completion queue. Polling is in cq_poll.cc.
#include "driver/cq.h"

#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "driver/context_state.h"
#include "driver/cq_poll.h"
#include "driver/log.h"
#include "driver/qp_geometry.h"
#include "driver/users.h"

namespace umlx5 {
namespace {

Error explained(Error error, const std::string& prefix) {
  error.what = prefix + ": " + error.what;
  return error;
}

// As the stock driver and the kernel together: EINVAL where the device has none of the formats, or more than one is
// asked.
Expected<std::optional<wqe::MiniCqeFormat>> mini_format_of(const CqOptions& options,
                                                           const mlx5_ib_cqe_comp_caps& caps) {
  if (options.compression == 0) {
    return std::nullopt;
  }
  if (caps.max_num == 0 || (options.compression & caps.supported_format) == 0) {
    return fail(EINVAL, fmt::format("CQ create: compression format {:#x}; the device has {:#x} (cqe_comp_caps)",
                                    options.compression, caps.max_num == 0 ? 0 : caps.supported_format));
  }
  switch (options.compression) {
    case MLX5_IB_CQE_RES_FORMAT_HASH:
      return wqe::MiniCqeFormat::kRxHash;
    case MLX5_IB_CQE_RES_FORMAT_CSUM:
      return wqe::MiniCqeFormat::kChecksum;
    case MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX:
      return wqe::MiniCqeFormat::kChecksumStrideIndex;
    default:
      return fail(EINVAL, fmt::format("CQ create: compression formats {:#x}; one at a time", options.compression));
  }
}

}  // namespace

Expected<Owned<Cq>> Context::create_cq(const CqOptions& options) {
  State& state = *state_;
  if (options.cqe_bytes != wqe::kCqeBytes && options.cqe_bytes != wqe::kLargeCqeBytes) {
    return fail(EINVAL, fmt::format("CQ create: CQEs of {} bytes; 64 and 128 are possible", options.cqe_bytes));
  }
  if (options.channel != nullptr && options.channel->context_ != this) {
    return fail(EINVAL, "CQ create: the completion channel is of another context");
  }
  if (options.entries > state.attributes.max_cqe) {
    return fail(EINVAL, fmt::format("CQ create: {} entries; at most {} (device's max_cqe)", options.entries,
                                    state.attributes.max_cqe));
  }
  const auto mini_format = mini_format_of(options, state.query.driver.base.cqe_comp_caps);
  if (!mini_format) {
    return std::unexpected(mini_format.error());
  }
  const auto ring_entries = plan_cq(options.entries);
  if (!ring_entries) {
    return std::unexpected(explained(ring_entries.error(), "CQ create"));
  }
  std::unique_ptr<Cq> cq(new (std::nothrow) Cq);
  if (cq == nullptr) {
    return fail(ENOMEM, "CQ create: no memory");
  }
  auto memory = QueueMemory::allocate(state.fork_guard, options.allocator, MemoryUse::kCq,
                                      std::size_t{*ring_entries} * options.cqe_bytes, system_page_bytes(), "CQ create");
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  cq->memory_ = std::move(*memory);
  cq->ring_ = CompletionRing(cq->memory_.data(), *ring_entries, options.cqe_bytes);
  cq->ring_.mark_all_unwritten();
  auto record = DoorbellRecord::allocate(state.records, options.allocator, "CQ create");
  if (!record) {
    return std::unexpected(std::move(record.error()));
  }
  cq->record_memory_ = std::move(*record);
  cq->record_ = cq->record_memory_.memory();
  cq->event_handle_ = options.event_handle != 0 ? options.event_handle : reinterpret_cast<std::uint64_t>(cq.get());

  uapi::CqRequest request;
  request.entries = *ring_entries - 1;
  request.user_handle = cq->event_handle_;
  request.async_event_fd = async_fd();
  request.completion_channel_fd = options.channel == nullptr ? -1 : options.channel->fd();
  request.completion_vector = options.completion_vector;
  request.flags = (options.timestamps ? IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION : 0) |
                  (options.ignore_overrun ? IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN : 0);
  request.driver.buf_addr = reinterpret_cast<std::uint64_t>(cq->memory_.data());
  request.driver.db_addr = reinterpret_cast<std::uint64_t>(cq->record_);
  request.driver.cqe_size = options.cqe_bytes;
  request.driver.cqe_comp_en = options.compression != 0 ? 1 : 0;
  request.driver.cqe_comp_res_format = options.compression;
  request.driver.flags = static_cast<std::uint16_t>(
      MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX | (options.pad_large_cqes ? MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD : 0) |
      (options.real_time_timestamps ? MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS : 0));
  request.driver.uar_page_index = static_cast<std::uint16_t>(state.uars.shared_page_id());
  auto created = uapi::create_cq(*state.commands, request);
  if (!created) {
    return std::unexpected(explained(std::move(created.error()), "CQ create"));
  }
  cq->handle_ = created->handle;
  cq->cqn_ = created->cqn;
  cq->context_ = this;
  cq->channel_ = options.channel;
  cq->allocator_ = options.allocator;
  cq->lock_ = options.lock;
  cq->user_ = options.user;
  cq->has_many_pollers_ = options.many_pollers;
  cq->mini_format_ = *mini_format;
  cq->queues_ = &state.queues;
  cq->number_offset_ = state.cqes_carry_user_index() ? Cq::kUserIndexOffset : Cq::kQpnOffset;
  cq->null_lkey_ = (state.info.device.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY) != 0
                       ? state.info.device.dump_fill_mkey
                       : 0;
  cq->arm_register_ = state.uars.arm_register();
  state.add(state.cqs, *cq);
  return Owned<Cq>(cq.release());
}

Expected<void> Cq::destroy(Cq& cq, EventsReported* reported) {
  Context::State& state = cq.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    Users users;
    for (const Qp& qp : state.qps) {
      users.add_if(qp.send_cq() == &cq || qp.recv_cq() == &cq, "QP", qp.qpn());
    }
    for (const Srq& srq : state.srqs) {
      users.add_if(srq.cq() == &cq, "SRQ", srq.srqn());
    }
    if (users) {
      return fail(EBUSY, fmt::format("CQ {:#x} is still used by {}", cq.cqn_, users.text()));
    }
    state.remove(state.cqs, cq);
  }
  auto events = uapi::destroy_cq(*state.commands, cq.handle_);
  if (!events) {
    state.add(state.cqs, cq);
    return std::unexpected(explained(std::move(events.error()), fmt::format("CQ {:#x}", cq.cqn_)));
  }
  if (reported != nullptr) {
    *reported = {.completion = events->completion, .asynchronous = events->async};
  }
  delete &cq;
  return {};
}

void Cq::abandon(Cq& cq, const Error& why) { log_abandoned(fmt::format("CQ {:#x}", cq.cqn_), why); }

void Cq::arm(Arm what) {
  const std::uint32_t sequence = arm_sequence_.load(std::memory_order_relaxed);
  arm_register_->arm(doorbell::CqRecord<>(record_),
                     {.sequence = static_cast<std::uint8_t>(sequence & 3),
                      .solicited_only = what == Arm::kSolicited,
                      .consumer_index = consumer_index()},
                     cqn_);
}

// The index behind what the device has written; none of it is compressed any more.
std::uint32_t Cq::written_index() const {
  std::uint32_t index = consumer_index_;
  for (; index - consumer_index_ < ring_.entries(); ++index) {
    const std::uint8_t op_own = ring_.op_own(index);
    if (!ring_.is_ready(index, op_own)) {
      break;
    }
    expand(ring_.cqe(index), op_own);
  }
  return index;
}

// Slides the entries that stay toward the producer, over those that go, and moves the consumer index behind the gap.
template <typename IsGone>
void Cq::forget_if(IsGone is_gone) {
  if (is_left_to_program_) {
    return;
  }
  std::uint32_t gone = 0;
  for (std::uint32_t index = written_index(); index != consumer_index_;) {
    --index;
    if (is_gone(ring_.cqe(index))) {
      ++gone;
    } else if (gone != 0) {
      ring_.put(index + gone, ring_.entry(index));
    }
  }
  if (gone != 0) {
    consumer_index_ += gone;
    publish_consumer_index();
  }
}

namespace {

// Holds a CQ's lock, if it has one.
class Locked {
 public:
  explicit Locked(doorbell::Spinlock* lock) : lock_(lock) {
    if (lock_ != nullptr) {
      lock_->lock();
    }
  }
  ~Locked() {
    if (lock_ != nullptr) {
      lock_->unlock();
    }
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  doorbell::Spinlock* lock_;
};

wqe::CqeOpcode opcode_of(const std::byte* cqe) {
  return wqe::cqe_opcode(static_cast<std::uint8_t>(cqe[wqe::kCqeOpOwnOffset]));
}

bool is_signature_error(const std::byte* cqe) { return opcode_of(cqe) == wqe::CqeOpcode::kSignatureError; }

bool is_responders(const std::byte* cqe) {
  const wqe::CqeOpcode opcode = opcode_of(cqe);
  return opcode != wqe::CqeOpcode::kRequester && opcode != wqe::CqeOpcode::kRequesterError;
}

}  // namespace

void Cq::forget(const Qp& qp) {
  const Locked guard(lock_);
  if (cached_owner_.qp == &qp) {
    forget_owner();
  }
  forget_if([&](const std::byte* cqe) {
    // A signature error is a key's, and has other fields where the number is.
    if (is_signature_error(cqe) || number_of(cqe) != qp.user_index_) {
      return false;
    }
    if (qp.srq_ != nullptr && is_responders(cqe)) {
      qp.srq_->queue().complete(wqe::load<wqe::Cqe>(cqe).wqe_counter);
    }
    return true;
  });
}

// Of an XRC SRQ; those of other SRQs carry their QP's number.
void Cq::forget(const Srq& srq) {
  const Locked guard(lock_);
  if (cached_owner_.srq == &srq) {
    forget_owner();
  }
  forget_if([&](const std::byte* cqe) { return !is_signature_error(cqe) && number_of(cqe) == srq.user_index_; });
}

void Cq::forget(const Wq& wq) {
  const Locked guard(lock_);
  if (cached_owner_.receive == &wq.queue_ ||
      (cached_owner_.striding != nullptr && cached_owner_.striding == wq.striding())) {
    forget_owner();
  }
  forget_if([&](const std::byte* cqe) { return !is_signature_error(cqe) && number_of(cqe) == wq.user_index_; });
}

void Cq::forget_owner() {
  cached_owner_ = {};
  cached_number_ = ~0u;
}

Expected<void> Cq::resize(std::uint32_t entries) {
  Context::State& state = context_->state();
  const std::string name = fmt::format("CQ {:#x} resize", cqn_);
  if (is_left_to_program_) {
    return fail(EINVAL, name + ": the program takes its completions from the ring itself");
  }
  if (entries > state.attributes.max_cqe) {
    return fail(EINVAL,
                fmt::format("{}: {} entries; at most {} (device's max_cqe)", name, entries, state.attributes.max_cqe));
  }
  const auto ring_entries = plan_cq(entries);
  if (!ring_entries) {
    return std::unexpected(explained(ring_entries.error(), name));
  }
  const std::uint32_t waiting = written_index() - consumer_index_;
  if (waiting >= *ring_entries) {
    return fail(EINVAL, fmt::format("{}: {} entries do not hold the {} completions that wait", name, entries, waiting));
  }
  auto memory =
      QueueMemory::allocate(context_->state().fork_guard, allocator_, MemoryUse::kCq,
                            std::size_t{*ring_entries} * ring_.entry_bytes(), system_page_bytes(), "CQ resize");
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  CompletionRing ring(memory->data(), *ring_entries, ring_.entry_bytes());
  ring.mark_all_unwritten();
  mlx5_ib_resize_cq driver{};
  driver.buf_addr = reinterpret_cast<std::uint64_t>(memory->data());
  driver.cqe_size = static_cast<std::uint16_t>(ring_.entry_bytes());
  if (auto result = uapi::resize_cq(*state.commands, handle_, *ring_entries - 1, driver); !result) {
    return std::unexpected(explained(std::move(result.error()), name));
  }
  // The device writes to the new ring from now on, and its last word in the old one says where it left off.
  const auto resize_index = find_resize();
  if (!resize_index) {
    log(LogLevel::kError, name + ": the device left no RESIZE entry; completions that waited are lost");
  }
  take_over(ring, resize_index.value_or(consumer_index_));
  memory_ = std::move(*memory);
  return {};
}

Expected<void> Cq::moderate(std::uint16_t count, std::uint16_t period_us) {
  auto result = uapi::moderate_cq(*context_->state().commands, handle_, count, period_us);
  if (!result) {
    return std::unexpected(explained(std::move(result.error()), fmt::format("CQ {:#x} moderation", cqn_)));
  }
  return {};
}

// Index of the RESIZE entry in the old ring. The device writes it before the command ends; a short wait covers one that
// does so at the same time.
std::optional<std::uint32_t> Cq::find_resize() const {
  constexpr int kTries = 1000;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::uint32_t end = written_index();
    for (std::uint32_t index = consumer_index_; index != end; ++index) {
      if (wqe::cqe_opcode(ring_.op_own(index)) == wqe::CqeOpcode::kResize) {
        return index;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return std::nullopt;
}

// The RESIZE entry took an index, so what waited before it moves on by one, and the device's next entry follows.
void Cq::take_over(CompletionRing ring, std::uint32_t resize_index) {
  for (std::uint32_t index = consumer_index_; index != resize_index; ++index) {
    ring.put(index + 1, ring_.entry(index));
  }
  ring_ = ring;
  ++consumer_index_;
  publish_consumer_index();
}

}  // namespace umlx5
