// What the calls of the data path cost, through whatever libibverbs and libmlx5 the program finds: run it once on the
// stock libraries and once on others, and compare (bench.py does).
#include <benchmark/benchmark.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/bench/harness.h"

namespace umlx5::bench {
namespace {

ibv_cq_ex* make_cq(ibv_context* context) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 2 * kQueue;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* const cq = ibv_create_cq_ex(context, &attr);
  if (cq == nullptr) {
    die("CQ");
  }
  return cq;
}

// An RC queue pair that is connected to itself.
class Loop {
 public:
  Loop(ibv_context* context, ibv_pd* pd, ibv_cq_ex* completions, std::uint32_t requests)
      : extended_cq(completions), cq(ibv_cq_ex_to_cq(completions)), context_(context) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {.max_send_wr = requests,
                .max_recv_wr = requests,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = kInline};
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    qp = ibv_create_qp_ex(context, &attr);
    if (qp == nullptr) {
      die("QP");
    }
    extended_qp = ibv_qp_to_qp_ex(qp);
    connect();
  }

  // Forgets what is posted and begins anew.
  void connect() {
    ibv_qp_attr to{};
    modify(to, IBV_QPS_RESET, 0);
    to.port_num = 1;
    to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    modify(to, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = qp->qp_num;
    to.max_dest_rd_atomic = to.max_rd_atomic = 1;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    if (ibv_query_gid(context_, 1, 0, &to.ah_attr.grh.dgid) != 0) {
      die("GID");
    }
    to.ah_attr.grh.hop_limit = 64;
    modify(to, IBV_QPS_RTR,
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER);
    to.timeout = 14;
    to.retry_cnt = to.rnr_retry = 7;
    modify(to, IBV_QPS_RTS,
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  void post(ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &wr, &bad) != 0) {
      die("ibv_post_send");
    }
  }

  ibv_cq_ex* extended_cq = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_qp_ex* extended_qp = nullptr;

 private:
  void modify(ibv_qp_attr& to, ibv_qp_state state, int mask) {
    to.qp_state = state;
    if (ibv_modify_qp(qp, &to, mask | IBV_QP_STATE) != 0) {
      die("ibv_modify_qp");
    }
  }

  ibv_context* context_;
};

ibv_context* open_device() {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ibv_context* const context = devices == nullptr || devices[0] == nullptr ? nullptr : ibv_open_device(devices[0]);
  if (context == nullptr) {
    die("no device", "none is listed, or it does not open");
  }
  ibv_free_device_list(devices);
  return context;
}

// One loop to post to, one whose completions are polled.
struct Rig {
  ibv_context* context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
  alignas(4096) std::array<std::byte, 4096> memory{};
  ibv_mr* region = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  Loop poster{context, pd, make_cq(context), kQueue + kList};
  Loop completer{context, pd, make_cq(context), kQueue + kList};
  std::vector<std::unique_ptr<Loop>> many;

  // A request with `sge` for its only piece.
  ibv_send_wr write(ibv_sge& sge, std::size_t bytes, unsigned flags) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = flags;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    sge = {.addr = reinterpret_cast<std::uint64_t>(memory.data()),
           .length = static_cast<std::uint32_t>(bytes),
           .lkey = region->lkey};
    wr.wr.rdma = {.remote_addr = sge.addr + 2048, .rkey = region->rkey};
    return wr;
  }

  // Of kManyQps queue pairs, what is posted is forgotten; makes them at first.
  void connect_many() {
    constexpr std::uint32_t kRequests = 2 * kList;
    ibv_cq_ex* const cq = many.empty() ? make_cq(context) : nullptr;
    while (many.size() < kManyQps) {
      many.push_back(std::make_unique<Loop>(context, pd, cq, kRequests));
    }
    for (auto& loop : many) {
      loop->connect();
    }
  }

  // Puts `count` CQEs in front of the poller, as the device would.
  void fill_cq(std::uint32_t count) {
    if (produced_ == 0) {
      read_a_cqe();
    }
    for (std::uint32_t i = 0; i < count; ++i, ++produced_) {
      auto* const entry = static_cast<std::uint8_t*>(view_.buf) + std::size_t{produced_ % view_.cqe_cnt} * 64;
      std::memcpy(entry, cqe_.data(), 63);
      entry[63] = static_cast<std::uint8_t>((cqe_[63] & 0xfe) | (produced_ / view_.cqe_cnt & 1));
    }
  }

 private:
  // The completion of an RDMA write, as the device writes it.
  void read_a_cqe() {
    mlx5dv_obj obj{};
    obj.cq.in = completer.cq;
    obj.cq.out = &view_;
    if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ) != 0 || view_.cqe_size != 64) {
      die("mlx5dv_init_obj");
    }
    ibv_sge sge;
    ibv_send_wr wr = write(sge, 8, IBV_SEND_SIGNALED);
    completer.post(wr);
    const auto* const entry = static_cast<volatile std::uint8_t*>(view_.buf);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (entry[63] >> 4 == 0xf) {
      if (std::chrono::steady_clock::now() > limit) {
        die("no completion", "60 s have passed");
      }
    }
    std::memcpy(cqe_.data(), view_.buf, 64);
    ibv_wc wc{};
    if (ibv_poll_cq(completer.cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS) {
      die("the first request failed", ibv_wc_status_str(wc.status));
    }
    produced_ = 1;
  }

  mlx5dv_cq view_{};
  std::array<std::uint8_t, 64> cqe_{};
  std::uint32_t produced_ = 0;
};

Rig& rig() {
  static Rig* const rig = new Rig;  // the device goes with the process
  return *rig;
}

