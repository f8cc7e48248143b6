// Completion queues: created, resized, destroyed.
#include <fmt/format.h>
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "driver/verbs/events.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr std::uint32_t kMasks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr std::uint32_t kFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
constexpr std::uint64_t kReaders = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                   IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO |
                                   IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kTimes =
    std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kMlx5Masks =
    MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_FLAGS | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;

// MLX5_CQE_SIZE, as the stock driver reads it; 0 for a size that there is not.
std::uint32_t default_cqe_bytes() {
  const char* const text = std::getenv("MLX5_CQE_SIZE");
  const int bytes = text == nullptr ? 64 : std::atoi(text);
  return bytes == 64 || bytes == 128 ? static_cast<std::uint32_t>(bytes) : 0;
}

Expected<void> check(const ibv_cq_init_attr_ex& attr) {
  if ((attr.comp_mask & ~kMasks) != 0) {
    return fail(EINVAL, fmt::format("CQ create: comp_mask {:#x} has bits besides {:#x}", attr.comp_mask, kMasks));
  }
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr.flags & ~kFlags) != 0) {
    return fail(EINVAL, fmt::format("CQ create: flags {:#x} has bits besides {:#x}", attr.flags, kFlags));
  }
  if ((attr.wc_flags & ~kReaders) != 0) {
    return fail(EOPNOTSUPP, fmt::format("CQ create: wc_flags {:#x} has bits besides {:#x}", attr.wc_flags, kReaders));
  }
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      (attr.parent_domain == nullptr || object_of(attr.parent_domain).behind == nullptr)) {
    return fail(EINVAL, "CQ create: parent_domain is not a parent domain");
  }
  return {};
}

// What mlx5dv_create_cq() adds.
Expected<void> add(const mlx5dv_cq_init_attr& attr, CqOptions& options) {
  if ((attr.comp_mask & ~kMlx5Masks) != 0) {
    return fail(EINVAL,
                fmt::format("CQ create: mlx5dv comp_mask {:#x} has bits besides {:#x}", attr.comp_mask, kMlx5Masks));
  }
  if ((attr.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) != 0) {
    if (attr.cqe_size != 64 && attr.cqe_size != 128) {
      return fail(EINVAL, fmt::format("CQ create: cqe_size {}; 64 and 128 are possible", attr.cqe_size));
    }
    options.cqe_bytes = attr.cqe_size;
  }
  if ((attr.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE) != 0) {
    if (attr.cqe_comp_res_format == 0) {
      return fail(EINVAL, "CQ create: cqe_comp_res_format 0 is no format of compressed CQEs");
    }
    options.compression = attr.cqe_comp_res_format;
  }
  if ((attr.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_FLAGS) != 0) {
    if ((attr.flags & ~std::uint32_t{MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD}) != 0) {
      return fail(EINVAL, fmt::format("CQ create: mlx5dv flags {:#x} are not known", attr.flags));
    }
    options.pad_large_cqes = (attr.flags & MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD) != 0;
    if (options.pad_large_cqes && options.cqe_bytes != 128) {
      return fail(EINVAL, "CQ create: only CQEs of 128 bytes are padded");
    }
  }
  return {};
}

// The device's own clock stamps all of the queue's CQEs, so cycles cannot be had beside it.
Expected<WallClock> wall_clock_of(ContextObject& context, std::uint64_t wc_flags) {
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) == 0) {
    return WallClock::kNone;
  }
  const mlx5_ib_alloc_ucontext_resp& kernel = context.native->kernel_info().device;
  if ((kernel.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS) != 0 &&
      (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) == 0) {
    return WallClock::kDevice;
  }
  if (context.clocks.clock_info(*context.native) == nullptr) {
    return fail(EOPNOTSUPP, "CQ create: wall-clock times need a real-time clock, or clock info that the kernel maps");
  }
  return WallClock::kTranslated;
}

void count_user(ibv_comp_channel* channel, int change) {
  if (channel != nullptr) {
    const MutexGuard guard(channel->context->mutex);
    channel->refcnt += change;
  }
}

