// Fields of a completion in the verbs' form, read from a CQE.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "driver/cq_poll.h"
#include "driver/qp.h"

namespace umlx5::verbs {

static_assert(static_cast<int>(CompletionOpcode::kBindMemoryWindow) == IBV_WC_BIND_MW);
static_assert(static_cast<int>(CompletionOpcode::kLocalInvalidate) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(CompletionOpcode::kTso) == IBV_WC_TSO);
static_assert(static_cast<int>(CompletionOpcode::kRecv) == IBV_WC_RECV);
static_assert(static_cast<int>(CompletionOpcode::kRecvRdmaWithImm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(static_cast<int>(CompletionOpcode::kUmr) == IBV_WC_DRIVER1);
static_assert(static_cast<int>(CompletionOpcode::kRawWqe) == IBV_WC_DRIVER2);
static_assert(static_cast<int>(CompletionOpcode::kMemcpy) == IBV_WC_DRIVER3);
static_assert(static_cast<int>(CompletionStatus::kSuccess) == IBV_WC_SUCCESS);
static_assert(static_cast<int>(CompletionStatus::kLocalLength) == IBV_WC_LOC_LEN_ERR);
static_assert(static_cast<int>(CompletionStatus::kWorkRequestFlushed) == IBV_WC_WR_FLUSH_ERR);

static_assert(wqe::offset_bits_of(&wqe::Cqe::slid) == 22 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::path_bits) == 17 * 8 + 1);
static_assert(wqe::offset_bits_of(&wqe::Cqe::vlan) == 30 * 8);
static_assert(wqe::offset_bits_of(&wqe::ErrorCqe::vendor_syndrome) == 54 * 8);

// Of a frame: whether it is IPv4 whose header's checksum is right, and TCP's or UDP's too.
inline unsigned checksum_flags_of(const TakenCqe& taken) {
  constexpr std::uint32_t kL3Ok = 1 << 25, kL4Ok = 1 << 26, kL3Type = 3 << 18, kIpv4 = 2 << 18;
  const bool is_frame =
      taken.owner->qp == nullptr ? taken.owner->receive != nullptr : taken.owner->qp->type() == QpType::kRawPacket;
  constexpr std::uint32_t kMask = kL3Ok | kL4Ok | kL3Type, kRight = kL3Ok | kL4Ok | kIpv4;
  return is_frame && (taken.word(28) & kMask) == kRight ? unsigned{IBV_WC_IP_CSUM_OK} : 0u;
}

// ibv_wc_flags of a receive.
inline unsigned flags_of(const TakenCqe& taken) {
  unsigned flags = (taken.source_word() >> 28 & 3) != 0 ? unsigned{IBV_WC_GRH} : 0u;
  flags |= checksum_flags_of(taken);
  switch (taken.kind()) {
    case wqe::CqeOpcode::kResponderWriteImmediate:
    case wqe::CqeOpcode::kResponderSendImmediate:
      return flags | IBV_WC_WITH_IMM;
    case wqe::CqeOpcode::kResponderSendInvalidate:
      return flags | IBV_WC_WITH_INV;
    default:
      return flags;
  }
}

// Immediate data as it was on the wire, or the rkey that was invalidated in host order.
inline std::uint32_t immediate_of(const TakenCqe& taken) {
  const std::uint32_t value = taken.immediate();
  return taken.kind() == wqe::CqeOpcode::kResponderSendInvalidate ? value : wqe::internal::big_endian(value);
}

inline std::uint32_t vendor_error_of(const TakenCqe& taken) {
  return taken.is_error() ? static_cast<std::uint32_t>(taken.cqe[54]) : 0;
}

inline std::uint16_t slid_of(const TakenCqe& taken) { return wqe::internal::load_word<std::uint16_t>(taken.cqe + 22); }
inline std::uint8_t path_bits_of(const TakenCqe& taken) { return static_cast<std::uint8_t>(taken.cqe[17]) & 0x7f; }

}  // namespace umlx5::verbs
