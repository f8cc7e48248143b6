// Shared receive queues: created, changed, destroyed.
#include <fmt/format.h>
#include <pthread.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "driver/verbs/events.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr std::uint32_t kMasks =
    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

Expected<SrqOptions> options_of(const ibv_srq_init_attr_ex& attr) {
  if ((attr.comp_mask & ~kMasks) != 0) {
    return fail(EOPNOTSUPP, fmt::format("SRQ create: comp_mask {:#x} has bits besides {:#x}", attr.comp_mask, kMasks));
  }
  if (attr.pd == nullptr) {  // a basic one may lack its bit of the mask, as with the stock library
    return fail(EINVAL, "SRQ create: no PD");
  }
  SrqOptions options{.max_wr = attr.attr.max_wr, .max_sge = attr.attr.max_sge, .limit = attr.attr.srq_limit};
  const ibv_srq_type type = (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr.srq_type : IBV_SRQT_BASIC;
  if (type == IBV_SRQT_BASIC) {
    return options;
  }
  if (type != IBV_SRQT_XRC) {
    return fail(EOPNOTSUPP, fmt::format("SRQ create: type {}; basic and XRC are possible", static_cast<int>(type)));
  }
  constexpr std::uint32_t kNeeded = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if ((attr.comp_mask & kNeeded) != kNeeded || attr.xrcd == nullptr || attr.cq == nullptr) {
    return fail(EINVAL, "SRQ create: an XRC SRQ needs a PD, an XRC domain and a CQ");
  }
  options.type = SrqType::kXrc;
  options.xrcd = object_of(attr.xrcd).native.get();
  options.cq = object_of(attr.cq).cq;
  return options;
}

Expected<SrqObject*> create(ibv_srq_init_attr_ex& attr) {
  auto options = options_of(attr);
  if (!options) {
    return std::unexpected(std::move(options.error()));
  }
  PdObject& pd = object_of(attr.pd);
  auto object = std::make_unique<SrqObject>();
  object->lock.set_needed(!pd.single_threaded && !object_of(attr.pd->context).single_threaded);
  options->user = object.get();
  options->allocator = allocator_of(attr.pd);
  auto native = pd.native->create_srq(*options);
  if (!native) {
    return std::unexpected(std::move(native.error()));
  }
  object->native = std::move(*native);
  object->queue = &object->native->queue();
  ibv_srq& srq = object->srq;
  srq.context = attr.pd->context;
  srq.srq_context = attr.srq_context;
  srq.pd = attr.pd;
  srq.handle = object->native->handle().value;
  pthread_mutex_init(&srq.mutex, nullptr);
  pthread_cond_init(&srq.cond, nullptr);
  attr.attr.max_wr = object->native->max_wr();
  attr.attr.max_sge = object->native->max_sge();
  return object.release();
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* attr) {
  auto object = create(*attr);
  return object ? &(*object)->srq : report_null(object.error());
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = attr->srq_context;
  extended.attr = attr->attr;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_srq* const srq = create_srq_ex(pd->context, &extended);
  if (srq != nullptr) {
    attr->attr = extended.attr;
  }
  return srq;
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if ((mask & ~static_cast<int>(IBV_SRQ_LIMIT)) != 0) {
    return report({mask & IBV_SRQ_MAX_WR ? EOPNOTSUPP : EINVAL,
                   fmt::format("SRQ modify: mask {:#x}; only the limit can be changed", mask)});
  }
  return mask == 0 ? 0 : result_of(object_of(srq).native->set_limit(attr->srq_limit));
}

int query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  const auto answer = object_of(srq).native->query();
  if (!answer) {
    return report(answer.error());
  }
  attr->max_wr = answer->max_wr;
  attr->max_sge = answer->max_sge;
  attr->srq_limit = answer->limit;
  return 0;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  *number = object_of(srq).native->srqn();
  return 0;
}

int destroy_srq(ibv_srq* srq) {
  SrqObject& object = object_of(srq);
  EventsReported reported;
  if (const int error = result_of(object.native.destroy(reported)); error != 0) {
    return error;
  }
  {
    const MutexGuard guard(srq->mutex);
    wait_for(srq->cond, srq->mutex, srq->events_completed, reported.asynchronous);
  }
  delete &object;
  return 0;
}

}  // namespace umlx5::verbs
