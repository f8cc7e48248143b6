#include "tools/softhca/hca/transport.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "tools/softhca/hca/frame.h"
#include "tools/softhca/hca/link.h"
#include "tools/softhca/hca/multicast.h"
#include "tools/softhca/hca/qp_transport.h"
#include "tools/softhca/wire/packet.h"
#include "wqe/eqe.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::EventType;

// Packets that one QP may send before the next has its turn, and that one pass handles.
constexpr unsigned kBurstPackets = 16;
constexpr unsigned kPassPackets = 128;
constexpr std::size_t kReceiveBatch = 64;
// Receive WQEs ring no doorbell: those posted to a QP in ERR are looked for, less often the longer none comes.
constexpr std::uint64_t kLeastFlushPeriodNs = 1'000'000;
constexpr std::uint64_t kMostFlushPeriodNs = 64'000'000;

bool receives(QpState state) {
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqDrained || state == QpState::kSqEr;
}

// What CLOCK_MONOTONIC is behind the time since 1970.
std::uint64_t epoch_ns() {
  const auto ns = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  };
  return ns(CLOCK_REALTIME) - ns(CLOCK_MONOTONIC);
}

// More initiators than this, and a target forgets one that is quiet.
constexpr std::size_t kMaxDcPeers = 4096;

// A DC initiator as a target knows it: the responder of their connection, with a QP that stands for the target.
struct DcPeer {
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // DCTN, initiator's address and QPN
  std::uint64_t connection = 0;
  std::unique_ptr<Qp> qp;
};

// The default partition key is the only one.
bool takes_pkey(const wire::Packet& packet) { return (packet.bth.pkey & 0x7fff) == 0x7fff; }

bool sends(QpState state) { return state == QpState::kRts || state == QpState::kSqDrained; }

}  // namespace

Qp::Qp() = default;
Qp::~Qp() = default;

struct Transport::State {
  struct Timer {
    std::uint64_t at_ns;
    QpTransport* owner;
    friend bool operator>(const Timer& a, const Timer& b) { return a.at_ns > b.at_ns; }
  };

  State(Services& services, wire::Endpoint& port)
      : link{.services = services,
             .port = port,
             .epoch_ns = epoch_ns(),
             .ranges = {},
             .frame = {},
             .signature_errors = {}} {}

  void enlist(std::vector<QpTransport*>& list, bool QpTransport::*member, QpTransport& qp) {
    if (!(qp.*member)) {
      qp.*member = true;
      list.push_back(&qp);
    }
  }
  void want_to_send(QpTransport& qp) { enlist(sending, &QpTransport::in_sending, qp); }
  void want_to_answer(QpTransport& qp) { enlist(answering, &QpTransport::in_answering, qp); }

  void respond(QpTransport& qp, const wire::Packet& request);
  void settle();
  void set_timer(QpTransport& qp);
  void drop(QpTransport& qp);
  void enter_error(QpTransport& qp);
  void flush_failed();
  bool flush_late_receives();

  bool hear();
  void hear(const wire::Received& received);
  void hear_group(const wire::Packet& packet, const wire::Received& received);
  void hear_frame(const wire::Packet& packet, wire::Ipv4 source);
  void hear_target(Qp& target, const wire::Packet& packet, const wire::Received& received);
  DcPeer* peer_of(Qp& target, const wire::Packet& packet, const wire::Received& received);
  void forget_peers(const Qp& target);
  bool run_timers();
  bool send();
  bool answer();
  void check_drained(QpTransport& qp);

  Link link;
  std::array<wire::Received, kReceiveBatch> batch{};  // scratch of hear(): dear to clear in every pass
  std::vector<QpTransport*> sending, answering;
  std::vector<QpTransport*> turn;       // scratch of send() and answer()
  std::vector<QpTransport*> failed;     // entered ERR, not flushed yet
  std::vector<QpTransport*> unsettled;  // hold packets out of order that have arrived in this pass
  std::vector<QpTransport*> flushing;   // in ERR with a receive queue of their own
  std::map<DcPeer::Key, DcPeer> dc_peers;
  std::vector<Delivery> deliveries;  // scratch of hear_frame()
  std::vector<Timer> timers;         // a heap; entries may be earlier than what the QP wants now
  std::uint64_t next_flush_ns = 0, flush_period_ns = kLeastFlushPeriodNs;
  bool running = false;  // within progress() or doorbell(): what fails is flushed at the end
};

