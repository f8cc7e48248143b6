// What is particular to a send opcode and to a queue's transport, known when the builder of its WQEs is compiled.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "driver/types.h"
#include "driver/work_request.h"
#include "wqe/address_vector.h"
#include "wqe/atomic.h"
#include "wqe/control.h"
#include "wqe/data.h"
#include "wqe/opcode.h"
#include "wqe/remote_address.h"
#include "wqe/umr.h"
#include "wqe/units.h"
#include "wqe/xrc.h"

namespace umlx5 {

// What every WQE of the queue carries between the control segment and the operation, UMRs excepted.
enum class SendTransport : std::uint8_t {
  kConnected,  // RC, UC: nothing
  kXrc,        // the number of the remote shared receive queue
  kDatagram,   // UD: an address vector
  kDc,         // DCI: an address vector with the target's access key
  kRaw,        // RAW_PACKET: an Ethernet segment; send_frame.cc builds these
};

struct SendForm {
  wqe::SendOpcode opcode;
  CompletionOpcode completion = CompletionOpcode::kSend;  // what completes it
  bool remote_address = false;
  bool atomic = false;
  bool immediate = false;
  bool invalidate = false;
  bool may_inline = true;  // the device reads the data
  bool umr = false;        // changes a memory key; carries neither data nor the transport's segment
};

constexpr SendForm send_form(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kSend:
      return {.opcode = wqe::SendOpcode::kSend};
    case SendOpcode::kSendWithImm:
      return {.opcode = wqe::SendOpcode::kSendImmediate, .immediate = true};
    case SendOpcode::kSendWithInvalidate:
      return {.opcode = wqe::SendOpcode::kSendInvalidate, .invalidate = true};
    case SendOpcode::kRdmaWrite:
      return {
          .opcode = wqe::SendOpcode::kRdmaWrite, .completion = CompletionOpcode::kRdmaWrite, .remote_address = true};
    case SendOpcode::kRdmaWriteWithImm:
      return {.opcode = wqe::SendOpcode::kRdmaWriteImmediate,
              .completion = CompletionOpcode::kRdmaWrite,
              .remote_address = true,
              .immediate = true};
    case SendOpcode::kRdmaRead:
      return {.opcode = wqe::SendOpcode::kRdmaRead,
              .completion = CompletionOpcode::kRdmaRead,
              .remote_address = true,
              .may_inline = false};
    case SendOpcode::kCompareSwap:
      return {.opcode = wqe::SendOpcode::kAtomicCompareSwap,
              .completion = CompletionOpcode::kCompareSwap,
              .remote_address = true,
              .atomic = true,
              .may_inline = false};
    case SendOpcode::kFetchAdd:
      return {.opcode = wqe::SendOpcode::kAtomicFetchAdd,
              .completion = CompletionOpcode::kFetchAdd,
              .remote_address = true,
              .atomic = true,
              .may_inline = false};
    case SendOpcode::kLocalInvalidate:
      return {.opcode = wqe::SendOpcode::kUmr, .completion = CompletionOpcode::kLocalInvalidate, .umr = true};
    case SendOpcode::kBindMemoryWindow:
      return {.opcode = wqe::SendOpcode::kUmr, .completion = CompletionOpcode::kBindMemoryWindow, .umr = true};
    case SendOpcode::kTso:
      return {.opcode = wqe::SendOpcode::kTso, .completion = CompletionOpcode::kTso};
  }
  return {.opcode = wqe::SendOpcode::kNop};
}

// The same by table, for opcodes that are known at run time only; one of kSendForms' size at least has no form.
inline constexpr auto kSendForms = [] {
  std::array<SendForm, 16> forms{};
  for (std::size_t i = 0; i < forms.size(); ++i) {
    forms[i] = send_form(static_cast<SendOpcode>(i));
  }
  return forms;
}();
inline const SendForm& form_of(SendOpcode opcode) { return kSendForms[static_cast<std::size_t>(opcode)]; }

constexpr std::uint32_t opcode_bit(SendOpcode opcode) { return 1u << static_cast<unsigned>(opcode); }

// Bytes of the segment that the transport adds.
constexpr std::size_t transport_bytes(SendTransport transport) {
  switch (transport) {
    case SendTransport::kXrc:
      return wqe::XrcSegment::kBytes;
    case SendTransport::kDatagram:
    case SendTransport::kDc:
      return wqe::AddressVector::kBytes;
    case SendTransport::kConnected:
    case SendTransport::kRaw:
      break;
  }
  return 0;
}

// Bytes in front of the data, control segment included; of a UMR, all but its translation entries.
constexpr std::size_t header_bytes(SendTransport transport, SendOpcode opcode) {
  const SendForm form = send_form(opcode);
  if (form.umr) {
    return wqe::ControlSegment::kBytes + wqe::UmrControlSegment::kBytes + wqe::MkeyContextSegment::kBytes;
  }
  return wqe::ControlSegment::kBytes + transport_bytes(transport) +
         (form.remote_address ? wqe::RemoteAddressSegment::kBytes : 0) + (form.atomic ? wqe::AtomicSegment::kBytes : 0);
}

// Bytes of a WQE's translation entries: binding has the most.
inline constexpr std::size_t kUmrEntriesBytes = wqe::kTranslationAlignOctowords * wqe::kOctowordBytes;

// Opcodes that a transport has; which of them a queue takes is its configuration.
constexpr bool transport_has(SendTransport transport, SendOpcode opcode) {
  switch (transport) {
    case SendTransport::kDatagram:
      return opcode == SendOpcode::kSend || opcode == SendOpcode::kSendWithImm;
    case SendTransport::kRaw:
      return false;  // its WQEs have another form
    default:
      return opcode != SendOpcode::kTso;
  }
}

// Which of the opcodes `of_type` fit into WQEs of `wqe_bytes` with so much data; bits of opcode_bit().
constexpr std::uint32_t opcodes_that_fit(SendTransport transport, std::uint32_t of_type, std::size_t wqe_bytes,
                                         std::size_t max_sge, std::size_t max_inline_bytes) {
  std::uint32_t fit = 0;
  for (std::uint32_t bits = of_type; bits != 0; bits &= bits - 1) {
    const auto opcode = static_cast<SendOpcode>(std::countr_zero(bits));
    const SendForm form = send_form(opcode);
    const std::size_t inlined =
        max_inline_bytes != 0 && form.may_inline ? wqe::inline_octowords(max_inline_bytes) * wqe::kOctowordBytes : 0;
    const std::size_t data = form.umr ? kUmrEntriesBytes : std::max(max_sge * wqe::DataSegment::kBytes, inlined);
    fit |= header_bytes(transport, opcode) + data <= wqe_bytes ? opcode_bit(opcode) : 0;
  }
  return fit;
}

}  // namespace umlx5
