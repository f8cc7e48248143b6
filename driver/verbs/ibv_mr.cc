// Memory regions that libibverbs exports.
#include "driver/verbs/memory_regions.h"
#include "driver/verbs/objects.h"

using namespace umlx5::verbs;

extern "C" {

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return register_memory(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr), static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return register_memory(pd, addr, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned int access) {
  return register_memory(pd, addr, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  return register_dmabuf(pd, offset, length, iova, fd, static_cast<unsigned>(access));
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  return reregister_memory(mr, flags, pd, addr, length, static_cast<unsigned>(access));
}

ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t mr_handle) { return import_region(pd, mr_handle); }
void ibv_unimport_mr(ibv_mr* mr) { unimport_region(mr); }

int ibv_dereg_mr(ibv_mr* mr) { return deregister_memory(mr); }

}  // extern "C"
