// TIS, RQT, TIR, flow tables with their groups and entries.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/flow.h"
#include "wqe/prm/tir.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

constexpr std::uint32_t kMaxDestinations = 32;
constexpr std::uint8_t kMaxLogFlowEntries = 12;
constexpr std::uint32_t kMaxFlowGroups = 1u << kMaxLogFlowEntries;

template <typename Object>
Refusal destroy_unused(const Request& request, ObjectTable<Object>& table, Syndrome no_such, Object*& object) {
  if (const Refusal refusal = find(request, table, request.number(), no_such, object)) {
    return refusal;
  }
  return object->users == 0 ? Refusal{} : bad_resource_state(Syndrome::kQueueInUse);
}

Refusal find_rq(Device& device, const Request& request, std::uint32_t number, Qp*& queue) {
  QpObject* found = nullptr;
  if (const Refusal refusal = find(request, device.qps, number, Syndrome::kNoSuchQp, found)) {
    return refusal;
  }
  queue = found;
  return found->type == QpType::kRaw && found->has_rq ? Refusal{} : bad_resource(Syndrome::kWrongQueueKind);
}

HashFields fields_of(const prm::RxHashFieldSelect& select) {
  const auto has = [&](std::uint32_t field) { return (select.selected_fields & field) != 0; };
  return {.ipv6 = select.l3_prot_type == prm::kHashIpv6,
          .udp = select.l4_prot_type == prm::kHashUdp,
          .source_ip = has(prm::kHashSourceIp),
          .destination_ip = has(prm::kHashDestinationIp),
          .source_port = has(prm::kHashSourcePort),
          .destination_port = has(prm::kHashDestinationPort)};
}

Refusal take_hash(const prm::Tirc& context, Tir& tir) {
  constexpr std::uint32_t kKnown =
      prm::kHashSourceIp | prm::kHashDestinationIp | prm::kHashSourcePort | prm::kHashDestinationPort;
  const auto& inner = context.rx_hash_field_selector_inner;
  const auto& outer = context.rx_hash_field_selector_outer;
  if (((inner.selected_fields | outer.selected_fields) & ~kKnown) != 0 || context.packet_merge_mask != 0) {
    return bad_parameter(Syndrome::kTirHash);
  }
  if (context.rx_hash_fn == prm::kRxHashNone) {
    return {};
  }
  const bool both = inner.selected_fields != 0 && outer.selected_fields != 0;
  if (context.rx_hash_fn != prm::kRxHashToeplitz || both ||
      (inner.selected_fields != 0 && !context.tunneled_offload_en)) {
    return bad_parameter(Syndrome::kTirHash);
  }
  tir.hashes = true;
  tir.symmetric = context.rx_hash_symmetric;
  tir.inner = inner.selected_fields != 0;
  tir.key = context.rx_hash_toeplitz_key;
  tir.fields = fields_of(tir.inner ? inner : outer);
  return {};
}

Refusal find_table(Device& device, const Request& request, std::uint8_t type, std::uint32_t id, FlowTable*& table) {
  if (type != prm::kFlowTableNicReceive) {
    return bad_parameter(Syndrome::kFlowTableType);
  }
  return find(request, device.steering.tables, id, Syndrome::kNoSuchFlowTable, table);
}

// The group that `in` names, and its table.
template <typename In>
Refusal find_group(Device& device, const Request& request, const In& in, FlowTable*& table, const FlowGroup*& group) {
  if (const Refusal refusal = find_table(device, request, in.table_type, in.table_id, table)) {
    return refusal;
  }
  group = table->groups.find(in.group_id);
  return group != nullptr ? Refusal{} : bad_resource(Syndrome::kNoSuchFlowGroup);
}

Refusal find_destination(Device& device, const Request& request, const FlowTable& from,
                         const prm::FlowDestination& destination) {
  if (destination.type == prm::kFlowToTir) {
    Tir* tir = nullptr;
    return find(request, device.steering.tirs, destination.id, Syndrome::kNoSuchTir, tir);
  }
  if (destination.type != prm::kFlowToTable) {
    return bad_parameter(Syndrome::kFlowDestination);
  }
  FlowTable* table = nullptr;
  if (const Refusal refusal =
          find(request, device.steering.tables, destination.id, Syndrome::kNoSuchFlowTable, table)) {
    return refusal;
  }
  return table->level > from.level ? Refusal{} : bad_parameter(Syndrome::kFlowDestination);
}

