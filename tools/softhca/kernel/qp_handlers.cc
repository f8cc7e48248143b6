// Creating, querying and destroying queue pairs.
#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tools/softhca/kernel/dct.h"
#include "tools/softhca/kernel/log.h"
#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/user_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/prm/qp.h"
#include "wqe/prm/tir.h"

namespace softhca::kernel {

namespace prm = umlx5::wqe::prm;

int Qp::release(RdmaDevice& device) {
  if (qp_type == kQptDct) {
    return release_dct(device, *this);
  }
  if (const int error = leave_groups(device); error != 0) {
    return error;
  }
  if (qp_type == IB_UVERBS_QPT_RAW_PACKET) {
    return release_raw(device);
  }
  if (domain != nullptr && common.use_count() > 1) {  // others have it open
    reported = device.events().remove(EventSource::kQp, number, event_tag);
    return 0;
  }
  // As mlx5_ib does: a QP leaves the device from RESET.
  if (common->state != State::kReset) {
    if (const int error = command_on_object(device.firmware(), prm::Opcode::kToRstQp, uid, number); error != 0) {
      log(LogLevel::kInfo, fmt::format("QP {:#x} could not be reset before it is destroyed", number));
    }
  }
  if (const int error = Numbered::release(device); error != 0) {
    return error;
  }
  reported = device.events().remove(EventSource::kQp, number);
  if (domain != nullptr) {
    domain->targets.erase(number);
  }
  return 0;
}

// Queues leave the device from reset too.
int Qp::release_raw(RdmaDevice& device) {
  const RawQueues numbers = raw;
  if (!is_rss && common->state != State::kReset && modify_raw_queues(device.firmware(), uid, raw, State::kReset) != 0) {
    log(LogLevel::kInfo, fmt::format("QP {:#x} could not be reset before it is destroyed", number));
  }
  if (const int error = destroy_raw_queues(device.firmware(), uid, raw); error != 0) {
    return error;
  }
  for (const std::uint32_t queue : {numbers.sqn, numbers.rqn}) {
    if (queue != 0) {
      reported.asynchronous += device.events().remove(EventSource::kQp, queue).asynchronous;
    }
  }
  return 0;
}

namespace handlers {
namespace {

constexpr std::uint32_t kMaxUserIndex = 0xffffff;  // itself stands for "none"
constexpr std::uint32_t kWqebbBytes = 64;
constexpr std::uint32_t kSegmentBytes = 16;
constexpr std::uint32_t kKnownCreateFlags = IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK |
                                            IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING |
                                            IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING;

// What all three ways to ask for a QP have in common.
struct QpRequest {
  std::uint32_t type = 0;
  std::uint64_t user_handle = 0;
  ib_uverbs_qp_cap cap{};
  bool signal_all = false;
  std::uint32_t create_flags = 0;
  Pd* pd = nullptr;
  Cq* send_cq = nullptr;
  Cq* receive_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;
  RwqIndTable* table = nullptr;
  std::shared_ptr<EventFile> async = nullptr;

