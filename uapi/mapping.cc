#include "uapi/mapping.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>
#include <unistd.h>

namespace umlx5::uapi {

Mapping::~Mapping() {
  if (address_ != nullptr) channel_->munmap(address_, length_bytes_);
}

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::uint64_t mmap_offset_bytes(unsigned command, std::uint32_t index, std::size_t page_size_bytes) {
  const std::uint64_t page = std::uint64_t{index >> 8} << 16 | std::uint64_t{command} << 8 | (index & 0xff);
  return page * page_size_bytes;
}

Expected<Mapping> map(Channel& channel, std::size_t length_bytes, int protection, std::uint64_t offset_bytes,
                      std::string_view name) {
  const auto address = channel.mmap(length_bytes, protection, offset_bytes);
  if (!address) {
    return fail(address.error(), fmt::format("mmap of {}: the kernel refused {} bytes at offset {:#x}", name,
                                             length_bytes, offset_bytes));
  }
  return Mapping(channel, *address, length_bytes);
}

Expected<Mapping> map_core_clock(Channel& channel) {
  const std::size_t page = page_bytes();
  return map(channel, page, PROT_READ, mmap_offset_bytes(MLX5_IB_MMAP_CORE_CLOCK, 0, page), "the core clock page");
}

Expected<Mapping> map_clock_info(Channel& channel) {
  const std::size_t page = page_bytes();
  return map(channel, page, PROT_READ, mmap_offset_bytes(MLX5_IB_MMAP_CLOCK_INFO, MLX5_IB_CLOCK_INFO_V1, page),
             "the clock info page");
}

}  // namespace umlx5::uapi
