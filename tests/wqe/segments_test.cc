// Literal bytes for every send and receive segment; sizes and offsets against <infiniband/mlx5dv.h>.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <cstddef>

#include "tests/wqe/bytes.h"
#include "wqe/address_vector.h"
#include "wqe/atomic.h"
#include "wqe/control.h"
#include "wqe/data.h"
#include "wqe/eth.h"
#include "wqe/mmo.h"
#include "wqe/remote_address.h"
#include "wqe/umr.h"
#include "wqe/wait.h"
#include "wqe/xrc.h"

namespace umlx5::wqe {
namespace {

using testing_bytes::hex;
using testing_bytes::stored;

static_assert(ControlSegment::kBytes == sizeof(mlx5_wqe_ctrl_seg));
static_assert(offset_bits_of(&ControlSegment::qpn) == offsetof(mlx5_wqe_ctrl_seg, qpn_ds) * 8);
static_assert(offset_bits_of(&ControlSegment::signature) == offsetof(mlx5_wqe_ctrl_seg, signature) * 8);
static_assert(offset_bits_of(&ControlSegment::dci_stream_channel_id) ==
              offsetof(mlx5_wqe_ctrl_seg, dci_stream_channel_id) * 8);
static_assert(offset_bits_of(&ControlSegment::fence) == offsetof(mlx5_wqe_ctrl_seg, fm_ce_se) * 8);
static_assert(offset_bits_of(&ControlSegment::immediate) == offsetof(mlx5_wqe_ctrl_seg, imm) * 8);

static_assert(RemoteAddressSegment::kBytes == sizeof(mlx5_wqe_raddr_seg));
static_assert(offset_bits_of(&RemoteAddressSegment::address) == offsetof(mlx5_wqe_raddr_seg, raddr) * 8);
static_assert(offset_bits_of(&RemoteAddressSegment::rkey) == offsetof(mlx5_wqe_raddr_seg, rkey) * 8);

static_assert(AtomicSegment::kBytes == sizeof(mlx5_wqe_atomic_seg));
static_assert(offset_bits_of(&AtomicSegment::swap_add) == offsetof(mlx5_wqe_atomic_seg, swap_add) * 8);
static_assert(offset_bits_of(&AtomicSegment::compare) == offsetof(mlx5_wqe_atomic_seg, compare) * 8);

static_assert(DataSegment::kBytes == sizeof(mlx5_wqe_data_seg));
static_assert(offset_bits_of(&DataSegment::lkey) == offsetof(mlx5_wqe_data_seg, lkey) * 8);
static_assert(offset_bits_of(&DataSegment::address) == offsetof(mlx5_wqe_data_seg, addr) * 8);
static_assert(kTerminatorLkey == MLX5_INVALID_LKEY);
static_assert(InlineHeader::kBytes == sizeof(mlx5_wqe_inl_data_seg));

static_assert(SrqNextSegment::kBytes == sizeof(mlx5_wqe_srq_next_seg));
static_assert(offset_bits_of(&SrqNextSegment::next_wqe_index) == offsetof(mlx5_wqe_srq_next_seg, next_wqe_index) * 8);
static_assert(offset_bits_of(&SrqNextSegment::signature) == offsetof(mlx5_wqe_srq_next_seg, signature) * 8);

static_assert(AddressVector::kBytes == sizeof(mlx5_wqe_av) && AddressVector::kBytes == sizeof(mlx5_wqe_datagram_seg));
static_assert(offset_bits_of(&AddressVector::extended) == offsetof(mlx5_wqe_av, dqp_dct) * 8);
static_assert(offset_bits_of(&AddressVector::destination_qpn) == offsetof(mlx5_wqe_av, dqp_dct) * 8 + 8);
static_assert(offset_bits_of(&AddressVector::stat_rate) == offsetof(mlx5_wqe_av, stat_rate_sl) * 8);
static_assert(offset_bits_of(&AddressVector::force_loopback) == offsetof(mlx5_wqe_av, fl_mlid) * 8);
static_assert(offset_bits_of(&AddressVector::remote_lid_or_udp_sport) == offsetof(mlx5_wqe_av, rlid) * 8);
static_assert(offset_bits_of(&AddressVector::remote_mac) == offsetof(mlx5_wqe_av, rmac) * 8);
static_assert(offset_bits_of(&AddressVector::traffic_class) == offsetof(mlx5_wqe_av, tclass) * 8);
static_assert(offset_bits_of(&AddressVector::hop_limit) == offsetof(mlx5_wqe_av, hop_limit) * 8);
static_assert(offset_bits_of(&AddressVector::grh_present) == offsetof(mlx5_wqe_av, grh_gid_fl) * 8 + 1);
static_assert(offset_bits_of(&AddressVector::remote_gid) == offsetof(mlx5_wqe_av, rgid) * 8);

static_assert(offset_bits_of(&EthernetSegment::l4_checksum) == offsetof(mlx5_wqe_eth_seg, cs_flags) * 8);
static_assert(offset_bits_of(&EthernetSegment::mss_bytes) == offsetof(mlx5_wqe_eth_seg, mss) * 8);
static_assert(offset_bits_of(&EthernetSegment::insert_vlan) == offsetof(mlx5_wqe_eth_seg, inline_hdr_sz) * 8);
static_assert(EthernetSegment::kInlineOffset == offsetof(mlx5_wqe_eth_seg, inline_hdr_start));

static_assert(UmrControlSegment::kBytes == sizeof(mlx5_wqe_umr_ctrl_seg));
static_assert(offset_bits_of(&UmrControlSegment::klm_octowords) == offsetof(mlx5_wqe_umr_ctrl_seg, klm_octowords) * 8);
static_assert(offset_bits_of(&UmrControlSegment::bsf_octowords_or_offset) ==
              offsetof(mlx5_wqe_umr_ctrl_seg, bsf_octowords) * 8);
static_assert(offset_bits_of(&UmrControlSegment::mkey_mask) == offsetof(mlx5_wqe_umr_ctrl_seg, mkey_mask) * 8);
static_assert(mkey_mask::kLength == MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN);
static_assert(mkey_mask::kStartAddress == MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR);
static_assert(mkey_mask::kSignatureError == MLX5_WQE_UMR_CTRL_MKEY_MASK_SIG_ERR);
static_assert(mkey_mask::kBsfEnable == MLX5_WQE_UMR_CTRL_MKEY_MASK_BSF_ENABLE);
static_assert(mkey_mask::kMkey == MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY);
static_assert(mkey_mask::kQpn == MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN);
static_assert(mkey_mask::kLocalWrite == MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE);
static_assert(mkey_mask::kRemoteRead == MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ);
static_assert(mkey_mask::kRemoteWrite == MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE);
static_assert(mkey_mask::kAtomic == MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC);
static_assert(mkey_mask::kFree == MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);

static_assert(MkeyContextSegment::kBytes == sizeof(mlx5_wqe_mkey_context_seg));
static_assert(offset_bits_of(&MkeyContextSegment::sf) == offsetof(mlx5_wqe_mkey_context_seg, sf) * 8);
static_assert(offset_bits_of(&MkeyContextSegment::qpn) == offsetof(mlx5_wqe_mkey_context_seg, qpn_mkey) * 8);
static_assert(offset_bits_of(&MkeyContextSegment::pd) == offsetof(mlx5_wqe_mkey_context_seg, flags_pd) * 8 + 8);
static_assert(offset_bits_of(&MkeyContextSegment::start_address) ==
              offsetof(mlx5_wqe_mkey_context_seg, start_addr) * 8);
static_assert(offset_bits_of(&MkeyContextSegment::length_bytes) == offsetof(mlx5_wqe_mkey_context_seg, len) * 8);
static_assert(offset_bits_of(&MkeyContextSegment::bsf_octowords) ==
              offsetof(mlx5_wqe_mkey_context_seg, bsf_octword_size) * 8);
static_assert(offset_bits_of(&MkeyContextSegment::translation_octowords) ==
              offsetof(mlx5_wqe_mkey_context_seg, translations_octword_size) * 8);
static_assert(offset_bits_of(&MkeyContextSegment::log_page_size) ==
              offsetof(mlx5_wqe_mkey_context_seg, log_page_size) * 8);

static_assert(KlmEntry::kBytes == sizeof(mlx5_wqe_umr_klm_seg));
static_assert(offset_bits_of(&KlmEntry::mkey) == offsetof(mlx5_wqe_umr_klm_seg, mkey) * 8);
static_assert(offset_bits_of(&KlmEntry::address) == offsetof(mlx5_wqe_umr_klm_seg, address) * 8);
static_assert(RepeatBlockHeader::kBytes == sizeof(mlx5_wqe_umr_repeat_block_seg));
static_assert(offset_bits_of(&RepeatBlockHeader::operation) == offsetof(mlx5_wqe_umr_repeat_block_seg, op) * 8);
static_assert(offset_bits_of(&RepeatBlockHeader::repeat_count) ==
              offsetof(mlx5_wqe_umr_repeat_block_seg, repeat_count) * 8);
static_assert(offset_bits_of(&RepeatBlockHeader::entries) == offsetof(mlx5_wqe_umr_repeat_block_seg, num_ent) * 8);
static_assert(RepeatEntry::kBytes == sizeof(mlx5_wqe_umr_repeat_ent_seg));
static_assert(offset_bits_of(&RepeatEntry::byte_count) == offsetof(mlx5_wqe_umr_repeat_ent_seg, byte_count) * 8);
static_assert(offset_bits_of(&RepeatEntry::mkey) == offsetof(mlx5_wqe_umr_repeat_ent_seg, memkey) * 8);
static_assert(offset_bits_of(&RepeatEntry::address) == offsetof(mlx5_wqe_umr_repeat_ent_seg, va) * 8);

TEST(ControlSegment, Bytes) {
  const ControlSegment segment{.opmod = 0,
                               .wqe_index = 0xffff,
                               .opcode = SendOpcode::kRdmaWrite,
                               .qpn = 0x1234,
                               .ds_octowords = 3,
                               .dci_stream_channel_id = 0x0102,
                               .fence = FenceMode::kStrong,
                               .completion = CompletionMode::kAlways,
                               .solicited = true,
                               .immediate = 0x11223344};
  EXPECT_EQ(hex(stored(segment)), "00ffff08 00123403 0001028a 11223344");
  EXPECT_EQ(print(segment),
            "ctrl{opcode=RDMA_WRITE(0x8) index=65535 qpn=0x1234 ds=3 dci_stream=0x102 fence=small-and-fence(0x4) "
            "cqe=always(0x2) solicited imm=0x11223344}");
}

TEST(ControlSegment, FlagsMatchMlx5dv) {
  EXPECT_EQ(stored(ControlSegment{.fence = FenceMode::kStrong})[11], std::byte{MLX5_WQE_CTRL_FENCE});
  EXPECT_EQ(stored(ControlSegment{.fence = FenceMode::kInitiatorSmall})[11],
            std::byte{MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE});
  EXPECT_EQ(stored(ControlSegment{.completion = CompletionMode::kAlways})[11], std::byte{MLX5_WQE_CTRL_CQ_UPDATE});
  EXPECT_EQ(stored(ControlSegment{.solicited = true})[11], std::byte{MLX5_WQE_CTRL_SOLICITED});
}

TEST(ControlSegment, AgreesWithMlx5dvBuilder) {
  mlx5_wqe_ctrl_seg reference{};
  mlx5dv_set_ctrl_seg(&reference, 0x4321, MLX5_OPCODE_UMR, 0, 0xabcdef, MLX5_WQE_CTRL_CQ_UPDATE, 12, 0,
                      htobe32(0xcafe0100));
  const auto segment = load<ControlSegment>(reinterpret_cast<const std::byte*>(&reference));
  EXPECT_EQ(segment.wqe_index, 0x4321);
  EXPECT_EQ(segment.opcode, SendOpcode::kUmr);
  EXPECT_EQ(segment.qpn, 0xabcdefu);
  EXPECT_EQ(segment.ds_octowords, 12);
  EXPECT_EQ(segment.immediate, 0xcafe0100u);
  EXPECT_EQ(std::memcmp(stored(segment).data(), &reference, sizeof reference), 0);
}

TEST(ControlSegment, QpnDoesNotSpillIntoDs) {
  const auto bytes = stored(ControlSegment{.qpn = 0xff123456, .ds_octowords = 0xff});
  EXPECT_EQ(hex(bytes, 4, 4), "1234563f");
}

TEST(Opcode, ValuesAndNames) {
  const std::array<std::pair<unsigned, std::string_view>, 20> table = {
      {{MLX5_OPCODE_NOP, "NOP"},
       {MLX5_OPCODE_SEND_INVAL, "SEND_INVAL"},
       {MLX5_OPCODE_RDMA_WRITE, "RDMA_WRITE"},
       {MLX5_OPCODE_RDMA_WRITE_IMM, "RDMA_WRITE_IMM"},
       {MLX5_OPCODE_SEND, "SEND"},
       {MLX5_OPCODE_SEND_IMM, "SEND_IMM"},
       {MLX5_OPCODE_TSO, "TSO"},
       {MLX5_OPCODE_RDMA_READ, "RDMA_READ"},
       {MLX5_OPCODE_ATOMIC_CS, "ATOMIC_CS"},
       {MLX5_OPCODE_ATOMIC_FA, "ATOMIC_FA"},
       {MLX5_OPCODE_ATOMIC_MASKED_CS, "ATOMIC_MASKED_CS"},
       {MLX5_OPCODE_ATOMIC_MASKED_FA, "ATOMIC_MASKED_FA"},
       {MLX5_OPCODE_FMR, "FMR"},
       {MLX5_OPCODE_LOCAL_INVAL, "LOCAL_INVAL"},
       {MLX5_OPCODE_CONFIG_CMD, "CONFIG_CMD"},
       {MLX5_OPCODE_SET_PSV, "SET_PSV"},
       {MLX5_OPCODE_UMR, "UMR"},
       {MLX5_OPCODE_TAG_MATCHING, "TAG_MATCHING"},
       {MLX5_OPCODE_FLOW_TBL_ACCESS, "FLOW_TBL_ACCESS"},
       {MLX5_OPCODE_MMO, "MMO"}}};
  for (const auto& [value, name] : table) {
    EXPECT_EQ(to_string(static_cast<SendOpcode>(value)), name);
    EXPECT_TRUE(is_known(static_cast<SendOpcode>(value)));
  }
  // The six that mlx5dv.h leaves out.
  EXPECT_EQ(to_string(SendOpcode{0x0f}), "WAIT");
  EXPECT_EQ(to_string(SendOpcode{0x16}), "RECV_EN");
  EXPECT_EQ(to_string(SendOpcode{0x17}), "SEND_EN");
  EXPECT_EQ(to_string(SendOpcode{0x18}), "BIND_MW");
  EXPECT_EQ(to_string(SendOpcode{0x29}), "ENHANCED_MPSW");
  EXPECT_EQ(to_string(SendOpcode{0x2d}), "ACCESS_ASO");
  unsigned known = 0;
  for (unsigned value = 0; value < 256; ++value) {
    const auto opcode = static_cast<SendOpcode>(value);
    known += is_known(opcode);
    EXPECT_EQ(is_known(opcode), to_string(opcode) != "unknown");
  }
  EXPECT_EQ(known, 26u);
}

TEST(RemoteAddressSegment, Bytes) {
  EXPECT_EQ(hex(stored(RemoteAddressSegment{.address = 0x0102030405060708, .rkey = 0xaabbccdd})),
            "01020304 05060708 aabbccdd 00000000");
}

TEST(XrcSegment, Bytes) { EXPECT_EQ(hex(stored(XrcSegment{.srqn = 0x1001})), "00001001 00000000 00000000 00000000"); }

TEST(AtomicSegment, Bytes) {
  EXPECT_EQ(hex(stored(AtomicSegment{.swap_add = 1, .compare = 0x8000000000000000})),
            "00000000 00000001 80000000 00000000");
  EXPECT_EQ(hex(stored(MaskedCompareSwap8Segment{.swap = 1, .compare = 2, .swap_mask = 3, .compare_mask = 4})),
            "00000000 00000001 00000000 00000002 00000000 00000003 00000000 00000004");
  EXPECT_EQ(hex(stored(MaskedCompareSwap4Segment{.swap = 1, .compare = 2, .swap_mask = 3, .compare_mask = 4})),
            "00000001 00000002 00000003 00000004");
  EXPECT_EQ(hex(stored(MaskedFetchAdd8Segment{.add = 1, .field_boundary = 0x8000})),
            "00000000 00000001 00000000 00008000");
  EXPECT_EQ(hex(stored(MaskedFetchAdd4Segment{.add = 1, .field_boundary = 0x8000})),
            "00000001 00008000 00000000 00000000");
}

TEST(DataSegment, Bytes) {
  EXPECT_EQ(hex(stored(DataSegment{.byte_count = 4096, .lkey = 0x1234, .address = 0x7f0000001000})),
            "00001000 00001234 00007f00 00001000");
  mlx5_wqe_data_seg reference{};
  mlx5dv_set_data_seg(&reference, 4096, 0x1234, 0x7f0000001000);
  EXPECT_EQ(std::memcmp(&reference, stored(DataSegment{4096, 0x1234, 0x7f0000001000}).data(), 16), 0);
}

TEST(DataSegment, TerminatorAndTwoGibibytes) {
  EXPECT_EQ(hex(stored(kTerminator)), "00000000 00000100 00000000 00000000");
  EXPECT_TRUE(kTerminator.is_terminator());
  EXPECT_FALSE((DataSegment{.byte_count = 1, .lkey = 0x100}).is_terminator());
  EXPECT_EQ((DataSegment{.byte_count = 0, .lkey = 5}).length_bytes(), 0x80000000u);
  EXPECT_EQ(hex(stored(DataSegment{.byte_count = 0x80000000, .lkey = 5})), "00000000 00000005 00000000 00000000");
}

TEST(InlineHeader, Bytes) {
  EXPECT_EQ(hex(stored(InlineHeader{.byte_count = 32})), "80000020");
  EXPECT_EQ(inline_octowords(0), 1u);
  EXPECT_EQ(inline_octowords(12), 1u);
  EXPECT_EQ(inline_octowords(13), 2u);
  EXPECT_EQ(inline_octowords(28), 2u);
}

TEST(SrqNextSegment, Bytes) {
  EXPECT_EQ(hex(stored(SrqNextSegment{.next_wqe_index = 0x0102, .signature = 0x33})),
            "00000102 33000000 00000000 00000000");
  EXPECT_EQ(hex(stored(ReceiveSignatureSegment{.signature = 0x44})), "00000000 44000000 00000000 00000000");
}

TEST(AddressVector, RoceBytes) {
  const AddressVector av{.key = AddressVector::of_qkey(0x11111111),
                         .destination_qpn = 0x123456,
                         .stat_rate = 8,
                         .sl = 0xa,  // SL 5 on Ethernet
                         .remote_lid_or_udp_sport = 0xe341,
                         .remote_mac = {2, 0, 0, 0xaa, 0xbb, 0xcc},
                         .traffic_class = 106,
                         .hop_limit = 64,
                         .sgid_index = 3,
                         .flow_label = 0x12345,
                         .remote_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 2}};
  EXPECT_EQ(
      hex(stored(av)),
      "11111111 00000000 80123456 8a00e341 00000000 020000aa bbcc6a40 00312345 00000000 00000000 0000ffff 7f000002");
  EXPECT_EQ(av.qkey(), 0x11111111u);
  EXPECT_EQ(av.wire_bytes(), 48u);
}

TEST(AddressVector, InfinibandGrhAndDcKey) {
  const AddressVector av{.key = 0x0123456789abcdef,
                         .extended = false,
                         .destination_qpn = 1,
                         .sl = 13,
                         .force_loopback = true,
                         .source_path_bits = 0x7f,
                         .grh_present = true};
  const auto bytes = stored(av);
  EXPECT_EQ(hex(bytes, 0, 16), "01234567 89abcdef 00000001 0dff0000");
  EXPECT_EQ(bytes[28], std::byte{0x40});
  EXPECT_EQ(av.wire_bytes(), 16u);
}

TEST(EthernetSegment, Bytes) {
  EXPECT_EQ(hex(stored(EthernetSegment{
                .l3_checksum = true, .l4_checksum = true, .mss_bytes = 1460, .inline_header_bytes = 18})),
            "00000000 c00005b4 00000000 00120000");
  EXPECT_EQ(stored(EthernetSegment{.l3_checksum = true})[4], std::byte{MLX5_ETH_WQE_L3_CSUM});
  EXPECT_EQ(stored(EthernetSegment{.l4_checksum = true})[4], std::byte{MLX5_ETH_WQE_L4_CSUM});
  EXPECT_EQ(EthernetSegment{}.wire_octowords(), 1u);
  EXPECT_EQ(EthernetSegment{.inline_header_bytes = 2}.wire_octowords(), 1u);
  EXPECT_EQ(EthernetSegment{.inline_header_bytes = 18}.wire_octowords(), 2u);
  EXPECT_EQ(EthernetSegment{.inline_header_bytes = 19}.wire_octowords(), 3u);
  EXPECT_EQ(hex(stored(EthernetSegment{.insert_vlan = true})), "00000000 00000000 00000000 80000000");
  EXPECT_EQ(EthernetSegment{.insert_vlan = true}.inlined_bytes(), 2u);
}

TEST(UmrControlSegment, Bytes) {
  const UmrControlSegment umr{.inline_translations = true,
                              .check_free = true,
                              .has_translation_offset = true,
                              .check_qpn = true,
                              .klm_octowords = 4,
                              .bsf_octowords_or_offset = 8,
                              .mkey_mask = mkey_mask::kFree | mkey_mask::kMkey};
  EXPECT_EQ(
      hex(stored(umr)),
      "b8000000 00040008 00000000 20002000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000");
  EXPECT_EQ(stored(UmrControlSegment{.inline_translations = true})[0], std::byte{MLX5_WQE_UMR_CTRL_FLAG_INLINE});
  EXPECT_EQ(stored(UmrControlSegment{.check_free = true})[0], std::byte{MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE});
  EXPECT_EQ(stored(UmrControlSegment{.has_translation_offset = true})[0],
            std::byte{MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET});
  EXPECT_EQ(stored(UmrControlSegment{.check_qpn = true})[0], std::byte{MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN});
}

TEST(MkeyContextSegment, Bytes) {
  const MkeyContextSegment mkey{.access_remote_write = true,
                                .access_local_write = true,
                                .access_local_read = true,
                                .qpn = 0xffffff,
                                .key_tag = 0x42,
                                .bsf_enable = true,
                                .signature_error_parity = true,
                                .pd = 0x000102,
                                .start_address = 0x7f0000001000,
                                .length_bytes = 0x2000,
                                .bsf_octowords = 4,
                                .translation_octowords = 8,
                                .log_page_size = 12};
  EXPECT_EQ(hex(stored(mkey)),
            "00002c00 ffffff42 00000000 44000102 00007f00 00001000 00000000 00002000 "
            "00000004 00000000 00000000 00000000 00000000 00000008 0000000c 00000000");
  EXPECT_EQ(stored(MkeyContextSegment{.free = true})[0], std::byte{MLX5_WQE_MKEY_CONTEXT_FREE});
  const auto access = [](const MkeyContextSegment& segment) { return stored(segment)[2]; };
  EXPECT_EQ(access({.access_atomic = true}), std::byte{MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC});
  EXPECT_EQ(access({.access_remote_write = true}), std::byte{MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE});
  EXPECT_EQ(access({.access_remote_read = true}), std::byte{MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ});
  EXPECT_EQ(access({.access_local_write = true}), std::byte{MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE});
  EXPECT_EQ(access({.access_local_read = true}), std::byte{MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_READ});
}

TEST(Translations, Bytes) {
  EXPECT_EQ(hex(stored(KlmEntry{.byte_count = 0x1000, .mkey = 0xabcd00, .address = 0x10})),
            "00001000 00abcd00 00000000 00000010");
  EXPECT_EQ(hex(stored(RepeatBlockHeader{.byte_count = 96, .repeat_count = 4, .entries = 2})),
            "00000060 00000400 00000004 00000002");
  EXPECT_EQ(hex(stored(RepeatEntry{.stride_bytes = 64, .byte_count = 48, .mkey = 7, .address = 9})),
            "00400030 00000007 00000000 00000009");
}

TEST(MmoAndWait, Bytes) {
  EXPECT_EQ(hex(stored(MmoMetadataSegment{.opaque_lkey = 0x99, .opaque_address = 0x1000})),
            "00000000 00000099 00000000 00001000");
  EXPECT_EQ(hex(stored(QueueSegment{.max_index = 5, .queue_number = 0x77})), "00000000 00000000 00000005 00000077");
}

}  // namespace
}  // namespace umlx5::wqe
