// Any bytes, as a send and as a receive WQE of every kind: parsing and dumping stay inside them, and what parses holds
// together.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "wqe/dump.h"
#include "wqe/send_wqe.h"

namespace {

using namespace umlx5::wqe;

void check(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check_inside(std::span<const std::byte> inner, std::span<const std::byte> outer) {
  check(inner.empty() || (inner.data() >= outer.data() && inner.data() + inner.size() <= outer.data() + outer.size()));
}

void check_list(const DataList& list, std::span<const std::byte> bytes) {
  check(list.size() <= DataList::kCapacity);
  for (const DataItem& item : list) {
    if (item.is_inline()) {
      check_inside({item.inline_data, item.length_bytes}, bytes);
    } else {
      check(item.length_bytes != 0 && item.length_bytes <= kMaxDataSegmentBytes);
    }
  }
}

void send(std::span<const std::byte> bytes, Transport transport) {
  const auto wqe = parse_send_wqe(bytes, transport);
  SendWqe partial;
  check(parse_send_wqe_into(partial, bytes, transport) == (wqe ? std::string_view{} : wqe.error()));
  if (wqe) {
    const std::size_t wqe_bytes = wqe->control.ds_octowords * kOctowordBytes;
    check(wqe_bytes >= 16 && wqe_bytes <= bytes.size());
    check_list(wqe->data, bytes.first(wqe_bytes));
    check_inside(wqe->body, bytes.first(wqe_bytes));
    check_inside(wqe->eth_inline_header, bytes.first(wqe_bytes));
    check(!wqe->has_atomic || wqe->has_remote_address);
  }
  check(!dump_send_wqe(bytes, transport).empty());
}

void receive(std::span<const std::byte> bytes, ReceivePrefix prefix) {
  if (const auto list = parse_receive_wqe(bytes, prefix)) {
    check_list(*list, bytes);
  }
  check(!dump_receive_wqe(bytes, prefix).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const auto transport : {Transport::kConnected, Transport::kXrc, Transport::kDatagram,
                               Transport::kDynamicConnected, Transport::kRawPacket}) {
    send(bytes, transport);
  }
  for (const auto prefix : {ReceivePrefix::kNone, ReceivePrefix::kSignature, ReceivePrefix::kSrqNext}) {
    receive(bytes, prefix);
  }
  return 0;
}
