#include "wqe/control.h"

namespace umlx5::wqe {

std::string_view to_string(FenceMode mode) {
  switch (mode) {
    case FenceMode::kNone:
      return "none";
    case FenceMode::kInitiatorSmall:
      return "initiator-small";
    case FenceMode::kFence:
      return "fence";
    case FenceMode::kStrongOrdering:
      return "strong-ordering";
    case FenceMode::kStrong:
      return "small-and-fence";
  }
  return "reserved";
}

std::string_view to_string(CompletionMode mode) {
  switch (mode) {
    case CompletionMode::kOnError:
      return "on-error";
    case CompletionMode::kOnFirstError:
      return "on-first-error";
    case CompletionMode::kAlways:
      return "always";
    case CompletionMode::kAlwaysAndEvent:
      return "always-and-event";
  }
  return "reserved";
}

}  // namespace umlx5::wqe
