// Requests about CQs, QPs and SRQs, wrong ones too, and the records and counts of their events.
//
// Layouts and numbers: <rdma/ib_user_verbs.h>, <rdma/mlx5-abi.h>; events: ibv_event_type of <infiniband/verbs.h> and
// mlx5_event of Linux' mlx5/device.h; errno values: ib_uverbs' and mlx5_ib's.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <vector>

#include "tests/tools/softhca/kernel/soft_kernel.h"

namespace softhca::kernel {
namespace {

constexpr std::uint64_t kCqUserHandle = 0xc0, kQpUserHandle = 0x99, kSrqUserHandle = 0x5151;  // soft_kernel.h, and here
constexpr std::size_t kSecondBuffer = 64 * 1024;

class QueueRequestsTest : public testing::Test, protected SoftKernel {
 protected:
  void SetUp() override {
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(get_context(), 0);
    ASSERT_EQ(alloc_async_fd(async_fd), 0);
    ASSERT_EQ(alloc_pd(pd, pdn), 0);
    ASSERT_EQ(alloc_uar(uar_handle, uar, uar_offset), 0);
  }
  void TearDown() override { ::close(async_fd); }

  void make_cq(std::uint32_t cqe = 63) {
    std::uint32_t got = 0;
    ASSERT_EQ(create_cq(cqe, cq_driver(uar), cq, got), 0);
  }
  void make_qp() {
    make_cq();
    ASSERT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, qp_driver(uar), kSmallCap, qp), 0);
  }
  // A CQ whose events go to a completion channel.
  void make_cq_with_channel() {
    ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, std::uint64_t{0}, channel_fd), 0);
    mlx5_ib_create_cq_resp response{};
    const std::uint32_t cqe = 63, vector = 0;
    std::uint32_t got = 0;
    Ioctl request(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
    ASSERT_EQ(request.handle(UVERBS_ATTR_CREATE_CQ_HANDLE)
                  .out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, got)
                  .in(UVERBS_ATTR_CREATE_CQ_CQE, cqe)
                  .in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, kCqUserHandle)
                  .handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, static_cast<std::uint32_t>(channel_fd))
                  .in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, vector)
                  .in(UVERBS_ATTR_UHW_IN, cq_driver(uar))
                  .out(UVERBS_ATTR_UHW_OUT, response)
                  .run(*file),
              0);
    cq = static_cast<std::uint32_t>(request.attr_of(UVERBS_ATTR_CREATE_CQ_HANDLE).data);
    cqn = response.cqn;
    ASSERT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, qp_driver(uar), kSmallCap, qp), 0);  // gives the test the device's CQ
  }
  void arm(std::uint32_t sequence, std::uint32_t consumer) {
    firmware.ring(uar, 0x20, std::uint64_t{sequence << 28 | consumer} << 32 | cqn);
  }
  void complete() {
    const std::array<std::byte, 64> cqe{};
    firmware.hca().complete(*firmware.hca().find_qp(qp.qpn)->send_cq, cqe, {}, false);
    firmware.hca().poll();
  }
  void raise(std::uint8_t type, std::uint32_t number) {
    firmware.hca().async_event(type, number, 0);
    firmware.hca().poll();
  }
  ib_uverbs_destroy_cq_resp destroy_cq() {
    ib_uverbs_destroy_cq_resp counts{};
    EXPECT_EQ(Ioctl(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY)
                  .out(UVERBS_ATTR_DESTROY_CQ_RESP, counts)
                  .handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, cq)
                  .run(*file),
              0);
    return counts;
  }
  std::uint32_t destroy_qp() {
    std::uint32_t events = 77;
    EXPECT_EQ(Ioctl(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY)
                  .out(UVERBS_ATTR_DESTROY_QP_RESP, events)
                  .handle(UVERBS_ATTR_DESTROY_QP_HANDLE, qp.handle)
                  .run(*file),
              0);
    return events;
  }
  // Records that wait in a descriptor: 8 bytes each of a channel, 16 of asynchronous events.
  template <typename Record>
  static std::vector<Record> records(int fd) {
    std::vector<Record> all;
    pollfd waiting{fd, POLLIN, 0};
    Record record{};
    while (::poll(&waiting, 1, 0) == 1 && ::read(fd, &record, sizeof record) == sizeof record) {
      all.push_back(record);
    }
    return all;
  }
  std::vector<std::pair<std::uint64_t, std::uint32_t>> async_events() {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> all;
    for (const auto& record : records<ib_uverbs_async_event_desc>(async_fd)) {
      all.emplace_back(record.element, record.event_type);
    }
    return all;
  }

  int resize(std::uint32_t handle, std::uint32_t cqe, const mlx5_ib_resize_cq& driver, std::uint32_t& got) {
    const std::array<std::uint32_t, 4> request{0, 0, handle, cqe};
    return invoke(*file, IB_USER_VERBS_CMD_RESIZE_CQ, request, got, driver);
  }
  mlx5_ib_resize_cq resize_driver() const {
    return {.buf_addr = address_of(memory) + kSecondBuffer, .cqe_size = 64, .reserved0 = 0, .reserved1 = 0};
  }

  struct SrqAnswer {
    std::uint32_t handle, max_wr, max_sge, srqn;
  };
  mlx5_ib_create_srq srq_driver() const {
    mlx5_ib_create_srq driver{};
    driver.buf_addr = address_of(memory) + kSecondBuffer;
    driver.db_addr = address_of(memory) + kCqRecord + 128;
    driver.uidx = 1;
    return driver;
  }
  int create_srq(std::uint32_t max_wr, std::uint32_t max_sge, const mlx5_ib_create_srq& driver, SrqAnswer& answer) {
    struct {
      std::uint64_t response, user_handle;
      std::uint32_t pd, max_wr, max_sge, limit;
    } const request{0, kSrqUserHandle, pd, max_wr, max_sge, 0};
    std::uint64_t srqn = 0;
    return invoke(*file, IB_USER_VERBS_CMD_CREATE_SRQ, request, answer, driver, srqn);
  }

  int async_fd = -1, channel_fd = -1;
  std::uint32_t pd = 0, pdn = 0, uar_handle = 0, uar = 0, cq = 0, cqn = 0;
  std::uint64_t uar_offset = 0;
  QpAnswer qp;
};

