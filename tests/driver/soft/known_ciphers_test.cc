// AES-XTS of IEEE Std 1619-2007, annex B, through real transfers of keys that encrypt: on either side, in either
// direction, by units and by several that are numbered on.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "driver/context.h"
#include "tests/driver/soft/keys.h"
#include "tests/driver/soft/xts_vectors.h"
#include "tests/wqe/bytes.h"
#include "uapi/devx.h"
#include "wqe/prm/general_object.h"

namespace umlx5::testing {
namespace {

namespace prm = wqe::prm;
using wqe::testing_bytes::unhex;
using Bytes = std::vector<std::byte>;

constexpr std::uint8_t kUntouched = 0xee;

// A data encryption key, which the native API has no call for: DEVX makes it.
class Dek {
 public:
  Dek(End& end, std::string_view keys) : end_(end) {
    const Bytes bytes = unhex(keys);
    prm::EncryptionKey key{.key_size = bytes.size() == 64 ? prm::EncryptionKeySize::k256 : prm::EncryptionKeySize::k128,
                           .key_purpose = prm::EncryptionKeyPurpose::kAesXts,
                           .pd = end.pd->pdn()};
    std::memcpy(key.key.data(), bytes.data(), bytes.size());
    std::array<std::byte, prm::kGeneralObjectOffset + prm::EncryptionKey::kBytes> in{};
    std::array<std::byte, prm::GeneralObjectOut::kBytes> out{};
    wqe::store(
        in.data(),
        prm::GeneralObjectIn{.header = {.opcode = prm::Opcode::kCreateGeneralObject,
                                        .op_mod = static_cast<std::uint16_t>(prm::GeneralObjectType::kEncryptionKey)}});
    wqe::store(in.data() + prm::kGeneralObjectOffset, key);
    handle_ = must(uapi::devx_create(end.context.commands(), in, out));
    id_ = wqe::load<prm::GeneralObjectOut>(out.data()).object_id;
  }
  Dek(const Dek&) = delete;
  Dek& operator=(const Dek&) = delete;
  ~Dek() { must(uapi::devx_destroy(end_.context.commands(), handle_)); }
  std::uint32_t id() const { return id_; }

 private:
  End& end_;
  uapi::DevxObjectHandle handle_{};
  std::uint32_t id_ = 0;
};

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
  std::uint32_t bytes() const { return static_cast<std::uint32_t>(plain_.size()); }

  Owned<Mkey> key_of(End& end, std::size_t offset, const XtsVector& first, const Dek& dek, bool encrypted_wire) {
    auto key = make_key(end, {.encryption = true});
    const Sge memory = end.sge(offset, bytes());
    EncryptionBlock block{.encrypt_on_transmit = encrypted_wire, .dek = dek.id()};
    for (std::size_t i = 0; i < sizeof first.data_unit; ++i) {
      block.initial_tweak[i] = static_cast<std::uint8_t>(first.data_unit >> 8 * i);
    }
    configure(end, *key,
              {.access = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead),
               .layout = ListLayout{{&memory, 1}},
               .encryption = block});
    return key;
  }
  static void put(End& end, std::size_t offset, const Bytes& bytes) {
    std::memcpy(end.at(offset), bytes.data(), bytes.size());
  }
  static void clear(End& end, std::size_t offset) { std::memset(end.at(offset), kUntouched, 4096); }
  static void expect_bytes(End& end, std::size_t offset, const Bytes& bytes) {
    EXPECT_EQ(hex(end.at(offset), bytes.size()), hex(bytes.data(), bytes.size()));
    EXPECT_EQ(*end.at(offset + bytes.size()), std::byte{kUntouched});
  }

  // What a sender encrypts arrives so at a peer without keys; what such a one sends is decrypted by who receives it,
  // and what it reads is encrypted again.
  void expect_encrypted_wire(const XtsVector& first) { expect_translated(first, true, plain_, cipher_); }
  // The other way round: memory holds what is encrypted, the wire is plain.
  void expect_encrypted_memory(const XtsVector& first) { expect_translated(first, false, cipher_, plain_); }

  // Between what the memory behind a key holds and what is on the wire, in all three directions.
  void expect_translated(const XtsVector& first, bool encrypts_wire, const Bytes& in_memory, const Bytes& on_wire) {
    const Dek dek_a(a_, first.keys), dek_b(b_, first.keys);
    put(a_, kFrom, in_memory);
    clear(b_, kTo);
    const auto sender = key_of(a_, kFrom, first, dek_a, encrypts_wire);
    const Sge from = key_sge(*sender, 0, bytes());
    a_.post(pair_.write(1, {&from, 1}, kTo));
    EXPECT_EQ(text(a_.wait_sends(1)), "1 ok");
    expect_bytes(b_, kTo, on_wire);

    put(a_, kFrom, on_wire);
    clear(b_, kTo);
    const auto receiver = key_of(b_, kTo, first, dek_b, encrypts_wire);
    write_key(pair_, a_.sge(kFrom, bytes()), *receiver);
    expect_bytes(b_, kTo, in_memory);

    clear(a_, kFrom);
    read_key(pair_, a_.sge(kFrom, bytes()), *receiver);
    expect_bytes(a_, kFrom, on_wire);
  }

  Pair pair_{key_pair_options(GetParam())};
  End& a_ = *pair_.a;
  End& b_ = *pair_.b;
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
