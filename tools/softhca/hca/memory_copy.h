// Copies from memory to memory: MMO work requests.
#pragma once

#include <cstddef>
#include <span>

#include "tools/softhca/hca/completion.h"

namespace softhca::hca {

// Carries out the body of an MMO WQE (all after its control segment) with opmod "DMA": why it failed, if it did. What
// was copied by then stays.
Failure copy_memory(Link& link, const KeyUser& user, std::span<const std::byte> body);

}  // namespace softhca::hca
