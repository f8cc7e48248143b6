// Posting in steps: start(), then for each request its opcode and what belongs to it, then complete() or abort().
//
// The bytes are those that SendQueue::post() writes, by the same code. From the first step that cannot be taken on,
// nothing more is written, and complete() takes everything back and tells why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "driver/send_queue.h"

namespace umlx5 {

struct MkeyWqes;

// Bytes to be put into a WQE.
struct InlinePiece {
  const void* address = nullptr;
  std::size_t length_bytes = 0;
  const std::byte* data() const { return static_cast<const std::byte*>(address); }
  std::size_t size_bytes() const { return length_bytes; }
};

// Operands of a request's opcode; those that the opcode does not have are not read. A request view (send_queue.h).
struct StagedRequest {
  std::uint64_t id = 0;
  SendFlags send_flags{};
  std::uint64_t remote_address_value = 0;
  std::uint32_t rkey_value = 0;
  std::uint32_t immediate_or_rkey = 0;  // immediate as it lies in memory, or the rkey to invalidate
  std::uint64_t compare_add_value = 0;
  std::uint64_t swap_value = 0;

  std::uint64_t wr_id() const { return id; }
  SendFlags flags() const { return send_flags; }
  std::uint32_t immediate_big_endian() const { return immediate_or_rkey; }
  std::uint32_t invalidate_rkey() const { return immediate_or_rkey; }
  std::uint64_t remote_address() const { return remote_address_value; }
  template <bool kAtomic>
  std::uint32_t rkey() const {
    return rkey_value;
  }
  std::uint64_t compare_add() const { return compare_add_value; }
  std::uint64_t swap() const { return swap_value; }
};

// For one thread at a time, and nothing else posts to the queue between start() and complete() or abort().
class SendBuilder {
 public:
  explicit SendBuilder(SendQueue* queue) : queue_(queue) {}

  void start() {
    position_ = queue_->position_;
    // Many producers do not build in steps: what is reserved is filled at once.
    refusal_ = queue_->has_many_producers() ? Refusal::kUnsupported : Refusal::kNone;
    is_open_ = false;
    wqe_ = nullptr;
  }

  // Begins a request. One that carries data and gets none carries no bytes. `kTransport` is the queue's.
  template <SendTransport kTransport, SendOpcode kOpcode>
  [[gnu::always_inline]] void begin(const StagedRequest& request) {
    static_assert(transport_has(kTransport, kOpcode));
    end_request();
    SendQueue& queue = *queue_;
    const bool has_room = static_cast<std::int32_t>(queue.short_until_ - position_.head) > 0;
    const bool has_opcode = (queue.config_.opcodes & opcode_bit(kOpcode)) != 0;
    if ((refusal_ != Refusal::kNone || !has_room || !has_opcode) && !may_begin(kOpcode)) [[unlikely]] {
      return;
    }
    constexpr SendForm kForm = send_form(kOpcode);
    static_assert(!kForm.umr);
    constexpr std::size_t kFront = header_bytes(kTransport, kOpcode);
    constexpr std::uint64_t kControl =
        (std::uint64_t{static_cast<std::uint8_t>(kForm.opcode)} << 32) + kFront / wqe::kOctowordBytes;
    const SendQueue::Position at = position_;
    const std::uint32_t index = at.next_wqebb & queue.ring_.wqebb_mask();
    std::byte* const wqe = queue.ring_.begin() + std::size_t{index} * wqe::kWqebbBytes;
    wqe_ = wqe;
    header_ = control_ = kControl + queue.qpn_part_;
    data_ = queue.ring_.template behind<kFront>(wqe);
    position_.head = at.head + 1;
    position_.after_umr = 0;
    const std::uint32_t immediate = kForm.immediate    ? request.immediate_big_endian()
                                    : kForm.invalidate ? wqe::internal::big_endian(request.invalidate_rkey())
                                                       : 0;
    const std::uint32_t flags = queue.flag_word(request.flags(), at.after_umr);
    queue.write_slot(index, request.wr_id(), at.head + 1, kForm.completion);
    SendQueue::put_operation<kOpcode>(SendQueue::operation_at<kTransport>(queue.ring_, wqe), request);
    SendQueue::put_flags(wqe, flags, immediate);
  }

