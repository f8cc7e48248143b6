// Opcodes of send WQEs.
// Source: mlx5dv.h (MLX5_OPCODE_*), Linux include/linux/mlx5/device.h and DPDK mlx5_prm.h for those mlx5dv.h leaves
// out.
#pragma once

#include <cstdint>
#include <string_view>

namespace umlx5::wqe {

enum class SendOpcode : std::uint8_t {
  kNop = 0x00,
  kSendInvalidate = 0x01,
  kRdmaWrite = 0x08,
  kRdmaWriteImmediate = 0x09,
  kSend = 0x0a,
  kSendImmediate = 0x0b,
  kTso = 0x0e,
  kWait = 0x0f,
  kRdmaRead = 0x10,
  kAtomicCompareSwap = 0x11,
  kAtomicFetchAdd = 0x12,
  kMaskedCompareSwap = 0x14,
  kMaskedFetchAdd = 0x15,
  kReceiveEnable = 0x16,
  kSendEnable = 0x17,
  kBindMemoryWindow = 0x18,
  kFastMemoryRegister = 0x19,
  kLocalInvalidate = 0x1b,
  kConfigCommand = 0x1f,
  kSetPsv = 0x20,
  kUmr = 0x25,
  kTagMatching = 0x28,
  kEnhancedMultiPacket = 0x29,
  kFlowTableAccess = 0x2c,
  kAccessAso = 0x2d,
  kMmo = 0x2f,
};

// The public headers' name without its prefix ("RDMA_WRITE"); "unknown" for a value that is none of the above.
std::string_view to_string(SendOpcode opcode);

// False for a value that is none of the above.
bool is_known(SendOpcode opcode);

}  // namespace umlx5::wqe
