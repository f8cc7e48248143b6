// Queue pairs of every type with a shared receive queue, from the requests that make them to the bytes of completions.
//
// Layouts: mlx5dv.h; numbers of attributes, states and events: <rdma/ib_user_verbs.h>, <infiniband/verbs.h>.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tests/tools/softhca/kernel/soft_kernel.h"

namespace softhca::kernel {
namespace {

constexpr std::uint32_t kEventSrqLimit = 15, kEventLastWqe = 16;  // ibv_event_type
constexpr std::uint32_t kQkey = 0x1234567;
constexpr std::size_t kSrqBuffer = 64 * 1024, kSrqRecord = SoftKernel::kCqRecord + 128;
constexpr std::size_t kSource = 96 * 1024, kTarget = 100 * 1024;
constexpr std::uint32_t kMessageBytes = 100, kMaxWr = 3;

template <typename Word>
void put(std::byte* to, Word value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    to[i] = static_cast<std::byte>(value >> (8 * (sizeof value - 1 - i)));
  }
}
template <typename Word>
Word get(const std::byte* from) {
  Word value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<Word>(value << 8 | static_cast<Word>(from[i]));
  }
  return value;
}

struct AsyncEvent {
  std::uint64_t element;
  std::uint32_t type, reserved;
  friend bool operator==(const AsyncEvent&, const AsyncEvent&) = default;
};
static_assert(sizeof(AsyncEvent) == sizeof(ib_uverbs_async_event_desc));

struct SrqNumbers {
  std::uint32_t handle, max_wr, max_sge, srqn;
};

class DataPathTest : public testing::TestWithParam<std::uint32_t>, protected SoftKernel {
 protected:
  void SetUp() override {
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(get_context(), 0);
    ASSERT_EQ(alloc_async_fd(async_fd), 0);
    ASSERT_EQ(alloc_pd(pd, pdn), 0);
    std::uint32_t uar_handle = 0, cqe = 0;
    std::uint64_t uar_offset = 0;
    ASSERT_EQ(alloc_uar(uar_handle, uar, uar_offset), 0);
    for (std::size_t i = 0; i < 256; ++i) {
      memory[i * 64 + 63] = std::byte{0xf0};
    }
    ASSERT_EQ(create_cq(255, cq_driver(uar), cq, cqe), 0);
    std::array<std::uint32_t, 3> mr{};
    ASSERT_EQ(reg_mr(pd, address_of(memory), kMemoryBytes, 7, mr), 0);
    lkey = mr[1];
  }
  void TearDown() override { ::close(async_fd); }

