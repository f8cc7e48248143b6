// Address handles. Only Ethernet ports need the kernel, and only to learn the destination's MAC address.
#pragma once

#include <array>
#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"
#include "uapi/qp.h"

namespace umlx5::uapi {

struct Ah {
  AhHandle handle{};
  std::array<std::uint8_t, 6> destination_mac{};
};

// CREATE_AH. For devices whose cmds_supp_uhw has MLX5_USER_CMDS_SUPP_UHW_CREATE_AH; EOPNOTSUPP if no address came back.
Expected<Ah> create_ah(Commands& commands, PdHandle pd, std::uint64_t user_handle, const AddressVector& address);
Expected<void> destroy_ah(Commands& commands, AhHandle ah);

}  // namespace umlx5::uapi
