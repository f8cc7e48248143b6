// CREATE_SQ, MODIFY_SQ, QUERY_SQ, DESTROY_SQ and the same of an RQ: queues of raw packets.
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/qp.h"
#include "wqe/prm/sq_rq.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::Status;

namespace {

constexpr std::uint64_t kDoorbellRecordBytes = 8;
constexpr std::uint8_t kLogWqebbBytes = 6, kLogLeastReceiveBytes = 4;

Refusal check_wq(const Profile& profile, const prm::Wq& wq, prm::WqType type) {
  if (wq.wq_type != type || !profile.raw_packets) {
    return bad_parameter(Syndrome::kQueueType);
  }
  if (wq.wq_signature || wq.cd_slave) {
    return bad_parameter(Syndrome::kQpSignature);
  }
  if (wq.log_wq_sz > profile.log_max_qp_sz) {
    return exceeds_limit(Syndrome::kQpRqSize);
  }
  return {};
}

// What both kinds take of their contexts.
template <typename Context>
Refusal take_context(Device& device, const Request& request, const Context& context, Cq*& cq, QpObject& queue) {
  if (context.state != prm::kQueueReset) {
    return bad_parameter(Syndrome::kQueueState);
  }
  if (context.rlky && request.header.uid != 0) {
    return bad_parameter(Syndrome::kQpReservedLkey);
  }
  if (context.hairpin) {
    return bad_parameter(Syndrome::kQueueType);
  }
  Domain* pd = nullptr;
  if (const Refusal refusal = find(request, device.pds, context.wq.pd, Syndrome::kNoSuchPd, pd)) {
    return refusal;
  }
  if (const Refusal refusal = find(request, device.cqs, context.cqn, Syndrome::kNoSuchCq, cq)) {
    return refusal;
  }
  queue.type = QpType::kRaw;
  queue.uid = request.header.uid;
  queue.user_index = context.user_index;
  queue.pdn = context.wq.pd;
  queue.reserved_lkey = context.rlky;
  if (const Refusal refusal = take_doorbell_record(device, request, record_of(context.wq), kDoorbellRecordBytes,
                                                   queue.doorbell_record, queue.record_umem)) {
    return refusal;
  }
  return take_queue_memory(device, request, memory_of(context.wq),
                           std::uint64_t{1} << (context.wq.log_wq_stride + context.wq.log_wq_sz), queue.pages,
                           queue.buffer_umem);
}

Refusal insert(Device& device, const Request& request, std::unique_ptr<QpObject> queue, Cq& cq) {
  QpObject* const created = queue.get();
  if (!device.qps.insert(queue, created->qpn)) {
    return no_resources();
  }
  ++device.pds.find(created->pdn)->users;
  ++cq.users;
  request.reply_number(created->qpn);
  return {};
}

enum class QueueKind : std::uint8_t { kSend, kReceive };

Refusal find_queue(Device& device, const Request& request, QueueKind kind, QpObject*& queue) {
  if (const Refusal refusal = find(request, device.qps, request.number(), Syndrome::kNoSuchQp, queue)) {
    return refusal;
  }
  const bool is_it = queue->type == QpType::kRaw && queue->has_sq == (kind == QueueKind::kSend);
  return is_it ? Refusal{} : bad_resource(Syndrome::kWrongQueueKind);
}

std::uint8_t state_code(const QpObject& queue) {
  return queue.state == QpState::kReset ? prm::kQueueReset
         : queue.state == QpState::kErr ? prm::kQueueError
                                        : prm::kQueueReady;
}

// `state` is the one that the command takes the queue to be in, `next` where it is to go.
Refusal change_state(Device& device, QpObject& queue, std::uint8_t state, std::uint8_t next, QpState ready) {
  if (state != state_code(queue)) {
    return {Status::kBadResourceState, Syndrome::kQueueState};
  }
  const bool known = next == prm::kQueueReset || next == prm::kQueueError || next == prm::kQueueReady;
  if (!known || (state == prm::kQueueError && next == prm::kQueueReady)) {
    return bad_parameter(Syndrome::kQueueState);
  }
  if (next != state || next == prm::kQueueReset) {
    enter_state(device, queue,
                next == prm::kQueueReset   ? QpState::kReset
                : next == prm::kQueueError ? QpState::kErr
                                           : ready);
  }
  return {};
}

Refusal destroy(Device& device, QpObject& queue) {
  if (queue.users != 0) {
    return bad_resource_state(Syndrome::kQueueInUse);
  }
  device.transport.forget(queue);
  --device.pds.find(queue.pdn)->users;
  if (queue.has_sq) {
    std::erase(device.uars.find(queue.uar)->qps, &queue);
    --queue.send_cq->users;
    --device.steering.tises.find(queue.tisn)->users;
  } else {
    --queue.recv_cq->users;
  }
  device.qps.erase(queue.qpn);
  return {};
}

Refusal take_striding(const prm::Wq& wq, Striding& striding) {
  constexpr std::uint32_t kLeastStrideBytes = 64;
  constexpr unsigned kLogWholeStrides = 9, kFirstSmallCode = 10, kLogLeastStrides = 3, kMostWholeCode = 7;
  constexpr std::uint32_t kShiftBytes = 2;
  const unsigned code = wq.log_wqe_num_of_strides;
  if (code > kMostWholeCode && code < kFirstSmallCode) {
    return bad_parameter(Syndrome::kQueueStrides);
  }
  const unsigned log_strides =
      code < kFirstSmallCode ? kLogWholeStrides + code : kLogLeastStrides + code - kFirstSmallCode;
  striding = {.stride_bytes = kLeastStrideBytes << wq.log_wqe_stride_size,
              .strides = 1u << log_strides,
              .shift_bytes = wq.two_byte_shift_en ? kShiftBytes : 0};
  constexpr std::uint32_t kLeastWqeBytes = 32;  // a link segment and one of data
  return 1u << wq.log_wq_stride < kLeastWqeBytes ? exceeds_limit(Syndrome::kQpRqStride) : Refusal{};
}

}  // namespace

