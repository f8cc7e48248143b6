// An IoPolicy that carries out every store and writes down what happened, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "doorbell/io.h"

namespace umlx5::doorbell {

struct IoEvent {
  enum class Kind { kToDevice, kFromDevice, kBeforeRegister, kFlushRegister, kStore4, kStore8, kBlock };
  Kind kind;
  const void* to = nullptr;    // of stores
  const void* from = nullptr;  // of blocks
  std::uint64_t value = 0;     // of stores, host order
  friend bool operator==(const IoEvent&, const IoEvent&) = default;
  friend std::ostream& operator<<(std::ostream& out, const IoEvent& event) {
    constexpr const char* kNames[] = {"to_device", "from_device", "before_register", "flush_register", "store4",
                                      "store8",    "block"};
    return out << kNames[static_cast<int>(event.kind)] << " to " << event.to << " from " << event.from << " value "
               << std::hex << event.value << std::dec;
  }
};

struct RecordingIo {
  static inline thread_local std::vector<IoEvent> log;

  static void to_device() { log.push_back({IoEvent::Kind::kToDevice}); }
  static void from_device() { log.push_back({IoEvent::Kind::kFromDevice}); }
  static void before_register() { log.push_back({IoEvent::Kind::kBeforeRegister}); }
  static void flush_register() { log.push_back({IoEvent::Kind::kFlushRegister}); }
  static void store(wqe::Be32* to, wqe::Be32 value) {
    *to = value;
    log.push_back({IoEvent::Kind::kStore4, to, nullptr, value.value()});
  }
  static void store(wqe::Be64* to, wqe::Be64 value) {
    *to = value;
    log.push_back({IoEvent::Kind::kStore8, to, nullptr, value.value()});
  }
  static void copy_block(std::byte* to, const std::byte* from) {
    std::memcpy(to, from, kBlockBytes);
    log.push_back({IoEvent::Kind::kBlock, to, from});
  }
};
static_assert(IoPolicy<RecordingIo>);

}  // namespace umlx5::doorbell
