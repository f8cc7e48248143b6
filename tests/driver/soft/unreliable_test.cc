// Unreliable connections: no acknowledgement, so a requester never learns what became of its requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

constexpr std::size_t kTo = 128 * 1024;

class UnreliableTest : public SoftTest {
 protected:
  static PairOptions unreliable(Topology topology) {
    EndOptions end;
    end.type = QpType::kUc;
    return {.topology = topology, .a = end, .b = end};
  }
};

INSTANTIATE_TEST_SUITE_P(Soft, UnreliableTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

TEST_P(UnreliableTest, SendsAndWritesArrive) {
  Pair pair(unreliable(GetParam()));
  End &a = *pair.a, &b = *pair.b;
  std::uint8_t stream = 0;
  for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kSendWithImm, SendOpcode::kRdmaWriteWithImm}) {
    for (const std::uint32_t bytes : {0u, 1u, 32u, 1024u, 1025u, 5000u, 30000u}) {
      SCOPED_TRACE(std::string(to_string(opcode)) + " of " + std::to_string(bytes));
      a.fill(0, bytes, ++stream);
      const Sge from = a.sge(0, bytes), to = b.sge(kTo, 64 * 1024);
      b.post(RecvWr{.wr_id = 7, .sges = {&to, 1}});
      SendWr request = pair.write(9, {&from, 1}, kTo);
      request.opcode = opcode;
      request.immediate_big_endian = 0x11223344;
      a.post(request);
      EXPECT_EQ(text(a.wait_sends(1)), "9 ok");
      const Completion received = b.wait_receives(1).at(0);
      ASSERT_EQ(received.status, CompletionStatus::kSuccess) << describe(received);
      EXPECT_EQ(received.byte_count, bytes);
      EXPECT_TRUE(std::equal(a.at(0), a.at(bytes), b.at(kTo)));
    }
  }
}

// What needs an answer does not exist.
TEST_P(UnreliableTest, ReadsAndAtomicsAreRefused) {
  Pair pair(unreliable(GetParam()));
  const Sge to = pair.a->sge(0, 8);
  for (const SendWr& request : {pair.read(1, {&to, 1}, 0), pair.fetch_add(1, {&to, 1}, 0, 1)}) {
    const PostResult result = pair.a->qp->post_send({&request, 1});
    EXPECT_EQ(result.posted, 0u);
    EXPECT_EQ(result.error, EINVAL) << to_string(request.opcode);
    EXPECT_NE(pair.a->qp->explain_refusal(request), "");
  }
}

}  // namespace
}  // namespace umlx5::testing
