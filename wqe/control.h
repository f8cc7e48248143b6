// The control segment, first octoword of every send WQE.
// Source: mlx5dv.h struct mlx5_wqe_ctrl_seg; fence and completion modes: PRM "WQE control segment".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/opcode.h"

namespace umlx5::wqe {

// FM. IBV_SEND_FENCE is kStrong; kInitiatorSmall waits for earlier memory-key operations of the same queue.
enum class FenceMode : std::uint8_t { kNone = 0, kInitiatorSmall = 1, kFence = 2, kStrongOrdering = 3, kStrong = 4 };
std::string_view to_string(FenceMode mode);

// CE: when the device writes a CQE for this WQE.
enum class CompletionMode : std::uint8_t { kOnError = 0, kOnFirstError = 1, kAlways = 2, kAlwaysAndEvent = 3 };
std::string_view to_string(CompletionMode mode);

struct ControlSegment {
  std::uint8_t opmod{};
  std::uint16_t wqe_index{};  // producer counter in WQEBBs, free-running
  SendOpcode opcode{};
  std::uint32_t qpn{};          // 24 bits; SQN for a send queue object
  std::uint8_t ds_octowords{};  // whole WQE, this segment included; at most 63
  std::uint8_t signature{};
  std::uint16_t dci_stream_channel_id{};
  FenceMode fence{};
  CompletionMode completion{};
  bool solicited{};
  // Immediate data, rkey to invalidate or mkey to update: the number whose big-endian form is on the wire. For
  // immediate data given as a __be32 that is ntohl() of it.
  std::uint32_t immediate{};

  static constexpr std::string_view kName = "ctrl";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"opcode", &ControlSegment::opcode, bits(0, 7, 0), Format::kName},
                                         Field{"opmod", &ControlSegment::opmod, bits(0, 31, 24)},
                                         Field{"index", &ControlSegment::wqe_index, bits(0, 23, 8), Format::kDecimal},
                                         Field{"qpn", &ControlSegment::qpn, bits(4, 31, 8)},
                                         Field{"ds", &ControlSegment::ds_octowords, bits(4, 5, 0), Format::kDecimal},
                                         Field{"signature", &ControlSegment::signature, bytes(8, 1)},
                                         Field{"dci_stream", &ControlSegment::dci_stream_channel_id, bytes(9, 2)},
                                         Field{"fence", &ControlSegment::fence, bits(8, 7, 5), Format::kName},
                                         Field{"cqe", &ControlSegment::completion, bits(8, 3, 2), Format::kName},
                                         Field{"solicited", &ControlSegment::solicited, bits(8, 1, 1)},
                                         Field{"imm", &ControlSegment::immediate, bytes(12, 4)}};
};
static_assert(layout_is_valid<ControlSegment>());
static_assert(offset_bits_of(&ControlSegment::dci_stream_channel_id) == 72);
static_assert(offset_bits_of(&ControlSegment::immediate) == 96);

// The same octoword as posting writes it: what a queue knows beforehand is in fewer pieces. The reserved bits between
// QPN and DS are 0.
struct PostedControl {
  std::uint16_t wqe_index{};
  SendOpcode opcode{};
  std::uint32_t qpn_ds{};   // qpn_part() plus the whole WQE's octowords
  std::uint8_t fm_ce_se{};  // of fm_ce_se_of()
  std::uint32_t immediate{};

  static constexpr std::uint32_t qpn_part(std::uint32_t qpn) { return qpn << 8; }  // DS is added to it
  static constexpr std::uint8_t fm_ce_se_of(FenceMode fence, CompletionMode completion, bool solicited) {
    return static_cast<std::uint8_t>(static_cast<unsigned>(fence) << 5 | static_cast<unsigned>(completion) << 2 |
                                     (solicited ? 2u : 0u));
  }

  static constexpr std::string_view kName = "ctrl";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"opcode", &PostedControl::opcode, bits(0, 7, 0), Format::kName},
                                         Field{"index", &PostedControl::wqe_index, bits(0, 23, 8), Format::kDecimal},
                                         Field{"qpn_ds", &PostedControl::qpn_ds, bytes(4, 4)},
                                         Field{"fm_ce_se", &PostedControl::fm_ce_se, bytes(11, 1)},
                                         Field{"imm", &PostedControl::immediate, bytes(12, 4)}};
};
static_assert(layout_is_valid<PostedControl>());
static_assert(offset_bits_of(&PostedControl::wqe_index) == offset_bits_of(&ControlSegment::wqe_index));
static_assert(offset_bits_of(&PostedControl::qpn_ds) == offset_bits_of(&ControlSegment::qpn));
static_assert(offset_bits_of(&PostedControl::fm_ce_se) == offset_bits_of(&ControlSegment::fence));
static_assert(PostedControl::fm_ce_se_of(FenceMode::kStrong, CompletionMode::kAlways, true) == 0x8a);

}  // namespace umlx5::wqe
