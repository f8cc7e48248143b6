#include "driver/compressed_cqes.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "wqe/cqe.h"
#include "wqe/data.h"

namespace umlx5 {
namespace {

using wqe::internal::load_word;

// A CQE as big-endian words, in host order; what mini CQEs have lies in four of them.
constexpr std::size_t kWordBytes = sizeof(std::uint64_t), kWords = wqe::kCqeBytes / kWordBytes;
using Words = std::array<std::uint64_t, kWords>;
constexpr std::size_t kHashWord = 1, kChecksumWord = 2, kByteCountWord = 5, kLastWord = 7;
constexpr std::uint64_t kLowHalf = 0xffffffff;  // hash; byte count
constexpr unsigned kChecksumShift = 16, kCounterShift = 16, kSendOpcodeShift = 56;
constexpr std::uint64_t kChecksum = std::uint64_t{0xffff} << kChecksumShift;
constexpr std::uint64_t kCounter = std::uint64_t{0xffff} << kCounterShift;
constexpr std::uint64_t kSendOpcode = std::uint64_t{0xff} << kSendOpcodeShift;
constexpr std::uint64_t kFormat = 3 << 2, kOwner = 1;

constexpr std::size_t end_of_word(std::size_t word) { return (word + 1) * kWordBytes * 8; }
static_assert(wqe::offset_bits_of(&wqe::Cqe::rx_hash) == end_of_word(kHashWord) - 32);
static_assert(wqe::offset_bits_of(&wqe::Cqe::checksum) == end_of_word(kChecksumWord) - 16 - kChecksumShift);
static_assert(wqe::offset_bits_of(&wqe::Cqe::byte_count) == end_of_word(kByteCountWord) - 32);
static_assert(wqe::offset_bits_of(&wqe::Cqe::wqe_counter) == end_of_word(kLastWord) - 16 - kCounterShift);
static_assert(wqe::offset_bits_of(&wqe::Cqe::send_opcode) == end_of_word(kLastWord) - 8 - kSendOpcodeShift);
static_assert(wqe::offset_bits_of(&wqe::Cqe::format) == end_of_word(kLastWord) - 2 - 2);
static_assert(wqe::offset_bits_of(&wqe::Cqe::owner) == end_of_word(kLastWord) - 1);

// Of a mini CQE's first half: hash; checksum 31:16; WQE counter 31:16 and send opcode 15:8. The second is the byte
// count.
static_assert(wqe::offset_bits_of(&wqe::HashMiniCqe::rx_hash) == 0);
static_assert(wqe::offset_bits_of(&wqe::ChecksumMiniCqe::checksum) == 0);
static_assert(wqe::offset_bits_of(&wqe::RequesterMiniCqe::wqe_counter) == 0);
static_assert(wqe::offset_bits_of(&wqe::RequesterMiniCqe::send_opcode) == 16);
static_assert(wqe::offset_bits_of(&wqe::RequesterMiniCqe::byte_count) == 32);

Words words_of(const std::byte* cqe) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return Words{load_word<std::uint64_t>(cqe + I * kWordBytes)...};
  }
  (std::make_index_sequence<kWords>{});
}

// Pollers that are late may look at the same time; the word with the owner bit comes last.
[[gnu::always_inline]] inline void put(std::byte* to, const Words& words) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (__atomic_store_n(reinterpret_cast<std::uint64_t*>(to + I * kWordBytes), wqe::internal::big_endian(words[I]),
                      I == kLastWord ? __ATOMIC_RELEASE : __ATOMIC_RELAXED),
     ...);
  }
  (std::make_index_sequence<kWords>{});
}

// A session: its title, and where the mini CQEs are.
struct Session {
  CompletionRing ring;
  Words title;
  std::uint32_t first;  // entry
  std::uint32_t count;
};

const std::byte* minis_of(const Session& session, std::uint32_t n) {
  return session.ring.cqe(session.first + wqe::mini_cqe_entry(n));
}

