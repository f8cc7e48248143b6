// Checked access to the memory of the process that makes requests: a bad address is an answer, not a crash.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace softhca::kernel {

// While it lives, the requests that this thread executes are another process's, and so are the addresses in them. The
// device cannot reach that process's memory: whatever it would have to is refused with EIO.
class RequestsOfProcess {
 public:
  explicit RequestsOfProcess(pid_t pid);
  ~RequestsOfProcess();
  RequestsOfProcess(const RequestsOfProcess&) = delete;
  RequestsOfProcess& operator=(const RequestsOfProcess&) = delete;
};
bool is_request_of_another_process();

// Copies `bytes` bytes; false (nothing is then promised about the destination) if part of the range is not mapped or
// not readable respectively writable. Zero bytes always succeed. Thread-safe.
bool copy_from_user(void* to, std::uint64_t from, std::size_t bytes);
bool copy_to_user(std::uint64_t to, const void* from, std::size_t bytes);
bool clear_user(std::uint64_t to, std::size_t bytes);

// What the kernel's pinning of [address, address + bytes) would say, with its side effect of populating the pages: 0,
// EINVAL if the range wraps around, EFAULT if a page is not mapped or, with `writable`, not writable, EIO if it is
// another process's.
int pin_user_memory(std::uint64_t address, std::uint64_t bytes, bool writable);

// A buffer as a device's page list: equal pages, the first one entered at `offset_bytes`.
struct PageRun {
  std::vector<std::uint64_t> addresses;
  std::uint8_t log_page_bytes = 12;
  std::uint64_t offset_bytes = 0;
};

// Pages for a queue's buffer, whose offset the device takes in 1/64 of a page, in a field of `offset_bits`: as few as
// that allows. Empty `addresses` if the address is not a multiple of 64. `bytes` is not 0.
PageRun queue_pages(std::uint64_t address, std::uint64_t bytes, unsigned offset_bits = 6);

// The same in pages of one size, 2^log_page_bytes.
PageRun pages_of(std::uint64_t address, std::uint64_t bytes, std::uint8_t log_page_bytes);

// Pages for memory that is known to the device as [iova, iova + bytes): as few as the difference allows. The two agree
// in their low 12 bits. `bytes` may be 0.
PageRun region_pages(std::uint64_t address, std::uint64_t iova, std::uint64_t bytes);

}  // namespace softhca::kernel
