// The command processor: one table from opcode to handler, and what handlers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tools/softhca/hca/device.h"
#include "tools/softhca/hca/syndrome.h"
#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace softhca::hca {

// Why a command is refused; kOk: it is not.
struct Refusal {
  umlx5::wqe::prm::Status status = umlx5::wqe::prm::Status::kOk;
  Syndrome syndrome = Syndrome::kNone;

  explicit operator bool() const { return status != umlx5::wqe::prm::Status::kOk; }
};

inline Refusal bad_parameter(Syndrome syndrome) { return {umlx5::wqe::prm::Status::kBadParameter, syndrome}; }
inline Refusal bad_resource(Syndrome syndrome) { return {umlx5::wqe::prm::Status::kBadResource, syndrome}; }
inline Refusal bad_resource_state(Syndrome syndrome) { return {umlx5::wqe::prm::Status::kBadResourceState, syndrome}; }
inline Refusal exceeds_limit(Syndrome syndrome) { return {umlx5::wqe::prm::Status::kExceedsLimit, syndrome}; }
inline Refusal bad_index(Syndrome syndrome) { return {umlx5::wqe::prm::Status::kBadIndex, syndrome}; }
inline Refusal no_resources() { return {umlx5::wqe::prm::Status::kNoResources, Syndrome::kNoNumberLeft}; }

// A command with its mailboxes. The dispatcher has cleared the output and checked the lengths against the command's
// table entry; a handler that takes more than its entry says is a defect.
struct Request {
  umlx5::wqe::prm::InputHeader header;
  std::span<const std::byte> in;
  std::span<std::byte> out;

  template <umlx5::wqe::Structure In>
  In as() const {
    if (in.size() < In::kBytes) {
      std::abort();
    }
    return umlx5::wqe::load<In>(in.data());
  }
  template <umlx5::wqe::Structure Out>
  void reply(const Out& value) const {
    if (out.size() < Out::kBytes) {
      std::abort();
    }
    umlx5::wqe::store(out.data(), value);
  }
  void reply_number(std::uint32_t number) const { reply(umlx5::wqe::prm::ObjectOut{.header = {}, .number = number}); }
  std::uint32_t number() const { return as<umlx5::wqe::prm::ObjectIn>().number; }

  // Whether this command's user may use or change an object of `owner`.
  bool may_touch(std::uint32_t owner) const { return header.uid == 0 || header.uid == owner; }
};

// Looks an object up for this command's user.
template <typename Object>
Refusal find(const Request& request, const ObjectTable<Object>& table, std::uint32_t number, Syndrome no_such,
             Object*& object) {
  object = table.find(number);
  if (object == nullptr) {
    return bad_resource(no_such);
  }
  if (!request.may_touch(object->uid)) {
    return bad_resource(Syndrome::kNotOwner);
  }
  return {};
}

// Looks a QP up that is none of the dynamically connected targets and queues of raw packets, which have commands of
// their own.
Refusal find_qp(Device& device, const Request& request, QpObject*& qp);

// Takes the page addresses of a queue of `queue_bytes` bytes that starts `page_offset` / 64 pages into the first page.
// log_page_size is the PRM's: 4096 << n bytes.
Refusal take_pages(const Request& request, std::uint8_t log_page_size, std::uint8_t page_offset,
                   std::uint64_t queue_bytes, PageList& pages);

// Where a command says that a queue lies: in the pages at its end, or in a umem (`log_page_size` and `page_offset` then
// say nothing).
struct QueueMemory {
  std::uint8_t log_page_size = 0, page_offset = 0;
  bool in_umem = false;
  std::uint32_t umem_id = 0;
  std::uint64_t umem_offset = 0;  // bytes
  bool is_written = false;        // by the device, which reads what is no completion queue
};
// The same of a doorbell record: an address, or an offset into a umem.
struct RecordMemory {
  std::uint64_t address = 0;
  bool in_umem = false;
  std::uint32_t umem_id = 0;
};
// `bytes` bytes that start `offset_bytes` into the first page.
struct PageRange {
  std::uint8_t log_page_bytes = 12;
  std::uint64_t offset_bytes = 0, bytes = 0;
  bool writable = false;
};

