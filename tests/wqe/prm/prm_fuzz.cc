// Any bytes load, print and store; a second load gives the same values.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "wqe/prm/cap.h"
#include "wqe/prm/command.h"
#include "wqe/prm/cq.h"
#include "wqe/prm/eq.h"
#include "wqe/prm/mcg.h"
#include "wqe/prm/memic.h"
#include "wqe/prm/mkey.h"
#include "wqe/prm/pd_uar.h"
#include "wqe/prm/qp.h"
#include "wqe/prm/roce.h"
#include "wqe/prm/srq.h"

namespace {

using namespace umlx5::wqe;

template <typename T>
void round_trip(const std::vector<std::byte>& bytes) {
  const T value = load<T>(bytes.data());
  std::vector<std::byte> again(T::kBytes);
  store(again.data(), value);
  if (print(load<T>(again.data())) != print(value)) {
    std::abort();
  }
}

template <typename... T>
void round_trips(const std::vector<std::byte>& bytes) {
  (round_trip<T>(bytes), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  std::vector<std::byte> input(512);
  if (bytes != 0) {
    std::memcpy(input.data(), data, bytes < input.size() ? bytes : input.size());
  }
  using namespace umlx5::wqe::prm;
  round_trips<ObjectIn, ObjectOut, SpecialContextsOut, CreateUctxIn, CreateMkeyIn, QueryMkeyOut, CreateCqIn, ModifyCqIn,
              QueryCqOut, CreateEqIn, QueryEqOut, CreateQpIn, ModifyQpIn, QueryQpOut, QpcExtension, CreateSrqIn,
              QuerySrqOut, ArmSrqIn, CreateXrcSrqIn, QueryXrcSrqOut, CreateRmpIn, ModifyRmpIn, QueryRmpOut,
              QueryHcaCapIn, GeneralCapabilities, AtomicCapabilities, RoceCapabilities, QueryAdapterOut,
              SetRoceAddressIn, QueryRoceAddressIn, QueryRoceAddressOut, McgIn, AllocMemicIn, AllocMemicOut,
              DeallocMemicIn, DeviceMemoryCapabilities, OdpCapabilities>(input);
  return 0;
}
