// Queue pairs: CREATE_QP, the modify commands, QUERY_QP.
//
// Layouts: create_qp_in, query_qp_out, qpc and ads of <linux/mlx5/mlx5_ifc.h>; what that header of Linux 6.1 leaves
// reserved (umem fields, qpc_ext) as rdma-core's providers/mlx5/mlx5_ifc.h has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// QPC.st.
enum class ServiceType : std::uint8_t {
  kRc = 0x0,
  kUc = 0x1,
  kUd = 0x2,
  kXrc = 0x3,
  kMlx = 0x4,
  kDci = 0x5,
  kDct = 0x6,
  kQp0 = 0x7,
  kQp1 = 0x8,
  kRawDatagram = 0x9,
  kRegUmr = 0xc,
};
std::string_view to_string(ServiceType type);

// QPC.state.
enum class QpcState : std::uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqErr = 4,
  kSqDrained = 5,
  kErr = 6,
  kSqDraining = 7,
  kSuspended = 9,
};
std::string_view to_string(QpcState state);

// QPC.rq_type.
enum class RqType : std::uint8_t { kRegular = 0, kSrq = 1, kCrq = 2, kZeroLength = 3 };
std::string_view to_string(RqType type);

// QPC.pm_state.
inline constexpr std::uint8_t kPathMigrated = 3;

// QPC.atomic_mode.
inline constexpr std::uint8_t kAtomicModeIb = 1;

// QPC.cs_res (receive completions) and QPC.cs_req (send completions): data scattered into the CQE.
inline constexpr std::uint8_t kScatterResponder32 = 0x1, kScatterResponder64 = 0x2;
inline constexpr std::uint8_t kScatterRequester32 = 0x11, kScatterRequester64 = 0x22;

// Bits of opt_param_mask: the optional fields that a modify command carries.
enum OptionalParameter : std::uint32_t {
  kOptAlternatePath = 1u << 0,
  kOptRre = 1u << 1,
  kOptRae = 1u << 2,
  kOptRwe = 1u << 3,
  kOptPkeyIndex = 1u << 4,
  kOptQkey = 1u << 5,
  kOptRnrTimeout = 1u << 6,
  kOptPrimaryPath = 1u << 7,
  kOptSraMax = 1u << 8,
  kOptRraMax = 1u << 9,
  kOptPmState = 1u << 10,
  kOptDrainSigerr = 1u << 11,  // INIT2INIT only
  kOptRetryCount = 1u << 12,
  kOptRnrRetry = 1u << 13,
  kOptAckTimeout = 1u << 14,
  kOptLagTxAffinity = 1u << 15,
  kOptPrimaryPort = 1u << 16,
  kOptSrqn = 1u << 18,
  kOptCqnReceive = 1u << 19,
  kOptDcHopLimit = 1u << 20,
  kOptDcKey = 1u << 21,
  kOptCounterSetId = 1u << 25,
};

