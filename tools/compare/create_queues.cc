// Creates queue pairs, shared receive queues and receive work queues with random attributes through whatever libibverbs
// and libmlx5 it finds, and prints one line of JSON for each set of attributes: what was asked, what came of it, and
// what the kernel was asked for. Two runs with the same seeds print the same lines if the libraries do the same.
//
// Left out is what makes the stock library crash: a queue pair without the CQs that its type has, no table where the
// mask says there is one, mlx5dv_init_obj() of a queue pair that has no queues.
#include <fcntl.h>
#include <fmt/format.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tools/compare/builders.h"
#include "tools/compare/create_requests.h"
#include "tools/compare/record.h"

namespace {

using umlx5::compare::builders_of;
using umlx5::compare::HandleKind;
using umlx5::compare::Random;
using umlx5::compare::Requests;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "create_queues: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

template <typename T>
T* need(T* object, const char* what) {
  if (object == nullptr) {
    die(what);
  }
  return object;
}

// What queue pairs are made of. Null: the device has none.
struct Setup {
  ibv_context* context = nullptr;
  ibv_pd *pd = nullptr, *parent = nullptr;
  ibv_cq *cq = nullptr, *cq128 = nullptr;
  ibv_srq *srq = nullptr, *xrc_srq = nullptr;
  ibv_xrcd* xrcd = nullptr;
  ibv_rwq_ind_table* table = nullptr;
};

// ---- One line ----

class Line {
 public:
  void field(const char* name, std::uint64_t value) { add(name, fmt::format("{}", value)); }
  void field(const char* name, std::string_view text) { add(name, fmt::format("\"{}\"", text)); }
  void list(const char* name, std::initializer_list<std::uint64_t> values) {
    std::string all;
    for (const std::uint64_t value : values) {
      all += fmt::format("{}{}", all.empty() ? "" : ",", value);
    }
    add(name, "[" + all + "]");
  }
  void list(const char* name, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) {
      all += fmt::format("{}\"{}\"", all.empty() ? "" : ",", value);
    }
    add(name, "[" + all + "]");
  }
  void object(const char* name, const Line& inner) { add(name, "{" + inner.text_ + "}"); }
  void print() const { std::printf("{%s}\n", text_.c_str()); }

 private:
  void add(const char* name, const std::string& value) {
    text_ += fmt::format("{}\"{}\":{}", text_.empty() ? "" : ",", name, value);
  }
  std::string text_;
};

// ---- Random values: mostly small, often near a limit, sometimes absurd ----

template <std::size_t N>
std::uint32_t one_of(Random& random, const std::uint32_t (&values)[N]) {
  return values[random.below(N)];
}

std::uint32_t requests(Random& random) {
  switch (random.below(10)) {
    case 0:
      return 0;
    case 1:
      return one_of(random, {100, 127, 128, 129, 2047, 4096, 8191, 8192, 8193, 16384, 16385});
    case 2:
      return one_of(random, {32767, 32768, 32769, 65536, 0x1fffff, 0x200000, 0x7fffffff, 0x80000000, 0xffffffff});
    default:
      return 1 + random.below(40);
  }
}

std::uint32_t sges(Random& random) {
  switch (random.below(12)) {
    case 0:
      return 0;
    case 1:
      return 26 + random.below(40);
    case 2:
      return one_of(random, {0x0fffffff, 0x10000000, 0x10000001, 0x7fffffff, 0xffffffff, 1000, 128, 65536});
    default:
      return 1 + random.below(10);
  }
}

std::uint32_t inline_bytes(Random& random) {
  switch (random.below(10)) {
    case 0:
    case 1:
      return 1 + random.below(300);
    case 2:
      return 720 + random.below(320);
    case 3:
      return one_of(random, {0x7fffffe0, 0x7ffffff0, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff, 65536, 4096});
    default:
      return 0;
  }
}

std::uint32_t tso_header(Random& random) {
  return random.chance(80) ? one_of(random, {0, 14, 18, 54, 66, 94, 128}) : 800 + random.below(300);
}

// Some of the bits of `likely`, rarely others.
std::uint64_t some_bits(Random& random, std::uint64_t likely, unsigned percent_others) {
  const std::uint64_t chosen = random.chance(40) ? std::uint64_t{1} << random.below(12) : random.next() & random.next();
  return (chosen & likely) | (random.chance(percent_others) ? std::uint64_t{1} << random.below(40) : 0);
}

// ---- Queue pairs ----

