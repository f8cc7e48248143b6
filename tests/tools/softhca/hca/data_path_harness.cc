#include "tests/tools/softhca/hca/data_path_harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace softhca::hca::harness {
namespace {

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr, "harness: %s\n", what);
  std::abort();
}

PageList pages_of(std::span<std::byte> region, std::uint32_t first_offset_bytes) {
  PageList pages;
  pages.log_page_bytes = 12;
  pages.first_offset_bytes = first_offset_bytes;
  for (std::size_t offset = 0; offset < region.size(); offset += 4096) {
    pages.page_addresses.push_back(address_of(region) + offset);
  }
  return pages;
}

std::string_view requester_name(unsigned opcode) {
  switch (opcode) {
    case kNop:
      return "NOP";
    case kSendInvalidate:
      return "SEND_INV";
    case kWrite:
      return "WRITE";
    case kWriteImmediate:
      return "WRITE_IMM";
    case kSend:
      return "SEND";
    case kSendImmediate:
      return "SEND_IMM";
    case kRead:
      return "READ";
    case kCompareSwap:
      return "CS";
    case kFetchAdd:
      return "FA";
    case kUmr:
      return "UMR";
    case kMmo:
      return "MMO";
    default:
      return "?";
  }
}

}  // namespace

// ---- Memory ----

std::span<std::byte> Memory::allocate(std::size_t bytes) {
  // Whole pages, page-aligned, so that queues can have page lists.
  const std::size_t words = (bytes + 2 * 4096) / 8;
  auto storage = std::make_unique<std::uint64_t[]>(words);
  const std::uint64_t address = (reinterpret_cast<std::uint64_t>(storage.get()) + 4095) & ~std::uint64_t{4095};
  storage_[address] = std::move(storage);
  regions_[address] = bytes;
  return {reinterpret_cast<std::byte*>(address), bytes};
}

void Memory::unmap(std::span<std::byte> region) { regions_.erase(address_of(region)); }

bool Memory::reaches(std::uint64_t address, std::uint64_t bytes) const {
  if (trusted_) {
    return true;
  }
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) {
    return false;
  }
  --after;
  const std::uint64_t offset = address - after->first;
  return offset <= after->second && bytes <= after->second - offset;
}

bool Memory::read(std::uint64_t address, std::span<std::byte> to) {
  if (!reaches(address, to.size())) {
    return false;
  }
  std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
  return true;
}

bool Memory::write(std::uint64_t address, std::span<const std::byte> from) {
  if (!reaches(address, from.size())) {
    return false;
  }
  std::memcpy(reinterpret_cast<void*>(address), from.data(), from.size());
  return true;
}

std::optional<std::uint32_t> Memory::load32(std::uint64_t address) {
  std::uint32_t value = 0;
  if (!read(address, std::as_writable_bytes(std::span{&value, 1}))) {
    return std::nullopt;
  }
  return value;
}

bool Memory::store8(std::uint64_t address, std::uint8_t value) {
  return write(address, std::as_bytes(std::span{&value, 1}));
}

std::optional<std::uint64_t> Memory::compare_swap(std::uint64_t address, std::uint64_t compare, std::uint64_t swap) {
  std::uint64_t value = 0;
  if (!read(address, std::as_writable_bytes(std::span{&value, 1}))) {
    return std::nullopt;
  }
  if (value == compare) {
    write(address, std::as_bytes(std::span{&swap, 1}));
  }
  return value;
}

std::optional<std::uint64_t> Memory::fetch_add(std::uint64_t address, std::uint64_t add) {
  std::uint64_t value = 0;
  if (!read(address, std::as_writable_bytes(std::span{&value, 1}))) {
    return std::nullopt;
  }
  const std::uint64_t sum = value + add;
  write(address, std::as_bytes(std::span{&sum, 1}));
  return value;
}

// ---- Wire ----

void Wire::attach(Port& port) { ports_[port.address().value] = &port; }

void Wire::deliver(wire::Ipv4 source, wire::Ipv4 destination, std::span<const std::byte> packet) {
  if (const auto found = ports_.find(destination.value); found != ports_.end()) {
    found->second->arrive(source, destination, packet);
  }
  const auto [first, last] = groups_.equal_range(destination.value);
  for (auto member = first; member != last; ++member) {
    member->second->arrive(source, destination, packet);
  }
}

