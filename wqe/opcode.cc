#include "wqe/opcode.h"

namespace umlx5::wqe {
namespace {

constexpr std::string_view kUnknown = "unknown";

}  // namespace

std::string_view to_string(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kNop:
      return "NOP";
    case SendOpcode::kSendInvalidate:
      return "SEND_INVAL";
    case SendOpcode::kRdmaWrite:
      return "RDMA_WRITE";
    case SendOpcode::kRdmaWriteImmediate:
      return "RDMA_WRITE_IMM";
    case SendOpcode::kSend:
      return "SEND";
    case SendOpcode::kSendImmediate:
      return "SEND_IMM";
    case SendOpcode::kTso:
      return "TSO";
    case SendOpcode::kWait:
      return "WAIT";
    case SendOpcode::kRdmaRead:
      return "RDMA_READ";
    case SendOpcode::kAtomicCompareSwap:
      return "ATOMIC_CS";
    case SendOpcode::kAtomicFetchAdd:
      return "ATOMIC_FA";
    case SendOpcode::kMaskedCompareSwap:
      return "ATOMIC_MASKED_CS";
    case SendOpcode::kMaskedFetchAdd:
      return "ATOMIC_MASKED_FA";
    case SendOpcode::kReceiveEnable:
      return "RECV_EN";
    case SendOpcode::kSendEnable:
      return "SEND_EN";
    case SendOpcode::kBindMemoryWindow:
      return "BIND_MW";
    case SendOpcode::kFastMemoryRegister:
      return "FMR";
    case SendOpcode::kLocalInvalidate:
      return "LOCAL_INVAL";
    case SendOpcode::kConfigCommand:
      return "CONFIG_CMD";
    case SendOpcode::kSetPsv:
      return "SET_PSV";
    case SendOpcode::kUmr:
      return "UMR";
    case SendOpcode::kTagMatching:
      return "TAG_MATCHING";
    case SendOpcode::kEnhancedMultiPacket:
      return "ENHANCED_MPSW";
    case SendOpcode::kFlowTableAccess:
      return "FLOW_TBL_ACCESS";
    case SendOpcode::kAccessAso:
      return "ACCESS_ASO";
    case SendOpcode::kMmo:
      return "MMO";
  }
  return kUnknown;
}

bool is_known(SendOpcode opcode) { return to_string(opcode).data() != kUnknown.data(); }

}  // namespace umlx5::wqe
