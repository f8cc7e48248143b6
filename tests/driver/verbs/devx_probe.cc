// Makes queues in registered memory by the device's own commands, and listens to their events. Linked with Debian's
// libraries; probe_test.py runs it with those and with ours, which print the same. Mailboxes by mlx5_ifc.h.
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

using Mailbox = std::array<std::uint32_t, 0x110 / 4>;

constexpr std::size_t kPage = 4096;
constexpr std::uint16_t kCompletion = 0, kCqError = 4;

void put(Mailbox& mailbox, std::size_t offset, std::uint32_t value) { mailbox[offset / 4] |= htobe32(value); }

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  std::uint32_t pdn = 0, eqn = 0;
  mlx5dv_devx_uar* uar = nullptr;
  std::byte* memory = nullptr;  // pages: CQ, QP, records
  std::array<mlx5dv_devx_umem*, 3> umems{};
};

bool open(Device& device) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  mlx5dv_context_attr attr{};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  device.context = list == nullptr || list[0] == nullptr ? nullptr : mlx5dv_open_device(list[0], &attr);
  if (device.context == nullptr) {
    std::perror("mlx5dv_open_device");
    return false;
  }
  ibv_free_device_list(list);
  device.pd = ibv_alloc_pd(device.context);
  mlx5dv_pd dv{};
  mlx5dv_obj obj{};
  obj.pd = {.in = device.pd, .out = &dv};
  device.uar = mlx5dv_devx_alloc_uar(device.context, MLX5DV_UAR_ALLOC_TYPE_NC);
  if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) != 0 || mlx5dv_devx_query_eqn(device.context, 0, &device.eqn) != 0 ||
      device.uar == nullptr) {
    std::perror("objects");
    return false;
  }
  device.pdn = dv.pdn;
  void* const memory = mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  device.memory = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < device.umems.size(); ++i) {
    device.umems[i] = mlx5dv_devx_umem_reg(device.context, device.memory + i * kPage, kPage, IBV_ACCESS_LOCAL_WRITE);
    if (device.umems[i] == nullptr) {
      std::perror("umem_reg");
      return false;
    }
  }
  return true;
}

struct Object {
  mlx5dv_devx_obj* object = nullptr;
  std::uint32_t number = 0;
};

Object create(const Device& device, const char* what, const Mailbox& in) {
  std::array<std::uint32_t, 4> out{};
  errno = 0;
  Object made{mlx5dv_devx_obj_create(device.context, in.data(), sizeof in, out.data(), sizeof out), 0};
  made.number = be32toh(out[2]) & 0xffffff;
  std::printf("%s: %d, status %u\n", what, made.object != nullptr, be32toh(out[0]) >> 24);
  return made;
}

Mailbox cq_mailbox(const Device& device, std::uint32_t umem, std::uint32_t offset) {
  Mailbox in{};
  put(in, 0, 0x400u << 16);
  put(in, 0x14, device.umems[2]->umem_id);
  put(in, 0x1c, 4u << 24 | device.uar->page_id);
  put(in, 0x24, device.eqn);
  put(in, 0x54, offset);
  put(in, 0x58, umem);
  return in;
}

// RC, 4 receive WQEs of 16 bytes and one WQEBB to send, its record at 64.
Mailbox qp_mailbox(const Device& device, std::uint32_t cqn) {
  Mailbox in{};
  put(in, 0, 0x500u << 16);
  put(in, 0x1c, device.pdn);
  put(in, 0x20, 2u << 19);
  put(in, 0x24, device.uar->page_id);
  put(in, 0x94, cqn);
  put(in, 0xb4, cqn);
  put(in, 0xbc, 64);
  put(in, 0xfc, device.umems[2]->umem_id);
  put(in, 0x108, device.umems[1]->umem_id);
  return in;
}

void modify(const char* what, const Object& qp, Mailbox in, std::size_t bytes) {
  std::array<std::uint32_t, 4> out{};
  put(in, 8, qp.number);
  const int result = mlx5dv_devx_obj_modify(qp.object, in.data(), bytes, out.data(), sizeof out);
  std::printf("%s: %d\n", what, result);
}

void arm(const Device& device, std::uint32_t cqn) {
  auto* const record = reinterpret_cast<volatile std::uint32_t*>(device.memory + 2 * kPage);
  record[1] = htobe32(0);
  auto* const place = static_cast<std::byte*>(device.uar->base_addr) + 0x20;
  *reinterpret_cast<volatile std::uint64_t*>(place) = htobe64(cqn);
}

