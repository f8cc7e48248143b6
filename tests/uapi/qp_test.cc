#include "uapi/qp.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "tests/uapi/fake_channel.h"
#include "uapi/kernel_additions.h"

namespace umlx5::uapi {
namespace {

class QpTest : public ::testing::Test {
 protected:
  void old_kernel() {
    channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return ENOTTY; };
    commands.emplace(channel);
  }

  QpTest() { commands.emplace(channel); }

  FakeChannel channel;
  std::optional<Commands> commands;
};

QpRequest full_request() {
  mlx5_ib_create_qp driver{};
  driver.buf_addr = 0x1000;
  driver.db_addr = 0x2000;
  driver.sq_wqe_count = 64;
  return {.type = IB_UVERBS_QPT_RC,
          .pd = PdHandle{1},
          .srq = SrqHandle{2},
          .send_cq = CqHandle{3},
          .recv_cq = CqHandle{4},
          .user_handle = 0xabc,
          .capabilities = {10, 20, 3, 4, 50},
          .flags = IB_UVERBS_QP_CREATE_SQ_SIG_ALL,
          .driver = driver};
}

TEST_F(QpTest, CreateByMethod) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer_new(request, UVERBS_ATTR_CREATE_QP_HANDLE, 17);
    answer(request, UVERBS_ATTR_CREATE_QP_RESP_CAP, ib_uverbs_qp_cap{11, 21, 31, 41, 51});
    answer(request, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, std::uint32_t{0x1234});
    mlx5_ib_create_qp_resp driver{};
    driver.bfreg_index = 5;
    driver.tir_icm_addr = 6;
    answer(request, 0x1001, driver);
    return 0;
  };
  const auto qp = create_qp(*commands, full_request());
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->handle, QpHandle{17});
  EXPECT_EQ(qp->qpn, 0x1234u);
  EXPECT_EQ(qp->capabilities.max_send_wr, 11u);
  EXPECT_EQ(qp->capabilities.max_inline_data, 51u);
  EXPECT_EQ(qp->driver.bfreg_index, 5u);
  EXPECT_EQ(qp->driver.tir_icm_addr, 6u);
  const FakeIoctl& sent = channel.last_ioctl();
  EXPECT_EQ(sent.find(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE)->raw.data, 2u);
  EXPECT_EQ(sent.find(UVERBS_ATTR_CREATE_QP_FLAGS)->raw.len, 4);
  EXPECT_EQ(sent.find(UVERBS_ATTR_CREATE_QP_FLAGS)->raw.data, 1u << 12);
  EXPECT_EQ(sent.find(UVERBS_ATTR_CREATE_QP_EVENT_FD), nullptr);
  EXPECT_EQ((sent.find(UVERBS_ATTR_CREATE_QP_CAP)->as<std::array<std::uint32_t, 5>>()),
            (std::array<std::uint32_t, 5>{10, 20, 3, 4, 50}));
  EXPECT_EQ(sent.find(0x1000)->as<std::uint64_t>(), 0x1000u);
}

TEST_F(QpTest, CreateByWrite) {
  old_kernel();
  channel.on_write = [](std::span<const std::byte> message) {
    answer_write(message, std::array<std::uint32_t, 8>{17, 0x1234, 11, 21, 31, 41, 51, 0},
                 mlx5_ib_create_qp_resp{.bfreg_index = 5,
                                        .ece_options = 0,
                                        .comp_mask = 0,
                                        .tirn = 0,
                                        .tisn = 0,
                                        .rqn = 0,
                                        .sqn = 0,
                                        .reserved1 = 0,
                                        .tir_icm_addr = 6});
    return 0;
  };
  const auto qp = create_qp(*commands, full_request());
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->handle, QpHandle{17});
  EXPECT_EQ(qp->qpn, 0x1234u);
  EXPECT_EQ(qp->capabilities.max_recv_sge, 41u);
  EXPECT_EQ(qp->driver.tir_icm_addr, 6u);
  // <rdma/ib_user_verbs.h>: struct ib_uverbs_create_qp, after the 8-byte header.
  const FakeWrite& sent = channel.last_write();
  EXPECT_EQ(sent.text(56, 32), "24 in 56+56 out 32+40");
  EXPECT_EQ(sent.at<std::uint64_t>(8 + 8), 0xabcu);
  EXPECT_EQ((sent.at<std::array<std::uint32_t, 9>>(8 + 16)),
            (std::array<std::uint32_t, 9>{1, 3, 4, 2, 10, 20, 3, 4, 50}));
  EXPECT_EQ((sent.at<std::array<std::uint8_t, 4>>(8 + 52)), (std::array<std::uint8_t, 4>{1, 2, 1, 0}));
  EXPECT_EQ(sent.at<std::uint64_t>(8 + 56), 0x1000u) << "the driver's part";
}

