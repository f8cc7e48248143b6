// Posting native requests, and what posting seldom does.
#include "driver/send_queue.h"

#include <cstddef>
#include <cstdint>
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

SendQueue::Post SendQueue::post_of(SendTransport transport) {
  switch (transport) {
    case SendTransport::kXrc:
      return post_as<SendTransport::kXrc>;
    case SendTransport::kDatagram:
      return post_as<SendTransport::kDatagram>;
    case SendTransport::kDc:
      return post_as<SendTransport::kDc>;
    case SendTransport::kConnected:
      break;
  }
  return post_as<SendTransport::kConnected>;
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

bool SendQueue::publish_one(const std::byte* wqe, unsigned octowords) {
  // Half of a lone control segment goes with the doorbell anyway.
  const std::size_t bytes = octowords * wqe::kOctowordBytes;
  if (blueflame_ != nullptr && octowords > 1 && bytes <= blueflame_->blueflame_bytes()) [[likely]] {
    doorbell::submit_blueflame(record_, position_.next_wqebb, *blueflame_, wqe, bytes, {ring_.begin(), ring_.end()});
  } else {
    publish_list(wqe);
  }
  return true;
}

void SendQueue::publish_list(const std::byte* wqe) {
  if (doorbell::ExclusiveRegister<>* const exclusive = config_.uar.exclusive_register(); exclusive != nullptr)
      [[likely]] {
    doorbell::submit(record_, position_.next_wqebb, *exclusive, wqe);
  } else {
    doorbell::submit(record_, position_.next_wqebb, *config_.uar.shared_register(), wqe);
  }
}

}  // namespace umlx5