void Wire::carry(wire::Ipv4 source, wire::Ipv4 destination, std::span<const std::byte> packet) {
  if (keep_log) {
    log.emplace_back(packet.begin(), packet.end());
  }
  const Fate what = fate ? fate(packets, source, packet) : Fate{};
  ++packets;
  for (unsigned copy = 0; copy < what.copies; ++copy) {
    if (what.behind != 0) {
      held_.push_back({what.behind, source, destination, Bytes(packet.begin(), packet.end())});
    } else {
      deliver(source, destination, packet);
    }
  }
  release_held(false);
}

void Wire::release_held(bool all) {
  for (std::size_t i = 0; i < held_.size();) {
    if (all || held_[i].behind-- == 0) {
      const Held held = std::move(held_[i]);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
      deliver(held.source, held.destination, held.packet);
    } else {
      ++i;
    }
  }
}

Port::Port(Wire& wire, wire::Ipv4 address) : wire_(wire), address_(address) { wire.attach(*this); }

void Port::arrive(wire::Ipv4 source, wire::Ipv4 destination, std::span<const std::byte> packet) {
  arrived_.push_back({source, destination, Bytes(packet.begin(), packet.end())});
}

wire::Expected<void> Port::join(wire::Ipv4 group) {
  if (refuses_groups) {
    return umlx5::fail(ENOBUFS, "no more groups");
  }
  wire_.leave(group.value, *this);
  wire_.join(group.value, *this);
  return {};
}

std::span<std::byte> Port::reserve() { return buffer_; }

void Port::commit(const wire::Route& route, std::size_t bytes) {
  last_route = route;
  wire_.carry(address_, route.destination, std::span{buffer_}.first(bytes));
}

std::size_t Port::receive(std::span<wire::Received> out) {
  handed_out_.clear();
  while (handed_out_.size() < out.size() && !arrived_.empty()) {
    handed_out_.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
  }
  for (std::size_t i = 0; i < handed_out_.size(); ++i) {
    out[i] = wire::Received{.source = handed_out_[i].source,
                            .destination = handed_out_[i].destination,
                            .source_port = 0xc000,
                            .traffic_class = traffic_class,
                            .hop_limit = hop_limit,
                            .looped_back = false,
                            .packet = handed_out_[i].packet};
  }
  return handed_out_.size();
}

// ---- Device ----

std::string Completion::text() const {
  constexpr std::array<const char*, 5> kGood{"REQ", "WRITE_IMM", "RECV", "RECV_IMM", "RECV_INV"};
  std::string out;
  char piece[64];
  if (opcode() == 13 || opcode() == 14) {
    std::snprintf(piece, sizeof piece, "%s_ERR %02x", opcode() == 13 ? "REQ" : "RESP", syndrome());
    out = piece;
  } else {
    out = opcode() < kGood.size() ? kGood[opcode()] : "?";
  }
  if (opcode() == 0 || opcode() == 13) {
    (out += ' ') += requester_name(send_opcode());
  }
  std::snprintf(piece, sizeof piece, " #%u", wqe_counter());
  return out += piece;
}

Device::Device(Wire& wire, wire::Ipv4 address) : port(std::make_unique<Port>(wire, address)), transport(*this, *port) {}

Device::Device(std::unique_ptr<wire::Endpoint> real) : endpoint(std::move(real)), transport(*this, *endpoint) {}

Qp* Device::find_qp(std::uint32_t qpn) {
  const auto found = qps.find(qpn);
  return found == qps.end() ? nullptr : found->second.get();
}

Srq* Device::find_srq(std::uint32_t srqn) {
  const auto found = srqs.find(srqn);
  return found == srqs.end() ? nullptr : found->second.get();
}

MkeyFault Device::resolve(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes, Access access,
                          std::vector<DmaRange>& ranges) {
  ++resolves;
  if (bytes == 0) {
    return MkeyFault::kNone;
  }
  const auto found = keys.find(key);
  if (found == keys.end()) {
    return MkeyFault::kNoSuchKey;
  }
  const Key& known = found->second;
  if (known.pdn != user.pdn) {
    return MkeyFault::kWrongPd;
  }
  const bool allowed = access == Access::kLocalRead || (access == Access::kLocalWrite && known.local_write) ||
                       (access == Access::kRemoteRead && known.remote_read) ||
                       (access == Access::kRemoteWrite && known.remote_write) ||
                       (access == Access::kRemoteAtomic && known.remote_atomic);
  if (!allowed) {
    return MkeyFault::kNoRight;
  }
  const std::uint64_t start = address_of(known.memory);
  if (va < start || va - start > known.memory.size() || bytes > known.memory.size() - (va - start)) {
    return MkeyFault::kOutOfBounds;
  }
  while (bytes != 0) {
    const std::uint64_t limit = known.split_bytes == 0 ? bytes : known.split_bytes - (va - start) % known.split_bytes;
    const auto piece = static_cast<std::uint32_t>(std::min(bytes, limit));
    ranges.push_back({va, piece});
    va += piece;
    bytes -= piece;
  }
  return MkeyFault::kNone;
}

