#include "tools/softhca/hca/requester.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tools/softhca/hca/formatted_data.h"
#include "tools/softhca/hca/memory_copy.h"
#include "wqe/eqe.h"
#include "wqe/mmo.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::SendOpcode;
using wire::Operation;

// What a socket's default buffer holds of the largest packets, and what keeps a round trip between two threads busy.
constexpr std::uint64_t kMaxWindowPackets = 64;
constexpr std::uint64_t kFirstWindowPackets = 32;
constexpr std::uint64_t kLossWindowPackets = 4;
constexpr std::uint64_t kReadPiecePackets = kMaxWindowPackets / 2;

// A packet is sent again after a few round trips, then after twice as long each time, up to the QP's own time-out. The
// peer is a process that may have to wait for a processor: giving up counts time-outs of at least kLeastTimeoutNs.
constexpr std::uint64_t kRoundTripsToResend = 4;
constexpr std::uint64_t kLeastResendNs = 4'000'000;
constexpr std::uint64_t kLeastTimeoutNs = 128'000'000;
constexpr std::uint8_t kRnrRetryForEver = 7;
constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 31;

std::uint64_t timeout_ns(const Qp& qp) {
  return std::max(wire::ack_timeout_ns(qp.ack_timeout).value_or(0), kLeastTimeoutNs);
}

struct Operations {
  Operation first, middle, last, only;
};

// Of the opcodes that send data.
Operations operations_of(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kSendImmediate:
      return {Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLastWithImmediate,
              Operation::kSendOnlyWithImmediate};
    case SendOpcode::kSendInvalidate:
      return {Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLastWithInvalidate,
              Operation::kSendOnlyWithInvalidate};
    case SendOpcode::kRdmaWrite:
      return {Operation::kRdmaWriteFirst, Operation::kRdmaWriteMiddle, Operation::kRdmaWriteLast,
              Operation::kRdmaWriteOnly};
    case SendOpcode::kRdmaWriteImmediate:
      return {Operation::kRdmaWriteFirst, Operation::kRdmaWriteMiddle, Operation::kRdmaWriteLastWithImmediate,
              Operation::kRdmaWriteOnlyWithImmediate};
    default:
      return {Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLast, Operation::kSendOnly};
  }
}

bool executes(QpType type, SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kNop:
    case SendOpcode::kSend:
    case SendOpcode::kSendImmediate:
      return true;
    case SendOpcode::kRdmaWrite:
    case SendOpcode::kRdmaWriteImmediate:
      return type != QpType::kUd;
    case SendOpcode::kUmr:
    case SendOpcode::kSetPsv:
      return type != QpType::kUd;
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kRdmaRead:
    case SendOpcode::kAtomicCompareSwap:
    case SendOpcode::kAtomicFetchAdd:
      return is_reliable(type);
    default:
      return false;
  }
}

}  // namespace

Requester::Work& Requester::Works::push() {
  if (size_ == slots_.size()) {
    std::vector<Work> larger(std::max<std::size_t>(slots_.size() * 2, 8));
    for (std::size_t i = 0; i < size_; ++i) {
      larger[i] = std::move((*this)[i]);
    }
    slots_ = std::move(larger);
    first_ = 0;
  }
  return (*this)[size_++];
}

void Requester::start(std::uint32_t psn) {
  *this = Requester();
  done_psn_ = next_psn_ = sent_psn_ = assigned_psn_ = psn & 0xffffff;
  window_ = kFirstWindowPackets;
  threshold_ = kMaxWindowPackets;
}

// ---- Sending ----

