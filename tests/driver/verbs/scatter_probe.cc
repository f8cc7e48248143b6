// Where the data of small messages is: in the CQE or in memory, by the flags that a queue pair was created with. Linked
// with Debian's libraries; scatter_test.py runs it with those and with ours.
//
// Prints "RC cqe 64 flags - sig 0 | recv 8:32 32:32 33:- 64:- 65:- | read 8:- ... | atomic 8:-": for each message of so
// many bytes how many of them the CQE has room for, "-" if none, and "LOST" if they did not arrive where they should.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/driver/verbs/loop.h"

namespace {

using namespace umlx5::probe;

constexpr std::uint32_t kKey = 0x1234;
constexpr std::array<std::uint32_t, 5> kSizes{8, 32, 33, 64, 65};

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  union ibv_gid gid {};
  alignas(64) std::array<unsigned char, 4096> memory{};
  unsigned char* from() { return memory.data(); }
  unsigned char* to() { return memory.data() + 2048; }
};

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

// A completion queue whose entries are looked at before they are polled.
class Queue {
 public:
  Queue(const Device& device, std::uint16_t cqe_bytes) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 15;
    mlx5dv_cq_init_attr mlx5{};
    mlx5.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
    mlx5.cqe_size = cqe_bytes;
    cq = ibv_cq_ex_to_cq(mlx5dv_create_cq(device.context, &attr, &mlx5));
    if (cq == nullptr) {
      give_up("create_cq");
    }
    ring_.cqe_size = cqe_bytes;
    mlx5dv_obj object{};
    object.cq = {.in = cq, .out = &ring_};
    if (mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ) != 0) {
      give_up("init_obj");
    }
  }

  // The next completion; `room` becomes how many bytes of data its entry has a place for.
  ibv_wc next(unsigned& room) {
    ibv_wc wc{};
    if (until(0, [&] { return ibv_poll_cq(cq, 1, &wc); }) != 1) {
      give_up("poll_cq");
    }
    const auto* entry = static_cast<const unsigned char*>(ring_.buf) + (index_++ % ring_.cqe_cnt) * ring_.cqe_size;
    const unsigned format = entry[ring_.cqe_size - 1] >> 2 & 3;  // mlx5dv.h: 1 MLX5_INLINE_SCATTER_32, 2 _64
    room = format == 1 ? 32 : format == 2 ? 64 : 0;
    return wc;
  }

  ibv_cq* cq = nullptr;

 private:
  mlx5dv_cq ring_{};
  unsigned index_ = 0;
};

struct Variant {
  const char* type;
  std::uint16_t cqe_bytes;
  std::uint32_t flags;
  int signal_all;
};

const char* name_of(std::uint32_t flags) {
  return flags == MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE     ? "allow"
         : flags == MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE ? "disable"
                                                            : "-";
}

ibv_qp* create(const Device& device, const Variant& variant, ibv_cq* send, ibv_cq* receive, ibv_srq* srq,
               mlx5dv_dc_type dc) {
  ibv_qp_init_attr_ex attr{};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = device.pd;
  attr.qp_type = dc != 0 ? IBV_QPT_DRIVER : variant.type[0] == 'U' ? IBV_QPT_UC : IBV_QPT_RC;
  attr.send_cq = send;
  attr.recv_cq = receive;
  attr.srq = srq;
  attr.sq_sig_all = variant.signal_all;
  attr.cap.max_send_wr = attr.cap.max_send_sge = dc != MLX5DV_DCTYPE_DCT ? 4 : 0;
  attr.cap.max_recv_wr = attr.cap.max_recv_sge = dc != 0 ? 0 : 4;
  mlx5dv_qp_init_attr mlx5{};
  if (dc != MLX5DV_DCTYPE_DCT || variant.flags == MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE) {
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    mlx5.create_flags = variant.flags;
  }
  if (dc != 0) {
    mlx5.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DC;
    mlx5.dc_init_attr.dc_type = dc;
    mlx5.dc_init_attr.dct_access_key = dc == MLX5DV_DCTYPE_DCT ? kKey : 0;
  }
  if (dc == MLX5DV_DCTYPE_DCI) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  }
  ibv_qp* const qp = mlx5dv_create_qp(device.context, &attr, &mlx5);
  if (qp == nullptr) {
    give_up("create_qp");
  }
  return qp;
}

