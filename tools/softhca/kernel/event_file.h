// A file descriptor from which a program reads event records: an asynchronous event file or a completion channel.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <memory>

namespace softhca::kernel {

// The program owns the descriptor that open() makes: it reads one whole record by each read(), polls it, sets its flags
// and closes it, as with the kernel's. Records that do not fit into the descriptor's queue wait here.
// Not thread-safe: the event hub's lock is held around every call.
class EventFile {
 public:
  // `record_bytes` is 8 (completion channel) or 16 (asynchronous events). Errno on failure.
  static std::expected<std::shared_ptr<EventFile>, int> open(std::size_t record_bytes);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // The program's descriptor number.
  int fd() const { return user_fd_; }
  bool is_completion_channel() const { return record_bytes_ == kCompletionBytes; }
  // True if the number still names the file that open() made.
  bool still_open() const;

  // Queues a record for the program. `tag` tells whose record it is, for take_back(). False, and the record is dropped,
  // if the program has closed the file.
  bool push(std::uint64_t tag, const std::array<std::byte, 16>& record);

  // Removes the records of `tag` that the program has not read; returns how many there were.
  std::uint32_t take_back(std::uint64_t tag);

  // Moves waiting records on; true if some still wait.
  bool flush();

  // Closes the program's descriptor if it is still the same file: for a request that fails after open().
  void close_user_fd();

 private:
  static constexpr std::size_t kCompletionBytes = 8;
  struct Record {
    std::uint64_t tag;
    std::array<std::byte, 16> bytes;
  };
  EventFile(int own_fd, int user_fd, std::size_t record_bytes);

  int own_fd_;
  int user_fd_;
  ino_t user_inode_ = 0;
  std::size_t record_bytes_;
  bool closed_ = false;
  std::deque<Record> sent_;     // in the descriptor's queue, oldest first; some of them may have been read
  std::deque<Record> waiting_;  // not yet in it
};

}  // namespace softhca::kernel
