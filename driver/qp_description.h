// A queue pair described at compile time. What no device would make does not compile; sizes are known to the compiler,
// and the WQEs are the smallest that the named operations need:
//
//   constexpr auto kWriter = describe({.operations = SendOperation::kRdmaWrite | SendOperation::kRdmaRead,
//                                      .max_send_wr = 256,
//                                      .max_inline_bytes = 28});
//   static_assert(kWriter.send_wqe_bytes == 64);  // 256 if nobody says what will be posted
//   auto qp = pd.create_qp(kWriter.options(*cq, *cq));
//
// The rules are those of Pd::create_qp() (qp_shape.h, qp_plan.h), with what the least of limits on every ConnectX is;
// a device may have less, or lack an ability, and then create_qp() says so.
#pragma once

#include <cstdint>

#include "driver/qp.h"
#include "driver/qp_plan.h"
#include "driver/qp_shape.h"

namespace umlx5 {

struct QpDescription {
  QpType type = QpType::kRc;
  DcType dc_type = DcType::kNone;  // of type kDriver
  // What will be posted: bits of SendOperation, the verbs' and mlx5dv's. At least one where the type sends.
  std::uint64_t operations = 0;
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;
  std::uint32_t max_send_sge = 1, max_recv_sge = 1;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_tso_header_bytes = 0;  // RAW_PACKET
  std::uint32_t create_flags = 0;          // as in QpOptions
  std::uint32_t dv_create_flags = 0;       // dv_flags.h
  bool has_srq = false;                    // receives come from a shared receive queue
  bool signal_all = false;
};

namespace description {

// Of every ConnectX: a WQE's length has six bits (max_sq_desc_sz is 1024 at most), a receive stride 2048 bytes at most,
// and 16-bit counters go around a ring.
inline constexpr QueueLimits kEveryDevice{.max_send_wqe_bytes = 1024,
                                          .max_recv_wqe_bytes = 2048,
                                          .max_send_wqebbs = 65536,
                                          .max_recv_wr = 65536,
                                          .max_srq_recv_wr = 65536,
                                          .max_out_of_order_recv_wr = 32768};
inline constexpr std::uint64_t kVerbsOperations = 0xffffffff;

constexpr shape::QpShape shape_of(const QpDescription& qp) {
  shape::QpShape result{.type = qp.type,
                        .dc_type = qp.dc_type,
                        .tso_header = qp.max_tso_header_bytes != 0,
                        .create_flags = qp.create_flags,
                        .dv_create_flags = qp.dv_create_flags};
  if (qp.operations != 0) {
    result.send_operations = qp.operations & kVerbsOperations;
    if (const std::uint64_t dv = qp.operations & ~kVerbsOperations; dv != 0) {
      result.dv_send_operations = dv;
    }
  }
  return result;
}

constexpr QpGeometryRequest request_of(const QpDescription& qp) {
  const shape::QpShape shape = shape_of(qp);
  return {.type = shape::sized_type(shape),
          .send_operations = qp.operations,
          .max_send_wr = qp.max_send_wr,
          .max_recv_wr = qp.max_recv_wr,
          .max_send_sge = qp.max_send_sge,
          .max_recv_sge = qp.max_recv_sge,
          .max_inline_bytes = qp.max_inline_bytes,
          .max_tso_header_bytes = qp.max_tso_header_bytes,
          .has_srq = qp.has_srq,
          .out_of_order_receive = (qp.dv_create_flags & dv::kOutOfOrderPlacement) != 0};
}

// At compile time the compiler shows the line that throws.
constexpr void refuse(shape::Refused refused) {
  using enum shape::Refused;
  switch (refused) {
    case kNothing:
      return;
    case kTsoHeader:
      throw "max_tso_header_bytes: only a RAW_PACKET QP has TSO headers";
    case kSendsNothing:
    case kNoChoice:
    case kDctSends:
      throw "operations: this type sends nothing";
    case kOperations:
      throw "operations: one of them does not exist on this type";
    case kDcOfType:
    case kNeitherDctNorDci:
      throw "dc_type: a DCT or DCI is of type kDriver, and kDriver is one of them";
    case kUnknownDvFlags:
    case kUnknownFlags:
      throw "create_flags, dv_create_flags: a bit is no flag";
    case kScatterBothWays:
      throw "dv_create_flags: scatter to CQE is both disabled and allowed";
    case kOutOfOrderOfType:
      throw "dv_create_flags: a RAW_PACKET QP has no out-of-order placement";
    case kDctVerbsFlags:
    case kDctFlags:
      throw "create_flags, dv_create_flags: a DCT does not have this flag";
    case kTunnelOfType:
      throw "dv_create_flags: tunnel offloads and loopback are of RAW_PACKET QPs";
    case kPacketCreditsType:
      throw "dv_create_flags: packet-based credits are of RC QPs";
    case kVlanOfType:
      throw "create_flags: only RAW_PACKET QPs have these";
    default:
      throw "type: is no QP type";
  }
}

constexpr void refuse(plan::Refused refused) {
  using enum plan::Refused;
  switch (refused) {
    case kSendSge:
      throw "max_send_sge: the WQE would be longer than 63 octowords";
    case kInline:
      throw "max_inline_bytes: the WQE would be longer than 63 octowords";
    case kOverhead:
    case kSendWqe:
      throw "max_tso_header_bytes, max_send_sge: the WQE would be longer than 1024 bytes";
    case kSendWr:
      throw "max_send_wr: the ring would be longer than 65536 blocks of 64 bytes";
    case kRecvSge:
      throw "max_recv_sge: a receive WQE would be longer than 2048 bytes";
    default:
      throw "max_recv_wr: too many receive requests";
  }
}

constexpr void check_queues(const QpDescription& qp) {
  const shape::QpShape shape = shape_of(qp);
  if (shape::has_send_queue(shape) && qp.max_send_wr != 0 && qp.operations == 0) {
    throw "operations: say what will be posted";
  }
  if (!shape::has_send_queue(shape) && qp.max_send_wr != 0) {
    throw "max_send_wr: this type sends nothing";
  }
  const bool receives = shape::has_receive_queue(shape) && qp.dc_type != DcType::kDci;
  if (qp.max_recv_wr != 0 && (!receives || qp.has_srq)) {
    throw "max_recv_wr: this QP has no receive queue of its own";
  }
  if (qp.dc_type == DcType::kDct && !qp.has_srq) {
    throw "has_srq: a DCT receives from a shared receive queue";
  }
  if (qp.has_srq && (qp.type == QpType::kXrcSend || qp.type == QpType::kXrcRecv)) {
    throw "has_srq: an XRC QP takes nothing from an SRQ of its own";
  }
  if (qp.type == QpType::kRawPacket && qp.max_send_wr == 0 && qp.max_recv_wr == 0) {
    throw "max_send_wr, max_recv_wr: a RAW_PACKET QP has a queue";
  }
}

}  // namespace description

// What describe() found good. The sizes are what every device with room for it gives.
struct DescribedQp {
  QpDescription asked;
  std::uint32_t send_wqe_bytes = 0;  // the most that a WQE takes; 0 without a send queue
  std::uint32_t recv_wqe_bytes = 0;  // stride; 0 without a receive queue
  QpCapacity capacity{};             // what is given: at least what was asked

