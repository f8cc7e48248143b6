// What the calls of the data path cost in the native API (bench.py shows it beside the verbs).
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "tools/bench/harness.h"
#include "tools/softhca/source.h"

namespace umlx5::bench {
namespace {

template <typename T>
T must(Expected<T> value, const char* what) {
  if (!value) {
    die(what, value.error().message().c_str());
  }
  return std::move(*value);
}

void must(Expected<void> value, const char* what) {
  if (!value) {
    die(what, value.error().message().c_str());
  }
}

Owned<Cq> make_cq(Context& context) { return must(context.create_cq({.entries = 2 * kQueue}), "CQ"); }

// An RC queue pair that is connected to itself.
class Loop {
 public:
  Loop(Context& context, Pd& pd, Cq& cq, std::uint32_t requests, bool many_producers = false)
      : qp(must(pd.create_qp({.send_cq = &cq,
                              .recv_cq = &cq,
                              .capacity = {.max_send_wr = requests,
                                           .max_recv_wr = requests,
                                           .max_send_sge = 1,
                                           .max_recv_sge = 1,
                                           .max_inline_bytes = kInline},
                              .many_producers = many_producers}),
                "QP")),
        context_(context) {
    connect();
  }

  // Forgets what is posted and begins anew.
  void connect() {
    must(qp->to_reset(), "reset");
    const Gid gid = must(context_.query_gid(1, 0), "GID").gid;
    must(qp->connect({.gid = gid, .qpn = qp->qpn(), .psn = 0}, 0, {.remote_access = Access::kRemoteWrite}), "connect");
  }

  Owned<Qp> qp;

 private:
  Context& context_;
};

// One loop to post to by one thread, one by many, and one whose completions are polled.
struct Rig {
  softhca::SoftDeviceSource source;
  std::unique_ptr<Context> context = [this] {
    uapi::DeviceSource* const sources[] = {&source};
    return must(open_device(sources, ""), "open");
  }();
  Owned<Pd> pd = must(context->alloc_pd(), "PD");
  alignas(4096) std::array<std::byte, 4096> memory{};
  Owned<MemoryRegion> region =
      must(pd->register_memory(memory, Access::kLocalWrite | Access::kRemoteWrite), "memory region");
  Owned<Cq> poster_cq = make_cq(*context), shared_cq = make_cq(*context), completer_cq = make_cq(*context),
            many_cq = make_cq(*context);
  Loop poster{*context, *pd, *poster_cq, kQueue + kList};
  Loop shared{*context, *pd, *shared_cq, kQueue + kList, true};
  Loop completer{*context, *pd, *completer_cq, kQueue + kList};
  std::vector<std::unique_ptr<Loop>> many;
  Sge sge = region->sge(0, 64);

  SendWr write(SendFlags flags) const {
    SendWr wr;
    wr.opcode = SendOpcode::kRdmaWrite;
    wr.flags = flags;
    wr.sges = {&sge, 1};
    wr.remote_address = sge.address + 2048;
    wr.rkey = region->rkey();
    return wr;
  }

  // Of kManyQps queue pairs, what is posted is forgotten; makes them at first.
  void connect_many() {
    constexpr std::uint32_t kRequests = 2 * kList;
    while (many.size() < kManyQps) {
      many.push_back(std::make_unique<Loop>(*context, *pd, *many_cq, kRequests));
    }
    for (auto& loop : many) {
      loop->connect();
    }
  }

  // Puts `count` CQEs in front of the poller, as the device would.
  void fill_cq(std::uint32_t count) {
    if (produced_ == 0) {
      read_a_cqe();
    }
    for (std::uint32_t i = 0; i < count; ++i, ++produced_) {
      ring_.put(produced_, cqe_.data());
    }
  }

 private:
  // The completion of an RDMA write, as the device writes it.
  void read_a_cqe() {
    ring_ = completer_cq->ring();
    const SendWr wr = write(SendFlag::kSignaled);
    if (!completer.qp->post_send({&wr, 1})) {
      die("post_send", "refused");
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!ring_.is_ready(0)) {
      if (std::chrono::steady_clock::now() > limit) {
        die("no completion", "60 s have passed");
      }
    }
    std::memcpy(cqe_.data(), ring_.cqe(0), cqe_.size());
    Completion completion;
    if (completer_cq->poll({&completion, 1}) != 1 || completion.status != CompletionStatus::kSuccess) {
      die("the first request", describe(completion).c_str());
    }
    produced_ = 1;
  }