Expected<CqObject*> create(ibv_context* context, const ibv_cq_init_attr_ex& attr,
                           const mlx5dv_cq_init_attr* mlx5_attr) {
  if (auto result = check(attr); !result) {
    return std::unexpected(std::move(result.error()));
  }
  const auto wall_clock = wall_clock_of(object_of(context), attr.wc_flags);
  if (!wall_clock) {
    return std::unexpected(wall_clock.error());
  }
  const bool has_flags = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  const bool in_domain = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
  auto object = std::make_unique<CqObject>();
  object->lock.set_needed(!object_of(context).single_threaded &&
                          !(has_flags && (attr.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0));
  CqOptions options{.entries = attr.cqe,
                    .cqe_bytes = default_cqe_bytes(),
                    .channel = attr.channel == nullptr ? nullptr : object_of(attr.channel).native.get(),
                    .completion_vector = attr.comp_vector,
                    .ignore_overrun = has_flags && (attr.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0,
                    .timestamps = (attr.wc_flags & kTimes) != 0,
                    .real_time_timestamps = *wall_clock == WallClock::kDevice,
                    .allocator = allocator_of(in_domain ? attr.parent_domain : nullptr),
                    .lock = object->lock.native(),
                    .user = object.get()};
  if (options.cqe_bytes == 0) {
    return fail(EINVAL, "CQ create: MLX5_CQE_SIZE is neither 64 nor 128");
  }
  if (mlx5_attr != nullptr) {
    if (auto result = add(*mlx5_attr, options); !result) {
      return std::unexpected(std::move(result.error()));
    }
  }
  auto native = native_of(context).create_cq(options);
  if (!native) {
    return std::unexpected(std::move(native.error()));
  }
  object->native = std::move(*native);
  object->cq = object->native.get();
  ibv_cq& cq = *object->base();
  cq.context = context;
  cq.channel = attr.channel;
  cq.cq_context = attr.cq_context;
  cq.handle = object->cq->handle().value;
  cq.cqe = static_cast<int>(object->cq->entries());
  pthread_mutex_init(&cq.mutex, nullptr);
  pthread_cond_init(&cq.cond, nullptr);
  count_user(attr.channel, 1);
  set_readers(*object, attr.wc_flags, *wall_clock);
  return object.release();
}

}  // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = cqe < 0 ? 0 : static_cast<std::uint32_t>(cqe);
  attr.cq_context = cq_context;
  attr.channel = channel;
  attr.comp_vector = static_cast<std::uint32_t>(comp_vector);
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* const cq = mlx5_create_cq(context, &attr, nullptr);
  return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
}

ibv_cq_ex* mlx5_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attr, mlx5dv_cq_init_attr* mlx5_attr) {
  auto object = create(context, *attr, mlx5_attr);
  return object ? &(*object)->ex : report_null(object.error());
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  return mlx5_create_cq(context, attr, nullptr);
}

int resize_cq(ibv_cq* cq, int cqe) {
  CqObject& object = object_of(cq);
  const std::lock_guard guard(object.lock);
  const int error = result_of(object.cq->resize(cqe < 0 ? 0 : static_cast<std::uint32_t>(cqe)));
  cq->cqe = static_cast<int>(object.cq->entries());
  return error;
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) {
    return report({EINVAL, fmt::format("CQ modify: attr_mask {:#x}; {:#x} is possible", attr->attr_mask,
                                       unsigned{IBV_CQ_ATTR_MODERATE})});
  }
  return result_of(object_of(cq).cq->moderate(attr->moderate.cq_count, attr->moderate.cq_period));
}

int destroy_cq(ibv_cq* cq) {
  CqObject& object = object_of(cq);
  EventsReported reported;
  if (const int error = result_of(object.native.destroy(reported)); error != 0) {
    return error;
  }
  {
    const MutexGuard guard(cq->mutex);
    wait_for(cq->cond, cq->mutex, cq->comp_events_completed, reported.completion);
    wait_for(cq->cond, cq->mutex, cq->async_events_completed, reported.asynchronous);
  }
  count_user(cq->channel, -1);
  delete &object;
  return 0;
}

void completion_event_taken(ibv_cq* cq) { object_of(cq).cq->count_event(); }

}  // namespace umlx5::verbs