unsigned Requester::transmit(Link& link, Qp& qp, unsigned budget) {
  unsigned sent_packets = 0;
  ready_ = false;
  while (qp.state == QpState::kRts || qp.state == QpState::kSqDrained) {
    if (held_until_ns_ > link.now_ns) {
      return sent_packets;
    }
    Work* const work = next_work(link, qp);
    if (work == nullptr) {
      return sent_packets;
    }
    if (sent_packets == budget) {
      ready_ = true;
      return sent_packets;
    }
    if (work->packets == 0 || work->request.failure) {  // failed, or done without the wire: completes in its turn
      if (work->waits) {
        if (sending_ != 0) {
          return sent_packets;  // work before it may have to read the key's memory again
        }
        carry_out(link, qp, *work);
      }
      sending_ += work->request.failure ? 0 : 1;
      if (!finish_front(link, qp) || sending_ < works_.size()) {
        return sent_packets;
      }
      ++sent_packets;
      continue;
    }
    if (qp.type == QpType::kDci && !turn_to(link, *work)) {
      return sent_packets;
    }
    if (!may_start(*work) || !send_one(link, qp, *work)) {
      return sent_packets;
    }
    ++sent_packets;
  }
  return sent_packets;
}

Requester::Work* Requester::next_work(Link& link, Qp& qp) {
  if (sending_ < works_.size()) {
    return &works_[sending_];
  }
  if (qp.state != QpState::kRts || in_flight() >= window_) {
    return nullptr;
  }
  Work& work = works_.push();
  if (!queue_.take(link, qp, work.request)) {
    works_.drop_last();
    if (queue_.broken()) {
      link.services.async_event(static_cast<std::uint8_t>(umlx5::wqe::EventType::kWorkQueueCatastrophic), qp.qpn, 0);
      link.services.fail_qp(qp);
    }
    return nullptr;
  }
  admit(link, qp, work);
  return &work;
}

void Requester::admit(Link& link, const Qp& qp, Work& work) {
  SendRequest& request = work.request;
  work.cqe_bytes = 0;
  work.converted = false;
  work.responses.clear();
  work.first_psn = assigned_psn_;
  work.packets = 0;
  work.waits = false;
  if (qp.type == QpType::kDci && errored_streams_.contains(request.stream)) {
    request.failure = failure::kFlushedSend;
  }
  const bool is_mmo = request.opcode == SendOpcode::kMmo;
  if (is_mmo ? !qp.copies_memory || request.opmod != umlx5::wqe::kMmoOpmodDma
             : !executes(qp.type, request.opcode)) {  // and so its body could not be read either
    request.failure = failure::kBadOpcode;
  }
  if (!request.failure && work.has_response() && qp.max_initiated_rd_atomic == 0) {
    request.failure = failure::kNoReadAtomic;
  }
  if (!request.failure && passes_format(link, request.list)) {
    admit_formatted(link, qp, work);
  }
  const std::uint32_t mtu = mtu_bytes(qp);
  if (!request.failure && qp.type == QpType::kUd && request.length_bytes > mtu) {
    request.failure = failure::kMessageTooLong;
  }
  if (request.failure || request.opcode == SendOpcode::kNop) {
    return;
  }
  if (request.opcode == SendOpcode::kUmr || request.opcode == SendOpcode::kSetPsv || is_mmo) {
    work.waits = true;
    return;
  }
  work.packets = work.is_atomic() ? 1 : std::max<std::uint64_t>(1, (request.length_bytes + mtu - 1) / mtu);
  // A message of one packet finds its faults when that is built; others must not fail when half is sent.
  const Access access = work.has_response() ? Access::kLocalWrite : Access::kLocalRead;
  if (!request.formatted && (work.packets > 1 || work.has_response()) &&
      !list_accessible(link, {qp.pdn, qp.qpn}, request.list, access)) {
    request.failure = work.has_response() ? failure::kScatterFault : failure::kGatherFault;
    work.packets = 0;
  }
  assigned_psn_ += work.packets;
}

// The message's length is that on the wire.
void Requester::admit_formatted(Link& link, const Qp& qp, Work& work) {
  SendRequest& request = work.request;
  const auto bytes = work.is_atomic() ? std::nullopt : wire_bytes_of(link, {qp.pdn, qp.qpn}, request.list);
  request.formatted = true;
  if (!bytes) {
    request.failure = work.has_response() ? failure::kScatterFault : failure::kGatherFault;
  } else if (*bytes > kMaxMessageBytes) {
    request.failure = failure::kMessageTooLong;
  } else {
    request.length_bytes = *bytes;
  }
}