void count_destinations(Device& device, const FlowEntry& entry, int change) {
  if (entry.counter != nullptr) {
    entry.counter->users += static_cast<std::uint32_t>(change);
  }
  for (const prm::FlowDestination& destination : entry.destinations) {
    auto& users = destination.type == prm::kFlowToTir ? device.steering.tirs.find(destination.id)->users
                                                      : device.steering.tables.find(destination.id)->users;
    users += static_cast<std::uint32_t>(change);
  }
}

Refusal take_destinations(Device& device, const Request& request, const FlowTable& table, std::uint32_t count,
                          FlowEntry& entry) {
  if (count > kMaxDestinations) {
    return exceeds_limit(Syndrome::kFlowDestination);
  }
  if (request.in.size() < prm::kFlowDestinationsOffset + count * prm::FlowDestination::kBytes) {
    return {prm::Status::kBadInputLength, Syndrome::kInputTooShort};
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto destination = umlx5::wqe::load<prm::FlowDestination>(request.in.data() + prm::kFlowDestinationsOffset +
                                                                    i * prm::FlowDestination::kBytes);
    if (const Refusal refusal = find_destination(device, request, table, destination)) {
      return refusal;
    }
    entry.destinations.push_back(destination);
  }
  return {};
}

// An entry counts in one counter at most.
Refusal take_counter(Device& device, const Request& request, const prm::SetFlowEntryIn& in, FlowEntry& entry) {
  if (in.flow_counter_list_size != 1) {
    return bad_parameter(Syndrome::kFlowAction);
  }
  const std::size_t offset = prm::kFlowDestinationsOffset + in.destination_list_size * prm::FlowDestination::kBytes;
  if (request.in.size() < offset + prm::FlowDestination::kBytes) {
    return {prm::Status::kBadInputLength, Syndrome::kInputTooShort};
  }
  const auto number = umlx5::wqe::internal::load_word<std::uint32_t>(request.in.data() + offset);
  return find(request, device.steering.counters, number, Syndrome::kNoSuchFlowCounter, entry.counter);
}

}  // namespace

Refusal create_tis(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateTisIn>();
  Domain* domain = nullptr;
  if (const Refusal refusal =
          find(request, device.transport_domains, in.transport_domain, Syndrome::kNoSuchTransportDomain, domain)) {
    return refusal;
  }
  if (in.underlay_qpn != 0) {
    return bad_parameter(Syndrome::kQueueType);
  }
  auto tis = std::make_unique<Tis>(Tis{.uid = request.header.uid, .transport_domain = in.transport_domain, .users = 0});
  std::uint32_t number = 0;
  if (!device.steering.tises.insert(tis, number)) {
    return no_resources();
  }
  ++domain->users;
  request.reply_number(number);
  return {};
}

Refusal destroy_tis(Device& device, const Request& request) {
  Tis* tis = nullptr;
  if (const Refusal refusal = destroy_unused(request, device.steering.tises, Syndrome::kNoSuchTis, tis)) {
    return refusal;
  }
  --device.transport_domains.find(tis->transport_domain)->users;
  device.steering.tises.erase(request.number());
  return {};
}

Refusal create_rqt(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateRqtIn>();
  const std::size_t count = in.rqt_actual_size;
  if (count == 0 || in.rqt_max_size < count || in.rqt_max_size > 1u << device.profile.log_max_rqt_entries) {
    return exceeds_limit(Syndrome::kRqtSize);
  }
  if (request.in.size() < prm::kRqListOffset + count * 4) {
    return {prm::Status::kBadInputLength, Syndrome::kInputTooShort};
  }
  auto rqt = std::make_unique<Rqt>(Rqt{.uid = request.header.uid, .queues = {}, .users = 0});
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = umlx5::wqe::internal::load_word<std::uint32_t>(request.in.data() + prm::kRqListOffset + i * 4);
    Qp* queue = nullptr;
    if (const Refusal refusal = find_rq(device, request, word & 0xffffff, queue)) {
      return refusal;
    }
    rqt->queues.push_back(queue);
  }
  const std::vector<Qp*> queues = rqt->queues;
  std::uint32_t number = 0;
  if (!device.steering.rqts.insert(rqt, number)) {
    return no_resources();
  }
  for (Qp* const queue : queues) {
    ++queue->users;
  }
  request.reply_number(number);
  return {};
}

