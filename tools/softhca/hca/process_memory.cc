#include "tools/softhca/hca/process_memory.h"

#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <mutex>

#include "tools/softhca/hca/guarded_access.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace softhca::hca {
namespace {

struct sigaction previous_segv;
struct sigaction previous_bus;

void chain(const struct sigaction& previous, int signal_number, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal_number, info, context);
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal_number);
    return;
  }
  // The default action: back to the faulting instruction without a handler, so that a core dump shows the right place.
  struct sigaction fallback {};
  fallback.sa_handler = SIG_DFL;
  sigaction(signal_number, &fallback, nullptr);
}

// The program counter of the instruction that faulted.
auto& program_counter(void* context) {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return machine.gregs[REG_RIP];
#else
  return machine.pc;
#endif
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
  const auto at = static_cast<std::uintptr_t>(program_counter(context));
  if (at >= reinterpret_cast<std::uintptr_t>(softhca_guarded_begin) &&
      at < reinterpret_cast<std::uintptr_t>(softhca_guarded_end)) {
    program_counter(context) = reinterpret_cast<std::intptr_t>(softhca_guarded_failed);
    return;
  }
  chain(signal_number == SIGBUS ? previous_bus : previous_segv, signal_number, info, context);
}

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));  // NOLINT: a DMA address is a virtual one
}

// ThreadSanitizer does not see what is in assembly: these tell it of the order that the accesses make between the
// program's threads, by way of the device's. They must not be told of memory that is not there.
#if defined(__SANITIZE_THREAD__)
bool announce_release(void* at) {
  std::byte there{};
  if (!softhca_guarded_copy(&there, at, sizeof there)) {
    return false;
  }
  __tsan_release(at);
  return true;
}
void announce_acquire(void* at) { __tsan_acquire(at); }
#else
bool announce_release(void*) { return true; }
void announce_acquire(void*) {}
#endif

bool aligned(std::uint64_t address, std::size_t bytes) { return address % bytes == 0; }

}  // namespace

ProcessMemory::ProcessMemory() { install_once(); }

bool ProcessMemory::read(std::uint64_t address, std::span<std::byte> to) {
  return softhca_guarded_copy(to.data(), pointer(address), to.size());
}

bool ProcessMemory::write(std::uint64_t address, std::span<const std::byte> from) {
  return softhca_guarded_copy(pointer(address), from.data(), from.size());
}

std::optional<std::uint32_t> ProcessMemory::load32(std::uint64_t address) {
  std::uint32_t value = 0;
  if (!aligned(address, sizeof value) || !softhca_guarded_load32(pointer(address), &value)) {
    return std::nullopt;
  }
  announce_acquire(pointer(address));
  return value;
}

bool ProcessMemory::store8(std::uint64_t address, std::uint8_t value) {
  return announce_release(pointer(address)) && softhca_guarded_store8(pointer(address), value);
}

std::optional<std::uint64_t> ProcessMemory::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                         std::uint64_t swap) {
  std::uint64_t before = 0;
  if (!aligned(address, sizeof before) || !announce_release(pointer(address)) ||
      !softhca_guarded_compare_swap(pointer(address), compare, swap, &before)) {
    return std::nullopt;
  }
  announce_acquire(pointer(address));
  return before;
}

std::optional<std::uint64_t> ProcessMemory::fetch_add(std::uint64_t address, std::uint64_t add) {
  std::uint64_t before = 0;
  if (!aligned(address, sizeof before) || !announce_release(pointer(address)) ||
      !softhca_guarded_fetch_add(pointer(address), add, &before)) {
    return std::nullopt;
  }
  announce_acquire(pointer(address));
  return before;
}

}  // namespace softhca::hca
