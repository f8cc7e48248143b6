#include "wqe/prm/mkey.h"

#include <string_view>

namespace umlx5::wqe::prm {

std::string_view to_string(MkeyMode value) {
  switch (value) {
    case MkeyMode::kPa:
      return "PA";
    case MkeyMode::kMtt:
      return "MTT";
    case MkeyMode::kKlm:
      return "KLM";
    case MkeyMode::kKsm:
      return "KSM";
    case MkeyMode::kSwIcm:
      return "SW_ICM";
    case MkeyMode::kMemic:
      return "MEMIC";
  }
  return {};
}

}  // namespace umlx5::wqe::prm
