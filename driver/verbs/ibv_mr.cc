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

int ibv_dereg_mr(ibv_mr* mr) { return deregister_memory(mr); }

}  // extern "C"