// Address vector of a QP context (ads).
struct AddressPath {
  bool fl{};  // force loopback
  bool free_ar{};
  std::uint16_t pkey_index{};
  bool grh{};
  std::uint8_t mlid{};            // source path bits
  std::uint16_t rlid{};           // InfiniBand only
  std::uint8_t ack_timeout{};     // 4.096 us * 2^n, 0: none
  std::uint8_t src_addr_index{};  // GID table index
  std::uint8_t stat_rate{};
  std::uint8_t hop_limit{};
  std::uint8_t tclass{};
  std::uint32_t flow_label{};
  std::array<std::uint8_t, 16> rgid_rip{};  // remote GID
  bool f_dscp{};
  bool f_ecn{};
  bool f_eth_prio{};
  std::uint8_t ecn{};
  std::uint8_t dscp{};
  std::uint16_t udp_sport{};  // RoCE v2 UDP source port
  bool dei_cfi{};
  std::uint8_t eth_prio{};
  std::uint8_t sl{};
  std::uint8_t vhca_port_num{};
  std::array<std::uint8_t, 6> rmac{};  // remote MAC
  static constexpr std::string_view kName = "path";
  static constexpr std::size_t kBytes = 44;
  static constexpr auto kFields =
      Fields{Field{"fl", &AddressPath::fl, bits(0x0, 31, 31)},
             Field{"free_ar", &AddressPath::free_ar, bits(0x0, 30, 30)},
             Field{"pkey_index", &AddressPath::pkey_index, bits(0x0, 15, 0)},
             Field{"grh", &AddressPath::grh, bits(0x4, 23, 23)},
             Field{"mlid", &AddressPath::mlid, bits(0x4, 22, 16)},
             Field{"rlid", &AddressPath::rlid, bits(0x4, 15, 0)},
             Field{"ack_timeout", &AddressPath::ack_timeout, bits(0x8, 31, 27), Format::kDecimal},
             Field{"src_addr_index", &AddressPath::src_addr_index, bits(0x8, 23, 16), Format::kDecimal},
             Field{"stat_rate", &AddressPath::stat_rate, bits(0x8, 11, 8)},
             Field{"hop_limit", &AddressPath::hop_limit, bits(0x8, 7, 0), Format::kDecimal},
             Field{"tclass", &AddressPath::tclass, bits(0xc, 27, 20)},
             Field{"flow_label", &AddressPath::flow_label, bits(0xc, 19, 0)},
             Field{"rgid_rip", &AddressPath::rgid_rip, bytes(0x10, 16)},
             Field{"f_dscp", &AddressPath::f_dscp, bits(0x20, 27, 27)},
             Field{"f_ecn", &AddressPath::f_ecn, bits(0x20, 26, 26)},
             Field{"f_eth_prio", &AddressPath::f_eth_prio, bits(0x20, 24, 24)},
             Field{"ecn", &AddressPath::ecn, bits(0x20, 23, 22)},
             Field{"dscp", &AddressPath::dscp, bits(0x20, 21, 16)},
             Field{"udp_sport", &AddressPath::udp_sport, bits(0x20, 15, 0)},
             Field{"dei_cfi", &AddressPath::dei_cfi, bits(0x24, 31, 31)},
             Field{"eth_prio", &AddressPath::eth_prio, bits(0x24, 30, 28)},
             Field{"sl", &AddressPath::sl, bits(0x24, 27, 24)},
             Field{"vhca_port_num", &AddressPath::vhca_port_num, bits(0x24, 23, 16), Format::kDecimal},
             Field{"rmac", &AddressPath::rmac, bytes(0x26, 6)}};
};
static_assert(layout_is_valid<AddressPath>());
static_assert(offset_bits_of(&AddressPath::ack_timeout) == 0x8 * 8);
static_assert(offset_bits_of(&AddressPath::rgid_rip) == 0x10 * 8);
static_assert(offset_bits_of(&AddressPath::udp_sport) == 0x20 * 8 + 16);
static_assert(offset_bits_of(&AddressPath::rmac) == 0x26 * 8);

