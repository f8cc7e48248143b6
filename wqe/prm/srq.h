// Shared receive queues: CREATE_SRQ, CREATE_XRC_SRQ, CREATE_RMP and their query, arm and destroy commands.
//
// Layouts: srqc, xrc_srqc, rmpc, wq of <linux/mlx5/mlx5_ifc.h>. With interface revision (ISSI) 1 a driver creates basic
// SRQs as RMPs and XRC SRQs as XRC_SRQs. SRQs, XRC SRQs and RMPs share one number space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// State of an SRQ or XRC SRQ: 0 good, 1 error. Of an RMP: 1 ready, 3 error.
inline constexpr std::uint8_t kSrqGood = 0, kSrqError = 1, kRmpReady = 1, kRmpError = 3;

// ARM_RQ (703) arms a basic SRQ with op_mod 1 and the LWM in ArmSrqIn; an RMP is armed by MODIFY_RMP with the mask bit
// kRmpLwm.
inline constexpr std::uint16_t kArmSrq = 1;
inline constexpr std::uint64_t kRmpLwm = 1;

// wq.wq_type.
enum class WqType : std::uint8_t { kLinkedList = 0, kCyclic = 1, kLinkedListStriding = 2, kCyclicStriding = 3 };
std::string_view to_string(WqType type);

// SRQ context (srqc).
struct Srqc {
  std::uint8_t state{};
  std::uint8_t log_srq_size{};  // entries
  bool wq_signature{};
  bool cont_srq{};
  bool rlky{};
  std::uint8_t log_rq_stride{};  // 16 << n bytes an entry
  std::uint32_t xrcd{};
  std::uint8_t page_offset{};
  std::uint32_t cqn{};
  std::uint8_t log_page_size{};  // 4096 << n bytes
  std::uint32_t pd{};
  std::uint16_t lwm{};      // limit: an event when fewer WQEs are left
  std::uint16_t wqe_cnt{};  // WQEs that wait
  std::uint64_t dbr_addr{};
  static constexpr std::string_view kName = "srqc";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"state", &Srqc::state, bits(0x0, 31, 28)},
             Field{"log_srq_size", &Srqc::log_srq_size, bits(0x0, 27, 24), Format::kDecimal},
             Field{"wq_signature", &Srqc::wq_signature, bits(0x4, 31, 31)},
             Field{"cont_srq", &Srqc::cont_srq, bits(0x4, 30, 30)},
             Field{"rlky", &Srqc::rlky, bits(0x4, 28, 28)},
             Field{"log_rq_stride", &Srqc::log_rq_stride, bits(0x4, 26, 24), Format::kDecimal},
             Field{"xrcd", &Srqc::xrcd, bits(0x4, 23, 0)},
             Field{"page_offset", &Srqc::page_offset, bits(0x8, 31, 26)},
             Field{"cqn", &Srqc::cqn, bits(0x8, 23, 0)},
             Field{"log_page_size", &Srqc::log_page_size, bits(0x10, 29, 24), Format::kDecimal},
             Field{"pd", &Srqc::pd, bits(0x18, 23, 0)},
             Field{"lwm", &Srqc::lwm, bits(0x1c, 31, 16), Format::kDecimal},
             Field{"wqe_cnt", &Srqc::wqe_cnt, bits(0x1c, 15, 0), Format::kDecimal},
             Field{"dbr_addr", &Srqc::dbr_addr, bytes(0x28, 8)}};
};
static_assert(layout_is_valid<Srqc>());
static_assert(offset_bits_of(&Srqc::log_page_size) == 0x10 * 8 + 2);
static_assert(offset_bits_of(&Srqc::lwm) == 0x1c * 8);
static_assert(offset_bits_of(&Srqc::dbr_addr) == 0x28 * 8);

// Input of CREATE_SRQ (output: ObjectOut); the page addresses follow at kPageAddressOffset.
struct CreateSrqIn {
  InputHeader header{};
  Srqc srqc{};
  static constexpr std::string_view kName = "create_srq_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateSrqIn::header, bytes(0x0, 8)}, Field{"srqc", &CreateSrqIn::srqc, bytes(0x10, 64)}};
};
static_assert(layout_is_valid<CreateSrqIn>());
static_assert(offset_bits_of(&CreateSrqIn::srqc) == 0x10 * 8);

