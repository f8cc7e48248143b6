#include "tools/softhca/hca/receive_queue.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tools/softhca/hca/doorbell_record.h"
#include "tools/softhca/wire/chance.h"
#include "wqe/data.h"
#include "wqe/eqe.h"
#include "wqe/send_wqe.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::ReceivePrefix;

constexpr std::size_t kMaxReceiveWqeBytes = 1024;
constexpr unsigned kMaxReach = 8;

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

}  // namespace

std::uint16_t waiting_on(Link& link, const Srq& srq) {
  const auto producer = load_counter(link.services.dma(), srq.doorbell_record);
  const auto count = producer ? static_cast<std::uint16_t>(*producer - srq.consumed) : std::uint16_t{0};
  return count <= (1u << srq.log_entries) ? count : std::uint16_t{0};
}

bool take_shared(Link& link, Srq& srq, ReceiveWqe& wqe) {
  const std::uint16_t count = waiting_on(link, srq);
  if (count == 0) {
    return false;
  }
  wqe.wqe_counter = srq.head;
  wqe.pdn = srq.pdn;
  std::uint16_t next = static_cast<std::uint16_t>(srq.head + 1);
  read_wqe(link, srq.pages, std::uint64_t{srq.head} * srq.wqe_bytes, srq.wqe_bytes, ReceivePrefix::kSrqNext,
           srq.reserved_lkey, wqe, srq.cyclic ? nullptr : &next);
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
    read_producer(link, qp);
  }
  return consumer_ != producer_;
}

void ReceiveQueue::read_producer(Link& link, const Qp& qp) {
  const auto producer = load_counter(link.services.dma(), qp.doorbell_record + kReceiveCounterOffset);
  if (producer && static_cast<std::uint16_t>(*producer - consumer_) <= (1u << qp.log_rq_entries)) {
    producer_ = *producer;
  }
}

// Rings of 4 and less are the least there are, and may be all outstanding.
unsigned ReceiveQueue::reach(const Qp& qp) {
  return !qp.out_of_order || qp.log_rq_entries < 3 ? 0 : std::min(kMaxReach, (1u << qp.log_rq_entries) / 4);
}

unsigned ReceiveQueue::waiting(Link& link, const Qp& qp) {
  if (qp.srq != nullptr) {
    return waiting_on(link, *qp.srq);
  }
  if (!qp.has_rq) {
    return 0;
  }
  read_producer(link, qp);
  return static_cast<std::uint16_t>(producer_ - consumer_) - static_cast<unsigned>(std::popcount(taken_ahead_));
}

// How far from consumer_ the WQE to take is.
unsigned ReceiveQueue::choose(Link& link, const Qp& qp) const {
  const unsigned window = std::min<unsigned>(reach(qp), static_cast<std::uint16_t>(producer_ - consumer_));
  if (window <= 1) {
    return 0;
  }
  const unsigned taken = taken_ahead_ & ((1u << window) - 1);
  unsigned skip = static_cast<unsigned>(wire::draw(link.port.seed(), choices_, qp.qpn) %
                                        (window - static_cast<unsigned>(std::popcount(taken))));
  unsigned ahead = 0;
  while ((taken >> ahead & 1) != 0 || skip-- != 0) {
    ++ahead;
  }
  return ahead;
}

void ReceiveQueue::mark_taken(Qp& qp, unsigned ahead) {
  ++choices_;
  taken_ahead_ = static_cast<std::uint16_t>(taken_ahead_ | 1u << ahead);
  for (; (taken_ahead_ & 1) != 0; taken_ahead_ >>= 1) {
    ++consumer_;
  }
  qp.rq_consumed = consumer_;
}

bool ReceiveQueue::available(Link& link, const Qp& qp) {
  return qp.srq != nullptr ? waiting_on(link, *qp.srq) != 0 : ring_has_next(link, qp);
}

bool ReceiveQueue::take(Link& link, Qp& qp, ReceiveWqe& wqe) {
  if (qp.srq != nullptr) {
    return take_shared(link, *qp.srq, wqe);
  }
  if (!ring_has_next(link, qp)) {
    return false;
  }
  if (qp.out_of_order) {
    read_producer(link, qp);
  }
  const unsigned ahead = choose(link, qp);
  read(link, qp, static_cast<std::uint16_t>(consumer_ + ahead), wqe);
  mark_taken(qp, ahead);
  return true;
}

void ReceiveQueue::read(Link& link, const Qp& qp, std::uint16_t wqe_counter, ReceiveWqe& wqe) const {
  wqe.wqe_counter = wqe_counter;
  wqe.pdn = qp.pdn;
  const std::uint32_t slot = wqe_counter & ((1u << qp.log_rq_entries) - 1);
  read_wqe(link, qp.pages, std::uint64_t{slot} * qp.rq_wqe_bytes, qp.rq_wqe_bytes,
           qp.striding.stride_bytes != 0 ? ReceivePrefix::kSrqNext : ReceivePrefix::kNone, qp.reserved_lkey, wqe,
           nullptr);
}

std::uint32_t ReceiveQueue::packets_waiting(Link& link, const Qp& qp, std::uint32_t most) {
  read_producer(link, qp);
  const std::uint64_t mtu = mtu_bytes(qp);
  ReceiveWqe wqe;
  std::uint64_t packets = 0;
  for (std::uint16_t counter = consumer_; counter != producer_ && packets < most; ++counter) {
    const unsigned ahead = static_cast<std::uint16_t>(counter - consumer_);
    if (ahead < 16 && (taken_ahead_ >> ahead & 1) != 0) {
      continue;
    }
    read(link, qp, counter, wqe);
    packets += std::max<std::uint64_t>(1, (wqe.length_bytes + mtu - 1) / mtu);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(packets, most));
}

std::optional<std::uint16_t> ReceiveQueue::take_for_flush(Link& link, Qp& qp) {
  if (!ring_has_next(link, qp)) {
    return std::nullopt;
  }
  const std::uint16_t wqe_counter = consumer_;
  mark_taken(qp, 0);
  return wqe_counter;
}

}  // namespace softhca::hca
