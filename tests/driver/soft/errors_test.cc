// Every way a request can fail: what each side completes, that the rest of both queues is flushed in order, and the
// words.
//
// Syndromes: mlx5dv.h MLX5_CQE_SYNDROME_*; statuses: verbs.h enum ibv_wc_status. Vendor syndromes are the soft HCA's.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

// The spare sizes: region_end() - n is the last n bytes.
constexpr std::size_t kEnd = End::kMemoryBytes;

struct Failure {
  ibv_wc_status status;
  std::uint8_t syndrome, vendor_syndrome;
  std::string_view words;  // of describe()
  std::string text() const { return fmt::format("{:02x}/{:02x}", syndrome, vendor_syndrome); }
};

constexpr Failure kLocalLength{IBV_WC_LOC_LEN_ERR, 0x01, 0x02, "local length error"};
constexpr Failure kLocalOperation{IBV_WC_LOC_QP_OP_ERR, 0x02, 0x69, "local QP operation error"};
constexpr Failure kGather{IBV_WC_LOC_PROT_ERR, 0x04, 0x51, "local protection error"};
constexpr Failure kScatter{IBV_WC_LOC_PROT_ERR, 0x04, 0x52, "local protection error"};
constexpr Failure kLocalAccess{IBV_WC_LOC_ACCESS_ERR, 0x11, 0x8b, "local access error"};
constexpr Failure kRemoteInvalid{IBV_WC_REM_INV_REQ_ERR, 0x12, 0x8a, "remote invalid request"};
constexpr Failure kRemoteAccess{IBV_WC_REM_ACCESS_ERR, 0x13, 0x88, "remote access error"};
constexpr Failure kRemoteOperation{IBV_WC_REM_OP_ERR, 0x14, 0x89, "remote operation error"};
constexpr Failure kRetryExceeded{IBV_WC_RETRY_EXC_ERR, 0x15, 0x81, "transport retry count exceeded"};
constexpr Failure kRnrRetryExceeded{IBV_WC_RNR_RETRY_EXC_ERR, 0x16, 0x87, "RNR retry count exceeded"};

// As a completion names it.
std::string_view operation_of(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kSendWithImm:
    case SendOpcode::kSendWithInvalidate:
      return "SEND";
    case SendOpcode::kRdmaWriteWithImm:
      return "RDMA_WRITE";
    default:
      return to_string(opcode);
  }
}

void expect_failed(const Completion& completion, const Failure& failure, const Qp& qp, std::string_view operation) {
  EXPECT_EQ(static_cast<int>(completion.status), static_cast<int>(failure.status));
  EXPECT_EQ(completion.syndrome, failure.syndrome);
  EXPECT_EQ(completion.vendor_syndrome, failure.vendor_syndrome);
  EXPECT_EQ(completion.qp, &qp);
  EXPECT_EQ(completion.qpn, qp.qpn());
  const std::string start =
      fmt::format("{} failed on QP {:#x}, wr_id {}: {} (syndrome {:#04x}, vendor syndrome {:#04x}): ", operation,
                  qp.qpn(), completion.wr_id, failure.words, failure.syndrome, failure.vendor_syndrome);
  const std::string words = describe(completion);
  EXPECT_EQ(words.substr(0, start.size()), start);
  EXPECT_GT(words.size(), start.size() + 40) << "says what to check";
}

// What is posted to a QP in ERR comes back flushed, on both queues.
void expect_dead(End& end) {
  EXPECT_EQ(end.state(), QpState::kErr);
  const Sge piece = end.sge(0, 8);
  end.post(Pair::send(900, {&piece, 1}));
  end.post(SendWr{.wr_id = 901, .opcode = SendOpcode::kSend, .sges = {&piece, 1}});
  end.post_receives(910, 2);
  EXPECT_EQ(text(end.wait_sends(2)), "900 05/f5, 901 05/f5");
  const auto receives = end.wait_receives(2);
  EXPECT_EQ(text(receives), "910 05/f9, 911 05/f9");
  EXPECT_EQ(static_cast<int>(receives[0].status), IBV_WC_WR_FLUSH_ERR);
  EXPECT_NE(describe(receives[0]).find("work request flushed"), std::string::npos);
  end.expect_quiet();
}

