// Thread domain: queue pairs that one thread uses share one doorbell register, without a lock.
#pragma once

#include "driver/resource.h"
#include "driver/uar_pool.h"
#include "uapi/error.h"

namespace umlx5 {

class Context;

// The queue pairs in it may be posted to by one thread at a time, all of them together.
class ThreadDomain : public ResourceHook {
 public:
  Context& context() const { return *context_; }
  // The register that its queue pairs ring.
  const SendUar& uar() const { return uar_; }

  // EBUSY while a QP is in it.
  static Expected<void> destroy(ThreadDomain& domain);
  static void abandon(ThreadDomain& domain, const Error& why);

 private:
  friend class Context;
  friend class Qp;
  explicit ThreadDomain(Context& context) : context_(&context) {}
  Context* context_;
  SendUar uar_;
};

}  // namespace umlx5
