// Flow rules of programs: ibv_create_flow().
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca::kernel {

int Flow::release(RdmaDevice& device) { return device.flows().remove(rule); }

namespace handlers {
namespace {

namespace prm = umlx5::wqe::prm;

// enum ibv_flow_attr_type and ibv_flow_spec_type of the verbs.
constexpr std::uint32_t kNormal = 0, kMulticastDefault = 2;  // 1: all that nobody else gets
constexpr std::uint32_t kSpecEth = 0x20, kSpecIpv4 = 0x30, kSpecIpv6 = 0x31, kSpecIpv4Ext = 0x32, kSpecTcp = 0x40,
                        kSpecUdp = 0x41;
constexpr std::uint16_t kLastPriority = 7;
constexpr std::uint16_t kEthertypeIpv4 = 0x0800, kEthertypeIpv6 = 0x86dd;
constexpr std::uint8_t kTcp = 6, kUdp = 17;

std::uint16_t host(std::uint16_t big_endian) { return __builtin_bswap16(big_endian); }

// One specification's part of a rule; `headers` is the rule's mask or its value.
void take_eth(const ib_uverbs_flow_eth_filter& filter, bool has_vlan, prm::MatchHeaders& headers) {
  std::memcpy(headers.dmac.data(), filter.dst_mac, headers.dmac.size());
  std::memcpy(headers.smac.data(), filter.src_mac, headers.smac.size());
  headers.ethertype |= host(filter.ether_type);
  if (has_vlan) {
    const std::uint16_t tci = host(filter.vlan_tag);
    headers.cvlan_tag = true;
    headers.first_prio = static_cast<std::uint8_t>(tci >> 13);
    headers.first_cfi = (tci >> 12 & 1) != 0;
    headers.first_vid = tci & 0xfff;
  }
}

void take_ipv4(const ib_uverbs_flow_ipv4_filter& filter, prm::MatchHeaders& headers) {
  std::memcpy(headers.src_ip.data() + 12, &filter.src_ip, 4);
  std::memcpy(headers.dst_ip.data() + 12, &filter.dst_ip, 4);
  headers.ip_protocol |= filter.proto;
  headers.ip_dscp = filter.tos >> 2;
  headers.ip_ecn = filter.tos & 3;
  headers.ttl_hoplimit = filter.ttl;
}

void take_ipv6(const ib_uverbs_flow_ipv6_filter& filter, prm::MatchHeaders& headers) {
  std::memcpy(headers.src_ip.data(), filter.src_ip, 16);
  std::memcpy(headers.dst_ip.data(), filter.dst_ip, 16);
  headers.ip_protocol |= filter.next_hdr;
  headers.ip_dscp = filter.traffic_class >> 2;
  headers.ip_ecn = filter.traffic_class & 3;
  headers.ttl_hoplimit = filter.hop_limit;
}

void take_ports(const ib_uverbs_flow_tcp_udp_filter& filter, bool udp, prm::MatchHeaders& headers) {
  (udp ? headers.udp_sport : headers.tcp_sport) = host(filter.src_port);
  (udp ? headers.udp_dport : headers.tcp_dport) = host(filter.dst_port);
}

void require(std::uint16_t ethertype, FlowMatch& match) {
  match.mask.ethertype = 0xffff;
  match.value.ethertype = ethertype;
}

// The value and the mask of a specification; older programs' filters are shorter, newer programs' end in zeros.
template <typename Filter>
int read_filters(std::span<const std::byte> bytes, Filter& value, Filter& mask) {
  bytes = bytes.subspan(sizeof(ib_uverbs_flow_spec_hdr));
  const std::size_t filter_bytes = bytes.size() / 2;
  const std::size_t known = std::min(filter_bytes, sizeof(Filter));
  if (bytes.size() % 2 != 0 || filter_bytes == 0) {
    return EINVAL;
  }
  if (!Request::is_zero(bytes.subspan(filter_bytes + known))) {
    return EOPNOTSUPP;
  }
  std::memset(&value, 0, sizeof value);
  std::memset(&mask, 0, sizeof mask);
  std::memcpy(&value, bytes.data(), known);
  std::memcpy(&mask, bytes.data() + filter_bytes, known);
  return 0;
}

int take_ipv6_spec(std::span<const std::byte> bytes, FlowMatch& match) {
  ib_uverbs_flow_ipv6_filter value, mask;
  if (const int error = read_filters(bytes, value, mask); error != 0) {
    return error;
  }
  if (mask.flow_label != 0) {
    return EOPNOTSUPP;
  }
  require(kEthertypeIpv6, match);
  take_ipv6(value, match.value);
  take_ipv6(mask, match.mask);
  return 0;
}

int take_ipv4_spec(std::span<const std::byte> bytes, FlowMatch& match) {
  ib_uverbs_flow_ipv4_filter value, mask;
  if (const int error = read_filters(bytes, value, mask); error != 0) {
    return error;
  }
  if (mask.flags != 0) {
    return EOPNOTSUPP;
  }
  require(kEthertypeIpv4, match);
  take_ipv4(value, match.value);
  take_ipv4(mask, match.mask);
  return 0;
}

int take_eth_spec(std::span<const std::byte> bytes, FlowMatch& match) {
  ib_uverbs_flow_eth_filter value, mask;
  if (const int error = read_filters(bytes, value, mask); error != 0) {
    return error;
  }
  take_eth(value, mask.vlan_tag != 0, match.value);
  take_eth(mask, mask.vlan_tag != 0, match.mask);
  return 0;
}

int take_port_spec(bool udp, std::span<const std::byte> bytes, FlowMatch& match) {
  ib_uverbs_flow_tcp_udp_filter value, mask;
  if (const int error = read_filters(bytes, value, mask); error != 0) {
    return error;
  }
  match.mask.ip_protocol = 0xff;
  match.value.ip_protocol = udp ? kUdp : kTcp;
  take_ports(value, udp, match.value);
  take_ports(mask, udp, match.mask);
  return 0;
}

int take_spec(std::uint32_t type, std::span<const std::byte> bytes, FlowMatch& match) {
  switch (type) {
    case kSpecEth:
      return take_eth_spec(bytes, match);
    case kSpecIpv4:
    case kSpecIpv4Ext:
      return take_ipv4_spec(bytes, match);
    case kSpecIpv6:
      return take_ipv6_spec(bytes, match);
    case kSpecTcp:
    case kSpecUdp:
      return take_port_spec(type == kSpecUdp, bytes, match);
    default:
      return EOPNOTSUPP;
  }
}

int take_specs(std::span<const std::byte> specs, unsigned count, FlowMatch& match) {
  for (unsigned i = 0; i < count; ++i) {
    ib_uverbs_flow_spec_hdr header;
    if (specs.size() < sizeof header) {
      return EINVAL;
    }
    std::memcpy(&header, specs.data(), sizeof header);
    if (header.size < sizeof header || header.size > specs.size()) {
      return EINVAL;
    }
    if (const int error = take_spec(header.type, specs.first(header.size), match); error != 0) {
      return error;
    }
    specs = specs.subspan(header.size);
  }
  return specs.empty() ? 0 : EINVAL;
}

}  // namespace

int create_flow(Request& request) {
  constexpr std::size_t kFixedBytes = sizeof(ib_uverbs_create_flow);
  const std::span<const std::byte> core = request.core_in();
  ib_uverbs_create_flow asked;
  if (core.size() < kFixedBytes) {
    return EINVAL;
  }
  std::memcpy(&asked, core.data(), kFixedBytes);
  const ib_uverbs_flow_attr& attr = asked.flow_attr;
  if (asked.comp_mask != 0 || attr.reserved[0] != 0 || attr.reserved[1] != 0 || attr.port != 1 ||
      attr.size > core.size() - kFixedBytes) {
    return EINVAL;
  }
  if (!request.device().caps().nic_flow_table || attr.type > kMulticastDefault || attr.flags != 0 ||
      !request.driver_in_is_zero_from(0)) {
    return EOPNOTSUPP;
  }
  if (attr.priority > kLastPriority) {
    return ENOSPC;
  }
  Qp* const qp = request.file().find<Qp>(asked.qp_handle);
  if (qp == nullptr || qp->qp_type != IB_UVERBS_QPT_RAW_PACKET || qp->raw.tirn == 0) {
    return EINVAL;
  }
  FlowMatch match;
  if (const int error = take_specs(core.subspan(kFixedBytes, attr.size), attr.num_of_specs, match); error != 0) {
    return error;
  }
  if (attr.type == kMulticastDefault) {
    match.mask.dmac[0] = match.value.dmac[0] = 1;
  }
  const std::uint16_t priority = attr.type == kNormal ? attr.priority : FlowRules::kPriorities - 1;
  const auto rule = request.device().flows().add(priority, match, qp->raw.tirn);
  if (!rule) {
    return rule.error();
  }
  auto flow = std::make_unique<Flow>(request.uid(), *rule);
  flow->use(qp);
  const struct { std::uint32_t comp_mask, flow_handle; } response{0, request.adopt(std::move(flow))};
  return request.put_core(response);
}

int write_destroy_flow(Request& request) {
  ib_uverbs_destroy_flow asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Flow* const flow = request.file().find<Flow>(asked.flow_handle);
  if (asked.comp_mask != 0 || flow == nullptr) {
    return EINVAL;
  }
  const auto counts = request.file().destroy(*flow);
  return counts ? 0 : counts.error();
}

}  // namespace handlers
}  // namespace softhca::kernel
