#include "tools/softhca/kernel/event_hub.h"

#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tools/softhca/kernel/log.h"
#include "tools/softhca/kernel/user_memory.h"
#include "wqe/prm/eq.h"

namespace softhca::kernel {
namespace {

namespace prm = umlx5::wqe::prm;
using umlx5::wqe::Eqe;
using umlx5::wqe::EventType;
using umlx5::wqe::PortChange;

constexpr std::uint8_t kLogEntries = 10;
constexpr std::uint32_t kEntries = 1u << kLogEntries;
constexpr std::size_t kEntryBytes = 64;
constexpr std::size_t kQueueBytes = kEntries * kEntryBytes;
constexpr std::uint32_t kArmOffset = 0x40;  // EQ doorbell in a UAR page: EQN and consumer counter

// Numbers of enum ib_event_type, which the ABI passes to programs.
enum VerbsEvent : std::uint32_t {
  kCqErr,
  kQpFatal,
  kQpRequestErr,
  kQpAccessErr,
  kCommEstablished,
  kSqDrained,
  kPathMigrated,
  kPathMigrationErr,
  kDeviceFatal,
  kPortActive,
  kPortErr,
  kLidChange,
  kPkeyChange,
  kSmChange,
  kSrqErr,
  kSrqLimitReached,
  kQpLastWqeReached,
};

// Events that carry the number of a queue.
struct QueueEventMeaning {
  EventType type;
  EventSource source;
  VerbsEvent event;
};
constexpr QueueEventMeaning kQueueEvents[] = {
    {EventType::kPathMigrated, EventSource::kQp, kPathMigrated},
    {EventType::kCommunicationEstablished, EventSource::kQp, kCommEstablished},
    {EventType::kSendQueueDrained, EventSource::kQp, kSqDrained},
    {EventType::kWorkQueueCatastrophic, EventSource::kQp, kQpFatal},
    {EventType::kPathMigrationFailed, EventSource::kQp, kPathMigrationErr},
    {EventType::kWorkQueueInvalidRequest, EventSource::kQp, kQpRequestErr},
    {EventType::kWorkQueueAccessError, EventSource::kQp, kQpAccessErr},
    {EventType::kSrqLastWqe, EventSource::kQp, kQpLastWqeReached},
    {EventType::kSrqCatastrophic, EventSource::kSrq, kSrqErr},
    {EventType::kSrqLimit, EventSource::kSrq, kSrqLimitReached},
};

constexpr std::uint64_t bit(EventType type) { return std::uint64_t{1} << static_cast<unsigned>(type); }

constexpr std::uint64_t async_events() {
  std::uint64_t mask = bit(EventType::kCqError) | bit(EventType::kPortChange);
  for (const QueueEventMeaning& meaning : kQueueEvents) {
    mask |= bit(meaning.type);
  }
  return mask;
}

std::array<std::byte, 16> async_record(std::uint64_t element, std::uint32_t event) {
  const ib_uverbs_async_event_desc description{.element = element, .event_type = event, .reserved = 0};
  std::array<std::byte, 16> record{};
  static_assert(sizeof description == record.size());
  std::memcpy(record.data(), &description, sizeof description);
  return record;
}

}  // namespace

std::expected<std::unique_ptr<EventHub>, int> EventHub::start(Firmware& firmware, std::uint32_t completion_vectors) {
  std::unique_ptr<EventHub> hub(new EventHub(firmware));
  const auto uar = allocate(firmware, prm::Opcode::kAllocUar, 0);
  if (!uar) {
    return std::unexpected(uar.error());
  }
  hub->uar_ = *uar;
  for (std::uint32_t vector = 0; vector <= completion_vectors; ++vector) {
    if (const int error = hub->create_queue(vector, vector == 0 ? async_events() : 0); error != 0) {
      return std::unexpected(error);
    }
  }
  return hub;
}

EventHub::~EventHub() {
  for (const auto& queue : queues_) {
    command_on_object(firmware_, prm::Opcode::kDestroyEq, 0, queue->eqn);
    ::munmap(queue->entries, kQueueBytes);
  }
  command_on_object(firmware_, prm::Opcode::kDeallocUar, 0, uar_);
}

int EventHub::create_queue(std::uint32_t vector, std::uint64_t event_mask) {
  void* const memory = ::mmap(nullptr, kQueueBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return ENOMEM;
  }
  auto queue = std::make_unique<Queue>();
  queue->entries = static_cast<std::byte*>(memory);
  for (std::uint32_t i = 0; i < kEntries; ++i) {
    queue->entries[i * kEntryBytes + umlx5::wqe::kEqeOwnerOffset] = std::byte{umlx5::wqe::kEqeOwnerInitial};
  }
  const PageRun pages = queue_pages(reinterpret_cast<std::uint64_t>(memory), kQueueBytes);
  prm::CreateEqIn in{.header = {.opcode = prm::Opcode::kCreateEq}, .event_bitmask = event_mask};
  in.eqc.log_eq_size = kLogEntries;
  in.eqc.uar_page = uar_;
  in.eqc.intr = static_cast<std::uint16_t>(vector);
  in.eqc.log_page_size = static_cast<std::uint8_t>(pages.log_page_bytes - 12);
  in.eqc.page_offset = static_cast<std::uint8_t>(pages.offset_bytes >> (pages.log_page_bytes - 6));
  const auto out = command<prm::ObjectOut>(firmware_, in, pages.addresses);
  if (!out) {
    ::munmap(memory, kQueueBytes);
    return out.error();
  }
  queue->eqn = out->number & 0xff;
  arm(*queue);
  queues_.push_back(std::move(queue));
  return 0;
}

void EventHub::arm(const Queue& queue) {
  const std::uint32_t word = queue.eqn << 24 | (queue.consumer & 0xffffff);
  firmware_.ring(uar_, kArmOffset, static_cast<std::uint64_t>(word) << 32);
}

void EventHub::raised() {
  raised_.fetch_add(1);
  // One thread at a time drains; whoever comes meanwhile leaves its mark in raised_ and goes, also this very thread
  // when arming raises the next interrupt.
  while (raised_.load() != 0) {
    if (busy_.exchange(true)) {
      return;
    }
    raised_.store(0);
    for (const auto& queue : queues_) {
      drain(*queue);
    }
    busy_.store(false);
  }
}

void EventHub::drain(Queue& queue) {
  bool any = false;
  for (std::uint32_t n = 0; n < kEntries; ++n) {
    std::byte* const entry = queue.entries + (queue.consumer & (kEntries - 1)) * kEntryBytes;
    const std::byte owner = std::atomic_ref(entry[umlx5::wqe::kEqeOwnerOffset]).load(std::memory_order_acquire);
    if (!umlx5::wqe::eqe_is_ready(std::to_integer<std::uint8_t>(owner), queue.consumer, kLogEntries)) {
      break;
    }
    const auto eqe = umlx5::wqe::load<Eqe>(entry);
    deliver_subscribed(eqe, {entry, kEntryBytes});
    deliver(eqe);
    ++queue.consumer;
    any = true;
  }
  if (any) {
    arm(queue);
  }
}

void EventHub::deliver(const Eqe& eqe) {
  switch (eqe.type) {
    case EventType::kCompletion:
      return deliver_completion(eqe.event<umlx5::wqe::CompletionEvent>().cqn);
    case EventType::kCqError:
      return deliver_async(EventSource::kCq, eqe.event<umlx5::wqe::CqErrorEvent>().cqn, kCqErr);
    case EventType::kPortChange: {
      const auto change = static_cast<PortChange>(eqe.subtype);
      if (change == PortChange::kActive || change == PortChange::kDown) {
        deliver_port(eqe.event<umlx5::wqe::PortEvent>().port, change == PortChange::kActive ? kPortActive : kPortErr);
      }
      return;
    }
    default:
      break;
  }
  for (const QueueEventMeaning& meaning : kQueueEvents) {
    if (meaning.type == eqe.type) {
      return deliver_async(meaning.source, eqe.event<umlx5::wqe::QueueEvent>().number, meaning.event);
    }
  }
  log(LogLevel::kInfo, fmt::format("event {} ({:#x}) has no listener", umlx5::wqe::to_string(eqe.type),
                                   static_cast<unsigned>(eqe.type)));
}

std::optional<EventSource> source_of(EventType type) {
  if (type == EventType::kCompletion || type == EventType::kCqError) {
    return EventSource::kCq;
  }
  const auto* const meaning = std::ranges::find(kQueueEvents, type, &QueueEventMeaning::type);
  return meaning == std::end(kQueueEvents) ? std::nullopt : std::optional(meaning->source);
}

// The number of the object that the event is of.
std::optional<std::uint32_t> number_in(const Eqe& eqe) {
  const auto source = source_of(eqe.type);
  if (!source) {
    return std::nullopt;
  }
  return eqe.type == EventType::kCompletion ? eqe.event<umlx5::wqe::CompletionEvent>().cqn
         : *source == EventSource::kCq      ? eqe.event<umlx5::wqe::CqErrorEvent>().cqn
                                            : eqe.event<umlx5::wqe::QueueEvent>().number;
}

void EventHub::deliver_subscribed(const Eqe& eqe, std::span<const std::byte> entry) {
  const std::lock_guard lock(mutex_);
  if (subscriptions_.empty()) {
    return;
  }
  const auto number = number_in(eqe);
  for (const DevxSubscription& each : subscriptions_) {
    if (each.type != eqe.type || each.number != number) {
      continue;
    }
    if (each.signal.get() >= 0) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(each.signal.get(), &one, sizeof one);
      continue;
    }
    std::array<std::byte, EventFile::kMostRecordBytes> record{};
    static_assert(record.size() == sizeof each.cookie + kEntryBytes);
    std::memcpy(record.data(), &each.cookie, sizeof each.cookie);
    std::memcpy(record.data() + sizeof each.cookie, entry.data(), entry.size());
    each.file->push(0, record);
    waiting_ = waiting_ || each.file->flush();
  }
}

