// Multicast groups: which QPs get the datagrams that are sent to one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "tools/softhca/hca/gid.h"
#include "tools/softhca/hca/objects.h"
#include "tools/softhca/wire/endpoint.h"

namespace softhca::hca {

// Destination of datagrams to a group (IBA 10.5.2).
inline constexpr std::uint32_t kMulticastQpn = 0xffffff;

// The groups by their GIDs, and by the addresses that the wire knows of them. Not thread-safe.
class MulticastGroups {
 public:
  using Gid = std::array<std::uint8_t, 16>;

  std::size_t count() const { return members_.size(); }
  std::span<Qp* const> members(const Gid& gid) const { return list(members_, gid); }
  bool has(const Gid& gid, const Qp& qp) const { return std::ranges::count(members(gid), &qp) != 0; }

  // Who gets what arrives for the address, each once.
  std::span<Qp* const> receivers(wire::Ipv4 group) const { return list(receivers_, group.value); }

  // `gid` is a multicast GID, and the QP not, respectively one of, its members.
  void add(const Gid& gid, Qp& qp) {
    members_[gid].push_back(&qp);
    ++qp.multicast_groups;
    collect(*group_of(gid));
  }
  void remove(const Gid& gid, Qp& qp) {
    std::erase(members_[gid], &qp);
    std::erase_if(members_, [](const auto& entry) { return entry.second.empty(); });
    --qp.multicast_groups;
    collect(*group_of(gid));
  }

 private:
  template <typename Map, typename Key>
  static std::span<Qp* const> list(const Map& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? std::span<Qp* const>{} : std::span<Qp* const>(found->second);
  }
  void collect(wire::Ipv4 group) {
    std::vector<Qp*> all;
    for (const auto& [gid, qps] : members_) {
      if (group_of(gid) == std::optional(group)) {
        all.insert(all.end(), qps.begin(), qps.end());
      }
    }
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    if (all.empty()) {
      receivers_.erase(group.value);
    } else {
      receivers_[group.value] = std::move(all);
    }
  }

  std::map<Gid, std::vector<Qp*>> members_;
  std::map<std::uint32_t, std::vector<Qp*>> receivers_;
};

}  // namespace softhca::hca
