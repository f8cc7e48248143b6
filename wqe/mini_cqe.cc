#include "wqe/mini_cqe.h"

namespace umlx5::wqe {

std::string_view to_string(MiniCqeFormat format) {
  switch (format) {
    case MiniCqeFormat::kRxHash:
      return "rx-hash";
    case MiniCqeFormat::kChecksum:
      return "checksum";
    case MiniCqeFormat::kChecksumStrideIndex:
      return "checksum-and-stride-index";
  }
  return "reserved";
}

std::string_view to_string(CqeCompressionLayout layout) {
  switch (layout) {
    case CqeCompressionLayout::kBasic:
      return "basic";
    case CqeCompressionLayout::kEnhanced:
      return "enhanced";
  }
  return "reserved";
}

}  // namespace umlx5::wqe