// ---- CREATE_CQ ----

// As mlx5_ib's mini_cqe_res_format_to_hw() has them; cqc's mini_cqe_res_format is 13:12, cqe_comp_en 14 of its first
// word.
TEST_F(QueueRequestsTest, CompressionIsWhatTheRequestAsks) {
  make_cq();
  struct Row {
    std::uint8_t enable, format;
    int expected;
    std::uint32_t context_bits;
  };
  for (const Row& row :
       {Row{1, 1, 0, 1u << 14}, Row{1, 2, 0, 1u << 14 | 1u << 12}, Row{1, 4, 0, 1u << 14 | 3u << 12}, Row{0, 4, 0, 0},
        Row{2, 1, 0, 0}, Row{1, 0, EINVAL, 0}, Row{1, 3, EINVAL, 0}, Row{1, 8, EINVAL, 0}}) {
    auto driver = cq_driver(uar);
    driver.cqe_comp_en = row.enable;
    driver.cqe_comp_res_format = row.format;
    std::uint32_t handle = 0, got = 0;
    ASSERT_EQ(create_cq(63, driver, handle, got), row.expected) << int{row.enable} << " " << int{row.format};
    if (row.expected == 0) {
      QpAnswer asked;
      ASSERT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, handle, qp_driver(uar), kSmallCap, asked), 0);
      const auto& compression = firmware.hca().find_qp(asked.qpn)->send_cq->compression;
      const std::uint32_t bits =
          compression ? 1u << 14 | static_cast<std::uint32_t>(compression->format) << 12 : std::uint32_t{0};
      EXPECT_EQ(bits, row.context_bits) << int{row.enable} << " " << int{row.format};
    }
  }
}