Refusal destroy_rqt(Device& device, const Request& request) {
  Rqt* rqt = nullptr;
  if (const Refusal refusal = destroy_unused(request, device.steering.rqts, Syndrome::kNoSuchRqt, rqt)) {
    return refusal;
  }
  for (Qp* const queue : rqt->queues) {
    --queue->users;
  }
  device.steering.rqts.erase(request.number());
  return {};
}

Refusal create_tir(Device& device, const Request& request) {
  const prm::Tirc context = request.as<prm::CreateTirIn>().tirc;
  auto tir = std::make_unique<Tir>();
  tir->uid = request.header.uid;
  Domain* domain = nullptr;  // 0: in none, which no frame comes from
  if (context.transport_domain != 0) {
    if (const Refusal refusal = find(request, device.transport_domains, context.transport_domain,
                                     Syndrome::kNoSuchTransportDomain, domain)) {
      return refusal;
    }
  }
  if (context.disp_type != prm::kTirDirect && context.disp_type != prm::kTirIndirect) {
    return bad_parameter(Syndrome::kTirHash);
  }
  if (context.tunneled_offload_en && !device.profile.tunnel_offloads) {
    return bad_parameter(Syndrome::kTirTunnel);
  }
  if (const Refusal refusal = take_hash(context, *tir)) {
    return refusal;
  }
  if (context.disp_type == prm::kTirDirect) {
    if (const Refusal refusal = find_rq(device, request, context.inline_rqn, tir->queue)) {
      return refusal;
    }
  } else if (const Refusal refusal =
                 find(request, device.steering.rqts, context.indirect_table, Syndrome::kNoSuchRqt, tir->table)) {
    return refusal;
  }
  tir->transport_domain = context.transport_domain;
  tir->own_unicast = (context.self_lb_block & prm::kSelfLoopbackUnicast) != 0;
  tir->own_multicast = (context.self_lb_block & prm::kSelfLoopbackMulticast) != 0;
  Tir* const created = tir.get();
  std::uint32_t number = 0;
  if (!device.steering.tirs.insert(tir, number)) {
    return no_resources();
  }
  if (domain != nullptr) {
    ++domain->users;
  }
  ++(created->queue != nullptr ? created->queue->users : created->table->users);
  request.reply_number(number);
  return {};
}

Refusal destroy_tir(Device& device, const Request& request) {
  Tir* tir = nullptr;
  if (const Refusal refusal = destroy_unused(request, device.steering.tirs, Syndrome::kNoSuchTir, tir)) {
    return refusal;
  }
  if (tir->transport_domain != 0) {
    --device.transport_domains.find(tir->transport_domain)->users;
  }
  --(tir->queue != nullptr ? tir->queue->users : tir->table->users);
  device.steering.tirs.erase(request.number());
  return {};
}

Refusal create_flow_table(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateFlowTableIn>();
  if (in.table_type != prm::kFlowTableNicReceive) {
    return bad_parameter(Syndrome::kFlowTableType);
  }
  if (in.log_size > kMaxLogFlowEntries) {
    return exceeds_limit(Syndrome::kFlowTableSize);
  }
  auto table = std::make_unique<FlowTable>(request.header.uid, in.level, 1u << in.log_size, kMaxFlowGroups);
  std::uint32_t number = 0;
  if (!device.steering.tables.insert(table, number)) {
    return no_resources();
  }
  request.reply_number(number);
  return {};
}

Refusal destroy_flow_table(Device& device, const Request& request) {
  const auto in = request.as<prm::FlowTableIn>();
  FlowTable* table = nullptr;
  if (const Refusal refusal = find_table(device, request, in.table_type, in.table_id, table)) {
    return refusal;
  }
  bool has_groups = false;
  table->groups.for_each([&](const FlowGroup&) { has_groups = true; });
  if (table->users != 0 || has_groups || device.steering.root == in.table_id) {
    return bad_resource_state(Syndrome::kFlowTableInUse);
  }
  device.steering.tables.erase(in.table_id);
  return {};
}

Refusal set_flow_table_root(Device& device, const Request& request) {
  const auto in = request.as<prm::FlowTableIn>();
  if (request.header.uid != 0) {
    return bad_parameter(Syndrome::kNeedsKernel);
  }
  FlowTable* table = nullptr;
  if (in.table_id != 0) {
    if (const Refusal refusal = find_table(device, request, in.table_type, in.table_id, table)) {
      return refusal;
    }
  }
  device.steering.root = in.table_id;
  return {};
}

