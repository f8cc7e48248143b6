// Our requests against those of stock libmlx5 and libibverbs 44 (rdma-core 44.0, recorded between the library and a
// recording kernel stand-in): identifiers, order, lengths, flags and inline data of every attribute are the recorded
// ones. Addresses are left out. One number differs on purpose: the driver's part of QUERY_DEVICE has grown to 112
// bytes.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "tests/uapi/fake_channel.h"
#include "uapi/ah.h"
#include "uapi/context.h"
#include "uapi/cq.h"
#include "uapi/device_query.h"
#include "uapi/devx.h"
#include "uapi/events.h"
#include "uapi/mr.h"
#include "uapi/pd.h"
#include "uapi/qp.h"
#include "uapi/srq.h"
#include "uapi/uar.h"

namespace umlx5::uapi {
namespace {

using Outputs = std::map<std::uint16_t, std::uint64_t>;  // attribute, number for a new handle (0: a buffer)

// What the kernel fills, of the methods in this file.
const std::map<std::pair<int, int>, std::set<std::uint16_t>> kBufferOutputs = {
    {{0x0, 0x0}, {1, 0x1001}},  // INVOKE_WRITE
    {{0x0, 0x2}, {1}},          // QUERY_PORT
    {{0x0, 0x3}, {0, 1, 0x1001}},
    {{0x0, 0x6}, {3}},
    {{0x3, 0x0}, {6, 0x1001}},
    {{0x3, 0x1}, {1}},
    {{0x4, 0x0}, {0xd, 0xe, 0x1001}},
    {{0x4, 0x1}, {1}},
    {{0x5, 0x0}, {0xb, 0xc, 0x1001}},
    {{0x5, 0x1}, {1}},
    {{0x1008, 0x1000}, {0x1002, 0x1003, 0x1004}},
};

class StockIoctl : public ::testing::Test {
 protected:
  StockIoctl() {
    channel.on_ioctl = [this](ib_uverbs_ioctl_hdr& request) { return serve(request); };
    channel.ioctls.clear();  // the probe has its own test
  }

  int serve(ib_uverbs_ioctl_hdr& request) const {
    const auto outputs = kBufferOutputs.find({request.object_id, request.method_id});
    for (unsigned i = 0; i < request.num_attrs; ++i) {
      ib_uverbs_attr& a = request.attrs[i];
      if (outputs != kBufferOutputs.end() && outputs->second.contains(a.attr_id)) a.flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    }
    if (new_handle != 0) answer_new(request, new_handle_id, new_handle);
    return 0;
  }

  std::string last() const { return channel.last_ioctl().text(); }