// ---- RESIZE_CQ ----

TEST_F(QueueRequestsTest, ResizeRoundsUpToAPowerOfTwo) {
  make_cq();
  std::uint32_t got = 0;
  ASSERT_EQ(resize(cq, 200, resize_driver(), got), 0);
  EXPECT_EQ(got, 255u);
  ASSERT_EQ(resize(cq, 200, {}, got), 0) << "nothing changes, and the buffer is not looked at";
  EXPECT_EQ(got, 255u);
  ASSERT_EQ(resize(cq, 10, resize_driver(), got), 0);
  EXPECT_EQ(got, 15u);
}

TEST_F(QueueRequestsTest, ResizeIsChecked) {
  make_cq();
  std::uint32_t got = 0;
  EXPECT_EQ(resize(cq, 0, resize_driver(), got), EINVAL);
  EXPECT_EQ(resize(cq, 1u << 22, resize_driver(), got), EINVAL);
  EXPECT_EQ(resize(9999, 100, resize_driver(), got), EINVAL);
  EXPECT_EQ(resize(pd, 100, resize_driver(), got), EINVAL) << "a handle of another object";
  auto driver = resize_driver();
  driver.cqe_size = 32;
  EXPECT_EQ(resize(cq, 100, driver, got), EINVAL);
  driver = resize_driver();
  driver.reserved0 = 1;
  EXPECT_EQ(resize(cq, 100, driver, got), EINVAL);
  driver = resize_driver();
  driver.reserved1 = 1;
  EXPECT_EQ(resize(cq, 100, driver, got), EINVAL);
  driver = resize_driver();
  driver.buf_addr = 4096;
  EXPECT_EQ(resize(cq, 100, driver, got), EFAULT);
  driver = resize_driver();
  driver.buf_addr += 8;
  EXPECT_EQ(resize(cq, 100, driver, got), EINVAL);
  ASSERT_EQ(resize(cq, 63, {}, got), 0);
  EXPECT_EQ(got, 63u) << "what was refused changed nothing";
}

// ---- EX_CREATE_QP ----

class ExCreateQpTest : public QueueRequestsTest {
 protected:
  struct Response {
    std::uint32_t handle, qpn;
    ib_uverbs_qp_cap cap;
    std::uint32_t reserved, comp_mask, response_length;
  };
  static_assert(sizeof(Response) == sizeof(ib_uverbs_ex_create_qp_resp));

  void SetUp() override {
    QueueRequestsTest::SetUp();
    make_cq();
    asked.user_handle = kQpUserHandle;
    asked.pd_handle = pd;
    asked.send_cq_handle = asked.recv_cq_handle = cq;
    asked.max_send_wr = asked.max_recv_wr = 16;
    asked.max_send_sge = asked.max_recv_sge = 1;
    asked.qp_type = IB_UVERBS_QPT_RC;
  }
  int create() {
    constexpr std::uint64_t kExtended = 0x80000000;
    return invoke(*file, kExtended | IB_USER_VERBS_CMD_CREATE_QP, asked, response, qp_driver(uar), driver);
  }

  ib_uverbs_ex_create_qp asked{};
  Response response{};
  mlx5_ib_create_qp_resp driver{};
};

TEST_F(ExCreateQpTest, AnswersAsThePlainCommandAndTellsItsLength) {
  ASSERT_EQ(create(), 0);
  EXPECT_NE(response.qpn, 0u);
  EXPECT_EQ(response.cap.max_send_wr, 16u);
  EXPECT_EQ(response.cap.max_recv_wr, 16u);
  EXPECT_EQ(response.comp_mask, 0u);
  EXPECT_EQ(response.response_length, sizeof response);
  EXPECT_NE(firmware.hca().find_qp(response.qpn), nullptr);
  qp.handle = response.handle;
  EXPECT_EQ(destroy_qp(), 0u);
  EXPECT_EQ(firmware.hca().find_qp(response.qpn), nullptr);
}

