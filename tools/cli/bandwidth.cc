#include "tools/cli/bandwidth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "tools/cli/pattern.h"
#include "tools/cli/waiter.h"

namespace umlx5::tools {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kBatch = 16;  // requests of one post, completions of one poll

std::uint64_t stride_bytes(const TestOptions& options) { return (std::uint64_t{options.size_bytes} + 63) / 64 * 64; }

// Receives are posted well ahead of the sender, who has `depth` messages under way at most.
std::uint32_t receives(const TestOptions& options) { return std::max(4 * options.depth, 256u); }

class Stream {
 public:
  Stream(Side& side, const SideAddress& peer, Exchange& exchange, const TestOptions& options,
         const std::function<void(std::uint64_t)>& tick)
      : side_(side),
        peer_(peer),
        exchange_(exchange),
        options_(options),
        total_(options.warmup + options.iterations),
        stride_(stride_bytes(options)),
        waiter_(*side.context, exchange, options.timeout, [this, &tick] { tick(done_); }) {}

  Expected<BandwidthResult> client() {
    for (std::uint32_t slot = 0; slot < options_.depth; ++slot) {
      fill_pattern(local(slot), key(slot));
    }
    auto ran = ready();
    if (ran) {
      ran = send_until(options_.warmup);
    }
    const auto start = steady_clock::now();
    if (ran) {
      ran = send_until(total_);
    }
    result_.time = steady_clock::now() - start;
    return ran ? finish() : std::unexpected(std::move(ran.error()));
  }

  Expected<BandwidthResult> server() {
    auto ran = options_.op == Op::kSend ? post_receives(receives(options_)) : Expected<void>();
    if (ran) {
      ran = ready();
    }
    if (ran) {
      ran = options_.op == Op::kSend ? receive_all() : waiter_.until_message();
    }
    if (ran) {
      ran = check_memory();
    }
    return ran ? finish() : std::unexpected(std::move(ran.error()));
  }

 private:
  // Message i goes from slot i % depth to the same slot there, always with the slot's own payload.
  std::uint64_t slot_of(std::uint64_t iteration) const { return iteration % options_.depth; }
  PatternKey key(std::uint64_t slot) const { return {options_.seed, 1, slot}; }
  std::span<std::byte> local(std::uint64_t slot) const {
    return side_.memory.bytes().subspan(slot * stride_, options_.size_bytes);
  }
  Sge sge(std::uint64_t slot) const { return side_.region->sge(slot * stride_, options_.size_bytes); }

  Expected<void> ready() {
    const auto met = meet(exchange_, "ready", 0, options_.timeout);
    return met ? Expected<void>() : std::unexpected(met.error());
  }
  Expected<BandwidthResult> finish() {
    const auto theirs = meet(exchange_, "done", result_.verified_buffers, options_.timeout);
    if (!theirs) {
      return std::unexpected(theirs.error());
    }
    result_.verified_buffers = std::max(result_.verified_buffers, *theirs);  // only the server has any
    result_.buffers = std::min<std::uint64_t>(options_.depth, total_);
    return result_;
  }

  // Sends messages up to number `end`, and waits for the last one.
  Expected<void> send_until(std::uint64_t end) {
    while (done_ < end) {
      if (auto posted = post_some(end); !posted) {
        return posted;
      }
      if (auto came = waiter_.until([&] { return poll(*side_.send_cq); }, failure_); !came) {
        return came;
      }
    }
    return {};
  }

  Expected<void> post_some(std::uint64_t end) {
    std::array<SendWr, kBatch> requests;
    std::array<Sge, kBatch> pieces;
    while (posted_ < end && posted_ - done_ < options_.depth) {
      const auto count = std::min<std::uint64_t>({kBatch, end - posted_, options_.depth - (posted_ - done_)});
      for (std::size_t i = 0; i < count; ++i) {
        describe_message(posted_ + i, end, requests[i], pieces[i]);
      }
      const PostResult result = side_.qp->post_send(std::span(requests).first(count));
      if (!result) {
        return fail(result.error,
                    "the send queue refused a request: " + side_.qp->explain_refusal(requests[result.posted]));
      }
      posted_ += count;
    }
    return {};
  }

