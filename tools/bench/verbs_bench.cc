// What the calls of the data path cost, through whatever libibverbs and libmlx5 the program finds: run it once on the
// stock libraries and once on others, and compare (bench.py does).
//
// The device is a software one whose thread is held while a call is measured, and its memory is plain memory: nothing
// here says anything about PCIe, write-combining buffers or a real adapter.
//
// With --instructions N nothing is timed: under `valgrind --tool=callgrind` each case writes the instructions of N
// operations to a file of its own.
#include <benchmark/benchmark.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t kQueue = 4096;  // requests in a batch; the queues hold more
constexpr std::uint32_t kBatches = 30;  // in a repetition
constexpr std::uint32_t kList = 32;
constexpr std::size_t kInline = 32;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "verbs_bench: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// Without userfaultfd the software device looks for doorbells now and then, instead of sleeping with the registers
// protected: held while it sleeps so, it would let the first doorbell wait for ever.
void deny_userfaultfd() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    die("userfaultfd cannot be denied");
  }
}

// Holds every other thread of the process in a signal handler.
class OthersHeld {
 public:
  OthersHeld() {
    struct sigaction action {};
    action.sa_handler = &hold;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    held_.store(0);
    released_.store(0);
    int others = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      const pid_t thread = std::stoi(entry.path().filename().string());
      if (thread != ::gettid() && syscall(SYS_tgkill, ::getpid(), thread, SIGUSR1) == 0) {
        ++others;
      }
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (held_.load() != others) {
      if (std::chrono::steady_clock::now() > limit) {
        die("the device's thread cannot be held");
      }
      std::this_thread::yield();
    }
  }
  ~OthersHeld() {
    released_.store(1);
    syscall(SYS_futex, &released_, FUTEX_WAKE_PRIVATE, 1000, nullptr, nullptr, 0);
    while (held_.load() != 0) {
      std::this_thread::yield();
    }
  }
  OthersHeld(const OthersHeld&) = delete;
  OthersHeld& operator=(const OthersHeld&) = delete;

 private:
  static void hold(int) {
    const int before = errno;
    held_.fetch_add(1);
    while (released_.load() == 0) {
      syscall(SYS_futex, &released_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
    held_.fetch_sub(1);
    errno = before;
  }
  static inline std::atomic<int> held_{0}, released_{0};
};

// An RC queue pair that is connected to itself, and its CQ.
class Loop {
 public:
  Loop(ibv_context* context, ibv_pd* pd) : context_(context) {
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 2 * kQueue;
    cq_attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    extended_cq = ibv_create_cq_ex(context, &cq_attr);
    if (extended_cq == nullptr) {
      die("CQ");
    }
    cq = ibv_cq_ex_to_cq(extended_cq);
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {.max_send_wr = kQueue + kList,
                .max_recv_wr = kQueue + kList,
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
    die("no device");
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
  Loop poster{context, pd};
  Loop completer{context, pd};
  ibv_sge sge{};

  ibv_send_wr write(std::size_t bytes, unsigned flags) {
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
    ibv_send_wr wr = write(8, IBV_SEND_SIGNALED);
    completer.post(wr);
    const auto* const entry = static_cast<volatile std::uint8_t*>(view_.buf);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (entry[63] >> 4 == 0xf) {
      if (std::chrono::steady_clock::now() > limit) {
        die("no completion");
      }
    }
    std::memcpy(cqe_.data(), view_.buf, 64);
    ibv_wc wc{};
    if (ibv_poll_cq(completer.cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS) {
      die("the first request failed");
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

// A case posts or polls `operations` times, after `prepare`.
struct Case {
  const char* name;
  std::function<void()> prepare;
  std::function<void(std::uint32_t operations)> run;
};

void post_each(unsigned flags, std::size_t bytes, std::uint32_t operations) {
  ibv_send_wr wr = rig().write(bytes, flags);
  ibv_send_wr* bad = nullptr;
  ibv_qp* const qp = rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (ibv_post_send(qp, &wr, &bad) != 0) {
      die("ibv_post_send");
    }
  }
}

void post_lists(std::uint32_t operations) {
  std::array<ibv_send_wr, kList> list;
  for (std::uint32_t i = 0; i < kList; ++i) {
    list[i] = rig().write(64, i + 1 == kList ? unsigned{IBV_SEND_SIGNALED} : 0u);
    list[i].next = i + 1 == kList ? nullptr : &list[i + 1];
  }
  ibv_send_wr* bad = nullptr;
  ibv_qp* const qp = rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; i += kList) {
    if (ibv_post_send(qp, list.data(), &bad) != 0) {
      die("ibv_post_send");
    }
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

std::vector<Case> cases() {
  const auto reconnect = [] { rig().poster.connect(); };
  const auto fill = [] { rig().fill_cq(kQueue); };
  return {
      {"post_send", reconnect, [](std::uint32_t n) { post_each(IBV_SEND_SIGNALED, 64, n); }},
      {"post_send_inline", reconnect,
       [](std::uint32_t n) { post_each(IBV_SEND_SIGNALED | IBV_SEND_INLINE, kInline, n); }},
      {"post_send_list", reconnect, post_lists},
      {"wr_steps", reconnect, post_in_steps},
      {"post_recv", reconnect, post_receives},
      {"poll_cq", fill, poll},
      {"start_poll", fill, poll_extended},
  };
}

void measure(benchmark::State& state, const Case& measured) {
  for ([[maybe_unused]] auto _ : state) {
    measured.prepare();
    const OthersHeld held;
    const auto begin = std::chrono::steady_clock::now();
    measured.run(kQueue);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(took.count());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kQueue);
}

// Other threads run meanwhile: callgrind is to count threads apart.
void count_instructions(std::uint32_t operations) {
  for (const Case& counted : cases()) {
    counted.prepare();
    counted.run(kList);  // binds symbols, faults pages in
    CALLGRIND_ZERO_STATS;
    counted.run(operations);
    CALLGRIND_DUMP_STATS_AT(counted.name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--instructions") == 0) {
    count_instructions(static_cast<std::uint32_t>(std::atoi(argv[2])) / kList * kList);
    return 0;
  }
  deny_userfaultfd();
  benchmark::Initialize(&argc, argv);
  for (const Case& measured : cases()) {
    benchmark::RegisterBenchmark(measured.name, measure, measured)->UseManualTime()->Iterations(kBatches);
  }
  benchmark::RunSpecifiedBenchmarks();
  std::_Exit(0);  // queue pairs with work in them go with the process
}
