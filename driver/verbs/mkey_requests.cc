// Requests that change memory keys: wr_mr_list, wr_mr_interleaved, wr_mkey_configure and its setters.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "driver/mkey_wqe.h"
#include "driver/verbs/mkey_objects.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

Refusal refusal_of(int error) {
  return error == ENOMEM ? Refusal::kKeyLayout : error == EOPNOTSUPP ? Refusal::kUnsupported : Refusal::kKeyChange;
}

void refuse(QpObject& qp, int error) { qp.builder.refuse(refusal_of(error)); }

// The request that is open; null, and the batch refused, if there is none.
MkeySteps* open_steps(QpObject& qp) {
  if (!qp.builder.steps_open()) {
    qp.builder.refuse(Refusal::kKeyChange);
    return nullptr;
  }
  return qp.mkey_steps.get();
}

// All setters were called: posts it.
void finish(QpObject& qp, MkeySteps& steps) {
  Mkey& mkey = *steps.mkey->native;
  MkeyState state = mkey.state();
  state.key = steps.mkey->dv.lkey;
  MkeyWqes wqes;
  qp.builder.close_steps();
  if (auto result = build_mkey_wqes(steps.change, qp.native->mkey_limits(), state, wqes); !result) {
    report(result.error());
    return refuse(qp, result.error().errno_value);
  }
  qp.builder.configure_key(state.key, wqes, steps.flags, steps.wr_id);
  if (!qp.builder.refused()) {
    mkey.set_state(state);
  }
}

void setter_done(QpObject& qp, MkeySteps& steps) {
  if (--steps.setters_to_come == 0) {
    finish(qp, steps);
  }
}

void configure(mlx5dv_qp_ex* dv, mlx5dv_mkey* mkey, std::uint8_t setters, mlx5dv_mkey_conf_attr* attr) {
  QpObject& qp = object_of(dv);
  if ((qp.ex.wr_flags & IBV_SEND_INLINE) == 0 ||
      (attr->conf_flags & ~std::uint32_t{MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR}) != 0 || attr->comp_mask != 0) {
    return refuse(qp, EOPNOTSUPP);
  }
  if (qp.mkey_steps == nullptr) {
    qp.mkey_steps.reset(new (std::nothrow) MkeySteps);
    if (qp.mkey_steps == nullptr) {
      return refuse(qp, ENOMEM);
    }
  }
  MkeySteps& steps = *qp.mkey_steps;
  steps.mkey = &object_of(mkey);
  steps.setters_to_come = setters;
  steps.flags = SendFlags::from_bits(qp.ex.wr_flags);
  steps.wr_id = qp.ex.wr_id;
  steps.change = {.forget_signature = (attr->conf_flags & MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR) != 0};
  qp.builder.open_steps();
  if (setters == 0 && qp.builder.steps_open()) {
    finish(qp, steps);
  }
}

void set_access_flags(mlx5dv_qp_ex* dv, std::uint32_t access) {
  QpObject& qp = object_of(dv);
  MkeySteps* const steps = open_steps(qp);
  if (steps == nullptr) {
    return;
  }
  if (steps->change.access) {
    return refuse(qp, EINVAL);
  }
  steps->change.access = AccessFlags::from_bits(access);
  setter_done(qp, *steps);
}

// The open request if it has no layout yet and takes one of `count` entries.
MkeySteps* steps_for_layout(QpObject& qp, std::size_t count) {
  MkeySteps* const steps = open_steps(qp);
  if (steps == nullptr) {
    return nullptr;
  }
  if (steps->change.layout.index() != 0 || count > steps->sges.size()) {
    refuse(qp, count > steps->sges.size() ? ENOMEM : EINVAL);
    return nullptr;
  }
  return steps;
}

void set_layout_list(mlx5dv_qp_ex* dv, std::uint16_t count, const ibv_sge* list) {
  QpObject& qp = object_of(dv);
  if (MkeySteps* const steps = steps_for_layout(qp, count)) {
    std::ranges::copy(sges_of(list, count), steps->sges.begin());
    steps->change.layout = ListLayout{std::span(steps->sges).first(count)};
    setter_done(qp, *steps);
  }
}

void set_layout_interleaved(mlx5dv_qp_ex* dv, std::uint32_t repeat, std::uint16_t count,
                            const mlx5dv_mr_interleaved* entries) {
  constexpr std::uint32_t kMost = 0xffff;
  QpObject& qp = object_of(dv);
  MkeySteps* const steps = steps_for_layout(qp, count);
  if (steps == nullptr) {
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const mlx5dv_mr_interleaved& entry = entries[i];
    if (entry.bytes_count > kMost || entry.bytes_skip > kMost) {
      return refuse(qp, EINVAL);
    }
    steps->interleaved[i] = {.address = entry.addr,
                             .bytes = static_cast<std::uint16_t>(entry.bytes_count),
                             .skip = static_cast<std::uint16_t>(entry.bytes_skip),
                             .lkey = entry.lkey};
  }
  steps->change.layout = InterleavedLayout{.repeat = repeat, .entries = std::span(steps->interleaved).first(count)};
  setter_done(qp, *steps);
}

