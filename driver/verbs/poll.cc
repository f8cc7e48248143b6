// ibv_poll_cq() and ibv_req_notify_cq().
#include <mutex>

#include "driver/verbs/completion_fields.h"
#include "driver/verbs/queue_objects.h"

namespace umlx5::verbs {
namespace {

// Takes a copy, so that the caller's need not be in memory.
[[gnu::cold]] void fill_error(TakenCqe taken, ibv_wc& wc) {
  wc.vendor_err = vendor_error_of(taken);
  wc.wc_flags = 0;
}

[[gnu::always_inline]] inline void fill(const TakenCqe& taken, ibv_wc& wc) {
  wc.wr_id = taken.wr_id;
  wc.status = static_cast<ibv_wc_status>(taken.status);
  wc.opcode = static_cast<ibv_wc_opcode>(taken.opcode);
  wc.qp_num = taken.qpn();
  if (taken.status != CompletionStatus::kSuccess) [[unlikely]] {
    return fill_error(taken, wc);
  }
  wc.vendor_err = 0;
  if (taken.opcode < CompletionOpcode::kRecv) {
    wc.byte_len = taken.byte_count();
    wc.wc_flags = 0;
    return;
  }
  wc.byte_len = taken.word(44);
  wc.wc_flags = flags_of(taken);
  wc.imm_data = immediate_of(taken);
  const std::uint32_t source = taken.source_word();
  wc.src_qp = source & 0xffffff;
  wc.sl = source >> 24 & 0xf;
  wc.slid = slid_of(taken);
  wc.pkey_index = static_cast<std::uint16_t>(taken.immediate());
  wc.dlid_path_bits = path_bits_of(taken);
}

}  // namespace

int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) {
  CqObject& object = object_of(cq);
  const std::lock_guard guard(object.lock);
  Cq& native = *object.cq;
  const std::uint32_t before = native.consumer_index();
  ibv_wc* to = completions;
  const std::size_t taken = native.take_all(count < 0 ? 0 : static_cast<std::size_t>(count),
                                            [&](const TakenCqe& cqe) { fill(cqe, *to++); });
  if (native.consumer_index() != before) {
    native.publish_consumer_index();
  }
  return static_cast<int>(taken);
}

// Takes no lock: it may be called between start_poll and end_poll.
int req_notify_cq(ibv_cq* cq, int solicited_only) {
  object_of(cq).cq->arm(solicited_only != 0 ? Arm::kSolicited : Arm::kNext);
  return 0;
}

}  // namespace umlx5::verbs
