// Memory window: a remote key that is bound to a part of a region by a work request instead of a system call.
#pragma once

#include <cstdint>

#include "driver/resource.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5 {

class Context;
class Pd;

// Values are the verbs' (ibv_mw_type).
enum class MemoryWindowType : std::uint8_t { k1 = 1, k2 = 2 };

class MemoryWindow : public ResourceHook {
 public:
  MemoryWindowType type() const { return type_; }
  // The key as last allocated or, for type 1, bound. Of a type 2 window the low 8 bits are the program's to choose.
  std::uint32_t rkey() const { return rkey_; }
  void set_rkey(std::uint32_t rkey) { rkey_ = rkey; }
  uapi::MwHandle handle() const { return handle_; }
  Pd& pd() const { return *pd_; }

  static Expected<void> destroy(MemoryWindow& window);
  static void abandon(MemoryWindow& window, const Error& why);

 private:
  friend class Pd;
  friend class Context;
  Context* context_ = nullptr;
  Pd* pd_ = nullptr;
  uapi::MwHandle handle_{};
  MemoryWindowType type_ = MemoryWindowType::k1;
  std::uint32_t rkey_ = 0;
};

}  // namespace umlx5
