// What the responder does on a receive queue of raw packets.
#include <vector>

#include "tools/softhca/hca/frame.h"
#include "tools/softhca/hca/responder.h"
#include "wqe/data.h"

namespace softhca::hca {

using umlx5::wqe::StridingByteCount;

void Responder::on_frame(Link& link, Qp& qp, const Frame& frame, std::span<const std::byte> bytes,
                         const Delivery& delivery) {
  FrameCompletion completion{.wqe_counter = 0,
                             .wqe_id = 0,
                             .byte_count = 0,
                             .l3_ok = frame.l3_ok,
                             .l4_ok = frame.l4_ok,
                             .l3_type = frame.l3_type,
                             .l4_type = static_cast<std::uint8_t>(frame.l4_type),
                             .stripped_vlan = {},
                             .checksum = sum_of_payload(frame, bytes),
                             .hash = delivery.hash,
                             .hash_type = delivery.hash_type,
                             .flow_tag = delivery.tag};
  std::vector<std::byte>& stripped = link.frame;
  if (qp.strips_vlan && frame.headers.cvlan_tag) {
    stripped.assign(bytes.begin(), bytes.end());
    strip_vlan(stripped);
    bytes = stripped;
    completion.stripped_vlan = frame.vlan;
  }
  const bool strides = qp.striding.stride_bytes != 0;
  if (strides ? !take_strides(link, qp, bytes.size(), completion) : !queue_.take(link, qp, receive_)) {
    return;  // frames without a receive WQE are lost
  }
  receive_in_use_ = true;
  const std::uint64_t offset =
      strides ? std::uint64_t{next_stride_} * qp.striding.stride_bytes + qp.striding.shift_bytes : 0;
  const Failure failure = !receive_.valid                                 ? failure::kBadWqe
                          : offset + bytes.size() > receive_.length_bytes ? failure::kReceiveTooShort
                          : scatter(link, {receive_.pdn, qp.qpn}, receive_.list, offset, bytes)
                              ? Failure{}
                              : failure::kScatterFault;
  if (failure) {
    fail_local(link, qp, failure);
    return;
  }
  if (strides) {
    leave_strides(qp, StridingByteCount{completion.byte_count}.strides());
  } else {
    completion.wqe_counter = receive_.wqe_counter;
    completion.byte_count = static_cast<std::uint32_t>(bytes.size());
    receive_in_use_ = false;
  }
  complete_frame(link, qp, completion);
}

// Strides that are left but too few are told of in a completion of their own. A frame that no WQE could hold fails.
bool Responder::take_strides(Link& link, Qp& qp, std::size_t frame_bytes, FrameCompletion& completion) {
  const Striding& striding = qp.striding;
  const auto needed = static_cast<std::uint32_t>((frame_bytes + striding.shift_bytes + striding.stride_bytes - 1) /
                                                 striding.stride_bytes);
  if (receive_in_use_ && next_stride_ + needed > striding.strides && needed <= striding.strides) {
    const std::uint32_t left = striding.strides - next_stride_;
    complete_frame(link, qp,
                   {.wqe_counter = static_cast<std::uint16_t>(next_stride_),
                    .wqe_id = receive_.wqe_counter,
                    .byte_count = StridingByteCount::of(left, 0, true).word,
                    .stripped_vlan = {}});
    leave_strides(qp, left);
  }
  if (!receive_in_use_) {
    if (!queue_.take(link, qp, receive_)) {
      return false;
    }
    receive_in_use_ = true;
    next_stride_ = 0;
  }
  completion.wqe_counter = static_cast<std::uint16_t>(next_stride_);
  completion.wqe_id = receive_.wqe_counter;
  completion.byte_count = StridingByteCount::of(needed, static_cast<std::uint32_t>(frame_bytes)).word;
  return true;
}

void Responder::leave_strides(const Qp& qp, std::uint32_t strides) {
  next_stride_ += strides;
  receive_in_use_ = next_stride_ < qp.striding.strides;
}

}  // namespace softhca::hca