TEST_F(QpTest, FlagsNeedTheExtendedWrite) {
  old_kernel();
  channel.on_write = [](std::span<const std::byte> message) {
    answer_write(message, std::array<std::uint32_t, 10>{17, 0x1234}, mlx5_ib_create_qp_resp{});
    return 0;
  };
  QpRequest request = full_request();
  request.type = IB_UVERBS_QPT_UD;
  request.flags |= IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
  request.source_qpn = 0x77;
  const auto qp = create_qp(*commands, request);
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->qpn, 0x1234u);
  const FakeWrite& sent = channel.last_write();
  EXPECT_EQ(sent.text(0, 0), "ex 24 in 64+56 out 40+40");
  EXPECT_EQ((sent.at<std::array<std::uint8_t, 4>>(24 + 44)), (std::array<std::uint8_t, 4>{1, 4, 1, 0}));
  EXPECT_EQ(sent.at<std::uint32_t>(24 + 48), 0u) << "comp_mask";
  EXPECT_EQ(sent.at<std::uint32_t>(24 + 52), (1u << 1) | IBV_QP_CREATE_SOURCE_QPN);
  EXPECT_EQ(sent.at<std::uint32_t>(24 + 60), 0x77u);
}

TEST_F(QpTest, ReceiveSideScaling) {
  mlx5_ib_create_qp_rss rss{};
  rss.rx_hash_function = 1;
  rss.rx_key_len = 40;
  const QpRequest request{
      .type = IB_UVERBS_QPT_RAW_PACKET, .pd = PdHandle{1}, .rwq_ind_table = RwqIndTableHandle{9}, .driver = rss};
  ASSERT_TRUE(create_qp(*commands, request));
  EXPECT_EQ(channel.last_ioctl().find(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE)->raw.data, 9u);
  EXPECT_EQ(channel.last_ioctl().find(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE), nullptr);
  EXPECT_EQ(channel.last_ioctl().find(0x1000)->raw.len, 152);

  old_kernel();
  ASSERT_TRUE(create_qp(*commands, request));
  EXPECT_EQ(channel.last_write().text(0, 0), "ex 24 in 64+152 out 40+40");
  EXPECT_EQ(channel.last_write().at<std::uint32_t>(24 + 48), 1u) << "comp_mask: indirection table";
  EXPECT_EQ(channel.last_write().at<std::uint32_t>(24 + 56), 9u);
}

TEST_F(QpTest, XrcTargetHasADomainInsteadOfAPd) {
  const QpRequest request{.type = IB_UVERBS_QPT_XRC_TGT, .pd = PdHandle{1}, .xrcd = XrcdHandle{8}};
  ASSERT_TRUE(create_qp(*commands, request));
  EXPECT_EQ(channel.last_ioctl().find(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE)->raw.data, 8u);
  EXPECT_EQ(channel.last_ioctl().find(UVERBS_ATTR_CREATE_QP_PD_HANDLE), nullptr);
  old_kernel();
  ASSERT_TRUE(create_qp(*commands, request));
  EXPECT_EQ(channel.last_write().at<std::uint32_t>(8 + 16), 8u);
}

TEST_F(QpTest, WhatATypeNeedsIsChecked) {
  channel.ioctls.clear();
  for (const QpRequest& request : {QpRequest{.type = IB_UVERBS_QPT_RC}, QpRequest{.type = IB_UVERBS_QPT_XRC_TGT}}) {
    const auto qp = create_qp(*commands, request);
    ASSERT_FALSE(qp);
    EXPECT_EQ(qp.error().errno_value, EINVAL);
  }
  EXPECT_TRUE(channel.ioctls.empty());
}

