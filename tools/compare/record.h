// What the programs that compare written bytes share: random choices that are the same wherever they are made, and the
// record of what was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace umlx5::compare {

// SplitMix64: the same numbers wherever it runs.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

// FNV-1a over everything that is written, and the text itself when asked for.
class Digest {
 public:
  explicit Digest(bool show) : show_(show) {}
  void bytes(const char* what, const void* data, std::size_t count) {
    if (show_) {
      std::printf("  %s", what);
      for (std::size_t i = 0; i < count; ++i) {
        std::printf("%s%02x", i % 16 == 0 ? (i % 64 == 0 && i != 0 ? "\n    " : " ") : "",
                    static_cast<const std::uint8_t*>(data)[i]);
      }
      std::printf("\n");
    }
    for (std::size_t i = 0; i < count; ++i) {
      hash_ = (hash_ ^ static_cast<const std::uint8_t*>(data)[i]) * 0x100000001b3;
    }
  }
  void number(const char* what, std::uint64_t value) {
    if (show_) {
      std::printf("  %s %#lx\n", what, static_cast<unsigned long>(value));
    }
    for (int i = 0; i < 8; ++i) {
      hash_ = (hash_ ^ (value >> i * 8 & 0xff)) * 0x100000001b3;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  bool show_;
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace umlx5::compare
