// The send queue of a queue pair: builds WQEs in its ring and rings the doorbell.
//
// Ring and index count in WQEBBs of 64 bytes; requests are counted beside them, because the limit that applications
// know is one of requests, and no request takes more than its share of the ring (plan_qp()). One thread at a time
// posts, one at a time completes; the two may be different.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "doorbell/record.h"
#include "doorbell/uar.h"
#include "driver/types.h"
#include "driver/uar_pool.h"
#include "driver/work_request.h"
#include "wqe/atomic.h"
#include "wqe/control.h"
#include "wqe/data.h"
#include "wqe/opcode.h"
#include "wqe/remote_address.h"
#include "wqe/units.h"

namespace umlx5 {

// What is particular to an opcode, known when its builder is compiled.
struct SendForm {
  wqe::SendOpcode opcode;
  bool remote_address = false;
  bool atomic = false;
  bool immediate = false;
  bool invalidate = false;
  bool may_inline = true;  // the device reads the data
};

constexpr SendForm send_form(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kSend:
      return {.opcode = wqe::SendOpcode::kSend};
    case SendOpcode::kSendWithImm:
      return {.opcode = wqe::SendOpcode::kSendImmediate, .immediate = true};
    case SendOpcode::kSendWithInvalidate:
      return {.opcode = wqe::SendOpcode::kSendInvalidate, .invalidate = true};
    case SendOpcode::kRdmaWrite:
      return {.opcode = wqe::SendOpcode::kRdmaWrite, .remote_address = true};
    case SendOpcode::kRdmaWriteWithImm:
      return {.opcode = wqe::SendOpcode::kRdmaWriteImmediate, .remote_address = true, .immediate = true};
    case SendOpcode::kRdmaRead:
      return {.opcode = wqe::SendOpcode::kRdmaRead, .remote_address = true, .may_inline = false};
    case SendOpcode::kCompareSwap:
      return {
          .opcode = wqe::SendOpcode::kAtomicCompareSwap, .remote_address = true, .atomic = true, .may_inline = false};
    case SendOpcode::kFetchAdd:
      return {.opcode = wqe::SendOpcode::kAtomicFetchAdd, .remote_address = true, .atomic = true, .may_inline = false};
  }
  return {.opcode = wqe::SendOpcode::kNop};
}

constexpr std::uint32_t opcode_bit(SendOpcode opcode) { return 1u << static_cast<unsigned>(opcode); }

class SendQueue {
 public:
  struct Config {
    std::byte* ring = nullptr;  // `wqebbs` blocks, 64-byte aligned
    std::uint32_t wqebbs = 0;   // power of two, or 0: no queue
    std::uint32_t max_requests = 0;
    std::uint32_t max_sge = 0;
    std::uint32_t max_inline_bytes = 0;
    std::uint32_t opcodes = 0;  // of opcode_bit()
    std::uint32_t qpn = 0;
    bool signal_all = false;
    doorbell::RecordMemory* record = nullptr;
    SendUar uar;
  };

  // ENOMEM on an exhausted heap: false.
  bool configure(Config config) {
    slots_.reset(new (std::nothrow) Slot[config.wqebbs == 0 ? 1 : config.wqebbs]());
    config_ = std::move(config);
    ring_end_ = config_.ring + std::size_t{config_.wqebbs} * wqe::kWqebbBytes;
    wqebb_mask_ = config_.wqebbs == 0 ? 0 : config_.wqebbs - 1;
    return slots_ != nullptr;
  }

  void set_qpn(std::uint32_t qpn) { config_.qpn = qpn; }

  // Whether the QP's state takes requests.
  void set_usable(bool usable) { usable_requests_ = usable ? config_.max_requests : 0; }

  // Forgets what was posted; the record is zero again.
  void reset() {
    next_wqebb_ = head_ = seen_tail_ = 0;
    tail_.store(0, std::memory_order_relaxed);
    doorbell::QueueRecord<>(config_.record).publish_send(0);
  }

  PostResult post(std::span<const SendWr> requests) {
    PostResult result;
    Built last{};
    for (const SendWr& request : requests) {
      if (!has_room()) [[unlikely]] {
        result.error = usable_requests_ == 0 ? EINVAL : ENOMEM;
        break;
      }
      const Built built = build(request);
      if (built.octowords == 0) [[unlikely]] {
        result.error = EINVAL;
        break;
      }
      last = built;
      ++result.posted;
    }
    if (result.posted != 0) {
      publish(last, result.posted == 1);
    }
    return result;
  }

