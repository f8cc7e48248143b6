// A wire that loses, repeats, reorders, delays and corrupts packets, always the same way for the same seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "uapi/error.h"

namespace softhca::wire {

// What happens to one packet. A lost packet suffers nothing else; the others may combine.
struct Fault {
  bool lose = false;
  bool corrupt = false;       // one bit of the packet is flipped
  bool duplicate = false;     // one more copy is sent
  bool delay = false;         // the packet is held for FaultPlan::delay_ns()
  bool reorder = false;       // the packet is sent after the next one
  std::uint64_t entropy = 0;  // picks the bit to flip

  friend bool operator==(const Fault&, const Fault&) = default;
};

// Immutable and thread-safe.
class FaultPlan {
 public:
  FaultPlan() = default;

  // "seed=7,loss=0.02,dup=0.01,reorder=0.01,delay=0.01,delay_us=500,corrupt=0.005": any subset in any order; the
  // probabilities are 0..1, also written duplication, reordering and corruption. Empty text is a perfect wire.
  // Defaults: seed 1, probabilities 0, delay_us 500 (at most 10 seconds). Error: EINVAL, naming the key.
  static umlx5::Expected<FaultPlan> parse(std::string_view text);

  bool active() const { return active_; }
  std::uint64_t seed() const { return seed_; }
  std::uint64_t delay_ns() const { return delay_ns_; }

  // The fate of the n-th packet, by the seed and n alone.
  Fault decide(std::uint64_t n) const;

 private:
  friend class FaultParser;
  enum Kind : std::size_t { kLoss, kDuplicate, kReorder, kDelay, kCorrupt, kKinds };

  bool happens(Kind kind, std::uint64_t n) const;

  bool active_ = false;
  std::uint64_t seed_ = 1;
  std::uint64_t delay_ns_ = 500'000;
  std::array<double, kKinds> probability_{};
};

// Flips the bit that `entropy` picks in `packet` (BTH .. ICRC). Never in the BTH's byte that the ICRC does not cover,
// so that a receiver notices every corruption.
void flip_bit(std::span<std::byte> packet, std::uint64_t entropy);

}  // namespace softhca::wire
