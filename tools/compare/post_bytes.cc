// Posts random work requests through whatever libibverbs and libmlx5 it finds, and prints what they wrote: one line for
// each sequence, with a digest of all WQE bytes, doorbell records, BlueFlame copies, return values and completions. Two
// runs with the same seeds, one on the stock libraries and one on others, print the same lines if those write the same.
//
// The queue pairs are in the error state, where every request is built, posted and flushed, whatever it says. Before
// each call the ring is filled with a pattern, so that bytes which nobody writes show.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tools/compare/record.h"

namespace {

using umlx5::compare::Digest;
using umlx5::compare::Random;

constexpr std::uint8_t kPattern = 0xc5;
constexpr std::size_t kBlock = 64;
constexpr std::uint8_t kUmrOpcode = 0x25;
// ::ffff:127.0.0.2. The device's own GID would do as well, but it is another one in every process that runs beside.
constexpr union ibv_gid kDestination {
  .raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 2}
};
constexpr std::uint8_t kMmoOpcode = 0x2f;
constexpr ibv_wr_opcode kMemcpy = IBV_WR_DRIVER1;  // mlx5dv_wr_memcpy(), which the verbs have no opcode for

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "post_bytes: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

struct Options {
  std::uint64_t first = 0, count = 100;
  bool stock = false, show = false;
};

struct Setup {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_ah* ah = nullptr;
};

enum class Kind { kRc, kUc, kUd, kXrc, kDc, kReceive, kShared };
constexpr std::array kKinds{Kind::kRc, Kind::kUc, Kind::kUd, Kind::kXrc, Kind::kDc, Kind::kReceive, Kind::kShared};
constexpr const char* kNames[] = {"RC", "UC", "UD", "XRC", "DC", "RQ", "SRQ"};

ibv_qp_type type_of(Kind kind) {
  switch (kind) {
    case Kind::kUc:
      return IBV_QPT_UC;
    case Kind::kUd:
      return IBV_QPT_UD;
    case Kind::kXrc:
      return IBV_QPT_XRC_SEND;
    case Kind::kDc:
      return IBV_QPT_DRIVER;
    default:
      return IBV_QPT_RC;
  }
}

std::vector<ibv_wr_opcode> opcodes_of(Kind kind) {
  std::vector<ibv_wr_opcode> opcodes{IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};
  if (kind == Kind::kUd) {
    return opcodes;
  }
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW}) {
    opcodes.push_back(opcode);
  }
  if (kind != Kind::kUc) {
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
      opcodes.push_back(opcode);
    }
  }
  return opcodes;
}

bool has_immediate(ibv_wr_opcode opcode) {
  return opcode != IBV_WR_SEND && opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ &&
         opcode != IBV_WR_ATOMIC_CMP_AND_SWP && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && opcode != kMemcpy;
}

bool may_inline(ibv_wr_opcode opcode) {
  return opcode != IBV_WR_RDMA_READ && opcode != IBV_WR_ATOMIC_CMP_AND_SWP && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD &&
         opcode != kMemcpy;
}

// One random queue pair and what is posted to it.
class Sequence {
 public:
  Sequence(const Setup& setup, const Options& options, std::uint64_t seed)
      : setup_(setup), options_(options), random_(seed), digest_(options.show) {
    kind_ = kKinds[seed % kKinds.size()];
    for (std::size_t i = 0; i < data_.size(); ++i) {
      data_[i] = static_cast<std::uint8_t>(i * 131 + 7);
    }
  }

  void run(std::uint64_t seed) {
    if (!create()) {
      std::printf("%lu %s: the device has none\n", static_cast<unsigned long>(seed), kNames[static_cast<int>(kind_)]);
      return;
    }
    const std::uint32_t calls = 2 + random_.below(10);
    for (std::uint32_t call = 0; call < calls; ++call) {
      if (kind_ == Kind::kReceive || kind_ == Kind::kShared) {
        receive();
      } else if (extended_) {
        send_in_steps();
      } else {
        send();
      }
    }
    if (srq_ != nullptr) {
      digest_.bytes("srq", srq_view_.buf, std::size_t{srq_entries_ + 1} * srq_view_.stride);
    }
    destroy();
    std::printf("%lu %s%s %016lx\n", static_cast<unsigned long>(seed), kNames[static_cast<int>(kind_)],
                extended_ ? "-steps" : "", static_cast<unsigned long>(digest_.value()));
  }

