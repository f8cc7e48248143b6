#include "driver/uar_pool.h"

#include <fmt/format.h>

#include <bit>

#include "driver/log.h"

namespace umlx5 {
namespace {

// Half of a register must hold a whole block, and the registers must fit behind their offset in the page.
bool is_blueflame_size(std::uint32_t register_bytes, unsigned registers) {
  return std::has_single_bit(register_bytes) && register_bytes >= 2 * doorbell::kBlockBytes &&
         doorbell::kUarRegistersOffset + std::size_t{registers} * register_bytes <= doorbell::kUarPageBytes;
}

}  // namespace

SendUar::~SendUar() {
  if (own_) {
    pool_->give_back(page_index_, std::move(*own_));
  }
}

Expected<UarPool::Page> UarPool::map_page(uapi::UarType type, doorbell::UarLayout layout) {
  auto uar = uapi::alloc_uar(*commands_, type);
  if (!uar) {
    return std::unexpected(std::move(uar.error()));
  }
  auto mapping = uapi::map_uar(commands_->channel(), *uar);
  if (!mapping) {
    [[maybe_unused]] const auto result = uapi::destroy_uar(*commands_, uar->handle);  // the first error is told
    return std::unexpected(std::move(mapping.error()));
  }
  Page page{*uar, std::move(*mapping), std::nullopt};
  page.registers.emplace(page.mapping.address(), layout);
  return page;
}

Expected<void> UarPool::open(uapi::Commands& commands, std::uint32_t blueflame_register_bytes,
                             std::uint32_t max_registers) {
  commands_ = &commands;
  if (is_blueflame_size(blueflame_register_bytes, kBlueFlameRegistersPerPage)) {
    blueflame_register_bytes_ = blueflame_register_bytes;
    max_pages_ = max_registers / kBlueFlameRegistersPerPage;
  }
  auto page = map_page(uapi::UarType::kNonCached, doorbell::kUncachedLayout);
  if (!page) {
    return std::unexpected(std::move(page.error()));
  }
  shared_ = std::move(*page);
  for (unsigned i = 0; i < kSharedRegisters; ++i) {
    shared_registers_[i] = std::make_unique<doorbell::SharedRegister<>>(std::move(*shared_.registers->take(i)));
  }
  return {};
}

void UarPool::close() {
  if (commands_ == nullptr) {
    return;
  }
  pages_.push_back(std::move(shared_));
  for (Page& page : pages_) {
    if (!page.mapping) {
      continue;
    }
    page.mapping = {};  // before the page goes
    if (auto result = uapi::destroy_uar(*commands_, page.uar.handle); !result) {
      log(LogLevel::kError, result.error().message());
    }
  }
  pages_.clear();
  commands_ = nullptr;
}

Expected<void> UarPool::add_page() {
  auto page = map_page(uapi::UarType::kBlueFlame, doorbell::write_combining_layout(blueflame_register_bytes_));
  if (!page) {
    return std::unexpected(std::move(page.error()));
  }
  pages_.push_back(std::move(*page));
  return {};
}

std::optional<SendUar> UarPool::take_free() {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    for (unsigned n = 0; n < kBlueFlameRegistersPerPage; ++n) {
      if (auto own = pages_[i].registers->take(n)) {
        SendUar uar;
        uar.own_.emplace(std::move(*own));
        uar.pool_ = this;
        uar.page_index_ = i;
        uar.uar_ = pages_[i].uar;
        return uar;
      }
    }
  }
  return std::nullopt;
}

SendUar UarPool::take() {
  const std::lock_guard lock(mutex_);
  auto free = take_free();
  if (!free && pages_.size() < max_pages_) {
    if (auto added = add_page()) {
      free = take_free();
    } else {
      max_pages_ = pages_.size();  // there are no more: do not ask again
      log(LogLevel::kInfo, fmt::format("no further BlueFlame register: {}", added.error().message()));
    }
  }
  if (free) {
    return std::move(*free);
  }
  SendUar uar;
  uar.shared_ = shared_registers_[next_shared_++ % kSharedRegisters].get();
  uar.uar_ = shared_.uar;
  return uar;
}

Expected<SendUar> UarPool::take_exclusive() {
  const std::lock_guard lock(mutex_);
  auto free = take_free();
  if (!free) {
    if (auto added = add_page(); !added) {
      return std::unexpected(std::move(added.error()));
    }
    free = take_free();
  }
  return std::move(*free);
}

SendUar UarPool::borrow(SendUar& owner) {
  SendUar uar;
  uar.borrowed_ = &*owner.own_;
  uar.uar_ = owner.uar_;
  return uar;
}

void UarPool::give_back(std::size_t page_index, doorbell::ExclusiveRegister<>&& own) {
  const std::lock_guard lock(mutex_);
  if (page_index < pages_.size()) {  // not after close()
    pages_[page_index].registers->give_back(std::move(own));
  }
}

}  // namespace umlx5
