// Any bytes as a packet: parse() fails cleanly, or gives a packet that builds to the same bytes but for reserved bits.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tools/softhca/wire/packet.h"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check(std::span<const std::byte> bytes) {
  using namespace softhca::wire;
  const auto packet = parse(bytes);
  if (!packet) {
    require(to_string(packet.error()) != "?");
    return;
  }
  const std::size_t payload_bytes = packet->payload.size();
  require(payload_bytes <= bytes.size() && !to_string(*packet).empty());
  // The builder chooses the least padding; a peer may have chosen other.
  std::vector<std::byte> once(packet_bytes(packet->bth.opcode, payload_bytes));
  require(once.size() <= bytes.size() && build(*packet, once) == once.size());
  const auto again = parse(once);
  require(again && again->payload.size() == payload_bytes);
  std::vector<std::byte> twice(once.size());
  require(build(*again, twice) == twice.size() && once == twice);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
