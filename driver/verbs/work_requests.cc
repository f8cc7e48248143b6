// ibv_wr_*() and the mlx5dv ones: requests that are built step by step.
#include <algorithm>
#include <array>
#include <cerrno>

#include "driver/ah.h"
#include "driver/verbs/queue_objects.h"

namespace umlx5::verbs {
namespace {

// What the steps found: the builder keeps the first refusal, and complete() tells it.
[[gnu::cold]] int errno_for(Refusal refusal) {
  switch (refusal) {
    case Refusal::kFull:
    case Refusal::kSges:
    case Refusal::kInline:
    case Refusal::kKeyLayout:
      return ENOMEM;
    case Refusal::kNoAtomics:
    case Refusal::kWindow:
    case Refusal::kUnsupported:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

void wr_start(ibv_qp_ex* qp) {
  QpObject& object = object_of(qp);
  object.send_lock.lock();
  object.builder.start();
}

int wr_complete(ibv_qp_ex* qp) {
  QpObject& object = object_of(qp);
  const Refusal refusal = object.builder.complete();
  object.send_lock.unlock();
  return refusal == Refusal::kNone ? 0 : errno_for(refusal);
}

void wr_abort(ibv_qp_ex* qp) {
  QpObject& object = object_of(qp);
  object.builder.abort();
  object.send_lock.unlock();
}

// Whose common part programs set in ibv_qp_ex before each opcode.
StagedRequest request_of(const ibv_qp_ex* qp) {
  return {.id = qp->wr_id, .send_flags = SendFlags::from_bits(qp->wr_flags)};
}

template <SendTransport kTransport>
struct Steps {
  template <SendOpcode kOpcode>
  static void begin(ibv_qp_ex* qp, const StagedRequest& request) {
    object_of(qp).builder.begin<kTransport, kOpcode>(request);
  }
  static StagedRequest rdma(const ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
    StagedRequest request = request_of(qp);
    request.rkey_value = rkey;
    request.remote_address_value = address;
    return request;
  }

  static void send(ibv_qp_ex* qp) { begin<SendOpcode::kSend>(qp, request_of(qp)); }
  static void send_imm(ibv_qp_ex* qp, __be32 immediate) {
    StagedRequest request = request_of(qp);
    request.immediate_or_rkey = immediate;
    begin<SendOpcode::kSendWithImm>(qp, request);
  }
  static void send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
    StagedRequest request = request_of(qp);
    request.immediate_or_rkey = rkey;
    begin<SendOpcode::kSendWithInvalidate>(qp, request);
  }
  static void rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
    begin<SendOpcode::kRdmaWrite>(qp, rdma(qp, rkey, address));
  }
  static void rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
    StagedRequest request = rdma(qp, rkey, address);
    request.immediate_or_rkey = immediate;
    begin<SendOpcode::kRdmaWriteWithImm>(qp, request);
  }
  static void rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
    begin<SendOpcode::kRdmaRead>(qp, rdma(qp, rkey, address));
  }
  static void compare_swap(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                           std::uint64_t swap) {
    StagedRequest request = rdma(qp, rkey, address);
    request.compare_add_value = compare;
    request.swap_value = swap;
    begin<SendOpcode::kCompareSwap>(qp, request);
  }
  static void fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t add) {
    StagedRequest request = rdma(qp, rkey, address);
    request.compare_add_value = add;
    begin<SendOpcode::kFetchAdd>(qp, request);
  }
};

void local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  object_of(qp).builder.change_window(SendOpcode::kLocalInvalidate, WindowBinding{}, rkey, qp->wr_id,
                                      SendFlags::from_bits(qp->wr_flags));
}

void bind_mw(ibv_qp_ex* qp, ibv_mw* window, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  WindowBinding binding = window_of(*window, rkey, *info);
  binding.type_2 = true;  // whatever the window says: type 1 has ibv_bind_mw()
  object_of(qp).builder.change_window(SendOpcode::kBindMemoryWindow, binding, binding.old_rkey, qp->wr_id,
                                      SendFlags::from_bits(qp->wr_flags));
}

void set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  object_of(qp).builder.set_sge({.address = address, .length_bytes = length, .lkey = lkey});
}

void set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  object_of(qp).builder.set_sges(sges_of(list, count));
}

void set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) {
  const InlinePiece piece{address, length};
  object_of(qp).builder.set_inline({&piece, 1});
}

static_assert(sizeof(ibv_data_buf) == sizeof(InlinePiece) &&
              offsetof(ibv_data_buf, addr) == offsetof(InlinePiece, address) &&
              offsetof(ibv_data_buf, length) == offsetof(InlinePiece, length_bytes));
void set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  object_of(qp).builder.set_inline({reinterpret_cast<const InlinePiece*>(list), count});
}

void set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t remote_qkey) {
  object_of(qp).builder.set_destination(object_of(ah).native->address_vector(), remote_qpn, remote_qkey);
}

void set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t srqn) { object_of(qp).builder.set_remote_srqn(srqn); }

// Frames of RAW_PACKET QPs, which are begun by their opcode and built when their data comes.
void begin_frame(ibv_qp_ex* qp) {
  object_of(qp).builder.begin_frame({.wr_id = qp->wr_id, .flags = SendFlags::from_bits(qp->wr_flags)});
}

void begin_tso(ibv_qp_ex* qp, void* header, std::uint16_t header_bytes, std::uint16_t mss) {
  object_of(qp).builder.begin_frame({.wr_id = qp->wr_id,
                                     .flags = SendFlags::from_bits(qp->wr_flags),
                                     .is_tso = true,
                                     .tso_header = {static_cast<const std::byte*>(header), header_bytes},
                                     .tso_piece_bytes = mss});
}

