#include "tools/softhca/hca/transport.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/tools/softhca/hca/data_path_harness.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint64_t kMillisecond = 1'000'000;

void fill(std::span<std::byte> to, unsigned seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : to) {
    byte = static_cast<std::byte>(random());
  }
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
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

// Sizes at and around multiples of the 256-byte path MTU.
const std::uint32_t kSizes[] = {0, 1, 3, 255, 256, 257, 511, 512, 513, 1024, 4095, 8192};

class Sizes : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Transport, Sizes, testing::ValuesIn(kSizes));

TEST_P(Sizes, SendArrives) {
  Fixture pair;
  pair.b.post_receive({{pair.key_b, 0, 8192}});
  pair.a.post(pair.send(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ SEND #0");
  ASSERT_EQ(pair.b.receive_text(), "RECV #0");
  EXPECT_EQ(pair.b.receives()[0].byte_count(), GetParam());
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
  EXPECT_EQ(std::count(pair.memory_b().begin() + GetParam(), pair.memory_b().end(), std::byte{0}), 8192 - GetParam());
}

TEST_P(Sizes, WriteArrives) {
  Fixture pair;
  pair.a.post(pair.write(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE #0");
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
}

TEST_P(Sizes, WriteWithImmediateArrivesAndCompletesAReceive) {
  Fixture pair;
  pair.b.post_receive({});
  WorkRequest request = pair.write(GetParam());
  request.opcode = kWriteImmediate;
  request.immediate = 0x11223344;
  pair.a.post(request);
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE_IMM #0");
  ASSERT_EQ(pair.b.receive_text(), "WRITE_IMM #0");
  EXPECT_EQ(pair.b.receives()[0].byte_count(), GetParam());
  EXPECT_EQ(pair.b.receives()[0].immediate(), 0x11223344u);
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
}

TEST_P(Sizes, ReadBringsBytes) {
  Fixture pair;
  fill(pair.memory_b(), 2);
  pair.a.post(pair.read(GetParam()));
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ READ #0");
  EXPECT_EQ(pair.a.sends()[0].byte_count(), GetParam());
  EXPECT_TRUE(same(pair.memory_a().first(GetParam()), pair.memory_b().first(GetParam())));
}

}  // namespace
}  // namespace softhca::hca
