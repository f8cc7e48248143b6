// Completion queues: writing CQEs, arming, overrun.
#include <endian.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "tools/softhca/hca/compression.h"
#include "tools/softhca/hca/device.h"
#include "wqe/cqe.h"
#include "wqe/mini_cqe.h"

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

// Position of the entry at free-running `index`.
std::uint64_t position_of(const Cq& cq, std::uint32_t index) {
  return std::uint64_t{index & ((1u << cq.log_entries) - 1)} * cq.cqe_bytes;
}

bool is_enhanced(const Cq& cq) {
  return cq.compression && cq.compression->layout == umlx5::wqe::CqeCompressionLayout::kEnhanced;
}

// Writes an entry whose last byte lacks the owner bit; it stands for `completions`. False if memory is gone.
bool write_entry(Device& device, Cq& cq, std::span<std::byte> entry, std::uint32_t completions = 1) {
  const std::uint64_t last = position_of(cq, cq.producer) + cq.cqe_bytes - 1;
  const auto lap = static_cast<std::uint8_t>(cq.producer >> cq.log_entries);
  if (is_enhanced(cq)) {
    entry[entry.size() - kCqeBytes + umlx5::wqe::kCqeValidityOffset] = std::byte{lap};
  }
  // The owner byte last: software takes the entry as soon as it sees it.
  if (!cq.pages.write(device.dma, last + 1 - entry.size(), entry.first(entry.size() - 1)) ||
      !device.dma.store8(cq.pages.address(last),
                         static_cast<std::uint8_t>(static_cast<std::uint8_t>(entry.back()) | (lap & 1)))) {
    return false;
  }
  cq.producer += completions;
  return true;
}

bool write_session(Device& device, Cq& cq, std::span<const CqeBytes> run) {
  for (std::uint32_t first = 0; first < run.size(); first += umlx5::wqe::kMiniCqesPerEntry) {
    const std::uint64_t entry = position_of(cq, cq.producer + umlx5::wqe::mini_cqe_entry(first));
    if (!cq.pages.write(device.dma, entry + cq.cqe_bytes - kCqeBytes,
                        mini_cqes_of(run, first, cq.compression->format))) {
      return false;
    }
  }
  CqeBytes title = title_of(run);
  return write_entry(device, cq, title, static_cast<std::uint32_t>(run.size()));
}

// The first of a run is written whole unless it continues what is written.
bool write_blocks(Device& device, Cq& cq, std::span<const CqeBytes> run) {
  Compression& compression = *cq.compression;
  while (!run.empty()) {
    const bool block = compression.written && continues(*compression.written, run.front());
    const std::size_t count = block ? std::min<std::size_t>(run.size(), umlx5::wqe::kMiniCqesPerBlock) : 1;
    CqeBytes entry = block ? block_of(run.first(count), compression.format) : run.front();
    if (!write_entry(device, cq, entry, static_cast<std::uint32_t>(count))) {
      return false;
    }
    compression.written = run[count - 1];
    run = run.subspan(count);
  }
  return true;
}

bool write_run(Device& device, Cq& cq, std::span<const CqeBytes> run) {
  if (is_enhanced(cq)) {
    return write_blocks(device, cq, run);
  }
  if (run.size() > 1) {
    return write_session(device, cq, run);
  }
  CqeBytes entry = run.front();
  return write_entry(device, cq, entry);
}

std::uint32_t free_entries(Device& device, Cq& cq) {
  const std::uint32_t entries = 1u << cq.log_entries;
  return entries - std::min(entries, waiting_cqes(device, cq));
}

// Writes what the CQ has gathered, of which an overrun leaves what has no room.
void write_gathered(Device& device, Cq& cq) {
  Compression& compression = *cq.compression;
  const std::size_t room = cq.ignore_overrun ? compression.run.size() : free_entries(device, cq);
  const auto run = std::span(compression.run).first(std::min(room, compression.run.size()));
  if (!run.empty() && !write_run(device, cq, run)) {
    fail(device, cq, CqErrorKind::kAccessViolation);
  } else if (run.size() != compression.run.size()) {
    fail(device, cq, CqErrorKind::kOverrun);
  }
  if (compression.run_is_solicited && !run.empty()) {
    cq.last_solicited = cq.producer;
  }
  compression.run.clear();
  fire_if_due(device, cq);
}

// Keeps a completion for the end of the pass, or for the first one that is not like it.
void gather(Device& device, Cq& cq, std::span<const std::byte, kCqeBytes> bytes, bool solicited) {
  Compression& compression = *cq.compression;
  CqeBytes cqe;
  std::ranges::copy(bytes, cqe.begin());
  const std::size_t most = std::min<std::size_t>(device.profile.max_compressed_cqes, std::size_t{1} << cq.log_entries);
  if (!compression.run.empty() && (compression.run.size() == most || compression.run_is_solicited != solicited ||
                                   !continues(compression.run.back(), cqe))) {
    write_gathered(device, cq);
  }
  if (cq.in_error) {
    return;
  }
  if (!compression.is_listed) {
    device.gathering_cqs.push_back(cq.cqn);
    compression.is_listed = true;
  }
  compression.run_is_solicited = solicited;
  compression.run.push_back(cqe);
}

// An entry that is nothing like a completion follows.
void write_whole_next(Device& device, Cq& cq) {
  if (!cq.compression->run.empty()) {
    write_gathered(device, cq);
  }
  cq.compression->written.reset();
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
  std::array<std::byte, 2 * kCqeBytes> buffer{};
  const auto entry = std::span(buffer).last<kCqeBytes>();
  std::ranges::copy(cqe64, entry.begin());
  auto op_own = static_cast<std::uint8_t>(static_cast<std::uint8_t>(cqe64[kCqeOpOwnOffset]) & 0xf2);
  const CqeOpcode opcode = umlx5::wqe::cqe_opcode(op_own);
  if (cq.compression) {
    if (scatter.empty() && is_compressible(op_own)) {
      entry[kCqeOpOwnOffset] = static_cast<std::byte>(op_own);
      gather(device, cq, entry, solicited);
      return;
    }
    write_whole_next(device, cq);
  }
  if (cq.in_error) {
    return;
  }
  if (!cq.ignore_overrun && is_full(device, cq)) {
    fail(device, cq, CqErrorKind::kOverrun);
    return;
  }
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

void write_gathered_cqes(Device& device) {
  for (const std::uint32_t cqn : device.gathering_cqs) {
    if (Cq* const cq = device.cqs.find(cqn); cq != nullptr && cq->compression) {
      cq->compression->is_listed = false;
      if (!cq->compression->run.empty()) {
        write_gathered(device, *cq);
      }
    }
  }
  device.gathering_cqs.clear();
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
  if (cq.compression) {
    cq.compression->written.reset();
  }
  CqeBytes entry{};
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
