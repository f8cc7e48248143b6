#include "tools/softhca/hca/uar.h"

#include <endian.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace softhca::hca {
namespace {

template <typename Word>
std::atomic_ref<Word> word_at(std::byte* page, std::uint32_t offset_bytes) {
  return std::atomic_ref<Word>(*reinterpret_cast<Word*>(page + offset_bytes));
}

// The acquire orders the doorbell record and the WQEs, which were stored before the doorbell, after it.
template <typename Word>
Word take(std::byte* page, std::uint32_t offset_bytes) {
  const auto word = word_at<Word>(page, offset_bytes);
  return word.load(std::memory_order_relaxed) == 0 ? 0 : word.exchange(0, std::memory_order_acquire);
}

}  // namespace

UarPages::UarPages(std::uint32_t pages)
    : pages_(pages), numbers_(1, pages - 1), memory_(std::size_t{pages} * kUarPageBytes) {}

bool UarPages::allocate(std::uint32_t uid, std::uint32_t& index) {
  if (!numbers_.take(index)) {
    return false;
  }
  pages_[index] = {.allocated = true, .uid = uid, .qps = {}, .cqs = {}, .eqs = {}};
  std::memset(page(index), 0, kUarPageBytes);
  allocated_.push_back(index);
  return true;
}

void UarPages::free(std::uint32_t index) {
  pages_[index].allocated = false;
  std::erase(allocated_, index);
  numbers_.give_back(index);
}

UarPage* UarPages::find(std::uint32_t index) {
  return index < pages_.size() && pages_[index].allocated ? &pages_[index] : nullptr;
}

std::uint64_t UarPages::take64(std::uint32_t index, std::uint32_t offset_bytes) {
  return be64toh(take<std::uint64_t>(page(index), offset_bytes));
}

std::uint32_t UarPages::take32(std::uint32_t index, std::uint32_t offset_bytes) {
  return be32toh(take<std::uint32_t>(page(index), offset_bytes));
}

bool UarPages::waits(std::uint32_t index) const {
  std::byte* const from = page(index);
  bool found = word_at<std::uint64_t>(from, kCqArmOffset).load(std::memory_order_relaxed) != 0 ||
               word_at<std::uint32_t>(from, kEqArmOffset).load(std::memory_order_relaxed) != 0 ||
               word_at<std::uint32_t>(from, kEqConsumerOffset).load(std::memory_order_relaxed) != 0;
  for (std::uint32_t i = 0; i < kSendDoorbells; ++i) {
    found =
        found ||
        word_at<std::uint64_t>(from, kSendDoorbellOffset + i * kSendDoorbellStride).load(std::memory_order_relaxed) !=
            0;
  }
  return found;
}

}  // namespace softhca::hca
