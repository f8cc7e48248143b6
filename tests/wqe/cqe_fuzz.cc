// Any bytes, as a CQE and as an EQE: the dump stays inside them, and what is loaded can be stored and loaded again.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "wqe/cqe.h"
#include "wqe/dump.h"
#include "wqe/eqe.h"
#include "wqe/mini_cqe.h"

namespace {

using namespace umlx5::wqe;

// store(load(bytes)) loses only reserved bits, so doing it again changes nothing.
template <typename T>
void check_round_trip(std::span<const std::byte> bytes) {
  if (bytes.size() < T::kBytes) {
    return;
  }
  std::array<std::byte, T::kBytes> once;
  std::array<std::byte, T::kBytes> twice;
  store(once.data(), load<T>(bytes.data()));
  store(twice.data(), load<T>(once.data()));
  if (once != twice || print(load<T>(bytes.data())) != print(load<T>(once.data()))) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const std::size_t entry_bytes : {bytes.size(), kCqeBytes, kLargeCqeBytes}) {
    if (bytes.size() >= entry_bytes && dump_cqe(bytes.first(entry_bytes)).empty()) {
      std::abort();
    }
  }
  for (const MiniCqeFormat format :
       {MiniCqeFormat::kRxHash, MiniCqeFormat::kChecksum, MiniCqeFormat::kChecksumStrideIndex}) {
    for (const CqeOpcode opcode : {CqeOpcode::kRequester, CqeOpcode::kResponderSend}) {
      if (dump_mini_cqes(bytes, format, opcode).empty() ||
          dump_mini_cqes(bytes.first(bytes.size() < kCqeBytes ? bytes.size() : kCqeBytes), format, opcode).empty()) {
        std::abort();
      }
    }
  }
  if (dump_eqe(bytes.first(bytes.size() < Eqe::kBytes ? bytes.size() : Eqe::kBytes)).empty()) {
    std::abort();
  }
  check_round_trip<Cqe>(bytes);
  check_round_trip<ErrorCqe>(bytes);
  check_round_trip<SignatureErrorCqe>(bytes);
  check_round_trip<HashMiniCqe>(bytes);
  check_round_trip<ChecksumMiniCqe>(bytes);
  check_round_trip<RequesterMiniCqe>(bytes);
  check_round_trip<MiniCqeBlockTail>(bytes);
  check_round_trip<Eqe>(bytes);
  return 0;
}
