// Compressed completions: which may stand together, and what their entries hold (wqe/mini_cqe.h has the layouts).
//
// When this device compresses: completions of one queue that come one after the other in one pass of the device, and
// are alike but for what mini CQEs carry, are written together, up to the profile's max_compressed_cqes. Nothing waits
// for more to come. Errors, completions with data in them, single ones and what is no completion of a request are
// written whole. A timestamp, and of a received frame's hash and checksum the one that the format lacks, is the first
// completion's: the others' are lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/softhca/hca/objects.h"
#include "wqe/mini_cqe.h"

namespace softhca::hca {

// Whether mini CQEs can stand for a CQE of this op_own without data.
bool is_compressible(std::uint8_t op_own);

// Whether `next` may follow `last` in what one title stands for.
bool continues(const CqeBytes& last, const CqeBytes& next);

// Basic layout: the title of `run`, and the entry with the mini CQEs from the `first`-th on.
CqeBytes title_of(std::span<const CqeBytes> run);
CqeBytes mini_cqes_of(std::span<const CqeBytes> run, std::size_t first, umlx5::wqe::MiniCqeFormat format);

// Enhanced layout: the block that stands for `run`, at most kMiniCqesPerBlock, without its iteration count.
CqeBytes block_of(std::span<const CqeBytes> run, umlx5::wqe::MiniCqeFormat format);

}  // namespace softhca::hca
