#include "tools/softhca/kernel/raw_queues.h"

#include <bit>
#include <cerrno>

#include "tools/softhca/kernel/user_memory.h"
#include "wqe/prm/sq_rq.h"
#include "wqe/prm/tir.h"

namespace softhca::kernel {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint8_t kLogWqebbBytes = 6;
constexpr unsigned kPageOffsetBits = 5;  // of wq.page_offset; a QP context's field has one more

// Pins a queue's memory and describes it in `wq`.
std::expected<PageRun, int> take_memory(std::uint64_t address, std::uint64_t bytes, prm::Wq& wq) {
  if (const int error = pin_user_memory(address, bytes, false); error != 0) {
    return std::unexpected(error);
  }
  PageRun pages = queue_pages(address, bytes, kPageOffsetBits);
  if (pages.addresses.empty()) {
    return std::unexpected(EINVAL);
  }
  wq.log_wq_pg_sz = static_cast<std::uint8_t>(pages.log_page_bytes - 12);
  wq.page_offset = static_cast<std::uint8_t>(pages.offset_bytes >> (pages.log_page_bytes - 6));
  return pages;
}

std::expected<std::uint32_t, int> number_of(const std::expected<prm::ObjectOut, int>& out) {
  return out ? std::expected<std::uint32_t, int>(out->number) : std::unexpected(out.error());
}

int take(std::expected<std::uint32_t, int> made, std::uint32_t& number) {
  number = made.value_or(0);
  return made ? 0 : made.error();
}

std::expected<std::uint32_t, int> create_sq(Firmware& firmware, const RawQpParameters& parameters, std::uint32_t tisn) {
  const ReceiveQueueParameters& common = parameters.receive;
  prm::CreateSqIn in{.header = {.opcode = prm::Opcode::kCreateSq, .uid = common.uid}};
  in.context.flush_in_error_en = true;
  in.context.user_index = common.user_index;
  in.context.cqn = parameters.send_cqn;
  in.context.tis_lst_sz = 1;
  in.context.tis_num_0 = tisn;
  prm::Wq& wq = in.context.wq;
  wq.wq_type = prm::WqType::kCyclic;
  wq.pd = common.pdn;
  wq.uar_page = parameters.uar_page;
  wq.dbr_addr = common.doorbell_record;
  wq.log_wq_stride = kLogWqebbBytes;
  wq.log_wq_sz = static_cast<std::uint8_t>(std::countr_zero(parameters.sq_wqebbs));
  const auto pages = take_memory(parameters.sq_address, std::uint64_t{parameters.sq_wqebbs} << kLogWqebbBytes, wq);
  if (!pages) {
    return std::unexpected(pages.error());
  }
  return number_of(command<prm::ObjectOut>(firmware, in, pages->addresses));
}

std::expected<std::uint32_t, int> create_tir(Firmware& firmware, const RawQpParameters& parameters, std::uint32_t rqn) {
  prm::CreateTirIn in{.header = {.opcode = prm::Opcode::kCreateTir, .uid = parameters.receive.uid}};
  in.tirc.disp_type = prm::kTirDirect;
  in.tirc.inline_rqn = rqn;
  in.tirc.transport_domain = parameters.transport_domain;
  in.tirc.tunneled_offload_en = parameters.tunnel_offloads;
  in.tirc.self_lb_block = parameters.self_loopback;
  return number_of(command<prm::ObjectOut>(firmware, in));
}

int create(Firmware& firmware, const RawQpParameters& parameters, RawQueues& queues) {
  int error = pin_user_memory(parameters.receive.doorbell_record, 8, false);
  if (error == 0 && parameters.sq_wqebbs != 0) {
    const prm::CreateTisIn in{.header = {.opcode = prm::Opcode::kCreateTis, .uid = parameters.receive.uid},
                              .transport_domain = parameters.transport_domain};
    error = take(number_of(command<prm::ObjectOut>(firmware, in)), queues.tisn);
    error = error != 0 ? error : take(create_sq(firmware, parameters, queues.tisn), queues.sqn);
  }
  if (error == 0 && parameters.receive.entries != 0) {
    error = take(create_receive_queue(firmware, parameters.receive), queues.rqn);
    error = error != 0 ? error : take(create_tir(firmware, parameters, queues.rqn), queues.tirn);
  }
  return error;
}

template <typename In>
int modify_queue(Firmware& firmware, prm::Opcode opcode, std::uint16_t uid, std::uint32_t number, std::uint8_t from,
                 std::uint8_t to) {
  In in{.header = {.opcode = opcode, .uid = uid}, .state = from, .number = number};
  in.context.state = to;
  const auto out = command<prm::ObjectOut>(firmware, in);
  return out ? 0 : out.error();
}

template <typename Out>
void learn_state(Firmware& firmware, prm::Opcode opcode, std::uint16_t uid, std::uint32_t number, std::uint8_t& state) {
  if (number != 0) {
    const auto out = command<Out>(firmware, prm::ObjectIn{.header = {.opcode = opcode, .uid = uid}, .number = number});
    state = out ? out->context.state : state;
  }
}

}  // namespace

