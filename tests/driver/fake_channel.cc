#include "tests/driver/fake_channel.h"

#include <fcntl.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace umlx5::testing {
namespace {

ib_uverbs_attr* find(ib_uverbs_ioctl_hdr& request, unsigned id) {
  for (unsigned i = 0; i < request.num_attrs; ++i) {
    if (request.attrs[i].attr_id == id) {
      return &request.attrs[i];
    }
  }
  return nullptr;
}

// An input of at most 8 bytes lies in the attribute, a longer one behind its pointer.
const void* input(const ib_uverbs_attr& attr) {
  return attr.len <= 8 ? static_cast<const void*>(&attr.data) : reinterpret_cast<const void*>(attr.data);
}

template <typename T>
T get(ib_uverbs_ioctl_hdr& request, unsigned id) {
  T value{};
  if (const ib_uverbs_attr* attr = find(request, id)) {
    std::memcpy(&value, input(*attr), std::min<std::size_t>(sizeof value, attr->len == 0 ? 8 : attr->len));
  }
  return value;
}

template <typename T>
void put(ib_uverbs_ioctl_hdr& request, unsigned id, const T& value) {
  if (ib_uverbs_attr* attr = find(request, id)) {
    std::memcpy(reinterpret_cast<void*>(attr->data), &value, std::min<std::size_t>(sizeof value, attr->len));
  }
}

}  // namespace

mlx5_ib_alloc_ucontext_resp FakeKernel::default_ucontext() {
  mlx5_ib_alloc_ucontext_resp response{};
  response.bf_reg_size = 512;
  response.tot_bfregs = 0;  // dynamic UARs
  response.cache_line_size = 64;
  response.max_sq_desc_sz = 1024;
  response.max_rq_desc_sz = 512;
  response.max_send_wqebb = 32768;
  response.max_recv_wr = 32768;
  response.max_srq_recv_wr = 32767;
  response.num_ports = 1;
  response.cqe_version = 1;
  response.log_uar_size = 12;
  response.num_uars_per_page = 1;
  response.response_length = sizeof response;
  return response;
}

uapi::DeviceInfo fake_device() {
  return {.name = "fake0", .path = "fake", .vendor_id = 0x15b3, .device_id = 0x101d, .abi_version = 1};
}

FakeChannel::~FakeChannel() {
  kernel_.channel_closed = true;
  for (const int fd : kernel_.completion_fds) {
    ::close(fd);
  }
  if (kernel_.async_write_fd >= 0) {
    ::close(kernel_.async_write_fd);
  }
}

bool FakeChannel::fails() { return ++kernel_.requests == kernel_.fail_at; }

std::uint32_t FakeChannel::create(const std::string& kind) {
  kernel_.live[kernel_.next_handle] = kind;
  return kernel_.next_handle++;
}

int FakeChannel::destroy(std::uint32_t handle) {
  if (kernel_.undestroyable.contains(handle)) {
    return EBUSY;
  }
  const auto object = kernel_.live.find(handle);
  if (object == kernel_.live.end()) {
    return EINVAL;
  }
  kernel_.destroyed.push_back(object->second);
  kernel_.live.erase(object);
  return 0;
}

int FakeChannel::open_pipe(int& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return -1;
  }
  write_end = ends[1];
  return ends[0];
}