QpAttributes all_attributes() {
  AddressVector primary{.flow_label = 21,
                        .sgid_index = 22,
                        .hop_limit = 23,
                        .traffic_class = 24,
                        .dlid = 25,
                        .sl = 26,
                        .src_path_bits = 27,
                        .static_rate = 28,
                        .is_global = true,
                        .port = 29};
  primary.dgid[0] = 0xfe;
  AddressVector alternate{.flow_label = 31, .port = 39};
  return {.state = 1,
          .current_state = 2,
          .path_mtu = 3,
          .path_migration_state = 4,
          .qkey = 5,
          .rq_psn = 6,
          .sq_psn = 7,
          .destination_qpn = 8,
          .access = 9,
          .primary = primary,
          .alternate = alternate,
          .pkey_index = 10,
          .alternate_pkey_index = 11,
          .notify_when_drained = 12,
          .max_rd_atomic = 13,
          .max_dest_rd_atomic = 14,
          .min_rnr_timer = 15,
          .port = 16,
          .timeout = 17,
          .retry_count = 18,
          .rnr_retry = 19,
          .alternate_port = 20,
          .alternate_timeout = 21,
          .rate_limit_kbps = 22};
}

TEST_F(QpTest, ModifySendsEveryAttribute) {
  // Bits 0-18 and 20: all that the plain command knows.
  ASSERT_TRUE(modify_qp(*commands, {5}, all_attributes(), 0x17ffff));
  const auto sent = channel.last_ioctl().find(0)->as<ib_uverbs_modify_qp>();
  EXPECT_EQ(sent.dest.dgid[0], 0xfe);
  EXPECT_EQ(sent.dest.flow_label, 21u);
  EXPECT_EQ(sent.dest.sgid_index, 22);
  EXPECT_EQ(sent.dest.hop_limit, 23);
  EXPECT_EQ(sent.dest.traffic_class, 24);
  EXPECT_EQ(sent.dest.dlid, 25);
  EXPECT_EQ(sent.dest.sl, 26);
  EXPECT_EQ(sent.dest.src_path_bits, 27);
  EXPECT_EQ(sent.dest.static_rate, 28);
  EXPECT_EQ(sent.dest.is_global, 1);
  EXPECT_EQ(sent.dest.port_num, 29);
  EXPECT_EQ(sent.alt_dest.flow_label, 31u);
  EXPECT_EQ(sent.alt_dest.port_num, 39);
  EXPECT_EQ(sent.alt_dest.is_global, 0);
  EXPECT_EQ(sent.qp_handle, 5u);
  EXPECT_EQ(sent.attr_mask, 0x17ffffu);
  EXPECT_EQ(sent.qp_state, 1);
  EXPECT_EQ(sent.cur_qp_state, 2);
  EXPECT_EQ(sent.path_mtu, 3);
  EXPECT_EQ(sent.path_mig_state, 4);
  EXPECT_EQ(sent.qkey, 5u);
  EXPECT_EQ(sent.rq_psn, 6u);
  EXPECT_EQ(sent.sq_psn, 7u);
  EXPECT_EQ(sent.dest_qp_num, 8u);
  EXPECT_EQ(sent.qp_access_flags, 9u);
  EXPECT_EQ(sent.pkey_index, 10);
  EXPECT_EQ(sent.alt_pkey_index, 11);
  EXPECT_EQ(sent.en_sqd_async_notify, 12);
  EXPECT_EQ(sent.max_rd_atomic, 13);
  EXPECT_EQ(sent.max_dest_rd_atomic, 14);
  EXPECT_EQ(sent.min_rnr_timer, 15);
  EXPECT_EQ(sent.port_num, 16);
  EXPECT_EQ(sent.timeout, 17);
  EXPECT_EQ(sent.retry_cnt, 18);
  EXPECT_EQ(sent.rnr_retry, 19);
  EXPECT_EQ(sent.alt_port_num, 20);
  EXPECT_EQ(sent.alt_timeout, 21);
}

