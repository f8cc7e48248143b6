// Objects that programs make by the device's own commands (DEVX): the memory that they lie in, and their events.
// Mailboxes by mlx5_ifc.h, requests by mlx5_user_ioctl_cmds.h, refusals as mlx5_ib's devx.c has them.
#include <gtest/gtest.h>

#include "tests/tools/softhca/kernel/soft_kernel.h"

namespace softhca::kernel {
namespace {

constexpr std::uint16_t kCompletion = 0, kCqError = 4, kPortChange = 9, kSrqLimit = 0x14;

class DevxTest : public testing::Test, protected SoftKernel {
 protected:
  void SetUp() override {
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(get_context(), 0);
    std::uint32_t handle = 0;
    std::uint64_t offset = 0;
    ASSERT_EQ(alloc_uar(handle, uar, offset), 0);
  }

  using Mailbox = std::array<std::uint32_t, 0x110 / 4>;
  static void put(Mailbox& mailbox, std::size_t offset, std::uint32_t value) {
    mailbox[offset / 4] = __builtin_bswap32(value);
  }

  int register_umem(std::uint64_t address, std::uint64_t bytes, std::uint32_t access, std::uint32_t& handle,
                    std::uint32_t& id) {
    Ioctl request(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG);
    const int error = request.handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE)
                          .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, address)
                          .in(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, bytes)
                          .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, access)
                          .out(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, id)
                          .run(*file);
    handle = static_cast<std::uint32_t>(request.attr_of(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE).data);
    return error;
  }
  int deregister_umem(std::uint32_t handle) {
    return Ioctl(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG)
        .handle(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, handle)
        .run(*file);
  }
  // CREATE_CQ of 64 entries without any word about umems being valid: that is the kernel's to say.
  int create_cq_by_command(std::uint32_t umem, std::uint32_t record_umem, std::uint32_t& handle) {
    Mailbox in{};
    std::array<std::uint32_t, 4> out{};
    put(in, 0, 0x400u << 16);
    put(in, 0x14, record_umem);
    put(in, 0x1c, 6u << 24 | uar);
    put(in, 0x24, device->events().eqn_of_vector(0));
    put(in, 0x58, umem);
    Ioctl request(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
    const int error = request.handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
                          .in(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, in)
                          .out(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out)
                          .run(*file);
    handle = static_cast<std::uint32_t>(request.attr_of(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE).data);
    cqn = __builtin_bswap32(out[2]) & 0xffffff;
    status = static_cast<std::uint8_t>(out[0] & 0xff);
    return error;
  }
  void make_cq() {
    ASSERT_EQ(register_umem(address_of(memory), 4096, IB_UVERBS_ACCESS_LOCAL_WRITE, buffer, buffer_id), 0);
    ASSERT_EQ(register_umem(address_of(memory) + 8192, 8, IB_UVERBS_ACCESS_LOCAL_WRITE, record, record_id), 0);
    ASSERT_EQ(create_cq_by_command(buffer_id, record_id, cq), 0);
  }
  int destroy(std::uint32_t handle) {
    return Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY)
        .handle(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle)
        .run(*file);
  }
  int open_events(std::uint32_t flags) {
    Ioctl request(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC);
    const int error = request.handle(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE)
                          .in(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, flags)
                          .run(*file);
    events = static_cast<int>(request.attr_of(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE).data_s64);
    return error;
  }
  template <std::size_t kCount>
  int subscribe(const std::array<std::uint16_t, kCount>& types, const std::uint32_t* object, std::uint64_t cookie,
                const int* signal = nullptr) {
    Ioctl request(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT);
    request.handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, static_cast<std::uint32_t>(events))
        .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, types)
        .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, cookie);
    if (object != nullptr) {
      request.handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, *object);
    }
    if (signal != nullptr) {
      request.in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, *signal);
    }
    return request.run(*file);
  }
  std::uint32_t uar = 0, buffer = 0, buffer_id = 0, record = 0, record_id = 0, cq = 0, cqn = 0;
  std::uint8_t status = 0;
  int events = -1;
};

