// UAR pages: the registers through which software tells the device of work.
//
// A page of 4096 bytes has one arm register for completion queues and several doorbell registers for send queues. Where
// the device has BlueFlame, a doorbell register is a buffer of two halves that takes a whole WQE; the halves take
// turns, so that one may still be going out while the other is filled.
//
// Whether a register may be used without a lock is its type. UarPage hands out each register once, as an
// ExclusiveRegister that can be moved but not copied; who wants several queues on one register turns it into a
// SharedRegister, which locks.
// Source: rdma-core providers/mlx5 (mlx5.c, qp.c, cq.c); Linux include/linux/mlx5/device.h, cq.h.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "doorbell/io.h"
#include "doorbell/record.h"
#include "doorbell/spinlock.h"
#include "wqe/byteorder.h"

namespace umlx5::doorbell {

inline constexpr std::size_t kUarPageBytes = 4096;
inline constexpr std::size_t kUarArmOffset = 0x20;
inline constexpr std::size_t kUarRegistersOffset = 0x800;

// How a page's doorbell registers lie, from kUarRegistersOffset on.
struct UarLayout {
  std::size_t stride_bytes;
  unsigned registers;
  bool has_blueflame;
};

// A page mapped write-combining; `bf_reg_size_bytes` is the device's, both halves, 0 if it has no BlueFlame.
constexpr UarLayout write_combining_layout(std::size_t bf_reg_size_bytes) {
  return bf_reg_size_bytes != 0 ? UarLayout{bf_reg_size_bytes, 2, true} : UarLayout{256, 2, false};
}

// A page mapped uncached: doorbells only.
inline constexpr UarLayout kUncachedLayout{256, 4, false};

// A send queue's ring of WQEBBs: where a WQE that runs over the end goes on.
struct SendRing {
  const std::byte* begin;  // aligned to 64 bytes
  const std::byte* end;    // begin plus a multiple of 64
};

// A doorbell register that belongs to one owner: no lock, and no way to have two of it. Not thread-safe.
// Hot: every member function is a few stores.
template <IoPolicy Io = NativeIo>
class ExclusiveRegister {
 public:
  ExclusiveRegister(ExclusiveRegister&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), half_bytes_(other.half_bytes_), offset_(other.offset_) {}
  ExclusiveRegister& operator=(ExclusiveRegister&& other) noexcept {
    base_ = std::exchange(other.base_, nullptr);
    half_bytes_ = other.half_bytes_;
    offset_ = other.offset_;
    return *this;
  }

  // Longest WQE that blueflame() takes; 0 if the register has no BlueFlame.
  std::size_t blueflame_bytes() const { return half_bytes_; }
  // Of its first half, for programs that ring it themselves.
  std::byte* address() const { return base_; }

  // Tells the device of all WQEs up to the one whose control segment begins at `control`. The queue's doorbell record
  // must have been published before.
  void ring(const std::byte* control) {
    wqe::Be64 first_word;
    std::memcpy(&first_word, control, sizeof first_word);
    Io::before_register();
    Io::store(reinterpret_cast<wqe::Be64*>(base_ + offset_), first_word);
    finish();
  }

  // As ring(), and hands the WQE itself to the device: `bytes` bytes from `control`, rounded up to whole 64-byte
  // blocks, going on at ring.begin after ring.end. `control` is aligned to 64 bytes; `bytes` is from 1 to
  // blueflame_bytes().
  void blueflame(const std::byte* control, std::size_t bytes, SendRing ring) {
    assert(bytes > 0 && bytes <= half_bytes_);
    Io::before_register();
    std::byte* to = base_ + offset_;
    const std::byte* const last = to + (bytes - 1) / kBlockBytes * kBlockBytes;
    while (to != last) {
      Io::copy_block(to, control);
      control += kBlockBytes;
      control = control == ring.end ? ring.begin : control;
      to += kBlockBytes;
    }
    Io::copy_block(to, control);
    finish();
  }

  // blueflame() of a WQE within one block.
  [[gnu::always_inline]] void blueflame_block(const std::byte* control) {
    Io::before_register();
    Io::copy_block(base_ + offset_, control);
    finish();
  }

