// What a device's crypto officer stores in it before others log in. A software device has nothing to hide: these are
// the same on every one, under number 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tools/softhca/hca/key_wrap.h"

namespace softhca::hca {

inline constexpr std::uint32_t kImportKekNumber = 0, kCredentialNumber = 0;

// The KEK of RFC 3394, section 4.6: bytes 00, 01, ... 1f.
inline constexpr std::array<std::byte, kKekBytes> kImportKek = [] {
  std::array<std::byte, kKekBytes> kek{};
  for (std::size_t i = 0; i < kek.size(); ++i) {
    kek[i] = static_cast<std::byte>(i);
  }
  return kek;
}();

inline constexpr std::string_view kCredential = "umlx5 soft HCA, no secret: a credential.";
static_assert(kCredential.size() == 40);

}  // namespace softhca::hca