void frame_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  const Sge sge{.address = address, .length_bytes = length, .lkey = lkey};
  object_of(qp).builder.put_frame({&sge, 1}, false);
}

void frame_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  object_of(qp).builder.put_frame(sges_of(list, count), false);
}

void frame_inline_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  std::array<Sge, wqe::kMaxDsOctowords> sges;
  const std::size_t taken = std::min(count, sges.size());
  for (std::size_t i = 0; i < taken; ++i) {
    sges[i] = {.address = reinterpret_cast<std::uint64_t>(list[i].addr),
               .length_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(list[i].length, ~0u)),
               .lkey = 0};
  }
  object_of(qp).builder.put_frame(std::span(sges).first(taken), true);
}

void frame_inline(ibv_qp_ex* qp, void* address, std::size_t length) {
  const ibv_data_buf piece{.addr = address, .length = length};
  frame_inline_list(qp, 1, &piece);
}

void set_frame_steps(ibv_qp_ex& ex) {
  ex.wr_start = wr_start;
  ex.wr_complete = wr_complete;
  ex.wr_abort = wr_abort;
  ex.wr_send = begin_frame;
  ex.wr_send_tso = begin_tso;
  ex.wr_set_sge = frame_sge;
  ex.wr_set_sge_list = frame_sge_list;
  ex.wr_set_inline_data = frame_inline;
  ex.wr_set_inline_data_list = frame_inline_list;
}

void raw_wqe(mlx5dv_qp_ex* dv, const void* wqe) {
  QpObject& object = object_of(dv);
  object.builder.raw(static_cast<const std::byte*>(wqe), object.ex.wr_id);
}

void set_dc_addr_stream(mlx5dv_qp_ex* dv, ibv_ah* ah, std::uint32_t remote_dctn, std::uint64_t remote_dc_key,
                        std::uint16_t stream) {
  object_of(dv).builder.set_dc_destination(object_of(ah).native->address_vector(), remote_dctn, remote_dc_key, stream);
}

void set_dc_addr(mlx5dv_qp_ex* dv, ibv_ah* ah, std::uint32_t remote_dctn, std::uint64_t remote_dc_key) {
  set_dc_addr_stream(dv, ah, remote_dctn, remote_dc_key, 0);
}

void copy_memory(mlx5dv_qp_ex* dv, std::uint32_t destination_lkey, std::uint64_t destination, std::uint32_t source_lkey,
                 std::uint64_t source, std::size_t length) {
  QpObject& qp = object_of(dv);
  qp.native->add_copy(qp.builder,
                      {.destination = destination,
                       .source = source,
                       .destination_lkey = destination_lkey,
                       .source_lkey = source_lkey,
                       .length_bytes = length},
                      SendFlags::from_bits(qp.ex.wr_flags), qp.ex.wr_id);
}

template <SendTransport kTransport>
void set_common(ibv_qp_ex& ex) {
  using S = Steps<kTransport>;
  ex.wr_start = wr_start;
  ex.wr_complete = wr_complete;
  ex.wr_abort = wr_abort;
  ex.wr_send = S::send;
  ex.wr_send_imm = S::send_imm;
  ex.wr_set_sge = set_sge;
  ex.wr_set_sge_list = set_sge_list;
  ex.wr_set_inline_data = set_inline_data;
  ex.wr_set_inline_data_list = set_inline_data_list;
}

template <SendTransport kTransport>
void set_connected(ibv_qp_ex& ex, bool reliable) {
  using S = Steps<kTransport>;
  set_common<kTransport>(ex);
  ex.wr_send_inv = S::send_inv;
  ex.wr_rdma_write = S::rdma_write;
  ex.wr_rdma_write_imm = S::rdma_write_imm;
  ex.wr_local_inv = local_inv;
  ex.wr_bind_mw = bind_mw;
  if (reliable) {
    ex.wr_rdma_read = S::rdma_read;
    ex.wr_atomic_cmp_swp = S::compare_swap;
    ex.wr_atomic_fetch_add = S::fetch_add;
  }
}

}  // namespace

// All that the type has are there, whatever subset the program asked for.
void set_builders(QpObject& qp, SendTransport transport) {
  const bool reliable = qp.base()->qp_type != IBV_QPT_UC;
  switch (transport) {
    case SendTransport::kConnected:
      set_connected<SendTransport::kConnected>(qp.ex, reliable);
      break;
    case SendTransport::kXrc:
      set_connected<SendTransport::kXrc>(qp.ex, reliable);
      qp.ex.wr_set_xrc_srqn = set_xrc_srqn;
      break;
    case SendTransport::kDatagram:
      set_common<SendTransport::kDatagram>(qp.ex);
      qp.ex.wr_set_ud_addr = set_ud_addr;
      break;
    case SendTransport::kDc:
      set_connected<SendTransport::kDc>(qp.ex, reliable);
      qp.dv.wr_set_dc_addr = set_dc_addr;
      qp.dv.wr_set_dc_addr_stream = set_dc_addr_stream;
      qp.dv.wr_memcpy = copy_memory;
      break;
    case SendTransport::kRaw:
      set_frame_steps(qp.ex);
      break;
  }
  qp.dv.wr_raw_wqe = raw_wqe;
  if (qp.base()->qp_type == IBV_QPT_RC) {
    set_mkey_steps(qp.dv);
    qp.dv.wr_memcpy = copy_memory;
  }
}

}  // namespace umlx5::verbs
