// UMR and SET_PSV work requests of any bytes on keys that name each other, with formats of any bytes: a change is taken
// whole or not at all, what is resolved is as long as what was asked for, and a format makes of whole periods what it
// says that it makes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/tools/softhca/hca/fuzz_input.h"
#include "tools/softhca/hca/mkey.h"

namespace {

using namespace softhca::hca;
using softhca::hca::harness::FuzzInput;

constexpr std::uint32_t kPd = 1, kQpn = 0x80, kKeys = 6;
constexpr KeyUser kUser{kPd, kQpn};
constexpr unsigned kDepth = 4;
constexpr std::uint64_t kMostBytes = 32768;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// What a change may touch.
struct Seen {
  explicit Seen(const Mkey& mkey)
      : tag(mkey.tag),
        free(mkey.free),
        length_bytes(mkey.length_bytes),
        start(mkey.start),
        repeats(mkey.repeats),
        pieces(mkey.pieces.size()),
        formatted(mkey.is_formatted()),
        errors(mkey.protection ? mkey.protection->errors : 0),
        reports(mkey.protection && mkey.protection->reports) {}
  bool operator==(const Seen&) const = default;
  std::uint8_t tag;
  bool free;
  std::uint64_t length_bytes, start, repeats;
  std::size_t pieces;
  bool formatted;
  std::uint32_t errors;
  bool reports;
};

class Run {
 public:
  Run(const std::uint8_t* data, std::size_t size) : input_(data, size) {
    auto region = std::make_unique<Mkey>();
    region->pdn = kPd;
    region->local_read = region->local_write = true;
    region->whole_address_space = true;
    region->translation = MkeyTranslation::kPhysical;
    add(std::move(region));
    for (std::uint32_t i = 1; i < kKeys; ++i) {
      auto mkey = std::make_unique<Mkey>();
      mkey->pdn = kPd;
      mkey->free = mkey->umr_enabled = mkey->local_read = true;
      mkey->translation = MkeyTranslation::kKeys;
      mkey->max_octowords = 16;
      if (i >= 3) {
        mkey->protection = KeyProtection{.max_octowords = i == 5 ? 8u : 4u, .must_encrypt = i == 4, .format = {}};
      }
      add(std::move(mkey));
    }
    std::uint32_t number = 0;
    auto psv = std::make_unique<Psv>(Psv{.uid = 0, .pdn = kPd, .value = {}});
    psvs_.insert(psv, number);
    xts_.used_bytes = 32;
    xts_.bytes[0] = std::byte{1};
  }

  void all() {
    for (unsigned step = 0; step < 64 && !input_.empty(); ++step) {
      switch (input_.byte() % 4) {
        case 0:
        case 1:
          update();
          break;
        case 2:
          resolve();
          break;
        default:
          pass();
      }
    }
  }

 private:
  void add(std::unique_ptr<Mkey> mkey) {
    std::uint32_t index = 0;
    require(keys_.insert(mkey, index));
  }
  std::uint32_t some_key() {
    const std::uint8_t choice = input_.byte();
    return (kFirstMkeyIndex + choice % (kKeys + 1)) << 8 | (choice >= 0xf0 ? choice : 0);
  }

