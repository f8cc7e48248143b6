// Polling: hand-written CQEs in, completions out.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "driver/cq.h"
#include "driver/qp.h"
#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using testing::big32;
using testing::big64;
using testing::ConnectedQp;
using testing::CqeWriter;

TEST(Poll, EmptyQueueGivesNothingAndPublishesNothing) {
  ConnectedQp c;
  EXPECT_TRUE(c.poll().empty());
  EXPECT_EQ(c.cq_record()[0], 0u);
  EXPECT_EQ(c.cq->poll({}), 0u);
}

TEST(Poll, RequesterOpcodesAndCounts) {
  struct Row {
    SendOpcode posted;
    std::uint8_t wqe_opcode;
    CompletionOpcode expected;
    std::uint32_t byte_count;
  };
  // Byte counts: as the CQE says for READ, 8 for atomics.
  const Row rows[] = {
      {SendOpcode::kSend, 0x0a, CompletionOpcode::kSend, 0},
      {SendOpcode::kSendWithImm, 0x0b, CompletionOpcode::kSend, 0},
      {SendOpcode::kSendWithInvalidate, 0x01, CompletionOpcode::kSend, 0},
      {SendOpcode::kRdmaWrite, 0x08, CompletionOpcode::kRdmaWrite, 0},
      {SendOpcode::kRdmaWriteWithImm, 0x09, CompletionOpcode::kRdmaWrite, 0},
      {SendOpcode::kRdmaRead, 0x10, CompletionOpcode::kRdmaRead, 777},
      {SendOpcode::kCompareSwap, 0x11, CompletionOpcode::kCompareSwap, 8},
      {SendOpcode::kFetchAdd, 0x12, CompletionOpcode::kFetchAdd, 8},
  };
  ConnectedQp c;
  std::uint16_t index = 0;
  for (const Row& row : rows) {
    ASSERT_TRUE(c.post(SendWr{.wr_id = 100u + index, .opcode = row.posted, .flags = SendFlag::kSignaled}));
    CqeWriter::Entry entry = c.entry(0, index++);
    entry.send_opcode = row.wqe_opcode;
    entry.byte_count = 777;
    entry.timestamp = 0x123456789;
    c.writer->write(entry);
  }
  const auto completions = c.poll();
  ASSERT_EQ(completions.size(), std::size(rows));
  for (std::size_t i = 0; i < completions.size(); ++i) {
    EXPECT_EQ(completions[i].wr_id, 100 + i);
    EXPECT_EQ(completions[i].status, CompletionStatus::kSuccess);
    EXPECT_EQ(completions[i].opcode, rows[i].expected);
    EXPECT_EQ(completions[i].byte_count, rows[i].byte_count);
    EXPECT_EQ(completions[i].qp, c.qp.get());
    EXPECT_EQ(completions[i].qpn, 0x1234u);
    EXPECT_EQ(completions[i].device_timestamp, 0x123456789u);
  }
  EXPECT_EQ(big32(c.cq_record()), 8u);
}

TEST(Poll, ResponderKinds) {
  ConnectedQp c;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(c.post(RecvWr{.wr_id = i}));
  }
  std::uint16_t index = 0;
  for (const std::uint8_t opcode : {1, 2, 3, 4}) {
    CqeWriter::Entry entry = c.entry(opcode, index++);
    entry.byte_count = 64;
    entry.immediate = 0xaabbcc01;
    c.writer->write(entry);
  }
  const auto completions = c.poll();
  ASSERT_EQ(completions.size(), 4u);
  EXPECT_EQ(completions[0].opcode, CompletionOpcode::kRecvRdmaWithImm);
  EXPECT_TRUE(completions[0].has_immediate);
  EXPECT_EQ(completions[0].immediate_big_endian, __builtin_bswap32(0xaabbcc01));  // as on the wire
  EXPECT_EQ(completions[1].opcode, CompletionOpcode::kRecv);
  EXPECT_FALSE(completions[1].has_immediate);
  EXPECT_FALSE(completions[1].has_invalidated_rkey);
  EXPECT_TRUE(completions[2].has_immediate);
  EXPECT_FALSE(completions[3].has_immediate);
  EXPECT_TRUE(completions[3].has_invalidated_rkey);
  EXPECT_EQ(completions[3].immediate_big_endian, 0xaabbcc01u);  // host order
  for (const Completion& completion : completions) {
    EXPECT_EQ(completion.byte_count, 64u);
  }
}

