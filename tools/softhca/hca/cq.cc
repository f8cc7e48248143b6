// Completion queues: writing CQEs, arming, overrun.
#include <endian.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "tools/softhca/hca/device.h"
#include "wqe/cqe.h"

namespace softhca::hca {

using umlx5::wqe::CqeFormat;
using umlx5::wqe::CqeOpcode;
using umlx5::wqe::CqErrorKind;
using umlx5::wqe::Eqe;
using umlx5::wqe::EventType;
using umlx5::wqe::kCqeBytes;
using umlx5::wqe::kCqeOpOwnOffset;

namespace {

constexpr std::uint32_t kIndexMask = 0xffffff;
constexpr std::uint32_t kArmSolicited = 1u << 24;

bool is_error(CqeOpcode opcode) { return opcode == CqeOpcode::kRequesterError || opcode == CqeOpcode::kResponderError; }

bool is_full(Device& device, Cq& cq) {
  const std::uint32_t entries = 1u << cq.log_entries;
  if (((cq.producer - cq.consumer) & kIndexMask) < entries) {
    return false;
  }
  return waiting_cqes(device, cq) >= entries;
}

void fail(Device& device, Cq& cq, CqErrorKind kind) {
  cq.in_error = true;
  device.failed_cqs.push_back(cq.cqn);
  post_async_event(device, EventType::kCqError, cq.cqn, static_cast<std::uint8_t>(kind));
}

void fire_if_due(Device& device, Cq& cq) {
  const std::uint32_t newest = cq.armed_solicited_only ? cq.last_solicited : cq.producer;
  // The queue holds at most 2^22 entries, so a difference of half the index space or more is a past one.
  const auto is_after = [&](std::uint32_t index) {
    const std::uint32_t since = (newest - index) & kIndexMask;
    return since != 0 && since <= kIndexMask / 2;
  };
  if (!cq.armed || !is_after(cq.arm_word) || !is_after(cq.last_notified)) {
    return;
  }
  cq.armed = false;
  cq.last_notified = cq.producer;
  cq.fired_sequence = static_cast<std::uint8_t>(cq.arm_word >> 28 & 3);
  if (Eq* const eq = device.eqs.find(cq.eqn)) {
    Eqe eqe;
    eqe.type = EventType::kCompletion;
    eqe.set_event(umlx5::wqe::CompletionEvent{.cqn = cq.cqn});
    post_event(device, *eq, eqe);
  }
}

// Writes an entry whose last byte lacks the owner bit. False if memory is gone.
bool write_entry(Device& device, Cq& cq, std::span<const std::byte> entry) {
  const std::uint64_t position = std::uint64_t{cq.producer & ((1u << cq.log_entries) - 1)} * cq.cqe_bytes;
  const std::uint64_t last = position + cq.cqe_bytes - 1;
  const auto owner = static_cast<std::uint8_t>((cq.producer >> cq.log_entries) & 1);
  // The owner byte last: software takes the entry as soon as it sees it.
  if (!cq.pages.write(device.dma, last + 1 - entry.size(), entry.first(entry.size() - 1)) ||
      !device.dma.store8(cq.pages.address(last), static_cast<std::uint8_t>(entry.back()) | owner)) {
    return false;
  }
  ++cq.producer;
  return true;
}

}  // namespace

std::uint32_t waiting_cqes(Device& device, Cq& cq) {
  if (const auto consumer = device.dma.load32(cq.doorbell_record)) {
    cq.consumer = be32toh(*consumer) & kIndexMask;
  }
  return (cq.producer - cq.consumer) & kIndexMask;
}

void complete(Device& device, Cq& cq, std::span<const std::byte, kCqeBytes> cqe64, std::span<const std::byte> scatter,
              bool solicited) {
  if (cq.in_error) {
    return;
  }
  if (!cq.ignore_overrun && is_full(device, cq)) {
    fail(device, cq, CqErrorKind::kOverrun);
    return;
  }
  std::array<std::byte, 2 * kCqeBytes> buffer{};
  const auto entry = std::span(buffer).last<kCqeBytes>();
  std::ranges::copy(cqe64, entry.begin());
  auto op_own = static_cast<std::uint8_t>(static_cast<std::uint8_t>(cqe64[kCqeOpOwnOffset]) & 0xf2);
  const CqeOpcode opcode = umlx5::wqe::cqe_opcode(op_own);
  std::size_t bytes = kCqeBytes;
  if (!is_error(opcode)) {
    if (!scatter.empty() && scatter.size() <= umlx5::wqe::kInlineScatter32Bytes) {
      std::ranges::copy(scatter, entry.begin());
      op_own |= static_cast<std::uint8_t>(CqeFormat::kInline32) << 2;
    } else if (!scatter.empty()) {
      std::ranges::copy(scatter.first(std::min(scatter.size(), kCqeBytes)), buffer.begin());
      op_own |= static_cast<std::uint8_t>(CqeFormat::kInline64) << 2;
      bytes = buffer.size();
    }
  }
  entry[kCqeOpOwnOffset] = static_cast<std::byte>(op_own);
  if (!write_entry(device, cq, std::span(buffer).last(std::min<std::size_t>(bytes, cq.cqe_bytes)))) {
    fail(device, cq, CqErrorKind::kAccessViolation);
    return;
  }
  if (solicited || is_error(opcode)) {
    cq.last_solicited = cq.producer;
  }
  fire_if_due(device, cq);
}

void arm(Device& device, Cq& cq, std::uint32_t arm_word) {
  cq.arm_word = arm_word;
  if ((arm_word >> 28 & 3) == cq.fired_sequence) {
    return;
  }
  cq.armed = true;
  cq.armed_solicited_only = (arm_word & kArmSolicited) != 0;
  fire_if_due(device, cq);
}

bool write_resize_cqe(Device& device, Cq& cq) {
  if (waiting_cqes(device, cq) >= (1u << cq.log_entries)) {
    return false;
  }
  std::array<std::byte, kCqeBytes> entry{};
  entry[kCqeOpOwnOffset] = static_cast<std::byte>(static_cast<std::uint8_t>(CqeOpcode::kResize) << 4);
  return write_entry(device, cq, entry);
}

void settle_failed_cqs(Device& device) {
  // Flushing may overrun further CQs, which are then appended; each fails but once.
  while (!device.failed_cqs.empty()) {
    const Cq* const cq = device.cqs.find(device.failed_cqs.back());
    device.failed_cqs.pop_back();
    device.qps.for_each([&](QpObject& qp) {
      if (cq != nullptr && (qp.send_cq == cq || qp.recv_cq == cq)) {
        fail_qp(device, qp);
      }
    });
  }
}

}  // namespace softhca::hca
