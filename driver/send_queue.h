// The send queue of a queue pair: builds WQEs in its ring and rings the doorbell.
//
// Ring and index count in WQEBBs of 64 bytes; requests are counted beside them, because the limit that applications
// know is one of requests, and no request takes more than its share of the ring (plan_qp()). One thread at a time
// posts, one at a time completes; the two may be different.
//
// What is built is read through a view, so that native requests and the verbs' are posted by the same code without
// being copied; NativeRequest below is one, and says what a view has.
#pragma once

#include <atomic>
#include <bit>
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
#include "driver/send_form.h"
#include "driver/send_ring.h"
#include "driver/types.h"
#include "driver/uar_pool.h"
#include "driver/work_request.h"

namespace umlx5 {

class NativeRequest {
 public:
  explicit NativeRequest(const SendWr& request) : request_(&request) {}
  SendOpcode opcode() const { return request_->opcode; }
  std::uint64_t wr_id() const { return request_->wr_id; }
  SendFlags flags() const { return request_->flags; }
  std::span<const Sge> sges() const { return request_->sges; }
  std::uint32_t immediate_big_endian() const { return request_->immediate_big_endian; }
  std::uint32_t invalidate_rkey() const { return request_->invalidate_rkey; }
  std::uint64_t remote_address() const { return request_->remote_address; }
  template <bool kAtomic>
  std::uint32_t rkey() const {
    return request_->rkey;
  }
  std::uint64_t compare_add() const { return request_->compare_add; }
  std::uint64_t swap() const { return request_->swap; }
  const WireAddressVector* destination() const { return request_->destination; }
  std::uint32_t remote_qpn() const { return request_->remote_qpn; }
  std::uint32_t remote_qkey() const { return request_->remote_qkey; }
  std::uint64_t dc_access_key() const { return request_->dc_access_key; }
  std::uint16_t dci_stream() const { return request_->dci_stream; }
  std::uint32_t remote_srqn() const { return request_->remote_srqn; }
  WindowBinding window() const { return request_->window; }

 private:
  const SendWr* request_;
};

class SendQueue {
 public:
  struct Config {
    std::byte* ring = nullptr;  // `wqebbs` blocks, 64-byte aligned
    std::uint32_t wqebbs = 0;   // power of two, or 0: no queue
    std::uint32_t max_requests = 0;
    std::uint32_t max_sge = 0;
    std::uint32_t max_inline_bytes = 0;
    std::uint32_t max_wqe_bytes = 0;  // a request's share of the ring
    SendTransport transport = SendTransport::kConnected;
    std::uint32_t opcodes = 0;  // of opcode_bit()
    bool device_has_atomics = true;
    std::uint32_t qpn = 0;
    bool signal_all = false;
    bool wqe_signature = false;  // each WQE carries a check byte
    doorbell::RecordMemory* record = nullptr;
    SendUar uar;
  };

  // ENOMEM on an exhausted heap: false.
  bool configure(Config config) {
    slots_.reset(new (std::nothrow) Slot[config.wqebbs == 0 ? 1 : config.wqebbs]());
    ring_ = SendRing(config.ring, config.wqebbs);
    config_ = std::move(config);
    if (!config_.device_has_atomics) {
      config_.opcodes &= ~(opcode_bit(SendOpcode::kCompareSwap) | opcode_bit(SendOpcode::kFetchAdd));
    }
    fm_ce_se_ = fm_ce_se_table(config_.signal_all);
    exclusive_ = config_.uar.exclusive_register();
    return slots_ != nullptr;
  }

  void set_qpn(std::uint32_t qpn) { config_.qpn = qpn; }

  // Whether the QP's state takes requests.
  void set_usable(bool usable) { usable_requests_ = usable ? config_.max_requests : 0; }

  // Forgets what was posted; the record is zero again.
  void reset() {
    position_ = {};
    seen_tail_ = 0;
    tail_.store(0, std::memory_order_relaxed);
    doorbell::QueueRecord<>(config_.record).publish_send(0);
  }

