// PDs, UAR pages, XRC and transport domains, user contexts, special keys.
#include <memory>
#include <utility>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/pd_uar.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

// Objects of a user context keep it alive.
void count_user(Device& device, std::uint32_t uid, int change) {
  if (Domain* const context = device.user_contexts.find(uid)) {
    context->users += static_cast<std::uint32_t>(change);
  }
}

Refusal allocate(Device& device, const Request& request, ObjectTable<Domain>& table) {
  auto domain = std::make_unique<Domain>(Domain{.uid = request.header.uid});
  std::uint32_t number = 0;
  if (!table.insert(domain, number)) {
    return no_resources();
  }
  count_user(device, request.header.uid, 1);
  request.reply_number(number);
  return {};
}

Refusal deallocate(Device& device, const Request& request, ObjectTable<Domain>& table, Syndrome no_such,
                   Syndrome in_use) {
  Domain* domain = nullptr;
  if (const Refusal refusal = find(request, table, request.number(), no_such, domain)) {
    return refusal;
  }
  if (domain->users != 0) {
    return bad_resource_state(in_use);
  }
  count_user(device, domain->uid, -1);
  table.erase(request.number());
  return {};
}

}  // namespace

Refusal alloc_pd(Device& device, const Request& request) { return allocate(device, request, device.pds); }
Refusal dealloc_pd(Device& device, const Request& request) {
  return deallocate(device, request, device.pds, Syndrome::kNoSuchPd, Syndrome::kPdInUse);
}

Refusal alloc_xrcd(Device& device, const Request& request) { return allocate(device, request, device.xrcds); }
Refusal dealloc_xrcd(Device& device, const Request& request) {
  return deallocate(device, request, device.xrcds, Syndrome::kNoSuchXrcd, Syndrome::kXrcdInUse);
}

Refusal alloc_transport_domain(Device& device, const Request& request) {
  return allocate(device, request, device.transport_domains);
}
Refusal dealloc_transport_domain(Device& device, const Request& request) {
  return deallocate(device, request, device.transport_domains, Syndrome::kNoSuchTransportDomain,
                    Syndrome::kNoSuchTransportDomain);
}

Refusal alloc_uar(Device& device, const Request& request) {
  std::uint32_t index = 0;
  if (!device.uars.allocate(request.header.uid, index)) {
    return no_resources();
  }
  count_user(device, request.header.uid, 1);
  request.reply_number(index);
  return {};
}

Refusal dealloc_uar(Device& device, const Request& request) {
  const UarPage* const page = device.uars.find(request.number());
  if (page == nullptr) {
    return bad_resource(Syndrome::kNoSuchUar);
  }
  if (!request.may_touch(page->uid)) {
    return bad_resource(Syndrome::kNotOwner);
  }
  if (!page->qps.empty() || !page->cqs.empty() || !page->eqs.empty()) {
    return bad_resource_state(Syndrome::kUarInUse);
  }
  count_user(device, page->uid, -1);
  device.uars.free(request.number());
  return {};
}

Refusal create_uctx(Device& device, const Request& request) {
  if (request.header.uid != 0) {
    return bad_parameter(Syndrome::kNeedsKernel);
  }
  auto context = std::make_unique<Domain>();
  std::uint32_t number = 0;
  if (!device.user_contexts.insert(context, number)) {
    return no_resources();
  }
  request.reply_number(number);
  return {};
}

Refusal destroy_uctx(Device& device, const Request& request) {
  if (request.header.uid != 0) {
    return bad_parameter(Syndrome::kNeedsKernel);
  }
  const Domain* const context = device.user_contexts.find(request.number());
  if (context == nullptr) {
    return bad_resource(Syndrome::kNoSuchUctx);
  }
  if (context->users != 0) {
    return bad_resource_state(Syndrome::kUctxInUse);
  }
  device.user_contexts.erase(request.number());
  return {};
}

Refusal query_special_contexts(Device&, const Request& request) {
  request.reply(prm::SpecialContextsOut{
      .header = {}, .dump_fill_mkey = kNullMkey, .reserved_lkey = kReservedLkey, .null_mkey = kNullMkey});
  return {};
}

}  // namespace softhca::hca