// ---- Timers ----

void Transport::State::set_timer(QpTransport& qp) {
  const std::optional<std::uint64_t> deadline = qp.requester.deadline_ns(qp.qp);
  if (deadline && (qp.timer_ns == 0 || *deadline < qp.timer_ns)) {
    qp.timer_ns = *deadline;
    timers.push_back({*deadline, &qp});
    std::push_heap(timers.begin(), timers.end(), std::greater<>{});
  }
}

bool Transport::State::run_timers() {
  bool moved = false;
  while (!timers.empty() && timers.front().at_ns <= link.now_ns) {
    const Timer timer = timers.front();
    std::pop_heap(timers.begin(), timers.end(), std::greater<>{});
    timers.pop_back();
    QpTransport& qp = *timer.owner;
    if (timer.at_ns != qp.timer_ns) {
      continue;  // an earlier entry has taken over
    }
    qp.timer_ns = 0;
    const auto deadline = qp.requester.deadline_ns(qp.qp);
    if (deadline && *deadline <= link.now_ns) {
      qp.requester.on_timer(link, qp.qp);
      want_to_send(qp);
      moved = true;
    }
    set_timer(qp);
  }
  return moved;
}

// ---- Packets ----

bool Transport::State::hear() {
  const std::size_t count = link.port.receive(batch);
  for (const wire::Received& received : std::span{batch}.first(count)) {
    hear(received);
  }
  settle();
  return count != 0;
}

void Transport::State::respond(QpTransport& qp, const wire::Packet& request) {
  qp.responder.on_request(link, qp.qp, request);
  if (qp.responder.unsettled()) {
    enlist(unsettled, &QpTransport::in_unsettled, qp);
  }
  if (qp.responder.owes()) {
    want_to_answer(qp);
  }
}

void Transport::State::settle() {
  for (QpTransport* const qp : unsettled) {
    qp->in_unsettled = false;
    qp->responder.settle(link, qp->qp);
    if (qp->responder.owes()) {
      want_to_answer(*qp);
    }
  }
  unsettled.clear();
}

void Transport::State::hear(const wire::Received& received) {
  const auto packet = wire::parse(received.packet);
  if (!packet) {
    return;
  }
  if (received.destination.is_multicast()) {
    hear_group(*packet, received);
    return;
  }
  if (packet->info().transport == wire::Transport::kFrame) {
    hear_frame(*packet, received.source);
    return;
  }
  Qp* const qp = link.services.find_qp(packet->bth.destination_qpn);
  if (qp != nullptr && qp->type == QpType::kDct) {
    hear_target(*qp, *packet, received);
    return;
  }
  if (qp == nullptr || qp->transport == nullptr || packet->info().transport != wire_transport(qp->type) ||
      !receives(qp->state) || !takes_pkey(*packet)) {
    return;
  }
  QpTransport& transport = *qp->transport;
  if (qp->type == QpType::kUd) {
    transport.responder.on_datagram(link, *qp, *packet, received);
    return;
  }
  if (qp->type == QpType::kDci
          ? packet->info().request || transport.requester.connected_to() != std::optional(received.source)
          : received.source != qp->path.route.destination) {
    return;
  }
  if (!packet->info().request) {
    if (sends(qp->state)) {
      transport.requester.on_response(link, *qp, *packet);
      want_to_send(transport);
      set_timer(transport);
      check_drained(transport);
    }
    return;
  }
  if (qp->state == QpState::kRtr && !transport.established) {
    transport.established = true;
    link.services.async_event(static_cast<std::uint8_t>(EventType::kCommunicationEstablished), qp->qpn, 0);
  }
  if (qp->type == QpType::kUc) {
    transport.responder.on_unacknowledged(link, *qp, *packet);
    return;
  }
  respond(transport, *packet);
}

