// Mailboxes as literal bytes. Positions are read off the tables of <linux/mlx5/mlx5_ifc.h> (Linux 6.1), where a
// member's offset in bits is the sum of the array dimensions before it.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "wqe/prm/cap.h"
#include "wqe/prm/command.h"
#include "wqe/prm/cq.h"
#include "wqe/prm/eq.h"
#include "wqe/prm/mkey.h"
#include "wqe/prm/pd_uar.h"
#include "wqe/prm/qp.h"
#include "wqe/prm/srq.h"

namespace umlx5::wqe::prm {
namespace {

// Zeros but for some big-endian 32-bit words: {byte offset, value}.
std::vector<std::byte> words_at(std::size_t bytes, std::initializer_list<std::pair<std::size_t, std::uint32_t>> words) {
  std::vector<std::byte> out(bytes);
  for (const auto& [offset, value] : words) {
    for (std::size_t i = 0; i < 4; ++i) {
      out.at(offset + i) = static_cast<std::byte>(value >> (24 - 8 * i));
    }
  }
  return out;
}

template <typename T>
std::vector<std::byte> stored(const T& value) {
  std::vector<std::byte> out(T::kBytes, std::byte{0xff});
  store(out.data(), value);
  return out;
}

TEST(Command, HeadersAndNames) {
  const ObjectIn in{.header = {.opcode = Opcode::kDestroyQp, .uid = 0x1234, .op_mod = 0x5678}, .number = 0xabcdef};
  EXPECT_EQ(stored(in), words_at(16, {{0, 0x05011234}, {4, 0x00005678}, {8, 0x00abcdef}}));
  const ObjectOut out{
      .header = {.status = Status::kBadQpState, .syndrome = 0x11223344}, .number = 0x010203, .ece = 0x10000000};
  EXPECT_EQ(stored(out), words_at(16, {{0, 0x10000000}, {4, 0x11223344}, {8, 0x00010203}, {12, 0x10000000}}));
  EXPECT_EQ(to_string(Opcode::kCreateQp), "CREATE_QP");
  EXPECT_EQ(to_string(Opcode::kInit2RtrQp), "INIT2RTR_QP");
  EXPECT_EQ(to_string(Opcode::kToErrQp), "2ERR_QP");
  EXPECT_EQ(to_string(static_cast<Opcode>(0x7ff)), "");
  EXPECT_EQ(to_string(Status::kBadIndex), "BAD_INDEX");
  EXPECT_EQ(to_string(static_cast<Status>(0x7f)), "");
  EXPECT_FALSE(words(static_cast<Status>(0x7f)).empty());
  EXPECT_EQ(print(in), "object_in{in{opcode=DESTROY_QP(0x501) uid=0x1234 op_mod=0x5678} number=0xabcdef}");
}

TEST(Qp, CreateMailbox) {
  CreateQpIn in;
  in.header.opcode = Opcode::kCreateQp;
  in.qpc.st = ServiceType::kXrc;
  in.qpc.pm_state = kPathMigrated;
  in.qpc.pd = 0x000123;
  in.qpc.log_msg_max = 30;
  in.qpc.log_rq_size = 5;
  in.qpc.log_rq_stride = 2;
  in.qpc.log_sq_size = 9;
  in.qpc.uar_page = 7;
  in.qpc.user_index = 0x445566;
  in.qpc.log_page_size = 3;
  in.qpc.cqn_snd = 0x11;
  in.qpc.page_offset = 0x21;
  in.qpc.xrcd = 0x99;
  in.qpc.cqn_rcv = 0x12;
  in.qpc.dbr_addr = 0x7f0011223340;
  in.qpc.rq_type = RqType::kSrq;
  in.qpc.srqn_rmpn_xrqn = 0x31;
  in.qpc.cs_req = kScatterRequester64;
  in.qpc.cs_res = kScatterResponder64;
  // qpc starts at 0x18 of the mailbox.
  EXPECT_EQ(stored(in), words_at(272, {{0x00, 0x05000000},
                                       {0x18, 0x00031800},
                                       {0x1c, 0x00000123},
                                       {0x20, 0x1e2a4800},
                                       {0x24, 0x00000007},
                                       {0x28, 0x00445566},
                                       {0x2c, 0x03000000},
                                       {0x18 + 0x7c, 0x00000011},
                                       {0x18 + 0x90, 0x21 << 6},
                                       {0x18 + 0x98, 0x00000099},
                                       {0x18 + 0x9c, 0x00000012},
                                       {0x18 + 0xa0, 0x00007f00},
                                       {0x18 + 0xa4, 0x11223340},
                                       {0x18 + 0xac, 0x01000031},
                                       {0x18 + 0xc4, 0x00002202}}));
}

TEST(Qp, ModifyMailboxes) {
  ModifyQpIn in;
  in.header.opcode = Opcode::kInit2RtrQp;
  in.qpn = 0x0000aa;
  in.opt_param_mask = kOptRre | kOptRae | kOptRwe;
  in.qpc.mtu = 5;
  in.qpc.remote_qpn = 0xbbccdd;
  in.qpc.primary_address_path.pkey_index = 1;
  in.qpc.primary_address_path.src_addr_index = 3;
  in.qpc.primary_address_path.hop_limit = 64;
  in.qpc.primary_address_path.tclass = 0x68;
  in.qpc.primary_address_path.flow_label = 0xfffff;
  in.qpc.primary_address_path.rgid_rip = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  in.qpc.primary_address_path.udp_sport = 0xc001;
  in.qpc.primary_address_path.rmac = {0xa, 0xb, 0xc, 0xd, 0xe, 0xf};
  in.qpc.primary_address_path.vhca_port_num = 1;
  in.qpc.log_rra_max = 4;
  in.qpc.atomic_mode = kAtomicModeIb;
  in.qpc.rre = in.qpc.rae = true;
  in.qpc.min_rnr_nak = 12;
  in.qpc.next_rcv_psn = 0x123456;
  EXPECT_EQ(stored(in), words_at(272, {{0x00, 0x05030000},
                                       {0x08, 0x000000aa},
                                       {0x10, 0x0000000e},
                                       {0x18 + 0x08, 0xa0000000},
                                       {0x18 + 0x14, 0x00bbccdd},
                                       {0x30 + 0x00, 0x00000001},
                                       {0x30 + 0x08, 0x00030040},
                                       {0x30 + 0x0c, 0x068fffff},
                                       {0x30 + 0x10, 0x01020304},
                                       {0x30 + 0x14, 0x05060708},
                                       {0x30 + 0x18, 0x090a0b0c},
                                       {0x30 + 0x1c, 0x0d0e0f10},
                                       {0x30 + 0x20, 0x0000c001},
                                       {0x30 + 0x24, 0x00010a0b},
                                       {0x30 + 0x28, 0x0c0d0e0f},
                                       {0x18 + 0x90, 0x0081a000},
                                       {0x18 + 0x94, 0x0c123456}}));
  ModifyQpIn rts;
  rts.header.opcode = Opcode::kRtr2RtsQp;
  rts.qpc.primary_address_path.ack_timeout = 14;
  rts.qpc.log_sra_max = 4;
  rts.qpc.retry_count = 7;
  rts.qpc.rnr_retry = 6;
  rts.qpc.next_send_psn = 0x00ffff;
  EXPECT_EQ(
      stored(rts),
      words_at(272,
               {{0x00, 0x05040000}, {0x30 + 0x08, 14u << 27}, {0x18 + 0x70, 0x0087c000}, {0x18 + 0x78, 0x0000ffff}}));
}

TEST(Cq, CreateMailbox) {
  CreateCqIn in;
  in.header.opcode = Opcode::kCreateCq;
  in.cqc.cqe_sz = CqeSize::k128;
  in.cqc.oi = true;
  in.cqc.page_offset = 5;
  in.cqc.log_cq_size = 8;
  in.cqc.uar_page = 0x42;
  in.cqc.c_eqn = 0x1f;
  in.cqc.log_page_size = 1;
  in.cqc.dbr_addr = 0x1122334455667788;
  EXPECT_EQ(stored(in), words_at(272, {{0x00, 0x04000000},
                                       {0x10 + 0x00, 0x00220000},
                                       {0x10 + 0x08, 5 << 6},
                                       {0x10 + 0x0c, 0x08000042},
                                       {0x10 + 0x14, 0x0000001f},
                                       {0x10 + 0x18, 0x01000000},
                                       {0x10 + 0x38, 0x11223344},
                                       {0x10 + 0x3c, 0x55667788}}));
}

TEST(Mkey, CreateMailbox) {
  CreateMkeyIn in;
  in.header.opcode = Opcode::kCreateMkey;
  in.mkey.access_mode_1_0 = static_cast<std::uint8_t>(MkeyMode::kMtt);
  in.mkey.a = in.mkey.rw = in.mkey.lw = in.mkey.lr = true;
  in.mkey.qpn = kMkeyAnyQp;
  in.mkey.mkey_7_0 = 0x5a;
  in.mkey.pd = 0x17;
  in.mkey.start_addr = 0x00007f8811223344;
  in.mkey.len = 0x10000;
  in.mkey.translations_octword_size = 8;
  in.mkey.log_page_size = 12;
  in.translations_octword_actual_size = 8;
  EXPECT_EQ(stored(in), words_at(272, {{0x00, 0x02000000},
                                       {0x10 + 0x00, 0x00006d00},
                                       {0x10 + 0x04, 0xffffff5a},
                                       {0x10 + 0x0c, 0x00000017},
                                       {0x10 + 0x10, 0x00007f88},
                                       {0x10 + 0x14, 0x11223344},
                                       {0x10 + 0x1c, 0x00010000},
                                       {0x10 + 0x34, 0x00000008},
                                       {0x10 + 0x38, 0x0000000c},
                                       {0x60, 0x00000008}}));
}

TEST(Eq, CreateMailbox) {
  CreateEqIn in;
  in.header.opcode = Opcode::kCreateEq;
  in.eqc.log_eq_size = 7;
  in.eqc.uar_page = 2;
  in.eqc.intr = 3;
  in.event_bitmask = 1u << 0x13 | 1u << 0x05;
  EXPECT_EQ(stored(in),
            words_at(272, {{0x00, 0x03010000}, {0x1c, 0x07000002}, {0x24, 0x00000003}, {0x5c, 0x00080020}}));
}

TEST(Srq, CreateMailboxes) {
  CreateSrqIn srq;
  srq.header.opcode = Opcode::kCreateSrq;
  srq.srqc.log_srq_size = 6;
  srq.srqc.log_rq_stride = 1;
  srq.srqc.page_offset = 0x3f;
  srq.srqc.log_page_size = 2;
  srq.srqc.pd = 0x21;
  srq.srqc.lwm = 0x10;
  srq.srqc.dbr_addr = 0x100000040;
  EXPECT_EQ(stored(srq), words_at(272, {{0x00, 0x07000000},
                                        {0x10, 0x06000000},
                                        {0x14, 0x01000000},
                                        {0x18, 0xfc000000},
                                        {0x20, 0x02000000},
                                        {0x28, 0x00000021},
                                        {0x2c, 0x00100000},
                                        {0x38, 0x00000001},
                                        {0x3c, 0x00000040}}));
  CreateRmpIn rmp;
  rmp.header.opcode = Opcode::kCreateRmp;
  rmp.rmpc.state = kRmpReady;
  rmp.rmpc.wq.wq_type = WqType::kCyclic;
  rmp.rmpc.wq.pd = 0x21;
  rmp.rmpc.wq.dbr_addr = 0x40;
  rmp.rmpc.wq.log_wq_stride = 5;
  rmp.rmpc.wq.log_wq_pg_sz = 1;
  rmp.rmpc.wq.log_wq_sz = 6;
  // rmpc at 0x20, its wq at 0x50, pas behind the wq at 0x110.
  EXPECT_EQ(stored(rmp), words_at(272, {{0x00, 0x090c0000},
                                        {0x20, 0x00100000},
                                        {0x50, 0x10000000},
                                        {0x58, 0x00000021},
                                        {0x64, 0x00000040},
                                        {0x70, 0x00050106}}));
}

TEST(Capabilities, General) {
  GeneralCapabilities general;
  general.log_max_qp_sz = 15;
  general.log_max_qp = 17;
  general.num_ports = 1;
  general.port_type = kPortTypeEthernet;
  general.cqe_version = 1;
  general.roce = general.atomic = general.sctr_data_cqe = true;
  general.rc = general.uc = general.ud = general.xrc = general.cq_resize = true;
  general.uar_4k = true;
  general.bf = true;
  general.log_bf_reg_size = 9;
  general.max_wqe_sz_sq = 1024;
  EXPECT_EQ(stored(general), words_at(256, {{0x10, 0x000f0011},
                                            {0x34, 0x00000101},
                                            {0x3c, 0x00000001},
                                            {0x40, 0x00000406},
                                            {0x44, 0x4000000f},
                                            {0x48, 0x80000000},
                                            {0x4c, 0x80090000},
                                            {0x50, 0x00000400}}));
}

}  // namespace
}  // namespace umlx5::wqe::prm
