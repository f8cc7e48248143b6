// Byte stream format (BSF) segments: what a memory key does with the bytes that pass through it. A UMR WQE carries one
// for signatures, one for encryption, or both, behind the translation entries.
// Source: rdma-core providers/mlx5/wqe.h struct mlx5_bsf, mlx5_bsf_inl, mlx5_crypto_bsf.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

// BsfSize: how much BSF the key has, in both segments' first byte.
enum class BsfSize : std::uint8_t { k64 = 2, k128 = 3 };  // one segment, both

// How long a protected block is.
enum class BlockSelector : std::uint8_t { kNone = 0, k512 = 1, k520 = 2, k4096 = 3, k4160 = 4, k4048 = 6 };
constexpr std::size_t bytes_of(BlockSelector selector) {
  switch (selector) {
    case BlockSelector::k512:
      return 512;
    case BlockSelector::k520:
      return 520;
    case BlockSelector::k4096:
      return 4096;
    case BlockSelector::k4160:
      return 4160;
    case BlockSelector::k4048:
      return 4048;
    case BlockSelector::kNone:
      break;
  }
  return 0;
}

// Upper byte of a domain's word: which CRC follows each block; T10-DIF leaves it 0.
namespace block_format {
inline constexpr std::uint8_t kCrc32 = 0x20;
inline constexpr std::uint8_t kCrc32c = 0x40;
inline constexpr std::uint8_t kCrc64Xp10 = 0x50;
inline constexpr std::uint8_t kKindMask = 0x70;
inline constexpr std::uint8_t kRepeatEachBlock = 0x02;
inline constexpr std::uint8_t kSeedZero = 0x01;  // clear: the seed is all ones
}  // namespace block_format

// Description of T10-DIF fields in one domain; all zero for a domain that has none.
struct BsfInline {
  static constexpr std::uint16_t kValid = 0x8000;
  static constexpr std::uint16_t kRefresh = 0x4000;
  static constexpr std::uint8_t kTypeCrc = 1;
  static constexpr std::uint8_t kTypeChecksum = 2;
  static constexpr std::uint8_t kRepeatBlock = 0x80;
  static constexpr std::uint8_t kSeedInverted = 0x08;
  static constexpr std::uint8_t kIncrementReferenceTag = 0x40;
  static constexpr std::uint8_t kApplicationEscape = 1;              // application tag ffff: block is not checked
  static constexpr std::uint8_t kApplicationAndReferenceEscape = 2;  // and reference tag ffffffff

  std::uint16_t valid_refresh{};
  std::uint16_t application_tag{};
  std::uint32_t reference_tag{};
  std::uint8_t guard_type{};
  std::uint8_t repeat_and_seed{};
  std::uint8_t flags{};
  std::uint16_t application_mask{};

  static constexpr std::string_view kName = "bsf-inline";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"valid", &BsfInline::valid_refresh, bytes(0, 2)},
                                         Field{"apptag", &BsfInline::application_tag, bytes(2, 2)},
                                         Field{"reftag", &BsfInline::reference_tag, bytes(4, 4)},
                                         Field{"guard", &BsfInline::guard_type, bytes(8, 1)},
                                         Field{"repeat_seed", &BsfInline::repeat_and_seed, bytes(9, 1)},
                                         Field{"flags", &BsfInline::flags, bytes(13, 1)},
                                         Field{"app_mask", &BsfInline::application_mask, bytes(14, 2)}};
};
static_assert(layout_is_valid<BsfInline>());
static_assert(offset_bits_of(&BsfInline::application_mask) == 14 * 8);