bool Device::invalidate(const KeyUser& user, std::uint32_t key) {
  const auto found = keys.find(key);
  if (found == keys.end() || !found->second.may_invalidate || found->second.pdn != user.pdn) {
    return false;
  }
  keys.erase(found);
  return true;
}

bool Device::update_key(const KeyUser&, const KeyUpdate& update) {
  updates.push_back(update);
  return !refuses_updates;
}

void Device::complete(Cq& cq, std::span<const std::byte, 64> cqe64, std::span<const std::byte> scatter,
                      bool solicited) {
  Completion completion;
  std::copy(cqe64.begin(), cqe64.end(), completion.cqe.begin());
  completion.data.assign(scatter.begin(), scatter.end());
  completion.solicited = solicited;
  completions[&cq].push_back(std::move(completion));
}

void Device::async_event(std::uint8_t event_type, std::uint32_t object_number, std::uint8_t) {
  events.push_back({event_type, object_number});
}

void Device::fail_qp(Qp& qp) {
  if (qp.state != QpState::kErr) {
    set_state(qp, QpState::kErr);
  }
}

std::uint32_t Device::add_key(std::size_t bytes) {
  const std::uint32_t key = next_key_;
  next_key_ += 0x100;
  Key added;
  added.memory = memory.allocate(bytes);
  keys[key] = added;
  return key;
}

void Device::set_state(Qp& qp, QpState state) {
  const QpState from = qp.state;
  qp.state = state;
  transport.state_changed(qp, from);
}

// ---- Queue ----

Queue::Queue(Device& on, const Options& options) : device(on) {
  auto created = std::make_unique<Qp>();
  qp = created.get();
  device.qps[options.qpn] = std::move(created);
  qp->qpn = options.qpn;
  qp->pdn = 1;
  qp->send_cq = &send_cq;
  qp->recv_cq = &recv_cq;
  qp->srq = options.srq;
  qp->log_sq_wqebbs = options.log_sq_wqebbs;
  qp->log_rq_entries = options.log_rq_entries;
  qp->rq_wqe_bytes = options.rq_wqe_bytes;
  qp->has_rq = options.srq == nullptr;
  const std::size_t rq_bytes = qp->has_rq ? std::size_t{options.rq_wqe_bytes} << options.log_rq_entries : 0;
  const std::size_t sq_bytes = std::size_t{64} << options.log_sq_wqebbs;
  const std::size_t skipped = options.sq_page_offset_bytes;
  const std::span<std::byte> buffer = device.memory.allocate((skipped + rq_bytes + sq_bytes + 4095) / 4096 * 4096);
  qp->pages = pages_of(buffer, options.sq_page_offset_bytes);
  rq = buffer.subspan(skipped, rq_bytes);
  sq = buffer.subspan(skipped + rq_bytes, sq_bytes);
  qp->sq_position = rq_bytes;
  doorbell_record = device.memory.allocate(8);
  qp->doorbell_record = address_of(doorbell_record);
}

