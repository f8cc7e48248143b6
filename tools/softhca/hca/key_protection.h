// Objects behind the formats of memory keys: running values of signatures, data encryption keys, and what a key that
// was made for them keeps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tools/softhca/hca/key_format.h"
#include "tools/softhca/hca/xts.h"

namespace softhca::hca {

// A protection state variable. Transfers begin with the value that SET_PSV gave it.
struct Psv {
  std::uint32_t uid = 0;
  std::uint32_t pdn = 0;
  std::optional<std::uint64_t> value;
  bool in_error = false;  // a signature error was reported since
};

struct Dek {
  std::uint32_t uid = 0;
  std::uint32_t pdn = 0;
  XtsKey key;
  std::optional<std::array<std::uint8_t, 8>> keytag;
  std::array<std::uint8_t, 8> opaque{};
};

// Under which a user of a device without plain keys creates data encryption keys and asks about them.
struct CryptoLogin {
  std::uint32_t uid = 0;
};

// Of a key that was made for signatures or encryption.
struct KeyProtection {
  std::uint32_t max_octowords = 0;  // of formats
  bool must_encrypt = false;
  std::optional<KeyFormat> format;  // in force

  // A key reports one signature error, and the next one after a UMR that consumes the first: its parity is that of
  // the number of errors, which is 1 at the start.
  std::uint32_t errors = 1;
  bool reports = false;
};

}  // namespace softhca::hca
