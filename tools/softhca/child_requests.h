// Requests of children made by fork() to files that the parent opened: the device stays with the parent, which answers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "uapi/error.h"

namespace softhca {

enum class ChildRequestKind : std::uint8_t { kIoctl, kWrite, kMemoryToMap, kAttribute };

// What a child asks. Addresses are the child's own.
struct ChildRequest {
  ChildRequestKind kind = ChildRequestKind::kIoctl;
  std::uint64_t file = 0;  // which of the device's files: the same number in parent and child
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of a mapping
  std::int32_t protection = 0;
  pid_t pid = 0;
};

struct ChildAnswer {
  int error = 0;  // errno
  std::uint64_t value = 0;
};

// One side is the process that made it, with a thread that waits for requests; the other are its children, and theirs.
class ChildRequests {
 public:
  // Errno if the kernel gives no descriptors.
  static umlx5::Expected<std::unique_ptr<ChildRequests>> start(std::function<ChildAnswer(const ChildRequest&)> serve);
  // In the process that made it: no request is served after this.
  ~ChildRequests();
  ChildRequests(const ChildRequests&) = delete;
  ChildRequests& operator=(const ChildRequests&) = delete;

  // In a child: what the parent answers; EIO if it is gone. Thread-safe. `request.pid` is filled in.
  ChildAnswer ask(ChildRequest request) const;

 private:
  ChildRequests(std::function<ChildAnswer(const ChildRequest&)> serve, int server_fd, int client_fd, int process_fd);
  void run() const;

  std::function<ChildAnswer(const ChildRequest&)> serve_;
  const int server_fd_, client_fd_;
  const int process_fd_;  // readable once the parent has ended; -1 where there are no such descriptors (valgrind)
  const pid_t owner_;
  std::thread thread_;
};

}  // namespace softhca
