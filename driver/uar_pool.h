// The doorbell registers of a context: one of its own for each send queue while they last, shared ones after that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "doorbell/record.h"
#include "doorbell/submit.h"
#include "doorbell/uar.h"
#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/uar.h"

namespace umlx5 {

class UarPool;

// Where a send queue rings: a register of its own or of its thread domain, without a lock, or one that others use too,
// which locks. Gives it back when it goes. Move-only; one thread at a time.
class SendUar {
 public:
  SendUar() = default;
  SendUar(SendUar&& other) noexcept { swap(other); }
  SendUar& operator=(SendUar&& other) noexcept {
    SendUar taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~SendUar();

  // What the kernel is told.
  std::uint32_t page_id() const { return uar_.page_id; }
  const uapi::Uar& page() const { return uar_; }
  bool exclusive() const { return shared_ == nullptr; }
  // Of the register, in this process's mapping of the page; null for a queue without one.
  std::byte* address() const {
    return own_                   ? own_->address()
           : borrowed_ != nullptr ? borrowed_->address()
           : shared_ != nullptr   ? shared_->address()
                                  : nullptr;
  }
  // Longest WQE that goes through it whole; 0 without BlueFlame.
  std::size_t blueflame_bytes() const {
    return own_ ? own_->blueflame_bytes() : borrowed_ != nullptr ? borrowed_->blueflame_bytes() : 0;
  }

  // One of the two, or none. Valid until it is moved or goes.
  doorbell::ExclusiveRegister<>* exclusive_register() { return own_ ? &*own_ : borrowed_; }
  doorbell::SharedRegister<>* shared_register() { return shared_; }

 private:
  friend class UarPool;
  void swap(SendUar& other) noexcept {
    std::swap(own_, other.own_);
    std::swap(borrowed_, other.borrowed_);
    std::swap(shared_, other.shared_);
    std::swap(pool_, other.pool_);
    std::swap(page_index_, other.page_index_);
    std::swap(uar_, other.uar_);
  }

  // One of the three, or none.
  std::optional<doorbell::ExclusiveRegister<>> own_;
  doorbell::ExclusiveRegister<>* borrowed_ = nullptr;
  doorbell::SharedRegister<>* shared_ = nullptr;
  UarPool* pool_ = nullptr;
  std::size_t page_index_ = 0;
  uapi::Uar uar_{};
};

// Thread-safe after open(). The commands must outlive it or its close().
class UarPool {
 public:
  UarPool() = default;
  ~UarPool() { close(); }
  UarPool(const UarPool&) = delete;
  UarPool& operator=(const UarPool&) = delete;

  // Gets the shared page. `blueflame_register_bytes` 0: the device has no BlueFlame, and every queue shares.
  Expected<void> open(uapi::Commands& commands, std::uint32_t blueflame_register_bytes, std::uint32_t max_registers);
  // Gives all pages back; nothing may ring any more.
  void close();

  // Never fails: when registers or pages run out, it is a shared one.
  SendUar take();
  // A register for one owner, beyond the number that take() may hand out if need be. Errors: the kernel's, when it has
  // no further page.
  Expected<SendUar> take_exclusive();
  // The register of `owner`, which must have one of its own and live longer.
  static SendUar borrow(SendUar& owner);

  std::uint32_t shared_page_id() const { return shared_.uar.page_id; }
  // Where completion queues are armed.
  const uapi::Uar& shared_page() const { return shared_.uar; }
  std::byte* shared_page_address() const { return shared_.mapping.address(); }
  doorbell::ArmRegister<> arm_register() const { return shared_.registers->arm_register(); }

 private:
  friend class SendUar;

  static constexpr unsigned kSharedRegisters = doorbell::kUncachedLayout.registers;
  static constexpr unsigned kBlueFlameRegistersPerPage = 2;

  struct Page {
    uapi::Uar uar;
    uapi::Mapping mapping;
    std::optional<doorbell::UarPage<>> registers;
  };

  Expected<Page> map_page(uapi::UarType type, doorbell::UarLayout layout);
  Expected<void> add_page();
  std::optional<SendUar> take_free();
  void give_back(std::size_t page_index, doorbell::ExclusiveRegister<>&& own);

  uapi::Commands* commands_ = nullptr;
  std::uint32_t blueflame_register_bytes_ = 0;
  Page shared_;
  std::array<std::unique_ptr<doorbell::SharedRegister<>>, kSharedRegisters> shared_registers_;
  std::mutex mutex_;
  std::size_t max_pages_ = 0;  // that take() may make
  std::size_t next_shared_ = 0;
  std::vector<Page> pages_;
};

}  // namespace umlx5
