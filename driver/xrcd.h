// XRC domain: what XRC targets and XRC shared receive queues have in common, across processes if they wish.
#pragma once

#include "driver/resource.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5 {

class Context;

// Thread-safe.
class Xrcd : public ResourceHook {
 public:
  Context& context() const { return *context_; }
  uapi::XrcdHandle handle() const { return handle_; }

  // EBUSY while a QP or an SRQ is in it.
  static Expected<void> destroy(Xrcd& xrcd);
  static void abandon(Xrcd& xrcd, const Error& why);

 private:
  friend class Context;
  Context* context_ = nullptr;
  uapi::XrcdHandle handle_{};
};

}  // namespace umlx5
