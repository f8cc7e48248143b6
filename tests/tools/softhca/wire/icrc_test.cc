#include "tools/softhca/wire/icrc.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/softhca/wire/sample_packets.h"
#include "tests/tools/softhca/wire/subprocess.h"

namespace softhca::wire {
namespace {

std::string hex(std::span<const std::byte> data) {
  std::string out;
  for (const std::byte value : data) {
    out += fmt::format("{:02x}", static_cast<int>(value));
  }
  return out;
}

std::vector<std::byte> unhex(std::string_view text) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

std::string wire_hex(std::uint32_t value) {
  std::array<std::byte, kIcrcBytes> out{};
  store_icrc(out.data(), value);
  return hex(out);
}

// A CNP that a ConnectX-4 Lx put on the wire, recorded in scapy's test/contrib/roce.uts ("RoCE CNP captured on
// ConnectX-4 Lx"): 10.0.17.1:0 to 10.0.18.1:4791, identification 0x718c, ICRC bytes 82 fd 00 2a.
TEST(Icrc, IsWhatAConnectXSent) {
  const Flow flow{.source = {0x0a001101},
                  .destination = {0x0a001201},
                  .source_port = 0,
                  .destination_port = 4791,
                  .identification = 0x718c};
  const auto packet = unhex("8100ffff4000011800000000" + std::string(32, '0'));
  EXPECT_EQ(wire_hex(icrc(flow, packet)), "82fd002a");
}

// A UC SEND ONLY with two bytes of padding from the same file, 192.168.0.7:49152 to itself.
TEST(Icrc, IsWhatScapysTestRecords) {
  const Flow flow{.source = {0xc0a80007}, .destination = {0xc0a80007}, .source_port = 49152, .identification = 1144};
  Packet packet;
  packet.bth = {.opcode = opcode_of(Transport::kUc, Operation::kSendOnly),
                .migration_request = true,
                .destination_qpn = 211,
                .psn = 13571856};
  const auto payload = unhex("4630818be28935d90e9a95505401be885e50");
  packet.payload = payload;
  EXPECT_EQ(wire_hex(icrc(flow, built(packet))), "78f353f3");
}

TEST(Icrc, LoadsWhatItStores) {
  std::array<std::byte, kIcrcBytes> out{};
  store_icrc(out.data(), 0x01020304);
  EXPECT_EQ(hex(out), "04030201");
  EXPECT_EQ(load_icrc(out.data()), 0x01020304U);
}

TEST(Icrc, IgnoresWhatSwitchesChangeAndNothingElse) {
  const Flow flow{.source = {0x7f000002}, .destination = {0x7f000003}};
  std::vector<std::byte> packet = built(full_packet(opcode_of(Transport::kRc, Operation::kRdmaWriteOnly)));
  const std::uint32_t expected = icrc(flow, packet);
  for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
    packet[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(icrc(flow, packet) == expected, bit / 8 == 4) << "byte " << bit / 8;  // FECN, BECN and reserved bits
    packet[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

// scapy computes it from a packet object of its own, with Python's zlib.
TEST(Icrc, AgreesWithScapy) {
  std::mt19937 random(7);
  std::stringstream expected;
  const std::string input =
      fmt::format("{}/icrc_{}.txt", std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp", getpid());
  {
    std::ofstream lines(input);
    for (const Opcode opcode : defined_opcodes()) {
      for (const std::size_t payload_bytes : {0, 1, 7, 64, 1023, 4096}) {
        if (payload_bytes != 0 && !opcode_info(opcode).has_payload) {
          continue;
        }
        std::vector<std::byte> payload(payload_bytes);
        for (std::byte& value : payload) {
          value = static_cast<std::byte>(random());
        }
        Packet packet = full_packet(opcode);
        packet.payload = payload;
        const std::vector<std::byte> wire = built(packet);
        const Flow flow{.source = {static_cast<std::uint32_t>(random())},
                        .destination = {static_cast<std::uint32_t>(random())},
                        .source_port = static_cast<std::uint16_t>(random())};
        lines << fmt::format("{} {} {} {} {} {}\n", to_string(flow.source), to_string(flow.destination),
                             flow.source_port, random() % 256, random() % 256, hex(wire));
        expected << wire_hex(icrc(flow, wire)) << "\n";
      }
    }
  }
  const Output scapy = run("/usr/bin/python3 tests/tools/softhca/wire/scapy_icrc.py < " + input);
  unlink(input.c_str());
  ASSERT_EQ(scapy.status, 0) << "scapy (package python3-scapy) is needed: " << scapy.text;
  EXPECT_EQ(scapy.text, expected.str());
}

}  // namespace
}  // namespace softhca::wire
