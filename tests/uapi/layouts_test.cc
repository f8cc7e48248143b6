// Sizes of what goes to and comes from the kernel, as the kernel's interface counts them, and our own definitions
// against a second header where there is one.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstddef>

#include "uapi/device_query.h"
#include "uapi/kernel_additions.h"
#include "uapi/uar.h"

namespace umlx5::uapi {
namespace {

TEST(Layouts, IoctlNumberAndParts) {
  EXPECT_EQ(RDMA_VERBS_IOCTL, 0xc0181b01u);  // _IOWR(0x1b, 1, 24 bytes)
  EXPECT_EQ(sizeof(ib_uverbs_ioctl_hdr), 24u);
  EXPECT_EQ(sizeof(ib_uverbs_attr), 16u);
  EXPECT_EQ(offsetof(ib_uverbs_ioctl_hdr, driver_id), 16u);
  EXPECT_EQ(offsetof(ib_uverbs_attr, data), 8u);
  EXPECT_EQ(sizeof(ib_uverbs_cmd_hdr), 8u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_cmd_hdr), 16u);
}

TEST(Layouts, CoreRequestsAndAnswers) {
  EXPECT_EQ(sizeof(ib_uverbs_get_context), 8u);
  EXPECT_EQ(sizeof(ib_uverbs_get_context_resp), 8u);
  EXPECT_EQ(sizeof(ib_uverbs_query_device_resp), 176u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_query_device), 8u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_query_device_resp), 304u);
  EXPECT_EQ(sizeof(ib_uverbs_query_port), 16u);
  EXPECT_EQ(sizeof(ib_uverbs_query_port_resp), 40u);
  EXPECT_EQ(sizeof(QueryPortResponse), sizeof(ib_uverbs_query_port_resp_ex));
  EXPECT_EQ(sizeof(ib_uverbs_gid_entry), 32u);
  EXPECT_EQ(sizeof(ib_uverbs_reg_mr), 40u);
  EXPECT_EQ(sizeof(ib_uverbs_reg_mr_resp), 12u);
  EXPECT_EQ(sizeof(ib_uverbs_rereg_mr), 48u);
  EXPECT_EQ(sizeof(ib_uverbs_alloc_mw), 16u);
  EXPECT_EQ(sizeof(ib_uverbs_create_cq), 32u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_create_cq), 32u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_modify_cq), 16u);
  EXPECT_EQ(sizeof(ib_uverbs_create_srq), 32u);
  EXPECT_EQ(sizeof(ib_uverbs_create_xsrq), 48u);
  EXPECT_EQ(sizeof(ib_uverbs_create_qp), 56u);
  EXPECT_EQ(sizeof(ib_uverbs_create_qp_resp), 32u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_create_qp), 64u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_create_qp_resp), 40u);
  EXPECT_EQ(sizeof(ib_uverbs_modify_qp), 112u);
  EXPECT_EQ(sizeof(ib_uverbs_ex_modify_qp), 120u);
  EXPECT_EQ(sizeof(ib_uverbs_query_qp), 16u);
  EXPECT_EQ(sizeof(ib_uverbs_query_qp_resp), 128u);
  EXPECT_EQ(sizeof(ib_uverbs_qp_cap), 20u);
  EXPECT_EQ(sizeof(ib_uverbs_create_ah), 56u);
  EXPECT_EQ(sizeof(ib_uverbs_async_event_desc), 16u);
  EXPECT_EQ(sizeof(ib_uverbs_comp_event_desc), 8u);
}

TEST(Layouts, DriverRequestsAndAnswers) {
  EXPECT_EQ(sizeof(mlx5_ib_alloc_ucontext_req_v2), 32u);
  EXPECT_EQ(sizeof(mlx5_ib_alloc_ucontext_resp), 72u);
  EXPECT_EQ(offsetof(mlx5_ib_alloc_ucontext_resp, cqe_version), 44u);
  EXPECT_EQ(offsetof(mlx5_ib_alloc_ucontext_resp, hca_core_clock_offset), 48u);
  EXPECT_EQ(offsetof(mlx5_ib_alloc_ucontext_resp, dump_fill_mkey), 68u);
  EXPECT_EQ(sizeof(Mlx5QueryDeviceResponse), 112u);
  EXPECT_EQ(sizeof(mlx5_ib_create_cq), 32u);
  EXPECT_EQ(offsetof(mlx5_ib_create_cq, cqe_size), 16u);
  EXPECT_EQ(offsetof(mlx5_ib_create_cq, flags), 22u);
  EXPECT_EQ(offsetof(mlx5_ib_create_cq, uar_page_index), 24u);
  EXPECT_EQ(sizeof(mlx5_ib_create_cq_resp), 8u);
  EXPECT_EQ(sizeof(mlx5_ib_resize_cq), 16u);
  EXPECT_EQ(sizeof(mlx5_ib_create_srq), 32u);
  EXPECT_EQ(sizeof(mlx5_ib_create_srq_resp), 8u);
  EXPECT_EQ(sizeof(mlx5_ib_create_qp), 56u);
  EXPECT_EQ(offsetof(mlx5_ib_create_qp, uidx), 32u);
  EXPECT_EQ(offsetof(mlx5_ib_create_qp, bfreg_index), 36u);
  EXPECT_EQ(offsetof(mlx5_ib_create_qp, sq_buf_addr), 40u);
  EXPECT_EQ(offsetof(mlx5_ib_create_qp, ece_options), 48u);
  EXPECT_EQ(offsetof(mlx5_ib_create_qp, dci_streams), 52u);
  EXPECT_EQ(sizeof(mlx5_ib_create_qp_rss), 152u);
  EXPECT_EQ(sizeof(mlx5_ib_create_qp_resp), 40u);
  EXPECT_EQ(sizeof(mlx5_ib_modify_qp), 16u);
  EXPECT_EQ(sizeof(mlx5_ib_modify_qp_resp), 16u);
  EXPECT_EQ(sizeof(mlx5_ib_create_ah_resp), 16u);
  EXPECT_EQ(sizeof(mlx5_ib_clock_info), 56u);
}

TEST(Layouts, OurCodesAreTheVerbs) {
  EXPECT_EQ(static_cast<int>(LinkLayer::kInfiniBand), IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(static_cast<int>(LinkLayer::kEthernet), IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(static_cast<int>(GidType::kInfiniBand), IBV_GID_TYPE_IB);
  EXPECT_EQ(static_cast<int>(GidType::kRoceV1), IBV_GID_TYPE_ROCE_V1);
  EXPECT_EQ(static_cast<int>(GidType::kRoceV2), IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(static_cast<int>(UarType::kBlueFlame), MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF);
  EXPECT_EQ(static_cast<int>(UarType::kNonCached), MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC);
  EXPECT_EQ(static_cast<int>(StaticUarMap::kRegular), MLX5_IB_MMAP_REGULAR_PAGE);
  EXPECT_EQ(static_cast<int>(StaticUarMap::kWriteCombining), MLX5_IB_MMAP_WC_PAGE);
  EXPECT_EQ(static_cast<int>(StaticUarMap::kNonCached), MLX5_IB_MMAP_NC_PAGE);
  EXPECT_EQ(static_cast<int>(StaticUarMap::kAllocWriteCombining), MLX5_IB_MMAP_ALLOC_WC);
}

}  // namespace
}  // namespace umlx5::uapi
