// Frames on striding receive queues: what the device writes of each, and where it is. Linked with Debian's libraries;
// stride_test.py runs it with those and with ours.
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/driver/verbs/loop.h"
#include "tests/driver/verbs/probe.h"

namespace {

using namespace umlx5::probe;

constexpr std::uint32_t kWqeBytes = 4096, kWqes = 8;
constexpr std::size_t kFrom = kWqes * kWqeBytes;

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  union ibv_gid gid {};
  std::array<unsigned char, 6> mac{2, 0};
  ibv_qp* sender = nullptr;
  ibv_cq* sender_cq = nullptr;
  alignas(64) std::array<unsigned char, kFrom + 4096> memory{};
};

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

ibv_wq* create_wq(const Device& device, ibv_cq* cq, std::uint32_t log_bytes, std::uint32_t log_strides, bool shift,
                  std::uint32_t max_sge = 1) {
  ibv_wq_init_attr attr{};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = kWqes;
  attr.max_sge = max_sge;
  attr.pd = device.pd;
  attr.cq = cq;
  mlx5dv_wq_init_attr mlx5{};
  mlx5.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
  mlx5.striding_rq_attrs = {log_bytes, log_strides, static_cast<std::uint8_t>(shift)};
  errno = 0;
  ibv_wq* const wq = mlx5dv_create_wq(device.context, &attr, &mlx5);
  std::printf("create_wq 2^%u bytes 2^%u strides shift %d sge %u: ", log_bytes, log_strides, shift, max_sge);
  if (wq == nullptr) {
    std::printf("errno %d\n", errno);
  } else {
    std::printf("max_wr %u max_sge %u\n", attr.max_wr, attr.max_sge);
  }
  return wq;
}

void start_sender(Device& device) {
  device.sender_cq = ibv_create_cq(device.context, 15, nullptr, nullptr, 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = device.sender_cq;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  device.sender = ibv_create_qp(device.pd, &attr);
  if (device.sender == nullptr) {
    give_up("sender");
  }
  ibv_qp_attr to{};
  to.port_num = 1;
  to.qp_state = IBV_QPS_INIT;
  int error = ibv_modify_qp(device.sender, &to, IBV_QP_STATE | IBV_QP_PORT);
  for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    to.qp_state = state;
    error = error != 0 ? error : ibv_modify_qp(device.sender, &to, IBV_QP_STATE);
  }
  if (error != 0) {
    give_up("sender to RTS");
  }
}

// Frames to the device's own address come to the queue.
struct Receiver {
  Receiver(Device& device, ibv_wq* wq) {
    ibv_rwq_ind_table_init_attr table_attr{.log_ind_tbl_size = 0, .ind_tbl = &wq, .comp_mask = 0};
    table = ibv_create_rwq_ind_table(device.context, &table_attr);
    std::array<std::uint8_t, 40> key{};
    ibv_qp_init_attr_ex attr{};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.pd = device.pd;
    attr.rwq_ind_tbl = table;
    attr.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                         .rx_hash_key_len = 40,
                         .rx_hash_key = key.data(),
                         .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4};
    mlx5dv_qp_init_attr mlx5{};
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    mlx5.create_flags = MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC;
    qp = mlx5dv_create_qp(device.context, &attr, &mlx5);
    struct {
      ibv_flow_attr attr{};
      ibv_flow_spec_eth eth{};
    } rule;
    static_assert(sizeof rule == sizeof rule.attr + sizeof rule.eth);
    rule.attr.size = sizeof rule;
    rule.attr.num_of_specs = 1;
    rule.attr.port = 1;
    rule.eth.type = IBV_FLOW_SPEC_ETH;
    rule.eth.size = sizeof rule.eth;
    std::memcpy(rule.eth.val.dst_mac, device.mac.data(), 6);
    std::memset(rule.eth.mask.dst_mac, 0xff, 6);
    flow = qp == nullptr ? nullptr : ibv_create_flow(qp, &rule.attr);
    if (flow == nullptr) {
      give_up("receiver");
    }
  }
  ~Receiver() {
    ibv_destroy_flow(flow);
    ibv_destroy_qp(qp);
    ibv_destroy_rwq_ind_table(table);
  }
  ibv_rwq_ind_table* table = nullptr;
  ibv_qp* qp = nullptr;
  ibv_flow* flow = nullptr;
};

