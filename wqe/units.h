// Sizes that all queue formats share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace umlx5::wqe {

inline constexpr std::size_t kOctowordBytes = 16;  // unit of the DS field and of every segment
inline constexpr std::size_t kWqebbBytes = 64;     // unit of a send queue and of its index
inline constexpr unsigned kMaxDsOctowords = 63;    // DS has six bits
inline constexpr std::size_t kMaxSendWqeBytes = kMaxDsOctowords * kOctowordBytes;

constexpr std::size_t octowords_for(std::size_t bytes) { return (bytes + kOctowordBytes - 1) / kOctowordBytes; }
constexpr std::size_t wqebbs_for_octowords(std::size_t octowords) { return (octowords + 3) / 4; }

}  // namespace umlx5::wqe
