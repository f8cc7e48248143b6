// Three short messages into receive requests with room for eight packets each, on a queue pair with packet-based
// credits or ("plain") without. Linked with Debian's libraries; credit_test.py looks at the packets.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "tests/driver/verbs/loop.h"

int main(int argc, char** argv) {
  using namespace umlx5::probe;
  const bool plain = argc == 2 && std::string_view(argv[1]) == "plain";
  Loop loop;
  union ibv_gid gid {};
  if (!loop.open() || ibv_query_gid(loop.context, 1, 0, &gid) != 0) {
    return 1;
  }
  ibv_qp_init_attr_ex attr{};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = loop.pd;
  attr.send_cq = attr.recv_cq = loop.cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  mlx5dv_qp_init_attr mlx5{};
  mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  mlx5.create_flags = plain ? 0 : MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE;
  ibv_qp* const qp = mlx5dv_create_qp(loop.context, &attr, &mlx5);
  if (qp == nullptr || connect_to_itself(qp, gid) != 0) {
    std::perror("queue pair");
    return 1;
  }
  alignas(64) static std::array<char, 3 * 8192 + 64> memory;
  loop.register_memory(memory.data(), memory.size());
  for (int i = 0; i < 3; ++i) {
    ibv_sge to{
        .addr = reinterpret_cast<std::uint64_t>(memory.data()) + 8192u * i, .length = 8192, .lkey = loop.mr->lkey};
    ibv_recv_wr receive{};
    receive.sg_list = &to;
    receive.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(qp, &receive, &bad) != 0) {
      return 1;
    }
  }
  for (int i = 0; i < 3; ++i) {
    ibv_sge from{.addr = reinterpret_cast<std::uint64_t>(memory.data()) + 3 * 8192, .length = 8, .lkey = loop.mr->lkey};
    ibv_send_wr send{};
    send.sg_list = &from;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &send, &bad) != 0) {
      return 1;
    }
    for (int completions = 0; completions < 2; ++completions) {
      ibv_wc wc{};
      if (until(0, [&] { return ibv_poll_cq(loop.cq, 1, &wc); }) != 1 || wc.status != IBV_WC_SUCCESS) {
        return 1;
      }
    }
  }
  ibv_destroy_qp(qp);
  return loop.close() ? 0 : 1;
}