// wr_ids come from the CQE's counter, in whatever order.
TEST(Poll, ReceivesMayCompleteOutOfOrder) {
  ConnectedQp c;
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(c.post(RecvWr{.wr_id = 100 + i}));
  }
  for (const std::uint16_t counter : {2, 0, 1, 3}) {
    c.writer->write(c.entry(2, counter));
  }
  c.writer->write(c.entry(14, 5));
  const auto completions = c.poll();
  ASSERT_EQ(completions.size(), 5u);
  const std::uint64_t expected[] = {102, 100, 101, 103, 105};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(completions[i].wr_id, expected[i]);
  }
  EXPECT_EQ(c.qp->receive_queue().outstanding_requests(), 3u);
}

// Statuses are those of enum ibv_wc_status; both CQE sizes: on the large one the CQE is the second half.
TEST(Poll, EverySyndrome) {
  struct Row {
    std::uint8_t syndrome;
    int status;
  };
  const Row rows[] = {{0x01, 1}, {0x02, 2},  {0x04, 4},  {0x05, 5},  {0x06, 6},  {0x10, 7},  {0x11, 8},
                      {0x12, 9}, {0x13, 10}, {0x14, 11}, {0x15, 12}, {0x16, 13}, {0x22, 16}, {0x55, 21}};
  for (const std::uint32_t cqe_bytes : {64u, 128u}) {
    for (const std::uint8_t opcode : {13, 14}) {
      ConnectedQp c(ConnectedQp::default_options(), {.entries = 63, .cqe_bytes = cqe_bytes});
      std::uint16_t index = 0;
      for (const Row& row : rows) {
        ASSERT_TRUE(c.post(SendWr{.wr_id = index + 1000u}));
        ASSERT_TRUE(c.post(RecvWr{.wr_id = index + 2000u}));
        CqeWriter::Entry entry = c.entry(opcode, index);
        entry.syndrome = row.syndrome;
        entry.vendor_syndrome = 0x81;
        c.writer->write(entry);
        const auto completions = c.poll();
        ASSERT_EQ(completions.size(), 1u);
        EXPECT_EQ(static_cast<int>(completions[0].status), row.status) << int{row.syndrome};
        EXPECT_EQ(completions[0].syndrome, row.syndrome);
        EXPECT_EQ(completions[0].vendor_syndrome, 0x81);
        EXPECT_EQ(completions[0].wr_id, index + (opcode == 13 ? 1000u : 2000u));
        EXPECT_EQ(completions[0].qp, c.qp.get());
        ++index;
      }
    }
  }
}

TEST(Poll, DescribesInWords) {
  ConnectedQp c;
  ASSERT_TRUE(c.post(RecvWr{.wr_id = 7}));
  CqeWriter::Entry entry = c.entry(14, 0);
  entry.syndrome = 1;
  entry.vendor_syndrome = 0x22;
  c.writer->write(entry);
  const std::string text = describe(c.poll().at(0));
  EXPECT_EQ(text.find("RECV failed on QP 0x1234, wr_id 7: "), 0u) << text;
  EXPECT_NE(text.find("(syndrome 0x01, vendor syndrome 0x22)"), std::string::npos) << text;
}

