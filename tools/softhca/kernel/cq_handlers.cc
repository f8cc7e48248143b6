// Completion channels and completion queues.
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/user_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/mini_cqe.h"
#include "wqe/prm/cq.h"

namespace softhca::kernel::handlers {
namespace {

namespace prm = umlx5::wqe::prm;
using umlx5::wqe::MiniCqeFormat;

constexpr std::uint32_t kKnownFlags = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
constexpr std::uint32_t kModerate = 1;

// What all three ways to ask for a CQ have in common.
struct CqRequest {
  std::uint32_t cqe = 0, vector = 0, flags = 0;
  std::uint64_t user_handle = 0;
  std::shared_ptr<EventFile> channel = nullptr, async = nullptr;
};

int check_driver_part(Request& request, const mlx5_ib_create_cq& driver) {
  constexpr std::uint16_t kKnown = MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD | MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX |
                                   MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;
  if (request.driver_in().size() < offsetof(mlx5_ib_create_cq, flags) || (driver.flags & ~kKnown) != 0 ||
      (driver.cqe_size != 64 && driver.cqe_size != 128) || driver.reserved0 != 0 || driver.reserved1 != 0 ||
      (driver.flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX) == 0) {
    return EINVAL;
  }
  const auto& caps = request.device().caps();
  const bool pads = (driver.flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) != 0;
  if ((pads && (driver.cqe_size != 128 || !caps.cqe_128_always)) ||
      (driver.flags & MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS) != 0) {
    return EOPNOTSUPP;
  }
  return 0;
}

// What the device is told of compression.
int set_compression(Request& request, const mlx5_ib_create_cq& driver, prm::Cqc& cqc) {
  const auto& caps = request.device().caps();
  if (driver.cqe_comp_en != 1) {
    return 0;
  }
  if (driver.cqe_size == 64 ? !caps.cqe_compression : !caps.cqe_compression_128) {
    return EOPNOTSUPP;
  }
  MiniCqeFormat format{};
  switch (driver.cqe_comp_res_format) {
    case MLX5_IB_CQE_RES_FORMAT_HASH:
      format = MiniCqeFormat::kRxHash;
      break;
    case MLX5_IB_CQE_RES_FORMAT_CSUM:
      format = MiniCqeFormat::kChecksum;
      break;
    case MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX:
      if (!caps.mini_cqe_resp_stride_index) {
        return EOPNOTSUPP;
      }
      format = MiniCqeFormat::kChecksumStrideIndex;
      break;
    default:
      return EINVAL;
  }
  cqc.cqe_comp_en = true;
  cqc.mini_cqe_res_format = static_cast<std::uint8_t>(format);
  return 0;
}

// Where the entries lie, as CREATE_CQ and MODIFY_CQ take it.
std::expected<PageRun, int> pages_of(std::uint64_t address, std::uint64_t bytes, prm::Cqc& cqc) {
  if (const int error = pin_user_memory(address, bytes, true); error != 0) {
    return std::unexpected(error);
  }
  PageRun pages = queue_pages(address, bytes);
  if (pages.addresses.empty()) {
    return std::unexpected(EINVAL);
  }
  cqc.log_page_size = static_cast<std::uint8_t>(pages.log_page_bytes - 12);
  cqc.page_offset = static_cast<std::uint8_t>(pages.offset_bytes >> (pages.log_page_bytes - 6));
  return pages;
}

// The new CQ, still without an event sink.
std::expected<std::unique_ptr<Cq>, int> make_cq(Request& request, const CqRequest& asked) {
  RdmaDevice& device = request.device();
  const std::uint64_t max_entries = std::uint64_t{1} << device.caps().log_max_cq_sz;
  if (asked.vector >= device.events().completion_vectors()) {
    return std::unexpected(EINVAL);
  }
  if ((asked.flags & ~kKnownFlags) != 0) {
    return std::unexpected(EOPNOTSUPP);
  }
  if (asked.cqe == 0 || std::uint64_t{asked.cqe} + 1 > max_entries) {
    return std::unexpected(EINVAL);
  }
  mlx5_ib_create_cq driver{};
  request.get_driver(driver);
  if (const int error = check_driver_part(request, driver); error != 0) {
    return std::unexpected(error);
  }
  const std::uint32_t entries = std::bit_ceil(asked.cqe + 1);
  prm::CreateCqIn in{.header = {.opcode = prm::Opcode::kCreateCq, .uid = request.uid()}};
  const auto pages = pages_of(driver.buf_addr, std::uint64_t{entries} * driver.cqe_size, in.cqc);
  if (!pages) {
    return std::unexpected(pages.error());
  }
  if (const int error = pin_user_memory(driver.db_addr, 8, false); error != 0) {
    return std::unexpected(error);
  }
  if (const int error = set_compression(request, driver, in.cqc); error != 0) {
    return std::unexpected(error);
  }
  const bool pads = (driver.flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) != 0;
  in.cqc.cqe_sz = pads ? prm::CqeSize::kPadded128 : driver.cqe_size == 128 ? prm::CqeSize::k128 : prm::CqeSize::k64;
  in.cqc.oi = (asked.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN) != 0;
  in.cqc.log_cq_size = static_cast<std::uint8_t>(std::countr_zero(entries));
  in.cqc.uar_page = driver.uar_page_index;
  in.cqc.c_eqn = static_cast<std::uint8_t>(device.events().eqn_of_vector(asked.vector));
  in.cqc.dbr_addr = driver.db_addr;
  const auto out = command<prm::ObjectOut>(device.firmware(), in, pages->addresses);
  if (!out) {
    return std::unexpected(out.error());
  }
  auto cq = std::make_unique<Cq>(request.uid(), out->number);
  cq->cqe = entries - 1;
  cq->cqe_bytes = driver.cqe_size;
  return cq;
}

// Makes the CQ and answers the driver's part: the CQ's handle and entries.
std::expected<ib_uverbs_create_cq_resp, int> add_cq(Request& request, const CqRequest& asked) {
  auto cq = make_cq(request, asked);
  if (!cq) {
    return std::unexpected(cq.error());
  }
  const mlx5_ib_create_cq_resp driver{.cqn = (*cq)->number, .reserved = 0};
  const std::uint32_t entries = (*cq)->cqe;
  request.device().events().add(
      EventSource::kCq, (*cq)->number,
      {.user_handle = asked.user_handle,
       .completions = asked.channel,
       .asynchronous = asked.async != nullptr ? asked.async : request.file().default_async_file()});
  const std::uint32_t handle = request.adopt(std::move(*cq));
  if (const int error = request.put_driver(&driver, sizeof driver.cqn); error != 0) {
    return std::unexpected(error);
  }
  return ib_uverbs_create_cq_resp{.cq_handle = handle, .cqe = entries, .driver_data = {}};
}

// The channel of a write command: a descriptor, negative for none.
int find_channel(Request& request, std::int32_t fd, CqRequest& asked) {
  if (fd < 0) {
    return 0;
  }
  asked.channel = request.file().find_event_file(fd);
  return asked.channel != nullptr && asked.channel->object_type() == UVERBS_OBJECT_COMP_CHANNEL ? 0 : EBADF;
}

}  // namespace

int create_comp_channel(Request& request) {
  auto file = EventFile::open(UVERBS_OBJECT_COMP_CHANNEL, sizeof(ib_uverbs_comp_event_desc));
  if (!file) {
    return file.error();
  }
  request.adopt(*file);
  return request.put_core(ib_uverbs_create_comp_channel_resp{.fd = static_cast<std::uint32_t>((*file)->fd())});
}

int create_cq(Request& request) {
  const auto flags = request.flags(UVERBS_ATTR_CREATE_CQ_FLAGS, kKnownFlags);
  if (!flags) {
    return EINVAL;
  }
  const CqRequest asked{.cqe = request.value<std::uint32_t>(UVERBS_ATTR_CREATE_CQ_CQE),
                        .vector = request.value<std::uint32_t>(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR),
                        .flags = *flags,
                        .user_handle = request.value<std::uint64_t>(UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
                        .channel = request.event_file(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL),
                        .async = request.event_file(UVERBS_ATTR_CREATE_CQ_EVENT_FD)};
  const auto response = add_cq(request, asked);
  if (!response) {
    return response.error();
  }
  const int error = request.put_handle(UVERBS_ATTR_CREATE_CQ_HANDLE, response->cq_handle);
  return error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_CQ_RESP_CQE, response->cqe);
}

int write_create_cq(Request& request) {
  ib_uverbs_create_cq in{};
  if (const int error = request.get_core(in); error != 0) {
    return error;
  }
  CqRequest asked{.cqe = in.cqe, .vector = in.comp_vector, .user_handle = in.user_handle};
  if (const int error = find_channel(request, in.comp_channel, asked); error != 0) {
    return error;
  }
  const auto response = add_cq(request, asked);
  return response ? request.put_core(*response) : response.error();
}

int ex_create_cq(Request& request) {
  ib_uverbs_ex_create_cq in{};
  if (const int error = request.get_core(in); error != 0) {
    return error;
  }
  if (in.comp_mask != 0 || in.reserved != 0) {
    return EINVAL;
  }
  CqRequest asked{.cqe = in.cqe, .vector = in.comp_vector, .flags = in.flags, .user_handle = in.user_handle};
  if (const int error = find_channel(request, in.comp_channel, asked); error != 0) {
    return error;
  }
  const auto base = add_cq(request, asked);
  if (!base) {
    return base.error();
  }
  struct Response {
    std::uint32_t cq_handle, cqe, comp_mask, response_length;
  } response{base->cq_handle, base->cqe, 0, 0};
  static_assert(sizeof response == sizeof(ib_uverbs_ex_create_cq_resp));
  response.response_length = static_cast<std::uint32_t>(std::min(request.core_out_bytes(), sizeof response));
  return request.put_core(response);
}

int resize_cq(Request& request) {
  ib_uverbs_resize_cq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Cq* const cq = request.file().find<Cq>(asked.cq_handle);
  if (cq == nullptr) {
    return EINVAL;
  }
  const auto& caps = request.device().caps();
  const std::uint64_t max_entries = std::uint64_t{1} << caps.log_max_cq_sz;
  if (!caps.cq_resize) {
    return ENOSYS;
  }
  if (asked.cqe < 1 || std::uint64_t{asked.cqe} + 1 > max_entries) {
    return EINVAL;
  }
  const std::uint32_t entries = std::bit_ceil(asked.cqe + 1);
  if (entries != cq->cqe + 1) {
    mlx5_ib_resize_cq driver{};
    request.get_driver(driver);
    if (driver.reserved0 != 0 || driver.reserved1 != 0 || (driver.cqe_size != 64 && driver.cqe_size != 128)) {
      return EINVAL;
    }
    prm::ModifyCqIn in{.header = {.opcode = prm::Opcode::kModifyCq, .uid = request.uid(), .op_mod = prm::kResizeCq},
                       .cqn = cq->number,
                       .field_select = prm::kResizeCqSize | prm::kResizeCqPageOffset | prm::kResizeCqPageSize};
    const auto pages = pages_of(driver.buf_addr, std::uint64_t{entries} * driver.cqe_size, in.cqc);
    if (!pages) {
      return pages.error();
    }
    in.cqc.log_cq_size = static_cast<std::uint8_t>(std::countr_zero(entries));
    in.cqc.cqe_sz = driver.cqe_size == 128 ? prm::CqeSize::k128 : prm::CqeSize::k64;
    const auto out = command<prm::ObjectOut>(request.firmware(), in, pages->addresses);
    if (!out) {
      return out.error();
    }
    cq->cqe = entries - 1;
    cq->cqe_bytes = driver.cqe_size;
  }
  return request.put_core(cq->cqe);
}

int ex_modify_cq(Request& request) {
  ib_uverbs_ex_modify_cq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  if (asked.attr_mask == 0 || asked.reserved != 0) {
    return EINVAL;
  }
  if ((asked.attr_mask & ~kModerate) != 0) {
    return EOPNOTSUPP;
  }
  Cq* const cq = request.file().find<Cq>(asked.cq_handle);
  if (cq == nullptr) {
    return EINVAL;
  }
  if (!request.device().caps().cq_moderation) {
    return EOPNOTSUPP;
  }
  if (asked.attr.cq_period > 0xfff) {
    return EINVAL;
  }
  prm::ModifyCqIn in{.header = {.opcode = prm::Opcode::kModifyCq, .uid = request.uid(), .op_mod = prm::kModifyCq},
                     .cqn = cq->number,
                     .field_select = prm::kCqPeriod | prm::kCqMaxCount};
  in.cqc.cq_period = asked.attr.cq_period;
  in.cqc.cq_max_count = asked.attr.cq_count;
  const auto out = command<prm::ObjectOut>(request.firmware(), in);
  return out ? 0 : out.error();
}

int destroy_cq(Request& request) {
  const auto counts = request.file().destroy(*request.object<Cq>(UVERBS_ATTR_DESTROY_CQ_HANDLE));
  if (!counts) {
    return counts.error();
  }
  return request.put_value(UVERBS_ATTR_DESTROY_CQ_RESP,
                           ib_uverbs_destroy_cq_resp{counts->completions, counts->asynchronous});
}

int write_destroy_cq(Request& request) {
  ib_uverbs_destroy_cq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Cq* const cq = request.file().find<Cq>(asked.cq_handle);
  if (cq == nullptr) {
    return ENOENT;
  }
  const auto counts = request.file().destroy(*cq);
  return counts ? request.put_core(ib_uverbs_destroy_cq_resp{counts->completions, counts->asynchronous})
                : counts.error();
}

}  // namespace softhca::kernel::handlers
