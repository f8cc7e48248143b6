// Send queues that stop at a signature error (MLX5DV_QP_CREATE_SIG_PIPELINING): a storage target's answer that is
// already posted behind bad data does not go out, and the connection goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "tests/driver/soft/keys.h"

namespace umlx5::testing {
namespace {

constexpr std::uint32_t kBlockBytes = 512;
constexpr std::uint32_t kSqDrained = 5;  // IBV_EVENT_SQ_DRAINED
constexpr std::size_t kMirror = 32 * 1024, kAnswer = 64 * 1024;

// A target (A) that keeps a block with its CRC32C twice, and a client (B) that has asked for it.
class Storage {
 public:
  Storage(Topology topology, bool stops, std::uint32_t requests = 64) : pair_(options(topology, stops, requests)) {
    a_.fill(kMirror, kBlockBytes, 1);
    std::memcpy(a_.at(kFrom), a_.at(kMirror), kBlockBytes);
    // The CRC of what fill() made, which the device itself computes (known_signatures_test has its values).
    const auto maker = make_key(a_, {.signatures = true});
    const Sge data = a_.sge(kMirror, kBlockBytes);
    configure(
        a_, *maker,
        {.access = Access::kLocalWrite, .layout = ListLayout{{&data, 1}}, .signature = SignatureBlock{.wire = crc_}});
    send(pair_, key_sge(*maker, 0, kBlockBytes), b_.sge(kTo, kWholeBytes));
    std::memcpy(a_.at(kFrom + kBlockBytes), b_.at(kTo + kBlockBytes), kWholeBytes - kBlockBytes);
    std::memcpy(a_.at(kMirror + kBlockBytes), b_.at(kTo + kBlockBytes), kWholeBytes - kBlockBytes);
  }

  void spoil() { *a_.at(kFrom + 100) ^= std::byte{1}; }
  void repair() { std::memcpy(a_.at(kFrom), a_.at(kMirror), kBlockBytes); }

  // The key shows the data of the copy at `offset`, whose CRC it checks.
  void show(std::size_t offset) {
    const Sge memory = a_.sge(offset, kWholeBytes);
    MkeyChange change{.layout = ListLayout{{&memory, 1}}};
    if (!configured_) {
      change.access = Access::kLocalWrite;
      change.signature = SignatureBlock{.memory = crc_, .check_mask = signature_mask::kCrc32};
    }
    configured_ = true;
    configure(a_, *key_, change);
  }

  // Data and answer in one go, as a target does that does not wait for the data's completion. The answer takes two
  // WQEBBs; where it begins is returned.
  std::uint32_t respond(std::uint64_t wr_id) {
    post_data(wr_id);
    const std::uint32_t at = position();
    post_answer(wr_id + 1, 4);
    return at;
  }
  void post_data(std::uint64_t wr_id) {
    const Sge data = key_sge(*key_, 0, kBlockBytes);
    SendWr write = pair_.write(wr_id, {&data, 1}, kTo);
    write.flags = {};
    a_.post(write);
  }
  void post_answer(std::uint64_t wr_id, std::size_t sges) {
    const std::vector<Sge> pieces(sges, a_.sge(kAnswer, 16));
    SendWr answer = Pair::send(wr_id, pieces);
    answer.flags = SendFlag::kSignaled | SendFlag::kFence;
    a_.post(answer);
  }

  void expect_stopped() {
    const auto event = must(a_.context.next_async_event(std::chrono::duration_cast<std::chrono::milliseconds>(kLimit)));
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, kSqDrained);
    EXPECT_EQ(event->qp, a_.qp.get());
    EXPECT_EQ(a_.state(), QpState::kSqd);
    EXPECT_EQ(b_.state(), QpState::kRts);
  }
  void go_on() {
    constexpr std::uint32_t kState = 1u << 0, kCurrentState = 1u << 1;  // IBV_QP_STATE, IBV_QP_CUR_STATE
    uapi::QpAttributes attributes{};
    attributes.state = static_cast<std::uint8_t>(QpState::kRts);
    attributes.current_state = static_cast<std::uint8_t>(QpState::kSqd);
    must(a_.qp->modify(attributes, kState | kCurrentState));
  }

  bool client_has_good_data() { return std::memcmp(b_.at(kTo), a_.at(kMirror), kBlockBytes) == 0; }
  std::uint32_t wqebbs() const { return a_.qp->send_queue().config().wqebbs; }
  std::uint32_t position() const { return a_.qp->send_queue().next_wqebb() & (wqebbs() - 1); }

  static constexpr std::uint32_t kWholeBytes = kBlockBytes + 4;

 private:
  static PairOptions options(Topology topology, bool stops, std::uint32_t requests) {
    PairOptions options = key_pair_options(topology);
    options.a.signature_pipelining = stops;
    options.a.capacity.max_send_wr = requests;
    return options;
  }

  Pair pair_;

 public:
  End& a_ = *pair_.a;
  End& b_ = *pair_.b;
  Pair& pair() { return pair_; }
  Mkey& key() { return *key_; }

