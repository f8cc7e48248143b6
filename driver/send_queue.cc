// Posting native requests, and what posting seldom does.
#include "driver/send_queue.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "driver/send_post.h"

namespace umlx5 {
namespace {

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
  FrameRequest frame() const {
    return {.wr_id = request_->wr_id,
            .flags = request_->flags,
            .sges = request_->sges,
            .is_tso = request_->opcode == SendOpcode::kTso,
            .tso_header = request_->tso_header,
            .tso_piece_bytes = request_->tso_piece_bytes};
  }

 private:
  const SendWr* request_;
};

struct NativeSource {
  const SendWr* at;
  const SendWr* end;
  bool done() const { return at == end; }
  NativeRequest view() const { return NativeRequest(*at); }
  void advance() { ++at; }
};

}  // namespace

template <SendTransport kTransport>
PostResult SendQueue::post_as(SendQueue& queue, std::span<const SendWr> requests) {
  if (requests.size() == 1 && queue.post_short<kTransport>(NativeRequest(requests.front()))) [[likely]] {
    return {.posted = 1};
  }
  return post_list<kTransport>(queue, requests);
}

template <SendTransport kTransport>
[[gnu::noinline]] PostResult SendQueue::post_list(SendQueue& queue, std::span<const SendWr> requests) {
  const std::uint32_t before = queue.position_.head;
  NativeSource source{requests.data(), requests.data() + requests.size()};
  const Refusal refusal = queue.post_from<kTransport>(source);
  return {.posted = queue.position_.head - before,
          .error = refusal == Refusal::kNone ? 0 : errno_of(refusal),
          .refusal = refusal};
}

// Among other producers. The blocks of a request of the short kind are known; another one is built apart, so that
// nothing is reserved for one that is refused.
template <SendTransport kTransport, typename Request>
Refusal SendQueue::add_beside_others(const Request& request) {
  constexpr std::size_t kFmCeSeOffset = 11;
  ManyProducers::Reservation place;
  if (usable_requests_ == 0) [[unlikely]] {
    return Refusal::kState;
  }
  if (const Recipe* const recipe = short_recipe<kTransport>(request); recipe != nullptr) [[likely]] {
    if (!producers_->reserve(1, place)) {
      return Refusal::kFull;
    }
    std::byte* const wqe = write_short<kTransport>(request, *recipe, place.first_block, place.request);
    wqe[kFmCeSeOffset] = std::byte{fm_ce_se(request.flags(), key_was_changed_.load(std::memory_order_relaxed))};
    producers_->ready(place, 1);
    return Refusal::kNone;
  }
  alignas(wqe::kWqebbBytes) std::byte apart[wqe::kMaxSendWqeBytes + wqe::kOctowordBytes];
  const SendRing ring(apart, sizeof apart / wqe::kWqebbBytes);
  const Built built = build_at<kTransport>(request, ring, Position{});
  if (built.octowords == 0) {
    return built.refusal;
  }
  if (built.changes_key) {
    key_was_changed_.store(1, std::memory_order_relaxed);  // the reservation makes it known to those that come after
  }
  const auto blocks = static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(built.octowords));
  if (!producers_->reserve(blocks, place)) {
    return Refusal::kFull;
  }
  apart[kFmCeSeOffset] = std::byte{fm_ce_se(request.flags(), key_was_changed_.load(std::memory_order_relaxed))};
  copy_in(apart, built.octowords, place.first_block);
  Position position{.next_wqebb = place.first_block, .head = place.request};
  count_in(built, request.wr_id(), position);
  producers_->ready(place, blocks);
  return Refusal::kNone;
}

// A WQE that was built at index 0 of another ring.
void SendQueue::copy_in(const std::byte* wqe, unsigned octowords, std::uint32_t to_wqebb) {
  constexpr std::size_t kIndexOffset = 1;
  static_assert(wqe::offset_bits_of(&wqe::ControlSegment::wqe_index) == kIndexOffset * 8);
  std::byte* const to = ring_.wqebb(to_wqebb);
  const std::size_t bytes = octowords * wqe::kOctowordBytes;
  const std::size_t before_end = std::min(bytes, ring_.bytes_behind(to));
  std::memcpy(to, wqe, before_end);
  std::memcpy(ring_.begin(), wqe + before_end, bytes - before_end);
  wqe::internal::store_word(to + kIndexOffset, static_cast<std::uint16_t>(to_wqebb));
}

