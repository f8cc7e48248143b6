// What may be asked of a queue pair, type by type, and what the kernel and the device are then told.
//
// Expected values: behaviour of mlx5dv_create_qp() and mlx5dv_modify_qp() in rdma-core v65 (providers/mlx5/verbs.c,
// qp.c), with names and numbers of <infiniband/verbs.h>, <infiniband/mlx5dv.h> and <rdma/mlx5-abi.h>.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "driver/dv_flags.h"
#include "driver/srq.h"
#include "driver/xrcd.h"
#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using testing::FakeKernel;
using testing::open_fake;

constexpr std::uint64_t kDv = std::uint64_t{1} << 32;  // where QpOptions has mlx5dv's operations
constexpr std::uint32_t kOutOfOrder = 1 << 7;          // MLX5DV_QP_CREATE_OOO_DP

// Capabilities of the general group: the dword at 0x64 has out-of-order placement by transport in bits 15 to 11 (UD,
// UC, XRC, DC, RC); bit 23 of the one at 0xe8 is dma_mmo_qp.
void set_capability(FakeKernel& kernel, std::size_t offset, unsigned bit) {
  kernel.capabilities.resize(0x1000);
  kernel.capabilities[offset + 3 - bit / 8] |= std::byte{static_cast<unsigned char>(1u << bit % 8)};
}

FakeKernel everything() {
  FakeKernel kernel;
  kernel.ucontext.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS;
  kernel.device.flags = 1 << 4;  // out-of-order placement
  kernel.device.dci_streams_caps = {.max_log_num_concurent = 4, .max_log_num_errored = 2};
  for (unsigned bit = 11; bit <= 15; ++bit) {
    set_capability(kernel, 0x64, bit);
  }
  set_capability(kernel, 0xe8, 23);
  return kernel;
}

// A context with what queue pairs need.
struct Bench {
  explicit Bench(FakeKernel given = everything()) : kernel(std::move(given)), context(open_fake(kernel)) {
    pd = *context->alloc_pd();
    cq = *context->create_cq({.entries = 63});
    xrcd = *context->open_xrcd(-1, 0);
    srq = *pd->create_srq({.max_wr = 15});
  }

  QpOptions options(QpType type) const {
    QpOptions options{.type = type};
    options.capacity = {.max_send_wr = 1, .max_send_sge = 1};
    if (type != QpType::kXrcRecv) {
      options.send_cq = cq.get();
      options.recv_cq = cq.get();
    }
    return options;
  }
  QpOptions dc(DcType type) const {
    QpOptions given = options(QpType::kDriver);
    given.dc_type = type;
    given.srq = type == DcType::kDct ? srq.get() : nullptr;
    return given;
  }

  Expected<Owned<Qp>> create(const QpOptions& options) {
    return options.type == QpType::kXrcRecv ? xrcd->create_qp(options) : pd->create_qp(options);
  }
  int errno_of(const QpOptions& options) {
    const auto qp = create(options);
    return qp ? 0 : qp.error().errno_value;
  }

  FakeKernel kernel;
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<Cq> cq;
  Owned<Xrcd> xrcd;
  Owned<Srq> srq;
};

// ---- Refusals; those of one rule each are in creation_rows.h ----

// What wins when several things are wrong.
TEST(QpOptions, OrderOfRefusals) {
  Bench bench;
  QpOptions options = bench.options(QpType::kUc);
  options.send_operations = IBV_QP_EX_WITH_RDMA_READ;  // EOPNOTSUPP
  options.capacity.max_send_sge = 1000;                // EINVAL
  EXPECT_EQ(bench.errno_of(options), EOPNOTSUPP);
  options.source_qpn = 5;  // EINVAL
  EXPECT_EQ(bench.errno_of(options), EINVAL);
  options = bench.options(QpType::kRawPacket);
  options.dv_create_flags = kOutOfOrder | 1 << 3 | 1 << 4;  // EOPNOTSUPP, EINVAL
  EXPECT_EQ(bench.errno_of(options), EINVAL);
}

