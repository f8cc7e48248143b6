#include "tools/softhca/hca/receive_queue.h"

#include <algorithm>
#include <array>

#include "tools/softhca/hca/doorbell_record.h"
#include "wqe/data.h"
#include "wqe/eqe.h"
#include "wqe/send_wqe.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::ReceivePrefix;

constexpr std::size_t kMaxReceiveWqeBytes = 1024;

// Reads the WQE at `position` of `pages` into `wqe`; `next` is the link segment's index, for an SRQ.
void read_wqe(Link& link, const PageList& pages, std::uint64_t position, std::uint32_t stride_bytes,
              ReceivePrefix prefix, bool reserved_lkey, ReceiveWqe& wqe, std::uint16_t* next) {
  wqe.list.clear();
  wqe.length_bytes = 0;
  wqe.valid = false;
  std::array<std::byte, kMaxReceiveWqeBytes> storage;
  const auto bytes = std::span{storage}.first(std::min<std::size_t>(stride_bytes, storage.size()));
  if (!pages.read(link.services.dma(), position, bytes)) {
    return;
  }
  if (next != nullptr && bytes.size() >= umlx5::wqe::SrqNextSegment::kBytes) {
    *next = umlx5::wqe::load<umlx5::wqe::SrqNextSegment>(bytes.data()).next_wqe_index;
  }
  const auto parsed = umlx5::wqe::parse_receive_wqe(bytes, prefix);
  if (!parsed) {
    return;
  }
  wqe.valid = true;
  for (const umlx5::wqe::DataItem& item : *parsed) {
    // A count of 0 is an empty entry here: programs post them on shared receive queues.
    if (item.length_bytes != umlx5::wqe::kMaxDataSegmentBytes) {
      wqe.list.push_back(
          {item.address, item.lkey, item.length_bytes, false, reserved_lkey && item.lkey == kReservedLkey});
      wqe.length_bytes += item.length_bytes;
    }
  }
}

// WQEs posted and not handed out.
std::uint16_t waiting(Link& link, const Srq& srq) {
  const auto producer = load_counter(link.services.dma(), srq.doorbell_record);
  const auto count = producer ? static_cast<std::uint16_t>(*producer - srq.consumed) : std::uint16_t{0};
  return count <= (1u << srq.log_entries) ? count : std::uint16_t{0};
}

}  // namespace

bool take_shared(Link& link, Srq& srq, ReceiveWqe& wqe) {
  const std::uint16_t count = waiting(link, srq);
  if (count == 0) {
    return false;
  }
  wqe.wqe_counter = srq.head;
  wqe.pdn = srq.pdn;
  std::uint16_t next = static_cast<std::uint16_t>(srq.head + 1);
  read_wqe(link, srq.pages, std::uint64_t{srq.head} * srq.wqe_bytes, srq.wqe_bytes, ReceivePrefix::kSrqNext,
           srq.reserved_lkey, wqe, &next);
  srq.head = static_cast<std::uint16_t>(next & ((1u << srq.log_entries) - 1));
  ++srq.consumed;
  if (srq.limit != 0 && count - 1 < srq.limit) {
    srq.limit = 0;
    link.services.async_event(static_cast<std::uint8_t>(umlx5::wqe::EventType::kSrqLimit), srq.srqn, 0);
  }
  return true;
}

bool ReceiveQueue::ring_has_next(Link& link, const Qp& qp) {
  if (!qp.has_rq || qp.srq != nullptr) {
    return false;
  }
  if (consumer_ == producer_) {
    const auto producer = load_counter(link.services.dma(), qp.doorbell_record + kReceiveCounterOffset);
    if (producer && static_cast<std::uint16_t>(*producer - consumer_) <= (1u << qp.log_rq_entries)) {
      producer_ = *producer;
    }
  }
  return consumer_ != producer_;
}

bool ReceiveQueue::available(Link& link, const Qp& qp) {
  return qp.srq != nullptr ? waiting(link, *qp.srq) != 0 : ring_has_next(link, qp);
}

bool ReceiveQueue::take(Link& link, Qp& qp, ReceiveWqe& wqe) {
  if (qp.srq != nullptr) {
    return take_shared(link, *qp.srq, wqe);
  }
  if (!ring_has_next(link, qp)) {
    return false;
  }
  wqe.wqe_counter = consumer_;
  wqe.pdn = qp.pdn;
  const std::uint32_t slot = consumer_ & ((1u << qp.log_rq_entries) - 1);
  read_wqe(link, qp.pages, std::uint64_t{slot} * qp.rq_wqe_bytes, qp.rq_wqe_bytes, ReceivePrefix::kNone,
           qp.reserved_lkey, wqe, nullptr);
  qp.rq_consumed = ++consumer_;
  return true;
}

std::optional<std::uint16_t> ReceiveQueue::take_for_flush(Link& link, Qp& qp) {
  if (!ring_has_next(link, qp)) {
    return std::nullopt;
  }
  qp.rq_consumed = static_cast<std::uint16_t>(consumer_ + 1);
  return consumer_++;
}

}  // namespace softhca::hca
