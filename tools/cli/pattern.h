// The payload of every message: each byte follows from the seed, the stream, the iteration and its offset, so that a
// byte of another message, or from another place in this one, is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace umlx5::tools {

// Names one message of a run.
struct PatternKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // who sends
  std::uint64_t iteration = 0;
};

// Bytes 8*index .. 8*index+7 of the message, least significant first.
std::uint64_t pattern_word(const PatternKey& key, std::uint64_t index);
std::byte pattern_byte(const PatternKey& key, std::size_t offset);

void fill_pattern(std::span<std::byte> payload, const PatternKey& key);

struct Mismatch {
  std::size_t offset = 0;
  std::byte got{}, want{};
};

// The first byte that is not the pattern's; none if all are right.
std::optional<Mismatch> check_pattern(std::span<const std::byte> payload, const PatternKey& key);

// "payload mismatch in iteration 17: offset 3 of 64 has 0x00, want 0x5c"
std::string describe(const Mismatch& mismatch, std::uint64_t iteration, std::size_t payload_bytes);

}  // namespace umlx5::tools
