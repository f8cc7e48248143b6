// What the device sees in Ethernet frames and does to them.
//
// The frames are scapy 2.5's, checksums included; the hashes are those of Microsoft's "Verifying the RSS Hash
// Calculation", which names the key, the addresses and the results.
#include "tools/softhca/hca/frame.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/wqe/bytes.h"
#include "tools/softhca/hca/rss.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::L3Type;
using umlx5::wqe::testing_bytes::hex;
using umlx5::wqe::testing_bytes::unhex;

constexpr std::string_view kUdp4 =
    "02007f00 00030200 7f000002 08004500 00211234 00004011 8af54209 95bba18e 64500aea 06e6000d e6996162 636465";
constexpr std::string_view kTcp6 =
    "01505619 20a7248a 07a528c8 8100bc0c 86dd6b90 00000017 06093ffe 25010200 1fff0000 00000000 00073ffe 25010200 "
    "00030000 00000000 00010aea 06e61122 33440000 00055018 006478a8 00007879 7a";
constexpr std::string_view kVxlan =
    "02007f00 00030200 7f000002 08004500 005a0001 00004011 66900a00 00010a00 00020fa0 12b50046 00000800 000076ad "
    "f1000a00 00000001 0a000000 00020800 45000028 00020000 40069d2b 420995bb a18e6450 0aea06e6 00000001 00000000 "
    "50022000 a06e0000";

constexpr ToeplitzKey kMicrosoftKey = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                       0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                       0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                       0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

TEST(Frame, UdpOverIpv4) {
  const auto bytes = unhex(kUdp4);
  const auto frame = parse_frame(bytes);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->l3_type, L3Type::kIpv4);
  EXPECT_EQ(frame->l4_type, L4Type::kUdp);
  EXPECT_TRUE(frame->l3_ok);
  EXPECT_TRUE(frame->l4_ok);
  EXPECT_FALSE(frame->has_vlan);
  EXPECT_FALSE(frame->is_multicast());
  EXPECT_EQ(frame->headers.ethertype, 0x0800);
  EXPECT_EQ(frame->headers.ip_protocol, 17);
  EXPECT_EQ(frame->headers.udp_sport, 2794);
  EXPECT_EQ(frame->headers.udp_dport, 1766);
  EXPECT_EQ(frame->headers.tcp_dport, 0);
  EXPECT_EQ(frame->headers.ttl_hoplimit, 64);
}

TEST(Frame, TcpOverIpv6BehindATag) {
  const auto frame = parse_frame(unhex(kTcp6));
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->l3_type, L3Type::kIpv6);
  EXPECT_EQ(frame->l4_type, L4Type::kTcpAckAndData);
  EXPECT_TRUE(frame->l3_ok);
  EXPECT_TRUE(frame->l4_ok);
  EXPECT_TRUE(frame->has_vlan);
  EXPECT_EQ(frame->vlan, 0xbc0c);
  EXPECT_TRUE(frame->is_multicast());
  EXPECT_EQ(frame->headers.ethertype, 0x86dd);
  EXPECT_TRUE(frame->headers.cvlan_tag);
  EXPECT_EQ(frame->headers.first_vid, 0xc0c);
  EXPECT_EQ(frame->headers.first_prio, 5);
  EXPECT_TRUE(frame->headers.first_cfi);
  EXPECT_EQ(frame->headers.ip_dscp, 0x2e);
  EXPECT_EQ(frame->headers.ip_ecn, 1);
  EXPECT_EQ(frame->headers.ttl_hoplimit, 9);
  EXPECT_EQ(frame->headers.tcp_sport, 2794);
  EXPECT_EQ(frame->headers.tcp_flags, 0x18);
}

TEST(Frame, OneWrongBitIsAWrongChecksum) {
  for (const std::string_view text : {kUdp4, kTcp6}) {
    auto bytes = unhex(text);
    bytes.back() ^= std::byte{1};
    EXPECT_TRUE(parse_frame(bytes)->l3_ok);
    EXPECT_FALSE(parse_frame(bytes)->l4_ok);
  }
  auto bytes = unhex(kUdp4);
  bytes[22] ^= std::byte{1};  // TTL
  EXPECT_FALSE(parse_frame(bytes)->l3_ok);
}

