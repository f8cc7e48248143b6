// Memory regions.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace umlx5::verbs {

// Access bits are enum ibv_access_flags; the optional ones (IBV_ACCESS_OPTIONAL_RANGE) are left out for a kernel that
// does not know which it may ignore.
ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova, unsigned access);
ibv_mr* register_dmabuf(ibv_pd* pd, std::uint64_t offset, std::size_t bytes, std::uint64_t iova, int fd,
                        unsigned access);
// 0, or a value of enum ibv_rereg_mr_err_code with errno.
int reregister_memory(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes, unsigned access);
int deregister_memory(ibv_mr* mr);

// A region that reads as zeros and swallows writes. EOPNOTSUPP if the device has no key for it.
ibv_mr* alloc_null_region(ibv_pd* pd);
int advise_memory(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list, std::uint32_t count);

// A region that another user of the same context made. Its address is not known here.
ibv_mr* import_region(ibv_pd* pd, std::uint32_t handle);
void unimport_region(ibv_mr* mr);

}  // namespace umlx5::verbs