struct SignatureBsf {
  BsfSize size = BsfSize::k64;
  bool same_structure{};        // memory and wire have blocks of one structure
  std::uint8_t check_mask{};    // bits of a block's eight signature bytes that are checked
  std::uint8_t wire_or_copy{};  // same structure: mask of the bytes that are copied; else BlockSelector of the wire
  BlockSelector memory_block{};
  std::uint32_t raw_data_bytes = 0xffffffff;
  std::uint8_t wire_format{};  // of block_format
  std::uint32_t wire_psv{};    // 24 bits
  std::uint8_t memory_format{};
  std::uint32_t memory_psv{};
  BsfInline wire{};
  BsfInline memory{};

  static constexpr std::string_view kName = "sig-bsf";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields = Fields{Field{"size", &SignatureBsf::size, bits(0, 31, 30)},
                                         Field{"same", &SignatureBsf::same_structure, bits(0, 28, 28)},
                                         Field{"check", &SignatureBsf::check_mask, bytes(1, 1)},
                                         Field{"wire_or_copy", &SignatureBsf::wire_or_copy, bytes(2, 1)},
                                         Field{"mem_block", &SignatureBsf::memory_block, bytes(3, 1)},
                                         Field{"raw_bytes", &SignatureBsf::raw_data_bytes, bytes(4, 4)},
                                         Field{"wire_format", &SignatureBsf::wire_format, bytes(8, 1)},
                                         Field{"wire_psv", &SignatureBsf::wire_psv, bits(8, 23, 0)},
                                         Field{"mem_format", &SignatureBsf::memory_format, bytes(12, 1)},
                                         Field{"mem_psv", &SignatureBsf::memory_psv, bits(12, 23, 0)},
                                         Field{"wire", &SignatureBsf::wire, bytes(32, 16)},
                                         Field{"mem", &SignatureBsf::memory, bytes(48, 16)}};
};
static_assert(layout_is_valid<SignatureBsf>());
static_assert(offset_bits_of(&SignatureBsf::memory) == 48 * 8);

// Which side is encrypted, and whether signatures are of the plain or the encrypted bytes.
enum class EncryptionOrder : std::uint8_t {
  kEncryptedWireSignature = 0,    // encrypted on transmit, signature before
  kEncryptedMemorySignature = 1,  // decrypted on transmit, signature after
  kEncryptedRawWire = 2,          // encrypted on transmit, signature after
  kEncryptedRawMemory = 3,        // decrypted on transmit, signature before
};

struct CryptoBsf {
  static constexpr std::uint8_t kTypeCrypto = 1;
  static constexpr std::uint8_t kStandardAesXts = 0;

  BsfSize size = BsfSize::k64;
  std::uint8_t type = kTypeCrypto;
  EncryptionOrder order{};
  std::uint8_t standard = kStandardAesXts;
  std::uint32_t raw_data_bytes = 0xffffffff;
  BlockSelector block{};
  std::array<std::uint8_t, 16> initial_tweak{};
  std::uint32_t dek{};  // 24 bits: object number of the data encryption key
  std::array<std::uint8_t, 8> keytag{};

  static constexpr std::string_view kName = "crypto-bsf";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields = Fields{Field{"size", &CryptoBsf::size, bits(0, 31, 30)},
                                         Field{"type", &CryptoBsf::type, bits(0, 29, 24), Format::kDecimal},
                                         Field{"order", &CryptoBsf::order, bytes(1, 1)},
                                         Field{"standard", &CryptoBsf::standard, bytes(3, 1), Format::kDecimal},
                                         Field{"raw_bytes", &CryptoBsf::raw_data_bytes, bytes(4, 4)},
                                         Field{"block", &CryptoBsf::block, bytes(8, 1)},
                                         Field{"tweak", &CryptoBsf::initial_tweak, bytes(16, 16)},
                                         Field{"dek", &CryptoBsf::dek, bits(32, 23, 0)},
                                         Field{"keytag", &CryptoBsf::keytag, bytes(40, 8)}};
};
static_assert(layout_is_valid<CryptoBsf>());
static_assert(offset_bits_of(&CryptoBsf::keytag) == 40 * 8);

}  // namespace umlx5::wqe
