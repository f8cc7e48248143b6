// A whole send or receive WQE taken apart: what a device reads, and what the dump prints.
//
// Nothing here allocates, and nothing reads past the bytes it is given. A parsed WQE points into those bytes (inline
// data, Ethernet header, body), so they must outlive it. Thread-safe on distinct objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include "wqe/address_vector.h"
#include "wqe/atomic.h"
#include "wqe/control.h"
#include "wqe/data.h"
#include "wqe/eth.h"
#include "wqe/remote_address.h"
#include "wqe/units.h"

namespace umlx5::wqe {

// What the queue's transport puts between the control segment and the operation.
enum class Transport : std::uint8_t {
  kConnected,         // RC, UC: nothing
  kXrc,               // XRC initiator: XRC segment
  kDatagram,          // UD: address vector with Q_Key
  kDynamicConnected,  // DC initiator: address vector with access key
  kRawPacket,         // Ethernet segment
};
std::string_view to_string(Transport transport);

// One entry of a gather or scatter list: memory behind a key, or bytes in the WQE itself.
struct DataItem {
  std::uint64_t address;         // meaningless for inline data
  std::uint32_t lkey;            // meaningless for inline data
  std::uint32_t length_bytes;    // at most 2^31; a wire count of 0 is already 2^31 for a pointer
  const std::byte* inline_data;  // null for a pointer

  bool is_inline() const { return inline_data != nullptr; }
};

// At most as many entries as fit behind a control segment. Entries at and past size() are not initialised.
class DataList {
 public:
  static constexpr std::size_t kCapacity = kMaxDsOctowords - 1;

  DataList() : size_(0) {}
  DataList(const DataList& other) : size_(0) { *this = other; }
  DataList& operator=(const DataList& other) {
    for (std::size_t i = 0; i < other.size_; ++i) {
      items_[i] = other.items_[i];
    }
    size_ = other.size_;
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const DataItem& operator[](std::size_t i) const { return items_[i]; }
  const DataItem* begin() const { return items_.data(); }
  const DataItem* end() const { return items_.data() + size_; }
  std::uint64_t total_bytes() const {
    std::uint64_t sum = 0;
    for (const DataItem& item : *this) {
      sum += item.length_bytes;
    }
    return sum;
  }
  // False if the list is full.
  bool push(const DataItem& item) {
    if (size_ == kCapacity) {
      return false;
    }
    items_[size_++] = item;
    return true;
  }

 private:
  std::array<DataItem, kCapacity> items_;
  std::size_t size_;
};

// Operands of any of the four atomic opcodes, in one form. Plain operations have full masks (compare-and-swap) and no
// field boundary but the operand's end (fetch-and-add).
struct AtomicOperands {
  std::uint8_t operand_bytes = 8;  // 4 or 8; values below occupy the low bits
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  std::uint64_t swap_mask = 0;       // compare-and-swap only
  std::uint64_t compare_mask = 0;    // compare-and-swap only
  std::uint64_t field_boundary = 0;  // fetch-and-add only
};

// Members whose has_* is false are not set.
struct SendWqe {
  SendWqe() {}  // user-provided, so that value-initialisation does not clear the data list's unused entries

  ControlSegment control;
  bool has_xrc = false;
  bool has_address_vector = false;
  bool has_eth = false;
  bool has_remote_address = false;
  bool has_atomic = false;

  std::uint32_t xrc_srqn = 0;
  AddressVector address_vector;
  EthernetSegment eth;
  std::span<const std::byte> eth_inline_header;  // first bytes of the packet, or the TCI of a VLAN tag to insert
  RemoteAddressSegment remote_address;
  AtomicOperands atomic;
  DataList data;                    // gather list; for RDMA_READ and atomics the scatter list
  std::span<const std::byte> body;  // all after the control segment, for opcodes whose body is not taken apart
};

// Takes apart the WQE at the start of `wqe`, which must be contiguous (unwrapped); bytes past its DS are ignored.
// Taken apart: SEND, SEND_IMM, SEND_INVAL, RDMA_WRITE, RDMA_WRITE_IMM, RDMA_READ, ATOMIC_CS, ATOMIC_FA, both masked
// atomics, TSO, and NOP. Other known opcodes (UMR, SET_PSV, MMO, WAIT ...) get control and body only.
// The error is a static sentence that names what is wrong: too few bytes, DS of 0, a segment that DS cuts off, an
// unknown opcode, inline data where the device writes, an operand size it has not. Whether the QP may run the opcode,
// keys and ranges are not looked at.
std::expected<SendWqe, std::string_view> parse_send_wqe(std::span<const std::byte> wqe, Transport transport);

// As parse_send_wqe(), into an object that keeps what came before the fault: segments whose has_* is true, and the data
// entries read. Returns the reason, empty if there is none. For showing WQEs that a device would reject.
std::string_view parse_send_wqe_into(SendWqe& wqe, std::span<const std::byte> bytes, Transport transport);

// What precedes the scatter list in a receive WQE.
enum class ReceivePrefix : std::uint8_t {
  kNone,       // receive queue
  kSignature,  // receive queue with WQE signatures: ReceiveSignatureSegment
  kSrqNext,    // shared or striding receive queue: SrqNextSegment
};

// The scatter list of a receive WQE that fills `wqe` (the queue's stride): entries up to the terminator or the end.
// Error as above: too short for its prefix, not a whole number of octowords, an inline segment, too many entries.
std::expected<DataList, std::string_view> parse_receive_wqe(std::span<const std::byte> wqe, ReceivePrefix prefix);

}  // namespace umlx5::wqe
