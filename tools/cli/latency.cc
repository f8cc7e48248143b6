#include "tools/cli/latency.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "tools/cli/pattern.h"
#include "tools/cli/waiter.h"

namespace umlx5::tools {
namespace {

using std::chrono::steady_clock;

// Whose payload it is.
constexpr std::uint32_t kFromClient = 1, kFromServer = 2;

// A message goes to slot iteration % 2: the receiver answers first and checks while the answer is under way, and the
// message after the next, which overwrites the slot, cannot come before its next answer.
constexpr std::uint32_t kSlots = 2;
// Reads take from slot iteration % 3, so that what the destination's slot held before is never what comes.
constexpr std::uint32_t kReadSlots = 3;

std::uint64_t stride_bytes(const TestOptions& options) {
  return (std::max<std::uint64_t>(options.size_bytes, 1) + 63) / 64 * 64;
}

std::uint64_t nanoseconds(steady_clock::duration time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, std::chrono::nanoseconds(time).count()));
}

// What the ways to measure have in common: the send queue and its completions.
class Runner {
 public:
  Runner(Side& side, const SideAddress& peer, Exchange& exchange, const TestOptions& options,
         const std::function<void(std::uint64_t)>& tick)
      : side_(side),
        peer_(peer),
        exchange_(exchange),
        options_(options),
        client_(options.role != Role::kServer),
        total_(options.warmup + options.iterations),
        stride_(stride_bytes(options)),
        waiter_(*side.context, exchange, options.timeout, [this, &tick] { tick(done_); }) {}

 protected:
  std::span<std::byte> local(std::uint64_t slot) const {
    return side_.memory.bytes().subspan(slot * stride_, options_.size_bytes);
  }
  Sge sge(std::uint64_t slot) const { return side_.region->sge(slot * stride_, options_.size_bytes); }

  // Takes send completions that are there.
  Look poll_sends() {
    Completion completion;
    while (side_.send_cq->poll({&completion, 1}) == 1) {
      if (completion.status != wqe::CompletionStatus::kSuccess) {
        failure_ = fail(0, describe(completion));
        return Look::kFailed;
      }
      sends_done_ = completion.wr_id + 1;
    }
    return Look::kNothing;
  }
  Look look_for_send(std::uint64_t iteration) {
    if (poll_sends() == Look::kFailed) {
      return Look::kFailed;
    }
    return sends_done_ > iteration ? Look::kDone : Look::kNothing;
  }
  Expected<void> wait_for_send(std::uint64_t iteration) {
    return waiter_.until([&] { return look_for_send(iteration); }, failure_);
  }

  void record(std::uint64_t iteration, steady_clock::duration time, unsigned ways) {
    if (iteration >= options_.warmup) {
      result_.times.record(nanoseconds(time) / ways);
    }
  }
  void count_verified(std::uint64_t iteration) {
    done_ = iteration + 1;
    result_.verified += iteration >= options_.warmup ? 1 : 0;
    if (iteration % 1024 == 0) {  // waits that end at once never look at the clock
      waiter_.tick();
    }
  }
  Expected<void> mismatch(const Mismatch& what, std::uint64_t iteration) const {
    return fail(0, describe(what, iteration, options_.size_bytes));
  }

  // Tells the other side what was verified here, and takes the lower of both counts.
  Expected<LatencyResult> finish() {
    const auto theirs = meet(exchange_, "done", result_.verified, options_.timeout);
    if (!theirs) {
      return std::unexpected(theirs.error());
    }
    result_.verified = std::min(result_.verified, *theirs);
    return std::move(result_);
  }

  Side& side_;
  const SideAddress& peer_;
  Exchange& exchange_;
  const TestOptions& options_;
  bool client_;
  std::uint64_t total_, stride_;
  std::uint64_t done_ = 0, sends_done_ = 0;
  Expected<void> failure_;
  LatencyResult result_;
  Waiter waiter_;
};

// Write and send: each side answers the other's message with one of its own.
class PingPong : public Runner {
 public:
  using Runner::Runner;