// QP context (qpc).
struct Qpc {
  QpcState state{};
  std::uint8_t lag_tx_port_affinity{};
  ServiceType st{};
  bool isolate_vl_tc{};
  std::uint8_t pm_state{};
  std::uint8_t req_e2e_credit_mode{};
  std::uint8_t offload_type{};
  std::uint8_t end_padding_mode{};
  bool wq_signature{};
  bool block_lb_mc{};
  bool atomic_like_write_en{};
  bool latency_sensitive{};
  bool drain_sigerr{};
  bool dp_ordering_force{};  // dp_ordering_1 is not what the path's service level says
  std::uint32_t pd{};
  std::uint8_t mtu{};  // IBA code 1 (256) .. 5 (4096)
  std::uint8_t log_msg_max{};
  std::uint8_t log_rq_size{};    // entries
  std::uint8_t log_rq_stride{};  // 16 << n bytes an entry
  bool no_sq{};
  std::uint8_t log_sq_size{};  // WQEBBs
  std::uint8_t ts_format{};
  bool rlky{};  // reserved lkey enabled
  std::uint8_t ulp_stateless_offload_mode{};
  std::uint8_t counter_set_id{};
  std::uint32_t uar_page{};
  std::uint32_t user_index{};
  std::uint8_t log_page_size{};  // 4096 << n bytes
  std::uint32_t remote_qpn{};
  AddressPath primary_address_path{};
  AddressPath secondary_address_path{};
  std::uint8_t log_ack_req_freq{};
  std::uint8_t log_sra_max{};  // reads and atomics that this requester has outstanding, 2^n
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry{};
  bool fre{};  // fast registration allowed
  std::uint8_t cur_rnr_retry{};
  std::uint8_t cur_retry_count{};
  std::uint32_t next_send_psn{};
  std::uint8_t log_num_dci_stream_channels{};
  std::uint32_t cqn_snd{};
  std::uint8_t log_num_dci_errored_streams{};
  std::uint32_t deth_sqpn{};
  std::uint32_t last_acked_psn{};
  std::uint32_t ssn{};
  std::uint8_t log_rra_max{};  // reads and atomics that this responder accepts, 2^n
  std::uint8_t atomic_mode{};
  bool rre{};
  bool rwe{};
  bool rae{};
  std::uint8_t page_offset{};  // of the queues in the first page, 1/64 of a page
  bool dp_ordering_1{};        // all operations are placed out of order
  bool cd_slave_receive{};
  bool cd_slave_send{};
  bool cd_master{};
  std::uint8_t min_rnr_nak{};
  std::uint32_t next_rcv_psn{};
  std::uint32_t xrcd{};
  std::uint32_t cqn_rcv{};
  std::uint64_t dbr_addr{};
  std::uint32_t q_key{};
  RqType rq_type{};
  std::uint32_t srqn_rmpn_xrqn{};
  std::uint32_t rmsn{};
  std::uint16_t hw_sq_wqebb_counter{};
  std::uint16_t sw_sq_wqebb_counter{};
  std::uint32_t hw_rq_counter{};
  std::uint32_t sw_rq_counter{};
  bool cgs{};
  std::uint8_t cs_req{};
  std::uint8_t cs_res{};
  std::uint64_t dc_access_key{};
  bool dbr_umem_valid{};
  std::uint32_t dbr_umem_id{};
  static constexpr std::string_view kName = "qpc";
  static constexpr std::size_t kBytes = 232;
  static constexpr auto kFields = Fields{
      Field{"state", &Qpc::state, bits(0x0, 31, 28), Format::kName},
      Field{"lag_tx_port_affinity", &Qpc::lag_tx_port_affinity, bits(0x0, 27, 24)},
      Field{"st", &Qpc::st, bits(0x0, 23, 16), Format::kName},
      Field{"isolate_vl_tc", &Qpc::isolate_vl_tc, bits(0x0, 13, 13)},
      Field{"pm_state", &Qpc::pm_state, bits(0x0, 12, 11)},
      Field{"req_e2e_credit_mode", &Qpc::req_e2e_credit_mode, bits(0x0, 9, 8)},
      Field{"offload_type", &Qpc::offload_type, bits(0x0, 7, 4)},
      Field{"end_padding_mode", &Qpc::end_padding_mode, bits(0x0, 3, 2)},
      Field{"wq_signature", &Qpc::wq_signature, bits(0x4, 31, 31)},
      Field{"block_lb_mc", &Qpc::block_lb_mc, bits(0x4, 30, 30)},
      Field{"atomic_like_write_en", &Qpc::atomic_like_write_en, bits(0x4, 29, 29)},
      Field{"latency_sensitive", &Qpc::latency_sensitive, bits(0x4, 28, 28)},
      Field{"drain_sigerr", &Qpc::drain_sigerr, bits(0x4, 26, 26)},
      Field{"dp_ordering_force", &Qpc::dp_ordering_force, bits(0x4, 24, 24)},
      Field{"pd", &Qpc::pd, bits(0x4, 23, 0)},
      Field{"mtu", &Qpc::mtu, bits(0x8, 31, 29), Format::kDecimal},
      Field{"log_msg_max", &Qpc::log_msg_max, bits(0x8, 28, 24), Format::kDecimal},
      Field{"log_rq_size", &Qpc::log_rq_size, bits(0x8, 22, 19), Format::kDecimal},
      Field{"log_rq_stride", &Qpc::log_rq_stride, bits(0x8, 18, 16), Format::kDecimal},
      Field{"no_sq", &Qpc::no_sq, bits(0x8, 15, 15)},
      Field{"log_sq_size", &Qpc::log_sq_size, bits(0x8, 14, 11), Format::kDecimal},
      Field{"ts_format", &Qpc::ts_format, bits(0x8, 7, 6)},
      Field{"rlky", &Qpc::rlky, bits(0x8, 4, 4)},
      Field{"ulp_stateless_offload_mode", &Qpc::ulp_stateless_offload_mode, bits(0x8, 3, 0)},
      Field{"counter_set_id", &Qpc::counter_set_id, bits(0xc, 31, 24)},
      Field{"uar_page", &Qpc::uar_page, bits(0xc, 23, 0)},
      Field{"user_index", &Qpc::user_index, bits(0x10, 23, 0)},
      Field{"log_page_size", &Qpc::log_page_size, bits(0x14, 28, 24), Format::kDecimal},
      Field{"remote_qpn", &Qpc::remote_qpn, bits(0x14, 23, 0)},
      Field{"primary_address_path", &Qpc::primary_address_path, bytes(0x18, 44)},
      Field{"secondary_address_path", &Qpc::secondary_address_path, bytes(0x44, 44)},
      Field{"log_ack_req_freq", &Qpc::log_ack_req_freq, bits(0x70, 31, 28), Format::kDecimal},
      Field{"log_sra_max", &Qpc::log_sra_max, bits(0x70, 23, 21), Format::kDecimal},
      Field{"retry_count", &Qpc::retry_count, bits(0x70, 18, 16), Format::kDecimal},
      Field{"rnr_retry", &Qpc::rnr_retry, bits(0x70, 15, 13), Format::kDecimal},
      Field{"fre", &Qpc::fre, bits(0x70, 11, 11)},
      Field{"cur_rnr_retry", &Qpc::cur_rnr_retry, bits(0x70, 10, 8), Format::kDecimal},
      Field{"cur_retry_count", &Qpc::cur_retry_count, bits(0x70, 7, 5), Format::kDecimal},
      Field{"next_send_psn", &Qpc::next_send_psn, bits(0x78, 23, 0)},
      Field{"log_num_dci_stream_channels", &Qpc::log_num_dci_stream_channels, bits(0x7c, 28, 24), Format::kDecimal},
      Field{"cqn_snd", &Qpc::cqn_snd, bits(0x7c, 23, 0)},
      Field{"log_num_dci_errored_streams", &Qpc::log_num_dci_errored_streams, bits(0x80, 28, 24), Format::kDecimal},
      Field{"deth_sqpn", &Qpc::deth_sqpn, bits(0x80, 23, 0)},
      Field{"last_acked_psn", &Qpc::last_acked_psn, bits(0x88, 23, 0)},
      Field{"ssn", &Qpc::ssn, bits(0x8c, 23, 0)},
      Field{"log_rra_max", &Qpc::log_rra_max, bits(0x90, 23, 21), Format::kDecimal},
      Field{"atomic_mode", &Qpc::atomic_mode, bits(0x90, 19, 16)},
      Field{"rre", &Qpc::rre, bits(0x90, 15, 15)},
      Field{"rwe", &Qpc::rwe, bits(0x90, 14, 14)},
      Field{"rae", &Qpc::rae, bits(0x90, 13, 13)},
      Field{"page_offset", &Qpc::page_offset, bits(0x90, 11, 6)},
      Field{"dp_ordering_1", &Qpc::dp_ordering_1, bits(0x90, 3, 3)},
      Field{"cd_slave_receive", &Qpc::cd_slave_receive, bits(0x90, 2, 2)},
      Field{"cd_slave_send", &Qpc::cd_slave_send, bits(0x90, 1, 1)},
      Field{"cd_master", &Qpc::cd_master, bits(0x90, 0, 0)},
      Field{"min_rnr_nak", &Qpc::min_rnr_nak, bits(0x94, 28, 24), Format::kDecimal},
      Field{"next_rcv_psn", &Qpc::next_rcv_psn, bits(0x94, 23, 0)},
      Field{"xrcd", &Qpc::xrcd, bits(0x98, 23, 0)},
      Field{"cqn_rcv", &Qpc::cqn_rcv, bits(0x9c, 23, 0)},
      Field{"dbr_addr", &Qpc::dbr_addr, bytes(0xa0, 8)},
      Field{"q_key", &Qpc::q_key, bytes(0xa8, 4)},
      Field{"rq_type", &Qpc::rq_type, bits(0xac, 26, 24), Format::kName},
      Field{"srqn_rmpn_xrqn", &Qpc::srqn_rmpn_xrqn, bits(0xac, 23, 0)},
      Field{"rmsn", &Qpc::rmsn, bits(0xb0, 23, 0)},
      Field{"hw_sq_wqebb_counter", &Qpc::hw_sq_wqebb_counter, bits(0xb4, 31, 16)},
      Field{"sw_sq_wqebb_counter", &Qpc::sw_sq_wqebb_counter, bits(0xb4, 15, 0)},
      Field{"hw_rq_counter", &Qpc::hw_rq_counter, bytes(0xb8, 4)},
      Field{"sw_rq_counter", &Qpc::sw_rq_counter, bytes(0xbc, 4)},
      Field{"cgs", &Qpc::cgs, bits(0xc4, 16, 16)},
      Field{"cs_req", &Qpc::cs_req, bits(0xc4, 15, 8)},
      Field{"cs_res", &Qpc::cs_res, bits(0xc4, 7, 0)},
      Field{"dc_access_key", &Qpc::dc_access_key, bytes(0xc8, 8)},
      Field{"dbr_umem_valid", &Qpc::dbr_umem_valid, bits(0xd0, 28, 28)},
      Field{"dbr_umem_id", &Qpc::dbr_umem_id, bytes(0xe4, 4)}};
};
static_assert(layout_is_valid<Qpc>());
static_assert(offset_bits_of(&Qpc::mtu) == 0x8 * 8);
static_assert(offset_bits_of(&Qpc::log_sq_size) == 0x8 * 8 + 17);
static_assert(offset_bits_of(&Qpc::remote_qpn) == 0x14 * 8 + 8);
static_assert(offset_bits_of(&Qpc::primary_address_path) == 0x18 * 8);
static_assert(offset_bits_of(&Qpc::secondary_address_path) == 0x44 * 8);
static_assert(offset_bits_of(&Qpc::log_ack_req_freq) == 0x70 * 8);
static_assert(offset_bits_of(&Qpc::next_send_psn) == 0x78 * 8 + 8);
static_assert(offset_bits_of(&Qpc::log_rra_max) == 0x90 * 8 + 8);
static_assert(offset_bits_of(&Qpc::dbr_addr) == 0xa0 * 8);
static_assert(offset_bits_of(&Qpc::hw_sq_wqebb_counter) == 0xb4 * 8);
static_assert(offset_bits_of(&Qpc::dc_access_key) == 0xc8 * 8);