  int create_srq(SrqNumbers& srq) {
    mlx5_ib_create_srq driver{};
    driver.buf_addr = address_of(memory) + kSrqBuffer;
    driver.db_addr = address_of(memory) + kSrqRecord;
    std::uint64_t srqn = 0;
    struct {
      std::uint64_t response, user_handle;
      std::uint32_t pd, max_wr, max_sge, limit;
    } const request{0, 0x5151, pd, kMaxWr, 1, 0};
    const int error = invoke(*file, IB_USER_VERBS_CMD_CREATE_SRQ, request, srq, driver, srqn);
    EXPECT_TRUE(error != 0 || srqn == srq.srqn);
    return error;
  }
  int set_limit(std::uint32_t srq, std::uint32_t limit) {
    struct {
      std::uint32_t srq, mask, max_wr, limit;
    } const request{srq, 2, 0, limit};
    return invoke(*file, IB_USER_VERBS_CMD_MODIFY_SRQ, request);
  }
  // max_wr, max_sge, limit, reserved.
  std::array<std::uint32_t, 4> query_srq(std::uint32_t srq) {
    struct {
      std::uint64_t response;
      std::uint32_t srq, reserved;
    } const request{0, srq, 0};
    std::array<std::uint32_t, 4> answer{};
    EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_QUERY_SRQ, request, answer), 0);
    return answer;
  }
  int destroy_srq(std::uint32_t srq) {
    struct {
      std::uint64_t response;
      std::uint32_t srq, reserved;
    } const request{0, srq, 0};
    std::uint32_t events = 0;
    return invoke(*file, IB_USER_VERBS_CMD_DESTROY_SRQ, request, events);
  }

  int modify(std::uint32_t mask, std::uint8_t state) {
    ib_uverbs_modify_qp m;
    std::memset(&m, 0, sizeof m);
    m.qp_handle = qp.handle;
    m.attr_mask = mask | 1;
    m.qp_state = state;
    m.port_num = 1;
    m.qp_access_flags = 7;
    m.qkey = kQkey;
    m.path_mtu = 3;
    m.dest_qp_num = qp.qpn;
    m.rq_psn = m.sq_psn = 0xfffffe;
    m.timeout = 14;
    m.retry_cnt = m.rnr_retry = 7;
    m.max_rd_atomic = m.max_dest_rd_atomic = 1;
    m.min_rnr_timer = 12;
    const Gid gid = gid_of_ipv4(kTestAddress);
    std::memcpy(m.dest.dgid, gid.data(), gid.size());
    m.dest.is_global = 1;
    m.dest.port_num = 1;
    std::array<std::byte, sizeof(ib_uverbs_modify_qp)> bytes{};
    std::memcpy(bytes.data(), &m, sizeof m);
    return invoke(*file, IB_USER_VERBS_CMD_MODIFY_QP, bytes);
  }
  // The masks that ib_core asks for, of INIT, RTR and RTS.
  struct Masks {
    std::uint32_t init, rtr, rts;
  };
  static Masks masks_of(std::uint32_t type) {
    constexpr std::uint32_t kInit = 1 << 4 | 1 << 5;                           // PKEY_INDEX, PORT
    constexpr std::uint32_t kConnected = 1 << 7 | 1 << 8 | 1 << 12 | 1 << 20;  // AV, PATH_MTU, RQ_PSN, DEST_QPN
    constexpr std::uint32_t kSqPsn = 1 << 16;
    switch (type) {
      case IB_UVERBS_QPT_UD:
        return {kInit | 1 << 6, 0, kSqPsn};  // QKEY
      case IB_UVERBS_QPT_UC:
        return {kInit | 1 << 3, kConnected, kSqPsn};  // ACCESS_FLAGS
      default:
        return {kInit | 1 << 3, kConnected | 1 << 15 | 1 << 17, kSqPsn | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13};
    }
  }
  void create_qp_in_rts(std::uint32_t srq) {
    mlx5_ib_create_qp driver = qp_driver(uar);
    ASSERT_EQ(create_qp(GetParam(), pd, cq, driver, kSmallCap, qp, srq), EINVAL) << "no receive queue of its own";
    driver.rq_wqe_count = driver.rq_wqe_shift = 0;
    ASSERT_EQ(create_qp(GetParam(), pd, cq, driver, kSmallCap, qp, srq), 0);
    EXPECT_EQ(qp.cap.max_recv_wr, 0u);
    const Masks masks = masks_of(GetParam());
    for (std::uint32_t left_out = 1; left_out != 0; left_out <<= 1) {
      EXPECT_TRUE((masks.init & left_out) == 0 || modify(masks.init & ~left_out, 1) == EINVAL) << left_out;
    }
    ASSERT_EQ(modify(masks.init, 1), 0);
    for (std::uint32_t left_out = 1; left_out != 0; left_out <<= 1) {
      EXPECT_TRUE((masks.rtr & left_out) == 0 || modify(masks.rtr & ~left_out, 2) == EINVAL) << left_out;
    }
    EXPECT_TRUE(GetParam() != IB_UVERBS_QPT_UD || modify(1 << 7, 2) == EINVAL) << "a datagram QP has no path";
    ASSERT_EQ(modify(masks.rtr, 2), 0);
    ASSERT_EQ(modify(masks.rts, 3), 0);
  }

  void post_shared_receives(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      std::byte* const wqe = memory + kSrqBuffer + i * 32;
      put<std::uint16_t>(wqe + 2, static_cast<std::uint16_t>(i + 1));
      put<std::uint32_t>(wqe + 16, 1024);
      put<std::uint32_t>(wqe + 20, lkey);
      put<std::uint64_t>(wqe + 24, address_of(memory) + kTarget + i * 1024);
    }
    put<std::uint32_t>(memory + kSrqRecord, count);
  }
  // A SEND to the QP itself.
  void send() {
    std::byte* const wqe = memory + kQpBuffer + posted % 64 * 64;
    const bool datagram = GetParam() == IB_UVERBS_QPT_UD;
    const std::uint32_t octowords = datagram ? 5 : 2;
    put<std::uint32_t>(wqe, posted << 8 | 0x0a);
    put<std::uint32_t>(wqe + 4, qp.qpn << 8 | octowords);
    put<std::uint64_t>(wqe + 8, 0);
    wqe[11] = std::byte{0x08};
    std::byte* data = wqe + 16;
    if (datagram) {
      std::memset(data, 0, 48);
      put<std::uint32_t>(data, kQkey);
      put<std::uint32_t>(data + 8, 0x80000000 | qp.qpn);
      const Gid gid = gid_of_ipv4(kTestAddress);
      std::memcpy(data + 32, gid.data(), gid.size());
      data += 48;
    }
    put<std::uint32_t>(data, kMessageBytes);
    put<std::uint32_t>(data + 4, lkey);
    put<std::uint64_t>(data + 8, address_of(memory) + kSource);
    posted += datagram ? 2 : 1;
    put<std::uint32_t>(memory + kQpRecord + 4, posted);
    firmware.ring(uar, 0x800, get<std::uint64_t>(wqe));
    for (int i = 0; i < 100; ++i) {
      firmware.hca().poll();
    }
  }

  // Opcodes of the completions so far, sorted: 0 of the requester, 2 of the responder.
  std::vector<unsigned> completions() {
    std::vector<unsigned> opcodes;
    for (std::size_t i = 0; i < 256 && memory[i * 64 + 63] != std::byte{0xf0}; ++i) {
      opcodes.push_back(static_cast<unsigned>(memory[i * 64 + 63]) >> 4);
    }
    std::sort(opcodes.begin(), opcodes.end());
    return opcodes;
  }
  const std::byte* last_receive() {
    const std::byte* found = nullptr;
    for (std::size_t i = 0; i < 256 && memory[i * 64 + 63] != std::byte{0xf0}; ++i) {
      found = static_cast<unsigned>(memory[i * 64 + 63]) >> 4 == 2 ? memory + i * 64 : found;
    }
    return found;
  }
  std::vector<AsyncEvent> events() {
    std::vector<AsyncEvent> read_events;
    pollfd waiting{async_fd, POLLIN, 0};
    AsyncEvent event;
    while (::poll(&waiting, 1, 0) == 1 && ::read(async_fd, &event, sizeof event) == sizeof event) {
      read_events.push_back(event);
    }
    return read_events;
  }

  int async_fd = -1;
  std::uint32_t pd = 0, pdn = 0, uar = 0, cq = 0, lkey = 0;
  QpAnswer qp;
  std::uint32_t posted = 0;
};
INSTANTIATE_TEST_SUITE_P(DataPathTest, DataPathTest,
                         testing::Values(IB_UVERBS_QPT_RC, IB_UVERBS_QPT_UC, IB_UVERBS_QPT_UD), [](const auto& info) {
                           return info.param == IB_UVERBS_QPT_RC ? "Rc" : info.param == IB_UVERBS_QPT_UC ? "Uc" : "Ud";
                         });

