// Address handles and multicast that libibverbs exports.
#include <array>
#include <cstring>

#include "driver/verbs/address_handles.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/qp.h"

using namespace umlx5;
using namespace umlx5::verbs;

namespace {

std::array<std::uint8_t, 16> bytes_of(const ibv_gid* gid) {
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), gid->raw, bytes.size());
  return bytes;
}

}  // namespace

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) { return create_ah(pd, *attr); }
int ibv_destroy_ah(ibv_ah* ah) { return destroy_ah(ah); }

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port_num, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* ah_attr) {
  return init_ah_from_wc(context, port_num, *wc, grh, *ah_attr);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port_num) {
  ibv_ah_attr attributes;
  return init_ah_from_wc(pd->context, port_num, *wc, grh, attributes) == 0 ? create_ah(pd, attributes) : nullptr;
}

int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr, uint8_t eth_mac[ETHERNET_LL_SIZE],
                                uint16_t* vid) {
  return resolve_ethernet(context, *attr, *reinterpret_cast<std::uint8_t(*)[ETHERNET_LL_SIZE]>(eth_mac), vid);
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return result_of(uapi::attach_multicast(native_of(qp->context).commands(), {qp->handle}, bytes_of(gid), lid));
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return result_of(uapi::detach_multicast(native_of(qp->context).commands(), {qp->handle}, bytes_of(gid), lid));
}

}  // extern "C"
