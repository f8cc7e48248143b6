// Contents of requests and answers of the small kinds of objects; their shapes are in stock_requests_test.cc.
#include <gtest/gtest.h>

#include <optional>

#include "tests/uapi/fake_channel.h"
#include "uapi/ah.h"
#include "uapi/cq.h"
#include "uapi/kernel_additions.h"
#include "uapi/mr.h"
#include "uapi/pd.h"
#include "uapi/srq.h"
#include "uapi/uar.h"
#include "uapi/xrcd.h"

namespace umlx5::uapi {
namespace {

using Words = std::vector<std::uint32_t>;

class Objects : public ::testing::Test {
 protected:
  Objects() { commands.emplace(channel); }

  void old_kernel() {
    channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return ENOTTY; };
    commands.emplace(channel);
  }

  // INVOKE_WRITE answers with these words.
  void answer_words(const Words& core, const Words& driver = {}) {
    channel.on_ioctl = [=](ib_uverbs_ioctl_hdr& request) {
      fill(request, UVERBS_ATTR_CORE_OUT, core);
      fill(request, UVERBS_ATTR_UHW_OUT, driver);
      return 0;
    };
  }

  // write() answers with these words.
  void answer_write_words(const Words& words) {
    channel.on_write = [=](std::span<const std::byte> message) {
      std::uint64_t address = 0;
      std::memcpy(&address, message.data() + 8, sizeof(address));
      std::memcpy(reinterpret_cast<void*>(address), words.data(), words.size() * 4);
      return 0;
    };
  }

  // Words of the core's request from `first_word` on, after the answer's address.
  Words sent_words(std::size_t first_word) const {
    const std::vector<std::byte>& bytes = channel.last_ioctl().find(UVERBS_ATTR_CORE_IN)->bytes;
    Words words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), words.size() * 4);
    return {words.begin() + static_cast<std::ptrdiff_t>(first_word), words.end()};
  }

  std::uint64_t sent(std::uint16_t id) const {
    const FakeAttribute* a = channel.last_ioctl().find(id);
    return a == nullptr ? ~0ULL : a->raw.data;
  }

  static void fill(ib_uverbs_ioctl_hdr& request, std::uint16_t id, const Words& words) {
    if (ib_uverbs_attr* a = find_attribute(request, id)) {
      std::memcpy(reinterpret_cast<void*>(a->data), words.data(), std::min<std::size_t>(a->len, words.size() * 4));
    }
  }

  FakeChannel channel;
  std::optional<Commands> commands;
};

template <typename T>
int errno_of(const Expected<T>& result) {
  return result ? 0 : result.error().errno_value;
}

TEST_F(Objects, Pd) {
  answer_words({2}, {0x77});
  const auto pd = alloc_pd(*commands);
  ASSERT_TRUE(pd);
  EXPECT_EQ(pd->handle, PdHandle{2});
  EXPECT_EQ(pd->pdn, 0x77u);
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return EBUSY; };
  const auto busy = dealloc_pd(*commands, {2});
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().what, "DEALLOC_PD (PD handle 2): something still uses it");
}

TEST_F(Objects, PdNumber) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 0x1001, std::uint32_t{0x77});
    return 0;
  };
  EXPECT_EQ(query_pdn(*commands, {2}), 0x77u);
  EXPECT_EQ(channel.last_ioctl().text(),
            "object 0x1 method 0x1000, 2 attrs\n"
            "attr 0x1000 len 0 flags 1 data 0x2\n"
            "attr 0x1001 len 4 flags 3\n");
}

TEST_F(Objects, Mr) {
  answer_words({3, 0x1000, 0x1001});
  const auto mr = register_mr(
      *commands,
      {.pd = {2}, .address = 0x7f0000001000, .length_bytes = 0x2000, .iova = 0x1234000000001000, .access = 0xf});
  ASSERT_TRUE(mr);
  EXPECT_EQ(mr->handle, MrHandle{3});
  EXPECT_EQ(mr->lkey, 0x1000u);
  EXPECT_EQ(mr->rkey, 0x1001u);
  EXPECT_EQ(sent_words(2), (Words{0x1000, 0x7f00, 0x2000, 0, 0x1000, 0x12340000, 2, 0xf}));
}

