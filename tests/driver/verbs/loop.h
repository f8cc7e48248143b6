// An RC queue pair that is connected with itself, for programs that need traffic and nothing else.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace umlx5::probe {

// To RTS, with itself at the other end. 0 or errno.
inline int connect_to_itself(ibv_qp* qp, const union ibv_gid& gid) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  if (const int error = ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
    return error;
  }
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = IBV_MTU_1024;
  to.dest_qp_num = qp->qp_num;
  to.min_rnr_timer = 12;
  to.ah_attr.is_global = 1;
  to.ah_attr.port_num = 1;
  to.ah_attr.grh.dgid = gid;
  to.ah_attr.grh.hop_limit = 64;
  if (const int error = ibv_modify_qp(qp, &to,
                                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
    return error;
  }
  to.qp_state = IBV_QPS_RTS;
  to.timeout = 14;
  to.retry_cnt = 7;
  to.rnr_retry = 7;
  return ibv_modify_qp(
      qp, &to,
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

// Calls `poll` until it gives something else than `nothing`, ten seconds at most.
template <typename Poll>
int until(int nothing, Poll poll) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int result = nothing;
  while (result == nothing && std::chrono::steady_clock::now() < limit) {
    result = poll();
  }
  return result;
}

struct Loop {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;

  // The first device there is, and a connected queue pair on it. Says on stderr what failed.
  bool open() {
    ibv_device** const list = ibv_get_device_list(nullptr);
    context = list == nullptr || list[0] == nullptr ? nullptr : ibv_open_device(list[0]);
    if (context == nullptr) {
      std::perror("device");
      return false;
    }
    ibv_free_device_list(list);
    union ibv_gid gid {};
    ibv_qp_init_attr attr{};
    attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    attr.qp_type = IBV_QPT_RC;
    if ((pd = ibv_alloc_pd(context)) != nullptr && (cq = ibv_create_cq(context, 10, nullptr, nullptr, 0)) != nullptr) {
      attr.send_cq = attr.recv_cq = cq;
      qp = ibv_create_qp(pd, &attr);
    }
    if (qp == nullptr || ibv_query_gid(context, 1, 0, &gid) != 0 || connect_to_itself(qp, gid) != 0) {
      std::perror("queue pair");
      return false;
    }
    return true;
  }

  bool register_memory(void* memory, std::size_t bytes) {
    mr = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    return mr != nullptr;
  }

  // A message from one place of the registered memory to another; whether both sides completed well.
  bool send(const void* from, std::uint32_t bytes, void* to) const {
    ibv_sge source{.addr = reinterpret_cast<std::uint64_t>(from), .length = bytes, .lkey = mr->lkey};
    ibv_sge target{.addr = reinterpret_cast<std::uint64_t>(to), .length = bytes, .lkey = mr->lkey};
    ibv_recv_wr receive{};
    receive.sg_list = &target;
    receive.num_sge = 1;
    ibv_recv_wr* bad_receive = nullptr;
    ibv_send_wr request{};
    request.sg_list = &source;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_request = nullptr;
    if (ibv_post_recv(qp, &receive, &bad_receive) != 0 || ibv_post_send(qp, &request, &bad_request) != 0) {
      return false;
    }
    bool good = true;
    for (int i = 0; i < 2; ++i) {
      ibv_wc wc{};
      good = until(0, [&] { return ibv_poll_cq(cq, 1, &wc); }) == 1 && wc.status == IBV_WC_SUCCESS && good;
    }
    return good;
  }

  bool close() const {
    return ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && (mr == nullptr || ibv_dereg_mr(mr) == 0) &&
           ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0;
  }
};

}  // namespace umlx5::probe
