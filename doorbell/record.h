// Doorbell records: words in memory from which the device reads how far software has come.
//
// A record is a view of eight bytes that someone else owns (RecordPool, or an application's allocator); they must be
// zero before the queue is created. Each publish is one relaxed store: the caller puts the barriers of io.h around it.
// Source: mlx5dv.h MLX5_RCV_DBR, MLX5_SND_DBR; rdma-core providers/mlx5/cq.c for completion queues.
#pragma once

#include <cstddef>
#include <cstdint>

#include "doorbell/io.h"
#include "wqe/byteorder.h"

namespace umlx5::doorbell {

// The memory of one record, aligned to eight bytes.
struct RecordMemory {
  wqe::Be32 words[2];
};
static_assert(sizeof(RecordMemory) == 8);

// Counters of a QP, or of a receive or send queue alone; a shared receive queue has the receive counter only.
// Counters are free-running: WQEs received, WQEBBs sent; 16 bits of them reach the device.
template <IoPolicy Io = NativeIo>
class QueueRecord {
 public:
  static constexpr std::size_t kReceiveWord = 0;
  static constexpr std::size_t kSendWord = 1;

  explicit QueueRecord(RecordMemory* memory) : memory_(memory) {}

  void publish_receive(std::uint32_t counter) { Io::store(&memory_->words[kReceiveWord], wqe::Be32(counter & 0xffff)); }
  void publish_send(std::uint32_t counter) { Io::store(&memory_->words[kSendWord], wqe::Be32(counter & 0xffff)); }

  // Both counters to zero, as a queue in RESET has them.
  void reset() {
    publish_receive(0);
    publish_send(0);
  }

  RecordMemory* memory() const { return memory_; }

 private:
  RecordMemory* memory_;
};

// What arms a completion queue for its next event.
struct ArmCommand {
  std::uint8_t sequence{};         // 2 bits; advances with each event taken
  bool solicited_only{};           // next solicited or error completion, not just the next
  std::uint32_t consumer_index{};  // free-running; 24 bits of it reach the device

  constexpr std::uint32_t word() const {
    return (sequence & 3u) << 28 | (solicited_only ? 1u << 24 : 0u) | (consumer_index & 0xffffff);
  }
};

// Consumer index (free-running, 24 bits reach the device) and arm command of a completion queue.
template <IoPolicy Io = NativeIo>
class CqRecord {
 public:
  static constexpr std::size_t kConsumerWord = 0;
  static constexpr std::size_t kArmWord = 1;

  explicit CqRecord(RecordMemory* memory) : memory_(memory) {}

  void publish_consumer(std::uint32_t index) { Io::store(&memory_->words[kConsumerWord], wqe::Be32(index & 0xffffff)); }
  void publish_arm(ArmCommand command) { Io::store(&memory_->words[kArmWord], wqe::Be32(command.word())); }

  RecordMemory* memory() const { return memory_; }

 private:
  RecordMemory* memory_;
};

}  // namespace umlx5::doorbell