TEST_F(Objects, MrChanges) {
  answer_words({0x2000, 0x2001});
  const auto mr = reregister_mr(*commands, {3}, {.pd = PdHandle{5}});
  ASSERT_TRUE(mr);
  EXPECT_EQ(mr->handle, MrHandle{3});
  EXPECT_EQ(mr->lkey, 0x2000u);
  EXPECT_EQ(mr->rkey, 0x2001u);
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 11u);
  EXPECT_EQ(sent_words(2), (Words{3, 2, 0, 0, 0, 0, 0, 0, 5, 0}));
  ASSERT_TRUE(reregister_mr(*commands, {3}, {.access = 7}));
  EXPECT_EQ(sent_words(2), (Words{3, 4, 0, 0, 0, 0, 0, 0, 0, 7}));
  ASSERT_TRUE(reregister_mr(*commands, {3}, {.translation = MrChange::Translation{1, 2, 3}}));
  EXPECT_EQ(sent_words(2), (Words{3, 1, 1, 0, 2, 0, 3, 0, 0, 0}));
}

TEST_F(Objects, DmabufMr) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer_new(request, 0, 4);
    answer(request, 7, std::uint32_t{0x1000});
    answer(request, 8, std::uint32_t{0x1001});
    return 0;
  };
  DmabufMrRequest request{.pd = {2},
                          .dmabuf_fd = 9,
                          .offset_bytes = 0x3000,
                          .length_bytes = 0x1000,
                          .iova = 0x7f00000000123000,
                          .access = 1};
  const auto mr = register_dmabuf_mr(*commands, request);
  ASSERT_TRUE(mr);
  EXPECT_EQ(mr->handle, MrHandle{4});
  EXPECT_EQ(mr->lkey, 0x1000u);
  EXPECT_EQ(mr->rkey, 0x1001u);
  EXPECT_EQ(channel.last_ioctl().object_id, 7);
  EXPECT_EQ(channel.last_ioctl().method_id, 4);
  EXPECT_EQ(sent(1), 2u);
  EXPECT_EQ(sent(2), 0x3000u);
  EXPECT_EQ(sent(3), 0x1000u);
  EXPECT_EQ(sent(4), 0x7f00000000123000u);
  EXPECT_EQ(sent(5), 9u);
  EXPECT_EQ(sent(6), 1u);
  EXPECT_EQ(channel.last_ioctl().find(0x1000), nullptr);
  request.mlx5_access = kMlx5RegDmabufMrDataDirect;
  ASSERT_TRUE(register_dmabuf_mr(*commands, request));
  EXPECT_EQ(sent(0x1000), 1u);
}

TEST_F(Objects, MrQueryAndAdvice) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 1, std::uint32_t{10});
    answer(request, 2, std::uint32_t{11});
    answer(request, 3, std::uint64_t{12});
    answer(request, 4, std::uint64_t{13});
    return 0;
  };
  const auto mr = query_mr(*commands, {4});
  ASSERT_TRUE(mr);
  EXPECT_EQ(mr->lkey, 10u);
  EXPECT_EQ(mr->rkey, 11u);
  EXPECT_EQ(mr->length_bytes, 12u);
  EXPECT_EQ(mr->iova, 13u);
  EXPECT_EQ(sent(0), 4u);

  channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return 0; };
  const ib_uverbs_sge sges[2] = {{.addr = 1, .length = 2, .lkey = 3}, {.addr = 4, .length = 5, .lkey = 6}};
  ASSERT_TRUE(advise_mr(*commands, {2}, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1, sges));
  EXPECT_EQ(sent(0), 2u);
  EXPECT_EQ(sent(1), 1u);
  EXPECT_EQ(sent(2), 1u);
  EXPECT_EQ(channel.last_ioctl().find(3)->raw.len, 32);
}

