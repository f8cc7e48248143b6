// The tables of everything that a file answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/softhca/kernel/request.h"

namespace softhca::kernel {

using Handler = int (*)(Request& request);

// An ioctl method.
struct Method {
  std::uint16_t object, method;
  std::string_view name;
  std::span<const AttrSpec> attrs;
  Handler handler;
  bool needs_context = true;
};

// A write() command, which INVOKE_WRITE carries too. Sizes are the core part's, in bytes.
struct WriteCommand {
  std::uint32_t command;  // with IB_USER_VERBS_CMD_FLAG_EXTENDED
  std::string_view name;
  std::size_t request_bytes, response_bytes;
  bool has_response;  // a write() of it starts with the response's address
  bool has_driver_part;
  Handler handler;
  bool needs_context = true;
};

// Null if there is no such method.
const Method* find_method(std::uint16_t object, std::uint16_t method);

// Null if the command is not supported.
const WriteCommand* find_write_command(std::uint32_t command);

// Names for the log, also of what is not supported.
std::string method_name(std::uint16_t object, std::uint16_t method);
std::string write_command_name(std::uint32_t command);

// The handlers, by subject. Each answers 0 or errno.
namespace handlers {
int get_context(Request&);
int write_get_context(Request&);
int alloc_async_fd(Request&);
int write_query_device(Request&);
int ex_query_device(Request&);
int query_port(Request&);
int write_query_port(Request&);
int query_gid_entry(Request&);
int query_gid_table(Request&);
int query_context(Request&);

int alloc_pd(Request&);
int write_dealloc_pd(Request&);
int query_pd(Request&);
int open_xrcd(Request&);
int write_close_xrcd(Request&);
int reg_mr(Request&);
int rereg_mr(Request&);
int write_dereg_mr(Request&);
int query_mr(Request&);
int advise_mr(Request&);
int alloc_mw(Request&);
int alloc_dm(Request&);
int query_dm(Request&);
int map_dm_op_addr(Request&);
int reg_dm_mr(Request&);
int write_dealloc_mw(Request&);
int create_ah(Request&);
int write_destroy_ah(Request&);
int alloc_uar(Request&);
int devx_create(Request&);
int devx_query(Request&);
int devx_modify(Request&);
int devx_other(Request&);
int devx_query_eqn(Request&);
int devx_register_umem(Request&);
int devx_open_events(Request&);
int devx_subscribe(Request&);
int destroy(Request&);  // a method with one handle and no response

int create_comp_channel(Request&);
int create_cq(Request&);
int write_create_cq(Request&);
int ex_create_cq(Request&);
int resize_cq(Request&);
int ex_modify_cq(Request&);
int destroy_cq(Request&);
int write_destroy_cq(Request&);

int create_srq(Request&);
int write_create_srq(Request&);
int write_create_xsrq(Request&);
int modify_srq(Request&);
int query_srq(Request&);
int destroy_srq(Request&);
int write_destroy_srq(Request&);

int create_qp(Request&);
int write_create_qp(Request&);
int open_qp(Request&);
int ex_create_qp(Request&);
int modify_qp(Request&);
int ex_modify_qp(Request&);
int query_qp(Request&);
int destroy_qp(Request&);
int attach_mcast(Request&);
int detach_mcast(Request&);
int write_destroy_qp(Request&);

int create_wq(Request&);
int ex_create_wq(Request&);
int ex_modify_wq(Request&);
int destroy_wq(Request&);
int ex_destroy_wq(Request&);
int ex_create_rwq_ind_table(Request&);
int ex_destroy_rwq_ind_table(Request&);
int create_flow(Request&);
int write_destroy_flow(Request&);

int invoke_write(Request&);
}  // namespace handlers

}  // namespace softhca::kernel
