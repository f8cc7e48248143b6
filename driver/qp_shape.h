// What may be combined in a queue pair on any device: types, flags and operations, at run time and at compile time.
// Rules of mlx5dv_create_qp(), and of the kernel where the device makes no difference. No words; qp_rules.cc has them.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>

#include "driver/dv_flags.h"
#include "driver/qp.h"
#include "driver/qp_geometry.h"

namespace umlx5::shape {

struct QpShape {
  QpType type = QpType::kRc;
  DcType dc_type = DcType::kNone;
  bool rss = false, source_qpn = false, tso_header = false, dci_streams = false;
  std::optional<std::uint64_t> send_operations = std::nullopt;     // as in QpOptions
  std::optional<std::uint64_t> dv_send_operations = std::nullopt;  // as in QpOptions
  std::uint32_t create_flags = 0, dv_create_flags = 0;
};

constexpr QpShape shape_of(const QpOptions& options) {
  return {.type = options.type,
          .dc_type = options.dc_type,
          .rss = options.rss.has_value(),
          .source_qpn = options.source_qpn.has_value(),
          .tso_header = options.max_tso_header_bytes != 0,
          .dci_streams = options.dci_streams.has_value(),
          .send_operations = options.send_operations,
          .dv_send_operations = options.dv_send_operations,
          .create_flags = options.create_flags,
          .dv_create_flags = options.dv_create_flags};
}

enum class Refused : std::uint8_t {
  kNothing,
  kTsoHeader,          // of another type than RAW_PACKET
  kSendsNothing,       // send operations of what sends nothing
  kSourceQpn,          // of another type than UD
  kDcOfType,           // DC that is not of type DRIVER
  kUnknownDvFlags,     // mlx5dv create_flags
  kScatterBothWays,    // allowed and disabled
  kOutOfOrderOfType,   // RAW_PACKET
  kNeitherDctNorDci,   // of type DRIVER
  kDctSends,           // streams or mlx5dv operations
  kDctVerbsFlags,      // create_flags
  kDctFlags,           // mlx5dv create_flags
  kNoChoice,           // operations where the type has no choice of them
  kOperations,         // that the type does not have
  kUnknownType,        //
  kUnknownFlags,       // create_flags
  kTunnelOfType,       // and loopback: of another type than RAW_PACKET
  kPacketCreditsType,  // of another type than RC
  kVlanOfType,         // stripped of another type than RAW_PACKET
};

constexpr int errno_of(Refused refused) {
  switch (refused) {
    case Refused::kNothing:
      return 0;
    case Refused::kOutOfOrderOfType:
    case Refused::kNoChoice:
    case Refused::kOperations:
    case Refused::kVlanOfType:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

constexpr bool is_dct(const QpShape& qp) { return qp.dc_type == DcType::kDct; }

inline constexpr std::uint64_t kAtomics = SendOperation::kCompareSwap | SendOperation::kFetchAdd;

// What may be asked for in QpOptions::send_operations and dv_send_operations.
struct Operations {
  bool any = false;  // the type has an extended interface for posting at all
  std::uint64_t verbs = 0, dv = 0;
};

constexpr Operations allowed_operations(const QpShape& qp) {
  constexpr std::uint64_t kUnreliable = SendOperation::kSend | SendOperation::kSendWithImm |
                                        SendOperation::kSendWithInvalidate | SendOperation::kRdmaWrite |
                                        SendOperation::kRdmaWriteWithImm | SendOperation::kLocalInvalidate |
                                        SendOperation::kBindMemoryWindow;
  constexpr std::uint64_t kReliable = kUnreliable | SendOperation::kRdmaRead | kAtomics;
  constexpr auto kRaw = static_cast<std::uint64_t>(SendOperation::kRawWqe);
  switch (qp.type) {
    case QpType::kRc:
      return {true, kReliable,
              SendOperation::kMkeyInterleaved | SendOperation::kMkeyList | SendOperation::kMkeyConfigure |
                  SendOperation::kRawWqe | SendOperation::kMemcpy};
    case QpType::kUc:
      return {true, kUnreliable, kRaw};
    case QpType::kXrcSend:
      return {true, kReliable, kRaw};
    case QpType::kUd:
      return {!qp.source_qpn, SendOperation::kSend | SendOperation::kSendWithImm, kRaw};
    case QpType::kRawPacket:
      return {true, SendOperation::kSend | SendOperation::kTso, kRaw};
    case QpType::kDriver:
      return {qp.dc_type == DcType::kDci, kReliable, SendOperation::kRawWqe | SendOperation::kMemcpy};
    default:
      return {};
  }
}

// The rules in their order: what is told first when several are broken.

constexpr Refused combination(const QpShape& qp) {
  if (qp.tso_header && qp.type != QpType::kRawPacket) {
    return Refused::kTsoHeader;
  }
  if (qp.send_operations && (qp.rss || is_dct(qp))) {
    return Refused::kSendsNothing;
  }
  if (qp.source_qpn && qp.type != QpType::kUd) {
    return Refused::kSourceQpn;
  }
  return qp.dc_type != DcType::kNone && qp.type != QpType::kDriver ? Refused::kDcOfType : Refused::kNothing;
}

constexpr Refused flags(const QpShape& qp) {
  if ((qp.dv_create_flags & ~dv::kAllCreateFlags) != 0) {
    return Refused::kUnknownDvFlags;
  }
  constexpr std::uint32_t kBothWays = dv::kDisableScatterToCqe | dv::kAllowScatterToCqe;
  if ((qp.dv_create_flags & kBothWays) == kBothWays) {
    return Refused::kScatterBothWays;
  }
  const bool out_of_order = (qp.dv_create_flags & dv::kOutOfOrderPlacement) != 0;
  return out_of_order && qp.type == QpType::kRawPacket ? Refused::kOutOfOrderOfType : Refused::kNothing;
}

// The two ends of DC.
constexpr Refused dc(const QpShape& qp) {
  constexpr std::uint32_t kOfDct = dv::kDisableScatterToCqe | dv::kSignaturePipelining | dv::kOutOfOrderPlacement;
  if (qp.type != QpType::kDriver) {
    return Refused::kNothing;
  }
  if (!is_dct(qp)) {
    return qp.dc_type == DcType::kDci ? Refused::kNothing : Refused::kNeitherDctNorDci;
  }
  if (qp.dci_streams || qp.dv_send_operations) {
    return Refused::kDctSends;
  }
  return qp.create_flags != 0                  ? Refused::kDctVerbsFlags
         : (qp.dv_create_flags & ~kOfDct) != 0 ? Refused::kDctFlags
                                               : Refused::kNothing;
}

constexpr Refused operations(const QpShape& qp) {
  if (qp.rss || (!qp.send_operations && !qp.dv_send_operations)) {
    return Refused::kNothing;
  }
  const Operations allowed = allowed_operations(qp);
  if (!allowed.any) {
    return Refused::kNoChoice;
  }
  const std::uint64_t excess =
      (qp.send_operations.value_or(0) & ~allowed.verbs) | (qp.dv_send_operations.value_or(0) & ~allowed.dv);
  return excess != 0 ? Refused::kOperations : Refused::kNothing;
}

constexpr Refused known(const QpShape& qp) {
  // IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK, SCATTER_FCS, CVLAN_STRIPPING, PCI_WRITE_END_PADDING
  constexpr std::uint32_t kCreateFlags = 1 << 1 | 1 << 8 | 1 << 9 | 1 << 11;
  switch (qp.type) {
    case QpType::kRc:
    case QpType::kUc:
    case QpType::kUd:
    case QpType::kRawPacket:
    case QpType::kXrcSend:
    case QpType::kXrcRecv:
    case QpType::kDriver:
      return (qp.create_flags & ~kCreateFlags) != 0 ? Refused::kUnknownFlags : Refused::kNothing;
  }
  return Refused::kUnknownType;
}

// What the kernel refuses on every device; asked of it at run time.
constexpr Refused by_kernel(const QpShape& qp) {
  constexpr std::uint32_t kOfRaw = dv::kTunnelOffloads | dv::kSelfLoopbackUnicast | dv::kSelfLoopbackMulticast;
  constexpr std::uint32_t kRawVerbs = 1 << 8 | 1 << 9 | 1 << 11;
  const bool raw = qp.type == QpType::kRawPacket;
  if (!raw && (qp.dv_create_flags & kOfRaw) != 0) {
    return Refused::kTunnelOfType;
  }
  if (qp.type != QpType::kRc && (qp.dv_create_flags & dv::kPacketBasedCredit) != 0) {
    return Refused::kPacketCreditsType;
  }
  return !raw && (qp.create_flags & kRawVerbs) != 0 ? Refused::kVlanOfType : Refused::kNothing;
}

// The first rule that is broken.
constexpr Refused any(const QpShape& qp) {
  for (const auto rule : {combination, flags, dc, operations, known, by_kernel}) {
    if (const Refused refused = rule(qp); refused != Refused::kNothing) {
      return refused;
    }
  }
  return Refused::kNothing;
}

constexpr SizedQpType sized_type(const QpShape& qp) {
  switch (qp.type) {
    case QpType::kUc:
      return SizedQpType::kUc;
    case QpType::kUd:
      return qp.source_qpn ? SizedQpType::kUdUnderlay : SizedQpType::kUd;
    case QpType::kRawPacket:
      return SizedQpType::kRawPacket;
    case QpType::kXrcSend:
      return SizedQpType::kXrcSend;
    case QpType::kXrcRecv:
      return SizedQpType::kXrcRecv;
    case QpType::kDriver:
      return is_dct(qp) ? SizedQpType::kDct : SizedQpType::kDci;
    default:
      return SizedQpType::kRc;
  }
}

constexpr bool has_send_queue(const QpShape& qp) { return !qp.rss && !is_dct(qp) && qp.type != QpType::kXrcRecv; }
constexpr bool has_receive_queue(const QpShape& qp) { return has_send_queue(qp) && qp.type != QpType::kXrcSend; }

}  // namespace umlx5::shape