constexpr std::uint64_t kReliable = 0x3ff;  // all ibv operations but TSO
constexpr std::uint64_t kUnreliable =
    kReliable & ~(IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);

struct Entry {
  ibv_qp_type type;
  unsigned weight;
  std::uint64_t operations, dv_operations;
};
constexpr Entry kTypes[] = {
    {IBV_QPT_RC, 26, kReliable, 31},
    {IBV_QPT_UC, 8, kUnreliable, 8},
    {IBV_QPT_UD, 12, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM, 8},
    {IBV_QPT_RAW_PACKET, 16, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO, 8},
    {IBV_QPT_XRC_SEND, 8, kReliable, 8},
    {IBV_QPT_XRC_RECV, 6, 0, 0},
    {IBV_QPT_DRIVER, 20, kReliable, 24},
    {static_cast<ibv_qp_type>(0), 4, kReliable, 8},  // stands for all that are none
};

struct QpCall {
  const char* call = "";
  ibv_qp_init_attr_ex attr{};
  mlx5dv_qp_init_attr dv{};
  std::string pd, send_cq, recv_cq, srq;
};

class QpChoices {
 public:
  QpChoices(const Setup& setup, Random& random) : setup_(setup), random_(random) {}

  QpCall choose() {
    const std::uint32_t way = random_.below(100);
    call_.call = way < 12 ? "ibv_create_qp" : way < 40 ? "ibv_create_qp_ex" : "mlx5dv_create_qp";
    choose_type();
    choose_objects();
    choose_sizes();
    if (way >= 12) {
      choose_extended();
    }
    if (way >= 40) {
      choose_mlx5();
    }
    return call_;
  }

 private:
  void choose_type() {
    std::uint32_t at = random_.below(100);
    entry_ = kTypes;
    for (; at >= entry_->weight; ++entry_) {
      at -= entry_->weight;
    }
    const std::uint32_t none = one_of(random_, {0, 1, 5, 7, 11, 200, 254, 255, 256});
    call_.attr.qp_type = entry_->type == 0 ? static_cast<ibv_qp_type>(none) : entry_->type;
    dc_type_ = random_.chance(92) ? 1 + random_.below(2) : random_.below(5);
  }

  ibv_cq* choose_cq(std::string& name) {
    name = random_.chance(75) ? "cq" : "cq128";
    return name == "cq" ? setup_.cq : setup_.cq128;
  }

  void choose_objects() {
    ibv_qp_init_attr_ex& attr = call_.attr;
    attr.send_cq = choose_cq(call_.send_cq);
    attr.recv_cq = choose_cq(call_.recv_cq);
    if ((attr.qp_type == IBV_QPT_XRC_SEND || attr.qp_type == IBV_QPT_XRC_RECV) && random_.chance(60)) {
      attr.recv_cq = nullptr;
      call_.recv_cq = "none";
    }
    if (attr.qp_type == IBV_QPT_XRC_RECV && random_.chance(60)) {
      attr.send_cq = nullptr;
      call_.send_cq = "none";
    }
    const bool target = attr.qp_type == IBV_QPT_DRIVER && dc_type_ == MLX5DV_DCTYPE_DCT;
    call_.srq = "none";
    if (random_.chance(target ? 85 : 15)) {
      const bool xrc = setup_.xrc_srq != nullptr && random_.chance(10);
      attr.srq = xrc ? setup_.xrc_srq : setup_.srq;
      call_.srq = xrc ? "xrc_srq" : "srq";
    }
    call_.pd = random_.chance(80) ? "pd" : "parent";
    attr.pd = call_.pd == "pd" ? setup_.pd : setup_.parent;
    attr.comp_mask = random_.chance(97) ? IBV_QP_INIT_ATTR_PD : 0;
    attr.sq_sig_all = random_.chance(30) ? 1 : 0;
  }