// Every queue pair in the group gets a copy.
void Transport::State::hear_group(const wire::Packet& packet, const wire::Received& received) {
  if (packet.bth.destination_qpn != kMulticastQpn || packet.info().transport != wire::Transport::kUd ||
      !takes_pkey(packet)) {
    return;
  }
  for (Qp* const qp : link.services.receivers_of(received.destination)) {
    const bool own = received.source == link.port.address() && packet.deth.source_qpn == qp->qpn;
    if (qp->transport != nullptr && receives(qp->state) && !(own && qp->blocks_own_multicast)) {
      qp->transport->responder.on_datagram(link, *qp, packet, received);
    }
  }
}

void Transport::State::hear_frame(const wire::Packet& packet, wire::Ipv4 source) {
  const auto frame = parse_frame(packet.payload);
  if (!frame) {
    return;
  }
  deliveries.clear();
  const auto own_domain = source == link.port.address() ? std::optional(packet.feth.transport_domain) : std::nullopt;
  link.services.steer(*frame, packet.payload, own_domain, deliveries);
  for (const Delivery& delivery : deliveries) {
    Qp& queue = *delivery.queue;
    if (queue.transport != nullptr && receives(queue.state)) {
      queue.transport->responder.on_frame(link, queue, *frame, packet.payload, delivery);
    }
  }
}

// The connection that a request belongs to, which it may begin; null if that has gone or is refused.
DcPeer* Transport::State::peer_of(Qp& target, const wire::Packet& packet, const wire::Received& received) {
  const wire::Dceth& dceth = packet.dceth;
  DcPeer& peer = dc_peers[{target.qpn, received.source.value, dceth.source_qpn}];
  if (peer.qp != nullptr && dceth.connection <= peer.connection) {
    return dceth.connection == peer.connection && !peer.qp->transport->responder.closed() ? &peer : nullptr;
  }
  if (peer.qp != nullptr) {
    drop(*peer.qp->transport);
  }
  peer.connection = dceth.connection;
  peer.qp = std::make_unique<Qp>();
  Qp& qp = *peer.qp;
  qp.qpn = target.qpn;
  qp.user_index = target.user_index;
  qp.type = QpType::kDct;
  qp.state = target.state;
  qp.pdn = target.pdn;
  qp.recv_cq = target.recv_cq;
  qp.srq = target.srq;
  qp.has_sq = qp.has_rq = false;
  qp.path = target.path;
  qp.path.route.destination = received.source;
  qp.remote_qpn = dceth.source_qpn;
  qp.min_rnr_timer = target.min_rnr_timer;
  qp.max_target_rd_atomic = target.max_target_rd_atomic;
  qp.remote_read = target.remote_read;
  qp.remote_write = target.remote_write;
  qp.remote_atomic = target.remote_atomic;
  qp.inline_scatter_responder_bytes = target.inline_scatter_responder_bytes;
  qp.reserved_lkey = target.reserved_lkey;
  qp.out_of_order = target.out_of_order;
  qp.transport = std::make_unique<QpTransport>(qp);
  qp.transport->responder.start(qp, dceth.first_psn);
  if (dceth.access_key != target.dc_access_key) {
    ++target.dc_key_violations;
    link.services.async_event(static_cast<std::uint8_t>(EventType::kDctKeyViolation), target.qpn, 0);
    qp.transport->responder.turn_away(link, qp, packet.bth.psn);
    return nullptr;
  }
  return &peer;
}

void Transport::State::hear_target(Qp& target, const wire::Packet& packet, const wire::Received& received) {
  if (target.state != QpState::kRtr || packet.info().transport != wire::Transport::kDc || !packet.info().request ||
      !takes_pkey(packet)) {
    return;
  }
  if (dc_peers.size() >= kMaxDcPeers) {
    const auto quiet =
        std::ranges::find_if(dc_peers, [](const auto& entry) { return !entry.second.qp->transport->responder.owes(); });
    if (quiet != dc_peers.end()) {
      drop(*quiet->second.qp->transport);
      dc_peers.erase(quiet);
    }
  }
  DcPeer* const peer = peer_of(target, packet, received);
  if (peer == nullptr) {
    return;
  }
  respond(*peer->qp->transport, packet);
}

