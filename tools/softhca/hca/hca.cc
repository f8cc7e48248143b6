#include "tools/softhca/hca/hca.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "tools/softhca/hca/command.h"
#include "tools/softhca/hca/device.h"
#include "tools/softhca/hca/transport.h"
#include "tools/softhca/hca/uar.h"

namespace softhca::hca {

static_assert(kUarBytes == kUarPageBytes);

namespace {

constexpr std::uint32_t kFirstQpn = 0x80, kFirstCqn = 0x40, kFirstSrqn = 0x20;

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// Numbers from `first` on, below 2^log_limit.
template <typename Object>
ObjectTable<Object> table(std::uint32_t first, std::uint8_t log_limit) {
  return ObjectTable<Object>(first, (1u << log_limit) - first);
}

}  // namespace

Device::Device(const Profile& device_profile, AddressSpace& memory, wire::Endpoint& endpoint, Services& services)
    : profile(device_profile),
      memic(profile.memic_bytes),
      dma(memory, memic),
      port(endpoint),
      user_contexts(table<Domain>(1, profile.log_max_uctx)),
      pds(table<Domain>(1, profile.log_max_pd)),
      xrcds(table<Domain>(1, profile.log_max_xrcd)),
      transport_domains(table<Domain>(1, profile.log_max_transport_domain)),
      uars(profile.uar_pages),
      umems(table<Umem>(1, profile.log_max_umem)),
      mkeys(table<Mkey>(kFirstMkeyIndex, profile.log_max_mkey)),
      psvs(table<Psv>(1, profile.log_max_psv)),
      deks(table<Dek>(1, profile.log_max_dek)),
      logins(table<CryptoLogin>(1, profile.log_max_uctx)),
      eqs(table<Eq>(1, profile.log_max_eq)),
      cqs(table<Cq>(kFirstCqn, profile.log_max_cq)),
      srqs(table<Srq>(kFirstSrqn, profile.log_max_srq)),
      qps(table<QpObject>(kFirstQpn, profile.log_max_qp)),
      steering{.tises = table<Tis>(1, profile.log_max_tir),
               .rqts = table<Rqt>(1, profile.log_max_tir),
               .tirs = table<Tir>(1, profile.log_max_tir),
               .tables = table<FlowTable>(1, profile.log_max_flow_tables),
               .counters = table<FlowCounter>(1, profile.log_max_flow_counters)},
      gids(profile.gid_table_entries),
      transport(services, endpoint) {}

struct Hca::State {
  State(const Profile& profile, AddressSpace& memory, wire::Endpoint& port, Services& services,
        std::function<void(std::uint32_t)> raise_vector)
      : device(profile, memory, port, services), raise(std::move(raise_vector)) {}

  mutable std::mutex mutex;
  Device device;
  std::function<void(std::uint32_t)> raise;

  // Runs `work` with the lock held, then what it left to be done, then raises vectors without the lock.
  template <typename Work>
  auto locked(Work work) {
    std::vector<std::uint32_t> vectors;
    std::unique_lock lock(mutex);
    const auto result = work();
    write_gathered_cqes(device);
    settle_failed_cqs(device);
    vectors.swap(device.raised);
    lock.unlock();
    std::ranges::sort(vectors);
    vectors.erase(std::ranges::unique(vectors).begin(), vectors.end());
    for (const std::uint32_t vector : vectors) {
      raise(vector);
    }
    return result;
  }

  void ring_send_queues(UarPage& page) {
    // QPs may share a register, where a later doorbell replaces an earlier one: every QP's doorbell record counts.
    for (QpObject* const qp : page.qps) {
      device.transport.doorbell(*qp);
    }
  }

  // The register may have held another CQ's arm before: arm words that changed in doorbell records count too.
  void ring_cqs(UarPage& page, std::uint64_t value) {
    const auto named = static_cast<std::uint32_t>(value & 0xffffff);
    for (Cq* const cq : page.cqs) {
      if (cq->cqn == named) {
        arm(device, *cq, static_cast<std::uint32_t>(value >> 32));
      } else if (const auto word = load_arm_word(*cq); word && *word != cq->arm_word) {
        arm(device, *cq, *word);
      }
    }
  }

  std::optional<std::uint32_t> load_arm_word(const Cq& cq) {
    const auto word = device.dma.load32(cq.doorbell_record + 4);
    return word ? std::optional(umlx5::wqe::internal::big_endian(*word)) : std::nullopt;
  }

