// Multicast groups: joining and leaving by command (mlx5_ifc.h attach_to_mcg_in), and what datagrams to them do.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/tools/softhca/hca/data_path_fixture.h"
#include "tests/tools/softhca/hca/hca_rig.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint32_t kAttach = 0x806, kDetach = 0x807;
constexpr std::uint32_t kGroup = 0xef010203;  // 239.1.2.3
constexpr std::uint32_t kUdService = 2;

class McgCommands : public testing::Test, protected ReadyRig {
 protected:
  // ::ffff:239.1.2.3 unless told otherwise.
  std::uint32_t mcg(std::uint32_t opcode, std::uint32_t number, std::uint32_t last = kGroup, std::uint32_t first = 0,
                    std::uint32_t third = 0xffff) {
    return run(32, {{0, opcode << 16}, {8, number}, {0x10, first}, {0x18, third}, {0x1c, last}});
  }
  std::uint32_t made_qp(std::uint32_t service) { return create_qp(service) == kOk ? number() : 0; }
};

TEST_F(McgCommands, AQueuePairJoinsAndLeaves) {
  const std::uint32_t qpn = made_qp(kUdService);
  EXPECT_EQ(mcg(kAttach, qpn), kOk);
  EXPECT_EQ(mcg(kAttach, qpn), kOk) << "again";
  EXPECT_EQ(run_on(0x501, qpn), kBadResState) << "destroyed while in the group";
  EXPECT_EQ(syndrome(), 0x530b06u);
  EXPECT_EQ(mcg(kDetach, qpn), kOk);
  EXPECT_EQ(mcg(kDetach, qpn), kBadRes);
  EXPECT_EQ(syndrome(), 0x530b05u);
  EXPECT_EQ(run_on(0x501, qpn), kOk);
}

TEST_F(McgCommands, AnIpv6GroupIsOneToo) {
  const std::uint32_t qpn = made_qp(kUdService);
  EXPECT_EQ(mcg(kAttach, qpn, 0x12345678, 0xff0e0000, 0), kOk);
  EXPECT_EQ(mcg(kDetach, qpn, 0x12345678, 0xff0e0000, 0), kOk);
}

TEST_F(McgCommands, WhatIsNoGroupIsRefused) {
  const std::uint32_t qpn = made_qp(kUdService);
  for (const auto& [first, third, last] : {std::array{0u, 0xffffu, 0x7f000001u},  // 127.0.0.1
                                           std::array{0u, 0u, kGroup},            // neither form
                                           std::array{0xfe800000u, 0u, 1u}}) {    // fe80::1
    EXPECT_EQ(mcg(kAttach, qpn, last, first, third), kBadParam);
    EXPECT_EQ(syndrome(), 0x530b02u);
  }
  EXPECT_EQ(mcg(kAttach, made_qp(0)), kBadRes) << "RC";
  EXPECT_EQ(syndrome(), 0x530b01u);
  EXPECT_EQ(mcg(kAttach, 0x7fffff), kBadRes);
  EXPECT_EQ(run(28, {{0, kAttach << 16}, {8, qpn}}), kBadInputLength);
}

TEST_F(McgCommands, APortWithoutRoomRefuses) {
  const std::uint32_t qpn = made_qp(kUdService);
  port.refuses_groups = true;
  EXPECT_EQ(mcg(kAttach, qpn), kNoResources);
  port.refuses_groups = false;
  EXPECT_EQ(mcg(kDetach, qpn), kBadRes) << "it is not half in the group";
  EXPECT_EQ(mcg(kAttach, qpn), kOk);
}

TEST_F(McgCommands, TheDeviceHasRoomFor256Groups) {
  const std::uint32_t qpn = made_qp(kUdService);
  for (std::uint32_t i = 0; i < 256; ++i) {
    ASSERT_EQ(mcg(kAttach, qpn, kGroup + i), kOk) << i;
  }
  EXPECT_EQ(mcg(kAttach, qpn, kGroup + 256), kExceedsLimit);
  EXPECT_EQ(mcg(kDetach, qpn, kGroup + 7), kOk);
  EXPECT_EQ(mcg(kAttach, qpn, kGroup + 256), kOk);
}

