// Requests as stock libmlx5 44 and libibverbs 44 send them, and wrong ones; errno values are ib_uverbs' and mlx5_ib's.
#include "tools/softhca/kernel/uverbs_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/tools/softhca/kernel/soft_kernel.h"

namespace softhca::kernel {
namespace {

class UverbsFileTest : public testing::Test, protected SoftKernel {
 protected:
  void SetUp() override { ASSERT_NE(file, nullptr); }
  void open_context() { ASSERT_EQ(get_context(), 0); }
  // Context, PD, UAR and CQ.
  void open_all() {
    open_context();
    ASSERT_EQ(alloc_async_fd(async_fd), 0);
    ASSERT_EQ(alloc_pd(pd, pdn), 0);
    ASSERT_EQ(alloc_uar(uar_handle, uar, uar_offset), 0);
    std::uint32_t cqe = 0;
    ASSERT_EQ(create_cq(255, cq_driver(uar), cq, cqe), 0);
    ASSERT_EQ(cqe, 255u);
  }
  int destroy(std::uint16_t object, std::uint16_t method, std::uint16_t attr, std::uint32_t handle) {
    return Ioctl(object, method).handle(attr, handle).run(*file);
  }
  int destroy_qp(std::uint32_t handle) {
    std::uint32_t events = 0;
    return Ioctl(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY)
        .out(UVERBS_ATTR_DESTROY_QP_RESP, events)
        .handle(UVERBS_ATTR_DESTROY_QP_HANDLE, handle)
        .run(*file);
  }
  int destroy_cq(std::uint32_t handle) {
    ib_uverbs_destroy_cq_resp events{};
    return Ioctl(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY)
        .out(UVERBS_ATTR_DESTROY_CQ_RESP, events)
        .handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, handle)
        .run(*file);
  }
  int destroy_pd(std::uint32_t handle) {
    return destroy(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, UVERBS_ATTR_DESTROY_PD_HANDLE, handle);
  }
  int modify(const ib_uverbs_modify_qp& m) { return invoke(*file, IB_USER_VERBS_CMD_MODIFY_QP, as_bytes(m)); }
  // Without the flexible end, which has no place in a C++ copy.
  static std::array<std::byte, sizeof(ib_uverbs_modify_qp)> as_bytes(const ib_uverbs_modify_qp& m) {
    std::array<std::byte, sizeof m> bytes{};
    std::memcpy(bytes.data(), &m, sizeof m);
    return bytes;
  }
  static void to_init(ib_uverbs_modify_qp& m, std::uint32_t qp) {
    std::memset(&m, 0, sizeof m);
    m.qp_handle = qp;
    m.attr_mask = 1 | 1 << 3 | 1 << 4 | 1 << 5;  // STATE, ACCESS_FLAGS, PKEY_INDEX, PORT
    m.qp_state = 1;
    m.port_num = 1;
    m.qp_access_flags = 7;
  }
  static void to_rtr(ib_uverbs_modify_qp& m, std::uint32_t qp) {
    std::memset(&m, 0, sizeof m);
    m.qp_handle = qp;
    m.attr_mask = 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15;
    m.qp_state = 2;
    m.path_mtu = 3;
    m.dest_qp_num = 0x81;
    m.rq_psn = 0x123;
    m.max_dest_rd_atomic = 4;
    m.min_rnr_timer = 12;
    const Gid gid = gid_of_ipv4(0x7f000005);
    std::memcpy(m.dest.dgid, gid.data(), gid.size());
    m.dest.is_global = 1;
    m.dest.hop_limit = 64;
    m.dest.port_num = 1;
  }
  static void to_rts(ib_uverbs_modify_qp& m, std::uint32_t qp) {
    std::memset(&m, 0, sizeof m);
    m.qp_handle = qp;
    m.attr_mask = 1 | 1 << 16 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13;
    m.qp_state = 3;
    m.sq_psn = 0x456;
    m.timeout = 14;
    m.retry_cnt = 7;
    m.rnr_retry = 7;
    m.max_rd_atomic = 4;
  }

  int async_fd = -1;
  std::uint32_t pd = 0, pdn = 0, uar_handle = 0, uar = 0, cq = 0;
  std::uint64_t uar_offset = 0;
};

TEST_F(UverbsFileTest, FirstRequestOfLibibverbsAsksWhetherInvokeWriteWorks) {
  EXPECT_EQ(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE)
                .attr(UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_QUERY_DEVICE)
                .run(*file),
            ENOSPC);
}

TEST_F(UverbsFileTest, ContextHasDynamicUars) {
  mlx5_ib_alloc_ucontext_resp response{};
  ASSERT_EQ(get_context(response), 0);
  EXPECT_EQ(response.response_length, 72u);
  EXPECT_EQ(response.tot_bfregs, 0u);
  EXPECT_EQ(response.cqe_version, 1);
  EXPECT_EQ(response.num_ports, 1);
  EXPECT_EQ(response.cache_line_size, 64u);
  EXPECT_EQ(response.max_send_wqebb, 32768u);
  EXPECT_EQ(response.max_sq_desc_sz, 1024);
  EXPECT_EQ(get_context(response), EINVAL);  // one for each file
}

TEST_F(UverbsFileTest, ContextRequestIsChecked) {
  auto run = [&](mlx5_ib_alloc_ucontext_req_v2 request) {
    mlx5_ib_alloc_ucontext_resp response{};
    return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT)
        .in(UVERBS_ATTR_UHW_IN, request)
        .out(UVERBS_ATTR_UHW_OUT, response)
        .run(*file);
  };
  auto request = context_request();
  request.flags |= 2;
  EXPECT_EQ(run(request), EOPNOTSUPP);
  request = context_request();
  request.comp_mask = 1;
  EXPECT_EQ(run(request), EOPNOTSUPP);
  request = context_request();
  request.reserved2 = 1;
  EXPECT_EQ(run(request), EOPNOTSUPP);
  request = context_request();
  request.lib_caps = 0;
  EXPECT_EQ(run(request), EOPNOTSUPP);
  EXPECT_EQ(run(context_request()), 0);
}

TEST_F(UverbsFileTest, NothingWorksBeforeTheContext) {
  EXPECT_EQ(alloc_pd(pd, pdn), EINVAL);
  EXPECT_EQ(alloc_uar(uar_handle, uar, uar_offset), EINVAL);
  EXPECT_FALSE(file->mmap(4096, PROT_WRITE, 0x900 * 4096).has_value());
}

