// Any bytes as the ring of a completion queue with compression, any entry as a title: what is written for it stays in
// the ring, is a session's worth of whole CQEs of the right laps, and nothing at all if there is no such session.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver/completion_ring.h"
#include "driver/compressed_cqes.h"

namespace {

using namespace umlx5;

constexpr std::size_t kZone = 256;

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

std::uint32_t byte_count_of(const std::byte* cqe) { return wqe::load<wqe::Cqe>(cqe).byte_count; }

}  // namespace

// The first byte: log2 of the entries, 0 to 6; the second: bit 0 for entries of 128 bytes, the others the title; the
// third: the format, bit 7 for a striding queue.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) {
    return 0;
  }
  const std::uint32_t entries = 1u << data[0] % 7;
  const std::uint32_t entry_bytes = (data[1] & 1) != 0 ? 128 : 64;
  constexpr std::array kFormats = {wqe::MiniCqeFormat::kRxHash, wqe::MiniCqeFormat::kChecksum,
                                   wqe::MiniCqeFormat::kChecksumStrideIndex};
  const std::size_t ring_bytes = std::size_t{entries} * entry_bytes;
  std::vector<std::byte> memory(ring_bytes + 2 * kZone, std::byte{0x5a});
  std::memset(memory.data() + kZone, 0, ring_bytes);
  for (std::size_t i = 0; i < ring_bytes && size > 3; ++i) {  // again and again, if it is short
    memory[kZone + i] = static_cast<std::byte>(data[3 + i % (size - 3)]);
  }
  const CompletionRing ring(memory.data() + kZone, entries, entry_bytes);
  const std::uint32_t first = (data[1] >> 1u) % entries;
  std::byte* const title = ring.cqe(first);
  const std::uint8_t op_own = CompletionRing::op_own(title);
  const std::uint32_t count = byte_count_of(title);
  const std::vector<std::byte> before = memory;
  const bool expanded = expand_session(ring, title, kFormats[data[2] % kFormats.size()], (data[2] & 0x80) != 0);
  check(expanded == (count != 0 && count <= entries));
  if (!expanded) {
    check(memory == before);
    return 0;
  }
  std::uint32_t written = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool in_ring = i >= kZone && i < kZone + ring_bytes;
    const auto slot = static_cast<std::uint32_t>((i - kZone) / entry_bytes);
    const bool in_session =
        in_ring && (slot - first) % entries < count && (i - kZone) % entry_bytes >= entry_bytes - 64;
    check(in_session || memory[i] == before[i]);
    written += in_session ? 1 : 0;
  }
  check(written == count * 64);
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint8_t own = CompletionRing::op_own(ring.cqe(first + n));
    const auto lap = static_cast<std::uint8_t>(first + n >= entries ? 1 : 0);
    check(own == ((op_own & 0xf3) ^ lap));
  }
  return 0;
}
