// Taking completions: from CQE to Completion. Nothing here enters the kernel, allocates, or waits for another thread.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <span>

#include "doorbell/io.h"
#include "driver/cq.h"
#include "driver/log.h"
#include "driver/qp.h"
#include "driver/user_index_table.h"
#include "wqe/cqe.h"
#include "wqe/syndrome.h"

namespace umlx5 {
namespace {

// What a requester's CQE says about its opcode. Others than those that post_send() builds do not occur.
constexpr std::array<CompletionOpcode, 256> kOpcodeOfWqe = [] {
  std::array<CompletionOpcode, 256> table{};
  const auto set = [&](wqe::SendOpcode wqe_opcode, CompletionOpcode opcode) {
    table[static_cast<std::uint8_t>(wqe_opcode)] = opcode;
  };
  set(wqe::SendOpcode::kRdmaWrite, CompletionOpcode::kRdmaWrite);
  set(wqe::SendOpcode::kRdmaWriteImmediate, CompletionOpcode::kRdmaWrite);
  set(wqe::SendOpcode::kRdmaRead, CompletionOpcode::kRdmaRead);
  set(wqe::SendOpcode::kAtomicCompareSwap, CompletionOpcode::kCompareSwap);
  set(wqe::SendOpcode::kAtomicFetchAdd, CompletionOpcode::kFetchAdd);
  return table;
}();

// Fields of a CQE that polling reads, one load each (wqe/cqe.h has them all).
std::uint32_t load32(const std::byte* cqe, std::size_t offset) {
  return wqe::internal::load_word<std::uint32_t>(cqe + offset);
}
std::uint16_t wqe_counter(const std::byte* cqe) { return wqe::internal::load_word<std::uint16_t>(cqe + 60); }

static_assert(wqe::offset_bits_of(&wqe::Cqe::wqe_counter) == 60 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::byte_count) == 44 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::immediate) == 36 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::timestamp) == 48 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::send_opcode) == 56 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::srqn_or_user_index) == 33 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::qpn) == 57 * 8);

constexpr std::uint32_t kNumberMask = 0xffffff;

}  // namespace

std::uint32_t Cq::number_of(const std::byte* cqe) const { return load32(cqe, by_user_index_ ? 32 : 56) & kNumberMask; }

Qp* Cq::owner_of(const std::byte* cqe) {
  const std::uint32_t number = number_of(cqe);
  if (number == cached_number_) [[likely]] {
    return cached_qp_;
  }
  Qp* const qp = queue_pairs_->find(number);
  if (qp != nullptr) {
    cached_number_ = number;
    cached_qp_ = qp;
  }
  return qp;
}

[[gnu::noinline]] bool Cq::scatter(const std::byte* cqe, std::uint8_t op_own, Qp& qp) {
  const wqe::CqeFormat format = wqe::cqe_format(op_own);
  if (format == wqe::CqeFormat::kCompressed) {
    return false;  // never asked for
  }
  const bool large = format == wqe::CqeFormat::kInline64;
  if (large && ring_.entry_bytes() != wqe::kLargeCqeBytes) {
    return false;
  }
  const std::size_t room = large ? wqe::kInlineScatter64Bytes : wqe::kInlineScatter32Bytes;
  const bool requester = wqe::cqe_opcode(op_own) == wqe::CqeOpcode::kRequester;
  const bool atomic = requester && kOpcodeOfWqe[static_cast<std::uint8_t>(cqe[56])] >= CompletionOpcode::kCompareSwap;
  const std::size_t count = atomic ? 8 : load32(cqe, 44);
  if (count > room) {
    return false;
  }
  const std::span data(large ? cqe - wqe::kInlineScatter64Bytes : cqe, count);
  return requester ? qp.send_.scatter(wqe_counter(cqe), data, null_lkey_)
                   : qp.recv_.scatter(wqe_counter(cqe), data, null_lkey_);
}

