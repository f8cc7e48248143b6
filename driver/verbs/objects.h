// What the C ABI's objects are made of: the structure that programs see, and the native object behind it.
//
// libibverbs.so.1 and libmlx5.so.1 each contain this code and the native driver, and hand each other these objects;
// they are built together and loaded together. So nothing here, or in driver/, keeps mutable state outside an object,
// but for the device list and the fork ranges, which are libibverbs' alone.
//
// The public structure comes first in each, so that a pointer to it is a pointer to the object. user() of a native
// object that an event names (Cq, Qp, Srq) is the object here.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "driver/ah.h"
#include "driver/allocator.h"
#include "driver/context.h"
#include "driver/cq.h"
#include "driver/memory_window.h"
#include "driver/pd.h"
#include "driver/thread_domain.h"
#include "driver/verbs/clocks.h"
#include "driver/verbs/closable_channel.h"
#include "driver/verbs/page_kinds.h"
#include "driver/xrcd.h"
#include "uapi/channel.h"

// The header routes these calls through its inline functions; here they are what they are.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

namespace umlx5::verbs {

// The object whose member `member` is `*inside`.
template <typename Object, typename Member>
Object& containing(Member* inside, Member Object::*member) {
  const auto offset = reinterpret_cast<std::size_t>(&(static_cast<Object*>(nullptr)->*member));
  return *reinterpret_cast<Object*>(reinterpret_cast<std::byte*>(inside) - offset);
}

struct ContextObject;

struct OpenOptions {
  bool devx_required = false;  // fail instead of going on without DEVX
};

// A device of ibv_get_device_list(). Counted: libibverbs' own list, each list it gave out and each context hold it.
struct DeviceObject {
  ibv_device device{};
  uapi::DeviceInfo info;
  uapi::DeviceSource* source = nullptr;
  int index = -1;  // RDMA netlink's; -1 if unknown
  std::atomic<int> references = 1;
  // libibverbs' own open, for both libraries; null with errno.
  ContextObject* (*open)(DeviceObject& device, const OpenOptions& options) = nullptr;
};
inline DeviceObject& object_of(ibv_device* device) { return containing(device, &DeviceObject::device); }

struct ContextObject {
  verbs_context verbs{};  // programs hold &verbs.context
  std::unique_ptr<Context> native;
  ClosableChannel* channel = nullptr;  // native's
  std::atomic<int> uses = 0;           // by objects that the native context does not know; see ContextUse
  bool single_threaded = false;        // MLX5_SINGLE_THREADED is 1: no queue takes a lock
  Clocks clocks;
  std::unique_ptr<Allocator> allocator;             // mlx5dv_set_context_attr(): who provides queue memory
  std::mutex crypto_mutex;                          // guards `crypto_login`
  mlx5dv_crypto_login_obj* crypto_login = nullptr;  // of mlx5dv_crypto_login()
};
inline ContextObject& object_of(ibv_context* context) {
  return containing(&containing(context, &verbs_context::context), &ContextObject::verbs);
}

inline Context& native_of(ibv_context* context) { return *object_of(context).native; }

// The context of an object that the native one does not know, which counts there while it lives.
class ContextUse {
 public:
  ContextUse(ibv_context* context) : context_(context) { object_of(context_).uses.fetch_add(1); }  // NOLINT: is one
  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;
  ~ContextUse() { object_of(context_).uses.fetch_sub(1); }
  operator ibv_context*() const { return context_; }  // NOLINT: is one

 private:
  ibv_context* context_;
};

struct TdObject {
  ibv_td td{};
  Owned<ThreadDomain> native;
  std::atomic<int> users = 0;  // parent domains
};
inline TdObject& object_of(ibv_td* td) { return containing(td, &TdObject::td); }

// A PD, or a parent domain: then `native` is its PD's.
struct PdObject {
  ibv_pd pd{};
  Pd* native = nullptr;
  Owned<Pd> owned;
  bool single_threaded = false;  // has a thread domain: its queues take no lock
  std::atomic<int> users = 0;    // parent domains that are over it

  // Parent domains only.
  PdObject* behind = nullptr;
  TdObject* thread_domain = nullptr;
  std::unique_ptr<Allocator> allocator;
};
inline PdObject& object_of(ibv_pd* pd) { return containing(pd, &PdObject::pd); }
inline Pd& native_of(ibv_pd* pd) { return *object_of(pd).native; }
// What queues made in a parent domain use: its thread domain's register (null: none), and who provides their memory.
inline ThreadDomain* thread_domain_of(ibv_pd* pd) {
  TdObject* domain = object_of(pd).thread_domain;
  return domain == nullptr ? nullptr : domain->native.get();
}
inline Allocator* allocator_of(ibv_pd* pd) {
  if (pd != nullptr && object_of(pd).allocator) {
    return object_of(pd).allocator.get();
  }
  Allocator* const contexts = pd == nullptr ? nullptr : object_of(pd->context).allocator.get();
  return contexts != nullptr ? contexts : &page_kind_allocator();
}

struct MrObject {
  ibv_mr mr{};
  Owned<MemoryRegion> native;         // none of a null region, of an imported one, or of device memory
  bool imported = false;              // made by another user of the context
  bool on_device = false;             // of device memory
  bool kept_out_of_children = false;  // see fork_ranges.h
};
inline MrObject& object_of(ibv_mr* mr) { return containing(mr, &MrObject::mr); }

struct AhObject {
  ibv_ah ah{};
  Owned<Ah> native;
};
inline AhObject& object_of(ibv_ah* ah) { return containing(ah, &AhObject::ah); }

struct MwObject {
  ibv_mw mw{};
  Owned<MemoryWindow> native;
};
inline MwObject& object_of(ibv_mw* mw) { return containing(mw, &MwObject::mw); }

struct XrcdObject {
  ibv_xrcd xrcd{};
  Owned<Xrcd> native;
};
inline XrcdObject& object_of(ibv_xrcd* xrcd) { return containing(xrcd, &XrcdObject::xrcd); }

// `channel.refcnt` counts the CQs that report to it, under the context's mutex.
struct ChannelObject {
  ibv_comp_channel channel{};
  Owned<CompletionChannel> native;
};
inline ChannelObject& object_of(ibv_comp_channel* channel) { return containing(channel, &ChannelObject::channel); }

}  // namespace umlx5::verbs
