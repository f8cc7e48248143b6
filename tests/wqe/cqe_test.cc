// Literal CQEs; sizes, offsets and values against <infiniband/mlx5dv.h> and <infiniband/verbs.h>.
#include "wqe/cqe.h"

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <set>

#include "tests/wqe/bytes.h"

namespace umlx5::wqe {
namespace {

using testing_bytes::hex;
using testing_bytes::stored;
using testing_bytes::unhex;

static_assert(Cqe::kBytes == sizeof(mlx5_cqe64) && ErrorCqe::kBytes == sizeof(mlx5_err_cqe));
static_assert(offset_bits_of(&Cqe::wqe_id) == offsetof(mlx5_cqe64, wqe_id) * 8);
static_assert(offset_bits_of(&Cqe::path_bits) == offsetof(mlx5_cqe64, ml_path) * 8 + 1);
static_assert(offset_bits_of(&Cqe::slid) == offsetof(mlx5_cqe64, slid) * 8);
static_assert(offset_bits_of(&Cqe::source_qpn) == offsetof(mlx5_cqe64, flags_rqpn) * 8 + 8);
static_assert(offset_bits_of(&Cqe::vlan) == offsetof(mlx5_cqe64, vlan_info) * 8);
static_assert(offset_bits_of(&Cqe::srqn_or_user_index) == offsetof(mlx5_cqe64, srqn_uidx) * 8 + 8);
static_assert(offset_bits_of(&Cqe::immediate) == offsetof(mlx5_cqe64, imm_inval_pkey) * 8);
static_assert(offset_bits_of(&Cqe::app) == offsetof(mlx5_cqe64, app) * 8);
static_assert(offset_bits_of(&Cqe::app_op) == offsetof(mlx5_cqe64, app_op) * 8);
static_assert(offset_bits_of(&Cqe::app_info) == offsetof(mlx5_cqe64, app_info) * 8);
static_assert(offset_bits_of(&Cqe::byte_count) == offsetof(mlx5_cqe64, byte_cnt) * 8);
static_assert(offset_bits_of(&Cqe::timestamp) == offsetof(mlx5_cqe64, timestamp) * 8);
static_assert(offset_bits_of(&Cqe::send_opcode) == offsetof(mlx5_cqe64, sop_drop_qpn) * 8);
static_assert(offset_bits_of(&Cqe::wqe_counter) == offsetof(mlx5_cqe64, wqe_counter) * 8);
static_assert(offset_bits_of(&Cqe::signature) == offsetof(mlx5_cqe64, signature) * 8);
static_assert(kCqeOpOwnOffset == offsetof(mlx5_cqe64, op_own));
static_assert(offset_bits_of(&ErrorCqe::vendor_syndrome) == offsetof(mlx5_err_cqe, vendor_err_synd) * 8);
static_assert(offset_bits_of(&ErrorCqe::syndrome) == offsetof(mlx5_err_cqe, syndrome) * 8);
static_assert(offset_bits_of(&ErrorCqe::send_opcode) == offsetof(mlx5_err_cqe, s_wqe_opcode_qpn) * 8);
static_assert(offset_bits_of(&ErrorCqe::wqe_counter) == offsetof(mlx5_err_cqe, wqe_counter) * 8);

static_assert(static_cast<int>(CqeOpcode::kRequester) == MLX5_CQE_REQ);
static_assert(static_cast<int>(CqeOpcode::kResponderWriteImmediate) == MLX5_CQE_RESP_WR_IMM);
static_assert(static_cast<int>(CqeOpcode::kResponderSend) == MLX5_CQE_RESP_SEND);
static_assert(static_cast<int>(CqeOpcode::kResponderSendImmediate) == MLX5_CQE_RESP_SEND_IMM);
static_assert(static_cast<int>(CqeOpcode::kResponderSendInvalidate) == MLX5_CQE_RESP_SEND_INV);
static_assert(static_cast<int>(CqeOpcode::kResize) == MLX5_CQE_RESIZE_CQ);
static_assert(static_cast<int>(CqeOpcode::kNoPacket) == MLX5_CQE_NO_PACKET);
static_assert(static_cast<int>(CqeOpcode::kSignatureError) == MLX5_CQE_SIG_ERR);
static_assert(static_cast<int>(CqeOpcode::kRequesterError) == MLX5_CQE_REQ_ERR);
static_assert(static_cast<int>(CqeOpcode::kResponderError) == MLX5_CQE_RESP_ERR);
static_assert(static_cast<int>(CqeOpcode::kInvalid) == MLX5_CQE_INVALID);
static_assert(static_cast<int>(L3Type::kIpv4) == MLX5_CQE_L3_HDR_TYPE_IPV4);
static_assert(static_cast<int>(L3Type::kIpv6) == MLX5_CQE_L3_HDR_TYPE_IPV6);

TEST(Cqe, RequesterBytes) {
  const Cqe cqe{.byte_count = 0x1000,
                .timestamp = 0x0102030405060708,
                .send_opcode = SendOpcode::kRdmaRead,
                .qpn = 0x000045,
                .wqe_counter = 0xfffe,
                .opcode = CqeOpcode::kRequester,
                .owner = true};
  EXPECT_EQ(hex(stored(cqe)),
            "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
            "00000000 00000000 00000000 00001000 01020304 05060708 10000045 fffe0001");
}

TEST(Cqe, ResponderBytes) {
  const Cqe cqe{.path_bits = 0x11,
                .slid = 0x2233,
                .grh = 2,
                .sl = 5,
                .source_qpn = 0x778899,
                .l2_ok = true,
                .l3_ok = true,
                .l4_ok = true,
                .l4_type = 1,
                .l3_type = L3Type::kIpv4,
                .has_vlan = true,
                .vlan = 0x0064,
                .srqn_or_user_index = 0xabcdef,
                .immediate = 0x55667788,
                .byte_count = 140,
                .qpn = 0x46,
                .wqe_counter = 7,
                .signature = 0x5a,
                .opcode = CqeOpcode::kResponderSendImmediate,
                .format = CqeFormat::kInline32,
                .solicited = true};
  EXPECT_EQ(hex(stored(cqe)),
            "00000000 00000000 00000000 00000000 00110000 00002233 25778899 07190064 "
            "00abcdef 55667788 00000000 0000008c 00000000 00000000 00000046 00075a36");
  EXPECT_EQ(stored(Cqe{.l2_ok = true})[28], std::byte{MLX5_CQE_L2_OK});
  EXPECT_EQ(stored(Cqe{.l3_ok = true})[28], std::byte{MLX5_CQE_L3_OK});
  EXPECT_EQ(stored(Cqe{.l4_ok = true})[28], std::byte{MLX5_CQE_L4_OK});
}

TEST(Cqe, AgreesWithMlx5dvReaders) {
  mlx5_cqe64 reference{};
  reference.op_own = 0x2f;
  EXPECT_EQ(static_cast<int>(cqe_opcode(reference.op_own)), mlx5dv_get_cqe_opcode(&reference));
  EXPECT_EQ(static_cast<int>(cqe_format(reference.op_own)), mlx5dv_get_cqe_format(&reference));
  EXPECT_EQ(cqe_solicited(reference.op_own), mlx5dv_get_cqe_se(&reference));
  EXPECT_EQ(cqe_owner(reference.op_own), mlx5dv_get_cqe_owner(&reference));
}

TEST(Cqe, OwnershipAlternatesEachLap) {
  constexpr unsigned kLogEntries = 2;
  EXPECT_FALSE(cqe_is_ready(kCqeOpOwnInitial, 0, kLogEntries));
  EXPECT_TRUE(cqe_is_ready(0x00, 3, kLogEntries));
  EXPECT_FALSE(cqe_is_ready(0x01, 3, kLogEntries));
  EXPECT_TRUE(cqe_is_ready(0x01, 4, kLogEntries));
  EXPECT_FALSE(cqe_is_ready(0x00, 4, kLogEntries));
  EXPECT_FALSE(cqe_is_ready(0xf1, 4, kLogEntries));
  EXPECT_TRUE(cqe_is_ready(0x20, 8, kLogEntries));
}

TEST(Cqe, LargeEntryHoldsItInTheSecondHalf) {
  EXPECT_EQ(cqe_offset(kCqeBytes), 0u);
  EXPECT_EQ(cqe_offset(kLargeCqeBytes), 64u);
}

TEST(ErrorCqe, ReadFromTheUpperHalfOfA128ByteEntry) {
  std::array<std::byte, kLargeCqeBytes> entry;
  entry.fill(std::byte{0xee});
  auto* reference = reinterpret_cast<mlx5_err_cqe*>(entry.data() + 64);
  *reference = {};
  reference->vendor_err_synd = 0x81;
  reference->syndrome = MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR;
  reference->s_wqe_opcode_qpn = htobe32(0x0a000123);
  reference->wqe_counter = htobe16(5);
  reference->op_own = MLX5_CQE_REQ_ERR << 4;
  const auto cqe = load<ErrorCqe>(entry.data() + cqe_offset(entry.size()));
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequesterError);
  EXPECT_EQ(cqe.vendor_syndrome, 0x81);
  EXPECT_EQ(cqe.syndrome, ErrorSyndrome::kTransportRetryExceeded);
  EXPECT_EQ(cqe.send_opcode, SendOpcode::kSend);
  EXPECT_EQ(cqe.qpn, 0x123u);
  EXPECT_EQ(cqe.wqe_counter, 5);
  EXPECT_EQ(print(cqe),
            "error-cqe{opcode=REQ_ERR(0xd) syndrome=TRANSPORT_RETRY_EXC_ERR(0x15) vendor_syndrome=0x81 "
            "send_opcode=SEND(0xa) qpn=0x123 wqe_counter=5}");
}

TEST(SignatureErrorCqe, Bytes) {
  const auto bytes = unhex(
      "00000000 00000000 00000000 00000000 0000aaaa 0000bbbb 00000001 00000002 "
      "2800f1fa 00123400 00000000 00000200 00000000 00000000 00000046 000000c1");
  const auto cqe = load<SignatureErrorCqe>(bytes.data());
  EXPECT_EQ(cqe.expected_guard, 0xaaaau);
  EXPECT_EQ(cqe.actual_guard, 0xbbbbu);
  EXPECT_EQ(cqe.expected_reference_tag, 1u);
  EXPECT_EQ(cqe.actual_reference_tag, 2u);
  EXPECT_TRUE(cqe.guard_mismatch);
  EXPECT_FALSE(cqe.application_tag_mismatch);
  EXPECT_TRUE(cqe.reference_tag_mismatch);
  EXPECT_EQ(cqe.kind, 1);
  EXPECT_EQ(cqe.domain, 2);
  EXPECT_EQ(cqe.mkey >> 8, 0x1234u);
  EXPECT_EQ(cqe.offset_bytes, 512u);
  EXPECT_EQ(cqe.qpn, 0x46u);
  EXPECT_EQ(cqe.opcode, CqeOpcode::kSignatureError);
}

TEST(Names, CqeEnums) {
  std::set<std::string_view> names;
  for (const int value : {0, 1, 2, 3, 4, 5, 6, 12, 13, 14, 15}) {
    EXPECT_NE(to_string(static_cast<CqeOpcode>(value)), "unknown") << value;
    EXPECT_TRUE(names.insert(to_string(static_cast<CqeOpcode>(value))).second) << value;
  }
  for (const int value : {7, 8, 9, 10, 11}) {
    EXPECT_EQ(to_string(static_cast<CqeOpcode>(value)), "unknown");
  }
  EXPECT_EQ(to_string(CqeFormat::kNone), "no-data");
  EXPECT_EQ(to_string(CqeFormat::kInline32), "inline-32");
  EXPECT_EQ(to_string(CqeFormat::kInline64), "inline-64");
  EXPECT_EQ(to_string(CqeFormat::kCompressed), "compressed");
  EXPECT_EQ(to_string(L3Type{3}), "reserved");
}

struct SyndromeCase {
  std::uint8_t syndrome;
  ibv_wc_status status;
  std::string_view name;
};

// The table is rdma-core's: MLX5_CQE_SYNDROME_* to IBV_WC_*.
constexpr std::array kSyndromes = {
    SyndromeCase{MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, IBV_WC_LOC_LEN_ERR, "LOCAL_LENGTH_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR, "LOCAL_QP_OP_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, IBV_WC_LOC_PROT_ERR, "LOCAL_PROT_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR, "WR_FLUSH_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_MW_BIND_ERR, IBV_WC_MW_BIND_ERR, "MW_BIND_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR, "BAD_RESP_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, "LOCAL_ACCESS_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, "REMOTE_INVAL_REQ_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, "REMOTE_ACCESS_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_REMOTE_OP_ERR, IBV_WC_REM_OP_ERR, "REMOTE_OP_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR, "TRANSPORT_RETRY_EXC_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC_ERR"},
    SyndromeCase{MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR, IBV_WC_REM_ABORT_ERR, "REMOTE_ABORTED_ERR"},
};

TEST(Syndrome, EachHasItsStatusNameAndWords) {
  std::set<std::string_view> explanations;
  std::set<std::string_view> statuses;
  for (const auto& [value, status, name] : kSyndromes) {
    const auto syndrome = static_cast<ErrorSyndrome>(value);
    EXPECT_EQ(static_cast<int>(status_of(syndrome)), status) << name;
    EXPECT_EQ(to_string(syndrome), name);
    EXPECT_TRUE(explanations.insert(explain(syndrome)).second) << name;
    EXPECT_TRUE(statuses.insert(to_string(status_of(syndrome))).second) << name;
    EXPECT_NE(explain(syndrome).back(), '.') << name;
  }
}

TEST(Syndrome, EveryOtherValueIsGeneral) {
  unsigned general = 0;
  for (unsigned value = 0; value < 256; ++value) {
    const auto syndrome = static_cast<ErrorSyndrome>(value);
    if (status_of(syndrome) == CompletionStatus::kGeneral) {
      ++general;
      EXPECT_EQ(to_string(syndrome), "unknown");
    }
  }
  EXPECT_EQ(general, 256u - kSyndromes.size());
  EXPECT_EQ(static_cast<int>(CompletionStatus::kGeneral), IBV_WC_GENERAL_ERR);
  EXPECT_EQ(static_cast<int>(CompletionStatus::kSuccess), IBV_WC_SUCCESS);
}

TEST(Syndrome, OdpPageFaultNeedsBoth) {
  EXPECT_TRUE(is_odp_page_fault(ErrorSyndrome{0x22}, MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT));
  EXPECT_FALSE(is_odp_page_fault(ErrorSyndrome{0x22}, 0x92));
  EXPECT_FALSE(is_odp_page_fault(ErrorSyndrome{0x13}, 0x93));
}

}  // namespace
}  // namespace umlx5::wqe