TEST_F(UverbsFileTest, HeadersAreChecked) {
  open_context();
  std::uint32_t handle = 0;
  Ioctl request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  request.in(UVERBS_ATTR_WRITE_CMD, std::uint64_t{IB_USER_VERBS_CMD_ALLOC_PD})
      .in(UVERBS_ATTR_CORE_IN, std::uint64_t{0})
      .out(UVERBS_ATTR_CORE_OUT, handle);
  ASSERT_EQ(request.run(*file), 0);
  EXPECT_EQ(request.attr_of(UVERBS_ATTR_CORE_OUT).flags, UVERBS_ATTR_F_MANDATORY | UVERBS_ATTR_F_VALID_OUTPUT);
  request.header().length += 1;
  EXPECT_EQ(request.run_as_it_is(*file), EINVAL);
  request.header().reserved1 = 1;
  EXPECT_EQ(request.run(*file), EPROTONOSUPPORT);
  request.header().reserved1 = 0;
  request.header().driver_id = RDMA_DRIVER_MLX4;
  EXPECT_EQ(request.run(*file), EINVAL);
  EXPECT_EQ(file->ioctl(0), EFAULT);
  EXPECT_EQ(Ioctl(0x1001, 0x1004).run(*file), EPROTONOSUPPORT);
  EXPECT_EQ(Ioctl(UVERBS_OBJECT_QP, 7).run(*file), EPROTONOSUPPORT);
}

TEST_F(UverbsFileTest, AttributesAreChecked) {
  open_context();
  std::uint32_t handle = 0;
  auto request = [&] {
    Ioctl base(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    base.in(UVERBS_ATTR_WRITE_CMD, std::uint64_t{IB_USER_VERBS_CMD_ALLOC_PD})
        .in(UVERBS_ATTR_CORE_IN, std::uint64_t{0})
        .out(UVERBS_ATTR_CORE_OUT, handle);
    return base;
  };
  EXPECT_EQ(request().attr(77, 8, 0).run(*file), EPROTONOSUPPORT);                    // unknown and mandatory
  EXPECT_EQ(request().attr(77, 8, 0, 0).run(*file), 0);                               // unknown and optional
  EXPECT_EQ(request().in(UVERBS_ATTR_CORE_IN, std::uint64_t{0}).run(*file), EINVAL);  // twice
  EXPECT_EQ(request().attr(UVERBS_ATTR_UHW_OUT, 4, 8).run(*file), EFAULT);            // a bad address
  Ioctl lacks(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  EXPECT_EQ(lacks.in(UVERBS_ATTR_CORE_IN, std::uint64_t{0}).run(*file), EINVAL);  // no command
  EXPECT_EQ(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE).attr(UVERBS_ATTR_WRITE_CMD, 4, 3).run(*file),
            EINVAL);  // 4 bytes where 8 belong
  EXPECT_EQ(invoke(*file, 0x100, std::uint64_t{0}), EINVAL);
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_POLL_CQ, std::uint64_t{0}), EOPNOTSUPP);
}

TEST_F(UverbsFileTest, DeviceAndPort) {
  open_context();
  std::array<std::byte, 304> core{};
  std::array<std::byte, 104> driver{};
  ASSERT_EQ(invoke(*file, 0x80000001, std::uint64_t{0}, core, Nothing{}, driver), 0);
  ib_uverbs_ex_query_device_resp response{};
  std::memcpy(&response, core.data(), sizeof response);
  EXPECT_EQ(response.response_length, 304u);
  EXPECT_EQ(response.base.max_qp, 1u << 17);
  EXPECT_EQ(response.base.max_qp_wr, 32768u);
  EXPECT_EQ(response.base.vendor_part_id, 0x101du);
  EXPECT_EQ(response.base.phys_port_cnt, 1);
  EXPECT_EQ(response.base.fw_ver, 22ull << 32 | 41 << 16 | 1000);
  EXPECT_EQ(__builtin_bswap64(response.base.node_guid), 0x020000ff7f00004dull);

  ib_uverbs_query_port_resp_ex port{};
  const std::uint64_t one = 1, two = 2;
  EXPECT_EQ(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)
                .in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, one)
                .out(UVERBS_ATTR_QUERY_PORT_RESP, port)
                .run(*file),
            0);
  EXPECT_EQ(port.legacy_resp.state, 4);       // active
  EXPECT_EQ(port.legacy_resp.link_layer, 2);  // Ethernet
  EXPECT_EQ(port.legacy_resp.active_mtu, 5);
  EXPECT_EQ(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)
                .in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, two)
                .out(UVERBS_ATTR_QUERY_PORT_RESP, port)
                .run(*file),
            EINVAL);
}

TEST_F(UverbsFileTest, GidIsTheAddressMapped) {
  open_context();
  ib_uverbs_gid_entry entry{};
  auto query = [&](std::uint64_t index) {
    return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY)
        .in(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, std::uint64_t{1})
        .in(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index)
        .in(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, std::uint32_t{0})
        .out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry)
        .run(*file);
  };
  ASSERT_EQ(query(0), 0);
  const std::array<std::uint8_t, 16> expected{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 77};
  EXPECT_EQ(std::memcmp(entry.gid, expected.data(), 16), 0);
  EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IB_UVERBS_GID_TYPE_ROCE_V2));
  ASSERT_EQ(query(1), 0);
  EXPECT_EQ(std::memcmp(entry.gid, expected.data(), 16), 0);
  EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IB_UVERBS_GID_TYPE_ROCE_V1));
  EXPECT_EQ(query(2), ENODATA);
  EXPECT_EQ(query(5000), EINVAL);
  EXPECT_EQ(device->attribute("ports/1/gid_attrs/types/1").value(), "IB/RoCE v1");
  EXPECT_EQ(device->attribute("ports/1/gid_attrs/types/2").error(), EINVAL);
  EXPECT_EQ(device->attribute("ports/1/gids/0").value(), "0000:0000:0000:0000:0000:ffff:7f00:004d");
  EXPECT_EQ(device->attribute("ports/1/gid_attrs/types/0").value(), "RoCE v2");
  EXPECT_EQ(device->attribute("fw_ver").value(), "22.41.1000");
  EXPECT_EQ(device->attribute("node_guid").value(), "0200:00ff:7f00:004d");
  EXPECT_EQ(device->attribute("no/such").error(), ENOENT);
}