  PostResult post(std::span<const SendWr> requests) {
    struct Source {
      const SendWr* at;
      const SendWr* end;
      bool done() const { return at == end; }
      NativeRequest view() const { return NativeRequest(*at); }
      void advance() { ++at; }
    };
    Source source{requests.data(), requests.data() + requests.size()};
    Refusal refusal;
    switch (config_.transport) {
      case SendTransport::kXrc:
        refusal = post_from<SendTransport::kXrc>(source);
        break;
      case SendTransport::kDatagram:
        refusal = post_from<SendTransport::kDatagram>(source);
        break;
      case SendTransport::kDc:
        refusal = post_from<SendTransport::kDc>(source);
        break;
      default:
        refusal = post_from<SendTransport::kConnected>(source);
        break;
    }
    return {.posted = static_cast<std::size_t>(source.at - requests.data()),
            .error = refusal == Refusal::kNone ? 0 : errno_of(refusal),
            .refusal = refusal};
  }

  // Posts requests until `source` is done() or one is refused; `source` is then at that one. `kTransport` is the
  // queue's.
  template <SendTransport kTransport, typename Source>
  [[gnu::always_inline]] Refusal post_from(Source& source) {
    Refusal refusal = Refusal::kNone;
    Position position = position_;
    Built last{};
    while (!source.done()) {
      const auto request = source.view();
      if (!has_room(position)) [[unlikely]] {
        refusal = usable_requests_ == 0 ? Refusal::kState : Refusal::kFull;
        break;
      }
      const Built built = build<kTransport>(request, position);
      if (built.octowords == 0) [[unlikely]] {
        refusal = built.refusal;
        break;
      }
      last = built;
      source.advance();
    }
    if (const std::uint32_t posted = position.head - position_.head; posted != 0) [[likely]] {
      position_ = position;
      publish(last.wqe, last.octowords, posted == 1);
    }
    return refusal;
  }

  // Makes those with `wr_id` among the requests from WQEBB `from` (its low 16 bits) on do nothing; they complete all
  // the same, as what they were. How many. Only while the device takes none.
  std::size_t cancel(std::uint16_t from, std::uint64_t wr_id);

  // What a request was, as its completion needs to know.
  struct Completed {
    std::uint64_t wr_id;
    CompletionOpcode opcode;  // where the CQE's own opcode does not tell: `has_opcode`
    bool has_opcode;
  };
  // What a CQE with this WQE counter completes: that request, and with it every earlier one.
  Completed complete(std::uint16_t wqe_counter) {
    const Slot& slot = slots_[wqe_counter & ring_.wqebb_mask()];
    const Completed completed{slot.wr_id, static_cast<CompletionOpcode>(slot.opcode), slot.opcode != kOpcodeOfCqe};
    tail_.store(slot.requests_through, std::memory_order_release);
    return completed;
  }

  // Copies data that came inside a CQE to where the READ or atomic at `wqe_counter` wanted it. False if it does not
  // fit.
  bool scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const;

  std::uint32_t outstanding_requests() const { return position_.head - tail_.load(std::memory_order_acquire); }
  std::uint32_t next_wqebb() const { return position_.next_wqebb; }
  const Config& config() const { return config_; }
  bool usable() const { return usable_requests_ != 0; }

 private:
  friend class SendBuilder;

  static constexpr std::uint32_t kAtomicBytes = 8;     // what an atomic returns, whatever its entry says
  static constexpr std::uint32_t kOpcodeOfCqe = 0xff;  // no CompletionOpcode

  struct Slot {
    std::uint64_t wr_id = 0;
    std::uint32_t requests_through = 0;  // this request and all before it, as `head` counts
    std::uint32_t opcode = kOpcodeOfCqe;
  };
  // How far the queue has been filled.
  struct Position {
    std::uint32_t next_wqebb = 0;  // free-running
    std::uint32_t head = 0;        // requests ever posted, free-running
    std::uint32_t fence = 0;       // FM bits that the last WQE puts on the next one
  };
  struct Built {
    const std::byte* wqe = nullptr;
    unsigned octowords = 0;  // 0: refused
    Refusal refusal = Refusal::kNone;
  };

  // FM, CE and SE for each set of the flags FENCE, SIGNALED and SOLICITED, a byte each.
  static std::uint64_t fm_ce_se_table(bool signal_all) {
    std::uint64_t table = 0;
    for (std::uint32_t bits = 0; bits < 8; ++bits) {
      const auto flags = SendFlags::from_bits(bits);
      const std::uint64_t byte = wqe::PostedControl::fm_ce_se_of(
          flags.has(SendFlag::kFence) ? wqe::FenceMode::kStrong : wqe::FenceMode::kNone,
          flags.has(SendFlag::kSignaled) || signal_all ? wqe::CompletionMode::kAlways : wqe::CompletionMode::kOnError,
          flags.has(SendFlag::kSolicited));
      table |= byte << (bits * 8);
    }
    return table;
  }
  static constexpr std::uint32_t kSmallFence =
      wqe::PostedControl::fm_ce_se_of(wqe::FenceMode::kInitiatorSmall, wqe::CompletionMode::kOnError, false);

