#include "driver/verbs/mkey_objects.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "driver/verbs/report.h"

namespace umlx5::verbs {

mlx5dv_mkey* create_mkey(mlx5dv_mkey_init_attr* attr) {
  const bool tags = (native_of(attr->pd->context).kernel_info().device.comp_mask &
                     MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG) != 0;
  const std::uint32_t known = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE |
                              MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO | MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE |
                              (tags ? MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG : 0);
  if (attr->create_flags == 0 || (attr->create_flags & ~known) != 0) {
    return report_null(
        {EOPNOTSUPP, fmt::format("mkey: create_flags {:#x}; of {:#x}, and not 0", attr->create_flags, known)});
  }
  const auto has = [&](std::uint32_t flag) { return (attr->create_flags & flag) != 0; };
  auto created =
      native_of(attr->pd).create_mkey({.max_entries = attr->max_entries,
                                       .signatures = has(MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE),
                                       .encryption = has(MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO),
                                       .remote_invalidate = has(MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE)});
  if (!created) {
    return report_null(created.error());
  }
  auto* const object = new MkeyObject;
  object->native = std::move(*created);
  object->dv = {.lkey = object->native->lkey(), .rkey = object->native->rkey()};
  attr->max_entries = static_cast<std::uint16_t>(object->native->max_entries());
  return &object->dv;
}

int destroy_mkey(mlx5dv_mkey* mkey) {
  MkeyObject& object = object_of(mkey);
  const int error = result_of(object.native.destroy());
  if (error == 0) {
    delete &object;
  }
  return error;
}

int check_mkey(mlx5dv_mkey* mkey, mlx5dv_mkey_err* error, std::size_t error_bytes) {
  const auto mismatch = object_of(mkey).native->check();
  if (!mismatch) {
    return report(mismatch.error());
  }
  mlx5dv_mkey_err told{};
  told.err_type = MLX5DV_MKEY_NO_ERR;
  if (*mismatch) {
    using Field = SignatureMismatch::Field;
    told.err_type = (*mismatch)->field == Field::kReferenceTag     ? MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG
                    : (*mismatch)->field == Field::kApplicationTag ? MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG
                                                                   : MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD;
    told.err.sig = {.actual_value = (*mismatch)->actual,
                    .expected_value = (*mismatch)->expected,
                    .offset = (*mismatch)->offset_bytes};
  }
  std::copy_n(reinterpret_cast<const std::byte*>(&told), std::min(error_bytes, sizeof told),
              reinterpret_cast<std::byte*>(error));
  return 0;
}

}  // namespace umlx5::verbs