TEST_F(UverbsFileTest, UarIsMappedAtTheOffsetItGave) {
  open_context();
  ASSERT_EQ(alloc_uar(uar_handle, uar, uar_offset), 0);
  EXPECT_EQ(uar_offset >> 20, 9u);  // the kernel's first dynamic mapping command
  const auto page = file->mmap(4096, PROT_WRITE, uar_offset);
  ASSERT_TRUE(page.has_value());
  (*page)[0x800] = std::byte{0};
  EXPECT_EQ(file->mmap(8192, PROT_WRITE, uar_offset).error(), EINVAL);
  EXPECT_EQ(file->mmap(4096, PROT_WRITE, uar_offset + 4096).error(), EINVAL);
  (*page)[0x801] = std::byte{0x5a};
  EXPECT_EQ(firmware.hca().uar(uar)[0x801], std::byte{0x5a}) << "the device's page";
  EXPECT_EQ(::munmap(*page, 4096), 0);
  EXPECT_EQ(firmware.hca().uar(uar)[0x801], std::byte{0x5a}) << "which stays";
  EXPECT_EQ(
      destroy(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, uar_handle), 0);
  EXPECT_EQ(file->mmap(4096, PROT_WRITE, uar_offset).error(), EINVAL);
}

TEST_F(UverbsFileTest, MemoryRegions) {
  open_all();
  std::array<std::uint32_t, 3> mr{};
  ASSERT_EQ(reg_mr(pd, address_of(memory) + 100, 70'000, 7, mr), 0);
  EXPECT_EQ(mr[1], mr[2]);
  EXPECT_NE(mr[1], 0u);
  EXPECT_EQ(destroy_pd(pd), EBUSY);  // the region uses it
  std::array<std::uint32_t, 3> other{};
  EXPECT_EQ(reg_mr(pd, address_of(memory), 4096, 2, other), EINVAL);         // REMOTE_WRITE alone
  EXPECT_EQ(reg_mr(pd, address_of(memory), 4096, 8, other), EINVAL);         // REMOTE_ATOMIC alone
  EXPECT_EQ(reg_mr(pd, address_of(memory), 4096, 1u << 15, other), EINVAL);  // no such right
  EXPECT_EQ(reg_mr(pd, address_of(memory), 4096, 1u << 20 | 1, other), 0);   // an optional one
  EXPECT_EQ(reg_mr(pd, address_of(memory), ~std::uint64_t{0}, 1, other), EINVAL);
  EXPECT_EQ(reg_mr(pd, 4096, 4096, 1, other), EFAULT);
  EXPECT_EQ(reg_mr(pd, address_of(memory), 0, 1, other), EINVAL);
  EXPECT_EQ(reg_mr(cq, address_of(memory), 4096, 1, other), EINVAL);  // not a PD
  EXPECT_EQ(destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, mr[0]), 0);
  EXPECT_EQ(destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, mr[0]), ENOENT);
  EXPECT_EQ(destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, pd), EINVAL);
}

TEST_F(UverbsFileTest, PagesMayComeOnDemand) {
  open_all();
  constexpr std::uint32_t kLocalWrite = 1, kOnDemand = 1 << 6;
  std::byte* const place =
      static_cast<std::byte*>(::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::array<std::uint32_t, 3> mr{}, whole{};
  EXPECT_EQ(reg_mr(pd, address_of(place), 8192, kLocalWrite, mr), EFAULT);
  ASSERT_EQ(reg_mr(pd, address_of(place), 8192, kLocalWrite | kOnDemand, mr), 0);
  ASSERT_EQ(reg_mr(pd, 0, ~std::uint64_t{0}, kLocalWrite | kOnDemand, whole), 0);
  const auto reads = [&](std::uint32_t key, std::uint64_t at) {
    std::vector<hca::DmaRange> ranges;
    std::array<std::byte, 4> bytes{};
    return firmware.hca().resolve(key, pdn, at, bytes.size(), hca::Access::kLocalRead, ranges) ==
               hca::MkeyFault::kNone &&
           firmware.hca().dma().read(ranges.at(0).address, bytes) && bytes[0] == std::byte{0x33};
  };
  EXPECT_FALSE(reads(mr[1], address_of(place)));
  EXPECT_FALSE(reads(whole[1], address_of(place)));
  EXPECT_FALSE(reads(whole[1], 0xfe00000002000000)) << "the device's own memory is not in it";

  const auto advise = [&](std::uint64_t advice, std::uint32_t flags, std::uint32_t lkey, std::uint64_t at) {
    const std::array<ib_uverbs_sge, 2> list{ib_uverbs_sge{at, 4096, lkey}, ib_uverbs_sge{at, 4, lkey}};
    return Ioctl(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR)
        .handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd)
        .in(UVERBS_ATTR_ADVISE_MR_ADVICE, advice)
        .in(UVERBS_ATTR_ADVISE_MR_FLAGS, flags)
        .in(UVERBS_ATTR_ADVISE_MR_SGE_LIST, list)
        .run(*file);
  };
  constexpr std::uint32_t kFlush = 1;
  EXPECT_EQ(advise(0, kFlush, mr[1], address_of(place)), EFAULT) << "nothing is there yet";
  EXPECT_EQ(advise(0, 0, mr[1], address_of(place)), 0) << "nobody waits for it";
  EXPECT_EQ(advise(2, kFlush, mr[1], address_of(place)), 0) << "no faults are wanted";
  ::mprotect(place, 8192, PROT_READ | PROT_WRITE);
  place[0] = std::byte{0x33};
  EXPECT_TRUE(reads(mr[1], address_of(place)));
  EXPECT_TRUE(reads(whole[1], address_of(place)));
  EXPECT_EQ(advise(1, kFlush, mr[1], address_of(place)), 0);
  EXPECT_EQ(advise(0, kFlush, whole[1], address_of(place)), 0);
  EXPECT_EQ(advise(0, kFlush, mr[1], address_of(place) + 8192), EFAULT) << "outside";
  EXPECT_EQ(advise(3, kFlush, mr[1], address_of(place)), EOPNOTSUPP);
  EXPECT_EQ(advise(0, kFlush, mr[1] + 1, address_of(place)), ENOENT);
  EXPECT_EQ(advise(0, 2, mr[1], address_of(place)), EINVAL);
  for (const std::uint32_t handle : {mr[0], whole[0]}) {
    EXPECT_EQ(destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, handle), 0);
  }
  ::munmap(place, 8192);
}

