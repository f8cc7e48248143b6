// Dynamically connected targets: CREATE_DCT, QUERY_DCT; DRAIN_DCT and DESTROY_DCT (ObjectIn).
//
// Layouts: dctc, create_dct_in/out, query_dct_out of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// Dctc::state.
inline constexpr std::uint8_t kDctActive = 0, kDctDraining = 1, kDctDrained = 2;

// DC target context (dctc).
struct Dctc {
  std::uint8_t state{};
  bool dp_ordering_force{};  // as in Qpc
  std::uint32_t user_index{};
  std::uint32_t cqn{};
  std::uint8_t counter_set_id{};
  std::uint8_t atomic_mode{};
  bool rre{};
  bool rwe{};
  bool rae{};
  bool atomic_like_write_en{};
  bool latency_sensitive{};
  bool rlky{};
  bool free_ar{};
  bool dp_ordering_1{};
  std::uint8_t cs_res{};
  std::uint8_t min_rnr_nak{};
  std::uint32_t srqn_xrqn{};
  std::uint32_t pd{};
  std::uint8_t tclass{};
  std::uint32_t flow_label{};
  std::uint64_t dc_access_key{};
  std::uint8_t mtu{};  // IBA code
  std::uint8_t port{};
  std::uint16_t pkey_index{};
  std::uint8_t my_addr_index{};  // GID table index
  std::uint8_t hop_limit{};
  std::uint32_t dc_access_key_violation_count{};
  bool dei_cfi{};
  std::uint8_t eth_prio{};
  std::uint8_t ecn{};
  std::uint8_t dscp{};
  std::uint32_t ece{};
  static constexpr std::string_view kName = "dctc";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"state", &Dctc::state, bits(0x0, 27, 24), Format::kDecimal},
             Field{"dp_ordering_force", &Dctc::dp_ordering_force, bits(0x4, 24, 24)},
             Field{"user_index", &Dctc::user_index, bits(0x4, 23, 0)},
             Field{"cqn", &Dctc::cqn, bits(0x8, 23, 0)},
             Field{"counter_set_id", &Dctc::counter_set_id, bits(0xc, 31, 24)},
             Field{"atomic_mode", &Dctc::atomic_mode, bits(0xc, 23, 20)},
             Field{"rre", &Dctc::rre, bits(0xc, 19, 19)},
             Field{"rwe", &Dctc::rwe, bits(0xc, 18, 18)},
             Field{"rae", &Dctc::rae, bits(0xc, 17, 17)},
             Field{"atomic_like_write_en", &Dctc::atomic_like_write_en, bits(0xc, 16, 16)},
             Field{"latency_sensitive", &Dctc::latency_sensitive, bits(0xc, 15, 15)},
             Field{"rlky", &Dctc::rlky, bits(0xc, 14, 14)},
             Field{"free_ar", &Dctc::free_ar, bits(0xc, 13, 13)},
             Field{"dp_ordering_1", &Dctc::dp_ordering_1, bits(0xc, 11, 11)},
             Field{"cs_res", &Dctc::cs_res, bits(0x10, 23, 16)},
             Field{"min_rnr_nak", &Dctc::min_rnr_nak, bits(0x10, 12, 8), Format::kDecimal},
             Field{"srqn_xrqn", &Dctc::srqn_xrqn, bits(0x14, 23, 0)},
             Field{"pd", &Dctc::pd, bits(0x18, 23, 0)},
             Field{"tclass", &Dctc::tclass, bits(0x1c, 31, 24)},
             Field{"flow_label", &Dctc::flow_label, bits(0x1c, 19, 0)},
             Field{"dc_access_key", &Dctc::dc_access_key, bytes(0x20, 8)},
             Field{"mtu", &Dctc::mtu, bits(0x28, 26, 24), Format::kDecimal},
             Field{"port", &Dctc::port, bits(0x28, 23, 16), Format::kDecimal},
             Field{"pkey_index", &Dctc::pkey_index, bits(0x28, 15, 0)},
             Field{"my_addr_index", &Dctc::my_addr_index, bits(0x2c, 23, 16), Format::kDecimal},
             Field{"hop_limit", &Dctc::hop_limit, bits(0x2c, 7, 0), Format::kDecimal},
             Field{"dc_access_key_violation_count", &Dctc::dc_access_key_violation_count, bytes(0x30, 4)},
             Field{"dei_cfi", &Dctc::dei_cfi, bits(0x34, 11, 11)},
             Field{"eth_prio", &Dctc::eth_prio, bits(0x34, 10, 8)},
             Field{"ecn", &Dctc::ecn, bits(0x34, 7, 6)},
             Field{"dscp", &Dctc::dscp, bits(0x34, 5, 0)},
             Field{"ece", &Dctc::ece, bytes(0x3c, 4)}};
};
static_assert(layout_is_valid<Dctc>());
static_assert(offset_bits_of(&Dctc::rre) == 0xc * 8 + 12);
static_assert(offset_bits_of(&Dctc::srqn_xrqn) == 0x14 * 8 + 8);
static_assert(offset_bits_of(&Dctc::mtu) == 0x28 * 8 + 5);

// Input of CREATE_DCT (output: ObjectOut with the DCTN).
struct CreateDctIn {
  InputHeader header{};
  Dctc dctc{};
  static constexpr std::string_view kName = "create_dct_in";
  static constexpr std::size_t kBytes = 128;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateDctIn::header, bytes(0x0, 8)}, Field{"dctc", &CreateDctIn::dctc, bytes(0x10, 64)}};
};
static_assert(layout_is_valid<CreateDctIn>());

// Output of QUERY_DCT (input: ObjectIn).
struct QueryDctOut {
  OutputHeader header{};
  Dctc dctc{};
  static constexpr std::string_view kName = "query_dct_out";
  static constexpr std::size_t kBytes = 128;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryDctOut::header, bytes(0x0, 8)}, Field{"dctc", &QueryDctOut::dctc, bytes(0x10, 64)}};
};
static_assert(layout_is_valid<QueryDctOut>());

}  // namespace umlx5::wqe::prm
