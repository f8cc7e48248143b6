// A program as one built with libibverbs 1.0: it calls functions of IBVERBS_1.0 and the slots of their context's table,
// and knows the structures of that time only. old_program_test.py runs it with Debian's library and with ours.
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

// The beginnings that the program looks at, of libibverbs 1.0's structures.
struct OldCq {
  void* context;
  void* cq_context;
  std::uint32_t handle;
  int cqe;
};
struct OldMr {
  void* context;
  void* pd;
  std::uint32_t handle, lkey, rkey;
};
struct OldQp {
  void* context;
  void* qp_context;
  void* pd;
  OldCq* send_cq;
  OldCq* recv_cq;
  void* srq;
  std::uint32_t handle, qp_num;
};
struct OldRecvWr {
  OldRecvWr* next;
  std::uint64_t wr_id;
  ibv_sge* sg_list;
  int num_sge;
};
struct OldInit {
  void* qp_context;
  OldCq* send_cq;
  OldCq* recv_cq;
  void* srq;
  ibv_qp_cap cap;
  ibv_qp_type qp_type;
  int sq_sig_all;
};
struct OldContext {
  void* device;
  struct {
    void* before[7];
    int (*poll_cq)(OldCq*, int, ibv_wc*);
    int (*req_notify_cq)(OldCq*, int);
    void* between[12];
    void* post_send;
    int (*post_recv)(OldQp*, OldRecvWr*, OldRecvWr**);
    void* after[4];
  } ops;
  int cmd_fd, async_fd, num_comp_vectors;
};

#define OLD(result, name, ...)               \
  extern "C" result old_##name(__VA_ARGS__); \
  asm(".symver old_" #name ", ibv_" #name "@IBVERBS_1.0");
OLD(void**, get_device_list, int*)
OLD(void, free_device_list, void**)
OLD(const char*, get_device_name, void*)
OLD(OldContext*, open_device, void*)
OLD(int, close_device, OldContext*)
OLD(int, query_gid, OldContext*, std::uint8_t, int, ibv_gid*)
OLD(void*, alloc_pd, OldContext*)
OLD(int, dealloc_pd, void*)
OLD(OldMr*, reg_mr, void*, void*, std::size_t, int)
OLD(int, dereg_mr, OldMr*)
OLD(OldCq*, create_cq, OldContext*, int, void*, ibv_comp_channel*, int)
OLD(int, destroy_cq, OldCq*)
OLD(OldQp*, create_qp, void*, OldInit*)
OLD(int, modify_qp, OldQp*, ibv_qp_attr*, int)
OLD(int, query_qp, OldQp*, ibv_qp_attr*, int, OldInit*)
OLD(int, destroy_qp, OldQp*)

int main() {
  int count = 0;
  void** list = old_get_device_list(&count);
  std::printf("%d: %s\n", count, old_get_device_name(list[0]));
  OldContext* context = old_open_device(list[0]);
  ibv_gid gid{};
  const int gid_result = old_query_gid(context, 1, 0, &gid);
  std::printf("gid %d, last byte %d\n", gid_result, gid.raw[15] != 0);
  void* pd = old_alloc_pd(context);
  std::array<char, 4096> memory;
  OldMr* mr = old_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  int cookie = 0;
  OldCq* cq = old_create_cq(context, 10, &cookie, nullptr, 0);
  std::printf("cookie kept %d\n", cq->cq_context == &cookie);
  OldInit init{.qp_context = &cookie,
               .send_cq = cq,
               .recv_cq = cq,
               .srq = nullptr,
               .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0},
               .qp_type = IBV_QPT_RC,
               .sq_sig_all = 0};
  OldQp* qp = old_create_qp(pd, &init);
  std::printf("qp %d, max_recv_wr %u, cq %d\n", qp->qp_num != 0, init.cap.max_recv_wr, qp->recv_cq == cq);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  std::printf("init %d\n",
              old_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(memory.data()), .length = 100, .lkey = mr->lkey};
  std::array<OldRecvWr, 6> requests{};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {
        .next = i + 1 < requests.size() ? &requests[i + 1] : nullptr, .wr_id = i + 1, .sg_list = &sge, .num_sge = 1};
  }
  OldRecvWr* bad = nullptr;
  const int refused = context->ops.post_recv(qp, requests.data(), &bad);
  std::printf("posting 6 to a queue of 4: %d, refused %ld\n", refused,
              bad == nullptr ? -1L : static_cast<long>(bad - requests.data()));
  attributes.qp_state = IBV_QPS_ERR;
  std::printf("error %d\n", old_modify_qp(qp, &attributes, IBV_QP_STATE));
  std::array<ibv_wc, 8> completions{};
  int got = 0;
  for (int tries = 0; tries < 1000 && got < 4; ++tries) {
    got += context->ops.poll_cq(cq, static_cast<int>(completions.size()) - got, completions.data() + got);
    poll(nullptr, 0, 1);
  }
  for (int i = 0; i < got; ++i) {
    std::printf("wr %llu status %d qp %d\n", static_cast<unsigned long long>(completions[i].wr_id),
                completions[i].status, completions[i].qp_num == qp->qp_num);
  }
  std::printf("notify %d\n", context->ops.req_notify_cq(cq, 0));
  std::printf("end %d", old_destroy_qp(qp));
  std::printf(" %d", old_destroy_cq(cq));
  std::printf(" %d", old_dereg_mr(mr));
  std::printf(" %d", old_dealloc_pd(pd));
  std::printf(" %d\n", old_close_device(context));
  old_free_device_list(list);
  return 0;
}
