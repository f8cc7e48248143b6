// Memory keys that work requests configure, between the two QPs of a pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/dek.h"
#include "driver/mkey.h"
#include "tests/driver/soft/pair.h"

namespace umlx5::testing {

// Where tests have what they send and what they receive.
inline constexpr std::size_t kFrom = 0, kTo = 128 * 1024;

// Send queues with room for the work requests that change keys.
PairOptions key_pair_options(Topology topology);

// Of four entries if `options` does not say how many.
Owned<Mkey> make_key(End& end, MkeyOptions options);
// Configures and waits for the one completion that tells of it.
void configure(End& end, Mkey& mkey, const MkeyChange& change);
inline Sge key_sge(const Mkey& mkey, std::uint64_t offset, std::uint32_t bytes) { return {offset, bytes, mkey.lkey()}; }

// A SEND from `from` of A to `to` of B.
void send(Pair& pair, const Sge& from, const Sge& to);
// An RDMA WRITE of A, or READ to it, at the beginning of a key of B.
void write_key(Pair& pair, const Sge& from, const Mkey& to);
void read_key(Pair& pair, const Sge& to, const Mkey& from);

// What a key of B found wrong in A's requests: B's CQ tells it before it tells of a message that follows them.
std::optional<SignatureMismatch> told(Pair& pair, Mkey& key);

using Bytes = std::vector<std::byte>;

// A plain data encryption key of hexadecimal text.
Owned<Dek> make_dek(End& end, std::string_view keys);

void put(End& end, std::size_t offset, const Bytes& bytes);
// Fills memory with bytes that no test sends.
void clear(End& end, std::size_t offset, std::size_t bytes);
// The bytes, and what clear() put behind them.
void expect_bytes(End& end, std::size_t offset, const Bytes& bytes);

// What the memory behind a key holds, and what is on the wire when someone sends, writes or reads it.
struct Passage {
  Bytes memory, wire;
  std::uint32_t local_bytes = 0;  // as a request of the key's own side counts it
};
// A key over `bytes` at `offset` with formats, which may need objects of its side.
using MakeKey = std::function<Owned<Mkey>(End& end, std::size_t offset, std::uint32_t bytes)>;
// Sent by the key's side, and written and read by a peer: the other side has no key. No block is told as wrong.
void expect_passage(Pair& pair, const MakeKey& key, const Passage& passage);

std::string hex(const std::byte* from, std::size_t bytes);

}  // namespace umlx5::testing