Bytes Queue::encode(const WorkRequest& request) const {
  Bytes wqe(16);
  const auto append = [&](std::size_t bytes) {
    wqe.resize(wqe.size() + bytes);
    return std::span{wqe}.last(bytes);
  };
  append(request.body_bytes);
  if (request.opcode == kMmo) {  // where the status goes; the list is source and destination
    const auto metadata = append(16);
    put<std::uint32_t>(metadata, 4, request.rkey);
    put<std::uint64_t>(metadata, 8, request.remote_address);
  }
  if ((qp->type == QpType::kUd || qp->type == QpType::kDci) && request.opcode != kNop && request.opcode != kMmo) {
    const auto vector = append(48);
    put<std::uint32_t>(vector, 0, request.address.qkey);
    if (qp->type == QpType::kDci) {
      put<std::uint64_t>(vector, 0, request.access_key);
    }
    put<std::uint32_t>(vector, 8, 0x80000000 | request.address.qpn);
    put<std::uint16_t>(vector, 14, request.address.source_port);
    vector[26] = static_cast<std::byte>(request.address.traffic_class);
    vector[27] = static_cast<std::byte>(request.address.hop_limit);
    put<std::uint32_t>(vector, 28, std::uint32_t{request.address.sgid_index} << 20);
    put<std::uint16_t>(vector, 42, 0xffff);
    put<std::uint32_t>(vector, 44, request.address.ipv4);
  }
  if (qp->type == QpType::kXrc && request.opcode != kNop) {
    put<std::uint32_t>(append(16), 0, request.xrc_srqn);
  }
  const bool atomic = request.opcode == kCompareSwap || request.opcode == kFetchAdd;
  if (atomic || request.opcode == kRead || request.opcode == kWrite || request.opcode == kWriteImmediate) {
    const auto raddr = append(16);
    put<std::uint64_t>(raddr, 0, request.remote_address);
    put<std::uint32_t>(raddr, 8, request.rkey);
  }
  if (atomic) {
    const auto operands = append(16);
    put<std::uint64_t>(operands, 0, request.swap_or_add);
    put<std::uint64_t>(operands, 8, request.compare);
  }
  for (const Sge& sge : request.list) {
    if (sge.bytes == 0) {  // libraries leave them out; on the wire 0 would mean 2 GiB
      continue;
    }
    const auto data = append(16);
    put<std::uint32_t>(data, 0, sge.bytes);
    put<std::uint32_t>(data, 4, sge.key);
    const auto found = device.keys.find(sge.key);
    const std::uint64_t base = found == device.keys.end() ? 0 : address_of(found->second.memory);
    put<std::uint64_t>(data, 8, base + sge.offset_bytes);
  }
  if (request.inline_data) {
    const auto data = append((4 + request.inline_data->size() + 15) / 16 * 16);
    put<std::uint32_t>(data, 0, 0x80000000u | static_cast<std::uint32_t>(request.inline_data->size()));
    std::copy(request.inline_data->begin(), request.inline_data->end(), data.begin() + 4);
  }
  put<std::uint32_t>(wqe, 0, static_cast<std::uint32_t>(sq_producer) << 8 | request.opcode);
  put<std::uint32_t>(wqe, 4, qp->qpn << 8 | static_cast<std::uint32_t>(wqe.size() / 16));
  wqe[0] = static_cast<std::byte>(request.opmod);
  put<std::uint16_t>(wqe, 9, request.stream);
  wqe[11] = static_cast<std::byte>(request.fm_ce_se);
  put<std::uint32_t>(wqe, 12, request.immediate);
  return wqe;
}

std::uint16_t Queue::write_wqe(const WorkRequest& request) {
  const Bytes wqe = encode(request);
  const std::size_t start = std::size_t{sq_producer} * 64;
  for (std::size_t i = 0; i < wqe.size(); ++i) {
    sq[(start + i) % sq.size()] = wqe[i];
  }
  const std::uint16_t counter = sq_producer;
  sq_producer = static_cast<std::uint16_t>(sq_producer + (wqe.size() + 63) / 64);
  return counter;
}

void Queue::ring() {
  put<std::uint32_t>(doorbell_record, 4, sq_producer);
  device.transport.doorbell(*qp);
}

std::uint16_t Queue::post(const WorkRequest& request) {
  const std::uint16_t counter = write_wqe(request);
  ring();
  return counter;
}

namespace {

void write_receive(Device& device, std::span<std::byte> wqe, const std::vector<Sge>& list) {
  if (list.size() > wqe.size() / 16) {
    misuse("receive list too long");
  }
  std::size_t at = 0;
  for (const Sge& sge : list) {
    put<std::uint32_t>(wqe, at, sge.bytes);
    put<std::uint32_t>(wqe, at + 4, sge.key);
    const auto found = device.keys.find(sge.key);
    put<std::uint64_t>(wqe, at + 8,
                       (found == device.keys.end() ? 0 : address_of(found->second.memory)) + sge.offset_bytes);
    at += 16;
  }
  if (at < wqe.size()) {
    put<std::uint32_t>(wqe, at, 0);
    put<std::uint32_t>(wqe, at + 4, 0x100);
    put<std::uint64_t>(wqe, at + 8, 0);
  }
}

}  // namespace

void Queue::post_receive(const std::vector<Sge>& list) {
  const std::size_t slot = rq_producer % (std::size_t{1} << qp->log_rq_entries);
  write_receive(device, rq.subspan(slot * qp->rq_wqe_bytes, qp->rq_wqe_bytes), list);
  ++rq_producer;
  put<std::uint32_t>(doorbell_record, 0, rq_producer);
}