  // An explicit fence takes the place of the one that the WQE before asks for.
  std::uint8_t fm_ce_se(SendFlags flags, std::uint32_t fence) const {
    const std::uint32_t own = static_cast<std::uint8_t>(fm_ce_se_ >> ((flags.bits() & 7) * 8));
    return static_cast<std::uint8_t>(flags.has(SendFlag::kFence) ? own : own | fence);
  }

  bool has_room(const Position& position) {
    if (position.head - seen_tail_ < usable_requests_) [[likely]] {
      return true;
    }
    seen_tail_ = tail_.load(std::memory_order_acquire);
    return position.head - seen_tail_ < usable_requests_;
  }

  template <SendTransport kTransport, typename Request>
  [[gnu::always_inline]] Built build(const Request& request, Position& position) {
    switch (request.opcode()) {
      case SendOpcode::kSend:
        return build_as<kTransport, SendOpcode::kSend>(request, position);
      case SendOpcode::kSendWithImm:
        return build_as<kTransport, SendOpcode::kSendWithImm>(request, position);
      case SendOpcode::kSendWithInvalidate:
        return build_as<kTransport, SendOpcode::kSendWithInvalidate>(request, position);
      case SendOpcode::kRdmaWrite:
        return build_as<kTransport, SendOpcode::kRdmaWrite>(request, position);
      case SendOpcode::kRdmaWriteWithImm:
        return build_as<kTransport, SendOpcode::kRdmaWriteWithImm>(request, position);
      case SendOpcode::kRdmaRead:
        return build_as<kTransport, SendOpcode::kRdmaRead>(request, position);
      case SendOpcode::kCompareSwap:
        return build_as<kTransport, SendOpcode::kCompareSwap>(request, position);
      case SendOpcode::kFetchAdd:
        return build_as<kTransport, SendOpcode::kFetchAdd>(request, position);
      case SendOpcode::kLocalInvalidate:
        return build_as<kTransport, SendOpcode::kLocalInvalidate>(request, position);
      case SendOpcode::kBindMemoryWindow:
        return build_as<kTransport, SendOpcode::kBindMemoryWindow>(request, position);
    }
    return {.refusal = Refusal::kOpcode};
  }

  // Everything of a request: headers, data, control segment.
  template <SendTransport kTransport, SendOpcode kOpcode, typename Request>
  [[gnu::always_inline]] Built build_as(const Request& request, Position& position) {
    constexpr SendForm kForm = send_form(kOpcode);
    if constexpr (!transport_has(kTransport, kOpcode)) {
      return {.refusal = Refusal::kOpcode};
    } else {
      const std::span<const Sge> sges = request.sges();
      if ((config_.opcodes & opcode_bit(kOpcode)) == 0) [[unlikely]] {
        return {.refusal = refused_opcode(kOpcode)};
      }
      std::byte* const wqe = ring_.wqebb(position.next_wqebb);
      unsigned data_octowords = 0;
      if constexpr (kForm.umr) {
        data_octowords = put_umr<kOpcode>(wqe, request);
        if (data_octowords == SendRing::kRefused) [[unlikely]] {
          return {.refusal = Refusal::kWindow};
        }
      } else {
        if (sges.size() > config_.max_sge) [[unlikely]] {
          return {.refusal = Refusal::kSges};
        }
        if (const Refusal refusal = put_headers<kTransport, kOpcode>(wqe, request); refusal != Refusal::kNone)
            [[unlikely]] {
          return {.refusal = refusal};
        }
        std::byte* const at = ring_.behind<header_bytes(kTransport, kOpcode)>(wqe);
        if (!request.flags().has(SendFlag::kInline)) [[likely]] {
          data_octowords = ring_.put_pointers < kForm.atomic ? kAtomicBytes : 0 > (at, sges);
          if (data_octowords == SendRing::kRefused) [[unlikely]] {
            return {.refusal = Refusal::kLength};
          }
        } else {
          data_octowords =
              kForm.may_inline
                  ? ring_.put_inline(at, std::span(static_cast<const InlineSge*>(sges.data()), sges.size()),
                                     config_.max_inline_bytes)
                  : SendRing::kRefused;
          if (data_octowords == SendRing::kRefused) [[unlikely]] {
            return {.refusal = kForm.may_inline ? Refusal::kInline : Refusal::kNotInline};
          }
        }
      }
      constexpr unsigned kHeaderOctowords = header_bytes(kTransport, kOpcode) / wqe::kOctowordBytes;
      const unsigned octowords = kHeaderOctowords + data_octowords;
      put_control<kOpcode>(wqe, octowords, request, position);
      if constexpr (kTransport == SendTransport::kDc) {
        put_stream(wqe, request.dci_stream());
      }
      put_slot<kOpcode>(request.wr_id(), position);
      if (config_.wqe_signature) [[unlikely]] {
        sign(position.next_wqebb, octowords);
      }
      position.next_wqebb += static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
      return {wqe, octowords};
    }
  }