TEST(QpOptions, WithoutCapabilitiesNothingSpecial) {
  Bench bench{FakeKernel{}};
  QpOptions options = bench.options(QpType::kRc);
  options.dv_create_flags = dv::kSignaturePipelining;
  EXPECT_EQ(bench.errno_of(options), EOPNOTSUPP);
  options.dv_create_flags = kOutOfOrder;
  EXPECT_EQ(bench.errno_of(options), EOPNOTSUPP);
  options.dv_create_flags = 0;
  options.dv_send_operations = kDv * MLX5DV_QP_EX_WITH_MEMCPY;
  EXPECT_EQ(bench.errno_of(options), EOPNOTSUPP);
  options = bench.dc(DcType::kDci);
  options.dci_streams = {0, 0};
  EXPECT_EQ(bench.errno_of(options), 0);
  options.dci_streams = {1, 0};
  EXPECT_EQ(bench.errno_of(options), EINVAL);
}

TEST(QpOptions, AtomicsNeedADeviceThatHasThem) {
  FakeKernel kernel = everything();
  kernel.atomic_cap = 0;
  Bench bench(kernel);
  QpOptions options = bench.options(QpType::kRc);
  for (const std::uint64_t operation : {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD}) {
    options.send_operations = operation;
    EXPECT_EQ(bench.errno_of(options), EOPNOTSUPP);
  }
  options.send_operations = std::nullopt;
  EXPECT_EQ(bench.errno_of(options), 0);
}

// ---- Send operations ----

struct Allowed {
  QpType type;
  DcType dc_type;
  std::uint64_t verbs, dv;
};

constexpr std::uint64_t kUcOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                        IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                                        IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
constexpr std::uint64_t kRcOperations =
    kUcOperations | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

constexpr Allowed kAllowed[] = {
    {QpType::kRc, DcType::kNone, kRcOperations, 31},
    {QpType::kXrcSend, DcType::kNone, kRcOperations, 8},
    {QpType::kDriver, DcType::kDci, kRcOperations, 24},
    {QpType::kUc, DcType::kNone, kUcOperations, 8},
    {QpType::kUd, DcType::kNone, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM, 8},
    {QpType::kRawPacket, DcType::kNone, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO, 8},
};

TEST(QpOptions, SendOperationsOfEachType) {
  Bench bench;
  for (const Allowed& row : kAllowed) {
    SCOPED_TRACE(to_string(row.type));
    const QpOptions plain = row.dc_type == DcType::kNone ? bench.options(row.type) : bench.dc(row.dc_type);
    for (unsigned bit = 0; bit < 12; ++bit) {
      QpOptions options = plain;
      options.send_operations = std::uint64_t{1} << bit;
      EXPECT_EQ(bench.errno_of(options), (row.verbs >> bit & 1) != 0 ? 0 : EOPNOTSUPP) << "verbs bit " << bit;
    }
    for (unsigned bit = 0; bit < 6; ++bit) {
      QpOptions options = plain;
      options.dv_send_operations = kDv << bit;
      EXPECT_EQ(bench.errno_of(options), (row.dv >> bit & 1) != 0 ? 0 : EOPNOTSUPP) << "mlx5dv bit " << bit;
    }
  }
}

// ---- Flags of the kernel's request ----

struct KernelFlags {
  QpType type;
  DcType dc_type;
  std::uint32_t dv_create_flags;
  std::uint32_t expected;  // but for UAR_PAGE_INDEX
};

constexpr KernelFlags kKernelFlags[] = {
    {QpType::kRc, DcType::kNone, 0, MLX5_QP_FLAG_SCATTER_CQE},
    {QpType::kRawPacket, DcType::kNone, MLX5DV_QP_CREATE_TUNNEL_OFFLOADS,
     MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_TUNNEL_OFFLOADS},
    {QpType::kRawPacket, DcType::kNone, MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC,
     MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC},
    {QpType::kRawPacket, DcType::kNone, MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC,
     MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC},
    {QpType::kRc, DcType::kNone, MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, 0},
    {QpType::kRc, DcType::kNone, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE,
     MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE},
    {QpType::kRc, DcType::kNone, MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE,
     MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE},
    {QpType::kRc, DcType::kNone, MLX5DV_QP_CREATE_SIG_PIPELINING, MLX5_QP_FLAG_SCATTER_CQE},
    {QpType::kRc, DcType::kNone, kOutOfOrder, MLX5_QP_FLAG_SCATTER_CQE},
    {QpType::kDriver, DcType::kDci, 0, MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_TYPE_DCI},
};