[[gnu::noinline]] bool Cq::take_error(const std::byte* cqe, std::uint8_t op_own, Qp& qp, Completion& completion) {
  const auto error = wqe::load<wqe::ErrorCqe>(cqe);
  const bool requester = wqe::cqe_opcode(op_own) == wqe::CqeOpcode::kRequesterError;
  completion = {
      .wr_id = requester ? qp.send_.complete(error.wqe_counter) : qp.recv_.complete(error.wqe_counter),
      .qp = &qp,
      .qpn = qp.qpn_,
      .status = wqe::status_of(error.syndrome),
      .opcode = requester ? kOpcodeOfWqe[static_cast<std::uint8_t>(error.send_opcode)] : CompletionOpcode::kRecv,
      .syndrome = static_cast<std::uint8_t>(error.syndrome),
      .vendor_syndrome = error.vendor_syndrome};
  if (completion.status != CompletionStatus::kWorkRequestFlushed && log_enabled(LogLevel::kInfo)) {
    log(LogLevel::kInfo, describe(completion));
  }
  return true;
}

// An entry that is nobody's completion: false. It is consumed all the same.
[[gnu::noinline]] bool Cq::take_unusual(const std::byte* cqe, std::uint8_t op_own) {
  if (log_enabled(LogLevel::kError)) {
    log(LogLevel::kError,
        fmt::format("CQ {:#x}: entry {} is left out: {}", cqn_, consumer_index_, wqe::print(wqe::load<wqe::Cqe>(cqe))));
  }
  (void)op_own;
  return false;
}

inline bool Cq::take(const std::byte* cqe, std::uint8_t op_own, Completion& completion) {
  Qp* const qp = owner_of(cqe);
  if (qp == nullptr) [[unlikely]] {
    return take_unusual(cqe, op_own);
  }
  const wqe::CqeOpcode opcode = wqe::cqe_opcode(op_own);
  if (opcode > wqe::CqeOpcode::kResponderSendInvalidate) [[unlikely]] {
    return opcode == wqe::CqeOpcode::kRequesterError || opcode == wqe::CqeOpcode::kResponderError
               ? take_error(cqe, op_own, *qp, completion)
               : take_unusual(cqe, op_own);
  }
  completion.qp = qp;
  completion.qpn = qp->qpn_;
  completion.status = CompletionStatus::kSuccess;
  completion.syndrome = 0;
  completion.vendor_syndrome = 0;
  completion.has_immediate = false;
  completion.has_invalidated_rkey = false;
  completion.immediate_big_endian = 0;
  completion.device_timestamp = wqe::internal::load_word<std::uint64_t>(cqe + 48);
  if (wqe::cqe_format(op_own) != wqe::CqeFormat::kNone) [[unlikely]] {
    if (!scatter(cqe, op_own, *qp)) {
      completion.status = CompletionStatus::kLocalLength;
      completion.syndrome = static_cast<std::uint8_t>(wqe::ErrorSyndrome::kLocalLength);
    }
  }
  if (opcode == wqe::CqeOpcode::kRequester) {
    completion.opcode = kOpcodeOfWqe[static_cast<std::uint8_t>(cqe[56])];
    completion.byte_count = completion.opcode >= CompletionOpcode::kCompareSwap ? 8
                            : completion.opcode == CompletionOpcode::kRdmaRead  ? load32(cqe, 44)
                                                                                : 0;
    completion.wr_id = qp->send_.complete(wqe_counter(cqe));
    return true;
  }
  completion.opcode =
      opcode == wqe::CqeOpcode::kResponderWriteImmediate ? CompletionOpcode::kRecvRdmaWithImm : CompletionOpcode::kRecv;
  completion.byte_count = load32(cqe, 44);
  if (opcode == wqe::CqeOpcode::kResponderSendInvalidate) {
    completion.has_invalidated_rkey = true;
    completion.immediate_big_endian = load32(cqe, 36);
  } else if (opcode != wqe::CqeOpcode::kResponderSend) {
    completion.has_immediate = true;
    completion.immediate_big_endian = wqe::internal::big_endian(load32(cqe, 36));
  }
  completion.wr_id = qp->recv_.complete(wqe_counter(cqe));
  return true;
}

std::size_t Cq::poll(std::span<Completion> completions) {
  const std::uint32_t before = consumer_index_;
  std::size_t taken = 0;
  while (taken < completions.size()) {
    const std::uint8_t op_own = ring_.op_own(consumer_index_);
    if (!ring_.is_ready(consumer_index_, op_own)) {
      break;
    }
    doorbell::NativeIo::from_device();
    taken += take(ring_.cqe(consumer_index_), op_own, completions[taken]) ? 1 : 0;
    ++consumer_index_;
  }
  if (consumer_index_ != before) {
    publish_consumer_index();
  }
  return taken;
}

}  // namespace umlx5
