#include "tests/driver/soft/pair.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "driver/dv_flags.h"

namespace umlx5::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPsnA = 0xfffff0, kPsnB = 0x000123;  // one wraps soon

}  // namespace

Machine::Machine(softhca::wire::EndpointOptions endpoint, std::string restrictions) {
  source_ = std::make_unique<softhca::SoftDeviceSource>(std::vector<softhca::DeviceOptions>{
      {.name = "soft", .endpoint = std::move(endpoint), .restrictions = std::move(restrictions)}});
  uapi::DeviceSource* const sources[] = {source_.get()};
  context_ = must(open_device(sources, "soft"));
}

void Machine::close() {
  context_.reset();
  source_.reset();
}

End::End(Context& context, EndOptions given) : context(context), options(given), memory(kMemoryBytes) {
  pd = must(context.alloc_pd());
  if (options.events) {
    send_channel = must(context.create_completion_channel());
    recv_channel = must(context.create_completion_channel());
  }
  CqOptions cq{.entries = options.cq_entries,
               .cqe_bytes = options.cqe_bytes,
               .channel = send_channel.get(),
               .compression = options.compression,
               .many_pollers = options.many_threads};
  send_cq = must(context.create_cq(cq));
  cq.channel = recv_channel.get();
  recv_cq = must(context.create_cq(cq));
  region = must(pd->register_memory(memory, options.region_access));
  if (options.srq_requests != 0) {
    srq = must(pd->create_srq({.max_wr = options.srq_requests, .max_sge = options.capacity.max_recv_sge}));
  }
  qp = must(pd->create_qp(
      {.type = options.type,
       .send_cq = send_cq.get(),
       .recv_cq = recv_cq.get(),
       .srq = srq.get(),
       .capacity = options.capacity,
       .signal_all = options.signal_all,
       .dv_create_flags = options.dv_create_flags | (options.signature_pipelining ? dv::kSignaturePipelining : 0),
       .many_producers = options.many_threads}));
}

QpAddress End::address(std::uint32_t psn) const {
  return {.gid = must(context.query_gid(1, 0)).gid, .qpn = qp->qpn(), .psn = psn};
}

void End::connect(const QpAddress& peer, std::uint32_t psn) {
  must(
      qp->connect(peer, psn, {.remote_access = options.remote_access, .qkey = options.qkey}, options.rtr, options.rts));
}

void End::fill(std::size_t offset, std::size_t bytes, std::uint8_t stream) {
  for (std::size_t i = 0; i < bytes; ++i) {
    memory[offset + i] = static_cast<std::byte>((i * 167 + (i >> 8) * 13 + stream * 31 + 1) & 0xff);
  }
}

void End::post(const SendWr& request) {
  const std::string refusal = qp->explain_refusal(request);
  ASSERT_EQ(qp->post_send({&request, 1}).error, 0) << refusal;
}

void End::post(const RecvWr& request) {
  if (srq) {
    ASSERT_EQ(srq->post_recv({&request, 1}).error, 0);
    return;
  }
  const std::string refusal = qp->explain_refusal(request);
  ASSERT_EQ(qp->post_recv({&request, 1}).error, 0) << refusal;
}

void End::post_receives(std::uint64_t wr_id, std::size_t count, std::size_t offset) {
  for (std::size_t i = 0; i < count; ++i) {
    const Sge piece = sge(offset + i * 1024, 1024);
    post(RecvWr{.wr_id = wr_id + i, .sges = {&piece, 1}});
  }
}

std::vector<Completion> End::wait(Cq& cq, std::size_t count) {
  std::vector<Completion> completions(count);
  const auto deadline = Clock::now() + kLimit;
  std::size_t got = 0;
  while (got < count) {
    const std::size_t more = cq.poll(std::span(completions).subspan(got));
    got += more;
    if (more == 0) {
      context.relax();
      if (Clock::now() > deadline) {
        break;
      }
    }
  }
  completions.resize(got);
  EXPECT_EQ(got, count) << text(completions);
  return completions;
}

void End::expect_quiet() {
  const auto until = Clock::now() + std::chrono::milliseconds(5);
  std::vector<Completion> completions(16);
  std::size_t got = 0;
  do {
    got += send_cq->poll(std::span(completions).subspan(got));
    got += recv_cq->poll(std::span(completions).subspan(got));
    context.relax();
  } while (got == 0 && Clock::now() < until);
  completions.resize(got);
  EXPECT_EQ(text(completions), "");
}

QpState End::state() { return must(qp->query_state()); }

std::string text(const std::vector<Completion>& completions) {
  std::string out;
  for (const Completion& completion : completions) {
    out += fmt::format("{}{} ", out.empty() ? "" : ", ", completion.wr_id);
    out += completion.status == CompletionStatus::kSuccess
               ? "ok"
               : fmt::format("{:02x}/{:02x}", completion.syndrome, completion.vendor_syndrome);
  }
  return out;
}

Pair::Pair(PairOptions options) : machine_a({.faults = options.faults_a}, options.restrictions) {
  if (options.topology == Topology::kTwoDevices) {
    machine_b = std::make_unique<Machine>(softhca::wire::EndpointOptions{}, options.restrictions);
  }
  a = std::make_unique<End>(machine_a.context(), options.a);
  b = std::make_unique<End>(context_b(), options.b);
  const QpAddress address_a = a->address(kPsnA), address_b = b->address(kPsnB);
  b->connect(address_a, kPsnB);
  a->connect(address_b, kPsnA);
}

SendWr Pair::write(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset) const {
  return {.wr_id = wr_id,
          .opcode = SendOpcode::kRdmaWrite,
          .flags = SendFlag::kSignaled,
          .sges = sges,
          .remote_address = b->address_of(remote_offset),
          .rkey = b->region->rkey()};
}

SendWr Pair::read(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset) const {
  SendWr request = write(wr_id, sges, remote_offset);
  request.opcode = SendOpcode::kRdmaRead;
  return request;
}

SendWr Pair::fetch_add(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset,
                       std::uint64_t add) const {
  SendWr request = write(wr_id, sges, remote_offset);
  request.opcode = SendOpcode::kFetchAdd;
  request.compare_add = add;
  return request;
}

SendWr Pair::compare_swap(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset,
                          std::uint64_t compare, std::uint64_t swap) const {
  SendWr request = write(wr_id, sges, remote_offset);
  request.opcode = SendOpcode::kCompareSwap;
  request.compare_add = compare;
  request.swap = swap;
  return request;
}

SendWr Pair::send(std::uint64_t wr_id, std::span<const Sge> sges) {
  return {.wr_id = wr_id, .opcode = SendOpcode::kSend, .flags = SendFlag::kSignaled, .sges = sges};
}

std::string name_of(const ::testing::TestParamInfo<Topology>& info) {
  return info.param == Topology::kTwoDevices ? "TwoDevices" : "Loopback";
}

}  // namespace umlx5::testing