TEST(QpOptions, FlagsThatTheKernelIsTold) {
  Bench bench;
  for (const KernelFlags& row : kKernelFlags) {
    QpOptions options = row.dc_type == DcType::kNone ? bench.options(row.type) : bench.dc(row.dc_type);
    options.dv_create_flags = row.dv_create_flags;
    EXPECT_EQ(bench.errno_of(options), 0);
    EXPECT_EQ(bench.kernel.create_qp.flags, row.expected | MLX5_QP_FLAG_UAR_PAGE_INDEX)
        << to_string(row.type) << " " << row.dv_create_flags;
  }
}

TEST(QpOptions, VerbsFlagsAndEceAreHandedOn) {
  FakeKernel kernel = everything();
  kernel.ucontext.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE;
  Bench bench(kernel);
  QpOptions options = bench.options(QpType::kUd);
  options.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  options.signal_all = true;
  EXPECT_EQ(bench.errno_of(options), 0);
  EXPECT_EQ(bench.kernel.qp_flags, 1u << 1 | 1u << 12);
  EXPECT_EQ(bench.kernel.create_qp.ece_options, 0x10000000u);
}

// ---- The types ----

TEST(QpTypes, XrcTargetHasNoQueuesAndNoUserIndex) {
  Bench bench;
  Qp& rc = *bench.create(bench.options(QpType::kRc))->release();  // the context's from now on
  EXPECT_EQ(rc.srq(), nullptr);
  auto qp = bench.create(bench.options(QpType::kXrcRecv));
  ASSERT_TRUE(qp) << qp.error().message();
  const FakeKernel& kernel = bench.kernel;
  EXPECT_EQ(kernel.qp_type, static_cast<std::uint32_t>(IBV_QPT_XRC_RECV));
  EXPECT_TRUE(kernel.qp_attributes.contains(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE));
  for (const unsigned absent : {UVERBS_ATTR_CREATE_QP_PD_HANDLE, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE,
                                UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE}) {
    EXPECT_FALSE(kernel.qp_attributes.contains(absent)) << absent;
  }
  EXPECT_EQ(kernel.create_qp.uidx, 0u);
  EXPECT_EQ(kernel.create_qp.sq_wqe_count, 0u);
  EXPECT_EQ(kernel.create_qp.rq_wqe_count, 0u);
  EXPECT_EQ((*qp)->pd(), nullptr);
  EXPECT_EQ((*qp)->post_send(std::array{SendWr{}}).error, EINVAL);
  EXPECT_EQ((*qp)->post_recv(std::array{RecvWr{}}).error, EINVAL);
  EXPECT_EQ(bench.pd->create_qp(bench.options(QpType::kXrcRecv)).error().errno_value, EINVAL);
  EXPECT_EQ(bench.xrcd->create_qp(bench.options(QpType::kRc)).error().errno_value, EINVAL);
}

TEST(QpTypes, XrcSenderReceivesNothing) {
  Bench bench;
  QpOptions options = bench.options(QpType::kXrcSend);
  options.capacity.max_recv_wr = 100;
  options.capacity.max_recv_sge = 2;
  EXPECT_EQ(bench.errno_of(options), 0);
  EXPECT_EQ(bench.kernel.create_qp.rq_wqe_count, 0u);
  EXPECT_EQ(bench.kernel.qp_capabilities.max_recv_wr, 0u);
  EXPECT_EQ(bench.kernel.qp_capabilities.max_recv_sge, 0u);
  EXPECT_FALSE(bench.kernel.qp_attributes.contains(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE));
}

TEST(QpTypes, SrqTakesTheReceiveQueuesPlace) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRc);
  options.srq = bench.srq.get();
  options.capacity.max_recv_wr = 100;
  auto qp = bench.create(options);
  ASSERT_TRUE(qp);
  EXPECT_TRUE(bench.kernel.qp_attributes.contains(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE));
  EXPECT_EQ(bench.kernel.create_qp.rq_wqe_count, 0u);
  EXPECT_EQ((*qp)->capacity().max_recv_wr, 0u);
  options.capacity.max_recv_wr = 32769;  // checked all the same
  EXPECT_EQ(bench.errno_of(options), EINVAL);
}

