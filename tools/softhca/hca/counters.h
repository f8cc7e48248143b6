// What the transport counts, by the names of the device's queue counters (query_q_counter_out).
#pragma once

#include <cstdint>

namespace softhca::hca {

struct TransportCounters {
  std::uint32_t rx_write_requests = 0, rx_read_requests = 0, rx_atomic_requests = 0;
  std::uint32_t out_of_buffer = 0;             // messages that found no receive WQE
  std::uint32_t out_of_sequence = 0;           // requests ahead of what a responder expects
  std::uint32_t duplicate_request = 0;         // requests that a responder has executed before
  std::uint32_t rnr_nak_retry_err = 0;         // RNR NAKs that came and did not exceed the retries
  std::uint32_t packet_seq_err = 0;            // NAKs that came for packets out of sequence
  std::uint32_t local_ack_timeout_err = 0;     // times that a requester sent again because nothing came
  std::uint32_t req_rnr_retries_exceeded = 0;  // and that it gave up after RNR NAKs
};

}  // namespace softhca::hca