int FakeChannel::ioctl(ib_uverbs_ioctl_hdr& request) {
  const std::lock_guard lock(mutex_);
  const auto handle_of = [&](unsigned id) { return static_cast<std::uint32_t>(find(request, id)->data); };
  switch (request.object_id << 16 | request.method_id) {
    case UVERBS_OBJECT_PD << 16 | UVERBS_METHOD_PD_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_PD_HANDLE));
    case UVERBS_OBJECT_MR << 16 | UVERBS_METHOD_MR_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_MR_HANDLE));
    case UVERBS_OBJECT_CQ << 16 | UVERBS_METHOD_CQ_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_CQ_HANDLE));
    case UVERBS_OBJECT_QP << 16 | UVERBS_METHOD_QP_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_QP_HANDLE));
    case UVERBS_OBJECT_SRQ << 16 | UVERBS_METHOD_SRQ_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_SRQ_HANDLE));
    case UVERBS_OBJECT_AH << 16 | UVERBS_METHOD_AH_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_AH_HANDLE));
    case UVERBS_OBJECT_MW << 16 | UVERBS_METHOD_MW_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_MW_HANDLE));
    case UVERBS_OBJECT_XRCD << 16 | UVERBS_METHOD_XRCD_DESTROY:
      return destroy(handle_of(UVERBS_ATTR_DESTROY_XRCD_HANDLE));
    case MLX5_IB_OBJECT_UAR << 16 | MLX5_IB_METHOD_UAR_OBJ_DESTROY:
      return destroy(handle_of(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE));
    default:
      break;
  }
  if (fails()) {
    return kernel_.fail_errno;
  }
  switch (request.object_id << 16 | request.method_id) {
    case UVERBS_OBJECT_DEVICE << 16 | UVERBS_METHOD_INVOKE_WRITE:
      return invoke_write(request);
    case UVERBS_OBJECT_DEVICE << 16 | UVERBS_METHOD_GET_CONTEXT:
      return get_context(request);
    case UVERBS_OBJECT_ASYNC_EVENT << 16 | UVERBS_METHOD_ASYNC_EVENT_ALLOC:
      find(request, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)->data_s64 = open_pipe(kernel_.async_write_fd);
      return 0;
    case UVERBS_OBJECT_CQ << 16 | UVERBS_METHOD_CQ_CREATE:
      return create_cq(request);
    case UVERBS_OBJECT_QP << 16 | UVERBS_METHOD_QP_CREATE:
      return create_qp(request);
    case UVERBS_OBJECT_SRQ << 16 | UVERBS_METHOD_SRQ_CREATE:
      return create_srq(request);
    case UVERBS_OBJECT_DEVICE << 16 | UVERBS_METHOD_QUERY_PORT: {
      ib_uverbs_query_port_resp response{};
      response.link_layer = kernel_.link_layer;
      put(request, UVERBS_ATTR_QUERY_PORT_RESP, response);
      return 0;
    }
    case UVERBS_OBJECT_DEVICE << 16 | UVERBS_METHOD_QUERY_GID_ENTRY: {
      ib_uverbs_gid_entry entry{};
      entry.gid_type = 2;  // RoCE v2
      put(request, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry);
      return 0;
    }
    case MLX5_IB_OBJECT_DEVX << 16 | MLX5_IB_METHOD_DEVX_OTHER:
    case MLX5_IB_OBJECT_DEVX_OBJ << 16 | MLX5_IB_METHOD_DEVX_OBJ_MODIFY:
      return devx(request);
    case MLX5_IB_OBJECT_UAR << 16 | MLX5_IB_METHOD_UAR_OBJ_ALLOC:
      return alloc_uar(request);
    default:
      return EPROTONOSUPPORT;
  }
}

int FakeChannel::get_context(ib_uverbs_ioctl_hdr& request) {
  put(request, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, std::uint32_t{4});
  put(request, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, std::uint64_t{0});
  put(request, UVERBS_ATTR_UHW_OUT, kernel_.ucontext);
  return 0;
}

