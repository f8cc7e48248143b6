#include "tools/softhca/kernel/counters.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>

#include "wqe/prm/counter.h"

namespace softhca::kernel {
namespace {

namespace prm = umlx5::wqe::prm;
using Port = prm::QueryVportCounterOut;
using Queues = prm::QueryQCounterOut;

// Data counts in words of 4 octets (InfiniBand specification, PortCounters).
constexpr std::uint64_t kOctetsPerWord = 4;

struct PortCounter {
  std::string_view path;
  std::uint64_t (*value)(const Port&);
};
constexpr PortCounter kPortCounters[] = {
    {"counters/port_xmit_data",
     [](const Port& p) {
       return (p.transmitted_ib_unicast.octets + p.transmitted_ib_multicast.octets) / kOctetsPerWord;
     }},
    {"counters/port_rcv_data",
     [](const Port& p) { return (p.received_ib_unicast.octets + p.received_ib_multicast.octets) / kOctetsPerWord; }},
    {"counters/port_xmit_packets",
     [](const Port& p) { return p.transmitted_ib_unicast.packets + p.transmitted_ib_multicast.packets; }},
    {"counters/port_rcv_packets",
     [](const Port& p) { return p.received_ib_unicast.packets + p.received_ib_multicast.packets; }},
    {"counters/unicast_xmit_packets", [](const Port& p) { return p.transmitted_ib_unicast.packets; }},
    {"counters/unicast_rcv_packets", [](const Port& p) { return p.received_ib_unicast.packets; }},
    {"counters/multicast_xmit_packets", [](const Port& p) { return p.transmitted_ib_multicast.packets; }},
    {"counters/multicast_rcv_packets", [](const Port& p) { return p.received_ib_multicast.packets; }},
    {"counters/port_rcv_errors", [](const Port& p) { return p.received_errors.packets; }},
    {"counters/port_xmit_discards", [](const Port& p) { return p.transmit_errors.packets; }},
};

struct QueueCounter {
  std::string_view path;
  std::uint32_t Queues::*value;
};
constexpr QueueCounter kQueueCounters[] = {
    {"hw_counters/rx_write_requests", &Queues::rx_write_requests},
    {"hw_counters/rx_read_requests", &Queues::rx_read_requests},
    {"hw_counters/rx_atomic_requests", &Queues::rx_atomic_requests},
    {"hw_counters/out_of_buffer", &Queues::out_of_buffer},
    {"hw_counters/out_of_sequence", &Queues::out_of_sequence},
    {"hw_counters/duplicate_request", &Queues::duplicate_request},
    {"hw_counters/rnr_nak_retry_err", &Queues::rnr_nak_retry_err},
    {"hw_counters/packet_seq_err", &Queues::packet_seq_err},
    {"hw_counters/implied_nak_seq_err", &Queues::implied_nak_seq_err},
    {"hw_counters/local_ack_timeout_err", &Queues::local_ack_timeout_err},
    {"hw_counters/req_rnr_retries_exceeded", &Queues::req_rnr_retries_exceeded},
};

}  // namespace

std::expected<std::string, int> counter_text(Firmware& firmware, std::string_view path) {
  if (const auto* const counter = std::ranges::find(kPortCounters, path, &PortCounter::path);
      counter != std::end(kPortCounters)) {
    const auto out =
        command<Port>(firmware, prm::QueryVportCounterIn{.header = {.opcode = prm::Opcode::kQueryVportCounter}});
    return out ? std::expected<std::string, int>(std::to_string(counter->value(*out))) : std::unexpected(out.error());
  }
  if (const auto* const counter = std::ranges::find(kQueueCounters, path, &QueueCounter::path);
      counter != std::end(kQueueCounters)) {
    const auto out = command<Queues>(firmware, prm::QueryQCounterIn{.header = {.opcode = prm::Opcode::kQueryQCounter}});
    return out ? std::expected<std::string, int>(std::to_string((*out).*counter->value)) : std::unexpected(out.error());
  }
  return std::unexpected(ENOENT);
}

}  // namespace softhca::kernel