// Two UD queue pairs on each of two devices; those of b and the first of a are in the group.
struct GroupFixture : Fixture {
  GroupFixture() : Fixture({.type = QpType::kUd}), second(device_b, {.qpn = 0x201}) {
    second.qp->type = QpType::kUd;
    second.qp->qkey = Address{}.qkey;
    second.qp->path.log_mtu = 1;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      device_b.set_state(*second.qp, state);
    }
    device_a.groups[kGroup] = {a.qp};
    device_b.groups[kGroup] = {b.qp, second.qp};
    EXPECT_TRUE(device_a.port->join({kGroup}));
    EXPECT_TRUE(device_b.port->join({kGroup}));
  }
  WorkRequest to_group(std::uint32_t bytes, std::uint32_t qpn = 0xffffff) {
    WorkRequest request{.opcode = kSend, .list = {{key_a, 0, bytes}}};
    request.address.qpn = qpn;
    request.address.ipv4 = kGroup;
    return request;
  }
  void post_receives() {
    a.post_receive({{key_a, 4096, 1024}});
    b.post_receive({{key_b, 0, 1024}});
    second.post_receive({{key_b, 4096, 1024}});
  }
  Queue second;
};

TEST(Multicast, EveryMemberGetsACopyAndTheGroupsAddressInItsHeader) {
  GroupFixture pair;
  pair.post_receives();
  pair.a.post(pair.to_group(100));
  pair.run();
  EXPECT_EQ(pair.wire.packets, 1u);
  EXPECT_EQ(pair.a.send_text(), "REQ SEND #0");
  EXPECT_EQ(pair.a.receive_text(), "RECV #0") << "the sender is a member as well";
  EXPECT_EQ(pair.b.receive_text(), "RECV #0");
  EXPECT_EQ(pair.second.receive_text(), "RECV #0");
  EXPECT_EQ(pair.b.receives()[0].byte_count(), 140u);
  EXPECT_TRUE(same(pair.memory_a().first(100), pair.memory_b().subspan(40)));
  EXPECT_TRUE(same(pair.memory_a().first(100), pair.memory_b().subspan(4096 + 40)));
  EXPECT_EQ(get<std::uint32_t>(pair.memory_b(), 32), 0x7f000002u) << "source";
  EXPECT_EQ(get<std::uint32_t>(pair.memory_b(), 36), kGroup) << "destination";
}

TEST(Multicast, OnlyTheMulticastNumberIsForTheGroup) {
  GroupFixture pair;
  pair.post_receives();
  pair.a.post(pair.to_group(100, 0x200));  // b's own number
  pair.run();
  EXPECT_EQ(pair.b.receive_text() + pair.second.receive_text() + pair.a.receive_text(), "");
}

TEST(Multicast, AMemberMayRefuseItsOwnDatagrams) {
  GroupFixture pair;
  pair.a.qp->blocks_own_multicast = pair.b.qp->blocks_own_multicast = true;
  pair.post_receives();
  pair.a.post(pair.to_group(100));
  pair.run();
  EXPECT_EQ(pair.a.receive_text(), "");
  EXPECT_EQ(pair.b.receive_text(), "RECV #0") << "a's are not its own";
}

TEST(Multicast, AMemberWithoutReceivesOrWithAnotherKeyKeepsNoneFromTheOthers) {
  GroupFixture pair;
  pair.b.qp->qkey = 0x22222222;
  pair.b.post_receive({{pair.key_b, 0, 1024}});
  pair.second.post_receive({{pair.key_b, 4096, 1024}});
  pair.a.post(pair.to_group(256));
  pair.run();
  EXPECT_EQ(pair.a.receive_text(), "");
  EXPECT_EQ(pair.b.receive_text(), "");
  EXPECT_EQ(pair.second.receive_text(), "RECV #0");
}

}  // namespace
}  // namespace softhca::hca