  Refusal refused_opcode(SendOpcode opcode) const {
    return send_form(opcode).atomic && !config_.device_has_atomics ? Refusal::kNoAtomics : Refusal::kOpcode;
  }

  // What follows the control segment, up to the data. All of it lies in the WQE's first block, but for the operation on
  // DC, which begins the second one.
  template <SendTransport kTransport, SendOpcode kOpcode, typename Request>
  [[gnu::always_inline]] Refusal put_headers(std::byte* wqe, const Request& request) {
    static_assert(kTransport == SendTransport::kDc || header_bytes(kTransport, kOpcode) <= wqe::kWqebbBytes);
    std::byte* const at = wqe + wqe::ControlSegment::kBytes;
    if constexpr (kTransport == SendTransport::kDatagram || kTransport == SendTransport::kDc) {
      if (request.destination() == nullptr) [[unlikely]] {
        return Refusal::kNoDestination;
      }
      if constexpr (kTransport == SendTransport::kDatagram) {
        put_destination(at, *request.destination(), request.remote_qpn(),
                        wqe::AddressVector::of_qkey(request.remote_qkey()));
      } else {
        put_destination(at, *request.destination(), request.remote_qpn(), request.dc_access_key());
      }
    } else if constexpr (kTransport == SendTransport::kXrc) {
      wqe::store(at, wqe::XrcSegment{.srqn = request.remote_srqn()});
    }
    put_operation<kOpcode>(operation_at<kTransport>(wqe), request);
    return Refusal::kNone;
  }

  // Where the operation's own segments are.
  template <SendTransport kTransport>
  std::byte* operation_at(std::byte* wqe) const {
    std::byte* const at = wqe + wqe::ControlSegment::kBytes + transport_bytes(kTransport);
    return kTransport == SendTransport::kDc ? ring_.wrapped(at) : at;
  }

  // The operation's own segments.
  template <SendOpcode kOpcode, typename Request>
  [[gnu::always_inline]] static void put_operation(std::byte* at, const Request& request) {
    constexpr SendForm kForm = send_form(kOpcode);
    if constexpr (kForm.remote_address) {
      wqe::store(at, wqe::RemoteAddressSegment{.address = request.remote_address(),
                                               .rkey = request.template rkey<kForm.atomic>()});
      at += wqe::RemoteAddressSegment::kBytes;
    }
    if constexpr (kForm.atomic) {
      constexpr bool kSwaps = kOpcode == SendOpcode::kCompareSwap;
      wqe::store(at, wqe::AtomicSegment{.swap_add = kSwaps ? request.swap() : request.compare_add(),
                                        .compare = kSwaps ? request.compare_add() : 0});
    }
  }

  // The address vector's first 16 bytes but for rate, SL and path are the request's, the rest is the destination's.
  static void put_destination(std::byte* at, const WireAddressVector& destination, std::uint32_t qpn,
                              std::uint64_t key) {
    constexpr std::uint32_t kExtended = 0x80000000;
    static_assert(wqe::offset_bits_of(&wqe::AddressVector::key) == 0);
    static_assert(wqe::offset_bits_of(&wqe::AddressVector::destination_qpn) == 72);
    std::memcpy(at, destination.data(), destination.size());
    wqe::internal::store_word<std::uint64_t>(at, key);
    wqe::internal::store_word<std::uint32_t>(at + 8, kExtended | qpn);
  }

