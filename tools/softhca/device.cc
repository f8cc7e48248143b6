#include "tools/softhca/device.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "tools/softhca/clock_page.h"
#include "tools/softhca/doorbell_watch.h"
#include "tools/softhca/hca/hca.h"
#include "tools/softhca/hca/process_memory.h"
#include "tools/softhca/kernel/log.h"

namespace softhca {
namespace {

constexpr std::uint64_t kSpinNs = 5'000;    // an answer that is on its way
constexpr std::uint64_t kLentNs = 100'000;  // a program that called relax() does so again
// After work the thread naps, so that the next doorbell is found soon, and only then has the UAR pages protected: a
// doorbell in a protected page costs its writer a page fault and, on the thread's own processor, two changes of
// threads.
constexpr std::uint64_t kNapNs = 20'000;
constexpr std::uint64_t kNapAfterWorkNs = 2'000'000;
constexpr std::uint64_t kUnwatchedNapNs = 1'000'000;  // without userfaultfd
constexpr std::uint64_t kLongNapNs = 3'600'000'000'000;
constexpr std::uint64_t kSliceNs = 100'000;
constexpr int kNice = -10;

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// A thread that runs seldom and briefly should get the CPU at once: ask for a short slice, and for priority if allowed.
void ask_for_quick_wakeup() {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{.size = 48,
               .policy = SCHED_OTHER,
               .flags = 0,
               .nice = kNice,
               .priority = 0,
               .runtime = kSliceNs,
               .deadline = 0,
               .period = 0};
  if (::syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) {
    attributes.nice = 0;
    ::syscall(SYS_sched_setattr, 0, &attributes, 0);
  }
  ::prctl(PR_SET_TIMERSLACK, 1);
}

// The HCA behind the interface that the kernel's part knows.
class HcaFirmware final : public kernel::Firmware {
 public:
  // `gate`: see SoftDevice::State.
  HcaFirmware(hca::Hca& hca, std::recursive_mutex& gate, int wake_fd, ClockPage& clock, DoorbellWatch& watch)
      : hca_(hca), gate_(gate), wake_fd_(wake_fd), clock_(clock), watch_(watch) {}
  void execute(std::span<const std::byte> in, std::span<std::byte> out) override {
    {
      const std::lock_guard lock(gate_);
      hca_.execute(in, out);
    }
    // A command may leave work behind: packets to send, a deadline that is nearer than the one slept for.
    wake();
  }
  std::expected<std::byte*, int> map_uar(std::uint32_t index, int protection) override {
    const auto page = hca_.map_uar(index, protection);
    if (page && watch_.add({*page, hca::kUarBytes})) {
      wake();  // to sleep again with this page watched too
    }
    return page;
  }
  std::expected<std::byte*, int> map_memic(std::uint64_t address, std::size_t bytes, int protection) override {
    return hca_.map_memic(address, bytes, protection);
  }
  std::expected<std::byte*, int> map_clock() override { return clock_.map(); }
  void ring(std::uint32_t uar_index, std::uint32_t offset_bytes, std::uint64_t value) override {
    const std::lock_guard lock(gate_);
    hca_.ring(uar_index, offset_bytes, value);
  }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
  }

  hca::Hca& hca_;
  std::recursive_mutex& gate_;
  int wake_fd_;
  ClockPage& clock_;
  DoorbellWatch& watch_;
};

}  // namespace

umlx5::Expected<DeviceOptions> device_options_from_environment() {
  DeviceOptions options;
  if (const char* const text = std::getenv("UMLX5_SOFT_ADDR"); text != nullptr && *text != '\0') {
    std::array<unsigned, 4> part{};
    char rest = 0;
    if (std::sscanf(text, "%3u.%3u.%3u.%3u%c", &part[0], &part[1], &part[2], &part[3], &rest) != 4 ||
        std::ranges::any_of(part, [](unsigned p) { return p > 255; })) {
      return umlx5::fail(EINVAL, fmt::format("UMLX5_SOFT_ADDR: '{}' is not an IPv4 address", text));
    }
    options.endpoint.address = wire::Ipv4{part[0] << 24 | part[1] << 16 | part[2] << 8 | part[3]};
  }
  if (const char* const text = std::getenv("UMLX5_SOFT_PCAP"); text != nullptr) {
    options.endpoint.pcap_path = text;
  }
  if (const char* const text = std::getenv("UMLX5_SOFT_FAULTS"); text != nullptr) {
    options.endpoint.faults = text;
  }
  if (const char* const text = std::getenv("UMLX5_SOFT_CAPS"); text != nullptr) {
    hca::Profile profile;
    if (auto restricted = hca::restrict_profile(text, profile); !restricted) {
      restricted.error().what = "UMLX5_SOFT_CAPS: " + restricted.error().what;
      return std::unexpected(restricted.error());
    }
    options.restrictions = text;
  }
  return options;
}