int FakeChannel::invoke_write(ib_uverbs_ioctl_hdr& request) {
  const auto command = get<std::uint64_t>(request, UVERBS_ATTR_WRITE_CMD);
  switch (static_cast<std::uint32_t>(command)) {
    case IB_USER_VERBS_CMD_QUERY_DEVICE:
      return ENOSPC;  // the question whether this method is there
    case IB_USER_VERBS_EX_CMD_QUERY_DEVICE | 0x80000000u: {
      ib_uverbs_ex_query_device_resp response{};
      response.base.fw_ver = std::uint64_t{22} << 32 | 41 << 16 | 1000;
      response.base.max_cqe = kernel_.max_cqe;
      response.base.atomic_cap = kernel_.atomic_cap;
      response.base.phys_port_cnt = 1;
      response.response_length = sizeof response;
      put(request, UVERBS_ATTR_CORE_OUT, response);
      put(request, UVERBS_ATTR_UHW_OUT, kernel_.device);
      return 0;
    }
    case IB_USER_VERBS_CMD_OPEN_XRCD:
      put(request, UVERBS_ATTR_CORE_OUT, create("XRCD"));
      return 0;
    case IB_USER_VERBS_CMD_ALLOC_MW: {
      const std::uint32_t handle = create("MW");
      put(request, UVERBS_ATTR_CORE_OUT, ib_uverbs_alloc_mw_resp{.mw_handle = handle, .rkey = handle << 8});
      return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_AH:
      put(request, UVERBS_ATTR_CORE_OUT, create("AH"));
      put(request, UVERBS_ATTR_UHW_OUT,
          mlx5_ib_create_ah_resp{.response_length = 16, .dmac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55}, .reserved = {}});
      return 0;
    case IB_USER_VERBS_CMD_OPEN_QP: {
      ib_uverbs_create_qp_resp response{};
      response.qp_handle = create("QP");
      response.qpn = kernel_.next_qpn++;
      put(request, UVERBS_ATTR_CORE_OUT, response);
      return 0;
    }
    case IB_USER_VERBS_CMD_REREG_MR: {
      const auto core = get<ib_uverbs_rereg_mr>(request, UVERBS_ATTR_CORE_IN);
      kernel_.rereg_mr = {core.flags, core.access_flags};
      put(request, UVERBS_ATTR_CORE_OUT, ib_uverbs_rereg_mr_resp{.lkey = 0x7700, .rkey = 0x7701});
      return 0;
    }
    case IB_USER_VERBS_EX_CMD_MODIFY_QP | 0x80000000u:
      kernel_.modifications.push_back(get<ib_uverbs_modify_qp>(request, UVERBS_ATTR_CORE_IN));
      kernel_.driver_modifications.push_back(get<mlx5_ib_modify_qp>(request, UVERBS_ATTR_UHW_IN));
      put(request, UVERBS_ATTR_UHW_OUT, kernel_.modify_response);
      return 0;
    case IB_USER_VERBS_CMD_ALLOC_PD:
      put(request, UVERBS_ATTR_CORE_OUT, create("PD"));
      put(request, UVERBS_ATTR_UHW_OUT, std::uint32_t{0x77});
      return 0;
    case IB_USER_VERBS_CMD_REG_MR: {
      const auto core = get<ib_uverbs_reg_mr>(request, UVERBS_ATTR_CORE_IN);
      kernel_.reg_mr = {core.start, core.length, core.hca_va, core.access_flags};
      const std::uint32_t handle = create("MR");
      put(request, UVERBS_ATTR_CORE_OUT,
          ib_uverbs_reg_mr_resp{.mr_handle = handle, .lkey = handle << 8, .rkey = handle << 8});
      return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
      kernel_.completion_fds.emplace_back();
      put(request, UVERBS_ATTR_CORE_OUT, open_pipe(kernel_.completion_fds.back()));
      return 0;
    case IB_USER_VERBS_CMD_RESIZE_CQ:
      if (kernel_.on_resize) {
        kernel_.on_resize(get<mlx5_ib_resize_cq>(request, UVERBS_ATTR_UHW_IN).buf_addr);
      }
      return 0;
    case IB_USER_VERBS_CMD_MODIFY_QP:
      kernel_.modifications.push_back(get<ib_uverbs_modify_qp>(request, UVERBS_ATTR_CORE_IN));
      return 0;
    case IB_USER_VERBS_CMD_QUERY_QP: {
      ib_uverbs_query_qp_resp response{};
      response.qp_state = static_cast<std::uint8_t>(kernel_.reported_qp_state);
      put(request, UVERBS_ATTR_CORE_OUT, response);
      return 0;
    }
    default:
      return EOPNOTSUPP;
  }
}

int FakeChannel::create_cq(ib_uverbs_ioctl_hdr& request) {
  kernel_.create_cq = get<mlx5_ib_create_cq>(request, UVERBS_ATTR_UHW_IN);
  kernel_.cq_user_handle = get<std::uint64_t>(request, UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
  find(request, UVERBS_ATTR_CREATE_CQ_HANDLE)->data = create("CQ");
  put(request, UVERBS_ATTR_CREATE_CQ_RESP_CQE, get<std::uint32_t>(request, UVERBS_ATTR_CREATE_CQ_CQE));
  put(request, UVERBS_ATTR_UHW_OUT, mlx5_ib_create_cq_resp{.cqn = kernel_.next_cqn++, .reserved = 0});
  return 0;
}

int FakeChannel::create_qp(ib_uverbs_ioctl_hdr& request) {
  kernel_.create_qp = get<mlx5_ib_create_qp>(request, UVERBS_ATTR_UHW_IN);
  kernel_.create_rss = get<mlx5_ib_create_qp_rss>(request, UVERBS_ATTR_UHW_IN);
  kernel_.qp_type = get<std::uint32_t>(request, UVERBS_ATTR_CREATE_QP_TYPE);
  kernel_.qp_attributes.clear();
  for (unsigned i = 0; i < request.num_attrs; ++i) {
    kernel_.qp_attributes.insert(request.attrs[i].attr_id);
  }
  kernel_.qp_capabilities = get<ib_uverbs_qp_cap>(request, UVERBS_ATTR_CREATE_QP_CAP);
  kernel_.qp_user_handle = get<std::uint64_t>(request, UVERBS_ATTR_CREATE_QP_USER_HANDLE);
  kernel_.qp_flags = get<std::uint32_t>(request, UVERBS_ATTR_CREATE_QP_FLAGS);
  find(request, UVERBS_ATTR_CREATE_QP_HANDLE)->data = create("QP");
  put(request, UVERBS_ATTR_CREATE_QP_RESP_CAP, kernel_.qp_capabilities);
  put(request, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, kernel_.next_qpn++);
  return 0;
}

int FakeChannel::create_srq(ib_uverbs_ioctl_hdr& request) {
  kernel_.create_srq = get<mlx5_ib_create_srq>(request, UVERBS_ATTR_UHW_IN);
  kernel_.srq_max_wr = get<std::uint32_t>(request, UVERBS_ATTR_CREATE_SRQ_MAX_WR);
  find(request, UVERBS_ATTR_CREATE_SRQ_HANDLE)->data = create("SRQ");
  put(request, UVERBS_ATTR_UHW_OUT, mlx5_ib_create_srq_resp{.srqn = 0x99, .reserved = 0});
  return 0;
}

// QUERY_HCA_CAP, and changes of queue pairs.
int FakeChannel::devx(ib_uverbs_ioctl_hdr& request) {
  const bool general = request.object_id == MLX5_IB_OBJECT_DEVX;
  constexpr unsigned kGeneralIn = MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, kGeneralOut = MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT;
  constexpr unsigned kModifyIn = MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, kModifyOut = MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT;
  const unsigned in_id = general ? kGeneralIn : kModifyIn, out_id = general ? kGeneralOut : kModifyOut;
  auto* const out = reinterpret_cast<std::byte*>(find(request, out_id)->data);
  if (general) {
    if (kernel_.capabilities.empty()) {
      return EPERM;
    }
    std::memcpy(out + 16, kernel_.capabilities.data(), kernel_.capabilities.size());
    return 0;
  }
  const ib_uverbs_attr& in = *find(request, in_id);
  const auto* const bytes = static_cast<const std::byte*>(input(in));
  kernel_.devx_modifications.emplace_back(bytes, bytes + in.len);
  out[0] = std::byte{kernel_.devx_status};
  return kernel_.devx_status == 0 ? 0 : EREMOTEIO;
}

int FakeChannel::alloc_uar(ib_uverbs_ioctl_hdr& request) {
  const auto index = static_cast<std::uint32_t>(kernel_.uars.size());
  if (index >= kernel_.uar_pages) {
    return ENOMEM;
  }
  kernel_.uars.push_back(nullptr);
  kernel_.uar_types.push_back(get<std::uint64_t>(request, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE));
  find(request, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)->data = create("UAR");
  put(request, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, std::uint64_t{index} * 4096);
  put(request, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, std::uint32_t{4096});
  put(request, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, FakeKernel::kFirstPageId + index);
  return 0;
}

int FakeChannel::write(std::span<const std::byte>) { return EOPNOTSUPP; }

std::expected<std::byte*, int> FakeChannel::mmap(std::size_t length_bytes, int, std::uint64_t offset_bytes) {
  const std::lock_guard lock(mutex_);
  if (fails()) {
    return std::unexpected(kernel_.fail_errno);
  }
  if (offset_bytes / 4096 >= kernel_.uars.size()) {
    return std::unexpected(EINVAL);
  }
  void* const address = ::mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return std::unexpected(errno);
  }
  kernel_.mappings[static_cast<std::byte*>(address)] = length_bytes;
  kernel_.uars[offset_bytes / 4096] = static_cast<std::byte*>(address);
  return static_cast<std::byte*>(address);
}

int FakeChannel::munmap(std::byte* address, std::size_t length_bytes) {
  const std::lock_guard lock(mutex_);
  kernel_.mappings.erase(address);
  return ::munmap(address, length_bytes) == 0 ? 0 : errno;
}

std::expected<std::string, int> FakeChannel::attribute(std::string_view) const { return std::unexpected(ENOENT); }

}  // namespace umlx5::testing