Refusal create_sq(Device& device, const Request& request) {
  const prm::Sqc context = request.as<prm::CreateSqIn>().context;
  if (const Refusal refusal = check_wq(device.profile, context.wq, prm::WqType::kCyclic)) {
    return refusal;
  }
  if (context.wq.log_wq_stride != kLogWqebbBytes || context.cd_master || context.tis_lst_sz != 1 ||
      context.packet_pacing_rate_limit_index != 0) {
    return bad_parameter(Syndrome::kQueueType);
  }
  auto queue = std::make_unique<QpObject>();
  queue->has_rq = false;
  if (const Refusal refusal = take_context(device, request, context, queue->send_cq, *queue)) {
    return refusal;
  }
  Tis* tis = nullptr;
  if (const Refusal refusal = find(request, device.steering.tises, context.tis_num_0, Syndrome::kNoSuchTis, tis)) {
    return refusal;
  }
  UarPage* const uar = device.uars.find(context.wq.uar_page);
  if (uar == nullptr) {
    return bad_resource(Syndrome::kNoSuchUar);
  }
  if (!request.may_touch(uar->uid)) {
    return bad_resource(Syndrome::kNotOwner);
  }
  queue->uar = context.wq.uar_page;
  queue->tisn = context.tis_num_0;
  queue->transport_domain = tis->transport_domain;
  queue->log_sq_wqebbs = context.wq.log_wq_sz;
  QpObject* const created = queue.get();
  if (const Refusal refusal = insert(device, request, std::move(queue), *created->send_cq)) {
    return refusal;
  }
  ++tis->users;
  uar->qps.push_back(created);
  return {};
}

Refusal modify_sq(Device& device, const Request& request) {
  const auto in = request.as<prm::ModifySqIn>();
  QpObject* queue = nullptr;
  if (const Refusal refusal = find_queue(device, request, QueueKind::kSend, queue)) {
    return refusal;
  }
  if (in.modify_bitmask != 0) {
    return bad_parameter(Syndrome::kQueueFieldSelect);
  }
  return change_state(device, *queue, in.state, in.context.state, QpState::kRts);
}