 private:
  // False if the device lacks the type.
  bool create() {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = setup_.cq;
    attr.cap = {.max_send_wr = 1 + random_.below(24),
                .max_recv_wr = kind_ == Kind::kReceive ? 1 + random_.below(40) : 1,
                .max_send_sge = 1 + random_.below(8),
                .max_recv_sge = 1 + random_.below(6),
                .max_inline_data = random_.chance(50) ? random_.below(300) : 0};
    attr.qp_type = type_of(kind_);
    attr.sq_sig_all = random_.chance(30);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = setup_.pd;
    extended_ = kind_ == Kind::kDc || (kind_ <= Kind::kXrc && random_.chance(50));
    copies_ = kind_ == Kind::kDc || (kind_ == Kind::kRc && extended_ && random_.chance(50));
    if (kind_ == Kind::kXrc || kind_ == Kind::kDc) {
      attr.recv_cq = kind_ == Kind::kXrc ? nullptr : attr.recv_cq;
      attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
    if (kind_ == Kind::kShared) {
      create_srq();
      attr.srq = srq_;
      attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
    if (extended_) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      for (const ibv_wr_opcode opcode : opcodes_of(kind_)) {
        attr.send_ops_flags |= std::uint64_t{1} << opcode;  // IBV_QP_EX_WITH_* are in the order of the opcodes
      }
    }
    mlx5dv_qp_init_attr dv{};
    if (copies_) {
      dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
      dv.send_ops_flags = MLX5DV_QP_EX_WITH_MEMCPY;
    }
    if (kind_ == Kind::kDc) {
      dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
      dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
      dv.dc_init_attr.dci_streams.log_num_concurent = static_cast<std::uint8_t>(random_.below(4));
    }
    qp_ = mlx5dv_create_qp(setup_.context, &attr, &dv);
    if (qp_ == nullptr && errno == EOPNOTSUPP && kind_ == Kind::kXrc) {
      return false;
    }
    if (qp_ == nullptr) {
      die("mlx5dv_create_qp");
    }
    caps_ = attr.cap;
    digest_.bytes("caps", &caps_, sizeof caps_);
    mlx5dv_obj obj{};
    obj.qp.in = qp_;
    obj.qp.out = &view_;
    if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) != 0) {
      die("mlx5dv_init_obj");
    }
    digest_.number("wqe_cnt", view_.sq.wqe_cnt);
    digest_.number("rq wqe_cnt", view_.rq.wqe_cnt);
    digest_.number("qpn", qp_->qp_num);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qkey = 0x1234;
    const int key = kind_ == Kind::kUd ? IBV_QP_QKEY : kind_ == Kind::kDc ? 0 : IBV_QP_ACCESS_FLAGS;
    if (ibv_modify_qp(qp_, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | key) != 0) {
      die("to INIT");
    }
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = qp_->qp_num;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.dgid = kDestination;
    to.ah_attr.grh.hop_limit = 64;
    int mask = kind_ == Kind::kDc ? IBV_QP_STATE | IBV_QP_PATH_MTU : IBV_QP_STATE;
    if (kind_ != Kind::kUd && kind_ != Kind::kDc) {
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
      mask |= kind_ == Kind::kUc || kind_ == Kind::kXrc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    if (ibv_modify_qp(qp_, &to, mask) != 0) {
      die("to RTR");
    }
    to.qp_state = IBV_QPS_RTS;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (kind_ != Kind::kUd && kind_ != Kind::kUc) {
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    if (ibv_modify_qp(qp_, &to, mask) != 0) {
      die("to RTS");
    }
    to.qp_state = IBV_QPS_ERR;
    if (ibv_modify_qp(qp_, &to, IBV_QP_STATE) != 0) {
      die("to ERR");
    }
    return true;
  }

  void create_srq() {
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = 1 + random_.below(60);
    attr.attr.max_sge = 1 + random_.below(6);
    srq_ = ibv_create_srq(setup_.pd, &attr);
    if (srq_ == nullptr) {
      die("ibv_create_srq");
    }
    digest_.number("srq max_wr", srq_entries_ = attr.attr.max_wr);
    digest_.number("srq max_sge", srq_sges_ = attr.attr.max_sge);
    mlx5dv_obj obj{};
    obj.srq.in = srq_;
    obj.srq.out = &srq_view_;
    if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ) != 0) {
      die("mlx5dv_init_obj SRQ");
    }
    digest_.number("srq stride", srq_view_.stride);
    digest_.number("srq head", srq_view_.head);
    digest_.number("srq tail", srq_view_.tail);
  }

  void destroy() {
    if (ibv_destroy_qp(qp_) != 0 || (srq_ != nullptr && ibv_destroy_srq(srq_) != 0)) {
      die("destroy");
    }
  }

  // Entries of lengths that a queue takes; zero lengths too, but for shared receive queues (docs/stock_differences.md).
  void make_sges(std::vector<ibv_sge>& sges, std::size_t count, bool inlined) {
    sges.clear();
    for (std::size_t i = 0; i < count; ++i) {
      ibv_sge sge{};
      if (inlined) {
        sge.length = random_.below(4) == 0 ? 0 : random_.below(80);
        sge.addr = reinterpret_cast<std::uint64_t>(data_.data()) + random_.below(900);
      } else {
        const bool empty = random_.chance(15) && kind_ != Kind::kShared;
        sge.length = empty ? 0 : 1 + random_.below(0x7fffffff);
        sge.addr = random_.next();
      }
      sge.lkey = static_cast<std::uint32_t>(random_.next());
      sges.push_back(sge);
    }
  }

  unsigned random_flags() {
    unsigned flags = random_.chance(50) ? unsigned{IBV_SEND_SIGNALED} : 0u;
    flags |= random_.chance(15) ? unsigned{IBV_SEND_FENCE} : 0u;
    flags |= random_.chance(15) ? unsigned{IBV_SEND_SOLICITED} : 0u;
    return flags;
  }

  void make_bind(ibv_mw& window, ibv_mw_bind_info& info, std::uint32_t& rkey) {
    window.type = random_.chance(50) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
    window.rkey = static_cast<std::uint32_t>(random_.next());
    region_.lkey = 0x00112233;
    rkey = static_cast<std::uint32_t>(random_.next());
    info.mr = &region_;
    info.addr = random_.next();
    info.length = random_.chance(20) ? 0 : 1 + random_.next() % (std::uint64_t{1} << 31);
    info.mw_access_flags = 0;
    for (const unsigned access : {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC}) {
      info.mw_access_flags |= random_.chance(50) ? access : 0u;
    }
  }

  struct Request {
    ibv_send_wr wr{};
    std::vector<ibv_sge> sges;
    ibv_mw window{};
  };

  void make_request(Request& request) {
    ibv_send_wr& wr = request.wr;
    std::vector<ibv_wr_opcode> opcodes = opcodes_of(kind_);
    if (copies_) {
      opcodes.push_back(kMemcpy);
    }
    wr.opcode = opcodes[random_.below(static_cast<std::uint32_t>(opcodes.size()))];
    wr.wr_id = random_.next();
    wr.send_flags = random_flags();
    if (may_inline(wr.opcode) && caps_.max_inline_data != 0 && random_.chance(40)) {
      wr.send_flags |= IBV_SEND_INLINE;
    }
    // Now and then one more than the queue takes.
    std::uint32_t count = random_.below(caps_.max_send_sge + 1);
    count += random_.chance(2) ? caps_.max_send_sge : 0;
    if (wr.opcode == IBV_WR_BIND_MW || wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == kMemcpy) {
      count = 0;  // they have no data; the stock driver appends what there is
    }
    make_sges(request.sges, count, (wr.send_flags & IBV_SEND_INLINE) != 0);
    wr.sg_list = request.sges.data();
    wr.num_sge = static_cast<int>(request.sges.size());
    wr.imm_data = static_cast<std::uint32_t>(random_.next());
    switch (wr.opcode) {
      case IBV_WR_BIND_MW: {
        wr.bind_mw.mw = &request.window;
        make_bind(request.window, wr.bind_mw.bind_info, wr.bind_mw.rkey);
        break;
      }
      case IBV_WR_ATOMIC_CMP_AND_SWP:
      case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wr.wr.atomic = {.remote_addr = random_.next(),
                        .compare_add = random_.next(),
                        .swap = random_.next(),
                        .rkey = static_cast<std::uint32_t>(random_.next())};
        break;
      default:
        wr.wr.rdma = {.remote_addr = random_.next(), .rkey = static_cast<std::uint32_t>(random_.next())};
        break;
    }
    if (wr.opcode == kMemcpy) {  // where from, where to and how much; now and then too little or too much
      wr.wr.atomic.compare_add = random_.next();
      wr.wr.atomic.swap = random_.chance(2) ? 0 : 1 + random_.next() % ((std::uint64_t{1} << 31) + 1);
    }
    if (kind_ == Kind::kUd) {
      wr.wr.ud = {.ah = setup_.ah,
                  .remote_qpn = random_.below(1 << 24),
                  .remote_qkey = static_cast<std::uint32_t>(random_.next())};
    }
    wr.qp_type.xrc.remote_srqn = random_.below(1 << 24);
  }

  void send() {
    std::vector<Request> requests(1 + (random_.chance(50) ? 0 : random_.below(6)));
    requests.resize(random_.chance(4) ? caps_.max_send_wr + 2 : requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      make_request(requests[i]);
      requests[i].wr.next = i + 1 < requests.size() ? &requests[i + 1].wr : nullptr;
    }
    prepare();
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp_, &requests[0].wr, &bad);
    std::size_t posted = 0;
    while (posted < requests.size() && &requests[posted].wr != bad) {
      ++posted;
    }
    digest_.number("post_send", static_cast<std::uint64_t>(error));
    digest_.number("posted", posted);
    std::vector<ibv_wr_opcode> opcodes;
    for (std::size_t i = 0; i < posted; ++i) {
      opcodes.push_back(requests[i].wr.opcode);
    }
    show_posted(opcodes, false, error != 0);
    // A request that is refused half built loses the fence that the one before it asked for in the stock driver: put
    // an end to it on both.
    if (error != 0) {
      clear_fence();
    }
  }

  void clear_fence() {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = kind_ == Kind::kUd ? setup_.ah : nullptr;
    ibv_send_wr* bad = nullptr;
    prepare();
    if (ibv_post_send(qp_, &wr, &bad) != 0) {
      die("a request that is nothing but a header is refused");
    }
    producer_ += 1;
    drain(1);
  }

  void send_in_steps() {
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(qp_);
    prepare();
    ibv_wr_start(qp);
    std::vector<ibv_wr_opcode> opcodes;
    const std::uint32_t count = 1 + (random_.chance(50) ? 0 : random_.below(6));
    for (std::uint32_t i = 0; i < std::min(count, caps_.max_send_wr); ++i) {
      Request request;
      make_request(request);
      request.sges.resize(std::min<std::size_t>(request.sges.size(), caps_.max_send_sge));
      std::uint64_t bytes = 0;
      for (ibv_sge& sge : request.sges) {
        bytes += sge.length;
        if ((request.wr.send_flags & IBV_SEND_INLINE) != 0 && bytes > caps_.max_inline_data) {
          bytes -= sge.length;
          sge.length = 0;
        }
      }
      qp->wr_id = request.wr.wr_id;
      qp->wr_flags = request.wr.send_flags;
      step(qp, request);
      opcodes.push_back(request.wr.opcode);
    }
    if (random_.chance(10)) {
      ibv_wr_abort(qp);
      opcodes.clear();
    } else {
      digest_.number("wr_complete", static_cast<std::uint64_t>(ibv_wr_complete(qp)));
    }
    show_posted(opcodes, true, false);
  }

  void step(ibv_qp_ex* qp, Request& request) {
    const ibv_send_wr& wr = request.wr;
    const auto& rdma = wr.wr.rdma;
    const auto& atomic = wr.wr.atomic;
    switch (wr.opcode) {
      case IBV_WR_SEND:
        ibv_wr_send(qp);
        break;
      case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(qp, wr.imm_data);
        break;
      case IBV_WR_SEND_WITH_INV:
        ibv_wr_send_inv(qp, wr.invalidate_rkey);
        break;
      case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(qp, rdma.rkey, rdma.remote_addr);
        break;
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        ibv_wr_rdma_write_imm(qp, rdma.rkey, rdma.remote_addr, wr.imm_data);
        break;
      case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(qp, rdma.rkey, rdma.remote_addr);
        break;
      case IBV_WR_ATOMIC_CMP_AND_SWP:
        ibv_wr_atomic_cmp_swp(qp, atomic.rkey, atomic.remote_addr, atomic.compare_add, atomic.swap);
        break;
      case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ibv_wr_atomic_fetch_add(qp, atomic.rkey, atomic.remote_addr, atomic.compare_add);
        break;
      case IBV_WR_LOCAL_INV:
        return ibv_wr_local_inv(qp, wr.invalidate_rkey);
      case IBV_WR_BIND_MW:
        return ibv_wr_bind_mw(qp, &request.window, wr.bind_mw.rkey, &wr.bind_mw.bind_info);
      case kMemcpy:
        return mlx5dv_wr_memcpy(mlx5dv_qp_ex_from_ibv_qp_ex(qp), atomic.rkey, atomic.remote_addr, wr.imm_data,
                                atomic.compare_add, atomic.swap);
      default:
        die("opcode");
    }
    const bool address_first = random_.chance(50);
    if (address_first) {
      set_address(qp, wr);
    }
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
      std::vector<ibv_data_buf> pieces;
      for (const ibv_sge& sge : request.sges) {
        pieces.push_back({reinterpret_cast<void*>(sge.addr), sge.length});
      }
      if (pieces.size() == 1) {
        ibv_wr_set_inline_data(qp, pieces[0].addr, pieces[0].length);
      } else {
        ibv_wr_set_inline_data_list(qp, pieces.size(), pieces.data());
      }
    } else if (request.sges.size() == 1) {
      ibv_wr_set_sge(qp, request.sges[0].lkey, request.sges[0].addr, request.sges[0].length);
    } else {
      ibv_wr_set_sge_list(qp, request.sges.size(), request.sges.data());
    }
    if (!address_first) {
      set_address(qp, wr);
    }
  }

  void set_address(ibv_qp_ex* qp, const ibv_send_wr& wr) {
    if (kind_ == Kind::kUd) {
      ibv_wr_set_ud_addr(qp, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
    } else if (kind_ == Kind::kXrc) {
      ibv_wr_set_xrc_srqn(qp, wr.qp_type.xrc.remote_srqn);
    } else if (kind_ == Kind::kDc) {
      mlx5dv_qp_ex* const dv = mlx5dv_qp_ex_from_ibv_qp_ex(qp);
      const std::uint64_t access_key = wr.wr_id * 3;
      if ((wr.wr_id & 1) != 0) {
        mlx5dv_wr_set_dc_addr_stream(dv, setup_.ah, wr.qp_type.xrc.remote_srqn, access_key,
                                     static_cast<std::uint16_t>(wr.imm_data));
      } else {
        mlx5dv_wr_set_dc_addr(dv, setup_.ah, wr.qp_type.xrc.remote_srqn, access_key);
      }
    }
  }

  // Nothing is outstanding: all of the ring and the register's data are ours to paint.
  void prepare() {
    std::memset(view_.sq.buf, kPattern, std::size_t{view_.sq.wqe_cnt} * kBlock);
    for (std::uint32_t half = 0; half < 2 && view_.bf.size != 0; ++half) {
      std::memset(static_cast<std::uint8_t*>(view_.bf.reg) + half * view_.bf.size + 8, kPattern, view_.bf.size - 8);
    }
  }

  std::uint16_t send_record() const { return static_cast<std::uint16_t>(be32toh(view_.dbrec[1])); }
  std::uint8_t* wqebb(std::uint32_t index) const {
    return static_cast<std::uint8_t*>(view_.sq.buf) + std::size_t{index % view_.sq.wqe_cnt} * kBlock;
  }

  // Everything between the record's old value and its new one, whole blocks; then waits until it is flushed.
  // If a later request of a list is `refused`, the stock driver puts that half-built one into BlueFlame.
  void show_posted(const std::vector<ibv_wr_opcode>& opcodes, bool in_steps, bool refused) {
    const std::uint16_t record = send_record();
    digest_.number("record", record);
    std::size_t request = 0;
    std::vector<std::uint8_t> last;
    for (std::uint16_t at = producer_; at != record; ++request) {
      const unsigned octowords = wqebb(at)[7] & 0x3f;
      if (octowords == 0 || request == opcodes.size()) {
        die("a WQE without length, or one too many");
      }
      last.clear();
      for (unsigned block = 0; block < (octowords + 3) / 4; ++block, ++at) {
        last.insert(last.end(), wqebb(at), wqebb(at) + kBlock);
      }
      // Built in steps, the stock driver leaves what was there before in the immediate of opcodes without one.
      if (options_.stock && in_steps && !has_immediate(opcodes[request])) {
        std::memset(last.data() + 12, 0, 4);
      }
      if (options_.stock && last[3] == kUmrOpcode) {
        clear_unwritten(last);
      } else if (options_.stock && kind_ == Kind::kXrc) {
        std::memset(last.data() + 20, 0, 12);  // reserved
      }
      if (last[3] == kMmoOpcode) {
        std::memset(last.data() + 20, 0, 12);  // each library's own memory that the device may write to
      }
      // An addition leaves what was there before where a comparison would have its operand.
      if (options_.stock && opcodes[request] == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        std::memset(last.data() + (kind_ == Kind::kXrc ? 56 : kind_ == Kind::kDc ? 88 : 40), 0, 8);
      }
      digest_.bytes("wqe", last.data(), last.size());
    }
    digest_.number("requests", request);
    if (!refused) {
      show_blueflame(producer_);
    }
    producer_ = record;
    drain(request);
  }

  // What the stock driver does not write of a memory key's context: it is reserved, or does not matter when the key is
  // made free.
  static void clear_unwritten(std::vector<std::uint8_t>& wqe) {
    std::uint8_t* const context = wqe.data() + kBlock;
    const bool binds = context[0] == 0;
    for (std::size_t at = 0; at < kBlock; ++at) {
      const bool written = at == 0 || (at >= 4 && at < 8) || (binds && (at == 2 || (at >= 16 && at < 32)));
      context[at] = written ? context[at] : 0;
    }
  }

  // How many blocks went through BlueFlame, and that they are the WQE's.
  void show_blueflame(std::size_t first_word) {
    std::uint32_t blocks = 0, halves = 0;
    bool same = true;
    for (std::uint32_t half = 0; half < 2 && view_.bf.size != 0; ++half) {
      const auto* const data = static_cast<const std::uint8_t*>(view_.bf.reg) + half * view_.bf.size;
      std::uint32_t copied = 0;
      for (std::uint32_t block = 0; block < view_.bf.size / kBlock; ++block) {
        // The first word of the half is the device's to take.
        const std::size_t from = block == 0 ? 8 : 0;
        const std::uint8_t* const bytes = data + block * kBlock;
        if (std::any_of(bytes + from, bytes + kBlock, [](std::uint8_t byte) { return byte != kPattern; })) {
          same = same && std::memcmp(bytes + from, wqebb(static_cast<std::uint32_t>(first_word) + block) + from,
                                     kBlock - from) == 0;
          copied = block + 1;
        }
      }
      blocks += copied;
      halves += copied != 0;
    }
    digest_.number("blueflame blocks", blocks);
    digest_.number("blueflame halves", halves);
    digest_.number("blueflame is the WQE", same);
  }

  void drain(std::size_t count) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (std::size_t taken = 0; taken < count;) {
      ibv_wc wc{};
      const int got = ibv_poll_cq(setup_.cq, 1, &wc);
      if (got < 0 || std::chrono::steady_clock::now() > limit) {
        die("flushed requests do not complete");
      }
      if (got == 1) {
        ++taken;
        digest_.number("wr_id", wc.wr_id);
        digest_.number("status", wc.status);
        digest_.number("qp_num", wc.qp_num);
      }
    }
  }

  void receive() {
    const std::uint32_t limit = kind_ == Kind::kShared ? srq_entries_ : caps_.max_recv_wr;
    const std::uint32_t max_sge = kind_ == Kind::kShared ? srq_sges_ : caps_.max_recv_sge;
    const std::uint32_t count = 1 + random_.below(8) + (random_.chance(5) ? limit : 0);
    std::vector<ibv_recv_wr> requests(count);
    std::vector<std::vector<ibv_sge>> sges(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      make_sges(sges[i], random_.below(max_sge + 1) + (random_.chance(2) ? max_sge : 0), false);
      requests[i] = {.wr_id = random_.next(),
                     .next = i + 1 < count ? &requests[i + 1] : nullptr,
                     .sg_list = sges[i].data(),
                     .num_sge = static_cast<int>(sges[i].size())};
    }
    if (kind_ == Kind::kReceive) {
      std::memset(view_.rq.buf, kPattern, std::size_t{view_.rq.wqe_cnt} * view_.rq.stride);
    }
    ibv_recv_wr* bad = nullptr;
    const int error = kind_ == Kind::kShared ? ibv_post_srq_recv(srq_, requests.data(), &bad)
                                             : ibv_post_recv(qp_, requests.data(), &bad);
    const std::size_t posted = bad == nullptr ? count : static_cast<std::size_t>(bad - requests.data());
    digest_.number("post_recv", static_cast<std::uint64_t>(error));
    digest_.number("posted", posted);
    const __be32* const records = kind_ == Kind::kShared ? srq_view_.dbrec : view_.dbrec;
    digest_.number("record", be32toh(records[0]));
    if (kind_ == Kind::kReceive) {
      for (std::size_t i = 0; i < posted; ++i) {
        const std::size_t slot = (received_ + i) % view_.rq.wqe_cnt;
        const std::size_t stride = view_.rq.stride;
        digest_.bytes("recv", static_cast<std::uint8_t*>(view_.rq.buf) + slot * stride, stride);
      }
      received_ += posted;
      drain(posted);
    }
  }

  const Setup& setup_;
  const Options& options_;
  Random random_;
  Digest digest_;
  Kind kind_;
  bool extended_ = false;
  bool copies_ = false;
  ibv_qp* qp_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_qp_cap caps_{};
  mlx5dv_qp view_{};
  mlx5dv_srq srq_view_{};
  std::uint32_t srq_entries_ = 0, srq_sges_ = 0;
  std::uint16_t producer_ = 0;
  std::size_t received_ = 0;
  ibv_mr region_{};
  std::array<std::uint8_t, 1024> data_{};
};

