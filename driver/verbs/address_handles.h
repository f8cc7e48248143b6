// Address handles.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "uapi/qp.h"

namespace umlx5::verbs {

uapi::AddressVector address_vector(const ibv_ah_attr& attributes);

ibv_ah* create_ah(ibv_pd* pd, const ibv_ah_attr& attributes);
int destroy_ah(ibv_ah* ah);

// How the sender of a received datagram is reached, from its completion and, where there is one, the 40 bytes in front
// of its payload: a GRH, or for RoCE v2 over IPv4 the IPv4 header in the last 20 of them. 0, or -1 with errno.
int init_ah_from_wc(ibv_context* context, std::uint8_t port, const ibv_wc& completion, const ibv_grh* grh,
                    ibv_ah_attr& attributes);

// The destination's MAC address as the kernel finds it, and the VLAN of the source GID's interface (0xffff: none).
// 0, or errno as a negative number: -EOPNOTSUPP where the kernel does not tell.
int resolve_ethernet(ibv_context* context, const ibv_ah_attr& attributes, std::uint8_t (&mac)[6], std::uint16_t* vlan);

}  // namespace umlx5::verbs
