// Copies from memory to memory. WQE layout: rdma-core providers/mlx5/wqe.h, MMO with the DMA modifier.
#include <gtest/gtest.h>

#include "tests/tools/softhca/hca/data_path_fixture.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint8_t kDma = 1;

struct MmoFixture : Fixture {
  MmoFixture() {
    a.qp->copies_memory = true;
    to = device_a.add_key(8192);
    status = device_a.add_key(64);
  }
  WorkRequest copy(std::uint32_t bytes) {
    return {.opcode = kMmo,
            .list = {{key_a, 8, bytes}, {to, 16, bytes}},
            .remote_address = address_of(device_a.memory_of(status)),
            .rkey = status,
            .opmod = kDma};
  }
  std::uint32_t to = 0, status = 0;
};

TEST(TransportMmo, CopiesBehindTheWorkBefore) {
  MmoFixture pair;
  pair.a.write_wqe(pair.write(64));
  pair.a.post(pair.copy(5000));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ WRITE #0; REQ MMO #1");
  EXPECT_TRUE(same(pair.memory_a().subspan(8, 5000), pair.device_a.memory_of(pair.to).subspan(16)));
  EXPECT_EQ(pair.device_a.memory_of(pair.to)[16 + 5000], std::byte{0});
}

TEST(TransportMmo, KeysMustAllowIt) {
  for (const bool from : {true, false}) {
    MmoFixture pair;
    pair.device_a.keys[from ? pair.key_a : pair.to].pdn = 2;
    pair.a.post(pair.copy(64));
    pair.run();
    EXPECT_EQ(pair.a.send_text(), "REQ_ERR 04 MMO #0") << from;
    EXPECT_EQ(pair.a.qp->state, QpState::kErr);
  }
  MmoFixture pair;
  pair.device_a.keys[pair.to].local_write = false;
  pair.a.post(pair.copy(64));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 04 MMO #0");
}

TEST(TransportMmo, TheContextMustAllowIt) {
  MmoFixture pair;
  pair.a.qp->copies_memory = false;
  pair.a.post(pair.copy(64));
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 02 MMO #0");
}

TEST(TransportMmo, AnotherModifierOrLengthIsRefused) {
  MmoFixture pair;
  WorkRequest request = pair.copy(64);
  request.opmod = 2;
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(pair.a.send_text(), "REQ_ERR 02 MMO #0");
  MmoFixture other;
  WorkRequest uneven = other.copy(64);
  uneven.list[1].bytes = 32;
  other.a.post(uneven);
  other.run();
  EXPECT_EQ(other.a.send_text(), "REQ_ERR 01 MMO #0");
}

}  // namespace
}  // namespace softhca::hca
