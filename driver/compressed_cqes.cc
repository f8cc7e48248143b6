#include "driver/compressed_cqes.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "wqe/cqe.h"

namespace umlx5 {
namespace {

using wqe::internal::load_word;
using wqe::internal::store_word;

constexpr std::size_t kHash = 12, kChecksum = 20, kByteCount = 44, kSendOpcode = 56, kWqeCounter = 60;
static_assert(wqe::offset_bits_of(&wqe::Cqe::rx_hash) == kHash * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::checksum) == kChecksum * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::byte_count) == kByteCount * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::send_opcode) == kSendOpcode * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::wqe_counter) == kWqeCounter * 8);

using CqeBytes = std::array<std::byte, wqe::kCqeBytes>;

CqeBytes copy_of(const std::byte* cqe) {
  CqeBytes bytes;
  std::memcpy(bytes.data(), cqe, bytes.size());
  return bytes;
}

// Pollers that are late may look at the same time; the word with the owner bit comes last.
void put(std::byte* to, const CqeBytes& cqe) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  for (std::size_t at = 0; at != cqe.size(); at += kWord) {
    std::uint64_t word;
    std::memcpy(&word, cqe.data() + at, kWord);
    const bool last = at + kWord == cqe.size();
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(to + at), word, last ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
  }
}

// `cqe`, a copy of the title, becomes the CQE of the `n`-th completion.
void fill(CqeBytes& cqe, const std::byte* mini, std::uint32_t n, bool of_requester, wqe::MiniCqeFormat format) {
  store_word<std::uint32_t>(&cqe[kByteCount], load_word<std::uint32_t>(mini + 4));
  if (of_requester) {
    const auto own = wqe::load<wqe::RequesterMiniCqe>(mini);
    store_word<std::uint16_t>(&cqe[kWqeCounter], own.wqe_counter);
    cqe[kSendOpcode] = static_cast<std::byte>(own.send_opcode);
    return;
  }
  store_word<std::uint16_t>(&cqe[kWqeCounter],
                            static_cast<std::uint16_t>(load_word<std::uint16_t>(&cqe[kWqeCounter]) + n));
  const bool has_hash = format == wqe::MiniCqeFormat::kRxHash;
  if (n != 0) {
    store_word<std::uint32_t>(&cqe[kHash], 0);
    store_word<std::uint16_t>(&cqe[kChecksum], 0);
  }
  if (has_hash) {
    store_word<std::uint32_t>(&cqe[kHash], wqe::load<wqe::HashMiniCqe>(mini).rx_hash);
  } else {
    store_word<std::uint16_t>(&cqe[kChecksum], wqe::load<wqe::ChecksumMiniCqe>(mini).checksum);
  }
}

}  // namespace

bool expand_session(const CompletionRing& ring, std::byte* title_entry, wqe::MiniCqeFormat format) {
  const CqeBytes title = copy_of(title_entry);
  const std::uint32_t count = load_word<std::uint32_t>(&title[kByteCount]);
  if (count == 0 || count > ring.entries()) {
    return false;
  }
  const auto op_own = static_cast<std::uint8_t>(title[wqe::kCqeOpOwnOffset]);
  const bool of_requester = wqe::cqe_opcode(op_own) == wqe::CqeOpcode::kRequester;
  constexpr std::uint8_t kFormatBits = 3 << 2;
  const auto own = static_cast<std::uint8_t>(op_own & ~kFormatBits);
  const std::uint32_t first = ring.slot_of(title_entry);
  CqeBytes minis;
  // From the last to the first: mini CQEs lie in the first entry, or the second, of those that they stand for.
  for (std::uint32_t n = count; n-- != 0;) {
    const std::uint32_t in_entry = n % wqe::kMiniCqesPerEntry;
    if (n == count - 1 || in_entry == wqe::kMiniCqesPerEntry - 1) {
      minis = copy_of(ring.cqe(first + wqe::mini_cqe_entry(n)));
    }
    CqeBytes cqe = title;
    fill(cqe, &minis[in_entry * wqe::kMiniCqeBytes], n, of_requester, format);
    const bool next_lap = first + n >= ring.entries();
    cqe[wqe::kCqeOpOwnOffset] = static_cast<std::byte>(own ^ (next_lap ? 1 : 0));
    put(ring.cqe(first + n), cqe);
  }
  return true;
}

}  // namespace umlx5
