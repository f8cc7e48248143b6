#include "tools/softhca/wire/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>

#include "tools/softhca/wire/chance.h"

namespace softhca::wire {
namespace {

constexpr std::uint64_t kMaxDelayUs = 10'000'000;
constexpr std::size_t kUncoveredByte = 4;  // FECN, BECN and reserved bits of the BTH

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::unexpected<umlx5::Error> bad(std::string_view key, std::string_view value, std::string_view why) {
  return umlx5::fail(EINVAL, fmt::format("faults: {}={}: {}", key, value, why));
}

}  // namespace

class FaultParser {
 public:
  explicit FaultParser(FaultPlan& plan) : plan_(plan) {}

  umlx5::Expected<void> set(std::string_view key, std::string_view value) {
    if (key == "seed") {
      return set_integer(key, value, plan_.seed_, ~std::uint64_t{0});
    }
    if (key == "delay_us") {
      std::uint64_t us = 0;
      auto result = set_integer(key, value, us, kMaxDelayUs);
      plan_.delay_ns_ = us * 1000;
      return result;
    }
    const std::optional<FaultPlan::Kind> kind = kind_of(key);
    if (!kind) {
      return umlx5::fail(EINVAL, fmt::format("faults: unknown key \"{}\"; known are seed, loss, dup, reorder, delay, "
                                             "delay_us and corrupt",
                                             key));
    }
    const std::optional<double> probability = number<double>(value);
    if (!probability) {
      return bad(key, value, "not a number");
    }
    if (!(*probability >= 0 && *probability <= 1)) {
      return bad(key, value, "a probability is 0 to 1");
    }
    plan_.probability_[*kind] = *probability;
    plan_.active_ |= *probability > 0;
    return {};
  }

 private:
  static std::optional<FaultPlan::Kind> kind_of(std::string_view key) {
    if (key == "loss") {
      return FaultPlan::kLoss;
    }
    if (key == "dup" || key == "duplication") {
      return FaultPlan::kDuplicate;
    }
    if (key == "reorder" || key == "reordering") {
      return FaultPlan::kReorder;
    }
    if (key == "delay") {
      return FaultPlan::kDelay;
    }
    if (key == "corrupt" || key == "corruption") {
      return FaultPlan::kCorrupt;
    }
    return std::nullopt;
  }

  static umlx5::Expected<void> set_integer(std::string_view key, std::string_view text, std::uint64_t& to,
                                           std::uint64_t limit) {
    const std::optional<std::uint64_t> value = number<std::uint64_t>(text);
    if (!value) {
      return bad(key, text, "not a whole number");
    }
    if (*value > limit) {
      return bad(key, text, fmt::format("at most {}", limit));
    }
    to = *value;
    return {};
  }

  FaultPlan& plan_;
};

umlx5::Expected<FaultPlan> FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  FaultParser parser(plan);
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return umlx5::fail(EINVAL, fmt::format("faults: \"{}\" is not key=value", item));
    }
    if (auto result = parser.set(item.substr(0, equals), item.substr(equals + 1)); !result) {
      return std::unexpected(result.error());
    }
  }
  return plan;
}

bool FaultPlan::happens(Kind kind, std::uint64_t n) const {
  // 53 random bits as a number in [0, 1).
  return static_cast<double>(draw(seed_, n, kind) >> 11) * 0x1p-53 < probability_[kind];
}

Fault FaultPlan::decide(std::uint64_t n) const {
  if (!active_) {
    return {};
  }
  if (happens(kLoss, n)) {
    return {.lose = true};
  }
  return {.corrupt = happens(kCorrupt, n),
          .duplicate = happens(kDuplicate, n),
          .delay = happens(kDelay, n),
          .reorder = happens(kReorder, n),
          .entropy = draw(seed_, n, kKinds)};
}

void flip_bit(std::span<std::byte> packet, std::uint64_t entropy) {
  std::size_t bit = entropy % ((packet.size() - 1) * 8);
  if (bit >= kUncoveredByte * 8) {
    bit += 8;
  }
  packet[bit / 8] ^= std::byte{1} << (bit % 8);
}

}  // namespace softhca::wire
