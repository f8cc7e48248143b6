#include "driver/mkey.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "uapi/devx.h"
#include "wqe/bsf.h"
#include "wqe/prm/mkey.h"
#include "wqe/prm/psv.h"

namespace umlx5 {
namespace {

namespace prm = wqe::prm;

constexpr std::uint32_t kEntryAlign = 4;
constexpr std::uint32_t kFormatOctowords = wqe::SignatureBsf::kBytes / wqe::kOctowordBytes;

template <typename Out, typename In>
Expected<std::pair<uapi::DevxObjectHandle, Out>> create_object(uapi::Commands& commands, const In& in) {
  std::array<std::byte, In::kBytes> request{};
  std::array<std::byte, Out::kBytes> answer{};
  wqe::store(request.data(), in);
  auto handle = uapi::devx_create(commands, request, answer);
  if (!handle) {
    return std::unexpected(uapi::with_firmware_errno(std::move(handle.error())));
  }
  return std::pair(*handle, wqe::load<Out>(answer.data()));
}

Expected<void> check_options(const MkeyOptions& options, const HcaCapabilities& device) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint16_t>::max() / kEntryAlign * kEntryAlign;
  if (options.max_entries > kMost) {
    return fail(EINVAL, fmt::format("mkey create: {} entries; at most {} (width of the WQE's count)",
                                    options.max_entries, kMost));
  }
  if (options.signatures && !device.signatures) {
    return fail(EOPNOTSUPP, "mkey create: the device has no signatures (HCA capability sho)");
  }
  if (options.encryption && !device.encrypts()) {
    return fail(EOPNOTSUPP, "mkey create: the device has no AES-XTS engine (HCA capabilities aes_xts_*)");
  }
  return {};
}

Expected<std::pair<uapi::DevxObjectHandle, std::uint32_t>> create_psv(uapi::Commands& commands, std::uint32_t pdn) {
  auto created = create_object<prm::CreatePsvOut>(
      commands, prm::CreatePsvIn{.header = {.opcode = prm::Opcode::kCreatePsv}, .num_psv = 1, .pd = pdn});
  if (!created) {
    return std::unexpected(std::move(created.error()));
  }
  return std::pair(created->first, created->second.psv0_index);
}

}  // namespace

Expected<Owned<Mkey>> Pd::create_mkey(const MkeyOptions& options) {
  Context::State& state = context_->state();
  if (auto result = check_options(options, state.capabilities); !result) {
    return std::unexpected(std::move(result.error()));
  }
  std::unique_ptr<Mkey> mkey(new (std::nothrow) Mkey);
  if (mkey == nullptr) {
    return fail(ENOMEM, "mkey create: no memory");
  }
  mkey->context_ = context_;
  mkey->pd_ = this;
  if (auto result = mkey->create_in_device(options); !result) {
    static_cast<void>(mkey->destroy_in_device());
    Error error = std::move(result.error());
    error.what = "mkey create: " + error.what;
    return std::unexpected(std::move(error));
  }
  if (options.signatures) {
    state.mkey_table.add(*mkey);
  }
  state.add(state.mkeys, *mkey);
  return Owned<Mkey>(mkey.release());
}

Expected<void> Mkey::create_in_device(const MkeyOptions& options) {
  uapi::Commands& commands = *context_->state().commands;
  if (options.signatures) {
    MkeyState::Signatures& signatures = state_.signatures.emplace();
    for (auto [handle, index] :
         {std::pair(&memory_psv_, &signatures.memory_psv), std::pair(&wire_psv_, &signatures.wire_psv)}) {
      const auto psv = create_psv(commands, pd_->pdn());
      if (!psv) {
        return std::unexpected(psv.error());
      }
      *handle = psv->first;
      *index = psv->second;
    }
  }
  state_.encrypts = options.encryption;
  state_.max_entries = static_cast<std::uint16_t>((options.max_entries + kEntryAlign - 1) / kEntryAlign * kEntryAlign);
  const std::uint32_t formats = (options.signatures ? 1u : 0u) + (options.encryption ? 1u : 0u);
  constexpr auto kMode = static_cast<std::uint8_t>(prm::MkeyMode::kKlm);
  prm::CreateMkeyIn in{.header = {.opcode = prm::Opcode::kCreateMkey}};
  in.mkey = {.free = true,
             .umr_en = true,
             .lr = true,
             .access_mode_1_0 = kMode,
             .qpn = prm::kMkeyAnyQp,
             .bsf_en = formats != 0,
             .en_rinval = options.remote_invalidate,
             .pd = pd_->pdn(),
             .bsf_octword_size = formats * kFormatOctowords,
             .translations_octword_size = state_.max_entries,
             .crypto_en = options.encryption ? std::uint8_t{1} : std::uint8_t{0}};
  const auto created = create_object<prm::ObjectOut>(commands, in);
  if (!created) {
    return std::unexpected(created.error());
  }
  handle_ = created->first;
  state_.key = created->second.number << 8;
  return {};
}