Setup open() {
  Setup setup;
  ibv_device** const devices = ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) {
    die("no device");
  }
  setup.context = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  if (setup.context == nullptr || (setup.pd = ibv_alloc_pd(setup.context)) == nullptr ||
      (setup.cq = ibv_create_cq(setup.context, 4095, nullptr, nullptr, 0)) == nullptr) {
    die("context, PD or CQ");
  }
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.sl = 3;
  attr.grh.dgid = kDestination;
  attr.grh.flow_label = 0x12345;  // 0 would make the source port random
  attr.grh.hop_limit = 33;
  attr.grh.traffic_class = 0x5a;
  if ((setup.ah = ibv_create_ah(setup.pd, &attr)) == nullptr) {
    die("address handle");
  }
  return setup;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--stock") {
      options.stock = true;
    } else if (option == "--show") {
      options.show = true;
    } else if (option == "--first" && i + 1 < argc) {
      options.first = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--sequences" && i + 1 < argc) {
      options.count = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: post_bytes [--stock] [--show] [--first SEED] [--sequences N]\n");
      return 2;
    }
  }
  const Setup setup = open();
  for (std::uint64_t seed = options.first; seed < options.first + options.count; ++seed) {
    Sequence(setup, options, seed).run(seed);
  }
  ibv_destroy_ah(setup.ah);
  ibv_destroy_cq(setup.cq);
  ibv_dealloc_pd(setup.pd);
  ibv_close_device(setup.context);
  return 0;
}