TEST_P(DataPathTest, SharedReceiveQueueServesAndTellsOfItsLimit) {
  SrqNumbers srq{};
  ASSERT_EQ(create_srq(srq), 0);
  EXPECT_EQ(srq.max_wr, 3u);
  ASSERT_NO_FATAL_FAILURE(create_qp_in_rts(srq.handle));
  EXPECT_EQ(destroy_srq(srq.handle), EBUSY);
  EXPECT_EQ(set_limit(srq.handle, 4), EINVAL) << "more than it has WQEs";
  ASSERT_EQ(set_limit(srq.handle, 2), 0);
  EXPECT_EQ(query_srq(srq.handle), (std::array<std::uint32_t, 4>{3, 1, 2, 0}));
  for (std::uint32_t i = 0; i < kMessageBytes; ++i) {
    memory[kSource + i] = static_cast<std::byte>(i * 7 + 1);
  }
  post_shared_receives(3);

  send();
  EXPECT_EQ(completions(), (std::vector<unsigned>{0, 2}));
  EXPECT_EQ(events(), std::vector<AsyncEvent>{}) << "two are left, which is the limit";
  send();
  EXPECT_EQ(completions(), (std::vector<unsigned>{0, 0, 2, 2}));
  EXPECT_EQ(events(), (std::vector<AsyncEvent>{{0x5151, kEventSrqLimit, 0}}));
  EXPECT_EQ(query_srq(srq.handle)[2], 0u) << "an event disarms";
  send();
  EXPECT_EQ(events(), std::vector<AsyncEvent>{});

  const std::uint32_t header = GetParam() == IB_UVERBS_QPT_UD ? 40 : 0;
  const std::byte* const cqe = last_receive();
  ASSERT_NE(cqe, nullptr);
  EXPECT_EQ(get<std::uint16_t>(cqe + 60), 2u) << "the WQE's index";
  EXPECT_EQ(get<std::uint32_t>(cqe + 44), kMessageBytes + header);
  EXPECT_EQ(get<std::uint32_t>(cqe + 24), (header != 0 ? 0x12000000 : 0) | qp.qpn);
  EXPECT_EQ(get<std::uint32_t>(cqe + 56), qp.qpn);
  EXPECT_EQ(std::memcmp(memory + kSource, memory + kTarget + 2 * 1024 + header, kMessageBytes), 0);

  ASSERT_EQ(modify(0, 6), 0);  // ERR
  EXPECT_EQ(events(), (std::vector<AsyncEvent>{{0x99, kEventLastWqe, 0}}));
}