namespace {

std::string join(const std::vector<Completion>& completions) {
  std::string out;
  for (const Completion& completion : completions) {
    out += (out.empty() ? "" : "; ") + completion.text();
  }
  return out;
}

}  // namespace

std::string Queue::send_text() { return join(sends()); }
std::string Queue::receive_text() { return join(receives()); }

SharedQueue::SharedQueue(Device& device, std::uint32_t srqn, std::uint8_t log_entries, std::uint32_t wqe_bytes)
    : device_(device) {
  auto created = std::make_unique<Srq>();
  srq = created.get();
  device.srqs[srqn] = std::move(created);
  srq->srqn = srqn;
  srq->pdn = 1;
  srq->log_entries = log_entries;
  srq->wqe_bytes = wqe_bytes;
  ring = device.memory.allocate((std::size_t{wqe_bytes} << log_entries) + 4096);
  srq->pages = pages_of(ring, 0);
  doorbell_record = device.memory.allocate(4);
  srq->doorbell_record = address_of(doorbell_record);
  srq->cq = &cq;
}

void SharedQueue::post_receive(const std::vector<Sge>& list) {
  // The links go backwards, so that an index taken from a counter would be seen.
  const std::uint16_t entries = static_cast<std::uint16_t>(1u << srq->log_entries);
  const std::uint16_t index = static_cast<std::uint16_t>((entries - posted_ % entries) % entries);
  const std::uint16_t next = static_cast<std::uint16_t>((index + entries - 1) % entries);
  const auto wqe = ring.subspan(std::size_t{index} * srq->wqe_bytes, srq->wqe_bytes);
  put<std::uint16_t>(wqe, 2, next);
  write_receive(device_, wqe.subspan(16), list);
  ++posted_;
  put<std::uint32_t>(doorbell_record, 0, posted_);
}

// ---- Pair ----

namespace {

void connect(Queue& self, const Queue& peer, wire::Ipv4 peer_address, const PairOptions& options,
             std::uint32_t send_psn, std::uint32_t receive_psn) {
  Qp& qp = *self.qp;
  qp.type = options.type;
  qp.path.log_mtu = options.log_mtu;
  qp.qkey = Address{}.qkey;
  if (qp.type != QpType::kUd) {
    qp.path.route.destination = peer_address;
    qp.remote_qpn = peer.qp->qpn;
  }
  qp.initial_send_psn = send_psn;
  qp.initial_receive_psn = receive_psn;
  qp.retry_count = options.retry_count;
  qp.rnr_retry = options.rnr_retry;
  qp.ack_timeout = options.ack_timeout;
  qp.min_rnr_timer = options.min_rnr_timer;
  qp.max_initiated_rd_atomic = qp.max_target_rd_atomic = options.rd_atomic;
  qp.remote_read = qp.remote_write = qp.remote_atomic = true;
  self.device.set_state(qp, QpState::kInit);
  self.device.set_state(qp, QpState::kRtr);
  self.device.set_state(qp, QpState::kRts);
}

}  // namespace

Pair::Pair(const PairOptions& options)
    : device_a(wire, wire::Ipv4{0x7f000002}),
      device_b(wire, wire::Ipv4{0x7f000003}),
      a(device_a, options.a),
      b(device_b, options.b) {
  connect(a, b, device_b.port->address(), options, options.psn_a, options.psn_b);
  connect(b, a, device_a.port->address(), options, options.psn_b, options.psn_a);
}

void Pair::run_now() {
  for (unsigned pass = 0; pass < 1'000'000; ++pass) {
    bool moved = device_a.transport.progress(now_ns);
    moved |= device_b.transport.progress(now_ns);
    if (!moved && device_a.port->empty() && device_b.port->empty()) {
      if (wire.idle()) {
        return;
      }
      wire.release_held(true);
    }
  }
  misuse("the pair does not come to rest");
}

void Pair::run(std::uint64_t for_ns) {
  const std::uint64_t end_ns = now_ns + for_ns;
  for (unsigned step = 0; step < 1'000'000; ++step) {
    run_now();
    const auto next_a = device_a.transport.next_deadline_ns();
    const auto next_b = device_b.transport.next_deadline_ns();
    if (!next_a && !next_b) {
      return;
    }
    const std::uint64_t next = std::min(next_a.value_or(~std::uint64_t{0}), next_b.value_or(~std::uint64_t{0}));
    if (next > end_ns) {
      now_ns = end_ns;
      return;
    }
    now_ns = std::max(now_ns, next);
  }
  misuse("time does not end");
}

}  // namespace softhca::hca::harness
