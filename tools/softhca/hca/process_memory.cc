#include "tools/softhca/hca/process_memory.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "tools/softhca/hca/guarded_access.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace softhca::hca {
namespace {

// Handlers for faults that are not the device's. A handler may run on any thread at any time, so a change of them is a
// new one of these, and the old ones stay.
struct Previous {
  struct sigaction segv {
  }, bus{};
  const Previous* older = nullptr;
};
std::mutex change;
std::atomic<const Previous*> previous{nullptr};
std::atomic<bool> installed{false};  // the device's handlers

void chain(const struct sigaction& next, int signal_number, siginfo_t* info, void* context) {
  if ((next.sa_flags & SA_SIGINFO) != 0) {
    next.sa_sigaction(signal_number, info, context);
    return;
  }
  if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
    next.sa_handler(signal_number);
    return;
  }
  // The default action: back to the faulting instruction without a handler, so that a core dump shows the right place.
  // All zero is SIG_DFL. Not by sigaction(), which may have been interposed.
  constexpr std::size_t kSignalSetBytes = 8;
  constexpr std::uint64_t kDefault[4] = {};
  syscall(SYS_rt_sigaction, signal_number, kDefault, nullptr, kSignalSetBytes);
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
  const Previous& next = *previous.load(std::memory_order_acquire);
  chain(signal_number == SIGBUS ? next.bus : next.segv, signal_number, info, context);
}

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    auto* const found = new Previous;
    sigaction(SIGSEGV, nullptr, &found->segv);
    sigaction(SIGBUS, nullptr, &found->bus);
    previous.store(found, std::memory_order_release);
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    installed.store(true, std::memory_order_release);
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

bool program_sigaction(int signal_number, const struct sigaction* action, struct sigaction* old) {
  if (!installed.load(std::memory_order_acquire)) {
    return false;
  }
  const std::lock_guard lock(change);
  const Previous* const current = previous.load(std::memory_order_relaxed);
  Previous next = *current;
  next.older = current;
  struct sigaction& handler = signal_number == SIGBUS ? next.bus : next.segv;
  const struct sigaction before = handler;
  if (action != nullptr) {
    handler = *action;
    previous.store(new Previous(next), std::memory_order_release);
  }
  if (old != nullptr) {
    *old = before;
  }
  return true;
}

}  // namespace softhca::hca
