// Shared receive queues.
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
#include "wqe/prm/srq.h"

namespace softhca::kernel::handlers {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint32_t kSrqMaxWr = 1, kSrqLimit = 2;
constexpr std::size_t kSegmentBytes = 16;
constexpr std::uint32_t kMaxUserIndex = 0xffffff;

struct SrqRequest {
  std::uint32_t type = IB_UVERBS_SRQT_BASIC, max_wr = 0, max_sge = 0;
  std::uint64_t user_handle = 0;
  Pd* pd = nullptr;
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
  std::shared_ptr<EventFile> async = nullptr;
};

struct Response {
  std::uint32_t handle = 0, max_wr = 0, max_sge = 0, srqn = 0;
};

std::uint32_t stride_of(std::uint32_t max_sge) {
  return std::max<std::uint32_t>(32, std::bit_ceil(static_cast<std::uint32_t>((1 + max_sge) * kSegmentBytes)));
}

int check(Request& request, const SrqRequest& asked, const mlx5_ib_create_srq& driver) {
  const auto& caps = request.device().caps();
  if (asked.type != IB_UVERBS_SRQT_BASIC && !(asked.type == IB_UVERBS_SRQT_XRC && caps.xrc)) {
    return EOPNOTSUPP;
  }
  const bool is_xrc = asked.type == IB_UVERBS_SRQT_XRC;
  const bool bad_index = is_xrc && request.file().context()->cqe_version != 0 && driver.uidx >= kMaxUserIndex;
  if (asked.pd == nullptr || (is_xrc && (asked.xrcd == nullptr || asked.cq == nullptr)) || bad_index ||
      asked.max_wr >= 1u << caps.log_max_srq_sz || asked.max_sge > caps.max_wqe_sz_rq / kSegmentBytes ||
      driver.reserved0 != 0 || driver.reserved1 != 0 || !request.driver_in_is_zero_from(sizeof driver)) {
    return EINVAL;
  }
  return 0;
}

// Context fields that SRQs and XRC SRQs place differently.
struct Geometry {
  std::uint8_t log_entries, log_stride, log_page, page_offset;
  std::uint64_t doorbell_record;
};

std::expected<std::uint32_t, int> create_on_device(Request& request, const SrqRequest& asked,
                                                   const mlx5_ib_create_srq& driver, const Geometry& g,
                                                   const PageRun& pages) {
  if (asked.type == IB_UVERBS_SRQT_XRC) {
    prm::CreateXrcSrqIn in{.header = {.opcode = prm::Opcode::kCreateXrcSrq, .uid = request.uid()}};
    in.xrc_srqc.log_xrc_srq_size = g.log_entries;
    in.xrc_srqc.wq_signature = (driver.flags & MLX5_SRQ_FLAG_SIGNATURE) != 0;
    in.xrc_srqc.log_rq_stride = g.log_stride;
    in.xrc_srqc.log_page_size = g.log_page;
    in.xrc_srqc.page_offset = g.page_offset;
    in.xrc_srqc.dbr_addr = g.doorbell_record;
    in.xrc_srqc.xrcd = asked.xrcd->domain->number;
    in.xrc_srqc.cqn = asked.cq->number;
    in.xrc_srqc.pd = asked.pd->number;
    in.xrc_srqc.user_index = driver.uidx;
    const auto out = command<prm::ObjectOut>(request.firmware(), in, pages.addresses);
    return out ? std::expected<std::uint32_t, int>(out->number) : std::unexpected(out.error());
  }
  prm::CreateSrqIn in{.header = {.opcode = prm::Opcode::kCreateSrq, .uid = request.uid()}};
  in.srqc.log_srq_size = g.log_entries;
  in.srqc.wq_signature = (driver.flags & MLX5_SRQ_FLAG_SIGNATURE) != 0;
  in.srqc.log_rq_stride = g.log_stride;
  in.srqc.log_page_size = g.log_page;
  in.srqc.page_offset = g.page_offset;
  in.srqc.dbr_addr = g.doorbell_record;
  in.srqc.pd = asked.pd->number;
  const auto out = command<prm::ObjectOut>(request.firmware(), in, pages.addresses);
  return out ? std::expected<std::uint32_t, int>(out->number) : std::unexpected(out.error());
}

std::expected<std::unique_ptr<Srq>, int> make_srq(Request& request, const SrqRequest& asked) {
  mlx5_ib_create_srq driver{};
  request.get_driver(driver);
  if (const int error = check(request, asked, driver); error != 0) {
    return std::unexpected(error);
  }
  const std::uint32_t entries = std::bit_ceil(asked.max_wr + 1);
  const std::uint32_t stride_bytes = stride_of(asked.max_sge);
  const std::uint64_t bytes = std::uint64_t{entries} * stride_bytes;
  int error = pin_user_memory(driver.buf_addr, bytes, false);
  error = error != 0 ? error : pin_user_memory(driver.db_addr, 8, false);
  if (error != 0) {
    return std::unexpected(error);
  }
  const PageRun pages = queue_pages(driver.buf_addr, bytes);
  if (pages.addresses.empty()) {
    return std::unexpected(EINVAL);
  }
  const Geometry geometry{.log_entries = static_cast<std::uint8_t>(std::countr_zero(entries)),
                          .log_stride = static_cast<std::uint8_t>(std::countr_zero(stride_bytes) - 4),
                          .log_page = static_cast<std::uint8_t>(pages.log_page_bytes - 12),
                          .page_offset = static_cast<std::uint8_t>(pages.offset_bytes >> (pages.log_page_bytes - 6)),
                          .doorbell_record = driver.db_addr};
  const auto srqn = create_on_device(request, asked, driver, geometry, pages);
  if (!srqn) {
    return std::unexpected(srqn.error());
  }
  const bool is_xrc = asked.type == IB_UVERBS_SRQT_XRC;
  auto srq =
      std::make_unique<Srq>(request.uid(), *srqn, is_xrc ? prm::Opcode::kDestroyXrcSrq : prm::Opcode::kDestroySrq);
  srq->is_xrc = is_xrc;
  srq->entries = entries;
  srq->max_sge = stride_bytes / kSegmentBytes - 1;
  srq->use(asked.pd);
  srq->use(asked.xrcd);
  srq->use(asked.cq);
  return srq;
}

std::expected<Response, int> add_srq(Request& request, const SrqRequest& asked) {
  auto srq = make_srq(request, asked);
  if (!srq) {
    return std::unexpected(srq.error());
  }
  const mlx5_ib_create_srq_resp driver{.srqn = (*srq)->number, .reserved = 0};
  Response response{.handle = 0, .max_wr = (*srq)->entries - 1, .max_sge = asked.max_sge, .srqn = (*srq)->number};
  request.device().events().add(
      EventSource::kSrq, driver.srqn,
      {.user_handle = asked.user_handle,
       .completions = nullptr,
       .asynchronous = asked.async != nullptr ? asked.async : request.file().default_async_file()});
  response.handle = request.adopt(std::move(*srq));
  if (const int error = request.put_driver(&driver, sizeof driver); error != 0) {
    return std::unexpected(error);
  }
  return response;
}

std::expected<EventCounts, int> destroy_by(Request& request, Srq* srq) {
  return srq == nullptr ? std::unexpected(ENOENT) : request.file().destroy(*srq);
}

}  // namespace