void Requester::set_psv(Link& link, const Qp& qp, Work& work) {
  const auto update = parse_psv_update(work.request.body);
  if (!update) {
    work.request.failure = failure::kBadWqe;
  } else if (!link.services.set_psv({qp.pdn, qp.qpn}, *update)) {
    work.request.failure = failure::kKeyUpdate;
  }
}

void Requester::carry_out(Link& link, const Qp& qp, Work& work) {
  work.waits = false;
  if (work.request.opcode == SendOpcode::kMmo) {
    work.request.failure = copy_memory(link, {qp.pdn, qp.qpn}, work.request.body);
    return;
  }
  if (work.request.opcode == SendOpcode::kSetPsv) {
    set_psv(link, qp, work);
    return;
  }
  const auto update = parse_key_update(work.request.immediate, work.request.body);
  if (!update) {
    work.request.failure = failure::kBadWqe;
  } else if (!link.services.update_key({qp.pdn, qp.qpn}, *update)) {
    work.request.failure = failure::kKeyUpdate;
  }
}

bool Requester::turn_to(Link& link, const Work& work) {
  const SendRequest& request = work.request;
  const bool is_there = connected_ && target_dctn_ == request.destination_qpn &&
                        target_route_.destination == request.route.destination &&
                        dceth_.access_key == request.access_key;
  if (is_there) {
    return true;
  }
  if (in_flight() != 0) {
    return false;
  }
  connected_ = true;
  target_dctn_ = request.destination_qpn;
  target_route_ = request.route;
  dceth_.access_key = request.access_key;
  dceth_.connection = std::max(link.epoch_ns + link.now_ns, dceth_.connection + 1);
  dceth_.first_psn = static_cast<std::uint32_t>(next_psn_ & 0xffffff);
  return true;
}

wire::Dceth Requester::dceth_of(const Qp& qp) const {
  wire::Dceth dceth = dceth_;
  dceth.source_qpn = qp.qpn;
  return dceth;
}

const wire::Route& Requester::route_of(const Qp& qp, const Work& work) const {
  return qp.type == QpType::kUd || qp.type == QpType::kDci ? work.request.route : qp.path.route;
}

bool Requester::may_start(const Work& work) const {
  if (work.request.failure) {
    return false;
  }
  return !(work.request.fence && next_psn_ == work.first_psn && !responses_due_.empty());
}

bool Requester::send_one(Link& link, Qp& qp, Work& work) {
  if (work.has_response()) {
    if (responses_due_.size() >= qp.max_initiated_rd_atomic) {
      return false;
    }
    return work.is_read() ? send_read(link, qp, work) : send_atomic(link, qp, work);
  }
  if (in_flight() >= window_ || !has_credit(qp, work)) {
    return false;
  }
  if (!send_data(link, qp, work)) {
    work.request.failure = failure::kGatherFault;
    finish_front(link, qp);
    return false;
  }
  if (!is_reliable(qp.type)) {  // what is sent is done
    advance(link, next_psn_);
    return finish_front(link, qp);
  }
  return true;
}

// Of what takes receive WQEs. Without credit one packet at a time asks for more.
bool Requester::has_credit(const Qp& qp, const Work& work) const {
  return !qp.packet_credits || !credit_psn_ || work.request.opcode == SendOpcode::kRdmaWrite ||
         next_psn_ < *credit_psn_ || in_flight() == 0;
}

void Requester::take_credit(const Qp& qp, std::uint64_t acknowledged_psn, const wire::Aeth& aeth) {
  if (!qp.packet_credits || aeth.kind != wire::AckKind::kAck) {
    return;
  }
  const auto count = wire::credits(aeth.value);
  credit_psn_ = count ? std::optional(acknowledged_psn + 1 + *count) : std::nullopt;
  ready_ = true;
}

