#include "uapi/ah.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace umlx5::uapi {

Expected<Ah> create_ah(Commands& commands, PdHandle pd, std::uint64_t user_handle, const AddressVector& address) {
  ib_uverbs_create_ah core{};
  core.user_handle = user_handle;
  core.pd_handle = pd.value;
  std::ranges::copy(address.dgid, core.attr.grh.dgid);
  core.attr.grh.flow_label = address.flow_label;
  core.attr.grh.sgid_index = address.sgid_index;
  core.attr.grh.hop_limit = address.hop_limit;
  core.attr.grh.traffic_class = address.traffic_class;
  core.attr.dlid = address.dlid;
  core.attr.sl = address.sl;
  core.attr.src_path_bits = address.src_path_bits;
  core.attr.static_rate = address.static_rate;
  core.attr.is_global = address.is_global ? 1 : 0;
  core.attr.port_num = address.port;
  ib_uverbs_create_ah_resp answer{};
  mlx5_ib_create_ah_resp driver{};
  const auto done = commands.write({.name = "CREATE_AH",
                                    .number = IB_USER_VERBS_CMD_CREATE_AH,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  if (driver.response_length < offsetof(mlx5_ib_create_ah_resp, dmac) + sizeof(driver.dmac)) {
    (void)destroy_ah(commands, AhHandle{answer.ah_handle});
    return fail(EOPNOTSUPP, "CREATE_AH: the kernel did not tell the destination's MAC address");
  }
  Ah ah{{answer.ah_handle}, {}};
  std::ranges::copy(driver.dmac, ah.destination_mac.begin());
  return ah;
}

Expected<void> destroy_ah(Commands& commands, AhHandle ah) {
  Request request(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, "DESTROY_AH");
  request.handle(UVERBS_ATTR_DESTROY_AH_HANDLE, ah);
  ib_uverbs_destroy_ah core{.ah_handle = ah.value};
  return commands.destroy(
      request, {.name = "DESTROY_AH", .number = IB_USER_VERBS_CMD_DESTROY_AH, .core_in = writable_bytes_of(core)},
      fmt::format("AH handle {}", ah.value));
}

}  // namespace umlx5::uapi
