// Event queues: CREATE_EQ, QUERY_EQ, DESTROY_EQ (ObjectIn), and the entries themselves (EQEs).
//
// Layouts: eqc, create_eq_in of <linux/mlx5/mlx5_ifc.h>, mlx5_eqe of <linux/mlx5/device.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// EQE type; its bit (1 << type) in event_bitmask subscribes an EQ to it. Completions need no subscription: a CQ names
// its EQ.
enum class EventType : std::uint8_t {
  kCompletion = 0x00,
  kPathMigrated = 0x01,
  kCommunicationEstablished = 0x02,
  kSqDrained = 0x03,
  kCqError = 0x04,
  kWqCatastrophic = 0x05,
  kPathMigrationFailed = 0x07,
  kInternalError = 0x08,
  kPortChange = 0x09,
  kCommand = 0x0a,
  kPageRequest = 0x0b,
  kPageFault = 0x0c,
  kNicVportChange = 0x0d,
  kWqInvalidRequest = 0x10,
  kWqAccessError = 0x11,
  kSrqCatastrophic = 0x12,
  kSrqLastWqe = 0x13,
  kSrqLimit = 0x14,
  kDctDrained = 0x1c,
  kDctKeyViolation = 0x1d,
  kGeneral = 0x22,
};
std::string_view to_string(EventType type);

// EQE sub_type of kPortChange.
inline constexpr std::uint8_t kPortDown = 1, kPortUp = 4, kPortInitialized = 5, kPortLidChange = 6, kPortPkeyChange = 7,
                              kPortGuidChange = 8, kPortClientReregister = 9;
// Syndrome of kCqError.
inline constexpr std::uint8_t kCqOverrun = 1, kCqAccessViolation = 2;
// eqc.st.
inline constexpr std::uint8_t kEqStateArmed = 0x9, kEqStateFired = 0xa;
inline constexpr std::uint8_t kEqStatusOk = 0x0, kEqStatusWriteFailed = 0xa;

// EQ context (eqc).
struct Eqc {
  std::uint8_t status{};
  bool ec{};
  bool oi{};  // overrun ignore
  std::uint8_t st{};
  std::uint8_t page_offset{};
  std::uint8_t log_eq_size{};
  std::uint32_t uar_page{};
  std::uint16_t intr{};          // MSI-X vector
  std::uint8_t log_page_size{};  // 4096 << n bytes
  std::uint32_t consumer_counter{};
  std::uint32_t producer_counter{};
  static constexpr std::string_view kName = "eqc";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      std::tuple{Field{"status", &Eqc::status, bits(0x0, 31, 28)},
                 Field{"ec", &Eqc::ec, bits(0x0, 18, 18)},
                 Field{"oi", &Eqc::oi, bits(0x0, 17, 17)},
                 Field{"st", &Eqc::st, bits(0x0, 11, 8)},
                 Field{"page_offset", &Eqc::page_offset, bits(0x8, 11, 6)},
                 Field{"log_eq_size", &Eqc::log_eq_size, bits(0xc, 28, 24), Format::kDecimal},
                 Field{"uar_page", &Eqc::uar_page, bits(0xc, 23, 0)},
                 Field{"intr", &Eqc::intr, bits(0x14, 11, 0), Format::kDecimal},
                 Field{"log_page_size", &Eqc::log_page_size, bits(0x18, 28, 24), Format::kDecimal},
                 Field{"consumer_counter", &Eqc::consumer_counter, bits(0x28, 23, 0)},
                 Field{"producer_counter", &Eqc::producer_counter, bits(0x2c, 23, 0)}};
};
static_assert(layout_is_valid<Eqc>());
static_assert(offset_bits_of(&Eqc::log_eq_size) == 0xc * 8 + 3);
static_assert(offset_bits_of(&Eqc::intr) == 0x14 * 8 + 20);
static_assert(offset_bits_of(&Eqc::producer_counter) == 0x2c * 8 + 8);

// Input of CREATE_EQ (output: ObjectOut, 8-bit number); the page addresses follow at kPageAddressOffset.
struct CreateEqIn {
  InputHeader header{};
  Eqc eqc{};
  std::uint64_t event_bitmask{};  // bit n: EventType n, 0..63
  static constexpr std::string_view kName = "create_eq_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      std::tuple{Field{"header", &CreateEqIn::header, bytes(0x0, 8)}, Field{"eqc", &CreateEqIn::eqc, bytes(0x10, 64)},
                 Field{"event_bitmask", &CreateEqIn::event_bitmask, bytes(0x58, 8)}};
};
static_assert(layout_is_valid<CreateEqIn>());
static_assert(offset_bits_of(&CreateEqIn::eqc) == 0x10 * 8);
static_assert(offset_bits_of(&CreateEqIn::event_bitmask) == 0x58 * 8);

// Output of QUERY_EQ (input: ObjectIn); the page addresses follow at kPageAddressOffset.
struct QueryEqOut {
  OutputHeader header{};
  Eqc eqc{};
  std::uint64_t event_bitmask{};
  static constexpr std::string_view kName = "query_eq_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      std::tuple{Field{"header", &QueryEqOut::header, bytes(0x0, 8)}, Field{"eqc", &QueryEqOut::eqc, bytes(0x10, 64)},
                 Field{"event_bitmask", &QueryEqOut::event_bitmask, bytes(0x58, 8)}};
};
static_assert(layout_is_valid<QueryEqOut>());
static_assert(offset_bits_of(&QueryEqOut::eqc) == 0x10 * 8);

// Event queue entry (EQE). Its number's place depends on the type: see number_offset().
struct Eqe {
  EventType type{};
  std::uint8_t sub_type{};
  std::uint32_t cq_error_cqn{};      // kCqError
  std::uint8_t cq_error_syndrome{};  // kCqError
  std::uint8_t port{};               // kPortChange
  std::uint8_t wq_type{};            // QP and SRQ events: 0 QP, 1 RQ, 2 SQ; 5 SRQ
  std::uint32_t number{};            // QPN, SRQN; CQN of kCompletion; DCTN
  std::uint8_t signature{};
  bool owner{};  // lap of the queue, odd or even
  static constexpr std::string_view kName = "eqe";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields = std::tuple{Field{"type", &Eqe::type, bits(0x0, 23, 16), Format::kName},
                                             Field{"sub_type", &Eqe::sub_type, bits(0x0, 7, 0)},
                                             Field{"cq_error_cqn", &Eqe::cq_error_cqn, bits(0x20, 23, 0)},
                                             Field{"cq_error_syndrome", &Eqe::cq_error_syndrome, bits(0x28, 7, 0)},
                                             Field{"port", &Eqe::port, bits(0x28, 31, 28), Format::kDecimal},
                                             Field{"wq_type", &Eqe::wq_type, bits(0x34, 31, 24)},
                                             Field{"number", &Eqe::number, bits(0x38, 23, 0)},
                                             Field{"signature", &Eqe::signature, bits(0x3c, 15, 8)},
                                             Field{"owner", &Eqe::owner, bits(0x3c, 0, 0)}};
};
static_assert(layout_is_valid<Eqe>());
static_assert(offset_bits_of(&Eqe::cq_error_cqn) == 0x20 * 8 + 8);
static_assert(offset_bits_of(&Eqe::cq_error_syndrome) == 0x28 * 8 + 24);
static_assert(offset_bits_of(&Eqe::wq_type) == 0x34 * 8);
static_assert(offset_bits_of(&Eqe::number) == 0x38 * 8 + 8);

}  // namespace umlx5::wqe::prm