std::string event_text(Context& context) {
  const auto event = context.next_async_event(std::chrono::milliseconds(0));
  EXPECT_TRUE(event) << event.error().message();
  return event && *event ? (*event)->text : "";
}

struct Outcome {
  Failure sender;
  std::string peer_receives = "";  // of wr_ids 20 and 21, posted before; empty: the peer lives on
  std::string peer_event = "";     // without the QP number
};

constexpr std::string_view kBothFlushed = "20 05/f9, 21 05/f9";
constexpr std::string_view kAccessEvent = "QP access error (the other side may not do what it asked)";
constexpr std::string_view kInvalidEvent = "QP request error (a request of the other side is invalid)";

class ErrorsTest : public SoftTest {
 protected:
  // `bad` between good requests: it fails, all before it succeed, all behind it are flushed, in order. Receives 20 and
  // 21 of 1024 bytes wait at the peer if `with_receives`.
  void expect_fails(Pair& pair, SendWr bad, const Outcome& expected, bool with_receives = true) {
    End &a = *pair.a, &b = *pair.b;
    if (with_receives) {
      b.post_receives(20, 2);
    }
    a.post_receives(10, 2);
    bad.wr_id = 2;
    const Sge piece = a.sge(0, 8);
    SendWr unsignalled = pair.write(3, {&piece, 1}, 0);
    unsignalled.flags = {};
    const std::array requests{pair.write(1, {&piece, 1}, 0), bad, unsignalled, Pair::send(4, {&piece, 1})};
    const PostResult posted = a.qp->post_send(requests);
    ASSERT_EQ(posted.error, 0) << a.qp->explain_refusal(bad);

    const auto sends = a.wait_sends(4);
    ASSERT_EQ(text(sends), "1 ok, 2 " + expected.sender.text() + ", 3 05/f5, 4 05/f5");
    expect_failed(sends[1], expected.sender, *a.qp, operation_of(bad.opcode));
    EXPECT_EQ(text(a.wait_receives(2)), "10 05/f9, 11 05/f9");
    expect_dead(a);

    if (expected.peer_receives.empty()) {
      b.expect_quiet();
      EXPECT_EQ(b.state(), QpState::kRts) << "the peer is not concerned";
    } else {
      EXPECT_EQ(text(b.wait_receives(2)), expected.peer_receives);
      expect_dead(b);
    }
    const std::string event =
        expected.peer_event.empty() ? "" : fmt::format("{} on QP {:#x}", expected.peer_event, b.qp->qpn());
    EXPECT_EQ(event_text(pair.context_b()), event);
    EXPECT_EQ(event_text(pair.machine_a.context()), "");
  }
};