  bool poll_page(std::uint32_t index) {
    UarPage& page = *device.uars.find(index);
    bool found = false;
    for (std::uint32_t i = 0; i < kSendDoorbells; ++i) {
      found |= device.uars.take64(index, kSendDoorbellOffset + i * kSendDoorbellStride) != 0;
    }
    if (found) {
      ring_send_queues(page);
    }
    if (const std::uint64_t value = device.uars.take64(index, kCqArmOffset); value != 0) {
      ring_cqs(page, value);
      found = true;
    }
    if (!page.eqs.empty()) {
      for (const std::uint32_t offset : {kEqConsumerOffset, kEqArmOffset}) {
        if (const std::uint32_t word = device.uars.take32(index, offset); word != 0) {
          eq_doorbell(device, word, offset == kEqArmOffset);
          found = true;
        }
      }
    }
    return found;
  }
};

Hca::Hca(const Profile& profile, AddressSpace& dma, wire::Endpoint& port, std::function<void(std::uint32_t)> raise)
    : state_(std::make_unique<State>(profile, dma, port, *this, std::move(raise))) {}

Hca::~Hca() = default;

void Hca::execute(std::span<const std::byte> in, std::span<std::byte> out) {
  state_->locked([&] {
    execute_command(state_->device, in, out);
    return true;
  });
}

std::span<std::byte> Hca::uar(std::uint32_t index) {
  const std::lock_guard lock(state_->mutex);
  UarPages& uars = state_->device.uars;
  return uars.find(index) != nullptr ? std::span(uars.page(index), kUarPageBytes) : std::span<std::byte>{};
}

std::expected<std::byte*, int> Hca::map_uar(std::uint32_t index, int protection) {
  const std::lock_guard lock(state_->mutex);
  UarPages& uars = state_->device.uars;
  return uars.find(index) != nullptr ? uars.map(index, protection) : std::unexpected(EINVAL);
}

std::expected<std::byte*, int> Hca::map_memic(std::uint64_t address, std::size_t bytes, int protection) {
  return state_->device.memic.map(address, bytes, protection);
}

void Hca::ring(std::uint32_t uar_index, std::uint32_t offset_bytes, std::uint64_t value_big_endian) {
  constexpr std::uint32_t kSendDoorbellEnd = kSendDoorbellOffset + kSendDoorbells * kSendDoorbellStride;
  state_->locked([&] {
    UarPage* const page = state_->device.uars.find(uar_index);
    if (page == nullptr) {
      return false;
    }
    if (offset_bytes >= kSendDoorbellOffset && offset_bytes < kSendDoorbellEnd) {
      state_->ring_send_queues(*page);
    } else if (offset_bytes == kCqArmOffset) {
      state_->ring_cqs(*page, value_big_endian);
    } else if (offset_bytes == kEqArmOffset || offset_bytes == kEqConsumerOffset) {
      eq_doorbell(state_->device, static_cast<std::uint32_t>(value_big_endian >> 32), offset_bytes == kEqArmOffset);
    }
    return true;
  });
}

bool Hca::poll() { return poll(now_ns()); }

bool Hca::poll(std::uint64_t now_ns) {
  return state_->locked([&] {
    bool done = false;
    for (const std::uint32_t index : state_->device.uars.allocated()) {
      done |= state_->poll_page(index);
    }
    done |= state_->device.transport.progress(now_ns);
    return done;
  });
}

bool Hca::doorbell_waits() const {
  const std::lock_guard lock(state_->mutex);
  const UarPages& uars = state_->device.uars;
  return std::ranges::any_of(uars.allocated(), [&](std::uint32_t index) { return uars.waits(index); });
}

std::optional<std::uint64_t> Hca::next_deadline_ns() const {
  const std::lock_guard lock(state_->mutex);
  const auto transport = state_->device.transport.next_deadline_ns();
  const auto port = state_->device.port.next_deadline_ns();
  return transport && port ? std::min(*transport, *port) : transport ? transport : port;
}

// ---- Services: called with the lock held ----

const Profile& Hca::profile() const { return state_->device.profile; }
AddressSpace& Hca::dma() { return state_->device.dma; }
Qp* Hca::find_qp(std::uint32_t qpn) { return state_->device.qps.find(qpn); }
Srq* Hca::find_srq(std::uint32_t srqn) { return state_->device.srqs.find(srqn); }

std::span<Qp* const> Hca::receivers_of(wire::Ipv4 group) { return state_->device.groups.receivers(group); }

bool Hca::has_gid(std::uint8_t index) {
  const auto& gids = state_->device.gids;
  return index < gids.size() && std::ranges::any_of(gids[index].source_l3_address, [](auto byte) { return byte != 0; });
}

MkeyFault Hca::resolve(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes, Access access,
                       std::vector<DmaRange>& ranges) {
  return resolve_key(state_->device.mkeys, state_->device.profile.max_indirection, key, user, va, bytes, access,
                     ranges);
}

bool Hca::invalidate(const KeyUser& user, std::uint32_t key) { return invalidate_key(state_->device.mkeys, user, key); }

bool Hca::update_key(const KeyUser& user, const KeyUpdate& update) {
  return hca::update_key(state_->device.mkeys, user, update);
}

std::optional<FormattedKey> Hca::formatted_key(std::uint32_t key) {
  return hca::formatted_key(state_->device.mkeys, key);
}

MkeyFault Hca::resolve_formatted(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes,
                                 Access access, std::vector<DmaRange>& ranges) {
  return resolve_formatted_key(state_->device.mkeys, state_->device.profile.max_indirection, key, user, va, bytes,
                               access, ranges);
}

Psv* Hca::find_psv(std::uint32_t psv) { return state_->device.psvs.find(psv); }

const Dek* Hca::find_dek(std::uint32_t dek) { return state_->device.deks.find(dek); }

bool Hca::set_psv(const KeyUser& user, const PsvUpdate& update) {
  return hca::set_psv(state_->device.psvs, user, update);
}

void Hca::steer(const Frame& frame, std::span<const std::byte> bytes, std::optional<std::uint32_t> own_domain,
                std::vector<Delivery>& deliveries) {
  state_->device.steering.steer(frame, bytes, own_domain, deliveries);
}

void Hca::complete(Cq& cq, std::span<const std::byte, 64> cqe64, std::span<const std::byte> scatter, bool solicited) {
  hca::complete(state_->device, cq, cqe64, scatter, solicited);
}

void Hca::async_event(std::uint8_t event_type, std::uint32_t object_number, std::uint8_t syndrome) {
  post_async_event(state_->device, static_cast<umlx5::wqe::EventType>(event_type), object_number, syndrome);
}

void Hca::fail_qp(Qp& qp) { hca::fail_qp(state_->device, static_cast<QpObject&>(qp)); }

}  // namespace softhca::hca
