// The kernel's names for the objects of one context. A handle is a number that only the context that gave it knows;
// each kind of object has its own type, so that one cannot be given where another is meant.
#pragma once

#include <cstdint>

namespace umlx5::uapi {

// `value` is in host order, as the kernel returned it. Trivially copyable; owns nothing.
template <typename Tag>
struct Handle {
  std::uint32_t value = 0;

  friend constexpr bool operator==(Handle, Handle) = default;
};

using PdHandle = Handle<struct PdTag>;
using MrHandle = Handle<struct MrTag>;
using MwHandle = Handle<struct MwTag>;
using CqHandle = Handle<struct CqTag>;
using QpHandle = Handle<struct QpTag>;
using SrqHandle = Handle<struct SrqTag>;
using AhHandle = Handle<struct AhTag>;
using WqHandle = Handle<struct WqTag>;
using RwqIndTableHandle = Handle<struct RwqIndTableTag>;
using FlowHandle = Handle<struct FlowTag>;
using XrcdHandle = Handle<struct XrcdTag>;
using DmHandle = Handle<struct DmTag>;
using UarHandle = Handle<struct UarTag>;
using DevxObjectHandle = Handle<struct DevxObjectTag>;
using DevxUmemHandle = Handle<struct DevxUmemTag>;

}  // namespace umlx5::uapi
