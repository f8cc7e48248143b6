// The address space of the own process: DMA addresses are virtual addresses.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tools/softhca/hca/address_space.h"

namespace softhca::hca {

// An application may unmap memory that it registered; hardware would go on using the pinned pages, here an access to
// what is gone (or was never there) fails instead of killing the process. For that the first object installs handlers
// of SIGSEGV and SIGBUS for the process; faults that are not the device's own go on to the handlers found before.
// A program that installs its own handlers later without chaining takes this protection away, unless its calls of
// sigaction() are led to program_sigaction().
// Thread-safe.
class ProcessMemory final : public AddressSpace {
 public:
  ProcessMemory();

  bool read(std::uint64_t address, std::span<std::byte> to) override;
  bool write(std::uint64_t address, std::span<const std::byte> from) override;
  std::optional<std::uint32_t> load32(std::uint64_t address) override;
  bool store8(std::uint64_t address, std::uint8_t value) override;
  std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare, std::uint64_t swap) override;
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override;
};

// What a shim that interposes sigaction() calls for SIGSEGV and SIGBUS: the program's handlers get what are not the
// device's own faults, and the device's stay in front of them. False before the first ProcessMemory: the shim then
// calls libc. Thread-safe.
bool program_sigaction(int signal_number, const struct sigaction* action, struct sigaction* old);

}  // namespace softhca::hca
