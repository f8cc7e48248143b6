#include "tools/softhca/kernel/methods.h"

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <algorithm>
#include <cstddef>

#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca::kernel {
namespace {

// ---- Attribute specifications, as the kernel's method definitions have them ----

constexpr std::uint16_t kConstBytes = 8;  // constants travel as 64-bit words

constexpr AttrSpec in(std::uint16_t id, std::uint16_t bytes) {
  return {.id = id, .kind = AttrKind::kIn, .min_bytes = bytes, .max_bytes = bytes};
}
constexpr AttrSpec in_at_least(std::uint16_t id, std::uint16_t bytes) {
  return {.id = id, .kind = AttrKind::kIn, .min_bytes = bytes};
}
constexpr AttrSpec constant(std::uint16_t id) { return in(id, kConstBytes); }
constexpr AttrSpec flags(std::uint16_t id) {
  return {.id = id, .kind = AttrKind::kIn, .mandatory = false, .min_bytes = 4, .max_bytes = 8};
}
constexpr AttrSpec out(std::uint16_t id, std::uint16_t bytes) {
  return {.id = id, .kind = AttrKind::kOut, .min_bytes = bytes, .max_bytes = bytes};
}
constexpr AttrSpec out_at_least(std::uint16_t id, std::uint16_t bytes) {
  return {.id = id, .kind = AttrKind::kOut, .min_bytes = bytes};
}
constexpr AttrSpec handle(std::uint16_t id, Access access, std::uint16_t object) {
  return {.id = id, .kind = AttrKind::kHandle, .access = access, .object_type = object};
}
constexpr AttrSpec fd(std::uint16_t id, Access access, std::uint16_t object) {
  return {.id = id, .kind = AttrKind::kFd, .access = access, .object_type = object};
}
constexpr AttrSpec optional(AttrSpec spec) {
  spec.mandatory = false;
  return spec;
}
constexpr AttrSpec kDriverIn = {.id = UVERBS_ATTR_UHW_IN, .kind = AttrKind::kIn, .mandatory = false};
constexpr AttrSpec kDriverOut = {.id = UVERBS_ATTR_UHW_OUT, .kind = AttrKind::kOut, .mandatory = false};

constexpr AttrSpec kInvokeWrite[] = {optional(in_at_least(UVERBS_ATTR_CORE_IN, 4)),
                                     optional(out_at_least(UVERBS_ATTR_CORE_OUT, 0)), constant(UVERBS_ATTR_WRITE_CMD),
                                     kDriverIn, kDriverOut};
constexpr AttrSpec kGetContext[] = {optional(out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4)),
                                    optional(out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8)), kDriverIn, kDriverOut};
constexpr AttrSpec kQueryContext[] = {
    optional(out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4)),
    optional(out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8)),
    out_at_least(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, offsetof(mlx5_ib_alloc_ucontext_resp, dump_fill_mkey))};
constexpr AttrSpec kQueryPort[] = {constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM),
                                   out_at_least(UVERBS_ATTR_QUERY_PORT_RESP, sizeof(ib_uverbs_query_port_resp))};
constexpr AttrSpec kQueryGidTable[] = {
    constant(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE), flags(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS),
    out_at_least(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0), out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8)};
