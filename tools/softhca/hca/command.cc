#include "tools/softhca/hca/command.h"

#include <algorithm>
#include <array>

#include "wqe/prm/counter.h"
#include "wqe/prm/flow.h"
#include "wqe/prm/tir.h"
#include "wqe/prm/umem.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::Opcode;
using prm::Status;

namespace {

struct Command {
  Opcode opcode;
  Handler* handler;
  std::size_t in_bytes = prm::ObjectIn::kBytes;
  std::size_t out_bytes = prm::ObjectOut::kBytes;
};

// Mailboxes that hold a context, and those that only name an object.
constexpr std::size_t kSmall = prm::ObjectIn::kBytes, kContext = 0x110;
constexpr std::size_t kQueryMkeyOutBytes = 0x130, kSpecialContextsOutBytes = 0x20, kCreateUctxInBytes = 0x40;
constexpr std::size_t kRoceAddressBytes = 0x30, kCreatePsvOutBytes = 0x20, kDctBytes = 0x80, kMcgBytes = 0x20,
                      kMemicBytes = 0x20, kCounterInBytes = 0x20, kVportCounterBytes = 0x210, kQCounterBytes = 0x100;

constexpr Command kCommands[] = {
    {Opcode::kNop, nop},
    {Opcode::kQueryHcaCap, query_hca_cap, kSmall, kSmall},
    {Opcode::kQueryAdapter, query_adapter, kSmall, kContext},
    {Opcode::kSetRoceAddress, set_roce_address, kRoceAddressBytes, kSmall},
    {Opcode::kQueryRoceAddress, query_roce_address, kSmall, kRoceAddressBytes},
    {Opcode::kQueryVportCounter, query_vport_counter, kCounterInBytes, kVportCounterBytes},
    {Opcode::kQueryQCounter, query_q_counter, kCounterInBytes, kQCounterBytes},
    {Opcode::kAllocFlowCounter, alloc_flow_counter},
    {Opcode::kDeallocFlowCounter, dealloc_flow_counter},
    {Opcode::kQueryFlowCounter, query_flow_counter, prm::QueryFlowCounterIn::kBytes, prm::QueryFlowCounterOut::kBytes},
    {Opcode::kAllocPd, alloc_pd},
    {Opcode::kDeallocPd, dealloc_pd},
    {Opcode::kAllocUar, alloc_uar},
    {Opcode::kDeallocUar, dealloc_uar},
    {Opcode::kAllocXrcd, alloc_xrcd},
    {Opcode::kDeallocXrcd, dealloc_xrcd},
    {Opcode::kAllocTransportDomain, alloc_transport_domain},
    {Opcode::kDeallocTransportDomain, dealloc_transport_domain},
    {Opcode::kCreateUctx, create_uctx, kCreateUctxInBytes, kSmall},
    {Opcode::kDestroyUctx, destroy_uctx},
    {Opcode::kQuerySpecialContexts, query_special_contexts, kSmall, kSpecialContextsOutBytes},
    {Opcode::kCreateUmem, create_umem, prm::CreateUmemIn::kBytes, kSmall},
    {Opcode::kDestroyUmem, destroy_umem},
    {Opcode::kCreateMkey, create_mkey, kContext, kSmall},
    {Opcode::kQueryMkey, query_mkey, kSmall, kQueryMkeyOutBytes},
    {Opcode::kDestroyMkey, destroy_mkey},
    {Opcode::kAllocMemic, alloc_memic, kMemicBytes, kSmall},
    {Opcode::kDeallocMemic, dealloc_memic, kMemicBytes, kSmall},
    {Opcode::kCreatePsv, create_psv, kSmall, kCreatePsvOutBytes},
    {Opcode::kDestroyPsv, destroy_psv},
    {Opcode::kCreateGeneralObject, create_general_object},
    {Opcode::kQueryGeneralObject, query_general_object},
    {Opcode::kDestroyGeneralObject, destroy_general_object},
    {Opcode::kCreateEq, create_eq, kContext, kSmall},
    {Opcode::kQueryEq, query_eq, kSmall, kContext},
    {Opcode::kDestroyEq, destroy_eq},
    {Opcode::kCreateCq, create_cq, kContext, kSmall},
    {Opcode::kQueryCq, query_cq, kSmall, kContext},
    {Opcode::kModifyCq, modify_cq, kContext, kSmall},
    {Opcode::kDestroyCq, destroy_cq},
    {Opcode::kCreateSrq, create_srq, kContext, kSmall},
    {Opcode::kQuerySrq, query_srq, kSmall, kContext},
    {Opcode::kArmRq, arm_rq, kSmall, kSmall},
    {Opcode::kDestroySrq, destroy_srq},
    {Opcode::kCreateXrcSrq, create_xrc_srq, kContext, kSmall},
    {Opcode::kQueryXrcSrq, query_xrc_srq, kSmall, kContext},
    {Opcode::kArmXrcSrq, arm_xrc_srq, kSmall, kSmall},
    {Opcode::kDestroyXrcSrq, destroy_xrc_srq},
    {Opcode::kCreateRmp, create_rmp, kContext, kSmall},
    {Opcode::kModifyRmp, modify_rmp, kContext, kSmall},
    {Opcode::kQueryRmp, query_rmp, kSmall, kContext},
    {Opcode::kDestroyRmp, destroy_rmp},
    {Opcode::kCreateQp, create_qp, kContext, kSmall},
    {Opcode::kDestroyQp, destroy_qp},
    {Opcode::kQueryQp, query_qp, kSmall, kContext},
    {Opcode::kCreateDct, create_dct, kDctBytes, kSmall},
    {Opcode::kDrainDct, drain_dct},
    {Opcode::kQueryDct, query_dct, kSmall, kDctBytes},
    {Opcode::kDestroyDct, destroy_dct},
    {Opcode::kAttachToMcg, attach_to_mcg, kMcgBytes, kSmall},
    {Opcode::kDetachFromMcg, detach_from_mcg, kMcgBytes, kSmall},
    {Opcode::kCreateSq, create_sq, kContext, kSmall},
    {Opcode::kModifySq, modify_sq, kContext, kSmall},
    {Opcode::kQuerySq, query_sq, kSmall, kContext},
    {Opcode::kDestroySq, destroy_sq},
    {Opcode::kCreateRq, create_rq, kContext, kSmall},
    {Opcode::kModifyRq, modify_rq, kContext, kSmall},
    {Opcode::kQueryRq, query_rq, kSmall, kContext},
    {Opcode::kDestroyRq, destroy_rq},
    {Opcode::kCreateTis, create_tis, prm::CreateTisIn::kBytes, kSmall},
    {Opcode::kDestroyTis, destroy_tis},
    {Opcode::kCreateRqt, create_rqt, kContext, kSmall},
    {Opcode::kDestroyRqt, destroy_rqt},
    {Opcode::kCreateTir, create_tir, kContext, kSmall},
    {Opcode::kDestroyTir, destroy_tir},
    {Opcode::kCreateFlowTable, create_flow_table, prm::CreateFlowTableIn::kBytes, kSmall},
    {Opcode::kDestroyFlowTable, destroy_flow_table, prm::FlowTableIn::kBytes, kSmall},
    {Opcode::kSetFlowTableRoot, set_flow_table_root, prm::FlowTableIn::kBytes, kSmall},
    {Opcode::kCreateFlowGroup, create_flow_group, prm::CreateFlowGroupIn::kBytes, kSmall},
    {Opcode::kDestroyFlowGroup, destroy_flow_group, prm::FlowTableIn::kBytes, kSmall},
    {Opcode::kSetFlowTableEntry, set_flow_table_entry, prm::SetFlowEntryIn::kBytes, kSmall},
    {Opcode::kDeleteFlowTableEntry, delete_flow_table_entry, prm::FlowTableIn::kBytes, kSmall},
    {Opcode::kRst2InitQp, modify_qp, kContext, kSmall},
    {Opcode::kInit2InitQp, modify_qp, kContext, kSmall},
    {Opcode::kInit2RtrQp, modify_qp, kContext, kSmall},
    {Opcode::kRtr2RtsQp, modify_qp, kContext, kSmall},
    {Opcode::kRts2RtsQp, modify_qp, kContext, kSmall},
    {Opcode::kSqerr2RtsQp, modify_qp, kContext, kSmall},
    {Opcode::kSqd2RtsQp, modify_qp, kContext, kSmall},
    {Opcode::kToErrQp, reset_or_fail_qp},
    {Opcode::kToRstQp, reset_or_fail_qp},
};

Refusal dispatch(Device& device, const Request& request) {
  const auto* const command = std::ranges::find(kCommands, request.header.opcode, &Command::opcode);
  if (command == std::end(kCommands)) {
    const bool known = !to_string(request.header.opcode).empty();
    return {Status::kBadOperation, known ? Syndrome::kCommandNotImplemented : Syndrome::kUnknownCommand};
  }
  if (request.in.size() < command->in_bytes) {
    return {Status::kBadInputLength, Syndrome::kInputTooShort};
  }
  if (request.out.size() < command->out_bytes) {
    return {Status::kBadOutputLength, Syndrome::kOutputTooShort};
  }
  if (request.header.uid != 0 && device.user_contexts.find(request.header.uid) == nullptr) {
    return bad_parameter(Syndrome::kUnknownUser);
  }
  return command->handler(device, request);
}

}  // namespace

