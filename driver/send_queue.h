// The send queue of a queue pair: builds WQEs in its ring and rings the doorbell.
//
// Ring and index count in WQEBBs of 64 bytes; requests are counted beside them, because the limit that applications
// know is one of requests, and no request takes more than its share of the ring (plan_qp()). One thread at a time
// posts, unless the queue is made for many producers (many_producers.h), which then do not wait for each other; one at
// a time completes, unless its CQ has many pollers.
//
// What is built is read through a view, so that native requests and the verbs' are posted by the same code without
// being copied; NativeRequest of send_queue.cc is one, and shows what a view has.
#pragma once

#include <array>
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
#include "driver/many_producers.h"
#include "driver/send_form.h"
#include "driver/send_ring.h"
#include "driver/send_template.h"
#include "driver/types.h"
#include "driver/uar_pool.h"
#include "driver/work_request.h"

namespace umlx5 {

// A request of a RAW_PACKET QP.
struct FrameRequest {
  std::uint64_t wr_id = 0;
  SendFlags flags{};
  std::span<const Sge> sges{};
  bool is_tso = false;
  std::span<const std::byte> tso_header{};
  std::uint16_t tso_piece_bytes = 0;
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
    bool many_producers = false;
    bool many_completers = false;  // its CQ has many pollers
    // RAW_PACKET: bytes of a frame that the device wants in the WQE, what it can do, and what it was created for.
    std::uint32_t min_inline_bytes = 0;
    bool has_checksums = false;
    std::uint32_t max_tso_header_bytes = 0, max_tso_bytes = 0;
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
    flag_words_ = {flag_words(config_.signal_all, 0), flag_words(config_.signal_all, kSmallFence)};
    max_sge_ = config_.max_sge;
    record_ = doorbell::QueueRecord<>(config_.record);
    doorbell::ExclusiveRegister<>* const exclusive = config_.uar.exclusive_register();
    blueflame_ = exclusive != nullptr && exclusive->blueflame_bytes() >= wqe::kWqebbBytes ? exclusive : nullptr;
    post_ = post_of(config_.transport, config_.many_producers);
    has_plain_tail_ = !config_.many_producers && !config_.many_completers;
    if (config_.many_producers) {
      producers_.reset(new (std::nothrow) ManyProducers);
      if (producers_ == nullptr || !producers_->configure(config_.wqebbs, config_.max_requests)) {
        return false;
      }
    }
    set_qpn(config_.qpn);
    return slots_ != nullptr;
  }

  void set_qpn(std::uint32_t qpn) {
    config_.qpn = qpn;
    qpn_part_ = wqe::PostedControl::qpn_part(qpn);
    prepare_recipes();
  }

  // Whether the QP's state takes requests.
  void set_usable(bool usable) {
    usable_requests_ = usable ? config_.max_requests : 0;
    short_until_ = position_.head;  // the next request looks anew
  }

  // Forgets what was posted; the record is zero again.
  void reset() {
    position_ = {};
    short_until_ = 0;
    key_was_changed_.store(0, std::memory_order_relaxed);
    if (producers_ != nullptr) {
      producers_->reset();
    }
    tail_.store(0, std::memory_order_relaxed);
    record_.publish_send(0);
  }

  PostResult post(std::span<const SendWr> requests) { return post_(*this, requests); }

  // Posts one request if it is of the kind that nearly all are; false: it is not, and post_from() has to look at it.
  template <SendTransport kTransport, typename Request>
  bool post_short(const Request& request);
  // Posts requests until `source` is done() or one is refused; `source` is then at that one. `kTransport` is the
  // queue's. (send_post.h)
  template <SendTransport kTransport, typename Source>
  Refusal post_from(Source& source);

  // Whether `request` can be a template here: one SGE that is not empty, not inline, SEND, RDMA WRITE or READ with or
  // without immediate, on RC, UC and XRC; one producer.
  bool make_template(const SendWr& request, SendTemplate& made) const;
  // Posts requests made of `made`, with one doorbell; how many: fewer than asked if the queue is full.
  [[gnu::always_inline]] std::size_t post(const SendTemplate& made, std::span<const TemplateWr> requests);

  // Makes those with `wr_id` among the requests from WQEBB `from` (its low 16 bits) on do nothing; they complete all
  // the same, as what they were. How many. Only while the device takes none.
  std::size_t cancel(std::uint16_t from, std::uint64_t wr_id);

