#include "driver/ah.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <utility>

#include "driver/context_state.h"
#include "uapi/device_query.h"

namespace umlx5 {
namespace {

constexpr std::uint32_t kFlowLabelMask = 0xfffff;
// RoCE v2 senders choose a UDP source port from 0xc000 on, so that routers spread flows (IBA annex A17.9.2.2).
constexpr std::uint16_t kFirstUdpSourcePort = 0xc000;

// The device's code for a static rate, by enum ibv_rate: 2.5 Gb/s is 7, 10 8, 30 9, 5 10, 20 11, 40 12, 60 13, 80 14
// and 120 15; the next higher one for those in between; 0: not limited.
constexpr std::uint8_t kStaticRates[] = {0, 0, 7, 8, 9, 10, 11, 12, 13, 14, 15, 11, 13, 15, 0, 9, 15, 0, 0, 9, 13};

std::uint8_t static_rate_code(std::uint8_t rate) { return rate < std::size(kStaticRates) ? kStaticRates[rate] : 0; }

// A flow label says which port it is to be; without one, any.
std::uint16_t udp_source_port(std::uint32_t flow_label) {
  constexpr std::uint32_t kPortBits = 14;
  constexpr std::uint32_t kMask = (1u << kPortBits) - 1;
  if (flow_label == 0) {
    thread_local std::minstd_rand random(std::random_device{}());
    flow_label = static_cast<std::uint32_t>(random());
  }
  return static_cast<std::uint16_t>(kFirstUdpSourcePort |
                                    ((flow_label ^ ((flow_label & kFlowLabelMask) >> kPortBits)) & kMask));
}

}  // namespace

Expected<Owned<Ah>> Pd::create_ah(const uapi::AddressVector& address) {
  Context::State& state = context_->state();
  if (address.port < 1 || address.port > state.attributes.port_count) {
    return fail(EINVAL, fmt::format("AH create: there is no port {}; the device has {}", address.port,
                                    state.attributes.port_count));
  }
  const auto port = uapi::query_port(*state.commands, address.port);
  if (!port) {
    return std::unexpected(port.error());
  }
  const bool ethernet = port->link_layer == uapi::LinkLayer::kEthernet;
  if (!address.is_global && (ethernet || port->grh_required)) {
    return fail(EINVAL, fmt::format("AH create: port {} needs a GID to send to (is_global)", address.port));
  }
  std::unique_ptr<Ah> ah(new (std::nothrow) Ah);
  if (ah == nullptr) {
    return fail(ENOMEM, "AH create: no memory");
  }
  ah->context_ = context_;
  ah->pd_ = this;
  wqe::AddressVector vector;
  vector.extended = false;  // the WQE's builder says so, with the destination's QPN
  vector.stat_rate = static_rate_code(address.static_rate);
  vector.sl = ethernet ? static_cast<std::uint8_t>((address.sl & 7) << 1) : address.sl & 0xf;
  if (address.is_global) {
    vector.traffic_class = address.traffic_class;
    vector.hop_limit = address.hop_limit;
    vector.grh_present = !ethernet;
    vector.sgid_index = address.sgid_index;
    vector.flow_label = address.flow_label & kFlowLabelMask;
    vector.remote_gid = address.dgid;
  }
  if (!ethernet) {
    vector.source_path_bits = address.src_path_bits & 0x7f;
    vector.remote_lid_or_udp_sport = address.dlid;
  } else if (auto result = ah->resolve(address, vector); !result) {
    return std::unexpected(std::move(result.error()));
  }
  wqe::store(ah->address_vector_.data(), vector);
  state.add(state.ahs, *ah);
  return Owned<Ah>(ah.release());
}

// What an Ethernet port needs besides: the UDP source port, and the MAC address, which the kernel finds.
Expected<void> Ah::resolve(const uapi::AddressVector& address, wqe::AddressVector& vector) {
  Context::State& state = context_->state();
  const auto gid = uapi::query_gid_entry(*state.commands, address.port, address.sgid_index);
  if (!gid) {
    return std::unexpected(gid.error());
  }
  if (gid->type == uapi::GidType::kRoceV2) {
    vector.remote_lid_or_udp_sport = udp_source_port(vector.flow_label);
  }
  if ((state.info.device.cmds_supp_uhw & MLX5_USER_CMDS_SUPP_UHW_CREATE_AH) == 0) {
    return fail(EOPNOTSUPP, "AH create: this kernel does not tell the destination's MAC address");
  }
  const auto made = uapi::create_ah(*state.commands, pd_->handle(), reinterpret_cast<std::uint64_t>(this), address);
  if (!made) {
    return std::unexpected(made.error());
  }
  in_kernel_ = true;
  handle_ = made->handle;
  vector.remote_mac = made->destination_mac;
  return {};
}

Expected<void> Ah::destroy(Ah& ah) {
  Context::State& state = ah.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.ahs, ah);
  }
  if (ah.in_kernel_) {
    if (auto result = uapi::destroy_ah(*state.commands, ah.handle_); !result) {
      state.add(state.ahs, ah);
      return result;
    }
  }
  delete &ah;
  return {};
}

void Ah::abandon(Ah& ah, const Error& why) { log_abandoned(fmt::format("AH handle {}", ah.handle_.value), why); }

}  // namespace umlx5