int create_srq(Request& request) {
  const SrqRequest asked{.type = request.value<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_TYPE),
                         .max_wr = request.value<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_MAX_WR),
                         .max_sge = request.value<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_MAX_SGE),
                         .user_handle = request.value<std::uint64_t>(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
                         .pd = request.object<Pd>(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
                         .xrcd = request.object<Xrcd>(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE),
                         .cq = request.object<Cq>(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE),
                         .async = request.event_file(UVERBS_ATTR_CREATE_SRQ_EVENT_FD)};
  const auto response = add_srq(request, asked);
  if (!response) {
    return response.error();
  }
  int error = request.put_handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, response->handle);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, response->max_wr);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, response->max_sge);
  if (error == 0 && request.has(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM)) {
    error = request.put_value(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, response->srqn);
  }
  return error;
}

int write_create_srq(Request& request) {
  ib_uverbs_create_srq in{};
  if (const int error = request.get_core(in); error != 0) {
    return error;
  }
  const auto response = add_srq(request, {.max_wr = in.max_wr,
                                          .max_sge = in.max_sge,
                                          .user_handle = in.user_handle,
                                          .pd = request.file().find<Pd>(in.pd_handle)});
  return response ? request.put_core(*response) : response.error();
}

int write_create_xsrq(Request& request) {
  ib_uverbs_create_xsrq in{};
  if (const int error = request.get_core(in); error != 0) {
    return error;
  }
  const bool is_xrc = in.srq_type == IB_UVERBS_SRQT_XRC;
  const auto response = add_srq(request, {.type = in.srq_type,
                                          .max_wr = in.max_wr,
                                          .max_sge = in.max_sge,
                                          .user_handle = in.user_handle,
                                          .pd = request.file().find<Pd>(in.pd_handle),
                                          .xrcd = is_xrc ? request.file().find<Xrcd>(in.xrcd_handle) : nullptr,
                                          .cq = is_xrc ? request.file().find<Cq>(in.cq_handle) : nullptr});
  return response ? request.put_core(*response) : response.error();
}