wire::Bth Requester::header(const Qp& qp, Operation operation) const {
  wire::Bth bth;
  bth.opcode = wire::opcode_of(wire_transport(qp.type), operation);
  bth.migration_request = true;
  bth.version = qp.out_of_order && qp.type != QpType::kUd ? wire::kOutOfOrderVersion : 0;
  bth.destination_qpn = qp.type == QpType::kDci ? target_dctn_ : qp.remote_qpn;
  bth.psn = static_cast<std::uint32_t>(next_psn_ & 0xffffff);
  return bth;
}

// Makes a formatted list the bytes that it sends. Not before its turn: reads before a fence may still fill it.
bool Requester::convert(Link& link, Qp& qp, Work& work) {
  SendRequest& request = work.request;
  std::vector<std::byte> wire;
  if (!gather_formatted(link, {qp.pdn, qp.qpn}, request.list, request.inline_data, wire) ||
      wire.size() != request.length_bytes) {
    link.signature_errors.clear();
    return false;
  }
  request.inline_data = std::move(wire);
  request.list.assign(1, {.address = 0,
                          .lkey = 0,
                          .bytes = static_cast<std::uint32_t>(request.inline_data.size()),
                          .is_inline = true,
                          .is_physical = false});
  work.converted = true;
  report_signature_errors(link, qp);
  return true;
}

void Requester::report_signature_errors(Link& link, Qp& qp) {
  for (const FoundSignatureError& found : link.signature_errors) {
    report_signature_error(link, qp, qp.send_cq, found);
  }
  if (!link.signature_errors.empty() && qp.drain_sigerr && qp.state == QpState::kRts) {
    qp.state = QpState::kSqDrained;
    stopped_ = true;
  }
  link.signature_errors.clear();
}

// Puts back the WQE that waits for earlier reads, if there is one: a queue that stops has not taken it.
void Requester::give_back_fenced(Qp& qp) {
  if (sending_ + 1 != works_.size()) {
    return;
  }
  const Work& last = works_[sending_];
  if (last.request.fence && last.first_psn == next_psn_ && last.first_psn >= sent_psn_) {
    queue_.give_back(qp, last.request.wqe_counter);
    assigned_psn_ = last.first_psn;
    works_.drop_last();
  }
}

bool Requester::send_data(Link& link, Qp& qp, Work& work) {
  const SendRequest& request = work.request;
  if (request.formatted && !work.converted && !convert(link, qp, work)) {
    return false;
  }
  const std::uint32_t mtu = mtu_bytes(qp);
  const std::uint64_t index = next_psn_ - work.first_psn;
  const bool is_first = index == 0;
  const bool is_last = index + 1 == work.packets;
  const Operations operations = operations_of(request.opcode);
  const Operation operation =
      is_first ? (is_last ? operations.only : operations.first) : (is_last ? operations.last : operations.middle);
  wire::Packet packet;
  packet.bth = header(qp, operation);
  packet.bth.solicited_event = is_last && request.solicited;
  const bool last_credit = qp.packet_credits && credit_psn_ && next_psn_ + 1 >= *credit_psn_;
  packet.bth.ack_request = is_reliable(qp.type) && (is_last || last_credit || unasked_ + 1 >= window_ / 4);
  if (qp.type == QpType::kUd) {
    packet.bth.destination_qpn = request.destination_qpn;
    packet.deth = {request.qkey, qp.qpn};
  }
  packet.xrceth.srqn = request.xrc_srqn;
  packet.dceth = dceth_of(qp);
  packet.reth = {request.remote_address, request.rkey, static_cast<std::uint32_t>(request.length_bytes)};
  packet.imm_dt.immediate = request.immediate;
  packet.ieth.rkey = request.immediate;
  const std::uint64_t offset = index * mtu;
  const std::size_t bytes = std::min<std::uint64_t>(mtu, request.length_bytes - offset);
  const std::span<std::byte> payload = wire::build_headers(packet, bytes, link.port.reserve());
  if (!gather(link, {qp.pdn, qp.qpn}, request.list, request.inline_data, offset, payload)) {
    return false;
  }
  link.port.commit(route_of(qp, work), wire::packet_bytes(packet.bth.opcode, bytes));
  unasked_ = packet.bth.ack_request ? 0 : unasked_ + 1;
  sent(link, 1);
  return true;
}