TEST_F(DevxTest, ObjectsLieInRegisteredMemoryOnly) {
  std::uint32_t handle = 0;
  EXPECT_EQ(create_cq_by_command(0, 0, handle), EREMOTEIO) << "page addresses of its own are nothing to the kernel";
  EXPECT_EQ(status, 5) << "BAD_RES";
  make_cq();
  EXPECT_EQ(deregister_umem(buffer), EBUSY);
  EXPECT_EQ(deregister_umem(record), EBUSY);
  EXPECT_EQ(destroy(cq), 0);
  EXPECT_EQ(deregister_umem(buffer), 0);
  EXPECT_EQ(deregister_umem(record), 0);
  EXPECT_EQ(deregister_umem(record), ENOENT);
}

TEST_F(DevxTest, UmemsAreOfTheProgramsMemory) {
  std::uint32_t handle = 0, id = 0;
  EXPECT_EQ(register_umem(0x1000, 4096, IB_UVERBS_ACCESS_LOCAL_WRITE, handle, id), EFAULT);
  EXPECT_EQ(register_umem(address_of(memory), 0, IB_UVERBS_ACCESS_LOCAL_WRITE, handle, id), EINVAL);
  EXPECT_EQ(register_umem(address_of(memory), ~std::uint64_t{0}, 1, handle, id), EINVAL);
  EXPECT_EQ(register_umem(address_of(memory), 4096, IB_UVERBS_ACCESS_REMOTE_WRITE, handle, id), EINVAL)
      << "which needs local write";
  EXPECT_EQ(register_umem(address_of(memory), 4096, IB_UVERBS_ACCESS_MW_BIND, handle, id), EINVAL);
  ASSERT_EQ(register_umem(address_of(memory), 4096, 0, handle, id), 0);
  std::uint32_t cq_handle = 0;
  EXPECT_EQ(create_cq_by_command(id, id, cq_handle), EREMOTEIO) << "read-only";
}

TEST_F(DevxTest, ClosingTakesObjectsAndTheirMemory) {
  make_cq();
  file = std::make_unique<UverbsFile>(*device);
  ASSERT_EQ(get_context(), 0);
  std::uint32_t handle = 0;
  EXPECT_EQ(create_cq_by_command(buffer_id, record_id, handle), EREMOTEIO);
}

TEST_F(DevxTest, SubscriptionsAreChecked) {
  make_cq();
  EXPECT_EQ(open_events(2), EINVAL);
  ASSERT_EQ(open_events(0), 0);
  using One = std::array<std::uint16_t, 1>;
  EXPECT_EQ(subscribe(One{kCqError}, &cq, 1), 0);
  EXPECT_EQ(subscribe(One{kSrqLimit}, &cq, 1), EINVAL) << "no event of a CQ";
  EXPECT_EQ(subscribe(std::array<std::uint16_t, 2>{kCqError, 0x104}, &cq, 1), EINVAL);
  EXPECT_EQ(subscribe(One{kCqError}, nullptr, 1), EINVAL) << "of which CQ?";
  EXPECT_EQ(subscribe(One{kPortChange}, nullptr, 1), 0);
  const std::uint32_t none = 4711;
  EXPECT_EQ(subscribe(One{kCqError}, &none, 1), ENOENT);
  const int no_eventfd = events;
  EXPECT_EQ(subscribe(One{kCompletion}, &cq, 1, &no_eventfd), EBADF);
  int async_fd = -1;
  ASSERT_EQ(alloc_async_fd(async_fd), 0);
  events = async_fd;
  EXPECT_EQ(subscribe(One{kCqError}, &cq, 1), EBADF) << "no file of DEVX events";
}

}  // namespace
}  // namespace softhca::kernel