// Both of a work queue's context (prm::Wq).
template <typename Wq>
QueueMemory memory_of(const Wq& wq) {
  return {.log_page_size = wq.log_wq_pg_sz,
          .page_offset = wq.page_offset,
          .in_umem = wq.wq_umem_valid,
          .umem_id = wq.wq_umem_id,
          .umem_offset = wq.wq_umem_offset};
}
template <typename Wq>
RecordMemory record_of(const Wq& wq) {
  return {.address = wq.dbr_addr, .in_umem = wq.dbr_umem_valid, .umem_id = wq.dbr_umem_id};
}

// Take the memory of a queue, of a doorbell record (aligned to its size), of a memory key's pages; in commands_umem.cc.
Refusal take_queue_memory(Device& device, const Request& request, const QueueMemory& memory, std::uint64_t bytes,
                          PageList& pages, UmemUse& use);
Refusal take_doorbell_record(Device& device, const Request& request, const RecordMemory& memory,
                             std::uint64_t record_bytes, std::uint64_t& address, UmemUse& use);
Refusal take_umem_pages(Device& device, const Request& request, std::uint32_t umem_id, std::uint64_t offset,
                        const PageRange& range, std::vector<std::uint64_t>& pages, UmemUse& use);

// Executes one command. The HCA's lock is held.
void execute_command(Device& device, std::span<const std::byte> in, std::span<std::byte> out);

// ---- Handlers, by family ----
using Handler = Refusal(Device&, const Request&);

// commands_domain.cc
Handler alloc_pd, dealloc_pd, alloc_xrcd, dealloc_xrcd, alloc_transport_domain, dealloc_transport_domain, alloc_uar,
    dealloc_uar, create_uctx, destroy_uctx, query_special_contexts;
// commands_hca.cc
Handler nop, query_hca_cap, query_adapter, set_roce_address, query_roce_address;
// commands_umem.cc
Handler create_umem, destroy_umem;
// commands_mkey.cc
Handler create_mkey, query_mkey, destroy_mkey;
// commands_memic.cc
Handler alloc_memic, dealloc_memic;
// commands_multicast.cc
Handler attach_to_mcg, detach_from_mcg;
// commands_protection.cc
Handler create_psv, destroy_psv;
// commands_crypto.cc
Handler create_general_object, query_general_object, destroy_general_object;
// commands_counter.cc
Handler query_vport_counter, query_q_counter, alloc_flow_counter, dealloc_flow_counter, query_flow_counter;
// commands_eq.cc
Handler create_eq, query_eq, destroy_eq;
// commands_cq.cc
Handler create_cq, query_cq, modify_cq, destroy_cq;
// commands_srq.cc
Handler create_srq, query_srq, arm_rq, destroy_srq, create_xrc_srq, query_xrc_srq, arm_xrc_srq, destroy_xrc_srq,
    create_rmp, modify_rmp, query_rmp, destroy_rmp;
// commands_qp.cc
Handler create_qp, query_qp, destroy_qp;
// commands_queue.cc
Handler create_sq, modify_sq, query_sq, destroy_sq, create_rq, modify_rq, query_rq, destroy_rq;
// commands_steering.cc
Handler create_tis, destroy_tis, create_rqt, destroy_rqt, create_tir, destroy_tir, create_flow_table,
    destroy_flow_table, set_flow_table_root, create_flow_group, destroy_flow_group, set_flow_table_entry,
    delete_flow_table_entry;
// commands_dct.cc
Handler create_dct, drain_dct, query_dct, destroy_dct;
// modify_qp.cc
Handler modify_qp, reset_or_fail_qp;

}  // namespace softhca::hca
