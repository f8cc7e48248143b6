// Pages of the device in this process: how the kernel encodes what is to be mapped, and who unmaps it.
// Commands: enum mlx5_ib_mmap_cmd of <rdma/mlx5-abi.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "uapi/channel.h"
#include "uapi/error.h"

namespace umlx5::uapi {

// Unmaps what it holds when it goes. The channel must outlive it. Not for use by two threads at once.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Channel& channel, std::byte* address, std::size_t length_bytes)
      : channel_(&channel), address_(address), length_bytes_(length_bytes) {}
  Mapping(Mapping&& other) noexcept { swap(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    Mapping taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Mapping();

  std::byte* address() const { return address_; }
  std::size_t length_bytes() const { return length_bytes_; }
  explicit operator bool() const { return address_ != nullptr; }

 private:
  void swap(Mapping& other) noexcept {
    std::swap(channel_, other.channel_);
    std::swap(address_, other.address_);
    std::swap(length_bytes_, other.length_bytes_);
  }

  Channel* channel_ = nullptr;
  std::byte* address_ = nullptr;
  std::size_t length_bytes_ = 0;
};

std::size_t page_bytes();

// Offset for mmap() that asks for page `index` of `command`. An index above 255 continues above the command.
std::uint64_t mmap_offset_bytes(unsigned command, std::uint32_t index, std::size_t page_size_bytes);

// Maps `length_bytes` of `offset_bytes`; `name` says in an error what was asked for.
Expected<Mapping> map(Channel& channel, std::size_t length_bytes, int protection, std::uint64_t offset_bytes,
                      std::string_view name);

// The page with the device's free-running clock, read-only. The clock is 8 big-endian bytes, high word first, at
// hca_core_clock_offset modulo the page size; read again until the high word is the same twice.
Expected<Mapping> map_core_clock(Channel& channel);

// The page with struct mlx5_ib_clock_info, read-only. The kernel changes it while `sign` is odd.
Expected<Mapping> map_clock_info(Channel& channel);

}  // namespace umlx5::uapi
