// Stands in for the uverbs device: answers every request that the driver makes with success and plain memory, counts
// what lives, and fails one request when told to. No device is behind it: tests write CQEs by hand.
#pragma once

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "uapi/channel.h"

namespace umlx5::testing {

// Outlives the channel, so that a test can look at what the channel left.
struct FakeKernel {
  // How the device answers; tests change it before they open a context.
  mlx5_ib_alloc_ucontext_resp ucontext = default_ucontext();
  std::uint32_t max_cqe = (1u << 22) - 1;
  std::uint32_t atomic_cap = 1;
  std::uint32_t uar_pages = 1000;
  mlx5_ib_query_device_resp device{};  // the driver's part of QUERY_DEVICE
  // QUERY_HCA_CAP's general group through DEVX, as the device lays it out; empty: DEVX is refused.
  std::vector<std::byte> capabilities;
  std::uint8_t link_layer = 2;  // Ethernet

  // The request number (1 is the first) that fails, and with what; 0: none. Requests and mmap() count, munmap() and
  // destroying do not unless `fail_destroys`.
  int fail_at = 0;
  int fail_errno = 0;
  int requests = 0;
  // Handles of objects whose destruction is refused with EBUSY.
  std::set<std::uint32_t> undestroyable;
  // Runs inside RESIZE_CQ, as the device would.
  std::function<void(std::uint64_t new_buffer)> on_resize;

  // What lives: handle -> kind ("PD", "MR", "CQ", "QP", "UAR").
  std::map<std::uint32_t, std::string> live;
  std::map<std::byte*, std::size_t> mappings;
  std::vector<std::string> destroyed;  // kinds, in order
  bool channel_closed = false;

  // The last of each.
  mlx5_ib_create_qp create_qp{};
  mlx5_ib_create_cq create_cq{};
  ib_uverbs_qp_cap qp_capabilities{};
  std::uint64_t qp_user_handle = 0, cq_user_handle = 0;
  std::uint32_t qp_flags = 0;
  mlx5_ib_create_srq create_srq{};
  std::uint32_t srq_max_wr = 0;
  std::uint32_t qp_type = 0;
  std::set<unsigned> qp_attributes;  // ids that QP_CREATE had
  mlx5_ib_create_qp_rss create_rss{};
  std::vector<ib_uverbs_modify_qp> modifications;
  std::vector<mlx5_ib_modify_qp> driver_modifications;  // of the extended form, each also in `modifications`
  mlx5_ib_modify_qp_resp modify_response{};             // its answer
  std::vector<std::vector<std::byte>> devx_modifications;
  std::uint8_t devx_status = 0;  // firmware's; not 0: refused
  struct {
    std::uint64_t start = 0, length = 0, hca_va = 0;
    std::uint32_t access_flags = 0;
  } reg_mr;
  struct {
    std::uint32_t flags = 0, access_flags = 0;
  } rereg_mr;
  std::uint32_t reported_qp_state = 0;
  std::vector<std::byte*> uars;  // in the order of allocation, by page id - kFirstPageId
  std::vector<std::uint64_t> uar_types;
  std::vector<int> completion_fds;  // write ends
  int async_write_fd = -1;

  static constexpr std::uint32_t kFirstPageId = 0x40;
  static constexpr std::uint32_t kFirstQpn = 0x1234;
  static constexpr std::uint32_t kFirstCqn = 0x45;
  static mlx5_ib_alloc_ucontext_resp default_ucontext();

  std::uint32_t next_handle = 1, next_qpn = kFirstQpn, next_cqn = kFirstCqn;
};

class FakeChannel final : public uapi::Channel {
 public:
  explicit FakeChannel(FakeKernel& kernel) : kernel_(kernel) {}
  ~FakeChannel() override;

  int ioctl(ib_uverbs_ioctl_hdr& request) override;
  int write(std::span<const std::byte> request) override;
  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) override;
  int munmap(std::byte* address, std::size_t length_bytes) override;
  std::expected<std::string, int> attribute(std::string_view path) const override;

 private:
  bool fails();
  std::uint32_t create(const std::string& kind);
  int destroy(std::uint32_t handle);
  int get_context(ib_uverbs_ioctl_hdr& request);
  int invoke_write(ib_uverbs_ioctl_hdr& request);
  int create_cq(ib_uverbs_ioctl_hdr& request);
  int create_qp(ib_uverbs_ioctl_hdr& request);
  int create_srq(ib_uverbs_ioctl_hdr& request);
  int alloc_uar(ib_uverbs_ioctl_hdr& request);
  int devx(ib_uverbs_ioctl_hdr& request);
  int open_pipe(int& write_end);

  FakeKernel& kernel_;
  std::mutex mutex_;
};

// The device's information that a test opens a context with.
uapi::DeviceInfo fake_device();

}  // namespace umlx5::testing