void EventHub::subscribe(DevxSubscription subscription) {
  const std::lock_guard lock(mutex_);
  std::erase_if(subscriptions_, [](const DevxSubscription& each) { return !each.file->still_open(); });
  subscriptions_.push_back(std::move(subscription));
}

void EventHub::unsubscribe(EventSource source, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  std::erase_if(subscriptions_,
                [&](const DevxSubscription& each) { return each.number == number && source_of(each.type) == source; });
}

void EventHub::deliver_completion(std::uint32_t cqn) {
  const std::lock_guard lock(mutex_);
  const auto found = sinks_.find({EventSource::kCq, cqn});
  if (found == sinks_.end() || found->second.sink.completions == nullptr) {
    return;
  }
  Registered& cq = found->second;
  std::array<std::byte, 16> record{};
  std::memcpy(record.data(), &cq.sink.user_handle, sizeof cq.sink.user_handle);
  cq.pushed.completions += cq.sink.completions->push(cq.tag, record) ? 1 : 0;
  waiting_ = waiting_ || cq.sink.completions->flush();
}

void EventHub::deliver_async(EventSource source, std::uint32_t number, std::uint32_t event) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = sinks_.equal_range({source, number});
  for (auto found = first; found != last; ++found) {
    Registered& object = found->second;
    if (object.sink.asynchronous == nullptr) {
      continue;
    }
    EventFile& file = *object.sink.asynchronous;
    object.pushed.asynchronous += file.push(object.tag, async_record(object.sink.user_handle, event)) ? 1 : 0;
    waiting_ = waiting_ || file.flush();
  }
}

