#include "tools/softhca/wire/pcap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/softhca/wire/sample_packets.h"
#include "tests/tools/softhca/wire/subprocess.h"
#include "tools/softhca/wire/endpoint.h"
#include "tools/softhca/wire/icrc.h"

namespace softhca::wire {
namespace {

class CaptureTest : public testing::Test {
 protected:
  CaptureTest() {
    const char* const directory = std::getenv("TEST_TMPDIR");
    path_ = fmt::format("{}/{}_{}.pcapng", directory != nullptr ? directory : "/tmp", getpid(),
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    unlink(path_.c_str());
  }
  ~CaptureTest() override { unlink(path_.c_str()); }

  std::unique_ptr<Capture> opened() const {
    auto capture = Capture::open(path_, "softhca test");
    EXPECT_TRUE(capture) << capture.error().message();
    return capture ? std::move(*capture) : nullptr;
  }

  // What tshark prints on its standard output; its warnings apart.
  std::vector<std::string> tshark(const std::string& arguments) const {
    const Output output = run(fmt::format("HOME=/nonexistent tshark -r {} {} 2>{}.errors", path_, arguments, path_));
    std::ifstream errors(path_ + ".errors");
    std::stringstream text;
    text << errors.rdbuf();
    unlink((path_ + ".errors").c_str());
    EXPECT_EQ(output.status, 0) << "tshark (package tshark) is needed: " << text.str();
    EXPECT_EQ(text.str().find("cut short"), std::string::npos) << text.str();
    std::vector<std::string> lines;
    std::stringstream all(output.text);
    for (std::string line; std::getline(all, line);) {
      lines.push_back(line);
    }
    return lines;
  }

  std::string path_;
};

const Flow kFlow{.source = {0x7f000002}, .destination = {0x7f000003}};

std::vector<std::byte> on_the_wire(const Packet& packet) {
  std::vector<std::byte> wire = built(packet);
  const std::uint32_t value = icrc(kFlow, wire);
  wire.resize(wire.size() + kIcrcBytes);
  store_icrc(wire.data() + wire.size() - kIcrcBytes, value);
  return wire;
}

// Wireshark 4.0 knows the BTH of XRC, DC and frame packets but no more of them, and finds a SEND without payload
// malformed.
TEST_F(CaptureTest, TsharkDissectsEveryOpcode) {
  const std::vector<std::byte> payload(61, std::byte{0x5a});
  std::vector<std::string> expected;
  {
    const auto capture = opened();
    for (const Opcode opcode : defined_opcodes()) {
      Packet packet = full_packet(opcode);
      if (packet.info().has_payload) {
        packet.payload = payload;
      }
      const auto wire = on_the_wire(packet);
      capture->add(Direction::kSent, kFlow, 0, 64, wire);
      const std::uint32_t icrc_in_wire_order = __builtin_bswap32(load_icrc(wire.data() + wire.size() - kIcrcBytes));
      const Transport transport = packet.info().transport;
      const bool is_known =
          transport != Transport::kXrc && transport != Transport::kDc && transport != Transport::kFrame;
      expected.push_back(fmt::format("127.0.0.2,127.0.0.3,4791,4791,{},0xabcdef,16702650,{}", static_cast<int>(opcode),
                                     is_known ? fmt::format("0x{:08x}", icrc_in_wire_order) : ""));
    }
  }
  const auto lines = tshark(
      "-T fields -E separator=, -e ip.src -e ip.dst -e udp.srcport -e udp.dstport -e infiniband.bth.opcode "
      "-e infiniband.bth.destqp -e infiniband.bth.psn -e infiniband.invariant.crc");
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i], expected[i]);
  }
  EXPECT_EQ(tshark("-Y _ws.malformed"), std::vector<std::string>{});
}