  void describe_message(std::uint64_t iteration, std::uint64_t end, SendWr& request, Sge& piece) const {
    piece = sge(slot_of(iteration));
    request = {};
    request.wr_id = iteration;
    request.opcode = options_.op == Op::kWrite ? SendOpcode::kRdmaWrite : SendOpcode::kSend;
    request.sges = {&piece, 1};
    request.remote_address = peer_.memory_address + slot_of(iteration) * stride_;
    request.rkey = peer_.rkey;
    const std::uint32_t every = std::max(options_.depth / 4, 1u);
    if ((iteration + 1) % every == 0 || iteration + 1 == end) {
      request.flags = SendFlag::kSignaled;
    }
    if (options_.send_inline) {
      request.flags = request.flags | SendFlag::kInline;
    }
  }

  // Takes what is there; a completion covers all messages up to its own.
  Look poll(Cq& cq) {
    std::array<Completion, kBatch> completions;
    const std::size_t count = cq.poll(completions);
    for (const Completion& completion : std::span(completions).first(count)) {
      if (completion.status != wqe::CompletionStatus::kSuccess) {
        failure_ = fail(0, describe(completion));
        return Look::kFailed;
      }
      if (completion.opcode == CompletionOpcode::kRecv && completion.byte_count != options_.size_bytes) {
        failure_ = fail(0, fmt::format("message {} has {} bytes, and {} were sent", completion.wr_id,
                                       completion.byte_count, options_.size_bytes));
        return Look::kFailed;
      }
      done_ = completion.wr_id + 1;
    }
    if (++polls_ % 256 == 0) {
      waiter_.tick();
    }
    return count == 0 ? Look::kNothing : Look::kDone;
  }

  // Posts receives up to number `end`.
  Expected<void> post_receives(std::uint64_t end) {
    std::array<RecvWr, kBatch> requests;
    std::array<Sge, kBatch> pieces;
    while (posted_ < end) {
      const auto count = std::min<std::uint64_t>(kBatch, end - posted_);
      for (std::size_t i = 0; i < count; ++i) {
        pieces[i] = sge(slot_of(posted_ + i));
        requests[i] = {.wr_id = posted_ + i, .sges = {&pieces[i], 1}};
      }
      const PostResult result = side_.qp->post_recv(std::span(requests).first(count));
      if (!result) {
        return fail(result.error,
                    "the receive queue refused a request: " + side_.qp->explain_refusal(requests[result.posted]));
      }
      posted_ += count;
    }
    return {};
  }

  Expected<void> receive_all() {
    while (done_ < total_) {
      if (auto came = waiter_.until([&] { return poll(*side_.recv_cq); }, failure_); !came) {
        return came;
      }
      if (auto posted = post_receives(std::min(done_ + receives(options_), total_)); !posted) {
        return posted;
      }
    }
    return {};
  }

  Expected<void> check_memory() {
    const std::uint64_t used = std::min<std::uint64_t>(options_.depth, total_);
    for (std::uint64_t slot = 0; slot < used; ++slot) {
      if (const auto wrong = check_pattern(local(slot), key(slot))) {
        const std::uint64_t last = (total_ - 1 - slot) / options_.depth * options_.depth + slot;
        return fail(0, describe(*wrong, last, options_.size_bytes));
      }
      ++result_.verified_buffers;
    }
    return {};
  }

  Side& side_;
  const SideAddress& peer_;
  Exchange& exchange_;
  const TestOptions& options_;
  std::uint64_t total_, stride_;
  std::uint64_t posted_ = 0, done_ = 0, polls_ = 0;
  Expected<void> failure_;
  BandwidthResult result_;
  Waiter waiter_;
};

}  // namespace

SideNeeds bandwidth_needs(const TestOptions& options) {
  const bool receiver = options.op == Op::kSend && options.role == Role::kServer;
  return {.memory_bytes = options.depth * stride_bytes(options),
          .send_wr = options.depth,
          .recv_wr = receiver ? receives(options) : 1};
}

Expected<BandwidthResult> run_bandwidth(Side& side, const SideAddress& peer, Exchange& exchange,
                                        const TestOptions& options, const std::function<void(std::uint64_t)>& tick) {
  if (peer.memory_bytes < bandwidth_needs(options).memory_bytes) {
    return fail(EPROTO, fmt::format("the other side offers {} bytes of memory, and {} are needed", peer.memory_bytes,
                                    bandwidth_needs(options).memory_bytes));
  }
  Stream stream(side, peer, exchange, options, tick);
  return options.role == Role::kServer ? stream.server() : stream.client();
}

}  // namespace umlx5::tools
