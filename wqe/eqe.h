// Event queue entries. Source: Linux include/linux/mlx5/device.h, struct mlx5_eqe and enum mlx5_event.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

enum class EventType : std::uint8_t {
  kCompletion = 0x00,
  kPathMigrated = 0x01,
  kCommunicationEstablished = 0x02,
  kSendQueueDrained = 0x03,
  kCqError = 0x04,
  kWorkQueueCatastrophic = 0x05,
  kPathMigrationFailed = 0x07,
  kInternalError = 0x08,
  kPortChange = 0x09,
  kCommandDone = 0x0a,
  kPageRequest = 0x0b,
  kPageFault = 0x0c,
  kNicVportChange = 0x0d,
  kEswitchFunctionsChanged = 0x0e,
  kVhcaStateChange = 0x0f,
  kWorkQueueInvalidRequest = 0x10,
  kWorkQueueAccessError = 0x11,
  kSrqCatastrophic = 0x12,
  kSrqLastWqe = 0x13,
  kSrqLimit = 0x14,
  kGpio = 0x15,
  kPortModule = 0x16,
  kTemperatureWarning = 0x17,
  kXrqError = 0x18,
  kRemoteConfig = 0x19,
  kDoorbellCongestion = 0x1a,
  kStall = 0x1b,
  kDctDrained = 0x1c,
  kDctKeyViolation = 0x1d,
  kFpgaError = 0x20,
  kFpgaQpError = 0x21,
  kGeneral = 0x22,
  kMonitorCounter = 0x24,
  kPps = 0x25,
  kDeviceTracer = 0x26,
  kObjectChange = 0x27,
};

// The header's name without its prefix ("CQ_ERROR"); "unknown" for a value that is none of the above.
std::string_view to_string(EventType type);

enum class PortChange : std::uint8_t {
  kDown = 1,
  kActive = 4,
  kInitialized = 5,
  kLid = 6,
  kPkey = 7,
  kGuid = 8,
  kClientReregister = 9,
};
std::string_view to_string(PortChange change);

inline constexpr std::uint8_t kEqeOwnerInitial = 1;  // a fresh queue's entries: not software's on lap 0
inline constexpr std::size_t kEqeOwnerOffset = 63;

struct Eqe {
  static constexpr std::size_t kDataOffset = 32;
  static constexpr std::size_t kDataBytes = 28;

  EventType type{};
  std::uint8_t subtype{};
  std::array<std::uint8_t, kDataBytes> data{};  // one of the *Event structures below, by type
  std::uint8_t signature{};
  bool owner{};

  static constexpr std::string_view kName = "eqe";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"type", &Eqe::type, bytes(1, 1), Format::kName}, Field{"subtype", &Eqe::subtype, bytes(3, 1)},
             Field{"data", &Eqe::data, bytes(kDataOffset, kDataBytes)},
             Field{"signature", &Eqe::signature, bytes(62, 1)}, Field{"owner", &Eqe::owner, bits(60, 0, 0)}};

  // Reads or writes `data` as one of the structures below.
  template <typename Event>
  Event event() const {
    static_assert(Event::kBytes <= kDataBytes);
    return load<Event>(reinterpret_cast<const std::byte*>(data.data()));
  }
  template <typename Event>
  void set_event(const Event& value) {
    static_assert(Event::kBytes <= kDataBytes);
    data.fill(0);
    store(reinterpret_cast<std::byte*>(data.data()), value);
  }
};
static_assert(layout_is_valid<Eqe>());
static_assert(offset_bits_of(&Eqe::owner) == kEqeOwnerOffset * 8 + 7);

// True if software owns the entry at `consumer_index` (free-running) of a queue of 2^log_entries entries.
constexpr bool eqe_is_ready(std::uint8_t owner_byte, std::uint32_t consumer_index, unsigned log_entries) {
  return (owner_byte & 1) == ((consumer_index >> log_entries) & 1);
}

// kCompletion.
struct CompletionEvent {
  std::uint32_t cqn{};  // 24 bits

  static constexpr std::string_view kName = "completion";
  static constexpr std::size_t kBytes = 28;
  static constexpr auto kFields = Fields{Field{"cqn", &CompletionEvent::cqn, bits(24, 23, 0)}};
};
static_assert(layout_is_valid<CompletionEvent>());

enum class QueueKind : std::uint8_t { kQp = 0, kRq = 1, kSq = 2, kDct = 6 };
std::string_view to_string(QueueKind kind);

// Events of a QP, RQ, SQ or SRQ.
struct QueueEvent {
  QueueKind kind{};
  std::uint32_t number{};  // 24 bits; QPN, RQN, SQN or SRQN

  static constexpr std::string_view kName = "queue-event";
  static constexpr std::size_t kBytes = 28;
  static constexpr auto kFields = Fields{Field{"kind", &QueueEvent::kind, bytes(20, 1), Format::kName},
                                         Field{"number", &QueueEvent::number, bits(24, 23, 0)}};
};
static_assert(layout_is_valid<QueueEvent>());

enum class CqErrorKind : std::uint8_t { kOverrun = 1, kAccessViolation = 2 };
std::string_view to_string(CqErrorKind kind);

// kCqError.
struct CqErrorEvent {
  std::uint32_t cqn{};  // 24 bits
  CqErrorKind syndrome{};

  static constexpr std::string_view kName = "cq-error";
  static constexpr std::size_t kBytes = 12;
  static constexpr auto kFields = Fields{Field{"cqn", &CqErrorEvent::cqn, bits(0, 23, 0)},
                                         Field{"syndrome", &CqErrorEvent::syndrome, bytes(11, 1), Format::kName}};
};
static_assert(layout_is_valid<CqErrorEvent>());

// kPortChange; the EQE's subtype is a PortChange.
struct PortEvent {
  std::uint8_t port{};  // 4 bits, from 1

  static constexpr std::string_view kName = "port-event";
  static constexpr std::size_t kBytes = 12;
  static constexpr auto kFields = Fields{Field{"port", &PortEvent::port, bits(8, 31, 28), Format::kDecimal}};
};
static_assert(layout_is_valid<PortEvent>());

// kCommandDone.
struct CommandEvent {
  std::uint32_t vector{};  // one bit for each command slot that has finished

  static constexpr std::string_view kName = "command-done";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields = Fields{Field{"vector", &CommandEvent::vector, bytes(0, 4)}};
};
static_assert(layout_is_valid<CommandEvent>());

// kPageRequest.
struct PageRequestEvent {
  std::uint16_t embedded_function{};
  std::uint16_t function_id{};
  std::uint32_t pages{};  // as a signed number: negative pages are given back

  static constexpr std::string_view kName = "page-request";
  static constexpr std::size_t kBytes = 8;
  static constexpr auto kFields = Fields{Field{"ec_function", &PageRequestEvent::embedded_function, bytes(0, 2)},
                                         Field{"function", &PageRequestEvent::function_id, bytes(2, 2)},
                                         Field{"pages", &PageRequestEvent::pages, bytes(4, 4)}};
};
static_assert(layout_is_valid<PageRequestEvent>());

// kDctDrained and kDctKeyViolation.
struct DctEvent {
  std::uint32_t dctn{};  // 24 bits

  static constexpr std::string_view kName = "dct-event";
  static constexpr std::size_t kBytes = 28;
  static constexpr auto kFields = Fields{Field{"dctn", &DctEvent::dctn, bits(24, 23, 0)}};
};
static_assert(layout_is_valid<DctEvent>());

}  // namespace umlx5::wqe
