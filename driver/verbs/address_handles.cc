#include "driver/verbs/address_handles.h"

#include <endian.h>
#include <fmt/format.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/ah.h"
#include "uapi/device_query.h"
#include "uapi/file_descriptor.h"
#include "uapi/pd.h"

namespace umlx5::verbs {
namespace {

// GRH NxtHdr of an InfiniBand transport header (InfiniBand specification, 8.3).
constexpr std::uint8_t kTransportHeaderNext = 0x1b;

// ::ffff:a.b.c.d of an address in network order.
Gid mapped_gid(std::uint32_t ipv4) {
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  std::memcpy(&gid[12], &ipv4, sizeof ipv4);
  return gid;
}

// The ones' complement sum over a whole header is all ones.
bool checksum_is_right(const iphdr& header) {
  std::array<std::uint16_t, sizeof header / 2> words;
  std::memcpy(words.data(), &header, sizeof header);
  std::uint32_t sum = 0;
  for (const std::uint16_t word : words) {
    sum += word;
  }
  sum = (sum & 0xffff) + (sum >> 16);
  return ((sum & 0xffff) + (sum >> 16)) == 0xffff;
}

// The IPv4 header in the last 20 bytes, unless the 40 bytes are a GRH or an IPv6 header.
bool holds_ipv4(const ibv_grh& grh, iphdr& header) {
  std::memcpy(&header, reinterpret_cast<const std::byte*>(&grh) + sizeof grh - sizeof header, sizeof header);
  const bool plausible = header.version == 4 && header.ihl == sizeof header / 4 && checksum_is_right(header);
  const bool version_6 = (be32toh(grh.version_tclass_flow) >> 28) == 6;
  return plausible && !version_6;
}

Expected<std::uint8_t> find_gid(Context& context, std::uint8_t port, const Gid& gid, bool roce_v2) {
  const auto attributes = uapi::query_port(context.commands(), port);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  for (std::uint32_t index = 0; index < std::min(attributes->gid_table_entries, 256U); ++index) {
    const auto entry = uapi::query_gid_entry(context.commands(), port, index);
    if (!entry && entry.error().errno_value != ENODATA) {
      return std::unexpected(entry.error());
    }
    if (entry && entry->gid == gid && (entry->type == uapi::GidType::kRoceV2) == roce_v2) {
      return static_cast<std::uint8_t>(index);
    }
  }
  return fail(EINVAL, fmt::format("address from completion: {} is no GID of port {}", to_string(gid), port));
}

Expected<void> set_from_ipv4(Context& context, std::uint8_t port, const iphdr& header, ibv_ah_attr& attributes) {
  const Gid sender = mapped_gid(header.saddr);
  const auto index = find_gid(context, port, mapped_gid(header.daddr), true);
  if (!index) {
    return std::unexpected(index.error());
  }
  std::memcpy(attributes.grh.dgid.raw, sender.data(), sender.size());
  attributes.grh.sgid_index = *index;
  attributes.grh.hop_limit = header.ttl;
  attributes.grh.traffic_class = header.tos;
  return {};
}

Expected<void> set_from_grh(Context& context, std::uint8_t port, const ibv_grh& grh, ibv_ah_attr& attributes) {
  if (grh.next_hdr != IPPROTO_UDP && grh.next_hdr != kTransportHeaderNext) {
    return fail(EPROTONOSUPPORT, fmt::format("address from completion: next header {:#x} of the GRH", grh.next_hdr));
  }
  Gid own;
  std::memcpy(own.data(), grh.dgid.raw, own.size());
  const auto index = find_gid(context, port, own, grh.next_hdr == IPPROTO_UDP);
  if (!index) {
    return std::unexpected(index.error());
  }
  const std::uint32_t word = be32toh(grh.version_tclass_flow);
  attributes.grh.dgid = grh.sgid;
  attributes.grh.sgid_index = *index;
  attributes.grh.flow_label = word & 0xfffff;
  attributes.grh.hop_limit = grh.hop_limit;
  attributes.grh.traffic_class = static_cast<std::uint8_t>(word >> 20);
  return {};
}

constexpr std::uint16_t kNoVlan = 0xffff;

std::uint16_t vlan_of(std::uint32_t interface_index) {
  vlan_ioctl_args request{};
  request.cmd = GET_VLAN_VID_CMD;
  std::array<char, IF_NAMESIZE> name{};
  const uapi::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::if_indextoname(interface_index, name.data()) == nullptr) {
    return kNoVlan;
  }
  std::memcpy(request.device1, name.data(), name.size());
  return ::ioctl(socket.get(), SIOCGIFVLAN, &request) == 0 ? static_cast<std::uint16_t>(request.u.VID) : kNoVlan;
}

// The kernel resolves addresses for an address handle: one is made in a domain of its own and ended at once.
Expected<std::array<std::uint8_t, 6>> resolve_by_kernel(uapi::Commands& commands, const uapi::AddressVector& address) {
  const auto pd = uapi::alloc_pd(commands);
  if (!pd) {
    return std::unexpected(pd.error());
  }
  const auto ah = uapi::create_ah(commands, pd->handle, 0, address);
  if (ah) {
    (void)uapi::destroy_ah(commands, ah->handle);
  }
  (void)uapi::dealloc_pd(commands, pd->handle);
  if (!ah) {
    return std::unexpected(ah.error());
  }
  return ah->destination_mac;
}

}  // namespace

