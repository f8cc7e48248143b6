// A context, a PD, a CQ and a connected QP on the fake device.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "tests/driver/fake_channel.h"

namespace umlx5::testing {

inline std::uint32_t big32(const void* from) {
  std::uint32_t value;
  std::memcpy(&value, from, 4);
  return __builtin_bswap32(value);
}
inline std::uint64_t big64(const void* from) {
  std::uint64_t value;
  std::memcpy(&value, from, 8);
  return __builtin_bswap64(value);
}
inline void put_big16(std::byte* to, std::uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(to, &value, 2);
}
inline void put_big32(std::byte* to, std::uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(to, &value, 4);
}
inline void put_big64(std::byte* to, std::uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(to, &value, 8);
}

inline std::unique_ptr<Context> open_fake(FakeKernel& kernel, const ContextOptions& options = {}) {
  auto context = Context::open(fake_device(), std::make_unique<FakeChannel>(kernel), options);
  EXPECT_TRUE(context) << context.error().message();
  return context ? std::move(*context) : nullptr;
}

// Writes CQEs as the device would, into the CQ that was created last.
class CqeWriter {
 public:
  CqeWriter(std::uint64_t buffer, std::uint32_t entries, std::uint32_t entry_bytes)
      : ring_(reinterpret_cast<std::byte*>(buffer)), entries_(entries), entry_bytes_(entry_bytes) {}

  struct Entry {
    std::uint8_t opcode = 0;   // 0 requester, 2 responder SEND, 13 and 14 errors
    std::uint32_t number = 0;  // user index
    std::uint32_t qpn = 0;
    std::uint16_t wqe_counter = 0;
    std::uint8_t send_opcode = 0x0a;
    std::uint32_t byte_count = 0;
    std::uint32_t immediate = 0;
    std::uint8_t format = 0;
    std::uint8_t syndrome = 0, vendor_syndrome = 0;
    std::uint64_t timestamp = 0;
  };

  // Offsets are those of struct mlx5_cqe64 and mlx5_err_cqe of <infiniband/mlx5dv.h>.
  void write(const Entry& entry, std::span<const std::byte> data = {}) {
    const std::uint32_t slot = producer_ & (entries_ - 1);
    std::byte* const whole = ring_ + std::size_t{slot} * entry_bytes_;
    std::byte* const cqe = whole + entry_bytes_ - 64;
    if (entry_bytes_ == 128) {
      std::memset(whole, 0xee, 64);
    }
    std::memset(cqe, 0, 63);
    put_big32(cqe + 32, entry.number);
    put_big32(cqe + 36, entry.immediate);
    put_big32(cqe + 44, entry.byte_count);
    put_big64(cqe + 48, entry.timestamp);
    if (entry.opcode == 13 || entry.opcode == 14) {
      cqe[54] = std::byte{entry.vendor_syndrome};
      cqe[55] = std::byte{entry.syndrome};
    }
    put_big32(cqe + 56, std::uint32_t{entry.send_opcode} << 24 | entry.qpn);
    put_big16(cqe + 60, entry.wqe_counter);
    if (entry.format == 1) {
      std::memcpy(cqe, data.data(), data.size());
    } else if (entry.format == 2) {
      std::memcpy(whole, data.data(), data.size());
    }
    const std::uint8_t owner = (producer_ / entries_) & 1;
    const auto op_own = static_cast<std::uint8_t>(entry.opcode << 4 | entry.format << 2 | owner);
    std::atomic_ref(*reinterpret_cast<std::uint8_t*>(cqe + 63)).store(op_own, std::memory_order_release);
    ++producer_;
  }

  // What a completion has for itself in a session of compressed ones.
  struct Own {
    std::uint16_t counter = 0;  // a requester's
    std::uint8_t send_opcode = 0x0a;
    std::uint32_t byte_count = 0;
  };

