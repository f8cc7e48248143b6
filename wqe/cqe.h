// Completion queue entries.
//
// A CQE is 64 bytes. On a queue of 128-byte entries it is the second half of the entry; the first half is room for
// 64 bytes of scattered data. Source: mlx5dv.h struct mlx5_cqe64, mlx5_err_cqe; Linux include/linux/mlx5/device.h for
// the fields mlx5dv.h reserves; signature errors: rdma-core providers/mlx5/wqe.h. Compressed CQEs: mini_cqe.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/opcode.h"
#include "wqe/syndrome.h"

namespace umlx5::wqe {

enum class CqeOpcode : std::uint8_t {
  kRequester = 0,
  kResponderWriteImmediate = 1,
  kResponderSend = 2,
  kResponderSendImmediate = 3,
  kResponderSendInvalidate = 4,
  kResize = 5,
  kNoPacket = 6,
  kSignatureError = 12,
  kRequesterError = 13,
  kResponderError = 14,
  kInvalid = 15,
};
std::string_view to_string(CqeOpcode opcode);

// Where the entry's data is, if it carries any.
enum class CqeFormat : std::uint8_t {
  kNone = 0,
  kInline32 = 1,    // 32 data bytes replace the CQE's first 32
  kInline64 = 2,    // 64 data bytes in the first half of a 128-byte entry
  kCompressed = 3,  // title of compressed CQEs; in the enhanced layout a block of mini CQEs
};
std::string_view to_string(CqeFormat format);

inline constexpr std::size_t kCqeBytes = 64;
inline constexpr std::size_t kLargeCqeBytes = 128;
inline constexpr std::size_t kCqeOpOwnOffset = 63;      // opcode, format, solicited and owner in one byte
inline constexpr std::uint8_t kCqeOpOwnInitial = 0xf0;  // a fresh queue's entries: opcode kInvalid
inline constexpr std::size_t kInlineScatter32Bytes = 32;
inline constexpr std::size_t kInlineScatter64Bytes = 64;

// Where the CQE begins in an entry of 64 or 128 bytes.
constexpr std::size_t cqe_offset(std::size_t entry_bytes) { return entry_bytes - kCqeBytes; }

constexpr CqeOpcode cqe_opcode(std::uint8_t op_own) { return static_cast<CqeOpcode>(op_own >> 4); }
constexpr CqeFormat cqe_format(std::uint8_t op_own) { return static_cast<CqeFormat>((op_own >> 2) & 3); }
constexpr bool cqe_solicited(std::uint8_t op_own) { return (op_own & 2) != 0; }
constexpr bool cqe_owner(std::uint8_t op_own) { return (op_own & 1) != 0; }

// True if software owns the entry at `consumer_index` (free-running) of a queue of 2^log_entries entries.
constexpr bool cqe_is_ready(std::uint8_t op_own, std::uint32_t consumer_index, unsigned log_entries) {
  return cqe_opcode(op_own) != CqeOpcode::kInvalid && cqe_owner(op_own) == (((consumer_index >> log_entries) & 1) != 0);
}

enum class L3Type : std::uint8_t { kNone = 0, kIpv6 = 1, kIpv4 = 2 };
std::string_view to_string(L3Type type);

struct Cqe {
  std::uint16_t wqe_id{};
  std::uint32_t rx_hash{};
  std::uint8_t rx_hash_type{};
  std::uint8_t path_bits{};  // 7 bits
  std::uint16_t checksum{};
  std::uint16_t slid{};
  std::uint8_t grh{};          // 2 bits, not 0 if the packet had a GRH
  std::uint8_t sl{};           // 4 bits
  std::uint32_t source_qpn{};  // 24 bits
  bool l2_ok{};
  bool l3_ok{};
  bool l4_ok{};
  std::uint8_t l4_type{};  // 3 bits
  L3Type l3_type{};
  bool has_vlan{};
  std::uint16_t vlan{};
  std::uint32_t srqn_or_user_index{};  // 24 bits: SRQN with CQE version 0, user index with version 1
  std::uint32_t immediate{};           // immediate, invalidated rkey, or P_Key index in the low half
  std::uint8_t app{};
  std::uint8_t app_op{};
  std::uint16_t app_info{};
  std::uint32_t byte_count{};
  std::uint64_t timestamp{};
  SendOpcode send_opcode{};  // requester; upper byte of the flow tag word on a responder
  std::uint32_t qpn{};       // 24 bits
  std::uint16_t wqe_counter{};
  std::uint8_t signature{};
  CqeOpcode opcode{};
  CqeFormat format{};
  bool solicited{};
  bool owner{};

