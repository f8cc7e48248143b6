// Queue pairs that place data out of order, which Debian's header does not know. Linked with Debian's libraries, and of
// use with ours: unordered_test.py runs it.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/verbs/mlx5dv_additions.h"
#include "tests/driver/verbs/loop.h"
#include "tests/driver/verbs/probe.h"

namespace {

using namespace umlx5::probe;

constexpr std::uint32_t kReceives = 100, kMessages = 1000, kBytes = 64;

ibv_qp* create(const Loop& loop, ibv_qp_type type, std::uint32_t receives, ibv_qp_init_attr_ex* given = nullptr) {
  ibv_qp_init_attr_ex attr{};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = loop.pd;
  attr.send_cq = attr.recv_cq = loop.cq;
  attr.qp_type = type;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  mlx5dv_qp_init_attr mlx5{};
  mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  mlx5.create_flags = UMLX5DV_QP_CREATE_OOO_DP;
  errno = 0;
  ibv_qp* const qp = mlx5dv_create_qp(loop.context, &attr, &mlx5);
  if (given != nullptr) {
    *given = attr;
  }
  return qp;
}

void capabilities(const Loop& loop) {
  umlx5dv_context context{};
  context.base.comp_mask = UMLX5DV_CONTEXT_MASK_OOO_RECV_WRS | UMLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM;
  line("query_device", [&] { return mlx5dv_query_device(loop.context, &context.base); });
  const umlx5dv_ooo_recv_wrs_caps& caps = context.ooo_recv_wrs_caps;
  std::printf("mask %llx, rc %u xrc %u dct %u ud %u uc %u, dc rd atom %llu %llu\n",
              static_cast<unsigned long long>(context.base.comp_mask), caps.max_rc, caps.max_xrc, caps.max_dct,
              caps.max_ud, caps.max_uc, static_cast<unsigned long long>(context.max_dc_rd_atom),
              static_cast<unsigned long long>(context.max_dc_init_rd_atom));
  for (const auto& [type, receives] :
       {std::pair{IBV_QPT_RC, caps.max_rc}, std::pair{IBV_QPT_RC, caps.max_rc + 1}, std::pair{IBV_QPT_UD, caps.max_ud},
        std::pair{IBV_QPT_UC, caps.max_uc + 1}, std::pair{IBV_QPT_RAW_PACKET, 4u}}) {
    ibv_qp* const qp = create(loop, type, receives);
    std::printf("type %d, %u receives: %s, errno %d\n", type, receives, qp != nullptr ? "made" : "null",
                qp != nullptr ? 0 : errno);
    if (qp != nullptr) {
      ibv_destroy_qp(qp);
    }
  }
}

bool post(const Loop& loop, ibv_qp* qp, unsigned char* memory, std::uint64_t slot) {
  ibv_sge to{.addr = reinterpret_cast<std::uint64_t>(memory) + slot * kBytes, .length = kBytes, .lkey = loop.mr->lkey};
  ibv_recv_wr receive{};
  receive.wr_id = slot;
  receive.sg_list = &to;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp, &receive, &bad);
  errno = error;
  return error == 0;
}

// Numbered messages, each into the request that its completion names.
void traffic(Loop& loop, ibv_qp* qp, unsigned char* memory) {
  bool in_order = true, right = true;
  std::uint64_t last = 0;
  for (std::uint32_t number = 0; number < kMessages; ++number) {
    unsigned char* const from = memory + (kReceives + 100) * kBytes;
    std::memcpy(from, &number, sizeof number);
    ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(from), .length = sizeof number, .lkey = loop.mr->lkey};
    ibv_send_wr send{};
    send.wr_id = ~std::uint64_t{0};
    send.sg_list = &sge;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &send, &bad) != 0) {
      std::printf("post_send failed\n");
      return;
    }
    for (int completions = 0; completions < 2; ++completions) {
      ibv_wc wc{};
      if (until(0, [&] { return ibv_poll_cq(loop.cq, 1, &wc); }) != 1 || wc.status != IBV_WC_SUCCESS) {
        std::printf("message %u: status %d\n", number, wc.status);
        return;
      }
      if (wc.opcode != IBV_WC_RECV) {
        continue;
      }
      std::uint32_t arrived = 0;
      std::memcpy(&arrived, memory + wc.wr_id * kBytes, sizeof arrived);
      right = right && arrived == number;
      in_order = in_order && (number == 0 || wc.wr_id == (last + 1) % 128);
      last = wc.wr_id;
      right = post(loop, qp, memory, wc.wr_id) && right;
    }
  }
  std::printf("traffic: %s, requests taken %s\n", right ? "right" : "WRONG", in_order ? "IN ORDER" : "in any order");
}

}  // namespace

int main() {
  Loop loop;
  union ibv_gid gid {};
  if (!loop.open() || ibv_query_gid(loop.context, 1, 0, &gid) != 0) {
    return 1;
  }
  alignas(64) static std::array<unsigned char, (kReceives + 128) * kBytes> memory;
  loop.register_memory(memory.data(), memory.size());
  capabilities(loop);
  ibv_qp_init_attr_ex given{};
  ibv_qp* const qp = create(loop, IBV_QPT_RC, kReceives, &given);
  if (qp == nullptr) {
    std::printf("create_qp: errno %d\n", errno);
    return loop.close() ? 0 : 1;
  }
  std::printf("asked for %u receives, given %u\n", kReceives, given.cap.max_recv_wr);
  line("connect", [&] { return connect_to_itself(qp, gid); });
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  line("query_qp", [&] { return ibv_query_qp(qp, &attr, IBV_QP_CAP, &init); });
  std::printf("queried %u\n", attr.cap.max_recv_wr);
  std::uint32_t posted = 0;
  while (posted < 1000 && post(loop, qp, memory.data(), posted)) {
    ++posted;
  }
  std::printf("posted %u, then errno %d\n", posted, errno);
  traffic(loop, qp, memory.data());
  line("destroy_qp", [&] { return ibv_destroy_qp(qp); });
  return loop.close() ? 0 : 1;
}
