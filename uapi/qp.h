// Queue pairs. Codes of states, types, MTUs and the attribute mask are those of the verbs (enum ibv_qp_attr_mask etc.
// of <infiniband/verbs.h>); all integers are in host order.
#pragma once

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <array>
#include <cstdint>
#include <optional>
#include <variant>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

struct QpRequest {
  std::uint8_t type = 0;             // enum ib_uverbs_qp_type
  std::optional<PdHandle> pd{};      // all types but XRC target
  std::optional<XrcdHandle> xrcd{};  // XRC target only
  std::optional<SrqHandle> srq{};
  std::optional<CqHandle> send_cq{};
  std::optional<CqHandle> recv_cq{};
  std::optional<RwqIndTableHandle> rwq_ind_table{};  // receive side scaling; then neither CQs nor an SRQ
  std::uint64_t user_handle = 0;                     // comes back in events
  ib_uverbs_qp_cap capabilities{};
  std::uint32_t flags = 0;  // enum ib_uverbs_qp_create_flags, IB_UVERBS_QP_CREATE_SQ_SIG_ALL among them
  std::optional<std::uint32_t> source_qpn{};
  int async_event_fd = -1;  // -1: the context's
  std::variant<mlx5_ib_create_qp, mlx5_ib_create_qp_rss> driver{};
};

struct Qp {
  QpHandle handle{};
  std::uint32_t qpn = 0;            // 24 bits. A DCT has none before it is moved to RTR: see QpChange
  ib_uverbs_qp_cap capabilities{};  // as the kernel grants them
  mlx5_ib_create_qp_resp driver{};  // what the kernel does not know is zero
};

// CREATE_QP. On kernels without the method it is a write command; the extended one if there are flags besides
// IB_UVERBS_QP_CREATE_SQ_SIG_ALL, an indirection table or a source QPN.
// EINVAL, before the kernel is asked, if an XRC target has no XRCD or another type no PD.
Expected<Qp> create_qp(Commands& commands, const QpRequest& request);

struct AddressVector {
  std::array<std::uint8_t, 16> dgid{};  // network order
  std::uint32_t flow_label = 0;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint16_t dlid = 0;
  std::uint8_t sl = 0;
  std::uint8_t src_path_bits = 0;
  std::uint8_t static_rate = 0;
  bool is_global = false;  // the five above `dlid` count
  std::uint8_t port = 0;
};

struct QpAttributes {
  std::uint8_t state = 0;
  std::uint8_t current_state = 0;
  std::uint8_t path_mtu = 0;
  std::uint8_t path_migration_state = 0;
  std::uint32_t qkey = 0;
  std::uint32_t rq_psn = 0;
  std::uint32_t sq_psn = 0;
  std::uint32_t destination_qpn = 0;
  std::uint32_t access = 0;
  AddressVector primary{};
  AddressVector alternate{};
  ib_uverbs_qp_cap capabilities{};  // queries only
  std::uint16_t pkey_index = 0;
  std::uint16_t alternate_pkey_index = 0;
  std::uint8_t notify_when_drained = 0;  // changes only
  std::uint8_t draining = 0;             // queries only
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t port = 0;
  std::uint8_t timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
  std::uint8_t alternate_port = 0;
  std::uint8_t alternate_timeout = 0;
  bool sq_signal_all = false;         // queries only
  std::uint32_t rate_limit_kbps = 0;  // changes only
};

// What a change with a driver part told.
struct QpChange {
  std::uint32_t dctn = 0;  // the number of a DCT, valid once it is in RTR and response_bytes is at least 8
  std::uint32_t ece_options = 0;
  std::uint32_t response_bytes = 0;
};

// MODIFY_QP. Attributes outside `mask` are not sent. With `driver`, or with the rate limit in `mask`, it is the
// extended command.
Expected<QpChange> modify_qp(Commands& commands, QpHandle qp, const QpAttributes& attributes, std::uint32_t mask,
                             const std::optional<mlx5_ib_modify_qp>& driver = std::nullopt);

Expected<QpAttributes> query_qp(Commands& commands, QpHandle qp, std::uint32_t mask);

// Returns how many events of the QP were given out: its owner waits until all of them are acknowledged.
Expected<std::uint32_t> destroy_qp(Commands& commands, QpHandle qp);

// A multicast group's GID (network order) and LID (host order).
Expected<void> attach_multicast(Commands& commands, QpHandle qp, const std::array<std::uint8_t, 16>& gid,
                                std::uint16_t lid);
Expected<void> detach_multicast(Commands& commands, QpHandle qp, const std::array<std::uint8_t, 16>& gid,
                                std::uint16_t lid);

struct SharedQpRequest {
  XrcdHandle xrcd{};
  std::uint64_t user_handle = 0;
  std::uint32_t qpn = 0;
  std::uint8_t type = 0;
};

// OPEN_QP: a reference to an XRC target that another process created.
Expected<Qp> open_qp(Commands& commands, const SharedQpRequest& request);

}  // namespace umlx5::uapi