// Device memory: mlx5_ib's answers, and the mapping that libmlx5 asks for (MLX5_IB_MMAP_DEVICE_MEM is 8).
TEST_F(UverbsFileTest, DeviceMemoryIsMappedAndRegistered) {
  open_all();
  std::uint64_t start_offset = ~0ull;
  std::uint16_t page_index = 0xffff;
  const auto alloc = [&](std::uint64_t length, std::uint32_t log_alignment, std::uint32_t& handle) {
    Ioctl request(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
    const int error = request.handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
                          .in(UVERBS_ATTR_ALLOC_DM_LENGTH, length)
                          .in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, log_alignment)
                          .out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, start_offset)
                          .out(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, page_index)
                          .run(*file);
    handle = static_cast<std::uint32_t>(request.attr_of(UVERBS_ATTR_ALLOC_DM_HANDLE).data);
    return error;
  };
  std::uint32_t small = 0, large = 0, mr = 0, none = 0, lkey = 0, rkey = 0;
  EXPECT_EQ(alloc(0, 0, none), EINVAL);
  EXPECT_EQ(alloc(128 * 1024 + 1, 0, none), ENOMEM);
  EXPECT_EQ(alloc(64, 13, none), EINVAL);
  ASSERT_EQ(alloc(100, 0, small), 0);
  EXPECT_EQ(start_offset, 0u);
  EXPECT_EQ(page_index, 0u);
  ASSERT_EQ(alloc(5000, 12, large), 0);
  EXPECT_EQ(page_index, 1u) << "a page of its own";
  EXPECT_EQ(alloc(30 * 4096, 0, none), ENOMEM) << "29 pages are left";
  const auto offset = [](std::uint64_t page) { return (8u << 8 | page) * 4096; };
  EXPECT_EQ(file->mmap(4096, PROT_WRITE, offset(1)).error(), EINVAL) << "not all of it";
  EXPECT_EQ(file->mmap(4096, PROT_WRITE, offset(2)).error(), EINVAL);
  const auto mapped = file->mmap(8192, PROT_READ | PROT_WRITE, offset(1));
  ASSERT_TRUE(mapped);
  (*mapped)[4999] = std::byte{0x77};

  const auto reg = [&](std::uint64_t from, std::uint64_t length, std::uint32_t access) {
    Ioctl request(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
    const int error = request.handle(UVERBS_ATTR_REG_DM_MR_HANDLE)
                          .in(UVERBS_ATTR_REG_DM_MR_OFFSET, from)
                          .in(UVERBS_ATTR_REG_DM_MR_LENGTH, length)
                          .handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd)
                          .in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access)
                          .handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, large)
                          .out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, lkey)
                          .out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, rkey)
                          .run(*file);
    mr = static_cast<std::uint32_t>(request.attr_of(UVERBS_ATTR_REG_DM_MR_HANDLE).data);
    return error;
  };
  constexpr std::uint32_t kLocalWrite = 1, kRemoteWrite = 2, kBind = 16, kZeroBased = 32;
  EXPECT_EQ(reg(0, 100, kLocalWrite), EINVAL) << "not zero-based";
  EXPECT_EQ(reg(0, 100, kZeroBased | kRemoteWrite), EINVAL);
  EXPECT_EQ(reg(0, 100, kZeroBased | kLocalWrite | kBind), EINVAL);
  EXPECT_EQ(reg(4, 4997, kZeroBased | kLocalWrite), EINVAL);
  ASSERT_EQ(reg(4990, 10, kZeroBased | kLocalWrite | kRemoteWrite), 0);
  EXPECT_EQ(lkey, rkey);
  std::vector<hca::DmaRange> ranges;
  std::array<std::byte, 1> last{};
  ASSERT_EQ(firmware.hca().resolve(lkey, pdn, 9, 1, hca::Access::kLocalWrite, ranges), hca::MkeyFault::kNone);
  ASSERT_TRUE(firmware.hca().dma().read(ranges.at(0).address, last));
  EXPECT_EQ(last[0], std::byte{0x77});

  const auto free_dm = [&](std::uint32_t handle) {
    return destroy(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, UVERBS_ATTR_FREE_DM_HANDLE, handle);
  };
  EXPECT_EQ(free_dm(large), EBUSY);
  EXPECT_EQ(destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, mr), 0);
  EXPECT_EQ(free_dm(large), 0);
  EXPECT_EQ(file->mmap(8192, PROT_WRITE, offset(1)).error(), EINVAL);
  EXPECT_EQ(alloc(30 * 4096, 0, large), 0);
  EXPECT_EQ(page_index, 1u);
  ::munmap(*mapped, 8192);
}

TEST_F(UverbsFileTest, CqRequestIsChecked) {
  open_all();
  std::uint32_t handle = 0, cqe = 0;
  auto driver = cq_driver(uar);
  driver.cqe_size = 32;
  EXPECT_EQ(create_cq(63, driver, handle, cqe), EINVAL);
  driver = cq_driver(uar);
  driver.flags = 0;  // no UAR page in a context with dynamic UARs
  EXPECT_EQ(create_cq(63, driver, handle, cqe), EINVAL);
  driver = cq_driver(uar);
  driver.reserved1 = 1;
  EXPECT_EQ(create_cq(63, driver, handle, cqe), EINVAL);
  driver = cq_driver(uar);
  driver.buf_addr = 4096;
  EXPECT_EQ(create_cq(63, driver, handle, cqe), EFAULT);
  driver = cq_driver(uar);
  driver.buf_addr += 8;
  EXPECT_EQ(create_cq(63, driver, handle, cqe), EINVAL);
  EXPECT_EQ(create_cq(1u << 22, cq_driver(uar), handle, cqe), EINVAL);
  ASSERT_EQ(create_cq(100, cq_driver(uar), handle, cqe), 0);
  EXPECT_EQ(cqe, 127u);
  EXPECT_EQ(destroy_cq(handle), 0);
  EXPECT_EQ(destroy_cq(handle), ENOENT);
}

