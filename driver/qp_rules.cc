#include "driver/qp_rules.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <utility>

#include "driver/dv_flags.h"

namespace umlx5 {
namespace {

constexpr std::size_t kMaxRssKeyBytes = 128;
constexpr std::uint64_t kAtomics = SendOperation::kCompareSwap | SendOperation::kFetchAdd;

std::unexpected<Error> refuse(int errno_value, std::string what) {
  return fail(errno_value, "QP create: " + std::move(what));
}

std::string name_of(const QpOptions& options) {
  if (options.rss) {
    return "RSS";
  }
  switch (options.dc_type) {
    case DcType::kDct:
      return "DCT";
    case DcType::kDci:
      return "DCI";
    default:
      return std::string(to_string(options.type));
  }
}

// What may be asked for in QpOptions::send_operations and dv_send_operations.
struct Operations {
  bool any = false;  // the type has an extended interface for posting at all
  std::uint64_t verbs = 0, dv = 0;
};

Operations allowed_operations(const QpOptions& options) {
  constexpr std::uint64_t kUnreliable = SendOperation::kSend | SendOperation::kSendWithImm |
                                        SendOperation::kSendWithInvalidate | SendOperation::kRdmaWrite |
                                        SendOperation::kRdmaWriteWithImm | SendOperation::kLocalInvalidate |
                                        SendOperation::kBindMemoryWindow;
  constexpr std::uint64_t kReliable = kUnreliable | SendOperation::kRdmaRead | kAtomics;
  constexpr auto kRaw = static_cast<std::uint64_t>(SendOperation::kRawWqe);
  switch (options.type) {
    case QpType::kRc:
      return {true, kReliable,
              SendOperation::kMkeyInterleaved | SendOperation::kMkeyList | SendOperation::kMkeyConfigure |
                  SendOperation::kRawWqe | SendOperation::kMemcpy};
    case QpType::kUc:
      return {true, kUnreliable, kRaw};
    case QpType::kXrcSend:
      return {true, kReliable, kRaw};
    case QpType::kUd:
      return {!options.source_qpn, SendOperation::kSend | SendOperation::kSendWithImm, kRaw};
    case QpType::kRawPacket:
      return {true, SendOperation::kSend | SendOperation::kTso, kRaw};
    case QpType::kDriver:
      return {options.dc_type == DcType::kDci, kReliable, SendOperation::kRawWqe | SendOperation::kMemcpy};
    default:
      return {};
  }
}

bool is_known(QpType type) {
  switch (type) {
    case QpType::kRc:
    case QpType::kUc:
    case QpType::kUd:
    case QpType::kRawPacket:
    case QpType::kXrcSend:
    case QpType::kXrcRecv:
    case QpType::kDriver:
      return true;
  }
  return false;
}

// The most receive requests with out-of-order placement; 0: the device does not do it for this type.
std::uint32_t out_of_order_limit(const Context::State& state, const QpOptions& options) {
  const HcaCapabilities::OutOfOrder& limits = state.capabilities.out_of_order;
  switch (options.type) {
    case QpType::kRc:
      return limits.max_rc;
    case QpType::kUc:
      return limits.max_uc;
    case QpType::kUd:
      return limits.max_ud;
    case QpType::kXrcSend:
    case QpType::kXrcRecv:
      return limits.max_xrc;
    case QpType::kDriver:
      return limits.max_dct;
    default:
      return 0;
  }
}

Expected<void> check_create_flags(const Context::State& state, const QpOptions& options) {
  const std::uint32_t flags = options.dv_create_flags;
  if ((flags & ~dv::kAllCreateFlags) != 0) {
    return refuse(EINVAL, fmt::format("mlx5dv create_flags {:#x} has bits that are no flag (known: {:#x})", flags,
                                      dv::kAllCreateFlags));
  }
  if ((flags & dv::kDisableScatterToCqe) != 0 && (flags & dv::kAllowScatterToCqe) != 0) {
    return refuse(EINVAL, "scatter to CQE cannot be both disabled and allowed");
  }
  const bool drains = (state.info.device.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS) != 0;
  if ((flags & dv::kSignaturePipelining) != 0 && !drains) {
    return refuse(EOPNOTSUPP, "signature pipelining needs a kernel that moves queue pairs from SQD to RTS");
  }
  if ((flags & dv::kOutOfOrderPlacement) != 0 && out_of_order_limit(state, options) == 0) {
    return refuse(EOPNOTSUPP,
                  fmt::format("the device has no out-of-order placement for {} (ooo_recv_wrs_caps)", name_of(options)));
  }
  return {};
}

// The two ends of DC.
Expected<void> check_dc(const Context::State& state, const QpOptions& options) {
  switch (options.dc_type) {
    case DcType::kDct:
      if (options.dci_streams || options.dv_send_operations) {
        return refuse(EINVAL, "a DCT sends nothing: it has neither streams nor send operations");
      }
      if ((kernel_flags_of(state, options) &
           ~static_cast<std::uint32_t>(MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_TYPE_DCT)) != 0) {
        return refuse(EINVAL, fmt::format("mlx5dv create_flags {:#x}: scatter to CQE and out-of-order placement are "
                                          "all that a DCT can have",
                                          options.dv_create_flags));
      }
      return {};
    case DcType::kDci:
      if (options.dci_streams) {
        const mlx5_ib_dci_streams_caps& caps = state.query.driver.base.dci_streams_caps;
        if (options.dci_streams->log_concurrent > caps.max_log_num_concurent ||
            options.dci_streams->log_errored > caps.max_log_num_errored) {
          return refuse(EINVAL, fmt::format("2^{} concurrent and 2^{} errored DCI streams; at most 2^{} and 2^{} "
                                            "(device's dci_streams_caps; 0 and 0: none)",
                                            options.dci_streams->log_concurrent, options.dci_streams->log_errored,
                                            caps.max_log_num_concurent, caps.max_log_num_errored));
        }
      }
      return {};
    default:
      return refuse(EINVAL, "type DRIVER is DCT or DCI (dc_type), nothing else");
  }
}

Expected<void> check_operations(const Context::State& state, const QpOptions& options) {
  const Operations allowed = allowed_operations(options);
  const std::uint64_t verbs = options.send_operations.value_or(0), dv = options.dv_send_operations.value_or(0);
  if (!state.attributes.atomics && (verbs & kAtomics) != 0) {
    return refuse(EOPNOTSUPP, "the device has no atomic operations");
  }
  if (!allowed.any) {
    return refuse(EOPNOTSUPP, fmt::format("send operations cannot be chosen for {}", name_of(options)));
  }
  if (const std::uint64_t excess = (verbs & ~allowed.verbs) | (dv & ~allowed.dv); excess != 0) {
    return refuse(EOPNOTSUPP, fmt::format("{} has no send operations {:#x} (bits below 32: IBV_QP_EX_WITH_*, from 32: "
                                          "MLX5DV_QP_EX_WITH_*)",
                                          name_of(options), excess));
  }
  if ((dv & static_cast<std::uint64_t>(SendOperation::kMemcpy)) != 0 && !state.capabilities.memcpy()) {
    return refuse(EOPNOTSUPP, "the device cannot copy memory (HCA capabilities dma_mmo_sq, dma_mmo_qp)");
  }
  return {};
}

// The objects that the type goes with.
Expected<void> check_objects(const QpOptions& options) {
  if (options.rss) {
    if (options.recv_cq != nullptr || options.srq != nullptr || options.capacity.max_recv_wr != 0 ||
        options.capacity.max_recv_sge != 0) {
      return refuse(EINVAL, "RSS receives through the queues of its table: no receive CQ, SRQ or receive requests");
    }
    return {};
  }
  if (options.srq != nullptr && (options.type == QpType::kXrcSend || options.type == QpType::kXrcRecv)) {
    return refuse(EINVAL, fmt::format("an SRQ on a {} QP, which takes nothing from one of its own", name_of(options)));
  }
  if (options.type == QpType::kXrcRecv) {
    return {};
  }
  if (options.send_cq == nullptr) {
    return refuse(EINVAL, "no send CQ");
  }
  if (options.recv_cq == nullptr && options.type != QpType::kXrcSend) {
    return refuse(EINVAL, "no receive CQ");
  }
  return {};
}

}  // namespace

Expected<void> check_qp_options(const Context::State& state, const QpOptions& options) {
  if (options.max_tso_header_bytes != 0 && options.type != QpType::kRawPacket) {
    return refuse(EINVAL,
                  fmt::format("max_tso_header on a {} QP; only a RAW_PACKET QP has TSO headers", name_of(options)));
  }
  if (options.send_operations && (options.rss || is_dct(options))) {
    return refuse(EINVAL, fmt::format("{} sends nothing, so it has no send operations", name_of(options)));
  }
  if (options.source_qpn && options.type != QpType::kUd) {
    return refuse(EINVAL, fmt::format("a source QPN on a {} QP; only a UD QP may have one", name_of(options)));
  }
  if (options.dc_type != DcType::kNone && options.type != QpType::kDriver) {
    return refuse(EINVAL, fmt::format("a {} is of type DRIVER, not {}", name_of(options), to_string(options.type)));
  }
  if (auto result = check_create_flags(state, options); !result) {
    return result;
  }
  if (options.type == QpType::kDriver) {
    if (auto result = check_dc(state, options); !result) {
      return result;
    }
  }
  if (options.rss && options.rss->key.size() > kMaxRssKeyBytes) {
    return refuse(EINVAL, fmt::format("an RSS key of {} bytes; at most {}", options.rss->key.size(), kMaxRssKeyBytes));
  }
  if (!options.rss && (options.send_operations || options.dv_send_operations)) {
    if (auto result = check_operations(state, options); !result) {
      return result;
    }
  }
  if (!is_known(options.type)) {
    return refuse(EINVAL, fmt::format("{} is no QP type", static_cast<std::uint32_t>(options.type)));
  }
  constexpr std::uint32_t kCreateFlags = IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK |
                                         IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING |
                                         IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING;
  if ((options.create_flags & ~kCreateFlags) != 0) {
    return refuse(EINVAL, fmt::format("create_flags {:#x} has bits that are no flag (known: {:#x})",
                                      options.create_flags, kCreateFlags));
  }
  return check_objects(options);
}

bool has_send_queue(const QpOptions& options) {
  return !options.rss && !is_dct(options) && options.type != QpType::kXrcRecv;
}

bool has_receive_queue(const QpOptions& options) { return has_send_queue(options) && options.type != QpType::kXrcSend; }

std::uint64_t operations_of(const QpOptions& options) {
  const std::uint64_t dv = options.dv_send_operations.value_or(0);
  return has_send_queue(options) ? options.send_operations.value_or(allowed_operations(options).verbs) | dv : 0;
}

QpGeometryRequest geometry_of(const Context::State&, const QpOptions& options) {
  const auto sized_type = [&] {
    switch (options.type) {
      case QpType::kUc:
        return SizedQpType::kUc;
      case QpType::kUd:
        return options.source_qpn ? SizedQpType::kUdUnderlay : SizedQpType::kUd;
      case QpType::kRawPacket:
        return SizedQpType::kRawPacket;
      case QpType::kXrcSend:
        return SizedQpType::kXrcSend;
      case QpType::kXrcRecv:
        return SizedQpType::kXrcRecv;
      case QpType::kDriver:
        return is_dct(options) ? SizedQpType::kDct : SizedQpType::kDci;
      default:
        return SizedQpType::kRc;
    }
  };
  QpGeometryRequest request;
  request.type = sized_type();
  if (options.send_operations || options.dv_send_operations) {
    request.send_operations =
        options.send_operations.value_or(default_operations(request.type)) | options.dv_send_operations.value_or(0);
  }
  if (has_send_queue(options)) {
    request.max_send_wr = options.capacity.max_send_wr;
  }
  if (has_receive_queue(options)) {
    request.max_recv_wr = options.capacity.max_recv_wr;
    request.max_recv_sge = options.capacity.max_recv_sge;
  }
  request.max_send_sge = options.capacity.max_send_sge;
  request.max_inline_bytes = options.capacity.max_inline_bytes;
  request.max_tso_header_bytes = options.max_tso_header_bytes;
  request.has_srq = options.srq != nullptr;
  request.wqe_signature = options.wqe_signature;
  request.out_of_order_receive = (options.dv_create_flags & dv::kOutOfOrderPlacement) != 0;
  return request;
}

QueueLimits limits_of(const Context::State& state, const QpOptions& options) {
  QueueLimits limits = state.limits;
  limits.max_out_of_order_recv_wr = out_of_order_limit(state, options);
  return limits;
}

std::uint32_t kernel_flags_of(const Context::State& state, const QpOptions& options) {
  const auto asked = [&](std::uint32_t flag) { return (options.dv_create_flags & flag) != 0; };
  const bool chooses_operations = options.send_operations || options.dv_send_operations;
  std::uint32_t flags = options.wqe_signature && has_send_queue(options) ? MLX5_QP_FLAG_SIGNATURE : 0;
  // Posting to DC with chosen operations knows no data in CQEs (mlx5dv); RSS has no CQ of its own.
  if (asked(dv::kAllowScatterToCqe) || (state.scatter_to_cqe && !asked(dv::kDisableScatterToCqe))) {
    flags |= MLX5_QP_FLAG_SCATTER_CQE;
  }
  if (options.rss || (options.dc_type != DcType::kNone && chooses_operations)) {
    flags &= ~static_cast<std::uint32_t>(MLX5_QP_FLAG_SCATTER_CQE);
  }
  flags |= asked(dv::kAllowScatterToCqe) ? MLX5_QP_FLAG_ALLOW_SCATTER_CQE : 0;
  flags |= asked(dv::kTunnelOffloads) ? MLX5_QP_FLAG_TUNNEL_OFFLOADS : 0;
  flags |= asked(dv::kSelfLoopbackUnicast) ? MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC : 0;
  flags |= asked(dv::kSelfLoopbackMulticast) ? MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC : 0;
  flags |= asked(dv::kPacketBasedCredit) ? MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE : 0;
  flags |= options.dc_type == DcType::kDct ? MLX5_QP_FLAG_TYPE_DCT : 0;
  flags |= options.dc_type == DcType::kDci ? MLX5_QP_FLAG_TYPE_DCI : 0;
  flags |= options.dc_type == DcType::kDci && options.dci_streams ? MLX5_QP_FLAG_DCI_STREAM : 0;
  return flags;
}

}  // namespace umlx5
