#include "tools/cli/devinfo.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "driver/qp_geometry.h"

namespace umlx5::tools {
namespace {

// What a ConnectX reports; the maxima are those that stock libmlx5 grants with it.
constexpr QueueLimits kLimits{.max_send_wqe_bytes = 1024,
                              .max_recv_wqe_bytes = 512,
                              .max_send_wqebbs = 32768,
                              .max_recv_wr = 32768,
                              .max_srq_recv_wr = 32767};

QpMaxima maxima(std::uint32_t send_wr, std::uint32_t send_sge, std::uint32_t inline_bytes, std::uint32_t recv_wr,
                std::uint32_t recv_sge) {
  return {send_wr, send_sge, inline_bytes, recv_wr, recv_sge};
}

TEST(QpMaxima, AreTheLargestThatAreGranted) {
  EXPECT_EQ(qp_maxima(kLimits, SizedQpType::kRc), maxima(8192, 52, 828, 32768, 32));
  EXPECT_EQ(qp_maxima(kLimits, SizedQpType::kUd), maxima(16384, 59, 940, 32768, 32));
  EXPECT_EQ(qp_maxima(kLimits, SizedQpType::kDct), maxima(0, 0, 0, 0, 0));
}

TEST(TextOf, NamesValuesAndTables) {
  const nlohmann::ordered_json tree = {
      {"name", "soft0"},
      {"limits", {{"max_qp", 7}}},
      {"none", nlohmann::ordered_json::array()},
      {"create_qp", {{{"type", "RC"}, {"max_send_sge", 52}}, {{"type", "UD"}, {"max_send_sge", 9}}}},
      {"ports", {{{"port", 1}, {"gids", {{{"index", 0}, {"gid", "::1"}}}}}}}};
  EXPECT_EQ(text_of(tree),
            "name:                            soft0\n"
            "limits:\n"
            "  max_qp:                        7\n"
            "create_qp:\n"
            "  type  max_send_sge\n"
            "  RC    52\n"
            "  UD    9\n"
            "ports:\n"
            "  port:                          1\n"
            "  gids:\n"
            "    index  gid\n"
            "    0      ::1\n");
}

}  // namespace
}  // namespace umlx5::tools
