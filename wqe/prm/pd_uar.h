// Protection domains, UAR pages, XRC domains, transport domains, user contexts, special keys and event queues' kin:
// the commands whose mailboxes are ObjectIn and ObjectOut need no structure of their own.
//
// ALLOC_PD, ALLOC_UAR, ALLOC_XRCD, ALLOC_TRANSPORT_DOMAIN: ObjectIn with number 0, ObjectOut gives the number.
// DEALLOC_*: ObjectIn names it, ObjectOut is empty. Layouts: <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// Output of QUERY_SPECIAL_CONTEXTS (input: ObjectIn).
struct SpecialContextsOut {
  OutputHeader header{};
  std::uint32_t dump_fill_mkey{};  // gathers zeros, scatters into nothing
  std::uint32_t reserved_lkey{};   // all physical memory, for the kernel's QPs (QPC.rlky)
  std::uint32_t null_mkey{};
  static constexpr std::string_view kName = "special_contexts_out";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields = Fields{Field{"header", &SpecialContextsOut::header, bytes(0x0, 8)},
                                         Field{"dump_fill_mkey", &SpecialContextsOut::dump_fill_mkey, bytes(0x8, 4)},
                                         Field{"reserved_lkey", &SpecialContextsOut::reserved_lkey, bytes(0xc, 4)},
                                         Field{"null_mkey", &SpecialContextsOut::null_mkey, bytes(0x10, 4)}};
};
static_assert(layout_is_valid<SpecialContextsOut>());
static_assert(offset_bits_of(&SpecialContextsOut::dump_fill_mkey) == 0x8 * 8);

// Input of CREATE_UCTX (output: ObjectOut with the 16-bit user id; DESTROY_UCTX: ObjectIn with it).
struct CreateUctxIn {
  InputHeader header{};
  std::uint32_t cap{};
  static constexpr std::string_view kName = "create_uctx_in";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateUctxIn::header, bytes(0x0, 8)}, Field{"cap", &CreateUctxIn::cap, bytes(0x10, 4)}};
};
static_assert(layout_is_valid<CreateUctxIn>());
static_assert(offset_bits_of(&CreateUctxIn::cap) == 0x10 * 8);

}  // namespace umlx5::wqe::prm