constexpr AttrSpec kQueryGidEntry[] = {
    constant(UVERBS_ATTR_QUERY_GID_ENTRY_PORT), constant(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
    flags(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS),
    out_at_least(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, sizeof(ib_uverbs_gid_entry))};
constexpr AttrSpec kAsyncAlloc[] = {
    fd(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, Access::kNew, UVERBS_OBJECT_ASYNC_EVENT)};

constexpr AttrSpec kDestroyPd[] = {handle(UVERBS_ATTR_DESTROY_PD_HANDLE, Access::kDestroy, UVERBS_OBJECT_PD)};
constexpr AttrSpec kDestroyXrcd[] = {handle(UVERBS_ATTR_DESTROY_XRCD_HANDLE, Access::kDestroy, UVERBS_OBJECT_XRCD)};
constexpr AttrSpec kDestroyMr[] = {handle(UVERBS_ATTR_DESTROY_MR_HANDLE, Access::kDestroy, UVERBS_OBJECT_MR)};
constexpr AttrSpec kDestroyMw[] = {handle(UVERBS_ATTR_DESTROY_MW_HANDLE, Access::kDestroy, UVERBS_OBJECT_MW)};
constexpr AttrSpec kDestroyAh[] = {handle(UVERBS_ATTR_DESTROY_AH_HANDLE, Access::kDestroy, UVERBS_OBJECT_AH)};
constexpr AttrSpec kQueryPd[] = {handle(MLX5_IB_ATTR_QUERY_PD_HANDLE, Access::kRead, UVERBS_OBJECT_PD),
                                 out(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, 4)};
constexpr AttrSpec kQueryMr[] = {handle(UVERBS_ATTR_QUERY_MR_HANDLE, Access::kRead, UVERBS_OBJECT_MR),
                                 out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4), out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4),
                                 out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8),
                                 optional(out(UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8))};

constexpr AttrSpec kAdviseMr[] = {handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, Access::kRead, UVERBS_OBJECT_PD),
                                  constant(UVERBS_ATTR_ADVISE_MR_ADVICE), flags(UVERBS_ATTR_ADVISE_MR_FLAGS),
                                  in_at_least(UVERBS_ATTR_ADVISE_MR_SGE_LIST, sizeof(ib_uverbs_sge))};
constexpr AttrSpec kAllocDm[] = {handle(UVERBS_ATTR_ALLOC_DM_HANDLE, Access::kNew, UVERBS_OBJECT_DM),
                                 in(UVERBS_ATTR_ALLOC_DM_LENGTH, 8),
                                 in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4),
                                 out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, 8),
                                 out(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, 2),
                                 optional(constant(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE))};
constexpr AttrSpec kFreeDm[] = {handle(UVERBS_ATTR_FREE_DM_HANDLE, Access::kDestroy, UVERBS_OBJECT_DM)};
constexpr AttrSpec kQueryDm[] = {handle(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, Access::kRead, UVERBS_OBJECT_DM),
                                 out(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, 8),
                                 out(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, 2),
                                 out(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, 8)};
constexpr AttrSpec kMapDmOpAddr[] = {handle(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE, Access::kRead, UVERBS_OBJECT_DM),
                                     in(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP, 1),
                                     out(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET, 8),
                                     out(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX, 2)};
constexpr AttrSpec kRegDmMr[] = {handle(UVERBS_ATTR_REG_DM_MR_HANDLE, Access::kNew, UVERBS_OBJECT_MR),
                                 in(UVERBS_ATTR_REG_DM_MR_OFFSET, 8),
                                 in(UVERBS_ATTR_REG_DM_MR_LENGTH, 8),
                                 handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, Access::kRead, UVERBS_OBJECT_PD),
                                 flags(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS),
                                 handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, Access::kRead, UVERBS_OBJECT_DM),
                                 out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4),
                                 out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4)};

constexpr AttrSpec kCreateCq[] = {
    handle(UVERBS_ATTR_CREATE_CQ_HANDLE, Access::kNew, UVERBS_OBJECT_CQ),
    in(UVERBS_ATTR_CREATE_CQ_CQE, 4),
    in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8),
    optional(fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, Access::kRead, UVERBS_OBJECT_COMP_CHANNEL)),
    in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4),
    flags(UVERBS_ATTR_CREATE_CQ_FLAGS),
    out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4),
    optional(fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD, Access::kRead, UVERBS_OBJECT_ASYNC_EVENT)),
    kDriverIn,
    kDriverOut};
constexpr AttrSpec kDestroyCq[] = {handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, Access::kDestroy, UVERBS_OBJECT_CQ),
                                   out(UVERBS_ATTR_DESTROY_CQ_RESP, sizeof(ib_uverbs_destroy_cq_resp))};

