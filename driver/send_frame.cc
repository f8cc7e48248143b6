// Posting frames of RAW_PACKET QPs.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/send_queue.h"
#include "wqe/eth.h"

namespace umlx5 {
namespace {

constexpr std::size_t kEthernetHeaderBytes = 14;
constexpr std::size_t kMostInlineBytes = 18;  // MLX5_ETH_L2_INLINE_HEADER_SIZE: MAC addresses, a VLAN tag, ethertype

std::uint64_t total_of(std::span<const Sge> sges) {
  std::uint64_t total = 0;
  for (const Sge& sge : sges) {
    total += sge.length_bytes;
  }
  return total;
}

// The part of `sge` that begins `skip` bytes into the list; `skip` becomes what is left to be skipped.
Sge rest_of(const Sge& sge, std::size_t& skip) {
  const auto skipped = static_cast<std::uint32_t>(std::min<std::size_t>(skip, sge.length_bytes));
  skip -= skipped;
  return {.address = sge.address + skipped, .length_bytes = sge.length_bytes - skipped, .lkey = sge.lkey};
}

}  // namespace

Refusal SendQueue::refuse_frame(const FrameRequest& request) const {
  if ((config_.opcodes & opcode_bit(request.is_tso ? SendOpcode::kTso : SendOpcode::kSend)) == 0) {
    return Refusal::kOpcode;
  }
  if (request.sges.size() > config_.max_sge) {
    return Refusal::kSges;
  }
  if (request.flags.has(SendFlag::kIpChecksum) && !config_.has_checksums) {
    return Refusal::kChecksum;
  }
  if (!request.is_tso) {
    return total_of(request.sges) < config_.min_inline_bytes ? Refusal::kFrame : Refusal::kNone;
  }
  if (request.tso_header.size() < kEthernetHeaderBytes || request.tso_header.size() > config_.max_tso_header_bytes) {
    return Refusal::kTsoHeader;
  }
  return total_of(request.sges) > config_.max_tso_bytes ? Refusal::kTsoLength : Refusal::kNone;
}

SendQueue::Built SendQueue::put_frame(const FrameRequest& request, const SendRing& ring,
                                      const Position& position) const {
  if (const Refusal refusal = refuse_frame(request); refusal != Refusal::kNone) {
    return {.refusal = refusal};
  }
  // What is inlined in the Ethernet segment: the header of a large send, or the head of the frame.
  std::array<std::byte, kMostInlineBytes> head;
  std::span<const std::byte> inlined = request.tso_header;
  if (!request.is_tso) {
    std::size_t wanted = config_.min_inline_bytes, at = 0;
    for (const Sge& sge : request.sges) {
      const std::size_t bytes = std::min<std::size_t>(wanted - at, sge.length_bytes);
      std::copy_n(reinterpret_cast<const std::byte*>(sge.address), bytes,
                  head.begin() + static_cast<std::ptrdiff_t>(at));
      at += bytes;
    }
    inlined = std::span(head).first(wanted);
  }
  std::byte* const wqe = ring.wqebb(position.next_wqebb);
  const wqe::EthernetSegment eth{.l3_checksum = request.flags.has(SendFlag::kIpChecksum),
                                 .l4_checksum = request.flags.has(SendFlag::kIpChecksum),
                                 .mss_bytes = request.is_tso ? request.tso_piece_bytes : std::uint16_t{0},
                                 .inline_header_bytes = static_cast<std::uint16_t>(inlined.size())};
  std::byte* const segment = wqe + wqe::ControlSegment::kBytes;
  wqe::store(segment, eth);
  const std::size_t eth_bytes = eth.wire_octowords() * wqe::kOctowordBytes;
  std::byte* end = ring.put_bytes(segment + wqe::EthernetSegment::kInlineOffset, inlined);
  for (std::size_t used = wqe::EthernetSegment::kInlineOffset + inlined.size(); used < eth_bytes; ++used) {
    end = ring.wrapped(end);
    *end++ = std::byte{0};
  }
  unsigned octowords = static_cast<unsigned>((wqe::ControlSegment::kBytes + eth_bytes) / wqe::kOctowordBytes);
  std::byte* at = ring.behind(wqe, octowords * wqe::kOctowordBytes);
  std::size_t skip = request.is_tso ? 0 : inlined.size();
  if (request.flags.has(SendFlag::kInline)) {
    std::array<InlineSge, wqe::kMaxDsOctowords> pieces;
    std::size_t count = 0;
    for (const Sge& sge : request.sges) {
      static_cast<Sge&>(pieces[count++]) = rest_of(sge, skip);
    }
    const unsigned data =
        ring.put_inline(at, std::span<const InlineSge>(pieces).first(count), config_.max_inline_bytes);
    if (data == SendRing::kRefused) {
      return {.refusal = Refusal::kInline};
    }
    octowords += data;
  } else {
    for (const Sge& sge : request.sges) {
      const Sge rest = rest_of(sge, skip);
      const unsigned data = ring.put_pointers(at, {&rest, 1});
      if (data == SendRing::kRefused) {
        return {.refusal = Refusal::kLength};
      }
      at = data == 0 ? at : ring.wrapped(at) + wqe::DataSegment::kBytes;
      octowords += data;
    }
  }
  put_control(wqe, request.is_tso ? wqe::SendOpcode::kTso : wqe::SendOpcode::kSend, octowords, request.flags, 0,
              position);
  return {.wqe = wqe,
          .octowords = octowords,
          .completion = request.is_tso ? CompletionOpcode::kTso : CompletionOpcode::kSend};
}

}  // namespace umlx5
