#include "tools/cli/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace umlx5::tools {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;  // splitmix64 (Steele, Lea, Flood 2014)

constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Word `index` is the index-th output of the generator that starts here.
constexpr std::uint64_t start_of(const PatternKey& key) {
  return mix(mix(key.seed + kStep) + (std::uint64_t{key.stream} << 48) + key.iteration);
}

constexpr std::uint64_t word_at(std::uint64_t start, std::uint64_t index) { return mix(start + (index + 1) * kStep); }

constexpr std::byte byte_of(std::uint64_t word, std::size_t offset) {
  return static_cast<std::byte>(word >> (8 * (offset % 8)));
}

constexpr std::uint64_t little_endian(std::uint64_t word) {
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

}  // namespace

std::uint64_t pattern_word(const PatternKey& key, std::uint64_t index) { return word_at(start_of(key), index); }

std::byte pattern_byte(const PatternKey& key, std::size_t offset) {
  return byte_of(pattern_word(key, offset / 8), offset);
}

void fill_pattern(std::span<std::byte> payload, const PatternKey& key) {
  const std::uint64_t start = start_of(key);
  for (std::size_t at = 0; at < payload.size(); at += 8) {
    const std::uint64_t word = little_endian(word_at(start, at / 8));
    std::memcpy(&payload[at], &word, std::min<std::size_t>(8, payload.size() - at));
  }
}

std::optional<Mismatch> check_pattern(std::span<const std::byte> payload, const PatternKey& key) {
  const std::uint64_t start = start_of(key);
  for (std::size_t at = 0; at < payload.size(); at += 8) {
    const std::uint64_t word = word_at(start, at / 8);
    const std::uint64_t want = little_endian(word);
    const std::size_t bytes = std::min<std::size_t>(8, payload.size() - at);
    if (std::memcmp(&payload[at], &want, bytes) == 0) {
      continue;
    }
    for (std::size_t offset = at;; ++offset) {
      if (payload[offset] != byte_of(word, offset)) {
        return Mismatch{offset, payload[offset], byte_of(word, offset)};
      }
    }
  }
  return std::nullopt;
}

std::string describe(const Mismatch& mismatch, std::uint64_t iteration, std::size_t payload_bytes) {
  return fmt::format("payload mismatch in iteration {}: offset {} of {} has {:#04x}, want {:#04x}", iteration,
                     mismatch.offset, payload_bytes, std::to_integer<unsigned>(mismatch.got),
                     std::to_integer<unsigned>(mismatch.want));
}

}  // namespace umlx5::tools
