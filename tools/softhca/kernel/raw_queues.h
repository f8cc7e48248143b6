// What a RAW_PACKET QP is made of on the device: a send queue with its transport interface, a receive queue with its
// own. Receive work queues are such receive queues alone.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>

#include "tools/softhca/kernel/firmware.h"
#include "tools/softhca/kernel/qp_transition.h"

namespace softhca::kernel {

// Numbers on the device, 0: not there.
struct RawQueues {
  std::uint32_t tisn = 0, sqn = 0, rqn = 0, tirn = 0;
  std::uint8_t sq_state = 0, rq_state = 0;  // prm::kQueueReset ..
};

// In the units of mlx5_ib_create_wq, whose limits are checked.
struct StridingParameters {
  std::uint32_t log_stride_bytes = 0, log_strides = 0;
  bool two_byte_shift = false;
};

struct ReceiveQueueParameters {
  std::uint16_t uid = 0;
  std::uint32_t pdn = 0, cqn = 0, user_index = 0;
  std::uint64_t address = 0, doorbell_record = 0;
  std::uint32_t entries = 0;  // a power of two; 0: no queue
  std::uint8_t log_wqe_bytes = 0;
  bool strips_vlan = false;
  std::optional<StridingParameters> striding = std::nullopt;
};

struct RawQpParameters {
  ReceiveQueueParameters receive;  // uid, PD, user index and doorbell record are the send queue's too
  std::uint32_t transport_domain = 0;
  bool tunnel_offloads = false;
  std::uint8_t self_loopback = 0;  // prm::kSelfLoopback*
  std::uint64_t sq_address = 0;
  std::uint32_t sq_wqebbs = 0;  // a power of two; 0: no queue
  std::uint32_t send_cqn = 0, uar_page = 0;
};

// All or nothing; errno.
std::expected<RawQueues, int> create_raw_queues(Firmware& firmware, const RawQpParameters& parameters);
int destroy_raw_queues(Firmware& firmware, std::uint16_t uid, RawQueues& queues);
// As mlx5_ib does: the receive queue is ready from INIT on, the send queue from RTS on.
int modify_raw_queues(Firmware& firmware, std::uint16_t uid, RawQueues& queues, State to);
// The QP's state by its queues', which fail by themselves; `state` if they say nothing.
State state_of_raw_queues(Firmware& firmware, std::uint16_t uid, RawQueues& queues, State state);

std::expected<std::uint32_t, int> create_receive_queue(Firmware& firmware, const ReceiveQueueParameters& parameters);
int modify_receive_queue(Firmware& firmware, std::uint16_t uid, std::uint32_t rqn, std::uint8_t from, std::uint8_t to);

}  // namespace softhca::kernel
