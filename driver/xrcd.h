// XRC domain: what XRC targets and XRC shared receive queues have in common, across processes if they wish.
#pragma once

#include <cstdint>

#include "driver/resource.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5 {

class Context;
class Qp;
struct QpOptions;

// Thread-safe.
class Xrcd : public ResourceHook {
 public:
  // An XRC target of this domain: type kXrcRecv, and nothing that has to do with queues.
  Expected<Owned<Qp>> create_qp(const QpOptions& options);
  // A reference to the target `qpn` that another process, or this one, created in this domain.
  Expected<Owned<Qp>> open_qp(std::uint32_t qpn, void* user = nullptr, std::uint64_t event_handle = 0);

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
