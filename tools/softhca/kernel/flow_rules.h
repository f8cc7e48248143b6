// The rules by which programs steer received frames, as entries of one flow table.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <vector>

#include "tools/softhca/kernel/firmware.h"
#include "wqe/prm/flow.h"

namespace softhca::kernel {

struct FlowMatch {
  umlx5::wqe::prm::MatchHeaders mask, value;
};

// Rules of a lower priority number come first. Rules that match the same at the same priority share an entry: each of
// their destinations gets the frame. Not thread-safe.
class FlowRules {
 public:
  static constexpr std::uint16_t kPriorities = 9;  // the last is the default rules'

  explicit FlowRules(Firmware& firmware) : firmware_(firmware) {}
  ~FlowRules();
  FlowRules(const FlowRules&) = delete;
  FlowRules& operator=(const FlowRules&) = delete;

  // The rule's number, or errno: ENOSPC if the priority has no room left. `priority` is below kPriorities.
  std::expected<std::uint32_t, int> add(std::uint16_t priority, const FlowMatch& match, std::uint32_t tirn);
  int remove(std::uint32_t rule);

 private:
  struct Entry {
    std::uint32_t index = 0, group = 0;
    FlowMatch match;
    std::vector<std::uint32_t> tirns;
  };
  struct Rule {
    std::uint32_t index, tirn;
  };

  int make_table();
  std::expected<std::uint32_t, int> free_index(std::uint16_t priority) const;
  int make_group(Entry& entry);
  int write(const Entry& entry, bool is_new);
  int erase(const Entry& entry);

  Firmware& firmware_;
  std::uint32_t table_ = 0;
  std::map<std::uint32_t, Entry> entries_;  // by index
  std::map<std::uint32_t, Rule> rules_;
  std::uint32_t next_rule_ = 1;
};

}  // namespace softhca::kernel
