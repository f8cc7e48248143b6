// Dynamically connected initiators and targets: who reaches whom, and what becomes of the streams of an initiator.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "driver/ah.h"
#include "driver/dv_flags.h"
#include "driver/srq.h"
#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

constexpr std::uint64_t kKey = 0x1122334455667788;
constexpr std::size_t kTo = 128 * 1024;

// An initiator on one device and a target on another, or on the same. End gives the memory and the queues.
class Dc {
 public:
  explicit Dc(Topology topology, std::uint32_t flags = 0, std::optional<DciStreams> streams = {},
              std::string faults = {}, std::uint32_t target_flags = ~0u)
      : machine_a_({.faults = std::move(faults)}) {
    if (topology == Topology::kTwoDevices) {
      machine_b_ = std::make_unique<Machine>();
    }
    EndOptions with_srq;
    with_srq.srq_requests = 63;
    a = std::make_unique<End>(machine_a_.context());
    b = std::make_unique<End>(machine_b_ == nullptr ? machine_a_.context() : machine_b_->context(), with_srq);
    target = must(b->pd->create_qp({.type = QpType::kDriver,
                                    .send_cq = b->send_cq.get(),
                                    .recv_cq = b->recv_cq.get(),
                                    .srq = b->srq.get(),
                                    .dv_create_flags = target_flags == ~0u ? flags : target_flags,
                                    .dc_type = DcType::kDct,
                                    .dct_access_key = kKey}));
    EXPECT_EQ(target->qpn(), 0u) << "a target has no number yet";
    must(target->to_init({.remote_access = kAllAccess}));
    ReadyToReceiveAttributes ready{.path_mtu = Mtu::k1024, .min_rnr_timer = 1};
    ready.remote = way_to(*b);
    must(target->to_rtr(ready));
    EXPECT_NE(target->qpn(), 0u);
    initiator = must(a->pd->create_qp({.type = QpType::kDriver,
                                       .send_cq = a->send_cq.get(),
                                       .recv_cq = a->recv_cq.get(),
                                       .capacity = {.max_send_wr = 64, .max_send_sge = 1},
                                       .dv_create_flags = flags,
                                       .dc_type = DcType::kDci,
                                       .dci_streams = streams}));
    must(initiator->to_init({}));
    must(initiator->to_rtr(ready));
    must(initiator->to_rts({.timeout = 10}));
    uapi::AddressVector way;
    way.dgid = b->address(0).gid;
    way.hop_limit = 64;
    way.is_global = true;
    way.port = 1;
    ah = must(a->pd->create_ah(way));
  }

  static RemoteAddress way_to(const End& end) { return {.gid = end.address(0).gid}; }

  SendWr request(std::uint64_t wr_id, SendOpcode opcode, std::span<const Sge> sges, std::uint16_t stream = 0) const {
    return {.wr_id = wr_id,
            .opcode = opcode,
            .flags = SendFlag::kSignaled,
            .sges = sges,
            .remote_address = b->address_of(0),
            .rkey = b->region->rkey(),
            .destination = &ah->address_vector(),
            .remote_qpn = target->qpn(),
            .dc_access_key = kKey,
            .dci_stream = stream};
  }
  void post(const SendWr& wr) { ASSERT_EQ(initiator->post_send({&wr, 1}).error, 0) << initiator->explain_refusal(wr); }
  void write(std::uint64_t wr_id, std::uint16_t stream, bool good = true) {
    const Sge sge = a->sge(0, 64);
    SendWr wr = request(wr_id, SendOpcode::kRdmaWrite, {&sge, 1}, stream);
    wr.rkey ^= good ? 0u : 0x100u;
    post(wr);
  }
  QpState state() { return must(initiator->query_state()); }

 private:
  Machine machine_a_;
  std::unique_ptr<Machine> machine_b_;

 public:
  std::unique_ptr<End> a, b;
  Owned<Qp> target, initiator;
  Owned<Ah> ah;
};

class DcTest : public SoftTest {};
INSTANTIATE_TEST_SUITE_P(Soft, DcTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

TEST_P(DcTest, EveryOperation) {
  Dc dc(GetParam());
  dc.a->fill(0, 5000, 3);
  std::memcpy(dc.b->at(8192), dc.a->at(0), 8);
  const Sge out = dc.a->sge(0, 5000), back = dc.a->sge(8192, 5000), old = dc.a->sge(16384, 8);
  const Sge to = dc.b->sge(kTo, 5000);
  dc.b->post(RecvWr{.wr_id = 7, .sges = {&to, 1}});
  dc.post(dc.request(1, SendOpcode::kSend, {&out, 1}));
  dc.post(dc.request(2, SendOpcode::kRdmaWrite, {&out, 1}));
  dc.post(dc.request(3, SendOpcode::kRdmaRead, {&back, 1}));
  SendWr add = dc.request(4, SendOpcode::kFetchAdd, {&old, 1});
  add.compare_add = 5;
  add.remote_address = dc.b->address_of(8192);
  dc.post(add);
  EXPECT_EQ(text(dc.a->wait_sends(4)), "1 ok, 2 ok, 3 ok, 4 ok");
  const Completion received = dc.b->wait_receives(1).at(0);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.byte_count, 5000u);
  EXPECT_TRUE(std::equal(dc.a->at(0), dc.a->at(5000), dc.b->at(kTo)));
  EXPECT_TRUE(std::equal(dc.a->at(0), dc.a->at(5000), dc.a->at(8192)));
  EXPECT_TRUE(std::equal(dc.a->at(0), dc.a->at(8), dc.a->at(16384)));
  std::uint64_t before = 0, after = 0;
  std::memcpy(&before, dc.a->at(0), 8);
  std::memcpy(&after, dc.b->at(8192), 8);
  EXPECT_EQ(after, before + 5);
}