TEST_F(Objects, Mw) {
  answer_words({5, 0x3000});
  const auto mw = alloc_mw(*commands, {2}, 2);
  ASSERT_TRUE(mw);
  EXPECT_EQ(mw->handle, MwHandle{5});
  EXPECT_EQ(mw->rkey, 0x3000u);
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 14u);
  EXPECT_EQ(sent_words(2), (Words{2, 2}));
  EXPECT_EQ(channel.last_ioctl().find(0x1000), nullptr);
  ASSERT_TRUE(dealloc_mw(*commands, {5}));
  EXPECT_EQ(channel.last_ioctl().object_id, 8);
  old_kernel();
  ASSERT_TRUE(dealloc_mw(*commands, {5}));
  EXPECT_EQ(channel.last_write().header().command, 16u);
}

TEST_F(Objects, Uar) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer_new(request, 0x1000, 5);
    answer(request, 0x1002, std::uint64_t{0x1001000});
    answer(request, 0x1003, std::uint32_t{4096});
    answer(request, 0x1004, std::uint32_t{0x21});
    return 0;
  };
  const auto uar = alloc_uar(*commands, UarType::kBlueFlame);
  ASSERT_TRUE(uar);
  EXPECT_EQ(uar->handle, UarHandle{5});
  EXPECT_EQ(uar->mmap_offset_bytes, 0x1001000u);
  EXPECT_EQ(uar->mmap_length_bytes, 4096u);
  EXPECT_EQ(uar->page_id, 0x21u);
}

TEST_F(Objects, Cq) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer_new(request, 0, 4);
    answer(request, 6, std::uint32_t{1023});
    answer(request, 0x1001, std::uint64_t{0x55});
    return 0;
  };
  mlx5_ib_create_cq driver{};
  driver.buf_addr = 0x1000;
  driver.cqe_size = 64;
  CqRequest request{.entries = 1000,
                    .user_handle = 0xabc,
                    .completion_channel_fd = 8,
                    .completion_vector = 3,
                    .async_event_fd = 5,
                    .driver = driver};
  const auto cq = create_cq(*commands, request);
  ASSERT_TRUE(cq);
  EXPECT_EQ(cq->handle, CqHandle{4});
  EXPECT_EQ(cq->entries, 1023u);
  EXPECT_EQ(cq->cqn, 0x55u);
  EXPECT_EQ(sent(3), 8u);
  EXPECT_EQ(sent(4), 3u);
  EXPECT_EQ(channel.last_ioctl().find(5), nullptr);
  EXPECT_EQ(channel.last_ioctl().find(0x1000)->as<std::uint64_t>(), 0x1000u);
  request.flags = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
  ASSERT_TRUE(create_cq(*commands, request));
  EXPECT_EQ(sent(5), 1u);
  EXPECT_EQ(channel.last_ioctl().find(5)->raw.len, 4);
}

TEST_F(Objects, CqOnOldKernels) {
  old_kernel();
  answer_write_words({4, 1023, 0x55, 0});
  const auto plain = create_cq(*commands, {.entries = 1000, .user_handle = 0xabc, .completion_vector = 3});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->handle, CqHandle{4});
  EXPECT_EQ(plain->cqn, 0x55u);
  EXPECT_EQ(channel.last_write().at<std::uint64_t>(16), 0xabcu);
  EXPECT_EQ((channel.last_write().at<std::array<std::uint32_t, 4>>(24)),
            (std::array<std::uint32_t, 4>{1000, 3, 0xffffffff, 0}));

  answer_write_words({4, 1023, 0, 16, 0x55, 0});
  const auto extended = create_cq(
      *commands,
      {.entries = 1000, .user_handle = 0xabc, .completion_channel_fd = 8, .completion_vector = 3, .flags = 1});
  ASSERT_TRUE(extended);
  EXPECT_EQ(extended->entries, 1023u);
  EXPECT_EQ(extended->cqn, 0x55u);
  EXPECT_EQ(channel.last_write().text(0, 0), "ex 18 in 32+32 out 16+8");
  EXPECT_EQ(channel.last_write().at<std::uint64_t>(24), 0xabcu);
  EXPECT_EQ((channel.last_write().at<std::array<std::uint32_t, 6>>(32)),
            (std::array<std::uint32_t, 6>{1000, 3, 8, 0, 1, 0}));
}