Refusal query_sq(Device& device, const Request& request) {
  QpObject* queue = nullptr;
  if (const Refusal refusal = find_queue(device, request, QueueKind::kSend, queue)) {
    return refusal;
  }
  prm::QuerySqOut out;
  out.context.state = state_code(*queue);
  out.context.flush_in_error_en = true;
  out.context.user_index = queue->user_index;
  out.context.cqn = queue->send_cq->cqn;
  out.context.tis_lst_sz = 1;
  out.context.tis_num_0 = queue->tisn;
  out.context.wq = {.wq_type = prm::WqType::kCyclic,
                    .pd = queue->pdn,
                    .uar_page = queue->uar,
                    .dbr_addr = queue->doorbell_record,
                    .hw_counter = queue->sq_consumed_wqebbs,
                    .log_wq_stride = kLogWqebbBytes,
                    .log_wq_sz = queue->log_sq_wqebbs};
  request.reply(out);
  return {};
}

Refusal destroy_sq(Device& device, const Request& request) {
  QpObject* queue = nullptr;
  const Refusal refusal = find_queue(device, request, QueueKind::kSend, queue);
  return refusal ? refusal : destroy(device, *queue);
}

Refusal create_rq(Device& device, const Request& request) {
  const prm::Rqc context = request.as<prm::CreateRqIn>().context;
  const bool strides = context.wq.wq_type == prm::WqType::kCyclicStriding && device.profile.striding_rq;
  if (const Refusal refusal =
          check_wq(device.profile, context.wq, strides ? prm::WqType::kCyclicStriding : prm::WqType::kCyclic)) {
    return refusal;
  }
  if (context.mem_rq_type != prm::kMemoryRqInline || context.delay_drop_en || context.scatter_fcs) {
    return bad_parameter(Syndrome::kQueueType);
  }
  if (context.wq.log_wq_stride < kLogLeastReceiveBytes ||
      1u << context.wq.log_wq_stride > device.profile.max_wqe_sz_rq_bytes) {
    return exceeds_limit(Syndrome::kQpRqStride);
  }
  auto queue = std::make_unique<QpObject>();
  queue->has_sq = false;
  if (const Refusal refusal = take_context(device, request, context, queue->recv_cq, *queue)) {
    return refusal;
  }
  queue->log_rq_entries = context.wq.log_wq_sz;
  queue->rq_wqe_bytes = 1u << context.wq.log_wq_stride;
  queue->strips_vlan = !context.vsd;
  if (strides) {
    if (const Refusal refusal = take_striding(context.wq, queue->striding)) {
      return refusal;
    }
  }
  Cq& cq = *queue->recv_cq;
  return insert(device, request, std::move(queue), cq);
}

Refusal modify_rq(Device& device, const Request& request) {
  const auto in = request.as<prm::ModifyRqIn>();
  QpObject* queue = nullptr;
  if (const Refusal refusal = find_queue(device, request, QueueKind::kReceive, queue)) {
    return refusal;
  }
  if ((in.modify_bitmask & ~prm::kModifyRqVlanStripDisable) != 0) {
    return bad_parameter(Syndrome::kQueueFieldSelect);
  }
  if (const Refusal refusal = change_state(device, *queue, in.state, in.context.state, QpState::kRtr)) {
    return refusal;
  }
  if ((in.modify_bitmask & prm::kModifyRqVlanStripDisable) != 0) {
    queue->strips_vlan = !in.context.vsd;
  }
  return {};
}

Refusal query_rq(Device& device, const Request& request) {
  QpObject* queue = nullptr;
  if (const Refusal refusal = find_queue(device, request, QueueKind::kReceive, queue)) {
    return refusal;
  }
  prm::QueryRqOut out;
  out.context.vsd = !queue->strips_vlan;
  out.context.state = state_code(*queue);
  out.context.flush_in_error_en = true;
  out.context.user_index = queue->user_index;
  out.context.cqn = queue->recv_cq->cqn;
  out.context.wq = {.wq_type = queue->striding.stride_bytes != 0 ? prm::WqType::kCyclicStriding : prm::WqType::kCyclic,
                    .pd = queue->pdn,
                    .dbr_addr = queue->doorbell_record,
                    .hw_counter = queue->rq_consumed,
                    .log_wq_stride = static_cast<std::uint8_t>(std::bit_width(queue->rq_wqe_bytes) - 1),
                    .log_wq_sz = queue->log_rq_entries};
  request.reply(out);
  return {};
}

Refusal destroy_rq(Device& device, const Request& request) {
  QpObject* queue = nullptr;
  const Refusal refusal = find_queue(device, request, QueueKind::kReceive, queue);
  return refusal ? refusal : destroy(device, *queue);
}

}  // namespace softhca::hca
