// CREATE_CQ, QUERY_CQ, MODIFY_CQ, DESTROY_CQ.
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "tools/softhca/hca/command.h"
#include "wqe/mini_cqe.h"
#include "wqe/prm/cq.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::CqeSize;

namespace {

using umlx5::wqe::CqeCompressionLayout;
using umlx5::wqe::MiniCqeFormat;

constexpr std::uint64_t kDoorbellRecordBytes = 8;
constexpr auto kLastLayout = static_cast<std::uint8_t>(CqeCompressionLayout::kEnhanced);

Refusal check_buffer(const Device& device, const prm::Cqc& context) {
  if (context.log_cq_size > device.profile.log_max_cq_sz) {
    return exceeds_limit(Syndrome::kCqSize);
  }
  if (context.cqe_sz > CqeSize::kPadded128) {
    return bad_parameter(Syndrome::kCqeSize);
  }
  return {};
}

bool can_compress(const Device& device, const prm::Cqc& context) {
  const auto format = static_cast<MiniCqeFormat>(context.mini_cqe_res_format);
  return device.profile.cqe_compression && context.cqe_compression_layout <= kLastLayout &&
         (format == MiniCqeFormat::kRxHash || format == MiniCqeFormat::kChecksum ||
          format == MiniCqeFormat::kChecksumStrideIndex);
}

Refusal check(const Device& device, const prm::Cqc& context) {
  if (context.apu_cq) {
    return bad_parameter(Syndrome::kCqApu);
  }
  if (context.cc) {
    return bad_parameter(Syndrome::kCqCollapsed);
  }
  if (context.cqe_comp_en && !can_compress(device, context)) {
    return bad_parameter(Syndrome::kCqCompression);
  }
  if (context.cq_period != 0 || context.cq_max_count != 0) {
    return bad_parameter(Syndrome::kCqModeration);
  }
  return check_buffer(device, context);
}

// Takes a CQ's buffer: entry size, entry count, memory. `In` is the input of CREATE_CQ or MODIFY_CQ.
template <typename In>
Refusal take_buffer(Device& device, const Request& request, const In& in, Cq& cq) {
  cq.cqe_bytes = in.cqc.cqe_sz == CqeSize::k64 ? 64 : 128;
  cq.log_entries = in.cqc.log_cq_size;
  return take_queue_memory(device, request,
                           {.log_page_size = in.cqc.log_page_size,
                            .page_offset = in.cqc.page_offset,
                            .in_umem = in.cq_umem_valid,
                            .umem_id = in.cq_umem_id,
                            .umem_offset = in.cq_umem_offset,
                            .is_written = true},
                           std::uint64_t{cq.cqe_bytes} << cq.log_entries, cq.pages, cq.buffer_umem);
}

Refusal find_cq(Device& device, const Request& request, Cq*& cq) {
  return find(request, device.cqs, request.number(), Syndrome::kNoSuchCq, cq);
}

Refusal resize(Device& device, const Request& request, const prm::ModifyCqIn& in, Cq& cq) {
  constexpr std::uint32_t kAll = prm::kResizeCqSize | prm::kResizeCqPageOffset | prm::kResizeCqPageSize;
  if ((in.field_select & ~kAll) != 0 || (in.field_select & prm::kResizeCqSize) == 0) {
    return bad_parameter(Syndrome::kCqFieldSelect);
  }
  if (const Refusal refusal = check_buffer(device, in.cqc)) {
    return refusal;
  }
  Cq resized;
  if (const Refusal refusal = take_buffer(device, request, in, resized)) {
    return refusal;
  }
  if (cq.in_error) {
    return bad_resource_state(Syndrome::kCqInError);
  }
  // Software copies what waits behind the place of the RESIZE entry.
  if (waiting_cqes(device, cq) >= (1u << resized.log_entries)) {
    return {prm::Status::kBadSizeOutstandingCqes, Syndrome::kCqResizeTooSmall};
  }
  if (!write_resize_cqe(device, cq)) {
    return bad_resource_state(Syndrome::kCqBusyResizing);
  }
  cq.pages = std::move(resized.pages);
  cq.buffer_umem = std::move(resized.buffer_umem);
  cq.log_entries = resized.log_entries;
  cq.cqe_bytes = resized.cqe_bytes;
  return {};
}

Refusal change_eq(Device& device, std::uint32_t eqn, Cq& cq) {
  Eq* const eq = device.eqs.find(eqn);
  if (eq == nullptr) {
    return bad_resource(Syndrome::kNoSuchEq);
  }
  --device.eqs.find(cq.eqn)->users;
  ++eq->users;
  cq.eqn = eqn;
  return {};
}

}  // namespace

