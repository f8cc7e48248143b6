// Protection domains.
#pragma once

#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

struct Pd {
  PdHandle handle{};
  std::uint32_t pdn = 0;  // the device's number for it
};

Expected<Pd> alloc_pd(Commands& commands);

// EBUSY while something uses it.
Expected<void> dealloc_pd(Commands& commands, PdHandle pd);

// The device's number of a PD that this context got in another way.
Expected<std::uint32_t> query_pdn(Commands& commands, PdHandle pd);

}  // namespace umlx5::uapi
