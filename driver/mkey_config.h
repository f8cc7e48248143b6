// What a memory key does: which memory it names, who may use it, and how the bytes that pass through it are signed and
// encrypted. One description for everything that a UMR work request can change on a key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "driver/types.h"

namespace umlx5 {

// Values are mlx5dv's (mlx5dv_block_size).
enum class BlockSize : std::uint8_t { k512 = 0, k520 = 1, k4048 = 2, k4096 = 3, k4160 = 4 };
enum class GuardType : std::uint8_t { kCrc = 0, kChecksum = 1 };                // mlx5dv_sig_t10dif_bg_type
enum class CrcType : std::uint8_t { kCrc32 = 0, kCrc32c = 1, kCrc64Xp10 = 2 };  // mlx5dv_sig_crc_type

// The eight bytes behind each block: guard (2), application tag (2), reference tag (4), big-endian.
struct T10Dif {
  GuardType guard = GuardType::kCrc;
  std::uint16_t background = 0;  // seed of the guard: 0 or 0xffff
  std::uint16_t application_tag = 0;
  std::uint32_t reference_tag = 0;
  bool increment_reference_tag = false;  // by one each block
  bool escape_application_tag = false;   // a block whose application tag is ffff is not checked
  bool escape_both_tags = false;         // one whose reference tag is ffffffff too is not checked; beats the above
};

// A CRC behind each block: 4 bytes, or 8 for CRC64.
struct CrcSignature {
  CrcType type = CrcType::kCrc32;
  std::uint64_t seed = 0;  // 0 or all ones of the CRC's width
};

struct SignatureDomain {
  std::variant<T10Dif, CrcSignature> signature;
  BlockSize block = BlockSize::k512;
};

// Bits of check_mask and copy_mask: one for each of a block's eight signature bytes, the first one highest.
namespace signature_mask {
inline constexpr std::uint8_t kGuard = 0xc0, kApplicationTag = 0x30, kReferenceTag = 0x0f;
inline constexpr std::uint8_t kCrc32 = 0xf0, kCrc64 = 0xff;
}  // namespace signature_mask

// At least one domain. A domain that is absent has no signatures: they are added or stripped on the way.
struct SignatureBlock {
  std::optional<SignatureDomain> memory = std::nullopt, wire = std::nullopt;
  std::uint8_t check_mask = 0;  // what is checked on the way in
  // Both domains have one structure: what is passed on as it came, the rest is generated. None: what is the same in
  // both.
  std::optional<std::uint8_t> copy_mask = std::nullopt;
};

// Whether both domains have blocks of the same size with the same fields behind them.
constexpr bool has_same_structure(const SignatureBlock& block) {
  if (!block.memory || !block.wire || block.memory->signature.index() != block.wire->signature.index() ||
      block.memory->block != block.wire->block) {
    return false;
  }
  return std::holds_alternative<T10Dif>(block.wire->signature) ||
         std::get<CrcSignature>(block.memory->signature).type == std::get<CrcSignature>(block.wire->signature).type;
}

// Why a device cannot do it; empty if it can.
constexpr std::string_view fault_of(const SignatureDomain& domain) {
  if (domain.block > BlockSize::k4160) {
    return "a block size that does not exist";
  }
  if (std::holds_alternative<T10Dif>(domain.signature)) {
    const T10Dif& dif = std::get<T10Dif>(domain.signature);
    if (dif.guard > GuardType::kChecksum) {
      return "a guard type that does not exist";
    }
    return dif.background == 0 || dif.background == 0xffff ? "" : "a guard seed that is neither 0 nor 0xffff";
  }
  const CrcSignature& crc = std::get<CrcSignature>(domain.signature);
  if (crc.type > CrcType::kCrc64Xp10) {
    return "a CRC type that does not exist";
  }
  const std::uint64_t ones = crc.type == CrcType::kCrc64Xp10 ? ~std::uint64_t{0} : 0xffffffff;
  return crc.seed == 0 || crc.seed == ones ? "" : "a CRC seed that is neither 0 nor all ones of the CRC's width";
}
constexpr std::string_view fault_of(const SignatureBlock& block) {
  if (!block.memory && !block.wire) {
    return "signatures in neither the memory nor the wire domain";
  }
  if (block.memory && !fault_of(*block.memory).empty()) {
    return fault_of(*block.memory);
  }
  if (block.wire && !fault_of(*block.wire).empty()) {
    return fault_of(*block.wire);
  }
  return block.copy_mask && !has_same_structure(block)
             ? "a copy mask although the domains' blocks differ in size or signature"
             : "";
}

// For a description that is known when the program is compiled: a wrong one does not compile.
consteval SignatureBlock checked(const SignatureBlock& block) {
  if (!fault_of(block).empty()) {
    throw "the device cannot do this: see fault_of()";
  }
  return block;
}

enum class SignatureOrder : std::uint8_t { kAfterEncryption = 0, kBeforeEncryption = 1 };  // on transmit

// AES-XTS.
struct EncryptionBlock {
  bool encrypt_on_transmit = true;  // the wire is encrypted; else the memory is
  SignatureOrder signature_order = SignatureOrder::kAfterEncryption;
  BlockSize data_unit = BlockSize::k512;
  std::array<std::uint8_t, 16> initial_tweak{};
  std::uint32_t dek = 0;  // Dek::number()
  std::array<std::uint8_t, 8> keytag{};
};

// Pieces of `bytes` bytes, each followed by `skip` that are left out, and that `repeat` times over. Both together are
// at most 65535.
struct InterleavedSge {
  std::uint64_t address = 0;
  std::uint16_t bytes = 0;
  std::uint16_t skip = 0;
  std::uint32_t lkey = 0;
};

struct ListLayout {
  std::span<const Sge> sges;
};
struct InterleavedLayout {
  std::uint32_t repeat = 1;
  std::span<const InterleavedSge> entries;
};

// What is absent stays as it is.
struct MkeyChange {
  std::optional<std::uint8_t> tag = std::nullopt;  // low byte of the key: who has the key with another is shut out
  std::optional<AccessFlags> access = std::nullopt;  // of local write, remote read, remote write, remote atomic
  std::variant<std::monostate, ListLayout, InterleavedLayout> layout{};
  bool forget_signature = false;  // before `signature`
  std::optional<SignatureBlock> signature = std::nullopt;
  std::optional<EncryptionBlock> encryption = std::nullopt;
};

}  // namespace umlx5