  void choose_sizes() {
    ibv_qp_init_attr_ex& attr = call_.attr;
    attr.cap = {.max_send_wr = requests(random_),
                .max_recv_wr = requests(random_),
                .max_send_sge = sges(random_),
                .max_recv_sge = sges(random_),
                .max_inline_data = inline_bytes(random_)};
    if (attr.qp_type == IBV_QPT_DRIVER && random_.chance(85)) {
      attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
  }

  void choose_extended() {
    ibv_qp_init_attr_ex& attr = call_.attr;
    if (attr.qp_type == IBV_QPT_XRC_RECV ? random_.chance(95) : random_.chance(2)) {
      attr.comp_mask |= setup_.xrcd != nullptr ? IBV_QP_INIT_ATTR_XRCD : 0;
      attr.xrcd = setup_.xrcd;
    }
    if (random_.chance(15)) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
      const std::uint32_t flag = one_of(random_, {1 << 1, 1 << 8, 1 << 9, 1 << 10, 1 << 11});
      attr.create_flags = random_.chance(10) ? 0 : flag | (random_.chance(10) ? 1u << random_.below(16) : 0);
      attr.source_qpn = random_.below(1 << 24);
    }
    if (random_.chance(attr.qp_type == IBV_QPT_RAW_PACKET ? 25 : 2)) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    }
    attr.max_tso_header = static_cast<std::uint16_t>(tso_header(random_));
    if (setup_.table != nullptr && random_.chance(attr.qp_type == IBV_QPT_RAW_PACKET ? 30 : 2)) {
      choose_rss();
    }
    if (random_.chance(35)) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = some_bits(random_, entry_->operations, 4);
    } else if (random_.chance(3)) {
      attr.send_ops_flags = random_.next();  // not asked for
    }
    attr.comp_mask |= random_.chance(2) ? 1u << (7 + random_.below(25)) : 0;
  }

  void choose_rss() {
    ibv_qp_init_attr_ex& attr = call_.attr;
    attr.comp_mask |= random_.chance(97)   ? IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH
                      : random_.chance(50) ? IBV_QP_INIT_ATTR_IND_TABLE
                                           : IBV_QP_INIT_ATTR_RX_HASH;
    attr.rwq_ind_tbl = setup_.table;
    const bool both = (attr.comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) != 0 && random_.chance(92);
    if (both) {
      attr.send_cq = attr.recv_cq = nullptr;
      attr.srq = nullptr;
      call_.send_cq = call_.recv_cq = call_.srq = "none";
    }
    if (random_.chance(92)) {
      attr.cap = {};
    }
    for (std::size_t i = 0; i < key_.size(); ++i) {
      key_[i] = static_cast<std::uint8_t>(i * 7 + 1);
    }
    constexpr std::uint32_t kFields[] = {0x1, 0x3, 0xf, 0x33, 0xc3, 0x5, 0xf3, 0x0, 0x100, 0x80000003, 0x1000};
    attr.rx_hash_conf = {.rx_hash_function = static_cast<std::uint8_t>(random_.chance(92) ? 1 : random_.below(4)),
                         .rx_hash_key_len = static_cast<std::uint8_t>(
                             random_.chance(90) ? 40 : one_of(random_, {0, 39, 41, 64, 128, 129, 255})),
                         .rx_hash_key = key_.data(),
                         .rx_hash_fields_mask = kFields[random_.below(std::size(kFields))]};
  }

  void choose_mlx5() {
    mlx5dv_qp_init_attr& dv = call_.dv;
    const bool driver = call_.attr.qp_type == IBV_QPT_DRIVER;
    if (random_.chance(50)) {
      dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
      dv.create_flags = static_cast<std::uint32_t>(some_bits(random_, 0xff, 2));
      dv.create_flags = random_.chance(60) ? dv.create_flags & -dv.create_flags : dv.create_flags;
    } else if (random_.chance(3)) {
      dv.create_flags = static_cast<std::uint32_t>(random_.next());  // not asked for
    }
    if (driver ? random_.chance(95) : random_.chance(2)) {
      dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DC;
    }
    dv.dc_init_attr.dc_type = static_cast<mlx5dv_dc_type>(dc_type_);
    dv.dc_init_attr.dct_access_key = random_.next();
    if (driver && dc_type_ == MLX5DV_DCTYPE_DCI ? random_.chance(50) : random_.chance(4)) {
      dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
      const auto log = [&] {
        return static_cast<std::uint8_t>(random_.chance(80) ? random_.below(9) : random_.next());
      };
      dv.dc_init_attr.dci_streams = {.log_num_concurent = log(), .log_num_errored = log()};
    }
    if (random_.chance(driver && dc_type_ == MLX5DV_DCTYPE_DCT ? 5 : 30)) {
      dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
      dv.send_ops_flags = some_bits(random_, entry_->dv_operations, 4);
    } else if (random_.chance(3)) {
      dv.send_ops_flags = random_.next();  // not asked for
    }
    dv.comp_mask |= random_.chance(2) ? std::uint64_t{1} << (4 + random_.below(60)) : 0;
  }

  const Setup& setup_;
  Random& random_;
  QpCall call_;
  const Entry* entry_ = nullptr;
  std::uint32_t dc_type_ = 0;
  static inline std::array<std::uint8_t, 256> key_{};
};

