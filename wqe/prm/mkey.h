// Memory keys: CREATE_MKEY, QUERY_MKEY, DESTROY_MKEY (ObjectIn with the index, not the key).
//
// Layouts: mkc, create_mkey_in, query_mkey_out of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// How an mkey's translation entries are to be read: access_mode_4_2 << 2 | access_mode_1_0.
enum class MkeyMode : std::uint8_t { kPa = 0, kMtt = 1, kKlm = 2, kKsm = 3, kSwIcm = 4, kMemic = 5 };
std::string_view to_string(MkeyMode mode);

// mkc.qpn of a key that any QP of the PD may use.
inline constexpr std::uint32_t kMkeyAnyQp = 0xffffff;

// Memory key context (mkc).
struct MkeyContext {
  bool free{};
  std::uint8_t access_mode_4_2{};
  bool relaxed_ordering_write{};
  bool small_fence_on_rdma_read_response{};
  bool umr_en{};
  bool a{};   // remote atomic
  bool rw{};  // remote write
  bool rr{};  // remote read
  bool lw{};  // local write
  bool lr{};  // local read
  std::uint8_t access_mode_1_0{};
  std::uint8_t ma_translation_mode{};
  std::uint32_t qpn{};
  std::uint8_t mkey_7_0{};  // the key's low byte, its owner's choice
  bool length64{};          // the whole address space; start_addr and len are ignored
  bool bsf_en{};
  bool sync_umr{};
  bool expected_sigerr_count{};
  bool en_rinval{};  // remote invalidation allowed
  std::uint32_t pd{};
  std::uint64_t start_addr{};
  std::uint64_t len{};
  std::uint32_t bsf_octword_size{};
  std::uint32_t translations_octword_size{};  // MTT: 2 page addresses each; KLM: 1 entry each
  bool relaxed_ordering_read{};
  std::uint8_t log_page_size{};
  std::uint8_t crypto_en{};
  static constexpr std::string_view kName = "mkc";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields = Fields{
      Field{"free", &MkeyContext::free, bits(0x0, 30, 30)},
      Field{"access_mode_4_2", &MkeyContext::access_mode_4_2, bits(0x0, 28, 26)},
      Field{"relaxed_ordering_write", &MkeyContext::relaxed_ordering_write, bits(0x0, 18, 18)},
      Field{"small_fence_on_rdma_read_response", &MkeyContext::small_fence_on_rdma_read_response, bits(0x0, 16, 16)},
      Field{"umr_en", &MkeyContext::umr_en, bits(0x0, 15, 15)},
      Field{"a", &MkeyContext::a, bits(0x0, 14, 14)},
      Field{"rw", &MkeyContext::rw, bits(0x0, 13, 13)},
      Field{"rr", &MkeyContext::rr, bits(0x0, 12, 12)},
      Field{"lw", &MkeyContext::lw, bits(0x0, 11, 11)},
      Field{"lr", &MkeyContext::lr, bits(0x0, 10, 10)},
      Field{"access_mode_1_0", &MkeyContext::access_mode_1_0, bits(0x0, 9, 8)},
      Field{"ma_translation_mode", &MkeyContext::ma_translation_mode, bits(0x0, 5, 4)},
      Field{"qpn", &MkeyContext::qpn, bits(0x4, 31, 8)},
      Field{"mkey_7_0", &MkeyContext::mkey_7_0, bits(0x4, 7, 0)},
      Field{"length64", &MkeyContext::length64, bits(0xc, 31, 31)},
      Field{"bsf_en", &MkeyContext::bsf_en, bits(0xc, 30, 30)},
      Field{"sync_umr", &MkeyContext::sync_umr, bits(0xc, 29, 29)},
      Field{"expected_sigerr_count", &MkeyContext::expected_sigerr_count, bits(0xc, 26, 26)},
      Field{"en_rinval", &MkeyContext::en_rinval, bits(0xc, 24, 24)},
      Field{"pd", &MkeyContext::pd, bits(0xc, 23, 0)},
      Field{"start_addr", &MkeyContext::start_addr, bytes(0x10, 8)},
      Field{"len", &MkeyContext::len, bytes(0x18, 8)},
      Field{"bsf_octword_size", &MkeyContext::bsf_octword_size, bytes(0x20, 4)},
      Field{"translations_octword_size", &MkeyContext::translations_octword_size, bytes(0x34, 4), Format::kDecimal},
      Field{"relaxed_ordering_read", &MkeyContext::relaxed_ordering_read, bits(0x38, 6, 6)},
      Field{"log_page_size", &MkeyContext::log_page_size, bits(0x38, 5, 0), Format::kDecimal},
      Field{"crypto_en", &MkeyContext::crypto_en, bits(0x3c, 28, 27)}};
};
static_assert(layout_is_valid<MkeyContext>());
static_assert(offset_bits_of(&MkeyContext::lr) == 0x0 * 8 + 21);
static_assert(offset_bits_of(&MkeyContext::access_mode_1_0) == 0x0 * 8 + 22);
static_assert(offset_bits_of(&MkeyContext::length64) == 0xc * 8);
static_assert(offset_bits_of(&MkeyContext::start_addr) == 0x10 * 8);
static_assert(offset_bits_of(&MkeyContext::translations_octword_size) == 0x34 * 8);