 private:
  template <IoPolicy>
  friend class UarPage;

  ExclusiveRegister(std::byte* base, std::size_t half_bytes) : base_(base), half_bytes_(half_bytes) {}

  void finish() {
    Io::flush_register();
    offset_ ^= half_bytes_;
  }

  std::byte* base_;
  std::size_t half_bytes_;  // 0 without BlueFlame
  std::size_t offset_ = 0;  // of the half whose turn it is
};

// A doorbell register that several queues use; locked from the first store to the flush, so that neither WQEs nor turns
// of the halves mix. Thread-safe. Neither copied nor moved: queues refer to it, and it must outlive them.
template <IoPolicy Io = NativeIo>
class alignas(64) SharedRegister {
 public:
  explicit SharedRegister(ExclusiveRegister<Io>&& only) : register_(std::move(only)) {}
  SharedRegister(const SharedRegister&) = delete;
  SharedRegister& operator=(const SharedRegister&) = delete;

  std::size_t blueflame_bytes() const { return register_.blueflame_bytes(); }
  std::byte* address() const { return register_.address(); }

  void ring(const std::byte* control) {
    const std::lock_guard guard(lock_);
    register_.ring(control);
  }
  void blueflame(const std::byte* control, std::size_t bytes, SendRing ring) {
    const std::lock_guard guard(lock_);
    register_.blueflame(control, bytes, ring);
  }

  // For tests that look whether posting waits for it.
  Spinlock& lock() { return lock_; }

 private:
  Spinlock lock_;
  ExclusiveRegister<Io> register_;
};

// The register that arms completion queues, one for each page. A command is one 8-byte store, so any number of queues
// and threads use it without a lock; copies refer to the same register.
template <IoPolicy Io = NativeIo>
class ArmRegister {
 public:
  explicit ArmRegister(std::byte* address) : address_(reinterpret_cast<wqe::Be64*>(address)) {}

  // Asks for an event of CQ `cqn`: doorbell record first, then the register.
  void arm(CqRecord<Io> record, ArmCommand command, std::uint32_t cqn) const {
    record.publish_arm(command);
    Io::before_register();
    Io::store(address_, wqe::Be64(std::uint64_t{command.word()} << 32 | cqn));
    Io::flush_register();
  }

 private:
  wqe::Be64* address_;
};

// One mapped UAR page; does not own the mapping. Hands out each doorbell register once. Not thread-safe.
template <IoPolicy Io = NativeIo>
class UarPage {
 public:
  UarPage(std::byte* page, UarLayout layout) : page_(page), layout_(layout) {
    assert(kUarRegistersOffset + layout.registers * layout.stride_bytes <= kUarPageBytes);
  }
  UarPage(UarPage&&) = default;
  UarPage& operator=(UarPage&&) = default;

  ArmRegister<Io> arm_register() const { return ArmRegister<Io>(page_ + kUarArmOffset); }

  // Nothing if `index` is taken or the page has no such register. The register has BlueFlame if the page has it and
  // `want_blueflame` asks for it; without, doorbells always go to its first half.
  std::optional<ExclusiveRegister<Io>> take(unsigned index, bool want_blueflame = true) {
    if (index >= layout_.registers || (taken_ >> index & 1) != 0) {
      return std::nullopt;
    }
    taken_ |= 1u << index;
    const std::size_t half_bytes = layout_.has_blueflame && want_blueflame ? layout_.stride_bytes / 2 : 0;
    return ExclusiveRegister<Io>(page_ + kUarRegistersOffset + index * layout_.stride_bytes, half_bytes);
  }

  // Takes back what take() of this page gave.
  void give_back(ExclusiveRegister<Io>&& only) {
    const auto offset = static_cast<std::size_t>(only.base_ - page_) - kUarRegistersOffset;
    taken_ &= ~(1u << (offset / layout_.stride_bytes));
    only.base_ = nullptr;
  }

  unsigned registers() const { return layout_.registers; }
  bool all_free() const { return taken_ == 0; }

 private:
  std::byte* page_;
  UarLayout layout_;
  unsigned taken_ = 0;
};

}  // namespace umlx5::doorbell