  // What a CQE with this WQE counter completes: that request, and with it every earlier one.
  std::uint64_t complete(std::uint16_t wqe_counter) {
    const Slot& slot = slots_[wqe_counter & wqebb_mask_];
    const std::uint64_t wr_id = slot.wr_id;
    tail_.store(slot.requests_through, std::memory_order_release);
    return wr_id;
  }

  // Copies data that came inside a CQE to where the READ or atomic at `wqe_counter` wanted it. False if it does not
  // fit.
  bool scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const;

  std::uint32_t outstanding_requests() const { return head_ - tail_.load(std::memory_order_acquire); }
  std::uint32_t next_wqebb() const { return next_wqebb_; }
  const Config& config() const { return config_; }
  bool usable() const { return usable_requests_ != 0; }

 private:
  struct Slot {
    std::uint64_t wr_id = 0;
    std::uint32_t requests_through = 0;  // this request and all before it, as `head_` counts
  };
  struct Built {
    const std::byte* wqe = nullptr;
    unsigned octowords = 0;  // 0: refused
  };
  static constexpr unsigned kRefused = ~0u;

  bool has_room() {
    if (head_ - seen_tail_ < usable_requests_) [[likely]] {
      return true;
    }
    seen_tail_ = tail_.load(std::memory_order_acquire);
    return head_ - seen_tail_ < usable_requests_;
  }

  Built build(const SendWr& request) {
    switch (request.opcode) {
      case SendOpcode::kSend:
        return build_as<SendOpcode::kSend>(request);
      case SendOpcode::kSendWithImm:
        return build_as<SendOpcode::kSendWithImm>(request);
      case SendOpcode::kSendWithInvalidate:
        return build_as<SendOpcode::kSendWithInvalidate>(request);
      case SendOpcode::kRdmaWrite:
        return build_as<SendOpcode::kRdmaWrite>(request);
      case SendOpcode::kRdmaWriteWithImm:
        return build_as<SendOpcode::kRdmaWriteWithImm>(request);
      case SendOpcode::kRdmaRead:
        return build_as<SendOpcode::kRdmaRead>(request);
      case SendOpcode::kCompareSwap:
        return build_as<SendOpcode::kCompareSwap>(request);
      case SendOpcode::kFetchAdd:
        return build_as<SendOpcode::kFetchAdd>(request);
    }
    return {};
  }

  // Headers and the first data segment lie in the WQE's first block, so only what follows them can wrap.
  template <SendOpcode kOpcode>
  Built build_as(const SendWr& request) {
    constexpr SendForm kForm = send_form(kOpcode);
    if ((config_.opcodes & opcode_bit(kOpcode)) == 0 || request.sges.size() > config_.max_sge) [[unlikely]] {
      return {};
    }
    std::byte* const wqe = config_.ring + std::size_t{next_wqebb_ & wqebb_mask_} * wqe::kWqebbBytes;
    std::byte* at = wqe + wqe::ControlSegment::kBytes;
    if constexpr (kForm.remote_address) {
      wqe::store(at, wqe::RemoteAddressSegment{.address = request.remote_address, .rkey = request.rkey});
      at += wqe::RemoteAddressSegment::kBytes;
    }
    if constexpr (kForm.atomic) {
      constexpr bool kSwaps = kOpcode == SendOpcode::kCompareSwap;
      wqe::store(at, wqe::AtomicSegment{.swap_add = kSwaps ? request.swap : request.compare_add,
                                        .compare = kSwaps ? request.compare_add : 0});
      at += wqe::AtomicSegment::kBytes;
    }
    const unsigned header_octowords = static_cast<unsigned>(at - wqe) / wqe::kOctowordBytes;
    unsigned data_octowords;
    if (!request.flags.has(SendFlag::kInline)) [[likely]] {
      data_octowords = put_pointers(at, request.sges);
    } else {
      data_octowords = kForm.may_inline ? put_inline(at, request.sges) : kRefused;
    }
    if (data_octowords == kRefused) [[unlikely]] {
      return {};
    }
    const unsigned octowords = header_octowords + data_octowords;
    put_control<kOpcode>(wqe, octowords, request);
    Slot& slot = slots_[next_wqebb_ & wqebb_mask_];
    slot.wr_id = request.wr_id;
    slot.requests_through = ++head_;
    next_wqebb_ += static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
    return {wqe, octowords};
  }

