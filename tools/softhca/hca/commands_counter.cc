// QUERY_VPORT_COUNTER, QUERY_Q_COUNTER, and the counters of flows. There is one set of queue counters, number 0, for
// all queue pairs.
#include <memory>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/counter.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

prm::TrafficCounter counter_of(const wire::Traffic& traffic) {
  return {.packets = traffic.packets, .octets = traffic.bytes};
}

}  // namespace

Refusal query_vport_counter(Device& device, const Request& request) {
  const auto in = request.as<prm::QueryVportCounterIn>();
  if (in.other_vport || in.vport_number != 0) {
    return bad_parameter(Syndrome::kVportNumber);
  }
  if (in.clear) {
    return bad_parameter(Syndrome::kCounterClear);
  }
  const wire::EndpointCounters& counters = device.port.counters();
  prm::QueryVportCounterOut out;
  out.received_errors.packets = counters.icrc_errors + counters.malformed_packets;
  out.transmit_errors.packets = counters.send_errors;
  out.received_ib_unicast = counter_of(counters.received_unicast);
  out.transmitted_ib_unicast = counter_of(counters.sent_unicast);
  out.received_ib_multicast = counter_of(counters.received_multicast);
  out.transmitted_ib_multicast = counter_of(counters.sent_multicast);
  request.reply(out);
  return {};
}

Refusal query_q_counter(Device& device, const Request& request) {
  const auto in = request.as<prm::QueryQCounterIn>();
  if (in.counter_set_id != 0) {
    return bad_index(Syndrome::kNoSuchCounterSet);
  }
  if (in.clear) {
    return bad_parameter(Syndrome::kCounterClear);
  }
  const TransportCounters& counters = device.transport.counters();
  prm::QueryQCounterOut out;
  out.rx_write_requests = counters.rx_write_requests;
  out.rx_read_requests = counters.rx_read_requests;
  out.rx_atomic_requests = counters.rx_atomic_requests;
  out.out_of_buffer = counters.out_of_buffer;
  out.out_of_sequence = counters.out_of_sequence;
  out.duplicate_request = counters.duplicate_request;
  out.rnr_nak_retry_err = counters.rnr_nak_retry_err;
  out.packet_seq_err = counters.packet_seq_err;
  out.local_ack_timeout_err = counters.local_ack_timeout_err;
  out.req_rnr_retries_exceeded = counters.req_rnr_retries_exceeded;
  request.reply(out);
  return {};
}

Refusal alloc_flow_counter(Device& device, const Request& request) {
  if (request.as<prm::AllocFlowCounterIn>().flow_counter_bulk != 0) {
    return bad_parameter(Syndrome::kFlowCounterBulk);
  }
  auto counter = std::make_unique<FlowCounter>(FlowCounter{.uid = request.header.uid});
  std::uint32_t number = 0;
  if (!device.steering.counters.insert(counter, number)) {
    return no_resources();
  }
  request.reply_number(number);
  return {};
}

Refusal dealloc_flow_counter(Device& device, const Request& request) {
  FlowCounter* counter = nullptr;
  if (const Refusal refusal =
          find(request, device.steering.counters, request.number(), Syndrome::kNoSuchFlowCounter, counter)) {
    return refusal;
  }
  if (counter->users != 0) {
    return bad_resource_state(Syndrome::kFlowCounterInUse);
  }
  device.steering.counters.erase(request.number());
  return {};
}

Refusal query_flow_counter(Device& device, const Request& request) {
  const auto in = request.as<prm::QueryFlowCounterIn>();
  if (in.num_of_counters > 1) {
    return bad_parameter(Syndrome::kFlowCounterBulk);
  }
  FlowCounter* counter = nullptr;
  if (const Refusal refusal =
          find(request, device.steering.counters, in.flow_counter_id, Syndrome::kNoSuchFlowCounter, counter)) {
    return refusal;
  }
  prm::QueryFlowCounterOut out;
  out.flow_statistics = {.packets = counter->packets, .octets = counter->octets};
  request.reply(out);
  if (in.clear) {
    counter->packets = counter->octets = 0;
  }
  return {};
}

}  // namespace softhca::hca