  // What a request was, as its completion needs to know.
  struct Completed {
    std::uint64_t wr_id;
    std::uint32_t requests_through;  // this request and all before it
    CompletionOpcode opcode;
  };
  // The request that a CQE with this WQE counter completes. Of a CQE that another thread has taken meanwhile it may be
  // anything.
  Completed completed(std::uint16_t wqe_counter) const {
    const Slot& slot = slots_[wqe_counter & ring_.wqebb_mask()];
    return {__atomic_load_n(&slot.wr_id, __ATOMIC_RELAXED), __atomic_load_n(&slot.requests_through, __ATOMIC_RELAXED),
            static_cast<CompletionOpcode>(__atomic_load_n(&slot.opcode, __ATOMIC_RELAXED))};
  }
  // That request is done with, and with it every earlier one.
  void complete_through(const Completed& last) {
    if (has_plain_tail_) [[likely]] {
      tail_.store(last.requests_through, std::memory_order_release);
    } else {
      complete_through_beside_others(last.requests_through);
    }
  }

  // Copies data that came inside a CQE to where the READ or atomic at `wqe_counter` wanted it. False if it does not
  // fit.
  bool scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const;

  std::uint32_t outstanding_requests() const {
    return producers_ != nullptr ? producers_->outstanding_requests()
                                 : position_.head - tail_.load(std::memory_order_acquire);
  }
  std::uint32_t next_wqebb() const {
    return producers_ != nullptr ? producers_->reserved_blocks() : position_.next_wqebb;
  }
  bool has_many_producers() const { return producers_ != nullptr; }
  const Config& config() const { return config_; }
  bool usable() const { return usable_requests_ != 0; }

 private:
  friend class SendBuilder;

  using Post = PostResult (*)(SendQueue& queue, std::span<const SendWr> requests);
  template <SendTransport kTransport>
  static PostResult post_as(SendQueue& queue, std::span<const SendWr> requests);
  template <SendTransport kTransport>
  static PostResult post_list(SendQueue& queue, std::span<const SendWr> requests);
  template <SendTransport kTransport>
  static PostResult post_beside_others(SendQueue& queue, std::span<const SendWr> requests);
  static Post post_of(SendTransport transport, bool many_producers);
  template <SendTransport kTransport, typename Request>
  Refusal add_beside_others(const Request& request);
  void complete_through_beside_others(std::uint32_t requests);
  void copy_in(const std::byte* wqe, unsigned octowords, std::uint32_t to_wqebb);
  void publish_ready();

  static constexpr std::size_t kDsOffset = 7;
  static constexpr unsigned kIndexShift = 40;       // of the WQE index in the control segment's first word
  static constexpr std::uint32_t kAtomicBytes = 8;  // what an atomic returns, whatever its entry says

  struct Slot {
    std::uint64_t wr_id = 0;
    std::uint32_t requests_through = 0;  // this request and all before it, as `head` counts
    std::uint32_t opcode = 0;            // CompletionOpcode
  };
  // How far the queue has been filled.
  struct Position {
    std::uint32_t next_wqebb = 0;  // free-running
    std::uint32_t head = 0;        // requests ever posted, free-running
    std::uint32_t after_umr = 0;   // 1: the next WQE waits for the change of a memory key before it
  };
  // How a request of an opcode with one SGE, not inline, becomes a WQE of one block. Prepared for the queue.
  struct Recipe {
    std::uint64_t control = 0;  // first word of the control segment but for the index; 0: not of this kind
    std::uint32_t immediate_mask = 0;
    CompletionOpcode completion{};
    bool remote_address = false;
    bool may_inline = false;
    std::size_t remote_bytes() const { return remote_address ? wqe::RemoteAddressSegment::kBytes : 0; }
  };
  static constexpr std::size_t kRecipes = 16;
  struct Built {
    const std::byte* wqe = nullptr;
    unsigned octowords = 0;  // 0: refused
    Refusal refusal = Refusal::kNone;
    CompletionOpcode completion{};
    bool changes_key = false;
  };

  static constexpr std::uint32_t kSmallFence =
      wqe::PostedControl::fm_ce_se_of(wqe::FenceMode::kInitiatorSmall, wqe::CompletionMode::kOnError, false);
  using FlagWords = std::array<std::uint32_t, 8>;

