// The barriers are the instructions their comments promise: looked up in this program's own code.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "doorbell/io.h"

namespace umlx5::doorbell {
namespace {

using Code = std::vector<std::uint8_t>;

#if defined(__x86_64__)
constexpr std::size_t kStep = 1;
const Code kReturn = {0xc3};
const Code kToDevice = {};                        // none: the compiler alone is held
const Code kFromDevice = {};                      // none
const Code kBeforeRegister = {0x0f, 0xae, 0xf8};  // sfence
const Code kFlushRegister = {0x0f, 0xae, 0xf8};
const std::array<Code, 3> kFences = {{{0x0f, 0xae, 0xf8}, {0x0f, 0xae, 0xe8}, {0x0f, 0xae, 0xf0}}};  // s, l, mfence
#elif defined(__aarch64__)
constexpr std::size_t kStep = 4;
const Code kReturn = {0xc0, 0x03, 0x5f, 0xd6};
const Code kToDevice = {0xbf, 0x32, 0x03, 0xd5};        // dmb oshst
const Code kFromDevice = {0xbf, 0x31, 0x03, 0xd5};      // dmb oshld
const Code kBeforeRegister = {0x9f, 0x3e, 0x03, 0xd5};  // dsb st
const Code kFlushRegister = {0x9f, 0x3e, 0x03, 0xd5};
const std::array<Code, 3> kFences = {{kToDevice, kFromDevice, kFlushRegister}};
#endif

// The fences in `function` up to its return; functions here are far shorter than the bound.
Code fences_of(void (*function)()) {
  constexpr std::size_t kMaxBytes = 256;
  const auto* code = reinterpret_cast<const std::uint8_t*>(function);
  const auto is_at = [&](std::size_t offset, const Code& pattern) {
    return std::memcmp(code + offset, pattern.data(), pattern.size()) == 0;
  };
  Code found;
  for (std::size_t offset = 0; offset < kMaxBytes && !is_at(offset, kReturn); offset += kStep) {
    for (const Code& fence : kFences) {
      if (is_at(offset, fence)) {
        found.insert(found.end(), fence.begin(), fence.end());
      }
    }
  }
  return found;
}

TEST(Barriers, AreTheirInstructions) {
  EXPECT_EQ(fences_of(&NativeIo::to_device), kToDevice);
  EXPECT_EQ(fences_of(&NativeIo::from_device), kFromDevice);
  EXPECT_EQ(fences_of(&NativeIo::before_register), kBeforeRegister);
  EXPECT_EQ(fences_of(&NativeIo::flush_register), kFlushRegister);
}

}  // namespace
}  // namespace umlx5::doorbell
