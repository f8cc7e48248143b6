// A kernel interface over a real HCA whose port leads to itself alone, and requests written out by hand.
#pragma once

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tools/softhca/hca/hca.h"
#include "tools/softhca/hca/process_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca::kernel {

inline constexpr std::uint32_t kTestAddress = 0x7f00004d;  // 127.0.0.77

class OwnPort final : public wire::Endpoint {
 public:
  wire::Ipv4 address() const override { return {kTestAddress}; }
  int fd() const override { return -1; }
  int groups_fd() const override { return -1; }
  wire::Expected<void> join(wire::Ipv4) override { return {}; }
  void leave(wire::Ipv4) override {}
  std::span<std::byte> reserve() override { return buffer_; }
  void commit(const wire::Route& route, std::size_t bytes) override {
    if (route.destination == address()) {
      sent_.emplace_back(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
  }
  void flush() override {}
  std::size_t receive(std::span<wire::Received> out) override {
    given_.assign(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(std::min(sent_.size(), out.size())));
    sent_.erase(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(given_.size()));
    for (std::size_t i = 0; i < given_.size(); ++i) {
      out[i] = {.source = address(),
                .destination = address(),
                .source_port = 0xc000,
                .hop_limit = 64,
                .looped_back = true,
                .packet = given_[i]};
    }
    return given_.size();
  }
  std::optional<std::uint64_t> next_deadline_ns() const override { return std::nullopt; }
  const wire::EndpointCounters& counters() const override { return counters_; }

 private:
  std::array<std::byte, wire::kMaxPacketBytes> buffer_{};
  std::vector<std::vector<std::byte>> sent_, given_;
  wire::EndpointCounters counters_{};
};

// Counts the commands that still have an undoing one to come.
class HcaUnderTest final : public Firmware {
 public:
  HcaUnderTest() : hca_(hca::Profile{}, memory_, port_, [this](std::uint32_t) { raised(); }) {}
  void execute(std::span<const std::byte> in, std::span<std::byte> out) override { hca_.execute(in, out); }
  std::expected<std::byte*, int> map_uar(std::uint32_t index, int protection) override {
    return hca_.map_uar(index, protection);
  }
  std::expected<std::byte*, int> map_memic(std::uint64_t address, std::size_t bytes, int protection) override {
    return hca_.map_memic(address, bytes, protection);
  }
  std::expected<std::byte*, int> map_clock() override { return clock_.map(0, 4096, PROT_READ); }
  void ring(std::uint32_t uar, std::uint32_t offset, std::uint64_t value) override { hca_.ring(uar, offset, value); }
  void connect(EventHub* hub) { hub_ = hub; }
  hca::Hca& hca() { return hca_; }
  std::byte& clock() { return clock_.bytes()[0]; }

 private:
  void raised() {
    if (hub_ != nullptr) {
      hub_->raised();
    }
  }
  SharedMemory clock_{4096};
  hca::ProcessMemory memory_;
  OwnPort port_;
  EventHub* hub_ = nullptr;
  hca::Hca hca_;
};

inline std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// An ioctl request in the making. What outputs point to must outlive it.
class Ioctl {
 public:
  Ioctl(std::uint16_t object, std::uint16_t method) {
    header_.object_id = object;
    header_.method_id = method;
    header_.driver_id = RDMA_DRIVER_MLX5;
  }
  Ioctl& attr(std::uint16_t id, std::uint16_t bytes, std::uint64_t data,
              std::uint16_t flags = UVERBS_ATTR_F_MANDATORY) {
    ib_uverbs_attr a{};
    a.attr_id = id;
    a.len = bytes;
    a.flags = flags;
    a.data = data;
    attrs_.push_back(a);
    return *this;
  }
  Ioctl& in(std::uint16_t id, const auto& value) {
    std::uint64_t data = address_of(&value);
    if (sizeof value <= 8) {
      data = 0;
      std::memcpy(&data, &value, sizeof value);
    }
    return attr(id, sizeof value, data);
  }
  Ioctl& out(std::uint16_t id, auto& value) { return attr(id, sizeof value, address_of(&value)); }
  Ioctl& handle(std::uint16_t id, std::uint32_t value = 0) { return attr(id, 0, value); }

  ib_uverbs_ioctl_hdr& header() { return header_; }
  const ib_uverbs_attr& attr_of(std::uint16_t id) const {
    for (const auto& a : attrs_) {
      if (a.attr_id == id) {
        return a;
      }
    }
    return attrs_.front();
  }

  int run(UverbsFile& file) {
    header_.num_attrs = static_cast<std::uint16_t>(attrs_.size());
    header_.length = static_cast<std::uint16_t>(sizeof header_ + attrs_.size() * sizeof(ib_uverbs_attr));
    return run_as_it_is(file);
  }
  int run_as_it_is(UverbsFile& file) {
    std::vector<std::byte> request(sizeof header_ + attrs_.size() * sizeof(ib_uverbs_attr));
    std::memcpy(request.data(), &header_, sizeof header_);
    const auto attrs = std::as_writable_bytes(std::span(attrs_));
    std::ranges::copy(attrs, request.begin() + sizeof header_);
    const int error = file.ioctl(address_of(request.data()));
    std::ranges::copy(request.begin() + sizeof header_, request.end(), attrs.begin());
    return error;
  }

 private:
  std::vector<ib_uverbs_attr> attrs_;
  ib_uverbs_ioctl_hdr header_{};  // last: it ends in an array without a size
};

struct Nothing {};

// INVOKE_WRITE of a command; Nothing stands for a part that is left out.
template <typename In, typename Out = Nothing, typename DriverIn = Nothing, typename DriverOut = Nothing>
int invoke(UverbsFile& file, std::uint64_t command, const In& in, Out&& out = {}, const DriverIn& driver_in = {},
           DriverOut&& driver_out = {}) {
  Ioctl request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  request.in(UVERBS_ATTR_WRITE_CMD, command).in(UVERBS_ATTR_CORE_IN, in);
  if constexpr (!std::is_same_v<std::remove_cvref_t<Out>, Nothing>) {
    request.out(UVERBS_ATTR_CORE_OUT, out);
  }
  if constexpr (!std::is_same_v<DriverIn, Nothing>) {
    request.in(UVERBS_ATTR_UHW_IN, driver_in);
  }
  if constexpr (!std::is_same_v<std::remove_cvref_t<DriverOut>, Nothing>) {
    request.out(UVERBS_ATTR_UHW_OUT, driver_out);
  }
  return request.run(file);
}

inline mlx5_ib_alloc_ucontext_req_v2 context_request() {
  return {.total_num_bfregs = 16,
          .num_low_latency_bfregs = 4,
          .flags = MLX5_IB_ALLOC_UCTX_DEVX,
          .comp_mask = 0,
          .max_cqe_version = 1,
          .reserved0 = 0,
          .reserved1 = 0,
          .reserved2 = 0,
          .lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR};
}

// The device, one file, and the requests that stock libmlx5 44 sends for each object.
struct SoftKernel {
  SoftKernel() {
    auto started = RdmaDevice::start(firmware, {.name = "mlx5_0",
                                                .board_id = "UMX0000000001",
                                                .firmware = {22, 41, 1000},
                                                .node_guid = 0x020000ff7f00004d,
                                                .ipv4_address = kTestAddress});
    if (started) {
      device = std::move(*started);
      firmware.connect(&device->events());
      file = std::make_unique<UverbsFile>(*device);
    }
    memory = static_cast<std::byte*>(
        ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~SoftKernel() {
    file.reset();
    firmware.connect(nullptr);
    device.reset();
    ::munmap(memory, kMemoryBytes);
  }

  int get_context(mlx5_ib_alloc_ucontext_resp& response) {
    std::uint32_t vectors = 0;
    std::uint64_t support = 0;
    const auto request = context_request();
    return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT)
        .out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, vectors)
        .out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, support)
        .in(UVERBS_ATTR_UHW_IN, request)
        .out(UVERBS_ATTR_UHW_OUT, response)
        .run(*file);
  }
  int get_context() {
    mlx5_ib_alloc_ucontext_resp response{};
    return get_context(response);
  }
  int alloc_async_fd(int& fd) {
    Ioctl request(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
    const int error = request.handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).run(*file);
    fd = static_cast<int>(request.attr_of(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).data_s64);
    return error;
  }
  int alloc_pd(std::uint32_t& handle, std::uint32_t& pdn) {
    return invoke(*file, IB_USER_VERBS_CMD_ALLOC_PD, std::uint64_t{0}, handle, Nothing{}, pdn);
  }
  int reg_mr(std::uint32_t pd, std::uint64_t start, std::uint64_t bytes, std::uint32_t access,
             std::array<std::uint32_t, 3>& response) {
    struct {
      std::uint64_t response, start, length, hca_va;
      std::uint32_t pd, access;
    } const request{0, start, bytes, start, pd, access};
    return invoke(*file, IB_USER_VERBS_CMD_REG_MR, request, response);
  }
  int alloc_uar(std::uint32_t& handle, std::uint32_t& page, std::uint64_t& offset) {
    std::uint32_t length = 0;
    const std::uint64_t type = MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC;
    Ioctl request(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
    const int error = request.handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
                          .in(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, type)
                          .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset)
                          .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length)
                          .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page)
                          .run(*file);
    handle = static_cast<std::uint32_t>(request.attr_of(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE).data);
    return error;
  }
  mlx5_ib_create_cq cq_driver(std::uint32_t uar) const {
    mlx5_ib_create_cq driver{};
    driver.buf_addr = address_of(memory);
    driver.db_addr = address_of(memory) + kCqRecord;
    driver.cqe_size = 64;
    driver.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
    driver.uar_page_index = static_cast<std::uint16_t>(uar);
    return driver;
  }
  int create_cq(std::uint32_t cqe, const mlx5_ib_create_cq& driver, std::uint32_t& handle, std::uint32_t& got) {
    mlx5_ib_create_cq_resp response{};
    const std::uint64_t user_handle = 0xc0;
    const std::uint32_t vector = 0;
    Ioctl request(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
    const int error = request.handle(UVERBS_ATTR_CREATE_CQ_HANDLE)
                          .out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, got)
                          .in(UVERBS_ATTR_CREATE_CQ_CQE, cqe)
                          .in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, user_handle)
                          .in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, vector)
                          .in(UVERBS_ATTR_UHW_IN, driver)
                          .out(UVERBS_ATTR_UHW_OUT, response)
                          .run(*file);
    handle = static_cast<std::uint32_t>(request.attr_of(UVERBS_ATTR_CREATE_CQ_HANDLE).data);
    return error;
  }
  mlx5_ib_create_qp qp_driver(std::uint32_t uar) const {
    mlx5_ib_create_qp driver{};
    driver.buf_addr = address_of(memory) + kQpBuffer;
    driver.db_addr = address_of(memory) + kQpRecord;
    driver.sq_wqe_count = 64;
    driver.rq_wqe_count = 16;
    driver.rq_wqe_shift = 4;
    driver.flags = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_UAR_PAGE_INDEX;
    driver.bfreg_index = uar;
    return driver;
  }
  struct QpAnswer {
    std::uint32_t handle = 0, qpn = 0;
    ib_uverbs_qp_cap cap{};
    mlx5_ib_create_qp_resp driver{};
  };
  int create_qp(std::uint64_t type, std::uint32_t pd, std::uint32_t cq, const mlx5_ib_create_qp& driver,
                const ib_uverbs_qp_cap& cap, QpAnswer& answer, std::uint32_t srq = kNoSrq) {
    const std::uint64_t user_handle = 0x99;
    answer.cap = cap;
    Ioctl request(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    if (srq != kNoSrq) {
      request.handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq);
    }
    const int error = request.handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd)
                          .handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq)
                          .handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq)
                          .handle(UVERBS_ATTR_CREATE_QP_HANDLE)
                          .in(UVERBS_ATTR_CREATE_QP_TYPE, type)
                          .in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, user_handle)
                          .in(UVERBS_ATTR_CREATE_QP_CAP, cap)
                          .out(UVERBS_ATTR_CREATE_QP_RESP_CAP, answer.cap)
                          .out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, answer.qpn)
                          .in(UVERBS_ATTR_UHW_IN, driver)
                          .out(UVERBS_ATTR_UHW_OUT, answer.driver)
                          .run(*file);
    answer.handle = static_cast<std::uint32_t>(request.attr_of(UVERBS_ATTR_CREATE_QP_HANDLE).data);
    return error;
  }

  static constexpr std::uint32_t kNoSrq = ~0u;
  static constexpr std::size_t kMemoryBytes = 256 * 1024;
  static constexpr std::size_t kQpBuffer = 128 * 1024, kCqRecord = 200 * 1024, kQpRecord = kCqRecord + 64;
  HcaUnderTest firmware;
  std::unique_ptr<RdmaDevice> device;
  std::unique_ptr<UverbsFile> file;
  std::byte* memory = nullptr;
};

inline constexpr ib_uverbs_qp_cap kSmallCap = {
    .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};

}  // namespace softhca::kernel