TEST_F(UverbsFileTest, QpLivesFromResetToRts) {
  open_all();
  QpAnswer qp;
  ASSERT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, qp_driver(uar), kSmallCap, qp), 0);
  EXPECT_NE(qp.qpn, 0u);
  EXPECT_EQ(qp.cap.max_send_wr, 16u);
  EXPECT_EQ(qp.cap.max_recv_wr, 16u);
  EXPECT_EQ(destroy_cq(cq), EBUSY);
  EXPECT_EQ(destroy_pd(pd), EBUSY);

  ib_uverbs_modify_qp m;
  to_rtr(m, qp.handle);
  EXPECT_EQ(modify(m), EINVAL);  // from RESET
  to_init(m, qp.handle);
  m.port_num = 2;
  EXPECT_EQ(modify(m), EINVAL);
  to_init(m, qp.handle);
  m.pkey_index = 1;
  EXPECT_EQ(modify(m), EINVAL);
  to_init(m, qp.handle);
  m.attr_mask |= 1 << 25;
  EXPECT_EQ(modify(m), EOPNOTSUPP);
  to_init(m, qp.handle);
  ASSERT_EQ(modify(m), 0);
  to_rtr(m, qp.handle);
  m.dest.is_global = 0;
  EXPECT_EQ(modify(m), EINVAL);
  to_rtr(m, qp.handle);
  m.path_mtu = 6;
  EXPECT_EQ(modify(m), EINVAL);
  to_rtr(m, qp.handle);
  m.max_dest_rd_atomic = 17;
  EXPECT_EQ(modify(m), EINVAL);
  to_rtr(m, qp.handle);
  ASSERT_EQ(modify(m), 0);
  to_rts(m, qp.handle);
  ASSERT_EQ(modify(m), 0);

  struct {
    std::uint64_t response;
    std::uint32_t qp, mask;
  } const query{0, qp.handle, 0xffffffff};
  std::array<std::byte, sizeof(ib_uverbs_query_qp_resp)> answer{};
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_QUERY_QP, query, answer), 0);
  ib_uverbs_query_qp_resp r;
  std::memcpy(&r, answer.data(), sizeof answer);
  EXPECT_EQ(r.qp_state, 3);
  EXPECT_EQ(r.path_mtu, 3);
  EXPECT_EQ(r.dest_qp_num, 0x81u);
  EXPECT_EQ(r.max_recv_wr, 16u);
  EXPECT_EQ(r.timeout, 14);
  EXPECT_EQ(r.retry_cnt, 7);
  EXPECT_EQ(r.max_dest_rd_atomic, 4);
  EXPECT_EQ(r.qp_access_flags & 6u, 6u);
  EXPECT_EQ(r.dest.dgid[15], 5);

  EXPECT_EQ(destroy_qp(qp.handle), 0);
  EXPECT_EQ(destroy_cq(cq), 0);
  EXPECT_EQ(destroy_pd(pd), 0);
}

TEST_F(UverbsFileTest, QpRequestIsChecked) {
  open_all();
  QpAnswer qp;
  const auto create = [&](const mlx5_ib_create_qp& driver, const ib_uverbs_qp_cap& cap = kSmallCap) {
    return create_qp(IB_UVERBS_QPT_RC, pd, cq, driver, cap, qp);
  };
  auto driver = qp_driver(uar);
  driver.sq_wqe_count = 63;
  EXPECT_EQ(create(driver), EINVAL);
  driver.sq_wqe_count = 1 << 16;
  EXPECT_EQ(create(driver), EINVAL);
  driver = qp_driver(uar);
  driver.flags &= ~std::uint32_t{MLX5_QP_FLAG_UAR_PAGE_INDEX};
  EXPECT_EQ(create(driver), EINVAL);
  driver.flags |= MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_BFREG_INDEX;
  EXPECT_EQ(create(driver), EINVAL);
  driver = qp_driver(uar);
  driver.flags |= MLX5_QP_FLAG_TUNNEL_OFFLOADS;
  EXPECT_EQ(create(driver), EINVAL);
  driver = qp_driver(uar);
  driver.flags |= 1u << 20;
  EXPECT_EQ(create(driver), EINVAL);
  driver = qp_driver(uar);
  driver.reserved = 1;
  EXPECT_EQ(create(driver), EINVAL);
  driver = qp_driver(uar);
  driver.uidx = 0xffffff;
  EXPECT_EQ(create(driver), EINVAL);
  driver = qp_driver(uar);
  driver.buf_addr = 4096;
  EXPECT_EQ(create(driver), EFAULT);
  driver = qp_driver(uar);
  driver.bfreg_index = 0x3ff;  // not allocated
  EXPECT_EQ(create(driver), EINVAL);
  auto cap = kSmallCap;
  cap.max_recv_wr = 0;  // then there is no receive queue, and the driver must not describe one
  EXPECT_EQ(create(qp_driver(uar), cap), EINVAL);
  cap.max_recv_wr = 40'000;
  EXPECT_EQ(create(qp_driver(uar), cap), EINVAL);
  EXPECT_EQ(create_qp(IB_UVERBS_QPT_RAW_PACKET, pd, cq, qp_driver(uar), kSmallCap, qp), EFAULT)
      << "its send queue has a buffer of its own, which lies at 0 here";
  EXPECT_EQ(create_qp(IB_UVERBS_QPT_DRIVER, pd, cq, qp_driver(uar), kSmallCap, qp), EINVAL) << "no kind is named";
  EXPECT_EQ(create_qp(6, pd, cq, qp_driver(uar), kSmallCap, qp), EINVAL);
  EXPECT_EQ(create_qp(IB_UVERBS_QPT_RC, cq, cq, qp_driver(uar), kSmallCap, qp), EINVAL);
  EXPECT_EQ(create_qp(IB_UVERBS_QPT_RC, 9999, cq, qp_driver(uar), kSmallCap, qp), ENOENT);
  EXPECT_EQ(create(qp_driver(uar)), 0);
}

TEST_F(UverbsFileTest, AddressHandleGivesTheMac) {
  open_all();
  struct {
    std::uint64_t response, user_handle;
    std::uint32_t pd, reserved;
    ib_uverbs_ah_attr attr;
  } request{0, 1, pd, 0, {}};
  const Gid gid = gid_of_ipv4(0x7f000005);
  std::memcpy(request.attr.grh.dgid, gid.data(), gid.size());
  request.attr.is_global = 1;
  request.attr.port_num = 1;
  std::uint32_t handle = 0;
  std::array<std::uint8_t, 16> driver{};
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_CREATE_AH, request, handle, Nothing{}, driver), 0);
  EXPECT_EQ(driver, (std::array<std::uint8_t, 16>{10, 0, 0, 0, 2, 0, 127, 0, 0, 5}));
  request.attr.is_global = 0;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_CREATE_AH, request, handle, Nothing{}, driver), EINVAL);
  request.attr.is_global = 1;
  // RFC 1112, 6.4: 01:00:5e and the group's last 23 bits; RFC 2464, 7: 33:33 and its last 32.
  const Gid ipv4_group = gid_of_ipv4(0xef8a0203), ipv6_group{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x9a, 1, 2, 3};
  std::memcpy(request.attr.grh.dgid, ipv4_group.data(), ipv4_group.size());
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_CREATE_AH, request, handle, Nothing{}, driver), 0);
  EXPECT_EQ(driver, (std::array<std::uint8_t, 16>{10, 0, 0, 0, 0x01, 0x00, 0x5e, 0x0a, 2, 3}));
  std::memcpy(request.attr.grh.dgid, ipv6_group.data(), ipv6_group.size());
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_CREATE_AH, request, handle, Nothing{}, driver), 0);
  EXPECT_EQ(driver, (std::array<std::uint8_t, 16>{10, 0, 0, 0, 0x33, 0x33, 0x9a, 1, 2, 3}));
}