constexpr AttrSpec kCreateSrq[] = {
    handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, Access::kNew, UVERBS_OBJECT_SRQ),
    handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, Access::kRead, UVERBS_OBJECT_PD),
    constant(UVERBS_ATTR_CREATE_SRQ_TYPE),
    in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 8),
    in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, 4),
    in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 4),
    in(UVERBS_ATTR_CREATE_SRQ_LIMIT, 4),
    optional(handle(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, Access::kRead, UVERBS_OBJECT_XRCD)),
    optional(handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, Access::kRead, UVERBS_OBJECT_CQ)),
    optional(in(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, 4)),
    optional(fd(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, Access::kRead, UVERBS_OBJECT_ASYNC_EVENT)),
    out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4),
    out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4),
    optional(out(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, 4)),
    kDriverIn,
    kDriverOut};
constexpr AttrSpec kDestroySrq[] = {handle(UVERBS_ATTR_DESTROY_SRQ_HANDLE, Access::kDestroy, UVERBS_OBJECT_SRQ),
                                    out(UVERBS_ATTR_DESTROY_SRQ_RESP, sizeof(ib_uverbs_destroy_srq_resp))};

constexpr AttrSpec kCreateQp[] = {
    handle(UVERBS_ATTR_CREATE_QP_HANDLE, Access::kNew, UVERBS_OBJECT_QP),
    optional(handle(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, Access::kRead, UVERBS_OBJECT_XRCD)),
    optional(handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, Access::kRead, UVERBS_OBJECT_PD)),
    optional(handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, Access::kRead, UVERBS_OBJECT_SRQ)),
    optional(handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, Access::kRead, UVERBS_OBJECT_CQ)),
    optional(handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, Access::kRead, UVERBS_OBJECT_CQ)),
    optional(handle(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, Access::kRead, UVERBS_OBJECT_RWQ_IND_TBL)),
    in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8),
    in(UVERBS_ATTR_CREATE_QP_CAP, sizeof(ib_uverbs_qp_cap)),
    constant(UVERBS_ATTR_CREATE_QP_TYPE),
    flags(UVERBS_ATTR_CREATE_QP_FLAGS),
    optional(in(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, 4)),
    optional(fd(UVERBS_ATTR_CREATE_QP_EVENT_FD, Access::kRead, UVERBS_OBJECT_ASYNC_EVENT)),
    out(UVERBS_ATTR_CREATE_QP_RESP_CAP, sizeof(ib_uverbs_qp_cap)),
    out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4),
    kDriverIn,
    kDriverOut};
constexpr AttrSpec kDestroyQp[] = {handle(UVERBS_ATTR_DESTROY_QP_HANDLE, Access::kDestroy, UVERBS_OBJECT_QP),
                                   out(UVERBS_ATTR_DESTROY_QP_RESP, sizeof(ib_uverbs_destroy_qp_resp))};

constexpr AttrSpec kCreateWq[] = {
    handle(UVERBS_ATTR_CREATE_WQ_HANDLE, Access::kNew, UVERBS_OBJECT_WQ),
    handle(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, Access::kRead, UVERBS_OBJECT_PD),
    handle(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, Access::kRead, UVERBS_OBJECT_CQ),
    in(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, 8),
    constant(UVERBS_ATTR_CREATE_WQ_TYPE),
    optional(fd(UVERBS_ATTR_CREATE_WQ_EVENT_FD, Access::kRead, UVERBS_OBJECT_ASYNC_EVENT)),
    in(UVERBS_ATTR_CREATE_WQ_MAX_WR, 4),
    in(UVERBS_ATTR_CREATE_WQ_MAX_SGE, 4),
    flags(UVERBS_ATTR_CREATE_WQ_FLAGS),
    out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, 4),
    out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, 4),
    optional(out(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, 4)),
    kDriverIn,
    kDriverOut};
constexpr AttrSpec kDestroyWq[] = {handle(UVERBS_ATTR_DESTROY_WQ_HANDLE, Access::kDestroy, UVERBS_OBJECT_WQ),
                                   out(UVERBS_ATTR_DESTROY_WQ_RESP, 4)};
constexpr AttrSpec kDestroyRwqIndTable[] = {
    handle(UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, Access::kDestroy, UVERBS_OBJECT_RWQ_IND_TBL)};
