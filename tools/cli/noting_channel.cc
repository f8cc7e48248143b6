#include "tools/cli/noting_channel.h"

#include <rdma/ib_user_ioctl_cmds.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace umlx5::tools {

int NotingChannel::ioctl(ib_uverbs_ioctl_hdr& request) {
  if (request.object_id == UVERBS_OBJECT_QP && request.method_id == UVERBS_METHOD_QP_CREATE) {
    for (const ib_uverbs_attr& attribute : std::span(request.attrs, request.num_attrs)) {
      if (attribute.attr_id == UVERBS_ATTR_UHW_IN) {
        // Eight bytes or less are in the attribute itself.
        const void* const bytes = attribute.len <= sizeof(attribute.data)
                                      ? static_cast<const void*>(&attribute.data)
                                      : reinterpret_cast<const void*>(attribute.data);
        std::memcpy(&noted_.emplace(), bytes, std::min<std::size_t>(attribute.len, sizeof(mlx5_ib_create_qp)));
      }
    }
  }
  return device_->ioctl(request);
}

}  // namespace umlx5::tools