// Pages of the file: the mapping's command in bits 15..8 of the page number, an index below; mlx5-abi.h.
TEST_F(UverbsFileTest, DatagramQueuesJoinMulticastGroups) {
  open_all();
  QpAnswer rc, ud;
  ASSERT_EQ(create_qp(IB_UVERBS_QPT_UD, pd, cq, qp_driver(uar), kSmallCap, ud), 0);
  ib_uverbs_attach_mcast group{};
  const std::array<std::uint8_t, 16> gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  std::ranges::copy(gid, group.gid);
  group.qp_handle = ud.handle;
  group.mlid = 0xc000;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_DETACH_MCAST, group), EINVAL) << "not in it";
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ATTACH_MCAST, group), 0);
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ATTACH_MCAST, group), 0) << "again";
  std::uint32_t events = 0;
  const auto destroy_qp = [&](std::uint32_t handle) {
    return invoke(*file, IB_USER_VERBS_CMD_DESTROY_QP, std::array<std::uint32_t, 4>{0, 0, handle, 0}, events);
  };
  EXPECT_EQ(destroy_qp(ud.handle), EBUSY);
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_DETACH_MCAST, group), 0);
  group.gid[12] = 127;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ATTACH_MCAST, group), EINVAL) << "one machine's address";
  group.gid[12] = 239;
  group.qp_handle = 0x7777;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ATTACH_MCAST, group), EINVAL);
  EXPECT_EQ(destroy_qp(ud.handle), 0);
  ASSERT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, qp_driver(uar), kSmallCap, rc), 0);
  group.qp_handle = rc.handle;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ATTACH_MCAST, group), EINVAL) << "RC";
  // A file that is closed takes its queues out of their groups.
  ASSERT_EQ(destroy_qp(rc.handle), 0);
  ASSERT_EQ(create_qp(IB_UVERBS_QPT_UD, pd, cq, qp_driver(uar), kSmallCap, ud), 0);
  group.qp_handle = ud.handle;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ATTACH_MCAST, group), 0);
  file.reset();
  const std::array<std::byte, 16> query{std::byte{0x05},
                                        std::byte{0x0b},
                                        {},
                                        {},
                                        {},
                                        {},
                                        {},
                                        {},
                                        {},
                                        static_cast<std::byte>(ud.qpn >> 16),
                                        static_cast<std::byte>(ud.qpn >> 8),
                                        static_cast<std::byte>(ud.qpn)};
  std::array<std::byte, 0x110> out{};
  firmware.execute(query, out);
  EXPECT_NE(out[0], std::byte{0}) << "the queue pair is gone";
}

TEST_F(UverbsFileTest, TheClockIsMappedToRead) {
  mlx5_ib_alloc_ucontext_resp response{};
  ASSERT_EQ(get_context(response), 0);
  EXPECT_EQ(response.comp_mask & 1u, 1u) << "the clock's offset";
  EXPECT_EQ(response.hca_core_clock_offset, 0u);
  EXPECT_EQ(response.clock_info_versions, 1u);
  constexpr std::uint64_t kClock = std::uint64_t{5} << 8 << 12, kClockInfo = std::uint64_t{7} << 8 << 12;
  const auto clock = file->mmap(4096, PROT_READ, kClock);
  ASSERT_TRUE(clock.has_value());
  firmware.clock() = std::byte{0x5a};
  EXPECT_EQ((*clock)[0], std::byte{0x5a});
  EXPECT_EQ(file->mmap(4096, PROT_READ | PROT_WRITE, kClock).error(), EPERM);
  EXPECT_EQ(file->mmap(4096, PROT_READ, kClockInfo + 4096).error(), EINVAL) << "another version";
  const auto page = file->mmap(4096, PROT_READ, kClockInfo);
  ASSERT_TRUE(page.has_value());
  const auto& info = *reinterpret_cast<const mlx5_ib_clock_info*>(*page);
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  const std::uint64_t now_ns =
      info.nsec +
      ((std::chrono::steady_clock::now().time_since_epoch().count() - info.cycles) * info.mult >> info.shift);
  const auto after = std::chrono::system_clock::now().time_since_epoch();
  const std::uint64_t slack_ns = 100'000'000;  // between its two readings, when the machine is busy
  EXPECT_GE(now_ns + slack_ns, static_cast<std::uint64_t>(std::chrono::nanoseconds(before).count()));
  EXPECT_LE(now_ns, static_cast<std::uint64_t>(std::chrono::nanoseconds(after).count()) + slack_ns);
  EXPECT_EQ(info.sign & 1u, 0u) << "not being changed";
}

TEST_F(UverbsFileTest, AnOpenedFileTellsItsContextAgain) {
  mlx5_ib_alloc_ucontext_resp first{}, again{};
  const auto query = [&] {
    return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT)
        .out(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, again)
        .run(*file);
  };
  EXPECT_EQ(query(), EINVAL) << "none yet";
  ASSERT_EQ(get_context(first), 0);
  ASSERT_EQ(query(), 0);
  EXPECT_EQ(std::memcmp(&first, &again, sizeof first), 0);
}