constexpr AttrSpec kDestroyFlow[] = {handle(UVERBS_ATTR_DESTROY_FLOW_HANDLE, Access::kDestroy, UVERBS_OBJECT_FLOW)};

constexpr AttrSpec kAllocUar[] = {
    handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, Access::kNew, MLX5_IB_OBJECT_UAR),
    constant(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE), out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 8),
    out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4), out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 4)};
constexpr AttrSpec kDestroyUar[] = {handle(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, Access::kDestroy, MLX5_IB_OBJECT_UAR)};
constexpr AttrSpec kDevxCreate[] = {handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, Access::kNew, MLX5_IB_OBJECT_DEVX_OBJ),
                                    in_at_least(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, 16),
                                    out_at_least(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, 16)};
constexpr AttrSpec kDevxDestroy[] = {
    handle(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, Access::kDestroy, MLX5_IB_OBJECT_DEVX_OBJ)};
constexpr AttrSpec kDevxModify[] = {handle(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, Access::kRead, kAnyObject),
                                    in_at_least(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, 16),
                                    out_at_least(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, 16)};
constexpr AttrSpec kDevxQuery[] = {handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, Access::kRead, kAnyObject),
                                   in_at_least(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, 16),
                                   out_at_least(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, 16)};
constexpr AttrSpec kDevxOther[] = {in_at_least(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, 16),
                                   out_at_least(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, 16)};
constexpr AttrSpec kDevxRegisterUmem[] = {
    handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, Access::kNew, MLX5_IB_OBJECT_DEVX_UMEM),
    in(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, 8),
    in(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, 8),
    flags(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS),
    out(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, 4),
    optional(in(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, 8))};
constexpr AttrSpec kDevxDeregisterUmem[] = {
    handle(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, Access::kDestroy, MLX5_IB_OBJECT_DEVX_UMEM)};
constexpr AttrSpec kDevxOpenEvents[] = {
    fd(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, Access::kNew, MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD),
    flags(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS)};
constexpr AttrSpec kDevxSubscribe[] = {
    fd(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, Access::kRead, MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD),
    optional(handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, Access::kRead, MLX5_IB_OBJECT_DEVX_OBJ)),
    in_at_least(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, 2),
    optional(in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, 4)),
    optional(in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, 8))};
constexpr AttrSpec kDevxQueryEqn[] = {in(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, 4),
                                      out(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, 4)};

namespace h = handlers;