TEST(QpTypes, RawPacketHasTwoBuffersAndReceivesNothingBeforeRtr) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRawPacket);
  options.capacity.max_recv_wr = 8;
  options.capacity.max_recv_sge = 1;
  auto qp = *bench.create(options);
  const mlx5_ib_create_qp& request = bench.kernel.create_qp;
  EXPECT_NE(request.sq_buf_addr, 0u);
  EXPECT_NE(request.sq_buf_addr, request.buf_addr);
  EXPECT_EQ(qp->send_queue().config().ring, reinterpret_cast<std::byte*>(request.sq_buf_addr));
  const auto& record = *reinterpret_cast<const std::uint32_t*>(request.db_addr);
  EXPECT_TRUE(qp->to_init({}));
  EXPECT_EQ(qp->post_recv(std::array{RecvWr{}, RecvWr{}}).posted, 2u);
  EXPECT_EQ(record, 0u);
  EXPECT_TRUE(qp->to_rtr({}));
  EXPECT_EQ(__builtin_bswap32(record), 2u);
  EXPECT_EQ(qp->post_recv(std::array{RecvWr{}}).posted, 1u);
  EXPECT_EQ(__builtin_bswap32(record), 3u);
  EXPECT_TRUE(qp->to_reset());
  EXPECT_EQ(record, 0u);
  EXPECT_TRUE(qp->to_init({}));
  EXPECT_EQ(qp->post_recv(std::array{RecvWr{}}).posted, 1u);
  EXPECT_EQ(record, 0u);
}

TEST(QpTypes, DctGetsItsNumberAtRtr) {
  Bench bench;
  QpOptions options = bench.dc(DcType::kDct);
  options.dct_access_key = 0x1122334455667788;
  auto qp = *bench.create(options);
  const mlx5_ib_create_qp& request = bench.kernel.create_qp;
  EXPECT_EQ(request.flags, static_cast<std::uint32_t>(MLX5_QP_FLAG_TYPE_DCT));  // the device does not scatter for DCTs
  EXPECT_EQ(request.access_key, 0x1122334455667788u);
  EXPECT_EQ(request.buf_addr, 0u);
  EXPECT_EQ(request.db_addr, 0u);
  EXPECT_EQ(request.bfreg_index, 0u);
  EXPECT_EQ(qp->qpn(), 0u);
  EXPECT_TRUE(qp->to_init({}));
  bench.kernel.modify_response.response_length = 4;  // of a kernel that does not tell
  EXPECT_EQ(qp->to_rtr({}).error().errno_value, EINVAL);
  EXPECT_EQ(qp->qpn(), 0u);
  bench.kernel.modify_response.response_length = 8;
  bench.kernel.modify_response.dctn = 0x4567;
  EXPECT_TRUE(qp->to_rtr({}));
  EXPECT_EQ(qp->qpn(), 0x4567u);
  EXPECT_EQ(bench.kernel.driver_modifications.size(), 3u);  // all in the extended form
  // STATE | ACCESS_FLAGS | PKEY_INDEX | PORT, then STATE | MIN_RNR_TIMER | AV | PATH_MTU: the kernel takes no others.
  EXPECT_EQ(bench.kernel.modifications[0].attr_mask, 0x39u);
  EXPECT_EQ(bench.kernel.modifications[2].attr_mask, 0x8181u);

  bench.kernel.device.flags |= MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT;
  Bench scattering(bench.kernel);
  EXPECT_EQ(scattering.errno_of(scattering.dc(DcType::kDct)), 0);
  EXPECT_EQ(scattering.kernel.create_qp.flags,
            static_cast<std::uint32_t>(MLX5_QP_FLAG_TYPE_DCT | MLX5_QP_FLAG_SCATTER_CQE));
}

TEST(QpTypes, DciWithStreamsAndOperations) {
  Bench bench;
  QpOptions options = bench.dc(DcType::kDci);
  options.dci_streams = {4, 2};
  options.send_operations = IBV_QP_EX_WITH_SEND;
  EXPECT_EQ(bench.errno_of(options), 0);
  const mlx5_ib_create_qp& request = bench.kernel.create_qp;
  EXPECT_EQ(request.flags, static_cast<std::uint32_t>(MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_DCI_STREAM |
                                                      MLX5_QP_FLAG_UAR_PAGE_INDEX));  // no scatter to CQE
  EXPECT_EQ(request.dci_streams.log_num_concurent, 4);
  EXPECT_EQ(request.dci_streams.log_num_errored, 2);
  EXPECT_EQ(request.sq_wqe_count, 2u);  // 16 + 48 + 16 bytes
}