// Input of CREATE_QP (output: ObjectOut); the page addresses follow at kPageAddressOffset.
struct CreateQpIn {
  InputHeader header{};
  bool qpc_ext{};
  std::uint32_t input_qpn{};  // 0: the device chooses
  std::uint32_t opt_param_mask{};
  std::uint32_t ece{};
  Qpc qpc{};
  std::uint64_t wq_umem_offset{};
  std::uint32_t wq_umem_id{};
  bool wq_umem_valid{};
  static constexpr std::string_view kName = "create_qp_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields = Fields{Field{"header", &CreateQpIn::header, bytes(0x0, 8)},
                                         Field{"qpc_ext", &CreateQpIn::qpc_ext, bits(0x8, 31, 31)},
                                         Field{"input_qpn", &CreateQpIn::input_qpn, bits(0x8, 23, 0)},
                                         Field{"opt_param_mask", &CreateQpIn::opt_param_mask, bytes(0x10, 4)},
                                         Field{"ece", &CreateQpIn::ece, bytes(0x14, 4)},
                                         Field{"qpc", &CreateQpIn::qpc, bytes(0x18, 232)},
                                         Field{"wq_umem_offset", &CreateQpIn::wq_umem_offset, bytes(0x100, 8)},
                                         Field{"wq_umem_id", &CreateQpIn::wq_umem_id, bytes(0x108, 4)},
                                         Field{"wq_umem_valid", &CreateQpIn::wq_umem_valid, bits(0x10c, 31, 31)}};
};
static_assert(layout_is_valid<CreateQpIn>());
static_assert(offset_bits_of(&CreateQpIn::opt_param_mask) == 0x10 * 8);
static_assert(offset_bits_of(&CreateQpIn::qpc) == 0x18 * 8);
static_assert(offset_bits_of(&CreateQpIn::wq_umem_offset) == 0x100 * 8);