  Expected<LatencyResult> run() {
    auto ran = prepare();
    for (std::uint64_t i = 0; ran && i < total_; ++i) {
      ran = client_ ? ping(i) : pong(i);
    }
    if (ran) {
      ran = wait_for_send(total_ - 1);
    }
    return ran ? finish() : std::unexpected(std::move(ran.error()));
  }

 private:
  // Slots 0 and 1 receive, 2 and 3 send.
  static std::uint64_t receive_slot(std::uint64_t iteration) { return iteration % kSlots; }
  static std::uint64_t send_slot(std::uint64_t iteration) { return kSlots + iteration % kSlots; }
  PatternKey incoming(std::uint64_t iteration) const {
    return {options_.seed, client_ ? kFromServer : kFromClient, iteration};
  }
  PatternKey outgoing(std::uint64_t iteration) const {
    return {options_.seed, client_ ? kFromClient : kFromServer, iteration};
  }

  Expected<void> prepare() {
    fill_pattern(local(send_slot(0)), outgoing(0));
    for (std::uint64_t i = 0; i < kSlots; ++i) {
      if (auto ready = expect(i); !ready) {
        return ready;
      }
    }
    const auto ready = meet(exchange_, "ready", 0, options_.timeout);
    return ready ? Expected<void>() : std::unexpected(ready.error());
  }

  Expected<void> ping(std::uint64_t i) {
    const auto start = steady_clock::now();
    auto went = send(i);
    if (went) {
      went = await(i);
    }
    if (!went) {
      return went;
    }
    record(i, steady_clock::now() - start, 2);
    return settle(i);
  }

  Expected<void> pong(std::uint64_t i) {
    auto went = await(i);
    if (went) {
      went = send(i);
    }
    return went ? settle(i) : went;
  }

  Expected<void> send(std::uint64_t i) {
    const Sge piece = sge(send_slot(i));
    SendWr request;
    request.wr_id = i;
    request.flags = SendFlag::kSignaled;
    if (options_.send_inline) {
      request.flags = request.flags | SendFlag::kInline;
    }
    if (options_.size_bytes != 0) {
      request.sges = {&piece, 1};
    }
    if (options_.op == Op::kWrite) {
      request.opcode = uses_receives(options_) ? SendOpcode::kRdmaWriteWithImm : SendOpcode::kRdmaWrite;
      request.remote_address = peer_.memory_address + receive_slot(i) * stride_;
      request.rkey = peer_.rkey;
      request.immediate_big_endian = htonl(static_cast<std::uint32_t>(i));
    }
    return side_.post(request);
  }

  // Makes the slot ready for message `i`.
  Expected<void> expect(std::uint64_t i) {
    if (!uses_receives(options_)) {
      // Polling waits for the last byte: it must not look right before.
      const std::span<std::byte> slot = local(receive_slot(i));
      last_byte(slot).store(~pattern_byte(incoming(i), slot.size() - 1), std::memory_order_relaxed);
      return {};
    }
    const Sge piece = sge(receive_slot(i));
    RecvWr request{.wr_id = i, .sges = {}};
    if (options_.op == Op::kSend && options_.size_bytes != 0) {
      request.sges = {&piece, 1};
    }
    return side_.post(request);
  }

  static std::atomic_ref<std::byte> last_byte(std::span<std::byte> slot) { return std::atomic_ref(slot.back()); }

  Expected<void> await(std::uint64_t i) {
    if (!uses_receives(options_)) {
      const std::atomic_ref<std::byte> last = last_byte(local(receive_slot(i)));
      const std::byte want = pattern_byte(incoming(i), options_.size_bytes - 1);
      std::uint32_t misses = 0;
      return waiter_.until(
          [&] {
            if (last.load(std::memory_order_acquire) == want) {
              return Look::kDone;
            }
            return ++misses % 64 == 0 ? poll_sends() : Look::kNothing;
          },
          failure_);
    }
    const auto look = [&] { return look_for_receive(i); };
    return options_.events ? waiter_.asleep_until(*side_.recv_cq, *side_.channel, look, failure_)
                           : waiter_.until(look, failure_);
  }

