// Segments of a UMR (user-mode memory registration) WQE: control, memory key context, and the translation entries.
// Source: mlx5dv.h struct mlx5_wqe_umr_ctrl_seg, mlx5_wqe_mkey_context_seg, mlx5_wqe_umr_klm_seg,
// mlx5_wqe_umr_repeat_block_seg, mlx5_wqe_umr_repeat_ent_seg.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

// Bits of UmrControlSegment::mkey_mask: which parts of the memory key change.
namespace mkey_mask {
inline constexpr std::uint64_t kLength = 1ull << 0;
inline constexpr std::uint64_t kStartAddress = 1ull << 6;
inline constexpr std::uint64_t kSignatureError = 1ull << 9;
inline constexpr std::uint64_t kBsfEnable = 1ull << 12;
inline constexpr std::uint64_t kMkey = 1ull << 13;
inline constexpr std::uint64_t kQpn = 1ull << 14;
inline constexpr std::uint64_t kLocalWrite = 1ull << 18;
inline constexpr std::uint64_t kRemoteRead = 1ull << 19;
inline constexpr std::uint64_t kRemoteWrite = 1ull << 20;
inline constexpr std::uint64_t kAtomic = 1ull << 21;
inline constexpr std::uint64_t kFree = 1ull << 29;
}  // namespace mkey_mask

struct UmrControlSegment {
  bool inline_translations{};  // translation entries follow in the WQE itself
  bool check_free{};           // fail unless the key is free
  bool has_translation_offset{};
  bool check_qpn{};  // fail unless the key belongs to this QP
  std::uint16_t klm_octowords{};
  std::uint16_t bsf_octowords_or_offset{};  // translation offset when has_translation_offset, else BSF octowords
  std::uint64_t mkey_mask{};

  static constexpr std::string_view kName = "umr-ctrl";
  static constexpr std::size_t kBytes = 48;
  static constexpr auto kFields = Fields{
      Field{"inline", &UmrControlSegment::inline_translations, bits(0, 31, 31)},
      Field{"check_free", &UmrControlSegment::check_free, bits(0, 29, 29)},
      Field{"translation_offset", &UmrControlSegment::has_translation_offset, bits(0, 28, 28)},
      Field{"check_qpn", &UmrControlSegment::check_qpn, bits(0, 27, 27)},
      Field{"klm_octowords", &UmrControlSegment::klm_octowords, bytes(4, 2), Format::kDecimal},
      Field{"bsf_octowords_or_offset", &UmrControlSegment::bsf_octowords_or_offset, bytes(6, 2), Format::kDecimal},
      Field{"mkey_mask", &UmrControlSegment::mkey_mask, bytes(8, 8)}};
};
static_assert(layout_is_valid<UmrControlSegment>());
static_assert(offset_bits_of(&UmrControlSegment::mkey_mask) == 64);

struct MkeyContextSegment {
  bool free{};
  bool access_atomic{};
  bool access_remote_write{};
  bool access_remote_read{};
  bool access_local_write{};
  bool access_local_read{};
  std::uint8_t sf{};
  std::uint32_t qpn{};  // 24 bits; 0xffffff = any QP
  std::uint8_t key_tag{};
  bool bsf_enable{};
  bool signature_error_parity{};  // low bit of the number of signature errors consumed
  std::uint32_t pd{};             // 24 bits
  std::uint64_t start_address{};
  std::uint64_t length_bytes{};
  std::uint32_t bsf_octowords{};
  std::uint32_t translation_octowords{};
  std::uint8_t log_page_size{};

  static constexpr std::string_view kName = "mkey";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"free", &MkeyContextSegment::free, bits(0, 30, 30)},
             Field{"atomic", &MkeyContextSegment::access_atomic, bits(0, 14, 14)},
             Field{"remote_write", &MkeyContextSegment::access_remote_write, bits(0, 13, 13)},
             Field{"remote_read", &MkeyContextSegment::access_remote_read, bits(0, 12, 12)},
             Field{"local_write", &MkeyContextSegment::access_local_write, bits(0, 11, 11)},
             Field{"local_read", &MkeyContextSegment::access_local_read, bits(0, 10, 10)},
             Field{"sf", &MkeyContextSegment::sf, bytes(3, 1)},
             Field{"qpn", &MkeyContextSegment::qpn, bits(4, 31, 8)},
             Field{"key_tag", &MkeyContextSegment::key_tag, bits(4, 7, 0)},
             Field{"bsf_enable", &MkeyContextSegment::bsf_enable, bits(12, 30, 30)},
             Field{"sig_err_parity", &MkeyContextSegment::signature_error_parity, bits(12, 26, 26)},
             Field{"pd", &MkeyContextSegment::pd, bits(12, 23, 0)},
             Field{"start", &MkeyContextSegment::start_address, bytes(16, 8)},
             Field{"length", &MkeyContextSegment::length_bytes, bytes(24, 8)},
             Field{"bsf_octowords", &MkeyContextSegment::bsf_octowords, bytes(32, 4), Format::kDecimal},
             Field{"translation_octowords", &MkeyContextSegment::translation_octowords, bytes(52, 4), Format::kDecimal},
             Field{"log_page_size", &MkeyContextSegment::log_page_size, bytes(59, 1), Format::kDecimal}};
};
static_assert(layout_is_valid<MkeyContextSegment>());
static_assert(offset_bits_of(&MkeyContextSegment::translation_octowords) == 52 * 8);

struct KlmEntry {
  std::uint32_t byte_count{};
  std::uint32_t mkey{};
  std::uint64_t address{};

  static constexpr std::string_view kName = "klm";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"bytes", &KlmEntry::byte_count, bytes(0, 4), Format::kDecimal},
             Field{"mkey", &KlmEntry::mkey, bytes(4, 4)}, Field{"address", &KlmEntry::address, bytes(8, 8)}};
};
static_assert(layout_is_valid<KlmEntry>());

// Translation entries are padded to this many octowords.
inline constexpr std::size_t kTranslationAlignOctowords = 4;

// First entry of an interleaved (strided) translation; `entries` RepeatEntry follow it.
struct RepeatBlockHeader {
  static constexpr std::uint32_t kOperation = 0x400;

  std::uint32_t byte_count{};  // of one repetition
  std::uint32_t operation = kOperation;
  std::uint32_t repeat_count{};
  std::uint16_t entries{};

  static constexpr std::string_view kName = "repeat-block";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"bytes", &RepeatBlockHeader::byte_count, bytes(0, 4), Format::kDecimal},
             Field{"op", &RepeatBlockHeader::operation, bytes(4, 4)},
             Field{"repeat", &RepeatBlockHeader::repeat_count, bytes(8, 4), Format::kDecimal},
             Field{"entries", &RepeatBlockHeader::entries, bytes(14, 2), Format::kDecimal}};
};
static_assert(layout_is_valid<RepeatBlockHeader>());

struct RepeatEntry {
  std::uint16_t stride_bytes{};
  std::uint16_t byte_count{};
  std::uint32_t mkey{};
  std::uint64_t address{};

  static constexpr std::string_view kName = "repeat";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"stride", &RepeatEntry::stride_bytes, bytes(0, 2), Format::kDecimal},
             Field{"bytes", &RepeatEntry::byte_count, bytes(2, 2), Format::kDecimal},
             Field{"mkey", &RepeatEntry::mkey, bytes(4, 4)}, Field{"address", &RepeatEntry::address, bytes(8, 8)}};
};
static_assert(layout_is_valid<RepeatEntry>());

}  // namespace umlx5::wqe
