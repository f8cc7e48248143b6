// What a device of lesser abilities is asked for by: "name=value,name=value".
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "tools/softhca/hca/profile.h"

namespace softhca::hca {
namespace {

// A capability: a yes or no, or a number.
struct Knob {
  std::string_view name;
  bool Profile::*flag = nullptr;
  std::uint8_t Profile::*number = nullptr;

  unsigned value(const Profile& profile) const { return flag != nullptr ? profile.*flag : profile.*number; }
  void set(Profile& profile, unsigned value) const {
    if (flag != nullptr) {
      profile.*flag = value != 0;
    } else {
      profile.*number = static_cast<std::uint8_t>(value);
    }
  }
};

constexpr std::array kKnobs = {Knob{"xrc", &Profile::xrc},
                               Knob{"dct", &Profile::dct},
                               Knob{"mmo", &Profile::mmo},
                               Knob{"atomic", &Profile::atomic},
                               Knob{"memory_windows", &Profile::memory_windows},
                               Knob{"scatter_to_cqe", &Profile::scatter_to_cqe},
                               Knob{"cqe_compression", &Profile::cqe_compression},
                               Knob{"packet_based_credit", &Profile::packet_based_credit},
                               Knob{"device_memory", &Profile::device_memory},
                               Knob{"odp", &Profile::odp},
                               Knob{"mcg", nullptr, &Profile::log_max_mcg},
                               Knob{"raw_packets", &Profile::raw_packets},
                               Knob{"tunnel_offloads", &Profile::tunnel_offloads},
                               Knob{"plain_keys", &Profile::plain_keys},
                               Knob{"striding_rq", &Profile::striding_rq},
                               Knob{"dci_streams", nullptr, &Profile::log_max_dci_streams},
                               Knob{"dci_errored_streams", nullptr, &Profile::log_max_dci_errored_streams},
                               Knob{"ooo", &Profile::out_of_order}};

std::string names() {
  std::string all;
  for (const Knob& knob : kKnobs) {
    all += (all.empty() ? "" : ", ") + std::string(knob.name);
  }
  return all;
}

umlx5::Expected<void> apply(std::string_view item, Profile& profile) {
  const std::size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  const std::string_view text = equals == std::string_view::npos ? "" : item.substr(equals + 1);
  for (const Knob& knob : kKnobs) {
    if (knob.name != name) {
      continue;
    }
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value > knob.value(profile)) {
      return umlx5::fail(EINVAL,
                         fmt::format("'{}' wants a number from 0 to {}", std::string(item), knob.value(profile)));
    }
    knob.set(profile, value);
    return {};
  }
  return umlx5::fail(EINVAL, fmt::format("'{}' names no capability; there are {}", std::string(item), names()));
}

}  // namespace

umlx5::Expected<void> restrict_profile(std::string_view text, Profile& profile) {
  Profile restricted = profile;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (auto applied = apply(text.substr(0, comma), restricted); !applied) {
      return applied;
    }
    if (comma != std::string_view::npos && comma + 1 == text.size()) {
      return umlx5::fail(EINVAL, "nothing follows the last comma");
    }
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  profile = restricted;
  return {};
}

}  // namespace softhca::hca
