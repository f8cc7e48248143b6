// Memory keys of the C ABI that work requests configure, and the steps that do it.
#pragma once

#include <infiniband/mlx5dv.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "driver/dek.h"
#include "driver/mkey.h"
#include "driver/resource.h"
#include "driver/types.h"
#include "driver/verbs/objects.h"

struct mlx5dv_crypto_login_obj {
  umlx5::Owned<umlx5::CryptoLogin> native;
};

struct mlx5dv_dek {
  umlx5::Owned<umlx5::Dek> native;
};

namespace umlx5::verbs {

struct MkeyObject {
  mlx5dv_mkey dv{};  // programs may change the low byte of the keys
  Owned<Mkey> native;
};
inline MkeyObject& object_of(mlx5dv_mkey* mkey) { return containing(mkey, &MkeyObject::dv); }

mlx5dv_mkey* create_mkey(mlx5dv_mkey_init_attr* attr);
int destroy_mkey(mlx5dv_mkey* mkey);
int check_mkey(mlx5dv_mkey* mkey, mlx5dv_mkey_err* error, std::size_t error_bytes);

// A request that changes a key, between wr_mkey_configure() and the last of its setters.
struct MkeySteps {
  MkeyObject* mkey = nullptr;
  unsigned setters_to_come = 0;
  SendFlags flags{};
  std::uint64_t wr_id = 0;
  MkeyChange change;
  // What `change` points to: programs' own are theirs again after the call.
  std::array<Sge, wqe::kMaxDsOctowords> sges;
  std::array<InterleavedSge, wqe::kMaxDsOctowords> interleaved;
};

}  // namespace umlx5::verbs
