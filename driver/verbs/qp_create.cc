// Queue pairs: created and destroyed.
#include <fmt/format.h>
#include <pthread.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "driver/verbs/events.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr std::uint32_t kMasks = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                 IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE |
                                 IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
constexpr std::uint64_t kMlx5Masks = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DC |
                                     MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
constexpr std::uint32_t kSourceQpn = 1 << 10;  // IBV_QP_CREATE_SOURCE_QPN
static_assert(kSourceQpn == IBV_QP_CREATE_SOURCE_QPN);

std::unexpected<Error> refuse(std::string what) { return fail(EINVAL, "QP create: " + std::move(what)); }

// The verbs' part.
Expected<QpOptions> options_of(const ibv_qp_init_attr_ex& attr) {
  const auto has = [&](std::uint32_t mask) { return (attr.comp_mask & mask) != 0; };
  if ((attr.comp_mask & ~kMasks) != 0) {
    return refuse(fmt::format("comp_mask {:#x} has bits besides {:#x}", attr.comp_mask, kMasks));
  }
  if (has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) && attr.qp_type != IBV_QPT_RAW_PACKET) {
    return refuse(fmt::format("comp_mask {:#x} has MAX_TSO_HEADER on type {}; only a RAW_PACKET QP has TSO headers",
                              attr.comp_mask, static_cast<unsigned>(attr.qp_type)));
  }
  if (has(IBV_QP_INIT_ATTR_IND_TABLE) != has(IBV_QP_INIT_ATTR_RX_HASH)) {
    return refuse("receive side scaling needs a table of receive queues and a hash");
  }
  QpOptions options{.type = static_cast<QpType>(attr.qp_type),
                    .send_cq = attr.send_cq == nullptr ? nullptr : object_of(attr.send_cq).cq,
                    .recv_cq = attr.recv_cq == nullptr ? nullptr : object_of(attr.recv_cq).cq,
                    .srq = attr.srq == nullptr ? nullptr : object_of(attr.srq).native.get(),
                    .capacity = {.max_send_wr = attr.cap.max_send_wr,
                                 .max_recv_wr = attr.cap.max_recv_wr,
                                 .max_send_sge = attr.cap.max_send_sge,
                                 .max_recv_sge = attr.cap.max_recv_sge,
                                 .max_inline_bytes = attr.cap.max_inline_data},
                    .signal_all = attr.sq_sig_all != 0};
  if (has(IBV_QP_INIT_ATTR_RX_HASH)) {
    const ibv_rx_hash_conf& hash = attr.rx_hash_conf;
    options.rss = RssOptions{.table = {static_cast<std::uint32_t>(attr.rwq_ind_tbl->ind_tbl_handle)},
                             .function = hash.rx_hash_function,
                             .key = {hash.rx_hash_key, hash.rx_hash_key_len},
                             .fields = hash.rx_hash_fields_mask};
  }
  if (has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
    options.send_operations = attr.send_ops_flags;
  }
  if (has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER)) {
    options.max_tso_header_bytes = attr.max_tso_header;
  }
  if (has(IBV_QP_INIT_ATTR_CREATE_FLAGS)) {
    options.create_flags = attr.create_flags & ~kSourceQpn;
    if ((attr.create_flags & kSourceQpn) != 0) {
      options.source_qpn = attr.source_qpn;
    }
  }
  return options;
}

