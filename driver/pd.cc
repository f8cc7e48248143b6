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
namespace {

Error explained(Error error, const std::string& prefix) {
  error.what = prefix + ": " + error.what;
  return error;
}

Expected<void> check_access(AccessFlags access) {
  if ((access.has(Access::kRemoteWrite) || access.has(Access::kRemoteAtomic)) && !access.has(Access::kLocalWrite)) {
    return fail(EINVAL, "MR register: remote write and remote atomic access need local write access too");
  }
  return {};
}

}  // namespace

Expected<Owned<MemoryRegion>> Pd::register_memory(std::span<std::byte> memory, AccessFlags access) {
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  return register_memory(
      MemoryRequest{.address = address, .length_bytes = memory.size(), .iova = address, .access = access});
}

Expected<Owned<MemoryRegion>> Pd::register_memory(const MemoryRequest& request) {
  if (auto result = check_access(request.access); !result) {
    return std::unexpected(std::move(result.error()));
  }
  auto registered = uapi::register_mr(*context_->state().commands, {.pd = handle_,
                                                                    .address = request.address,
                                                                    .length_bytes = request.length_bytes,
                                                                    .iova = request.iova,
                                                                    .access = request.access.bits()});
  if (!registered) {
    return std::unexpected(
        explained(std::move(registered.error()),
                  fmt::format("MR register of {} bytes at {:#x}", request.length_bytes, request.address)));
  }
  return adopt(*registered, request);
}

Expected<Owned<MemoryRegion>> Pd::register_dmabuf(const DmabufRequest& request) {
  if (auto result = check_access(request.access); !result) {
    return std::unexpected(std::move(result.error()));
  }
  auto registered = uapi::register_dmabuf_mr(*context_->state().commands, {.pd = handle_,
                                                                           .dmabuf_fd = request.fd,
                                                                           .offset_bytes = request.offset_bytes,
                                                                           .length_bytes = request.length_bytes,
                                                                           .iova = request.iova,
                                                                           .access = request.access.bits(),
                                                                           .mlx5_access = request.mlx5_access});
  if (!registered) {
    return std::unexpected(
        explained(std::move(registered.error()), fmt::format("MR register of {} bytes at offset {:#x} of dmabuf {}",
                                                             request.length_bytes, request.offset_bytes, request.fd)));
  }
  return adopt(*registered, {.address = request.offset_bytes,
                             .length_bytes = request.length_bytes,
                             .iova = request.iova,
                             .access = request.access});
}

// The owner of what the kernel registered; deregisters it if there is no memory for one.
Expected<Owned<MemoryRegion>> Pd::adopt(const uapi::Mr& registered, const MemoryRequest& request) {
  Context::State& state = context_->state();
  std::unique_ptr<MemoryRegion> region(new (std::nothrow) MemoryRegion);
  if (region == nullptr) {
    [[maybe_unused]] const auto result = uapi::deregister_mr(*state.commands, registered.handle);
    return fail(ENOMEM, "MR register: no memory");
  }
  region->context_ = context_;
  region->pd_ = this;
  region->handle_ = registered.handle;
  region->address_ = reinterpret_cast<std::byte*>(request.address);
  region->length_bytes_ = request.length_bytes;
  region->iova_ = (request.access.bits() & static_cast<std::uint32_t>(Access::kZeroBased)) != 0 ? 0 : request.iova;
  region->access_ = request.access;
  region->lkey_ = registered.lkey;
  region->rkey_ = registered.rkey;
  state.add(state.regions, *region);
  return Owned<MemoryRegion>(region.release());
}

Expected<const MemoryRegion*> Pd::memcpy_scratch() {
  const std::lock_guard lock(scratch_mutex_);
  if (scratch_ == nullptr) {
    auto region = register_memory(std::span(scratch_memory_), Access::kLocalWrite);
    if (!region) {
      return std::unexpected(std::move(region.error()));
    }
    scratch_ = region->release();
  }
  return scratch_;
}

Expected<Owned<Qp>> Pd::create_qp(const QpOptions& options) {
  auto qp = Qp::create(*context_, this, nullptr, options);
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
      users.add_if(qp.pd() == &pd, "QP", qp.qpn());
    }
    for (const Srq& srq : state.srqs) {
      users.add_if(&srq.pd() == &pd, "SRQ", srq.srqn());
    }
    for (const Wq& wq : state.wqs) {
      users.add_if(&wq.pd() == &pd, "WQ", wq.wqn());
    }
    for (const MemoryRegion& region : state.regions) {
      users.add_if(&region.pd() == &pd && &region != pd.scratch_, "MR with lkey", region.lkey());
    }
    for (const Mkey& mkey : state.mkeys) {
      users.add_if(&mkey.pd() == &pd, "mkey", mkey.lkey());
    }
    for (const MemoryWindow& window : state.windows) {
      users.add_if(&window.pd() == &pd, "MW with rkey", window.rkey());
    }
    for (const Ah& ah : state.ahs) {
      users.add_if(&ah.pd() == &pd, "AH with handle", ah.handle().value);
    }
    if (users) {
      return fail(EBUSY, fmt::format("PD {:#x} is still used by {}", pd.pdn_, users.text()));
    }
    state.remove(state.pds, pd);
  }
  if (pd.scratch_ != nullptr) {
    if (auto result = MemoryRegion::destroy(*pd.scratch_); !result) {
      state.add(state.pds, pd);
      return result;
    }
  }
  if (pd.ends_in_kernel_) {
    if (auto result = uapi::dealloc_pd(*state.commands, pd.handle_); !result) {
      state.add(state.pds, pd);
      return result;
    }
  }
  delete &pd;
  return {};
}

void Pd::abandon(Pd& pd, const Error& why) { log_abandoned(fmt::format("PD {:#x}", pd.pdn_), why); }

Expected<void> MemoryRegion::reregister(const MemoryChange& change) {
  Context::State& state = context_->state();
  const std::string name = fmt::format("MR with lkey {:#x}", lkey_);
  if (change.access) {
    if (auto result = check_access(*change.access); !result) {
      return result;
    }
  }
  if (change.pd != nullptr && &change.pd->context() != context_) {
    return fail(EINVAL, name + ": the new PD is of another context");
  }
  uapi::MrChange request;
  if (change.translation) {
    request.translation.emplace(change.translation->address, change.translation->length_bytes,
                                change.translation->iova);
  }
  if (change.pd != nullptr) {
    request.pd = change.pd->handle();
  }
  if (change.access) {
    request.access = change.access->bits();
  }
  auto changed = uapi::reregister_mr(*state.commands, handle_, request);
  if (!changed) {
    return std::unexpected(explained(std::move(changed.error()), name));
  }
  lkey_ = changed->lkey;
  rkey_ = changed->rkey;
  if (change.translation) {
    address_ = reinterpret_cast<std::byte*>(change.translation->address);
    length_bytes_ = change.translation->length_bytes;
    iova_ = change.translation->iova;
  }
  access_ = change.access.value_or(access_);
  if (change.pd != nullptr) {
    const std::lock_guard lock(state.mutex);  // destroying a PD looks at it
    pd_ = change.pd;
  }
  return {};
}

Expected<void> MemoryRegion::destroy(MemoryRegion& region) {
  Context::State& state = region.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.regions, region);
    if (region.pd_->scratch_ == &region) {
      region.pd_->scratch_ = nullptr;
    }
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
