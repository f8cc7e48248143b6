// Memory keys that work requests configure, between the two QPs of a pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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

std::string hex(const std::byte* from, std::size_t bytes);

}  // namespace umlx5::testing
