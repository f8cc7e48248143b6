// From a change of a memory key to the bytes of its work requests: one UMR WQE, and up to two SET_PSV WQEs behind it
// that give the signatures their start. Pure: no queue, no kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "driver/mkey_config.h"
#include "uapi/error.h"
#include "wqe/control.h"
#include "wqe/units.h"

namespace umlx5 {

// A memory key as its work requests left it. The owner changes it under the send queue's rules: one thread at a time.
struct MkeyState {
  struct Signatures {
    std::optional<SignatureBlock> block = std::nullopt;  // as last configured
    std::uint32_t memory_psv = 0, wire_psv = 0;
    std::uint32_t errors = 1;       // signature errors ever reported; a new key counts from 1
    bool errors_to_consume = true;  // since the last change
  };

  std::uint32_t key = 0;
  std::uint16_t max_entries = 0;
  std::uint64_t length_bytes = 0;
  std::optional<Signatures> signatures = std::nullopt;       // keys made for signatures have them
  bool encrypts = false;                                     // made for encryption
  std::optional<EncryptionBlock> encryption = std::nullopt;  // as last configured
};

struct MkeyLimits {
  std::uint32_t max_inline_bytes = 0;  // of the send queue: what layout and formats may take, less 4
  bool key_tags = false;               // keys with a tag (low byte) other than 0 can be changed
  bool encrypts_single_block = false;  // the engine's key may not be longer than one data unit
  bool big_endian_tweak = false;       // engine of many blocks
};

struct MkeyWqes {
  struct Psv {
    std::uint32_t index = 0;
    std::uint64_t start = 0;
  };
  // The UMR WQE behind its control segment.
  alignas(16) std::array<std::byte, wqe::kMaxSendWqeBytes - wqe::ControlSegment::kBytes> umr;
  std::size_t umr_bytes = 0;
  std::array<Psv, 2> psvs{};
  std::size_t psv_count = 0;
};

// Fills `wqes` and brings `state` to what it is after they are posted; on an error both are as they were, as far as
// they matter. Errors: ENOMEM (layout too long for the queue or the key), EINVAL (a value, or the key was not made for
// this), EOPNOTSUPP (key tags).
Expected<void> build_mkey_wqes(const MkeyChange& change, const MkeyLimits& limits, MkeyState& state, MkeyWqes& wqes);

}  // namespace umlx5
