// Event queues: CREATE_EQ, QUERY_EQ, DESTROY_EQ (ObjectIn). The entries are in wqe/eqe.h.
//
// Layouts: eqc, create_eq_in, query_eq_out of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// eqc.st.
inline constexpr std::uint8_t kEqStateArmed = 0x9, kEqStateFired = 0xa;
inline constexpr std::uint8_t kEqStatusOk = 0x0, kEqStatusWriteFailed = 0xa;

// EQ context (eqc).
struct Eqc {
  std::uint8_t status{};
  bool ec{};
  bool oi{};  // overrun ignore
  std::uint8_t st{};
  std::uint8_t page_offset{};
  std::uint8_t log_eq_size{};
  std::uint32_t uar_page{};
  std::uint16_t intr{};          // MSI-X vector
  std::uint8_t log_page_size{};  // 4096 << n bytes
  std::uint32_t consumer_counter{};
  std::uint32_t producer_counter{};
  static constexpr std::string_view kName = "eqc";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"status", &Eqc::status, bits(0x0, 31, 28)},
             Field{"ec", &Eqc::ec, bits(0x0, 18, 18)},
             Field{"oi", &Eqc::oi, bits(0x0, 17, 17)},
             Field{"st", &Eqc::st, bits(0x0, 11, 8)},
             Field{"page_offset", &Eqc::page_offset, bits(0x8, 11, 6)},
             Field{"log_eq_size", &Eqc::log_eq_size, bits(0xc, 28, 24), Format::kDecimal},
             Field{"uar_page", &Eqc::uar_page, bits(0xc, 23, 0)},
             Field{"intr", &Eqc::intr, bits(0x14, 11, 0), Format::kDecimal},
             Field{"log_page_size", &Eqc::log_page_size, bits(0x18, 28, 24), Format::kDecimal},
             Field{"consumer_counter", &Eqc::consumer_counter, bits(0x28, 23, 0)},
             Field{"producer_counter", &Eqc::producer_counter, bits(0x2c, 23, 0)}};
};
static_assert(layout_is_valid<Eqc>());
static_assert(offset_bits_of(&Eqc::log_eq_size) == 0xc * 8 + 3);
static_assert(offset_bits_of(&Eqc::intr) == 0x14 * 8 + 20);
static_assert(offset_bits_of(&Eqc::producer_counter) == 0x2c * 8 + 8);

// Input of CREATE_EQ (output: ObjectOut, 8-bit number); the page addresses follow at kPageAddressOffset.
struct CreateEqIn {
  InputHeader header{};
  Eqc eqc{};
  std::uint64_t event_bitmask{};  // bit n: EventType n; completions need none, a CQ names its EQ
  static constexpr std::string_view kName = "create_eq_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateEqIn::header, bytes(0x0, 8)}, Field{"eqc", &CreateEqIn::eqc, bytes(0x10, 64)},
             Field{"event_bitmask", &CreateEqIn::event_bitmask, bytes(0x58, 8)}};
};
static_assert(layout_is_valid<CreateEqIn>());
static_assert(offset_bits_of(&CreateEqIn::eqc) == 0x10 * 8);
static_assert(offset_bits_of(&CreateEqIn::event_bitmask) == 0x58 * 8);

// Output of QUERY_EQ (input: ObjectIn); the page addresses follow at kPageAddressOffset.
struct QueryEqOut {
  OutputHeader header{};
  Eqc eqc{};
  std::uint64_t event_bitmask{};
  static constexpr std::string_view kName = "query_eq_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryEqOut::header, bytes(0x0, 8)}, Field{"eqc", &QueryEqOut::eqc, bytes(0x10, 64)},
             Field{"event_bitmask", &QueryEqOut::event_bitmask, bytes(0x58, 8)}};
};
static_assert(layout_is_valid<QueryEqOut>());
static_assert(offset_bits_of(&QueryEqOut::eqc) == 0x10 * 8);

}  // namespace umlx5::wqe::prm