  // Binds a memory window, or (of no length) invalidates one; `key` is the one that changes. A request that is whole.
  void change_window(SendOpcode opcode, const WindowBinding& binding, std::uint32_t key, std::uint64_t wr_id,
                     SendFlags flags);

  // The requests that change a memory key, whole: WQEs of build_mkey_wqes() for key `key`. The last one alone
  // completes.
  void configure_key(std::uint32_t key, const MkeyWqes& wqes, SendFlags flags, std::uint64_t wr_id);

  // Such requests may take steps of their own. Between these two nothing else can be begun or completed.
  void open_steps() { open(Refusal::kKeyChange); }
  void close_steps() {
    refusal_ = Refusal::kNone;
    is_open_ = false;
  }
  bool steps_open() const { return is_open_; }
  bool refused() const { return refusal_ != Refusal::kNone; }

  // Begins a frame of a RAW_PACKET QP, which put_frame() ends with its data (`sges` here are not looked at).
  void begin_frame(const FrameRequest& request) {
    if (is_open_) {
      return refuse(Refusal::kFrame);
    }
    open(Refusal::kFrame);
    frame_ = request;
  }
  void put_frame(std::span<const Sge> sges, bool is_inline) {
    if (!is_open_) {
      return refuse(Refusal::kFrame);
    }
    close_steps();
    if (!queue_->has_room(position_.head)) {
      return refuse(queue_->refused_room());
    }
    frame_.sges = sges;
    frame_.flags = is_inline ? frame_.flags | SendFlag::kInline : frame_.flags;
    add_whole(queue_->put_frame(frame_, queue_->ring_, position_), frame_.wr_id);
  }

  // Copies a WQE of any opcode from `wqe`, all but its index. Its completion's opcode is kRawWqe.
  void raw(const std::byte* wqe, std::uint64_t wr_id);

  // A copy, whole. The device may write to the 64 bytes at `scratch`.
  void copy(const MemoryCopy& copy, const Sge& scratch, SendFlags flags, std::uint64_t wr_id);

  void set_destination(const WireAddressVector& destination, std::uint32_t qpn, std::uint32_t qkey) {
    if (wqe_ != nullptr) [[likely]] {
      SendQueue::put_destination(wqe_ + wqe::ControlSegment::kBytes, destination, qpn,
                                 wqe::AddressVector::of_qkey(qkey));
    }
  }
  void set_dc_destination(const WireAddressVector& destination, std::uint32_t dctn, std::uint64_t access_key,
                          std::uint16_t stream) {
    if (wqe_ != nullptr) [[likely]] {
      SendQueue::put_destination(wqe_ + wqe::ControlSegment::kBytes, destination, dctn, access_key);
      SendQueue::put_stream(wqe_, stream);
    }
  }
  void set_remote_srqn(std::uint32_t srqn) {
    if (wqe_ != nullptr) [[likely]] {
      wqe::store(wqe_ + wqe::ControlSegment::kBytes, wqe::XrcSegment{.srqn = srqn});
    }
  }
  [[gnu::always_inline]] void set_sge(const Sge& sge) {
    if (wqe_ == nullptr) [[unlikely]] {
      return;
    }
    if (queue_->max_sge_ == 0 || !is_plain_length(sge)) [[unlikely]] {
      const Sge copy = sge;
      return set_sges({&copy, 1});
    }
    put_plain_data_segment(queue_->ring_.wrapped(data_), sge);
    control_ = header_ + 1;
  }
  void set_sges(std::span<const Sge> sges) {
    if (wqe_ == nullptr) [[unlikely]] {
      return;
    }
    if (sges.size() > queue_->max_sge_) [[unlikely]] {
      return refuse(Refusal::kSges);
    }
    set_data(queue_->ring_.put_pointers(data_, sges), Refusal::kLength);
  }
  [[gnu::always_inline]] void set_inline(std::span<const InlinePiece> pieces) {
    if (wqe_ == nullptr) [[unlikely]] {
      return;
    }
    set_data(queue_->ring_.put_inline(data_, pieces, queue_->config_.max_inline_bytes), Refusal::kInline);
  }