  // The second word of the control segment (big endian: FM, CE and SE are its last byte) for each set of the flags
  // FENCE, SIGNALED and SOLICITED. An explicit fence takes the place of the one that the WQE before asks for.
  static FlagWords flag_words(bool signal_all, std::uint32_t fence) {
    FlagWords words{};
    for (std::uint32_t bits = 0; bits < words.size(); ++bits) {
      const auto flags = SendFlags::from_bits(bits);
      const std::uint32_t byte = wqe::PostedControl::fm_ce_se_of(
          flags.has(SendFlag::kFence) ? wqe::FenceMode::kStrong : wqe::FenceMode::kNone,
          flags.has(SendFlag::kSignaled) || signal_all ? wqe::CompletionMode::kAlways : wqe::CompletionMode::kOnError,
          flags.has(SendFlag::kSolicited));
      words[bits] = wqe::internal::big_endian(flags.has(SendFlag::kFence) ? byte : byte | fence);
    }
    return words;
  }
  std::uint32_t flag_word(SendFlags flags, std::uint32_t after_umr) const {
    return flag_words_[after_umr][flags.bits() & 7];
  }
  std::uint8_t fm_ce_se(SendFlags flags, std::uint32_t after_umr) const {
    return static_cast<std::uint8_t>(wqe::internal::big_endian(flag_word(flags, after_umr)));
  }

  void prepare_recipes();
  std::byte* put_template(const SendTemplate& made, const TemplateWr& request);
  void wait_for_key(std::byte* wqe);

  bool has_room(std::uint32_t head) { return static_cast<std::int32_t>(short_until_ - head) > 0 || find_room(head); }
  // Looks at what has completed meanwhile. False: the queue is full, or takes nothing.
  bool find_room(std::uint32_t head);
  Refusal refused_room() const { return usable_requests_ == 0 ? Refusal::kState : Refusal::kFull; }
  void fill_to(const Position& position) {
    position_ = position;
    if (position.after_umr != 0) [[unlikely]] {
      short_until_ = position.head;
    }
  }