Line asked_of(const QpCall& call) {
  const ibv_qp_init_attr_ex& a = call.attr;
  Line line;
  line.field("type", a.qp_type);
  line.list("cap",
            {a.cap.max_send_wr, a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_recv_sge, a.cap.max_inline_data});
  line.field("pd", call.pd);
  line.list("objects", std::vector<std::string>{call.send_cq, call.recv_cq, call.srq});
  line.field("signal_all", static_cast<std::uint64_t>(a.sq_sig_all));
  line.field("comp_mask", a.comp_mask);
  line.field("create_flags", a.create_flags);
  line.field("source_qpn", a.source_qpn);
  line.field("tso_header", a.max_tso_header);
  line.field("operations", a.send_ops_flags);
  line.list("hash",
            {a.rx_hash_conf.rx_hash_function, a.rx_hash_conf.rx_hash_key_len, a.rx_hash_conf.rx_hash_fields_mask});
  line.field("dv_mask", call.dv.comp_mask);
  line.field("dv_flags", call.dv.create_flags);
  line.field("dc_type", call.dv.dc_init_attr.dc_type);
  line.list("streams",
            {call.dv.dc_init_attr.dci_streams.log_num_concurent, call.dv.dc_init_attr.dci_streams.log_num_errored});
  line.field("dv_operations", call.dv.send_ops_flags);
  return line;
}

ibv_qp* create(const Setup& setup, QpCall& call) {
  const std::string_view name = call.call;
  if (name == "ibv_create_qp") {
    ibv_qp_init_attr plain{};
    plain.send_cq = call.attr.send_cq;
    plain.recv_cq = call.attr.recv_cq;
    plain.srq = call.attr.srq;
    plain.cap = call.attr.cap;
    plain.qp_type = call.attr.qp_type;
    plain.sq_sig_all = call.attr.sq_sig_all;
    ibv_qp* const qp = ibv_create_qp(call.attr.pd, &plain);
    call.attr.cap = plain.cap;
    return qp;
  }
  return name == "ibv_create_qp_ex" ? ibv_create_qp_ex(setup.context, &call.attr)
                                    : mlx5dv_create_qp(setup.context, &call.attr, &call.dv);
}

void add_queue_pair(Line& line, ibv_qp* qp, const QpCall& call) {
  line.list("qp", {qp->qp_num != 0, qp->state, qp->qp_type, qp->pd == call.attr.pd, qp->send_cq == call.attr.send_cq,
                   qp->recv_cq == call.attr.recv_cq, qp->srq == call.attr.srq});
  ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp);
  line.field("builders", ex == nullptr ? 0 : builders_of(*ex));
  line.field("dv_builders", ex == nullptr ? 0 : builders_of(*mlx5dv_qp_ex_from_ibv_qp_ex(ex)));
  const bool dct = qp->qp_type == IBV_QPT_DRIVER && call.dv.dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
  if (dct || (call.attr.comp_mask & IBV_QP_INIT_ATTR_RX_HASH) != 0) {
    return;
  }
  mlx5dv_qp view{};
  mlx5dv_obj object{};
  object.qp = {.in = qp, .out = &view};
  const int viewed = mlx5dv_init_obj(&object, MLX5DV_OBJ_QP);
  line.list("view",
            {static_cast<std::uint64_t>(viewed), view.sq.wqe_cnt, view.sq.stride, view.rq.wqe_cnt, view.rq.stride});
}

void create_queue_pair(const Setup& setup, Requests& kernel, std::uint64_t seed, Random& random) {
  QpCall call = QpChoices(setup, random).choose();
  Line line;
  line.field("seed", seed);
  line.field("call", call.call);
  line.object("asked", asked_of(call));
  const ibv_qp_init_attr_ex before = call.attr;
  kernel.start();
  errno = 0;
  ibv_qp* const qp = create(setup, call);
  const int error = errno;
  line.list("kernel", kernel.take());
  line.field("made", qp != nullptr);
  line.field("errno", qp != nullptr ? 0 : static_cast<std::uint64_t>(error));
  const ibv_qp_cap& cap = call.attr.cap;
  line.list("cap", {cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data});
  call.attr.cap = before.cap;
  line.field("rest_kept", std::memcmp(&before, &call.attr, sizeof before) == 0);
  if (qp != nullptr) {
    add_queue_pair(line, qp, call);
    if (ibv_destroy_qp(qp) != 0) {
      die("ibv_destroy_qp");
    }
  }
  line.print();
}