// Writes the CQEs from the last to the first: mini CQEs lie in the first entry, or the second, of those that they stand
// for. change(cqe, mini, n) gives the `n`-th what is its own beside the byte count.
template <typename Change>
[[gnu::always_inline]] inline void write(const Session& session, Change change) {
  std::array<std::byte, wqe::kCqeBytes> minis;
  for (std::uint32_t n = session.count; n-- != 0;) {
    const std::uint32_t in_entry = n % wqe::kMiniCqesPerEntry;
    if (n == session.count - 1 || in_entry == wqe::kMiniCqesPerEntry - 1) {
      std::memcpy(minis.data(), minis_of(session, n), minis.size());
    }
    Words cqe = session.title;
    const auto mini = load_word<std::uint64_t>(&minis[in_entry * wqe::kMiniCqeBytes]);
    cqe[kByteCountWord] = (cqe[kByteCountWord] & ~kLowHalf) | (mini & kLowHalf);
    change(cqe, mini, n);
    cqe[kLastWord] ^= session.first + n >= session.ring.entries() ? kOwner : 0;
    put(session.ring.cqe(session.first + n), cqe);
  }
}

void write_requests(const Session& session) {
  write(session, [](Words& cqe, std::uint64_t mini, std::uint32_t) {
    const std::uint64_t counter = mini >> 48, send_opcode = mini >> 40 & 0xff;
    cqe[kLastWord] =
        (cqe[kLastWord] & ~(kCounter | kSendOpcode)) | counter << kCounterShift | send_opcode << kSendOpcodeShift;
  });
}

// `counter_of(mini, n)`: the WQE counter, less the title's.
template <typename Counter>
void write_receives(const Session& session, bool has_hash, Counter counter_of) {
  write(session, [&](Words& cqe, std::uint64_t mini, std::uint32_t n) {
    const std::uint64_t counter = (cqe[kLastWord] >> kCounterShift) + counter_of(mini, n), own = mini >> 32;
    cqe[kLastWord] = (cqe[kLastWord] & ~kCounter) | (counter << kCounterShift & kCounter);
    if (n != 0) {
      cqe[kHashWord] &= ~kLowHalf;
      cqe[kChecksumWord] &= ~kChecksum;
    }
    if (has_hash) {
      cqe[kHashWord] = (cqe[kHashWord] & ~kLowHalf) | own;
    } else {
      cqe[kChecksumWord] = (cqe[kChecksumWord] & ~kChecksum) | own >> 16 << kChecksumShift;
    }
  });
}

std::uint32_t strides_of(std::uint64_t mini) {
  return wqe::StridingByteCount{static_cast<std::uint32_t>(mini)}.strides();
}

// A completion's counter is its first stride in the WQE.
void write_strides(const Session& session, wqe::MiniCqeFormat format) {
  if (format == wqe::MiniCqeFormat::kChecksumStrideIndex) {
    const std::uint64_t first = session.title[kLastWord] >> kCounterShift;
    write_receives(session, false, [first](std::uint64_t mini, std::uint32_t) { return (mini >> 32) - first; });
    return;
  }
  std::uint64_t left = 0;
  for (std::uint32_t n = 0; n != session.count; ++n) {
    const std::uint32_t in_entry = n % wqe::kMiniCqesPerEntry;
    left += strides_of(load_word<std::uint64_t>(minis_of(session, n) + in_entry * wqe::kMiniCqeBytes));
  }
  write_receives(session, format == wqe::MiniCqeFormat::kRxHash,
                 [&left](std::uint64_t mini, std::uint32_t) { return left -= strides_of(mini); });
}

}  // namespace

bool expand_session(const CompletionRing& ring, std::byte* title, wqe::MiniCqeFormat format, bool strides) {
  Session session{.ring = ring, .title = words_of(title), .first = ring.slot_of(title), .count = 0};
  session.count = static_cast<std::uint32_t>(session.title[kByteCountWord] & kLowHalf);
  if (session.count == 0 || session.count > ring.entries()) {
    return false;
  }
  const auto op_own = static_cast<std::uint8_t>(session.title[kLastWord]);
  session.title[kLastWord] &= ~kFormat;
  if (wqe::cqe_opcode(op_own) == wqe::CqeOpcode::kRequester) {
    write_requests(session);
  } else if (strides) {
    write_strides(session, format);
  } else {
    write_receives(session, format == wqe::MiniCqeFormat::kRxHash, [](std::uint64_t, std::uint32_t n) { return n; });
  }
  return true;
}

}  // namespace umlx5