  // Takes nothing more: complete() returns `refusal`.
  void refuse(Refusal refusal) {
    refusal_ = refusal_ == Refusal::kNone || is_open_ ? refusal : refusal_;
    is_open_ = false;
    wqe_ = nullptr;
  }

  // Hands everything since start() to the device, or, with a Refusal, nothing.
  Refusal complete() {
    end_request();
    if (refusal_ != Refusal::kNone) [[unlikely]] {
      return refusal_;
    }
    const std::uint32_t count = position_.head - queue_->position_.head;
    queue_->fill_to(position_);
    if (count == 1) [[likely]] {
      queue_->publish_one(last_, position_.next_wqebb);
    } else if (count != 0) {
      queue_->publish_list(last_, position_.next_wqebb);
    }
    return Refusal::kNone;
  }

  // Forgets everything since start().
  void abort() { wqe_ = nullptr; }

 private:
  // False, and refused, if nothing can be added now.
  bool may_add() {
    end_request();
    if (refusal_ == Refusal::kNone && !queue_->has_room(position_.head)) {
      refuse(queue_->refused_room());
    }
    return refusal_ == Refusal::kNone;
  }
  // As may_add(), for a request of this opcode.
  [[gnu::noinline]] bool may_begin(SendOpcode opcode) {
    if (!may_add()) {
      return false;
    }
    if ((queue_->config_.opcodes & opcode_bit(opcode)) == 0) {
      refuse(queue_->refused_opcode(opcode));
      return false;
    }
    return true;
  }
  // Counts in a request that is whole.
  void add_whole(const SendQueue::Built& built, std::uint64_t wr_id) {
    if (built.octowords == 0) {
      return refuse(built.refusal);
    }
    queue_->count_in(built, wr_id, position_);
    last_ = built.wqe;
  }
  void key_wqe(wqe::SendOpcode opcode, std::uint32_t key, std::span<const std::byte> body, std::uint64_t wr_id,
               std::uint8_t fm_ce_se);

  // Until it is closed, `reason` is why nothing else is taken.
  void open(Refusal reason) {
    end_request();
    if (refusal_ == Refusal::kNone) {
      refusal_ = reason;
      is_open_ = true;
    }
  }

  void set_data(unsigned data_octowords, Refusal if_refused) {
    if (data_octowords == SendRing::kRefused) [[unlikely]] {
      return refuse(if_refused);
    }
    control_ = header_ + data_octowords;
  }

  // Counts in the request that was begun: what it has is known only now.
  [[gnu::always_inline]] void end_request() {
    std::byte* const wqe = wqe_;
    if (wqe == nullptr) {
      return;
    }
    const std::uint32_t next = position_.next_wqebb;
    const std::uint64_t control = control_;
    const auto octowords = static_cast<unsigned>(control) & wqe::kMaxDsOctowords;
    wqe_ = nullptr;
    last_ = wqe;
    position_.next_wqebb = next + static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
    SendQueue::put_first_word(wqe, control, next);
    if (queue_->config_.wqe_signature) [[unlikely]] {
      queue_->sign(next, octowords);
    }
  }

  SendQueue* queue_;
  SendQueue::Position position_{};
  Refusal refusal_ = Refusal::kNone;
  bool is_open_ = false;      // steps of one request are being taken: nothing else can be begun or completed
  std::byte* wqe_ = nullptr;  // of the request that was begun; null if there is none to add to
  std::byte* data_ = nullptr;
  std::uint64_t header_ = 0, control_ = 0;  // the first word of its control segment but for the index: before data, now
  const std::byte* last_ = nullptr;
  FrameRequest frame_;
};

}  // namespace umlx5
