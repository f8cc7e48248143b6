// Counters: QUERY_VPORT_COUNTER, QUERY_Q_COUNTER, and those that flows count in.
//
// Layouts: query_vport_counter_in/out, traffic_counter, query_q_counter_in/out, alloc_flow_counter_in and
// query_flow_counter_in/out of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

struct QueryVportCounterIn {
  InputHeader header{};
  bool other_vport{};
  std::uint16_t vport_number{};
  bool clear{};
  static constexpr std::string_view kName = "query_vport_counter_in";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryVportCounterIn::header, bytes(0x0, 8)},
             Field{"other_vport", &QueryVportCounterIn::other_vport, bits(0x8, 31, 31)},
             Field{"vport_number", &QueryVportCounterIn::vport_number, bits(0x8, 15, 0), Format::kDecimal},
             Field{"clear", &QueryVportCounterIn::clear, bits(0x18, 31, 31)}};
};
static_assert(layout_is_valid<QueryVportCounterIn>());

struct TrafficCounter {
  std::uint64_t packets{}, octets{};
  static constexpr std::string_view kName = "traffic_counter";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"packets", &TrafficCounter::packets, bytes(0x0, 8), Format::kDecimal},
                                         Field{"octets", &TrafficCounter::octets, bytes(0x8, 8), Format::kDecimal}};
};
static_assert(layout_is_valid<TrafficCounter>());

// RoCE packets count as InfiniBand ones.
struct QueryVportCounterOut {
  OutputHeader header{};
  TrafficCounter received_errors{}, transmit_errors{}, received_ib_unicast{}, transmitted_ib_unicast{},
      received_ib_multicast{}, transmitted_ib_multicast{};
  static constexpr std::string_view kName = "query_vport_counter_out";
  static constexpr std::size_t kBytes = 0x210;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryVportCounterOut::header, bytes(0x0, 8)},
             Field{"received_errors", &QueryVportCounterOut::received_errors, bytes(0x10, 16)},
             Field{"transmit_errors", &QueryVportCounterOut::transmit_errors, bytes(0x20, 16)},
             Field{"received_ib_unicast", &QueryVportCounterOut::received_ib_unicast, bytes(0x30, 16)},
             Field{"transmitted_ib_unicast", &QueryVportCounterOut::transmitted_ib_unicast, bytes(0x40, 16)},
             Field{"received_ib_multicast", &QueryVportCounterOut::received_ib_multicast, bytes(0x50, 16)},
             Field{"transmitted_ib_multicast", &QueryVportCounterOut::transmitted_ib_multicast, bytes(0x60, 16)}};
};
static_assert(layout_is_valid<QueryVportCounterOut>());

struct QueryQCounterIn {
  InputHeader header{};
  bool clear{};
  std::uint8_t counter_set_id{};
  static constexpr std::string_view kName = "query_q_counter_in";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryQCounterIn::header, bytes(0x0, 8)},
             Field{"clear", &QueryQCounterIn::clear, bits(0x18, 31, 31)},
             Field{"counter_set_id", &QueryQCounterIn::counter_set_id, bits(0x1c, 7, 0), Format::kDecimal}};
};
static_assert(layout_is_valid<QueryQCounterIn>());

struct QueryQCounterOut {
  OutputHeader header{};
  std::uint32_t rx_write_requests{}, rx_read_requests{}, rx_atomic_requests{}, rx_dct_connect{}, out_of_buffer{},
      out_of_sequence{}, duplicate_request{}, rnr_nak_retry_err{}, packet_seq_err{}, implied_nak_seq_err{},
      local_ack_timeout_err{}, req_rnr_retries_exceeded{};
  static constexpr std::string_view kName = "query_q_counter_out";
  static constexpr std::size_t kBytes = 0x100;
  static constexpr auto kFields = Fields{
      Field{"header", &QueryQCounterOut::header, bytes(0x0, 8)},
      Field{"rx_write_requests", &QueryQCounterOut::rx_write_requests, bytes(0x10, 4), Format::kDecimal},
      Field{"rx_read_requests", &QueryQCounterOut::rx_read_requests, bytes(0x18, 4), Format::kDecimal},
      Field{"rx_atomic_requests", &QueryQCounterOut::rx_atomic_requests, bytes(0x20, 4), Format::kDecimal},
      Field{"rx_dct_connect", &QueryQCounterOut::rx_dct_connect, bytes(0x28, 4), Format::kDecimal},
      Field{"out_of_buffer", &QueryQCounterOut::out_of_buffer, bytes(0x30, 4), Format::kDecimal},
      Field{"out_of_sequence", &QueryQCounterOut::out_of_sequence, bytes(0x38, 4), Format::kDecimal},
      Field{"duplicate_request", &QueryQCounterOut::duplicate_request, bytes(0x40, 4), Format::kDecimal},
      Field{"rnr_nak_retry_err", &QueryQCounterOut::rnr_nak_retry_err, bytes(0x48, 4), Format::kDecimal},
      Field{"packet_seq_err", &QueryQCounterOut::packet_seq_err, bytes(0x50, 4), Format::kDecimal},
      Field{"implied_nak_seq_err", &QueryQCounterOut::implied_nak_seq_err, bytes(0x58, 4), Format::kDecimal},
      Field{"local_ack_timeout_err", &QueryQCounterOut::local_ack_timeout_err, bytes(0x60, 4), Format::kDecimal},
      Field{"req_rnr_retries_exceeded", &QueryQCounterOut::req_rnr_retries_exceeded, bytes(0x70, 4), Format::kDecimal}};
};
static_assert(layout_is_valid<QueryQCounterOut>());

// Input of ALLOC_FLOW_COUNTER (output: ObjectOut; DEALLOC_FLOW_COUNTER: ObjectIn).
struct AllocFlowCounterIn {
  InputHeader header{};
  std::uint8_t flow_counter_bulk{};  // a set of flags, one for each size of a row of counters
  static constexpr std::string_view kName = "alloc_flow_counter_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"header", &AllocFlowCounterIn::header, bytes(0x0, 8)},
             Field{"flow_counter_bulk", &AllocFlowCounterIn::flow_counter_bulk, bits(0xc, 7, 0)}};
};
static_assert(layout_is_valid<AllocFlowCounterIn>());

struct QueryFlowCounterIn {
  InputHeader header{};
  bool clear{};
  std::uint16_t num_of_counters{};
  std::uint32_t flow_counter_id{};
  static constexpr std::string_view kName = "query_flow_counter_in";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryFlowCounterIn::header, bytes(0x0, 8)},
             Field{"clear", &QueryFlowCounterIn::clear, bits(0x18, 31, 31)},
             Field{"num_of_counters", &QueryFlowCounterIn::num_of_counters, bits(0x18, 15, 0), Format::kDecimal},
             Field{"flow_counter_id", &QueryFlowCounterIn::flow_counter_id, bytes(0x1c, 4)}};
};
static_assert(layout_is_valid<QueryFlowCounterIn>());
static_assert(offset_bits_of(&QueryFlowCounterIn::flow_counter_id) == 0xe0);

// With one counter.
struct QueryFlowCounterOut {
  OutputHeader header{};
  TrafficCounter flow_statistics{};
  static constexpr std::string_view kName = "query_flow_counter_out";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryFlowCounterOut::header, bytes(0x0, 8)},
             Field{"flow_statistics", &QueryFlowCounterOut::flow_statistics, bytes(0x10, 16)}};
};
static_assert(layout_is_valid<QueryFlowCounterOut>());

}  // namespace umlx5::wqe::prm