void send_frame(Device& device, std::uint32_t bytes) {
  unsigned char* const frame = device.memory.data() + kFrom;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    frame[i] = static_cast<unsigned char>(i * 7 + bytes);
  }
  std::memcpy(frame, device.mac.data(), 6);
  std::memcpy(frame + 6, device.mac.data(), 6);
  frame[12] = 0x88;  // an EtherType that nobody parses
  frame[13] = 0xb5;
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(frame), .length = bytes, .lkey = device.mr->lkey};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ibv_wc wc{};
  if (ibv_post_send(device.sender, &request, &bad) != 0 ||
      until(0, [&] { return ibv_poll_cq(device.sender_cq, 1, &wc); }) != 1 || wc.status != IBV_WC_SUCCESS) {
    give_up("send");
  }
}

// As a program does that works on the queue itself.
void put(const Device& device, const mlx5dv_rwq& queue, std::uint32_t index) {
  auto* const wqe = static_cast<char*>(queue.buf) + index * queue.stride;
  std::memset(wqe, 0, queue.stride);
  mlx5_wqe_data_seg segment{};
  segment.byte_count = htobe32(kWqeBytes);
  segment.lkey = htobe32(device.mr->lkey);
  segment.addr = htobe64(reinterpret_cast<std::uint64_t>(device.memory.data()) + index * kWqeBytes);
  std::memcpy(wqe + sizeof(mlx5_wqe_srq_next_seg), &segment, sizeof segment);
  __atomic_store_n(queue.dbrec, htobe32(index + 1), __ATOMIC_RELEASE);
}

void post(Device& device, ibv_wq* wq, std::uint32_t index) {
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(device.memory.data()) + index * kWqeBytes,
              .length = kWqeBytes,
              .lkey = device.mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = 100 + index;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_wq_recv(wq, &request, &bad) != 0) {
    give_up("post_wq_recv");
  }
}

// The entry at `index` of the ring, once it is there; polled by the library too, which tells "polled" what it makes of
// it.
void show_next(Device& device, const mlx5dv_cq& ring, ibv_cq* cq, unsigned index, std::uint32_t stride_bytes,
               std::uint32_t shift, std::uint32_t frame_bytes) {
  ibv_wc wc{};
  if (until(0, [&] { return ibv_poll_cq(cq, 1, &wc); }) != 1) {
    give_up("poll");
  }
  const auto* cqe =
      reinterpret_cast<const mlx5_cqe64*>(static_cast<char*>(ring.buf) + (index % ring.cqe_cnt) * ring.cqe_size);
  const std::uint32_t word = be32toh(cqe->byte_cnt);
  const unsigned wqe = be16toh(cqe->wqe_id), stride = be16toh(cqe->wqe_counter);
  const bool filler = (word >> 31) != 0;
  const unsigned char* const data = device.memory.data() + (wqe % kWqes) * kWqeBytes + stride * stride_bytes + shift;
  const bool there = filler || std::memcmp(data, device.memory.data() + kFrom, frame_bytes) == 0;
  std::printf("wqe %u stride %u: %s%u strides, %u bytes, op %x, polled %u%s\n", wqe, stride, filler ? "filler, " : "",
              word >> 16 & 0x3fff, word & 0xffff, cqe->op_own >> 4, wc.byte_len, there ? "" : ", DATA NOT THERE");
}

