#include "uapi/xrcd.h"

#include <fmt/format.h>

namespace umlx5::uapi {

Expected<XrcdHandle> open_xrcd(Commands& commands, int fd, std::uint32_t flags) {
  ib_uverbs_open_xrcd core{};
  core.fd = static_cast<std::uint32_t>(fd);
  core.oflags = flags;
  ib_uverbs_open_xrcd_resp answer{};
  const auto done = commands.write({.name = "OPEN_XRCD",
                                    .number = IB_USER_VERBS_CMD_OPEN_XRCD,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return XrcdHandle{answer.xrcd_handle};
}

Expected<void> close_xrcd(Commands& commands, XrcdHandle xrcd) {
  Request request(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, "CLOSE_XRCD");
  request.handle(UVERBS_ATTR_DESTROY_XRCD_HANDLE, xrcd);
  ib_uverbs_close_xrcd core{.xrcd_handle = xrcd.value};
  return commands.destroy(
      request, {.name = "CLOSE_XRCD", .number = IB_USER_VERBS_CMD_CLOSE_XRCD, .core_in = writable_bytes_of(core)},
      fmt::format("XRCD handle {}", xrcd.value));
}

}  // namespace umlx5::uapi
