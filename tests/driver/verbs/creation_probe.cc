// Creates queue pairs, shared receive queues and receive work queues as the tables of ../creation_rows.h and
// ../size_rows.h say, through whatever libibverbs and libmlx5 it finds, and checks errno, capacities and, with our
// libraries, what UMLX5_LOG=info printed. A line for each row that is wrong, and at the end how many rows there were.
// --stock: the libraries are the installed ones; --without CAPS: only the rows of a device without these abilities.
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/driver/creation_rows.h"
#include "tests/driver/size_rows.h"
#include "tools/compare/builders.h"

namespace {

using namespace umlx5::testing;
using umlx5::SizedQpType;
using umlx5::compare::builders_of;

bool stock = false;
int rows = 0, wrong = 0, left_out = 0;

[[noreturn]] void die(const char* what) {
  std::printf("creation_probe: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

template <typename T>
T* need(T* object, const char* what) {
  if (object == nullptr) {
    die(what);
  }
  return object;
}

void complain(const std::string& name, const std::string& why) {
  std::printf("%s: %s\n", name.c_str(), why.c_str());
  ++wrong;
}

void expect(const std::string& name, const char* what, std::uint64_t is, std::uint64_t expected) {
  if (is != expected) {
    complain(name, std::string(what) + " is " + std::to_string(is) + ", not " + std::to_string(expected));
  }
}

// What has been printed on stderr, which is a file of its own, since the last call.
class Log {
 public:
  Log() : file_(std::tmpfile()) {
    if (file_ == nullptr || dup2(fileno(file_), STDERR_FILENO) < 0) {
      die("stderr");
    }
  }
  std::string take() {
    std::string text(static_cast<std::size_t>(lseek(STDERR_FILENO, 0, SEEK_END) - read_), '\0');
    const ssize_t got = pread(fileno(file_), text.data(), text.size(), read_);
    read_ += got > 0 ? got : 0;
    return text;
  }

 private:
  std::FILE* file_;
  off_t read_ = 0;
};

void expect_words(const std::string& name, const std::string& text, std::string_view words) {
  while (!words.empty()) {
    const std::size_t bar = words.find('|');
    if (text.find(words.substr(0, bar)) == std::string::npos) {
      complain(name, "no '" + std::string(words.substr(0, bar)) + "' in '" + text + "'");
    }
    words = bar == std::string_view::npos ? "" : words.substr(bar + 1);
  }
}

struct Bench {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_xrcd* xrcd = nullptr;
  ibv_rwq_ind_table* table = nullptr;
};

ibv_wq* create_wq(const Bench& bench, std::uint32_t max_wr, std::uint32_t max_sge, ibv_wq_init_attr& attr) {
  attr = {};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = max_wr;
  attr.max_sge = max_sge;
  attr.pd = bench.pd;
  attr.cq = bench.cq;
  return ibv_create_wq(bench.context, &attr);
}

Bench open() {
  Bench bench;
  ibv_device** const devices = ibv_get_device_list(nullptr);
  bench.context = need(devices == nullptr || devices[0] == nullptr ? nullptr : ibv_open_device(devices[0]), "device");
  ibv_free_device_list(devices);
  bench.pd = need(ibv_alloc_pd(bench.context), "PD");
  bench.cq = need(ibv_create_cq(bench.context, 63, nullptr, nullptr, 0), "CQ");
  ibv_srq_init_attr srq{.srq_context = nullptr, .attr = {.max_wr = 15, .max_sge = 1, .srq_limit = 0}};
  bench.srq = need(ibv_create_srq(bench.pd, &srq), "SRQ");
  ibv_xrcd_init_attr domain{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  bench.xrcd = ibv_open_xrcd(bench.context, &domain);
  ibv_wq_init_attr attr{};
  if (ibv_wq* wq = create_wq(bench, 1, 1, attr)) {
    ibv_rwq_ind_table_init_attr table{.log_ind_tbl_size = 0, .ind_tbl = &wq, .comp_mask = 0};
    bench.table = ibv_create_rwq_ind_table(bench.context, &table);
  }
  return bench;
}

ibv_qp* create(const Bench& bench, const Asked& asked, ibv_qp_cap& given) {
  static std::array<std::uint8_t, 256> key{};
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = asked.cqs ? bench.cq : nullptr;
  attr.recv_cq = asked.recv_cq ? bench.cq : nullptr;
  attr.srq = asked.srq ? bench.srq : nullptr;
  attr.cap = asked.cap;
  attr.qp_type = asked.type;
  attr.comp_mask = asked.mask;
  attr.comp_mask |= asked.pd ? std::uint32_t{IBV_QP_INIT_ATTR_PD} : 0;
  attr.comp_mask |= asked.xrcd ? std::uint32_t{IBV_QP_INIT_ATTR_XRCD} : 0;
  attr.pd = bench.pd;
  attr.xrcd = bench.xrcd;
  attr.create_flags = asked.create_flags;
  attr.source_qpn = asked.source_qpn;
  attr.max_tso_header = static_cast<std::uint16_t>(asked.tso_header);
  attr.send_ops_flags = asked.operations;
  attr.rwq_ind_tbl = bench.table;
  attr.rx_hash_conf = {.rx_hash_function = asked.hash_function,
                       .rx_hash_key_len = asked.hash_key_bytes,
                       .rx_hash_key = key.data(),
                       .rx_hash_fields_mask = asked.hash_fields};
  mlx5dv_qp_init_attr dv{};
  dv.comp_mask = asked.dv_mask;
  dv.create_flags = asked.dv_flags;
  dv.send_ops_flags = asked.dv_operations;
  dv.dc_init_attr.dc_type = static_cast<mlx5dv_dc_type>(asked.dc_type);
  dv.dc_init_attr.dci_streams = {.log_num_concurent = asked.streams, .log_num_errored = asked.errored_streams};
  errno = 0;
  ibv_qp* const qp = asked.mlx5 ? mlx5dv_create_qp(bench.context, &attr, &dv) : ibv_create_qp_ex(bench.context, &attr);
  given = attr.cap;
  return qp;
}

void destroy(ibv_qp* qp) {
  if (qp != nullptr && ibv_destroy_qp(qp) != 0) {
    die("ibv_destroy_qp");
  }
}

// The result, and what was printed where it is a refusal of ours.
void check(const Bench& bench, Log& log, const std::string& name, const Asked& asked, int error, const char* words) {
  ++rows;
  log.take();
  ibv_qp_cap given{};
  ibv_qp* const qp = create(bench, asked, given);
  const int seen = qp == nullptr ? errno : 0;
  expect(name, "made", qp != nullptr, stock && error == kUntouched && seen == 0 ? qp != nullptr : error == 0);
  expect(name, "errno", static_cast<std::uint64_t>(seen), static_cast<std::uint64_t>(error));
  if (qp == nullptr && !stock) {
    expect(name, "max_inline_data after the refusal", given.max_inline_data, asked.cap.max_inline_data);
    const std::string text = log.take();
    expect_words(name, text, "umlx5 info: QP create: ");
    expect_words(name, text, words);
  }
  destroy(qp);
}

void creations(const Bench& bench, Log& log, std::string_view without) {
  for (const CreationRow& row : kCreationRows) {
    if (without != row.without) {
      continue;
    }
    if (stock && row.stock == kCrashes) {
      ++left_out;
      continue;
    }
    Asked asked;
    row.ask(asked);
    check(bench, log, row.name, asked, stock && row.stock != kSame ? row.stock : row.error, row.words);
  }
}

// Each operation of each type, and the functions that post them.
void operations(const Bench& bench, Log& log) {
  for (const OperationRow& row : kOperationRows) {
    for (unsigned bit = 0; bit < 18; ++bit) {
      Asked asked;
      row.type(asked);
      const bool dv = bit >= 12;
      const std::uint64_t one = std::uint64_t{1} << (dv ? bit - 12 : bit);
      dv ? asked.dv_ops(one) : asked.ops(one);
      const bool allowed = ((dv ? row.dv : row.verbs) & one) != 0;
      check(bench, log, std::string(row.name) + (dv ? " mlx5dv operation " : " operation ") + std::to_string(one),
            asked, allowed ? 0 : EOPNOTSUPP, "send_ops_flags");
    }
    Asked asked;
    row.type(asked);
    asked.ops(IBV_QP_EX_WITH_SEND).dv_ops(MLX5DV_QP_EX_WITH_RAW_WQE);
    ++rows;
    ibv_qp_cap given{};
    ibv_qp* const qp = create(bench, asked, given);
    ibv_qp_ex* const ex = qp == nullptr ? nullptr : ibv_qp_to_qp_ex(qp);
    if (ex == nullptr) {
      complain(row.name, "no extended queue pair");
    } else {
      expect(row.name, "posting functions", builders_of(*ex), row.builders);
      const std::uint64_t dv = builders_of(*mlx5dv_qp_ex_from_ibv_qp_ex(ex));
      expect(row.name, "mlx5dv's posting functions", dv & row.dv_builders_stock, row.dv_builders_stock);
    }
    destroy(qp);
  }
}

// ---- Sizes ----

// False: the C ABI has no such type on this device.
bool set_type(Asked& asked, SizedQpType type) {
  switch (type) {
    case SizedQpType::kRc:
      return true;
    case SizedQpType::kUc:
      return asked.of(IBV_QPT_UC), true;
    case SizedQpType::kUd:
      return asked.of(IBV_QPT_UD), true;
    case SizedQpType::kRawPacket:
      return asked.of(IBV_QPT_RAW_PACKET), true;
    case SizedQpType::kXrcSend:
      return asked.of(IBV_QPT_XRC_SEND), true;
    case SizedQpType::kDci:
      return asked.dci(), true;
    default:
      return false;
  }
}

void send_sizes(const Bench& bench) {
  for (const SendRow& row : kSendRows) {
    Asked asked;
    // The stock library of 44.0 gives more than can be posted, wraps, and knows MKEY_CONFIGURE less well.
    if (!set_type(asked, row.type) || (stock && (row.wqe_bytes == 0 || row.max_inline > 828 || row.operations))) {
      ++left_out;
      continue;
    }
    asked.cap = {.max_send_wr = row.wr,
                 .max_recv_wr = row.wr == 0 ? 1u : 0u,  // a queue pair has one queue at least
                 .max_send_sge = row.sge,
                 .max_recv_sge = 0,
                 .max_inline_data = row.inline_bytes};
    if (row.operations) {
      asked.ops(*row.operations & 0xffffffff);
      if (*row.operations >> 32 != 0) {
        asked.dv_ops(*row.operations >> 32);
      }
    }
    const std::string name = "send queue " + std::to_string(&row - kSendRows);
    ++rows;
    ibv_qp_cap given{};
    ibv_qp* const qp = create(bench, asked, given);
    const bool made = row.wqe_bytes != 0 || row.wr == 0;
    expect(name, "made", qp != nullptr, made);
    if (qp == nullptr) {
      expect(name, "errno", static_cast<std::uint64_t>(errno), EINVAL);
      continue;
    }
    expect(name, "max_send_wr", given.max_send_wr, row.max_wr);
    expect(name, "max_send_sge", given.max_send_sge, row.sge);
    if (row.sge != 0 || !stock) {  // which tells -4
      expect(name, "max_inline_data", given.max_inline_data, row.max_inline);
    }
    mlx5dv_qp view{};
    mlx5dv_obj object{};
    object.qp = {.in = qp, .out = &view};
    expect(name, "mlx5dv_init_obj", static_cast<std::uint64_t>(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP)), 0);
    expect(name, "blocks", view.sq.wqe_cnt, row.wqebbs);
    destroy(qp);
  }
}

void receive_sizes(const Bench& bench) {
  for (const RecvRow& row : kRecvRows) {
    const bool wraps = row.sge >= 0x10000000;
    if (row.signature || (stock && (wraps || row.out_of_order))) {  // no attribute; 44.0 does not know it
      ++left_out;
      continue;
    }
    Asked asked;
    asked.cap = {
        .max_send_wr = 0, .max_recv_wr = row.wr, .max_send_sge = 0, .max_recv_sge = row.sge, .max_inline_data = 0};
    if (row.out_of_order) {
      asked.dv(kOoo);
    }
    const std::string name = "receive queue " + std::to_string(&row - kRecvRows);
    ++rows;
    ibv_qp_cap given{};
    ibv_qp* const qp = create(bench, asked, given);
    expect(name, "made", qp != nullptr, row.stride_bytes != 0);
    if (qp == nullptr) {
      expect(name, "errno", static_cast<std::uint64_t>(errno), EINVAL);
      continue;
    }
    expect(name, "max_recv_wr", given.max_recv_wr, row.max_wr);
    expect(name, "max_recv_sge", given.max_recv_sge, row.max_sge);
    mlx5dv_qp view{};
    mlx5dv_obj object{};
    object.qp = {.in = qp, .out = &view};
    mlx5dv_init_obj(&object, MLX5DV_OBJ_QP);
    expect(name, "stride", view.rq.stride, row.stride_bytes);
    expect(name, "entries", view.rq.wqe_cnt, row.wqes);
    destroy(qp);
  }
}

// max_wr, max_sge, then what is given; 0: EINVAL.
void other_queues(const Bench& bench) {
  constexpr std::uint32_t kSrqs[][4] = {{100, 2, 127, 3},     {100, 1, 127, 1}, {1, 0, 1, 1},
                                        {32767, 1, 32767, 1}, {32768, 1, 0, 0}, {1, 33, 0, 0}};
  for (const auto& [wr, sge, given_wr, given_sge] : kSrqs) {
    ++rows;
    const std::string name = "SRQ of " + std::to_string(wr) + " and " + std::to_string(sge);
    ibv_srq_init_attr attr{.srq_context = nullptr, .attr = {.max_wr = wr, .max_sge = sge, .srq_limit = 0}};
    ibv_srq* const srq = ibv_create_srq(bench.pd, &attr);
    expect(name, "made", srq != nullptr, given_wr != 0);
    if (srq == nullptr) {
      expect(name, "errno", static_cast<std::uint64_t>(errno), EINVAL);
      continue;
    }
    expect(name, "max_wr", attr.attr.max_wr, given_wr);
    expect(name, "max_sge", attr.attr.max_sge, given_sge);
    ibv_destroy_srq(srq);
  }
  constexpr std::uint32_t kWqs[][4] = {{10, 3, 16, 64}, {1, 1, 4, 16}, {0, 1, 0, 0}, {32769, 1, 0, 0}, {1, 33, 0, 0}};
  for (const auto& [wr, sge, wqes, stride] : kWqs) {
    ++rows;
    const std::string name = "WQ of " + std::to_string(wr) + " and " + std::to_string(sge);
    ibv_wq_init_attr attr{};
    ibv_wq* const wq = create_wq(bench, wr, sge, attr);
    expect(name, "made", wq != nullptr, wqes != 0);
    if (wq == nullptr) {
      expect(name, "errno", static_cast<std::uint64_t>(errno), EINVAL);
      continue;
    }
    mlx5dv_rwq view{};
    mlx5dv_obj object{};
    object.rwq = {.in = wq, .out = &view};
    mlx5dv_init_obj(&object, MLX5DV_OBJ_RWQ);
    expect(name, "entries", view.wqe_cnt, wqes);
    expect(name, "stride", view.stride, stride);
    ibv_destroy_wq(wq);
  }
  constexpr std::array<std::array<int, 2>, 3> kCqs{{{100, 127}, {127, 127}, {128, 255}}};
  for (const auto& [entries, given] : kCqs) {
    ++rows;
    ibv_cq* const cq = need(ibv_create_cq(bench.context, entries, nullptr, nullptr, 0), "CQ");
    expect("CQ of " + std::to_string(entries), "cqe", static_cast<std::uint64_t>(cq->cqe),
           static_cast<std::uint64_t>(given));
    ibv_destroy_cq(cq);
  }
}

// ---- DC: a DCT has no number before RTR, and its changes have exactly these attributes ----

int modify(ibv_qp* qp, const ibv_qp_attr& attr, int mask) {
  ibv_qp_attr copy = attr;
  return ibv_modify_qp(qp, &copy, mask);
}

void dc_transitions(const Bench& bench) {
  const auto is = [](const char* what, int result, int expected) {
    ++rows;
    expect(what, "result", static_cast<std::uint64_t>(result), static_cast<std::uint64_t>(expected));
  };
  ibv_qp_cap given{};
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  Asked asked;
  ibv_qp* const dct = need(create(bench, asked.dct(), given), "DCT");
  expect("DCT", "number", dct->qp_num, 0);
  attr.qp_state = IBV_QPS_INIT;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  is("DCT to INIT without access flags", modify(dct, attr, kInit), EINVAL);
  is("DCT to INIT with more", modify(dct, attr, kInit | IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY), EINVAL);
  is("DCT to INIT", modify(dct, attr, kInit | IBV_QP_ACCESS_FLAGS), 0);
  expect("DCT in INIT", "number", dct->qp_num, 0);
  attr.qp_state = IBV_QPS_RTR;
  constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU;
  is("DCT to RTR without timer", modify(dct, attr, kRtr), EINVAL);
  is("DCT to RTR", modify(dct, attr, kRtr | IBV_QP_MIN_RNR_TIMER), 0);
  expect("DCT in RTR", "has a number", dct->qp_num != 0, 1);
  is("stream of a DCT", mlx5dv_dci_stream_id_reset(dct, 0), EOPNOTSUPP);  // which is never in RTS
  destroy(dct);

  ibv_qp* const dci = need(create(bench, Asked{}.dci().dci_streams(2, 2), given), "DCI");
  expect("DCI", "has a number", dci->qp_num != 0, 1);
  attr.qp_state = IBV_QPS_INIT;
  is("DCI to INIT with access flags", modify(dci, attr, kInit | IBV_QP_ACCESS_FLAGS), EINVAL);
  is("DCI to INIT", modify(dci, attr, kInit), 0);
  is("stream before RTS", mlx5dv_dci_stream_id_reset(dci, 0), EOPNOTSUPP);
  attr.qp_state = IBV_QPS_RTR;
  is("DCI to RTR", modify(dci, attr, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
  attr.qp_state = IBV_QPS_RTS;
  constexpr int kRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  is("DCI to RTS without a PSN", modify(dci, attr, kRts), EINVAL);
  is("DCI to RTS", modify(dci, attr, kRts | IBV_QP_SQ_PSN), 0);
  destroy(dci);
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view without;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--stock") {
      stock = true;
    } else if (option == "--without" && i + 1 < argc) {
      without = argv[++i];
    }
  }
  Log log;
  const Bench bench = open();
  creations(bench, log, without);
  if (without.empty()) {
    operations(bench, log);
    send_sizes(bench);
    receive_sizes(bench);
    other_queues(bench);
    dc_transitions(bench);
  }
  std::printf("%d rows, %d wrong, %d left out\n", rows, wrong, left_out);
  return wrong == 0 && rows != 0 ? 0 : 1;
}
