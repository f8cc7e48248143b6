// Calls much of libibverbs and libmlx5 with good and bad arguments and prints what they give. Linked with Debian's
// libraries; probe_test.py runs it with those and with ours, and compares.
#include "tests/driver/verbs/probe.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <netinet/ip.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);
const char* ibv_get_sysfs_path(void);
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* dst, ib_uverbs_ah_attr* src);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* dst, ib_uverbs_qp_attr* src);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* dst, ib_user_path_rec* src);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* dst, ibv_sa_path_rec* src);
}

namespace {

using namespace umlx5::probe;

void texts() {
  title("texts and rates");
  for (int i = -1; i < 30; ++i) {
    std::printf("%d: %s | %s | %s | %s | %d %d\n", i, ibv_node_type_str(static_cast<ibv_node_type>(i)),
                ibv_port_state_str(static_cast<ibv_port_state>(i)), ibv_event_type_str(static_cast<ibv_event_type>(i)),
                ibv_wc_status_str(static_cast<ibv_wc_status>(i)), ibv_rate_to_mult(static_cast<ibv_rate>(i)),
                ibv_rate_to_mbps(static_cast<ibv_rate>(i)));
  }
  for (const int multiple : {0, 1, 2, 3, 4, 8, 11, 12, 16, 20, 24, 32, 48, 160, 240, 320, 480}) {
    std::printf("multiple %d: %d\n", multiple, mult_to_ibv_rate(multiple));
  }
  for (const int mbps : {0, 2500, 5000, 10000, 14062, 25781, 28125, 53125, 103125, 425000, 1275000, 77}) {
    std::printf("%d Mb/s: %d\n", mbps, mbps_to_ibv_rate(mbps));
  }
}

void marshalling() {
  title("marshalling");
  const auto fill = [](void* data, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(i * 7 + 1);
    }
  };
  ib_uverbs_ah_attr kernel_ah;
  fill(&kernel_ah, sizeof kernel_ah);
  ibv_ah_attr ah{};
  ibv_copy_ah_attr_from_kern(&ah, &kernel_ah);
  bytes("ah", &ah, sizeof ah);
  ib_uverbs_qp_attr kernel_qp;
  fill(&kernel_qp, sizeof kernel_qp);
  ibv_qp_attr qp{};
  ibv_copy_qp_attr_from_kern(&qp, &kernel_qp);
  bytes("qp", &qp, sizeof qp);
  ib_user_path_rec kernel_path;
  fill(&kernel_path, sizeof kernel_path);
  ibv_sa_path_rec path{};
  ibv_copy_path_rec_from_kern(&path, &kernel_path);
  bytes("path", &path, sizeof path);
  ib_user_path_rec back{};
  ibv_copy_path_rec_to_kern(&back, &path);
  bytes("path back", &back, sizeof back);
}

// What is written of a structure when the caller knows only so much of it.
template <typename T, typename Query>
void partial(const char* name, std::size_t known, Query query) {
  std::array<unsigned char, sizeof(T) + 64> memory;
  memory.fill(0xa5);
  errno = 0;
  const int result = query(reinterpret_cast<T*>(memory.data()), known);
  std::size_t written = memory.size();
  while (written > 0 && memory[written - 1] == 0xa5) {
    --written;
  }
  std::printf("%s of %zu bytes: %d, %s\n", name, known, result, written <= known ? "kept its bounds" : "WROTE BEYOND");
  if (result == 0) {
    bytes("  ", memory.data(), std::min(known, sizeof(T)));
  }
}