INSTANTIATE_TEST_SUITE_P(Soft, ErrorsTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

// ---- Local memory ----

TEST_P(ErrorsTest, WrongLkey) {
  for (const SendOpcode opcode :
       {SendOpcode::kSend, SendOpcode::kSendWithImm, SendOpcode::kRdmaWrite, SendOpcode::kRdmaWriteWithImm,
        SendOpcode::kRdmaRead, SendOpcode::kFetchAdd, SendOpcode::kCompareSwap}) {
    SCOPED_TRACE(to_string(opcode));
    Pair pair(options());
    const bool writes_here = opcode >= SendOpcode::kRdmaRead;
    Sge piece = pair.a->sge(0, 8);
    piece.lkey ^= 0x5a00;
    SendWr bad = pair.write(0, {&piece, 1}, 64);
    bad.opcode = opcode;
    expect_fails(pair, bad, {writes_here ? kScatter : kGather});
  }
}

TEST_P(ErrorsTest, LkeyWithAnotherTag) {
  Pair pair(options());
  Sge piece = pair.a->sge(0, 8);
  piece.lkey ^= 1;  // the low byte is the key's own tag
  expect_fails(pair, pair.write(0, {&piece, 1}, 64), {kGather});
}

TEST_P(ErrorsTest, LkeyOfARegionThatIsGone) {
  Pair pair(options());
  std::vector<std::byte> other(4096);
  auto region = must(pair.a->pd->register_memory(other, kAllAccess));
  const Sge piece = region->sge(0, 8);
  must(region.destroy());
  expect_fails(pair, pair.write(0, {&piece, 1}, 64), {kGather});
}

TEST_P(ErrorsTest, LocalOutOfBounds) {
  for (const std::size_t offset : {kEnd - 63, kEnd, ~std::size_t{0}}) {
    SCOPED_TRACE(offset);
    Pair pair(options());
    const Sge piece = pair.a->sge(offset, 64);
    expect_fails(pair, pair.write(0, {&piece, 1}, 64), {kGather});
  }
}

TEST_P(ErrorsTest, SecondPieceOfALongMessageOutOfBounds) {
  Pair pair(options());
  const std::array pieces{pair.a->sge(0, 64 * 1024), pair.a->sge(kEnd - 10, 11)};
  pair.a->fill(0, 64 * 1024, 1);
  expect_fails(pair, pair.write(0, pieces, 1024), {kGather});
  EXPECT_EQ(*pair.b->at(1024), std::byte{0}) << "nothing of it was sent";
}

TEST_P(ErrorsTest, LocalRegionOfAnotherPd) {
  Pair pair(options());
  auto pd = must(pair.machine_a.context().alloc_pd());
  auto region = must(pd->register_memory({pair.a->at(0), 4096}, kAllAccess));
  const Sge piece = region->sge(0, 8);
  expect_fails(pair, pair.write(0, {&piece, 1}, 64), {kGather});
}

TEST_P(ErrorsTest, ReadIntoARegionWithoutLocalWrite) {
  Pair pair(options());
  auto region = must(pair.a->pd->register_memory({pair.a->at(0), 4096}, {}));
  const Sge piece = region->sge(0, 2048);
  expect_fails(pair, pair.read(0, {&piece, 1}, 64), {kScatter});
}

// ---- Remote memory ----

SendWr with_rkey(SendWr request, std::uint32_t rkey) {
  request.rkey = rkey;
  return request;
}

TEST_P(ErrorsTest, WrongRkey) {
  for (const SendOpcode opcode :
       {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead, SendOpcode::kFetchAdd, SendOpcode::kCompareSwap}) {
    SCOPED_TRACE(to_string(opcode));
    Pair pair(options());
    const Sge piece = pair.a->sge(0, 8);
    SendWr bad = with_rkey(pair.write(0, {&piece, 1}, 64), pair.b->region->rkey() ^ 0x5a00);
    bad.opcode = opcode;
    expect_fails(pair, bad, {kRemoteAccess, std::string(kBothFlushed), std::string(kAccessEvent)});
  }
}

TEST_P(ErrorsTest, WriteWithImmediateAndWrongRkey) {
  Pair pair(options());
  const Sge piece = pair.a->sge(0, 8);
  SendWr bad = with_rkey(pair.write(0, {&piece, 1}, 64), 0x77777700);
  bad.opcode = SendOpcode::kRdmaWriteWithImm;
  expect_fails(pair, bad, {kRemoteAccess, std::string(kBothFlushed), std::string(kAccessEvent)});
}

TEST_P(ErrorsTest, RemoteOutOfBounds) {
  for (const std::size_t offset : {kEnd - 63, kEnd, ~std::size_t{0} - 7}) {
    for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
      SCOPED_TRACE(fmt::format("{} at {}", to_string(opcode), offset));
      Pair pair(options());
      const Sge piece = pair.a->sge(0, 64);
      pair.a->fill(0, 64, 3);
      SendWr bad = pair.write(0, {&piece, 1}, offset);
      bad.opcode = opcode;
      expect_fails(pair, bad, {kRemoteAccess, std::string(kBothFlushed), std::string(kAccessEvent)});
      EXPECT_EQ(*pair.b->at(kEnd - 63), std::byte{0}) << "not even the part within bounds is written";
    }
  }
}

TEST_P(ErrorsTest, RemoteRegionOfAnotherPd) {
  Pair pair(options());
  auto pd = must(pair.context_b().alloc_pd());
  auto region = must(pd->register_memory(pair.b->memory, kAllAccess));
  const Sge piece = pair.a->sge(0, 8);
  expect_fails(pair, with_rkey(pair.write(0, {&piece, 1}, 64), region->rkey()),
               {kRemoteAccess, std::string(kBothFlushed), std::string(kAccessEvent)});
}

