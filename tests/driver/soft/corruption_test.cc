// Bytes that change on their way or in memory: what a key with signatures tells of them, and what becomes of the data.
// Every kind of signature, block size and seed, every byte of a signature, one domain and both, blocks of one structure
// and of two; masks and escapes. Values are compared with those of reference_signatures.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/driver/soft/keys.h"
#include "tests/driver/soft/reference_signatures.h"

namespace umlx5::testing {
namespace {

using Field = SignatureMismatch::Field;
using Random = std::minstd_rand;

// Data of one transfer: a whole number of blocks of every size that a test puts together.
Bytes random_data(Random& random, std::size_t bytes) {
  Bytes data(bytes);
  std::ranges::generate(data, [&] { return static_cast<std::byte>(random() >> 8); });
  return data;
}

// The data as `domain` has it, with a signature behind each block; as it is where there is no domain.
Bytes laid_out(const Bytes& data, const std::optional<SignatureDomain>& domain) {
  if (!domain) {
    return data;
  }
  Bytes out;
  const std::size_t block = block_bytes(domain->block);
  for (std::size_t at = 0; at < data.size(); at += block) {
    const auto piece = std::span(data).subspan(at, block);
    out.insert(out.end(), piece.begin(), piece.end());
    const auto signature = signature_of(*domain, piece, at / block);
    out.insert(out.end(), signature.begin(), signature.end());
  }
  return out;
}

struct Told {
  Field field;
  std::uint64_t expected, actual, offset_bytes;
};

// The value of a signature's field as it is told.
std::uint64_t value_of(const SignatureDomain& domain, Field field, std::span<const std::byte> signature) {
  const auto number = [&](std::size_t at, std::size_t count, bool little) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = value << 8 | std::to_integer<std::uint64_t>(signature[at + (little ? count - 1 - i : i)]);
    }
    return value;
  };
  if (std::holds_alternative<CrcSignature>(domain.signature)) {
    return number(0, signature.size(), true);
  }
  return field == Field::kGuard            ? number(0, 2, false)
         : field == Field::kApplicationTag ? number(2, 2, false)
                                           : number(4, 4, false);
}

bool is_escaped(const SignatureDomain& domain, std::span<const std::byte> signature) {
  const auto* const dif = std::get_if<T10Dif>(&domain.signature);
  if (dif == nullptr || value_of(domain, Field::kApplicationTag, signature) != 0xffff) {
    return false;
  }
  return dif->escape_both_tags ? value_of(domain, Field::kReferenceTag, signature) == 0xffffffff
                               : dif->escape_application_tag;
}

// What is to be told of bytes that are read in `domain`: of the first bad block, the most important field.
std::optional<Told> judge(const Bytes& input, const SignatureDomain& domain, std::uint8_t check_mask) {
  const std::size_t block = block_bytes(domain.block), tail = signature_bytes(domain);
  for (std::size_t at = 0, number = 0; at < input.size(); at += block + tail, ++number) {
    const auto came = std::span(input).subspan(at + block, tail);
    const auto given = signature_of(domain, std::span(input).subspan(at, block), number);
    if (is_escaped(domain, came)) {
      continue;
    }
    std::optional<Field> field;
    const bool dif = std::holds_alternative<T10Dif>(domain.signature);
    for (std::size_t i = 0; i < tail; ++i) {
      if ((check_mask & (0x80u >> i)) == 0 || came[i] == given[i]) {
        continue;
      }
      const Field byte_field = !dif || i < 2 ? Field::kGuard : i < 4 ? Field::kApplicationTag : Field::kReferenceTag;
      const auto weight = [](Field f) { return f == Field::kReferenceTag ? 2 : f == Field::kApplicationTag ? 1 : 0; };
      field = !field || weight(byte_field) > weight(*field) ? byte_field : *field;
    }
    if (field) {
      return Told{*field, value_of(domain, *field, came), value_of(domain, *field, given), at + block};
    }
  }
  return std::nullopt;
}