  FakeChannel channel;
  Commands commands{channel};
  std::uint16_t new_handle_id = 0;
  std::uint64_t new_handle = 0;
};

TEST(StockProbe, AsksForQueryDeviceWithoutBuffers) {
  FakeChannel channel;
  const Commands commands(channel);
  ASSERT_EQ(channel.ioctls.size(), 1u);
  EXPECT_EQ(channel.last_ioctl().text(),
            "object 0x0 method 0x0, 1 attrs\n"
            "attr 0x0002 len 8 flags 1 data 0x1\n");
}

TEST_F(StockIoctl, GetContext) {
  ASSERT_TRUE(get_context(commands, {}));
  EXPECT_EQ(last(),
            "object 0x0 method 0x3, 4 attrs\n"
            "attr 0x0000 len 4 flags 3\n"
            "attr 0x0001 len 8 flags 3\n"
            "attr 0x1000 len 32 flags 1\n"
            "attr 0x1001 len 72 flags 3\n");
}

TEST_F(StockIoctl, DevxGeneral) {
  std::vector<std::byte> in(16), out(4112);
  ASSERT_TRUE(devx_general(commands, in, out));
  EXPECT_EQ(last(),
            "object 0x1000 method 0x1000, 2 attrs\n"
            "attr 0x1000 len 16 flags 1\n"
            "attr 0x1001 len 4112 flags 1\n");
}

TEST_F(StockIoctl, QueryDevice) {
  ASSERT_TRUE(query_device(commands));
  EXPECT_EQ(last(),
            "object 0x0 method 0x0, 4 attrs\n"
            "attr 0x0002 len 8 flags 1 data 0x80000001\n"
            "attr 0x0000 len 8 flags 1 data 0x0\n"
            "attr 0x0001 len 304 flags 3\n"
            "attr 0x1001 len 112 flags 3\n");
}

TEST_F(StockIoctl, QueryPort) {
  ASSERT_TRUE(query_port(commands, 1));
  EXPECT_EQ(last(),
            "object 0x0 method 0x2, 2 attrs\n"
            "attr 0x0000 len 8 flags 1 data 0x1\n"
            "attr 0x0001 len 48 flags 3\n");
}

TEST_F(StockIoctl, AllocUar) {
  new_handle_id = 0x1000;
  new_handle = 1;
  ASSERT_TRUE(alloc_uar(commands, UarType::kNonCached));
  EXPECT_EQ(last(),
            "object 0x1008 method 0x1000, 5 attrs\n"
            "attr 0x1000 len 0 flags 3 data 0x1\n"
            "attr 0x1001 len 8 flags 1 data 0x1\n"
            "attr 0x1002 len 8 flags 3\n"
            "attr 0x1003 len 4 flags 3\n"
            "attr 0x1004 len 4 flags 3\n");
  new_handle = 5;
  ASSERT_TRUE(alloc_uar(commands, UarType::kBlueFlame));
  EXPECT_EQ(last(),
            "object 0x1008 method 0x1000, 5 attrs\n"
            "attr 0x1000 len 0 flags 3 data 0x5\n"
            "attr 0x1001 len 8 flags 1 data 0x0\n"
            "attr 0x1002 len 8 flags 3\n"
            "attr 0x1003 len 4 flags 3\n"
            "attr 0x1004 len 4 flags 3\n");
}

TEST_F(StockIoctl, DestroyUar) {
  ASSERT_TRUE(destroy_uar(commands, {5}));
  EXPECT_EQ(last(),
            "object 0x1008 method 0x1001, 1 attrs\n"
            "attr 0x1000 len 0 flags 1 data 0x5\n");
}

TEST_F(StockIoctl, AsyncEventFd) {
  new_handle = 0x7ffffff0;  // no descriptor of this process; closing it is harmless
  ASSERT_TRUE(open_async_event_fd(commands));
  EXPECT_EQ(last(),
            "object 0x10 method 0x0, 1 attrs\n"
            "attr 0x0000 len 0 flags 3 data 0x7ffffff0\n");
}

TEST_F(StockIoctl, AllocPd) {
  ASSERT_TRUE(alloc_pd(commands));
  const std::string text = last();
  const std::uint64_t address = channel.last_ioctl().find(0)->raw.data;
  EXPECT_EQ(text, fmt::format("object 0x0 method 0x0, 4 attrs\n"
                              "attr 0x0002 len 8 flags 1 data 0x3\n"
                              "attr 0x0000 len 8 flags 1 data {:#x}\n"
                              "attr 0x0001 len 4 flags 3\n"
                              "attr 0x1001 len 4 flags 3\n",
                              address));
  // The inline request is the address of the answer, as recorded.
  EXPECT_EQ(address, channel.last_ioctl().find(1)->raw.data);
}

TEST_F(StockIoctl, DeallocPd) {
  ASSERT_TRUE(dealloc_pd(commands, {2}));
  EXPECT_EQ(last(),
            "object 0x1 method 0x0, 1 attrs\n"
            "attr 0x0000 len 0 flags 1 data 0x2\n");
}

TEST_F(StockIoctl, RegMr) {
  ASSERT_TRUE(register_mr(commands, {.pd = {2}, .address = 0x1000, .length_bytes = 4096, .iova = 0x1000, .access = 1}));
  EXPECT_EQ(last(),
            "object 0x0 method 0x0, 3 attrs\n"
            "attr 0x0002 len 8 flags 1 data 0x9\n"
            "attr 0x0000 len 40 flags 1\n"
            "attr 0x0001 len 12 flags 3\n");
}

TEST_F(StockIoctl, DeregMr) {
  ASSERT_TRUE(deregister_mr(commands, {3}));
  EXPECT_EQ(last(),
            "object 0x7 method 0x1, 1 attrs\n"
            "attr 0x0000 len 0 flags 1 data 0x3\n");
}

TEST_F(StockIoctl, CreateCq) {
  new_handle = 4;
  ASSERT_TRUE(create_cq(commands, {.entries = 1023, .user_handle = 0x5555555814e0, .async_event_fd = 5}));
  EXPECT_EQ(last(),
            "object 0x3 method 0x0, 8 attrs\n"
            "attr 0x0000 len 0 flags 3 data 0x4\n"
            "attr 0x0006 len 4 flags 3\n"
            "attr 0x0001 len 4 flags 1 data 0x3ff\n"
            "attr 0x0002 len 8 flags 1 data 0x5555555814e0\n"
            "attr 0x0004 len 4 flags 1 data 0x0\n"
            "attr 0x0007 len 0 flags 0 data 0x5\n"
            "attr 0x1000 len 32 flags 1\n"
            "attr 0x1001 len 8 flags 3\n");
}

TEST_F(StockIoctl, DestroyCq) {
  ASSERT_TRUE(destroy_cq(commands, {4}));
  EXPECT_EQ(last(),
            "object 0x3 method 0x1, 2 attrs\n"
            "attr 0x0001 len 8 flags 3\n"
            "attr 0x0000 len 0 flags 1 data 0x4\n");
}

QpRequest rc_qp() {
  return {.type = IB_UVERBS_QPT_RC,
          .pd = PdHandle{2},
          .send_cq = CqHandle{4},
          .recv_cq = CqHandle{4},
          .user_handle = 0x555555581748,
          .async_event_fd = 5};
}

TEST_F(StockIoctl, CreateQp) {
  new_handle = 6;
  ASSERT_TRUE(create_qp(commands, rc_qp()));
  EXPECT_EQ(last(),
            "object 0x4 method 0x0, 12 attrs\n"
            "attr 0x0002 len 0 flags 1 data 0x2\n"
            "attr 0x0004 len 0 flags 1 data 0x4\n"
            "attr 0x0005 len 0 flags 1 data 0x4\n"
            "attr 0x0000 len 0 flags 3 data 0x6\n"
            "attr 0x0009 len 8 flags 1 data 0x2\n"
            "attr 0x0007 len 8 flags 1 data 0x555555581748\n"
            "attr 0x0008 len 20 flags 1\n"
            "attr 0x000c len 0 flags 1 data 0x5\n"
            "attr 0x000d len 20 flags 3\n"
            "attr 0x000e len 4 flags 3\n"
            "attr 0x1000 len 56 flags 1\n"
            "attr 0x1001 len 40 flags 3\n");
}

TEST_F(StockIoctl, CreateDctWithSrq) {
  new_handle = 0xf;
  QpRequest request = rc_qp();
  request.type = IB_UVERBS_QPT_DRIVER;
  request.user_handle = 0x5555555a42d8;
  request.srq = SrqHandle{0xe};
  ASSERT_TRUE(create_qp(commands, request));
  EXPECT_EQ(last(),
            "object 0x4 method 0x0, 13 attrs\n"
            "attr 0x0002 len 0 flags 1 data 0x2\n"
            "attr 0x0004 len 0 flags 1 data 0x4\n"
            "attr 0x0005 len 0 flags 1 data 0x4\n"
            "attr 0x0000 len 0 flags 3 data 0xf\n"
            "attr 0x0009 len 8 flags 1 data 0xff\n"
            "attr 0x0007 len 8 flags 1 data 0x5555555a42d8\n"
            "attr 0x0008 len 20 flags 1\n"
            "attr 0x000c len 0 flags 1 data 0x5\n"
            "attr 0x0003 len 0 flags 1 data 0xe\n"
            "attr 0x000d len 20 flags 3\n"
            "attr 0x000e len 4 flags 3\n"
            "attr 0x1000 len 56 flags 1\n"
            "attr 0x1001 len 40 flags 3\n");
}

TEST_F(StockIoctl, ModifyQp) {
  ASSERT_TRUE(modify_qp(commands, {6}, {.state = 1}, 1));
  EXPECT_EQ(last(),
            "object 0x0 method 0x0, 2 attrs\n"
            "attr 0x0002 len 8 flags 1 data 0x1a\n"
            "attr 0x0000 len 112 flags 1\n");
}

TEST_F(StockIoctl, ModifyQpExtended) {
  ASSERT_TRUE(modify_qp(commands, {0xf}, {.state = 1}, 1, mlx5_ib_modify_qp{}));
  EXPECT_EQ(last(),
            "object 0x0 method 0x0, 5 attrs\n"
            "attr 0x0002 len 8 flags 1 data 0x8000001a\n"
            "attr 0x0000 len 120 flags 1\n"
            "attr 0x0001 len 8 flags 3\n"
            "attr 0x1000 len 16 flags 1\n"
            "attr 0x1001 len 16 flags 3\n");
}

TEST_F(StockIoctl, DestroyQp) {
  ASSERT_TRUE(destroy_qp(commands, {6}));
  EXPECT_EQ(last(),
            "object 0x4 method 0x1, 2 attrs\n"
            "attr 0x0001 len 4 flags 3\n"
            "attr 0x0000 len 0 flags 1 data 0x6\n");
}

TEST_F(StockIoctl, QueryGidEntry) {
  ASSERT_TRUE(query_gid_entry(commands, 1, 1));
  EXPECT_EQ(last(),
            "object 0x0 method 0x6, 4 attrs\n"
            "attr 0x0000 len 8 flags 1 data 0x1\n"
            "attr 0x0001 len 8 flags 1 data 0x1\n"
            "attr 0x0002 len 4 flags 1 data 0x0\n"
            "attr 0x0003 len 32 flags 3\n");
}

TEST_F(StockIoctl, CreateAh) {
  (void)create_ah(commands, {2}, 0, {.port = 1});  // refused after the answer, which lacks the MAC address
  ASSERT_GE(channel.ioctls.size(), 2u);
  EXPECT_EQ(channel.ioctls[channel.ioctls.size() - 2].text(),
            "object 0x0 method 0x0, 4 attrs\n"
            "attr 0x0002 len 8 flags 1 data 0x5\n"
            "attr 0x0000 len 56 flags 1\n"
            "attr 0x0001 len 4 flags 3\n"
            "attr 0x1001 len 16 flags 3\n");
}

TEST_F(StockIoctl, DestroyAh) {
  ASSERT_TRUE(destroy_ah(commands, {9}));
  EXPECT_EQ(last(),
            "object 0x6 method 0x0, 1 attrs\n"
            "attr 0x0000 len 0 flags 1 data 0x9\n");
}

TEST_F(StockIoctl, CreateSrq) {
  new_handle = 0xc;
  ASSERT_TRUE(create_srq(
      commands, {.pd = {2}, .user_handle = 0x555555581e28, .max_wr = 0xff, .max_sge = 3, .async_event_fd = 5}));
  EXPECT_EQ(last(),
            "object 0x5 method 0x0, 12 attrs\n"
            "attr 0x0000 len 0 flags 3 data 0xc\n"
            "attr 0x0009 len 8 flags 1 data 0x0\n"
            "attr 0x0004 len 8 flags 1 data 0x555555581e28\n"
            "attr 0x0001 len 0 flags 1 data 0x2\n"
            "attr 0x0005 len 4 flags 1 data 0xff\n"
            "attr 0x0006 len 4 flags 1 data 0x3\n"
            "attr 0x0007 len 4 flags 1 data 0x0\n"
            "attr 0x000a len 0 flags 1 data 0x5\n"
            "attr 0x000b len 4 flags 3\n"
            "attr 0x000c len 4 flags 3\n"
            "attr 0x1000 len 32 flags 1\n"
            "attr 0x1001 len 8 flags 3\n");
}

TEST_F(StockIoctl, DestroySrq) {
  ASSERT_TRUE(destroy_srq(commands, {0xc}));
  EXPECT_EQ(last(),
            "object 0x5 method 0x1, 2 attrs\n"
            "attr 0x0001 len 4 flags 3\n"
            "attr 0x0000 len 0 flags 1 data 0xc\n");
}

// A kernel without the ioctl interface: what went through write() then.
class StockWrite : public ::testing::Test {
 protected:
  static FakeChannel& without_ioctl(FakeChannel& channel) {
    channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return ENOTTY; };
    return channel;
  }

