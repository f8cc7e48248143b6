// Completion channels and events that libibverbs exports.
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include "driver/qp.h"
#include "driver/srq.h"
#include "driver/verbs/compat.h"
#include "driver/verbs/events.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/report.h"
#include "uapi/events.h"

namespace umlx5::verbs {
namespace {

// The verbs' channels block until the program says otherwise; the native ones never do.
bool let_block(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

// What the kernel calls the object that an event is about: the native object, whose user() is the verbs' one.
template <typename Verbs, typename Native>
Verbs* verbs_of(std::uint64_t element) {
  return static_cast<Verbs*>(reinterpret_cast<Native*>(element)->user());
}

void set_element(const uapi::AsyncEvent& record, ibv_async_event& event) {
  event.event_type = static_cast<ibv_event_type>(record.type);
  switch (subject_of(event.event_type)) {
    case About::kCq:
      event.element.cq = verbs_of<ibv_cq, Cq>(record.element);
      break;
    case About::kQp:
      event.element.qp = verbs_of<ibv_qp, Qp>(record.element);
      break;
    case About::kSrq:
      event.element.srq = verbs_of<ibv_srq, Srq>(record.element);
      break;
    case About::kOther:
      event.element.port_num = static_cast<int>(record.element);
      break;
  }
}

// One more event of `object` is done with: whoever destroys it may wait for that.
template <typename Object>
void acknowledge(Object& object, std::uint32_t& counter, unsigned events) {
  const MutexGuard guard(object.mutex);
  counter += events;
  pthread_cond_signal(&object.cond);
}

void acknowledge_async_event(const ibv_async_event& event) {
  switch (subject_of(event.event_type)) {
    case About::kCq:
      acknowledge(*event.element.cq, event.element.cq->async_events_completed, 1);
      break;
    case About::kQp:
      acknowledge(*event.element.qp, event.element.qp->events_completed, 1);
      break;
    case About::kSrq:
      acknowledge(*event.element.srq, event.element.srq->events_completed, 1);
      break;
    case About::kOther:
      break;
  }
}

ibv_comp_channel* create_channel(ibv_context* context) {
  auto native = native_of(context).create_completion_channel();
  if (!native) {
    return report_null(native.error());
  }
  if (!let_block((*native)->fd())) {
    return report_null({errno, "completion channel: it cannot be made to block"});
  }
  auto object = std::make_unique<ChannelObject>();
  object->channel.context = context;
  object->channel.fd = (*native)->fd();
  object->native = std::move(*native);
  return &object.release()->channel;
}

int destroy_channel(ChannelObject& object) {
  {
    const MutexGuard guard(object.channel.context->mutex);
    if (object.channel.refcnt != 0) {
      return report({EBUSY, fmt::format("completion channel (fd {}) is still used by {} CQs", object.channel.fd,
                                        object.channel.refcnt)});
    }
  }
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5;
using namespace umlx5::verbs;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) { return create_channel(real_context(context)); }
int ibv_destroy_comp_channel(ibv_comp_channel* channel) { return destroy_channel(object_of(channel)); }

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  const auto record = uapi::read_completion_event(channel->fd);
  if (!record) {
    errno = record.error().errno_value;
    return -1;
  }
  *cq = verbs_of<ibv_cq, Cq>(record->cq_user_handle);
  *cq_context = (*cq)->cq_context;
  completion_event_taken(*cq);
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int nevents) { acknowledge(*cq, cq->comp_events_completed, nevents); }

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const auto record = uapi::read_async_event(context->async_fd);
  if (!record) {
    errno = record.error().errno_value;
    return -1;
  }
  set_element(*record, *event);
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) { acknowledge_async_event(*event); }

}  // extern "C"