// What both domains have in common, which is passed on as it came unless the program says otherwise.
std::uint8_t common_mask(const SignatureBlock& block) {
  const auto* const memory = std::get_if<T10Dif>(&block.memory->signature);
  const auto* const wire = std::get_if<T10Dif>(&block.wire->signature);
  if (memory == nullptr) {
    return 0xff;
  }
  return static_cast<std::uint8_t>((memory->guard == wire->guard && memory->background == wire->background ? 0xc0 : 0) |
                                   (memory->application_tag == wire->application_tag ? 0x30 : 0) |
                                   (memory->reference_tag == wire->reference_tag ? 0x0f : 0));
}

// What bytes that are read in `from` become in `to`.
Bytes converted(const Bytes& input, const SignatureBlock& block, bool to_memory) {
  const auto& from = to_memory ? block.wire : block.memory;
  const auto& to = to_memory ? block.memory : block.wire;
  Bytes data;
  if (!from) {
    data = input;
  } else {
    const std::size_t bytes = block_bytes(from->block), tail = signature_bytes(*from);
    for (std::size_t at = 0; at < input.size(); at += bytes + tail) {
      data.insert(data.end(), input.begin() + static_cast<std::ptrdiff_t>(at),
                  input.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    }
  }
  Bytes out = laid_out(data, to);
  if (has_same_structure(block)) {
    const std::uint8_t copied = block.copy_mask.value_or(common_mask(block));
    const std::size_t bytes = block_bytes(to->block), tail = signature_bytes(*to);
    for (std::size_t at = bytes; at < out.size(); at += bytes + tail) {
      for (std::size_t i = 0; i < tail; ++i) {
        out[at + i] = (copied & (0x80u >> i)) != 0 ? input[at + i] : out[at + i];
      }
    }
  }
  return out;
}

class Corruption : public SoftTest {
 protected:
  // A key of B with the formats, over so many bytes at kTo.
  Owned<Mkey> key_of(const SignatureBlock& block, std::size_t bytes) {
    auto key = make_key(b_, {.signatures = true});
    const Sge memory = b_.sge(kTo, static_cast<std::uint32_t>(bytes));
    configure(b_, *key,
              {.access = Access::kLocalWrite | Access::kRemoteWrite | AccessFlags(Access::kRemoteRead),
               .layout = ListLayout{{&memory, 1}},
               .signature = block});
    return key;
  }

  void expect_told(Mkey& key, bool on_wire, const std::optional<Told>& expected) {
    const auto mismatch = told(pair_, key);
    ASSERT_EQ(mismatch.has_value(), expected.has_value());
    if (expected) {
      EXPECT_EQ(mismatch->field, expected->field);
      EXPECT_EQ(mismatch->on_wire, on_wire);
      EXPECT_EQ(mismatch->expected, expected->expected);
      EXPECT_EQ(mismatch->actual, expected->actual);
      EXPECT_EQ(mismatch->offset_bytes, expected->offset_bytes);
      EXPECT_FALSE(must(key.check())) << "told once";
    }
  }

  // These bytes come from the wire into B's key; after that it is armed again.
  void receive(Mkey& key, const SignatureBlock& block, const Bytes& wire) {
    put(a_, kFrom, wire);
    const Bytes memory = converted(wire, block, true);
    clear(b_, kTo, memory.size() + 1);
    write_key(pair_, a_.sge(kFrom, static_cast<std::uint32_t>(wire.size())), key);
    expect_same(b_, kTo, memory);
    expect_told(key, true, block.wire ? judge(wire, *block.wire, block.check_mask) : std::nullopt);
    configure(b_, key, {});
  }
  // These are in the memory behind it, and A reads.
  void transmit(Mkey& key, const SignatureBlock& block, const Bytes& memory) {
    put(b_, kTo, memory);
    const Bytes wire = converted(memory, block, false);
    clear(a_, kFrom, wire.size() + 1);
    read_key(pair_, a_.sge(kFrom, static_cast<std::uint32_t>(wire.size())), key);
    expect_same(a_, kFrom, wire);
    expect_told(key, false, block.memory ? judge(memory, *block.memory, block.check_mask) : std::nullopt);
    configure(b_, key, {});
  }
  static void expect_same(End& end, std::size_t offset, const Bytes& bytes) {
    const auto [came, wanted] = std::mismatch(end.at(offset), end.at(offset + bytes.size()), bytes.begin());
    EXPECT_EQ(wanted - bytes.begin(), static_cast<std::ptrdiff_t>(bytes.size())) << "the first byte that differs";
  }

  Pair pair_{key_pair_options(GetParam())};
  End& a_ = *pair_.a;
  End& b_ = *pair_.b;
};
INSTANTIATE_TEST_SUITE_P(Soft, Corruption, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

constexpr BlockSize kSizes[] = {BlockSize::k512, BlockSize::k520, BlockSize::k4048, BlockSize::k4096, BlockSize::k4160};

std::vector<std::variant<T10Dif, CrcSignature>> kinds() {
  std::vector<std::variant<T10Dif, CrcSignature>> all;
  for (const GuardType guard : {GuardType::kCrc, GuardType::kChecksum}) {
    for (const std::uint16_t seed : {std::uint16_t{0}, std::uint16_t{0xffff}}) {
      all.push_back(T10Dif{.guard = guard,
                           .background = seed,
                           .application_tag = 0xabcd,
                           .reference_tag = 0xfffffffe,  // counts past the end
                           .increment_reference_tag = true});
    }
  }
  for (const CrcType type : {CrcType::kCrc32, CrcType::kCrc32c, CrcType::kCrc64Xp10}) {
    all.push_back(CrcSignature{type, 0});
    all.push_back(CrcSignature{type, type == CrcType::kCrc64Xp10 ? ~std::uint64_t{0} : 0xffffffff});
  }
  return all;
}

// In each of three blocks, one bit of the first and the last byte of data and of each byte of the signature.
TEST_P(Corruption, EveryByteOfEveryKind) {
  Random random(1);
  for (const auto& kind : kinds()) {
    for (const BlockSize size : kSizes) {
      const SignatureDomain domain{kind, size};
      SCOPED_TRACE(::testing::Message() << "kind " << kind.index() << ", blocks of " << block_bytes(size));
      const SignatureBlock on_wire{.wire = domain, .check_mask = 0xff};
      const SignatureBlock in_memory{.memory = domain, .check_mask = 0xff};
      const Bytes good = laid_out(random_data(random, 3 * block_bytes(size)), domain);
      const auto receiver = key_of(on_wire, 3 * block_bytes(size));
      const auto responder = key_of(in_memory, good.size());
      const std::size_t whole = good.size() / 3;
      for (std::size_t block = 0; block < 3; ++block) {
        std::vector<std::size_t> victims{0, block_bytes(size) - 1};
        for (std::size_t i = 0; i < signature_bytes(domain); ++i) {
          victims.push_back(block_bytes(size) + i);
        }
        for (const std::size_t victim : victims) {
          SCOPED_TRACE(::testing::Message() << "byte " << victim << " of block " << block);
          Bytes bad = good;
          bad[block * whole + victim] ^= static_cast<std::byte>(1u << random() % 8);
          ASSERT_TRUE(judge(bad, domain, 0xff));
          receive(*receiver, on_wire, bad);
          transmit(*responder, in_memory, bad);
          if (HasFailure()) {
            return;
          }
        }
      }
      receive(*receiver, on_wire, good);
      transmit(*responder, in_memory, good);
    }
  }
}

SignatureDomain random_domain(Random& random, BlockSize size) {
  const auto all = kinds();
  SignatureDomain domain{all[random() % all.size()], size};
  if (auto* const dif = std::get_if<T10Dif>(&domain.signature)) {
    dif->application_tag = static_cast<std::uint16_t>(random() % 2 == 0 ? 0xabcd : random());
    dif->reference_tag = random() % 2 == 0 ? 0x01234567 : static_cast<std::uint32_t>(random() * 2);
    dif->increment_reference_tag = random() % 2 == 0;
    dif->escape_application_tag = random() % 3 == 0;
    dif->escape_both_tags = random() % 3 == 0;
  }
  return domain;
}

// Both domains, of sizes that fit each other, one of them perhaps absent.
SignatureBlock random_block(Random& random) {
  constexpr BlockSize kPairs[][2] = {{BlockSize::k512, BlockSize::k4096},
                                     {BlockSize::k520, BlockSize::k4160},
                                     {BlockSize::k4096, BlockSize::k512},
                                     {BlockSize::k4160, BlockSize::k520},
                                     {BlockSize::k4048, BlockSize::k4048}};
  const auto& sizes = kPairs[random() % std::size(kPairs)];
  SignatureBlock block{.check_mask = static_cast<std::uint8_t>(random() % 2 == 0 ? 0xff : random() >> 8)};
  const auto absent = random() % 8;
  if (absent != 0) {
    block.memory = random_domain(random, sizes[0]);
  }
  if (absent != 1) {
    block.wire = random_domain(random, absent == 0 || random() % 2 == 0 ? sizes[0] : sizes[1]);
  }
  // One structure is rare by chance.
  if (block.memory && block.wire && random() % 2 == 0) {
    block.wire = block.memory;
    if (auto* const dif = std::get_if<T10Dif>(&block.wire->signature)) {
      dif->application_tag ^= random() % 2 == 0 ? 1 : 0;
      dif->guard = random() % 2 == 0 ? GuardType::kCrc : GuardType::kChecksum;
    }
    if (random() % 2 == 0) {
      block.copy_mask = static_cast<std::uint8_t>(random() >> 8);
    }
  }
  return block;
}

// Up to three bytes become others; tags perhaps what escapes a check.
void spoil(Random& random, const std::optional<SignatureDomain>& domain, Bytes& bytes) {
  for (auto count = random() % 4; count > 0; --count) {
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
  }
  if (!domain || random() % 2 == 0) {
    return;
  }
  const std::size_t block = block_bytes(domain->block), whole = block + signature_bytes(*domain);
  std::byte* const signature = bytes.data() + random() % (bytes.size() / whole) * whole + block;
  if (random() % 2 != 0 || signature_bytes(*domain) < 8) {
    signature[random() % signature_bytes(*domain)] ^= std::byte{0x10};
    return;
  }
  std::fill(signature + 2, signature + (random() % 2 == 0 ? 4 : 8), std::byte{0xff});
}

TEST_P(Corruption, RandomFormats) {
  constexpr unsigned kKeys = 120, kTransfersPerKey = 6;
  unsigned one_structure = 0, two_structures = 0, found = 0;
  Random random(7);
  for (unsigned i = 0; i < kKeys; ++i) {
    const SignatureBlock block = random_block(random);
    SCOPED_TRACE(::testing::Message() << "key " << i);
    one_structure += has_same_structure(block) ? 1 : 0;
    two_structures += block.memory && block.wire && !has_same_structure(block) ? 1 : 0;
    std::size_t data_bytes = 1;
    for (const auto& domain : {block.memory, block.wire}) {
      data_bytes = domain ? std::max(data_bytes, block_bytes(domain->block)) : data_bytes;
    }
    data_bytes *= 1 + random() % 3;
    const Bytes data = random_data(random, data_bytes);
    const Bytes memory = laid_out(data, block.memory), wire = laid_out(data, block.wire);
    const auto key = key_of(block, memory.size());
    for (unsigned transfer = 0; transfer < kTransfersPerKey; ++transfer) {
      Bytes from_wire = wire, from_memory = memory;
      spoil(random, block.wire, from_wire);
      spoil(random, block.memory, from_memory);
      found += block.wire && judge(from_wire, *block.wire, block.check_mask) ? 1 : 0;
      found += block.memory && judge(from_memory, *block.memory, block.check_mask) ? 1 : 0;
      receive(*key, block, from_wire);
      transmit(*key, block, from_memory);
      if (HasFailure()) {
        return;
      }
    }
  }
  EXPECT_GT(one_structure, kKeys / 5);
  EXPECT_GT(two_structures, kKeys / 5);
  EXPECT_GT(found, kKeys * kTransfersPerKey / 2);
}

}  // namespace
}  // namespace umlx5::testing
