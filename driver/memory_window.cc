#include "driver/memory_window.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "uapi/mr.h"

namespace umlx5 {

Expected<Owned<MemoryWindow>> Pd::alloc_memory_window(MemoryWindowType type) {
  Context::State& state = context_->state();
  std::unique_ptr<MemoryWindow> window(new (std::nothrow) MemoryWindow);
  if (window == nullptr) {
    return fail(ENOMEM, "MW: no memory");
  }
  const auto allocated = uapi::alloc_mw(*state.commands, handle_, static_cast<std::uint8_t>(type));
  if (!allocated) {
    return std::unexpected(allocated.error());
  }
  window->context_ = context_;
  window->pd_ = this;
  window->handle_ = allocated->handle;
  window->type_ = type;
  window->rkey_ = allocated->rkey;
  state.add(state.windows, *window);
  return Owned<MemoryWindow>(window.release());
}

Expected<void> MemoryWindow::destroy(MemoryWindow& window) {
  Context::State& state = window.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.windows, window);
  }
  if (auto result = uapi::dealloc_mw(*state.commands, window.handle_); !result) {
    state.add(state.windows, window);
    return result;
  }
  delete &window;
  return {};
}

void MemoryWindow::abandon(MemoryWindow& window, const Error& why) {
  log_abandoned(fmt::format("MW with rkey {:#x}", window.rkey_), why);
}

}  // namespace umlx5