TEST_F(Objects, CqChanges) {
  answer_words({2047});
  mlx5_ib_resize_cq driver{};
  driver.buf_addr = 0x5000;
  EXPECT_EQ(resize_cq(*commands, {4}, 2000, driver), 2047u);
  EXPECT_EQ(sent_words(2), (Words{4, 2000}));
  EXPECT_EQ(channel.last_ioctl().find(0x1000)->raw.len, 16);
  EXPECT_EQ(channel.last_ioctl().find(0x1001), nullptr);
  ASSERT_TRUE(moderate_cq(*commands, {4}, 10, 20));
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 0x80000039u);
  EXPECT_EQ(sent_words(0), (Words{4, 1, 20 << 16 | 10, 0}));
}

TEST_F(Objects, CqEndTellsBothKindsOfEvents) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    fill(request, 1, {3, 4});
    return 0;
  };
  const auto events = destroy_cq(*commands, {4});
  ASSERT_TRUE(events);
  EXPECT_EQ(events->completion, 3u);
  EXPECT_EQ(events->async, 4u);
}

TEST_F(Objects, SrqTellsItsNumberFromTheDriversPart) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer_new(request, 0, 12);
    answer(request, 11, std::uint32_t{255});
    answer(request, 12, std::uint32_t{3});
    answer(request, 0x1001, std::uint64_t{0x99});
    return 0;
  };
  const auto srq = create_srq(*commands, {.pd = {2}, .max_wr = 200, .max_sge = 2, .limit = 7});
  ASSERT_TRUE(srq);
  EXPECT_EQ(srq->handle, SrqHandle{12});
  EXPECT_EQ(srq->max_wr, 255u);
  EXPECT_EQ(srq->max_sge, 3u);
  EXPECT_EQ(srq->srqn, 0x99u);
  EXPECT_EQ(sent(7), 7u);
}

TEST_F(Objects, XrcSrq) {
  const SrqRequest request{
      .type = IB_UVERBS_SRQT_XRC, .pd = {2}, .xrcd = XrcdHandle{6}, .cq = CqHandle{4}, .max_wr = 200};
  ASSERT_TRUE(create_srq(*commands, request));
  EXPECT_EQ(sent(2), 6u);
  EXPECT_EQ(sent(3), 4u);
  EXPECT_EQ(sent(9), 1u);
  EXPECT_NE(channel.last_ioctl().find(13), nullptr);
  EXPECT_EQ(channel.last_ioctl().find(8), nullptr) << "tags are another type's";

  old_kernel();
  answer_write_words({12, 255, 3, 0x99, 0x99, 0});
  const auto srq = create_srq(*commands, request);
  ASSERT_TRUE(srq);
  EXPECT_EQ(srq->srqn, 0x99u);
  EXPECT_EQ(channel.last_write().text(48, 16), "39 in 48+32 out 16+8");
  EXPECT_EQ((channel.last_write().at<std::array<std::uint32_t, 8>>(24)),
            (std::array<std::uint32_t, 8>{1, 2, 200, 0, 0, 0, 6, 4}));
}

TEST_F(Objects, SrqChecks) {
  channel.ioctls.clear();
  EXPECT_EQ(errno_of(create_srq(*commands, {.type = IB_UVERBS_SRQT_XRC, .cq = CqHandle{4}})), EINVAL);
  EXPECT_EQ(errno_of(create_srq(*commands, {.type = IB_UVERBS_SRQT_XRC, .xrcd = XrcdHandle{4}})), EINVAL);
  EXPECT_EQ(errno_of(create_srq(*commands, {.type = IB_UVERBS_SRQT_TM})), EINVAL);
  EXPECT_EQ(errno_of(create_srq(*commands, {.type = 3})), EINVAL);
  EXPECT_TRUE(channel.ioctls.empty());
}