// ---- Shared receive queues and receive work queues ----

void create_srq(const Setup& setup, Requests& kernel, std::uint64_t seed, Random& random) {
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = requests(random), .max_sge = sges(random), .srq_limit = random.below(3)};
  const bool extended = random.chance(60);
  if (extended) {
    attr.comp_mask = random.chance(95) ? IBV_SRQ_INIT_ATTR_PD : 0;
    attr.pd = setup.pd;
    if (random.chance(70)) {
      const bool xrc = setup.xrcd != nullptr && random.chance(50);
      attr.comp_mask |= IBV_SRQ_INIT_ATTR_TYPE;
      attr.srq_type = xrc ? IBV_SRQT_XRC : random.chance(95) ? IBV_SRQT_BASIC : static_cast<ibv_srq_type>(7);
      attr.comp_mask |= xrc && random.chance(92) ? IBV_SRQ_INIT_ATTR_XRCD : 0;
      attr.comp_mask |= xrc && random.chance(92) ? IBV_SRQ_INIT_ATTR_CQ : 0;
      attr.xrcd = setup.xrcd;
      attr.cq = setup.cq;
    }
    attr.comp_mask |= random.chance(2) ? 1u << (5 + random.below(27)) : 0;
  }
  Line asked;
  asked.list("attr", {attr.attr.max_wr, attr.attr.max_sge, attr.attr.srq_limit});
  asked.field("comp_mask", attr.comp_mask);
  asked.field("srq_type", attr.srq_type);
  Line line;
  line.field("seed", seed);
  line.field("call", extended ? "ibv_create_srq_ex" : "ibv_create_srq");
  line.object("asked", asked);
  kernel.start();
  errno = 0;
  ibv_srq_init_attr plain{.srq_context = nullptr, .attr = attr.attr};
  ibv_srq* const srq = extended ? ibv_create_srq_ex(setup.context, &attr) : ibv_create_srq(setup.pd, &plain);
  const int error = errno;
  const ibv_srq_attr& given = extended ? attr.attr : plain.attr;
  line.list("kernel", kernel.take());
  line.field("made", srq != nullptr);
  line.field("errno", srq != nullptr ? 0 : static_cast<std::uint64_t>(error));
  line.list("cap", {given.max_wr, given.max_sge, given.srq_limit});
  if (srq != nullptr) {
    mlx5dv_srq view{};
    mlx5dv_obj object{};
    object.srq = {.in = srq, .out = &view};
    const int viewed = mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ);
    line.list("view", {static_cast<std::uint64_t>(viewed), view.stride, view.head, view.tail});
    if (ibv_destroy_srq(srq) != 0) {
      die("ibv_destroy_srq");
    }
  }
  line.print();
}

void create_wq(const Setup& setup, Requests& kernel, std::uint64_t seed, Random& random) {
  ibv_wq_init_attr attr{};
  attr.wq_type = random.chance(97) ? IBV_WQT_RQ : static_cast<ibv_wq_type>(3);
  attr.max_wr = requests(random);
  attr.max_sge = sges(random);
  attr.pd = setup.pd;
  attr.cq = setup.cq;
  attr.comp_mask = random.chance(30) ? IBV_WQ_INIT_ATTR_FLAGS : 0;
  attr.create_flags = random.chance(50) ? 1u << random.below(6) : 0;
  attr.comp_mask |= random.chance(3) ? 1u << (1 + random.below(31)) : 0;
  Line asked;
  asked.list("attr", {attr.max_wr, attr.max_sge});
  asked.field("wq_type", attr.wq_type);
  asked.field("comp_mask", attr.comp_mask);
  asked.field("create_flags", attr.create_flags);
  Line line;
  line.field("seed", seed);
  line.field("call", "ibv_create_wq");
  line.object("asked", asked);
  kernel.start();
  errno = 0;
  ibv_wq* const wq = ibv_create_wq(setup.context, &attr);
  const int error = errno;
  line.list("kernel", kernel.take());
  line.field("made", wq != nullptr);
  line.field("errno", wq != nullptr ? 0 : static_cast<std::uint64_t>(error));
  line.list("cap", {attr.max_wr, attr.max_sge});
  if (wq != nullptr) {
    mlx5dv_rwq view{};
    mlx5dv_obj object{};
    object.rwq = {.in = wq, .out = &view};
    const int viewed = mlx5dv_init_obj(&object, MLX5DV_OBJ_RWQ);
    line.list("view", {static_cast<std::uint64_t>(viewed), view.wqe_cnt, view.stride, wq->state});
    if (ibv_destroy_wq(wq) != 0) {
      die("ibv_destroy_wq");
    }
  }
  line.print();
}

