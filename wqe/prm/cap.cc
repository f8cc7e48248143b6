#include "wqe/prm/cap.h"

#include <string_view>

namespace umlx5::wqe::prm {

std::string_view to_string(CapabilityGroup value) {
  switch (value) {
    case CapabilityGroup::kGeneral:
      return "GENERAL";
    case CapabilityGroup::kEthernetOffloads:
      return "ETHERNET_OFFLOADS";
    case CapabilityGroup::kOdp:
      return "ODP";
    case CapabilityGroup::kAtomic:
      return "ATOMIC";
    case CapabilityGroup::kRoce:
      return "ROCE";
    case CapabilityGroup::kIpoibOffloads:
      return "IPOIB_OFFLOADS";
    case CapabilityGroup::kIpoibEnhancedOffloads:
      return "IPOIB_ENHANCED_OFFLOADS";
    case CapabilityGroup::kFlowTable:
      return "FLOW_TABLE";
    case CapabilityGroup::kEswitchFlowTable:
      return "ESWITCH_FLOW_TABLE";
    case CapabilityGroup::kEswitch:
      return "ESWITCH";
    case CapabilityGroup::kVectorCalc:
      return "VECTOR_CALC";
    case CapabilityGroup::kQos:
      return "QOS";
    case CapabilityGroup::kDebug:
      return "DEBUG";
    case CapabilityGroup::kDeviceMemory:
      return "DEVICE_MEMORY";
    case CapabilityGroup::kTls:
      return "TLS";
    case CapabilityGroup::kVdpaEmulation:
      return "VDPA_EMULATION";
    case CapabilityGroup::kDeviceEvent:
      return "DEVICE_EVENT";
    case CapabilityGroup::kIpsec:
      return "IPSEC";
    case CapabilityGroup::kCrypto:
      return "CRYPTO";
    case CapabilityGroup::kShampo:
      return "SHAMPO";
    case CapabilityGroup::kMacsec:
      return "MACSEC";
    case CapabilityGroup::kGeneral2:
      return "GENERAL_2";
    case CapabilityGroup::kPortSelection:
      return "PORT_SELECTION";
    case CapabilityGroup::kAdvVirtualization:
      return "ADV_VIRTUALIZATION";
  }
  return {};
}

}  // namespace umlx5::wqe::prm
