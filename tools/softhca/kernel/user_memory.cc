#include "tools/softhca/kernel/user_memory.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace softhca::kernel {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint8_t kMinLogPage = 12;
constexpr std::uint8_t kMaxLogQueuePage = 31, kMaxLogRegionPage = 47;  // what the device takes
constexpr std::size_t kQueueOffsetUnits = 64;

thread_local pid_t other_process = 0;  // 0: requests are this process's own

pid_t user_process() { return other_process != 0 ? other_process : ::getpid(); }

iovec range(std::uint64_t address, std::size_t bytes) {
  return {reinterpret_cast<void*>(address), bytes};  // NOLINT(performance-no-int-to-ptr): a process address
}

bool fits_one_page(std::uint64_t address, std::uint64_t bytes, std::uint8_t log_page) {
  return bytes == 0 || address >> log_page == (address + bytes - 1) >> log_page;
}

}  // namespace

RequestsOfProcess::RequestsOfProcess(pid_t pid) { other_process = pid; }

RequestsOfProcess::~RequestsOfProcess() { other_process = 0; }

bool is_request_of_another_process() { return other_process != 0; }

bool copy_from_user(void* to, std::uint64_t from, std::size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = range(from, bytes);
  return bytes == 0 || ::process_vm_readv(user_process(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool copy_to_user(std::uint64_t to, const void* from, std::size_t bytes) {
  const iovec local = {const_cast<void*>(from), bytes};
  const iovec remote = range(to, bytes);
  return bytes == 0 || ::process_vm_writev(user_process(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool clear_user(std::uint64_t to, std::size_t bytes) {
  static constexpr std::array<std::byte, 512> kZeros{};
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, kZeros.size());
    if (!copy_to_user(to, kZeros.data(), part)) {
      return false;
    }
    to += part;
    bytes -= part;
  }
  return true;
}

int pin_user_memory(std::uint64_t address, std::uint64_t bytes, bool writable) {
  const std::uint64_t end = address + bytes;
  if (end < address || end > ~(kPageBytes - 1)) {
    return EINVAL;
  }
  if (is_request_of_another_process()) {
    return EIO;
  }
  const std::uint64_t first = address & ~(kPageBytes - 1);
  const std::uint64_t length = ((end + kPageBytes - 1) & ~(kPageBytes - 1)) - first;
  if (length == 0) {
    return EINVAL;
  }
  void* const start = reinterpret_cast<void*>(first);  // NOLINT(performance-no-int-to-ptr): a process address
  return ::madvise(start, length, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0 ? 0 : EFAULT;
}

PageRun pages_of(std::uint64_t address, std::uint64_t bytes, std::uint8_t log_page) {
  const std::uint64_t page = std::uint64_t{1} << log_page;
  PageRun run{.addresses = {}, .log_page_bytes = log_page, .offset_bytes = 0};
  run.offset_bytes = address & (page - 1);
  const std::uint64_t first = address & ~(page - 1);
  const std::uint64_t count = (run.offset_bytes + bytes + page - 1) >> log_page;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(count, 1); ++i) {
    run.addresses.push_back(first + (i << log_page));
  }
  return run;
}

PageRun queue_pages(std::uint64_t address, std::uint64_t bytes, unsigned offset_bits) {
  // A page of 2^n bytes can start the buffer if the address is a multiple of 2^n / 64.
  std::uint8_t log_page = 0;
  for (std::uint8_t log = kMinLogPage; log <= kMaxLogQueuePage; ++log) {
    if ((address & ((std::uint64_t{1} << log) / kQueueOffsetUnits - 1)) != 0) {
      break;
    }
    const std::uint64_t offset_units = (address & ((std::uint64_t{1} << log) - 1)) / ((1u << log) / kQueueOffsetUnits);
    if (offset_units >> offset_bits != 0) {
      continue;
    }
    log_page = log;
    if (fits_one_page(address, bytes, log)) {
      break;
    }
  }
  return log_page == 0 ? PageRun{} : pages_of(address, bytes, log_page);
}

PageRun region_pages(std::uint64_t address, std::uint64_t iova, std::uint64_t bytes) {
  std::uint8_t log_page = kMinLogPage;
  while (log_page < kMaxLogRegionPage && !fits_one_page(address, bytes, log_page) &&
         ((address ^ iova) >> log_page & 1) == 0) {
    ++log_page;
  }
  return pages_of(address, bytes, log_page);
}

}  // namespace softhca::kernel
