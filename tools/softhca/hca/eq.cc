// Event queues: writing events, arming, consumer index.
#include <array>
#include <cstdint>

#include "tools/softhca/hca/device.h"

namespace softhca::hca {

using umlx5::wqe::CqErrorEvent;
using umlx5::wqe::CqErrorKind;
using umlx5::wqe::Eqe;
using umlx5::wqe::EventType;
using umlx5::wqe::kEqeOwnerOffset;
using umlx5::wqe::PortEvent;
using umlx5::wqe::QueueEvent;
using umlx5::wqe::QueueKind;

namespace {

constexpr std::uint32_t kIndexMask = 0xffffff;

std::uint32_t waiting_eqes(const Eq& eq) { return (eq.producer - eq.consumer) & kIndexMask; }

void raise_if_armed(Device& device, Eq& eq) {
  if (eq.armed && waiting_eqes(eq) != 0) {
    eq.armed = false;
    device.raised.push_back(eq.vector);
  }
}

}  // namespace

void post_event(Device& device, Eq& eq, const Eqe& eqe) {
  if (waiting_eqes(eq) >= (1u << eq.log_entries)) {
    eq.overrun = true;
    return;
  }
  Eqe owned = eqe;
  owned.owner = ((eq.producer >> eq.log_entries) & 1) != 0;
  std::array<std::byte, Eqe::kBytes> bytes;
  umlx5::wqe::store(bytes.data(), owned);
  const std::uint64_t position = std::uint64_t{eq.producer & ((1u << eq.log_entries) - 1)} * Eqe::kBytes;
  // The owner byte last: software takes the entry as soon as it sees it.
  if (!eq.pages.write(device.dma, position, std::span(bytes).first(kEqeOwnerOffset)) ||
      !device.dma.store8(eq.pages.address(position + kEqeOwnerOffset),
                         static_cast<std::uint8_t>(bytes[kEqeOwnerOffset]))) {
    eq.overrun = true;
    return;
  }
  ++eq.producer;
  raise_if_armed(device, eq);
}

void post_async_event(Device& device, EventType type, std::uint32_t number, std::uint8_t syndrome) {
  Eqe eqe;
  eqe.type = type;
  switch (type) {
    case EventType::kCqError:
      eqe.set_event(CqErrorEvent{.cqn = number, .syndrome = static_cast<CqErrorKind>(syndrome)});
      break;
    case EventType::kPortChange:
      eqe.subtype = syndrome;
      eqe.set_event(PortEvent{.port = static_cast<std::uint8_t>(number)});
      break;
    default:
      eqe.set_event(QueueEvent{.kind = QueueKind::kQp, .number = number});
      break;
  }
  device.eqs.for_each([&](Eq& eq) {
    if ((eq.event_mask >> static_cast<unsigned>(type) & 1) != 0) {
      post_event(device, eq, eqe);
    }
  });
}

void eq_doorbell(Device& device, std::uint32_t word, bool arm) {
  Eq* const eq = device.eqs.find(word >> 24);
  if (eq == nullptr) {
    return;
  }
  eq->consumer = word & kIndexMask;
  eq->armed = eq->armed || arm;
  raise_if_armed(device, *eq);
}

}  // namespace softhca::hca
