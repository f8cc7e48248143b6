// What the responder does with requests of a connection that places data out of order.
//
// Packets ahead of their turn are held. A SEND or WRITE that is whole among them is executed at once; what is told of
// it waits for its turn. Reads, atomics and invalidations wait for theirs, and nothing passes a read or an atomic that
// is here. Even what arrives in order is now and then held back, as the endpoint's seed has it, until all that came
// with it is heard.
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "tools/softhca/hca/formatted_data.h"
#include "tools/softhca/hca/responder.h"
#include "tools/softhca/wire/chance.h"

namespace softhca::hca {
namespace {

using wire::Headers;
using wire::Kind;

// More than a requester has under way.
constexpr std::uint32_t kMaxAhead = 128;
// Packets held before a gap is taken for a loss.
constexpr std::size_t kReorderedPackets = 8;

bool is_data(Kind kind) { return kind == Kind::kSend || kind == Kind::kRdmaWrite; }

bool holds_back(const Link& link, const Qp& qp, std::uint32_t psn) {
  return (wire::draw(link.port.seed(), psn, ~std::uint64_t{qp.qpn}) & 1) != 0;
}

}  // namespace

void Responder::hold(const wire::Packet& packet) {
  const std::uint32_t psn = packet.bth.psn;
  const auto place =
      std::ranges::find_if(held_, [&](const Held& held) { return wire::psn_difference(held.psn, psn) >= 0; });
  if (place != held_.end() && place->psn == psn) {
    return;
  }
  Held held{.psn = psn, .payload = {packet.payload.begin(), packet.payload.end()}, .packet = packet};
  held.packet.payload = held.payload;
  held_.insert(place, std::move(held));
}

void Responder::on_request_in_any_order(Link& link, Qp& qp, const wire::Packet& packet, std::uint32_t ahead) {
  if (ahead > kMaxAhead) {
    ++link.counters.out_of_sequence;
    return;
  }
  hold(packet);
  execute_early(link, qp);
  if (held_.front().psn == expected_psn_ && !holds_back(link, qp, expected_psn_)) {
    execute_in_order(link, qp);
  }
}

void Responder::settle(Link& link, Qp& qp) {
  execute_in_order(link, qp);
  if (held_.size() >= kReorderedPackets && verdict_ == Verdict::kNone && !gap_reported_) {
    ++link.counters.out_of_sequence;
    gap_reported_ = true;
    verdict_ = Verdict::kNakSequence;
  }
}

void Responder::execute_in_order(Link& link, Qp& qp) {
  while (!held_.empty() && held_.front().psn == expected_psn_ && verdict_ != Verdict::kRefuse) {
    if (deliver_early(link, qp)) {
      continue;
    }
    const Held next = std::move(held_.front());
    held_.erase(held_.begin());
    if (!on_next_request(link, qp, next.packet)) {
      return;  // comes again, or is refused
    }
    std::erase_if(early_, [&](const Early& early) {
      return wire::psn_difference(wire::psn_add(early.first_psn, early.packets), expected_psn_) <= 0;
    });
  }
}

Responder::Early* Responder::early_of(std::uint32_t psn) {
  const auto found = std::ranges::find_if(early_, [&](const Early& early) {
    const std::int32_t offset = wire::psn_difference(psn, early.first_psn);
    return offset >= 0 && static_cast<std::uint32_t>(offset) < early.packets;
  });
  return found == early_.end() ? nullptr : &*found;
}

// The message that begins at held_[first]; empty if it does not begin there or is not whole.
std::span<const Responder::Held> Responder::message_at(std::size_t first) const {
  const std::span<const Held> rest = std::span{held_}.subspan(first);
  if (!rest.front().packet.info().begins_message()) {
    return {};
  }
  for (std::size_t i = 0; i < rest.size() && rest[i].psn == wire::psn_add(rest.front().psn, i); ++i) {
    if (rest[i].packet.info().kind != rest.front().packet.info().kind ||
        (i != 0 && rest[i].packet.info().begins_message())) {
      return {};
    }
    if (rest[i].packet.info().ends_message()) {
      return rest.first(i + 1);
    }
  }
  return {};
}

void Responder::execute_early(Link& link, Qp& qp) {
  std::uint32_t resolved = 0;  // PSNs that have what they need
  for (std::size_t i = 0; i < held_.size();) {
    const std::uint32_t ahead = wire::psn_add(held_[i].psn, -expected_psn_);
    if (!is_data(held_[i].packet.info().kind)) {
      return;
    }
    const std::span<const Held> message = message_at(i);
    if (message.empty() || ahead == 0) {
      i += std::max<std::size_t>(message.size(), 1);
      continue;
    }
    const bool executed = early_of(held_[i].psn) != nullptr ? early_of(held_[i].psn)->executed
                                                            : try_early(link, qp, message, ahead - resolved);
    resolved += executed ? static_cast<std::uint32_t>(message.size()) : 0;
    i += message.size();
  }
}

// False if the message has to wait for its turn. `unresolved`: each of so many PSNs before it may be a message that
// needs a receive WQE.
bool Responder::try_early(Link& link, Qp& qp, std::span<const Held> message, std::uint32_t unresolved) {
  const wire::Packet& first = message.front().packet;
  const wire::Packet& last = message.back().packet;
  const auto pdn = pdn_of(link, qp, first);
  const bool fits = std::ranges::all_of(message, [&](const Held& held) { return sizes_fit(qp, held.packet); });
  if (!pdn || !fits || !same_ordering(qp, first) || last.info().has(Headers::kIeth)) {
    return false;
  }
  const bool is_send = first.info().kind == Kind::kSend;
  Early early{.first_psn = message.front().psn,
              .packets = static_cast<std::uint32_t>(message.size()),
              .srqn = first.xrceth.srqn,
              .takes_receive = is_send || last.info().has(Headers::kImmDt),
              .receive = {},
              .completion = {},
              .cqe_data = {}};
  if (early.takes_receive && !take_early(link, qp, first, unresolved, early.receive)) {
    return false;
  }
  early.executed = (!early.takes_receive || early.receive.valid) &&
                   (is_send ? place_early_send(link, qp, message, early) : place_early_write(link, qp, *pdn, message));
  early.ack_request = std::ranges::any_of(message, [](const Held& held) { return held.packet.bth.ack_request; });
  early.completion.opcode = receive_opcode(last.info());
  early.completion.wqe_counter = early.receive.wqe_counter;
  for (const Held& held : message) {
    early.completion.byte_count += static_cast<std::uint32_t>(held.payload.size());
  }
  early.completion.immediate_or_rkey = last.imm_dt.immediate;
  early.completion.source_qpn = qp.remote_qpn;
  early.completion.solicited = last.bth.solicited_event;
  early_.push_back(std::move(early));
  return early_.back().executed;
}

// A target's connections end without a word, and would leave a WQE taken for ever: theirs take none early.
bool Responder::take_early(Link& link, Qp& qp, const wire::Packet& packet, std::uint32_t unresolved, ReceiveWqe& wqe) {
  if (qp.type == QpType::kDct) {
    return false;
  }
  if (qp.type == QpType::kXrc) {
    Srq& srq = *link.services.find_srq(packet.xrceth.srqn);
    return waiting_on(link, srq) > unresolved && take_shared(link, srq, wqe);
  }
  const bool near = qp.srq != nullptr || unresolved <= ReceiveQueue::reach(qp);
  return near && queue_.waiting(link, qp) > unresolved && queue_.take(link, qp, wqe);
}

bool Responder::place_early_send(Link& link, const Qp& qp, std::span<const Held> message, Early& early) const {
  const KeyUser user{early.receive.pdn, qp.qpn};
  std::uint64_t bytes = 0;
  for (const Held& held : message) {
    bytes += held.payload.size();
  }
  if (bytes > early.receive.length_bytes || passes_format(link, early.receive.list)) {
    return false;
  }
  if (message.size() == 1 && bytes <= qp.inline_scatter_responder_bytes) {
    early.cqe_data = message.front().payload;
    return true;
  }
  std::uint64_t offset = 0;
  for (const Held& held : message) {
    if (!scatter(link, user, early.receive.list, offset, held.payload)) {
      return false;
    }
    offset += held.payload.size();
  }
  return true;
}

bool Responder::place_early_write(Link& link, const Qp& qp, std::uint32_t pdn, std::span<const Held> message) {
  const wire::Reth& target = message.front().packet.reth;
  const KeyUser user{pdn, qp.qpn};
  std::uint64_t bytes = 0;
  for (const Held& held : message) {
    bytes += held.payload.size();
  }
  if (!qp.remote_write || bytes != target.dma_bytes || link.services.formatted_key(target.rkey).has_value() ||
      !ends_accessible(link, target.rkey, user, target.address, bytes, Access::kRemoteWrite)) {
    return false;
  }
  std::uint64_t offset = 0;
  for (const Held& held : message) {
    if (!write_key(link, target.rkey, user, target.address + offset, Access::kRemoteWrite, held.payload)) {
      return false;
    }
    offset += held.payload.size();
  }
  return true;
}

// Tells of the message whose turn it is, if it is executed.
bool Responder::deliver_early(Link& link, Qp& qp) {
  Early* const found = early_of(expected_psn_);
  if (found == nullptr || !found->executed) {
    return false;
  }
  const Early early = std::move(*found);
  early_.erase(early_.begin() + (found - early_.data()));
  held_.erase(held_.begin(), held_.begin() + early.packets);
  gap_reported_ = false;
  if (verdict_ == Verdict::kNakSequence || verdict_ == Verdict::kNakRnr) {
    verdict_ = Verdict::kNone;
  }
  expected_psn_ = wire::psn_add(expected_psn_, early.packets);
  msn_ = wire::psn_add(msn_, 1);
  srqn_ = early.srqn;
  link.counters.rx_write_requests += early.completion.opcode == umlx5::wqe::CqeOpcode::kResponderWriteImmediate ? 1 : 0;
  if (early.takes_receive) {
    complete_receive(link, qp, sink(link, qp), early.completion, early.cqe_data);
  }
  if (early.ack_request && verdict_ == Verdict::kNone) {
    verdict_ = Verdict::kAck;
  }
  return true;
}

}  // namespace softhca::hca
