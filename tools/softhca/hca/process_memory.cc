#include "tools/softhca/hca/process_memory.h"

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace softhca::hca {
namespace {

// Set while this thread is inside a guarded access.
thread_local volatile bool guarded = false;
thread_local sigjmp_buf resume;

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

void on_fault(int signal_number, siginfo_t* info, void* context) {
  if (guarded) {
    guarded = false;
    siglongjmp(resume, 1);
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

// Runs `access`, which only touches memory; false if that faulted. siglongjmp skips no destructor: `access` owns
// nothing. The signal mask needs no restoring, since SA_NODEFER leaves it as it is.
template <typename Access>
bool survives(Access access) {
  if (sigsetjmp(resume, 0) != 0) {
    return false;
  }
  guarded = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  access();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guarded = false;
  return true;
}

// The device copies bytes that an application may be writing or may have freed at that moment, as hardware does. That
// is the application's choice: sanitizers must not take it for a fault of the device.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SOFTHCA_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SOFTHCA_SANITIZED 1
#endif
#endif

#ifdef SOFTHCA_SANITIZED
#define SOFTHCA_UNSANITIZED \
  __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"), noinline))
SOFTHCA_UNSANITIZED void copy_bytes(volatile std::byte* to, const volatile std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    to[i] = from[i];
  }
}
#else
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
#endif

template <typename T>
T* pointer(std::uint64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));  // NOLINT: a DMA address is a virtual one
}

bool aligned(std::uint64_t address, std::size_t bytes) { return address % bytes == 0; }

}  // namespace

ProcessMemory::ProcessMemory() { install_once(); }

bool ProcessMemory::read(std::uint64_t address, std::span<std::byte> to) {
  return survives([&] { copy_bytes(to.data(), pointer<const std::byte>(address), to.size()); });
}

bool ProcessMemory::write(std::uint64_t address, std::span<const std::byte> from) {
  return survives([&] { copy_bytes(pointer<std::byte>(address), from.data(), from.size()); });
}

std::optional<std::uint32_t> ProcessMemory::load32(std::uint64_t address) {
  std::uint32_t value = 0;
  if (!aligned(address, sizeof value) ||
      !survives([&] { value = __atomic_load_n(pointer<const std::uint32_t>(address), __ATOMIC_ACQUIRE); })) {
    return std::nullopt;
  }
  return value;
}

bool ProcessMemory::store8(std::uint64_t address, std::uint8_t value) {
  return survives([&] { __atomic_store_n(pointer<std::uint8_t>(address), value, __ATOMIC_RELEASE); });
}

std::optional<std::uint64_t> ProcessMemory::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                         std::uint64_t swap) {
  if (!aligned(address, sizeof compare) || !survives([&] {
        __atomic_compare_exchange_n(pointer<std::uint64_t>(address), &compare, swap, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
      })) {
    return std::nullopt;
  }
  return compare;  // the value found, also when it was equal
}

std::optional<std::uint64_t> ProcessMemory::fetch_add(std::uint64_t address, std::uint64_t add) {
  std::uint64_t before = 0;
  if (!aligned(address, sizeof add) ||
      !survives([&] { before = __atomic_fetch_add(pointer<std::uint64_t>(address), add, __ATOMIC_ACQ_REL); })) {
    return std::nullopt;
  }
  return before;
}

}  // namespace softhca::hca
