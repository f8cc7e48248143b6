// Messages as the kernel builds them, put together here with libnl.
#include "uapi/netlink_devices.h"

#include <gtest/gtest.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace umlx5::uapi {
namespace {

constexpr int kGet = 5 << 10 | 1;          // client NLDEV, command GET
constexpr int kGetChardev = 5 << 10 | 15;  // client NLDEV, command GET_CHARDEV

class Message {
 public:
  explicit Message(int type) : message_(nlmsg_alloc_simple(type, 0)) {}
  ~Message() { nlmsg_free(message_); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  Message& text(int id, const char* value) {
    EXPECT_EQ(nla_put_string(message_, id, value), 0);
    return *this;
  }
  Message& u32(int id, std::uint32_t value) {
    EXPECT_EQ(nla_put_u32(message_, id, value), 0);
    return *this;
  }
  Message& u64(int id, std::uint64_t value) {
    EXPECT_EQ(nla_put_u64(message_, id, value), 0);
    return *this;
  }
  nlmsghdr& header() { return *nlmsg_hdr(message_); }

 private:
  nl_msg* message_;
};

TEST(NetlinkDevice, IndexAndName) {
  Message message(kGet);
  message.u32(RDMA_NLDEV_ATTR_DEV_INDEX, 7).text(RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_3").u32(60000, 1);
  const auto device = parse_netlink_device(message.header());
  ASSERT_TRUE(device);
  EXPECT_EQ(device->index, 7u);
  EXPECT_EQ(device->name, "mlx5_3");
  EXPECT_FALSE(parse_netlink_uverbs(message.header())) << "another command's answer";
}

TEST(NetlinkDevice, WithoutANameItIsNone) {
  Message message(kGet);
  message.u32(RDMA_NLDEV_ATTR_DEV_INDEX, 7);
  EXPECT_FALSE(parse_netlink_device(message.header()));
  message.text(RDMA_NLDEV_ATTR_DEV_NAME, "");
  EXPECT_FALSE(parse_netlink_device(message.header()));
}

TEST(NetlinkUverbs, NodeVersionAndDriver) {
  Message message(kGetChardev);
  message.text(RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs2")
      .u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, 1)
      .u64(RDMA_NLDEV_ATTR_CHARDEV, 0xe7c2)
      .u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 1);
  const auto uverbs = parse_netlink_uverbs(message.header());
  ASSERT_TRUE(uverbs);
  EXPECT_EQ(uverbs->node, "uverbs2");
  EXPECT_EQ(uverbs->abi_version, 1u);
  EXPECT_EQ(uverbs->driver_id, 1u);
}

TEST(NetlinkUverbs, TheDriverMayBeUntold) {
  Message message(kGetChardev);
  message.text(RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs2");
  EXPECT_FALSE(parse_netlink_uverbs(message.header())) << "no version";
  message.u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, 1);
  const auto uverbs = parse_netlink_uverbs(message.header());
  ASSERT_TRUE(uverbs);
  EXPECT_EQ(uverbs->driver_id, std::nullopt);
}

TEST(NetlinkMessages, AnyLengthIsSurvived) {
  Message message(kGetChardev);
  message.text(RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs2").u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, 1);
  const std::uint32_t whole = message.header().nlmsg_len;
  for (std::uint32_t length = 0; length < whole; ++length) {
    // A copy of exactly this size, so that a sanitizer sees a read beyond it.
    const std::size_t bytes = std::max<std::size_t>(length, sizeof(nlmsghdr));
    const std::unique_ptr<std::byte[]> copy(new std::byte[bytes]);
    std::memcpy(copy.get(), &message.header(), bytes);
    auto* header = reinterpret_cast<nlmsghdr*>(copy.get());
    header->nlmsg_len = length;
    const auto uverbs = parse_netlink_uverbs(*header);
    EXPECT_EQ(uverbs ? uverbs->node : "uverbs2", "uverbs2") << length;
  }
}

}  // namespace
}  // namespace umlx5::uapi