// The right is missing at the region, then at the QP.
TEST_P(ErrorsTest, RemoteAccessRightIsMissing) {
  struct Case {
    SendOpcode opcode;
    AccessFlags others;
  };
  const Case cases[] = {
      {SendOpcode::kRdmaWrite, Access::kLocalWrite | Access::kRemoteRead | AccessFlags(Access::kRemoteAtomic)},
      {SendOpcode::kRdmaRead, Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteAtomic)},
      {SendOpcode::kFetchAdd, Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead)},
      {SendOpcode::kCompareSwap, Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead)},
  };
  for (const Case& each : cases) {
    for (const bool at_region : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, the {} forbids it", to_string(each.opcode), at_region ? "region" : "QP"));
      Pair pair(options());
      // The good request before needs the right to write, so another region or another QP's state is what forbids.
      std::vector<std::byte> guarded(64);
      auto region = must(pair.b->pd->register_memory(guarded, at_region ? each.others : kAllAccess));
      if (!at_region) {
        pair.b->options.remote_access = each.others;
        must(pair.b->qp->to_reset());
        must(pair.a->qp->to_reset());
        const auto address_a = pair.a->address(5), address_b = pair.b->address(6);
        pair.b->connect(address_a, 6);
        pair.a->connect(address_b, 5);
      }
      const Sge piece = pair.a->sge(0, 8);
      SendWr bad = with_rkey(pair.write(2, {&piece, 1}, 0), region->rkey());
      bad.opcode = each.opcode;
      bad.remote_address = reinterpret_cast<std::uint64_t>(guarded.data());
      pair.a->post(bad);
      const auto sends = pair.a->wait_sends(1);
      ASSERT_EQ(text(sends), "2 13/88");
      expect_failed(sends[0], kRemoteAccess, *pair.a->qp, to_string(each.opcode));
      expect_dead(*pair.a);
      expect_dead(*pair.b);
      EXPECT_EQ(event_text(pair.context_b()), fmt::format("{} on QP {:#x}", kAccessEvent, pair.b->qp->qpn()));
      EXPECT_EQ(guarded, std::vector<std::byte>(64));
    }
  }
}

TEST_P(ErrorsTest, MisalignedAtomic) {
  for (const SendOpcode opcode : {SendOpcode::kFetchAdd, SendOpcode::kCompareSwap}) {
    SCOPED_TRACE(to_string(opcode));
    Pair pair(options());
    const Sge piece = pair.a->sge(0, 8);
    SendWr bad = pair.fetch_add(0, {&piece, 1}, 64 + 4, 1);
    bad.opcode = opcode;
    expect_fails(pair, bad, {kRemoteInvalid, std::string(kBothFlushed), std::string(kInvalidEvent)});
  }
}

TEST_P(ErrorsTest, InvalidateOfARegionThatMayNotBe) {
  Pair pair(options());
  const Sge piece = pair.a->sge(0, 8);
  SendWr bad = Pair::send(0, {&piece, 1});
  bad.opcode = SendOpcode::kSendWithInvalidate;
  bad.invalidate_rkey = pair.b->region->rkey();
  expect_fails(pair, bad, {kRemoteAccess, "20 11/8b, 21 05/f9"});
}

// ---- Receives ----

TEST_P(ErrorsTest, ReceiveTooSmall) {
  for (const std::uint32_t bytes : {1025u, 3000u}) {  // one packet more than fits, and several
    SCOPED_TRACE(bytes);
    Pair pair(options());
    const Sge piece = pair.a->sge(0, bytes);
    expect_fails(pair, Pair::send(0, {&piece, 1}), {kRemoteInvalid, "20 01/02, 21 05/f9"});
  }
}

TEST_P(ErrorsTest, ReceiveIntoAWrongKey) {
  Pair pair(options());
  Sge piece = pair.b->sge(0, 1024);
  piece.lkey ^= 0x5a00;
  pair.b->post(RecvWr{.wr_id = 20, .sges = {&piece, 1}});
  pair.b->post_receives(21, 1);
  const Sge source = pair.a->sge(0, 100);
  expect_fails(pair, Pair::send(0, {&source, 1}), {kRemoteOperation, "20 04/52, 21 05/f9"}, false);
}

