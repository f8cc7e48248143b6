// Numbers that look like chance and are the same for the same seed.
#pragma once

#include <cstdint>

namespace softhca::wire {

// The finalizer of SplitMix64: every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A number that depends on all three arguments; `stream` keeps the decisions about one packet independent.
constexpr std::uint64_t draw(std::uint64_t seed, std::uint64_t n, std::uint64_t stream) {
  return mix(mix(mix(seed) ^ n) ^ stream);
}

}  // namespace softhca::wire