bool Requester::send_read(Link& link, const Qp& qp, Work& work) {
  const std::uint32_t mtu = mtu_bytes(qp);
  const std::uint64_t index = next_psn_ - work.first_psn;
  // Pieces begin at multiples of their size: what is asked for again is then always a part of what was asked for.
  const std::uint64_t piece = std::min(work.packets - index, kReadPiecePackets - index % kReadPiecePackets);
  if (in_flight() != 0 && in_flight() + piece > window_) {
    return false;
  }
  const std::uint64_t offset = index * mtu;
  wire::Packet packet;
  packet.bth = header(qp, Operation::kRdmaReadRequest);
  packet.bth.ack_request = true;
  packet.bth.solicited_event = work.request.solicited;
  packet.xrceth.srqn = work.request.xrc_srqn;
  packet.dceth = dceth_of(qp);
  packet.reth = {work.request.remote_address + offset, work.request.rkey,
                 static_cast<std::uint32_t>(std::min(piece * mtu, work.request.length_bytes - offset))};
  wire::build_headers(packet, 0, link.port.reserve());
  link.port.commit(route_of(qp, work), wire::packet_bytes(packet.bth.opcode, 0));
  responses_due_.push_back(next_psn_ + piece);
  unasked_ = 0;
  sent(link, piece);
  return true;
}

bool Requester::send_atomic(Link& link, const Qp& qp, Work& work) {
  if (in_flight() >= window_) {
    return false;
  }
  const bool swaps = work.request.opcode == SendOpcode::kAtomicCompareSwap;
  wire::Packet packet;
  packet.bth = header(qp, swaps ? Operation::kCompareSwap : Operation::kFetchAdd);
  packet.bth.ack_request = true;
  packet.bth.solicited_event = work.request.solicited;
  packet.xrceth.srqn = work.request.xrc_srqn;
  packet.dceth = dceth_of(qp);
  packet.atomic_eth = {work.request.remote_address, work.request.rkey, work.request.swap_or_add,
                       swaps ? work.request.compare : 0};
  wire::build_headers(packet, 0, link.port.reserve());
  link.port.commit(route_of(qp, work), wire::packet_bytes(packet.bth.opcode, 0));
  responses_due_.push_back(next_psn_ + 1);
  unasked_ = 0;
  sent(link, 1);
  return true;
}

void Requester::sent(Link& link, std::uint64_t psns) {
  if (done_psn_ == sent_psn_) {  // nothing was under way
    progress_ns_ = link.now_ns;
    resend_interval_ns_ = first_resend_ns();
    resend_ns_ = link.now_ns + resend_interval_ns_;
  }
  if (timed_since_ns_ == 0 && next_psn_ == sent_psn_) {
    timed_psn_ = next_psn_;
    timed_since_ns_ = link.now_ns;
  }
  next_psn_ += psns;
  sent_psn_ = std::max(sent_psn_, next_psn_);
  if (next_psn_ == works_[sending_].end_psn()) {
    ++sending_;
  }
}

// ---- Hearing ----

void Requester::on_response(Link& link, Qp& qp, const wire::Packet& packet) {
  const std::uint64_t ahead = (packet.bth.psn - done_psn_) & 0xffffff;
  if (ahead >= sent_psn_ - done_psn_) {
    return;  // a ghost of what is done, or of what was never sent
  }
  const std::uint64_t psn = done_psn_ + ahead;
  take_credit(qp, psn, packet.aeth);
  if (packet.info().kind == wire::Kind::kAcknowledge) {
    on_acknowledge(link, qp, psn, packet.aeth);
    return;
  }
  if (!done_before(link, qp, psn)) {
    return;
  }
  Work& work = works_.front();
  if (packet.info().kind == wire::Kind::kRdmaReadResponse && work.is_read()) {
    on_read_response(link, qp, work, psn, packet);
  } else if (packet.info().kind == wire::Kind::kAtomicAcknowledge && work.is_atomic()) {
    on_atomic_response(link, qp, work, packet);
  } else {
    fail_front(link, qp, failure::kBadResponse);
  }
}

