#include "tools/softhca/wire/packet.h"

#include <gtest/gtest.h>
#include <infiniband/opcode.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "tests/tools/softhca/wire/sample_packets.h"

namespace softhca::wire {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) {
    result.push_back(static_cast<std::byte>(value));
  }
  return result;
}

// libibverbs' numbers are independent of ours.
TEST(Opcode, NumbersAreThoseOfLibibverbs) {
  struct {
    Transport transport;
    Operation operation;
    int ibverbs;
  } const rows[] = {
      {Transport::kRc, Operation::kSendFirst, IBV_OPCODE_RC_SEND_FIRST},
      {Transport::kRc, Operation::kSendMiddle, IBV_OPCODE_RC_SEND_MIDDLE},
      {Transport::kRc, Operation::kSendLast, IBV_OPCODE_RC_SEND_LAST},
      {Transport::kRc, Operation::kSendLastWithImmediate, IBV_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE},
      {Transport::kRc, Operation::kSendOnly, IBV_OPCODE_RC_SEND_ONLY},
      {Transport::kRc, Operation::kSendOnlyWithImmediate, IBV_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE},
      {Transport::kRc, Operation::kRdmaWriteFirst, IBV_OPCODE_RC_RDMA_WRITE_FIRST},
      {Transport::kRc, Operation::kRdmaWriteMiddle, IBV_OPCODE_RC_RDMA_WRITE_MIDDLE},
      {Transport::kRc, Operation::kRdmaWriteLast, IBV_OPCODE_RC_RDMA_WRITE_LAST},
      {Transport::kRc, Operation::kRdmaWriteLastWithImmediate, IBV_OPCODE_RC_RDMA_WRITE_LAST_WITH_IMMEDIATE},
      {Transport::kRc, Operation::kRdmaWriteOnly, IBV_OPCODE_RC_RDMA_WRITE_ONLY},
      {Transport::kRc, Operation::kRdmaWriteOnlyWithImmediate, IBV_OPCODE_RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE},
      {Transport::kRc, Operation::kRdmaReadRequest, IBV_OPCODE_RC_RDMA_READ_REQUEST},
      {Transport::kRc, Operation::kRdmaReadResponseFirst, IBV_OPCODE_RC_RDMA_READ_RESPONSE_FIRST},
      {Transport::kRc, Operation::kRdmaReadResponseMiddle, IBV_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE},
      {Transport::kRc, Operation::kRdmaReadResponseLast, IBV_OPCODE_RC_RDMA_READ_RESPONSE_LAST},
      {Transport::kRc, Operation::kRdmaReadResponseOnly, IBV_OPCODE_RC_RDMA_READ_RESPONSE_ONLY},
      {Transport::kRc, Operation::kAcknowledge, IBV_OPCODE_RC_ACKNOWLEDGE},
      {Transport::kRc, Operation::kAtomicAcknowledge, IBV_OPCODE_RC_ATOMIC_ACKNOWLEDGE},
      {Transport::kRc, Operation::kCompareSwap, IBV_OPCODE_RC_COMPARE_SWAP},
      {Transport::kRc, Operation::kFetchAdd, IBV_OPCODE_RC_FETCH_ADD},
      {Transport::kUc, Operation::kRdmaWriteOnlyWithImmediate, IBV_OPCODE_UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE},
      {Transport::kUc, Operation::kSendFirst, IBV_OPCODE_UC_SEND_FIRST},
      {Transport::kUd, Operation::kSendOnly, IBV_OPCODE_UD_SEND_ONLY},
      {Transport::kUd, Operation::kSendOnlyWithImmediate, IBV_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(static_cast<int>(opcode_of(row.transport, row.operation)), row.ibverbs);
    EXPECT_TRUE(opcode_info(opcode_of(row.transport, row.operation)).defined);
  }
  // IBA annex A14 (XRC) and A7 (send with invalidate).
  EXPECT_EQ(static_cast<int>(opcode_of(Transport::kXrc, Operation::kSendFirst)), 0xa0);
  EXPECT_EQ(static_cast<int>(opcode_of(Transport::kXrc, Operation::kFetchAdd)), 0xb4);
  EXPECT_EQ(static_cast<int>(opcode_of(Transport::kRc, Operation::kSendOnlyWithInvalidate)), 0x17);
}

TEST(Opcode, EachTransportHasItsOperations) {
  // 23 for RC, XRC and DC, 12 sends and writes for UC, 2 sends for UD, 1 for frames.
  EXPECT_EQ(defined_opcodes().size(), 23U + 23U + 23U + 12U + 2U + 1U);
  EXPECT_FALSE(opcode_info(static_cast<Opcode>(0x15)).defined);  // RESYNC is for RD alone
  EXPECT_FALSE(opcode_info(static_cast<Opcode>(0x18)).defined);
  EXPECT_FALSE(opcode_info(opcode_of(Transport::kUc, Operation::kAcknowledge)).defined);
  EXPECT_FALSE(opcode_info(opcode_of(Transport::kUc, Operation::kSendOnlyWithInvalidate)).defined);
  EXPECT_FALSE(opcode_info(opcode_of(Transport::kUd, Operation::kSendFirst)).defined);
  EXPECT_FALSE(opcode_info(static_cast<Opcode>(0x40)).defined);  // RD
  EXPECT_FALSE(opcode_info(static_cast<Opcode>(0xe0)).defined);  // manufacturer's
}

TEST(Opcode, HeaderSetsAreThoseOfTheSpecification) {
  const auto headers = [](Transport transport, Operation operation) {
    return static_cast<unsigned>(opcode_info(opcode_of(transport, operation)).headers);
  };
  EXPECT_EQ(headers(Transport::kRc, Operation::kSendMiddle), 0U);
  EXPECT_EQ(headers(Transport::kRc, Operation::kRdmaWriteFirst), unsigned{kReth});
  EXPECT_EQ(headers(Transport::kRc, Operation::kRdmaWriteLast), 0U);
  EXPECT_EQ(headers(Transport::kRc, Operation::kRdmaWriteOnlyWithImmediate), unsigned{kReth} | kImmDt);
  EXPECT_EQ(headers(Transport::kRc, Operation::kRdmaReadResponseMiddle), 0U);
  EXPECT_EQ(headers(Transport::kRc, Operation::kAtomicAcknowledge), unsigned{kAeth} | kAtomicAckEth);
  EXPECT_EQ(headers(Transport::kUd, Operation::kSendOnlyWithImmediate), unsigned{kDeth} | kImmDt);
  EXPECT_EQ(headers(Transport::kXrc, Operation::kSendMiddle), unsigned{kXrceth});
  EXPECT_EQ(headers(Transport::kXrc, Operation::kCompareSwap), unsigned{kXrceth} | kAtomicEth);
  EXPECT_EQ(headers(Transport::kXrc, Operation::kAcknowledge), unsigned{kAeth});
  EXPECT_EQ(headers(Transport::kXrc, Operation::kRdmaReadResponseFirst), unsigned{kAeth});
  EXPECT_EQ(headers(Transport::kFrame, Operation::kSendOnly), unsigned{kFeth});
  EXPECT_EQ(headers(Transport::kDc, Operation::kFetchAdd), unsigned{kDceth} | kAtomicEth);
  EXPECT_EQ(headers(Transport::kDc, Operation::kAtomicAcknowledge), unsigned{kAeth} | kAtomicAckEth);
}

TEST(Opcode, MessagesBeginAndEnd) {
  for (const Opcode opcode : defined_opcodes()) {
    const OpcodeInfo& info = opcode_info(opcode);
    const std::string name = to_string(opcode);
    const bool first = name.ends_with("_FIRST");
    const bool middle = name.ends_with("_MIDDLE");
    const bool last = name.find("_LAST") != std::string::npos;
    EXPECT_EQ(info.begins_message(), !middle && !last) << name;
    EXPECT_EQ(info.ends_message(), !first && !middle) << name;
    EXPECT_EQ(info.request, name.find("RESPONSE") == std::string::npos && name.find("ACK") == std::string::npos)
        << name;
  }
}

TEST(Opcode, Names) {
  EXPECT_EQ(to_string(static_cast<Opcode>(0x00)), "RC SEND_FIRST");
  EXPECT_EQ(to_string(static_cast<Opcode>(0x2b)), "UC RDMA_WRITE_ONLY_WITH_IMMEDIATE");
  EXPECT_EQ(to_string(static_cast<Opcode>(0xb2)), "XRC ATOMIC_ACKNOWLEDGE");
  EXPECT_EQ(to_string(static_cast<Opcode>(0xff)), "?");
}

// IBA 9.2 figure "Base Transport Header" and 9.3.3 "RETH", written out by hand.
TEST(Build, RcRdmaWriteOnlyIsTheSpecificationsBytes) {
  Packet packet = full_packet(opcode_of(Transport::kRc, Operation::kRdmaWriteOnly));
  const auto payload = bytes_of({0x70, 0x71, 0x72, 0x73, 0x74});
  packet.payload = payload;
  EXPECT_EQ(built(packet), bytes_of({0x0a, 0xf0, 0x80, 0x01,                          // op, SE+M+pad 3
                                     0x40, 0xab, 0xcd, 0xef,                          // BECN, dest QP
                                     0x80, 0xfe, 0xdc, 0xba,                          // AckReq, PSN
                                     0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,  // VA
                                     0xde, 0xad, 0xbe, 0xef, 0x80, 0x00, 0x00, 0x00,  // rkey, length
                                     0x70, 0x71, 0x72, 0x73, 0x74, 0x00, 0x00, 0x00}));
}

TEST(Build, AtomicAndAckHeadersAreTheSpecificationsBytes) {
  Packet packet = full_packet(opcode_of(Transport::kXrc, Operation::kCompareSwap));
  const std::vector<std::byte> swap = built(packet);
  EXPECT_EQ(std::vector(swap.begin() + 12, swap.end()),
            bytes_of({0x00, 0x99, 0xaa, 0xbb,                          // XRCETH
                      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // VA
                      0xca, 0xfe, 0xf0, 0x0d,                          // rkey
                      0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,  // swap
                      0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8}));
  packet.bth.opcode = opcode_of(Transport::kRc, Operation::kAtomicAcknowledge);
  const std::vector<std::byte> ack = built(packet);
  EXPECT_EQ(std::vector(ack.begin() + 12, ack.end()),
            bytes_of({0x62, 0x12, 0x34, 0x56, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8}));
  packet.bth.opcode = opcode_of(Transport::kUd, Operation::kSendOnlyWithImmediate);
  const std::vector<std::byte> datagram = built(packet);
  EXPECT_EQ(std::vector(datagram.begin() + 12, datagram.end()),
            bytes_of({0x80, 0x01, 0x02, 0x03, 0x00, 0x03, 0x02, 0x01, 0x0b, 0xad, 0xca, 0xfe}));
}

// IBA 9.7.5.2: the syndrome byte of each acknowledgement.
TEST(Build, SyndromeBytes) {
  const auto syndrome = [](Aeth aeth) {
    std::array<std::byte, 4> out{};
    umlx5::wqe::store(out.data(), aeth);
    return static_cast<int>(out[0]);
  };
  EXPECT_EQ(syndrome(Aeth::ack(1)), 0x1f);
  EXPECT_EQ(syndrome(Aeth::ack(1, 0)), 0x00);
  EXPECT_EQ(syndrome(Aeth::rnr_nak(1, 12)), 0x2c);
  EXPECT_EQ(syndrome(Aeth::nak(1, NakCode::kPsnSequenceError)), 0x60);
  EXPECT_EQ(syndrome(Aeth::nak(1, NakCode::kInvalidRequest)), 0x61);
  EXPECT_EQ(syndrome(Aeth::nak(1, NakCode::kRemoteAccessError)), 0x62);
  EXPECT_EQ(syndrome(Aeth::nak(1, NakCode::kRemoteOperationalError)), 0x63);
}

TEST(Build, RefusesWhatDoesNotFit) {
  Packet packet = full_packet(opcode_of(Transport::kRc, Operation::kAcknowledge));
  std::array<std::byte, 64> out{};
  EXPECT_EQ(build(packet, out), 16U);
  EXPECT_EQ(build(packet, std::span(out).first(15)), 0U);
  packet.payload = std::span(out).first(4);
  EXPECT_EQ(build(packet, std::span(out).subspan(4)), 0U);  // an acknowledgement carries no payload
  packet.bth.opcode = static_cast<Opcode>(0xff);
  EXPECT_EQ(build(packet, out), 0U);
}

TEST(Parse, ReturnsWhatWasBuiltForEveryOpcodeAndPadding) {
  for (const Opcode opcode : defined_opcodes()) {
    for (std::size_t payload_bytes = 0; payload_bytes <= 8; ++payload_bytes) {
      if (payload_bytes != 0 && !opcode_info(opcode).has_payload) {
        continue;
      }
      const std::vector<std::byte> payload(payload_bytes, std::byte{0x5a});
      Packet packet = full_packet(opcode);
      packet.payload = payload;
      const std::vector<std::byte> wire = built(packet);
      ASSERT_EQ(wire.size(), packet_bytes(opcode, payload_bytes));
      const auto parsed = parse(wire);
      ASSERT_TRUE(parsed) << to_string(opcode) << ": " << to_string(parsed.error());
      EXPECT_TRUE(std::ranges::equal(parsed->payload, payload));
      EXPECT_EQ(built(*parsed), wire) << to_string(opcode);
      packet.bth.pad_bytes = parsed->bth.pad_bytes;
      EXPECT_EQ(to_string(*parsed), to_string(packet));
    }
  }
}

TEST(Parse, RefusesWithTheReason) {
  const auto error = [](std::vector<std::byte> packet) {
    const auto parsed = parse(packet);
    return parsed ? std::string_view("parsed") : to_string(parsed.error());
  };
  Packet packet = full_packet(opcode_of(Transport::kRc, Operation::kSendOnly));
  std::vector<std::byte> wire = built(packet);
  EXPECT_EQ(error(wire), "parsed");
  EXPECT_EQ(error({}), "shorter than its headers");
  EXPECT_EQ(error({wire.begin(), wire.end() - 1}), "shorter than its headers");
  std::vector<std::byte> odd = wire;
  odd.push_back(std::byte{});
  EXPECT_EQ(error(odd), "not a multiple of 4 bytes");
  std::vector<std::byte> padded = wire;
  padded[1] = std::byte{0x30};
  EXPECT_EQ(error(padded), "more padding than bytes after the headers");
  std::vector<std::byte> version = wire;
  version[1] = std::byte{0x02};
  EXPECT_EQ(error(version), "unknown transport header version");
  std::vector<std::byte> unknown = wire;
  unknown[0] = std::byte{0x15};
  EXPECT_EQ(error(unknown), "unknown opcode");
  std::vector<std::byte> short_reth = wire;
  short_reth[0] = std::byte{0x0a};
  EXPECT_EQ(error(short_reth), "shorter than its headers");
  std::vector<std::byte> long_ack = built(full_packet(opcode_of(Transport::kRc, Operation::kAcknowledge)));
  long_ack.resize(20);
  EXPECT_EQ(error(long_ack), "payload after an opcode that carries none");
}

TEST(Parse, AnyBytesParseOrFail) {
  std::mt19937 random(1);
  std::size_t parsed_packets = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::vector<std::byte> packet(random() % 80);
    for (std::byte& value : packet) {
      value = static_cast<std::byte>(random());
    }
    if (packet.size() > 1) {
      packet[1] &= std::byte{0xf0};
    }
    if (const auto parsed = parse(packet)) {
      ++parsed_packets;
      EXPECT_LE(parsed->payload.size(), packet.size());
      EXPECT_EQ(built(*parsed).size(), packet.size());
    }
  }
  EXPECT_GT(parsed_packets, 1000U);
}

