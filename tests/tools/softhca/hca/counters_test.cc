// What the transport counts, and the commands that tell (mlx5_ifc.h query_q_counter_out, query_vport_counter_out).
#include <gtest/gtest.h>

#include "tests/tools/softhca/hca/data_path_fixture.h"
#include "tests/tools/softhca/hca/hca_rig.h"

namespace softhca::hca {
namespace {

using namespace harness;

// Three writes of one packet each; what happens to the wire's packet `number` is told.
void write_three(Fixture& pair, std::size_t number, Fate what) {
  pair.wire.fate = [=](std::size_t packet, wire::Ipv4, std::span<const std::byte>) {
    return packet == number ? what : Fate{};
  };
  for (int i = 0; i < 3; ++i) {
    pair.a.post({.opcode = kWrite,
                 .list = {{pair.key_a, 0, 64}},
                 .remote_address = address_of(pair.memory_b()),
                 .rkey = pair.key_b});
  }
  pair.run();
  ASSERT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ WRITE #1; REQ WRITE #2");
}

TEST(Counters, APerfectWireCountsRequestsOnly) {
  Fixture pair;
  write_three(pair, 99, {});
  const TransportCounters& b = pair.device_b.transport.counters();
  EXPECT_EQ(b.rx_write_requests, 3u);
  EXPECT_EQ(b.out_of_sequence + b.duplicate_request + b.out_of_buffer, 0u);
  const TransportCounters& a = pair.device_a.transport.counters();
  EXPECT_EQ(a.packet_seq_err + a.local_ack_timeout_err + a.rnr_nak_retry_err, 0u);
}

TEST(Counters, ALostRequestIsSeenByBothSides) {
  Fixture pair;
  write_three(pair, 0, {.copies = 0});
  EXPECT_EQ(pair.device_b.transport.counters().out_of_sequence, 2u) << "those behind it";
  EXPECT_EQ(pair.device_b.transport.counters().rx_write_requests, 3u);
  EXPECT_EQ(pair.device_a.transport.counters().packet_seq_err, 1u);
}

TEST(Counters, ADoubledRequestIsADuplicate) {
  Fixture pair;
  write_three(pair, 1, {.copies = 2});
  EXPECT_EQ(pair.device_b.transport.counters().duplicate_request, 1u);
  EXPECT_EQ(pair.device_b.transport.counters().rx_write_requests, 3u);
}

TEST(Counters, ALostLastRequestTakesATimeout) {
  Fixture pair;
  write_three(pair, 2, {.copies = 0});
  EXPECT_EQ(pair.device_a.transport.counters().local_ack_timeout_err, 1u);
  EXPECT_EQ(pair.device_b.transport.counters().out_of_sequence, 0u);
}

TEST(Counters, AMissingReceiveIsCountedOnBothSides) {
  Fixture pair({.rnr_retry = 2});
  pair.a.post({.opcode = kSend, .list = {{pair.key_a, 0, 64}}});
  pair.run();
  EXPECT_EQ(pair.device_b.transport.counters().out_of_buffer, 3u);
  EXPECT_EQ(pair.device_a.transport.counters().rnr_nak_retry_err, 2u);
  EXPECT_EQ(pair.device_a.transport.counters().req_rnr_retries_exceeded, 1u);
}

TEST(CounterCommands, TellAndRefuse) {
  HcaRig rig;
  ASSERT_EQ(rig.run(32, {{0, 0x773u << 16}}, {}, 0x100), kOk);
  EXPECT_EQ(get<std::uint32_t>(rig.out, 0x38), 0u);
  EXPECT_EQ(rig.run(32, {{0, 0x773u << 16}, {0x1c, 1}}, {}, 0x100), kBadIndex);
  EXPECT_EQ(rig.run(32, {{0, 0x773u << 16}, {0x18, 1u << 31}}, {}, 0x100), kBadParam);
  EXPECT_EQ(rig.run(32, {{0, 0x773u << 16}}, {}, 0xf0), kBadOutputLength);
  ASSERT_EQ(rig.run(32, {{0, 0x770u << 16}}, {}, 0x210), kOk);
  EXPECT_EQ(rig.run(32, {{0, 0x770u << 16}, {8, 1u << 31}}, {}, 0x210), kBadParam);
}

}  // namespace
}  // namespace softhca::hca