  Look look_for_receive(std::uint64_t i) {
    Completion completion;
    if (side_.recv_cq->poll({&completion, 1}) == 0) {
      return poll_sends();
    }
    const bool with_immediate = options_.op == Op::kWrite;
    if (completion.status != wqe::CompletionStatus::kSuccess) {
      failure_ = fail(0, describe(completion));
    } else if (completion.wr_id != i || completion.byte_count != options_.size_bytes ||
               completion.has_immediate != with_immediate ||
               (with_immediate && completion.immediate_big_endian != htonl(static_cast<std::uint32_t>(i)))) {
      failure_ =
          fail(0, fmt::format("wrong receive completion in iteration {}: wr_id {}, {} bytes of {}, immediate {}", i,
                              completion.wr_id, completion.byte_count, options_.size_bytes,
                              completion.has_immediate ? fmt::format("{:#x}", ntohl(completion.immediate_big_endian))
                                                       : std::string("none")));
    } else {
      return Look::kDone;
    }
    return Look::kFailed;
  }

  // After the message is under way or has been timed: checks what came, and prepares the next.
  Expected<void> settle(std::uint64_t i) {
    if (auto right = verify(i); !right) {
      return right;
    }
    count_verified(i);
    if (auto ready = expect(i + kSlots); !ready) {
      return ready;
    }
    if (i + 1 == total_) {
      return {};
    }
    if (i > 0) {  // the next message's slot is that of the message before
      if (auto sent = wait_for_send(i - 1); !sent) {
        return sent;
      }
    }
    fill_pattern(local(send_slot(i + 1)), outgoing(i + 1));
    return {};
  }

  // A write's bytes may be placed in any order: with polling, the others may follow the last one.
  Expected<void> verify(std::uint64_t i) {
    const auto payload = local(receive_slot(i));
    auto wrong = check_pattern(payload, incoming(i));
    if (wrong && !uses_receives(options_)) {
      const auto deadline = steady_clock::now() + std::chrono::milliseconds(500);
      while (wrong && steady_clock::now() < deadline) {
        side_.context->relax();
        std::atomic_thread_fence(std::memory_order_acquire);
        wrong = check_pattern(payload, incoming(i));
      }
    }
    return wrong ? mismatch(*wrong, i) : Expected<void>();
  }
};

// Read and atomic: the client works on the server's memory.
class OneSided : public Runner {
 public:
  using Runner::Runner;

  Expected<LatencyResult> run() {
    auto ran = prepare();
    if (client_) {
      for (std::uint64_t i = 0; ran && i < total_; ++i) {
        ran = options_.op == Op::kRead ? read(i) : atomic(i);
      }
    } else if (ran) {
      ran = waiter_.until_message();
      if (ran) {
        ran = check_memory();
      }
    }
    return ran ? finish() : std::unexpected(std::move(ran.error()));
  }

 private:
  // One step of the atomics: even ones add, odd ones compare and swap.
  static bool adds(std::uint64_t iteration) { return iteration % 2 == 0; }
  std::uint64_t operand(std::uint64_t iteration) const {
    return pattern_word({options_.seed, kFromClient, iteration}, 0);
  }
  std::uint64_t start_value() const { return pattern_word({options_.seed, kFromServer, 0}, 0); }
  std::uint64_t after(std::uint64_t before, std::uint64_t iteration) const {
    return adds(iteration) ? before + operand(iteration) : operand(iteration);
  }
  PatternKey read_key(std::uint64_t slot) const { return {options_.seed, kFromServer, slot}; }

  Expected<void> prepare() {
    if (!client_ && options_.op == Op::kRead) {
      for (std::uint64_t slot = 0; slot < kReadSlots; ++slot) {
        fill_pattern(local(slot), read_key(slot));
      }
    } else if (!client_) {
      const std::uint64_t value = start_value();
      std::memcpy(local(0).data(), &value, sizeof value);
    }
    value_ = start_value();
    const auto ready = meet(exchange_, "ready", 0, options_.timeout);
    return ready ? Expected<void>() : std::unexpected(ready.error());
  }