TEST(QpTypes, RssIsARequestOfItsOwn) {
  Bench bench;
  std::array<std::uint8_t, 40> key{};
  key.fill(0x5a);
  QpOptions options{.type = QpType::kRawPacket};
  options.rss = RssOptions{.table = {7}, .function = 1, .key = key, .fields = IBV_RX_HASH_SRC_IPV4};
  options.dv_create_flags = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS;
  auto qp = bench.create(options);
  ASSERT_TRUE(qp) << qp.error().message();
  const mlx5_ib_create_qp_rss& request = bench.kernel.create_rss;
  EXPECT_EQ(request.rx_hash_fields_mask, static_cast<std::uint64_t>(IBV_RX_HASH_SRC_IPV4));
  EXPECT_EQ(request.rx_hash_function, 1);
  EXPECT_EQ(request.rx_key_len, 40);
  EXPECT_EQ(request.rx_hash_key[39], 0x5a);
  EXPECT_EQ(request.flags, static_cast<std::uint32_t>(MLX5_QP_FLAG_TUNNEL_OFFLOADS));
  EXPECT_TRUE(bench.kernel.qp_attributes.contains(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE));
  EXPECT_EQ((*qp)->modify({.state = IBV_QPS_INIT}, IBV_QP_STATE).error().errno_value, EOPNOTSUPP);
  EXPECT_EQ((*qp)->query(IBV_QP_STATE).error().errno_value, EOPNOTSUPP);
}

TEST(QpTypes, AnotherProcessesTargetIsOpened) {
  Bench bench;
  auto qp = bench.xrcd->open_qp(0x77);
  ASSERT_TRUE(qp) << qp.error().message();
  EXPECT_EQ((*qp)->type(), QpType::kXrcRecv);
  EXPECT_EQ(bench.xrcd.destroy().error().errno_value, EBUSY);
}

// ---- Out-of-order placement, signature pipelining, copying ----

TEST(OutOfOrder, ReceiveQueueIsDoubledAndChangesAreExtended) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRc);
  options.dv_create_flags = kOutOfOrder;
  options.capacity.max_recv_wr = 100;
  options.capacity.max_recv_sge = 1;
  auto qp = *bench.create(options);
  EXPECT_EQ(bench.kernel.create_qp.rq_wqe_count, 256u);
  EXPECT_EQ(qp->capacity().max_recv_wr, 128u);
  EXPECT_TRUE(qp->connect({}, 0, {}));
  ASSERT_EQ(bench.kernel.driver_modifications.size(), 3u);
  EXPECT_EQ(bench.kernel.driver_modifications[0].comp_mask, 1u);  // at INIT only
  EXPECT_EQ(bench.kernel.driver_modifications[1].comp_mask, 0u);
  EXPECT_EQ(bench.kernel.driver_modifications[2].comp_mask, 0u);
  for (int i = 0; i < 128; ++i) {
    ASSERT_EQ(qp->post_recv(std::array{RecvWr{}}).error, 0) << i;
  }
  EXPECT_EQ(qp->post_recv(std::array{RecvWr{}}).error, ENOMEM);
  options.capacity.max_recv_wr = 16384;
  EXPECT_EQ(bench.errno_of(options), 0);
  options.capacity.max_recv_wr = 16385;  // half of the device's 32768 is the most
  EXPECT_EQ(bench.errno_of(options), EINVAL);
  EXPECT_EQ(bench.context->capabilities().out_of_order.max_xrc, 32768u);
}

TEST(OutOfOrder, EachTransportHasItsOwnBit) {
  const struct {
    QpType type;
    unsigned bit;
  } rows[] = {{QpType::kUd, 15}, {QpType::kUc, 14}, {QpType::kXrcSend, 13}, {QpType::kXrcRecv, 13}, {QpType::kRc, 11}};
  for (const auto& has : rows) {
    FakeKernel kernel;
    kernel.device.flags = 1 << 4;
    set_capability(kernel, 0x64, has.bit);
    Bench bench(kernel);
    for (const auto& row : rows) {
      QpOptions options = bench.options(row.type);
      options.dv_create_flags = kOutOfOrder;
      EXPECT_EQ(bench.errno_of(options), row.bit == has.bit ? 0 : EOPNOTSUPP)
          << to_string(row.type) << " with bit " << has.bit;
    }
  }
}

