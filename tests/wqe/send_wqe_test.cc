#include "wqe/send_wqe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/wqe/bytes.h"

namespace umlx5::wqe {
namespace {

using testing_bytes::hex;
using testing_bytes::unhex;

constexpr std::string_view kData64 = "00000040 00001234 00007f00 00001000 ";
constexpr std::string_view kRaddr = "00007f00 00002000 00005678 00000000 ";

std::vector<std::byte> wqe(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const auto part : parts) {
    text += part;
  }
  return unhex(text);
}

std::string_view reason(const std::vector<std::byte>& bytes, Transport transport = Transport::kConnected) {
  const auto parsed = parse_send_wqe(bytes, transport);
  return parsed ? "" : parsed.error();
}

TEST(ParseSendWqe, SendImmediateWithTwoPointers) {
  const auto bytes = wqe({"0000010b 00004503 00000008 11223344 ", kData64, "00000000 00000100 00000000 00000000"});
  const auto parsed = parse_send_wqe(bytes, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->control.opcode, SendOpcode::kSendImmediate);
  EXPECT_EQ(parsed->control.immediate, 0x11223344u);
  EXPECT_FALSE(parsed->has_remote_address || parsed->has_xrc || parsed->has_atomic || parsed->has_address_vector);
  ASSERT_EQ(parsed->data.size(), 2u);
  EXPECT_EQ(parsed->data[0].length_bytes, 64u);
  EXPECT_EQ(parsed->data[0].lkey, 0x1234u);
  EXPECT_EQ(parsed->data[0].address, 0x7f0000001000u);
  // A wire byte count of 0 is 2 GiB; in a gather list lkey 0x100 has no special meaning.
  EXPECT_EQ(parsed->data[1].length_bytes, 0x80000000u);
  EXPECT_EQ(parsed->data.total_bytes(), 0x80000040u);
}

TEST(ParseSendWqe, SendInvalidateWithoutData) {
  const auto parsed = parse_send_wqe(wqe({"00000101 00004501 00000008 aabbcc01"}), Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->control.opcode, SendOpcode::kSendInvalidate);
  EXPECT_EQ(parsed->control.immediate, 0xaabbcc01u);
  EXPECT_TRUE(parsed->data.empty());
}

TEST(ParseSendWqe, RdmaWriteInline) {
  const auto bytes = wqe({"00000108 00004504 00000008 00000000 ", kRaddr,
                          "8000000d 00010203 04050607 08090a0b 0cffffff ffffffff ffffffff ffffffff"});
  const auto parsed = parse_send_wqe(bytes, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_TRUE(parsed->has_remote_address);
  EXPECT_EQ(parsed->remote_address.address, 0x7f0000002000u);
  EXPECT_EQ(parsed->remote_address.rkey, 0x5678u);
  ASSERT_EQ(parsed->data.size(), 1u);
  ASSERT_TRUE(parsed->data[0].is_inline());
  EXPECT_EQ(hex({parsed->data[0].inline_data, parsed->data[0].length_bytes}), "00010203 04050607 08090a0b 0c");
}

TEST(ParseSendWqe, InlineOfLengthZeroAndPointersMixed) {
  const auto bytes = wqe({"0000010a 00004503 00000008 00000000 ", "80000000 00000000 00000000 00000000 ", kData64});
  const auto parsed = parse_send_wqe(bytes, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  ASSERT_EQ(parsed->data.size(), 2u);
  EXPECT_TRUE(parsed->data[0].is_inline());
  EXPECT_EQ(parsed->data[0].length_bytes, 0u);
  EXPECT_FALSE(parsed->data[1].is_inline());
}

TEST(ParseSendWqe, RdmaReadTakesPointersOnly) {
  const auto good = wqe({"00000110 00004503 00000008 00000000 ", kRaddr, kData64});
  ASSERT_EQ(reason(good), "");
  const auto bad = wqe({"00000110 00004503 00000008 00000000 ", kRaddr, "80000004 00000000 00000000 00000000"});
  EXPECT_EQ(reason(bad), "inline segment where the device writes its response");
}

TEST(ParseSendWqe, Atomics) {
  const auto swap = wqe({"00000111 00004504 00000008 00000000 ", kRaddr, "00000000 00000007 00000000 00000003 ",
                         "00000008 00001234 00007f00 00001000"});
  auto parsed = parse_send_wqe(swap, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_TRUE(parsed->has_atomic && parsed->has_remote_address);
  EXPECT_EQ(parsed->atomic.operand_bytes, 8);
  EXPECT_EQ(parsed->atomic.swap_add, 7u);
  EXPECT_EQ(parsed->atomic.compare, 3u);
  EXPECT_EQ(parsed->atomic.compare_mask, ~0ull);
  EXPECT_EQ(parsed->atomic.swap_mask, ~0ull);
  ASSERT_EQ(parsed->data.size(), 1u);

  const auto add = wqe({"00000112 00004504 00000008 00000000 ", kRaddr, "00000000 00000007 00000000 00000000 ",
                        "00000008 00001234 00007f00 00001000"});
  parsed = parse_send_wqe(add, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->atomic.swap_add, 7u);
  EXPECT_EQ(parsed->atomic.field_boundary, 0u);

  const auto opmod = wqe({"09000111 00004504 00000008 00000000 ", kRaddr, "00000000 00000007 00000000 00000003 ",
                          "00000008 00001234 00007f00 00001000"});
  EXPECT_EQ(reason(opmod), "a plain atomic takes opmod 0");
}

TEST(ParseSendWqe, MaskedAtomics) {
  const auto swap8 = wqe({"09000114 00004505 00000008 00000000 ", kRaddr, "00000000 00000001 00000000 00000002 ",
                          "00000000 00000003 00000000 00000004 ", "00000008 00001234 00007f00 00001000"});
  auto parsed = parse_send_wqe(swap8, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->atomic.operand_bytes, 8);
  EXPECT_EQ(parsed->atomic.swap_add, 1u);
  EXPECT_EQ(parsed->atomic.compare, 2u);
  EXPECT_EQ(parsed->atomic.swap_mask, 3u);
  EXPECT_EQ(parsed->atomic.compare_mask, 4u);

  const auto swap4 = wqe({"08000114 00004504 00000008 00000000 ", kRaddr, "00000001 00000002 00000003 00000004 ",
                          "00000004 00001234 00007f00 00001000"});
  parsed = parse_send_wqe(swap4, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->atomic.operand_bytes, 4);
  EXPECT_EQ(parsed->atomic.compare_mask, 4u);

  const auto add8 = wqe({"09000115 00004504 00000008 00000000 ", kRaddr, "00000000 00000001 00000000 80000000 ",
                         "00000008 00001234 00007f00 00001000"});
  parsed = parse_send_wqe(add8, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->atomic.field_boundary, 0x80000000u);

  const auto add4 = wqe({"08000115 00004504 00000008 00000000 ", kRaddr, "00000001 00008000 00000000 00000000 ",
                         "00000004 00001234 00007f00 00001000"});
  parsed = parse_send_wqe(add4, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->atomic.operand_bytes, 4);
  EXPECT_EQ(parsed->atomic.swap_add, 1u);
  EXPECT_EQ(parsed->atomic.field_boundary, 0x8000u);

  const auto size = wqe({"00000115 00004504 00000008 00000000 ", kRaddr, "00000001 00008000 00000000 00000000 ",
                         "00000004 00001234 00007f00 00001000"});
  EXPECT_EQ(reason(size), "a masked atomic takes opmod 8 (4-byte operands) or 9 (8-byte operands)");
}

TEST(ParseSendWqe, Xrc) {
  const auto bytes = wqe({"0000010a 00004503 00000008 00000000 ", "00001001 00000000 00000000 00000000 ", kData64});
  const auto parsed = parse_send_wqe(bytes, Transport::kXrc);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_TRUE(parsed->has_xrc);
  EXPECT_EQ(parsed->xrc_srqn, 0x1001u);
  EXPECT_EQ(parsed->data.size(), 1u);
}

TEST(ParseSendWqe, DatagramExtendedAndCompact) {
  const auto extended = wqe({"0000010a 00004505 00000008 00000000 ",
                             "11111111 00000000 80123456 8a00e341 00000000 020000aa bbcc6a40 00312345 00000000 "
                             "00000000 0000ffff 7f000002 ",
                             kData64});
  auto parsed = parse_send_wqe(extended, Transport::kDatagram);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->address_vector.destination_qpn, 0x123456u);
  EXPECT_EQ(parsed->address_vector.qkey(), 0x11111111u);
  EXPECT_EQ(parsed->address_vector.remote_gid[15], 2);
  EXPECT_EQ(parsed->data.size(), 1u);

  const auto compact = wqe({"0000010a 00004503 00000008 00000000 ", "11111111 00000000 00123456 0d000017 ", kData64});
  parsed = parse_send_wqe(compact, Transport::kDatagram);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_FALSE(parsed->address_vector.extended);
  EXPECT_EQ(parsed->address_vector.remote_lid_or_udp_sport, 0x17u);
  EXPECT_EQ(parsed->data.size(), 1u);

  const auto cut = wqe({"0000010a 00004503 00000008 00000000 ", "11111111 00000000 80123456 0d000017 ", kData64});
  EXPECT_EQ(reason(cut, Transport::kDatagram), "DS ends inside the extended address vector");
}

TEST(ParseSendWqe, RawPacketInlineHeader) {
  const auto bytes = wqe({"0000010a 00004504 00000008 00000000 ",
                          "00000000 c0000000 00000000 00120102 03040506 0708090a 0b0c0d0e 0f101112 ", kData64});
  auto parsed = parse_send_wqe(bytes, Transport::kRawPacket);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_TRUE(parsed->has_eth && parsed->eth.l3_checksum && parsed->eth.l4_checksum);
  EXPECT_EQ(hex(parsed->eth_inline_header), "01020304 05060708 090a0b0c 0d0e0f10 1112");
  EXPECT_EQ(parsed->data.size(), 1u);
  const auto cut = wqe({"0000010a 00004502 00000008 00000000 ", "00000000 c0000000 00000000 00120102"});
  EXPECT_EQ(reason(cut, Transport::kRawPacket), "DS ends inside the Ethernet segment's inline header");
  const auto tso = wqe({"0000010e 00004502 00000008 00000000 ", "00000000 c0000000 00000000 00000000"});
  EXPECT_EQ(reason(tso), "TSO on a queue that does not send raw packets");
}

TEST(ParseSendWqe, OpcodesWithABodyAreLeftWhole) {
  for (const std::string_view opcode : {"25", "20", "2f", "0f", "17"}) {
    const auto bytes = wqe({"000001", opcode, " 00004502 00000008 00000000 ", kData64, kData64});
    const auto parsed = parse_send_wqe(bytes, Transport::kXrc);
    ASSERT_TRUE(parsed) << parsed.error();
    EXPECT_FALSE(parsed->has_xrc);
    EXPECT_EQ(parsed->body.data(), bytes.data() + 16);
    EXPECT_EQ(parsed->body.size(), 16u);
  }
  const auto nop = parse_send_wqe(wqe({"00000100 00004501 00000008 00000000"}), Transport::kDatagram);
  ASSERT_TRUE(nop);
  EXPECT_TRUE(nop->body.empty());
}

TEST(ParseSendWqe, RejectsByName) {
  EXPECT_EQ(reason({}), "fewer bytes than a control segment");
  EXPECT_EQ(reason(wqe({"0000010a 00004501 00000008"})), "fewer bytes than a control segment");
  EXPECT_EQ(reason(wqe({"0000010a 00004500 00000008 00000000"})), "DS is 0");
  EXPECT_EQ(reason(wqe({"0000010a 00004502 00000008 00000000"})), "DS reaches past the bytes at hand");
  EXPECT_EQ(reason(wqe({"00000177 00004501 00000008 00000000"})), "unknown opcode");
  EXPECT_EQ(reason(wqe({"00000108 00004501 00000008 00000000"})), "DS ends before the remote address segment");
  EXPECT_EQ(reason(wqe({"00000111 00004502 00000008 00000000 ", kRaddr})), "DS ends before the atomic segment");
  EXPECT_EQ(reason(wqe({"0000010a 00004501 00000008 00000000"}), Transport::kXrc), "DS ends before the XRC segment");
  EXPECT_EQ(reason(wqe({"0000010a 00004501 00000008 00000000"}), Transport::kDatagram),
            "DS ends before the address vector");
  EXPECT_EQ(reason(wqe({"0000010a 00004501 00000008 00000000"}), Transport::kRawPacket),
            "DS ends before the Ethernet segment");
  EXPECT_EQ(reason(wqe({"0000010a 00004502 00000008 00000000 ", "8000000d 00000000 00000000 00000000"})),
            "DS ends inside an inline segment");
  EXPECT_EQ(reason(wqe({"0000010a 00004502 00000008 00000000 ", "ffffffff 00000000 00000000 00000000"})),
            "DS ends inside an inline segment");
}

TEST(ParseSendWqe, SixtyThreeOctowords) {
  std::vector<std::byte> bytes = wqe({"0000010a 0000453f 00000008 00000000"});
  const auto item = unhex(kData64);
  for (int i = 0; i < 62; ++i) {
    bytes.insert(bytes.end(), item.begin(), item.end());
  }
  const auto parsed = parse_send_wqe(bytes, Transport::kConnected);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->data.size(), 62u);
  EXPECT_EQ(parsed->data.total_bytes(), 62u * 64);
  bytes.pop_back();
  EXPECT_EQ(reason(bytes), "DS reaches past the bytes at hand");
}

TEST(ParseReceiveWqe, StopsAtTheTerminator) {
  const auto bytes = wqe({kData64, "00000000 00000100 00000000 00000000 ", kData64});
  const auto list = parse_receive_wqe(bytes, ReceivePrefix::kNone);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->size(), 1u);
}

TEST(ParseReceiveWqe, SkipsThePrefixAndTakesAFullWqe) {
  const auto bytes = wqe({"00000007 00000000 00000000 00000000 ", kData64, kData64, kData64});
  EXPECT_EQ(parse_receive_wqe(bytes, ReceivePrefix::kSrqNext)->size(), 3u);
  EXPECT_EQ(parse_receive_wqe(bytes, ReceivePrefix::kSignature)->size(), 3u);
  EXPECT_EQ(parse_receive_wqe(bytes, ReceivePrefix::kNone)->size(), 4u);
}

TEST(ParseReceiveWqe, RejectsByName) {
  EXPECT_EQ(parse_receive_wqe({}, ReceivePrefix::kSrqNext).error(),
            "fewer bytes than the segment before the scatter list");
  EXPECT_EQ(parse_receive_wqe(unhex("00000040 00001234 00007f00"), ReceivePrefix::kNone).error(),
            "the receive WQE is not a whole number of octowords");
  EXPECT_EQ(parse_receive_wqe(unhex("80000004 00000000 00000000 00000000"), ReceivePrefix::kNone).error(),
            "inline segment in a scatter list");
  std::vector<std::byte> many;
  const auto item = unhex(kData64);
  for (int i = 0; i < 63; ++i) {
    many.insert(many.end(), item.begin(), item.end());
  }
  EXPECT_EQ(parse_receive_wqe(many, ReceivePrefix::kNone).error(), "more scatter entries than a WQE can have");
}

}  // namespace
}  // namespace umlx5::wqe
