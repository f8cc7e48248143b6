#include "wqe/prm/cq.h"

#include <string_view>

namespace umlx5::wqe::prm {

std::string_view to_string(CqeSize value) {
  switch (value) {
    case CqeSize::k64:
      return "64";
    case CqeSize::k128:
      return "128";
    case CqeSize::kPadded128:
      return "128_PAD";
  }
  return {};
}

}  // namespace umlx5::wqe::prm