void modify(ibv_qp* qp, ibv_qp_attr& attr, ibv_qp_state state, int mask) {
  attr.qp_state = state;
  if (const int error = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE); error != 0) {
    errno = error;
    give_up("modify_qp");
  }
}

ibv_qp_attr attributes(const Device& device, std::uint32_t to) {
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = to;
  attr.min_rnr_timer = 12;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = device.gid;
  attr.ah_attr.grh.hop_limit = 64;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  return attr;
}

constexpr int kAddress = IBV_QP_AV | IBV_QP_PATH_MTU, kOwn = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kRequester =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

void connect(const Device& device, ibv_qp* qp) {
  ibv_qp_attr attr = attributes(device, qp->qp_num);
  const bool uc = qp->qp_type == IBV_QPT_UC;
  modify(qp, attr, IBV_QPS_INIT, kOwn | IBV_QP_ACCESS_FLAGS);
  modify(qp, attr, IBV_QPS_RTR,
         kAddress | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | (uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  modify(qp, attr, IBV_QPS_RTS, uc ? IBV_QP_SQ_PSN : kRequester);
}

class Pair {
 public:
  Pair(Device& device, const Variant& variant)
      : device_(device), send_(device, variant.cqe_bytes), receive_(device, variant.cqe_bytes) {
    if (variant.type[0] != 'D') {
      qp_ = create(device, variant, send_.cq, receive_.cq, nullptr, mlx5dv_dc_type{});
      connect(device, qp_);
      return;
    }
    ibv_srq_init_attr attr{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
    srq_ = ibv_create_srq(device.pd, &attr);
    target_ = create(device, variant, send_.cq, receive_.cq, srq_, MLX5DV_DCTYPE_DCT);
    qp_ = create(device, variant, send_.cq, receive_.cq, nullptr, MLX5DV_DCTYPE_DCI);
    ibv_qp_attr to = attributes(device, 0);
    ah_ = ibv_create_ah(device.pd, &to.ah_attr);
    modify(target_, to, IBV_QPS_INIT, kOwn | IBV_QP_ACCESS_FLAGS);
    modify(target_, to, IBV_QPS_RTR, kAddress | IBV_QP_MIN_RNR_TIMER);
    modify(qp_, to, IBV_QPS_INIT, kOwn);
    modify(qp_, to, IBV_QPS_RTR, IBV_QP_PATH_MTU);
    modify(qp_, to, IBV_QPS_RTS, kRequester);
    ex_ = ibv_qp_to_qp_ex(qp_);
    dc_ = mlx5dv_qp_ex_from_ibv_qp_ex(ex_);
  }

  ~Pair() {
    ibv_destroy_qp(qp_);
    if (target_ != nullptr) {
      ibv_destroy_qp(target_);
      ibv_destroy_srq(srq_);
      ibv_destroy_ah(ah_);
    }
    ibv_destroy_cq(send_.cq);
    ibv_destroy_cq(receive_.cq);
  }

  // "8:32": bytes, and those that fit in the CQE.
  std::string run(ibv_wr_opcode opcode, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      device_.from()[i] = static_cast<unsigned char>(i * 7 + bytes);
    }
    const std::vector<unsigned char> expected(device_.from(), device_.from() + bytes);
    std::memset(device_.to(), 0, 256);
    const bool receives = opcode == IBV_WR_SEND;
    ibv_sge to{.addr = reinterpret_cast<std::uint64_t>(device_.to()), .length = bytes, .lkey = device_.mr->lkey};
    ibv_sge from{.addr = reinterpret_cast<std::uint64_t>(device_.from()), .length = bytes, .lkey = device_.mr->lkey};
    if (receives) {
      ibv_recv_wr request{};
      request.sg_list = &to;
      request.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      if ((srq_ != nullptr ? ibv_post_srq_recv(srq_, &request, &bad) : ibv_post_recv(qp_, &request, &bad)) != 0) {
        give_up("post_recv");
      }
    }
    post(opcode, receives ? from : to, from.addr);
    unsigned in_send = 0, in_receive = 0;
    const ibv_wc sent = send_.next(in_send);
    bool good = sent.status == IBV_WC_SUCCESS;
    if (receives) {
      const ibv_wc received = receive_.next(in_receive);
      good = good && received.status == IBV_WC_SUCCESS && received.byte_len == bytes;
    }
    good = good && std::memcmp(device_.to(), expected.data(), bytes) == 0;
    const unsigned room = receives ? in_receive : in_send;
    return std::to_string(bytes) + ":" + (room == 0 ? "-" : std::to_string(room)) + (good ? "" : " LOST");
  }

 private:
  void post(ibv_wr_opcode opcode, const ibv_sge& sge, std::uint64_t remote) {
    if (ex_ != nullptr) {
      ibv_wr_start(ex_);
      ex_->wr_flags = IBV_SEND_SIGNALED;
      opcode == IBV_WR_SEND        ? ibv_wr_send(ex_)
      : opcode == IBV_WR_RDMA_READ ? ibv_wr_rdma_read(ex_, device_.mr->rkey, remote)
                                   : ibv_wr_atomic_fetch_add(ex_, device_.mr->rkey, remote, 0);
      mlx5dv_wr_set_dc_addr(dc_, ah_, target_->qp_num, kKey);
      ibv_wr_set_sge(ex_, sge.lkey, sge.addr, sge.length);
      if (ibv_wr_complete(ex_) != 0) {
        give_up("wr_complete");
      }
      return;
    }
    ibv_send_wr request{};
    ibv_sge list = sge;
    request.sg_list = &list;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic.remote_addr = remote;
      request.wr.atomic.rkey = device_.mr->rkey;
    } else {
      request.wr.rdma.remote_addr = remote;
      request.wr.rdma.rkey = device_.mr->rkey;
    }
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &request, &bad) != 0) {
      give_up("post_send");
    }
  }

  Device& device_;
  Queue send_, receive_;
  ibv_qp* qp_ = nullptr;
  ibv_qp* target_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_ah* ah_ = nullptr;
  ibv_qp_ex* ex_ = nullptr;
  mlx5dv_qp_ex* dc_ = nullptr;
};