// INIT2INIT_QP: opcode 0x50e, QPN in dword 2, opt_param_mask in dword 4, the QP's context from 0x18 on.
TEST(AtInit, SignaturePipeliningDrainsOnErrors) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRc);
  options.dv_create_flags = MLX5DV_QP_CREATE_SIG_PIPELINING;
  auto qp = *bench.create(options);
  EXPECT_TRUE(bench.kernel.devx_modifications.empty());
  EXPECT_TRUE(qp->connect({}, 0, {}));
  ASSERT_EQ(bench.kernel.devx_modifications.size(), 1u);
  const std::byte* const in = bench.kernel.devx_modifications[0].data();
  EXPECT_EQ(testing::big32(in) >> 16, 0x50eu);
  EXPECT_EQ(testing::big32(in + 8), qp->qpn());
  EXPECT_EQ(testing::big32(in + 0x10), 1u << 11);
  EXPECT_EQ(testing::big32(in + 0x18 + 4), 1u << 26);  // drain_sigerr
}

TEST(AtInit, RefusalOfTheDeviceIsTold) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRc);
  options.dv_create_flags = MLX5DV_QP_CREATE_SIG_PIPELINING;
  auto qp = *bench.create(options);
  bench.kernel.devx_status = 8;  // limits exceeded
  EXPECT_EQ(qp->to_init({}).error().errno_value, ENOMEM);
  bench.kernel.devx_status = 3;  // bad parameter
  EXPECT_EQ(qp->to_init({}).error().errno_value, EINVAL);
  EXPECT_EQ(qp->state(), QpState::kReset);
}

TEST(AtInit, CopyingIsSwitchedOnAndHasItsScratchMemory) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRc);
  options.dv_send_operations = kDv * MLX5DV_QP_EX_WITH_MEMCPY;
  auto qp = *bench.create(options);
  auto second = *bench.create(options);
  ASSERT_NE(qp->memcpy_scratch(), nullptr);
  EXPECT_EQ(qp->memcpy_scratch(), second->memcpy_scratch());  // one for the PD
  EXPECT_EQ(qp->memcpy_scratch()->length_bytes(), 64u);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(qp->memcpy_scratch()->address()) % 64, 0u);
  EXPECT_EQ(bench.kernel.reg_mr.access_flags, static_cast<std::uint32_t>(IBV_ACCESS_LOCAL_WRITE));
  EXPECT_TRUE(qp->to_init({}));
  ASSERT_EQ(bench.kernel.devx_modifications.size(), 1u);
  const auto& mailbox = bench.kernel.devx_modifications[0];
  ASSERT_EQ(mailbox.size(), 0x110u + 192u);
  EXPECT_EQ(testing::big32(mailbox.data()) >> 16, 0x50eu);
  EXPECT_EQ(testing::big32(mailbox.data() + 8), 1u << 31 | qp->qpn());  // qpc_ext
  EXPECT_EQ(testing::big64(mailbox.data() + 0x108), 1u << 3);           // opt_param_mask_95_32
  EXPECT_EQ(testing::big32(mailbox.data() + 0x110), 1u << 29);          // mmo
  EXPECT_TRUE(qp.destroy());
  EXPECT_TRUE(second.destroy());
  EXPECT_TRUE(bench.srq.destroy());
  EXPECT_TRUE(bench.pd.destroy());  // the scratch memory goes with it
  for (const auto& [handle, kind] : bench.kernel.live) {
    EXPECT_NE(kind, "MR");
  }
}