// Output of QUERY_SRQ (input: ObjectIn); the page addresses follow at kPageAddressOffset.
struct QuerySrqOut {
  OutputHeader header{};
  Srqc srqc{};
  static constexpr std::string_view kName = "query_srq_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &QuerySrqOut::header, bytes(0x0, 8)}, Field{"srqc", &QuerySrqOut::srqc, bytes(0x10, 64)}};
};
static_assert(layout_is_valid<QuerySrqOut>());
static_assert(offset_bits_of(&QuerySrqOut::srqc) == 0x10 * 8);

// Input of ARM_RQ (op_mod kArmSrq) and ARM_XRC_SRQ (op_mod kArmSrq).
struct ArmSrqIn {
  InputHeader header{};
  std::uint32_t srqn{};
  std::uint16_t lwm{};
  static constexpr std::string_view kName = "arm_srq_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"header", &ArmSrqIn::header, bytes(0x0, 8)}, Field{"srqn", &ArmSrqIn::srqn, bits(0x8, 23, 0)},
             Field{"lwm", &ArmSrqIn::lwm, bits(0xc, 15, 0), Format::kDecimal}};
};
static_assert(layout_is_valid<ArmSrqIn>());
static_assert(offset_bits_of(&ArmSrqIn::lwm) == 0xc * 8 + 16);

// XRC SRQ context (xrc_srqc).
struct XrcSrqc {
  std::uint8_t state{};
  std::uint8_t log_xrc_srq_size{};  // entries
  bool wq_signature{};
  bool cont_srq{};
  bool rlky{};
  bool basic_cyclic_rcv_wqe{};
  std::uint8_t log_rq_stride{};  // 16 << n bytes an entry
  std::uint32_t xrcd{};
  std::uint8_t page_offset{};
  bool dbr_umem_valid{};
  std::uint32_t cqn{};
  std::uint32_t dbr_umem_id{};
  bool user_index_equal_xrc_srqn{};
  std::uint8_t log_page_size{};  // 4096 << n bytes
  std::uint32_t user_index{};
  std::uint32_t pd{};
  std::uint16_t lwm{};
  std::uint16_t wqe_cnt{};
  std::uint64_t dbr_addr{};
  static constexpr std::string_view kName = "xrc_srqc";
  static constexpr std::size_t kBytes = 64;
  static constexpr auto kFields =
      Fields{Field{"state", &XrcSrqc::state, bits(0x0, 31, 28)},
             Field{"log_xrc_srq_size", &XrcSrqc::log_xrc_srq_size, bits(0x0, 27, 24), Format::kDecimal},
             Field{"wq_signature", &XrcSrqc::wq_signature, bits(0x4, 31, 31)},
             Field{"cont_srq", &XrcSrqc::cont_srq, bits(0x4, 30, 30)},
             Field{"rlky", &XrcSrqc::rlky, bits(0x4, 28, 28)},
             Field{"basic_cyclic_rcv_wqe", &XrcSrqc::basic_cyclic_rcv_wqe, bits(0x4, 27, 27)},
             Field{"log_rq_stride", &XrcSrqc::log_rq_stride, bits(0x4, 26, 24), Format::kDecimal},
             Field{"xrcd", &XrcSrqc::xrcd, bits(0x4, 23, 0)},
             Field{"page_offset", &XrcSrqc::page_offset, bits(0x8, 31, 26)},
             Field{"dbr_umem_valid", &XrcSrqc::dbr_umem_valid, bits(0x8, 24, 24)},
             Field{"cqn", &XrcSrqc::cqn, bits(0x8, 23, 0)},
             Field{"dbr_umem_id", &XrcSrqc::dbr_umem_id, bytes(0xc, 4)},
             Field{"user_index_equal_xrc_srqn", &XrcSrqc::user_index_equal_xrc_srqn, bits(0x10, 31, 31)},
             Field{"log_page_size", &XrcSrqc::log_page_size, bits(0x10, 29, 24), Format::kDecimal},
             Field{"user_index", &XrcSrqc::user_index, bits(0x10, 23, 0)},
             Field{"pd", &XrcSrqc::pd, bits(0x18, 23, 0)},
             Field{"lwm", &XrcSrqc::lwm, bits(0x1c, 31, 16), Format::kDecimal},
             Field{"wqe_cnt", &XrcSrqc::wqe_cnt, bits(0x1c, 15, 0), Format::kDecimal},
             Field{"dbr_addr", &XrcSrqc::dbr_addr, bytes(0x28, 8)}};
};
static_assert(layout_is_valid<XrcSrqc>());
static_assert(offset_bits_of(&XrcSrqc::log_page_size) == 0x10 * 8 + 2);
static_assert(offset_bits_of(&XrcSrqc::lwm) == 0x1c * 8);
static_assert(offset_bits_of(&XrcSrqc::dbr_addr) == 0x28 * 8);