TEST_F(ExCreateQpTest, IsChecked) {
  const ib_uverbs_ex_create_qp good = asked;
  const auto refused = [&](int expected, auto change) {
    asked = good;
    change();
    EXPECT_EQ(create(), expected);
  };
  refused(EINVAL, [&] { asked.comp_mask = 2; });            // only IND_TABLE is known
  refused(EINVAL, [&] { asked.comp_mask = 1; });            // an indirection table is for raw packets
  refused(EINVAL, [&] { asked.reserved = 1; });             //
  refused(EINVAL, [&] { asked.create_flags = 1u << 31; });  // not a flag of the ABI
  refused(EINVAL, [&] { asked.is_srq = 1; });               // no such SRQ
  refused(EINVAL, [&] { asked.pd_handle = 9999; });         //
  refused(EINVAL, [&] { asked.send_cq_handle = pd; });      // a handle of another object
  refused(EOPNOTSUPP, [&] { asked.create_flags = IB_UVERBS_QP_CREATE_SCATTER_FCS; });
  refused(EOPNOTSUPP, [&] { asked.create_flags = IB_UVERBS_QP_CREATE_CVLAN_STRIPPING; });
  refused(EINVAL, [&] { asked.qp_type = IB_UVERBS_QPT_DRIVER; });  // neither a DCI nor a DCT
  refused(EINVAL, [&] { asked.qp_type = 6; });
  asked = good;
  EXPECT_EQ(create(), 0);
}

// ---- CREATE_QP: what mlx5_ib says of an RC QP ----

struct QpRefusal {
  const char* what;
  int error;
  void (*change)(mlx5_ib_create_qp& driver, ib_uverbs_qp_cap& cap);
};
using Driver = mlx5_ib_create_qp;
using Cap = ib_uverbs_qp_cap;
constexpr QpRefusal kQpRefusals[] = {
    {"SqCountNoPowerOfTwo", EINVAL, [](Driver& d, Cap&) { d.sq_wqe_count = 48; }},
    {"SqCountAboveTheDevices", EINVAL, [](Driver& d, Cap&) { d.sq_wqe_count = 1 << 16; }},
    {"BothBfregAndUarPage", EINVAL, [](Driver& d, Cap&) { d.flags |= MLX5_QP_FLAG_BFREG_INDEX; }},
    {"NeitherBfregNorUarPage", EINVAL, [](Driver& d, Cap&) { d.flags &= ~std::uint32_t{MLX5_QP_FLAG_UAR_PAGE_INDEX}; }},
    {"UarPageNotAllocated", EINVAL, [](Driver& d, Cap&) { d.bfreg_index = 0x3ff; }},
    {"DciFlag", EINVAL, [](Driver& d, Cap&) { d.flags |= MLX5_QP_FLAG_TYPE_DCI; }},
    {"DctFlag", EINVAL, [](Driver& d, Cap&) { d.flags |= MLX5_QP_FLAG_TYPE_DCT; }},
    {"DciStreamFlag", EINVAL, [](Driver& d, Cap&) { d.flags |= MLX5_QP_FLAG_DCI_STREAM; }},
    {"TunnelFlag", EINVAL, [](Driver& d, Cap&) { d.flags |= MLX5_QP_FLAG_TUNNEL_OFFLOADS; }},
    {"UnknownFlag", EINVAL, [](Driver& d, Cap&) { d.flags |= 1u << 31; }},
    {"ReceiveWrsAboveTheDevices", EINVAL, [](Driver&, Cap& c) { c.max_recv_wr = 1 << 16; }},
    {"RqCountNoPowerOfTwo", EINVAL, [](Driver& d, Cap&) { d.rq_wqe_count = 12; }},
    {"RqShiftAboveTheWords", EINVAL, [](Driver& d, Cap&) { d.rq_wqe_shift = 32; }},
    {"RqWithoutReceiveWrs", EINVAL, [](Driver&, Cap& c) { c.max_recv_wr = 0; }},
    {"UserIndexOutOfRange", EINVAL, [](Driver& d, Cap&) { d.uidx = 0xffffff; }},
    {"BufferNotMapped", EFAULT, [](Driver& d, Cap&) { d.buf_addr = 4096; }},
    {"BufferNotAligned", EINVAL, [](Driver& d, Cap&) { d.buf_addr += 8; }},
    {"RecordNotMapped", EFAULT, [](Driver& d, Cap&) { d.db_addr = 4096; }},
};