  bool is_xrc() const { return type == IB_UVERBS_QPT_XRC_INI || type == IB_UVERBS_QPT_XRC_TGT; }
  bool has_rq() const {
    return srq == nullptr && cap.max_recv_wr != 0 && !is_xrc() && type != kQptDci && type != kQptDct;
  }
};

// The type of a QP that the verbs call a driver's: its flags tell. Nothing changes for other types.
int resolve_driver_type(QpRequest& asked, std::uint32_t flags) {
  constexpr std::uint32_t kDc = MLX5_QP_FLAG_TYPE_DCT | MLX5_QP_FLAG_TYPE_DCI;
  if (asked.type != IB_UVERBS_QPT_DRIVER) {
    return (flags & kDc) != 0 || asked.type > IB_UVERBS_QPT_DRIVER ? EINVAL : 0;
  }
  if ((flags & kDc) != MLX5_QP_FLAG_TYPE_DCT && (flags & kDc) != MLX5_QP_FLAG_TYPE_DCI) {
    return EINVAL;
  }
  asked.type = (flags & kDc) == MLX5_QP_FLAG_TYPE_DCT ? kQptDct : kQptDci;
  return 0;
}

int check_dci(const QpRequest& asked) {
  const bool receives = asked.cap.max_recv_wr != 0 || asked.cap.max_recv_sge != 0;
  return asked.pd == nullptr || asked.send_cq == nullptr || asked.receive_cq == nullptr || receives ? EINVAL : 0;
}

int check_dct(const QpRequest& asked) {
  const bool lacks = asked.pd == nullptr || asked.srq == nullptr || asked.receive_cq == nullptr;
  return lacks || asked.create_flags != 0 ? EINVAL : 0;
}

int check_raw(Request& request, const QpRequest& asked) {
  const bool lacks = asked.pd == nullptr || asked.send_cq == nullptr || asked.receive_cq == nullptr;
  return lacks || request.file().context()->cqe_version == 0 ? EINVAL : 0;
}

int check_type(Request& request, const QpRequest& asked) {
  const auto& caps = request.device().caps();
  switch (asked.type) {
    case IB_UVERBS_QPT_RC:
    case IB_UVERBS_QPT_UC:
    case IB_UVERBS_QPT_UD: {
      const bool supported = asked.type == IB_UVERBS_QPT_RC   ? caps.rc
                             : asked.type == IB_UVERBS_QPT_UC ? caps.uc
                                                              : caps.ud;
      if (!supported) {
        return EOPNOTSUPP;
      }
      return asked.pd == nullptr || asked.send_cq == nullptr || asked.receive_cq == nullptr ? EINVAL : 0;
    }
    case IB_UVERBS_QPT_XRC_INI:
      return !caps.xrc ? EOPNOTSUPP : asked.pd == nullptr || asked.send_cq == nullptr ? EINVAL : 0;
    case IB_UVERBS_QPT_XRC_TGT:
      return !caps.xrc ? EOPNOTSUPP : asked.xrcd == nullptr ? EINVAL : 0;
    case kQptDci:
      return caps.dct ? check_dci(asked) : EOPNOTSUPP;
    case kQptDct:
      return caps.dct ? check_dct(asked) : EOPNOTSUPP;
    case IB_UVERBS_QPT_RAW_PACKET:
      return caps.raw_packets ? check_raw(request, asked) : EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

// The driver's structure: sizes, index, flags. `kept` becomes the flags that have an effect.
int check_driver_part(Request& request, std::uint32_t type, const mlx5_ib_create_qp& driver, std::uint32_t& kept) {
  if (request.driver_in().size() < offsetof(mlx5_ib_create_qp, flags) + sizeof driver.flags ||
      !request.driver_in_is_zero_from(offsetof(mlx5_ib_create_qp, reserved))) {
    return EINVAL;
  }
  const bool has_index = request.driver_in().size() >= offsetof(mlx5_ib_create_qp, uidx) + sizeof driver.uidx;
  const bool uses_index = request.file().context()->cqe_version != 0;
  if (has_index != uses_index && !(has_index && driver.uidx == kMaxUserIndex)) {
    return EINVAL;
  }
  if (uses_index && driver.uidx >= kMaxUserIndex) {
    return EINVAL;
  }
  const auto& caps = request.device().caps();
  std::uint32_t accepted = MLX5_QP_FLAG_SIGNATURE | MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX |
                           MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE;
  const bool may_credit = caps.qp_packet_based && type == IB_UVERBS_QPT_RC;
  accepted |= may_credit ? std::uint32_t{MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE} : 0;
  if (type == kQptDct) {
    constexpr std::uint32_t kOfDct =
        MLX5_QP_FLAG_TYPE_DCT | MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX;
    kept = driver.flags;
    return (driver.flags & ~kOfDct) != 0 ? EINVAL : 0;
  }
  if (type == IB_UVERBS_QPT_RAW_PACKET) {
    accepted |= MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC;
    accepted |= caps.tunnel_offloads ? std::uint32_t{MLX5_QP_FLAG_TUNNEL_OFFLOADS} : 0;
  }
  if (type == kQptDci) {
    accepted |= MLX5_QP_FLAG_TYPE_DCI;
    accepted |= caps.log_max_dci_streams != 0 ? std::uint32_t{MLX5_QP_FLAG_DCI_STREAM} : 0;
  }
  if ((driver.flags & ~accepted) != 0) {
    return EINVAL;
  }
  kept = driver.flags;
  if (!caps.sctr_data_cqe) {
    kept &= ~std::uint32_t{MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE};
  }
  // A context with dynamic UARs names its UAR page, and nothing else.
  return (kept & (MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_BFREG_INDEX)) == MLX5_QP_FLAG_UAR_PAGE_INDEX ? 0 : EINVAL;
}

// Sizes of both queues, in the request's order of checks. Changes the capabilities that are returned.
int check_sizes(Request& request, QpRequest& asked, const mlx5_ib_create_qp& driver, std::uint32_t flags) {
  const std::uint32_t max_entries = 1u << request.device().caps().log_max_qp_sz;
  if (asked.cap.max_recv_wr > max_entries) {
    return EINVAL;
  }
  if (!asked.has_rq()) {
    asked.cap.max_recv_wr = asked.cap.max_recv_sge = 0;
    if (driver.rq_wqe_count != 0 || driver.rq_wqe_shift != 0) {
      return EINVAL;
    }
  } else if (driver.rq_wqe_shift > 16 || driver.rq_wqe_shift < 4 || !std::has_single_bit(driver.rq_wqe_count) ||
             driver.rq_wqe_count > max_entries || (1u << driver.rq_wqe_shift) > request.device().caps().max_wqe_sz_rq ||
             (1u << driver.rq_wqe_shift) / kSegmentBytes < ((flags & MLX5_QP_FLAG_SIGNATURE) != 0 ? 1u : 0u)) {
    return EINVAL;
  }
  return driver.sq_wqe_count > max_entries || (driver.sq_wqe_count != 0 && !std::has_single_bit(driver.sq_wqe_count))
             ? EINVAL
             : 0;
}

// create_flags of the verbs, which all need a capability.
int check_create_flags(Request& request, const QpRequest& asked) {
  std::uint32_t supported = 0;
  supported |= request.device().caps().block_lb_mc ? std::uint32_t{IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK} : 0;
  const bool strips = asked.type == IB_UVERBS_QPT_RAW_PACKET && request.device().caps().vlan_stripping;
  supported |= strips ? std::uint32_t{IB_UVERBS_QP_CREATE_CVLAN_STRIPPING} : 0;
  return (asked.create_flags & ~supported) != 0 ? EOPNOTSUPP : 0;
}

// The objects that a QP's context names: the program's, or the device's own where the type has none.
struct Named {
  std::uint16_t uid = 0;
  std::uint32_t pdn = 0, send_cqn = 0, receive_cqn = 0, srqn = 0, xrcdn = 0;
};

Named named_by(Request& request, const QpRequest& asked) {
  const DeviceResources& own = request.device().resources();
  Named named{.pdn = own.pdn(),
              .send_cqn = own.cqn(),
              .receive_cqn = own.cqn(),
              .srqn = asked.is_xrc() ? own.xrc_srqn() : 0,
              .xrcdn = own.xrcdn()};
  if (asked.type == IB_UVERBS_QPT_XRC_TGT) {
    named.xrcdn = asked.xrcd->domain->number;
    return named;
  }
  named.uid = request.uid();
  named.pdn = asked.pd->number;
  named.send_cqn = asked.send_cq->number;
  if (!asked.is_xrc()) {
    named.receive_cqn = asked.receive_cq->number;
    named.srqn = asked.srq != nullptr ? asked.srq->number : 0;
  }
  return named;
}

void set_scatter_to_cqe(prm::Qpc& qpc, const QpRequest& asked, std::uint32_t flags) {
  const bool connected = asked.type == IB_UVERBS_QPT_RC || asked.type == IB_UVERBS_QPT_UC;
  if ((flags & MLX5_QP_FLAG_SCATTER_CQE) == 0 || !connected) {
    return;
  }
  qpc.cs_res = asked.receive_cq->cqe_bytes == 128 ? prm::kScatterResponder64 : prm::kScatterResponder32;
  const bool requester = asked.signal_all || (flags & MLX5_QP_FLAG_ALLOW_SCATTER_CQE) != 0;
  if (asked.type == IB_UVERBS_QPT_RC && requester) {
    qpc.cs_req = asked.send_cq->cqe_bytes == 128 ? prm::kScatterRequester64 : prm::kScatterRequester32;
  }
}

prm::Qpc context_of(Request& request, const QpRequest& asked, const Named& named, const mlx5_ib_create_qp& driver,
                    std::uint32_t flags) {
  prm::Qpc qpc{.st = service_of(asked.type), .pm_state = prm::kPathMigrated};
  qpc.wq_signature = (flags & MLX5_QP_FLAG_SIGNATURE) != 0;
  qpc.block_lb_mc = (asked.create_flags & IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK) != 0;
  qpc.req_e2e_credit_mode = (flags & MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE) != 0 ? 1 : 0;
  qpc.pd = named.pdn;
  qpc.uar_page = driver.bfreg_index;
  qpc.user_index = request.file().context()->cqe_version != 0 ? driver.uidx : 0;
  if (asked.has_rq()) {
    qpc.log_rq_size = static_cast<std::uint8_t>(std::countr_zero(driver.rq_wqe_count));
    qpc.log_rq_stride = static_cast<std::uint8_t>(driver.rq_wqe_shift - 4);
  }
  const bool is_target = asked.type == IB_UVERBS_QPT_XRC_TGT;
  qpc.rq_type = asked.srq != nullptr || is_target ? prm::RqType::kSrq
                : asked.has_rq()                  ? prm::RqType::kRegular
                                                  : prm::RqType::kZeroLength;
  if ((flags & MLX5_QP_FLAG_DCI_STREAM) != 0) {
    qpc.log_num_dci_stream_channels = driver.dci_streams.log_num_concurent;
    qpc.log_num_dci_errored_streams = driver.dci_streams.log_num_errored;
  }
  qpc.srqn_rmpn_xrqn = named.srqn;
  qpc.xrcd = named.xrcdn;
  qpc.no_sq = driver.sq_wqe_count == 0 || is_target;
  qpc.log_sq_size = qpc.no_sq ? 0 : static_cast<std::uint8_t>(std::countr_zero(driver.sq_wqe_count));
  qpc.cqn_snd = named.send_cqn;
  qpc.cqn_rcv = named.receive_cqn;
  qpc.dbr_addr = is_target ? 0 : driver.db_addr;
  set_scatter_to_cqe(qpc, asked, flags);
  return qpc;
}

std::expected<PageRun, int> pages_of(const mlx5_ib_create_qp& driver, prm::Qpc& qpc) {
  const std::uint64_t bytes =
      (driver.rq_wqe_count == 0 ? 0 : std::uint64_t{driver.rq_wqe_count} << driver.rq_wqe_shift) +
      std::uint64_t{driver.sq_wqe_count} * kWqebbBytes;
  if (driver.buf_addr == 0 || bytes == 0) {
    return PageRun{};
  }
  int error = pin_user_memory(driver.buf_addr, bytes, false);
  error = error != 0 ? error : pin_user_memory(driver.db_addr, 8, false);
  if (error != 0) {
    return std::unexpected(error);
  }
  PageRun pages = queue_pages(driver.buf_addr, bytes);
  if (pages.addresses.empty()) {
    return std::unexpected(EINVAL);
  }
  qpc.log_page_size = static_cast<std::uint8_t>(pages.log_page_bytes - 12);
  qpc.page_offset = static_cast<std::uint8_t>(pages.offset_bytes >> (pages.log_page_bytes - 6));
  return pages;
}

std::unique_ptr<Qp> qp_of(const QpRequest& asked, const Named& named, const mlx5_ib_create_qp& driver,
                          std::uint32_t flags, std::uint32_t qpn) {
  auto qp = std::make_unique<Qp>(named.uid, qpn);
  qp->qp_type = static_cast<std::uint8_t>(asked.type);
  qp->signal_all = asked.signal_all;
  if (asked.has_rq()) {
    const std::uint32_t signature = (flags & MLX5_QP_FLAG_SIGNATURE) != 0 ? 1 : 0;
    qp->rq_entries = driver.rq_wqe_count;
    qp->rq_max_sge = (1u << driver.rq_wqe_shift) / kSegmentBytes - signature;
  }
  qp->pdn = named.pdn;
  qp->send_cqn = named.send_cqn;
  qp->receive_cqn = named.receive_cqn;
  qp->doorbell_record = driver.db_addr;
  qp->use(asked.xrcd);
  qp->use(asked.pd);
  qp->use(asked.send_cq);
  qp->use(asked.receive_cq);
  qp->use(asked.srq);
  return qp;
}

struct QpNumbers {
  std::uint32_t handle, qpn;
};

// A DCT is not yet on the device, and has no number.
QpNumbers add_dct(Request& request, const QpRequest& asked, const mlx5_ib_create_qp& driver, std::uint32_t flags) {
  auto dct = std::make_unique<Qp>(request.uid(), 0);
  dct->qp_type = kQptDct;
  const bool scatters = (flags & MLX5_QP_FLAG_SCATTER_CQE) != 0 && asked.receive_cq->cqe_bytes == 128;
  dct->dctc = {.user_index = driver.uidx,
               .cqn = asked.receive_cq->number,
               .cs_res = scatters ? prm::kScatterResponder64 : std::uint8_t{0},
               .srqn_xrqn = asked.srq->number,
               .pd = asked.pd->number,
               .dc_access_key = driver.access_key};
  dct->dct_events = {.user_handle = asked.user_handle,
                     .completions = nullptr,
                     .asynchronous = asked.async != nullptr ? asked.async : request.file().default_async_file()};
  dct->use(asked.pd);
  dct->use(asked.receive_cq);
  dct->use(asked.srq);
  return {request.adopt(std::move(dct)), 0};
}

EventSink sink_of(Request& request, const QpRequest& asked) {
  return {.user_handle = asked.user_handle,
          .completions = nullptr,
          .asynchronous = asked.async != nullptr ? asked.async : request.file().default_async_file()};
}

// Programs that use the device's own commands learn the numbers of the parts.
int answer_raw(Request& request, const RawQueues& raw) {
  mlx5_ib_create_qp_resp response{};
  response.bfreg_index = 1u << 31;  // the UAR page is the program's own choice
  if (request.uid() != 0) {
    response.tirn = raw.tirn;
    response.tisn = raw.tisn;
    response.rqn = raw.rqn;
    response.sqn = raw.sqn;
    response.comp_mask = (raw.tirn != 0 ? std::uint32_t{MLX5_IB_CREATE_QP_RESP_MASK_TIRN} : 0) |
                         (raw.tisn != 0 ? std::uint32_t{MLX5_IB_CREATE_QP_RESP_MASK_TISN} : 0) |
                         (raw.rqn != 0 ? std::uint32_t{MLX5_IB_CREATE_QP_RESP_MASK_RQN} : 0) |
                         (raw.sqn != 0 ? std::uint32_t{MLX5_IB_CREATE_QP_RESP_MASK_SQN} : 0);
  }
  return request.put_driver(&response, sizeof response);
}

std::expected<QpNumbers, int> add_raw(Request& request, const QpRequest& asked, const mlx5_ib_create_qp& driver,
                                      std::uint32_t flags) {
  const bool has_rq = asked.has_rq();
  RawQpParameters parameters{
      .receive = {.uid = request.uid(),
                  .pdn = asked.pd->number,
                  .cqn = asked.receive_cq->number,
                  .user_index = driver.uidx,
                  .address = driver.buf_addr,
                  .doorbell_record = driver.db_addr,
                  .entries = has_rq ? driver.rq_wqe_count : 0,
                  .log_wqe_bytes = static_cast<std::uint8_t>(driver.rq_wqe_shift),
                  .strips_vlan = (asked.create_flags & IB_UVERBS_QP_CREATE_CVLAN_STRIPPING) != 0},
      .transport_domain = request.file().context()->transport_domain,
      .tunnel_offloads = (flags & MLX5_QP_FLAG_TUNNEL_OFFLOADS) != 0,
      .self_loopback = 0,
      .sq_address = driver.sq_buf_addr,
      .sq_wqebbs = driver.sq_wqe_count,
      .send_cqn = asked.send_cq->number,
      .uar_page = driver.bfreg_index};
  parameters.self_loopback |= (flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC) != 0 ? prm::kSelfLoopbackUnicast : 0;
  parameters.self_loopback |= (flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC) != 0 ? prm::kSelfLoopbackMulticast : 0;
  if (!has_rq && driver.sq_wqe_count == 0) {
    return std::unexpected(EINVAL);
  }
  const auto raw = create_raw_queues(request.firmware(), parameters);
  if (!raw) {
    return std::unexpected(raw.error());
  }
  const Named named = named_by(request, asked);
  auto qp = qp_of(asked, named, driver, flags, raw->sqn != 0 ? raw->sqn : raw->rqn);
  qp->raw = *raw;
  for (const std::uint32_t queue : {raw->sqn, raw->rqn}) {
    if (queue != 0) {
      request.device().events().add(EventSource::kQp, queue, sink_of(request, asked));
    }
  }
  const QpNumbers numbers{0, qp->number};
  const std::uint32_t handle = request.adopt(std::move(qp));
  const int error = answer_raw(request, *raw);
  return error == 0 ? std::expected<QpNumbers, int>({handle, numbers.qpn}) : std::unexpected(error);
}

// Which fields of a packet the hash is of. EINVAL for fields of both IP versions or both transports.
int select_fields(std::uint64_t fields, prm::RxHashFieldSelect& select) {
  constexpr std::uint64_t kIpv4 = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4,
                          kIpv6 = MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6,
                          kTcp = MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP,
                          kUdp = MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP;
  const auto has = [&](std::uint64_t any_of) { return (fields & any_of) != 0; };
  if ((has(kIpv4) && has(kIpv6)) || (has(kTcp) && has(kUdp))) {
    return EINVAL;
  }
  select.l3_prot_type = has(kIpv6) ? prm::kHashIpv6 : prm::kHashIpv4;
  select.l4_prot_type = has(kUdp) ? prm::kHashUdp : prm::kHashTcp;
  select.selected_fields = (has(MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_SRC_IPV6) ? prm::kHashSourceIp : 0) |
                           (has(MLX5_RX_HASH_DST_IPV4 | MLX5_RX_HASH_DST_IPV6) ? prm::kHashDestinationIp : 0) |
                           (has(MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_SRC_PORT_UDP) ? prm::kHashSourcePort : 0) |
                           (has(MLX5_RX_HASH_DST_PORT_TCP | MLX5_RX_HASH_DST_PORT_UDP) ? prm::kHashDestinationPort : 0);
  return 0;
}

int check_rss(Request& request, const QpRequest& asked, const mlx5_ib_create_qp_rss& driver) {
  constexpr std::uint32_t kFlags =
      MLX5_QP_FLAG_TUNNEL_OFFLOADS | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC;
  const auto& caps = request.device().caps();
  if (asked.type != IB_UVERBS_QPT_RAW_PACKET) {
    return EINVAL;
  }
  if (!caps.raw_packets) {
    return EOPNOTSUPP;
  }
  const bool tunnels = (driver.flags & MLX5_QP_FLAG_TUNNEL_OFFLOADS) != 0;
  if (asked.pd == nullptr || asked.send_cq != nullptr || asked.create_flags != 0 || (driver.flags & ~kFlags) != 0 ||
      (tunnels && !caps.tunnel_offloads) || request.driver_in().size() < sizeof driver) {
    return EINVAL;
  }
  if (!request.driver_in_is_zero_from(sizeof driver) || driver.comp_mask != 0 ||
      ((driver.rx_hash_fields_mask & MLX5_RX_HASH_INNER) != 0 && !tunnels) ||
      driver.rx_hash_function != MLX5_RX_HASH_FUNC_TOEPLITZ ||
      (driver.rx_hash_fields_mask & MLX5_RX_HASH_IPSEC_SPI) != 0) {
    return EOPNOTSUPP;
  }
  return driver.rx_key_len != sizeof(prm::Tirc::rx_hash_toeplitz_key) ||
                 (driver.rx_hash_fields_mask == 0 && asked.table->log_entries != 0)
             ? EINVAL
             : 0;
}

// A QP that is no more than a hash over the queues of a table.
std::expected<QpNumbers, int> add_rss(Request& request, const QpRequest& asked) {
  mlx5_ib_create_qp_rss driver{};
  request.get_driver(driver);
  if (const int error = check_rss(request, asked, driver); error != 0) {
    return std::unexpected(error);
  }
  prm::CreateTirIn in{.header = {.opcode = prm::Opcode::kCreateTir, .uid = request.uid()}};
  prm::Tirc& tirc = in.tirc;
  tirc.disp_type = prm::kTirIndirect;
  tirc.indirect_table = asked.table->number;
  tirc.transport_domain = request.file().context()->transport_domain;
  tirc.tunneled_offload_en = (driver.flags & MLX5_QP_FLAG_TUNNEL_OFFLOADS) != 0;
  tirc.self_lb_block = static_cast<std::uint8_t>(
      ((driver.flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC) != 0 ? prm::kSelfLoopbackUnicast : 0) |
      ((driver.flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC) != 0 ? prm::kSelfLoopbackMulticast : 0));
  tirc.rx_hash_fn = prm::kRxHashToeplitz;
  tirc.rx_hash_symmetric = true;
  std::memcpy(tirc.rx_hash_toeplitz_key.data(), driver.rx_hash_key, tirc.rx_hash_toeplitz_key.size());
  const bool inner = (driver.rx_hash_fields_mask & MLX5_RX_HASH_INNER) != 0;
  if (const int error = select_fields(driver.rx_hash_fields_mask,
                                      inner ? tirc.rx_hash_field_selector_inner : tirc.rx_hash_field_selector_outer);
      error != 0) {
    return std::unexpected(error);
  }
  const auto out = command<prm::ObjectOut>(request.firmware(), in);
  if (!out) {
    return std::unexpected(out.error());
  }
  auto qp = std::make_unique<Qp>(request.uid(), 0);
  qp->qp_type = IB_UVERBS_QPT_RAW_PACKET;
  qp->is_rss = true;
  qp->raw.tirn = out->number;
  qp->use(asked.pd);
  qp->use(asked.table);
  const std::uint32_t handle = request.adopt(std::move(qp));
  const int error = answer_raw(request, {.tirn = out->number});
  return error == 0 ? std::expected<QpNumbers, int>({handle, 0}) : std::unexpected(error);
}

// Makes the QP and answers the driver's part.
std::expected<QpNumbers, int> add_qp(Request& request, QpRequest& asked) {
  if (asked.table != nullptr) {
    return add_rss(request, asked);
  }
  mlx5_ib_create_qp driver{};
  request.get_driver(driver);
  std::uint32_t flags = 0;
  int error = resolve_driver_type(asked, driver.flags);
  error = error != 0 ? error : check_type(request, asked);
  error = error != 0 ? error : check_driver_part(request, asked.type, driver, flags);
  if (error == 0 && asked.type == kQptDct) {
    return add_dct(request, asked, driver, flags);
  }
  error = error != 0 ? error : check_create_flags(request, asked);
  error = error != 0 ? error : check_sizes(request, asked, driver, flags);
  if (error != 0) {
    return std::unexpected(error);
  }
  if (asked.type == IB_UVERBS_QPT_RAW_PACKET) {
    return add_raw(request, asked, driver, flags);
  }
  const Named named = named_by(request, asked);
  prm::CreateQpIn in{.header = {.opcode = prm::Opcode::kCreateQp, .uid = named.uid},
                     .ece = request.device().caps().ece_support ? driver.ece_options : 0,
                     .qpc = context_of(request, asked, named, driver, flags)};
  const auto pages = pages_of(driver, in.qpc);
  if (!pages) {
    return std::unexpected(pages.error());
  }
  const auto out = command<prm::ObjectOut>(request.firmware(), in, pages->addresses);
  if (!out) {
    return std::unexpected(out.error());
  }
  auto qp = qp_of(asked, named, driver, flags, out->number);
  qp->event_tag = request.device().events().add(EventSource::kQp, out->number, sink_of(request, asked));
  if (asked.type == IB_UVERBS_QPT_XRC_TGT) {
    qp->domain = asked.xrcd->domain;
    qp->domain->targets[out->number] = {.uid = named.uid, .common = qp->common};
  }
  const QpNumbers numbers{request.adopt(std::move(qp)), out->number};
  mlx5_ib_create_qp_resp response{};
  response.bfreg_index = 1u << 31;  // the UAR page is the program's own choice
  response.ece_options = out->ece;
  error = request.put_driver(&response, sizeof response);
  return error == 0 ? std::expected<QpNumbers, int>(numbers) : std::unexpected(error);
}

// The core part of CREATE_QP, plain and extended: the same fields at the same places after the response's address.
template <typename In>
QpRequest request_of(Request& request, const In& in) {
  QpRequest asked{.type = in.qp_type, .user_handle = in.user_handle};
  asked.cap = {.max_send_wr = in.max_send_wr,
               .max_recv_wr = in.max_recv_wr,
               .max_send_sge = in.max_send_sge,
               .max_recv_sge = in.max_recv_sge,
               .max_inline_data = in.max_inline_data};
  asked.signal_all = in.sq_sig_all != 0;
  if (in.qp_type == IB_UVERBS_QPT_XRC_TGT) {  // has no PD, and its domain's handle in that place
    asked.xrcd = request.file().find<Xrcd>(in.pd_handle);
    return asked;
  }
  asked.pd = request.file().find<Pd>(in.pd_handle);
  asked.send_cq = request.file().find<Cq>(in.send_cq_handle);
  asked.receive_cq = request.file().find<Cq>(in.recv_cq_handle);
  asked.srq = in.is_srq != 0 ? request.file().find<Srq>(in.srq_handle) : nullptr;
  return asked;
}

struct CoreResponse {
  std::uint32_t handle, qpn;
  ib_uverbs_qp_cap cap;
  std::uint32_t reserved;
};
static_assert(sizeof(CoreResponse) == sizeof(ib_uverbs_create_qp_resp));

State state_of(prm::QpcState state) {
  switch (state) {
    case prm::QpcState::kReset:
      return State::kReset;
    case prm::QpcState::kInit:
      return State::kInit;
    case prm::QpcState::kRtr:
      return State::kRtr;
    case prm::QpcState::kRts:
      return State::kRts;
    case prm::QpcState::kSqErr:
      return State::kSqe;
    case prm::QpcState::kSqDrained:
    case prm::QpcState::kSqDraining:
      return State::kSqd;
    default:
      return State::kErr;
  }
}

ib_uverbs_qp_dest destination_of(const prm::AddressPath& path, std::uint8_t port) {
  ib_uverbs_qp_dest dest{};
  std::memcpy(dest.dgid, path.rgid_rip.data(), sizeof dest.dgid);
  dest.flow_label = path.flow_label;
  dest.sgid_index = path.src_addr_index;
  dest.hop_limit = path.hop_limit;
  dest.traffic_class = path.tclass;
  dest.sl = path.eth_prio;
  dest.is_global = 1;
  dest.port_num = port;
  return dest;
}

std::uint32_t access_of(const prm::Qpc& qpc) {
  return (qpc.rre ? std::uint32_t{IB_UVERBS_ACCESS_REMOTE_READ} : 0) |
         (qpc.rwe ? std::uint32_t{IB_UVERBS_ACCESS_REMOTE_WRITE} : 0) |
         (qpc.rae ? std::uint32_t{IB_UVERBS_ACCESS_REMOTE_ATOMIC} : 0);
}

ib_uverbs_query_qp_resp attributes_of(Qp& qp, const prm::Qpc& qpc) {
  ib_uverbs_query_qp_resp r{};
  if (qp.qp_type != IB_UVERBS_QPT_UD) {
    r.dest = destination_of(qpc.primary_address_path, qp.common->port);
    r.alt_dest = destination_of(qpc.secondary_address_path, qpc.secondary_address_path.vhca_port_num);
  }
  r.max_recv_wr = qp.rq_entries;
  r.max_recv_sge = qp.rq_max_sge;
  r.qkey = qpc.q_key;
  r.rq_psn = qpc.next_rcv_psn;
  r.sq_psn = qpc.next_send_psn;
  r.dest_qp_num = qpc.remote_qpn;
  r.qp_access_flags = access_of(qpc);
  r.pkey_index = qpc.primary_address_path.pkey_index;
  r.qp_state = r.cur_qp_state = static_cast<std::uint8_t>(qp.common->state);
  r.path_mtu = qpc.mtu;
  r.path_mig_state = qpc.pm_state == prm::kPathMigrated ? 0 : 1;
  r.sq_draining = qpc.state == prm::QpcState::kSqDraining ? 1 : 0;
  r.max_rd_atomic = static_cast<std::uint8_t>(1 << qpc.log_sra_max);
  r.max_dest_rd_atomic = static_cast<std::uint8_t>(1 << qpc.log_rra_max);
  r.min_rnr_timer = qpc.min_rnr_nak;
  r.port_num = qp.common->port;
  r.timeout = qpc.primary_address_path.ack_timeout;
  r.retry_cnt = qpc.retry_count;
  r.rnr_retry = qpc.rnr_retry;
  r.sq_sig_all = qp.signal_all ? 1 : 0;
  return r;
}

// A program that destroys a QP has to take it out of its multicast groups before.
std::expected<EventCounts, int> destroy_outside_groups(Request& request, Qp& qp) {
  return qp.groups.empty() ? request.file().destroy(qp) : std::unexpected(EBUSY);
}

ib_uverbs_query_qp_resp attributes_of_raw(const Qp& qp) {
  ib_uverbs_query_qp_resp r{};
  r.max_recv_wr = qp.rq_entries;
  r.max_recv_sge = qp.rq_max_sge;
  r.qp_state = r.cur_qp_state = static_cast<std::uint8_t>(qp.common->state);
  r.port_num = qp.common->port;
  r.sq_sig_all = qp.signal_all ? 1 : 0;
  return r;
}

}  // namespace

int create_qp(Request& request) {
  if (request.has(UVERBS_ATTR_CREATE_QP_SOURCE_QPN)) {
    return EOPNOTSUPP;
  }
  const auto flags = request.flags(UVERBS_ATTR_CREATE_QP_FLAGS, kKnownCreateFlags | IB_UVERBS_QP_CREATE_SQ_SIG_ALL);
  const auto type = request.value<std::uint64_t>(UVERBS_ATTR_CREATE_QP_TYPE);
  if (!flags || type > UINT8_MAX) {
    return EINVAL;
  }
  QpRequest asked{.type = static_cast<std::uint32_t>(type),
                  .user_handle = request.value<std::uint64_t>(UVERBS_ATTR_CREATE_QP_USER_HANDLE),
                  .cap = request.value<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_CAP),
                  .signal_all = (*flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL) != 0,
                  .create_flags = *flags & ~std::uint32_t{IB_UVERBS_QP_CREATE_SQ_SIG_ALL},
                  .pd = request.object<Pd>(UVERBS_ATTR_CREATE_QP_PD_HANDLE),
                  .send_cq = request.object<Cq>(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
                  .receive_cq = request.object<Cq>(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
                  .srq = request.object<Srq>(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
                  .xrcd = request.object<Xrcd>(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE),
                  .table = request.object<RwqIndTable>(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE),
                  .async = request.event_file(UVERBS_ATTR_CREATE_QP_EVENT_FD)};
  const auto numbers = add_qp(request, asked);
  if (!numbers) {
    return numbers.error();
  }
  int error = request.put_handle(UVERBS_ATTR_CREATE_QP_HANDLE, numbers->handle);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_QP_RESP_CAP, asked.cap);
  return error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, numbers->qpn);
}

// Another opening of an XRC target, which lives until all are destroyed.
int open_qp(Request& request) {
  ib_uverbs_open_qp asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Xrcd* const xrcd = request.file().find<Xrcd>(asked.pd_handle);
  if (xrcd == nullptr || asked.qp_type != IB_UVERBS_QPT_XRC_TGT) {
    return EINVAL;
  }
  const auto target = xrcd->domain->targets.find(asked.qpn);
  auto common = target != xrcd->domain->targets.end() ? target->second.common.lock() : nullptr;
  if (common == nullptr) {
    return EINVAL;
  }
  auto qp = std::make_unique<Qp>(target->second.uid, asked.qpn);
  qp->qp_type = IB_UVERBS_QPT_XRC_TGT;
  qp->common = std::move(common);
  qp->domain = xrcd->domain;
  qp->event_tag = request.device().events().add(
      EventSource::kQp, asked.qpn,
      {.user_handle = asked.user_handle, .completions = nullptr, .asynchronous = request.file().default_async_file()});
  qp->use(xrcd);
  return request.put_core(CoreResponse{request.adopt(std::move(qp)), asked.qpn, {}, 0});
}

int write_create_qp(Request& request) {
  ib_uverbs_create_qp in{};
  if (const int error = request.get_core(in); error != 0) {
    return error;
  }
  QpRequest asked = request_of(request, in);
  if (in.is_srq != 0 && asked.srq == nullptr) {
    return EINVAL;
  }
  const auto numbers = add_qp(request, asked);
  return numbers ? request.put_core(CoreResponse{numbers->handle, numbers->qpn, asked.cap, 0}) : numbers.error();
}

int ex_create_qp(Request& request) {
  ib_uverbs_ex_create_qp in{};
  if (const int error = request.get_core(in); error != 0) {
    return error;
  }
  if ((in.comp_mask & ~std::uint32_t{IB_UVERBS_CREATE_QP_SUP_COMP_MASK}) != 0 || in.reserved != 0) {
    return EINVAL;
  }
  QpRequest asked = request_of(request, in);
  asked.create_flags = in.create_flags;
  const bool names_table = (in.comp_mask & IB_UVERBS_CREATE_QP_MASK_IND_TABLE) != 0;
  if (names_table) {
    asked.table = request.file().find<RwqIndTable>(in.rwq_ind_tbl_handle);
    asked.send_cq = asked.receive_cq = nullptr;
  }
  if ((names_table && asked.table == nullptr) || (in.is_srq != 0 && asked.srq == nullptr) ||
      (in.create_flags & ~kKnownCreateFlags) != 0) {
    return EINVAL;
  }
  const auto numbers = add_qp(request, asked);
  if (!numbers) {
    return numbers.error();
  }
  struct {
    CoreResponse base;
    std::uint32_t comp_mask, response_length;
  } response{{numbers->handle, numbers->qpn, asked.cap, 0}, 0, 0};
  static_assert(sizeof response == sizeof(ib_uverbs_ex_create_qp_resp));
  response.response_length = static_cast<std::uint32_t>(std::min(request.core_out_bytes(), sizeof response));
  return request.put_core(response);
}

int query_qp(Request& request) {
  ib_uverbs_query_qp asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Qp* const qp = request.file().find<Qp>(asked.qp_handle);
  if (qp == nullptr) {
    return EINVAL;
  }
  if (qp->qp_type == kQptDct) {
    ib_uverbs_query_qp_resp response{};
    const int error = query_dct(request, *qp, response);
    return error != 0 ? error : request.put_core(response);
  }
  if (qp->is_rss) {
    return ENOSYS;
  }
  if (qp->qp_type == IB_UVERBS_QPT_RAW_PACKET) {
    qp->common->state = state_of_raw_queues(request.firmware(), qp->uid, qp->raw, qp->common->state);
    return request.put_core(attributes_of_raw(*qp));
  }
  const prm::ObjectIn in{.header = {.opcode = prm::Opcode::kQueryQp, .uid = qp->uid}, .number = qp->number};
  const auto out = command<prm::QueryQpOut>(request.firmware(), in);
  if (!out) {
    return out.error();
  }
  qp->common->state = state_of(out->qpc.state);
  return request.put_core(attributes_of(*qp, out->qpc));
}

int destroy_qp(Request& request) {
  const auto counts = destroy_outside_groups(request, *request.object<Qp>(UVERBS_ATTR_DESTROY_QP_HANDLE));
  return counts ? request.put_value(UVERBS_ATTR_DESTROY_QP_RESP, counts->asynchronous) : counts.error();
}

int write_destroy_qp(Request& request) {
  ib_uverbs_destroy_qp asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Qp* const qp = request.file().find<Qp>(asked.qp_handle);
  if (qp == nullptr) {
    return ENOENT;
  }
  const auto counts = destroy_outside_groups(request, *qp);
  return counts ? request.put_core(counts->asynchronous) : counts.error();
}

}  // namespace handlers
}  // namespace softhca::kernel