int modify_srq(Request& request) {
  ib_uverbs_modify_srq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Srq* const srq = request.file().find<Srq>(asked.srq_handle);
  if (srq == nullptr || (asked.attr_mask & kSrqMaxWr) != 0) {
    return EINVAL;  // resizing is not supported
  }
  if ((asked.attr_mask & kSrqLimit) == 0) {
    return 0;
  }
  if (asked.srq_limit >= srq->entries) {
    return EINVAL;
  }
  const prm::ArmSrqIn in{.header = {.opcode = srq->is_xrc ? prm::Opcode::kArmXrcSrq : prm::Opcode::kArmRq,
                                    .uid = request.uid(),
                                    .op_mod = prm::kArmSrq},
                         .srqn = srq->number,
                         .lwm = static_cast<std::uint16_t>(asked.srq_limit)};
  const auto out = command<prm::ObjectOut>(request.firmware(), in);
  return out ? 0 : out.error();
}

int query_srq(Request& request) {
  ib_uverbs_query_srq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Srq* const srq = request.file().find<Srq>(asked.srq_handle);
  if (srq == nullptr) {
    return EINVAL;
  }
  ib_uverbs_query_srq_resp response{.max_wr = srq->entries - 1, .max_sge = srq->max_sge, .srq_limit = 0, .reserved = 0};
  const auto header = [&](prm::Opcode opcode) {
    return prm::ObjectIn{.header = {.opcode = opcode, .uid = request.uid()}, .number = srq->number};
  };
  if (srq->is_xrc) {
    const auto out = command<prm::QueryXrcSrqOut>(request.firmware(), header(prm::Opcode::kQueryXrcSrq));
    if (!out) {
      return out.error();
    }
    response.srq_limit = out->xrc_srqc.lwm;
  } else {
    const auto out = command<prm::QuerySrqOut>(request.firmware(), header(prm::Opcode::kQuerySrq));
    if (!out) {
      return out.error();
    }
    response.srq_limit = out->srqc.lwm;
  }
  return request.put_core(response);
}

int destroy_srq(Request& request) {
  const auto counts = destroy_by(request, request.object<Srq>(UVERBS_ATTR_DESTROY_SRQ_HANDLE));
  return counts ? request.put_value(UVERBS_ATTR_DESTROY_SRQ_RESP, counts->asynchronous) : counts.error();
}

int write_destroy_srq(Request& request) {
  ib_uverbs_destroy_srq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  const auto counts = destroy_by(request, request.file().find<Srq>(asked.srq_handle));
  return counts ? request.put_core(counts->asynchronous) : counts.error();
}

}  // namespace softhca::kernel::handlers