void Requester::on_acknowledge(Link& link, Qp& qp, std::uint64_t psn, const wire::Aeth& aeth) {
  switch (aeth.kind) {
    case wire::AckKind::kAck:
      done_before(link, qp, psn + 1);
      return;
    case wire::AckKind::kRnrNak:
      on_rnr_nak(link, qp, psn, aeth.value);
      return;
    case wire::AckKind::kNak:
      on_nak(link, qp, psn, aeth.nak_code());
      return;
    case wire::AckKind::kReserved:
      return;
  }
}

void Requester::on_nak(Link& link, Qp& qp, std::uint64_t psn, wire::NakCode code) {
  if (!done_before(link, qp, psn)) {
    return;
  }
  switch (code) {
    case wire::NakCode::kPsnSequenceError:
      ++link.counters.packet_seq_err;
      go_back(link, std::max(window_ / 2, kLossWindowPackets));
      return;
    case wire::NakCode::kInvalidRequest:
      fail_front(link, qp, failure::kRemoteInvalidRequest);
      return;
    case wire::NakCode::kRemoteAccessError:
      fail_front(link, qp, failure::kRemoteAccess);
      return;
    case wire::NakCode::kRemoteOperationalError:
      fail_front(link, qp, failure::kRemoteOperation);
      return;
    case wire::NakCode::kInvalidRdRequest:
      break;
  }
  fail_front(link, qp, failure::kBadResponse);
}

void Requester::on_rnr_nak(Link& link, Qp& qp, std::uint64_t psn, std::uint8_t timer_code) {
  if (!done_before(link, qp, psn)) {
    return;
  }
  if (qp.rnr_retry != kRnrRetryForEver && rnr_tries_ >= qp.rnr_retry) {
    ++link.counters.req_rnr_retries_exceeded;
    fail_front(link, qp, failure::kRnrRetryExceeded);
    return;
  }
  ++rnr_tries_;
  ++link.counters.rnr_nak_retry_err;
  go_back(link, window_);
  held_until_ns_ = link.now_ns + std::uint64_t{wire::rnr_timer_us(timer_code)} * 1000;
  progress_ns_ = held_until_ns_;  // the peer is there: no reason to give up
}

void Requester::on_read_response(Link& link, Qp& qp, Work& work, std::uint64_t psn, const wire::Packet& packet) {
  const std::uint32_t mtu = mtu_bytes(qp);
  const std::uint64_t offset = (psn - work.first_psn) * mtu;
  const std::uint64_t expected_bytes = std::min<std::uint64_t>(mtu, work.request.length_bytes - offset);
  const bool is_last = psn + 1 == work.end_psn();
  if (packet.payload.size() != expected_bytes || (is_last && !packet.info().ends_message())) {
    fail_front(link, qp, failure::kBadResponse);
    return;
  }
  if (!place_read_response(link, qp, work, offset, packet.payload)) {
    fail_front(link, qp, failure::kScatterFault);
    return;
  }
  advance(link, psn + 1);
  finish_front(link, qp);
}

bool Requester::place_read_response(Link& link, Qp& qp, Work& work, std::uint64_t offset,
                                    std::span<const std::byte> payload) {
  const KeyUser user{qp.pdn, qp.qpn};
  if (work.request.formatted) {
    work.responses.resize(offset);
    work.responses.insert(work.responses.end(), payload.begin(), payload.end());
    if (work.responses.size() != work.request.length_bytes) {
      return true;
    }
    const bool placed = scatter_formatted(link, user, work.request.list, work.responses);
    report_signature_errors(link, qp);
    if (stopped_) {
      give_back_fenced(qp);
    }
    return placed;
  }
  if (work.packets == 1 && work.request.signaled && !payload.empty() &&
      payload.size() <= std::min<std::size_t>(qp.inline_scatter_requester_bytes, work.cqe_data.size())) {
    std::memcpy(work.cqe_data.data(), payload.data(), payload.size());
    work.cqe_bytes = static_cast<std::uint32_t>(payload.size());
    return true;
  }
  return scatter(link, user, work.request.list, offset, payload);
}