bool readable(int fd, int milliseconds) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, milliseconds) == 1;
}

void read_event(mlx5dv_devx_event_channel* channel, std::uint32_t cqn) {
  std::array<std::uint64_t, 16> buffer{};
  auto* const header = reinterpret_cast<mlx5dv_devx_async_event_hdr*>(buffer.data());
  std::printf("an event: %d\n", readable(channel->fd, 10000));
  const ssize_t bytes = mlx5dv_devx_get_event(channel, header, sizeof buffer);
  const auto* const eqe = header->out_data;
  std::printf("%zd bytes, cookie %#llx", bytes, static_cast<unsigned long long>(header->cookie));
  if (bytes == 72) {
    std::uint32_t number = 0;
    std::memcpy(&number, eqe + 0x38, sizeof number);
    std::printf(", type %u, of this CQ %d", eqe[1], (be32toh(number) & 0xffffff) == cqn);
  }
  std::printf("\n");
}

}  // namespace

int main() {
  Device device;
  if (!open(device)) {
    return 1;
  }
  create(device, "CQ in no umem", cq_mailbox(device, 0, 0));
  create(device, "CQ beyond its umem", cq_mailbox(device, device.umems[0]->umem_id, kPage - 64));
  const Object cq = create(device, "CQ", cq_mailbox(device, device.umems[0]->umem_id, 0));
  const Object qp = create(device, "QP", qp_mailbox(device, cq.number));
  if (cq.object == nullptr || qp.object == nullptr) {
    return 1;
  }
  std::memset(device.memory, 0xff, kPage);
  auto* const whole = mlx5dv_devx_create_event_channel(device.context, {});
  auto* const cookies =
      mlx5dv_devx_create_event_channel(device.context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
  if (whole == nullptr || cookies == nullptr) {
    std::perror("event channel");
    return 1;
  }
  const int signal = eventfd(0, EFD_NONBLOCK);
  std::uint16_t types[] = {kCompletion, kCqError};
  std::printf("subscribe: %d\n", mlx5dv_devx_subscribe_devx_event(whole, cq.object, sizeof types, types, 0x1234));
  std::printf("cookies: %d\n", mlx5dv_devx_subscribe_devx_event(cookies, cq.object, sizeof types[0], types, 0x5678));
  std::printf("signal: %d\n", mlx5dv_devx_subscribe_devx_event_fd(cookies, signal, cq.object, kCompletion));
  std::printf("of no object: %d\n", mlx5dv_devx_subscribe_devx_event(whole, nullptr, sizeof types, types, 1));

  Mailbox in{};
  put(in, 0, 0x502u << 16);
  put(in, 0x54, 1u << 16);
  put(in, 0xa8, 1u << 16);
  modify("to INIT", qp, in, sizeof in);
  arm(device, cq.number);
  auto* const received = reinterpret_cast<volatile std::uint32_t*>(device.memory + 2 * kPage + 64);
  received[0] = htobe32(1);  // one receive WQE, which is flushed
  in = {};
  put(in, 0, 0x507u << 16);
  modify("to ERR", qp, in, 16);
  read_event(whole, cq.number);
  read_event(cookies, cq.number);
  std::uint64_t signals = 0;
  const bool signalled = readable(signal, 10000) && read(signal, &signals, sizeof signals) == sizeof signals;
  std::printf("signals: %d of %llu\n", signalled, static_cast<unsigned long long>(signals));
  std::printf("CQE opcode %u\n", std::to_integer<unsigned>(device.memory[63]) >> 4);

  std::printf("umem_dereg, used: %d\n", mlx5dv_devx_umem_dereg(device.umems[0]));
  std::printf("destroy QP: %d\n", mlx5dv_devx_obj_destroy(qp.object));
  std::printf("destroy CQ: %d\n", mlx5dv_devx_obj_destroy(cq.object));
  std::printf("channels: %d\n", readable(whole->fd, 0) || readable(cookies->fd, 0));
  mlx5dv_devx_destroy_event_channel(whole);
  mlx5dv_devx_destroy_event_channel(cookies);
  for (std::size_t i = 0; i < device.umems.size(); ++i) {
    std::printf("umem_dereg: %d\n", mlx5dv_devx_umem_dereg(device.umems[i]));
  }
  mlx5dv_devx_free_uar(device.uar);
  std::printf("dealloc_pd: %d\n", ibv_dealloc_pd(device.pd));
  std::printf("close_device: %d\n", ibv_close_device(device.context));
  return 0;
}