void show(Device& device, const Variant& variant) {
  std::printf("%s cqe %d flags %s sig %d | recv", variant.type, variant.cqe_bytes, name_of(variant.flags),
              variant.signal_all);
  Pair pair(device, variant);
  for (const std::uint32_t bytes : kSizes) {
    std::printf(" %s", pair.run(IBV_WR_SEND, bytes).c_str());
  }
  if (variant.type[0] != 'U') {
    std::printf(" | read");
    for (const std::uint32_t bytes : kSizes) {
      std::printf(" %s", pair.run(IBV_WR_RDMA_READ, bytes).c_str());
    }
    std::printf(" | atomic %s", pair.run(IBV_WR_ATOMIC_FETCH_AND_ADD, 8).c_str());
  }
  std::printf("\n");
}

}  // namespace

int main() {
  Device device;
  ibv_device** const list = ibv_get_device_list(nullptr);
  mlx5dv_context_attr open{};
  device.context = list == nullptr || list[0] == nullptr ? nullptr : mlx5dv_open_device(list[0], &open);
  if (device.context == nullptr) {
    give_up("open_device");
  }
  ibv_free_device_list(list);
  device.pd = ibv_alloc_pd(device.context);
  device.mr =
      ibv_reg_mr(device.pd, device.memory.data(), device.memory.size(),
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  ibv_query_gid(device.context, 1, 0, &device.gid);
  for (const char* const type : {"RC", "UC", "DC"}) {
    for (const std::uint16_t cqe_bytes : {std::uint16_t{64}, std::uint16_t{128}}) {
      for (const std::uint32_t flags : {0u, std::uint32_t{MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE},
                                        std::uint32_t{MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE}}) {
        for (const int signal_all : {0, 1}) {
          show(device, {type, cqe_bytes, flags, signal_all});
        }
      }
    }
  }
  ibv_dereg_mr(device.mr);
  ibv_dealloc_pd(device.pd);
  return ibv_close_device(device.context);
}