  // The body of a work request: bits and sizes that mean something more often than not, the rest from the input.
  std::vector<std::byte> body() {
    constexpr std::uint64_t kMasks[] = {0x20002000, 0x20003001, 0x203c3201, 0x20000000, 0x201};
    std::vector<std::byte> bytes(112);
    const std::uint8_t shape = input_.byte();
    const unsigned translations = shape % 5 * 4, formats = shape / 8 % 4 * 4;
    bytes[0] = std::byte{0x80};
    bytes[5] = static_cast<std::byte>(translations);
    bytes[7] = static_cast<std::byte>(formats);
    const std::uint64_t mask = kMasks[shape % std::size(kMasks)];
    for (int i = 0; i < 8; ++i) {
      bytes[8 + static_cast<std::size_t>(i)] = static_cast<std::byte>(mask >> (56 - 8 * i));
    }
    bytes[60] = std::byte{0x40};  // formats are on
    for (std::size_t at : {std::size_t{50}, std::size_t{77}, std::size_t{78}, std::size_t{79}}) {
      bytes[at] = static_cast<std::byte>(input_.byte());  // rights and length
    }
    for (unsigned i = 0; i < translations; ++i) {
      entry(bytes, i == 0 && (shape & 0x80) != 0);
    }
    for (unsigned i = 0; i < formats / 4; ++i) {
      format(bytes, formats == 8, i == 1 || (formats == 4 && (shape & 0x40) != 0));
    }
    for (std::uint8_t changes = input_.byte() % 4; changes > 0; --changes) {
      bytes[input_.number(2) % bytes.size()] = static_cast<std::byte>(input_.byte());
    }
    return bytes;
  }
  void entry(std::vector<std::byte>& bytes, bool repeats) {
    std::array<std::byte, 16> entry{};
    const std::uint8_t length = input_.byte();
    if (repeats) {
      entry[3] = static_cast<std::byte>(length);
      entry[6] = std::byte{4};
      entry[11] = static_cast<std::byte>(input_.byte());
      entry[15] = static_cast<std::byte>(input_.byte() % 16);
    } else {
      const std::uint32_t key = some_key();
      entry[1] = entry[2] = static_cast<std::byte>(input_.byte() % 3);
      entry[3] = static_cast<std::byte>(length);
      for (std::size_t i = 0; i < 4; ++i) {
        entry[4 + i] = static_cast<std::byte>(key >> (24 - 8 * i));
      }
      entry[15] = static_cast<std::byte>(input_.byte());
    }
    bytes.insert(bytes.end(), entry.begin(), entry.end());
  }
  void format(std::vector<std::byte>& bytes, bool of_two, bool crypto) {
    constexpr std::uint8_t kDomains[] = {0, 0x22, 0x23, 0x42, 0x52};
    std::array<std::byte, 64> format{};
    format[0] = static_cast<std::byte>((of_two ? 0xc0 : 0x80) | (crypto ? 1 : 0));
    if (crypto) {
      format[1] = static_cast<std::byte>(input_.byte() % 4);
      format[8] = static_cast<std::byte>(input_.byte() % 8);
      format[31] = static_cast<std::byte>(input_.byte());
    } else {
      const std::uint8_t choice = input_.byte();
      format[0] |= static_cast<std::byte>(choice & 0x10);  // one structure
      format[1] = static_cast<std::byte>(input_.byte());
      format[2] = static_cast<std::byte>((choice & 0x10) != 0 ? input_.byte() : choice % 7);
      format[3] = static_cast<std::byte>(input_.byte() % 7);
      format[8] = static_cast<std::byte>(kDomains[input_.byte() % std::size(kDomains)]);
      format[12] = static_cast<std::byte>(kDomains[input_.byte() % std::size(kDomains)]);
      for (const std::size_t at : {std::size_t{32}, std::size_t{48}}) {
        format[at] = static_cast<std::byte>((input_.byte() & 1) != 0 ? 0xc0 : 0);
        format[at + 8] = static_cast<std::byte>(input_.byte() % 4);
        format[at + 9] = static_cast<std::byte>(input_.byte());
        format[at + 13] = static_cast<std::byte>(input_.byte());
      }
    }
    bytes.insert(bytes.end(), format.begin(), format.end());
  }

  void update() {
    std::vector<std::byte> bytes = body();
    if (input_.byte() >= 0xf0) {
      bytes.resize(input_.number(2) % (bytes.size() + 1));
    }
    if (const auto psv = parse_psv_update(bytes)) {
      set_psv(psvs_, kUser, *psv);
    }
    const std::uint32_t key = some_key();
    const auto parsed = parse_key_update(key, bytes);
    const Mkey* const mkey = keys_.find(key >> 8);
    if (!parsed || mkey == nullptr) {
      require(!parsed || !update_key(keys_, kUser, *parsed));
      return;
    }
    const Seen before(*mkey);
    require(update_key(keys_, kUser, *parsed) || Seen(*mkey) == before);
  }

  void resolve() {
    const std::uint32_t key = some_key();
    const std::uint64_t va = input_.number(2), bytes = input_.number(2) % kMostBytes;
    const auto access = static_cast<Access>(input_.byte() % 5);
    std::vector<DmaRange> ranges;
    if (resolve_key(keys_, kDepth, key, kUser, va, bytes, access, ranges) == MkeyFault::kNone) {
      std::uint64_t sum = 0;
      for (const DmaRange& range : ranges) {
        sum += range.bytes;
      }
      require(sum == bytes);
    }
  }

  // Some periods to the wire, and others from it.
  void pass() {
    const Mkey* const mkey = keys_.find(some_key() >> 8);
    if (mkey == nullptr || !mkey->protection || !mkey->protection->format) {
      return;
    }
    const KeyFormat& format = *mkey->protection->format;
    const KeyFormat::Period& period = format.period();
    const std::uint64_t most = kMostBytes / std::max<std::uint64_t>(1, std::max(period.memory, period.wire));
    if (most == 0) {
      return;
    }
    const std::uint64_t start = input_.byte() * period.data, count = 1 + input_.byte() % most;
    const auto convert = [&](bool to_wire, std::uint64_t in_bytes, std::uint64_t out_bytes) {
      std::vector<std::byte> bytes(in_bytes);
      for (std::size_t i = 0; i < bytes.size() && i < 64; ++i) {
        bytes[i * 97 % bytes.size()] = static_cast<std::byte>(input_.byte());
      }
      std::optional<softhca::SignatureError> error;
      const bool done =
          to_wire ? format.to_wire(start, bytes, &xts_, error) : format.to_memory(start, bytes, &xts_, error);
      require(!done || bytes.size() == out_bytes);
      require(!error || error->guard || error->application_tag || error->reference_tag);
    };
    convert(true, count * period.memory, count * period.wire);
    convert(false, count * period.wire, count * period.memory);
  }

  FuzzInput input_;
  MkeyTable keys_{kFirstMkeyIndex, 16};
  ObjectTable<Psv> psvs_{1, 4};
  softhca::XtsKey xts_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Run(data, size).all();
  return 0;
}