// Each bit of the verbs' mask sends its own attribute and no other.
TEST_F(QpTest, ModifySendsNothingOutsideTheMask) {
  const auto bytes_for = [&](std::uint32_t mask) {
    EXPECT_TRUE(modify_qp(*commands, {5}, all_attributes(), mask));
    auto bytes = channel.last_ioctl().find(0)->bytes;
    std::fill_n(bytes.begin() + 68, 4, std::byte{0});  // attr_mask
    return bytes;
  };
  const auto empty = bytes_for(0);
  const auto all = bytes_for(0x17ffff);
  std::vector<int> covered(all.size());
  for (const int bit : {IBV_QP_STATE,
                        IBV_QP_CUR_STATE,
                        IBV_QP_EN_SQD_ASYNC_NOTIFY,
                        IBV_QP_ACCESS_FLAGS,
                        IBV_QP_PKEY_INDEX,
                        IBV_QP_PORT,
                        IBV_QP_QKEY,
                        IBV_QP_AV,
                        IBV_QP_PATH_MTU,
                        IBV_QP_TIMEOUT,
                        IBV_QP_RETRY_CNT,
                        IBV_QP_RNR_RETRY,
                        IBV_QP_RQ_PSN,
                        IBV_QP_MAX_QP_RD_ATOMIC,
                        IBV_QP_ALT_PATH,
                        IBV_QP_MIN_RNR_TIMER,
                        IBV_QP_SQ_PSN,
                        IBV_QP_MAX_DEST_RD_ATOMIC,
                        IBV_QP_PATH_MIG_STATE,
                        IBV_QP_DEST_QPN}) {
    const auto one = bytes_for(static_cast<std::uint32_t>(bit));
    EXPECT_NE(one, empty) << bit;
    for (std::size_t i = 0; i < one.size(); ++i) covered[i] += one[i] != empty[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(covered[i], all[i] != empty[i] ? 1 : 0) << "byte " << i;
}

TEST_F(QpTest, ModifyWithADriverPart) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 1, std::array<std::uint32_t, 2>{0, 8});
    answer(request, 0x1001, std::array<std::uint32_t, 4>{12, 0x99, 0x10000000, 0});
    return 0;
  };
  mlx5_ib_modify_qp driver{};
  driver.comp_mask = kMlx5ModifyQpOutOfOrderPlacement;
  driver.burst_info.max_burst_sz = 7;
  driver.ece_options = 0x10000000;
  const auto change = modify_qp(*commands, {5}, {.state = 2, .rate_limit_kbps = 100}, IBV_QP_STATE, driver);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->dctn, 0x99u);
  EXPECT_EQ(change->ece_options, 0x10000000u);
  EXPECT_EQ(change->response_bytes, 12u);
  EXPECT_EQ((channel.last_ioctl().find(0x1000)->as<std::array<std::uint32_t, 4>>()),
            (std::array<std::uint32_t, 4>{1, 7, 0, 0x10000000}));
  EXPECT_EQ(channel.last_ioctl().find(0)->as<ib_uverbs_ex_modify_qp>().rate_limit, 0u) << "not in the mask";
}

TEST_F(QpTest, ModifyOfTheRateLimit) {
  ASSERT_TRUE(modify_qp(*commands, {5}, {.rate_limit_kbps = 100}, IBV_QP_RATE_LIMIT));
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 0x8000001au);
  EXPECT_EQ(channel.last_ioctl().find(0)->as<ib_uverbs_ex_modify_qp>().rate_limit, 100u);
}

