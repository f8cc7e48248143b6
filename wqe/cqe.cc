#include "wqe/cqe.h"

namespace umlx5::wqe {

std::string_view to_string(CqeOpcode opcode) {
  switch (opcode) {
    case CqeOpcode::kRequester:
      return "REQ";
    case CqeOpcode::kResponderWriteImmediate:
      return "RESP_WR_IMM";
    case CqeOpcode::kResponderSend:
      return "RESP_SEND";
    case CqeOpcode::kResponderSendImmediate:
      return "RESP_SEND_IMM";
    case CqeOpcode::kResponderSendInvalidate:
      return "RESP_SEND_INV";
    case CqeOpcode::kResize:
      return "RESIZE_CQ";
    case CqeOpcode::kNoPacket:
      return "NO_PACKET";
    case CqeOpcode::kSignatureError:
      return "SIG_ERR";
    case CqeOpcode::kRequesterError:
      return "REQ_ERR";
    case CqeOpcode::kResponderError:
      return "RESP_ERR";
    case CqeOpcode::kInvalid:
      return "INVALID";
  }
  return "unknown";
}

std::string_view to_string(CqeFormat format) {
  switch (format) {
    case CqeFormat::kNone:
      return "no-data";
    case CqeFormat::kInline32:
      return "inline-32";
    case CqeFormat::kInline64:
      return "inline-64";
    case CqeFormat::kCompressed:
      return "compressed";
  }
  return "unknown";
}

std::string_view to_string(L3Type type) {
  switch (type) {
    case L3Type::kNone:
      return "none";
    case L3Type::kIpv6:
      return "ipv6";
    case L3Type::kIpv4:
      return "ipv4";
  }
  return "reserved";
}

}  // namespace umlx5::wqe