void Requester::on_atomic_response(Link& link, Qp& qp, Work& work, const wire::Packet& packet) {
  std::array<std::byte, sizeof(std::uint64_t)> bytes;  // in the host's order, as it was in the peer's memory
  std::memcpy(bytes.data(), &packet.atomic_ack_eth.original, bytes.size());
  if (work.request.signaled && qp.inline_scatter_requester_bytes >= bytes.size()) {
    std::memcpy(work.cqe_data.data(), bytes.data(), bytes.size());
    work.cqe_bytes = bytes.size();
  } else if (!scatter(link, {qp.pdn, qp.qpn}, work.request.list, 0, bytes)) {
    fail_front(link, qp, failure::kScatterFault);
    return;
  }
  advance(link, work.end_psn());
  finish_front(link, qp);
}

bool Requester::done_before(Link& link, Qp& qp, std::uint64_t psn) {
  while (done_psn_ < psn) {
    Work& work = works_.front();
    if (work.has_response()) {
      response_missing(link);
      return false;
    }
    advance(link, std::min(psn, work.end_psn()));
    if (!finish_front(link, qp)) {
      return false;
    }
  }
  return qp.state != QpState::kErr;
}

void Requester::advance(Link& link, std::uint64_t psn) {
  const std::uint64_t gained = psn - done_psn_;
  done_psn_ = psn;
  if (next_psn_ < psn) {  // was on the way when we went back
    next_psn_ = psn;
    sending_ = psn == works_.front().end_psn() ? 1 : 0;
  }
  std::size_t arrived = 0;
  while (arrived < responses_due_.size() && responses_due_[arrived] <= psn) {
    ++arrived;
  }
  responses_due_.erase(responses_due_.begin(), responses_due_.begin() + static_cast<std::ptrdiff_t>(arrived));
  if (window_ < threshold_) {
    window_ = std::min(window_ + gained, kMaxWindowPackets);
  } else if (grown_ += gained; grown_ >= window_) {
    grown_ = 0;
    window_ = std::min(window_ + 1, kMaxWindowPackets);
  }
  measure_round_trip(link.now_ns);
  rnr_tries_ = 0;
  progress_ns_ = link.now_ns;
  resend_interval_ns_ = first_resend_ns();
  resend_ns_ = link.now_ns + resend_interval_ns_;
}

bool Requester::finish_front(Link& link, Qp& qp) {
  while (!works_.empty()) {
    Work& work = works_.front();
    if (done_psn_ < work.first_psn || work.waits) {
      return true;
    }
    if (work.request.failure) {
      fail_front(link, qp, work.request.failure);
      return false;
    }
    if (done_psn_ < work.end_psn()) {
      return true;
    }
    if (work.request.signaled) {
      const std::uint32_t byte_count = work.has_response() ? static_cast<std::uint32_t>(work.request.length_bytes) : 0;
      complete_send(link, qp, work.request.wqe_counter, work.request.opcode, byte_count,
                    std::span<const std::byte>{work.cqe_data}.first(work.cqe_bytes), false);
    }
    works_.pop();
    sending_ -= sending_ > 0;
    if (qp.state == QpState::kErr) {
      return false;
    }
  }
  return true;
}

void Requester::fail_front(Link& link, Qp& qp, Failure failure) {
  const Work& work = works_.front();
  if (qp.type == QpType::kDci && qp.max_errored_streams != 0) {
    fail_stream(link, qp, work, failure);
    return;
  }
  fail_send(link, qp, work.request.wqe_counter, work.request.opcode, failure);
  works_.pop();
  sending_ -= sending_ > 0;
  if (is_reliable(qp.type)) {
    link.services.fail_qp(qp);
  } else if (qp.state != QpState::kErr) {
    qp.state = QpState::kSqEr;
    flush(link, qp);
  }
}