void Transport::State::forget_peers(const Qp& target) {
  for (auto& [key, peer] : dc_peers) {
    if (std::get<0>(key) == target.qpn) {
      drop(*peer.qp->transport);
    }
  }
  std::erase_if(dc_peers, [&](const auto& entry) { return std::get<0>(entry.first) == target.qpn; });
}

bool Transport::State::send() {
  unsigned budget = kPassPackets;
  turn.clear();
  turn.swap(sending);
  bool moved = false;
  for (QpTransport* const qp : turn) {
    qp->in_sending = false;
    if (budget == 0) {
      want_to_send(*qp);
      continue;
    }
    const unsigned turn_budget = std::min(budget, kBurstPackets);
    const unsigned sent = qp->qp.type == QpType::kRaw ? qp->requester.transmit_frames(link, qp->qp, turn_budget)
                                                      : qp->requester.transmit(link, qp->qp, turn_budget);
    budget -= std::min(sent, budget);  // a large send may exceed it
    moved |= sent != 0;
    if (qp->requester.ready()) {
      want_to_send(*qp);
    }
    set_timer(*qp);
    check_drained(*qp);
  }
  return moved;
}

bool Transport::State::answer() {
  unsigned budget = kPassPackets;
  turn.clear();
  turn.swap(answering);
  for (QpTransport* const qp : turn) {
    qp->in_answering = false;
    if (receives(qp->qp.state) && budget != 0) {
      budget -= qp->responder.answer(link, qp->qp, std::min(budget, kBurstPackets));
    }
    if (receives(qp->qp.state) && qp->responder.owes()) {
      want_to_answer(*qp);
    }
  }
  return !turn.empty();
}

void Transport::State::check_drained(QpTransport& qp) {
  qp.drain_awaited |= qp.requester.take_stop();
  if (qp.drain_awaited && qp.qp.state == QpState::kSqDrained && qp.requester.idle()) {
    qp.drain_awaited = false;
    link.services.async_event(static_cast<std::uint8_t>(EventType::kSendQueueDrained), qp.qp.qpn, 0);
  }
}

// ---- Errors ----

void Transport::State::enter_error(QpTransport& qp) {
  failed.push_back(&qp);
  if (!running) {
    flush_failed();
  }
}

void Transport::State::flush_failed() {
  // Completions may overrun a CQ and so make more QPs fail: the list can grow meanwhile.
  running = true;
  for (std::size_t i = 0; i < failed.size(); ++i) {
    QpTransport& qp = *failed[i];
    qp.requester.flush(link, qp.qp);
    qp.responder.flush(link, qp.qp);
    if (qp.qp.srq != nullptr) {
      link.services.async_event(static_cast<std::uint8_t>(EventType::kSrqLastWqe), qp.qp.qpn, 0);
    } else if (qp.qp.has_rq) {
      enlist(flushing, &QpTransport::in_flushing, qp);
      flush_period_ns = kLeastFlushPeriodNs;
      next_flush_ns = link.now_ns + flush_period_ns;
    }
  }
  failed.clear();
  running = false;
}

bool Transport::State::flush_late_receives() {
  if (flushing.empty() || link.now_ns < next_flush_ns) {
    return false;
  }
  bool moved = false;
  for (QpTransport* const qp : flushing) {
    if (qp->responder.has_to_flush(link, qp->qp)) {
      qp->responder.flush(link, qp->qp);
      moved = true;
    }
  }
  flush_period_ns = moved ? kLeastFlushPeriodNs : std::min(flush_period_ns * 2, kMostFlushPeriodNs);
  next_flush_ns = link.now_ns + flush_period_ns;
  return moved;
}

void Transport::State::drop(QpTransport& qp) {
  for (auto* const list : {&sending, &answering, &turn, &failed, &unsettled, &flushing}) {
    std::erase(*list, &qp);
  }
  if (std::erase_if(timers, [&](const Timer& timer) { return timer.owner == &qp; }) != 0) {
    std::make_heap(timers.begin(), timers.end(), std::greater<>{});
  }
}