  std::string last(std::size_t core_in, std::size_t core_out) const {
    return channel.last_write().text(core_in, core_out);
  }

  FakeChannel channel;
  Commands commands{without_ioctl(channel)};
};

TEST_F(StockWrite, Context) {
  ASSERT_TRUE(get_context(commands, {}));
  EXPECT_EQ(last(8, 8), "0 in 8+32 out 8+72");
  EXPECT_EQ(channel.ioctls.size(), 1u) << "only the probe";
}

TEST_F(StockWrite, Queries) {
  ASSERT_TRUE(query_device(commands));
  EXPECT_EQ(last(0, 0), "ex 1 in 8+0 out 304+112");
  ASSERT_TRUE(query_port(commands, 1));
  EXPECT_EQ(last(16, 40), "2 in 16+0 out 40+0");
}

TEST_F(StockWrite, PdAndMr) {
  ASSERT_TRUE(alloc_pd(commands));
  EXPECT_EQ(last(8, 4), "3 in 8+0 out 4+4");
  ASSERT_TRUE(register_mr(commands, {}));
  EXPECT_EQ(last(40, 12), "9 in 40+0 out 12+0");
  ASSERT_TRUE(deregister_mr(commands, {}));
  EXPECT_EQ(last(4, 0), "13 in 4+0 out 0+0");
  ASSERT_TRUE(dealloc_pd(commands, {}));
  EXPECT_EQ(last(4, 0), "4 in 4+0 out 0+0");
}

TEST_F(StockWrite, Queues) {
  ASSERT_TRUE(create_cq(commands, {.entries = 1023}));
  EXPECT_EQ(last(32, 8), "18 in 32+32 out 8+8");
  ASSERT_TRUE(create_qp(commands, rc_qp()));
  EXPECT_EQ(last(56, 32), "24 in 56+56 out 32+40");
  ASSERT_TRUE(modify_qp(commands, {}, {}, 1));
  EXPECT_EQ(last(112, 0), "26 in 112+0 out 0+0");
  ASSERT_TRUE(modify_qp(commands, {}, {}, 1, mlx5_ib_modify_qp{}));
  EXPECT_EQ(last(0, 0), "ex 26 in 120+16 out 8+16");
  ASSERT_TRUE(destroy_qp(commands, {}));
  EXPECT_EQ(last(16, 4), "27 in 16+0 out 4+0");
  ASSERT_TRUE(create_srq(commands, {.max_wr = 255}));
  EXPECT_EQ(last(32, 16), "32 in 32+32 out 16+8");
  ASSERT_TRUE(destroy_srq(commands, {}));
  EXPECT_EQ(last(16, 4), "35 in 16+0 out 4+0");
  ASSERT_TRUE(destroy_cq(commands, {}));
  EXPECT_EQ(last(16, 8), "20 in 16+0 out 8+0");
}

TEST_F(StockWrite, AddressHandle) {
  (void)create_ah(commands, {}, 0, {});  // refused after the answer, which lacks the MAC address
  ASSERT_EQ(channel.writes.size(), 2u);
  EXPECT_EQ(channel.writes[0].text(56, 4), "5 in 56+0 out 4+16");
  EXPECT_EQ(channel.writes[1].text(4, 0), "8 in 4+0 out 0+0");
}

}  // namespace
}  // namespace umlx5::uapi