// Many laps round a small queue, with as many entries at once as it holds; the consumer index is not masked by its
// size.
TEST(Poll, OwnerBitOverManyLaps) {
  ConnectedQp c(ConnectedQp::default_options(), {.entries = 3});
  std::uint32_t posted = 0, polled = 0;
  for (std::uint32_t round = 0; round < 5000; ++round) {
    const std::uint32_t count = round % 5 < 4 ? round % 5 : 3;
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(c.post(SendWr{.wr_id = posted, .flags = SendFlag::kSignaled}));
      c.writer->write(c.entry(0, static_cast<std::uint16_t>(posted++)));
    }
    const auto completions = c.poll();
    ASSERT_EQ(completions.size(), count);
    for (const Completion& completion : completions) {
      ASSERT_EQ(completion.wr_id, polled++);
    }
    ASSERT_EQ(big32(c.cq_record()), polled & 0xffffff);
  }
}

TEST(Poll, TakesNoMoreThanAskedAndPublishesWhatItTook) {
  ConnectedQp c;
  for (std::uint16_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(c.post(SendWr{.wr_id = i}));
    c.writer->write(c.entry(0, i));
  }
  EXPECT_EQ(c.poll(2).size(), 2u);
  EXPECT_EQ(big32(c.cq_record()), 2u);
  EXPECT_EQ(c.poll(9).size(), 3u);
  EXPECT_EQ(big32(c.cq_record()), 5u);
}

TEST(Poll, EntriesThatAreNobodysAreConsumed) {
  ConnectedQp c;
  ASSERT_TRUE(c.post(SendWr{.wr_id = 9}));
  CqeWriter::Entry stray = c.entry(0, 0);
  stray.number = 0x123456;
  c.writer->write(stray);
  c.writer->write(c.entry(7, 0));   // no such opcode
  c.writer->write(c.entry(12, 0));  // signature error, which nobody asked for
  c.writer->write(c.entry(0, 0));
  const auto completions = c.poll(1);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 9u);
  EXPECT_EQ(big32(c.cq_record()), 4u);
}

TEST(Poll, OldCqesAreFoundByQpn) {
  testing::FakeKernel kernel;
  kernel.ucontext.cqe_version = 0;
  const auto context = testing::open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 7});
  auto qp = *pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get(), .capacity = {.max_send_wr = 4}});
  EXPECT_EQ(kernel.create_qp.uidx, 0xffffffu);
  ASSERT_TRUE(qp->connect({}, 0, {}));
  const SendWr request{.wr_id = 5};
  ASSERT_TRUE(qp->post_send({&request, 1}));
  CqeWriter writer(kernel.create_cq.buf_addr, 8, 64);
  writer.write({.qpn = qp->qpn()});
  Completion completion;
  ASSERT_EQ(cq->poll({&completion, 1}), 1u);
  EXPECT_EQ(completion.wr_id, 5u);
  EXPECT_EQ(completion.qp, qp.get());
}

std::vector<std::byte> pattern(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i + 1);
  }
  return bytes;
}

TEST(Scatter, DataInTheCqeGoesToTheReceiveList) {
  for (const bool large : {false, true}) {
    ConnectedQp c(ConnectedQp::default_options(), {.entries = 63, .cqe_bytes = large ? 128u : 64u});
    const std::size_t room = large ? 64 : 32;
    std::vector<std::byte> first(10), second(100);
    const Sge sges[] = {{reinterpret_cast<std::uint64_t>(first.data()), 10, 1},
                        {reinterpret_cast<std::uint64_t>(second.data()), 100, 2}};
    ASSERT_TRUE(c.post(RecvWr{.wr_id = 1, .sges = sges}));
    const auto data = pattern(room);
    CqeWriter::Entry entry = c.entry(2, 0);
    entry.format = large ? 2 : 1;
    entry.byte_count = static_cast<std::uint32_t>(room);
    c.writer->write(entry, data);
    const auto completions = c.poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
    EXPECT_EQ(completions[0].byte_count, room);
    EXPECT_EQ(std::memcmp(first.data(), data.data(), 10), 0);
    EXPECT_EQ(std::memcmp(second.data(), data.data() + 10, room - 10), 0);
    EXPECT_EQ(second[room - 10], std::byte{0});
  }
}