void queries(ibv_context* context) {
  title("queries");
  verbs_context* verbs = verbs_get_ctx(context);
  for (const std::size_t known : {std::size_t{0}, std::size_t{100}, offsetof(ibv_device_attr_ex, comp_mask),
                                  offsetof(ibv_device_attr_ex, comp_mask) + 4, offsetof(ibv_device_attr_ex, odp_caps),
                                  offsetof(ibv_device_attr_ex, tso_caps), sizeof(ibv_device_attr_ex)}) {
    partial<ibv_device_attr_ex>("query_device_ex", known, [&](auto* attributes, std::size_t size) {
      return verbs->query_device_ex(context, nullptr, attributes, size);
    });
  }
  ibv_query_device_ex_input input{.comp_mask = 1};
  ibv_device_attr_ex extended{};
  line("query_device_ex, input mask", [&] { return ibv_query_device_ex(context, &input, &extended); });
  ibv_device_attr device{};
  line("query_device", [&] { return ibv_query_device(context, &device); });
  bytes("device", &device, sizeof device);
  for (const std::size_t known : {offsetof(ibv_port_attr, flags), sizeof(ibv_port_attr)}) {
    partial<ibv_port_attr>("query_port", known, [&](auto* attributes, std::size_t size) {
      return verbs->query_port(context, 1, attributes, size);
    });
  }
  ibv_port_attr port{};
  line("query_port 0", [&] { return ibv_query_port(context, 0, &port); });
  line("query_port 2", [&] { return ibv_query_port(context, 2, &port); });
  for (const int index : {0, 1, 255, 256, -1}) {
    ibv_gid gid{};
    line("query_gid " + std::to_string(index), [&] { return ibv_query_gid(context, 1, index, &gid); });
    bytes("gid", gid.raw, 16);
    ibv_gid_entry entry{};
    line("query_gid_ex", [&] { return ibv_query_gid_ex(context, 1, static_cast<uint32_t>(index), &entry, 0); });
    bytes("entry", &entry, sizeof entry);
  }
  ibv_gid_entry entry{};
  line("query_gid_ex, flags", [&] { return ibv_query_gid_ex(context, 1, 0, &entry, 1); });
  line("query_gid_ex, port 2", [&] { return ibv_query_gid_ex(context, 2, 0, &entry, 0); });
  std::array<ibv_gid_entry, 8> table{};
  line("query_gid_table", [&] { return ibv_query_gid_table(context, table.data(), table.size(), 0); });
  bytes("table", table.data(), sizeof table);
  line("query_gid_table, flags", [&] { return ibv_query_gid_table(context, table.data(), table.size(), 1); });
  __be16 pkey = 0;
  line("query_pkey", [&] { return ibv_query_pkey(context, 1, 0, &pkey); });
  std::printf("pkey %x\n", be16toh(pkey));
  line("query_pkey 1", [&] { return ibv_query_pkey(context, 1, 1, &pkey); });
  line("query_pkey -1", [&] { return ibv_query_pkey(context, 1, -1, &pkey); });
  line("get_pkey_index", [&] { return ibv_get_pkey_index(context, 1, htobe16(0xffff)); });
  line("get_pkey_index of none", [&] { return ibv_get_pkey_index(context, 1, htobe16(0x1234)); });
}

void helpers(ibv_device* device) {
  title("helpers");
  std::printf("sysfs %s, guid %016llx, index %d\n", ibv_get_sysfs_path(),
              static_cast<unsigned long long>(be64toh(ibv_get_device_guid(device))), ibv_get_device_index(device));
  std::printf("%s %s %s %s %d %d\n", device->name, device->dev_name, device->dev_path, device->ibdev_path,
              device->node_type, device->transport_type);
  for (const std::size_t size : {std::size_t{4}, std::size_t{10}, std::size_t{11}, std::size_t{64}}) {
    std::array<char, 65> text{};
    const int result = ibv_read_sysfs_file(device->ibdev_path, "fw_ver", text.data(), size);
    std::printf("read_sysfs_file of %zu: %d %s\n", size, result, result < 0 ? "" : text.data());
  }
  std::array<char, 64> text{};
  line("read_sysfs_file, absent", [&] { return ibv_read_sysfs_file(device->ibdev_path, "none", text.data(), 64); });
}

void domains(ibv_context* context) {
  title("domains");
  ibv_pd* pd = made("alloc_pd", [&] { return ibv_alloc_pd(context); });
  ibv_td_init_attr td_attributes{.comp_mask = 1};
  made("alloc_td, mask", [&] { return ibv_alloc_td(context, &td_attributes); });
  td_attributes.comp_mask = 0;
  ibv_td* td = made("alloc_td", [&] { return ibv_alloc_td(context, &td_attributes); });
  ibv_parent_domain_init_attr attributes{};
  made("alloc_parent_domain, no PD", [&] { return ibv_alloc_parent_domain(context, &attributes); });
  attributes.pd = pd;
  attributes.td = td;
  attributes.comp_mask = 1U << 31;
  made("alloc_parent_domain, mask", [&] { return ibv_alloc_parent_domain(context, &attributes); });
  attributes.comp_mask = 0;
  ibv_pd* parent = made("alloc_parent_domain", [&] { return ibv_alloc_parent_domain(context, &attributes); });
  std::printf("handle as the PD's: %d\n", parent->handle == pd->handle);
  line("dealloc_td, used", [&] { return ibv_dealloc_td(td); });
  line("dealloc_pd, used", [&] { return ibv_dealloc_pd(pd); });
  line("dealloc_pd of the parent", [&] { return ibv_dealloc_pd(parent); });
  line("dealloc_td", [&] { return ibv_dealloc_td(td); });
  line("dealloc_pd", [&] { return ibv_dealloc_pd(pd); });
}

