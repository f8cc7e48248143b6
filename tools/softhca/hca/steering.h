// Where received frames go: transport interfaces, tables of receive queues, flow tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/frame.h"
#include "tools/softhca/hca/object_table.h"
#include "tools/softhca/hca/objects.h"
#include "tools/softhca/hca/rss.h"
#include "tools/softhca/hca/services.h"
#include "wqe/prm/flow.h"

namespace softhca::hca {

// Transport interface send: what send queues belong to.
struct Tis {
  std::uint32_t uid = 0;
  std::uint32_t transport_domain = 0;
  std::uint32_t users = 0;
};

// Receive queue table.
struct Rqt {
  std::uint32_t uid = 0;
  std::vector<Qp*> queues;
  std::uint32_t users = 0;
};

// Transport interface receive: a destination of flows. It has a queue, or a table of them.
struct Tir {
  std::uint32_t uid = 0;
  std::uint32_t transport_domain = 0;
  Qp* queue = nullptr;
  Rqt* table = nullptr;
  bool hashes = false, symmetric = false, inner = false;  // inner: the frame in the tunnel is hashed
  ToeplitzKey key{};
  HashFields fields;
  bool own_unicast = false, own_multicast = false;  // receives what its own transport domain sends
  std::uint32_t users = 0;

  Delivery deliver(const Frame& frame, std::span<const std::byte> bytes) const;
};

using HeaderBits = std::array<std::byte, umlx5::wqe::prm::MatchHeaders::kBytes>;

struct FlowGroup {
  std::uint32_t start = 0, end = 0;  // indices, inclusive
  HeaderBits mask{};
};

// What flows count in.
struct FlowCounter {
  std::uint32_t uid = 0;
  std::uint64_t packets = 0, octets = 0;
  std::uint32_t users = 0;
};

struct FlowEntry {
  const FlowGroup* group = nullptr;  // null: no entry
  HeaderBits value{};
  bool drops = false;
  std::uint32_t tag = 0;
  std::vector<umlx5::wqe::prm::FlowDestination> destinations;
  FlowCounter* counter = nullptr;
};

struct FlowTable {
  FlowTable(std::uint32_t owner, std::uint8_t table_level, std::uint32_t entry_count, std::uint32_t max_groups)
      : uid(owner), level(table_level), entries(entry_count), groups(1, max_groups) {}

  std::uint32_t uid;
  std::uint8_t level;
  std::vector<FlowEntry> entries;
  ObjectTable<FlowGroup> groups;
  std::uint32_t users = 0;  // entries of other tables that lead here, and being the root
};

struct Steering {
  ObjectTable<Tis> tises;
  ObjectTable<Rqt> rqts;
  ObjectTable<Tir> tirs;
  ObjectTable<FlowTable> tables;
  ObjectTable<FlowCounter> counters;
  std::uint32_t root = 0;  // 0: no frame is received

  // See Services::steer().
  void steer(const Frame& frame, std::span<const std::byte> bytes, std::optional<std::uint32_t> own_domain,
             std::vector<Delivery>& deliveries) const;
};

}  // namespace softhca::hca
