// Cancelling requests of a queue that has stopped at a signature error.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "driver/context_state.h"
#include "driver/cq_poll.h"
#include "driver/qp.h"
#include "uapi/devx.h"
#include "wqe/prm/qp.h"

namespace umlx5 {
namespace {

namespace prm = wqe::prm;

constexpr std::uint8_t kDrained = 5;  // QPC.state

}  // namespace

std::size_t SendQueue::cancel(std::uint16_t from, std::uint64_t wr_id) {
  constexpr std::size_t kOpmod = 0, kOpcode = 3, kDs = 7, kSignature = 8;
  static_assert(wqe::offset_bits_of(&wqe::ControlSegment::opcode) == kOpcode * 8);
  std::size_t count = 0;
  const std::uint32_t end = next_wqebb();
  const auto waiting = static_cast<std::uint16_t>(end - from);
  for (std::uint32_t at = end - waiting; at != end;) {
    std::byte* const wqe = ring_.wqebb(at);
    const unsigned octowords = std::to_integer<unsigned>(wqe[kDs]) & wqe::kMaxDsOctowords;
    if (slots_[at & ring_.wqebb_mask()].wr_id == wr_id) {
      wqe[kOpmod] = std::byte{0};
      wqe[kOpcode] = static_cast<std::byte>(wqe::SendOpcode::kNop);
      if (config_.wqe_signature) {
        wqe[kSignature] = std::byte{0};
        sign(at, octowords);
      }
      ++count;
    }
    const auto wqebbs = static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
    if (wqebbs == 0 || wqebbs > end - at) {
      break;  // a WQE that was not built here, and makes no sense
    }
    at += wqebbs;
  }
  return count;
}

Expected<std::size_t> Qp::cancel_sends(std::uint64_t wr_id) {
  std::array<std::byte, prm::ObjectIn::kBytes> in{};
  std::array<std::byte, prm::QueryQpOut::kBytes> out{};
  wqe::store(in.data(), prm::ObjectIn{.header = {.opcode = prm::Opcode::kQueryQp}, .number = qpn_});
  if (auto result = uapi::devx_query(context_->commands(), handle_, in, out); !result) {
    Error error = uapi::with_firmware_errno(std::move(result.error()));
    error.what = fmt::format("{}: cancel: {}", name(), error.what);
    return std::unexpected(std::move(error));
  }
  const auto qpc = wqe::load<prm::QueryQpOut>(out.data()).qpc;
  if (static_cast<std::uint8_t>(qpc.state) != kDrained) {
    return fail(EINVAL, fmt::format("{}: requests can be cancelled in SQD (state 5 of the device), not in state {}",
                                    name(), static_cast<unsigned>(qpc.state)));
  }
  return send_.cancel(qpc.hw_sq_wqebb_counter, wr_id);
}

}  // namespace umlx5