struct SoftDevice::State {
  std::unique_ptr<wire::Endpoint> endpoint;
  hca::ProcessMemory memory;
  int wake_fd = -1;
  ClockPage clock;  // the thread's
  // Held by other threads than the device's own inside the HCA, and by that one while it asks the HCA something with
  // the UAR pages protected: a thread that waits for a protected page with the HCA's lock held would otherwise wait for
  // the only thread that can help it. Recursive, because raised events ring doorbells.
  std::recursive_mutex gate;
  std::unique_ptr<hca::Hca> hca;
  std::unique_ptr<HcaFirmware> firmware;
  std::unique_ptr<kernel::RdmaDevice> rdma;
  std::atomic<kernel::RdmaDevice*> events_to = nullptr;  // once it is up
  DoorbellWatch watch;
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> last_relax_ns = 0;
  std::thread thread;

  ~State();
  void run();
  enum class Sleep : std::uint8_t { kLent, kNap, kLong };
  bool sleep(Sleep kind);
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd, &one, sizeof one);
  }
};

SoftDevice::State::~State() {
  if (thread.joinable()) {
    if (rdma != nullptr && !rdma->is_own_process()) {
      thread.detach();  // it exists in the parent only
    } else {
      stop = true;
      wake();
      thread.join();
    }
  }
  events_to = nullptr;
  if (rdma != nullptr && !rdma->is_own_process()) {
    // Nothing here may talk to the device; the process's end takes the memory.
    static_cast<void>(rdma.release());
    static_cast<void>(firmware.release());
    static_cast<void>(hca.release());
    static_cast<void>(endpoint.release());
    return;
  }
  rdma.reset();
  firmware.reset();
  hca.reset();
  if (wake_fd >= 0) {
    ::close(wake_fd);
  }
}

void SoftDevice::State::run() {
  ask_for_quick_wakeup();
  std::uint64_t idle_since = now_ns();
  while (!stop.load(std::memory_order_relaxed)) {
    const std::uint64_t now = now_ns();
    if (now - last_relax_ns.load(std::memory_order_relaxed) < kLentNs) {
      sleep(Sleep::kLent);
      continue;
    }
    clock.tick(now);
    clock.serve(now);
    bool worked = hca->poll(now);
    if (rdma->events().has_waiting()) {
      rdma->events().flush();
    }
    // No yield between spinning and sleeping: the scheduler makes a thread that yields to a polling program wait for
    // that program's whole slice, while one that sleeps is run as soon as it is woken.
    const std::uint64_t idle_ns = now - idle_since;
    if (!worked && idle_ns >= kSpinNs) {
      worked = sleep(idle_ns < kNapAfterWorkNs ? Sleep::kNap : Sleep::kLong);
    }
    if (worked) {
      idle_since = now_ns();
    }
  }
}