// Input of RST2INIT_QP, INIT2INIT_QP, INIT2RTR_QP, RTR2RTS_QP, RTS2RTS_QP, SQERR2RTS_QP and SQD_RTS_QP (output:
// ObjectOut, empty but for ece). With qpc_ext set a QpcExtension follows at kQpcExtensionOffset.
struct ModifyQpIn {
  InputHeader header{};
  bool qpc_ext{};
  std::uint32_t qpn{};
  std::uint32_t opt_param_mask{};
  std::uint32_t ece{};
  Qpc qpc{};
  std::uint64_t opt_param_mask_95_32{};  // OptionalParameter2
  static constexpr std::string_view kName = "modify_qp_in";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &ModifyQpIn::header, bytes(0x0, 8)},
             Field{"qpc_ext", &ModifyQpIn::qpc_ext, bits(0x8, 31, 31)},
             Field{"qpn", &ModifyQpIn::qpn, bits(0x8, 23, 0)},
             Field{"opt_param_mask", &ModifyQpIn::opt_param_mask, bytes(0x10, 4)},
             Field{"ece", &ModifyQpIn::ece, bytes(0x14, 4)},
             Field{"qpc", &ModifyQpIn::qpc, bytes(0x18, 232)},
             Field{"opt_param_mask_95_32", &ModifyQpIn::opt_param_mask_95_32, bytes(0x108, 8)}};
};
static_assert(layout_is_valid<ModifyQpIn>());
static_assert(offset_bits_of(&ModifyQpIn::opt_param_mask) == 0x10 * 8);
static_assert(offset_bits_of(&ModifyQpIn::qpc) == 0x18 * 8);
static_assert(offset_bits_of(&ModifyQpIn::opt_param_mask_95_32) == 0x108 * 8);

