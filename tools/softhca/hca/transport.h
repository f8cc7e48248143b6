// The data path of queue pairs: takes send WQEs, moves packets, writes completions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tools/softhca/hca/counters.h"
#include "tools/softhca/hca/objects.h"
#include "tools/softhca/hca/services.h"
#include "tools/softhca/wire/endpoint.h"

namespace softhca::hca {

// Not thread-safe: the HCA's lock is held around every call.
class Transport {
 public:
  // `services` gives objects, keys and completion queues; `port` is the wire. Both outlive the transport.
  Transport(Services& services, wire::Endpoint& port);
  ~Transport();

  // A command takes `qp` from its state, or destroys it, next: sends the acknowledgements that it owes. An adapter
  // sends them before the program sees what it received; here the program may have seen it first.
  void acknowledge(Qp& qp);
  // A modify command has changed `qp` (its new state and attributes are already in it).
  // Entering ERR flushes: every outstanding WQE of both queues completes with WR_FLUSH. Entering RESET forgets
  // everything.
  void state_changed(Qp& qp, QpState from);
  // The QP goes away: no completion, no packet, no timer of it remains.
  void forget(Qp& qp);

  // The send doorbell of `qp` rang: its producer counter is in the doorbell record.
  void doorbell(Qp& qp);

  // A stream of a DC initiator that has failed may be used again. False if it has not failed.
  bool reset_stream(Qp& qp, std::uint16_t stream);

  // Moves everything that can move now: bounded, so that one busy QP does not starve the others. True if anything
  // moved.
  bool progress(std::uint64_t now_ns);

  const TransportCounters& counters() const;

  // When progress() must be called next though nothing arrives (retransmission, RNR), monotonic nanoseconds.
  std::optional<std::uint64_t> next_deadline_ns() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace softhca::hca
