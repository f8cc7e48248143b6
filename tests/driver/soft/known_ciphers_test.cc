// AES-XTS of IEEE Std 1619-2007, annex B, through real transfers of keys that encrypt: on either side, in either
// direction, by units and by several that are numbered on.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/driver/soft/keys.h"
#include "tests/driver/soft/xts_vectors.h"
#include "tests/wqe/bytes.h"

namespace umlx5::testing {
namespace {

using wqe::testing_bytes::unhex;

class KnownCiphers : public SoftTest {
 protected:
  // Vectors of one pair of keys whose data units follow one another.
  void expect(std::span<const XtsVector> vectors) {
    SCOPED_TRACE(::testing::Message() << vectors.size() << " from vector " << vectors.front().number);
    plain_.clear();
    cipher_.clear();
    for (const XtsVector& vector : vectors) {
      const Bytes plain = unhex(vector.plain), cipher = unhex(vector.cipher);
      plain_.insert(plain_.end(), plain.begin(), plain.end());
      cipher_.insert(cipher_.end(), cipher.begin(), cipher.end());
    }
    const XtsVector& first = vectors.front();
    expect_encrypted_wire(first);
    expect_encrypted_memory(first);
  }

 private:
  // What a sender encrypts arrives so at a peer without keys; what such a one sends is decrypted by who receives it,
  // and what it reads is encrypted again.
  void expect_encrypted_wire(const XtsVector& first) { expect_translated(first, true, plain_, cipher_); }
  // The other way round: memory holds what is encrypted, the wire is plain.
  void expect_encrypted_memory(const XtsVector& first) { expect_translated(first, false, cipher_, plain_); }

  void expect_translated(const XtsVector& first, bool encrypted_wire, const Bytes& in_memory, const Bytes& on_wire) {
    const auto dek_a = make_dek(*pair_.a, first.keys), dek_b = make_dek(*pair_.b, first.keys);
    EncryptionBlock block{.encrypt_on_transmit = encrypted_wire};
    for (std::size_t i = 0; i < sizeof first.data_unit; ++i) {
      block.initial_tweak[i] = static_cast<std::uint8_t>(first.data_unit >> 8 * i);
    }
    const auto key_of = [&](End& end, std::size_t offset, std::uint32_t bytes) {
      auto key = make_key(end, {.encryption = true});
      const Sge memory = end.sge(offset, bytes);
      block.dek = (&end == pair_.a.get() ? dek_a : dek_b)->number();
      configure(end, *key,
                {.access = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead),
                 .layout = ListLayout{{&memory, 1}},
                 .encryption = block});
      return key;
    };
    expect_passage(pair_, key_of, {in_memory, on_wire, static_cast<std::uint32_t>(in_memory.size())});
  }

  Pair pair_{key_pair_options(GetParam())};
  Bytes plain_, cipher_;
};
INSTANTIATE_TEST_SUITE_P(Soft, KnownCiphers, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

TEST_P(KnownCiphers, EachDataUnit) {
  for (const XtsVector& vector : kXtsVectors) {
    expect({&vector, 1});
  }
}

// Vectors 4 to 6 are units 0 to 2, 7 to 9 are units fd to ff.
TEST_P(KnownCiphers, ThreeDataUnitsInOneTransfer) {
  expect(std::span(kXtsVectors).subspan(0, 3));
  expect(std::span(kXtsVectors).subspan(3, 3));
}

}  // namespace
}  // namespace umlx5::testing