TEST(Scatter, AListThatIsTooShortIsALengthError) {
  ConnectedQp c;
  std::vector<std::byte> memory(8);
  const Sge sge{reinterpret_cast<std::uint64_t>(memory.data()), 4, 1};
  ASSERT_TRUE(c.post(RecvWr{.wr_id = 1, .sges = {&sge, 1}}));
  CqeWriter::Entry entry = c.entry(2, 0);
  entry.format = 1;
  entry.byte_count = 8;
  c.writer->write(entry, pattern(8));
  EXPECT_EQ(c.poll().at(0).status, CompletionStatus::kLocalLength);
  EXPECT_EQ(memory[4], std::byte{0});
  // A count that the format has no room for.
  ASSERT_TRUE(c.post(RecvWr{.wr_id = 1, .sges = {&sge, 1}}));
  entry.wqe_counter = 1;
  entry.byte_count = 33;
  c.writer->write(entry, pattern(8));
  EXPECT_EQ(c.poll().at(0).status, CompletionStatus::kLocalLength);
}

TEST(Scatter, ReadsAndAtomics) {
  for (const bool large : {false, true}) {
    QpOptions options = ConnectedQp::default_options();
    options.capacity.max_send_sge = 5;
    ConnectedQp c(options, {.entries = 63, .cqe_bytes = large ? 128u : 64u});
    std::vector<std::byte> read(40), atomic(8), next(8);
    // Five entries: the WQE is longer than a block.
    std::vector<Sge> sges;
    for (std::size_t i = 0; i < 5; ++i) {
      sges.push_back({reinterpret_cast<std::uint64_t>(read.data() + i * 8), 6, 1});
    }
    const Sge one{reinterpret_cast<std::uint64_t>(atomic.data()), 8, 1};
    ASSERT_TRUE(c.post(SendWr{.wr_id = 1, .opcode = SendOpcode::kRdmaRead, .sges = sges}));
    ASSERT_TRUE(c.post(SendWr{.wr_id = 2, .opcode = SendOpcode::kFetchAdd, .sges = {&one, 1}}));
    const auto data = pattern(30);
    CqeWriter::Entry entry = c.entry(0, 0);
    entry.send_opcode = 0x10;
    entry.format = large ? 2 : 1;
    entry.byte_count = 30;
    c.writer->write(entry, data);
    entry.wqe_counter = 2;  // the READ took two blocks
    entry.send_opcode = 0x12;
    entry.byte_count = 8;
    c.writer->write(entry, pattern(8));
    const auto completions = c.poll();
    ASSERT_EQ(completions.size(), 2u);
    EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
    EXPECT_EQ(completions[1].wr_id, 2u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(std::memcmp(read.data() + i * 8, data.data() + i * 6, 6), 0);
      EXPECT_EQ(read[i * 8 + 6], std::byte{0});
    }
    EXPECT_EQ(std::memcmp(atomic.data(), data.data(), 8), 0);
  }
}

TEST(Arm, RecordAndRegister) {
  ConnectedQp c;
  for (std::uint16_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(c.post(SendWr{}));
    c.writer->write(c.entry(0, i));
  }
  c.poll();
  const std::byte* shared_uar = c.kernel.uars[0];
  c.cq->arm();
  EXPECT_EQ(big32(c.cq_record() + 1), 3u);  // sequence 0, any completion, consumer index 3
  EXPECT_EQ(big64(shared_uar + 0x20), std::uint64_t{3} << 32 | 0x45);
  c.cq->arm(Arm::kSolicited);
  EXPECT_EQ(big32(c.cq_record() + 1), 0x01000003u);
  EXPECT_EQ(big64(shared_uar + 0x20), std::uint64_t{0x01000003} << 32 | 0x45);
}

TEST(Arm, SequenceMovesOncePerEvent) {
  testing::FakeKernel kernel;
  const auto context = testing::open_fake(kernel);
  auto channel = *context->create_completion_channel();
  auto cq = *context->create_cq({.entries = 3, .channel = channel.get()});
  const auto* record = reinterpret_cast<const std::uint32_t*>(kernel.create_cq.db_addr);
  for (std::uint32_t event = 0; event < 6; ++event) {
    cq->arm();
    cq->arm();  // arming twice is arming once
    EXPECT_EQ(big32(record + 1), (event & 3) << 28);
    const ib_uverbs_comp_event_desc desc{.cq_handle = kernel.cq_user_handle};
    ASSERT_EQ(::write(kernel.completion_fds[0], &desc, sizeof desc), static_cast<ssize_t>(sizeof desc));
    ASSERT_EQ(**channel->wait(std::chrono::seconds(1)), cq.get());
  }
}

