// The ring of a completion queue: which entries are software's, and the consumer index. One thread at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wqe/cqe.h"

namespace umlx5 {

// Views memory that it does not own.
class CompletionRing {
 public:
  CompletionRing() = default;
  // `entries` is a power of two; an entry has 64 or 128 bytes, and its CQE is the last 64 of them.
  CompletionRing(std::byte* ring, std::uint32_t entries, std::uint32_t entry_bytes)
      : ring_(ring),
        first_cqe_(ring + (entry_bytes - wqe::kCqeBytes)),
        log_entry_bytes_(static_cast<std::uint32_t>(std::countr_zero(entry_bytes))),
        log_entries_(static_cast<std::uint32_t>(std::countr_zero(entries))),
        mask_(entries - 1) {}

  // Entries that no lap of the device has written yet.
  void mark_all_unwritten() {
    for (std::uint32_t i = 0; i <= mask_; ++i) {
      cqe(i)[wqe::kCqeOpOwnOffset] = std::byte{wqe::kCqeOpOwnInitial};
    }
  }

  std::uint32_t entries() const { return mask_ + 1; }
  std::uint32_t entry_bytes() const { return 1u << log_entry_bytes_; }
  std::uint32_t log_entries() const { return log_entries_; }

  // The CQE of the entry at free-running index `index`.
  std::byte* cqe(std::uint32_t index) const { return first_cqe_ + (std::size_t{index & mask_} << log_entry_bytes_); }
  std::uint32_t slot_of(const std::byte* cqe) const {  // of a pointer that cqe() gave
    return static_cast<std::uint32_t>(static_cast<std::size_t>(cqe - first_cqe_) >> log_entry_bytes_);
  }
  std::byte* entry(std::uint32_t index) const { return ring_ + (std::size_t{index & mask_} << log_entry_bytes_); }

  // Opcode, format and owner of the entry at `index`, loaded so that nothing after it is loaded earlier.
  std::uint8_t op_own(std::uint32_t index) const { return op_own(cqe(index)); }
  static std::uint8_t op_own(const std::byte* cqe) {
    return __atomic_load_n(reinterpret_cast<const std::uint8_t*>(cqe + wqe::kCqeOpOwnOffset), __ATOMIC_ACQUIRE);
  }
  bool is_ready(std::uint32_t index, std::uint8_t op_own) const {
    return wqe::cqe_is_ready(op_own, index, log_entries_);
  }
  bool is_ready(std::uint32_t index) const { return is_ready(index, op_own(index)); }

  // Copies a whole entry of another ring (or of this one) of the same entry size to `index`, as if the device had
  // written it in that index's lap.
  void put(std::uint32_t index, const std::byte* from_entry) {
    std::byte* const to = entry(index);
    const std::byte own = std::byte{static_cast<std::uint8_t>((index >> log_entries_) & 1)};
    std::memmove(to, from_entry, entry_bytes());
    std::byte& op_own = to[entry_bytes() - 1];
    op_own = (op_own & std::byte{0xfe}) | own;
  }

 private:
  std::byte* ring_ = nullptr;
  std::byte* first_cqe_ = nullptr;
  std::uint32_t log_entry_bytes_ = 0;
  std::uint32_t log_entries_ = 0;
  std::uint32_t mask_ = 0;
};

}  // namespace umlx5
