// Completion queues: CREATE_CQ, MODIFY_CQ, QUERY_CQ, DESTROY_CQ (ObjectIn).
//
// Layouts: cqc, create_cq_in, modify_cq_in, query_cq_out of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// cqc.cqe_sz: bytes from one CQE to the next. kPadded128: 64-byte CQEs, each in the second half of 128 bytes.
enum class CqeSize : std::uint8_t { k64 = 0, k128 = 1, kPadded128 = 2 };
std::string_view to_string(CqeSize size);

// cqc.st.
inline constexpr std::uint8_t kCqStateSolicitedArmed = 0x6, kCqStateArmed = 0x9, kCqStateFired = 0xa;
// cqc.status.
inline constexpr std::uint8_t kCqStatusOk = 0x0, kCqStatusOverflow = 0x9, kCqStatusWriteFailed = 0xa;

// MODIFY_CQ: op_mod and what modify_field_select then selects.
inline constexpr std::uint16_t kModifyCq = 0, kResizeCq = 1;
enum ModifyCqField : std::uint32_t {
  kCqPeriod = 1u << 0,
  kCqMaxCount = 1u << 1,
  kCqOverrunIgnore = 1u << 2,
  kCqEqn = 1u << 3,
  kCqPeriodMode = 1u << 4,
};
enum ResizeCqField : std::uint32_t {
  kResizeCqSize = 1u << 0,
  kResizeCqPageOffset = 1u << 1,
  kResizeCqPageSize = 1u << 2,
};

// CQ context (cqc).
struct Cqc {
  std::uint8_t status{};
  bool dbr_umem_valid{};
  bool apu_cq{};
  CqeSize cqe_sz{};
  bool cc{};  // collapsed: every CQE goes to the first entry
  bool scqe_break_moderation_en{};
  bool oi{};  // overrun ignore
  std::uint8_t cq_period_mode{};
  bool cqe_comp_en{};
  std::uint8_t mini_cqe_res_format{};
  std::uint8_t st{};
  std::uint8_t cqe_compression_layout{};
  std::uint32_t dbr_umem_id{};
  std::uint8_t page_offset{};
  std::uint8_t log_cq_size{};
  std::uint32_t uar_page{};
  std::uint16_t cq_period{};  // microseconds
  std::uint16_t cq_max_count{};
  std::uint8_t c_eqn{};
  std::uint8_t log_page_size{};  // 4096 << n bytes
  std::uint32_t last_notified_index{};
  std::uint32_t last_solicit_index{};
  std::uint32_t consumer_counter{};
  std::uint32_t producer_counter{};
  std::uint64_t dbr_addr{};
  static constexpr std::string_view kName = "cqc";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"status", &Cqc::status, bits(0x0, 31, 28)},
             Field{"dbr_umem_valid", &Cqc::dbr_umem_valid, bits(0x0, 25, 25)},
             Field{"apu_cq", &Cqc::apu_cq, bits(0x0, 24, 24)},
             Field{"cqe_sz", &Cqc::cqe_sz, bits(0x0, 23, 21), Format::kName},
             Field{"cc", &Cqc::cc, bits(0x0, 20, 20)},
             Field{"scqe_break_moderation_en", &Cqc::scqe_break_moderation_en, bits(0x0, 18, 18)},
             Field{"oi", &Cqc::oi, bits(0x0, 17, 17)},
             Field{"cq_period_mode", &Cqc::cq_period_mode, bits(0x0, 16, 15)},
             Field{"cqe_comp_en", &Cqc::cqe_comp_en, bits(0x0, 14, 14)},
             Field{"mini_cqe_res_format", &Cqc::mini_cqe_res_format, bits(0x0, 13, 12)},
             Field{"st", &Cqc::st, bits(0x0, 11, 8)},
             Field{"cqe_compression_layout", &Cqc::cqe_compression_layout, bits(0x0, 1, 0)},
             Field{"dbr_umem_id", &Cqc::dbr_umem_id, bytes(0x4, 4)},
             Field{"page_offset", &Cqc::page_offset, bits(0x8, 11, 6)},
             Field{"log_cq_size", &Cqc::log_cq_size, bits(0xc, 28, 24), Format::kDecimal},
             Field{"uar_page", &Cqc::uar_page, bits(0xc, 23, 0)},
             Field{"cq_period", &Cqc::cq_period, bits(0x10, 27, 16), Format::kDecimal},
             Field{"cq_max_count", &Cqc::cq_max_count, bits(0x10, 15, 0), Format::kDecimal},
             Field{"c_eqn", &Cqc::c_eqn, bits(0x14, 7, 0), Format::kDecimal},
             Field{"log_page_size", &Cqc::log_page_size, bits(0x18, 28, 24), Format::kDecimal},
             Field{"last_notified_index", &Cqc::last_notified_index, bits(0x20, 23, 0)},
             Field{"last_solicit_index", &Cqc::last_solicit_index, bits(0x24, 23, 0)},
             Field{"consumer_counter", &Cqc::consumer_counter, bits(0x28, 23, 0)},
             Field{"producer_counter", &Cqc::producer_counter, bits(0x2c, 23, 0)},
             Field{"dbr_addr", &Cqc::dbr_addr, bytes(0x38, 8)}};
};
static_assert(layout_is_valid<Cqc>());
static_assert(offset_bits_of(&Cqc::log_cq_size) == 0xc * 8 + 3);
static_assert(offset_bits_of(&Cqc::c_eqn) == 0x14 * 8 + 24);
static_assert(offset_bits_of(&Cqc::dbr_addr) == 0x38 * 8);