// Later requests may have been told before.
void SendQueue::complete_through_beside_others(std::uint32_t requests) {
  if (producers_ != nullptr) {
    return producers_->complete_through(requests - 1);
  }
  std::uint32_t seen = tail_.load(std::memory_order_relaxed);
  while (static_cast<std::int32_t>(requests - seen) > 0 &&
         !tail_.compare_exchange_weak(seen, requests, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void SendQueue::publish_ready() {
  producers_->publish([this](std::uint32_t before, std::uint32_t producer, std::uint32_t last) {
    if (last == before) {
      publish_one(ring_.wqebb(last), producer);
    } else {
      publish_list(ring_.wqebb(last), producer);
    }
  });
}

template <SendTransport kTransport>
PostResult SendQueue::post_beside_others(SendQueue& queue, std::span<const SendWr> requests) {
  PostResult result;
  for (const SendWr& request : requests) {
    result.refusal = queue.add_beside_others<kTransport>(NativeRequest(request));
    if (result.refusal != Refusal::kNone) [[unlikely]] {
      result.error = errno_of(result.refusal);
      break;
    }
    ++result.posted;
  }
  if (result.posted != 0) [[likely]] {
    queue.publish_ready();
  }
  return result;
}

SendQueue::Post SendQueue::post_of(SendTransport transport, bool many_producers) {
  const auto choose = [&]<SendTransport kTransport>() {
    return many_producers ? post_beside_others<kTransport> : post_as<kTransport>;
  };
  switch (transport) {
    case SendTransport::kXrc:
      return choose.operator()<SendTransport::kXrc>();
    case SendTransport::kDatagram:
      return choose.operator()<SendTransport::kDatagram>();
    case SendTransport::kDc:
      return choose.operator()<SendTransport::kDc>();
    case SendTransport::kRaw:
      return choose.operator()<SendTransport::kRaw>();
    case SendTransport::kConnected:
      break;
  }
  return choose.operator()<SendTransport::kConnected>();
}

bool SendQueue::find_room(std::uint32_t head) {
  if (usable_requests_ == 0) {
    return false;
  }
  const std::uint32_t until = tail_.load(std::memory_order_acquire) + usable_requests_;
  short_until_ = position_.after_umr == 0 ? until : position_.head;
  return static_cast<std::int32_t>(until - head) > 0;
}

void SendQueue::prepare_recipes() {
  recipes_ = {};
  if (config_.wqe_signature || max_sge_ == 0) {
    return;
  }
  for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kSendWithImm, SendOpcode::kRdmaWrite,
                                  SendOpcode::kRdmaWriteWithImm, SendOpcode::kRdmaRead}) {
    if ((config_.opcodes & opcode_bit(opcode)) != 0 && transport_has(config_.transport, opcode)) {
      const SendForm form = send_form(opcode);
      const std::size_t bytes = header_bytes(config_.transport, opcode) + wqe::DataSegment::kBytes;
      const auto qpn_ds = static_cast<std::uint32_t>(qpn_part_ + bytes / wqe::kOctowordBytes);
      recipes_[static_cast<std::size_t>(opcode)] = {
          .control = std::uint64_t{static_cast<std::uint8_t>(form.opcode)} << 32 | qpn_ds,
          .immediate_mask = form.immediate ? ~0u : 0u,
          .completion = form.completion,
          .remote_address = form.remote_address,
          .may_inline = form.may_inline};
    }
  }
}

bool SendQueue::make_template(const SendWr& request, SendTemplate& made) const {
  const auto make = [&]<SendTransport kTransport>() {
    const NativeRequest view(request);
    const Recipe* const recipe = short_recipe<kTransport>(view);
    if (recipe == nullptr || producers_ != nullptr) {
      return false;
    }
    made = {};
    std::byte* const wqe = made.block_.data();
    made.remote_offset_ = wqe::ControlSegment::kBytes + transport_bytes(kTransport);
    std::byte* const data = wqe + made.remote_offset_ + recipe->remote_bytes();
    put_transport<kTransport>(wqe, view);
    if (recipe->remote_address) {
      put_operation<SendOpcode::kRdmaWrite>(wqe + made.remote_offset_, view);
    }
    put_plain_data_segment(data, request.sges.front());
    put_front(wqe, recipe->control, request.flags, request.immediate_big_endian & recipe->immediate_mask, 0);
    made.control_ = recipe->control;
    made.completion_ = recipe->completion;
    made.local_offset_ = static_cast<std::uint32_t>(data - wqe) + wqe::offset_bits_of(&wqe::DataSegment::address) / 8;
    made.remote_offset_ = recipe->remote_address ? made.remote_offset_ : made.local_offset_;
    return true;
  };
  switch (config_.transport) {
    case SendTransport::kConnected:
      return make.operator()<SendTransport::kConnected>();
    case SendTransport::kXrc:
      return make.operator()<SendTransport::kXrc>();
    default:
      return false;
  }
}

// Behind a change of a memory key: unless the request has a fence of its own.
void SendQueue::wait_for_key(std::byte* wqe) {
  constexpr std::size_t kFmCeSeOffset = 11;
  constexpr std::byte kFenceBits{0xe0};
  if (position_.after_umr != 0 && (wqe[kFmCeSeOffset] & kFenceBits) == std::byte{0}) {
    wqe[kFmCeSeOffset] |= std::byte{kSmallFence};
  }
  position_.after_umr = 0;
  find_room(position_.head);
}

bool SendQueue::publish_unusual(const std::byte* wqe, unsigned octowords, std::uint32_t producer) {
  const std::size_t bytes = octowords * wqe::kOctowordBytes;
  // Half of a lone control segment goes with the doorbell anyway.
  if (blueflame_ != nullptr && octowords > 1 && bytes <= blueflame_->blueflame_bytes()) [[likely]] {
    doorbell::submit_blueflame(record_, producer, *blueflame_, wqe, bytes, {ring_.begin(), ring_.end()});
  } else {
    publish_list(wqe, producer);
  }
  return true;
}

void SendQueue::publish_list(const std::byte* wqe, std::uint32_t producer) {
  if (doorbell::ExclusiveRegister<>* const exclusive = config_.uar.exclusive_register(); exclusive != nullptr)
      [[likely]] {
    doorbell::submit(record_, producer, *exclusive, wqe);
  } else {
    doorbell::submit(record_, producer, *config_.uar.shared_register(), wqe);
  }
}

}  // namespace umlx5