  template <SendOpcode kOpcode>
  void put_control(std::byte* wqe, unsigned octowords, const SendWr& request) {
    constexpr SendForm kForm = send_form(kOpcode);
    wqe::ControlSegment control{.wqe_index = static_cast<std::uint16_t>(next_wqebb_),
                                .opcode = kForm.opcode,
                                .qpn = config_.qpn,
                                .ds_octowords = static_cast<std::uint8_t>(octowords)};
    control.fence = request.flags.has(SendFlag::kFence) ? wqe::FenceMode::kStrong : wqe::FenceMode::kNone;
    control.completion = request.flags.has(SendFlag::kSignaled) || config_.signal_all ? wqe::CompletionMode::kAlways
                                                                                      : wqe::CompletionMode::kOnError;
    control.solicited = request.flags.has(SendFlag::kSolicited);
    if constexpr (kForm.immediate) {
      control.immediate = wqe::internal::big_endian(request.immediate_big_endian);
    } else if constexpr (kForm.invalidate) {
      control.immediate = request.invalidate_rkey;
    }
    wqe::store(wqe, control);
  }

  // Octowords written, or kRefused. An entry of no bytes is left out: on the wire its count would mean 2 GiB.
  unsigned put_pointers(std::byte* at, std::span<const Sge> sges) {
    unsigned octowords = 0;
    for (const Sge& sge : sges) {
      if (sge.length_bytes - 1 >= wqe::kMaxDataSegmentBytes) [[unlikely]] {
        if (sge.length_bytes != 0) {
          return kRefused;
        }
        continue;
      }
      if (at == ring_end_) [[unlikely]] {
        at = config_.ring;
      }
      wqe::store(at, wqe::DataSegment{.byte_count = sge.length_bytes, .lkey = sge.lkey, .address = sge.address});
      at += wqe::DataSegment::kBytes;
      ++octowords;
    }
    return octowords;
  }

  unsigned put_inline(std::byte* at, std::span<const Sge> sges) {
    std::uint64_t total = 0;
    for (const Sge& sge : sges) {
      total += sge.length_bytes;
    }
    if (total > config_.max_inline_bytes) [[unlikely]] {
      return kRefused;
    }
    if (total == 0) {
      return 0;
    }
    wqe::store(at, wqe::InlineHeader{.byte_count = static_cast<std::uint32_t>(total)});
    at += wqe::InlineHeader::kBytes;
    for (const Sge& sge : sges) {
      at = copy_in(at, reinterpret_cast<const std::byte*>(sge.address), sge.length_bytes);
    }
    return static_cast<unsigned>(wqe::inline_octowords(total));
  }

  std::byte* copy_in(std::byte* at, const std::byte* from, std::size_t count) {
    const auto before_end = static_cast<std::size_t>(ring_end_ - at);
    if (count <= before_end) [[likely]] {
      if (count != 0) {
        std::memcpy(at, from, count);
      }
      return at + count;
    }
    std::memcpy(at, from, before_end);
    std::memcpy(config_.ring, from + before_end, count - before_end);
    return config_.ring + (count - before_end);
  }

  void publish(const Built& last, bool single) {
    const doorbell::QueueRecord<> record(config_.record);
    if (single) {
      config_.uar.submit_single(record, next_wqebb_, last.wqe, last.octowords * wqe::kOctowordBytes,
                                {config_.ring, ring_end_});
    } else {
      config_.uar.submit(record, next_wqebb_, last.wqe);
    }
  }

  Config config_;
  std::byte* ring_end_ = nullptr;
  std::unique_ptr<Slot[]> slots_;
  std::uint32_t wqebb_mask_ = 0;
  std::uint32_t usable_requests_ = 0;
  std::uint32_t next_wqebb_ = 0;                    // free-running
  std::uint32_t head_ = 0;                          // requests ever posted, free-running
  std::uint32_t seen_tail_ = 0;                     // what the poster last saw of tail_
  alignas(64) std::atomic<std::uint32_t> tail_{0};  // requests ever completed
};

}  // namespace umlx5