TEST(ToString, IsOneLine) {
  Packet packet;
  packet.bth = {.opcode = opcode_of(Transport::kRc, Operation::kAcknowledge), .destination_qpn = 0x12, .psn = 77};
  packet.aeth = Aeth::nak(5, NakCode::kRemoteAccessError);
  EXPECT_EQ(to_string(packet),
            "bth{opcode=RC ACKNOWLEDGE(0x11) pkey=0xffff dqpn=0x12 psn=77} aeth{kind=NAK(0x3) value=0x2 msn=5} "
            "(remote access error)");
}

// The times in the names of the kernel's enum ib_rnr_timeout (<rdma/ib_verbs.h>), in units of 10 us.
TEST(Timers, RnrCodes) {
  const std::uint32_t tens_of_us[] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (std::uint8_t code = 0; code < 32; ++code) {
    EXPECT_EQ(rnr_timer_us(code), tens_of_us[code] * 10) << int{code};
    EXPECT_EQ(rnr_timer_code(rnr_timer_us(code)), code);
  }
  EXPECT_EQ(rnr_timer_code(0), 1);
  EXPECT_EQ(rnr_timer_code(11), 2);
  EXPECT_EQ(rnr_timer_code(491521), 0);
  EXPECT_EQ(rnr_timer_code(10'000'000), 0);
}

// IBA 9.9.2.1.1; ibv_modify_qp(3) gives the same formula.
TEST(Timers, AckTimeout) {
  EXPECT_EQ(ack_timeout_ns(0), std::nullopt);
  EXPECT_EQ(ack_timeout_ns(1), 8192U);
  EXPECT_EQ(ack_timeout_ns(14), 67'108'864U);  // 67 ms, the usual setting
  EXPECT_EQ(ack_timeout_ns(31), 8'796'093'022'208U);
}

TEST(Psn, DifferenceWraps) {
  EXPECT_EQ(psn_difference(5, 3), 2);
  EXPECT_EQ(psn_difference(0, 0xffffff), 1);
  EXPECT_EQ(psn_difference(0xffffff, 0), -1);
  EXPECT_EQ(psn_difference(0x800000, 0), -0x800000);
  EXPECT_EQ(psn_add(0xffffff, 2), 1U);
}

}  // namespace
}  // namespace softhca::wire
