// Multicast groups.
#include "tools/softhca/hca/command.h"
#include "tools/softhca/hca/gid.h"
#include "wqe/prm/mcg.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

Refusal find_member(Device& device, const Request& request, const prm::McgIn& in, QpObject*& qp) {
  if (const Refusal refusal = find_qp(device, request, qp)) {
    return refusal;
  }
  if (qp->type != QpType::kUd) {
    return bad_resource(Syndrome::kMulticastQpType);
  }
  return group_of(in.multicast_gid) ? Refusal{} : bad_parameter(Syndrome::kMulticastGid);
}

}  // namespace

Refusal attach_to_mcg(Device& device, const Request& request) {
  const auto in = request.as<prm::McgIn>();
  QpObject* qp = nullptr;
  if (const Refusal refusal = find_member(device, request, in, qp)) {
    return refusal;
  }
  MulticastGroups& groups = device.groups;
  if (groups.has(in.multicast_gid, *qp)) {
    return {};
  }
  const bool is_new = groups.members(in.multicast_gid).empty();
  if ((is_new && groups.count() >= 1u << device.profile.log_max_mcg) ||
      groups.members(in.multicast_gid).size() >= device.profile.max_qp_mcg) {
    return exceeds_limit(Syndrome::kMulticastLimit);
  }
  if (!device.port.join(*group_of(in.multicast_gid))) {
    return {prm::Status::kNoResources, Syndrome::kMulticastJoin};
  }
  groups.add(in.multicast_gid, *qp);
  return {};
}

Refusal detach_from_mcg(Device& device, const Request& request) {
  const auto in = request.as<prm::McgIn>();
  QpObject* qp = nullptr;
  if (const Refusal refusal = find_member(device, request, in, qp)) {
    return refusal;
  }
  if (!device.groups.has(in.multicast_gid, *qp)) {
    return bad_resource(Syndrome::kMulticastNotAttached);
  }
  device.groups.remove(in.multicast_gid, *qp);
  if (const auto group = *group_of(in.multicast_gid); device.groups.receivers(group).empty()) {
    device.port.leave(group);
  }
  return {};
}

}  // namespace softhca::hca