// Two queue pairs, entries mixed; one goes: the other's entries stay, in order, whatever lap they lie in.
TEST(Forget, OnlyTheCompletionsOfOneQpGo) {
  for (std::uint32_t before = 0; before < 8; ++before) {
    ConnectedQp c(ConnectedQp::default_options(), {.entries = 7});
    const CqeWriter::Entry a = c.entry(0, 0);
    for (std::uint32_t i = 0; i < before; ++i) {  // moves the consumer index
      ASSERT_TRUE(c.post(SendWr{}));
      c.writer->write(c.entry(0, static_cast<std::uint16_t>(i)));
      ASSERT_EQ(c.poll().size(), 1u);
    }
    QpOptions options = ConnectedQp::default_options();
    options.send_cq = options.recv_cq = c.cq.get();
    auto other = *c.pd->create_qp(options);
    ASSERT_TRUE(other->connect({}, 0, {}));
    for (std::uint64_t i = 0; i < 3; ++i) {
      const SendWr request{.wr_id = 50 + i};
      ASSERT_TRUE(other->post_send({&request, 1}));
    }
    for (std::uint16_t i = 0; i < 3; ++i) {
      c.writer->write({.number = a.number, .qpn = c.qp->qpn(), .wqe_counter = i});
      c.writer->write({.number = c.kernel.create_qp.uidx, .qpn = other->qpn(), .wqe_counter = i});
    }
    ASSERT_TRUE(c.qp->to_reset());
    const auto completions = c.poll();
    ASSERT_EQ(completions.size(), 3u) << before;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(completions[i].wr_id, 50 + i);
      EXPECT_EQ(completions[i].qp, other.get());
    }
    EXPECT_EQ(big32(c.cq_record()), before + 6);
    // The queue goes on where the device does.
    const SendWr request{.wr_id = 99};
    ASSERT_TRUE(other->post_send({&request, 1}));
    c.writer->write({.number = c.kernel.create_qp.uidx, .qpn = other->qpn(), .wqe_counter = 3});
    EXPECT_EQ(c.poll().at(0).wr_id, 99u);
  }
}

TEST(Forget, ADestroyedQpIsNotRemembered) {
  ConnectedQp c;
  ASSERT_TRUE(c.post(SendWr{}));
  c.writer->write(c.entry(0, 0));
  ASSERT_EQ(c.poll().size(), 1u);
  ASSERT_TRUE(c.post(SendWr{}));
  const CqeWriter::Entry late = c.entry(0, 1);
  c.writer->write(late);
  ASSERT_TRUE(c.qp.destroy());
  EXPECT_TRUE(c.poll().empty());
  c.writer->write(late);  // a device that still writes is not believed
  EXPECT_TRUE(c.poll().empty());
}

