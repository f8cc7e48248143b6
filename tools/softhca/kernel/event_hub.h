// From the device's event queues to the descriptors from which programs read events.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/kernel/event_file.h"
#include "tools/softhca/kernel/firmware.h"
#include "uapi/file_descriptor.h"
#include "wqe/eqe.h"

namespace softhca::kernel {

// Where the events of one object go. `user_handle` is what the program gave when it created the object.
struct EventSink {
  std::uint64_t user_handle = 0;
  std::shared_ptr<EventFile> completions;   // CQs only; may be null
  std::shared_ptr<EventFile> asynchronous;  // may be null
};

// Records that the program has read, or still may read.
struct EventCounts {
  std::uint32_t completions = 0, asynchronous = 0;
};

enum class EventSource : std::uint8_t { kCq, kQp, kSrq };

// Events that a program asked for by their numbers (DEVX): a record is the cookie and, if the file takes that much, the
// device's event queue entry.
struct DevxSubscription {
  umlx5::wqe::EventType type{};
  std::optional<std::uint32_t> number;  // of the object; none: an event that belongs to no object
  std::uint64_t cookie = 0;
  std::shared_ptr<EventFile> file;
  umlx5::uapi::FileDescriptor signal;  // an eventfd that is signalled in place of the record, if there is one
};

// Whose numbers events of a type carry; none if they belong to no object that programs make, or are not passed on.
std::optional<EventSource> source_of(umlx5::wqe::EventType type);

// Owns the event queues: one for asynchronous events (vector 0), the others for completions. Thread-safe, but raised()
// and add()/remove() are never called from within Firmware::execute().
class EventHub {
 public:
  // Creates the event queues. Errno if the device refuses.
  static std::expected<std::unique_ptr<EventHub>, int> start(Firmware& firmware, std::uint32_t completion_vectors);
  ~EventHub();

  // The device raised an interrupt. May be called by any thread, also from inside a call that the hub itself makes.
  void raised();

  // Moves records on that found no room in their descriptors' queues; true if some still wait.
  bool flush();
  bool has_waiting() const { return waiting_.load(std::memory_order_relaxed); }

  std::uint32_t eqn_of_vector(std::uint32_t completion_vector) const { return queues_[completion_vector + 1]->eqn; }
  std::uint32_t completion_vectors() const { return static_cast<std::uint32_t>(queues_.size()) - 1; }

  // A tag that tells this sink from others of the same object.
  std::uint64_t add(EventSource source, std::uint32_t number, const EventSink& sink);
  // Forgets a sink, 0: the object's only one; its unread records disappear.
  EventCounts remove(EventSource source, std::uint32_t number, std::uint64_t tag = 0);

  void subscribe(DevxSubscription subscription);
  // Forgets what was asked of an object. What goes to a file that the program has closed is dropped.
  void unsubscribe(EventSource source, std::uint32_t number);

  // Ports' events go to every file added here.
  void add_port_listener(const std::shared_ptr<EventFile>& file);

 private:
  struct Queue {
    std::uint32_t eqn = 0;
    std::uint32_t consumer = 0;
    std::byte* entries = nullptr;
  };
  struct Registered {
    EventSink sink;
    std::uint64_t tag = 0;
    EventCounts pushed;
  };
  using Key = std::pair<EventSource, std::uint32_t>;

  explicit EventHub(Firmware& firmware) : firmware_(firmware) {}
  int create_queue(std::uint32_t vector, std::uint64_t event_mask);
  void arm(const Queue& queue);
  void drain(Queue& queue);
  void deliver(const umlx5::wqe::Eqe& eqe);
  void deliver_subscribed(const umlx5::wqe::Eqe& eqe, std::span<const std::byte> entry);
  void deliver_completion(std::uint32_t cqn);
  void deliver_async(EventSource source, std::uint32_t number, std::uint32_t event);
  void deliver_port(std::uint32_t port, std::uint32_t event);

  Firmware& firmware_;
  std::uint32_t uar_ = 0;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::atomic<std::uint32_t> raised_{0};
  std::atomic<bool> busy_{false};
  std::atomic<bool> waiting_{false};
  std::mutex mutex_;  // everything below
  std::uint64_t next_tag_ = 1;
  std::multimap<Key, Registered> sinks_;
  std::vector<std::weak_ptr<EventFile>> port_listeners_;
  std::vector<DevxSubscription> subscriptions_;
};

}  // namespace softhca::kernel