// Input of CREATE_CQ (output: ObjectOut); the page addresses follow at kPageAddressOffset.
struct CreateCqIn {
  InputHeader header{};
  Cqc cqc{};
  std::uint64_t cq_umem_offset{};
  std::uint32_t cq_umem_id{};
  bool cq_umem_valid{};
  static constexpr std::string_view kName = "create_cq_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateCqIn::header, bytes(0x0, 8)}, Field{"cqc", &CreateCqIn::cqc, bytes(0x10, 64)},
             Field{"cq_umem_offset", &CreateCqIn::cq_umem_offset, bytes(0x50, 8)},
             Field{"cq_umem_id", &CreateCqIn::cq_umem_id, bytes(0x58, 4)},
             Field{"cq_umem_valid", &CreateCqIn::cq_umem_valid, bits(0x5c, 31, 31)}};
};
static_assert(layout_is_valid<CreateCqIn>());
static_assert(offset_bits_of(&CreateCqIn::cqc) == 0x10 * 8);

// Input of MODIFY_CQ (output: ObjectOut, empty); on resizing the page addresses follow at kPageAddressOffset.
struct ModifyCqIn {
  InputHeader header{};
  std::uint32_t cqn{};
  std::uint32_t field_select{};  // ModifyCqField or, with op_mod kResizeCq, ResizeCqField
  Cqc cqc{};
  std::uint64_t cq_umem_offset{};
  std::uint32_t cq_umem_id{};
  bool cq_umem_valid{};
  static constexpr std::string_view kName = "modify_cq_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields = Fields{Field{"header", &ModifyCqIn::header, bytes(0x0, 8)},
                                         Field{"cqn", &ModifyCqIn::cqn, bits(0x8, 23, 0)},
                                         Field{"field_select", &ModifyCqIn::field_select, bytes(0xc, 4)},
                                         Field{"cqc", &ModifyCqIn::cqc, bytes(0x10, 64)},
                                         Field{"cq_umem_offset", &ModifyCqIn::cq_umem_offset, bytes(0x50, 8)},
                                         Field{"cq_umem_id", &ModifyCqIn::cq_umem_id, bytes(0x58, 4)},
                                         Field{"cq_umem_valid", &ModifyCqIn::cq_umem_valid, bits(0x5c, 31, 31)}};
};
static_assert(layout_is_valid<ModifyCqIn>());
static_assert(offset_bits_of(&ModifyCqIn::field_select) == 0xc * 8);
static_assert(offset_bits_of(&ModifyCqIn::cqc) == 0x10 * 8);

// Output of QUERY_CQ (input: ObjectIn); the page addresses follow at kPageAddressOffset.
struct QueryCqOut {
  OutputHeader header{};
  Cqc cqc{};
  static constexpr std::string_view kName = "query_cq_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryCqOut::header, bytes(0x0, 8)}, Field{"cqc", &QueryCqOut::cqc, bytes(0x10, 64)}};
};
static_assert(layout_is_valid<QueryCqOut>());
static_assert(offset_bits_of(&QueryCqOut::cqc) == 0x10 * 8);

}  // namespace umlx5::wqe::prm
