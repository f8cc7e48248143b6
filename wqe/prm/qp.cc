#include "wqe/prm/qp.h"

#include <string_view>

namespace umlx5::wqe::prm {

std::string_view to_string(ServiceType value) {
  switch (value) {
    case ServiceType::kRc:
      return "RC";
    case ServiceType::kUc:
      return "UC";
    case ServiceType::kUd:
      return "UD";
    case ServiceType::kXrc:
      return "XRC";
    case ServiceType::kMlx:
      return "MLX";
    case ServiceType::kDci:
      return "DCI";
    case ServiceType::kDct:
      return "DCT";
    case ServiceType::kQp0:
      return "QP0";
    case ServiceType::kQp1:
      return "QP1";
    case ServiceType::kRawDatagram:
      return "RAW_DATAGRAM";
    case ServiceType::kRegUmr:
      return "REG_UMR";
  }
  return {};
}

std::string_view to_string(QpcState value) {
  switch (value) {
    case QpcState::kReset:
      return "RESET";
    case QpcState::kInit:
      return "INIT";
    case QpcState::kRtr:
      return "RTR";
    case QpcState::kRts:
      return "RTS";
    case QpcState::kSqErr:
      return "SQER";
    case QpcState::kSqDrained:
      return "SQ_DRAINED";
    case QpcState::kErr:
      return "ERR";
    case QpcState::kSqDraining:
      return "SQ_DRAINING";
    case QpcState::kSuspended:
      return "SUSPENDED";
  }
  return {};
}

std::string_view to_string(RqType value) {
  switch (value) {
    case RqType::kRegular:
      return "REGULAR";
    case RqType::kSrq:
      return "SRQ";
    case RqType::kCrq:
      return "CRQ";
    case RqType::kZeroLength:
      return "ZERO_LENGTH";
  }
  return {};
}

}  // namespace umlx5::wqe::prm