  static constexpr std::string_view kName = "cqe";
  static constexpr std::size_t kBytes = kCqeBytes;
  static constexpr auto kFields = Fields{Field{"opcode", &Cqe::opcode, bits(60, 7, 4), Format::kName},
                                         Field{"send_opcode", &Cqe::send_opcode, bytes(56, 1), Format::kName},
                                         Field{"qpn", &Cqe::qpn, bytes(57, 3)},
                                         Field{"wqe_counter", &Cqe::wqe_counter, bytes(60, 2), Format::kDecimal},
                                         Field{"bytes", &Cqe::byte_count, bytes(44, 4), Format::kDecimal},
                                         Field{"imm", &Cqe::immediate, bytes(36, 4)},
                                         Field{"srqn_uidx", &Cqe::srqn_or_user_index, bytes(33, 3)},
                                         Field{"wqe_id", &Cqe::wqe_id, bytes(2, 2), Format::kDecimal},
                                         Field{"rx_hash", &Cqe::rx_hash, bytes(12, 4)},
                                         Field{"rx_hash_type", &Cqe::rx_hash_type, bytes(16, 1)},
                                         Field{"path_bits", &Cqe::path_bits, bits(16, 22, 16)},
                                         Field{"checksum", &Cqe::checksum, bytes(20, 2)},
                                         Field{"slid", &Cqe::slid, bytes(22, 2)},
                                         Field{"grh", &Cqe::grh, bits(24, 29, 28), Format::kDecimal},
                                         Field{"sl", &Cqe::sl, bits(24, 27, 24), Format::kDecimal},
                                         Field{"source_qpn", &Cqe::source_qpn, bits(24, 23, 0)},
                                         Field{"l4_ok", &Cqe::l4_ok, bits(28, 26, 26)},
                                         Field{"l3_ok", &Cqe::l3_ok, bits(28, 25, 25)},
                                         Field{"l2_ok", &Cqe::l2_ok, bits(28, 24, 24)},
                                         Field{"l4_type", &Cqe::l4_type, bits(28, 22, 20)},
                                         Field{"l3_type", &Cqe::l3_type, bits(28, 19, 18), Format::kName},
                                         Field{"has_vlan", &Cqe::has_vlan, bits(28, 16, 16)},
                                         Field{"vlan", &Cqe::vlan, bits(28, 15, 0)},
                                         Field{"app", &Cqe::app, bytes(40, 1)},
                                         Field{"app_op", &Cqe::app_op, bytes(41, 1)},
                                         Field{"app_info", &Cqe::app_info, bytes(42, 2)},
                                         Field{"timestamp", &Cqe::timestamp, bytes(48, 8), Format::kDecimal},
                                         Field{"signature", &Cqe::signature, bytes(62, 1)},
                                         Field{"format", &Cqe::format, bits(60, 3, 2), Format::kName},
                                         Field{"solicited", &Cqe::solicited, bits(60, 1, 1)},
                                         Field{"owner", &Cqe::owner, bits(60, 0, 0)}};
};
static_assert(layout_is_valid<Cqe>());
static_assert(offset_bits_of(&Cqe::opcode) == kCqeOpOwnOffset * 8);
static_assert(offset_bits_of(&Cqe::timestamp) == 48 * 8);

// CQE of opcode kRequesterError or kResponderError.
struct ErrorCqe {
  std::uint32_t srqn_or_user_index{};
  std::uint8_t vendor_syndrome{};
  ErrorSyndrome syndrome{};
  SendOpcode send_opcode{};
  std::uint32_t qpn{};
  std::uint16_t wqe_counter{};
  std::uint8_t signature{};
  CqeOpcode opcode{};
  bool solicited{};
  bool owner{};

