// Dynamically connected targets as mlx5_ib presents them: a QP of the verbs that is on the device from RTR on.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cstdint>

#include "tools/softhca/kernel/request.h"

namespace softhca::kernel {

// The change that a modify request asks of a DCT: 0 or errno. `ece` is asked for, and becomes what the device grants;
// `dctn` becomes the target's number once it has one.
int modify_dct(Request& request, Qp& dct, const ib_uverbs_modify_qp& asked, std::uint32_t& ece, std::uint32_t& dctn);

// Its attributes; EINVAL before RTR.
int query_dct(Request& request, Qp& dct, ib_uverbs_query_qp_resp& response);

// Takes it from the device, where it may not be.
int release_dct(RdmaDevice& device, Qp& dct);

}  // namespace softhca::kernel
