// Data encryption keys and crypto logins: on devices that take keys plain, and on those that want them wrapped. Wrapped
// values: RFC 3394, section 4.6, or made with Python's cryptography and openssl enc -id-aes256-wrap.
#include "driver/dek.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include "tests/driver/soft/keys.h"
#include "tests/driver/soft/order_vectors.h"
#include "tests/wqe/bytes.h"

namespace umlx5::testing {
namespace {

using wqe::testing_bytes::unhex;

// "umlx5 soft HCA, no secret: a credential.", wrapped.
constexpr std::string_view kCredential =
    "177229fa903d85f2355fa8382eb16a7eaa472509e9161b35a1b5578b5cfa35a1a6150dced745fb30e88710be4ae975eb";
// kOrderKeys, alone and with the key tag a1 .. a8; the keys of IEEE 1619-2007's vector 10; twice the same key.
constexpr std::string_view kWrapped =
    "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21";
constexpr std::string_view kWrappedTagged =
    "db8834d37ae13e577f3372781fde8294a7dd8c8248e33083f970b140806cda468f489aec35dd15f657e7136b45dc010f";
constexpr std::string_view kWrapped256 =
    "02bdc8037028be9b6a36b76c01756fbedf6361969bf1b2cd950eff88d7a0db45af2a2ab9e2ecd17ad617b3f0eaf7fd4a633699d06854af36"
    "4477351f79d9a1d57b10e426344772e6";
constexpr std::string_view kWrappedTwice =
    "565848c0dcb68935f6ea0cdea9342dc7cc1ed00c14db88f72ce085b83ad88d9adbca504912312245";
constexpr std::array<std::uint8_t, 8> kKeytag{0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8};

template <typename T>
int error_of(const Expected<T>& result) {
  return result ? 0 : result.error().errno_value;
}
template <typename T>
std::string words_of(const Expected<T>& result) {
  return result ? "" : result.error().message();
}

class DekTest : public SoftTest {
 protected:
  static PairOptions pair_options(Topology topology, std::string restrictions) {
    PairOptions options = key_pair_options(topology);
    options.restrictions = std::move(restrictions);
    return options;
  }
  // What a SEND of 1024 plain bytes through a key with `dek` arrives as, or the send's failure.
  std::string encrypted(Pair& pair, const Dek& dek, const std::array<std::uint8_t, 8>& keytag = {}) {
    End &a = *pair.a, &b = *pair.b;
    for (std::size_t i = 0; i < 1024; ++i) {
      *a.at(kFrom + i) = static_cast<std::byte>(i * 7 + (i >> 8) * 31 + 1);  // as order_vectors.h has it
    }
    const auto key = make_key(a, {.encryption = true});
    const Sge memory = a.sge(kFrom, 1024);
    configure(a, *key,
              {.access = Access::kLocalWrite,
               .layout = ListLayout{{&memory, 1}},
               .encryption = EncryptionBlock{.initial_tweak = {0xff}, .dek = dek.number(), .keytag = keytag}});
    const Sge from = key_sge(*key, 0, 1024), to = b.sge(kTo, 1024);
    b.post(RecvWr{.wr_id = 2, .sges = {&to, 1}});
    a.post(Pair::send(1, {&from, 1}));
    const std::string sent = text(a.wait_sends(1));
    if (sent != "1 ok") {
      return sent;
    }
    b.wait_receives(1);
    return hex(b.at(kTo), 1024);
  }
};
INSTANTIATE_TEST_SUITE_P(Soft, DekTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

TEST_P(DekTest, PlainKeys) {
  Pair pair(pair_options(GetParam(), ""));
  const Bytes bytes = unhex(kOrderKeys);
  auto dek = must(pair.a->pd->create_dek({.key = bytes, .opaque = {1, 2, 3}}));
  const DekAttributes told = must(dek->query());
  EXPECT_TRUE(told.ready);
  EXPECT_EQ(told.opaque, (std::array<std::uint8_t, 8>{1, 2, 3}));
  EXPECT_EQ(encrypted(pair, *dek), kCipher);
  EXPECT_EQ(error_of(pair.a->context.crypto_login({})), EOPNOTSUPP);
}

TEST_P(DekTest, WhatIsNoPlainKeyIsRefusedInWords) {
  Pair pair(pair_options(GetParam(), ""));
  Pd& pd = *pair.a->pd;
  const Bytes bytes = unhex(kOrderKeys), long_bytes(64);
  EXPECT_EQ(words_of(pd.create_dek({.key = std::span(bytes).first(31)})),
            "DEK: 31 bytes; two keys of 128 bits take 32: Invalid argument (EINVAL)");
  EXPECT_EQ(error_of(pd.create_dek({.key = bytes, .size = DekSize::k256})), EINVAL);
  EXPECT_EQ(error_of(pd.create_dek({.key = bytes, .has_keytag = true})), EINVAL);
  EXPECT_EQ(error_of(pd.create_dek({.key = bytes, .size = static_cast<DekSize>(2)})), EINVAL);
  EXPECT_EQ(error_of(pd.create_dek({.key = long_bytes, .size = DekSize::k256})), EINVAL);  // both halves are the same
  EXPECT_EQ(error_of(pd.create_dek({.key = unhex(kWrapped), .import = DekImport::kWrapped})), EINVAL);
  EXPECT_EQ(pair.a->context.objects_left(), pair.b->context.objects_left());  // nothing was left behind
}

TEST_P(DekTest, AKeyTagMustBeThatOfTheKey) {
  Pair pair(pair_options(GetParam(), ""));
  Bytes bytes = unhex(kOrderKeys);
  std::ranges::transform(kKeytag, std::back_inserter(bytes), [](std::uint8_t byte) { return std::byte{byte}; });
  const auto dek = must(pair.a->pd->create_dek({.key = bytes, .has_keytag = true}));
  EXPECT_EQ(encrypted(pair, *dek, kKeytag), kCipher);
  auto wrong = kKeytag;
  wrong[7] ^= 1;
  EXPECT_EQ(encrypted(pair, *dek, wrong), "1 04/51");
}

// Requests fail that pass a memory key whose encryption key is gone, of another PD, or never was.
TEST_P(DekTest, AMemoryKeyNeedsItsKey) {
  for (const char kind : {'d', 'p', 'n'}) {
    SCOPED_TRACE(kind);
    Pair pair(pair_options(GetParam(), ""));
    End& a = *pair.a;
    const Bytes bytes = unhex(kOrderKeys);
    auto pd = must(a.context.alloc_pd());
    auto dek = must((kind == 'p' ? *pd : *a.pd).create_dek({.key = bytes}));
    const auto key = make_key(a, {.encryption = true});
    const Sge memory = a.sge(kFrom, 512), from = key_sge(*key, 0, 512);
    configure(a, *key,
              {.access = Access::kLocalWrite,
               .layout = ListLayout{{&memory, 1}},
               .encryption = EncryptionBlock{.dek = kind == 'n' ? 0xfff : dek->number()}});
    if (kind == 'd') {
      must(dek.destroy());
    }
    a.post(pair.write(1, {&from, 1}, kTo));
    EXPECT_EQ(text(a.wait_sends(1)), "1 04/51");
  }
}

// A PD goes after the keys in it; what a program forgets, the context takes down.
TEST_P(DekTest, Life) {
  Machine machine;
  auto pd = must(machine.context().alloc_pd());
  const Bytes bytes = unhex(kOrderKeys);
  auto dek = must(pd->create_dek({.key = bytes}));
  EXPECT_EQ(machine.context().objects_left(), 2u);
  EXPECT_EQ(error_of(pd.destroy()), EINVAL);  // the device's "bad resource state"
  must(dek.destroy());
  dek = must(pd->create_dek({.key = bytes}));
  static_cast<void>(dek.release());
  static_cast<void>(pd.release());
}

TEST_P(DekTest, WrappedKeysAfterALogin) {
  Pair pair(pair_options(GetParam(), "plain_keys=0"));
  Context& context = pair.a->context;
  Pd& pd = *pair.a->pd;
  const Bytes credential = unhex(kCredential), wrapped = unhex(kWrapped), tagged = unhex(kWrappedTagged),
              wrapped_256 = unhex(kWrapped256);
  EXPECT_EQ(error_of(pd.create_dek({.key = wrapped, .import = DekImport::kWrapped})), EINVAL) << "no login";
  auto login = must(context.crypto_login({.wrapped_credential = credential}));
  EXPECT_TRUE(must(login->is_valid()));
  EXPECT_EQ(error_of(context.crypto_login({.wrapped_credential = credential})), EBUSY) << "one at a time";

  auto dek = must(pd.create_dek({.key = wrapped, .import = DekImport::kWrapped, .opaque = {9}}));
  EXPECT_EQ(must(dek->query()).opaque[0], 9);
  EXPECT_EQ(encrypted(pair, *dek), kCipher);
  const auto with_tag = must(pd.create_dek({.key = tagged, .import = DekImport::kWrapped, .has_keytag = true}));
  EXPECT_EQ(encrypted(pair, *with_tag, kKeytag), kCipher);
  const auto large = must(pd.create_dek({.key = wrapped_256, .size = DekSize::k256, .import = DekImport::kWrapped}));
  EXPECT_TRUE(must(large->query()).ready);

  // Without the login there are no new keys and no questions, but those that there are encrypt on.
  must(login.destroy());
  EXPECT_EQ(error_of(pd.create_dek({.key = wrapped, .import = DekImport::kWrapped})), EINVAL);
  EXPECT_EQ(error_of(dek->query()), EINVAL);
  EXPECT_EQ(encrypted(pair, *dek), kCipher);
  login = must(context.crypto_login({.wrapped_credential = credential}));
  EXPECT_TRUE(must(dek->query()).ready);
}

TEST_P(DekTest, WrongCredentialsAndKeysAreRefused) {
  Pair pair(pair_options(GetParam(), "plain_keys=0"));
  Context& context = pair.a->context;
  Pd& pd = *pair.a->pd;
  const Bytes credential = unhex(kCredential), wrapped = unhex(kWrapped), twice = unhex(kWrappedTwice),
              plain = unhex(kOrderKeys), tagged = unhex(kWrappedTagged);
  const std::size_t objects = context.objects_left();
  for (std::size_t at = 0; at < credential.size(); ++at) {
    Bytes wrong = credential;
    wrong[at] ^= std::byte{1};
    EXPECT_EQ(error_of(context.crypto_login({.wrapped_credential = wrong})), EINVAL) << at;
  }
  // A key that is wrapped well is no credential.
  EXPECT_EQ(error_of(context.crypto_login({.wrapped_credential = tagged})), EINVAL);
  EXPECT_EQ(error_of(context.crypto_login({.wrapped_credential = std::span(credential).first(40)})), EINVAL);
  EXPECT_EQ(error_of(context.crypto_login({.credential = 1, .wrapped_credential = credential})), EINVAL);
  EXPECT_EQ(error_of(context.crypto_login({.import_kek = 1, .wrapped_credential = credential})), EINVAL);
  EXPECT_EQ(
      words_of(context.crypto_login({.credential = 1u << 24, .wrapped_credential = credential})),
      "crypto login: credential 0x1000000 and import KEK 0x0; their numbers have 24 bits: Invalid argument (EINVAL)");

  const auto login = must(context.crypto_login({.wrapped_credential = credential}));
  for (std::size_t at = 0; at < wrapped.size(); ++at) {
    Bytes wrong = wrapped;
    wrong[at] ^= std::byte{0x80};
    EXPECT_EQ(error_of(pd.create_dek({.key = wrong, .import = DekImport::kWrapped})), EINVAL) << at;
  }
  EXPECT_EQ(error_of(pd.create_dek({.key = twice, .import = DekImport::kWrapped})), EINVAL);
  EXPECT_EQ(error_of(pd.create_dek({.key = plain})), EINVAL);
  EXPECT_EQ(error_of(pd.create_dek({.key = wrapped, .size = DekSize::k256, .import = DekImport::kWrapped})), EINVAL);
  EXPECT_EQ(context.objects_left(), objects + 1);
}

// Another process' login, here another context's, opens nothing.
TEST_P(DekTest, ALoginIsItsContextsOwn) {
  Pair pair(pair_options(Topology::kTwoDevices, "plain_keys=0"));
  const Bytes credential = unhex(kCredential), wrapped = unhex(kWrapped);
  const auto login = must(pair.a->context.crypto_login({.wrapped_credential = credential}));
  EXPECT_EQ(error_of(pair.b->pd->create_dek({.key = wrapped, .import = DekImport::kWrapped})), EINVAL);
}

}  // namespace
}  // namespace umlx5::testing