// True if something woke the thread that may come again soon.
bool SoftDevice::State::sleep(Sleep kind) {
  const bool watches = kind == Sleep::kLong && watch.available();
  std::unique_lock asking(gate);
  if (watches) {
    watch.arm();
    if (hca->doorbell_waits() || stop.load()) {
      watch.disarm();
      return true;
    }
  }
  std::uint64_t wait_ns = kind == Sleep::kLent  ? kLentNs
                          : kind == Sleep::kNap ? kNapNs
                          : watches             ? kLongNapNs
                                                : kUnwatchedNapNs;
  if (rdma->events().has_waiting()) {
    wait_ns = std::min(wait_ns, kUnwatchedNapNs);
  }
  if (const auto deadline = hca->next_deadline_ns(); deadline && kind != Sleep::kLent) {
    const std::uint64_t now = now_ns();
    wait_ns = std::min(wait_ns, *deadline > now ? *deadline - now : 0);
  }
  asking.unlock();
  clock.rest();
  // While a program lends its time, packets are its business.
  const bool hears = kind != Sleep::kLent;
  std::array<pollfd, 5> fds{pollfd{wake_fd, POLLIN, 0}, pollfd{hears ? endpoint->fd() : -1, POLLIN, 0},
                            pollfd{watches ? watch.fd() : -1, POLLIN, 0}, pollfd{clock.fd(), POLLIN, 0},
                            pollfd{hears ? endpoint->groups_fd() : -1, POLLIN, 0}};
  const timespec timeout{.tv_sec = static_cast<time_t>(wait_ns / 1'000'000'000),
                         .tv_nsec = static_cast<long>(wait_ns % 1'000'000'000)};
  const bool woken = ::ppoll(fds.data(), fds.size(), &timeout, nullptr) > 0;
  if (watches) {
    watch.disarm();
  }
  if ((fds[3].revents & POLLIN) != 0) {
    clock.serve(now_ns());
  }
  std::uint64_t count = 0;
  if ((fds[0].revents & POLLIN) != 0) {
    [[maybe_unused]] const auto got = ::read(wake_fd, &count, sizeof count);
  }
  return woken;
}

umlx5::Expected<std::unique_ptr<SoftDevice>> SoftDevice::open(const DeviceOptions& options) {
  auto endpoint = wire::Endpoint::open(options.endpoint);
  if (!endpoint) {
    return std::unexpected(endpoint.error());
  }
  auto state = std::make_unique<State>();
  state->endpoint = std::move(*endpoint);
  state->wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (state->wake_fd < 0) {
    return umlx5::fail(errno, "soft device: no event descriptor");
  }
  hca::Profile profile;
  if (auto restricted = hca::restrict_profile(options.restrictions, profile); !restricted) {
    return std::unexpected(restricted.error());
  }
  // Locally administered, from the address: 0200:00ff:fe00:0000 and the address's four bytes.
  profile.node_guid = 0x020000ff00000000 | state->endpoint->address().value;
  State* const raw = state.get();
  state->hca = std::make_unique<hca::Hca>(profile, state->memory, *state->endpoint, [raw](std::uint32_t) {
    if (auto* const device = raw->events_to.load(); device != nullptr) {
      device->events().raised();
    }
  });
  state->firmware = std::make_unique<HcaFirmware>(*state->hca, state->gate, state->wake_fd, state->clock, state->watch);
  const kernel::Identity identity{.name = options.name,
                                  .vendor_id = profile.vendor_id,
                                  .device_id = profile.device_id,
                                  .board_id = profile.board_id,
                                  .firmware = profile.firmware,
                                  .node_guid = profile.node_guid,
                                  .ipv4_address = state->endpoint->address().value};
  auto rdma = kernel::RdmaDevice::start(*state->firmware, identity);
  if (!rdma) {
    return std::unexpected(rdma.error());
  }
  state->rdma = std::move(*rdma);
  state->events_to = state->rdma.get();
  if (!state->watch.available()) {
    kernel::log(kernel::LogLevel::kInfo,
                "no userfaultfd here: an idle device looks for doorbells once in a millisecond");
  }
  state->thread = std::thread([raw] { raw->run(); });
  return std::unique_ptr<SoftDevice>(new SoftDevice(std::move(state)));
}

SoftDevice::SoftDevice(std::unique_ptr<State> state) : state_(std::move(state)) {}

SoftDevice::~SoftDevice() = default;

kernel::RdmaDevice& SoftDevice::rdma() { return *state_->rdma; }

wire::Ipv4 SoftDevice::address() const { return state_->endpoint->address(); }

void SoftDevice::relax() noexcept {
  if (!state_->rdma->is_own_process()) {
    return;
  }
  state_->last_relax_ns.store(now_ns(), std::memory_order_relaxed);
  std::unique_lock lock(state_->gate);
  const bool worked = state_->hca->poll();
  lock.unlock();
  if (!worked) {
    ::sched_yield();
  }
}

}  // namespace softhca