uapi::AddressVector address_vector(const ibv_ah_attr& from) {
  uapi::AddressVector to;
  std::memcpy(to.dgid.data(), from.grh.dgid.raw, to.dgid.size());
  to.flow_label = from.grh.flow_label;
  to.sgid_index = from.grh.sgid_index;
  to.hop_limit = from.grh.hop_limit;
  to.traffic_class = from.grh.traffic_class;
  to.dlid = from.dlid;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.is_global = from.is_global != 0;
  to.port = from.port_num;
  return to;
}

ibv_ah* create_ah(ibv_pd* pd, const ibv_ah_attr& attributes) {
  auto native = native_of(pd).create_ah(address_vector(attributes));
  if (!native) {
    report(native.error());
    errno = errno == ENODATA ? EINVAL : errno;  // an empty source GID is a bad argument of this call
    return nullptr;
  }
  auto object = std::make_unique<AhObject>();
  object->ah.context = pd->context;
  object->ah.pd = pd;
  object->ah.handle = (*native)->handle().value;
  object->native = std::move(*native);
  return &object.release()->ah;
}

int destroy_ah(ibv_ah* ah) {
  AhObject& object = object_of(ah);
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

int init_ah_from_wc(ibv_context* context, std::uint8_t port, const ibv_wc& completion, const ibv_grh* grh,
                    ibv_ah_attr& attributes) {
  attributes = {};
  attributes.dlid = completion.slid;
  attributes.sl = completion.sl;
  attributes.src_path_bits = completion.dlid_path_bits;
  attributes.port_num = port;
  if ((completion.wc_flags & IBV_WC_GRH) == 0) {
    return 0;
  }
  attributes.is_global = 1;
  iphdr ipv4;
  const auto result = holds_ipv4(*grh, ipv4) ? set_from_ipv4(native_of(context), port, ipv4, attributes)
                                             : set_from_grh(native_of(context), port, *grh, attributes);
  return result ? 0 : (report(result.error()), -1);
}

int resolve_ethernet(ibv_context* context, const ibv_ah_attr& attributes, std::uint8_t (&mac)[6], std::uint16_t* vlan) {
  uapi::Commands& commands = native_of(context).commands();
  const auto source = uapi::query_gid_entry(commands, attributes.port_num, attributes.grh.sgid_index);
  if (!source) {
    return -report(source.error());
  }
  const auto found = resolve_by_kernel(commands, address_vector(attributes));
  if (!found) {
    return -report(found.error());
  }
  std::memcpy(mac, found->data(), found->size());
  if (vlan != nullptr) {
    *vlan = vlan_of(source->netdev_ifindex);
  }
  return 0;
}

}  // namespace umlx5::verbs
