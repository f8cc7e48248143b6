#include "tools/softhca/kernel/flow_rules.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace softhca::kernel {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint8_t kLogEntries = 12;
constexpr std::uint32_t kEntriesPerPriority = 256;
static_assert(FlowRules::kPriorities * kEntriesPerPriority <= 1u << kLogEntries);

using Bytes = std::array<std::byte, prm::MatchHeaders::kBytes>;

Bytes bytes_of(const prm::MatchHeaders& headers) {
  Bytes bytes;
  umlx5::wqe::store(bytes.data(), headers);
  return bytes;
}

bool same(const FlowMatch& a, const FlowMatch& b) {
  return bytes_of(a.mask) == bytes_of(b.mask) && bytes_of(a.value) == bytes_of(b.value);
}

}  // namespace

FlowRules::~FlowRules() {
  while (!rules_.empty() && remove(rules_.begin()->first) == 0) {
  }
  if (table_ != 0) {
    command<prm::ObjectOut>(firmware_, prm::FlowTableIn{.header = {.opcode = prm::Opcode::kSetFlowTableRoot}});
    command<prm::ObjectOut>(firmware_,
                            prm::FlowTableIn{.header = {.opcode = prm::Opcode::kDestroyFlowTable}, .table_id = table_});
  }
}

int FlowRules::make_table() {
  const auto made = command<prm::ObjectOut>(
      firmware_, prm::CreateFlowTableIn{.header = {.opcode = prm::Opcode::kCreateFlowTable}, .log_size = kLogEntries});
  if (!made) {
    return made.error();
  }
  const auto rooted = command<prm::ObjectOut>(
      firmware_, prm::FlowTableIn{.header = {.opcode = prm::Opcode::kSetFlowTableRoot}, .table_id = made->number});
  if (!rooted) {
    command<prm::ObjectOut>(
        firmware_, prm::FlowTableIn{.header = {.opcode = prm::Opcode::kDestroyFlowTable}, .table_id = made->number});
    return rooted.error();
  }
  table_ = made->number;
  return 0;
}

std::expected<std::uint32_t, int> FlowRules::free_index(std::uint16_t priority) const {
  const std::uint32_t first = priority * kEntriesPerPriority;
  for (std::uint32_t index = first; index < first + kEntriesPerPriority; ++index) {
    if (!entries_.contains(index)) {
      return index;
    }
  }
  return std::unexpected(ENOSPC);
}

int FlowRules::make_group(Entry& entry) {
  const auto out =
      command<prm::ObjectOut>(firmware_, prm::CreateFlowGroupIn{.header = {.opcode = prm::Opcode::kCreateFlowGroup},
                                                                .table_id = table_,
                                                                .start_flow_index = entry.index,
                                                                .end_flow_index = entry.index,
                                                                .match_criteria_enable = prm::kMatchOuterHeaders,
                                                                .outer_headers = entry.match.mask});
  entry.group = out ? out->number : 0;
  return out ? 0 : out.error();
}

int FlowRules::write(const Entry& entry, bool is_new) {
  const prm::SetFlowEntryIn in{
      .header = {.opcode = prm::Opcode::kSetFlowTableEntry, .op_mod = is_new ? prm::kSetNewEntry : prm::kModifyEntry},
      .table_id = table_,
      .modify_enable_mask = static_cast<std::uint8_t>(is_new ? 0 : prm::kModifyDestinations),
      .flow_index = entry.index,
      .group_id = entry.group,
      .action = prm::kFlowForward,
      .destination_list_size = static_cast<std::uint32_t>(entry.tirns.size()),
      .outer_headers = entry.match.value};
  std::vector<std::byte> request(prm::kFlowDestinationsOffset + entry.tirns.size() * prm::FlowDestination::kBytes);
  umlx5::wqe::store(request.data(), in);
  for (std::size_t i = 0; i < entry.tirns.size(); ++i) {
    umlx5::wqe::store(request.data() + prm::kFlowDestinationsOffset + i * prm::FlowDestination::kBytes,
                      prm::FlowDestination{.type = prm::kFlowToTir, .id = entry.tirns[i]});
  }
  std::array<std::byte, prm::ObjectOut::kBytes> reply{};
  return execute_checked(firmware_, request, reply);
}

int FlowRules::erase(const Entry& entry) {
  const auto removed =
      command<prm::ObjectOut>(firmware_, prm::FlowTableIn{.header = {.opcode = prm::Opcode::kDeleteFlowTableEntry},
                                                          .table_id = table_,
                                                          .flow_index = entry.index});
  const auto ungrouped =
      command<prm::ObjectOut>(firmware_, prm::FlowTableIn{.header = {.opcode = prm::Opcode::kDestroyFlowGroup},
                                                          .table_id = table_,
                                                          .group_id = entry.group});
  return !removed ? removed.error() : ungrouped ? 0 : ungrouped.error();
}

std::expected<std::uint32_t, int> FlowRules::add(std::uint16_t priority, const FlowMatch& match, std::uint32_t tirn) {
  if (table_ == 0) {
    if (const int error = make_table(); error != 0) {
      return std::unexpected(error);
    }
  }
  const auto is_of_priority = [&](const auto& item) { return item.first / kEntriesPerPriority == priority; };
  const auto known = std::ranges::find_if(
      entries_, [&](const auto& item) { return is_of_priority(item) && same(item.second.match, match); });
  if (known != entries_.end()) {
    Entry changed = known->second;
    changed.tirns.push_back(tirn);
    if (const int error = write(changed, false); error != 0) {
      return std::unexpected(error);
    }
    known->second = changed;
    rules_.emplace(next_rule_, Rule{changed.index, tirn});
    return next_rule_++;
  }
  const auto index = free_index(priority);
  if (!index) {
    return index;
  }
  Entry entry{.index = *index, .match = match, .tirns = {tirn}};
  if (const int error = make_group(entry); error != 0) {
    return std::unexpected(error);
  }
  if (const int error = write(entry, true); error != 0) {
    command<prm::ObjectOut>(firmware_, prm::FlowTableIn{.header = {.opcode = prm::Opcode::kDestroyFlowGroup},
                                                        .table_id = table_,
                                                        .group_id = entry.group});
    return std::unexpected(error);
  }
  entries_.emplace(*index, entry);
  rules_.emplace(next_rule_, Rule{*index, tirn});
  return next_rule_++;
}

int FlowRules::remove(std::uint32_t number) {
  const auto rule = rules_.find(number);
  if (rule == rules_.end()) {
    return ENOENT;
  }
  const auto found = entries_.find(rule->second.index);
  Entry changed = found->second;
  changed.tirns.erase(std::ranges::find(changed.tirns, rule->second.tirn));
  const int error = changed.tirns.empty() ? erase(changed) : write(changed, false);
  if (error != 0) {
    return error;
  }
  if (changed.tirns.empty()) {
    entries_.erase(found);
  } else {
    found->second = changed;
  }
  rules_.erase(rule);
  return 0;
}

}  // namespace softhca::kernel
