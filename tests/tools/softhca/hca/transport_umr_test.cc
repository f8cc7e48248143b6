// UMR work requests: changes of keys in the order of the send queue.
#include <gtest/gtest.h>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

// The least body: UMR control and key context, mlx5dv.h.
constexpr std::size_t kBodyBytes = 48 + 64;

WorkRequest umr(std::uint32_t key = 0x4455) { return {.opcode = kUmr, .immediate = key, .body_bytes = kBodyBytes}; }

TEST(TransportUmr, ChangesAKeyAndCompletes) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kXrc}) {
    PairOptions options;
    options.type = type;
    Fixture pair(options);
    pair.a.post(umr());
    pair.run();
    EXPECT_EQ(pair.a.send_text(), "REQ UMR #0");
    ASSERT_EQ(pair.device_a.updates.size(), 1u);
    EXPECT_EQ(pair.device_a.updates[0].key, 0x4455u);
    EXPECT_EQ(pair.wire.packets, 0u);
  }
}

TEST(TransportUmr, WaitsForTheWorkBeforeIt) {
  Fixture pair;
  // The first packet is lost: the memory is read once more, and must still be there.
  pair.wire.fate = [&](std::size_t number, wire::Ipv4, std::span<const std::byte>) {
    EXPECT_TRUE(pair.device_a.updates.empty() || number > 2) << number;
    return Fate{.copies = number == 0 ? 0u : 1u};
  };
  pair.a.write_wqe(pair.write(64));
  pair.a.write_wqe(umr());
  pair.a.post(pair.write(64));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ UMR #1; REQ WRITE #3");
  EXPECT_EQ(pair.device_a.updates.size(), 1u);
}

TEST(TransportUmr, ARefusedChangeIsAWindowBindError) {
  Fixture pair;
  pair.device_a.refuses_updates = true;
  pair.a.write_wqe(pair.write(64));
  pair.a.write_wqe(umr());
  pair.a.post(pair.write(64));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ_ERR 06 UMR #1; REQ_ERR 05 WRITE #3");
  EXPECT_EQ(pair.a.qp->state, QpState::kErr);
}

TEST(TransportUmr, ABodyThatIsCutOffIsABadWqe) {
  Fixture pair;
  WorkRequest request = umr();
  request.body_bytes = kBodyBytes - 16;
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 02 UMR #0");
  EXPECT_TRUE(pair.device_a.updates.empty());
}

TEST(TransportUmr, DatagramsHaveNone) {
  PairOptions options;
  options.type = QpType::kUd;
  Fixture pair(options);
  pair.a.post(umr());
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 02 UMR #0");
}

}  // namespace
}  // namespace softhca::hca