// ---- The program ----

ibv_cq* create_cq128(ibv_context* context) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 63;
  mlx5dv_cq_init_attr dv{};
  dv.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  dv.cqe_size = 128;
  return ibv_cq_ex_to_cq(need(mlx5dv_create_cq(context, &attr, &dv), "CQ of 128 bytes"));
}

ibv_srq* create_xrc_srq(const Setup& setup) {
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = 15, .max_sge = 1, .srq_limit = 0};
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = setup.pd;
  attr.xrcd = setup.xrcd;
  attr.cq = setup.cq;
  return need(ibv_create_srq_ex(setup.context, &attr), "XRC SRQ");
}

ibv_rwq_ind_table* create_table(const Setup& setup) {
  std::array<ibv_wq*, 2> queues{};
  for (ibv_wq*& queue : queues) {
    ibv_wq_init_attr attr{};
    attr.wq_type = IBV_WQT_RQ;
    attr.max_wr = attr.max_sge = 1;
    attr.pd = setup.pd;
    attr.cq = setup.cq;
    if ((queue = ibv_create_wq(setup.context, &attr)) == nullptr) {
      return nullptr;
    }
  }
  ibv_rwq_ind_table_init_attr attr{.log_ind_tbl_size = 1, .ind_tbl = queues.data(), .comp_mask = 0};
  return need(ibv_create_rwq_ind_table(setup.context, &attr), "table of receive queues");
}

ibv_pd* create_parent(const Setup& setup) {
  ibv_td_init_attr td{};
  ibv_parent_domain_init_attr attr{};
  attr.pd = setup.pd;
  attr.td = need(ibv_alloc_td(setup.context, &td), "thread domain");
  return need(ibv_alloc_parent_domain(setup.context, &attr), "parent domain");
}

Setup open(Requests& kernel) {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  Setup setup;
  setup.context = need(devices == nullptr ? nullptr : need(ibv_open_device(devices[0]), "no device"), "no device");
  ibv_free_device_list(devices);
  setup.pd = need(ibv_alloc_pd(setup.context), "PD");
  setup.parent = create_parent(setup);
  setup.cq = need(ibv_create_cq(setup.context, 63, nullptr, nullptr, 0), "CQ");
  setup.cq128 = create_cq128(setup.context);
  ibv_srq_init_attr srq{.srq_context = nullptr, .attr = {.max_wr = 15, .max_sge = 1, .srq_limit = 0}};
  setup.srq = need(ibv_create_srq(setup.pd, &srq), "SRQ");
  ibv_xrcd_init_attr domain{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  if ((setup.xrcd = ibv_open_xrcd(setup.context, &domain)) != nullptr) {
    setup.xrc_srq = create_xrc_srq(setup);
    kernel.name(HandleKind::kSrq, setup.xrc_srq->handle, "xrc_srq");
  }
  if ((setup.table = create_table(setup)) != nullptr) {
    kernel.name(HandleKind::kTable, static_cast<unsigned>(setup.table->ind_tbl_handle), "table");
  }
  kernel.name(HandleKind::kPd, setup.pd->handle, "pd");
  kernel.name(HandleKind::kCq, setup.cq->handle, "cq");
  kernel.name(HandleKind::kCq, setup.cq128->handle, "cq128");
  kernel.name(HandleKind::kSrq, setup.srq->handle, "srq");
  return setup;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 0, count = 100;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--first" && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--sets" && i + 1 < argc) {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: create_queues [--first SEED] [--sets N]\n");
      return 2;
    }
  }
  Requests kernel;
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);  // whole lines reach who reads, and before a crash too
  const Setup setup = open(kernel);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Random random(seed);
    const std::uint32_t kind = random.below(100);
    if (kind < 90) {
      create_queue_pair(setup, kernel, seed, random);
    } else if (kind < 96) {
      create_srq(setup, kernel, seed, random);
    } else {
      create_wq(setup, kernel, seed, random);
    }
  }
  return 0;
}