TEST(Frame, UdpWithoutChecksumIsRight) {
  auto bytes = unhex(kUdp4);
  bytes[40] = bytes[41] = std::byte{0};
  EXPECT_TRUE(parse_frame(bytes)->l4_ok);
}

TEST(Frame, FragmentsHaveNoPorts) {
  auto bytes = unhex(kUdp4);
  bytes[20] = std::byte{0x20};  // more fragments
  const auto frame = parse_frame(bytes);
  EXPECT_TRUE(frame->headers.frag);
  EXPECT_EQ(frame->l4_type, L4Type::kNone);
}

TEST(Frame, EveryCutIsSafe) {
  for (const std::string_view text : {kUdp4, kTcp6, kVxlan}) {
    const auto bytes = unhex(text);
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
      std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(parse_frame(cut).has_value(), size >= 14);
      write_checksums(cut, true, true);
    }
  }
}

TEST(Frame, ChecksumsAreWrittenAsAsked) {
  for (const std::string_view text : {kUdp4, kTcp6}) {
    const auto right = unhex(text);
    auto bytes = right;
    const bool is_udp = text == kUdp4;
    const std::size_t l4 = is_udp ? 40 : 74;
    bytes[l4] = bytes[l4 + 1] = std::byte{0x55};
    if (is_udp) {
      bytes[24] = bytes[25] = std::byte{0x77};
    }
    const auto wrong = bytes;
    write_checksums(bytes, false, false);
    EXPECT_EQ(hex(bytes), hex(wrong));
    write_checksums(bytes, true, false);
    EXPECT_EQ(hex(bytes, l4, 2), "5555");
    EXPECT_EQ(hex(bytes, 0, l4), hex(right, 0, l4));
    write_checksums(bytes, false, true);
    EXPECT_EQ(hex(bytes), hex(right));
  }
}

TEST(Frame, TagsComeAndGo) {
  const auto tagged = unhex(kTcp6);
  auto bytes = tagged;
  strip_vlan(bytes);
  EXPECT_EQ(hex(bytes, 0, 16), "01505619 20a7248a 07a528c8 86dd6b90");
  EXPECT_EQ(bytes.size(), tagged.size() - 4);
  insert_vlan(bytes, 0xbc0c);
  EXPECT_EQ(hex(bytes), hex(tagged));
}

TEST(Frame, StationsAreSoftDevices) {
  const auto of = [](std::string_view text) { return station_of(std::span<const std::byte, 6>(unhex(text))); };
  EXPECT_EQ(of("02007f000003"), wire::Ipv4{0x7f000003});
  EXPECT_EQ(of("0150561920a7"), std::nullopt);
  EXPECT_EQ(of("020000000000"), std::nullopt);
}

// A header without lengths and checksums, as a driver gives it; 20 bytes in pieces of 8.
TEST(Frame, LargeSendsAreCut) {
  auto message = unhex(
      "02007f00 00030200 7f000002 08004500 0000ffff 00004006 00000101 01010202 020204d2 162effff fff80000 00075099 "
      "02000000 0000");
  for (int i = 0; i < 20; ++i) {
    message.push_back(static_cast<std::byte>(i));
  }
  std::vector<std::string> pieces;
  EXPECT_TRUE(segment_frame(message, 54, 8, [&](std::vector<std::byte>& frame) {
    write_checksums(frame, true, true);
    pieces.push_back(hex(frame));
  }));
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0],
            "02007f00 00030200 7f000002 08004500 0030ffff 00004006 74c30101 01010202 020204d2 162effff fff80000 "
            "00075090 02008037 00000001 02030405 0607");
  EXPECT_EQ(pieces[1],
            "02007f00 00030200 7f000002 08004500 00300000 00004006 74c30101 01010202 020204d2 162e0000 00000000 "
            "00075010 02006090 00000809 0a0b0c0d 0e0f");
  EXPECT_EQ(pieces[2],
            "02007f00 00030200 7f000002 08004500 002c0001 00004006 74c60101 01010202 020204d2 162e0000 00080000 "
            "00075019 02006a8f 00001011 1213");
}