void EventHub::deliver_port(std::uint32_t port, std::uint32_t event) {
  const std::lock_guard lock(mutex_);
  for (const auto& listener : port_listeners_) {
    if (const auto file = listener.lock(); file != nullptr) {
      file->push(0, async_record(port, event));
      waiting_ = waiting_ || file->flush();
    }
  }
}

bool EventHub::flush() {
  const std::lock_guard lock(mutex_);
  bool waiting = false;
  for (auto& [key, object] : sinks_) {
    waiting |= object.sink.completions != nullptr && object.sink.completions->flush();
    waiting |= object.sink.asynchronous != nullptr && object.sink.asynchronous->flush();
  }
  for (const DevxSubscription& each : subscriptions_) {
    waiting |= each.file->flush();
  }
  for (const auto& listener : port_listeners_) {
    const auto file = listener.lock();
    waiting |= file != nullptr && file->flush();
  }
  waiting_ = waiting;
  return waiting;
}

std::uint64_t EventHub::add(EventSource source, std::uint32_t number, const EventSink& sink) {
  const std::lock_guard lock(mutex_);
  sinks_.emplace(Key{source, number}, Registered{.sink = sink, .tag = next_tag_, .pushed = {}});
  return next_tag_++;
}

EventCounts EventHub::remove(EventSource source, std::uint32_t number, std::uint64_t tag) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = sinks_.equal_range({source, number});
  const auto found = std::find_if(first, last, [&](const auto& each) { return tag == 0 || each.second.tag == tag; });
  if (found == last) {
    return {};
  }
  EventCounts counts = found->second.pushed;
  if (const auto& file = found->second.sink.completions; file != nullptr && counts.completions > 0) {
    counts.completions -= file->take_back(found->second.tag);
  }
  if (const auto& file = found->second.sink.asynchronous; file != nullptr && counts.asynchronous > 0) {
    counts.asynchronous -= file->take_back(found->second.tag);
  }
  sinks_.erase(found);
  return counts;
}

void EventHub::add_port_listener(const std::shared_ptr<EventFile>& file) {
  const std::lock_guard lock(mutex_);
  std::erase_if(port_listeners_, [](const auto& listener) { return listener.expired(); });
  port_listeners_.push_back(file);
}

}  // namespace softhca::kernel