  static constexpr std::string_view kName = "error-cqe";
  static constexpr std::size_t kBytes = kCqeBytes;
  static constexpr auto kFields = Fields{Field{"opcode", &ErrorCqe::opcode, bits(60, 7, 4), Format::kName},
                                         Field{"syndrome", &ErrorCqe::syndrome, bytes(55, 1), Format::kName},
                                         Field{"vendor_syndrome", &ErrorCqe::vendor_syndrome, bytes(54, 1)},
                                         Field{"send_opcode", &ErrorCqe::send_opcode, bytes(56, 1), Format::kName},
                                         Field{"qpn", &ErrorCqe::qpn, bytes(57, 3)},
                                         Field{"wqe_counter", &ErrorCqe::wqe_counter, bytes(60, 2), Format::kDecimal},
                                         Field{"srqn_uidx", &ErrorCqe::srqn_or_user_index, bytes(33, 3)},
                                         Field{"signature", &ErrorCqe::signature, bytes(62, 1)},
                                         Field{"solicited", &ErrorCqe::solicited, bits(60, 1, 1)},
                                         Field{"owner", &ErrorCqe::owner, bits(60, 0, 0)}};
};
static_assert(layout_is_valid<ErrorCqe>());
static_assert(offset_bits_of(&ErrorCqe::syndrome) == 55 * 8);

// CQE of opcode kSignatureError: a block's protection fields did not match.
struct SignatureErrorCqe {
  std::uint32_t expected_guard{};
  std::uint32_t actual_guard{};
  std::uint32_t expected_reference_tag{};
  std::uint32_t actual_reference_tag{};
  bool guard_mismatch{};
  bool application_tag_mismatch{};
  bool reference_tag_mismatch{};
  std::uint8_t kind{};    // 3 bits: 0 block, 1 transaction
  std::uint8_t domain{};  // 3 bits: 0 wire, 1 memory
  std::uint32_t mkey{};
  std::uint64_t offset_bytes{};
  std::uint32_t qpn{};
  CqeOpcode opcode{};
  bool owner{};

  static constexpr std::string_view kName = "signature-error-cqe";
  static constexpr std::size_t kBytes = kCqeBytes;
  static constexpr auto kFields =
      Fields{Field{"opcode", &SignatureErrorCqe::opcode, bits(60, 7, 4), Format::kName},
             Field{"expected_guard", &SignatureErrorCqe::expected_guard, bytes(16, 4)},
             Field{"actual_guard", &SignatureErrorCqe::actual_guard, bytes(20, 4)},
             Field{"expected_reftag", &SignatureErrorCqe::expected_reference_tag, bytes(24, 4)},
             Field{"actual_reftag", &SignatureErrorCqe::actual_reference_tag, bytes(28, 4)},
             Field{"guard_mismatch", &SignatureErrorCqe::guard_mismatch, bits(32, 29, 29)},
             Field{"apptag_mismatch", &SignatureErrorCqe::application_tag_mismatch, bits(32, 28, 28)},
             Field{"reftag_mismatch", &SignatureErrorCqe::reference_tag_mismatch, bits(32, 27, 27)},
             Field{"kind", &SignatureErrorCqe::kind, bits(32, 10, 8), Format::kDecimal},
             Field{"domain", &SignatureErrorCqe::domain, bits(32, 2, 0), Format::kDecimal},
             Field{"mkey", &SignatureErrorCqe::mkey, bytes(36, 4)},
             Field{"offset", &SignatureErrorCqe::offset_bytes, bytes(40, 8), Format::kDecimal},
             Field{"qpn", &SignatureErrorCqe::qpn, bytes(57, 3)},
             Field{"owner", &SignatureErrorCqe::owner, bits(60, 0, 0)}};
};
static_assert(layout_is_valid<SignatureErrorCqe>());
static_assert(offset_bits_of(&SignatureErrorCqe::mkey) == 36 * 8);

}  // namespace umlx5::wqe