// `posts`: by the library. Debian's leaves no room for the link segment (mlx5_post_wq_recv of 44.0).
void frames(Device& device, bool posts, std::uint32_t log_bytes, std::uint32_t log_strides, bool shift) {
  title("frames");
  ibv_cq* const cq = ibv_create_cq(device.context, 31, nullptr, nullptr, 0);
  ibv_wq* const wq = create_wq(device, cq, log_bytes, log_strides, shift);
  if (cq == nullptr || wq == nullptr) {
    return;
  }
  mlx5dv_cq ring{};
  mlx5dv_rwq queue{};
  mlx5dv_obj object{};
  object.cq = {.in = cq, .out = &ring};
  object.rwq = {.in = wq, .out = &queue};
  line("init_obj", [&] { return mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ | MLX5DV_OBJ_RWQ); });
  std::printf("wqe_cnt %u stride %u\n", queue.wqe_cnt, queue.stride);
  ibv_wq_attr ready{};
  ready.attr_mask = IBV_WQ_ATTR_STATE;
  ready.wq_state = IBV_WQS_RDY;
  line("modify_wq", [&] { return ibv_modify_wq(wq, &ready); });
  for (std::uint32_t i = 0; i < kWqes; ++i) {
    posts ? post(device, wq, i) : put(device, queue, i);
    const auto* segment =
        reinterpret_cast<const mlx5_wqe_data_seg*>(static_cast<char*>(queue.buf) + i * queue.stride + 16);
    std::printf("posted %u bytes, key %d, address %d\n", be32toh(segment->byte_count),
                be32toh(segment->lkey) == device.mr->lkey,
                be64toh(segment->addr) == reinterpret_cast<std::uint64_t>(device.memory.data()) + i * kWqeBytes);
  }
  std::printf("record %u\n", be32toh(*queue.dbrec));
  {
    const Receiver receiver(device, wq);
    const std::uint32_t stride_bytes = 1u << log_bytes, strides = 1u << log_strides, front = shift ? 2 : 0;
    unsigned index = 0;
    std::uint32_t used = 0;
    for (const std::uint32_t bytes : {60u, 64u, 65u, 200u, 400u, 500u, 62u, 63u, 512u, 60u}) {
      const std::uint32_t needed = (bytes + front + stride_bytes - 1) / stride_bytes;
      if (needed > strides) {
        continue;
      }
      send_frame(device, bytes);
      if (used != 0 && used + needed > strides) {
        show_next(device, ring, cq, index++, stride_bytes, front, bytes);
        used = 0;
      }
      show_next(device, ring, cq, index++, stride_bytes, front, bytes);
      used = (used + needed) % strides;
    }
  }
  line("destroy_wq", [&] { return ibv_destroy_wq(wq); });
  line("destroy_cq", [&] { return ibv_destroy_cq(cq); });
}

void sizes(Device& device) {
  title("sizes");
  mlx5dv_context caps{};
  caps.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ;
  line("query_device", [&] { return mlx5dv_query_device(device.context, &caps); });
  const mlx5dv_striding_rq_caps& striding = caps.striding_rq_caps;
  std::printf("strides of 2^%u..2^%u bytes, 2^%u..2^%u of them, types %x\n",
              striding.min_single_stride_log_num_of_bytes, striding.max_single_stride_log_num_of_bytes,
              striding.min_single_wqe_log_num_of_strides, striding.max_single_wqe_log_num_of_strides,
              striding.supported_qpts);
  ibv_cq* const cq = ibv_create_cq(device.context, 15, nullptr, nullptr, 0);
  for (const auto& [log_bytes, log_strides, sge] : {std::array{5u, 9u, 1u},
                                                    {14u, 9u, 1u},
                                                    {6u, 2u, 1u},
                                                    {6u, 17u, 1u},
                                                    {6u, 3u, 1u},
                                                    {13u, 16u, 1u},
                                                    {6u, 8u, 1u},
                                                    {6u, 9u, 3u},
                                                    {6u, 9u, 1000u}}) {
    if (ibv_wq* const wq = create_wq(device, cq, log_bytes, log_strides, false, sge)) {
      ibv_destroy_wq(wq);
    }
  }
  ibv_wq_init_attr attr{};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = attr.max_sge = 1;
  attr.pd = device.pd;
  attr.cq = cq;
  mlx5dv_wq_init_attr mlx5{};
  mlx5.comp_mask = 2;
  made("create_wq, mask", [&] { return mlx5dv_create_wq(device.context, &attr, &mlx5); });
  ibv_destroy_cq(cq);
}

}  // namespace

int main(int argc, char**) {
  static Device device;
  const bool posts = argc > 1;
  ibv_device** const list = ibv_get_device_list(nullptr);
  device.context = list == nullptr || list[0] == nullptr ? nullptr : ibv_open_device(list[0]);
  if (device.context == nullptr) {
    give_up("open_device");
  }
  ibv_free_device_list(list);
  device.pd = ibv_alloc_pd(device.context);
  device.mr = ibv_reg_mr(device.pd, device.memory.data(), device.memory.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_query_gid(device.context, 1, 0, &device.gid);
  std::memcpy(device.mac.data() + 2, device.gid.raw + 12, 4);
  sizes(device);
  start_sender(device);
  frames(device, posts, 6, 3, false);
  frames(device, posts, 6, 3, true);
  frames(device, posts, 9, 3, false);
  ibv_destroy_qp(device.sender);
  ibv_destroy_cq(device.sender_cq);
  ibv_dereg_mr(device.mr);
  ibv_dealloc_pd(device.pd);
  return line("close_device", [&] { return ibv_close_device(device.context); });
}
