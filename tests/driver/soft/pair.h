// Two connected QPs, on two soft devices of this process or on one that talks to itself.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "driver/srq.h"
#include "tools/softhca/source.h"

namespace umlx5::testing {

// What a test waits for at most before it has failed.
inline constexpr std::chrono::seconds kLimit{60};

template <typename T>
T must(Expected<T> value) {
  if (!value) {
    ADD_FAILURE() << value.error().message();
    std::abort();  // nothing that follows would make sense
  }
  return std::move(*value);
}
inline void must(Expected<void> value) { ASSERT_TRUE(value) << value.error().message(); }

// A device with an open context.
class Machine {
 public:
  // `restrictions`: capabilities to do without, as UMLX5_SOFT_CAPS has them.
  explicit Machine(softhca::wire::EndpointOptions endpoint = {}, std::string restrictions = {});
  Context& context() { return *context_; }
  // The device is gone from the network; nothing may be left that uses the context.
  void close();

 private:
  std::unique_ptr<softhca::SoftDeviceSource> source_;
  std::unique_ptr<Context> context_;
};

inline const AccessFlags kAllAccess =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | AccessFlags(Access::kRemoteAtomic);

struct EndOptions {
  QpType type = QpType::kRc;
  QpCapacity capacity{
      .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_bytes = 64};
  bool signal_all = false;
  std::uint32_t cq_entries = 255, cqe_bytes = 64;
  std::uint8_t compression = 0;       // of completions: CqOptions::compression
  bool many_threads = false;          // that post, and that poll
  bool signature_pipelining = false;  // the send queue stops at a signature error
  std::uint32_t dv_create_flags = 0;  // more of them, dv_flags.h
  bool events = false;                // CQs report to channels
  std::uint32_t srq_requests = 0;     // receives come from a shared receive queue of so many; 0: from the QP's own
  AccessFlags region_access = kAllAccess, remote_access = kAllAccess;
  std::uint32_t qkey = 0x11223344;  // UD
  ReadyToReceiveAttributes rtr{.path_mtu = Mtu::k1024, .min_rnr_timer = 1};
  ReadyToSendAttributes rts{.timeout = 10};
};

// One side of a connection: everything it needs, and 256 KiB of registered memory.
struct End {
  static constexpr std::size_t kMemoryBytes = 256 * 1024;

  explicit End(Context& context, EndOptions options = {});

  QpAddress address(std::uint32_t psn) const;
  void connect(const QpAddress& peer, std::uint32_t psn);

  std::byte* at(std::size_t offset) { return memory.data() + offset; }
  std::uint64_t address_of(std::size_t offset) const { return reinterpret_cast<std::uint64_t>(memory.data()) + offset; }
  Sge sge(std::size_t offset, std::uint32_t bytes) const { return region->sge(offset, bytes); }
  // Fills memory with bytes that depend on place and `stream`.
  void fill(std::size_t offset, std::size_t bytes, std::uint8_t stream);

  // Posts one request; a refusal is the test's failure.
  void post(const SendWr& request);
  void post(const RecvWr& request);
  // Receive requests wr_id, wr_id + 1, ... of 1024 bytes at `offset`.
  void post_receives(std::uint64_t wr_id, std::size_t count, std::size_t offset = 128 * 1024);

  // Polls until so many completions have come; fewer are the test's failure.
  std::vector<Completion> wait(Cq& cq, std::size_t count);
  std::vector<Completion> wait_sends(std::size_t count) { return wait(*send_cq, count); }
  std::vector<Completion> wait_receives(std::size_t count) { return wait(*recv_cq, count); }
  // Nothing more comes.
  void expect_quiet();
  QpState state();

  Context& context;
  EndOptions options;
  std::vector<std::byte> memory;
  Owned<Pd> pd;
  Owned<CompletionChannel> send_channel, recv_channel;
  Owned<Cq> send_cq, recv_cq;
  Owned<MemoryRegion> region;
  Owned<Srq> srq;
  Owned<Qp> qp;
};

// "1 ok, 2 13/88, 3 05/f5": wr_id, and syndrome and vendor syndrome of what failed.
std::string text(const std::vector<Completion>& completions);

enum class Topology { kTwoDevices, kLoopback };

struct PairOptions {
  Topology topology = Topology::kTwoDevices;
  EndOptions a{}, b{};
  std::string faults_a{};
  std::string restrictions{};  // of either device
};

struct Pair {
  explicit Pair(PairOptions options = {});

  // Signalled requests of `from`: an RDMA WRITE, and so on.
  SendWr write(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset) const;
  SendWr read(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset) const;
  SendWr fetch_add(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset, std::uint64_t add) const;
  SendWr compare_swap(std::uint64_t wr_id, std::span<const Sge> sges, std::size_t remote_offset, std::uint64_t compare,
                      std::uint64_t swap) const;
  static SendWr send(std::uint64_t wr_id, std::span<const Sge> sges);

  Machine machine_a;
  std::unique_ptr<Machine> machine_b;  // none: loopback
  Context& context_b() { return machine_b == nullptr ? machine_a.context() : machine_b->context(); }
  std::unique_ptr<End> a, b;
};

// Tests of both topologies.
class SoftTest : public ::testing::TestWithParam<Topology> {
 protected:
  PairOptions options(EndOptions a = {}, EndOptions b = {}) const { return {.topology = GetParam(), .a = a, .b = b}; }
};
std::string name_of(const ::testing::TestParamInfo<Topology>& info);

}  // namespace umlx5::testing
