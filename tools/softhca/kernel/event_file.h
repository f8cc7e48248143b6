// A file descriptor from which a program reads event records: of a completion channel, of asynchronous events, or of a
// DEVX event channel.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <span>

namespace softhca::kernel {

// The program owns the descriptor that open() makes: it reads one whole record by each read(), polls it, sets its flags
// and closes it, as with the kernel's. Records that do not fit into the descriptor's queue wait here.
// Not thread-safe: the event hub's lock is held around every call.
class EventFile {
 public:
  static constexpr std::size_t kMostRecordBytes = 72;

  // `object_type`: UVERBS_OBJECT_* or MLX5_IB_OBJECT_*. Errno on failure.
  static std::expected<std::shared_ptr<EventFile>, int> open(std::uint16_t object_type, std::size_t record_bytes);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // The program's descriptor number.
  int fd() const { return user_fd_; }
  std::uint16_t object_type() const { return object_type_; }
  std::size_t record_bytes() const { return record_bytes_; }
  // True if the number still names the file that open() made.
  bool still_open() const;

  // Queues the first record_bytes() of a record for the program. `tag` tells whose record it is, for take_back().
  // False, and the record is dropped, if the program has closed the file.
  bool push(std::uint64_t tag, std::span<const std::byte> record);

  // Removes the records of `tag` that the program has not read; returns how many there were.
  std::uint32_t take_back(std::uint64_t tag);

  // Moves waiting records on; true if some still wait.
  bool flush();

  // Closes the program's descriptor if it is still the same file: for a request that fails after open().
  void close_user_fd();

 private:
  struct Record {
    std::uint64_t tag;
    std::array<std::byte, kMostRecordBytes> bytes;
  };
  EventFile(int own_fd, int user_fd, std::uint16_t object_type, std::size_t record_bytes);

  int own_fd_;
  int user_fd_;
  ino_t user_inode_ = 0;
  std::uint16_t object_type_;
  std::size_t record_bytes_;
  bool closed_ = false;
  std::deque<Record> sent_;     // in the descriptor's queue, oldest first; some of them may have been read
  std::deque<Record> waiting_;  // not yet in it
};

}  // namespace softhca::kernel
