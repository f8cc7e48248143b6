#include "driver/pd.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/log.h"
#include "driver/users.h"

namespace umlx5 {

Expected<Owned<MemoryRegion>> Pd::register_memory(std::span<std::byte> memory, AccessFlags access) {
  if ((access.has(Access::kRemoteWrite) || access.has(Access::kRemoteAtomic)) && !access.has(Access::kLocalWrite)) {
    return fail(EINVAL, "MR register: remote write and remote atomic access need local write access too");
  }
  Context::State& state = context_->state();
  std::unique_ptr<MemoryRegion> region(new (std::nothrow) MemoryRegion);
  if (region == nullptr) {
    return fail(ENOMEM, "MR register: no memory");
  }
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  auto registered = uapi::register_mr(
      *state.commands,
      {.pd = handle_, .address = address, .length_bytes = memory.size(), .iova = address, .access = access.bits()});
  if (!registered) {
    Error error = std::move(registered.error());
    error.what = fmt::format("MR register of {} bytes at {:#x}: {}", memory.size(), address, error.what);
    return std::unexpected(std::move(error));
  }
  region->context_ = context_;
  region->pd_ = this;
  region->handle_ = registered->handle;
  region->address_ = memory.data();
  region->length_bytes_ = memory.size();
  region->lkey_ = registered->lkey;
  region->rkey_ = registered->rkey;
  state.add(state.regions, *region);
  return Owned<MemoryRegion>(region.release());
}

Expected<Owned<Qp>> Pd::create_qp(const QpOptions& options) {
  auto qp = Qp::create(*this, options);
  if (!qp) {
    return std::unexpected(std::move(qp.error()));
  }
  return Owned<Qp>(*qp);
}

Expected<void> Pd::destroy(Pd& pd) {
  Context::State& state = pd.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    Users users;
    for (const Qp& qp : state.qps) {
      users.add_if(&qp.pd() == &pd, "QP", qp.qpn());
    }
    for (const MemoryRegion& region : state.regions) {
      users.add_if(&region.pd() == &pd, "MR with lkey", region.lkey());
    }
    if (users) {
      return fail(EBUSY, fmt::format("PD {:#x} is still used by {}", pd.pdn_, users.text()));
    }
    state.remove(state.pds, pd);
  }
  if (auto result = uapi::dealloc_pd(*state.commands, pd.handle_); !result) {
    state.add(state.pds, pd);
    return result;
  }
  delete &pd;
  return {};
}

void Pd::abandon(Pd& pd, const Error& why) { log_abandoned(fmt::format("PD {:#x}", pd.pdn_), why); }

Expected<void> MemoryRegion::destroy(MemoryRegion& region) {
  Context::State& state = region.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.regions, region);
  }
  if (auto result = uapi::deregister_mr(*state.commands, region.handle_); !result) {
    state.add(state.regions, region);
    return result;
  }
  delete &region;
  return {};
}

void MemoryRegion::abandon(MemoryRegion& region, const Error& why) {
  log_abandoned(fmt::format("MR with lkey {:#x}", region.lkey_), why);
}

}  // namespace umlx5
