// What every part of the data path works with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/softhca/hca/counters.h"
#include "tools/softhca/hca/services.h"
#include "tools/softhca/wire/endpoint.h"
#include "tools/softhca/wire/packet.h"

namespace softhca::hca {

// A signature error that was found while a message passed a key.
struct FoundSignatureError {
  std::uint32_t key = 0;
  SignatureError error;
};

struct Link {
  Services& services;
  wire::Endpoint& port;
  std::uint64_t now_ns = 0;                           // monotonic time of the pass that runs
  std::uint64_t epoch_ns = 0;                         // of that time, since 1970
  std::vector<DmaRange> ranges;                       // scratch of resolve(), kept for its capacity
  std::vector<std::byte> frame;                       // scratch of who builds or takes a frame
  std::vector<FoundSignatureError> signature_errors;  // not reported yet
  TransportCounters counters{};
};

// Packets never exceed what a port takes, whatever the QP was told.
constexpr std::uint32_t mtu_bytes(const Qp& qp) { return 128u << std::clamp<std::uint8_t>(qp.path.log_mtu, 1, 5); }

// What the packets of a QP say they are.
constexpr wire::Transport wire_transport(QpType type) {
  switch (type) {
    case QpType::kUc:
      return wire::Transport::kUc;
    case QpType::kUd:
      return wire::Transport::kUd;
    case QpType::kXrc:
      return wire::Transport::kXrc;
    case QpType::kDci:
    case QpType::kDct:
      return wire::Transport::kDc;
    case QpType::kRaw:
      return wire::Transport::kFrame;
    default:
      return wire::Transport::kRc;
  }
}
constexpr bool has_data_path(QpType type) {
  return type == QpType::kRc || type == QpType::kUc || type == QpType::kUd || type == QpType::kXrc ||
         type == QpType::kDci || type == QpType::kDct || type == QpType::kRaw;
}

}  // namespace softhca::hca
