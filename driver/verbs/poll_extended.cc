// ibv_start_poll(), ibv_next_poll(), ibv_end_poll() and what reads the completion they are at.
#include <cerrno>
#include <cstddef>

#include "driver/verbs/completion_fields.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

[[gnu::always_inline]] inline bool take(CqObject& object) {
  TakenCqe taken;
  if (!object.cq->take_next(taken)) {
    return false;
  }
  object.current = taken;
  object.ex.wr_id = taken.wr_id;
  object.ex.status = static_cast<ibv_wc_status>(taken.status);
  return true;
}

bool has_entry(const Cq& cq) { return cq.ring().is_ready(cq.consumer_index()); }

// The clock that the completions of this poll are translated by; 0 or an errno.
int update_clock(CqObject& object) {
  ContextObject& context = object_of(object.base()->context);
  const auto clock = context.clocks.snapshot(*context.native);
  if (!clock) {
    return report(clock.error());
  }
  object.clock = *clock;
  return 0;
}

// When there is nothing, the queue is left as if it had not been polled; entries that were nobody's are gone.
template <bool kLocked, bool kTranslatesTime>
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  CqObject& object = object_of(cq);
  if (attr->comp_mask != 0) [[unlikely]] {
    return EINVAL;
  }
  if constexpr (kLocked) {
    object.lock.spinlock().lock();
  }
  if constexpr (kTranslatesTime) {
    const int error = has_entry(*object.cq) ? update_clock(object) : ENOENT;
    if (error != 0) {
      object.lock.unlock();
      return error;
    }
  }
  const std::uint32_t before = object.cq->consumer_index();
  if (take(object)) [[likely]] {
    return 0;
  }
  if (object.cq->consumer_index() != before) [[unlikely]] {
    object.cq->publish_consumer_index();
  }
  if constexpr (kLocked) {
    object.lock.spinlock().unlock();
  }
  return ENOENT;
}

int next_poll(ibv_cq_ex* cq) { return take(object_of(cq)) ? 0 : ENOENT; }

template <bool kLocked>
void end_poll(ibv_cq_ex* cq) {
  CqObject& object = object_of(cq);
  object.cq->publish_consumer_index();
  if constexpr (kLocked) {
    object.lock.spinlock().unlock();
  }
}

const TakenCqe& current(ibv_cq_ex* cq) { return object_of(cq).current; }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(current(cq).opcode); }
std::uint32_t read_vendor_err(ibv_cq_ex* cq) { return vendor_error_of(current(cq)); }
std::uint32_t read_byte_len(ibv_cq_ex* cq) { return current(cq).byte_count(); }
__be32 read_imm_data(ibv_cq_ex* cq) { return immediate_of(current(cq)); }
std::uint32_t read_qp_num(ibv_cq_ex* cq) { return current(cq).qpn(); }
std::uint32_t read_src_qp(ibv_cq_ex* cq) { return current(cq).source_word() & 0xffffff; }
unsigned read_wc_flags(ibv_cq_ex* cq) {
  const TakenCqe& taken = current(cq);
  return taken.opcode < CompletionOpcode::kRecv ? 0 : flags_of(taken);
}
std::uint32_t read_slid(ibv_cq_ex* cq) { return slid_of(current(cq)); }
std::uint8_t read_sl(ibv_cq_ex* cq) { return current(cq).source_word() >> 24 & 0xf; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* cq) { return path_bits_of(current(cq)); }
std::uint64_t read_completion_ts(ibv_cq_ex* cq) { return current(cq).timestamp(); }
std::uint64_t read_wallclock(ibv_cq_ex* cq) { return mlx5dv_ts_to_ns(&object_of(cq).clock, read_completion_ts(cq)); }
std::uint16_t read_cvlan(ibv_cq_ex* cq) { return wqe::internal::load_word<std::uint16_t>(current(cq).cqe + 30); }
std::uint32_t read_flow_tag(ibv_cq_ex* cq) {
  return current(cq).qpn();
}  // on queues with flow rules it is in that place
void read_tm_info(ibv_cq_ex* cq, ibv_wc_tm_info* info) {
  const std::byte* const header = current(cq).cqe + offsetof(mlx5_cqe64, tmh);
  info->tag = wqe::internal::load_word<std::uint64_t>(header + offsetof(ibv_tmh, tag));
  info->priv = wqe::internal::load_word<std::uint32_t>(header + offsetof(ibv_tmh, app_ctx));
}

template <bool kTranslatesTime>
void set_start(CqObject& object) {
  object.ex.start_poll = object.lock.needed() ? start_poll<true, kTranslatesTime> : start_poll<false, kTranslatesTime>;
}

}  // namespace

void set_readers(CqObject& object, std::uint64_t wc_flags, WallClock wall_clock) {
  ibv_cq_ex& ex = object.ex;
  const bool locked = object.lock.needed();
  if (wall_clock == WallClock::kTranslated) {
    set_start<true>(object);
    ex.read_completion_wallclock_ns = read_wallclock;
  } else {
    set_start<false>(object);
    ex.read_completion_wallclock_ns = wall_clock == WallClock::kDevice ? read_completion_ts : nullptr;
  }
  ex.next_poll = next_poll;
  ex.end_poll = locked ? end_poll<true> : end_poll<false>;
  ex.read_opcode = read_opcode;
  ex.read_vendor_err = read_vendor_err;
  ex.read_wc_flags = read_wc_flags;
  const auto asked = [&](std::uint64_t flag) { return (wc_flags & flag) != 0; };
  ex.read_byte_len = asked(IBV_WC_EX_WITH_BYTE_LEN) ? read_byte_len : nullptr;
  ex.read_imm_data = asked(IBV_WC_EX_WITH_IMM) ? read_imm_data : nullptr;
  ex.read_qp_num = asked(IBV_WC_EX_WITH_QP_NUM) ? read_qp_num : nullptr;
  ex.read_src_qp = asked(IBV_WC_EX_WITH_SRC_QP) ? read_src_qp : nullptr;
  ex.read_slid = asked(IBV_WC_EX_WITH_SLID) ? read_slid : nullptr;
  ex.read_sl = asked(IBV_WC_EX_WITH_SL) ? read_sl : nullptr;
  ex.read_dlid_path_bits = asked(IBV_WC_EX_WITH_DLID_PATH_BITS) ? read_dlid_path_bits : nullptr;
  ex.read_completion_ts = asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) ? read_completion_ts : nullptr;
  ex.read_cvlan = asked(IBV_WC_EX_WITH_CVLAN) ? read_cvlan : nullptr;
  ex.read_tm_info = asked(IBV_WC_EX_WITH_TM_INFO) ? read_tm_info : nullptr;
  ex.read_flow_tag = asked(IBV_WC_EX_WITH_FLOW_TAG) ? read_flow_tag : nullptr;
}

}  // namespace umlx5::verbs