std::expected<std::uint32_t, int> create_receive_queue(Firmware& firmware, const ReceiveQueueParameters& parameters) {
  prm::CreateRqIn in{.header = {.opcode = prm::Opcode::kCreateRq, .uid = parameters.uid}};
  in.context.vsd = !parameters.strips_vlan;
  in.context.mem_rq_type = prm::kMemoryRqInline;
  in.context.flush_in_error_en = true;
  in.context.user_index = parameters.user_index;
  in.context.cqn = parameters.cqn;
  prm::Wq& wq = in.context.wq;
  wq.wq_type = parameters.striding ? prm::WqType::kCyclicStriding : prm::WqType::kCyclic;
  if (parameters.striding) {
    constexpr std::uint32_t kLogLeastStrideBytes = 6, kLogWholeStrides = 9, kLogLeastStrides = 3, kFirstSmallCode = 10;
    const std::uint32_t log_strides = parameters.striding->log_strides;
    wq.log_wqe_stride_size = static_cast<std::uint8_t>(parameters.striding->log_stride_bytes - kLogLeastStrideBytes);
    wq.log_wqe_num_of_strides =
        static_cast<std::uint8_t>(log_strides >= kLogWholeStrides ? log_strides - kLogWholeStrides
                                                                  : log_strides - kLogLeastStrides + kFirstSmallCode);
    wq.two_byte_shift_en = parameters.striding->two_byte_shift;
  }
  wq.pd = parameters.pdn;
  wq.dbr_addr = parameters.doorbell_record;
  wq.log_wq_stride = parameters.log_wqe_bytes;
  wq.log_wq_sz = static_cast<std::uint8_t>(std::countr_zero(parameters.entries));
  const auto pages = take_memory(parameters.address, std::uint64_t{parameters.entries} << parameters.log_wqe_bytes, wq);
  if (!pages) {
    return std::unexpected(pages.error());
  }
  return number_of(command<prm::ObjectOut>(firmware, in, pages->addresses));
}

int modify_receive_queue(Firmware& firmware, std::uint16_t uid, std::uint32_t rqn, std::uint8_t from, std::uint8_t to) {
  return modify_queue<prm::ModifyRqIn>(firmware, prm::Opcode::kModifyRq, uid, rqn, from, to);
}

std::expected<RawQueues, int> create_raw_queues(Firmware& firmware, const RawQpParameters& parameters) {
  RawQueues queues;
  if (const int error = create(firmware, parameters, queues); error != 0) {
    destroy_raw_queues(firmware, parameters.receive.uid, queues);
    return std::unexpected(error);
  }
  return queues;
}

int destroy_raw_queues(Firmware& firmware, std::uint16_t uid, RawQueues& queues) {
  struct Part {
    std::uint32_t& number;
    prm::Opcode opcode;
  };
  const Part parts[] = {{queues.tirn, prm::Opcode::kDestroyTir},
                        {queues.rqn, prm::Opcode::kDestroyRq},
                        {queues.sqn, prm::Opcode::kDestroySq},
                        {queues.tisn, prm::Opcode::kDestroyTis}};
  for (const Part& part : parts) {
    if (part.number != 0) {
      if (const int error = command_on_object(firmware, part.opcode, uid, part.number); error != 0) {
        return error;
      }
      part.number = 0;
    }
  }
  return 0;
}

int modify_raw_queues(Firmware& firmware, std::uint16_t uid, RawQueues& queues, State to) {
  const std::uint8_t common = to == State::kReset ? prm::kQueueReset
                              : to == State::kErr ? prm::kQueueError
                                                  : prm::kQueueReady;
  const bool moves_sq = queues.sqn != 0 && (common != prm::kQueueReady || to == State::kRts);
  if (queues.rqn != 0 && queues.rq_state != common) {
    if (const int error = modify_receive_queue(firmware, uid, queues.rqn, queues.rq_state, common); error != 0) {
      return error;
    }
    queues.rq_state = common;
  }
  if (moves_sq && queues.sq_state != common) {
    if (const int error =
            modify_queue<prm::ModifySqIn>(firmware, prm::Opcode::kModifySq, uid, queues.sqn, queues.sq_state, common);
        error != 0) {
      return error;
    }
    queues.sq_state = common;
  }
  return 0;
}

State state_of_raw_queues(Firmware& firmware, std::uint16_t uid, RawQueues& queues, State state) {
  learn_state<prm::QuerySqOut>(firmware, prm::Opcode::kQuerySq, uid, queues.sqn, queues.sq_state);
  learn_state<prm::QueryRqOut>(firmware, prm::Opcode::kQueryRq, uid, queues.rqn, queues.rq_state);
  const bool sq_failed = queues.sqn != 0 && queues.sq_state == prm::kQueueError;
  const bool rq_failed = queues.rqn != 0 && queues.rq_state == prm::kQueueError;
  if (rq_failed && (sq_failed || queues.sqn == 0)) {
    return State::kErr;
  }
  // mlx5_ib knows no state for a receive queue that failed alone.
  return sq_failed && queues.rqn != 0 && !rq_failed ? State::kSqe : state;
}

}  // namespace softhca::kernel