class RcRefusalTest : public QueueRequestsTest, public testing::WithParamInterface<QpRefusal> {};
INSTANTIATE_TEST_SUITE_P(CreateQp, RcRefusalTest, testing::ValuesIn(kQpRefusals),
                         [](const auto& info) { return info.param.what; });

TEST_P(RcRefusalTest, HasItsErrnoAndLeavesNothing) {
  make_cq();
  mlx5_ib_create_qp driver = qp_driver(uar);
  ib_uverbs_qp_cap cap = kSmallCap;
  GetParam().change(driver, cap);
  EXPECT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, driver, cap, qp), GetParam().error);
  // Nothing holds the CQ, and the next QP is the first.
  ASSERT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, qp_driver(uar), kSmallCap, qp), 0);
  destroy_qp();
  destroy_cq();
}

TEST_F(QueueRequestsTest, FlagsForScatteringIntoCqesAreTaken) {
  make_cq();
  for (const std::uint32_t flag : {MLX5_QP_FLAG_SCATTER_CQE, MLX5_QP_FLAG_ALLOW_SCATTER_CQE}) {
    auto driver = qp_driver(uar);
    driver.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX | flag;
    EXPECT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, driver, kSmallCap, qp), 0) << flag;
    destroy_qp();
  }
}

// ---- SRQs ----

TEST_F(QueueRequestsTest, SrqSizesAreRounded) {
  SrqAnswer srq{};
  ASSERT_EQ(create_srq(100, 2, srq_driver(), srq), 0);
  EXPECT_EQ(srq.max_wr, 127u) << "one WQE of 128 stays empty";
  EXPECT_EQ(srq.max_sge, 2u);
  EXPECT_NE(srq.srqn, 0u);
}

TEST_F(QueueRequestsTest, SrqRequestIsChecked) {
  SrqAnswer srq{};
  EXPECT_EQ(create_srq(1u << 20, 1, srq_driver(), srq), EINVAL);
  EXPECT_EQ(create_srq(10, 1000, srq_driver(), srq), EINVAL);
  auto driver = srq_driver();
  driver.reserved0 = 1;
  EXPECT_EQ(create_srq(10, 1, driver, srq), EINVAL);
  driver = srq_driver();
  driver.reserved1 = 1;
  EXPECT_EQ(create_srq(10, 1, driver, srq), EINVAL);
  driver = srq_driver();
  driver.buf_addr = 4096;
  EXPECT_EQ(create_srq(10, 1, driver, srq), EFAULT);
  driver = srq_driver();
  driver.buf_addr += 8;
  EXPECT_EQ(create_srq(10, 1, driver, srq), EINVAL);
  driver = srq_driver();
  driver.db_addr = 4096;
  EXPECT_EQ(create_srq(10, 1, driver, srq), EFAULT);
  const std::uint32_t good_pd = std::exchange(pd, 9999);
  EXPECT_EQ(create_srq(10, 1, srq_driver(), srq), EINVAL);
  pd = good_pd;
  EXPECT_EQ(create_srq(10, 1, srq_driver(), srq), 0);
}

// ---- Records and counts of events ----

