// libefa.so.1, which perftest is linked with: no device of its kind is ever found, so every call refuses.
#include <infiniband/efadv.h>

#include <cerrno>

namespace {

template <typename T>
T* refuse() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

extern "C" {

ibv_qp* efadv_create_driver_qp(ibv_pd*, ibv_qp_init_attr*, uint32_t) { return refuse<ibv_qp>(); }
ibv_qp* efadv_create_qp_ex(ibv_context*, ibv_qp_init_attr_ex*, efadv_qp_init_attr*, uint32_t) {
  return refuse<ibv_qp>();
}
int efadv_query_device(ibv_context*, efadv_device_attr*, uint32_t) { return EOPNOTSUPP; }
int efadv_query_ah(ibv_ah*, efadv_ah_attr*, uint32_t) { return EOPNOTSUPP; }
ibv_cq_ex* efadv_create_cq(ibv_context*, ibv_cq_init_attr_ex*, efadv_cq_init_attr*, uint32_t) {
  return refuse<ibv_cq_ex>();
}
efadv_cq* efadv_cq_from_ibv_cq_ex(ibv_cq_ex*) { return refuse<efadv_cq>(); }

}  // extern "C"