Refusal create_flow_group(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateFlowGroupIn>();
  FlowTable* table = nullptr;
  if (const Refusal refusal = find_table(device, request, in.table_type, in.table_id, table)) {
    return refusal;
  }
  if ((in.match_criteria_enable & ~prm::kMatchOuterHeaders) != 0) {
    return bad_parameter(Syndrome::kFlowCriteria);
  }
  auto group = std::make_unique<FlowGroup>();
  group->start = in.start_flow_index;
  group->end = in.end_flow_index;
  if (group->start > group->end || group->end >= table->entries.size()) {
    return bad_index(Syndrome::kFlowIndex);
  }
  bool overlaps = false;
  table->groups.for_each(
      [&](const FlowGroup& other) { overlaps |= group->start <= other.end && other.start <= group->end; });
  if (overlaps) {
    return bad_index(Syndrome::kFlowIndex);
  }
  if (in.match_criteria_enable != 0) {
    umlx5::wqe::store(group->mask.data(), in.outer_headers);
  }
  std::uint32_t number = 0;
  if (!table->groups.insert(group, number)) {
    return no_resources();
  }
  request.reply_number(number);
  return {};
}

Refusal destroy_flow_group(Device& device, const Request& request) {
  const auto in = request.as<prm::FlowTableIn>();
  FlowTable* table = nullptr;
  const FlowGroup* group = nullptr;
  if (const Refusal refusal = find_group(device, request, in, table, group)) {
    return refusal;
  }
  if (std::ranges::any_of(table->entries, [&](const FlowEntry& entry) { return entry.group == group; })) {
    return bad_resource_state(Syndrome::kFlowTableInUse);
  }
  table->groups.erase(in.group_id);
  return {};
}

Refusal set_flow_table_entry(Device& device, const Request& request) {
  const auto in = request.as<prm::SetFlowEntryIn>();
  FlowTable* table = nullptr;
  const FlowGroup* group = nullptr;
  if (const Refusal refusal = find_group(device, request, in, table, group)) {
    return refusal;
  }
  if (in.flow_index < group->start || in.flow_index > group->end) {
    return bad_index(Syndrome::kFlowIndex);
  }
  FlowEntry& place = table->entries[in.flow_index];
  const bool changes = in.header.op_mod == prm::kModifyEntry;
  if (in.header.op_mod > prm::kModifyEntry || changes != (place.group != nullptr) ||
      (changes && in.modify_enable_mask != prm::kModifyDestinations)) {
    return bad_parameter(Syndrome::kUnknownModifier);
  }
  const auto destiny = static_cast<std::uint16_t>(in.action & ~prm::kFlowCount);
  if (destiny != prm::kFlowDrop && destiny != prm::kFlowForward) {
    return bad_parameter(Syndrome::kFlowAction);
  }
  FlowEntry entry;
  entry.group = group;
  entry.drops = destiny == prm::kFlowDrop;
  entry.tag = in.flow_tag;
  umlx5::wqe::store(entry.value.data(), in.outer_headers);
  if (const Refusal refusal = take_destinations(device, request, *table, in.destination_list_size, entry)) {
    return refusal;
  }
  if ((in.action & prm::kFlowCount) != 0) {
    if (const Refusal refusal = take_counter(device, request, in, entry)) {
      return refusal;
    }
  }
  if (changes) {
    count_destinations(device, place, -1);
    place.destinations = std::move(entry.destinations);
  } else {
    place = std::move(entry);
  }
  count_destinations(device, place, 1);
  return {};
}

Refusal delete_flow_table_entry(Device& device, const Request& request) {
  const auto in = request.as<prm::FlowTableIn>();
  FlowTable* table = nullptr;
  if (const Refusal refusal = find_table(device, request, in.table_type, in.table_id, table)) {
    return refusal;
  }
  if (in.flow_index >= table->entries.size() || table->entries[in.flow_index].group == nullptr) {
    return bad_index(Syndrome::kFlowIndex);
  }
  FlowEntry& entry = table->entries[in.flow_index];
  count_destinations(device, entry, -1);
  entry = FlowEntry{};
  return {};
}

}  // namespace softhca::hca
