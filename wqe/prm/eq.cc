#include "wqe/prm/eq.h"

#include <string_view>

namespace umlx5::wqe::prm {

std::string_view to_string(EventType value) {
  switch (value) {
    case EventType::kCompletion:
      return "COMP";
    case EventType::kPathMigrated:
      return "PATH_MIGRATED";
    case EventType::kCommunicationEstablished:
      return "COMM_EST";
    case EventType::kSqDrained:
      return "SQ_DRAINED";
    case EventType::kCqError:
      return "CQ_ERROR";
    case EventType::kWqCatastrophic:
      return "WQ_CATAS_ERROR";
    case EventType::kPathMigrationFailed:
      return "PATH_MIGRATION_FAILED";
    case EventType::kInternalError:
      return "INTERNAL_ERROR";
    case EventType::kPortChange:
      return "PORT_CHANGE";
    case EventType::kCommand:
      return "CMD";
    case EventType::kPageRequest:
      return "PAGE_REQUEST";
    case EventType::kPageFault:
      return "PAGE_FAULT";
    case EventType::kNicVportChange:
      return "NIC_VPORT_CHANGE";
    case EventType::kWqInvalidRequest:
      return "WQ_INVAL_REQ_ERROR";
    case EventType::kWqAccessError:
      return "WQ_ACCESS_ERROR";
    case EventType::kSrqCatastrophic:
      return "SRQ_CATAS_ERROR";
    case EventType::kSrqLastWqe:
      return "SRQ_LAST_WQE";
    case EventType::kSrqLimit:
      return "SRQ_RQ_LIMIT";
    case EventType::kDctDrained:
      return "DCT_DRAINED";
    case EventType::kDctKeyViolation:
      return "DCT_KEY_VIOLATION";
    case EventType::kGeneral:
      return "GENERAL";
  }
  return {};
}

}  // namespace umlx5::wqe::prm