TEST_F(QpTest, Query) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    ib_uverbs_query_qp_resp r{};
    r.dest = {.dgid = {0xfe},
              .flow_label = 1,
              .dlid = 2,
              .reserved = 0,
              .sgid_index = 3,
              .hop_limit = 4,
              .traffic_class = 5,
              .sl = 6,
              .src_path_bits = 7,
              .static_rate = 8,
              .is_global = 1,
              .port_num = 9};
    r.alt_dest.port_num = 2;
    r.max_send_wr = 10;
    r.max_recv_wr = 11;
    r.max_send_sge = 12;
    r.max_recv_sge = 13;
    r.max_inline_data = 14;
    r.qkey = 15;
    r.rq_psn = 16;
    r.sq_psn = 17;
    r.dest_qp_num = 18;
    r.qp_access_flags = 19;
    r.pkey_index = 20;
    r.alt_pkey_index = 21;
    r.qp_state = 3;
    r.cur_qp_state = 3;
    r.path_mtu = 5;
    r.path_mig_state = 1;
    r.sq_draining = 1;
    r.max_rd_atomic = 22;
    r.max_dest_rd_atomic = 23;
    r.min_rnr_timer = 24;
    r.port_num = 1;
    r.timeout = 25;
    r.retry_cnt = 6;
    r.rnr_retry = 7;
    r.alt_port_num = 26;
    r.alt_timeout = 27;
    r.sq_sig_all = 1;
    answer(request, 1, r);
    return 0;
  };
  const auto qp = query_qp(*commands, {5}, 0x1ffff);
  ASSERT_TRUE(qp);
  EXPECT_EQ((channel.last_ioctl().find(0)->as<std::array<std::uint32_t, 4>>()[2]), 5u);
  EXPECT_EQ((channel.last_ioctl().find(0)->as<std::array<std::uint32_t, 4>>()[3]), 0x1ffffu);
  EXPECT_EQ(channel.last_ioctl().find(1)->raw.len, 128);
  EXPECT_EQ(qp->primary.dgid[0], 0xfe);
  EXPECT_EQ(qp->primary.flow_label, 1u);
  EXPECT_EQ(qp->primary.dlid, 2);
  EXPECT_EQ(qp->primary.sgid_index, 3);
  EXPECT_EQ(qp->primary.hop_limit, 4);
  EXPECT_EQ(qp->primary.traffic_class, 5);
  EXPECT_EQ(qp->primary.sl, 6);
  EXPECT_EQ(qp->primary.src_path_bits, 7);
  EXPECT_EQ(qp->primary.static_rate, 8);
  EXPECT_TRUE(qp->primary.is_global);
  EXPECT_EQ(qp->primary.port, 9);
  EXPECT_EQ(qp->alternate.port, 2);
  EXPECT_FALSE(qp->alternate.is_global);
  EXPECT_EQ(qp->capabilities.max_send_wr, 10u);
  EXPECT_EQ(qp->capabilities.max_recv_wr, 11u);
  EXPECT_EQ(qp->capabilities.max_send_sge, 12u);
  EXPECT_EQ(qp->capabilities.max_recv_sge, 13u);
  EXPECT_EQ(qp->capabilities.max_inline_data, 14u);
  EXPECT_EQ(qp->qkey, 15u);
  EXPECT_EQ(qp->rq_psn, 16u);
  EXPECT_EQ(qp->sq_psn, 17u);
  EXPECT_EQ(qp->destination_qpn, 18u);
  EXPECT_EQ(qp->access, 19u);
  EXPECT_EQ(qp->pkey_index, 20);
  EXPECT_EQ(qp->alternate_pkey_index, 21);
  EXPECT_EQ(qp->state, 3);
  EXPECT_EQ(qp->current_state, 3);
  EXPECT_EQ(qp->path_mtu, 5);
  EXPECT_EQ(qp->path_migration_state, 1);
  EXPECT_EQ(qp->draining, 1);
  EXPECT_EQ(qp->max_rd_atomic, 22);
  EXPECT_EQ(qp->max_dest_rd_atomic, 23);
  EXPECT_EQ(qp->min_rnr_timer, 24);
  EXPECT_EQ(qp->port, 1);
  EXPECT_EQ(qp->timeout, 25);
  EXPECT_EQ(qp->retry_count, 6);
  EXPECT_EQ(qp->rnr_retry, 7);
  EXPECT_EQ(qp->alternate_port, 26);
  EXPECT_EQ(qp->alternate_timeout, 27);
  EXPECT_TRUE(qp->sq_signal_all);
}

TEST_F(QpTest, DestroyTellsTheEvents) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, UVERBS_ATTR_DESTROY_QP_RESP, std::uint32_t{3});
    return 0;
  };
  EXPECT_EQ(destroy_qp(*commands, {5}), 3u);
  old_kernel();
  channel.on_write = [](std::span<const std::byte> message) {
    answer_write(message, std::uint32_t{4});
    return 0;
  };
  EXPECT_EQ(destroy_qp(*commands, {5}), 4u);
  channel.on_write = [](std::span<const std::byte>) { return EBUSY; };
  const auto busy = destroy_qp(*commands, {5});
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().what, "DESTROY_QP (QP handle 5): something still uses it");
}

TEST_F(QpTest, Multicast) {
  std::array<std::uint8_t, 16> gid{0xff, 0x0e};
  ASSERT_TRUE(attach_multicast(*commands, {5}, gid, 0xc001));
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 30u);
  EXPECT_EQ(channel.last_ioctl().find(0)->raw.len, 24);
  EXPECT_EQ(channel.last_ioctl().find(1), nullptr);
  const auto sent = channel.last_ioctl().find(0)->as<ib_uverbs_attach_mcast>();
  EXPECT_EQ(sent.gid[1], 0x0e);
  EXPECT_EQ(sent.qp_handle, 5u);
  EXPECT_EQ(sent.mlid, 0xc001);
  ASSERT_TRUE(detach_multicast(*commands, {5}, gid, 0xc001));
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 31u);
}

TEST_F(QpTest, Open) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 1, std::array<std::uint32_t, 8>{17, 0x55});
    return 0;
  };
  const auto qp = open_qp(*commands, {.xrcd = {4}, .user_handle = 1, .qpn = 0x55, .type = IB_UVERBS_QPT_XRC_TGT});
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->handle, QpHandle{17});
  EXPECT_EQ(qp->qpn, 0x55u);
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 40u);
  EXPECT_EQ(channel.last_ioctl().find(0)->raw.len, 32);
}

}  // namespace
}  // namespace umlx5::uapi