  template <SendTransport kTransport, typename Request>
  const Recipe* short_recipe(const Request& request) const;
  template <SendTransport kTransport, typename Request>
  std::byte* write_short(const Request& request, const Recipe& recipe, std::uint32_t next,
                         std::uint32_t request_number);
  template <SendTransport kTransport, typename Request>
  std::byte* put_short(const Request& request);
  template <SendTransport kTransport, typename Request>
  bool post_inline(Request request);
  template <SendTransport kTransport, typename Request>
  Built build(Request request);
  template <SendTransport kTransport, typename Request>
  Built build_at(const Request& request, const SendRing& ring, const Position& position);
  template <SendTransport kTransport, typename Request>
  Built build_data(const Request& request, const SendForm& form, std::uint32_t immediate_big_endian,
                   const SendRing& ring, const Position& position);
  template <SendTransport kTransport, SendOpcode kOpcode, typename Request>
  Built build_atomic(const Request& request, const SendRing& ring, const Position& position);
  // A frame or what is to be cut into frames.
  Built put_frame(const FrameRequest& request, const SendRing& ring, const Position& position) const;
  Refusal refuse_frame(const FrameRequest& request) const;
  // `key` is the one that changes, host order.
  Built build_umr(SendOpcode opcode, const WindowBinding& binding, std::uint32_t key, SendFlags flags,
                  const SendRing& ring, const Position& position) const;
  // Counts in the WQE at `position`, which goes behind it.
  void count_in(const Built& built, std::uint64_t wr_id, Position& position) const {
    if (config_.wqe_signature) [[unlikely]] {
      sign(position.next_wqebb, built.octowords);
    }
    put_slot(wr_id, built.completion, position);
    position.after_umr = built.changes_key ? 1 : 0;
    position.next_wqebb += static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(built.octowords));
  }

  Refusal refused_opcode(SendOpcode opcode) const {
    return send_form(opcode).atomic && !config_.device_has_atomics ? Refusal::kNoAtomics : Refusal::kOpcode;
  }

  template <SendTransport kTransport>
  bool takes(SendOpcode opcode) const {
    const auto index = static_cast<std::uint32_t>(opcode);
    return index < kRecipes && (config_.opcodes >> index & 1) != 0 && transport_has(kTransport, opcode);
  }

  // What the transport adds after the control segment. False: there is no destination.
  template <SendTransport kTransport, typename Request>
  [[gnu::always_inline]] static bool put_transport(std::byte* wqe, const Request& request) {
    std::byte* const at = wqe + wqe::ControlSegment::kBytes;
    if constexpr (kTransport == SendTransport::kDatagram || kTransport == SendTransport::kDc) {
      if (request.destination() == nullptr) [[unlikely]] {
        return false;
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
    return true;
  }

  // Where the operation's own segments are: on DC in the second block.
  template <SendTransport kTransport>
  static std::byte* operation_at(const SendRing& ring, std::byte* wqe) {
    std::byte* const at = wqe + wqe::ControlSegment::kBytes + transport_bytes(kTransport);
    return kTransport == SendTransport::kDc ? ring.wrapped(at) : at;
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

  [[gnu::always_inline]] void put_control(std::byte* wqe, wqe::SendOpcode opcode, unsigned octowords, SendFlags flags,
                                          std::uint32_t immediate_big_endian, const Position& position) const {
    constexpr std::size_t kImmediateOffset = 12;
    static_assert(wqe::offset_bits_of(&wqe::PostedControl::immediate) == kImmediateOffset * 8);
    wqe::store(wqe, wqe::PostedControl{.wqe_index = static_cast<std::uint16_t>(position.next_wqebb),
                                       .opcode = opcode,
                                       .qpn_ds = qpn_part_ + octowords,
                                       .fm_ce_se = fm_ce_se(flags, position.after_umr)});
    std::memcpy(wqe + kImmediateOffset, &immediate_big_endian, sizeof immediate_big_endian);
  }

  // The control segment, by a recipe's word (which may have another DS) and what put_short() takes for the flags.
  [[gnu::always_inline]] void put_front(std::byte* wqe, std::uint64_t control, SendFlags flags,
                                        std::uint32_t immediate_big_endian, std::uint32_t next_wqebb) const {
    put_first_word(wqe, control, next_wqebb);
    put_flags(wqe, flag_word(flags, 0), immediate_big_endian);
  }
  [[gnu::always_inline]] static void put_first_word(std::byte* wqe, std::uint64_t control, std::uint32_t next_wqebb) {
    wqe::internal::store_word(wqe, control | std::uint64_t{static_cast<std::uint16_t>(next_wqebb)} << kIndexShift);
  }
  [[gnu::always_inline]] static void put_flags(std::byte* wqe, std::uint32_t flag_word,
                                               std::uint32_t immediate_big_endian) {
    std::memcpy(wqe + 8, &flag_word, 4);
    std::memcpy(wqe + 12, &immediate_big_endian, 4);
  }

  // Octowords of translation entries of the WQE that binds or invalidates, or kRefused.
  unsigned put_window(const SendRing& ring, std::byte* wqe, const WindowBinding& binding) const;

  // Notes whose WQE it is. The one after it waits for no key unless the caller says so then.
  [[gnu::always_inline]] void put_slot(std::uint64_t wr_id, CompletionOpcode completion, Position& position) const {
    ++position.head;
    write_slot(position.next_wqebb & ring_.wqebb_mask(), wr_id, position.head, completion);
    position.after_umr = 0;
  }

  [[gnu::always_inline]] void write_slot(std::uint32_t index, std::uint64_t wr_id, std::uint32_t requests_through,
                                         CompletionOpcode completion) const {
    Slot& slot = slots_[index];
    __atomic_store_n(&slot.wr_id, wr_id, __ATOMIC_RELAXED);
    __atomic_store_n(&slot.requests_through, requests_through, __ATOMIC_RELAXED);
    __atomic_store_n(&slot.opcode, static_cast<std::uint32_t>(completion), __ATOMIC_RELAXED);
  }

  // Puts the check byte into the WQE at `wqebb`.
  void sign(std::uint32_t wqebb, unsigned octowords) const;

  // Tells the device of the WQE at `wqe`, the only one since the last time; it ends before block `producer`.
  [[gnu::always_inline]] void publish_one(const std::byte* wqe, std::uint32_t producer);
  // As publish_one(), for a WQE of one block and more than a control segment.
  [[gnu::always_inline]] void publish_block(const std::byte* wqe);
  // As publish_one(), for one of `octowords`, more than a block or only a control segment. True.
  bool publish_unusual(const std::byte* wqe, unsigned octowords, std::uint32_t producer);
  // Tells the device of all WQEs up to the one at `wqe`.
  void publish_list(const std::byte* wqe, std::uint32_t producer);

  // What posting reads and writes, then what it seldom reads, then what completing writes: a cache line or more each.
  SendRing ring_;
  std::unique_ptr<Slot[]> slots_;
  Position position_;
  std::uint32_t short_until_ =
      0;  // requests before this one have room, and wait for nothing: put_short() may take them
  doorbell::QueueRecord<> record_{nullptr};
  doorbell::ExclusiveRegister<>* blueflame_ = nullptr;  // of config_.uar, if it is exclusive and has BlueFlame
  std::array<FlagWords, 2> flag_words_{};               // [after a UMR][flags]
  std::array<Recipe, kRecipes> recipes_{};
  std::uint32_t qpn_part_ = 0;
  std::uint32_t max_sge_ = 0;
  std::uint32_t usable_requests_ = 0;
  bool has_plain_tail_ = true;                     // one thread at a time completes, and one posts
  Post post_ = nullptr;                            // for the queue's transport
  std::unique_ptr<ManyProducers> producers_;       // null: there is one
  std::atomic<std::uint32_t> key_was_changed_{0};  // of many producers: 1 from the first change on
  Config config_;
  alignas(64) std::atomic<std::uint32_t> tail_{0};  // requests ever completed
};

[[gnu::always_inline]] inline void SendQueue::publish_block(const std::byte* wqe) {
  if (blueflame_ != nullptr) [[likely]] {
    doorbell::submit_block(record_, position_.next_wqebb, *blueflame_, wqe);
  } else {
    publish_list(wqe, position_.next_wqebb);
  }
}

[[gnu::always_inline]] inline void SendQueue::publish_one(const std::byte* wqe, std::uint32_t producer) {
  constexpr unsigned kBlockOctowords = wqe::kWqebbBytes / wqe::kOctowordBytes;
  const unsigned octowords = static_cast<unsigned>(wqe[kDsOffset]) & wqe::kMaxDsOctowords;
  if (blueflame_ != nullptr && octowords - 2 <= kBlockOctowords - 2) [[likely]] {
    doorbell::submit_block(record_, producer, *blueflame_, wqe);
  } else {
    publish_unusual(wqe, octowords, producer);
  }
}

// Null: there is no room.
[[gnu::always_inline]] inline std::byte* SendQueue::put_template(const SendTemplate& made, const TemplateWr& request) {
  const std::uint32_t head = position_.head;
  const std::uint32_t next = position_.next_wqebb;
  const std::uint32_t index = next & ring_.wqebb_mask();
  std::byte* const wqe = ring_.begin() + std::size_t{index} * wqe::kWqebbBytes;
  const bool plain = static_cast<std::int32_t>(short_until_ - head) > 0;
  if (!plain && !find_room(head)) [[unlikely]] {
    return nullptr;
  }
  std::memcpy(wqe, made.block_.data(), wqe::kWqebbBytes);
  wqe::internal::store_word(wqe, made.control_ | std::uint64_t{static_cast<std::uint16_t>(next)} << kIndexShift);
  wqe::internal::store_word(wqe + made.remote_offset_, request.remote_address);
  wqe::internal::store_word(wqe + made.local_offset_, request.address);  // last: without a remote address it counts
  if (!plain) [[unlikely]] {
    wait_for_key(wqe);
  }
  write_slot(index, request.wr_id, head + 1, made.completion_);
  position_.head = head + 1;
  position_.next_wqebb = next + 1;
  return wqe;
}

inline std::size_t SendQueue::post(const SendTemplate& made, std::span<const TemplateWr> requests) {
  if (requests.size() == 1) [[likely]] {
    const std::byte* const wqe = put_template(made, requests.front());
    if (wqe == nullptr) [[unlikely]] {
      return 0;
    }
    publish_block(wqe);
    return 1;
  }
  const std::byte* last = nullptr;
  std::size_t count = 0;
  for (; count != requests.size(); ++count) {
    const std::byte* const wqe = put_template(made, requests[count]);
    if (wqe == nullptr) [[unlikely]] {
      break;
    }
    last = wqe;
  }
  if (count != 0) {
    publish_list(last, position_.next_wqebb);
  }
  return count;
}

}  // namespace umlx5