constexpr Method kMethods[] = {
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, "DEVICE.INVOKE_WRITE", kInvokeWrite, h::invoke_write, false},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, "DEVICE.GET_CONTEXT", kGetContext, h::get_context, false},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, "DEVICE.QUERY_CONTEXT", kQueryContext, h::query_context},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, "DEVICE.QUERY_PORT", kQueryPort, h::query_port},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, "DEVICE.QUERY_GID_TABLE", kQueryGidTable, h::query_gid_table},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, "DEVICE.QUERY_GID_ENTRY", kQueryGidEntry, h::query_gid_entry},
    {UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, "ASYNC_EVENT.ALLOC", kAsyncAlloc, h::alloc_async_fd},
    {UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, "PD.DESTROY", kDestroyPd, h::destroy},
    {UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, "mlx5 PD.QUERY", kQueryPd, h::query_pd},
    {UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, "XRCD.DESTROY", kDestroyXrcd, h::destroy},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, "MR.DESTROY", kDestroyMr, h::destroy},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, "MR.QUERY", kQueryMr, h::query_mr},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, "MR.ADVISE", kAdviseMr, h::advise_mr},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, "MR.REG_DM", kRegDmMr, h::reg_dm_mr},
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, "DM.ALLOC", kAllocDm, h::alloc_dm},
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, "DM.FREE", kFreeDm, h::destroy},
    {UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, "mlx5 DM.QUERY", kQueryDm, h::query_dm},
    {UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR, "mlx5 DM.MAP_OP_ADDR", kMapDmOpAddr, h::map_dm_op_addr},
    {UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, "MW.DESTROY", kDestroyMw, h::destroy},
    {UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, "AH.DESTROY", kDestroyAh, h::destroy},
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, "CQ.CREATE", kCreateCq, h::create_cq},
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, "CQ.DESTROY", kDestroyCq, h::destroy_cq},
    {UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, "SRQ.CREATE", kCreateSrq, h::create_srq},
    {UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, "SRQ.DESTROY", kDestroySrq, h::destroy_srq},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, "QP.CREATE", kCreateQp, h::create_qp},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, "QP.DESTROY", kDestroyQp, h::destroy_qp},
    {UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, "WQ.CREATE", kCreateWq, h::create_wq},
    {UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, "WQ.DESTROY", kDestroyWq, h::destroy_wq},
    {UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY, "RWQ_IND_TBL.DESTROY", kDestroyRwqIndTable,
     h::destroy},
    {UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, "FLOW.DESTROY", kDestroyFlow, h::destroy},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, "mlx5 UAR.ALLOC", kAllocUar, h::alloc_uar},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, "mlx5 UAR.DESTROY", kDestroyUar, h::destroy},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, "mlx5 DEVX_OBJ.CREATE", kDevxCreate, h::devx_create},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, "mlx5 DEVX_OBJ.DESTROY", kDevxDestroy, h::destroy},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, "mlx5 DEVX_OBJ.MODIFY", kDevxModify, h::devx_modify},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, "mlx5 DEVX_OBJ.QUERY", kDevxQuery, h::devx_query},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, "mlx5 DEVX.OTHER", kDevxOther, h::devx_other},
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, "mlx5 DEVX_UMEM.REG", kDevxRegisterUmem,
     h::devx_register_umem},
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, "mlx5 DEVX_UMEM.DEREG", kDevxDeregisterUmem, h::destroy},
    {MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC, "mlx5 DEVX_ASYNC_EVENT_FD.ALLOC",
     kDevxOpenEvents, h::devx_open_events},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, "mlx5 DEVX.SUBSCRIBE_EVENT", kDevxSubscribe,
     h::devx_subscribe},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, "mlx5 DEVX.QUERY_EQN", kDevxQueryEqn, h::devx_query_eqn},
};

constexpr std::uint32_t kEx = IB_USER_VERBS_CMD_FLAG_EXTENDED;
template <typename T>
constexpr std::size_t through_response_length() {
  return offsetof(T, response_length) + sizeof(T::response_length);
}

