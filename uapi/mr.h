// Memory regions and memory windows. Access bits are those of enum ib_uverbs_access_flags.
#pragma once

#include <cstdint>
#include <optional>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

struct Mr {
  MrHandle handle{};
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

struct MrRequest {
  PdHandle pd{};
  std::uint64_t address = 0;  // in this process
  std::uint64_t length_bytes = 0;
  std::uint64_t iova = 0;  // address as the device's users will give it; the same within its page as `address`
  std::uint32_t access = 0;
};

Expected<Mr> register_mr(Commands& commands, const MrRequest& request);

struct DmabufMrRequest {
  PdHandle pd{};
  int dmabuf_fd = -1;
  std::uint64_t offset_bytes = 0;  // into the dmabuf
  std::uint64_t length_bytes = 0;
  std::uint64_t iova = 0;
  std::uint32_t access = 0;
  std::uint32_t mlx5_access = 0;  // kMlx5RegDmabufMr* of kernel_additions.h
};

Expected<Mr> register_dmabuf_mr(Commands& commands, const DmabufMrRequest& request);

// What is given changes; the translation is the three members together.
struct MrChange {
  struct Translation {
    std::uint64_t address = 0;
    std::uint64_t length_bytes = 0;
    std::uint64_t iova = 0;
  };
  std::optional<Translation> translation{};
  std::optional<PdHandle> pd{};
  std::optional<std::uint32_t> access{};
};

// The handle stays; the keys may be new. After an error the region may be unusable and is only fit to be deregistered.
Expected<Mr> reregister_mr(Commands& commands, MrHandle mr, const MrChange& change);

Expected<void> deregister_mr(Commands& commands, MrHandle mr);

struct MrAttributes {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint64_t length_bytes = 0;
  std::uint64_t iova = 0;
};

Expected<MrAttributes> query_mr(Commands& commands, MrHandle mr);

// Prefetch advice. `sges` are (address, length, lkey) in host order; advice and flags are enum ib_uverbs_advise_mr_*.
Expected<void> advise_mr(Commands& commands, PdHandle pd, std::uint32_t advice, std::uint32_t flags,
                         std::span<const ib_uverbs_sge> sges);

struct Mw {
  MwHandle handle{};
  std::uint32_t rkey = 0;
};

// `type` is 1 or 2 as in the InfiniBand specification.
Expected<Mw> alloc_mw(Commands& commands, PdHandle pd, std::uint8_t type);
Expected<void> dealloc_mw(Commands& commands, MwHandle mw);

}  // namespace umlx5::uapi
