// XRC domains.
#pragma once

#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

// OPEN_XRCD. Processes that open the file behind `fd` share the domain; -1 is a domain of one's own. `flags` are
// O_CREAT and O_EXCL as for open().
Expected<XrcdHandle> open_xrcd(Commands& commands, int fd, std::uint32_t flags);
Expected<void> close_xrcd(Commands& commands, XrcdHandle xrcd);

}  // namespace umlx5::uapi