constexpr WriteCommand kWriteCommands[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, "GET_CONTEXT", 8, 8, true, true, h::write_get_context, false},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, "QUERY_DEVICE", 8, sizeof(ib_uverbs_query_device_resp), true, false,
     h::write_query_device},
    {IB_USER_VERBS_CMD_QUERY_PORT, "QUERY_PORT", 16, sizeof(ib_uverbs_query_port_resp), true, false,
     h::write_query_port},
    {IB_USER_VERBS_CMD_ALLOC_PD, "ALLOC_PD", 8, 4, true, true, h::alloc_pd},
    {IB_USER_VERBS_CMD_DEALLOC_PD, "DEALLOC_PD", 4, 0, false, false, h::write_dealloc_pd},
    {IB_USER_VERBS_CMD_CREATE_AH, "CREATE_AH", 56, 4, true, true, h::create_ah},
    {IB_USER_VERBS_CMD_DESTROY_AH, "DESTROY_AH", 4, 0, false, false, h::write_destroy_ah},
    {IB_USER_VERBS_CMD_REG_MR, "REG_MR", 40, 12, true, true, h::reg_mr},
    {IB_USER_VERBS_CMD_REREG_MR, "REREG_MR", 48, 8, true, true, h::rereg_mr},
    {IB_USER_VERBS_CMD_DEREG_MR, "DEREG_MR", 4, 0, false, false, h::write_dereg_mr},
    {IB_USER_VERBS_CMD_ALLOC_MW, "ALLOC_MW", 16, 8, true, true, h::alloc_mw},
    {IB_USER_VERBS_CMD_DEALLOC_MW, "DEALLOC_MW", 4, 0, false, false, h::write_dealloc_mw},
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "CREATE_COMP_CHANNEL", 8, 4, true, false, h::create_comp_channel},
    {IB_USER_VERBS_CMD_CREATE_CQ, "CREATE_CQ", 32, 8, true, true, h::write_create_cq},
    {IB_USER_VERBS_CMD_RESIZE_CQ, "RESIZE_CQ", 16, 4, true, true, h::resize_cq},
    {IB_USER_VERBS_CMD_DESTROY_CQ, "DESTROY_CQ", 16, 8, true, false, h::write_destroy_cq},
    {IB_USER_VERBS_CMD_CREATE_QP, "CREATE_QP", 56, 32, true, true, h::write_create_qp},
    {IB_USER_VERBS_CMD_OPEN_QP, "OPEN_QP", sizeof(ib_uverbs_open_qp), sizeof(ib_uverbs_create_qp_resp), true, true,
     h::open_qp},
    {IB_USER_VERBS_CMD_QUERY_QP, "QUERY_QP", 16, sizeof(ib_uverbs_query_qp_resp), true, false, h::query_qp},
    {IB_USER_VERBS_CMD_MODIFY_QP, "MODIFY_QP", sizeof(ib_uverbs_modify_qp), 0, false, false, h::modify_qp},
    {IB_USER_VERBS_CMD_DESTROY_QP, "DESTROY_QP", 16, 4, true, false, h::write_destroy_qp},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, "ATTACH_MCAST", sizeof(ib_uverbs_attach_mcast), 0, false, false, h::attach_mcast},
    {IB_USER_VERBS_CMD_DETACH_MCAST, "DETACH_MCAST", sizeof(ib_uverbs_detach_mcast), 0, false, false, h::detach_mcast},
    {IB_USER_VERBS_CMD_CREATE_SRQ, "CREATE_SRQ", 32, 16, true, true, h::write_create_srq},
    {IB_USER_VERBS_CMD_MODIFY_SRQ, "MODIFY_SRQ", 16, 0, false, true, h::modify_srq},
    {IB_USER_VERBS_CMD_QUERY_SRQ, "QUERY_SRQ", 16, 16, true, false, h::query_srq},
    {IB_USER_VERBS_CMD_DESTROY_SRQ, "DESTROY_SRQ", 16, 4, true, false, h::write_destroy_srq},
    {IB_USER_VERBS_CMD_OPEN_XRCD, "OPEN_XRCD", 16, 4, true, true, h::open_xrcd},
    {IB_USER_VERBS_CMD_CLOSE_XRCD, "CLOSE_XRCD", 4, 0, false, false, h::write_close_xrcd},
    {IB_USER_VERBS_CMD_CREATE_XSRQ, "CREATE_XSRQ", 48, 16, true, true, h::write_create_xsrq},
    {kEx | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "EX_QUERY_DEVICE", 8,
     through_response_length<ib_uverbs_ex_query_device_resp>(), true, true, h::ex_query_device},
    {kEx | IB_USER_VERBS_EX_CMD_CREATE_CQ, "EX_CREATE_CQ", sizeof(ib_uverbs_ex_create_cq),
     through_response_length<ib_uverbs_ex_create_cq_resp>(), true, true, h::ex_create_cq},
    {kEx | IB_USER_VERBS_EX_CMD_CREATE_QP, "EX_CREATE_QP", offsetof(ib_uverbs_ex_create_qp, comp_mask) + 4,
     through_response_length<ib_uverbs_ex_create_qp_resp>(), true, true, h::ex_create_qp},
    {kEx | IB_USER_VERBS_EX_CMD_MODIFY_QP, "EX_MODIFY_QP", sizeof(ib_uverbs_modify_qp),
     through_response_length<ib_uverbs_ex_modify_qp_resp>(), true, true, h::ex_modify_qp},
    {kEx | IB_USER_VERBS_EX_CMD_CREATE_WQ, "EX_CREATE_WQ", sizeof(ib_uverbs_ex_create_wq),
     sizeof(ib_uverbs_ex_create_wq_resp), true, true, h::ex_create_wq},
    {kEx | IB_USER_VERBS_EX_CMD_MODIFY_WQ, "EX_MODIFY_WQ", sizeof(ib_uverbs_ex_modify_wq), 0, false, true,
     h::ex_modify_wq},
    {kEx | IB_USER_VERBS_EX_CMD_DESTROY_WQ, "EX_DESTROY_WQ", sizeof(ib_uverbs_ex_destroy_wq),
     sizeof(ib_uverbs_ex_destroy_wq_resp), true, false, h::ex_destroy_wq},
    {kEx | IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, "EX_CREATE_RWQ_IND_TBL", sizeof(ib_uverbs_ex_create_rwq_ind_table),
     sizeof(ib_uverbs_ex_create_rwq_ind_table_resp), true, true, h::ex_create_rwq_ind_table},
    {kEx | IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, "EX_DESTROY_RWQ_IND_TBL",
     sizeof(ib_uverbs_ex_destroy_rwq_ind_table), 0, false, false, h::ex_destroy_rwq_ind_table},
    {kEx | IB_USER_VERBS_EX_CMD_CREATE_FLOW, "EX_CREATE_FLOW", sizeof(ib_uverbs_create_flow),
     sizeof(ib_uverbs_create_flow_resp), true, true, h::create_flow},
    {kEx | IB_USER_VERBS_EX_CMD_DESTROY_FLOW, "EX_DESTROY_FLOW", sizeof(ib_uverbs_destroy_flow), 0, false, false,
     h::write_destroy_flow},
    {kEx | IB_USER_VERBS_EX_CMD_MODIFY_CQ, "EX_MODIFY_CQ", sizeof(ib_uverbs_ex_modify_cq), 0, false, false,
     h::ex_modify_cq},
};

}  // namespace