// ---- The interface ----

Transport::Transport(Services& services, wire::Endpoint& port) : state_(std::make_unique<State>(services, port)) {}
Transport::~Transport() = default;

void Transport::state_changed(Qp& qp, QpState from) {
  if (qp.state == QpState::kReset) {
    forget(qp);
    return;
  }
  if (!has_data_path(qp.type)) {
    return;
  }
  if (qp.type == QpType::kDct) {
    if (qp.state != QpState::kRtr) {
      state_->forget_peers(qp);
    }
    return;
  }
  if (qp.transport == nullptr) {
    qp.transport = std::make_unique<QpTransport>(qp);
  }
  QpTransport& transport = *qp.transport;
  if (qp.state == from) {
    return;
  }
  switch (qp.state) {
    case QpState::kRtr:
      transport.responder.start(qp, qp.initial_receive_psn);
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) {
        transport.requester.start(qp.initial_send_psn);
      }
      transport.drain_awaited = false;
      state_->want_to_send(transport);
      break;
    case QpState::kSqDrained:
      transport.drain_awaited = true;
      state_->check_drained(transport);
      break;
    case QpState::kErr:
      state_->enter_error(transport);
      break;
    default:
      break;
  }
}

void Transport::acknowledge(Qp& qp) {
  if (qp.transport == nullptr || !receives(qp.state)) {
    return;
  }
  state_->running = true;
  qp.transport->responder.answer(state_->link, qp, kPassPackets);
  state_->running = false;
  state_->link.port.flush();
  state_->flush_failed();
}

void Transport::forget(Qp& qp) {
  if (qp.type == QpType::kDct) {
    state_->running = true;
    state_->answer();
    state_->running = false;
    state_->link.port.flush();
    state_->flush_failed();
    state_->forget_peers(qp);
    return;
  }
  if (qp.transport != nullptr) {
    state_->drop(*qp.transport);
    qp.transport.reset();
  }
}

void Transport::doorbell(Qp& qp) {
  if (qp.transport == nullptr) {
    return;
  }
  qp.transport->requester.doorbell();
  if (qp.state == QpState::kErr || qp.state == QpState::kSqEr) {
    state_->running = true;
    qp.transport->requester.flush(state_->link, qp);
    state_->running = false;
    state_->flush_failed();
  } else if (sends(qp.state)) {
    state_->want_to_send(*qp.transport);
  }
}

bool Transport::reset_stream(Qp& qp, std::uint16_t stream) {
  return qp.transport != nullptr && qp.transport->requester.reset_stream(stream);
}

const TransportCounters& Transport::counters() const { return state_->link.counters; }

bool Transport::progress(std::uint64_t now_ns) {
  State& state = *state_;
  state.link.now_ns = now_ns;
  state.running = true;
  // New work goes out before the port is looked at, which costs a system call. What arrives is answered in the next
  // pass: a program that polls has then seen it, and its reply leaves in the same system call as the acknowledgement,
  // but behind it: programs count on having the completion of what they sent before the answer to it.
  bool moved = state.run_timers();
  moved |= state.answer();
  moved |= state.send();
  state.link.port.flush();
  if (state.hear()) {
    moved = true;
    state.send();
    state.link.port.flush();
  }
  moved |= state.flush_late_receives();
  state.flush_failed();
  return moved;
}

std::optional<std::uint64_t> Transport::next_deadline_ns() const {
  const State& state = *state_;
  if (!state.sending.empty() || !state.answering.empty() || !state.failed.empty()) {
    return state.link.now_ns;
  }
  std::optional<std::uint64_t> next;
  const auto consider = [&](std::uint64_t at_ns) { next = std::min(next.value_or(at_ns), at_ns); };
  if (!state.timers.empty()) {
    consider(state.timers.front().at_ns);
  }
  if (!state.flushing.empty()) {
    consider(state.next_flush_ns);
  }
  return next;
}

}  // namespace softhca::hca
