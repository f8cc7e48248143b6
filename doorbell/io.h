// How this CPU stores to memory that a device reads, and to a device's registers: barriers and single stores.
//
// The rules of posting (rdma-core util/udma_barrier.h states them for every CPU):
//   WQE stores, to_device(), doorbell record store, before_register(), register store(s), flush_register().
// and of polling: read the owner bit, from_device(), read the rest of the CQE.
//
// NativeIo is this machine's. What rings doorbells takes the policy as a template parameter, so that a test can put a
// recorder in its place; IoPolicy names all that a CPU must define, so none can leave one out.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "wqe/byteorder.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__SANITIZE_THREAD__)
#define UMLX5_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UMLX5_THREAD_SANITIZER 1
#endif
#endif

namespace umlx5::doorbell {

template <typename Io>
concept IoPolicy = requires(wqe::Be32* word, wqe::Be64* cell, std::byte* to, const std::byte* from) {
  { Io::to_device() } -> std::same_as<void>;
  { Io::from_device() } -> std::same_as<void>;
  { Io::before_register() } -> std::same_as<void>;
  { Io::flush_register() } -> std::same_as<void>;
  { Io::store(word, wqe::Be32{}) } -> std::same_as<void>;
  { Io::store(cell, wqe::Be64{}) } -> std::same_as<void>;
  { Io::copy_block(to, from) } -> std::same_as<void>;
};

// Bytes that copy_block() moves: a BlueFlame unit, and a cache line of write combining on the CPUs below.
inline constexpr std::size_t kBlockBytes = 64;

#if defined(__x86_64__)

struct NativeBarriers {
  // Earlier stores to memory become visible to the device before later stores to memory. x86-64 keeps stores to
  // ordinary memory in order, so only the compiler has to be held.
  static void to_device() { asm volatile("" ::: "memory"); }

  // Later loads from memory are done after earlier ones. x86-64 keeps loads from ordinary memory in order, and a
  // device's writes arrive in order: only the compiler.
  static void from_device() { asm volatile("" ::: "memory"); }

  // Earlier stores to memory become visible to the device before later stores to a register. The register may be
  // mapped write-combining, whose stores may overtake others: sfence.
  static void before_register() { asm volatile("sfence" ::: "memory"); }

  // Earlier stores to a register leave the write-combining buffer now, before any later ones: sfence.
  static void flush_register() { asm volatile("sfence" ::: "memory"); }
};

#elif defined(__aarch64__)

struct NativeBarriers {
  // Stores may be seen in any order: dmb, for stores, and outer shareable since the device is no CPU.
  static void to_device() { asm volatile("dmb oshst" ::: "memory"); }

  // Loads may be done in any order: dmb, for loads, outer shareable.
  static void from_device() { asm volatile("dmb oshld" ::: "memory"); }

  // Earlier stores must have completed, not only be ordered, before a register on another interconnect is written: dsb.
  static void before_register() { asm volatile("dsb st" ::: "memory"); }

  // Pushes gathered stores out of the write-combining buffer: dsb.
  static void flush_register() { asm volatile("dsb st" ::: "memory"); }
};

#else
#error "doorbell/io.h: define NativeBarriers for this CPU (all four barriers)"
#endif

static_assert(sizeof(void*) == 8, "a doorbell is a single 8-byte store; 32-bit CPUs would have to lock around two");

struct NativeIo : NativeBarriers {
  // One store each, never split and never merged by the compiler; ordered only by the barriers above. ThreadSanitizer
  // does not see those, so for it the store itself says that it comes after what it announces.
#if defined(UMLX5_THREAD_SANITIZER)
  static constexpr int kOrder = __ATOMIC_RELEASE;
#else
  static constexpr int kOrder = __ATOMIC_RELAXED;
#endif
  static void store(wqe::Be32* to, wqe::Be32 value) {
    __atomic_store_n(reinterpret_cast<volatile std::uint32_t*>(to), value.raw(), kOrder);
  }
  static void store(wqe::Be64* to, wqe::Be64 value) {
    __atomic_store_n(reinterpret_cast<volatile std::uint64_t*>(to), value.raw(), kOrder);
  }

  // kBlockBytes from `from` to `to`, both so aligned, with the widest stores there are and nothing between them: a
  // write-combining buffer that is filled without a gap goes out as one packet. Order within the block is open.
  static void copy_block(std::byte* to, const std::byte* from) {
#if defined(UMLX5_THREAD_SANITIZER)
    // The device may be a thread of this process; ThreadSanitizer knows only atomic stores.
    for (std::size_t i = 0; i < kBlockBytes; i += 8) {
      std::uint64_t word;
      __builtin_memcpy(&word, from + i, sizeof word);
      __atomic_store_n(reinterpret_cast<volatile std::uint64_t*>(to + i), word, __ATOMIC_RELAXED);
    }
#elif defined(__AVX512F__)
    _mm512_store_si512(to, _mm512_load_si512(from));
#elif defined(__x86_64__)
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1);
    const __m128i c = _mm_load_si128(source + 2), d = _mm_load_si128(source + 3);
    _mm_store_si128(target, a);
    _mm_store_si128(target + 1, b);
    _mm_store_si128(target + 2, c);
    _mm_store_si128(target + 3, d);
#elif defined(__aarch64__)
    std::uint64_t a, b;
    asm volatile(
        "ldp %[a], %[b], [%[from]]\n stp %[a], %[b], [%[to]]\n"
        "ldp %[a], %[b], [%[from], 16]\n stp %[a], %[b], [%[to], 16]\n"
        "ldp %[a], %[b], [%[from], 32]\n stp %[a], %[b], [%[to], 32]\n"
        "ldp %[a], %[b], [%[from], 48]\n stp %[a], %[b], [%[to], 48]\n"
        : [a] "=&r"(a), [b] "=&r"(b)
        : [from] "r"(from), [to] "r"(to)
        : "memory");
#else
#error "doorbell/io.h: define copy_block for this CPU"
#endif
  }
};
static_assert(IoPolicy<NativeIo>);

}  // namespace umlx5::doorbell
