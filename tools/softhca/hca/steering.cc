#include "tools/softhca/hca/steering.h"

#include <algorithm>

namespace softhca::hca {
namespace {

namespace prm = umlx5::wqe::prm;

bool matches(const FlowEntry& entry, const HeaderBits& frame) {
  if (entry.group == nullptr) {
    return false;
  }
  for (std::size_t i = 0; i < frame.size(); ++i) {
    if ((frame[i] & entry.group->mask[i]) != (entry.value[i] & entry.group->mask[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace

Delivery Tir::deliver(const Frame& frame, std::span<const std::byte> bytes) const {
  Delivery delivery{.queue = queue};
  if (hashes) {
    const auto tunnelled =
        inner && frame.inner_offset != 0 ? parse_frame(bytes.subspan(frame.inner_offset)) : std::optional<Frame>{};
    const FrameHash hash = hash_frame(key, symmetric, fields, tunnelled.value_or(frame));
    delivery.hash = hash.value;
    delivery.hash_type = hash.type;
  }
  if (table != nullptr) {
    delivery.queue = table->queues[delivery.hash % table->queues.size()];
  }
  return delivery;
}

void Steering::steer(const Frame& frame, std::span<const std::byte> bytes, std::optional<std::uint32_t> own_domain,
                     std::vector<Delivery>& deliveries) const {
  HeaderBits headers;
  umlx5::wqe::store(headers.data(), frame.headers);
  // A table leads to tables of higher levels only.
  for (const FlowTable* table = tables.find(root); table != nullptr;) {
    const auto entry =
        std::ranges::find_if(table->entries, [&](const FlowEntry& candidate) { return matches(candidate, headers); });
    if (entry == table->entries.end()) {
      return;
    }
    if (entry->counter != nullptr) {
      ++entry->counter->packets;
      entry->counter->octets += bytes.size();
    }
    if (entry->drops) {
      return;
    }
    table = nullptr;
    for (const prm::FlowDestination& destination : entry->destinations) {
      if (destination.type == prm::kFlowToTable) {
        table = tables.find(destination.id);
        continue;
      }
      const Tir& tir = *tirs.find(destination.id);
      const bool receives_own = frame.is_multicast() ? tir.own_multicast : tir.own_unicast;
      if (own_domain != std::optional(tir.transport_domain) || receives_own) {
        deliveries.push_back(tir.deliver(frame, bytes));
        deliveries.back().tag = entry->tag;
      }
    }
  }
}

}  // namespace softhca::hca