void regions(ibv_context* context) {
  title("memory regions");
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_pd* other = ibv_alloc_pd(context);
  auto* memory = static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ibv_mr* mr = made("reg_mr", [&] { return ibv_reg_mr(pd, memory + 100, 5000, IBV_ACCESS_LOCAL_WRITE); });
  std::printf("address %d length %zu same keys %d\n", mr->addr == memory + 100, mr->length, mr->lkey == mr->rkey);
  made("reg_mr, remote write alone", [&] { return ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_WRITE); });
  made("reg_mr, unknown access", [&] { return ibv_reg_mr(pd, memory, 4096, 1 << 15); });
  made("reg_mr, nothing there", [&] { return ibv_reg_mr(pd, reinterpret_cast<void*>(4096), 4096, 1); });
  made("reg_mr, no length", [&] { return ibv_reg_mr(pd, memory, 0, 1); });
  ibv_mr* placed = made("reg_mr_iova", [&] { return ibv_reg_mr_iova(pd, memory, 4096, 0x10000, 1); });
  line("dereg_mr", [&] { return ibv_dereg_mr(placed); });
  made("reg_mr_iova, not aligned alike", [&] { return ibv_reg_mr_iova(pd, memory, 4096, 0x10001, 1); });
  volatile unsigned optional = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  ibv_mr* relaxed = made("reg_mr, relaxed", [&] { return ibv_reg_mr(pd, memory, 4096, optional); });
  line("dereg_mr", [&] { return ibv_dereg_mr(relaxed); });
  made("reg_dmabuf_mr, bad fd", [&] { return ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 1); });
  line("rereg_mr, unknown flag", [&] { return ibv_rereg_mr(mr, 64, nullptr, nullptr, 0, 0); });
  line("rereg_mr, access without flag", [&] { return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 1); });
  line("rereg_mr, no length", [&] { return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory, 0, 0); });
  line("rereg_mr, PD", [&] { return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0); });
  std::printf("pd changed: %d\n", mr->pd == other);
  line("rereg_mr, translation",
       [&] { return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory, 8192, 0); });
  std::printf("address %d length %zu\n", mr->addr == memory, mr->length);
  line("dealloc_pd, used", [&] { return ibv_dealloc_pd(other); });
  line("dereg_mr", [&] { return ibv_dereg_mr(mr); });
  if (ibv_mr* null = made("alloc_null_mr", [&] { return ibv_alloc_null_mr(pd); })) {
    std::printf("length %zx address %p\n", null->length, null->addr);
    line("dereg_mr of the null MR", [&] { return ibv_dereg_mr(null); });
  }
  line("dealloc_pd", [&] { return ibv_dealloc_pd(other); });
  line("dealloc_pd", [&] { return ibv_dealloc_pd(pd); });
  munmap(memory, 65536);
}

