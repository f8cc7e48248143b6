#include "wqe/prm/srq.h"

#include <string_view>

namespace umlx5::wqe::prm {

std::string_view to_string(WqType value) {
  switch (value) {
    case WqType::kLinkedList:
      return "LINKED_LIST";
    case WqType::kCyclic:
      return "CYCLIC";
    case WqType::kLinkedListStriding:
      return "LINKED_LIST_STRIDING";
    case WqType::kCyclicStriding:
      return "CYCLIC_STRIDING";
  }
  return {};
}

}  // namespace umlx5::wqe::prm