TEST_F(UverbsFileTest, MemoryWindowsAreKeysToBind) {
  open_all();
  ib_uverbs_alloc_mw good{};
  good.pd_handle = pd;
  good.mw_type = 1;
  std::array<std::uint32_t, 2> response{};
  for (const std::uint8_t type : {1, 2}) {
    ib_uverbs_alloc_mw request = good;
    request.mw_type = type;
    ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_ALLOC_MW, request, response), 0);
    EXPECT_NE(response[1], 0u);
    EXPECT_EQ(destroy(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, UVERBS_ATTR_DESTROY_PD_HANDLE, pd), EBUSY);
    EXPECT_EQ(destroy(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, UVERBS_ATTR_DESTROY_MW_HANDLE, response[0]), 0);
  }
  for (const std::uint8_t type : {0, 3}) {
    ib_uverbs_alloc_mw request = good;
    request.mw_type = type;
    EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ALLOC_MW, request, response), EINVAL) << int{type};
  }
  ib_uverbs_alloc_mw request = good;
  request.pd_handle = cq;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_ALLOC_MW, request, response), EINVAL);
}

TEST_F(UverbsFileTest, ARegionThatIsRegisteredAgainKeepsItsKey) {
  open_all();
  std::array<std::uint32_t, 3> mr{};
  const std::uint64_t start = address_of(memory);
  ASSERT_EQ(reg_mr(pd, start, 4096, IB_UVERBS_ACCESS_LOCAL_WRITE, mr), 0);
  const auto fault = [&](std::uint64_t va, hca::Access access) {
    std::vector<hca::DmaRange> ranges;
    return firmware.hca().resolve(mr[2], pdn, va, 8, access, ranges);
  };
  EXPECT_EQ(fault(start, hca::Access::kRemoteWrite), hca::MkeyFault::kNoRight);
  ib_uverbs_rereg_mr request{};
  request.mr_handle = mr[0];
  request.flags = 4;
  request.access_flags = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE;
  std::array<std::uint32_t, 2> keys{};
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_REREG_MR, request, keys), 0);
  EXPECT_EQ(keys, (std::array{mr[1], mr[2]}));
  EXPECT_EQ(fault(start, hca::Access::kRemoteWrite), hca::MkeyFault::kNone);
  request.flags = 1;
  request.start = request.hca_va = start + 8192;
  request.length = 4096;
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_REREG_MR, request, keys), 0);
  EXPECT_EQ(keys, (std::array{mr[1], mr[2]}));
  EXPECT_EQ(fault(start, hca::Access::kRemoteWrite), hca::MkeyFault::kOutOfBounds);
  EXPECT_EQ(fault(start + 8192, hca::Access::kRemoteWrite), hca::MkeyFault::kNone) << "with the rights it has";
  request.start = request.hca_va = 4096;  // not mapped: nothing changes
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_REREG_MR, request, keys), EFAULT);
  EXPECT_EQ(fault(start + 8192, hca::Access::kRemoteWrite), hca::MkeyFault::kNone);
}

TEST_F(UverbsFileTest, AnXrcTargetBelongsToItsDomain) {
  open_all();
  std::uint32_t xrcd = 0;
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, std::array<std::uint32_t, 4>{0, 0, UINT32_MAX, 0}, xrcd), 0);
  mlx5_ib_create_qp driver{};
  driver.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX;
  const std::uint64_t user_handle = 1, type = IB_UVERBS_QPT_XRC_TGT;
  ib_uverbs_qp_cap cap{};
  std::uint32_t qpn = 0;
  mlx5_ib_create_qp_resp response{};
  const auto create = [&](bool with_domain) {
    Ioctl request(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    if (with_domain) {
      request.handle(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, xrcd);
    }
    return request.handle(UVERBS_ATTR_CREATE_QP_HANDLE)
        .in(UVERBS_ATTR_CREATE_QP_TYPE, type)
        .in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, user_handle)
        .in(UVERBS_ATTR_CREATE_QP_CAP, cap)
        .out(UVERBS_ATTR_CREATE_QP_RESP_CAP, cap)
        .out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qpn)
        .in(UVERBS_ATTR_UHW_IN, driver)
        .out(UVERBS_ATTR_UHW_OUT, response)
        .run(*file);
  };
  EXPECT_EQ(create(false), EINVAL);
  ASSERT_EQ(create(true), 0);
  const hca::Qp* const qp = firmware.hca().find_qp(qpn);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->type, hca::QpType::kXrc);
  EXPECT_FALSE(qp->has_sq);
  EXPECT_EQ(qp->xrcd, file->find<Xrcd>(xrcd)->domain->number);
  EXPECT_EQ(destroy(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, UVERBS_ATTR_DESTROY_XRCD_HANDLE, xrcd), EBUSY);
}

TEST_F(UverbsFileTest, ADcTargetHasItsNumberFromRtrOn) {
  open_all();
  mlx5_ib_create_srq srq_driver{};
  srq_driver.buf_addr = address_of(memory) + 96 * 1024;
  srq_driver.db_addr = address_of(memory) + kQpRecord + 64;
  std::array<std::uint32_t, 4> srq{};
  ib_uverbs_create_srq srq_request{};
  srq_request.pd_handle = pd;
  srq_request.max_wr = 15;
  srq_request.max_sge = 1;
  ASSERT_EQ(invoke(*file, IB_USER_VERBS_CMD_CREATE_SRQ, srq_request, srq, srq_driver, std::uint64_t{}), 0);
  mlx5_ib_create_qp driver{};
  driver.flags = MLX5_QP_FLAG_TYPE_DCT | MLX5_QP_FLAG_SCATTER_CQE;
  driver.access_key = 0x77;
  QpAnswer dct;
  EXPECT_EQ(create_qp(IB_UVERBS_QPT_DRIVER, pd, cq, driver, {}, dct), EINVAL) << "without an SRQ";
  ASSERT_EQ(create_qp(IB_UVERBS_QPT_DRIVER, pd, cq, driver, {}, dct, srq[0]), 0);
  ib_uverbs_ex_modify_qp request{};
  request.base.qp_handle = dct.handle;
  request.base.attr_mask = kAttrState | kAttrAccess | kAttrPkeyIndex | kAttrPort;
  request.base.qp_state = static_cast<std::uint8_t>(State::kInit);
  request.base.qp_access_flags = IB_UVERBS_ACCESS_REMOTE_WRITE;
  request.base.port_num = 1;
  std::uint64_t core{};
  mlx5_ib_modify_qp_resp response{};
  const auto modify = [&] {
    constexpr std::uint64_t kExModifyQp = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP;
    return invoke(*file, kExModifyQp, request, core, mlx5_ib_modify_qp{}, response);
  };
  request.base.attr_mask |= kAttrTimeout;
  EXPECT_EQ(modify(), EINVAL) << "not exactly what it takes";
  request.base.attr_mask &= ~kAttrTimeout;
  ASSERT_EQ(modify(), 0);
  request.base.attr_mask = kAttrState | kAttrMinRnrTimer | kAttrAv | kAttrPathMtu;
  request.base.qp_state = static_cast<std::uint8_t>(State::kRtr);
  request.base.path_mtu = 3;
  request.base.min_rnr_timer = 12;
  request.base.dest.is_global = 1;
  request.base.dest.port_num = 1;
  ASSERT_EQ(modify(), 0);
  const hca::Qp* const qp = firmware.hca().find_qp(response.dctn);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->type, hca::QpType::kDct);
  EXPECT_EQ(qp->dc_access_key, 0x77u);
  EXPECT_TRUE(qp->remote_write);
  EXPECT_FALSE(qp->remote_read);
  EXPECT_EQ(destroy_qp(dct.handle), 0);
  EXPECT_EQ(firmware.hca().find_qp(response.dctn), nullptr);
}