  CompletionRing ring_;
  std::array<std::byte, 64> cqe_{};
  std::uint32_t produced_ = 0;
};

Rig& rig() {
  static Rig* const rig = new Rig;  // the device goes with the process
  return *rig;
}

void post_each(Qp& qp, SendFlags flags, std::uint32_t operations) {
  Sge sge = rig().sge;
  sge.length_bytes = flags.has(SendFlag::kInline) ? kInline : 64;
  SendWr wr = rig().write(flags);
  wr.sges = {&sge, 1};
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (!qp.post_send({&wr, 1})) {
      die("post_send", "refused");
    }
  }
}

std::array<SendWr, kList> list_of_requests(SendFlags last_flags) {
  std::array<SendWr, kList> list;
  list.fill(rig().write({}));
  list.back().flags = last_flags;
  return list;
}

void post_lists(std::uint32_t operations) {
  const auto list = list_of_requests(SendFlag::kSignaled);
  Qp& qp = *rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; i += kList) {
    if (!qp.post_send(list)) {
      die("post_send", "refused");
    }
  }
}

SendTemplate make_template() {
  return must(rig().poster.qp->make_template(rig().write(SendFlag::kSignaled)), "template");
}

void post_templates(std::uint32_t operations) {
  const SendTemplate made = make_template();
  TemplateWr wr{.wr_id = 0, .address = rig().sge.address, .remote_address = rig().sge.address + 2048};
  Qp& qp = *rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (qp.post_send(made, {&wr, 1}) != 1) {
      die("post_send", "refused");
    }
  }
}

void post_template_lists(std::uint32_t operations) {
  const SendTemplate made = make_template();
  std::array<TemplateWr, kList> list;
  list.fill({.wr_id = 0, .address = rig().sge.address, .remote_address = rig().sge.address + 2048});
  Qp& qp = *rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; i += kList) {
    if (qp.post_send(made, list) != kList) {
      die("post_send", "refused");
    }
  }
}

void post_round_robin(std::uint32_t operations) {
  const auto& many = rig().many;
  SendWr wr = rig().write({});
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (!many[i % kManyQps]->qp->post_send({&wr, 1})) {
      die("post_send", "refused");
    }
  }
}

void post_lists_round_robin(std::uint32_t operations) {
  const auto& many = rig().many;
  const auto list = list_of_requests({});
  for (std::uint32_t i = 0; i < operations / kList; ++i) {
    if (!many[i % kManyQps]->qp->post_send(list)) {
      die("post_send", "refused");
    }
  }
}

void post_receives(std::uint32_t operations) {
  RecvWr wr{.wr_id = 0, .sges = {&rig().sge, 1}};
  Qp& qp = *rig().poster.qp;
  for (std::uint32_t i = 0; i < operations; ++i) {
    wr.wr_id = i;
    if (!qp.post_recv({&wr, 1})) {
      die("post_recv", "refused");
    }
  }
}

void poll(std::uint32_t operations) {
  std::array<Completion, kList> completions;
  Cq& cq = *rig().completer_cq;
  for (std::uint32_t taken = 0; taken < operations;) {
    const std::size_t count = cq.poll(completions);
    if (count == 0 || completions[0].status != CompletionStatus::kSuccess) {
      die("poll", "no completion, or one that failed");
    }
    benchmark::DoNotOptimize(completions);
    taken += static_cast<std::uint32_t>(count);
  }
}

std::vector<Case> make_cases() {
  const auto reconnect = [] { rig().poster.connect(); };
  const auto reconnect_many = [] { rig().connect_many(); };
  const auto post = [](std::uint32_t n) { post_each(*rig().poster.qp, SendFlag::kSignaled, n); };
  return {
      {.name = "post_send", .prepare = reconnect, .run = post},
      {.name = "post_send_inline",
       .prepare = reconnect,
       .run =
           [](std::uint32_t n) { post_each(*rig().poster.qp, SendFlags(SendFlag::kSignaled) | SendFlag::kInline, n); }},
      {.name = "post_send_list", .prepare = reconnect, .run = post_lists},
      {.name = "template", .prepare = reconnect, .run = post_templates},
      {.name = "template_list", .prepare = reconnect, .run = post_template_lists},
      {.name = "post_recv", .prepare = reconnect, .run = post_receives},
      {.name = "poll_cq", .prepare = [] { rig().fill_cq(kQueue); }, .run = poll},
      {.name = "two_threads",
       .prepare = [] { rig().shared.connect(); },
       .run = [](std::uint32_t n) { post_each(*rig().shared.qp, SendFlag::kSignaled, n); },
       .on_two_threads = true},
      {.name = "cold", .prepare = reconnect, .run = post, .operations = kColdPosts, .on_cold_caches = true},
      {.name = "many_qps", .prepare = reconnect_many, .run = post_round_robin, .batches = 8},
      {.name = "many_qps_list",
       .prepare = reconnect_many,
       .run = post_lists_round_robin,
       .operations = kManyQps * kList,
       .batches = 8},
  };
}

}  // namespace
}  // namespace umlx5::bench

int main(int argc, char** argv) { return umlx5::bench::run(argc, argv, umlx5::bench::make_cases); }