 private:
  const SignatureDomain crc_{CrcSignature{CrcType::kCrc32c, 0xffffffff}};
  Owned<Mkey> key_ = make_key(a_, {.signatures = true});
  bool configured_ = false;
};

class Pipelining : public SoftTest {};
INSTANTIATE_TEST_SUITE_P(Soft, Pipelining, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

// Without it the client is told that all is well before the target learns that it is not.
TEST_P(Pipelining, WithoutItTheAnswerGoesOut) {
  Storage storage(GetParam(), false);
  storage.spoil();
  storage.show(kFrom);
  storage.b_.post_receives(1, 1, 192 * 1024);
  storage.respond(10);
  EXPECT_EQ(text(storage.b_.wait_receives(1)), "1 ok");
  EXPECT_FALSE(storage.client_has_good_data());
  EXPECT_EQ(text(storage.a_.wait_sends(1)), "11 ok");
  EXPECT_TRUE(must(storage.key().check()));
  EXPECT_EQ(storage.a_.state(), QpState::kRts);
}

// The target reads its mirror, repeats the request, and the client's read is completed over the same connection.
TEST_P(Pipelining, AReadIsCompletedAfterAnError) {
  Storage storage(GetParam(), true);
  End &a = storage.a_, &b = storage.b_;
  storage.spoil();
  storage.show(kFrom);
  b.post_receives(1, 2, 192 * 1024);
  storage.respond(10);
  storage.expect_stopped();
  a.expect_quiet();
  b.expect_quiet();
  const auto mismatch = must(storage.key().check());
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->field, SignatureMismatch::Field::kGuard);
  EXPECT_FALSE(storage.client_has_good_data());

  EXPECT_EQ(must(a.qp->cancel_sends(12)), 0u);  // no such request
  EXPECT_EQ(must(a.qp->cancel_sends(11)), 1u);
  const Sge mirror = a.sge(kMirror, Storage::kWholeBytes);
  must(a.qp->configure_mkey(storage.key(), {.layout = ListLayout{{&mirror, 1}}}, {}, 12));
  storage.post_data(13);
  storage.post_answer(14, 1);
  storage.go_on();
  const auto completions = a.wait_sends(2);
  EXPECT_EQ(text(completions), "11 ok, 14 ok");
  EXPECT_EQ(completions[0].opcode, CompletionOpcode::kSend);  // as which it was posted
  EXPECT_EQ(text(b.wait_receives(1)), "1 ok");                // one answer only
  EXPECT_TRUE(storage.client_has_good_data());
  EXPECT_FALSE(must(storage.key().check()));

  // And the next read goes as if nothing had been.
  clear(b, kTo, kBlockBytes);
  storage.show(kMirror);
  storage.respond(20);
  EXPECT_EQ(text(a.wait_sends(1)), "21 ok");
  EXPECT_EQ(text(b.wait_receives(1)), "2 ok");
  EXPECT_TRUE(storage.client_has_good_data());
}

// Without errors it changes nothing.
TEST_P(Pipelining, AGoodBlockStopsNothing) {
  Storage storage(GetParam(), true);
  storage.show(kFrom);
  storage.b_.post_receives(1, 1, 192 * 1024);
  storage.respond(10);
  EXPECT_EQ(text(storage.a_.wait_sends(1)), "11 ok");
  EXPECT_TRUE(storage.client_has_good_data());
  EXPECT_EQ(storage.a_.state(), QpState::kRts);
}

// What is cancelled begins, ends and wraps at every place of the ring; the rest of the ring is as it was.
TEST_P(Pipelining, CancelsAtEveryPlaceOfTheRing) {
  Storage storage(GetParam(), true, 4);
  End &a = storage.a_, &b = storage.b_;
  const std::span ring(a.qp->send_queue().config().ring, storage.wqebbs() * 64);
  std::set<std::uint32_t> places;
  for (std::uint32_t turn = 0; turn < storage.wqebbs() && !HasFailure(); ++turn) {
    SCOPED_TRACE(turn);
    storage.spoil();
    storage.show(kFrom);
    b.post_receives(1, 1, 192 * 1024);
    const std::uint32_t at = storage.respond(10);
    places.insert(at);
    storage.expect_stopped();
    const std::vector<std::byte> before(ring.begin(), ring.end());
    ASSERT_EQ(must(a.qp->cancel_sends(11)), 1u);
    std::vector<std::byte> expected = before;
    expected[at * 64] = std::byte{0};      // opmod
    expected[at * 64 + 3] = std::byte{0};  // opcode: NOP
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), ring.begin()));
    storage.post_answer(12, 4);  // an odd number of WQEBBs in all
    storage.go_on();
    EXPECT_EQ(text(a.wait_sends(2)), "11 ok, 12 ok");
    EXPECT_EQ(text(b.wait_receives(1)), "1 ok");
    EXPECT_TRUE(must(storage.key().check()));
    storage.repair();
  }
  EXPECT_EQ(places.size(), storage.wqebbs());
}

// Each of several requests of one number, none of another's.
TEST_P(Pipelining, CancelsAllOfOneNumber) {
  Storage storage(GetParam(), true);
  End &a = storage.a_, &b = storage.b_;
  storage.spoil();
  storage.show(kFrom);
  b.post_receives(1, 4, 192 * 1024);
  storage.respond(10);  // the answer is 11
  for (const std::uint64_t wr_id : {11, 12, 11, 13}) {
    storage.post_answer(wr_id, 1);
  }
  storage.expect_stopped();
  EXPECT_EQ(must(a.qp->cancel_sends(11)), 3u);
  EXPECT_EQ(must(a.qp->cancel_sends(13)), 1u);
  storage.go_on();
  EXPECT_EQ(text(a.wait_sends(5)), "11 ok, 11 ok, 12 ok, 11 ok, 13 ok");
  EXPECT_EQ(text(b.wait_receives(1)), "1 ok");
  b.expect_quiet();
}

TEST_P(Pipelining, CancellingNeedsAStoppedQueue) {
  Pair pair(key_pair_options(GetParam()));
  const auto refused = pair.a->qp->cancel_sends(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EINVAL);
}

}  // namespace
}  // namespace umlx5::testing