// Input of CREATE_XRC_SRQ (output: ObjectOut); the page addresses follow at kPageAddressOffset.
struct CreateXrcSrqIn {
  InputHeader header{};
  XrcSrqc xrc_srqc{};
  std::uint64_t xrc_srq_umem_offset{};
  std::uint32_t xrc_srq_umem_id{};
  bool xrc_srq_umem_valid{};
  static constexpr std::string_view kName = "create_xrc_srq_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateXrcSrqIn::header, bytes(0x0, 8)},
             Field{"xrc_srqc", &CreateXrcSrqIn::xrc_srqc, bytes(0x10, 64)},
             Field{"xrc_srq_umem_offset", &CreateXrcSrqIn::xrc_srq_umem_offset, bytes(0x50, 8)},
             Field{"xrc_srq_umem_id", &CreateXrcSrqIn::xrc_srq_umem_id, bytes(0x58, 4)},
             Field{"xrc_srq_umem_valid", &CreateXrcSrqIn::xrc_srq_umem_valid, bits(0x5c, 31, 31)}};
};
static_assert(layout_is_valid<CreateXrcSrqIn>());
static_assert(offset_bits_of(&CreateXrcSrqIn::xrc_srqc) == 0x10 * 8);

// Output of QUERY_XRC_SRQ (input: ObjectIn).
struct QueryXrcSrqOut {
  OutputHeader header{};
  XrcSrqc xrc_srqc{};
  static constexpr std::string_view kName = "query_xrc_srq_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields = Fields{Field{"header", &QueryXrcSrqOut::header, bytes(0x0, 8)},
                                         Field{"xrc_srqc", &QueryXrcSrqOut::xrc_srqc, bytes(0x10, 64)}};
};
static_assert(layout_is_valid<QueryXrcSrqOut>());
static_assert(offset_bits_of(&QueryXrcSrqOut::xrc_srqc) == 0x10 * 8);

// Work queue context (wq), inside an RMP's, RQ's or SQ's context.
struct Wq {
  WqType wq_type{};
  bool wq_signature{};
  std::uint8_t end_padding_mode{};
  bool cd_slave{};
  std::uint8_t page_offset{};
  std::uint16_t lwm{};
  std::uint32_t pd{};
  std::uint32_t uar_page{};
  std::uint64_t dbr_addr{};
  std::uint32_t hw_counter{};
  std::uint32_t sw_counter{};
  std::uint8_t log_wq_stride{};  // 1 << n bytes an entry
  std::uint8_t log_wq_pg_sz{};   // 4096 << n bytes
  std::uint8_t log_wq_sz{};      // entries
  bool dbr_umem_valid{};
  bool wq_umem_valid{};
  // Of a striding queue: 2^(9+n) strides a WQE for n up to 9, 2^(n-7) from 10 on, of 64 << n bytes; and whether data
  // begins two bytes into its first stride.
  std::uint8_t log_wqe_num_of_strides{};
  bool two_byte_shift_en{};
  std::uint8_t log_wqe_stride_size{};
  std::uint32_t dbr_umem_id{};
  std::uint32_t wq_umem_id{};
  std::uint64_t wq_umem_offset{};
  static constexpr std::string_view kName = "wq";
  static constexpr std::size_t kBytes = 192;
  static constexpr auto kFields =
      Fields{Field{"wq_type", &Wq::wq_type, bits(0x0, 31, 28), Format::kName},
             Field{"wq_signature", &Wq::wq_signature, bits(0x0, 27, 27)},
             Field{"end_padding_mode", &Wq::end_padding_mode, bits(0x0, 26, 25)},
             Field{"cd_slave", &Wq::cd_slave, bits(0x0, 24, 24)},
             Field{"page_offset", &Wq::page_offset, bits(0x4, 20, 16)},
             Field{"lwm", &Wq::lwm, bits(0x4, 15, 0), Format::kDecimal},
             Field{"pd", &Wq::pd, bits(0x8, 23, 0)},
             Field{"uar_page", &Wq::uar_page, bits(0xc, 23, 0)},
             Field{"dbr_addr", &Wq::dbr_addr, bytes(0x10, 8)},
             Field{"hw_counter", &Wq::hw_counter, bytes(0x18, 4)},
             Field{"sw_counter", &Wq::sw_counter, bytes(0x1c, 4)},
             Field{"log_wq_stride", &Wq::log_wq_stride, bits(0x20, 19, 16), Format::kDecimal},
             Field{"log_wq_pg_sz", &Wq::log_wq_pg_sz, bits(0x20, 12, 8), Format::kDecimal},
             Field{"log_wq_sz", &Wq::log_wq_sz, bits(0x20, 4, 0), Format::kDecimal},
             Field{"dbr_umem_valid", &Wq::dbr_umem_valid, bits(0x24, 31, 31)},
             Field{"wq_umem_valid", &Wq::wq_umem_valid, bits(0x24, 30, 30)},
             Field{"log_wqe_num_of_strides", &Wq::log_wqe_num_of_strides, bits(0x24, 11, 8)},
             Field{"two_byte_shift_en", &Wq::two_byte_shift_en, bits(0x24, 7, 7)},
             Field{"log_wqe_stride_size", &Wq::log_wqe_stride_size, bits(0x24, 2, 0)},
             Field{"dbr_umem_id", &Wq::dbr_umem_id, bytes(0x28, 4)},
             Field{"wq_umem_id", &Wq::wq_umem_id, bytes(0x2c, 4)},
             Field{"wq_umem_offset", &Wq::wq_umem_offset, bytes(0x30, 8)}};
};
static_assert(layout_is_valid<Wq>());
static_assert(offset_bits_of(&Wq::dbr_addr) == 0x10 * 8);
static_assert(offset_bits_of(&Wq::log_wq_stride) == 0x20 * 8 + 12);

