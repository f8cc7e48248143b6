#include "tools/softhca/hca/compression.h"

#include <algorithm>
#include <cstdint>

#include "wqe/data.h"

namespace softhca::hca {
namespace {

namespace wqe = umlx5::wqe;
using wqe::Cqe;
using wqe::CqeFormat;
using wqe::CqeOpcode;

// All that is not the completion's own.
CqeBytes common_part(const CqeBytes& bytes) {
  CqeBytes common = bytes;
  auto cqe = wqe::load<Cqe>(bytes.data());
  cqe.byte_count = 0;
  cqe.timestamp = 0;
  cqe.wqe_counter = 0;
  cqe.rx_hash = 0;
  cqe.checksum = 0;
  if (cqe.opcode == CqeOpcode::kRequester) {
    cqe.send_opcode = {};
  }
  store(common.data(), cqe);
  return common;
}

// What the next WQE counter of the queue is ahead by: a frame on a striding queue has the strides that it takes in its
// byte count, where other frames are too short to have anything.
std::uint16_t counters_taken(const Cqe& cqe) {
  const std::uint16_t strides = cqe.l2_ok ? wqe::StridingByteCount{cqe.byte_count}.strides() : std::uint16_t{0};
  return strides != 0 ? strides : std::uint16_t{1};
}

void put_mini_cqe(std::byte* to, const CqeBytes& bytes, wqe::MiniCqeFormat format) {
  const auto cqe = wqe::load<Cqe>(bytes.data());
  if (cqe.opcode == CqeOpcode::kRequester) {
    store(to, wqe::RequesterMiniCqe{
                  .wqe_counter = cqe.wqe_counter, .send_opcode = cqe.send_opcode, .byte_count = cqe.byte_count});
  } else if (format == wqe::MiniCqeFormat::kRxHash) {
    store(to, wqe::HashMiniCqe{.rx_hash = cqe.rx_hash, .byte_count = cqe.byte_count});
  } else {
    const bool strides = format == wqe::MiniCqeFormat::kChecksumStrideIndex;
    store(to, wqe::ChecksumMiniCqe{.checksum = cqe.checksum,
                                   .stride_index = strides ? cqe.wqe_counter : std::uint16_t{0},
                                   .byte_count = cqe.byte_count});
  }
}

}  // namespace

bool is_compressible(std::uint8_t op_own) { return wqe::cqe_opcode(op_own) <= CqeOpcode::kResponderSendInvalidate; }

bool continues(const CqeBytes& last, const CqeBytes& next) {
  const auto before = wqe::load<Cqe>(last.data()), after = wqe::load<Cqe>(next.data());
  const bool counts_on = after.wqe_counter == static_cast<std::uint16_t>(before.wqe_counter + counters_taken(before));
  return (after.opcode == CqeOpcode::kRequester || counts_on) && common_part(last) == common_part(next);
}

CqeBytes title_of(std::span<const CqeBytes> run) {
  CqeBytes title = run.front();
  auto cqe = wqe::load<Cqe>(title.data());
  cqe.byte_count = static_cast<std::uint32_t>(run.size());
  cqe.format = CqeFormat::kCompressed;
  store(title.data(), cqe);
  return title;
}

CqeBytes mini_cqes_of(std::span<const CqeBytes> run, std::size_t first, wqe::MiniCqeFormat format) {
  CqeBytes entry{};
  std::byte* to = entry.data();
  for (const CqeBytes& cqe : run.subspan(first, std::min<std::size_t>(run.size() - first, wqe::kMiniCqesPerEntry))) {
    put_mini_cqe(to, cqe, format);
    to += wqe::kMiniCqeBytes;
  }
  return entry;
}

CqeBytes block_of(std::span<const CqeBytes> run, wqe::MiniCqeFormat format) {
  CqeBytes entry = mini_cqes_of(run, 0, format);
  store(entry.data() + wqe::kMiniCqesPerBlock * wqe::kMiniCqeBytes,
        wqe::MiniCqeBlockTail{.count_less_one = static_cast<std::uint8_t>(run.size() - 1),
                              .format = CqeFormat::kCompressed});
  return entry;
}

}  // namespace softhca::hca