// The other streams go on, in a connection of their own time: what is under way of this one counts no more, and what it
// has behind that is flushed.
void Requester::fail_stream(Link& link, Qp& qp, const Work& work, Failure failure) {
  if (failure != failure::kFlushedSend) {
    errored_streams_.insert(work.request.stream);
  }
  fail_send(link, qp, work.request.wqe_counter, work.request.opcode, failure);
  done_psn_ = work.end_psn();
  sent_psn_ = std::max(sent_psn_, done_psn_);
  const std::uint16_t stream = work.request.stream;
  works_.pop();
  for (std::size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].request.stream == stream) {
      works_[i].request.failure = failure::kFlushedSend;
      works_[i].waits = false;
    }
  }
  connected_ = false;
  go_back(link, window_);
  if (errored_streams_.size() >= qp.max_errored_streams) {
    link.services.fail_qp(qp);
  }
}

// ---- Loss ----

void Requester::go_back(Link& link, std::uint64_t window_packets) {
  next_psn_ = done_psn_;
  sending_ = 0;
  responses_due_.clear();
  if (window_packets < window_) {
    threshold_ = std::max(window_ / 2, kLossWindowPackets);
    window_ = window_packets;
  }
  grown_ = 0;
  unasked_ = 0;
  timed_since_ns_ = 0;
  ready_ = true;
  resend_ns_ = link.now_ns + resend_interval_ns_;
}

void Requester::response_missing(Link& link) {
  if (gap_seen_at_ != done_psn_) {
    gap_seen_at_ = done_psn_;
    go_back(link, std::max(window_ / 2, kLossWindowPackets));
  }
}

void Requester::measure_round_trip(std::uint64_t now_ns) {
  if (timed_since_ns_ == 0 || done_psn_ <= timed_psn_) {
    return;
  }
  const std::uint64_t measured_ns = now_ns - timed_since_ns_;
  round_trip_ns_ = round_trip_ns_ == 0 ? measured_ns : round_trip_ns_ - round_trip_ns_ / 8 + measured_ns / 8;
  timed_since_ns_ = 0;
}

std::uint64_t Requester::first_resend_ns() const {
  return std::clamp(kRoundTripsToResend * round_trip_ns_, kLeastResendNs, kLeastTimeoutNs);
}

std::optional<std::uint64_t> Requester::deadline_ns(const Qp& qp) const {
  if (qp.state != QpState::kRts && qp.state != QpState::kSqDrained) {
    return std::nullopt;
  }
  if (held_until_ns_ != 0) {
    return held_until_ns_;
  }
  if (done_psn_ == sent_psn_) {
    return std::nullopt;
  }
  if (qp.ack_timeout == 0) {
    return resend_ns_;
  }
  return std::min(resend_ns_, progress_ns_ + (qp.retry_count + 1u) * timeout_ns(qp));
}

void Requester::on_timer(Link& link, Qp& qp) {
  if (held_until_ns_ != 0) {
    if (link.now_ns >= held_until_ns_) {
      held_until_ns_ = 0;
      ready_ = true;
    }
    return;
  }
  if (done_psn_ == sent_psn_) {
    return;
  }
  if (qp.ack_timeout != 0 && link.now_ns >= progress_ns_ + (qp.retry_count + 1u) * timeout_ns(qp)) {
    fail_front(link, qp, failure::kRetryExceeded);
    return;
  }
  if (link.now_ns >= resend_ns_) {
    ++link.counters.local_ack_timeout_err;
    resend_interval_ns_ = std::min(resend_interval_ns_ * 2, timeout_ns(qp));
    go_back(link, kLossWindowPackets);
  }
}

void Requester::flush(Link& link, Qp& qp) {
  for (; !works_.empty(); works_.pop()) {
    const SendRequest& request = works_.front().request;
    fail_send(link, qp, request.wqe_counter, request.opcode, failure::kFlushedSend);
  }
  sending_ = 0;
  responses_due_.clear();
  done_psn_ = next_psn_ = sent_psn_ = assigned_psn_;
  ready_ = false;
  while (const auto flushed = queue_.take_for_flush(link, qp)) {
    fail_send(link, qp, flushed->wqe_counter, flushed->opcode, failure::kFlushedSend);
  }
}

}  // namespace softhca::hca