TEST_P(ErrorsTest, ReceiveIntoAReadOnlyRegion) {
  Pair pair(options());
  auto region = must(pair.b->pd->register_memory({pair.b->at(0), 4096}, {}));
  const Sge piece = region->sge(0, 1024);
  pair.b->post(RecvWr{.wr_id = 20, .sges = {&piece, 1}});
  pair.b->post_receives(21, 1);
  const Sge source = pair.a->sge(0, 100);
  expect_fails(pair, Pair::send(0, {&source, 1}), {kRemoteOperation, "20 04/52, 21 05/f9"}, false);
}

TEST_P(ErrorsTest, ReceiverNotReady) {
  for (const std::uint8_t retries : {0, 3}) {
    SCOPED_TRACE(int{retries});
    EndOptions a;
    a.rts.rnr_retry = retries;
    Pair pair(options(a));
    const Sge piece = pair.a->sge(0, 8);
    expect_fails(pair, Pair::send(0, {&piece, 1}), {kRnrRetryExceeded}, false);
  }
}

TEST_P(ErrorsTest, WriteWithImmediateAndNoReceive) {
  EndOptions a;
  a.rts.rnr_retry = 1;
  Pair pair(options(a));
  const Sge piece = pair.a->sge(0, 8);
  SendWr bad = pair.write(0, {&piece, 1}, 64);
  bad.opcode = SendOpcode::kRdmaWriteWithImm;
  expect_fails(pair, bad, {kRnrRetryExceeded}, false);
}

// ---- The work request itself ----

TEST_P(ErrorsTest, OpcodeThatTheDeviceDoesNotKnow) {
  Pair pair(options());
  End& a = *pair.a;
  a.post_receives(10, 2);
  // A message longer than the device sends without an answer, and no receive for it yet: what follows waits.
  const Sge large = a.sge(0, 100 * 1024), piece = a.sge(0, 8);
  a.post(Pair::send(1, {&large, 1}));
  const std::uint32_t bad = a.qp->send_queue().next_wqebb();
  a.post(pair.write(2, {&piece, 1}, 0));
  a.post(pair.write(3, {&piece, 1}, 0));
  a.qp->send_queue().config().ring[bad * 64 + 3] = std::byte{0x7e};  // mlx5_wqe_ctrl_seg: opmod_idx_opcode's low byte
  const Sge landing = pair.b->sge(0, 100 * 1024);
  pair.b->post(RecvWr{.wr_id = 20, .sges = {&landing, 1}});
  const auto sends = a.wait_sends(3);
  ASSERT_EQ(text(sends), "1 ok, 2 02/69, 3 05/f5");
  expect_failed(sends[1], kLocalOperation, *a.qp, "RDMA_WRITE");
  EXPECT_EQ(text(a.wait_receives(2)), "10 05/f9, 11 05/f9");
  expect_dead(a);
  EXPECT_EQ(pair.b->state(), QpState::kRts);
}

// The entry says where the result goes; its length is eight bytes whatever it says, as the stock driver has it.
TEST_P(ErrorsTest, AtomicOfOtherThanEightBytes) {
  Pair pair(options());
  const Sge piece = pair.a->sge(0, 4);
  pair.a->post(pair.fetch_add(1, {&piece, 1}, 0, 1));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
}

// Linux takes away the right to read and to do atomics where nothing of them may be outstanding (mlx5_ib qp.c).
TEST_P(ErrorsTest, ReadThatThePeerHasNoRoomFor) {
  EndOptions b;
  b.rtr.max_target_reads_atomics = 0;
  Pair pair(options({}, b));
  const Sge piece = pair.a->sge(64, 64);
  expect_fails(pair, pair.read(0, {&piece, 1}, 0),
               {kRemoteAccess, std::string(kBothFlushed), std::string(kAccessEvent)});
}

