// Multicast groups of queue pairs.
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/prm/mcg.h"

namespace softhca::kernel {

namespace prm = umlx5::wqe::prm;

namespace {

int group_command(Firmware& firmware, prm::Opcode opcode, const Qp& qp, const Gid& gid) {
  const auto out = command<prm::ObjectOut>(
      firmware, prm::McgIn{.header = {.opcode = opcode, .uid = qp.uid}, .qpn = qp.number, .multicast_gid = gid});
  return out ? 0 : out.error();
}

// The checks of ib_core, which ignores the LID on an Ethernet port.
int find(Request& request, const ib_uverbs_attach_mcast& asked, Qp*& qp, McastGroup& group) {
  qp = request.file().find<Qp>(asked.qp_handle);
  group.lid = asked.mlid;
  std::ranges::copy(asked.gid, group.gid.begin());
  return qp == nullptr ? EINVAL : 0;
}

bool may_attach(const Qp& qp, const McastGroup& group) {
  return qp.qp_type == IB_UVERBS_QPT_UD && is_multicast(group.gid);
}

}  // namespace

int Qp::leave_groups(RdmaDevice& device) {
  for (; !groups.empty(); groups.pop_back()) {
    if (const int error = group_command(device.firmware(), prm::Opcode::kDetachFromMcg, *this, groups.back().gid);
        error != 0) {
      return error;
    }
  }
  return 0;
}

namespace handlers {

int attach_mcast(Request& request) {
  ib_uverbs_attach_mcast asked{};
  Qp* qp = nullptr;
  McastGroup group;
  int error = request.get_core(asked);
  error = error != 0 ? error : find(request, asked, qp, group);
  if (error != 0 || std::ranges::count(qp->groups, group) != 0) {
    return error;
  }
  error =
      may_attach(*qp, group) ? group_command(request.firmware(), prm::Opcode::kAttachToMcg, *qp, group.gid) : EINVAL;
  if (error == 0) {
    qp->groups.push_back(group);
  }
  return error;
}

int detach_mcast(Request& request) {
  ib_uverbs_attach_mcast asked{};
  Qp* qp = nullptr;
  McastGroup group;
  int error = request.get_core(asked);
  error = error != 0 ? error : find(request, asked, qp, group);
  if (error != 0) {
    return error;
  }
  const auto found = std::ranges::find(qp->groups, group);
  if (!may_attach(*qp, group) || found == qp->groups.end()) {
    return EINVAL;
  }
  // The device knows a GID once, under whatever LIDs programs have named it.
  qp->groups.erase(found);
  if (std::ranges::count(qp->groups, group.gid, &McastGroup::gid) != 0) {
    return 0;
  }
  error = group_command(request.firmware(), prm::Opcode::kDetachFromMcg, *qp, group.gid);
  if (error != 0) {
    qp->groups.push_back(group);
  }
  return error;
}

}  // namespace handlers
}  // namespace softhca::kernel