TEST_F(Objects, SrqChangesAndQueries) {
  ASSERT_TRUE(modify_srq(*commands, {12}, {.max_wr = 100, .limit = 9}, 3));
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 33u);
  EXPECT_EQ(sent_words(0), (Words{12, 3, 100, 9}));
  answer_words({255, 3, 9, 0});
  const auto srq = query_srq(*commands, {12});
  ASSERT_TRUE(srq);
  EXPECT_EQ(srq->max_wr, 255u);
  EXPECT_EQ(srq->max_sge, 3u);
  EXPECT_EQ(srq->limit, 9u);
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 34u);
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    fill(request, 1, {6});
    return 0;
  };
  EXPECT_EQ(destroy_srq(*commands, {12}), 6u);
}

TEST_F(Objects, AhBringsTheMacAddress) {
  answer_words({9}, {16, 0x04030201, 0x0605, 0});
  AddressVector address{.flow_label = 1,
                        .sgid_index = 2,
                        .hop_limit = 3,
                        .traffic_class = 4,
                        .dlid = 5,
                        .sl = 6,
                        .src_path_bits = 7,
                        .static_rate = 8,
                        .is_global = true,
                        .port = 1};
  address.dgid[15] = 0x77;
  const auto ah = create_ah(*commands, {2}, 0xabc, address);
  ASSERT_TRUE(ah);
  EXPECT_EQ(ah->handle, AhHandle{9});
  EXPECT_EQ(ah->destination_mac, (std::array<std::uint8_t, 6>{1, 2, 3, 4, 5, 6}));
  const auto sent = channel.last_ioctl().find(0)->as<ib_uverbs_create_ah>();
  EXPECT_EQ(sent.user_handle, 0xabcu);
  EXPECT_EQ(sent.pd_handle, 2u);
  EXPECT_EQ(sent.attr.grh.dgid[15], 0x77);
  EXPECT_EQ(sent.attr.grh.flow_label, 1u);
  EXPECT_EQ(sent.attr.grh.sgid_index, 2);
  EXPECT_EQ(sent.attr.grh.hop_limit, 3);
  EXPECT_EQ(sent.attr.grh.traffic_class, 4);
  EXPECT_EQ(sent.attr.dlid, 5);
  EXPECT_EQ(sent.attr.sl, 6);
  EXPECT_EQ(sent.attr.src_path_bits, 7);
  EXPECT_EQ(sent.attr.static_rate, 8);
  EXPECT_EQ(sent.attr.is_global, 1);
  EXPECT_EQ(sent.attr.port_num, 1);
}

TEST_F(Objects, AhWithoutTheMacAddressIsGivenBack) {
  answer_words({9}, {4, 0, 0, 0});
  EXPECT_EQ(errno_of(create_ah(*commands, {2}, 0, {})), EOPNOTSUPP);
  EXPECT_EQ(channel.last_ioctl().text(),
            "object 0x6 method 0x0, 1 attrs\n"
            "attr 0x0000 len 0 flags 1 data 0x9\n");
}

TEST_F(Objects, Xrcd) {
  answer_words({6});
  EXPECT_EQ(open_xrcd(*commands, -1, 0100), XrcdHandle{6});
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 37u);
  EXPECT_EQ(sent_words(2), (Words{0xffffffff, 0100}));
  ASSERT_TRUE(close_xrcd(*commands, {6}));
  EXPECT_EQ(channel.last_ioctl().object_id, 10);
  old_kernel();
  ASSERT_TRUE(close_xrcd(*commands, {6}));
  EXPECT_EQ(channel.last_write().header().command, 38u);
}

}  // namespace
}  // namespace umlx5::uapi
