// What the benchmarks of the data path share. A case posts or polls so many times while the device is held; it is timed
// by Google Benchmark or, with --instructions N, run N times under `valgrind --tool=callgrind`, which then writes the
// instructions of each case to a file of its own.
//
// The device is a software one whose threads are held while a case runs, and its memory is plain memory: nothing here
// says anything about PCIe, write-combining buffers or a real adapter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace umlx5::bench {

inline constexpr std::uint32_t kQueue = 4096;  // requests of a batch; the queues hold more
inline constexpr std::uint32_t kList = 32;
inline constexpr std::uint32_t kManyQps = 256;
inline constexpr std::uint32_t kColdPosts = 16;
inline constexpr std::size_t kInline = 32;

struct Case {
  const char* name = nullptr;
  std::function<void()> prepare;  // before each batch
  std::function<void(std::uint32_t operations)> run;
  std::uint32_t operations = kQueue;  // of a batch
  std::uint32_t batches = 30;         // of a repetition
  bool on_two_threads = false;        // each of two threads runs half of the operations at the same time
  bool on_cold_caches = false;        // before each batch, nothing of the program's is in a cache
  // Where threads or caches are the point, instructions are not.
  bool counts_instructions() const { return !on_two_threads && !on_cold_caches; }
};

// Ends the program; without `why`, errno says it.
[[noreturn]] void die(const char* what, const char* why = nullptr);

// The program's main(): `make_cases` opens the device.
int run(int argc, char** argv, const std::function<std::vector<Case>()>& make_cases);

}  // namespace umlx5::bench