TEST_F(QueueRequestsTest, ACompletionEventNamesItsCqAndIsCountedWhenRead) {
  make_cq_with_channel();
  complete();
  EXPECT_TRUE(records<std::uint64_t>(channel_fd).empty()) << "nobody asked";
  arm(1, 1);
  complete();
  EXPECT_EQ(records<std::uint64_t>(channel_fd), (std::vector<std::uint64_t>{kCqUserHandle}));
  complete();
  EXPECT_TRUE(records<std::uint64_t>(channel_fd).empty()) << "one event for each request";
  arm(2, 3);
  complete();
  EXPECT_EQ(records<std::uint64_t>(channel_fd).size(), 1u);
  arm(3, 4);
  complete();  // and nobody reads this one
  destroy_qp();
  const auto counts = destroy_cq();
  EXPECT_EQ(counts.comp_events_reported, 2u);
  EXPECT_EQ(counts.async_events_reported, 0u);
  EXPECT_TRUE(records<std::uint64_t>(channel_fd).empty()) << "the unread one went with its CQ";
  ::close(channel_fd);
}

TEST_F(QueueRequestsTest, AnAsynchronousEventNamesItsQpAndIsCountedWhenRead) {
  make_qp();
  struct Meaning {
    std::uint8_t device;
    std::uint32_t verbs;
  };
  // Path migrated, communication established, SQ drained, fatal, migration failed, bad request, access, last WQE.
  constexpr Meaning kMeanings[] = {{1, 6}, {2, 4}, {3, 5}, {5, 1}, {7, 7}, {0x10, 2}, {0x11, 3}, {0x13, 16}};
  for (const Meaning& meaning : kMeanings) {
    raise(meaning.device, qp.qpn);
    EXPECT_EQ(async_events(), (std::vector<std::pair<std::uint64_t, std::uint32_t>>{{kQpUserHandle, meaning.verbs}}));
  }
  raise(2, qp.qpn + 1);
  EXPECT_TRUE(async_events().empty()) << "of a QP that does not exist";
  raise(2, qp.qpn);  // not read
  EXPECT_EQ(destroy_qp(), std::size(kMeanings));
  EXPECT_TRUE(async_events().empty());
}

TEST_F(QueueRequestsTest, AnOverrunOfACqIsAnAsynchronousEventOfIt) {
  make_cq_with_channel();
  for (int i = 0; i < 65; ++i) {
    complete();
  }
  const auto events = async_events();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front(), (std::pair<std::uint64_t, std::uint32_t>{kCqUserHandle, 0}));
  destroy_qp();
  EXPECT_EQ(destroy_cq().async_events_reported, 1u);
  ::close(channel_fd);
}

TEST_F(QueueRequestsTest, AnAsynchronousEventNamesItsSrq) {
  SrqAnswer srq{};
  ASSERT_EQ(create_srq(10, 1, srq_driver(), srq), 0);
  raise(0x14, srq.srqn);  // limit reached
  raise(0x12, srq.srqn);  // catastrophic
  EXPECT_EQ(async_events(),
            (std::vector<std::pair<std::uint64_t, std::uint32_t>>{{kSrqUserHandle, 15}, {kSrqUserHandle, 14}}));
  struct {
    std::uint64_t response;
    std::uint32_t srq, reserved;
  } const request{0, srq.handle, 0};
  std::uint32_t counted = 77;
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_DESTROY_SRQ, request, counted), 0);
  EXPECT_EQ(counted, 2u);
}

// Linux' mlx5_ib has no command for RTS to SQD, though ib_core's table knows the change.
TEST_F(QueueRequestsTest, NoSendQueueIsDrainedAtAProgramsWish) {
  make_qp();
  ib_uverbs_modify_qp m;
  std::memset(&m, 0, sizeof m);
  m.qp_handle = qp.handle;
  m.attr_mask = 1 | 1 << 1;  // STATE, CUR_STATE
  m.cur_qp_state = 3;        // RTS
  m.qp_state = 4;            // SQD
  const auto modify = [&] {
    std::array<std::byte, sizeof(ib_uverbs_modify_qp)> bytes{};
    std::memcpy(bytes.data(), &m, sizeof m);
    return invoke(*file, IB_USER_VERBS_CMD_MODIFY_QP, bytes);
  };
  EXPECT_EQ(modify(), EINVAL);
  m.cur_qp_state = 4;
  m.qp_state = 3;
  EXPECT_EQ(modify(), EINVAL) << "the device knows the state better";
}

}  // namespace
}  // namespace softhca::kernel