// What mlx5dv_create_qp() adds to the verbs' part, whose mask is `verbs_mask`.
Expected<void> add(const mlx5dv_qp_init_attr& attr, std::uint32_t verbs_mask, QpOptions& options) {
  const auto has = [&](std::uint64_t mask) { return (attr.comp_mask & mask) != 0; };
  if ((attr.comp_mask & ~kMlx5Masks) != 0) {
    return refuse(fmt::format("mlx5dv comp_mask {:#x} has bits besides {:#x}", attr.comp_mask, kMlx5Masks));
  }
  if (has(MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS)) {
    options.dv_create_flags = attr.create_flags;
  }
  if (has(MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS)) {
    constexpr std::uint64_t kUnknown = std::uint64_t{1} << 63;  // stands for all bits that have no place
    options.dv_send_operations = attr.send_ops_flags << 32 | (attr.send_ops_flags >> 32 != 0 ? kUnknown : 0);
  }
  if (has(MLX5DV_QP_INIT_ATTR_MASK_DC)) {
    if (options.type != QpType::kDriver) {
      return refuse("only a QP of type DRIVER has a dc_type");
    }
    options.dc_type = static_cast<DcType>(attr.dc_init_attr.dc_type);
    if (attr.dc_init_attr.dc_type != MLX5DV_DCTYPE_DCT && attr.dc_init_attr.dc_type != MLX5DV_DCTYPE_DCI) {
      return refuse(fmt::format("dc_type {} is neither DCT nor DCI", static_cast<int>(attr.dc_init_attr.dc_type)));
    }
    if (options.dc_type == DcType::kDct) {
      if ((verbs_mask & ~std::uint32_t{IBV_QP_INIT_ATTR_PD}) != 0) {
        return refuse(fmt::format("comp_mask {:#x} of a DCT; it has a PD ({:#x}) and nothing else", verbs_mask,
                                  static_cast<unsigned>(IBV_QP_INIT_ATTR_PD)));
      }
      options.dct_access_key = attr.dc_init_attr.dct_access_key;
    }
  }
  if (has(MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) && options.type == QpType::kDriver) {
    options.dci_streams = DciStreams{.log_concurrent = attr.dc_init_attr.dci_streams.log_num_concurent,
                                     .log_errored = attr.dc_init_attr.dci_streams.log_num_errored};
  }
  return {};
}

// How posting to the type works; none: this library only creates the queue.
std::optional<SendTransport> transport_of(const QpOptions& options) {
  switch (options.type) {
    case QpType::kRc:
    case QpType::kUc:
      return SendTransport::kConnected;
    case QpType::kXrcSend:
      return SendTransport::kXrc;
    case QpType::kUd:
      return options.source_qpn ? std::nullopt : std::optional(SendTransport::kDatagram);
    case QpType::kRawPacket:
      return options.rss ? std::nullopt : std::optional(SendTransport::kRaw);
    case QpType::kDriver:
      return options.dc_type == DcType::kDci ? std::optional(SendTransport::kDc) : std::nullopt;
    default:
      return std::nullopt;
  }
}

int refuse_to_send(QpObject&, ibv_send_wr* requests, ibv_send_wr** bad) {
  *bad = requests;
  return ENOMEM;  // a queue of no requests is always full
}

void set_posting(QpObject& object, std::optional<SendTransport> transport) {
  Qp& native = *object.native;
  object.send = &native.send_queue();
  object.post_send = transport && native.send_queue().config().max_requests != 0
                         ? post_send_of(*transport, object.send_lock.needed())
                         : refuse_to_send;
  if (native.receive_queue().config().max_requests != 0) {
    object.receive = &native.receive_queue();
  }
  if (object.is_extended && transport) {
    set_builders(object, *transport);
  }
}

void set_public(QpObject& object, ibv_context* context, const ibv_qp_init_attr_ex& attr) {
  ibv_qp& qp = *object.base();
  qp.context = context;
  qp.qp_context = attr.qp_context;
  qp.pd = (attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr.pd : nullptr;
  qp.send_cq = attr.send_cq;
  qp.recv_cq = attr.recv_cq;
  qp.srq = attr.srq;
  qp.handle = object.native->handle().value;
  qp.qp_num = object.native->qpn();
  qp.state = IBV_QPS_RESET;
  qp.qp_type = attr.qp_type;
  pthread_mutex_init(&qp.mutex, nullptr);
  pthread_cond_init(&qp.cond, nullptr);
}

// An XRC target is of an XRC domain, anything else of a PD.
Expected<Owned<Qp>> create_native(const ibv_qp_init_attr_ex& attr, QpOptions& options) {
  if (options.type == QpType::kXrcRecv) {
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attr.xrcd == nullptr) {
      return refuse("an XRC_RECV QP needs an XRC domain");
    }
    return object_of(attr.xrcd).native->create_qp(options);
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr) {
    return refuse("no PD");
  }
  options.thread_domain = thread_domain_of(attr.pd);
  options.allocator = allocator_of(attr.pd);
  return native_of(attr.pd).create_qp(options);
}

