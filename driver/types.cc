#include "driver/types.h"

#include <arpa/inet.h>

namespace umlx5 {

std::string_view to_string(QpType type) {
  switch (type) {
    case QpType::kRc:
      return "RC";
    case QpType::kUc:
      return "UC";
    case QpType::kUd:
      return "UD";
    case QpType::kRawPacket:
      return "RAW_PACKET";
    case QpType::kXrcSend:
      return "XRC_SEND";
    case QpType::kXrcRecv:
      return "XRC_RECV";
    case QpType::kDriver:
      return "DRIVER";
  }
  return "unknown QP type";
}

std::string_view to_string(QpState state) {
  switch (state) {
    case QpState::kReset:
      return "RESET";
    case QpState::kInit:
      return "INIT";
    case QpState::kRtr:
      return "RTR";
    case QpState::kRts:
      return "RTS";
    case QpState::kSqd:
      return "SQD";
    case QpState::kSqe:
      return "SQE";
    case QpState::kErr:
      return "ERR";
  }
  return "unknown QP state";
}

std::string_view to_string(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kSend:
      return "SEND";
    case SendOpcode::kSendWithImm:
      return "SEND_WITH_IMM";
    case SendOpcode::kTso:
      return "TSO";
    case SendOpcode::kSendWithInvalidate:
      return "SEND_WITH_INV";
    case SendOpcode::kRdmaWrite:
      return "RDMA_WRITE";
    case SendOpcode::kRdmaWriteWithImm:
      return "RDMA_WRITE_WITH_IMM";
    case SendOpcode::kRdmaRead:
      return "RDMA_READ";
    case SendOpcode::kCompareSwap:
      return "CMP_AND_SWP";
    case SendOpcode::kFetchAdd:
      return "FETCH_AND_ADD";
    case SendOpcode::kLocalInvalidate:
      return "LOCAL_INV";
    case SendOpcode::kBindMemoryWindow:
      return "BIND_MW";
  }
  return "unknown opcode";
}

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, gid.data(), text, sizeof text) != nullptr ? text : "";
}

}  // namespace umlx5