// WQE: control segment with opmod 1 and opcode 0x2f, metadata with the scratch memory, source, destination (rdma-core
// providers/mlx5/wqe.h struct mlx5_mmo_wqe); a length of 2^31 has no bit in its field.
TEST(Copy, WqeAndRefusals) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRc);
  options.dv_send_operations = kDv * MLX5DV_QP_EX_WITH_MEMCPY;
  auto qp = *bench.create(options);
  ASSERT_TRUE(qp->connect({}, 0, {}));
  MemoryCopy copy{.destination = 0x1122334455667788,
                  .source = 0x99,
                  .destination_lkey = 0x77,
                  .source_lkey = 0x66,
                  .length_bytes = 0x80000001};
  EXPECT_EQ(qp->copy_memory(copy, {}, 1).error().errno_value, EINVAL);
  copy.length_bytes = 0;
  EXPECT_EQ(qp->copy_memory(copy, {}, 1).error().errno_value, EINVAL);
  copy.length_bytes = 0x80000000;
  ASSERT_TRUE(qp->copy_memory(copy, SendFlag::kSignaled, 1));
  const std::byte* const wqe = qp->send_queue().config().ring;
  EXPECT_EQ(testing::big32(wqe), 0x0100002fu);
  EXPECT_EQ(testing::big32(wqe + 4), qp->qpn() << 8 | 4);
  EXPECT_EQ(testing::big32(wqe + 8), 8u);
  EXPECT_EQ(testing::big64(wqe + 12), 0u);
  EXPECT_EQ(testing::big32(wqe + 20), qp->memcpy_scratch()->lkey());
  EXPECT_EQ(testing::big64(wqe + 24), reinterpret_cast<std::uint64_t>(qp->memcpy_scratch()->address()));
  EXPECT_EQ(testing::big32(wqe + 32), 0u);
  EXPECT_EQ(testing::big32(wqe + 36), 0x66u);
  EXPECT_EQ(testing::big64(wqe + 40), 0x99u);
  EXPECT_EQ(testing::big32(wqe + 48), 0u);
  EXPECT_EQ(testing::big32(wqe + 52), 0x77u);
  EXPECT_EQ(testing::big64(wqe + 56), 0x1122334455667788u);
  while (qp->copy_memory(copy, {}, 2)) {  // what was created takes a few
  }
  EXPECT_EQ(qp->copy_memory(copy, {}, 2).error().errno_value, ENOMEM);
  auto without = *bench.create(bench.options(QpType::kRc));
  ASSERT_TRUE(without->connect({}, 0, {}));
  EXPECT_EQ(without->copy_memory(copy, {}, 3).error().errno_value, EOPNOTSUPP);
}

// RTS2RTS_QP: opcode 0x505, QPN in dword 2 with qpc_ext, opt_param_mask_95_32 at 0x108, the extension at 0x110
// (mlx5_ifc.h, rdma-core's mlx5_ifc.h for the extension's stream).
TEST(Streams, AreResetInRtsWhereTheDeviceHasThem) {
  FakeKernel kernel = everything();
  set_capability(kernel, 0x24, 29);  // qpc_extension
  Bench bench(std::move(kernel));
  QpOptions options = bench.dc(DcType::kDci);
  options.dci_streams = {2, 1};
  auto qp = *bench.create(options);
  EXPECT_EQ(qp->reset_dci_stream(3).error().errno_value, EOPNOTSUPP);
  ASSERT_TRUE(qp->connect({}, 0, {}));
  ASSERT_TRUE(qp->reset_dci_stream(3));
  ASSERT_EQ(bench.kernel.devx_modifications.size(), 1u);
  const auto& mailbox = bench.kernel.devx_modifications[0];
  EXPECT_EQ(testing::big32(mailbox.data()) >> 16, 0x505u);
  EXPECT_EQ(testing::big32(mailbox.data() + 8), 1u << 31 | qp->qpn());
  EXPECT_EQ(testing::big64(mailbox.data() + 0x108), 1u);
  EXPECT_EQ(testing::big32(mailbox.data() + 0x110), 3u);
  bench.kernel.devx_status = 3;  // bad parameter
  EXPECT_EQ(qp->reset_dci_stream(3).error().errno_value, EINVAL);
  auto rc = *bench.create(bench.options(QpType::kRc));
  ASSERT_TRUE(rc->connect({}, 0, {}));
  EXPECT_EQ(rc->reset_dci_stream(0).error().errno_value, EINVAL);
}

TEST(Streams, AreNotResetWhereTheDeviceHasNone) {
  Bench bench;  // without qpc_extension
  auto qp = *bench.create(bench.dc(DcType::kDci));
  ASSERT_TRUE(qp->connect({}, 0, {}));
  EXPECT_EQ(qp->reset_dci_stream(3).error().errno_value, EOPNOTSUPP);
}

// ---- Changes ----