Refusal take_pages(const Request& request, std::uint8_t log_page_size, std::uint8_t page_offset,
                   std::uint64_t queue_bytes, PageList& pages) {
  constexpr std::uint8_t kLogMinPageBytes = 12, kLogMaxPageBytes = 31;
  constexpr std::size_t kAddressBytes = 8;
  if (log_page_size + kLogMinPageBytes > kLogMaxPageBytes) {
    return bad_parameter(Syndrome::kPageSize);
  }
  pages.log_page_bytes = static_cast<std::uint8_t>(log_page_size + kLogMinPageBytes);
  const std::uint64_t page_bytes = std::uint64_t{1} << pages.log_page_bytes;
  pages.first_offset_bytes = static_cast<std::uint32_t>(page_offset * (page_bytes / 64));
  const std::uint64_t count = (pages.first_offset_bytes + queue_bytes + page_bytes - 1) >> pages.log_page_bytes;
  if ((request.in.size() - prm::kPageAddressOffset) / kAddressBytes < count) {
    return {Status::kBadInputLength, Syndrome::kPageListTooShort};
  }
  pages.page_addresses.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t address =
        umlx5::wqe::internal::load_word<std::uint64_t>(request.in.data() + prm::kPageAddressOffset + i * kAddressBytes);
    if (address % page_bytes != 0) {
      return bad_parameter(Syndrome::kPageMisaligned);
    }
    pages.page_addresses[i] = address;
  }
  return {};
}

void execute_command(Device& device, std::span<const std::byte> in, std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{0});
  Refusal refusal{Status::kBadInputLength, Syndrome::kInputTooShort};
  if (in.size() >= prm::InputHeader::kBytes) {
    refusal = dispatch(device, {.header = umlx5::wqe::load<prm::InputHeader>(in.data()), .in = in, .out = out});
  }
  if (refusal) {
    std::array<std::byte, prm::OutputHeader::kBytes> header;
    umlx5::wqe::store(header.data(), prm::OutputHeader{.status = refusal.status,
                                                       .syndrome = static_cast<std::uint32_t>(refusal.syndrome)});
    std::ranges::fill(out, std::byte{0});
    std::ranges::copy(std::span(header).first(std::min(header.size(), out.size())), out.begin());
  }
}

}  // namespace softhca::hca
