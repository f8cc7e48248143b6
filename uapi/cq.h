// Completion queues.
#pragma once

#include <rdma/mlx5-abi.h>

#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

struct CqRequest {
  std::uint32_t entries = 0;       // the least number of CQEs wanted
  std::uint64_t user_handle = 0;   // comes back in events
  int completion_channel_fd = -1;  // -1: no completion events
  std::uint32_t completion_vector = 0;
  int async_event_fd = -1;     // -1: the context's
  std::uint32_t flags = 0;     // enum ib_uverbs_ex_create_cq_flags
  mlx5_ib_create_cq driver{};  // buffer, doorbell record and the like, host order
};

struct Cq {
  CqHandle handle{};
  std::uint32_t entries = 0;  // as the kernel counts them
  std::uint32_t cqn = 0;      // the device's number, 24 bits
};

// CREATE_CQ. On kernels without the method it is a write command; the extended one if there are flags.
Expected<Cq> create_cq(Commands& commands, const CqRequest& request);

// RESIZE_CQ; returns the number of entries as the kernel counts them.
Expected<std::uint32_t> resize_cq(Commands& commands, CqHandle cq, std::uint32_t entries,
                                  const mlx5_ib_resize_cq& driver);

// Interrupt moderation: an event after `count` CQEs or `period_us` microseconds, whichever comes first.
Expected<void> moderate_cq(Commands& commands, CqHandle cq, std::uint16_t count, std::uint16_t period_us);

// How many events of the CQ were given out: its owner waits until all of them are acknowledged.
struct CqEventsReported {
  std::uint32_t completion = 0;
  std::uint32_t async = 0;
};

// EBUSY while queues use it.
Expected<CqEventsReported> destroy_cq(Commands& commands, CqHandle cq);

}  // namespace umlx5::uapi
