#include "uapi/devx.h"

#include <gtest/gtest.h>

#include "tests/uapi/fake_channel.h"

namespace umlx5::uapi {
namespace {

class Devx : public ::testing::Test {
 protected:
  Devx() { in[0] = std::byte{0x05}, in[1] = std::byte{0x0b}; }  // QUERY_QP

  FakeChannel channel;
  Commands commands{channel};
  std::vector<std::byte> in = std::vector<std::byte>(16);
  std::vector<std::byte> out = std::vector<std::byte>(64, std::byte{0x5a});
};

TEST_F(Devx, TheDevicesRefusalIsTold) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 0x1001, std::array<std::uint8_t, 8>{0x03, 0, 0, 0, 0x00, 0x6b, 0xd2, 0x18});
    return EREMOTEIO;
  };
  const auto done = devx_general(commands, in, out);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value, EREMOTEIO);
  EXPECT_EQ(done.error().firmware_status, 3);
  EXPECT_EQ(done.error().firmware_syndrome, 0x6bd218u);
  EXPECT_EQ(done.error().message(),
            "DEVX_GENERAL (device command 0x50b): the device refused the command: Remote I/O error (EREMOTEIO), device "
            "status 0x03 syndrome 0x006bd218");
  EXPECT_EQ(out[0], std::byte{3}) << "the mailbox is the caller's";
}

TEST_F(Devx, TheKernelsRefusalHasNoStatus) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return EINVAL; };
  const auto done = devx_general(commands, in, out);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value, EINVAL);
  EXPECT_EQ(done.error().firmware_status, 0);
  EXPECT_EQ(done.error().firmware_syndrome, 0u);
}

TEST_F(Devx, MailboxSizes) {
  channel.ioctls.clear();
  std::vector<std::byte> small(15), large(65536);
  EXPECT_EQ(devx_general(commands, small, out).error().errno_value, EINVAL);
  EXPECT_EQ(devx_general(commands, in, small).error().errno_value, EINVAL);
  EXPECT_EQ(devx_general(commands, large, out).error().errno_value, E2BIG);
  EXPECT_EQ(devx_general(commands, in, large).error().errno_value, E2BIG);
  EXPECT_TRUE(channel.ioctls.empty());
}

TEST_F(Devx, Objects) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer_new(request, 0x1000, 21);
    return 0;
  };
  EXPECT_EQ(devx_create(commands, in, out), DevxObjectHandle{21});
  EXPECT_EQ(channel.last_ioctl().text(),
            "object 0x1001 method 0x1000, 3 attrs\n"
            "attr 0x1000 len 0 flags 3 data 0x15\n"
            "attr 0x1001 len 16 flags 1\n"
            "attr 0x1002 len 64 flags 1\n");
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return 0; };
  ASSERT_TRUE(devx_modify(commands, QpHandle{7}, in, out));
  EXPECT_EQ(channel.last_ioctl().text(),
            "object 0x1001 method 0x1002, 3 attrs\n"
            "attr 0x1000 len 0 flags 1 data 0x7\n"
            "attr 0x1001 len 16 flags 1\n"
            "attr 0x1002 len 64 flags 1\n");
  ASSERT_TRUE(devx_query(commands, DevxObjectHandle{21}, in, out));
  EXPECT_EQ(channel.last_ioctl().method_id, 0x1003);
  ASSERT_TRUE(devx_destroy(commands, {21}));
  EXPECT_EQ(channel.last_ioctl().text(),
            "object 0x1001 method 0x1001, 1 attrs\n"
            "attr 0x1000 len 0 flags 1 data 0x15\n");
}

TEST_F(Devx, Umem) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer_new(request, 0x1000, 22);
    answer(request, 0x1004, std::uint32_t{0x31});
    return 0;
  };
  const auto umem = devx_register_umem(commands, 0x7f0000000000, 0x4000, 7, 0);
  ASSERT_TRUE(umem);
  EXPECT_EQ(umem->handle, DevxUmemHandle{22});
  EXPECT_EQ(umem->umem_id, 0x31u);
  EXPECT_EQ(channel.last_ioctl().text(),
            "object 0x1002 method 0x1000, 5 attrs\n"
            "attr 0x1000 len 0 flags 3 data 0x16\n"
            "attr 0x1001 len 8 flags 1 data 0x7f0000000000\n"
            "attr 0x1002 len 8 flags 1 data 0x4000\n"
            "attr 0x1003 len 4 flags 1 data 0x7\n"
            "attr 0x1004 len 4 flags 3\n");
  ASSERT_TRUE(devx_register_umem(commands, 0, 0x4000, 7, 1ULL << 12));
  EXPECT_EQ(channel.last_ioctl().find(0x1005)->raw.data, 4096u);
  ASSERT_TRUE(devx_deregister_umem(commands, {22}));
  EXPECT_EQ(channel.last_ioctl().object_id, 0x1002);
  EXPECT_EQ(channel.last_ioctl().method_id, 0x1001);
}

TEST_F(Devx, EventQueueNumber) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 0x1001, std::uint32_t{13});
    return 0;
  };
  EXPECT_EQ(devx_query_eqn(commands, 2), 13u);
  EXPECT_EQ(channel.last_ioctl().method_id, 0x1002);
  EXPECT_EQ(channel.last_ioctl().find(0x1000)->raw.len, 4);
}

TEST(FirmwareStatus, Errno) {
  // Codes: MLX5_CMD_STAT_* of <linux/mlx5/device.h>.
  const std::pair<int, int> cases[] = {{0x00, 0},      {0x01, EIO},    {0x02, EINVAL}, {0x03, EINVAL}, {0x04, EIO},
                                       {0x05, EINVAL}, {0x06, EBUSY},  {0x08, ENOMEM}, {0x09, EINVAL}, {0x0a, EINVAL},
                                       {0x0f, EAGAIN}, {0x10, EINVAL}, {0x30, EINVAL}, {0x40, EINVAL}, {0x50, EIO},
                                       {0x51, EIO},    {0x99, EIO}};
  for (const auto& [status, errno_value] : cases) {
    EXPECT_EQ(firmware_status_errno(static_cast<std::uint8_t>(status)), errno_value) << status;
  }
}

}  // namespace
}  // namespace umlx5::uapi
