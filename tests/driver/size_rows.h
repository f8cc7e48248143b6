// Sizes of send and receive queues: what is asked for, and what stock libmlx5 and the specification give on a device as
// kLimits describes it. qp_geometry_test.cc computes them; creation_probe.cc creates queue pairs with them.
#pragma once

#include <cstdint>
#include <optional>

#include "driver/qp_geometry.h"

namespace umlx5::testing {

// As a ConnectX-6 Dx answers alloc_ucontext.
inline constexpr QueueLimits kLimits{.max_send_wqe_bytes = 1024,
                                     .max_recv_wqe_bytes = 512,
                                     .max_send_wqebbs = 32768,
                                     .max_recv_wr = 32768,
                                     .max_srq_recv_wr = 32767,
                                     .max_out_of_order_recv_wr = 16384};

struct SendRow {
  SizedQpType type;
  std::optional<std::uint64_t> operations;
  std::uint32_t wr, sge, inline_bytes;
  // Expected; 0 WQE bytes: refused.
  std::uint32_t wqe_bytes, wqebbs, max_wr, max_inline;
};

inline constexpr std::uint64_t bit(SendOperation operation) { return static_cast<std::uint64_t>(operation); }
inline constexpr auto kDefault = std::nullopt;

// Values seen with stock libmlx5 and a device whose max_sq_desc_sz is 1024, but for those that need more than the 63
// octowords that the DS field can say.
inline constexpr SendRow kSendRows[] = {
    {SizedQpType::kRc, kDefault, 1, 1, 0, 256, 4, 1, 60},
    {SizedQpType::kRc, kDefault, 1, 1, 60, 256, 4, 1, 60},
    {SizedQpType::kRc, kDefault, 1, 1, 61, 320, 8, 1, 124},
    {SizedQpType::kRc, kDefault, 1, 1, 220, 448, 8, 1, 252},
    {SizedQpType::kRc, kDefault, 1, 1, 828, 1024, 16, 1, 828},
    {SizedQpType::kRc, kDefault, 1, 1, 829, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 52, 0, 1024, 16, 1, 828},
    {SizedQpType::kRc, kDefault, 1, 53, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 100, 1, 0, 256, 512, 128, 60},
    {SizedQpType::kRc, kDefault, 10, 8, 0, 320, 64, 12, 124},
    {SizedQpType::kRc, kDefault, 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, kDefault, 8192, 1, 0, 256, 32768, 8192, 60},
    {SizedQpType::kRc, kDefault, 8193, 1, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 0x7fffffff / 1024 + 1, 1, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 0xffffffff, 1, 0, 0, 0, 0, 0},
    {SizedQpType::kUc, kDefault, 1, 1, 0, 256, 4, 1, 60},
    {SizedQpType::kXrcSend, kDefault, 1, 1, 0, 256, 4, 1, 44},
    {SizedQpType::kXrcSend, kDefault, 1, 1, 812, 1024, 16, 1, 812},
    {SizedQpType::kXrcSend, kDefault, 1, 1, 813, 0, 0, 0, 0},
    {SizedQpType::kXrcRecv, kDefault, 1, 1, 0, 256, 4, 1, 44},
    {SizedQpType::kDci, kDefault, 1, 1, 0, 256, 4, 1, 12},
    {SizedQpType::kDci, kDefault, 1, 1, 780, 1024, 16, 1, 780},
    {SizedQpType::kDci, kDefault, 1, 1, 781, 0, 0, 0, 0},
    {SizedQpType::kUd, kDefault, 1, 1, 0, 128, 2, 1, 60},
    {SizedQpType::kUd, kDefault, 1, 1, 940, 1024, 16, 1, 940},  // 16 + 48 + 944 = 63 octowords
    {SizedQpType::kUd, kDefault, 1, 1, 941, 0, 0, 0, 0},
    {SizedQpType::kUd, kDefault, 1, 59, 0, 1024, 16, 1, 940},
    {SizedQpType::kUd, kDefault, 1, 60, 0, 0, 0, 0, 0},
    {SizedQpType::kUdUnderlay, kDefault, 1, 1, 0, 128, 2, 1, 12},
    {SizedQpType::kRawPacket, kDefault, 1, 1, 0, 64, 1, 1, 12},
    {SizedQpType::kRawPacket, kDefault, 1, 1, 956, 1024, 16, 1, 956},
    {SizedQpType::kRawPacket, kDefault, 1, 1, 957, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 1, 0, 64, 1, 1, 44},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 1, 988, 1024, 16, 1, 988},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 1, 989, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 62, 0, 1024, 16, 1, 988},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 63, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kRdmaWrite), 1, 1, 0, 64, 1, 1, 28},
    {SizedQpType::kRc, bit(SendOperation::kRdmaWrite), 1, 61, 0, 1024, 16, 1, 972},
    {SizedQpType::kRc, bit(SendOperation::kRdmaWrite), 1, 62, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kRdmaRead), 1, 1, 0, 64, 1, 1, 28},
    {SizedQpType::kRc, bit(SendOperation::kFetchAdd), 1, 1, 0, 64, 1, 1, 12},
    {SizedQpType::kRc, bit(SendOperation::kCompareSwap), 1, 2, 0, 128, 2, 1, 76},
    {SizedQpType::kRc, bit(SendOperation::kBindMemoryWindow), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kLocalInvalidate), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMkeyConfigure), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMkeyList), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMkeyInterleaved), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMemcpy), 1, 0, 0, 64, 1, 1, 44},
    {SizedQpType::kRc, bit(SendOperation::kRawWqe), 1, 0, 0, 64, 1, 1, 44},
    // What wraps when it is computed in 32 bits.
    {SizedQpType::kRc, kDefault, 1, 1, 0x7ffffff0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 1, 0x80000000, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 1, 0xfffffff0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 1, 0xffffffff, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 0x10000001, 0, 0, 0, 0, 0},
    // No send queue: the capacities come back as they were given.
    {SizedQpType::kRc, kDefault, 0, 53, 829, 0, 0, 0, 829},
};

struct RecvRow {
  std::uint32_t wr, sge;
  bool out_of_order, signature;
  // Expected; 0 stride: refused.
  std::uint32_t stride_bytes, wqes, max_wr, max_sge;
};

inline constexpr RecvRow kRecvRows[] = {
    {1, 1, false, false, 16, 4, 4, 1},         {1, 0, false, false, 16, 4, 4, 1},
    {100, 3, false, false, 64, 128, 128, 4},   {32768, 1, false, false, 16, 32768, 32768, 1},
    {32769, 1, false, false, 0, 0, 0, 0},      {1, 32, false, false, 512, 1, 1, 32},
    {1, 33, false, false, 0, 0, 0, 0},         {1, 31, false, true, 512, 1, 1, 31},
    {1, 32, false, true, 0, 0, 0, 0},          {1, 1, false, true, 32, 2, 2, 1},
    {1, 2, false, true, 64, 1, 1, 3},          {1, 1, true, false, 16, 4, 4, 1},
    {2, 1, true, false, 16, 4, 2, 1},          {3, 1, true, false, 16, 8, 4, 1},
    {100, 1, true, false, 16, 256, 128, 1},    {16384, 1, true, false, 16, 32768, 16384, 1},
    {16385, 1, true, false, 0, 0, 0, 0},       {1, 0x10000000, false, false, 0, 0, 0, 0},
    {1, 0x10000001, false, false, 0, 0, 0, 0}, {1, 0xffffffff, false, false, 0, 0, 0, 0},
};

}  // namespace umlx5::testing