TEST_P(DcTest, AWrongKeyIsRefusedAndReported) {
  Dc dc(GetParam());
  const Sge sge = dc.a->sge(0, 64);
  SendWr wrong = dc.request(1, SendOpcode::kRdmaWrite, {&sge, 1});
  wrong.dc_access_key = kKey + 1;
  dc.post(wrong);
  EXPECT_EQ(dc.a->wait_sends(1).at(0).status, CompletionStatus::kRemoteAccess);
  EXPECT_EQ(dc.state(), QpState::kErr) << "without streams an error ends the initiator";
  EXPECT_TRUE(std::all_of(dc.b->at(0), dc.b->at(64), [](std::byte b) { return b == std::byte{}; }));
}

TEST_P(DcTest, OneStreamFailsAndTheOthersGoOn) {
  Dc dc(GetParam(), 0, DciStreams{.log_concurrent = 3, .log_errored = 2});
  dc.a->fill(0, 64, 1);
  dc.write(1, 4);
  dc.write(2, 3, false);
  dc.write(3, 3);
  dc.write(4, 4);
  const auto done = dc.a->wait_sends(4);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[1].status, CompletionStatus::kRemoteAccess);
  EXPECT_EQ(done[2].status, CompletionStatus::kWorkRequestFlushed) << "of the stream that failed";
  EXPECT_EQ(done[3].status, CompletionStatus::kSuccess) << "of another stream";
  EXPECT_EQ(dc.state(), QpState::kRts);
  dc.write(5, 3);
  EXPECT_EQ(dc.a->wait_sends(1).at(0).status, CompletionStatus::kWorkRequestFlushed) << "until it is reset";

  EXPECT_FALSE(dc.initiator->reset_dci_stream(4)) << "has not failed";
  must(dc.initiator->reset_dci_stream(3));
  dc.write(6, 3);
  EXPECT_EQ(text(dc.a->wait_sends(1)), "6 ok");
  EXPECT_TRUE(std::equal(dc.a->at(0), dc.a->at(64), dc.b->at(0)));
}

TEST_P(DcTest, AsManyFailedStreamsAsThereMayBeEndTheInitiator) {
  Dc dc(GetParam(), 0, DciStreams{.log_concurrent = 3, .log_errored = 1});
  dc.write(1, 1, false);
  EXPECT_EQ(dc.a->wait_sends(1).at(0).status, CompletionStatus::kRemoteAccess);
  EXPECT_EQ(dc.state(), QpState::kRts);
  must(dc.initiator->reset_dci_stream(1));  // counts no more
  dc.write(2, 1, false);
  EXPECT_EQ(dc.a->wait_sends(1).at(0).status, CompletionStatus::kRemoteAccess);
  EXPECT_EQ(dc.state(), QpState::kRts);
  dc.write(3, 2, false);
  EXPECT_EQ(dc.a->wait_sends(1).at(0).status, CompletionStatus::kRemoteAccess);
  EXPECT_EQ(dc.state(), QpState::kErr);
  dc.write(4, 5);
  EXPECT_EQ(dc.a->wait_sends(1).at(0).status, CompletionStatus::kWorkRequestFlushed);
  EXPECT_FALSE(dc.initiator->reset_dci_stream(1)) << "not in RTS";
}

TEST_P(DcTest, OutOfOrder) {
  Dc dc(GetParam(), dv::kOutOfOrderPlacement, {}, "seed=5,loss=0.03,reorder=0.3,dup=0.05");
  for (std::uint32_t first = 0; first < 480; first += 48) {
    for (std::uint32_t i = 0; i < 48; ++i) {
      const Sge to = dc.b->sge(kTo + i * 64, 64);
      dc.b->post(RecvWr{.wr_id = i, .sges = {&to, 1}});
    }
    for (std::uint32_t i = 0; i < 48; ++i) {
      const std::uint32_t number = first + i;
      std::memcpy(dc.a->at(i * 64), &number, sizeof number);
      const Sge from = dc.a->sge(i * 64, 64);
      dc.post(dc.request(number, SendOpcode::kSend, {&from, 1}));
    }
    const auto received = dc.b->wait_receives(48);
    dc.a->wait_sends(48);
    for (std::uint32_t i = 0; i < 48; ++i) {
      std::uint32_t number = 0;
      std::memcpy(&number, dc.b->at(kTo + received[i].wr_id * 64), sizeof number);
      ASSERT_EQ(number, first + i);
    }
  }
}

TEST_P(DcTest, OutOfOrderOnOneSideOnlyFails) {
  for (const bool initiator : {true, false}) {
    Dc dc(GetParam(), initiator ? dv::kOutOfOrderPlacement : 0, {}, {}, initiator ? 0 : dv::kOutOfOrderPlacement);
    dc.write(1, 0);
    EXPECT_EQ(dc.a->wait_sends(1).at(0).status, CompletionStatus::kRemoteInvalidRequest);
    EXPECT_EQ(dc.state(), QpState::kErr);
  }
}

}  // namespace
}  // namespace umlx5::testing
