// A connected pair with memory on both sides, and the work requests that most tests post.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "tests/tools/softhca/hca/data_path_harness.h"

namespace softhca::hca::harness {

inline constexpr std::uint64_t kMillisecond = 1'000'000;

inline void fill(std::span<std::byte> to, unsigned seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : to) {
    byte = static_cast<std::byte>(random());
  }
}

// True if `b` starts with the bytes of `a`.
inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// A pair with 8 KiB of random bytes at A and 8 KiB of zeros at B.
struct Fixture : Pair {
  explicit Fixture(const PairOptions& options = {}) : Pair(options) {
    key_a = device_a.add_key(8192);
    key_b = device_b.add_key(8192);
    fill(memory_a(), 1);
  }
  std::span<std::byte> memory_a() { return device_a.memory_of(key_a); }
  std::span<std::byte> memory_b() { return device_b.memory_of(key_b); }
  std::uint64_t address_b(std::uint64_t offset = 0) { return address_of(memory_b()) + offset; }

  WorkRequest send(std::uint32_t bytes) { return {.opcode = kSend, .list = {{key_a, 0, bytes}}}; }
  WorkRequest datagram(std::uint32_t bytes) {
    WorkRequest request = send(bytes);
    request.address.qpn = b.qp->qpn;
    request.address.ipv4 = device_b.port->address().value;
    return request;
  }
  WorkRequest write(std::uint32_t bytes) {
    return {.opcode = kWrite, .list = {{key_a, 0, bytes}}, .remote_address = address_b(), .rkey = key_b};
  }
  WorkRequest read(std::uint32_t bytes) {
    return {.opcode = kRead, .list = {{key_a, 0, bytes}}, .remote_address = address_b(), .rkey = key_b};
  }
  WorkRequest fetch_add(std::uint64_t add) {
    return {
        .opcode = kFetchAdd, .list = {{key_a, 0, 8}}, .remote_address = address_b(), .rkey = key_b, .swap_or_add = add};
  }

  std::uint32_t key_a, key_b;
};

}  // namespace softhca::hca::harness