TEST_P(DataPathTest, AFailedSendStopsTheSendQueueAsItsTypeAsks) {
  SrqNumbers srq{};
  ASSERT_EQ(create_srq(srq), 0);
  ASSERT_NO_FATAL_FAILURE(create_qp_in_rts(srq.handle));
  post_shared_receives(3);
  const std::uint32_t good_key = std::exchange(lkey, 0xdead00);
  send();
  lkey = good_key;
  EXPECT_EQ(completions(), (std::vector<unsigned>{13}));
  struct {
    std::uint64_t response;
    std::uint32_t qp, mask;
  } const query{0, qp.handle, 0xffffffff};
  std::array<std::byte, sizeof(ib_uverbs_query_qp_resp)> answer{};
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_QUERY_QP, query, answer), 0);
  ib_uverbs_query_qp_resp attributes;
  std::memcpy(&attributes, answer.data(), sizeof answer);
  const bool reliable = GetParam() == IB_UVERBS_QPT_RC;
  EXPECT_EQ(attributes.qp_state, reliable ? 6 : 5) << "ERR or SQE";
  EXPECT_EQ(modify(0, 3), reliable ? EINVAL : 0);
  if (!reliable) {
    send();
    EXPECT_EQ(completions(), (std::vector<unsigned>{0, 2, 13}));
  }
}

}  // namespace
}  // namespace softhca::kernel