TEST(Modify, AttributesOfTheMaskAreHandedOnAndTheQueuesFollow) {
  Bench bench;
  QpOptions options = bench.options(QpType::kRc);
  options.capacity.max_recv_wr = 4;
  auto qp = *bench.create(options);
  uapi::QpAttributes attributes{.state = IBV_QPS_INIT, .pkey_index = 3, .port = 1};
  EXPECT_EQ(qp->post_recv(std::array{RecvWr{}}).error, EINVAL);
  EXPECT_TRUE(qp->modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  EXPECT_EQ(bench.kernel.modifications.back().pkey_index, 3);
  EXPECT_EQ(bench.kernel.modifications.back().attr_mask, 0x39u);
  EXPECT_EQ(qp->state(), QpState::kInit);
  EXPECT_EQ(qp->post_recv(std::array{RecvWr{}}).error, 0);
  EXPECT_TRUE(qp->modify({.min_rnr_timer = 5}, IBV_QP_MIN_RNR_TIMER));  // no state in it
  EXPECT_EQ(qp->state(), QpState::kInit);
  EXPECT_TRUE(qp->modify({.state = IBV_QPS_RESET}, IBV_QP_STATE));
  EXPECT_EQ(qp->receive_queue().outstanding_requests(), 0u);
  EXPECT_TRUE(bench.kernel.driver_modifications.empty());
}

TEST(Modify, RateLimitAndEceGoInTheExtendedForm) {
  Bench bench;
  auto qp = *bench.create(bench.options(QpType::kRc));
  EXPECT_TRUE(qp->modify({.rate_limit_kbps = 1000}, IBV_QP_RATE_LIMIT));
  EXPECT_EQ(bench.kernel.driver_modifications.size(), 1u);
  qp->set_ece(0x10000001);
  bench.kernel.modify_response.ece_options = 0x10000003;
  EXPECT_TRUE(qp->modify({.state = IBV_QPS_INIT}, IBV_QP_STATE));
  ASSERT_EQ(bench.kernel.driver_modifications.size(), 2u);
  EXPECT_EQ(bench.kernel.driver_modifications[1].ece_options, 0x10000001u);
  EXPECT_EQ(qp->ece_options(), 0x10000003u);
  EXPECT_TRUE(qp->modify({.state = IBV_QPS_INIT}, IBV_QP_STATE));
  EXPECT_EQ(bench.kernel.driver_modifications.size(), 2u);  // once is enough
}

TEST(Modify, UnderlayQpHasStatesOnly) {
  Bench bench;
  QpOptions options = bench.options(QpType::kUd);
  options.source_qpn = 0x55;
  auto qp = *bench.create(options);
  EXPECT_TRUE(bench.kernel.qp_attributes.contains(UVERBS_ATTR_CREATE_QP_SOURCE_QPN));
  EXPECT_EQ(qp->modify({.state = IBV_QPS_INIT}, IBV_QP_STATE | IBV_QP_PORT).error().errno_value, EINVAL);
  EXPECT_TRUE(qp->modify({.state = IBV_QPS_INIT}, IBV_QP_STATE));
}

// Masks of each type's way to RTS: IBA 11.2.5.2, as in Linux' qp_state_table.
TEST(Modify, EachTypeIsToldWhatItHas) {
  const struct {
    QpType type;
    std::uint32_t init, rtr, rts;
  } rows[] = {{QpType::kRc, 0x39, 0x129181, 0x12e01},      {QpType::kUc, 0x39, 0x101181, 0x10001},
              {QpType::kUd, 0x71, 0x1, 0x10001},           {QpType::kRawPacket, 0x21, 0x1, 0x1},
              {QpType::kXrcSend, 0x39, 0x101181, 0x12e01}, {QpType::kXrcRecv, 0x39, 0x129181, 0x10201}};
  for (const auto& row : rows) {
    SCOPED_TRACE(to_string(row.type));
    Bench bench;
    auto qp = *bench.create(bench.options(row.type));
    EXPECT_TRUE(qp->connect({}, 0, {}));
    ASSERT_EQ(bench.kernel.modifications.size(), 3u);
    EXPECT_EQ(bench.kernel.modifications[0].attr_mask, row.init);
    EXPECT_EQ(bench.kernel.modifications[1].attr_mask, row.rtr);
    EXPECT_EQ(bench.kernel.modifications[2].attr_mask, row.rts);
  }
}

}  // namespace
}  // namespace umlx5