void small_objects(ibv_context* context) {
  title("windows, XRC domains, channels");
  ibv_pd* pd = ibv_alloc_pd(context);
  for (const int type : {1, 2, 3}) {
    if (ibv_mw* mw = made("alloc_mw " + std::to_string(type),
                          [&] { return ibv_alloc_mw(pd, static_cast<ibv_mw_type>(type)); })) {
      std::printf("type %d pd %d\n", mw->type, mw->pd == pd);
      line("dealloc_mw", [&] { return ibv_dealloc_mw(mw); });
    }
  }
  ibv_xrcd_init_attr attributes{.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1, .oflags = O_CREAT};
  std::printf("open_xrcd, mask: refused %d\n", ibv_open_xrcd(context, &attributes) == nullptr);  // stock sets no errno
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (ibv_xrcd* xrcd = made("open_xrcd", [&] { return ibv_open_xrcd(context, &attributes); })) {
    line("close_xrcd", [&] { return ibv_close_xrcd(xrcd); });
  }
  attributes.oflags = 0;
  if (ibv_xrcd* xrcd = made("open_xrcd, without O_CREAT", [&] { return ibv_open_xrcd(context, &attributes); })) {
    line("close_xrcd", [&] { return ibv_close_xrcd(xrcd); });
  }
  ibv_comp_channel* channel = made("create_comp_channel", [&] { return ibv_create_comp_channel(context); });
  std::printf("blocks: %d, refcnt %d, own context %d\n", (fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0,
              channel->refcnt, channel->context == context);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  line("get_cq_event of none", [&] { return ibv_get_cq_event(channel, &cq, &cq_context); });
  line("destroy_comp_channel", [&] { return ibv_destroy_comp_channel(channel); });
  std::printf("async events block: %d\n", (fcntl(context->async_fd, F_GETFL) & O_NONBLOCK) == 0);
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  ibv_async_event event{};
  line("get_async_event of none", [&] { return ibv_get_async_event(context, &event); });
  line("dealloc_pd", [&] { return ibv_dealloc_pd(pd); });
}

void show_address(const ibv_ah_attr& a) {
  bytes("dgid", a.grh.dgid.raw, 16);
  std::printf("flow %x sgid %d hops %d class %d dlid %d sl %d bits %d rate %d global %d port %d\n", a.grh.flow_label,
              a.grh.sgid_index, a.grh.hop_limit, a.grh.traffic_class, a.dlid, a.sl, a.src_path_bits, a.static_rate,
              a.is_global, a.port_num);
}

std::uint16_t ipv4_checksum(const iphdr& header) {
  std::array<std::uint16_t, 10> words;
  std::memcpy(words.data(), &header, sizeof header);
  std::uint32_t sum = 0;
  for (const std::uint16_t word : words) {
    sum += word;
  }
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

void addresses(ibv_context* context) {
  title("address handles");
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_gid own{};
  ibv_query_gid(context, 1, 0, &own);
  ibv_ah_attr attributes{};
  attributes.port_num = 1;
  made("create_ah without GRH", [&] { return ibv_create_ah(pd, &attributes); });
  attributes.is_global = 1;
  attributes.grh.dgid = own;
  attributes.grh.hop_limit = 64;
  ibv_ah* ah = made("create_ah", [&] { return ibv_create_ah(pd, &attributes); });
  line("destroy_ah", [&] { return ibv_destroy_ah(ah); });
  attributes.grh.sgid_index = 200;
  made("create_ah, empty source GID", [&] { return ibv_create_ah(pd, &attributes); });

  std::array<unsigned char, 40> front{};
  auto* grh = reinterpret_cast<ibv_grh*>(front.data());
  ibv_wc wc{};
  wc.slid = 3;
  wc.sl = 2;
  wc.dlid_path_bits = 1;
  line("init_ah_from_wc without GRH", [&] { return ibv_init_ah_from_wc(context, 1, &wc, grh, &attributes); });
  show_address(attributes);
  wc.wc_flags = IBV_WC_GRH;
  iphdr ip{};
  ip.version = 4;
  ip.ihl = 5;
  ip.tos = 0x28;
  ip.ttl = 33;
  ip.protocol = IPPROTO_UDP;
  ip.saddr = inet_addr("127.1.2.3");
  std::memcpy(&ip.daddr, own.raw + 12, 4);
  ip.check = ipv4_checksum(ip);
  std::memcpy(front.data() + 20, &ip, sizeof ip);
  line("init_ah_from_wc, IPv4", [&] { return ibv_init_ah_from_wc(context, 1, &wc, grh, &attributes); });
  show_address(attributes);
  ah = made("create_ah_from_wc", [&] { return ibv_create_ah_from_wc(pd, &wc, grh, 1); });
  if (ah != nullptr) {
    line("destroy_ah", [&] { return ibv_destroy_ah(ah); });
  }
  front.fill(0);
  grh->version_tclass_flow = htobe32(6U << 28 | 0x12U << 20 | 0x34567);
  grh->next_hdr = IPPROTO_UDP;
  grh->hop_limit = 9;
  grh->sgid = own;
  grh->dgid = own;
  line("init_ah_from_wc, IPv6 form", [&] { return ibv_init_ah_from_wc(context, 1, &wc, grh, &attributes); });
  show_address(attributes);
  grh->next_hdr = 0x1b;
  line("init_ah_from_wc, RoCE v1 form", [&] { return ibv_init_ah_from_wc(context, 1, &wc, grh, &attributes); });
  grh->next_hdr = 6;
  line("init_ah_from_wc, another header", [&] { return ibv_init_ah_from_wc(context, 1, &wc, grh, &attributes); });
  line("dealloc_pd", [&] { return ibv_dealloc_pd(pd); });
}

void mlx5_device(ibv_device* device, ibv_context* context) {
  title("mlx5dv");
  std::printf("supported: %d\n", mlx5dv_is_supported(device));
  // What the device itself tells of signatures, encryption and link aggregation is not compared here.
  // Bits 14 to 16 are for structures of newer headers, which are larger.
  for (int bit = 0; bit <= 20; bit = bit == 13 ? 17 : bit + 1) {
    mlx5dv_context attributes{};
    attributes.comp_mask = std::uint64_t{1} << bit;
    line("query_device " + std::to_string(bit), [&] { return mlx5dv_query_device(context, &attributes); });
    attributes.hca_core_clock = attributes.hca_core_clock == nullptr ? nullptr : context;
    const bool has_clock = attributes.hca_core_clock != nullptr;
    attributes.hca_core_clock = nullptr;
    std::printf("clock %d\n", has_clock);
    bytes("  ", &attributes, sizeof attributes);
  }
  mlx5dv_context_attr open{};
  open.flags = 1U << 7;
  made("open_device, flags", [&] { return mlx5dv_open_device(device, &open); });
  open.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  open.comp_mask = 1;
  made("open_device, mask", [&] { return mlx5dv_open_device(device, &open); });
  open.comp_mask = 0;
  if (ibv_context* second = made("open_device with DEVX", [&] { return mlx5dv_open_device(device, &open); })) {
    line("close_device", [&] { return ibv_close_device(second); });
  }
  mlx5dv_clock_info clock{};
  if (line("get_clock_info", [&] { return mlx5dv_get_clock_info(context, &clock); }) == 0) {
    std::printf("mult %u shift %u mask %llx\n", clock.mult, clock.shift, static_cast<unsigned long long>(clock.mask));
  }
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  line("query_rt_values", [&] { return ibv_query_rt_values_ex(context, &values); });
  std::printf("values %x, clock runs %d\n", values.comp_mask, values.raw_clock.tv_nsec != 0);
  values.comp_mask = 0;
  line("query_rt_values of nothing", [&] { return ibv_query_rt_values_ex(context, &values); });
  std::printf("values %x\n", values.comp_mask);
}

void devx(ibv_context* context) {
  title("DEVX");
  std::array<std::uint32_t, 4> in{};
  std::vector<std::uint8_t> out(16 + 4096);
  in[0] = htobe32(0x100u << 16);  // QUERY_HCA_CAP
  in[1] = htobe32(1);             // general, current
  line("general_cmd", [&] { return mlx5dv_devx_general_cmd(context, in.data(), sizeof in, out.data(), out.size()); });
  bytes("status", out.data(), 8);
  in[1] = htobe32(0x7fff);
  line("general_cmd, bad op_mod",
       [&] { return mlx5dv_devx_general_cmd(context, in.data(), sizeof in, out.data(), out.size()); });
  bytes("status", out.data(), 8);
  in[0] = htobe32(0x7ffu << 16);
  line("general_cmd, no such command",
       [&] { return mlx5dv_devx_general_cmd(context, in.data(), sizeof in, out.data(), out.size()); });
  std::uint32_t eqn = 0;
  line("query_eqn", [&] { return mlx5dv_devx_query_eqn(context, 0, &eqn); });
  line("query_eqn of no vector", [&] { return mlx5dv_devx_query_eqn(context, 100000, &eqn); });
  for (const std::uint32_t type : {0u, 1u}) {
    if (mlx5dv_devx_uar* uar = made("alloc_uar", [&] { return mlx5dv_devx_alloc_uar(context, type); })) {
      mlx5dv_devx_free_uar(uar);
    }
  }
  made("alloc_uar, flags", [&] { return mlx5dv_devx_alloc_uar(context, 7); });
}

}  // namespace

int main() {
  texts();
  marshalling();
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_device** again = ibv_get_device_list(nullptr);
  std::printf("%d devices, the same objects: %d\n", count, list[0] == again[0]);
  ibv_free_device_list(again);
  ibv_context* context = ibv_open_device(list[0]);
  if (context == nullptr) {
    std::perror("ibv_open_device");
    return 1;
  }
  std::printf("vectors %d, extended %d, device kept %d\n", context->num_comp_vectors, verbs_get_ctx(context) != nullptr,
              context->device == list[0]);
  ibv_free_device_list(list);
  helpers(context->device);
  queries(context);
  domains(context);
  regions(context);
  small_objects(context);
  addresses(context);
  mlx5_device(context->device, context);
  devx(context);
  return line("close_device", [&] { return ibv_close_device(context); });
}
