#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "driver/verbs/fork_ranges.h"
#include "uapi/netlink_devices.h"

namespace umlx5::verbs {
namespace {

// How often each address was asked to stay out of children: from each key on to the next, that many times. Adjacent
// parts with the same count are one; beyond the last key the count is 0.
class ForkRanges {
 public:
  // 0 or errno. A protection that fails changes nothing.
  int change(std::uintptr_t start, std::uintptr_t end, int by) {
    const std::lock_guard lock(mutex_);
    split(start);
    split(end);
    int error = 0;
    auto part = counts_.find(start);
    for (; part->first != end && error == 0; ++part) {
      const int before = part->second;
      part->second = before + by < 0 ? 0 : before + by;
      if ((before == 0) != (part->second == 0)) {
        error = advise(part->first, std::next(part)->first, part->second != 0);
      }
    }
    if (error != 0 && by > 0) {
      take_back(start, part);
    }
    join(start, end);
    return error;
  }

 private:
  using Counts = std::map<std::uintptr_t, int>;

  void split(std::uintptr_t at) {
    const auto after = counts_.upper_bound(at);
    counts_.emplace(at, after == counts_.begin() ? 0 : std::prev(after)->second);
  }

  void join(std::uintptr_t start, std::uintptr_t end) {
    for (auto part = counts_.find(start); part != counts_.end() && part->first <= end;) {
      const int before = part == counts_.begin() ? 0 : std::prev(part)->second;
      part = part->second == before ? counts_.erase(part) : std::next(part);
    }
  }

  // Undoes a protection that failed at the part before `failed`.
  void take_back(std::uintptr_t start, Counts::iterator failed) {
    for (auto part = counts_.find(start); part != failed; ++part) {
      if (--part->second == 0 && std::next(part) != failed) {
        advise(part->first, std::next(part)->first, false);
      }
    }
  }

  static int advise(std::uintptr_t start, std::uintptr_t end, bool keep_out) {
    const int advice = keep_out ? MADV_DONTFORK : MADV_DOFORK;
    return ::madvise(reinterpret_cast<void*>(start), end - start, advice) == 0 ? 0 : errno;
  }

  std::mutex mutex_;
  Counts counts_;
};

struct ForkState {
  std::atomic<ForkRanges*> ranges = nullptr;  // there once ibv_fork_init() was called
  std::atomic<bool> too_late = false;         // memory was registered before that
  std::atomic<bool> huge_pages = false;       // RDMAV_HUGEPAGES_SAFE
};
ForkState state;

// Kernels from 5.12 on copy pinned pages for the child. Asked once.
bool kernel_copies() {
  static const bool copies = uapi::kernel_copies_on_fork();
  return copies;
}

// "Size: 2048 kB" after the mapping's line; in bytes.
std::uintptr_t page_size_in(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) {
    return 0;
  }
  line.remove_prefix(line.find_first_not_of(' ', name.size()));
  std::uintptr_t kilobytes = 0;
  std::from_chars(line.data(), line.data() + line.size(), kilobytes);
  return kilobytes * 1024;
}

// Of the mapping that holds `address`, from /proc/self/smaps.
std::uintptr_t mapped_page_size(std::uintptr_t address, std::uintptr_t otherwise) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    const char* const stop = line.data() + line.size();
    const auto first = std::from_chars(line.data(), stop, start, 16);
    if (first.ec == std::errc{} && first.ptr != stop && *first.ptr == '-') {
      std::from_chars(first.ptr + 1, stop, end, 16);
      inside = start <= address && address < end;
    } else if (const auto size = inside ? page_size_in(line, "KernelPageSize:") : 0; size != 0) {
      return size;
    }
  }
  return otherwise;
}

int change_range(void* base, std::size_t bytes, int by) {
  ForkRanges* ranges = state.ranges.load();
  if (ranges == nullptr || bytes == 0) {
    return 0;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (state.huge_pages.load()) {
    page = mapped_page_size(address, page);
  }
  const std::uintptr_t start = address & ~(page - 1);
  const std::uintptr_t end = (address + bytes + page - 1) & ~(page - 1);
  if (end <= start) {
    errno = EINVAL;
    return -1;
  }
  errno = ranges->change(start, end, by);
  return errno == 0 ? 0 : -1;
}

int init() {
  if (std::getenv("RDMAV_HUGEPAGES_SAFE") != nullptr) {
    state.huge_pages.store(true);
  }
  if (state.ranges.load() != nullptr || kernel_copies()) {
    return 0;
  }
  if (state.too_late.load()) {
    return EINVAL;
  }
  auto* ranges = new ForkRanges;  // for the life of the process
  ForkRanges* none = nullptr;
  if (!state.ranges.compare_exchange_strong(none, ranges)) {
    delete ranges;
  }
  return 0;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5::verbs;

extern "C" {

int ibv_fork_init() { return init(); }

ibv_fork_status ibv_is_fork_initialized() {
  if (kernel_copies()) {
    return IBV_FORK_UNNEEDED;
  }
  return state.ranges.load() != nullptr ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

int ibv_dontfork_range(void* base, size_t size) {
  if (state.ranges.load() == nullptr) {
    state.too_late.store(true);
  }
  return change_range(base, size, 1);
}

int ibv_dofork_range(void* base, size_t size) { return change_range(base, size, -1); }

}  // extern "C"