// What there is; stops at what the kernel refuses.
Expected<void> Mkey::destroy_in_device() {
  for (auto* const handle : {&handle_, &memory_psv_, &wire_psv_}) {
    if (*handle) {
      if (auto result = uapi::devx_destroy(*context_->state().commands, **handle); !result) {
        return result;
      }
      handle->reset();
    }
  }
  return {};
}

Expected<void> Mkey::destroy(Mkey& mkey) {
  Context::State& state = mkey.context_->state();
  {
    const std::lock_guard lock(state.mutex);
    state.remove(state.mkeys, mkey);
  }
  if (auto result = mkey.destroy_in_device(); !result) {
    state.add(state.mkeys, mkey);
    return result;
  }
  state.mkey_table.remove(mkey);
  delete &mkey;
  return {};
}

void Mkey::abandon(Mkey& mkey, const Error& why) { log_abandoned(fmt::format("mkey {:#x}", mkey.lkey()), why); }

MkeyState Mkey::state() const {
  MkeyState state = state_;
  if (state.signatures) {
    state.signatures->errors = errors_.load(std::memory_order_acquire);
    state.signatures->errors_to_consume = state.signatures->errors != consumed_errors_;
  }
  return state;
}

void Mkey::set_state(const MkeyState& state) {
  state_ = state;
  if (state.signatures && !state.signatures->errors_to_consume) {
    consumed_errors_ = state.signatures->errors;
  }
}

Expected<std::optional<SignatureMismatch>> Mkey::check() {
  if (!state_.signatures) {
    return fail(EINVAL, fmt::format("mkey {:#x} is not made for signatures", lkey()));
  }
  const std::lock_guard lock(mutex_);
  if (!told_) {
    return std::nullopt;
  }
  using Field = SignatureMismatch::Field;
  constexpr std::uint8_t kBlock = 0, kWire = 0, kMemory = 1;
  const wqe::SignatureErrorCqe& cqe = *told_;
  const bool known = cqe.reference_tag_mismatch || cqe.application_tag_mismatch || cqe.guard_mismatch;
  if (!known || cqe.kind != kBlock || cqe.domain > kMemory) {
    return fail(EINVAL, fmt::format("mkey {:#x}: an unknown signature error: {}", lkey(), wqe::print(cqe)));
  }
  const auto& block = state_.signatures->block;
  const auto* const domain = block ? (cqe.domain == kWire ? &block->wire : &block->memory) : nullptr;
  if (domain == nullptr || !*domain) {
    return fail(EINVAL, fmt::format("mkey {:#x}: a signature error in a domain without signatures", lkey()));
  }
  const std::uint64_t expected = std::uint64_t{cqe.expected_guard} << 32 | cqe.expected_reference_tag;
  const std::uint64_t actual = std::uint64_t{cqe.actual_guard} << 32 | cqe.actual_reference_tag;
  SignatureMismatch mismatch{.on_wire = cqe.domain == kWire, .offset_bytes = cqe.offset_bytes};
  const auto set = [&](Field field, unsigned shift, std::uint64_t mask) {
    mismatch.field = field;
    mismatch.expected = expected >> shift & mask;
    mismatch.actual = actual >> shift & mask;
  };
  if (cqe.reference_tag_mismatch) {
    set(Field::kReferenceTag, 0, 0xffffffff);
  } else if (cqe.application_tag_mismatch) {
    set(Field::kApplicationTag, 32, 0xffff);
  } else if (const auto* const crc = std::get_if<CrcSignature>(&(*domain)->signature)) {
    const bool wide = crc->type == CrcType::kCrc64Xp10;
    set(Field::kGuard, wide ? 0 : 32, wide ? ~std::uint64_t{0} : 0xffffffff);
  } else {
    set(Field::kGuard, 48, 0xffff);
  }
  told_.reset();
  return mismatch;
}

void MkeyTable::add(Mkey& mkey) {
  const std::lock_guard lock(mutex_);
  keys_[mkey.lkey() >> 8] = &mkey;
}

void MkeyTable::remove(const Mkey& mkey) {
  const std::lock_guard lock(mutex_);
  if (const auto found = keys_.find(mkey.lkey() >> 8); found != keys_.end() && found->second == &mkey) {
    keys_.erase(found);
  }
}

bool MkeyTable::tell(const wqe::SignatureErrorCqe& cqe) {
  const std::lock_guard lock(mutex_);
  const auto found = keys_.find(cqe.mkey >> 8);
  if (found == keys_.end()) {
    return false;
  }
  Mkey& mkey = *found->second;
  const std::lock_guard key_lock(mkey.mutex_);
  mkey.told_ = cqe;
  mkey.errors_.fetch_add(1, std::memory_order_release);
  return true;
}

}  // namespace umlx5