struct OpenXrcd {
  std::uint64_t response = 0;
  std::int32_t fd = -1;
  std::uint32_t flags = 0;
};

TEST_F(UverbsFileTest, AnXrcDomainIsPrivateOrAFiles) {
  open_context();
  std::uint32_t handle = 0;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, OpenXrcd{}, handle), 0);
  const int fd = ::memfd_create("xrcd", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, OpenXrcd{.fd = fd}, handle), EAGAIN) << "none is open";
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, OpenXrcd{.fd = fd, .flags = O_CREAT}, handle), 0);
  const int same_file = ::dup(fd);
  std::uint32_t second = 0;
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, OpenXrcd{.fd = same_file}, second), 0);
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, OpenXrcd{.fd = fd, .flags = O_CREAT | O_EXCL}, second), EINVAL);
  EXPECT_EQ(file->find<Xrcd>(handle)->domain, file->find<Xrcd>(second)->domain);
  for (const std::uint32_t opened : {handle, second}) {
    EXPECT_EQ(Ioctl(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY)
                  .handle(UVERBS_ATTR_DESTROY_XRCD_HANDLE, opened)
                  .run(*file),
              0);
  }
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, OpenXrcd{.fd = fd}, handle), EAGAIN) << "closed with its last";
  ::close(same_file);
  ::close(fd);
  EXPECT_EQ(invoke(*file, IB_USER_VERBS_CMD_OPEN_XRCD, OpenXrcd{.fd = fd, .flags = O_CREAT}, handle), EBADF);
}

TEST_F(UverbsFileTest, DevxAnswersCapabilities) {
  open_context();
  std::array<std::uint8_t, 16> in{0x01, 0x00, 0, 0, 0, 0, 0, 1};  // QUERY_HCA_CAP, general, current
  std::array<std::uint8_t, 4112> out{};
  ASSERT_EQ(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
                .in(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in)
                .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
                .run(*file),
            0);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[0x10 + 0x13] & 0x1f, 17);  // log_max_qp
  in[7] = 0x7f;                            // no such group
  EXPECT_EQ(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
                .in(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in)
                .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
                .run(*file),
            EREMOTEIO);
  EXPECT_NE(out[0], 0);
  in = {0x05, 0x00};  // CREATE_QP is not a general command
  EXPECT_EQ(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
                .in(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in)
                .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
                .run(*file),
            EINVAL);
}

TEST_F(UverbsFileTest, WriteCommandsAreSized) {
  struct {
    ib_uverbs_cmd_hdr header;
    std::uint64_t response;
    mlx5_ib_alloc_ucontext_req_v2 driver;
  } request{{IB_USER_VERBS_CMD_GET_CONTEXT, sizeof request / 4, 20}, 0, context_request()};
  struct {
    std::uint32_t async_fd, vectors;
    mlx5_ib_alloc_ucontext_resp driver;
  } response{};
  static_assert(sizeof response == 80);
  request.response = address_of(&response);
  const auto run = [&](std::size_t bytes) { return file->write(address_of(&request), bytes); };
  EXPECT_EQ(run(7), EINVAL);
  EXPECT_EQ(run(sizeof request - 4), EINVAL);
  request.header.out_words = 1;
  EXPECT_EQ(run(sizeof request), ENOSPC);
  request.header.out_words = 20;
  ASSERT_EQ(run(sizeof request), 0);
  EXPECT_EQ(response.driver.response_length, 72u);
  EXPECT_TRUE(::write(static_cast<int>(response.async_fd), "", 0) >= -1);
  EXPECT_EQ(file->write(8, 16), EFAULT);

  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_ex_cmd_hdr ex;
    std::uint64_t core;
  } query{{0x80000001, 1, 38}, {0, 0, 13, 0}, 0};
  std::array<std::byte, 304 + 104> answer{};
  query.ex.response = address_of(answer.data());
  EXPECT_EQ(file->write(address_of(&query), sizeof query), 0);
  query.ex.cmd_hdr_reserved = 1;
  EXPECT_EQ(file->write(address_of(&query), sizeof query), EINVAL);
  query.ex.cmd_hdr_reserved = 0;
  query.header.out_words = 1;
  EXPECT_EQ(file->write(address_of(&query), sizeof query), ENOSPC);
  query.header.out_words = 38;
  query.ex.response = 0;
  EXPECT_EQ(file->write(address_of(&query), sizeof query), EINVAL);
  ::close(static_cast<int>(response.async_fd));
}

TEST_F(UverbsFileTest, ClosingTakesEverythingDown) {
  open_all();
  std::array<std::uint32_t, 3> mr{};
  ASSERT_EQ(reg_mr(pd, address_of(memory), 4096, 7, mr), 0);
  QpAnswer qp;
  ASSERT_EQ(create_qp(IB_UVERBS_QPT_RC, pd, cq, qp_driver(uar), kSmallCap, qp), 0);
  ib_uverbs_modify_qp m;
  to_init(m, qp.handle);
  ASSERT_EQ(modify(m), 0);
  const std::uint32_t old_uar = uar;
  file = std::make_unique<UverbsFile>(*device);
  EXPECT_TRUE(firmware.hca().uar(old_uar).empty());
  EXPECT_EQ(firmware.hca().find_qp(qp.qpn), nullptr);
  ::close(async_fd);
}

TEST_F(UverbsFileTest, ChildHasNoDevice) {
  open_context();
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint32_t handle = 0, number = 0;
    ::_exit(alloc_pd(handle, number) == EIO && !file->mmap(4096, PROT_WRITE, 0).has_value() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace softhca::kernel