  // Writes a session as Linux's mlx5e_decompress_cqes_start() and _cont() and DPDK's mlx5_rx_poll_len() expect it: a title
  // with the count in byte_cnt; mini CQEs 0 to 7 in the entry behind it, 8 to 15 in the eighth behind it, 16 to 23 in the
  // sixteenth; nothing in the others.
  void write_session(Entry title, std::span<const Own> own) {
    const std::uint32_t first = producer_;
    for (std::size_t n = 0; n < own.size(); ++n) {
      const auto behind = static_cast<std::uint32_t>(n < 8 ? 1 : n - n % 8);
      std::byte* const mini = cqe(first + behind) + n % 8 * 8;
      put_big32(mini, 0);
      if (title.opcode == 0) {
        put_big16(mini, own[n].counter);
        mini[2] = std::byte{own[n].send_opcode};
      }
      put_big32(mini + 4, own[n].byte_count);
    }
    title.format = 3;
    title.byte_count = static_cast<std::uint32_t>(own.size());
    write(title);
    producer_ = first + static_cast<std::uint32_t>(own.size());
  }

  std::byte* cqe(std::uint32_t index) const {
    return ring_ + std::size_t{index & (entries_ - 1)} * entry_bytes_ + entry_bytes_ - 64;
  }
  std::uint32_t producer() const { return producer_; }
  void set_producer(std::uint32_t producer) { producer_ = producer; }
  std::byte* ring() const { return ring_; }

 private:
  std::byte* ring_;
  std::uint32_t entries_, entry_bytes_;
  std::uint32_t producer_ = 0;
};

struct ConnectedQp {
  explicit ConnectedQp(QpOptions options = default_options(), CqOptions cq_options = {.entries = 63}) {
    kernel.device.cqe_comp_caps = {.max_num = 64, .supported_format = 7};
    context = open_fake(kernel);
    pd = *context->alloc_pd();
    auto made_cq = context->create_cq(cq_options);
    EXPECT_TRUE(made_cq) << made_cq.error().message();
    cq = std::move(*made_cq);
    options.send_cq = options.recv_cq = cq.get();
    auto made = pd->create_qp(options);
    EXPECT_TRUE(made) << made.error().message();
    qp = std::move(*made);
    connect();
    writer = std::make_unique<CqeWriter>(kernel.create_cq.buf_addr, cq->entries() + 1, cq_options.cqe_bytes);
  }

  // One SGE, 64-byte WQEs, 64 WQEBBs.
  static QpOptions default_options() {
    return {.capacity = {.max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 2},
            .send_operations = kAllPosted};
  }
  // Everything that post_send() has, without memory windows, which would make every WQE larger.
  static constexpr std::uint64_t kAllPosted = 0x27f;

  void connect() { EXPECT_TRUE(qp->connect({.gid = {}, .qpn = 0x4321, .psn = 5}, 7, {})); }

  const std::byte* ring() const { return qp->send_queue().config().ring; }
  std::byte* receive_ring() const { return qp->receive_queue().config().ring; }
  const std::uint32_t* record() const { return reinterpret_cast<const std::uint32_t*>(kernel.create_qp.db_addr); }
  const std::uint32_t* cq_record() const { return reinterpret_cast<const std::uint32_t*>(kernel.create_cq.db_addr); }
  std::uint32_t send_record() const { return __builtin_bswap32(record()[1]); }
  std::uint32_t receive_record() const { return __builtin_bswap32(record()[0]); }
  std::byte* uar() const { return kernel.uars[kernel.create_qp.bfreg_index - FakeKernel::kFirstPageId]; }

  PostResult post(const SendWr& request) { return qp->post_send({&request, 1}); }
  PostResult post(const RecvWr& request) { return qp->post_recv({&request, 1}); }
  CqeWriter::Entry entry(std::uint8_t opcode, std::uint16_t wqe_counter) const {
    return {.opcode = opcode, .number = kernel.create_qp.uidx, .qpn = qp->qpn(), .wqe_counter = wqe_counter};
  }
  std::vector<Completion> poll(std::size_t at_most = 64) {
    std::vector<Completion> completions(at_most);
    completions.resize(cq->poll(completions));
    return completions;
  }

  FakeKernel kernel;
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<Cq> cq;
  Owned<Qp> qp;
  std::unique_ptr<CqeWriter> writer;
};

}  // namespace umlx5::testing