const Method* find_method(std::uint16_t object, std::uint16_t method) {
  const auto* const found =
      std::ranges::find_if(kMethods, [&](const Method& m) { return m.object == object && m.method == method; });
  return found == std::end(kMethods) ? nullptr : found;
}

const WriteCommand* find_write_command(std::uint32_t command) {
  const auto* const found = std::ranges::find(kWriteCommands, command, &WriteCommand::command);
  return found == std::end(kWriteCommands) ? nullptr : found;
}

std::string method_name(std::uint16_t object, std::uint16_t method) {
  static constexpr std::string_view kCoreObjects[] = {
      "DEVICE", "PD",   "COMP_CHANNEL", "CQ", "QP",          "SRQ", "AH",       "MR",          "MW",
      "FLOW",   "XRCD", "RWQ_IND_TBL",  "WQ", "FLOW_ACTION", "DM",  "COUNTERS", "ASYNC_EVENT", "DMAH"};
  static constexpr std::string_view kDriverObjects[] = {
      "DEVX", "DEVX_OBJ", "DEVX_UMEM", "FLOW_MATCHER",   "DEVX_ASYNC_CMD_FD", "DEVX_ASYNC_EVENT_FD",
      "VAR",  "PP",       "UAR",       "STEERING_ANCHOR"};
  if (const Method* const known = find_method(object, method); known != nullptr) {
    return std::string(known->name);
  }
  if (object < std::size(kCoreObjects)) {
    return fmt::format("{} method {:#x} (not supported)", kCoreObjects[object], method);
  }
  const std::size_t driver_object = object - UVERBS_UDATA_DRIVER_DATA_FLAG;
  if (object >= UVERBS_UDATA_DRIVER_DATA_FLAG && driver_object < std::size(kDriverObjects)) {
    return fmt::format("mlx5 {} method {:#x} (not supported)", kDriverObjects[driver_object], method);
  }
  return fmt::format("object {:#x} method {:#x} (unknown)", object, method);
}

std::string write_command_name(std::uint32_t command) {
  const WriteCommand* const known = find_write_command(command);
  return known != nullptr ? std::string(known->name) : fmt::format("write command {:#x} (not supported)", command);
}

namespace handlers {

int invoke_write(Request& request) {
  return request.file().invoke_write(request, request.value<std::uint64_t>(UVERBS_ATTR_WRITE_CMD));
}

int destroy(Request& request) { return request.destroy_only_object(); }

}  // namespace handlers
}  // namespace softhca::kernel