  Expected<void> timed(std::uint64_t i, const SendWr& request) {
    const auto start = steady_clock::now();
    auto went = side_.post(request);
    if (went) {
      const auto look = [&] { return look_for_send(i); };
      went = options_.events ? waiter_.asleep_until(*side_.send_cq, *side_.channel, look, failure_)
                             : waiter_.until(look, failure_);
    }
    if (went) {
      record(i, steady_clock::now() - start, 1);
    }
    return went;
  }

  Expected<void> read(std::uint64_t i) {
    const std::uint64_t from = i % kReadSlots;
    const Sge into = sge(i % kSlots);
    SendWr request{.wr_id = i, .opcode = SendOpcode::kRdmaRead, .flags = SendFlag::kSignaled, .sges = {}};
    if (options_.size_bytes != 0) {
      request.sges = {&into, 1};
    }
    request.remote_address = peer_.memory_address + from * stride_;
    request.rkey = peer_.rkey;
    if (auto went = timed(i, request); !went) {
      return went;
    }
    if (const auto wrong = check_pattern(local(i % kSlots), read_key(from))) {
      return mismatch(*wrong, i);
    }
    count_verified(i);
    return {};
  }

  Expected<void> atomic(std::uint64_t i) {
    const Sge into = sge(i % kSlots);
    SendWr request{.wr_id = i, .flags = SendFlag::kSignaled, .sges = {&into, 1}};
    request.opcode = adds(i) ? SendOpcode::kFetchAdd : SendOpcode::kCompareSwap;
    request.compare_add = adds(i) ? operand(i) : value_;
    request.swap = operand(i);
    request.remote_address = peer_.memory_address;
    request.rkey = peer_.rkey;
    if (auto went = timed(i, request); !went) {
      return went;
    }
    std::uint64_t got = 0;
    std::memcpy(&got, local(i % kSlots).data(), sizeof got);
    if (got != value_) {
      return fail(0, fmt::format("payload mismatch in iteration {}: {} gave {:#018x}, want {:#018x}", i,
                                 adds(i) ? "fetch-and-add" : "compare-and-swap", got, value_));
    }
    value_ = after(value_, i);
    count_verified(i);
    return {};
  }

  // The server has seen nothing of it all: reads leave its memory as it was, atomics leave the last value.
  Expected<void> check_memory() {
    if (options_.op == Op::kRead) {
      for (std::uint64_t slot = 0; slot < kReadSlots; ++slot) {
        if (const auto wrong = check_pattern(local(slot), read_key(slot))) {
          return mismatch(*wrong, slot);
        }
      }
    } else {
      for (std::uint64_t i = 0; i < total_; ++i) {
        value_ = after(value_, i);
      }
      std::uint64_t got = 0;
      std::memcpy(&got, local(0).data(), sizeof got);
      if (got != value_) {
        return fail(0, fmt::format("payload mismatch after iteration {}: the server's word is {:#018x}, want {:#018x}",
                                   total_ - 1, got, value_));
      }
    }
    result_.verified = options_.iterations;
    return {};
  }

  std::uint64_t value_ = 0;
};

}  // namespace

bool uses_receives(const TestOptions& options) {
  return options.op == Op::kSend || (options.op == Op::kWrite && (options.events || options.size_bytes == 0));
}

bool is_one_sided(const TestOptions& options) { return options.op == Op::kRead || options.op == Op::kAtomic; }

SideNeeds latency_needs(const TestOptions& options) {
  return {.memory_bytes = 2 * kSlots * stride_bytes(options),
          .send_wr = 2 * kSlots,
          .recv_wr = 2 * kSlots,
          .send_events = options.events && is_one_sided(options),
          .recv_events = options.events && !is_one_sided(options)};
}

Expected<LatencyResult> run_latency(Side& side, const SideAddress& peer, Exchange& exchange, const TestOptions& options,
                                    const std::function<void(std::uint64_t)>& tick) {
  if (peer.memory_bytes < latency_needs(options).memory_bytes) {
    return fail(EPROTO, fmt::format("the other side offers {} bytes of memory, and {} are needed", peer.memory_bytes,
                                    latency_needs(options).memory_bytes));
  }
  return is_one_sided(options) ? OneSided(side, peer, exchange, options, tick).run()
                               : PingPong(side, peer, exchange, options, tick).run();
}

}  // namespace umlx5::tools