  // For Pd::create_qp(). `srq` if and only if the description has one; XRC_SEND takes no receive CQ.
  QpOptions options(Cq* send_cq, Cq* recv_cq, Srq* srq = nullptr) const {
    QpOptions options{.type = asked.type,
                      .send_cq = send_cq,
                      .recv_cq = recv_cq,
                      .srq = srq,
                      .capacity = {.max_send_wr = asked.max_send_wr,
                                   .max_recv_wr = asked.max_recv_wr,
                                   .max_send_sge = asked.max_send_wr != 0 ? asked.max_send_sge : 0,
                                   .max_recv_sge = asked.max_recv_wr != 0 ? asked.max_recv_sge : 0,
                                   .max_inline_bytes = asked.max_inline_bytes},
                      .signal_all = asked.signal_all};
    const shape::QpShape shape = description::shape_of(asked);
    options.send_operations = shape.send_operations;
    options.dv_send_operations = shape.dv_send_operations;
    options.create_flags = asked.create_flags;
    options.dv_create_flags = asked.dv_create_flags;
    options.max_tso_header_bytes = asked.max_tso_header_bytes;
    options.dc_type = asked.dc_type;
    return options;
  }
};

consteval DescribedQp describe(const QpDescription& qp) {
  description::refuse(shape::any(description::shape_of(qp)));
  description::check_queues(qp);
  const plan::Result planned = plan::both(description::kEveryDevice, description::request_of(qp));
  if (!planned) {
    description::refuse(planned.error().what);
  }
  return {.asked = qp,
          .send_wqe_bytes = planned->send_wqe_bytes,
          .recv_wqe_bytes = planned->recv_wqe_bytes,
          .capacity = {.max_send_wr = planned->max_send_wr,
                       .max_recv_wr = planned->max_recv_wr,
                       .max_send_sge = planned->max_send_sge,
                       .max_recv_sge = planned->max_recv_sge,
                       .max_inline_bytes = planned->max_inline_bytes}};
}

}  // namespace umlx5