// Output of QUERY_QP (input: ObjectIn); the page addresses follow at kPageAddressOffset.
struct QueryQpOut {
  OutputHeader header{};
  std::uint32_t opt_param_mask{};
  std::uint32_t ece{};
  Qpc qpc{};
  static constexpr std::string_view kName = "query_qp_out";
  static constexpr std::size_t kBytes = 272;
  static constexpr auto kFields =
      Fields{Field{"header", &QueryQpOut::header, bytes(0x0, 8)},
             Field{"opt_param_mask", &QueryQpOut::opt_param_mask, bytes(0x10, 4)},
             Field{"ece", &QueryQpOut::ece, bytes(0x14, 4)}, Field{"qpc", &QueryQpOut::qpc, bytes(0x18, 232)}};
};
static_assert(layout_is_valid<QueryQpOut>());
static_assert(offset_bits_of(&QueryQpOut::qpc) == 0x18 * 8);

inline constexpr std::size_t kQpcExtensionOffset = 0x110;

// Bits of opt_param_mask_95_32.
enum OptionalParameter2 : std::uint64_t {
  kOpt2DciStreamChannelId = 1u << 0,
  kOpt2QosQueueGroupId = 1u << 1,
  kOpt2UdpSourcePort = 1u << 2,
  kOpt2Mmo = 1u << 3,
};

// Extension of the QP context (qpc_ext).
struct QpcExtension {
  bool mmo{};  // memory-to-memory operations allowed
  std::uint16_t dci_stream_channel_id{};
  std::uint32_t qos_queue_group_id_requester{};
  std::uint32_t qos_queue_group_id_responder{};
  static constexpr std::string_view kName = "qpc_ext";
  static constexpr std::size_t kBytes = 192;
  static constexpr auto kFields =
      Fields{Field{"mmo", &QpcExtension::mmo, bits(0x0, 29, 29)},
             Field{"dci_stream_channel_id", &QpcExtension::dci_stream_channel_id, bits(0x0, 15, 0), Format::kDecimal},
             Field{"qos_queue_group_id_requester", &QpcExtension::qos_queue_group_id_requester, bytes(0x4, 4)},
             Field{"qos_queue_group_id_responder", &QpcExtension::qos_queue_group_id_responder, bytes(0x8, 4)}};
};
static_assert(layout_is_valid<QpcExtension>());

}  // namespace umlx5::wqe::prm