void post_each(unsigned flags, std::size_t bytes, std::uint32_t operations) {
  ibv_sge sge;
  ibv_send_wr wr = rig().write(sge, bytes, flags);
  ibv_send_wr* bad = nullptr;
  ibv_qp* const qp = rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (ibv_post_send(qp, &wr, &bad) != 0) {
      die("ibv_post_send");
    }
  }
}

class RequestList {
 public:
  explicit RequestList(unsigned last_flags) {
    for (std::uint32_t i = 0; i < kList; ++i) {
      requests_[i] = rig().write(sge_, 64, i + 1 == kList ? last_flags : 0u);
      requests_[i].next = i + 1 == kList ? nullptr : &requests_[i + 1];
    }
  }
  void post_to(ibv_qp* qp) {
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, requests_.data(), &bad) != 0) {
      die("ibv_post_send");
    }
  }

 private:
  ibv_sge sge_{};
  std::array<ibv_send_wr, kList> requests_;
};

void post_lists(std::uint32_t operations) {
  RequestList list(IBV_SEND_SIGNALED);
  ibv_qp* const qp = rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; i += kList) {
    list.post_to(qp);
  }
}

void post_round_robin(std::uint32_t operations) {
  const auto& many = rig().many;
  ibv_sge sge;
  ibv_send_wr wr = rig().write(sge, 64, 0);
  ibv_send_wr* bad = nullptr;
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (ibv_post_send(many[i % kManyQps]->qp, &wr, &bad) != 0) {
      die("ibv_post_send");
    }
  }
}

void post_lists_round_robin(std::uint32_t operations) {
  const auto& many = rig().many;
  RequestList list(0);
  for (std::uint32_t i = 0; i < operations / kList; ++i) {
    list.post_to(many[i % kManyQps]->qp);
  }
}

void post_in_steps(std::uint32_t operations) {
  ibv_qp_ex* const qp = rig().poster.extended_qp;
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(rig().memory.data());
  const std::uint32_t lkey = rig().region->lkey, rkey = rig().region->rkey;
  for (std::uint32_t i = 0; i < operations; ++i) {
    ibv_wr_start(qp);
    qp->wr_id = i;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp, rkey, address + 2048);
    ibv_wr_set_sge(qp, lkey, address, 64);
    if (ibv_wr_complete(qp) != 0) {
      die("ibv_wr_complete");
    }
  }
}

void post_receives(std::uint32_t operations) {
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(rig().memory.data()), .length = 64, .lkey = rig().region->lkey};
  ibv_recv_wr wr{.wr_id = 0, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  ibv_qp* const qp = rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (ibv_post_recv(qp, &wr, &bad) != 0) {
      die("ibv_post_recv");
    }
  }
}

void poll(std::uint32_t operations) {
  std::array<ibv_wc, kList> completions;
  ibv_cq* const cq = rig().completer.cq;
  for (std::uint32_t taken = 0; taken < operations;) {
    const int count = ibv_poll_cq(cq, kList, completions.data());
    if (count <= 0 || completions[0].status != IBV_WC_SUCCESS) {
      die("ibv_poll_cq");
    }
    benchmark::DoNotOptimize(completions);
    taken += static_cast<std::uint32_t>(count);
  }
}

void poll_extended(std::uint32_t operations) {
  ibv_cq_ex* const cq = rig().completer.extended_cq;
  for (std::uint32_t taken = 0; taken < operations; taken += kList) {
    ibv_poll_cq_attr attr{};
    if (ibv_start_poll(cq, &attr) != 0) {
      die("ibv_start_poll");
    }
    for (std::uint32_t i = 1; i < kList; ++i) {
      benchmark::DoNotOptimize(cq->wr_id);
      benchmark::DoNotOptimize(ibv_wc_read_opcode(cq));
      if (ibv_next_poll(cq) != 0) {
        die("ibv_next_poll");
      }
    }
    benchmark::DoNotOptimize(ibv_wc_read_opcode(cq));
    ibv_end_poll(cq);
  }
}

std::vector<Case> make_cases() {
  const auto reconnect = [] { rig().poster.connect(); };
  const auto reconnect_many = [] { rig().connect_many(); };
  const auto fill = [] { rig().fill_cq(kQueue); };
  const auto post = [](std::uint32_t n) { post_each(IBV_SEND_SIGNALED, 64, n); };
  return {
      {.name = "post_send", .prepare = reconnect, .run = post},
      {.name = "post_send_inline",
       .prepare = reconnect,
       .run = [](std::uint32_t n) { post_each(IBV_SEND_SIGNALED | IBV_SEND_INLINE, kInline, n); }},
      {.name = "post_send_list", .prepare = reconnect, .run = post_lists},
      {.name = "wr_steps", .prepare = reconnect, .run = post_in_steps},
      {.name = "post_recv", .prepare = reconnect, .run = post_receives},
      {.name = "poll_cq", .prepare = fill, .run = poll},
      {.name = "start_poll", .prepare = fill, .run = poll_extended},
      {.name = "two_threads", .prepare = reconnect, .run = post, .on_two_threads = true},
      {.name = "cold", .prepare = reconnect, .run = post, .operations = kColdPosts, .on_cold_caches = true},
      {.name = "many_qps", .prepare = reconnect_many, .run = post_round_robin, .batches = 8},
      {.name = "many_qps_list",
       .prepare = reconnect_many,
       .run = post_lists_round_robin,
       .operations = kManyQps * kList,
       .batches = 8},
  };
}

}  // namespace
}  // namespace umlx5::bench

int main(int argc, char** argv) { return umlx5::bench::run(argc, argv, umlx5::bench::make_cases); }