Expected<QpObject*> create(ibv_context* context, ibv_qp_init_attr_ex& attr, const mlx5dv_qp_init_attr* mlx5_attr) {
  auto options = options_of(attr);
  if (!options) {
    return std::unexpected(std::move(options.error()));
  }
  if (mlx5_attr != nullptr) {
    if (auto result = add(*mlx5_attr, attr.comp_mask, *options); !result) {
      return std::unexpected(std::move(result.error()));
    }
  }
  const bool in_pd = (attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && attr.pd != nullptr;
  auto object = std::make_unique<QpObject>();
  const bool locks = !object_of(context).single_threaded && !(in_pd && object_of(attr.pd).single_threaded);
  object->send_lock.set_needed(locks);
  object->receive_lock.set_needed(locks);
  object->is_extended = (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const std::optional<SendTransport> transport = transport_of(*options);
  options->user = object.get();
  auto native = create_native(attr, *options);
  if (!native) {
    return std::unexpected(std::move(native.error()));
  }
  object->native = std::move(*native);
  object->builder = SendBuilder(&object->native->send_queue());
  set_public(*object, context, attr);
  set_posting(*object, transport);
  const QpCapacity& given = object->native->capacity();
  attr.cap = {.max_send_wr = given.max_send_wr,
              .max_recv_wr = given.max_recv_wr,
              .max_send_sge = given.max_send_sge,
              .max_recv_sge = given.max_recv_sge,
              .max_inline_data = given.max_inline_bytes};
  return object.release();
}

}  // namespace

ibv_qp* mlx5_create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr, mlx5dv_qp_init_attr* mlx5_attr) {
  auto object = create(context, *attr, mlx5_attr);
  return object ? (*object)->base() : report_null(object.error());
}

// An XRC target that another user of its domain created. Its state is not known before it is asked for.
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) {
  constexpr std::uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) {
    return report_null({EOPNOTSUPP, fmt::format("QP open: comp_mask {:#x} is not known", attr->comp_mask)});
  }
  if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV) {
    return report_null({EINVAL, "QP open: an XRC_RECV QP is opened by its number, XRC domain and type"});
  }
  auto object = std::make_unique<QpObject>();
  auto native = object_of(attr->xrcd).native->open_qp(attr->qp_num, object.get());
  if (!native) {
    return report_null(native.error());
  }
  object->native = std::move(*native);
  ibv_qp_init_attr_ex init{};
  init.qp_context = attr->qp_context;
  init.qp_type = attr->qp_type;
  set_public(*object, context, init);
  object->base()->state = IBV_QPS_UNKNOWN;
  set_posting(*object, std::nullopt);
  return object.release()->base();
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) { return mlx5_create_qp(context, attr, nullptr); }

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = attr->qp_context;
  extended.send_cq = attr->send_cq;
  extended.recv_cq = attr->recv_cq;
  extended.srq = attr->srq;
  extended.cap = attr->cap;
  extended.qp_type = attr->qp_type;
  extended.sq_sig_all = attr->sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* const qp = create_qp_ex(pd->context, &extended);
  if (qp != nullptr) {
    attr->cap = extended.cap;
  }
  return qp;
}

int destroy_qp(ibv_qp* qp) {
  QpObject& object = object_of(qp);
  EventsReported reported;
  if (const int error = result_of(object.native.destroy(reported)); error != 0) {
    return error;
  }
  {
    const MutexGuard guard(qp->mutex);
    wait_for(qp->cond, qp->mutex, qp->events_completed, reported.asynchronous);
  }
  delete &object;
  return 0;
}

ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp) {
  QpObject& object = object_of(qp);
  return object.is_extended ? &object.ex : nullptr;
}

mlx5dv_qp_ex* mlx5_qp_ex(ibv_qp_ex* qp) { return &object_of(qp).dv; }

}  // namespace umlx5::verbs
