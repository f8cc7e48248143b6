#include "driver/verbs/page_kinds.h"

#include <fmt/format.h>
#include <strings.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "driver/log.h"
#include "driver/verbs/fork_ranges.h"

namespace umlx5::verbs {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kPieceBytes = 4096;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Huge pages in pieces: several queues share one. A page goes back to the system with its last piece.
class HugePages {
 public:
  // Null if the system has none to give.
  void* allocate(std::size_t bytes, std::size_t alignment_bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t whole = rounded(bytes, kPieceBytes);
    for (auto& [base, chunk] : chunks_) {
      if (void* const piece = take(base, chunk, whole, alignment_bytes)) {
        return piece;
      }
    }
    auto* const chunk = add_chunk(rounded(whole, kHugePageBytes));
    return chunk == nullptr ? nullptr : take(chunk->first, chunk->second, whole, alignment_bytes);
  }

  void release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const auto chunk = std::prev(chunks_.upper_bound(address));
    chunk->second.pieces.erase(address);
    if (chunk->second.pieces.empty()) {
      auto* const start = reinterpret_cast<void*>(chunk->first);  // NOLINT(performance-no-int-to-ptr): mmap() gave it
      ibv_dofork_range(start, chunk->second.bytes);
      ::munmap(start, chunk->second.bytes);
      chunks_.erase(chunk);
    }
  }

 private:
  struct Chunk {
    std::size_t bytes = 0;
    std::map<std::uintptr_t, std::size_t> pieces;  // in use: address, bytes
  };
  using Chunks = std::map<std::uintptr_t, Chunk>;

  // The first gap that is large enough.
  static void* take(std::uintptr_t base, Chunk& chunk, std::size_t bytes, std::size_t alignment_bytes) {
    std::uintptr_t at = rounded(base, alignment_bytes);
    for (const auto& [address, piece_bytes] : chunk.pieces) {
      if (at + bytes <= address) {
        break;
      }
      at = std::max(at, rounded(address + piece_bytes, alignment_bytes));
    }
    if (at + bytes > base + chunk.bytes) {
      return nullptr;
    }
    chunk.pieces.emplace(at, bytes);
    return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr): within what mmap() gave
  }

  Chunks::value_type* add_chunk(std::size_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory == MAP_FAILED) {
      return nullptr;
    }
    if (ibv_dontfork_range(memory, bytes) != 0) {
      ::munmap(memory, bytes);
      return nullptr;
    }
    return &*chunks_.emplace(reinterpret_cast<std::uintptr_t>(memory), Chunk{.bytes = bytes, .pieces = {}}).first;
  }

  std::mutex mutex_;
  Chunks chunks_;
};

class PageKindAllocator final : public Allocator {
 public:
  std::optional<void*> allocate(MemoryUse use, std::size_t bytes, std::size_t alignment_bytes) override {
    const char* const name = variable(use);
    const char* const kind = name == nullptr ? nullptr : std::getenv(name);
    const auto is = [&](const char* other) { return kind != nullptr && ::strcasecmp(kind, other) == 0; };
    if (is("HUGE") || is("PREFER_HUGE") || is("ALL")) {
      if (void* const memory = huge_.allocate(bytes, alignment_bytes)) {
        return memory;
      }
      log(LogLevel::kInfo, fmt::format("{}={}: no huge pages for {} bytes", name, kind, bytes));
      return is("HUGE") ? std::optional<void*>(nullptr) : std::nullopt;
    }
    if (is("CONTIG")) {
      log(LogLevel::kInfo, fmt::format("{}={}: the kernel gives no contiguous memory", name, kind));
      return nullptr;
    }
    return std::nullopt;
  }
  void release(MemoryUse, void* memory) override { huge_.release(memory); }

 private:
  static const char* variable(MemoryUse use) {
    switch (use) {
      case MemoryUse::kQp:
        return "MLX_QP_ALLOC_TYPE";
      case MemoryUse::kReceiveWq:
        return "MLX_RWQ_ALLOC_TYPE";
      case MemoryUse::kSrq:
        return "MLX_SRQ_ALLOC_TYPE";
      case MemoryUse::kCq:
        return "MLX_CQ_ALLOC_TYPE";
      default:
        return nullptr;
    }
  }

  HugePages huge_;
};

}  // namespace

Allocator& page_kind_allocator() {
  static auto* const allocator = new PageKindAllocator;  // never destroyed: queues may outlive exit handlers
  return *allocator;
}

}  // namespace umlx5::verbs