Refusal create_cq(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateCqIn>();
  if (const Refusal refusal = check(device, in.cqc)) {
    return refusal;
  }
  UarPage* const uar = device.uars.find(in.cqc.uar_page);
  if (uar == nullptr) {
    return bad_resource(Syndrome::kNoSuchUar);
  }
  if (!request.may_touch(uar->uid)) {
    return bad_resource(Syndrome::kNotOwner);
  }
  Eq* const eq = device.eqs.find(in.cqc.c_eqn);
  if (eq == nullptr) {
    return bad_resource(Syndrome::kNoSuchEq);
  }
  auto cq = std::make_unique<Cq>();
  if (const Refusal refusal = take_buffer(device, request, in, *cq)) {
    return refusal;
  }
  if (const Refusal refusal = take_doorbell_record(
          device, request,
          {.address = in.cqc.dbr_addr, .in_umem = in.cqc.dbr_umem_valid, .umem_id = in.cqc.dbr_umem_id},
          kDoorbellRecordBytes, cq->doorbell_record, cq->record_umem)) {
    return refusal;
  }
  cq->uid = request.header.uid;
  cq->uar = in.cqc.uar_page;
  cq->eqn = in.cqc.c_eqn;
  cq->ignore_overrun = in.cqc.oi;
  if (in.cqc.cqe_comp_en) {
    cq->compression.emplace();
    cq->compression->format = static_cast<MiniCqeFormat>(in.cqc.mini_cqe_res_format);
    cq->compression->layout = static_cast<CqeCompressionLayout>(in.cqc.cqe_compression_layout);
  }
  // The first arm word a program writes may be 0, as the record is before; so that it shows as a change even if another
  // CQ's arm takes its place in the shared register, the record starts with a word that no program writes.
  cq->arm_word = kNeverArmed;
  const std::array<std::byte, 4> never_armed{std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
  static_cast<void>(device.dma.write(cq->doorbell_record + 4, never_armed));
  Cq* const created = cq.get();
  if (!device.cqs.insert(cq, created->cqn)) {
    return no_resources();
  }
  ++eq->users;
  uar->cqs.push_back(created);
  request.reply_number(created->cqn);
  return {};
}

Refusal query_cq(Device& device, const Request& request) {
  Cq* cq = nullptr;
  if (const Refusal refusal = find_cq(device, request, cq)) {
    return refusal;
  }
  waiting_cqes(device, *cq);
  prm::QueryCqOut out;
  out.cqc.status = cq->in_error ? prm::kCqStatusOverflow : prm::kCqStatusOk;
  out.cqc.st = !cq->armed                 ? prm::kCqStateFired
               : cq->armed_solicited_only ? prm::kCqStateSolicitedArmed
                                          : prm::kCqStateArmed;
  out.cqc.cqe_sz = cq->cqe_bytes == 64 ? CqeSize::k64 : CqeSize::k128;
  out.cqc.oi = cq->ignore_overrun;
  if (cq->compression) {
    out.cqc.cqe_comp_en = true;
    out.cqc.mini_cqe_res_format = static_cast<std::uint8_t>(cq->compression->format);
    out.cqc.cqe_compression_layout = static_cast<std::uint8_t>(cq->compression->layout);
  }
  out.cqc.log_cq_size = cq->log_entries;
  out.cqc.uar_page = cq->uar;
  out.cqc.c_eqn = static_cast<std::uint8_t>(cq->eqn);
  out.cqc.log_page_size = static_cast<std::uint8_t>(cq->pages.log_page_bytes - 12);
  out.cqc.page_offset = static_cast<std::uint8_t>(cq->pages.first_offset_bytes >> (cq->pages.log_page_bytes - 6));
  out.cqc.consumer_counter = cq->consumer;
  out.cqc.producer_counter = cq->producer & 0xffffff;
  out.cqc.last_notified_index = cq->last_notified & 0xffffff;
  out.cqc.last_solicit_index = cq->last_solicited & 0xffffff;
  out.cqc.dbr_addr = cq->doorbell_record;
  request.reply(out);
  return {};
}

Refusal modify_cq(Device& device, const Request& request) {
  const auto in = request.as<prm::ModifyCqIn>();
  Cq* cq = nullptr;
  if (const Refusal refusal = find_cq(device, request, cq)) {
    return refusal;
  }
  if (in.header.op_mod == prm::kResizeCq) {
    return resize(device, request, in, *cq);
  }
  if (in.header.op_mod != prm::kModifyCq) {
    return bad_parameter(Syndrome::kUnknownModifier);
  }
  if ((in.field_select & (prm::kCqPeriod | prm::kCqMaxCount | prm::kCqPeriodMode)) != 0) {
    return bad_parameter(Syndrome::kCqModeration);
  }
  if ((in.field_select & ~std::uint32_t{prm::kCqOverrunIgnore | prm::kCqEqn}) != 0) {
    return bad_parameter(Syndrome::kCqFieldSelect);
  }
  if ((in.field_select & prm::kCqEqn) != 0) {
    if (const Refusal refusal = change_eq(device, in.cqc.c_eqn, *cq)) {
      return refusal;
    }
  }
  if ((in.field_select & prm::kCqOverrunIgnore) != 0) {
    cq->ignore_overrun = in.cqc.oi;
  }
  return {};
}

Refusal destroy_cq(Device& device, const Request& request) {
  Cq* cq = nullptr;
  if (const Refusal refusal = find_cq(device, request, cq)) {
    return refusal;
  }
  if (cq->users != 0) {
    return bad_resource_state(Syndrome::kCqInUse);
  }
  --device.eqs.find(cq->eqn)->users;
  std::erase(device.uars.find(cq->uar)->cqs, cq);
  device.cqs.erase(cq->cqn);
  return {};
}

}  // namespace softhca::hca
