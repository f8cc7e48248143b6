// The device as its kernel driver sees it: commands, UAR pages, doorbells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <vector>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace softhca::kernel {

// All members are thread-safe.
class Firmware {
 public:
  virtual ~Firmware() = default;

  // One PRM command: `in` and `out` are the mailboxes as the device reads and writes them.
  virtual void execute(std::span<const std::byte> in, std::span<std::byte> out) = 0;

  // Mappings for a program of what is in the device's BAR, with mmap()'s protection; munmap() ends them. Errno.
  // An allocated UAR page:
  virtual std::expected<std::byte*, int> map_uar(std::uint32_t index, int protection) = 0;
  // Whole pages of memory on the device:
  virtual std::expected<std::byte*, int> map_memic(std::uint64_t address, std::size_t bytes, int protection) = 0;
  // The page in which the device's clock is read, at its first 8 bytes, most significant first:
  virtual std::expected<std::byte*, int> map_clock() = 0;

  // Rings a doorbell of a UAR page: the 8 bytes at `offset_bytes` become `value_big_endian`, most significant first.
  virtual void ring(std::uint32_t uar_index, std::uint32_t offset_bytes, std::uint64_t value_big_endian) = 0;
};

// errno of a command that the device refuses, as mlx5_core translates it; 0 for kOk.
int errno_of(umlx5::wqe::prm::Status status);

// Executes `in` and logs a refusal in words: errno.
int execute_checked(Firmware& firmware, std::span<const std::byte> in, std::span<std::byte> out);

// Executes a typed command. `pages` are put where page addresses belong, at `pages_offset`. Errno if the device
// refuses.
template <umlx5::wqe::Structure Out, umlx5::wqe::Structure In>
std::expected<Out, int> command(Firmware& firmware, const In& in, std::span<const std::uint64_t> pages = {},
                                std::size_t pages_offset = umlx5::wqe::prm::kPageAddressOffset) {
  const std::size_t page_list_end = pages_offset + pages.size() * 8;
  std::vector<std::byte> request(pages.empty() ? In::kBytes : page_list_end);
  umlx5::wqe::store(request.data(), in);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    umlx5::wqe::internal::store_word(request.data() + pages_offset + i * 8, pages[i]);
  }
  std::vector<std::byte> reply(Out::kBytes);
  if (const int error = execute_checked(firmware, request, reply); error != 0) {
    return std::unexpected(error);
  }
  return umlx5::wqe::load<Out>(reply.data());
}

// ALLOC_* without parameters: the object's number.
std::expected<std::uint32_t, int> allocate(Firmware& firmware, umlx5::wqe::prm::Opcode opcode, std::uint16_t uid);

// DESTROY_*, DEALLOC_*, 2ERR_QP and 2RST_QP: 0 or errno.
int command_on_object(Firmware& firmware, umlx5::wqe::prm::Opcode opcode, std::uint16_t uid, std::uint32_t number);

}  // namespace softhca::kernel
