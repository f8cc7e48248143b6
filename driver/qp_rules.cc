#include "driver/qp_rules.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <utility>

#include "driver/dv_flags.h"
#include "driver/qp_shape.h"

namespace umlx5 {
namespace {

constexpr std::size_t kMaxRssKeyBytes = 128;

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

std::string flags_words(const QpOptions& options) {
  return fmt::format("mlx5dv create_flags {:#x}", options.dv_create_flags);
}

// What is wrong with options that break a rule of qp_shape.h.
std::string words_of(shape::Refused refused, const QpOptions& options) {
  using enum shape::Refused;
  const std::string name = name_of(options);
  switch (refused) {
    case kTsoHeader:
      return fmt::format("max_tso_header {} on a {} QP; only a RAW_PACKET QP has TSO headers",
                         options.max_tso_header_bytes, name);
    case kSendsNothing:
      return fmt::format("send_ops_flags {:#x}: {} sends nothing, so it has no send operations",
                         options.send_operations.value_or(0), name);
    case kSourceQpn:
      return fmt::format("source QPN {:#x} on a {} QP; only a UD QP may have one", options.source_qpn.value_or(0),
                         name);
    case kDcOfType:
      return fmt::format("dc_type {}: a {} is of type DRIVER, not {}", static_cast<int>(options.dc_type), name,
                         to_string(options.type));
    case kUnknownDvFlags:
      return fmt::format("{} has bits that are no flag (known: {:#x})", flags_words(options), dv::kAllCreateFlags);
    case kScatterBothWays:
      return fmt::format("{}: scatter to CQE cannot be both disabled and allowed", flags_words(options));
    case kOutOfOrderOfType:
      return fmt::format("{}: a {} QP has no out-of-order placement", flags_words(options), name);
    case kNeitherDctNorDci:
      return fmt::format("dc_type {}: type DRIVER is DCT (1) or DCI (2), nothing else",
                         static_cast<int>(options.dc_type));
    case kDctSends:
      return "dci_streams or mlx5dv send_ops_flags of a DCT, which sends nothing: it has neither";
    case kDctVerbsFlags:
      return fmt::format("create_flags {:#x} of a DCT, which has none", options.create_flags);
    case kDctFlags:
      return fmt::format("{}: disabled scatter to CQE and out-of-order placement are all that a DCT can have",
                         flags_words(options));
    case kNoChoice:
      return fmt::format("send_ops_flags: send operations cannot be chosen for {}", name);
    case kOperations: {
      const shape::Operations allowed = shape::allowed_operations(shape::shape_of(options));
      const std::uint64_t excess = (options.send_operations.value_or(0) & ~allowed.verbs) |
                                   (options.dv_send_operations.value_or(0) & ~allowed.dv);
      return fmt::format(
          "send_ops_flags: {} has no send operations {:#x} (bits below 32: IBV_QP_EX_WITH_*, of which it "
          "has {:#x}; from 32: MLX5DV_QP_EX_WITH_*, {:#x})",
          name, excess, allowed.verbs, allowed.dv >> 32);
    }
    case kUnknownType:
      return fmt::format("qp_type {} is no QP type", static_cast<std::uint32_t>(options.type));
    case kUnknownFlags:
      return fmt::format("create_flags {:#x} has bits that are no flag (known: 0xb02)", options.create_flags);
    case kTunnelOfType:
      return fmt::format("{}: tunnel offloads and loopback are of RAW_PACKET QPs, not {}", flags_words(options), name);
    case kPacketCreditsType:
      return fmt::format("{}: packet-based credits are of RC QPs, not {}", flags_words(options), name);
    case kVlanOfType:
      return fmt::format("create_flags {:#x}: only RAW_PACKET QPs have these, not {}", options.create_flags, name);
    case kNothing:
      break;
  }
  return {};
}

Expected<void> obey(shape::Refused refused, const QpOptions& options) {
  return refused == shape::Refused::kNothing ? Expected<void>{}
                                             : refuse(shape::errno_of(refused), words_of(refused, options));
}

// Flags that need something of the kernel or the device.
Expected<void> check_device_flags(const Context::State& state, const QpOptions& options) {
  const std::uint32_t flags = options.dv_create_flags;
  const bool drains = (state.info.device.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS) != 0;
  if ((flags & dv::kSignaturePipelining) != 0 && !drains) {
    return refuse(EOPNOTSUPP, fmt::format("{}: signature pipelining needs a kernel that moves queue pairs from SQD to "
                                          "RTS (alloc_ucontext's comp_mask has no SQD2RTS)",
                                          flags_words(options)));
  }
  if ((flags & dv::kOutOfOrderPlacement) != 0 && out_of_order_limit(state, options) == 0) {
    return refuse(EOPNOTSUPP, fmt::format("{}: the device has no out-of-order placement for {} (ooo_recv_wrs_caps)",
                                          flags_words(options), name_of(options)));
  }
  return {};
}

Expected<void> check_streams(const Context::State& state, const QpOptions& options) {
  const mlx5_ib_dci_streams_caps& caps = state.query.driver.base.dci_streams_caps;
  if (options.dc_type != DcType::kDci || !options.dci_streams) {
    return {};
  }
  const DciStreams& asked = *options.dci_streams;
  if (asked.log_concurrent > caps.max_log_num_concurent || asked.log_errored > caps.max_log_num_errored) {
    return refuse(EINVAL, fmt::format("dci_streams: 2^{} concurrent and 2^{} errored; at most 2^{} and 2^{} (device's "
                                      "dci_streams_caps; 0 and 0: none)",
                                      asked.log_concurrent, asked.log_errored, caps.max_log_num_concurent,
                                      caps.max_log_num_errored));
  }
  return {};
}

Expected<void> check_operations(const Context::State& state, const QpOptions& options) {
  if (!state.attributes.atomics && (options.send_operations.value_or(0) & shape::kAtomics) != 0) {
    return refuse(EOPNOTSUPP, fmt::format("send_ops_flags {:#x}: the device has no atomic operations (atomic_cap)",
                                          options.send_operations.value_or(0)));
  }
  if (auto result = obey(shape::operations(shape::shape_of(options)), options); !result) {
    return result;
  }
  const bool copies =
      (options.dv_send_operations.value_or(0) & static_cast<std::uint64_t>(SendOperation::kMemcpy)) != 0;
  if (copies && !state.capabilities.memcpy()) {
    return refuse(EOPNOTSUPP,
                  "mlx5dv send_ops_flags: the device cannot copy memory (HCA capabilities dma_mmo_sq, dma_mmo_qp)");
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
  const shape::QpShape qp = shape::shape_of(options);
  const bool chooses = !options.rss && (options.send_operations || options.dv_send_operations);
  Expected<void> result = obey(shape::combination(qp), options);
  result = result ? obey(shape::flags(qp), options) : result;
  result = result ? check_device_flags(state, options) : result;
  result = result ? obey(shape::dc(qp), options) : result;
  result = result ? check_streams(state, options) : result;
  if (result && options.rss && options.rss->key.size() > kMaxRssKeyBytes) {
    return refuse(EINVAL, fmt::format("an RSS key of {} bytes; at most {}", options.rss->key.size(), kMaxRssKeyBytes));
  }
  result = result && chooses ? check_operations(state, options) : result;
  result = result ? obey(shape::known(qp), options) : result;
  return result ? check_objects(options) : result;
}

namespace {

// MLX5_RX_HASH_*, which are the verbs' IBV_RX_HASH_*.
std::string rss_reason(const QpOptions& options) {
  constexpr std::uint64_t kIpv4 = 3, kIpv6 = 3 << 2, kTcp = 3 << 4, kUdp = 3 << 6, kInner = std::uint64_t{1} << 31;
  constexpr std::size_t kKeyBytes = 40;
  constexpr std::uint8_t kToeplitz = 1;
  const RssOptions& rss = *options.rss;
  const auto has = [&](std::uint64_t any_of) { return (rss.fields & any_of) != 0; };
  if (options.type != QpType::kRawPacket) {
    return fmt::format("{} QPs have no table of receive queues; RAW_PACKET QPs may", to_string(options.type));
  }
  if (rss.function != kToeplitz) {
    return fmt::format("rx_hash_function {}; Toeplitz (1) is the only one", rss.function);
  }
  if (has(kInner) && (options.dv_create_flags & dv::kTunnelOffloads) == 0) {
    return "rx_hash_fields_mask has INNER without mlx5dv create_flags TUNNEL_OFFLOADS";
  }
  if (rss.key.size() != kKeyBytes) {
    return fmt::format("rx_hash_key_len {}; {} bytes are the only length", rss.key.size(), kKeyBytes);
  }
  if ((has(kIpv4) && has(kIpv6)) || (has(kTcp) && has(kUdp))) {
    return fmt::format("rx_hash_fields_mask {:#x} has both IPv4 and IPv6 or both TCP and UDP", rss.fields);
  }
  return {};
}

std::string flags_reason(const Context::State& state, const QpOptions& options) {
  constexpr std::uint32_t kOfRaw =
      IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING;
  const mlx5_ib_query_device_resp& device = state.query.driver.base;
  if ((options.dv_create_flags & dv::kTunnelOffloads) != 0 && device.tunnel_offloads_caps == 0) {
    return flags_words(options) + ": the device has no tunnel offloads (tunnel_offloads_caps)";
  }
  const bool credits = (device.flags & MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE) != 0;
  if ((options.dv_create_flags & dv::kPacketBasedCredit) != 0 && !credits) {
    return flags_words(options) +
           ": the device has no packet-based credits (MLX5DV_CONTEXT_FLAGS_PACKET_BASED_CREDIT_MODE)";
  }
  return (options.create_flags & kOfRaw) != 0
             ? fmt::format("create_flags {:#x} need an ability that the device may lack (raw_packet_caps)",
                           options.create_flags)
             : "";
}

std::string queues_reason(const QpOptions& options) {
  const QpCapacity& asked = options.capacity;
  if (options.dc_type == DcType::kDci && (asked.max_recv_wr != 0 || asked.max_recv_sge != 0)) {
    return fmt::format("max_recv_wr {} and max_recv_sge {} of a DCI, which receives nothing; both are 0",
                       asked.max_recv_wr, asked.max_recv_sge);
  }
  if (is_dct(options) && options.srq == nullptr) {
    return "no SRQ: a DCT receives from one";
  }
  const bool raw = options.type == QpType::kRawPacket && !options.rss;
  return raw && asked.max_send_wr == 0 && (asked.max_recv_wr == 0 || options.srq != nullptr)
             ? fmt::format("max_send_wr {} and max_recv_wr {}: a RAW_PACKET QP has a queue of its own",
                           asked.max_send_wr, asked.max_recv_wr)
             : "";
}

}  // namespace

std::string kernel_reason(const Context::State& state, const QpOptions& options, int errno_value) {
  if (errno_value != EINVAL && errno_value != EOPNOTSUPP) {
    return {};
  }
  const shape::Refused broken = shape::by_kernel(shape::shape_of(options));
  if (broken != shape::Refused::kNothing) {
    return words_of(broken, options);
  }
  for (std::string reason :
       {options.rss ? rss_reason(options) : "", queues_reason(options), flags_reason(state, options)}) {
    if (!reason.empty()) {
      return reason;
    }
  }
  return errno_value == EOPNOTSUPP ? fmt::format("the device or the kernel has no {} QPs", name_of(options)) : "";
}

bool has_send_queue(const QpOptions& options) { return shape::has_send_queue(shape::shape_of(options)); }

bool has_receive_queue(const QpOptions& options) { return shape::has_receive_queue(shape::shape_of(options)); }

std::uint64_t operations_of(const QpOptions& options) {
  const std::uint64_t dv = options.dv_send_operations.value_or(0);
  const std::uint64_t all = shape::allowed_operations(shape::shape_of(options)).verbs;
  return has_send_queue(options) ? options.send_operations.value_or(all) | dv : 0;
}

QpGeometryRequest geometry_of(const Context::State&, const QpOptions& options) {
  QpGeometryRequest request;
  request.type = shape::sized_type(shape::shape_of(options));
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