// The completions that wait survive, in a larger and a smaller ring, from every position, for both entry sizes.
TEST(Resize, KeepsWhatWaits) {
  for (const std::uint32_t cqe_bytes : {64u, 128u}) {
    for (const std::uint32_t entries : {3u, 7u, 31u}) {
      for (std::uint32_t before = 0; before < 17; ++before) {
        ConnectedQp c(ConnectedQp::default_options(), {.entries = 7, .cqe_bytes = cqe_bytes});
        std::uint16_t posted = 0;
        const auto complete_one = [&](CqeWriter& writer) {
          ASSERT_TRUE(c.post(SendWr{.wr_id = posted}));
          writer.write(c.entry(0, posted++));
        };
        for (std::uint32_t i = 0; i < before; ++i) {
          complete_one(*c.writer);
          ASSERT_EQ(c.poll().size(), 1u);
        }
        for (int i = 0; i < 3; ++i) {
          complete_one(*c.writer);
        }
        std::uint64_t new_buffer = 0;
        c.kernel.on_resize = [&](std::uint64_t buffer) {
          new_buffer = buffer;
          c.writer->write(c.entry(5, 0));  // RESIZE
        };
        ASSERT_TRUE(c.cq->resize(entries));
        EXPECT_EQ(c.cq->entries(), entries);
        CqeWriter writer(new_buffer, entries + 1, cqe_bytes);
        writer.set_producer(c.writer->producer());
        auto completions = c.poll();
        ASSERT_EQ(completions.size(), 3u) << before;
        for (std::uint32_t i = 0; i < 3; ++i) {
          EXPECT_EQ(completions[i].wr_id, before + i);
        }
        for (std::uint32_t i = 0; i < 40; ++i) {
          complete_one(writer);
          completions = c.poll();
          ASSERT_EQ(completions.size(), 1u);
          ASSERT_EQ(completions[0].wr_id, before + 3 + i);
        }
        EXPECT_EQ(big32(c.cq_record()), before + 3 + 1 + 40);
      }
    }
  }
}

TEST(Resize, RefusesWhatCannotBe) {
  ConnectedQp c(ConnectedQp::default_options(), {.entries = 7});
  for (std::uint16_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(c.post(SendWr{.wr_id = i}));
    c.writer->write(c.entry(0, i));
  }
  EXPECT_EQ(c.cq->resize(3).error().what, "CQ 0x45 resize: 3 entries do not hold the 4 completions that wait");
  EXPECT_EQ(c.cq->resize(0).error().errno_value, EINVAL);
  EXPECT_EQ(c.cq->resize(1u << 22).error().errno_value, EINVAL);
  c.kernel.fail_at = c.kernel.requests + 1;
  c.kernel.fail_errno = EDQUOT;
  EXPECT_EQ(c.cq->resize(31).error().errno_value, EDQUOT);
  EXPECT_EQ(c.cq->entries(), 7u);
  EXPECT_EQ(c.poll().size(), 4u);
}

// A device thread completes what another thread posts; for the sanitizers, and for the order of stores.
TEST(Poll, DeviceInAnotherThread) {
  ConnectedQp c;
  constexpr std::uint32_t kCount = 20000;
  const auto* send_record = const_cast<std::uint32_t*>(c.record() + 1);
  const auto entry = c.entry(0, 0);
  std::jthread device([&, ring = c.ring()](const std::stop_token& stop) {
    std::uint16_t done = 0;
    while (!stop.stop_requested()) {
      const auto producer = static_cast<std::uint16_t>(
          __builtin_bswap32(std::atomic_ref(*const_cast<std::uint32_t*>(send_record)).load(std::memory_order_acquire)));
      if (done == producer) {
        std::this_thread::yield();
      }
      for (; done != producer; ++done) {
        CqeWriter::Entry cqe = entry;
        cqe.wqe_counter = done;
        cqe.byte_count =
            big32(ring + done % 64 * 64 + 32);  // reads the WQE: the length after control and remote address
        cqe.send_opcode = 0x10;
        c.writer->write(cqe);
      }
    }
  });
  std::uint32_t posted = 0, polled = 0;
  while (polled < kCount) {
    while (posted < kCount && posted - polled < 60) {
      const Sge sge{.address = 1, .length_bytes = posted + 1, .lkey = 1};
      const SendWr request{
          .wr_id = posted, .opcode = SendOpcode::kRdmaRead, .flags = SendFlag::kSignaled, .sges = {&sge, 1}};
      ASSERT_TRUE(c.qp->post_send({&request, 1}));
      ++posted;
    }
    const auto completions = c.poll();
    for (const Completion& completion : completions) {
      ASSERT_EQ(completion.wr_id, polled);
      ASSERT_EQ(completion.byte_count, polled + 1);
      ++polled;
    }
    if (completions.empty()) {
      std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace umlx5