  // Behind put_control(), which leaves stream 0.
  static void put_stream(std::byte* wqe, std::uint16_t stream) {
    constexpr std::size_t kOffset = 9;
    static_assert(wqe::offset_bits_of(&wqe::ControlSegment::dci_stream_channel_id) == kOffset * 8);
    wqe::internal::store_word<std::uint16_t>(wqe + kOffset, stream);
  }

  template <SendOpcode kOpcode, typename Request>
  [[gnu::always_inline]] void put_control(std::byte* wqe, unsigned octowords, const Request& request,
                                          const Position& position) {
    constexpr SendForm kForm = send_form(kOpcode);
    wqe::PostedControl control{.wqe_index = static_cast<std::uint16_t>(position.next_wqebb),
                               .opcode = kForm.opcode,
                               .qpn_ds = wqe::PostedControl::qpn_part(config_.qpn) + octowords,
                               .fm_ce_se = fm_ce_se(request.flags(), position.fence)};
    if constexpr (kForm.immediate) {
      control.immediate = wqe::internal::big_endian(request.immediate_big_endian());
    } else if constexpr (kForm.invalidate || kOpcode == SendOpcode::kLocalInvalidate) {
      control.immediate = request.invalidate_rkey();
    } else if constexpr (kOpcode == SendOpcode::kBindMemoryWindow) {
      control.immediate = request.window().old_rkey;
    }
    wqe::store(wqe, control);
  }

  // Octowords of translation entries of the WQE that binds or invalidates, or kRefused.
  template <SendOpcode kOpcode, typename Request>
  unsigned put_umr(std::byte* wqe, const Request& request) {
    if constexpr (kOpcode == SendOpcode::kBindMemoryWindow) {
      return put_window(wqe, request.window());
    } else {
      return put_window(wqe, WindowBinding{});
    }
  }
  unsigned put_window(std::byte* wqe, const WindowBinding& binding);

  // Notes whose WQE it is, and what it asks of the next one.
  template <SendOpcode kOpcode>
  [[gnu::always_inline]] void put_slot(std::uint64_t wr_id, Position& position) {
    constexpr bool kUmr = send_form(kOpcode).umr;
    constexpr std::uint32_t kCompletion =
        kOpcode == SendOpcode::kBindMemoryWindow
            ? static_cast<std::uint32_t>(CompletionOpcode::kBindMemoryWindow)
            : (kUmr ? static_cast<std::uint32_t>(CompletionOpcode::kLocalInvalidate) : kOpcodeOfCqe);
    ++position.head;
    slots_[position.next_wqebb & ring_.wqebb_mask()] = {wr_id, position.head, kCompletion};
    position.fence = kUmr ? kSmallFence : 0;
  }

  // Puts the check byte into the WQE at `wqebb`.
  void sign(std::uint32_t wqebb, unsigned octowords);

  // Tells the device of all WQEs up to the one at `wqe`, which goes through BlueFlame if it is the only one. (Half of a
  // lone control segment goes with the doorbell anyway.)
  [[gnu::always_inline]] void publish(const std::byte* wqe, unsigned octowords, bool single) {
    const doorbell::QueueRecord<> record(config_.record);
    if (exclusive_ != nullptr) [[likely]] {
      if (single && octowords > 1) [[likely]] {
        doorbell::submit_blueflame(record, position_.next_wqebb, *exclusive_, wqe, octowords * wqe::kOctowordBytes,
                                   {ring_.begin(), ring_.end()});
      } else {
        doorbell::submit(record, position_.next_wqebb, *exclusive_, wqe);
      }
    } else {
      publish_shared(wqe);
    }
  }
  void publish_shared(const std::byte* wqe);

  Config config_;
  SendRing ring_;
  std::unique_ptr<Slot[]> slots_;
  doorbell::ExclusiveRegister<>* exclusive_ = nullptr;  // of config_.uar, if it is one
  std::uint64_t fm_ce_se_ = 0;
  std::uint32_t usable_requests_ = 0;
  std::uint32_t seen_tail_ = 0;  // what the poster last saw of tail_
  Position position_;
  alignas(64) std::atomic<std::uint32_t> tail_{0};  // requests ever completed
};

}  // namespace umlx5
