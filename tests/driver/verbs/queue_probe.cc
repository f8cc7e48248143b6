// Calls what libibverbs and libmlx5 have for queues with good and bad arguments and prints what they give. Linked with
// Debian's libraries; probe_test.py runs it with those and with ours, and compares.
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>

#include "tests/driver/verbs/loop.h"
#include "tests/driver/verbs/probe.h"

namespace {

using namespace umlx5::probe;

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  union ibv_gid gid {};
};

ibv_qp* create_qp(const Device& device, ibv_cq* cq) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  return ibv_create_qp(device.pd, &attr);
}

std::uint64_t real_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

int start_poll(ibv_cq_ex* cq) {
  ibv_poll_cq_attr attr{};
  return until(ENOENT, [&] { return ibv_start_poll(cq, &attr); });
}

// A message without data to the queue pair itself, and when its completions say it was.
void times(const Device& device) {
  title("times of completions");
  constexpr std::uint64_t kSlackNs = 100'000'000;
  for (const std::uint64_t also : {std::uint64_t{0}, std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP}}) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 10;
    attr.wc_flags = also | IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    ibv_cq_ex* const cq = made("create_cq_ex, wall clock", [&] { return ibv_create_cq_ex(device.context, &attr); });
    if (cq == nullptr) {
      continue;
    }
    ibv_qp* const qp = create_qp(device, ibv_cq_ex_to_cq(cq));
    line("connect", [&] { return connect_to_itself(qp, device.gid); });
    ibv_poll_cq_attr bad{.comp_mask = 1};
    line("start_poll, mask", [&] { return ibv_start_poll(cq, &bad); });
    ibv_poll_cq_attr poll{};
    line("start_poll of nothing", [&] { return ibv_start_poll(cq, &poll); });
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    line("post_recv", [&] { return ibv_post_recv(qp, &receive, &bad_receive); });
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_send = nullptr;
    const std::uint64_t before = real_time_ns();
    line("post_send", [&] { return ibv_post_send(qp, &send, &bad_send); });
    for (int i = 0; i < 2; ++i) {
      line("start_poll", [&] { return start_poll(cq); });
      const std::uint64_t at = ibv_wc_read_completion_wallclock_ns(cq);
      const bool right = at + kSlackNs > before && at < real_time_ns() + kSlackNs;
      std::printf("status %d, %s\n", cq->status, right ? "the time" : "NOT THE TIME");
      ibv_end_poll(cq);
    }
    line("destroy_qp", [&] { return ibv_destroy_qp(qp); });
    line("destroy_cq", [&] { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); });
  }
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 10;
  for (int bit = 0; bit < 16; ++bit) {
    attr.wc_flags = std::uint64_t{1} << bit;
    if (ibv_cq_ex* cq = made("create_cq_ex, flag " + std::to_string(bit),
                             [&] { return ibv_create_cq_ex(device.context, &attr); })) {
      line("destroy_cq", [&] { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); });
    }
  }
}

// Completion queues with compression, and a message through those that there are.
void compressed(const Device& device) {
  title("compressed completions");
  for (const std::uint16_t cqe_bytes : {64, 128}) {
    for (int format = 0; format < 10; ++format) {
      ibv_cq_init_attr_ex attr{};
      attr.cqe = 10;
      mlx5dv_cq_init_attr mlx5{};
      mlx5.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
      mlx5.cqe_comp_res_format = static_cast<std::uint8_t>(format);
      mlx5.cqe_size = cqe_bytes;
      if (ibv_cq_ex* cq = made("create_cq, format " + std::to_string(format) + ", " + std::to_string(cqe_bytes),
                               [&] { return mlx5dv_create_cq(device.context, &attr, &mlx5); })) {
        line("destroy_cq", [&] { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); });
      }
    }
  }
  mlx5dv_context attributes{};
  attributes.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION;
  line("query_device", [&] { return mlx5dv_query_device(device.context, &attributes); });
  std::printf("at most %u, formats %#x, 128 bytes %d\n", attributes.cqe_comp_caps.max_num,
              attributes.cqe_comp_caps.supported_format, (attributes.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP) != 0);
}

void state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  line("query_qp", [&] { return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init); });
  std::printf("state %d port %d\n", attr.qp_state, attr.port_num);
}

// An XRC target by its number, as a second user of its domain would. Stock libmlx5 44 crashes when such a queue pair is
// destroyed: it looks for a doorbell record that there is not.
void shared_targets(const Device& device, bool destroys_opened) {
  title("XRC targets opened again");
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  ibv_xrcd* const xrcd = made("open_xrcd", [&] { return ibv_open_xrcd(device.context, &domain); });
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = xrcd;
  ibv_qp* const target = made("create_qp_ex", [&] { return ibv_create_qp_ex(device.context, &attr); });
  int whatever = 0;
  ibv_qp_open_attr open{};
  open.xrcd = xrcd;
  open.qp_num = target->qp_num;
  open.qp_type = IBV_QPT_XRC_RECV;
  open.qp_context = &whatever;
  for (const unsigned mask : {0u, unsigned{IBV_QP_OPEN_ATTR_NUM}, 0xfu | unsigned{IBV_QP_OPEN_ATTR_RESERVED}}) {
    open.comp_mask = mask;  // the stock library sets no errno
    std::printf("open_qp, mask %#x: refused %d\n", mask, ibv_open_qp(device.context, &open) == nullptr);
  }
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_CONTEXT | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = 0xabcdef;
  std::printf("open_qp of none: refused %d\n", ibv_open_qp(device.context, &open) == nullptr);
  open.qp_num = target->qp_num;
  ibv_qp* const opened = ibv_open_qp(device.context, &open);
  std::printf("open_qp: %d\n", opened != nullptr);
  if (opened != nullptr) {
    std::printf("number %d context %d state %d type %d\n", opened->qp_num == target->qp_num,
                opened->qp_context == &whatever, opened->state, opened->qp_type);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    line("to INIT by the first", [&] {
      return ibv_modify_qp(target, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    });
    state_of(opened);
    to.qp_state = IBV_QPS_ERR;
    line("to ERR by the second", [&] { return ibv_modify_qp(opened, &to, IBV_QP_STATE); });
    state_of(target);
    line("destroy_qp, the first", [&] { return ibv_destroy_qp(target); });
    state_of(opened);
    line("close_xrcd, used", [&] { return ibv_close_xrcd(xrcd); });
    if (!destroys_opened) {
      return;
    }
    line("destroy_qp, the second", [&] { return ibv_destroy_qp(opened); });
    std::printf("open_qp of what was: refused %d\n", ibv_open_qp(device.context, &open) == nullptr);
  }
  line("close_xrcd", [&] { return ibv_close_xrcd(xrcd); });
}

}  // namespace

int main(int argc, char**) {
  Device device;
  ibv_device** const list = ibv_get_device_list(nullptr);
  device.context = list == nullptr || list[0] == nullptr ? nullptr : ibv_open_device(list[0]);
  if (device.context == nullptr) {
    std::perror("ibv_open_device");
    return 1;
  }
  ibv_free_device_list(list);
  device.pd = ibv_alloc_pd(device.context);
  ibv_query_gid(device.context, 1, 0, &device.gid);
  times(device);
  compressed(device);
  shared_targets(device, argc > 1);
  line("dealloc_pd", [&] { return ibv_dealloc_pd(device.pd); });
  return line("close_device", [&] { return ibv_close_device(device.context); });
}
