// Memory on the device: ALLOC_MEMIC and DEALLOC_MEMIC (mlx5_ifc.h alloc_memic_in), keys of it, and traffic through
// them.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "tests/tools/softhca/hca/hca_rig.h"
#include "tools/softhca/hca/mkey.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint32_t kBar = 0x02000000, kBytes = 128 << 10;
constexpr std::uint32_t kModeMemic = 1u << 26 | 1u << 8;  // access_mode_4_2 and 1_0 of 5

class MemicTest : public testing::Test, protected ReadyRig {
 protected:
  std::uint32_t alloc(std::uint32_t bytes, std::uint32_t start = kBar, std::uint32_t range = kBytes,
                      std::uint32_t log_alignment = 0) {
    return run(32, {{0, 0x205u << 16}, {0xc, log_alignment}, {0x14, start}, {0x18, range}, {0x1c, bytes}});
  }
  std::uint64_t address() const { return get<std::uint64_t>(out, 8); }
  std::uint32_t dealloc(std::uint64_t at, std::uint32_t bytes) {
    return run(32, {{0, 0x206u << 16}, {0x10, high(at)}, {0x14, low(at)}, {0x18, bytes}});
  }
  std::uint32_t create_key(std::uint64_t start, std::uint32_t bytes, std::uint32_t rights = 0x1f) {
    return run(272, {{0, 0x200u << 16},
                     {0x10, rights << 10 | kModeMemic},
                     {0x14, 0xffffff5a},
                     {0x1c, pd},
                     {0x20, high(start)},
                     {0x24, low(start)},
                     {0x2c, bytes}});
  }
};

TEST_F(MemicTest, IsAdvertised) {
  ASSERT_EQ(run(16, {{0, 0x100u << 16}, {4, 0xf << 1 | 1}}, {}, 0x110), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x10) >> 31, 1u);
  EXPECT_EQ(get<std::uint32_t>(out, 0x14), 6u << 16 | 6u) << "64 bytes, aligned to up to 4096";
  EXPECT_EQ(get<std::uint64_t>(out, 0x18), kBar);
  EXPECT_EQ(get<std::uint32_t>(out, 0x20), 32u);
  EXPECT_EQ(get<std::uint32_t>(out, 0x24), kBytes);
}

TEST_F(MemicTest, TakesTheFirstFreePlaceOfTheRange) {
  ASSERT_EQ(alloc(64), kOk);
  EXPECT_EQ(address(), kBar);
  ASSERT_EQ(alloc(128), kOk);
  EXPECT_EQ(address(), kBar + 64u);
  ASSERT_EQ(alloc(64, kBar, kBytes, 6), kOk);
  EXPECT_EQ(address(), kBar + 4096u);
  ASSERT_EQ(dealloc(kBar, 64), kOk);
  ASSERT_EQ(alloc(128), kOk);
  EXPECT_EQ(address(), kBar + 192u);
  ASSERT_EQ(alloc(64), kOk);
  EXPECT_EQ(address(), kBar);
  EXPECT_EQ(alloc(4096, kBar, 4096), kNoResources);
  EXPECT_EQ(alloc(64, kBar + 8192, 4096), kOk);
  EXPECT_EQ(address(), kBar + 8192u);
}

TEST_F(MemicTest, WhatIsNotThereIsRefused) {
  EXPECT_EQ(alloc(0), kBadParam);
  EXPECT_EQ(alloc(100), kBadParam);
  EXPECT_EQ(alloc(64, kBar, kBytes, 7), kBadParam);
  EXPECT_EQ(alloc(kBytes + 64), kNoResources);
  EXPECT_EQ(alloc(64, kBar + kBytes - 64, 128), kNoResources) << "a range beyond the end";
  EXPECT_EQ(alloc(64, 0, 4096), kNoResources);
  ASSERT_EQ(alloc(128), kOk);
  EXPECT_EQ(dealloc(kBar, 64), kBadRes);
  EXPECT_EQ(dealloc(kBar + 64, 64), kBadRes);
  EXPECT_EQ(dealloc(kBar, 128), kOk);
  EXPECT_EQ(dealloc(kBar, 128), kBadRes);
  EXPECT_EQ(create_key(kBar + kBytes - 64, 65), kBadParam);
  EXPECT_EQ(syndrome(), 0x53040au);
  EXPECT_EQ(create_key(0, 64), kBadParam);
  EXPECT_EQ(create_key(kBar, 0), kOk) << "of nothing";
  EXPECT_EQ(hca.map_memic(kBar + kBytes, 4096, PROT_READ).error(), EINVAL);
  EXPECT_EQ(hca.map_memic(kBar + 64, 4096, PROT_READ).error(), EINVAL);
}