// Refused before the device sees them; nothing is posted and the QP lives on.
TEST_P(ErrorsTest, RefusedByTheDriver) {
  Pair pair(options());
  End& a = *pair.a;
  const QpCapacity& capacity = a.qp->capacity();
  const std::vector<Sge> many(capacity.max_send_sge + 1, a.sge(0, 1));
  const Sge large = a.sge(0, capacity.max_inline_bytes + 1), piece = a.sge(0, 8),
            too_long{a.address_of(0), 0x80000001, 0};
  SendWr inlined = pair.write(1, {&large, 1}, 0);
  inlined.flags = SendFlag::kInline;
  SendWr inline_read = pair.read(1, {&piece, 1}, 0);
  inline_read.flags = SendFlag::kInline;
  SendWr nonsense = pair.write(1, {&piece, 1}, 0);
  nonsense.opcode = static_cast<SendOpcode>(77);
  const std::pair<SendWr, std::string> cases[] = {
      {pair.write(1, many, 0), fmt::format("{} SGEs; at most {}", many.size(), capacity.max_send_sge)},
      {inlined, fmt::format("{} bytes inline; at most {}", large.length_bytes, capacity.max_inline_bytes)},
      {inline_read, "RDMA_READ cannot be inline"},
      {nonsense, "77 is no opcode"},
      {pair.write(1, {&too_long, 1}, 0), "SGE 0 has 2147483649 bytes; at most 2147483648"},
  };
  for (const auto& [request, words] : cases) {
    const PostResult result = a.qp->post_send({&request, 1});
    EXPECT_EQ(result.error, EINVAL) << words;
    EXPECT_EQ(result.posted, 0u);
    EXPECT_NE(a.qp->explain_refusal(request).find(words), std::string::npos) << a.qp->explain_refusal(request);
  }
  a.post(pair.write(5, {&piece, 1}, 0));
  EXPECT_EQ(text(a.wait_sends(1)), "5 ok");
}

// ---- The peer is not there ----

// All that was posted fails or is flushed within the time that the retries take.
void expect_retries_exceeded(End& a, SendWr first) {
  a.post_receives(10, 2);
  first.wr_id = 1;
  a.post(first);
  SendWr second = first;
  second.wr_id = 2;
  second.flags = {};
  a.post(second);
  const auto sends = a.wait_sends(2);
  ASSERT_EQ(text(sends), "1 15/81, 2 05/f5");
  expect_failed(sends[0], kRetryExceeded, *a.qp, operation_of(first.opcode));
  EXPECT_EQ(text(a.wait_receives(2)), "10 05/f9, 11 05/f9");
  expect_dead(a);
}

TEST_P(ErrorsTest, PeerQpIsDestroyed) {
  Pair pair(options());
  must(pair.b->qp.destroy());
  const Sge piece = pair.a->sge(0, 8);
  expect_retries_exceeded(*pair.a, pair.write(1, {&piece, 1}, 0));
}

TEST_P(ErrorsTest, PeerQpIsInError) {
  Pair pair(options());
  must(pair.b->qp->to_error());
  const Sge piece = pair.a->sge(0, 8);
  expect_retries_exceeded(*pair.a, pair.read(1, {&piece, 1}, 0));
  EXPECT_EQ(event_text(pair.context_b()), "") << "the program did it, so no event";
}

TEST_P(ErrorsTest, PeerQpIsReset) {
  Pair pair(options());
  must(pair.b->qp->to_reset());
  const Sge piece = pair.a->sge(0, 8);
  expect_retries_exceeded(*pair.a, pair.fetch_add(1, {&piece, 1}, 0, 1));
}

TEST_P(ErrorsTest, EveryPacketIsLost) {
  PairOptions with_faults = options();
  with_faults.faults_a = "loss=1";
  Pair pair(with_faults);
  const Sge piece = pair.a->sge(0, 8);
  expect_retries_exceeded(*pair.a, Pair::send(1, {&piece, 1}));
  pair.b->expect_quiet();
}

TEST(ErrorsSoft, PeerDeviceIsClosed) {
  Pair pair;
  const Sge piece = pair.a->sge(0, 8);
  const SendWr request = pair.write(1, {&piece, 1}, 0);
  pair.a->post(request);
  EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
  pair.b.reset();
  pair.machine_b->close();
  expect_retries_exceeded(*pair.a, request);
}

// The more retries, the later the QP gives up.
TEST(ErrorsSoft, RetriesAreCounted) {
  const auto time_of = [](std::uint8_t retries) {
    EndOptions a;
    a.rts.retry_count = retries;
    Pair pair({.a = a, .faults_a = "loss=1"});
    const Sge piece = pair.a->sge(0, 8);
    const auto start = std::chrono::steady_clock::now();
    expect_retries_exceeded(*pair.a, pair.write(1, {&piece, 1}, 0));
    return std::chrono::steady_clock::now() - start;
  };
  const auto one = time_of(0), four = time_of(3);
  EXPECT_GT(four, one * 2);
}

}  // namespace
}  // namespace umlx5::testing