// Receive memory pool context (rmpc).
struct Rmpc {
  std::uint8_t state{};
  bool basic_cyclic_rcv_wqe{};
  Wq wq{};
  static constexpr std::string_view kName = "rmpc";
  static constexpr std::size_t kBytes = 240;
  static constexpr auto kFields = Fields{Field{"state", &Rmpc::state, bits(0x0, 23, 20)},
                                         Field{"basic_cyclic_rcv_wqe", &Rmpc::basic_cyclic_rcv_wqe, bits(0x4, 31, 31)},
                                         Field{"wq", &Rmpc::wq, bytes(0x30, 192)}};
};
static_assert(layout_is_valid<Rmpc>());
static_assert(offset_bits_of(&Rmpc::wq) == 0x30 * 8);

// Input of CREATE_RMP (output: ObjectOut); the page addresses follow at kPageAddressOffset.
struct CreateRmpIn {
  InputHeader header{};
  Rmpc rmpc{};
  static constexpr std::string_view kName = "create_rmp_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &CreateRmpIn::header, bytes(0x0, 8)}, Field{"rmpc", &CreateRmpIn::rmpc, bytes(0x20, 240)}};
};
static_assert(layout_is_valid<CreateRmpIn>());
static_assert(offset_bits_of(&CreateRmpIn::rmpc) == 0x20 * 8);

// Input of MODIFY_RMP (output: ObjectOut, empty).
struct ModifyRmpIn {
  InputHeader header{};
  std::uint8_t rmp_state{};
  std::uint32_t rmpn{};
  std::uint64_t bitmask{};
  Rmpc rmpc{};
  static constexpr std::string_view kName = "modify_rmp_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields = Fields{Field{"header", &ModifyRmpIn::header, bytes(0x0, 8)},
                                         Field{"rmp_state", &ModifyRmpIn::rmp_state, bits(0x8, 31, 28)},
                                         Field{"rmpn", &ModifyRmpIn::rmpn, bits(0x8, 23, 0)},
                                         Field{"bitmask", &ModifyRmpIn::bitmask, bytes(0x10, 8)},
                                         Field{"rmpc", &ModifyRmpIn::rmpc, bytes(0x20, 240)}};
};
static_assert(layout_is_valid<ModifyRmpIn>());
static_assert(offset_bits_of(&ModifyRmpIn::bitmask) == 0x10 * 8);
static_assert(offset_bits_of(&ModifyRmpIn::rmpc) == 0x20 * 8);

// Output of QUERY_RMP (input: ObjectIn).
struct QueryRmpOut {
  OutputHeader header{};
  Rmpc rmpc{};
  static constexpr std::string_view kName = "query_rmp_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryRmpOut::header, bytes(0x0, 8)}, Field{"rmpc", &QueryRmpOut::rmpc, bytes(0x20, 240)}};
};
static_assert(layout_is_valid<QueryRmpOut>());
static_assert(offset_bits_of(&QueryRmpOut::rmpc) == 0x20 * 8);

}  // namespace umlx5::wqe::prm
