// What this libmlx5 does not have. The names are there, that programs which refer to them start; the calls refuse with
// EOPNOTSUPP, and say so where UMLX5_LOG=info asks for it. README.md has the table.
#include "driver/verbs/report.h"

using umlx5::verbs::unsupported;
using umlx5::verbs::unsupported_null;

#define UMLX5_REFUSES(name) \
  int name() { return unsupported(#name); }
#define UMLX5_REFUSES_NULL(name) \
  void* name() { return unsupported_null(#name); }
#define UMLX5_IGNORES(name) \
  void name() { unsupported(#name); }

extern "C" {

// Software steering.
UMLX5_REFUSES(mlx5dv_dr_action_destroy)
UMLX5_REFUSES(mlx5dv_dr_domain_destroy)
UMLX5_REFUSES(mlx5dv_dr_domain_sync)
UMLX5_REFUSES(mlx5dv_dr_matcher_destroy)
UMLX5_REFUSES(mlx5dv_dr_rule_destroy)
UMLX5_REFUSES(mlx5dv_dr_table_destroy)
UMLX5_REFUSES(mlx5dv_dr_action_modify_flow_meter)
UMLX5_REFUSES(mlx5dv_dump_dr_domain)
UMLX5_REFUSES(mlx5dv_dump_dr_matcher)
UMLX5_REFUSES(mlx5dv_dump_dr_rule)
UMLX5_REFUSES(mlx5dv_dump_dr_table)
UMLX5_REFUSES(mlx5dv_dr_action_modify_aso)
UMLX5_REFUSES(mlx5dv_dr_matcher_set_layout)
UMLX5_REFUSES(mlx5dv_dr_aso_other_domain_link)
UMLX5_REFUSES(mlx5dv_dr_aso_other_domain_unlink)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_dest_ibv_qp)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_dest_table)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_dest_vport)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_drop)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_flow_counter)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_modify_header)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_packet_reformat)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_tag)
UMLX5_REFUSES_NULL(mlx5dv_dr_domain_create)
UMLX5_REFUSES_NULL(mlx5dv_dr_matcher_create)
UMLX5_REFUSES_NULL(mlx5dv_dr_rule_create)
UMLX5_REFUSES_NULL(mlx5dv_dr_table_create)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_flow_meter)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_default_miss)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_dest_devx_tir)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_dest_array)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_flow_sampler)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_aso)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_pop_vlan)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_push_vlan)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_dest_ib_port)
UMLX5_REFUSES_NULL(mlx5dv_dr_action_create_dest_root_table)
UMLX5_IGNORES(mlx5dv_dr_domain_set_reclaim_device_memory)
UMLX5_IGNORES(mlx5dv_dr_domain_allow_duplicate_rules)

// Flows through the kernel.
UMLX5_REFUSES(mlx5dv_destroy_flow_matcher)
UMLX5_REFUSES(mlx5dv_destroy_steering_anchor)
UMLX5_REFUSES_NULL(mlx5dv_create_flow_action_esp)
UMLX5_REFUSES_NULL(mlx5dv_create_flow)
UMLX5_REFUSES_NULL(mlx5dv_create_flow_matcher)
UMLX5_REFUSES_NULL(mlx5dv_create_flow_action_modify_header)
UMLX5_REFUSES_NULL(mlx5dv_create_flow_action_packet_reformat)
UMLX5_REFUSES_NULL(mlx5dv_create_steering_anchor)

// Scheduling and link aggregation of queue pairs.
UMLX5_REFUSES(mlx5dv_modify_qp_lag_port)
UMLX5_REFUSES(mlx5dv_query_qp_lag_port)
UMLX5_REFUSES(mlx5dv_modify_qp_sched_elem)
UMLX5_REFUSES(mlx5dv_modify_qp_udp_sport)
UMLX5_REFUSES(mlx5dv_sched_leaf_destroy)
UMLX5_REFUSES(mlx5dv_sched_leaf_modify)
UMLX5_REFUSES(mlx5dv_sched_node_destroy)
UMLX5_REFUSES(mlx5dv_sched_node_modify)
UMLX5_REFUSES(mlx5dv_map_ah_to_qp)
UMLX5_REFUSES_NULL(mlx5dv_sched_leaf_create)
UMLX5_REFUSES_NULL(mlx5dv_sched_node_create)

// Operations of device memory.
UMLX5_REFUSES_NULL(mlx5dv_dm_map_op_addr)

// Event queues of the program's own.
UMLX5_REFUSES(mlx5dv_devx_destroy_eq)
UMLX5_REFUSES(mlx5dv_devx_free_msi_vector)
UMLX5_REFUSES_NULL(mlx5dv_devx_alloc_msi_vector)
UMLX5_REFUSES_NULL(mlx5dv_devx_create_eq)

// Numbers of queue pairs to be had apart.
UMLX5_REFUSES(mlx5dv_reserved_qpn_alloc)
UMLX5_REFUSES(mlx5dv_reserved_qpn_dealloc)

// Devices through VFIO.
UMLX5_REFUSES(mlx5dv_vfio_get_events_fd)
UMLX5_REFUSES(mlx5dv_vfio_process_events)
UMLX5_REFUSES_NULL(mlx5dv_get_vfio_device_list)

}  // extern "C"
