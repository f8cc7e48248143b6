#include "driver/thread_domain.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/users.h"

namespace umlx5 {

Expected<Owned<ThreadDomain>> Context::create_thread_domain() {
  std::unique_ptr<ThreadDomain> domain(new (std::nothrow) ThreadDomain(*this));
  if (domain == nullptr) {
    return fail(ENOMEM, "thread domain: no memory");
  }
  auto uar = state_->uars.take_exclusive();
  if (!uar) {
    Error error = std::move(uar.error());
    error.what = "thread domain: no further doorbell register: " + error.what;
    return std::unexpected(std::move(error));
  }
  domain->uar_ = std::move(*uar);
  state_->add(state_->thread_domains, *domain);
  return Owned<ThreadDomain>(domain.release());
}

Expected<void> ThreadDomain::destroy(ThreadDomain& domain) {
  Context::State& state = domain.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    Users users;
    for (const Qp& qp : state.qps) {
      users.add_if(qp.thread_domain() == &domain, "QP", qp.qpn());
    }
    if (users) {
      return fail(EBUSY, fmt::format("thread domain is still used by {}", users.text()));
    }
    state.remove(state.thread_domains, domain);
  }
  delete &domain;
  return {};
}

void ThreadDomain::abandon(ThreadDomain&, const Error& why) { log_abandoned("thread domain", why); }

}  // namespace umlx5
