// Debian's private interface between libibverbs and the providers of the same release (IBVERBS_PRIVATE_34).
//
// This library has its driver built in and loads no provider, so most of the interface has nothing to work on: the
// names are there, that programs which refer to them still start, and refuse. What programs themselves use is real.
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"

using namespace umlx5::verbs;

#define UMLX5_REFUSES(name) \
  int name() { return unsupported(#name); }
#define UMLX5_REFUSES_NULL(name) \
  void* name() { return unsupported_null(#name); }
#define UMLX5_IGNORES(name) \
  void name() { unsupported(#name); }

extern "C" {

extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy = false;

ibv_context* verbs_open_device(ibv_device* device, void* /*private_data*/) {
  ContextObject* context = object_of(device).open(object_of(device), {});
  return context == nullptr ? nullptr : &context->verbs.context;
}

// Counts characters, so that its failure is -1.
int ibv_read_ibdev_sysfs_file() {
  unsupported("ibv_read_ibdev_sysfs_file");
  return -1;
}

UMLX5_REFUSES(__ioctl_final_num_attrs)
UMLX5_REFUSES(execute_ioctl)
UMLX5_REFUSES(ibv_cmd_advise_mr)
UMLX5_REFUSES(ibv_cmd_alloc_dm)
UMLX5_REFUSES(ibv_cmd_alloc_mw)
UMLX5_REFUSES(ibv_cmd_alloc_pd)
UMLX5_REFUSES(ibv_cmd_attach_mcast)
UMLX5_REFUSES(ibv_cmd_close_xrcd)
UMLX5_REFUSES(ibv_cmd_create_ah)
UMLX5_REFUSES(ibv_cmd_create_counters)
UMLX5_REFUSES(ibv_cmd_create_cq)
UMLX5_REFUSES(ibv_cmd_create_cq_ex)
UMLX5_REFUSES(ibv_cmd_create_flow)
UMLX5_REFUSES(ibv_cmd_create_flow_action_esp)
UMLX5_REFUSES(ibv_cmd_create_qp)
UMLX5_REFUSES(ibv_cmd_create_qp_ex)
UMLX5_REFUSES(ibv_cmd_create_qp_ex2)
UMLX5_REFUSES(ibv_cmd_create_rwq_ind_table)
UMLX5_REFUSES(ibv_cmd_create_srq)
UMLX5_REFUSES(ibv_cmd_create_srq_ex)
UMLX5_REFUSES(ibv_cmd_create_wq)
UMLX5_REFUSES(ibv_cmd_dealloc_mw)
UMLX5_REFUSES(ibv_cmd_dealloc_pd)
UMLX5_REFUSES(ibv_cmd_dereg_mr)
UMLX5_REFUSES(ibv_cmd_destroy_ah)
UMLX5_REFUSES(ibv_cmd_destroy_counters)
UMLX5_REFUSES(ibv_cmd_destroy_cq)
UMLX5_REFUSES(ibv_cmd_destroy_flow)
UMLX5_REFUSES(ibv_cmd_destroy_flow_action)
UMLX5_REFUSES(ibv_cmd_destroy_qp)
UMLX5_REFUSES(ibv_cmd_destroy_rwq_ind_table)
UMLX5_REFUSES(ibv_cmd_destroy_srq)
UMLX5_REFUSES(ibv_cmd_destroy_wq)
UMLX5_REFUSES(ibv_cmd_detach_mcast)
UMLX5_REFUSES(ibv_cmd_free_dm)
UMLX5_REFUSES(ibv_cmd_get_context)
UMLX5_REFUSES(ibv_cmd_modify_cq)
UMLX5_REFUSES(ibv_cmd_modify_flow_action_esp)
UMLX5_REFUSES(ibv_cmd_modify_qp)
UMLX5_REFUSES(ibv_cmd_modify_qp_ex)
UMLX5_REFUSES(ibv_cmd_modify_srq)
UMLX5_REFUSES(ibv_cmd_modify_wq)
UMLX5_REFUSES(ibv_cmd_open_qp)
UMLX5_REFUSES(ibv_cmd_open_xrcd)
UMLX5_REFUSES(ibv_cmd_poll_cq)
UMLX5_REFUSES(ibv_cmd_post_recv)
UMLX5_REFUSES(ibv_cmd_post_send)
UMLX5_REFUSES(ibv_cmd_post_srq_recv)
UMLX5_REFUSES(ibv_cmd_query_context)
UMLX5_REFUSES(ibv_cmd_query_device_any)
UMLX5_REFUSES(ibv_cmd_query_mr)
UMLX5_REFUSES(ibv_cmd_query_port)
UMLX5_REFUSES(ibv_cmd_query_qp)
UMLX5_REFUSES(ibv_cmd_query_srq)
UMLX5_REFUSES(ibv_cmd_read_counters)
UMLX5_REFUSES(ibv_cmd_reg_dm_mr)
UMLX5_REFUSES(ibv_cmd_reg_dmabuf_mr)
UMLX5_REFUSES(ibv_cmd_reg_mr)
UMLX5_REFUSES(ibv_cmd_req_notify_cq)
UMLX5_REFUSES(ibv_cmd_rereg_mr)
UMLX5_REFUSES(ibv_cmd_resize_cq)

UMLX5_REFUSES_NULL(_verbs_init_and_alloc_context)

UMLX5_IGNORES(__verbs_log)
UMLX5_IGNORES(verbs_init_cq)
UMLX5_IGNORES(verbs_register_driver_34)
UMLX5_IGNORES(verbs_set_ops)
UMLX5_IGNORES(verbs_uninit_context)

// Providers of very old releases announce themselves through it.
__attribute__((symver("ibv_register_driver@IBVERBS_1.1"))) UMLX5_IGNORES(umlx5_register_driver)

}  // extern "C"
