// Receive side scaling: the hash of a frame that chooses a receive queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/softhca/hca/frame.h"

namespace softhca::hca {

using ToeplitzKey = std::array<std::uint8_t, 40>;

// The Toeplitz hash as Microsoft's RSS specification defines it; `input` is at most 36 bytes.
std::uint32_t toeplitz(const ToeplitzKey& key, std::span<const std::uint8_t> input);

// Which fields are hashed (rx_hash_field_select).
struct HashFields {
  bool ipv6 = false, udp = false;
  bool source_ip = false, destination_ip = false, source_port = false, destination_port = false;
};

struct FrameHash {
  std::uint32_t value = 0;
  std::uint8_t type = 0;  // cqe.rss_hash_type: device.h CQE_RSS_HTYPE_IP 3:2, CQE_RSS_HTYPE_L4 7:6
};

// A field that the frame does not have is not hashed; nothing to hash gives 0. Symmetric: both directions of a flow
// have the same hash, since where both ends are selected their OR and their XOR are hashed (the kernel documentation's
// networking/scaling.rst, "Symmetric-OR-XOR").
FrameHash hash_frame(const ToeplitzKey& key, bool symmetric, const HashFields& fields, const Frame& frame);

}  // namespace softhca::hca