TEST_F(MemicTest, AKeyOfItIsRelativeToItsStart) {
  ASSERT_EQ(alloc(4096), kOk);
  std::byte* const program = *hca.map_memic(kBar, 4096, PROT_READ | PROT_WRITE);
  program[100] = std::byte{0x5a};
  ASSERT_EQ(create_key(kBar + 100, 8), kOk);
  const std::uint32_t key = number() << 8 | 0x5a;
  std::vector<DmaRange> ranges;
  ASSERT_EQ(hca.resolve(key, pd, 0, 8, Access::kRemoteRead, ranges), MkeyFault::kNone);
  ASSERT_EQ(ranges.size(), 1u);
  std::array<std::byte, 8> bytes{};
  ASSERT_TRUE(hca.dma().read(ranges[0].address, bytes));
  EXPECT_EQ(bytes[0], std::byte{0x5a});
  bytes.fill(std::byte{7});
  ASSERT_TRUE(hca.dma().write(ranges[0].address, bytes));
  EXPECT_EQ(program[107], std::byte{7});
  EXPECT_EQ(program[108], std::byte{0});
  EXPECT_EQ(hca.resolve(key, pd, 1, 8, Access::kRemoteRead, ranges), MkeyFault::kOutOfBounds);
  ASSERT_EQ(run_on(0x201, number()), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x10) & 0x1c000300u, 0x04000100u) << "its mode";
  EXPECT_EQ(get<std::uint64_t>(out, 0x20), kBar + 100u);
  ::munmap(program, 4096);
}

TEST_F(MemicTest, AtomicsReachIt) {
  ASSERT_EQ(alloc(64), kOk);
  const std::uint64_t at = kBarAddress + kBar;
  EXPECT_EQ(hca.dma().fetch_add(at + 8, 5), 0u);
  EXPECT_EQ(hca.dma().compare_swap(at + 8, 5, 9), 5u);
  EXPECT_EQ(hca.dma().compare_swap(at + 8, 5, 1), 9u);
  EXPECT_EQ(hca.dma().fetch_add(at + 4, 1), std::nullopt) << "not aligned";
  EXPECT_EQ(hca.dma().fetch_add(at + kBytes, 1), std::nullopt);
}

TEST_F(MemicTest, ComesAsZeros) {
  ASSERT_EQ(alloc(64), kOk);
  std::byte* const program = *hca.map_memic(kBar, 4096, PROT_READ | PROT_WRITE);
  program[0] = std::byte{1};
  ASSERT_EQ(dealloc(kBar, 64), kOk);
  ASSERT_EQ(alloc(64), kOk);
  EXPECT_EQ(program[0], std::byte{0});
  ::munmap(program, 4096);
}

TEST(MemicCaps, ADeviceWithoutItHasNone) {
  HcaRig rig({.device_memory = false});
  ASSERT_EQ(rig.run(16, {{0, 0x100u << 16}, {4, 0xf << 1 | 1}}, {}, 0x110), kOk);
  EXPECT_EQ(get<std::uint32_t>(rig.out, 0x10), 0u);
  EXPECT_EQ(rig.run(32, {{0, 0x205u << 16}, {0x14, kBar}, {0x18, kBytes}, {0x1c, 64}}), kBadParam);
}

}  // namespace
}  // namespace softhca::hca
