// Random ioctl and write() requests to a file that already has one object of each kind.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tests/tools/softhca/kernel/soft_kernel.h"

namespace softhca::kernel {
namespace {

// CREATE_CQ, CREATE_QP, CREATE_MKEY, CREATE_SRQ, CREATE_XRC_SRQ, CREATE_RMP, CREATE_SQ, CREATE_RQ, CREATE_TIR,
// ALLOC_FLOW_COUNTER and what asks about them.
constexpr std::uint16_t kOpcodes[] = {0x400, 0x500, 0x200, 0x700, 0x705, 0x90c, 0x904, 0x908, 0x900,
                                      0x939, 0x402, 0x50b, 0x403, 0x502, 0x507, 0x93b, 0x801, 0x100};

constexpr std::uint16_t kObjects[] = {UVERBS_OBJECT_DEVICE,
                                      UVERBS_OBJECT_PD,
                                      UVERBS_OBJECT_CQ,
                                      UVERBS_OBJECT_QP,
                                      UVERBS_OBJECT_SRQ,
                                      UVERBS_OBJECT_MR,
                                      UVERBS_OBJECT_AH,
                                      MLX5_IB_OBJECT_DEVX,
                                      MLX5_IB_OBJECT_UAR,
                                      UVERBS_OBJECT_DM,
                                      MLX5_IB_OBJECT_DEVX_UMEM,
                                      MLX5_IB_OBJECT_DEVX_OBJ,
                                      MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
                                      UVERBS_OBJECT_XRCD};

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) {
      return 0;
    }
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
      value = value << 8 | byte();
    }
    return value;
  }
  void fill(std::span<std::byte> to) {
    for (std::byte& b : to) {
      b = std::byte{byte()};
    }
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// A small number, a handle, an address that is good or bad, or anything.
std::uint64_t value_of(Input& input, std::span<std::byte> scratch) {
  switch (input.byte() % 5) {
    case 0:
      return input.byte() % 16;
    case 1:
      return address_of(scratch.data()) + input.byte() * 16;
    case 2:
      return input.byte();  // an address of the page that is never mapped
    case 3:
      return 0x80000000u | (input.byte() % 60);
    default:
      return input.word();
  }
}

void random_ioctl(Input& input, UverbsFile& file, std::span<std::byte> scratch) {
  const std::uint8_t which = input.byte();
  Ioctl request(kObjects[which % std::size(kObjects)],
                static_cast<std::uint16_t>((which & 0x80 ? 0x1000 : 0) + input.byte() % 8));
  const int attrs = input.byte() % 16;
  for (int i = 0; i < attrs; ++i) {
    const std::uint8_t id = input.byte();
    static constexpr std::uint16_t kSizes[] = {0, 0, 4, 4, 8, 8, 16, 20, 32, 40, 56, 72, 104, 112, 120, 304};
    const std::uint16_t bytes = kSizes[input.byte() % std::size(kSizes)];
    request.attr(static_cast<std::uint16_t>((id & 0x80 ? 0x1000 : 0) + id % 17), bytes, value_of(input, scratch),
                 input.byte() & 1);
  }
  request.run(file);
}

void random_write(Input& input, UverbsFile& file, std::span<std::byte> scratch) {
  const auto message = scratch.subspan(2048, 512);
  const std::size_t bytes = input.byte() * std::size_t{2};
  input.fill(message.first(std::min<std::size_t>(bytes, message.size())));
  ib_uverbs_cmd_hdr header{};
  header.command = input.byte() % 64 | (input.byte() & 1 ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0u);
  header.in_words = static_cast<std::uint16_t>(bytes / (header.command >> 31 ? 8 : 4));
  header.out_words = input.byte();
  std::memcpy(message.data(), &header, sizeof header);
  const std::uint64_t response = address_of(scratch.data());
  std::memcpy(message.data() + sizeof header, &response, sizeof response);
  file.write(address_of(message.data()), bytes);
}

// A command of the device's, with most of its mailbox zeros and umems of small numbers, by one of DEVX's methods.
void random_command(Input& input, UverbsFile& file) {
  std::array<std::uint32_t, 0x130 / 4> in{};
  std::array<std::uint32_t, 0x130 / 4> out{};
  in[0] = __builtin_bswap32(std::uint32_t{kOpcodes[input.byte() % std::size(kOpcodes)]} << 16);
  for (int i = input.byte() % 12; i > 0; --i) {
    const std::size_t at = input.byte() % in.size();
    in[at] = __builtin_bswap32(input.byte() % 4 == 0 ? static_cast<std::uint32_t>(input.word()) : input.byte());
  }
  const std::uint32_t handle = input.byte() % 16;
  switch (input.byte() % 4) {
    case 0:
      Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE)
          .handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
          .in(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, in)
          .out(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out)
          .run(file);
      return;
    case 1:
      Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY)
          .handle(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, handle)
          .in(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, in)
          .out(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, out)
          .run(file);
      return;
    case 2:
      Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY)
          .handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, handle)
          .in(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, in)
          .out(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, out)
          .run(file);
      return;
    default:
      Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
          .in(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in)
          .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
          .run(file);
  }
}

// Descriptors that requests opened: everything from the lowest free number on.
void close_from(int first) { ::close_range(static_cast<unsigned>(first), ~0u, 0); }

}  // namespace
}  // namespace softhca::kernel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca::kernel;  // NOLINT
  static SoftKernel* const kernel = new SoftKernel;
  kernel->file = std::make_unique<UverbsFile>(*kernel->device);
  Input input({data, std::min<std::size_t>(size, 4096)});
  const int first_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input.byte() % 8 != 0 && kernel->get_context() == 0) {
    std::uint32_t pd = 0, pdn = 0, uar_handle = 0, uar = 0, cq = 0, cqe = 0;
    std::uint64_t offset = 0;
    std::array<std::uint32_t, 3> mr{};
    SoftKernel::QpAnswer qp;
    kernel->alloc_pd(pd, pdn);
    std::uint32_t umem_id = 0;
    const std::uint64_t umem = address_of(kernel->memory) + 8 * 4096, umem_bytes = 4 * 4096;
    Ioctl(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG)
        .handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE)
        .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, umem)
        .in(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, umem_bytes)
        .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, std::uint32_t{IB_UVERBS_ACCESS_LOCAL_WRITE})
        .out(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, umem_id)
        .run(*kernel->file);
    kernel->reg_mr(pd, address_of(kernel->memory), 4096, 7, mr);
    kernel->alloc_uar(uar_handle, uar, offset);
    kernel->create_cq(63, kernel->cq_driver(uar), cq, cqe);
    kernel->create_qp(input.byte() % 2 == 0 ? IB_UVERBS_QPT_RC : IB_UVERBS_QPT_UD, pd, cq, kernel->qp_driver(uar),
                      kSmallCap, qp);
  }
  for (int requests = 0; requests < 32 && !input.empty(); ++requests) {
    // The requests may overwrite their own memory, but nothing else: addresses point into this part.
    const std::span<std::byte> scratch(kernel->memory + 16 * 4096, 16 * 4096);
    const std::uint8_t kind = input.byte() % 3;
    if (kind == 0) {
      random_ioctl(input, *kernel->file, scratch);
    } else if (kind == 1) {
      random_command(input, *kernel->file);
    } else {
      random_write(input, *kernel->file, scratch);
    }
  }
  kernel->file.reset();
  close_from(first_free);
  return 0;
}
