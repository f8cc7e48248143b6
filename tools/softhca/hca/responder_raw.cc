// What the responder does on a receive queue of raw packets.
#include <vector>

#include "tools/softhca/hca/frame.h"
#include "tools/softhca/hca/responder.h"
#include "wqe/data.h"

namespace softhca::hca {

void Responder::on_frame(Link& link, Qp& qp, const Frame& frame, std::span<const std::byte> bytes,
                         const Delivery& delivery) {
  if (!queue_.take(link, qp, receive_)) {
    return;  // frames without a receive WQE are lost
  }
  receive_in_use_ = true;
  FrameCompletion completion{.wqe_counter = receive_.wqe_counter,
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
  completion.byte_count = static_cast<std::uint32_t>(bytes.size());
  const Failure failure = !receive_.valid                                                  ? failure::kBadWqe
                          : bytes.size() > receive_.length_bytes                           ? failure::kReceiveTooShort
                          : scatter(link, {receive_.pdn, qp.qpn}, receive_.list, 0, bytes) ? Failure{}
                                                                                           : failure::kScatterFault;
  if (failure) {
    fail_local(link, qp, failure);
    return;
  }
  receive_in_use_ = false;
  complete_frame(link, qp, completion);
}

}  // namespace softhca::hca