TEST_F(CaptureTest, TsharkReadsEveryHeadersFields) {
  const std::vector<std::byte> payload(32, std::byte{0x5a});
  {
    const auto capture = opened();
    for (const Opcode opcode :
         {opcode_of(Transport::kRc, Operation::kRdmaWriteOnly), opcode_of(Transport::kRc, Operation::kCompareSwap),
          opcode_of(Transport::kRc, Operation::kAtomicAcknowledge),
          opcode_of(Transport::kRc, Operation::kSendOnlyWithInvalidate),
          opcode_of(Transport::kUd, Operation::kSendOnlyWithImmediate)}) {
      Packet packet = full_packet(opcode);
      if (packet.info().has_payload) {
        packet.payload = payload;
      }
      capture->add(Direction::kSent, kFlow, 0, 64, on_the_wire(packet));
    }
  }
  const auto lines = tshark(
      "-T fields -E separator=, -E occurrence=f -e infiniband.reth.va -e infiniband.reth.r_key -e "
      "infiniband.reth.dmalen -e infiniband.atomiceth.swapdt "
      "-e infiniband.atomiceth.cmpdt -e infiniband.aeth.syndrome -e infiniband.aeth.msn "
      "-e infiniband.atomicacketh.origremdt -e infiniband.ieth -e infiniband.deth.q_key -e infiniband.deth.srcqp "
      "-e infiniband.immdt");
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "0x1122334455667788,0xdeadbeef,2147483648,,,,,,,,,");
  EXPECT_EQ(lines[1], "0x8877665544332211,0xcafef00d,,72623859790382856,17434265340928784376,,,,,,,");
  EXPECT_EQ(lines[2], ",,,,,98,1193046,11647051513882650536,,,,");
  EXPECT_EQ(lines[3], ",,,,,,,,55667788,,,");
  EXPECT_EQ(lines[4], ",,,,,,,,,0x0000000080010203,0x00030201,0badcafe");
}

// Checksums by tshark's own computation, direction and time stamps.
TEST_F(CaptureTest, HeadersDirectionsAndTimesAreRight) {
  timespec before{};
  clock_gettime(CLOCK_REALTIME, &before);
  {
    const auto capture = opened();
    for (std::size_t bytes = 0; bytes < 40; ++bytes) {
      std::vector<std::byte> payload(bytes, static_cast<std::byte>(0xf0 + bytes));
      Packet packet = full_packet(opcode_of(Transport::kRc, Operation::kSendOnly));
      packet.payload = payload;
      capture->add(bytes % 2 == 0 ? Direction::kSent : Direction::kReceived, kFlow, 106,
                   static_cast<std::uint8_t>(bytes + 1), on_the_wire(packet));
    }
  }
  const auto lines = tshark(
      "-o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -T fields -E separator=, -e ip.checksum.status "
      "-e udp.checksum.status -e ip.dsfield -e ip.ttl -e ip.id -e ip.flags.df -e frame.packet_flags_direction "
      "-e frame.interface_name -e frame.time_epoch");
  ASSERT_EQ(lines.size(), 40U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string expected =
        fmt::format("1,1,0x6a,{},0x0000,1,{},softhca test,", i + 1, i % 2 == 0 ? "0x00000002" : "0x00000001");
    EXPECT_EQ(lines[i].substr(0, expected.size()), expected);
    EXPECT_NEAR(std::stod(lines[i].substr(expected.size())), static_cast<double>(before.tv_sec), 60);
  }
}

TEST_F(CaptureTest, SeveralWritersShareAFile) {
  const auto wire = on_the_wire(full_packet(opcode_of(Transport::kRc, Operation::kAcknowledge)));
  const auto first = opened();
  first->add(Direction::kSent, kFlow, 0, 64, wire);
  first->flush();
  const auto second = opened();
  for (int i = 0; i < 5; ++i) {
    first->add(Direction::kSent, kFlow, 0, 64, wire);
    second->add(Direction::kReceived, kFlow, 0, 64, wire);
    first->flush();
    second->flush();
  }
  EXPECT_EQ(tshark("-T fields -e infiniband.bth.opcode"), std::vector<std::string>(11, "17"));
}

TEST_F(CaptureTest, DoesNotTouchAForeignFile) {
  std::ofstream(path_) << "precious text";
  const auto capture = Capture::open(path_, "x");
  ASSERT_FALSE(capture);
  EXPECT_EQ(capture.error().errno_value, EINVAL);
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 13);
}

TEST_F(CaptureTest, AKilledProcessLeavesAReadableFile) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto endpoint = Endpoint::open({.pcap_path = path_});
    for (int i = 0; endpoint && i < 10; ++i) {
      const Packet packet = full_packet(opcode_of(Transport::kUd, Operation::kSendOnly));
      (*endpoint)->commit({.destination = (*endpoint)->address()}, build(packet, (*endpoint)->reserve()));
      (*endpoint)->flush();
      Received received[4];
      (*endpoint)->receive(received);
    }
    raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  const auto lines = tshark("-T fields -E separator=, -e infiniband.bth.opcode -e frame.packet_flags_direction");
  ASSERT_EQ(lines.size(), 20U);
  EXPECT_EQ(lines[0], "100,0x00000002");
  EXPECT_EQ(lines[1], "100,0x00000001");
}

TEST(ExpandProcessId, ReplacesEveryMark) {
  const std::string id = std::to_string(getpid());
  EXPECT_EQ(expand_process_id("a%p.%p"), "a" + id + "." + id);
  EXPECT_EQ(expand_process_id("plain%"), "plain%");
}

}  // namespace
}  // namespace softhca::wire
