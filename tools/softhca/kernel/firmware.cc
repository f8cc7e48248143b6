#include "tools/softhca/kernel/firmware.h"

#include <fmt/format.h>

#include <cerrno>

#include "tools/softhca/kernel/log.h"

namespace softhca::kernel {

namespace prm = umlx5::wqe::prm;

int errno_of(prm::Status status) {
  switch (status) {
    case prm::Status::kOk:
      return 0;
    case prm::Status::kBadOperation:
    case prm::Status::kBadParameter:
    case prm::Status::kBadResource:
    case prm::Status::kBadResourceState:
    case prm::Status::kBadIndex:
    case prm::Status::kBadQpState:
    case prm::Status::kBadPacket:
    case prm::Status::kBadSizeOutstandingCqes:
      return EINVAL;
    case prm::Status::kResourceBusy:
      return EBUSY;
    case prm::Status::kExceedsLimit:
      return ENOMEM;
    case prm::Status::kNoResources:
      return EAGAIN;
    default:
      return EIO;
  }
}

int execute_checked(Firmware& firmware, std::span<const std::byte> in, std::span<std::byte> out) {
  firmware.execute(in, out);
  const auto header = umlx5::wqe::load<prm::OutputHeader>(out.data());
  if (header.status != prm::Status::kOk && log_enabled(LogLevel::kInfo)) {
    const auto opcode = umlx5::wqe::load<prm::InputHeader>(in.data()).opcode;
    log(LogLevel::kInfo,
        fmt::format("the device refuses {} ({:#x}): status {:#x} {} ({}), syndrome {:#x}", prm::to_string(opcode),
                    static_cast<unsigned>(opcode), static_cast<unsigned>(header.status), prm::to_string(header.status),
                    prm::words(header.status), header.syndrome));
  }
  return errno_of(header.status);
}

std::expected<std::uint32_t, int> allocate(Firmware& firmware, prm::Opcode opcode, std::uint16_t uid) {
  const auto out =
      command<prm::ObjectOut>(firmware, prm::ObjectIn{.header = {.opcode = opcode, .uid = uid}, .number = 0});
  if (!out) {
    return std::unexpected(out.error());
  }
  return out->number;
}

int command_on_object(Firmware& firmware, prm::Opcode opcode, std::uint16_t uid, std::uint32_t number) {
  const auto out =
      command<prm::ObjectOut>(firmware, prm::ObjectIn{.header = {.opcode = opcode, .uid = uid}, .number = number});
  return out ? 0 : out.error();
}

}  // namespace softhca::kernel