TEST(Frame, LargeSendsNeedATcpHeader) {
  const auto refuse = [](std::vector<std::byte>&) { FAIL(); };
  const auto udp = unhex(kUdp4);
  EXPECT_FALSE(segment_frame(udp, 42, 8, refuse));
  const auto tcp = unhex(kTcp6);
  EXPECT_FALSE(segment_frame(tcp, 77, 8, refuse)) << "the header ends before the TCP header does";
  EXPECT_FALSE(segment_frame(tcp, 14, 8, refuse));
  EXPECT_FALSE(segment_frame(tcp, 78, 0, refuse));
}

TEST(Rss, HashesAreMicrosofts) {
  const auto hash = [](std::string_view text, HashFields fields) {
    return hash_frame(kMicrosoftKey, false, fields, *parse_frame(unhex(text)));
  };
  const HashFields addresses{.source_ip = true, .destination_ip = true};
  EXPECT_EQ(hash(kUdp4, addresses).value, 0x323e8fc2u);
  EXPECT_EQ(hash(kUdp4, addresses).type, 0x04) << "IPv4";
  HashFields all = addresses;
  all.udp = all.source_port = all.destination_port = true;
  EXPECT_EQ(hash(kUdp4, all).value, 0x51ccc178u);
  EXPECT_EQ(hash(kUdp4, all).type, 0x84) << "IPv4 and UDP";
  HashFields six = addresses;
  six.ipv6 = true;
  EXPECT_EQ(hash(kTcp6, six).value, 0x2cc18cd5u);
  six.source_port = six.destination_port = true;
  EXPECT_EQ(hash(kTcp6, six).value, 0x40207d3du);
  EXPECT_EQ(hash(kTcp6, six).type, 0x48) << "IPv6 and TCP";
}

TEST(Rss, FieldsThatAreNotThereAreNotHashed) {
  HashFields tcp{.source_ip = true, .destination_ip = true, .source_port = true, .destination_port = true};
  EXPECT_EQ(hash_frame(kMicrosoftKey, false, tcp, *parse_frame(unhex(kUdp4))).value, 0x323e8fc2u);
  EXPECT_EQ(hash_frame(kMicrosoftKey, false, tcp, *parse_frame(unhex(kTcp6))).type, 0x40) << "TCP ports alone";
}

TEST(Rss, SymmetricHashesAreThoseOfBothDirections) {
  auto there = unhex(kUdp4);
  auto back = there;
  std::swap_ranges(back.begin() + 26, back.begin() + 30, back.begin() + 30);
  std::swap_ranges(back.begin() + 34, back.begin() + 36, back.begin() + 36);
  const HashFields all{
      .udp = true, .source_ip = true, .destination_ip = true, .source_port = true, .destination_port = true};
  const auto hash = [&](const std::vector<std::byte>& bytes, bool symmetric) {
    return hash_frame(kMicrosoftKey, symmetric, all, *parse_frame(bytes)).value;
  };
  EXPECT_NE(hash(there, false), hash(back, false));
  EXPECT_EQ(hash(there, true), hash(back, true));
  // OR and XOR of both ends: 66.9.149.187 with 161.142.100.80, 2794 with 1766.
  constexpr std::uint8_t kInput[] = {0xe3, 0x8f, 0xf5, 0xfb, 0xe3, 0x87, 0xf1, 0xeb, 0x0e, 0xee, 0x0c, 0x0c};
  EXPECT_EQ(hash(there, true), toeplitz(kMicrosoftKey, kInput));
}

TEST(Rss, TunnelsAreFound) {
  const auto bytes = unhex(kVxlan);
  const auto frame = parse_frame(bytes);
  EXPECT_EQ(frame->inner_offset, 50u);
  const auto inner = parse_frame(std::span(bytes).subspan(frame->inner_offset));
  const HashFields addresses{.source_ip = true, .destination_ip = true};
  EXPECT_EQ(hash_frame(kMicrosoftKey, false, addresses, *inner).value, 0x323e8fc2u);
}

}  // namespace
}  // namespace softhca::hca
