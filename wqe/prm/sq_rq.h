// Send and receive queues of raw packets: CREATE_SQ, MODIFY_SQ, QUERY_SQ and the same of an RQ.
//
// Layouts: sqc, rqc, create_sq_in, modify_sq_in, query_sq_out, create_rq_in, modify_rq_in, query_rq_out of
// <linux/mlx5/mlx5_ifc.h>. The page addresses of the create commands follow at kPageAddressOffset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"
#include "wqe/prm/srq.h"

namespace umlx5::wqe::prm {

// sqc.state and rqc.state.
inline constexpr std::uint8_t kQueueReset = 0, kQueueReady = 1, kQueueError = 3;
// rqc.mem_rq_type: the receive WQEs are the queue's own.
inline constexpr std::uint8_t kMemoryRqInline = 0;
// Bits of modify_rq_in.modify_bitmask.
inline constexpr std::uint64_t kModifyRqVlanStripDisable = 1 << 1, kModifyRqScatterFcs = 1 << 2,
                               kModifyRqCounterSetId = 1 << 3;

// Send queue context (sqc).
struct Sqc {
  bool rlky{};
  bool cd_master{};
  bool flush_in_error_en{};
  std::uint8_t min_wqe_inline_mode{};
  std::uint8_t state{};
  bool hairpin{};
  std::uint32_t user_index{};
  std::uint32_t cqn{};
  std::uint16_t packet_pacing_rate_limit_index{};
  std::uint16_t tis_lst_sz{};
  std::uint32_t tis_num_0{};
  Wq wq{};
  static constexpr std::string_view kName = "sqc";
  static constexpr std::size_t kBytes = 240;
  static constexpr auto kFields =
      Fields{Field{"rlky", &Sqc::rlky, bits(0x0, 31, 31)},
             Field{"cd_master", &Sqc::cd_master, bits(0x0, 30, 30)},
             Field{"flush_in_error_en", &Sqc::flush_in_error_en, bits(0x0, 28, 28)},
             Field{"min_wqe_inline_mode", &Sqc::min_wqe_inline_mode, bits(0x0, 26, 24)},
             Field{"state", &Sqc::state, bits(0x0, 23, 20)},
             Field{"hairpin", &Sqc::hairpin, bits(0x0, 17, 17)},
             Field{"user_index", &Sqc::user_index, bits(0x4, 23, 0)},
             Field{"cqn", &Sqc::cqn, bits(0x8, 23, 0)},
             Field{"packet_pacing_rate_limit_index", &Sqc::packet_pacing_rate_limit_index, bits(0x1c, 15, 0)},
             Field{"tis_lst_sz", &Sqc::tis_lst_sz, bits(0x20, 31, 16), Format::kDecimal},
             Field{"tis_num_0", &Sqc::tis_num_0, bits(0x2c, 23, 0)},
             Field{"wq", &Sqc::wq, bytes(0x30, 192)}};
};
static_assert(layout_is_valid<Sqc>());
static_assert(offset_bits_of(&Sqc::tis_lst_sz) == 0x100);
static_assert(offset_bits_of(&Sqc::wq) == 0x180);

// Receive queue context (rqc).
struct Rqc {
  bool rlky{};
  bool delay_drop_en{};
  bool scatter_fcs{};
  bool vsd{};  // VLAN tags stay in the packets
  std::uint8_t mem_rq_type{};
  std::uint8_t state{};
  bool flush_in_error_en{};
  bool hairpin{};
  std::uint32_t user_index{};
  std::uint32_t cqn{};
  std::uint8_t counter_set_id{};
  std::uint32_t rmpn{};
  Wq wq{};
  static constexpr std::string_view kName = "rqc";
  static constexpr std::size_t kBytes = 240;
  static constexpr auto kFields = Fields{Field{"rlky", &Rqc::rlky, bits(0x0, 31, 31)},
                                         Field{"delay_drop_en", &Rqc::delay_drop_en, bits(0x0, 30, 30)},
                                         Field{"scatter_fcs", &Rqc::scatter_fcs, bits(0x0, 29, 29)},
                                         Field{"vsd", &Rqc::vsd, bits(0x0, 28, 28)},
                                         Field{"mem_rq_type", &Rqc::mem_rq_type, bits(0x0, 27, 24)},
                                         Field{"state", &Rqc::state, bits(0x0, 23, 20)},
                                         Field{"flush_in_error_en", &Rqc::flush_in_error_en, bits(0x0, 18, 18)},
                                         Field{"hairpin", &Rqc::hairpin, bits(0x0, 17, 17)},
                                         Field{"user_index", &Rqc::user_index, bits(0x4, 23, 0)},
                                         Field{"cqn", &Rqc::cqn, bits(0x8, 23, 0)},
                                         Field{"counter_set_id", &Rqc::counter_set_id, bits(0xc, 31, 24)},
                                         Field{"rmpn", &Rqc::rmpn, bits(0x10, 23, 0)},
                                         Field{"wq", &Rqc::wq, bytes(0x30, 192)}};
};
static_assert(layout_is_valid<Rqc>());
static_assert(offset_bits_of(&Rqc::rmpn) == 0x88);
static_assert(offset_bits_of(&Rqc::wq) == 0x180);

// Input of CREATE_SQ and CREATE_RQ (output: ObjectOut).
template <typename Context>
struct CreateQueueIn {
  InputHeader header{};
  Context context{};
  static constexpr std::string_view kName = "create_queue_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields = Fields{Field{"header", &CreateQueueIn::header, bytes(0x0, 8)},
                                         Field{"context", &CreateQueueIn::context, bytes(0x20, 240)}};
};
using CreateSqIn = CreateQueueIn<Sqc>;
using CreateRqIn = CreateQueueIn<Rqc>;
static_assert(layout_is_valid<CreateSqIn>());
static_assert(layout_is_valid<CreateRqIn>());

// Input of MODIFY_SQ and MODIFY_RQ (output: ObjectOut, empty). `state` is the one that the queue is in.
template <typename Context>
struct ModifyQueueIn {
  InputHeader header{};
  std::uint8_t state{};
  std::uint32_t number{};
  std::uint64_t modify_bitmask{};
  Context context{};
  static constexpr std::string_view kName = "modify_queue_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields = Fields{Field{"header", &ModifyQueueIn::header, bytes(0x0, 8)},
                                         Field{"state", &ModifyQueueIn::state, bits(0x8, 31, 28)},
                                         Field{"number", &ModifyQueueIn::number, bits(0x8, 23, 0)},
                                         Field{"modify_bitmask", &ModifyQueueIn::modify_bitmask, bytes(0x10, 8)},
                                         Field{"context", &ModifyQueueIn::context, bytes(0x20, 240)}};
};
using ModifySqIn = ModifyQueueIn<Sqc>;
using ModifyRqIn = ModifyQueueIn<Rqc>;
static_assert(layout_is_valid<ModifySqIn>());
static_assert(layout_is_valid<ModifyRqIn>());

// Output of QUERY_SQ and QUERY_RQ (input: ObjectIn).
template <typename Context>
struct QueryQueueOut {
  OutputHeader header{};
  Context context{};
  static constexpr std::string_view kName = "query_queue_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields = Fields{Field{"header", &QueryQueueOut::header, bytes(0x0, 8)},
                                         Field{"context", &QueryQueueOut::context, bytes(0x20, 240)}};
};
using QuerySqOut = QueryQueueOut<Sqc>;
using QueryRqOut = QueryQueueOut<Rqc>;
static_assert(layout_is_valid<QuerySqOut>());
static_assert(layout_is_valid<QueryRqOut>());

}  // namespace umlx5::wqe::prm
