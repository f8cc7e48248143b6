// CREATE_EQ, QUERY_EQ, DESTROY_EQ.
#include <memory>
#include <vector>

#include "tools/softhca/hca/command.h"
#include "wqe/eqe.h"
#include "wqe/prm/eq.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using umlx5::wqe::Eqe;

namespace {

// EQs have no owner: an application's CQs report to the kernel's EQs.
Refusal find_eq(Device& device, const Request& request, Eq*& eq) {
  if (request.header.uid != 0) {
    return bad_parameter(Syndrome::kNeedsKernel);
  }
  eq = device.eqs.find(request.number() & 0xff);
  return eq == nullptr ? bad_resource(Syndrome::kNoSuchEq) : Refusal{};
}

}  // namespace

Refusal create_eq(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateEqIn>();
  if (request.header.uid != 0) {
    return bad_parameter(Syndrome::kNeedsKernel);
  }
  if (in.eqc.log_eq_size > device.profile.log_max_eq_sz) {
    return exceeds_limit(Syndrome::kEqSize);
  }
  if (in.eqc.intr >= device.profile.interrupt_vectors) {
    return bad_parameter(Syndrome::kEqVector);
  }
  UarPage* const uar = device.uars.find(in.eqc.uar_page);
  if (uar == nullptr) {
    return bad_resource(Syndrome::kNoSuchUar);
  }
  auto eq = std::make_unique<Eq>();
  if (const Refusal refusal =
          take_pages(request, in.eqc.log_page_size, in.eqc.page_offset, Eqe::kBytes << in.eqc.log_eq_size, eq->pages)) {
    return refusal;
  }
  eq->log_entries = in.eqc.log_eq_size;
  eq->uar = in.eqc.uar_page;
  eq->vector = in.eqc.intr;
  eq->event_mask = in.event_bitmask;
  Eq* const created = eq.get();
  if (!device.eqs.insert(eq, created->eqn)) {
    return no_resources();
  }
  uar->eqs.push_back(created);
  request.reply_number(created->eqn);
  return {};
}

Refusal query_eq(Device& device, const Request& request) {
  Eq* eq = nullptr;
  if (const Refusal refusal = find_eq(device, request, eq)) {
    return refusal;
  }
  prm::QueryEqOut out;
  out.eqc.status = eq->overrun ? prm::kEqStatusWriteFailed : prm::kEqStatusOk;
  out.eqc.st = eq->armed ? prm::kEqStateArmed : prm::kEqStateFired;
  out.eqc.log_eq_size = eq->log_entries;
  out.eqc.uar_page = eq->uar;
  out.eqc.intr = static_cast<std::uint16_t>(eq->vector);
  out.eqc.log_page_size = static_cast<std::uint8_t>(eq->pages.log_page_bytes - 12);
  out.eqc.page_offset = static_cast<std::uint8_t>(eq->pages.first_offset_bytes >> (eq->pages.log_page_bytes - 6));
  out.eqc.consumer_counter = eq->consumer;
  out.eqc.producer_counter = eq->producer & 0xffffff;
  out.event_bitmask = eq->event_mask;
  request.reply(out);
  return {};
}

Refusal destroy_eq(Device& device, const Request& request) {
  Eq* eq = nullptr;
  if (const Refusal refusal = find_eq(device, request, eq)) {
    return refusal;
  }
  if (eq->users != 0) {
    return bad_resource_state(Syndrome::kEqInUse);
  }
  std::erase(device.uars.find(eq->uar)->eqs, eq);
  device.eqs.erase(eq->eqn);
  return {};
}

}  // namespace softhca::hca
