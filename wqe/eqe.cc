#include "wqe/eqe.h"

namespace umlx5::wqe {

std::string_view to_string(EventType type) {
  switch (type) {
    case EventType::kCompletion:
      return "COMP";
    case EventType::kPathMigrated:
      return "PATH_MIG";
    case EventType::kCommunicationEstablished:
      return "COMM_EST";
    case EventType::kSendQueueDrained:
      return "SQ_DRAINED";
    case EventType::kCqError:
      return "CQ_ERROR";
    case EventType::kWorkQueueCatastrophic:
      return "WQ_CATAS_ERROR";
    case EventType::kPathMigrationFailed:
      return "PATH_MIG_FAILED";
    case EventType::kInternalError:
      return "INTERNAL_ERROR";
    case EventType::kPortChange:
      return "PORT_CHANGE";
    case EventType::kCommandDone:
      return "CMD";
    case EventType::kPageRequest:
      return "PAGE_REQUEST";
    case EventType::kPageFault:
      return "PAGE_FAULT";
    case EventType::kNicVportChange:
      return "NIC_VPORT_CHANGE";
    case EventType::kEswitchFunctionsChanged:
      return "ESW_FUNCTIONS_CHANGED";
    case EventType::kVhcaStateChange:
      return "VHCA_STATE_CHANGE";
    case EventType::kWorkQueueInvalidRequest:
      return "WQ_INVAL_REQ_ERROR";
    case EventType::kWorkQueueAccessError:
      return "WQ_ACCESS_ERROR";
    case EventType::kSrqCatastrophic:
      return "SRQ_CATAS_ERROR";
    case EventType::kSrqLastWqe:
      return "SRQ_LAST_WQE";
    case EventType::kSrqLimit:
      return "SRQ_RQ_LIMIT";
    case EventType::kGpio:
      return "GPIO_EVENT";
    case EventType::kPortModule:
      return "PORT_MODULE_EVENT";
    case EventType::kTemperatureWarning:
      return "TEMP_WARN_EVENT";
    case EventType::kXrqError:
      return "XRQ_ERROR";
    case EventType::kRemoteConfig:
      return "REMOTE_CONFIG";
    case EventType::kDoorbellCongestion:
      return "DB_BF_CONGESTION";
    case EventType::kStall:
      return "STALL_EVENT";
    case EventType::kDctDrained:
      return "DCT_DRAINED";
    case EventType::kDctKeyViolation:
      return "DCT_KEY_VIOLATION";
    case EventType::kFpgaError:
      return "FPGA_ERROR";
    case EventType::kFpgaQpError:
      return "FPGA_QP_ERROR";
    case EventType::kGeneral:
      return "GENERAL_EVENT";
    case EventType::kMonitorCounter:
      return "MONITOR_COUNTER";
    case EventType::kPps:
      return "PPS_EVENT";
    case EventType::kDeviceTracer:
      return "DEVICE_TRACER";
    case EventType::kObjectChange:
      return "OBJECT_CHANGE";
  }
  return "unknown";
}

std::string_view to_string(PortChange change) {
  switch (change) {
    case PortChange::kDown:
      return "down";
    case PortChange::kActive:
      return "active";
    case PortChange::kInitialized:
      return "initialized";
    case PortChange::kLid:
      return "LID change";
    case PortChange::kPkey:
      return "P_Key change";
    case PortChange::kGuid:
      return "GUID change";
    case PortChange::kClientReregister:
      return "client reregister";
  }
  return "unknown";
}

std::string_view to_string(QueueKind kind) {
  switch (kind) {
    case QueueKind::kQp:
      return "QP";
    case QueueKind::kRq:
      return "RQ";
    case QueueKind::kSq:
      return "SQ";
    case QueueKind::kDct:
      return "DCT";
  }
  return "unknown";
}

std::string_view to_string(CqErrorKind kind) {
  switch (kind) {
    case CqErrorKind::kOverrun:
      return "overrun";
    case CqErrorKind::kAccessViolation:
      return "access violation";
  }
  return "unknown";
}

}  // namespace umlx5::wqe
