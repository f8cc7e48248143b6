// Datagrams between two UD queue pairs, and the address handles that they go by.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "driver/ah.h"
#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

constexpr std::uint32_t kGrhBytes = 40;  // before the data of every datagram (IBA 11.4.1.2)
constexpr std::size_t kTo = 128 * 1024;

class DatagramTest : public SoftTest {
 protected:
  static PairOptions datagrams(Topology topology) {
    EndOptions end;
    end.type = QpType::kUd;
    return {.topology = topology, .a = end, .b = end};
  }
};

INSTANTIATE_TEST_SUITE_P(Soft, DatagramTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

uapi::AddressVector way_to(const End& end) {
  uapi::AddressVector address;
  address.dgid = end.address(0).gid;
  address.hop_limit = 64;
  address.is_global = true;
  address.port = 1;
  return address;
}

SendWr datagram(const Ah& ah, const End& to, std::uint64_t wr_id, std::span<const Sge> sges) {
  SendWr request = Pair::send(wr_id, sges);
  request.destination = &ah.address_vector();
  request.remote_qpn = to.qp->qpn();
  request.remote_qkey = to.options.qkey;
  return request;
}

TEST_P(DatagramTest, EverySizeUpToTheMtu) {
  Pair pair(datagrams(GetParam()));
  End &a = *pair.a, &b = *pair.b;
  const auto ah = must(a.pd->create_ah(way_to(b)));
  std::uint8_t stream = 0;
  for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kSendWithImm}) {
    for (const std::uint32_t bytes : {0u, 1u, 31u, 32u, 33u, 64u, 1000u, 1024u}) {
      SCOPED_TRACE(bytes);
      a.fill(0, bytes, ++stream);
      const Sge from = a.sge(0, bytes), to = b.sge(kTo, 2048);
      b.post(RecvWr{.wr_id = 7, .sges = {&to, 1}});
      SendWr request = datagram(*ah, b, 9, {&from, 1});
      request.opcode = opcode;
      request.immediate_big_endian = 0x01020304 + bytes;
      a.post(request);
      const Completion sent = a.wait_sends(1).at(0), received = b.wait_receives(1).at(0);
      ASSERT_EQ(sent.status, CompletionStatus::kSuccess) << describe(sent);
      ASSERT_EQ(received.status, CompletionStatus::kSuccess) << describe(received);
      EXPECT_EQ(received.wr_id, 7u);
      EXPECT_EQ(received.byte_count, bytes + kGrhBytes);
      EXPECT_EQ(received.source_qpn(), a.qp->qpn());
      EXPECT_TRUE(received.has_grh());
      EXPECT_EQ(received.has_immediate, opcode == SendOpcode::kSendWithImm);
      EXPECT_TRUE(std::equal(a.at(0), a.at(bytes), b.at(kTo + kGrhBytes)));
    }
  }
}

// Whoever does not know the Q_Key is not heard, and is not told.
TEST_P(DatagramTest, WrongQkeyIsDropped) {
  Pair pair(datagrams(GetParam()));
  End &a = *pair.a, &b = *pair.b;
  const auto ah = must(a.pd->create_ah(way_to(b)));
  b.post_receives(0, 2);
  const Sge from = a.sge(0, 8);
  SendWr request = datagram(*ah, b, 1, {&from, 1});
  request.remote_qkey ^= 1;
  a.post(request);
  EXPECT_EQ(text(a.wait_sends(1)), "1 ok");
  a.post(datagram(*ah, b, 2, {&from, 1}));
  EXPECT_EQ(text(a.wait_sends(1)), "2 ok");
  EXPECT_EQ(text(b.wait_receives(1)), "0 ok");
  b.expect_quiet();
}

// One queue pair, many destinations.
TEST_P(DatagramTest, ManyQueuePairsAreReachedFromOne) {
  Pair pair(datagrams(GetParam()));
  End& a = *pair.a;
  std::vector<std::unique_ptr<End>> others;
  std::vector<Owned<Ah>> ways;
  for (int i = 0; i < 5; ++i) {
    others.push_back(std::make_unique<End>(pair.context_b(), pair.b->options));
    others.back()->connect({}, 0);
    others.back()->post_receives(100 * i, 4);
    ways.push_back(must(a.pd->create_ah(way_to(*others.back()))));
  }
  const Sge from = a.sge(0, 8);
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      a.post(datagram(*ways[i], *others[i], i, {&from, 1}));
    }
    a.wait_sends(others.size());
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(text(others[i]->wait_receives(4)),
              fmt::format("{} ok, {} ok, {} ok, {} ok", 100 * i, 100 * i + 1, 100 * i + 2, 100 * i + 3));
  }
}

TEST(Ah, RefusalsAndUsers) {
  Machine machine;
  auto pd = must(machine.context().alloc_pd());
  uapi::AddressVector address;
  address.dgid = must(machine.context().query_gid(1, 0)).gid;
  address.is_global = true;
  for (const std::uint8_t port : {0, 2}) {
    address.port = port;
    const auto ah = pd->create_ah(address);
    ASSERT_FALSE(ah) << port;
    EXPECT_EQ(ah.error().errno_value, EINVAL);
  }
  address.port = 1;
  address.is_global = false;  // Ethernet has no LIDs
  EXPECT_EQ(pd->create_ah(address).error().errno_value, EINVAL);
  address.is_global = true;
  auto ah = must(pd->create_ah(address));
  const auto refused = pd.destroy();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EBUSY);
  must(ah.destroy());
  must(pd.destroy());
}

}  // namespace
}  // namespace umlx5::testing