// Input of CREATE_MKEY: the MTT (8 bytes each, low bits are flags) or KLM (16 bytes each) entries follow at
// kPageAddressOffset. Output: ObjectOut with the index; the key is index << 8 | mkey_7_0.
struct CreateMkeyIn {
  InputHeader header{};
  std::uint32_t mkey_index{};  // with the mkey_by_name capability only
  bool pg_access{};
  bool mkey_umem_valid{};
  MkeyContext mkey{};
  std::uint32_t translations_octword_actual_size{};  // entries that follow
  std::uint32_t mkey_umem_id{};
  std::uint64_t mkey_umem_offset{};
  static constexpr std::string_view kName = "create_mkey_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateMkeyIn::header, bytes(0x0, 8)},
             Field{"mkey_index", &CreateMkeyIn::mkey_index, bits(0x8, 23, 0)},
             Field{"pg_access", &CreateMkeyIn::pg_access, bits(0xc, 31, 31)},
             Field{"mkey_umem_valid", &CreateMkeyIn::mkey_umem_valid, bits(0xc, 30, 30)},
             Field{"mkey", &CreateMkeyIn::mkey, bytes(0x10, 64)},
             Field{"translations_octword_actual_size", &CreateMkeyIn::translations_octword_actual_size, bytes(0x60, 4),
                   Format::kDecimal},
             Field{"mkey_umem_id", &CreateMkeyIn::mkey_umem_id, bytes(0x64, 4)},
             Field{"mkey_umem_offset", &CreateMkeyIn::mkey_umem_offset, bytes(0x68, 8)}};
};
static_assert(layout_is_valid<CreateMkeyIn>());
static_assert(offset_bits_of(&CreateMkeyIn::mkey) == 0x10 * 8);
static_assert(offset_bits_of(&CreateMkeyIn::translations_octword_actual_size) == 0x60 * 8);

// Output of QUERY_MKEY (input: ObjectIn).
struct QueryMkeyOut {
  OutputHeader header{};
  MkeyContext mkey{};
  static constexpr std::string_view kName = "query_mkey_out";
  static constexpr std::size_t kBytes = 304;
  static constexpr auto kFields = Fields{Field{"header", &QueryMkeyOut::header, bytes(0x0, 8)},
                                         Field{"mkey", &QueryMkeyOut::mkey, bytes(0x10, 64)}};
};
static_assert(layout_is_valid<QueryMkeyOut>());
static_assert(offset_bits_of(&QueryMkeyOut::mkey) == 0x10 * 8);

// Bits of an MTT entry below the page address.
inline constexpr std::uint64_t kMttRead = 1, kMttWrite = 2;

}  // namespace umlx5::wqe::prm
