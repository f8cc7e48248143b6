#include "wqe/dump.h"

#include <gtest/gtest.h>

#include "tests/wqe/bytes.h"

namespace umlx5::wqe {
namespace {

using testing_bytes::unhex;

TEST(DumpSendWqe, SegmentBySegment) {
  const auto bytes = unhex(
      "00000108 00004505 00000008 00000000 00007f00 00002000 00005678 00000000 "
      "80000005 00010203 04ffffff ffffffff 00000040 00001234 00007f00 00001000 "
      "00000000 00000007 00000000 00000008 eeeeeeee eeeeeeee eeeeeeee eeeeeeee");
  EXPECT_EQ(dump_send_wqe(bytes, Transport::kConnected),
            "send WQE on a connected queue\n"
            "  +0x000 ctrl{opcode=RDMA_WRITE(0x8) index=1 qpn=0x45 ds=5 fence=none(0x0) cqe=always(0x2)}\n"
            "  +0x010 raddr{address=0x7f0000002000 rkey=0x5678}\n"
            "  +0x020 inline{bytes=5} 00010203 04\n"
            "  +0x030 data{bytes=64 lkey=0x1234 address=0x7f0000001000}\n"
            "  +0x040 data{lkey=0x7 address=0x8}\n");
}

TEST(DumpSendWqe, SaysWhatIsMalformedAndShowsTheRest) {
  const auto bytes = unhex(
      "00000108 00004503 00000008 00000000 00007f00 00002000 00005678 00000000 80000fff 00010203 04ffffff ffffffff");
  EXPECT_EQ(dump_send_wqe(bytes, Transport::kConnected),
            "send WQE on a connected queue\n"
            "  +0x000 ctrl{opcode=RDMA_WRITE(0x8) index=1 qpn=0x45 ds=3 fence=none(0x0) cqe=always(0x2)}\n"
            "  +0x010 raddr{address=0x7f0000002000 rkey=0x5678}\n"
            "  malformed: DS ends inside an inline segment\n"
            "  +0x020 80000fff 00010203 04ffffff ffffffff\n");
  EXPECT_EQ(dump_send_wqe(unhex("00000177 0000"), Transport::kConnected),
            "send WQE on a connected queue\n"
            "  malformed: fewer bytes than a control segment\n"
            "  +0x000 00000177 0000\n");
  EXPECT_EQ(dump_send_wqe(unhex("00000177 0000453f 00000000 00000000 01"), Transport::kConnected),
            "send WQE on a connected queue\n"
            "  +0x000 ctrl{opcode=unknown(0x77) index=1 qpn=0x45 ds=63 fence=none(0x0) cqe=on-error(0x0)}\n"
            "  malformed: DS reaches past the bytes at hand\n"
            "  +0x010 01\n");
}

TEST(DumpSendWqe, Transports) {
  const auto xrc = unhex("0000010a 00004502 00000008 00000000 00001001 00000000 00000000 00000000");
  EXPECT_NE(dump_send_wqe(xrc, Transport::kXrc).find("  +0x010 xrc{srqn=0x1001}\n"), std::string::npos);
  const auto ud = unhex("0000010a 00004502 00000008 00000000 11111111 00000000 00123456 0d000017");
  EXPECT_NE(dump_send_wqe(ud, Transport::kDatagram)
                .find("  +0x010 av{key=0x1111111100000000 dqpn=0x123456 sl=13 rlid_udp_sport=0x17}\n"),
            std::string::npos);
  const auto raw = unhex("0000010a 00004502 00000008 00000000 00000000 40000000 00000000 0002aabb");
  EXPECT_NE(dump_send_wqe(raw, Transport::kRawPacket).find("  +0x010 eth{l3_csum inline_header=2} header aabb\n"),
            std::string::npos);
}

TEST(DumpSendWqe, BodiesOfOtherOperations) {
  const auto atomic = unhex(
      "08000115 00004504 00000008 00000000 00007f00 00002000 00005678 00000000 00000001 00008000 00000000 00000000 "
      "00000004 00001234 00007f00 00001000");
  EXPECT_NE(dump_send_wqe(atomic, Transport::kConnected).find("  +0x020 masked-fa-4{add=0x1 field_boundary=0x8000}\n"),
            std::string::npos);
  const auto mmo = unhex(
      "0100012f 00004504 00000008 00000000 00000000 00000099 00000000 00001000 00000040 00001234 00007f00 00001000 "
      "00000040 00001235 00007f00 00002000");
  const std::string copied = dump_send_wqe(mmo, Transport::kConnected);
  EXPECT_NE(copied.find("  +0x010 mmo{opaque_lkey=0x99 opaque_address=0x1000}\n"), std::string::npos);
  EXPECT_NE(copied.find("  +0x030 data{bytes=64 lkey=0x1235 address=0x7f0000002000}\n"), std::string::npos);
  const auto wait = unhex("0000010f 00004502 00000008 00000000 00000000 00000000 00000005 00000077");
  EXPECT_NE(dump_send_wqe(wait, Transport::kConnected).find("  +0x010 queue{max_index=5 number=0x77}\n"),
            std::string::npos);
  const auto umr = unhex(
      "00000125 00004504 00000008 00001242 b0000000 00040000 00000000 203c2041 00000000 00000000 00000000 00000000 "
      "00000000 00000000 00000000 00000000");
  EXPECT_NE(dump_send_wqe(umr, Transport::kConnected)
                .find("  +0x010 umr-ctrl{inline check_free translation_offset klm_octowords=4 mkey_mask=0x203c2041}\n"),
            std::string::npos);
}

TEST(DumpReceiveWqe, ListAndTerminator) {
  const auto bytes = unhex(
      "00000007 00000000 00000000 00000000 00000040 00001234 00007f00 00001000 00000000 00000100 00000000 00000000");
  EXPECT_EQ(dump_receive_wqe(bytes, ReceivePrefix::kSrqNext),
            "receive WQE\n"
            "  +0x000 srq-next{next=7}\n"
            "  +0x010 data{bytes=64 lkey=0x1234 address=0x7f0000001000}\n"
            "  end of list\n");
  EXPECT_EQ(dump_receive_wqe(unhex("0000"), ReceivePrefix::kNone),
            "receive WQE\n"
            "  malformed: the receive WQE is not a whole number of octowords\n"
            "  +0x000 0000\n");
}

TEST(DumpCqe, ErrorInALargeEntryIsExplained) {
  std::vector<std::byte> entry(128);
  entry[64 + 54] = std::byte{0x81};
  entry[64 + 55] = std::byte{0x15};
  entry[64 + 63] = std::byte{0xd0};
  const std::string text = dump_cqe(entry);
  EXPECT_NE(text.find("CQE in an entry of 128 bytes\n  +0x000 (unused half)\n  +0x040 error-cqe{opcode=REQ_ERR(0xd) "
                      "syndrome=TRANSPORT_RETRY_EXC_ERR(0x15) vendor_syndrome=0x81"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  transport retry count exceeded: the peer did not acknowledge"), std::string::npos) << text;
}

TEST(DumpCqe, InlineDataAndTitles) {
  std::vector<std::byte> entry(64, std::byte{0x11});
  entry[63] = std::byte{0x24};
  const std::string small = dump_cqe(entry);
  EXPECT_NE(small.find("  +0x010 11111111 11111111 11111111 11111111\n  +0x020 cqe{opcode=RESP_SEND(0x2)"),
            std::string::npos)
      << small;
  std::vector<std::byte> large(128, std::byte{0x22});
  large[127] = std::byte{0x28};
  const std::string inline64 = dump_cqe(large);
  EXPECT_NE(inline64.find("  +0x030 22222222 22222222 22222222 22222222\n  +0x040 cqe{opcode=RESP_SEND(0x2)"),
            std::string::npos)
      << inline64;
  std::vector<std::byte> title(64);
  title[47] = std::byte{13};
  title[63] = std::byte{0x2c};
  EXPECT_NE(dump_cqe(title).find("  title of 13 compressed completions"), std::string::npos);
  std::vector<std::byte> fresh(64);
  fresh[63] = std::byte{0xf0};
  EXPECT_NE(dump_cqe(fresh).find("  the device has not written this entry\n"), std::string::npos);
}

TEST(DumpMiniCqes, AsTheTitleAndTheFormatSay) {
  std::vector<std::byte> entry = unhex("00030800 00000000 00091000 00000200");
  entry.resize(64);
  EXPECT_EQ(dump_mini_cqes(entry, MiniCqeFormat::kRxHash, CqeOpcode::kRequester)
                .find("mini CQEs, of requests\n"
                      "  +0x000 mini-cqe{wqe_counter=3 send_opcode=RDMA_WRITE(0x8)}\n"
                      "  +0x008 mini-cqe{wqe_counter=9 send_opcode=RDMA_READ(0x10) bytes=512}\n"),
            0u);
  EXPECT_EQ(dump_mini_cqes(entry, MiniCqeFormat::kRxHash, CqeOpcode::kResponderSend)
                .find("mini CQEs, rx-hash\n  +0x000 mini-cqe{rx_hash=0x30800}\n"),
            0u);
  entry.insert(entry.begin(), 64, std::byte{0xee});
  EXPECT_EQ(dump_mini_cqes(entry, MiniCqeFormat::kChecksumStrideIndex, CqeOpcode::kResponderSend)
                .find("mini CQEs, checksum-and-stride-index\n"
                      "  +0x000 (unused half)\n"
                      "  +0x040 mini-cqe{checksum=0x3 stride_index=2048}\n"),
            0u);
  EXPECT_EQ(dump_mini_cqes(unhex("0000"), MiniCqeFormat::kRxHash, CqeOpcode::kRequester),
            "not an entry of mini CQEs: 2 bytes, not 64 or 128\n  +0x000 0000\n");
}

TEST(DumpCqe, SignatureErrorInWords) {
  const auto bytes = unhex(
      "00000000 00000000 00000000 00000000 0000aaaa 0000bbbb 00000001 00000002 "
      "28000001 00123400 00000000 00000200 00000000 00000000 00000046 000000c1");
  EXPECT_NE(dump_cqe(bytes).find(
                "  block protection of mkey index 0x1234 does not match at offset 512 on the memory side: guard "
                "reference tag\n"),
            std::string::npos)
      << dump_cqe(bytes);
}

TEST(DumpCqe, OtherSizesAreNoCqe) {
  EXPECT_EQ(dump_cqe(unhex("0102")), "not a CQE: 2 bytes, not 64 or 128\n  +0x000 0102\n");
  EXPECT_EQ(dump_eqe({}), "not an EQE: 0 bytes, not 64\n");
}

TEST(DumpEqe, Events) {
  std::vector<std::byte> entry(64);
  entry[1] = std::byte{0x09};
  entry[3] = std::byte{0x04};
  entry[40] = std::byte{0x20};
  EXPECT_NE(dump_eqe(entry).find("  port-event{port=2} active\n"), std::string::npos) << dump_eqe(entry);
  entry.assign(64, std::byte{0});
  entry[1] = std::byte{0x04};
  entry[35] = std::byte{0x45};
  entry[43] = std::byte{0x01};
  EXPECT_NE(dump_eqe(entry).find("  cq-error{cqn=0x45 syndrome=overrun(0x1)}\n"), std::string::npos);
}

}  // namespace
}  // namespace umlx5::wqe
