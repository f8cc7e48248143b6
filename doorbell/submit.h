// Handing posted WQEs to the device, with every barrier in its place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "doorbell/io.h"
#include "doorbell/record.h"
#include "doorbell/uar.h"

namespace umlx5::doorbell {

// After WQEs were written to a send queue: publishes `producer` (free-running WQEBB counter past the last WQE), then
// rings with the control segment of the last WQE. `Register` is an ExclusiveRegister or a SharedRegister.
template <typename Register, IoPolicy Io>
void submit(QueueRecord<Io> record, std::uint32_t producer, Register& doorbell, const std::byte* control) {
  Io::to_device();
  record.publish_send(producer);
  doorbell.ring(control);
}

// As submit(), for a single WQE of `bytes` bytes: through BlueFlame if it fits there, else a plain doorbell.
template <typename Register, IoPolicy Io>
void submit_blueflame(QueueRecord<Io> record, std::uint32_t producer, Register& doorbell, const std::byte* control,
                      std::size_t bytes, SendRing ring) {
  Io::to_device();
  record.publish_send(producer);
  if (bytes <= doorbell.blueflame_bytes()) {
    doorbell.blueflame(control, bytes, ring);
  } else {
    doorbell.ring(control);
  }
}

// As submit_blueflame(), for a WQE within one aligned block of 64 bytes and a register with BlueFlame.
template <typename Register, IoPolicy Io>
[[gnu::always_inline]] inline void submit_block(QueueRecord<Io> record, std::uint32_t producer, Register& doorbell,
                                                const std::byte* control) {
  Io::to_device();
  record.publish_send(producer);
  doorbell.blueflame_block(control);
}

// After WQEs were written to a receive queue or shared receive queue: publishes `producer`, the free-running counter
// of WQEs. There is no register to ring.
template <IoPolicy Io>
void submit_receive(QueueRecord<Io> record, std::uint32_t producer) {
  Io::to_device();
  record.publish_receive(producer);
}

}  // namespace umlx5::doorbell
