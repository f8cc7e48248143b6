#include "driver/xrcd.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/users.h"
#include "uapi/xrcd.h"

namespace umlx5 {

Expected<Owned<Xrcd>> Context::open_xrcd(int fd, int oflags) {
  std::unique_ptr<Xrcd> xrcd(new (std::nothrow) Xrcd);
  if (xrcd == nullptr) {
    return fail(ENOMEM, "XRCD: no memory");
  }
  const auto opened = uapi::open_xrcd(*state_->commands, fd, static_cast<std::uint32_t>(oflags));
  if (!opened) {
    return std::unexpected(opened.error());
  }
  xrcd->context_ = this;
  xrcd->handle_ = *opened;
  state_->add(state_->xrcds, *xrcd);
  return Owned<Xrcd>(xrcd.release());
}

Expected<Owned<Qp>> Xrcd::create_qp(const QpOptions& options) {
  auto qp = Qp::create(*context_, nullptr, this, options);
  if (!qp) {
    return std::unexpected(std::move(qp.error()));
  }
  return Owned<Qp>(*qp);
}

Expected<Owned<Qp>> Xrcd::open_qp(std::uint32_t qpn, void* user, std::uint64_t event_handle) {
  auto qp = Qp::open(*this, qpn, user, event_handle);
  if (!qp) {
    return std::unexpected(std::move(qp.error()));
  }
  return Owned<Qp>(*qp);
}

Expected<void> Xrcd::destroy(Xrcd& xrcd) {
  Context::State& state = xrcd.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    Users users;
    for (const Qp& qp : state.qps) {
      users.add_if(qp.xrcd() == &xrcd, "QP", qp.qpn());
    }
    for (const Srq& srq : state.srqs) {
      users.add_if(srq.xrcd() == &xrcd, "SRQ", srq.srqn());
    }
    if (users) {
      return fail(EBUSY, fmt::format("XRCD handle {} is still used by {}", xrcd.handle_.value, users.text()));
    }
    state.remove(state.xrcds, xrcd);
  }
  if (auto result = uapi::close_xrcd(*state.commands, xrcd.handle_); !result) {
    state.add(state.xrcds, xrcd);
    return result;
  }
  delete &xrcd;
  return {};
}

void Xrcd::abandon(Xrcd& xrcd, const Error& why) {
  log_abandoned(fmt::format("XRCD handle {}", xrcd.handle_.value), why);
}

}  // namespace umlx5
