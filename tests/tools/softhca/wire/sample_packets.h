// Packets for tests: every opcode, every header with values that use all bits of its fields.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/softhca/wire/packet.h"

namespace softhca::wire {

inline std::vector<Opcode> defined_opcodes() {
  std::vector<Opcode> result;
  for (int value = 0; value < 256; ++value) {
    if (opcode_info(static_cast<Opcode>(value)).defined) {
      result.push_back(static_cast<Opcode>(value));
    }
  }
  return result;
}

inline Packet full_packet(Opcode opcode) {
  Packet packet;
  packet.bth = {.opcode = opcode,
                .solicited_event = true,
                .migration_request = true,
                .pkey = 0x8001,
                .becn = true,
                .destination_qpn = 0xabcdef,
                .ack_request = true,
                .psn = 0xfedcba};
  packet.deth = {0x80010203, 0x030201};
  packet.xrceth = {0x99aabb};
  packet.reth = {0x1122334455667788, 0xdeadbeef, 0x80000000};
  packet.atomic_eth = {0x8877665544332211, 0xcafef00d, 0x0102030405060708, 0xf1f2f3f4f5f6f7f8};
  packet.aeth = Aeth::nak(0x123456, NakCode::kRemoteAccessError);
  packet.atomic_ack_eth = {0xa1a2a3a4a5a6a7a8};
  packet.imm_dt = {0x0badcafe};
  packet.ieth = {0x55667788};
  packet.feth = {0xccddee};
  return packet;
}

inline std::vector<std::byte> built(const Packet& packet) {
  std::vector<std::byte> out(packet_bytes(packet.bth.opcode, packet.payload.size()), std::byte{0xee});
  out.resize(build(packet, out));
  return out;
}

}  // namespace softhca::wire