// None for what the interface does not have.
std::optional<SignatureDomain> domain_of(const mlx5dv_sig_block_domain& from) {
  constexpr unsigned kFlags =
      MLX5DV_SIG_T10DIF_FLAG_REF_REMAP | MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE | MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE;
  if (from.comp_mask != 0) {
    return std::nullopt;
  }
  const auto block = static_cast<BlockSize>(from.block_size);
  if (from.sig_type == MLX5DV_SIG_TYPE_CRC) {
    return SignatureDomain{CrcSignature{static_cast<CrcType>(from.sig.crc->type), from.sig.crc->seed}, block};
  }
  const mlx5dv_sig_t10dif& dif = *from.sig.dif;
  if (from.sig_type != MLX5DV_SIG_TYPE_T10DIF || (dif.flags & ~kFlags) != 0) {
    return std::nullopt;
  }
  return SignatureDomain{T10Dif{.guard = static_cast<GuardType>(dif.bg_type),
                                .background = dif.bg,
                                .application_tag = dif.app_tag,
                                .reference_tag = dif.ref_tag,
                                .increment_reference_tag = (dif.flags & MLX5DV_SIG_T10DIF_FLAG_REF_REMAP) != 0,
                                .escape_application_tag = (dif.flags & MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE) != 0,
                                .escape_both_tags = (dif.flags & MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE) != 0},
                         block};
}

void set_sig_block(mlx5dv_qp_ex* dv, const mlx5dv_sig_block_attr* attr) {
  QpObject& qp = object_of(dv);
  MkeySteps* const steps = open_steps(qp);
  if (steps == nullptr) {
    return;
  }
  if (steps->change.signature || attr->comp_mask != 0 ||
      (attr->flags & ~std::uint32_t{MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK}) != 0) {
    return refuse(qp, EINVAL);
  }
  SignatureBlock block{.check_mask = attr->check_mask};
  for (const auto& [from, to] : {std::pair(attr->mem, &block.memory), std::pair(attr->wire, &block.wire)}) {
    if (from != nullptr) {
      *to = domain_of(*from);
      if (!*to) {
        return refuse(qp, EINVAL);
      }
    }
  }
  if ((attr->flags & MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK) != 0 && block.wire) {
    block.copy_mask = attr->copy_mask;
  }
  steps->change.signature = block;
  setter_done(qp, *steps);
}

void set_crypto(mlx5dv_qp_ex* dv, const mlx5dv_crypto_attr* attr) {
  QpObject& qp = object_of(dv);
  MkeySteps* const steps = open_steps(qp);
  if (steps == nullptr) {
    return;
  }
  if (steps->change.encryption || attr->comp_mask != 0 || attr->crypto_standard != MLX5DV_CRYPTO_STANDARD_AES_XTS ||
      attr->dek == nullptr) {
    return refuse(qp, EINVAL);
  }
  EncryptionBlock block{.encrypt_on_transmit = attr->encrypt_on_tx,
                        .signature_order = static_cast<SignatureOrder>(attr->signature_crypto_order),
                        .data_unit = static_cast<BlockSize>(attr->data_unit_size),
                        .dek = attr->dek->native->number()};
  std::ranges::copy(attr->initial_tweak, block.initial_tweak.begin());
  std::ranges::copy(attr->keytag, block.keytag.begin());
  steps->change.encryption = block;
  setter_done(qp, *steps);
}

constexpr std::uint8_t kAccessAndLayout = 2;

void mr_list(mlx5dv_qp_ex* dv, mlx5dv_mkey* mkey, std::uint32_t access, std::uint16_t count, ibv_sge* list) {
  mlx5dv_mkey_conf_attr attr{};
  configure(dv, mkey, kAccessAndLayout, &attr);
  set_access_flags(dv, access);
  set_layout_list(dv, count, list);
}

void mr_interleaved(mlx5dv_qp_ex* dv, mlx5dv_mkey* mkey, std::uint32_t access, std::uint32_t repeat,
                    std::uint16_t count, mlx5dv_mr_interleaved* entries) {
  mlx5dv_mkey_conf_attr attr{};
  configure(dv, mkey, kAccessAndLayout, &attr);
  set_access_flags(dv, access);
  set_layout_interleaved(dv, repeat, count, entries);
}

}  // namespace

void set_mkey_steps(mlx5dv_qp_ex& dv) {
  dv.wr_mr_list = mr_list;
  dv.wr_mr_interleaved = mr_interleaved;
  dv.wr_mkey_configure = configure;
  dv.wr_set_mkey_access_flags = set_access_flags;
  dv.wr_set_mkey_layout_list = set_layout_list;
  dv.wr_set_mkey_layout_interleaved = set_layout_interleaved;
  dv.wr_set_mkey_sig_block = set_sig_block;
  dv.wr_set_mkey_crypto = set_crypto;
}

int cancel_sends(QpObject& qp, std::uint64_t wr_id) {
  const std::lock_guard lock(qp.send_lock);
  const auto count = qp.native->cancel_sends(wr_id);
  return count ? static_cast<int>(*count) : -report(count.error());
}

}  // namespace umlx5::verbs
