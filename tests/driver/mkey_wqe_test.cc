// Bytes of the WQEs that change a memory key. Expected values are written out after the layouts of <mlx5dv.h>
// (mlx5_wqe_umr_ctrl_seg, mlx5_wqe_mkey_context_seg, mlx5_wqe_umr_klm_seg, mlx5_wqe_umr_repeat_block_seg) and
// rdma-core's wqe.h (mlx5_bsf, mlx5_crypto_bsf).
#include "driver/mkey_wqe.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/wqe/bytes.h"

namespace umlx5 {
namespace {

using wqe::testing_bytes::hex;

const std::string kZero16 = "00000000 00000000 00000000 00000000";

MkeyLimits limits(std::uint32_t max_inline_bytes = 512) {
  return {.max_inline_bytes = max_inline_bytes, .key_tags = true};
}

MkeyState plain_key() { return {.key = 0x00123400, .max_entries = 4}; }
MkeyState signature_key() {
  MkeyState state = plain_key();
  state.signatures.emplace();
  state.signatures->memory_psv = 0x11;
  state.signatures->wire_psv = 0x22;
  return state;
}
MkeyState crypto_key() {
  MkeyState state = plain_key();
  state.encrypts = true;
  return state;
}

struct Build {
  Expected<void> result;
  MkeyWqes wqes;
  std::string at(std::size_t offset, std::size_t bytes) const {
    return hex(std::span(wqes.umr).first(wqes.umr_bytes), offset, bytes);
  }
  // Offsets behind the WQE's control segment.
  std::string umr_control() const { return at(0, 48); }
  std::string context() const { return at(48, 64); }
};

Build build(const MkeyChange& change, MkeyState& state, const MkeyLimits& with = limits()) {
  Build build;
  build.wqes.umr.fill(std::byte{0xee});
  build.result = build_mkey_wqes(change, with, state, build.wqes);
  return build;
}
int error_of(const MkeyChange& change, MkeyState state, const MkeyLimits& with = limits()) {
  const Build refused = build(change, state, with);
  return refused.result ? 0 : refused.result.error().errno_value;
}

const Sge kSges[] = {{.address = 0x1000, .length_bytes = 8, .lkey = 0xa1}, {0x2040, 24, 0xb2}};
const InterleavedSge kInterleaved[] = {{.address = 0x1000, .bytes = 512, .skip = 4, .lkey = 0xa1},
                                       {.address = 0x8000, .bytes = 8, .skip = 0, .lkey = 0xb2}};

TEST(MkeyWqe, ListWithAccess) {
  MkeyState state = plain_key();
  const Build b = build({.access = Access::kLocalWrite | Access::kRemoteRead, .layout = ListLayout{kSges}}, state);
  ASSERT_TRUE(b.result);
  // Inline; 4 octowords; mask FREE 29, ATOMIC 21, RW 20, RR 19, LW 18, MKEY 13, LEN 0.
  EXPECT_EQ(b.umr_control(), "80000000 00040000 00000000 203c2001 " + kZero16 + " " + kZero16);
  // Access LW 0x08, RR 0x10; any QP, tag 0; length 32.
  EXPECT_EQ(b.context(),
            "00001800 ffffff00 00000000 00000000 00000000 00000000 00000000 00000020 " + kZero16 + " " + kZero16);
  EXPECT_EQ(b.at(112, 64),
            "00000008 000000a1 00000000 00001000 00000018 000000b2 00000000 00002040 " + kZero16 + " " + kZero16);
  EXPECT_EQ(b.wqes.umr_bytes, 176u);
  EXPECT_EQ(b.wqes.psv_count, 0u);
  EXPECT_EQ(state.length_bytes, 32u);
}

TEST(MkeyWqe, InterleavedThreeTimes) {
  MkeyState state = plain_key();
  const Build b = build({.layout = InterleavedLayout{.repeat = 3, .entries = kInterleaved}}, state);
  ASSERT_TRUE(b.result);
  EXPECT_EQ(b.at(0, 16), "80000000 00040000 00000000 20002001");
  EXPECT_EQ(b.at(112, 64),
            "00000208 00000400 00000003 00000002 "  // 520 bytes a round, 3 rounds, 2 entries
            "02040200 000000a1 00000000 00001000 "  // stride 516, 512 bytes
            "00080008 000000b2 00000000 00008000 " +
                kZero16);
  EXPECT_EQ(state.length_bytes, 1560u);
}

TEST(MkeyWqe, NothingChangesButTheKeyIsFreedForUse) {
  MkeyState state = plain_key();
  state.key = 0x00123407;
  const Build b = build({}, state);
  ASSERT_TRUE(b.result);
  EXPECT_EQ(b.at(0, 16), "80000000 00000000 00000000 20002000");
  EXPECT_EQ(b.at(48, 8), "00000000 ffffff07");
  EXPECT_EQ(b.wqes.umr_bytes, 112u);
}

TEST(MkeyWqe, Crc32OnTheWireOnly) {
  MkeyState state = signature_key();
  const Build b = build(
      {.layout = ListLayout{kSges},
       .signature = SignatureBlock{.wire = SignatureDomain{.signature = CrcSignature{CrcType::kCrc32, 0xffffffff}},
                                   .check_mask = signature_mask::kCrc32}},
      state);
  ASSERT_TRUE(b.result);
  // BSF of 4 octowords; mask also BSF_ENABLE 12 and, as the key is new, SIG_ERR 9.
  EXPECT_EQ(b.at(0, 16), "80000000 00040004 00000000 20003201");
  // BSF enabled (bit 30), one error counted (bit 26).
  EXPECT_EQ(b.at(60, 4), "44000000");
  // Size 2, checked f0, wire block 512; raw size; wire: CRC32, repeated, seed ones, PSV 22.
  EXPECT_EQ(b.at(176, 64), "80f00100 ffffffff 22000022 00000000 " + kZero16 + " " + kZero16 + " " + kZero16);
  ASSERT_EQ(b.wqes.psv_count, 1u);
  EXPECT_EQ(b.wqes.psvs[0].index, 0x22u);
  EXPECT_EQ(b.wqes.psvs[0].start, 0xffffffff00000000u);
}

TEST(MkeyWqe, T10DifInBothDomains) {
  MkeyState state = signature_key();
  const T10Dif memory{.guard = GuardType::kChecksum,
                      .background = 0xffff,
                      .application_tag = 0xabcd,
                      .reference_tag = 0x01234567,
                      .increment_reference_tag = true,
                      .escape_application_tag = true,
                      .escape_both_tags = true};
  T10Dif wire = memory;
  wire.guard = GuardType::kCrc;
  wire.background = 0;
  wire.escape_both_tags = false;
  const Build b = build({.signature = SignatureBlock{.memory = SignatureDomain{memory, BlockSize::k4096},
                                                     .wire = SignatureDomain{wire, BlockSize::k4096},
                                                     .check_mask = 0xff}},
                        state);
  ASSERT_TRUE(b.result);
  // Same structure (0x10); both tags are passed on (3f), guards differ; memory block 4096.
  EXPECT_EQ(b.at(112, 16), "90ff3f03 ffffffff 00000022 00000011");
  EXPECT_EQ(b.at(144, 16), "c000abcd 01234567 01800000 0041ffff");  // wire: CRC, increments, app escape
  EXPECT_EQ(b.at(160, 16), "c000abcd 01234567 02880000 0042ffff");  // memory: checksum, seed, app and ref escape
  ASSERT_EQ(b.wqes.psv_count, 2u);
  EXPECT_EQ(b.wqes.psvs[0].index, 0x11u);
  EXPECT_EQ(b.wqes.psvs[0].start, 0xffffabcd01234567u);
  EXPECT_EQ(b.wqes.psvs[1].index, 0x22u);
  EXPECT_EQ(b.wqes.psvs[1].start, 0x0000abcd01234567u);
}

TEST(MkeyWqe, BlockFormatsAndSelectors) {
  struct Case {
    CrcSignature crc;
    BlockSize block;
    std::string memory_word, selector;
  };
  const Case cases[] = {
      {{CrcType::kCrc32, 0}, BlockSize::k512, "23000011", "01"},
      {{CrcType::kCrc32, 0xffffffff}, BlockSize::k520, "22000011", "02"},
      {{CrcType::kCrc32c, 0}, BlockSize::k4048, "43000011", "06"},
      {{CrcType::kCrc32c, 0xffffffff}, BlockSize::k4096, "42000011", "03"},
      {{CrcType::kCrc64Xp10, 0}, BlockSize::k4160, "53000011", "04"},
      {{CrcType::kCrc64Xp10, ~std::uint64_t{0}}, BlockSize::k512, "52000011", "01"},
  };
  for (const Case& test : cases) {
    MkeyState state = signature_key();
    const Build b =
        build({.signature = SignatureBlock{.memory = SignatureDomain{test.crc, test.block}, .check_mask = 1}}, state);
    ASSERT_TRUE(b.result);
    EXPECT_EQ(b.at(124, 4), test.memory_word);
    EXPECT_EQ(b.at(115, 1), test.selector);
  }
}

TEST(MkeyWqe, CopyMaskOfTheUserOrWhatIsTheSame) {
  const SignatureDomain crc64{CrcSignature{CrcType::kCrc64Xp10, 0}};
  MkeyState state = signature_key();
  EXPECT_EQ(build({.signature = SignatureBlock{.memory = crc64, .wire = crc64}}, state).at(112, 4), "9000ff01");
  EXPECT_EQ(build({.signature = SignatureBlock{.memory = crc64, .wire = crc64, .copy_mask = 0x5a}}, state).at(112, 4),
            "90005a01");
  const SignatureDomain crc32{CrcSignature{CrcType::kCrc32, 0}};
  EXPECT_EQ(build({.signature = SignatureBlock{.memory = crc32, .wire = crc32}}, state).at(112, 4), "9000f001");
  // Different CRCs: no same structure, and the byte is the wire's block selector.
  EXPECT_EQ(build({.signature = SignatureBlock{.memory = crc64, .wire = crc32}}, state).at(112, 4), "80000101");
}

TEST(MkeyWqe, AfterAnErrorTheRunningValuesAreSetAgain) {
  MkeyState state = signature_key();
  const SignatureDomain crc{CrcSignature{CrcType::kCrc32c, 0}};
  ASSERT_TRUE(build({.signature = SignatureBlock{.memory = crc, .wire = crc}}, state).result);
  // Nothing new: neither format nor running values.
  Build b = build({}, state);
  EXPECT_EQ(b.at(0, 16), "80000000 00000000 00000000 20002000");
  EXPECT_EQ(b.wqes.psv_count, 0u);
  // As polling does for a signature error CQE.
  state.signatures->errors = 2;
  state.signatures->errors_to_consume = true;
  b = build({}, state);
  EXPECT_EQ(b.at(0, 16), "80000000 00000000 00000000 20002200");
  EXPECT_EQ(b.at(60, 4), "00000000");  // two errors: even
  EXPECT_EQ(b.wqes.psv_count, 2u);
  EXPECT_FALSE(state.signatures->errors_to_consume);
}

TEST(MkeyWqe, SignaturesAreForgotten) {
  MkeyState state = signature_key();
  ASSERT_TRUE(build({.signature = SignatureBlock{.memory = SignatureDomain{CrcSignature{}}}}, state).result);
  const Build b = build({.forget_signature = true}, state);
  ASSERT_TRUE(b.result);
  EXPECT_EQ(b.at(0, 16), "80000000 00000000 00000000 20003000");  // BSF_ENABLE is changed, to off
  EXPECT_EQ(b.at(60, 4), "00000000");
  EXPECT_EQ(b.wqes.psv_count, 0u);
}

EncryptionBlock encryption() {
  EncryptionBlock block{.data_unit = BlockSize::k4096, .dek = 0x00abcdef, .keytag = {1, 2, 3, 4, 5, 6, 7, 8}};
  for (std::size_t i = 0; i < block.initial_tweak.size(); ++i) {
    block.initial_tweak[i] = static_cast<std::uint8_t>(i);
  }
  return block;
}

TEST(MkeyWqe, EncryptionAlone) {
  MkeyState state = crypto_key();
  const Build b = build({.encryption = encryption()}, state);
  ASSERT_TRUE(b.result);
  EXPECT_EQ(b.at(0, 16), "80000000 00000004 00000000 20003000");
  EXPECT_EQ(b.at(60, 4), "40000000");
  // Size 2, type 1; order 2 (encrypt on transmit, signature after); block 4096; tweak; DEK; key tag.
  EXPECT_EQ(b.at(112, 64),
            "81020000 ffffffff 03000000 00000000 00010203 04050607 08090a0b 0c0d0e0f 00abcdef 00000000 01020304 "
            "05060708 " +
                kZero16);
}

TEST(MkeyWqe, EncryptionOrdersAndTweaks) {
  const struct {
    bool encrypt;
    SignatureOrder order;
    std::string expected;
  } cases[] = {{true, SignatureOrder::kBeforeEncryption, "81000000"},
               {false, SignatureOrder::kAfterEncryption, "81010000"},
               {true, SignatureOrder::kAfterEncryption, "81020000"},
               {false, SignatureOrder::kBeforeEncryption, "81030000"}};
  for (const auto& test : cases) {
    MkeyState state = crypto_key();
    EncryptionBlock block = encryption();
    block.encrypt_on_transmit = test.encrypt;
    block.signature_order = test.order;
    EXPECT_EQ(build({.encryption = block}, state).at(112, 4), test.expected);
  }
  MkeyState state = crypto_key();
  MkeyLimits big_endian = limits();
  big_endian.big_endian_tweak = true;
  EXPECT_EQ(build({.encryption = encryption()}, state, big_endian).at(128, 16), "0f0e0d0c 0b0a0908 07060504 03020100");
}

// Both formats say that there are 128 bytes.
TEST(MkeyWqe, SignatureAndEncryption) {
  MkeyState state = crypto_key();
  state.signatures.emplace();
  EncryptionBlock block = encryption();
  block.signature_order = SignatureOrder::kBeforeEncryption;
  Build b = build({.encryption = block}, state);
  ASSERT_TRUE(b.result);
  EXPECT_EQ(b.at(0, 8), "80000000 00000008");
  EXPECT_EQ(b.at(112, 16), "c0000000 ffffffff 00000000 00000000");
  EXPECT_EQ(b.at(176, 4), "c1000000");
  // The signature alone changes: both are written again.
  b = build({.signature = SignatureBlock{.wire = SignatureDomain{CrcSignature{}}, .check_mask = 0xf0}}, state);
  ASSERT_TRUE(b.result);
  EXPECT_EQ(b.at(112, 4), "c0f00100");
  EXPECT_EQ(b.at(176, 4), "c1000000");
  EXPECT_EQ(b.wqes.psv_count, 1u);
  // And when it is forgotten.
  b = build({.forget_signature = true}, state);
  EXPECT_EQ(b.at(112, 4), "c0000000");
  EXPECT_EQ(b.wqes.psv_count, 0u);
}

TEST(MkeyWqe, LongestLayouts) {
  std::vector<Sge> sges(5);
  EXPECT_EQ(error_of({.layout = ListLayout{std::span(sges).first(4)}}, plain_key()), 0);
  EXPECT_EQ(error_of({.layout = ListLayout{sges}}, plain_key()), ENOMEM);  // the key was made for 4
  // 60 inline bytes and 4 of their header are 4 entries.
  EXPECT_EQ(error_of({.layout = ListLayout{std::span(sges).first(4)}}, plain_key(), limits(60)), 0);
  EXPECT_EQ(error_of({.layout = ListLayout{std::span(sges).first(4)}}, plain_key(), limits(59)), ENOMEM);
  std::vector<InterleavedSge> entries(4);
  EXPECT_EQ(error_of({.layout = InterleavedLayout{1, std::span(entries).first(3)}}, plain_key(), limits(60)), 0);
  EXPECT_EQ(error_of({.layout = InterleavedLayout{1, entries}}, plain_key(), limits(60)), ENOMEM);
  EXPECT_EQ(error_of({.layout = InterleavedLayout{1, std::span(entries).first(1)}}, plain_key(), limits(0)), ENOMEM);
  // A layout of 64 bytes and a format of 64.
  const MkeyChange both{.layout = ListLayout{kSges},
                        .signature = SignatureBlock{.wire = SignatureDomain{CrcSignature{}}}};
  EXPECT_EQ(error_of(both, signature_key(), limits(124)), 0);
  EXPECT_EQ(error_of(both, signature_key(), limits(123)), ENOMEM);
}

TEST(MkeyWqe, Refusals) {
  const auto dif = [](T10Dif value) { return MkeyChange{.signature = SignatureBlock{.wire = SignatureDomain{value}}}; };
  const auto crc = [](CrcSignature value) {
    return MkeyChange{.signature = SignatureBlock{.wire = SignatureDomain{value}}};
  };
  EXPECT_EQ(error_of({.access = Access::kZeroBased}, plain_key()), EINVAL);
  EXPECT_EQ(error_of(dif({}), plain_key()), EINVAL);
  EXPECT_EQ(error_of({.signature = SignatureBlock{}}, signature_key()), EINVAL);
  EXPECT_EQ(error_of(dif({.background = 1}), signature_key()), EINVAL);
  EXPECT_EQ(error_of(dif({.guard = static_cast<GuardType>(2)}), signature_key()), EINVAL);
  EXPECT_EQ(error_of(crc({CrcType::kCrc32, 1}), signature_key()), EINVAL);
  EXPECT_EQ(error_of(crc({CrcType::kCrc32, ~std::uint64_t{0}}), signature_key()), EINVAL);
  EXPECT_EQ(error_of(crc({CrcType::kCrc64Xp10, 0xffffffff}), signature_key()), EINVAL);
  EXPECT_EQ(error_of(crc({static_cast<CrcType>(3), 0}), signature_key()), EINVAL);
  EXPECT_EQ(error_of({.signature = SignatureBlock{.wire = SignatureDomain{T10Dif{}, static_cast<BlockSize>(5)}}},
                     signature_key()),
            EINVAL);
  EXPECT_EQ(error_of({.signature = SignatureBlock{.wire = SignatureDomain{T10Dif{}}, .copy_mask = 1}}, signature_key()),
            EINVAL);
  EXPECT_EQ(error_of({.encryption = encryption()}, plain_key()), EINVAL);
  const InterleavedSge wide{.bytes = 0xffff, .skip = 1};
  EXPECT_EQ(error_of({.layout = InterleavedLayout{1, {&wide, 1}}}, plain_key()), EINVAL);
  const Sge large[] = {{0, 0xffffffff, 1}, {0, 1, 1}};
  EXPECT_EQ(error_of({.layout = ListLayout{large}}, signature_key()), 0);
  EXPECT_EQ(error_of({.layout = ListLayout{large}, .signature = SignatureBlock{.wire = SignatureDomain{T10Dif{}}}},
                     signature_key()),
            EINVAL);
  MkeyState tagged = plain_key();
  tagged.key |= 1;
  EXPECT_EQ(error_of({}, tagged, {.max_inline_bytes = 512}), EOPNOTSUPP);
}

TEST(MkeyWqe, EncryptionRefusals) {
  // Signatures of encrypted bytes in one domain only.
  MkeyState both = crypto_key();
  both.signatures.emplace();
  const SignatureBlock signatures{.memory = SignatureDomain{T10Dif{}}, .wire = SignatureDomain{T10Dif{}}};
  EXPECT_EQ(error_of({.signature = signatures, .encryption = encryption()}, both), EINVAL);
  EncryptionBlock before = encryption();
  before.signature_order = SignatureOrder::kBeforeEncryption;
  EXPECT_EQ(error_of({.signature = signatures, .encryption = before}, both), 0);
  // An engine of single blocks.
  MkeyLimits single = limits();
  single.encrypts_single_block = true;
  const Sge one_more{0, 4097, 1};
  EXPECT_EQ(error_of({.layout = ListLayout{{&one_more, 1}}, .encryption = encryption()}, crypto_key(), single), EINVAL);
  EXPECT_EQ(error_of({.layout = ListLayout{{&one_more, 1}}, .encryption = encryption()}, crypto_key()), 0);
}

// A change that is refused leaves the key as it was.
TEST(MkeyWqe, RefusedChangesChangeNothing) {
  MkeyState state = signature_key();
  const Build b = build({.layout = ListLayout{kSges}, .signature = SignatureBlock{}}, state);
  EXPECT_FALSE(b.result);
  EXPECT_EQ(state.length_bytes, 0u);
  EXPECT_FALSE(state.signatures->block);
  EXPECT_TRUE(state.signatures->errors_to_consume);
}

// Constant descriptions are checked by the compiler.
constexpr SignatureBlock kChecked = checked({.memory = SignatureDomain{T10Dif{.background = 0xffff}},
                                             .wire = SignatureDomain{CrcSignature{}},
                                             .check_mask = 0xff});
static_assert(fault_of(kChecked).empty());
static_assert(!fault_of(SignatureBlock{.wire = SignatureDomain{T10Dif{.background = 7}}}).empty());

}  // namespace
}  // namespace umlx5
