// What a queue pair is told by the device's own commands, because the kernel's have no words for it.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "driver/context_state.h"
#include "driver/dv_flags.h"
#include "driver/qp.h"
#include "driver/qp_geometry.h"
#include "uapi/devx.h"
#include "wqe/prm/command.h"
#include "wqe/prm/qp.h"

namespace umlx5 {
namespace {

namespace prm = wqe::prm;

using Mailbox = std::array<std::byte, prm::kQpcExtensionOffset + prm::QpcExtension::kBytes>;

Expected<void> send(uapi::Commands& commands, uapi::QpHandle qp, const prm::ModifyQpIn& change,
                    const prm::QpcExtension& extension) {
  Mailbox in{};
  std::array<std::byte, prm::OutputHeader::kBytes + 8> out{};
  wqe::store(in.data(), change);
  wqe::store(in.data() + prm::kQpcExtensionOffset, extension);
  auto done = uapi::devx_modify(commands, qp, in, out);
  if (!done) {
    return std::unexpected(uapi::with_firmware_errno(std::move(done.error())));
  }
  return {};
}

}  // namespace

Expected<void> Qp::reset_dci_stream(std::uint16_t stream) {
  const Context::State& state = context_->state();
  if (state.query.driver.base.dci_streams_caps.max_log_num_errored == 0 || !state.capabilities.qpc_extension) {
    return fail(EOPNOTSUPP, name() + ": the device has no streams that stop alone (dci_streams_caps, qpc_extension)");
  }
  if (this->state() != QpState::kRts) {
    return fail(EOPNOTSUPP, fmt::format("{} is in {}; streams are reset in RTS", name(), to_string(this->state())));
  }
  if (dc_type_ != DcType::kDci) {
    return fail(EINVAL, name() + ": only a DCI has streams");
  }
  prm::ModifyQpIn change;
  change.header.opcode = prm::Opcode::kRts2RtsQp;
  change.qpn = qpn_;
  change.qpc_ext = true;
  change.opt_param_mask_95_32 = prm::kOpt2DciStreamChannelId;
  return send(*state.commands, handle_, change, {.dci_stream_channel_id = stream});
}

// After the change to INIT. The queue pair stays in INIT if this fails.
Expected<void> Qp::initialize_in_device() {
  uapi::Commands& commands = *context_->state().commands;
  prm::ModifyQpIn change;
  change.header.opcode = prm::Opcode::kInit2InitQp;
  change.qpn = qpn_;
  if ((dv_create_flags_ & dv::kSignaturePipelining) != 0) {
    prm::ModifyQpIn drain = change;
    drain.opt_param_mask = prm::kOptDrainSigerr;
    drain.qpc.drain_sigerr = true;
    if (auto result = send(commands, handle_, drain, {}); !result) {
      return result;
    }
  }
  const bool copies = (send_operations_ & static_cast<std::uint64_t>(SendOperation::kMemcpy)) != 0;
  if (copies && context_->state().capabilities.dma_mmo_qp) {
    change.qpc_ext = true;
    change.opt_param_mask_95_32 = prm::kOpt2Mmo;
    return send(commands, handle_, change, {.mmo = true});
  }
  return {};
}

}  // namespace umlx5
