// What the C ABI's objects are made of: the structure that programs see, and the native object behind it.
//
// libibverbs.so.1 and libmlx5.so.1 each contain this code and the native driver, and hand each other these objects;
// they are built together and loaded together. So nothing here, or in driver/, keeps mutable state outside an object,
// but for the device list, which is libibverbs' alone.
//
// The public structure comes first in each, so that a pointer to it is a pointer to the object. user() of a native
// object that an event names (Cq, Qp, Srq) is the object here.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>

#include "driver/ah.h"
#include "driver/context.h"
#include "driver/cq.h"
#include "driver/memory_window.h"
#include "driver/pd.h"
#include "driver/xrcd.h"

namespace umlx5::verbs {

// The object whose member `member` is `*inside`.
template <typename Object, typename Member>
Object& containing(Member* inside, Member Object::*member) {
  const auto offset = reinterpret_cast<std::size_t>(&(static_cast<Object*>(nullptr)->*member));
  return *reinterpret_cast<Object*>(reinterpret_cast<std::byte*>(inside) - offset);
}

struct ContextObject {
  verbs_context verbs{};  // programs hold &verbs.context
  std::unique_ptr<Context> native;
  bool single_threaded = false;  // MLX5_SINGLE_THREADED is 1: no queue takes a lock
};
inline ContextObject& object_of(ibv_context* context) {
  return containing(&containing(context, &verbs_context::context), &ContextObject::verbs);
}

// A PD, or a parent domain: then `native` is its PD's.
struct PdObject {
  ibv_pd pd{};
  Pd* native = nullptr;
  Owned<Pd> owned;
  bool single_threaded = false;  // has a thread domain: its queues take no lock
};
inline PdObject& object_of(ibv_pd* pd) { return containing(pd, &PdObject::pd); }

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

struct ChannelObject {
  ibv_comp_channel channel{};
  Owned<CompletionChannel> native;
};
inline ChannelObject& object_of(ibv_comp_channel* channel) { return containing(channel, &ChannelObject::channel); }

}  // namespace umlx5::verbs
