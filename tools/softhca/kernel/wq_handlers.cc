// Receive work queues and the tables of them.
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/raw_queues.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/prm/sq_rq.h"
#include "wqe/prm/tir.h"

namespace softhca::kernel {

int Wq::release(RdmaDevice& device) {
  if (const int error = Numbered::release(device); error != 0) {
    return error;
  }
  reported = device.events().remove(EventSource::kQp, number);
  return 0;
}

namespace handlers {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint32_t kMaxUserIndex = 0xffffff;
constexpr std::uint32_t kSegmentBytes = 16;
// Flags and attributes of the verbs: enum ib_uverbs_wq_flags, ib_wq_attr_mask.
constexpr std::uint32_t kWqFlags = IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING;
constexpr std::uint32_t kWqAttrState = 1, kWqAttrCurrentState = 2, kWqAttrFlags = 4;

struct WqRequest {
  std::uint32_t type = 0, max_wr = 0, max_sge = 0, flags = 0;
  std::uint64_t user_handle = 0;
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  std::shared_ptr<EventFile> async = nullptr;
};

struct WqNumbers {
  std::uint32_t handle, wqn;
};

bool strides_fit(const Capabilities& caps, const mlx5_ib_create_wq& driver) {
  return (driver.comp_mask & MLX5_IB_CREATE_WQ_STRIDING_RQ) == 0 ||
         (driver.single_stride_log_num_of_bytes >= kMinLogStrideBytes &&
          driver.single_stride_log_num_of_bytes <= kMaxLogStrideBytes &&
          driver.single_wqe_log_num_of_strides >= caps.min_log_strides() &&
          driver.single_wqe_log_num_of_strides <= kMaxLogStrides);
}

int check(Request& request, const WqRequest& asked, const mlx5_ib_create_wq& driver) {
  constexpr std::size_t kLeast = offsetof(mlx5_ib_create_wq, comp_mask) + sizeof driver.comp_mask;
  const auto& caps = request.device().caps();
  if (request.driver_in().size() < kLeast || asked.pd == nullptr || asked.cq == nullptr) {
    return EINVAL;
  }
  const std::uint32_t known = caps.striding_rq ? std::uint32_t{MLX5_IB_CREATE_WQ_STRIDING_RQ} : 0;
  if (!request.driver_in_is_zero_from(sizeof driver) || (driver.comp_mask & ~known) != 0 || driver.flags != 0 ||
      asked.type != IB_UVERBS_WQT_RQ || !caps.raw_packets || (asked.flags & ~kWqFlags) != 0) {
    return EOPNOTSUPP;
  }
  if (!caps.vlan_stripping && asked.flags != 0) {
    return EOPNOTSUPP;
  }
  const bool bad_size = !std::has_single_bit(driver.rq_wqe_count) || driver.rq_wqe_count > 1u << caps.log_max_qp_sz ||
                        driver.rq_wqe_shift > 31 || 1u << driver.rq_wqe_shift > caps.max_wqe_sz_rq ||
                        1u << driver.rq_wqe_shift < kSegmentBytes;
  return bad_size || driver.user_index >= kMaxUserIndex || !strides_fit(caps, driver) ? EINVAL : 0;
}

std::expected<WqNumbers, int> add_wq(Request& request, const WqRequest& asked) {
  mlx5_ib_create_wq driver{};
  request.get_driver(driver);
  if (const int error = check(request, asked, driver); error != 0) {
    return std::unexpected(error);
  }
  ReceiveQueueParameters parameters{.uid = request.uid(),
                                    .pdn = asked.pd->number,
                                    .cqn = asked.cq->number,
                                    .user_index = driver.user_index,
                                    .address = driver.buf_addr,
                                    .doorbell_record = driver.db_addr,
                                    .entries = driver.rq_wqe_count,
                                    .log_wqe_bytes = static_cast<std::uint8_t>(driver.rq_wqe_shift),
                                    .strips_vlan = (asked.flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) != 0};
  if ((driver.comp_mask & MLX5_IB_CREATE_WQ_STRIDING_RQ) != 0) {
    parameters.striding = {.log_stride_bytes = driver.single_stride_log_num_of_bytes,
                           .log_strides = driver.single_wqe_log_num_of_strides,
                           .two_byte_shift = driver.two_byte_shift_en != 0};
  }
  const auto rqn = create_receive_queue(request.firmware(), parameters);
  if (!rqn) {
    return std::unexpected(rqn.error());
  }
  request.device().events().add(
      EventSource::kQp, *rqn,
      {.user_handle = asked.user_handle,
       .completions = nullptr,
       .asynchronous = asked.async != nullptr ? asked.async : request.file().default_async_file()});
  auto wq = std::make_unique<Wq>(request.uid(), *rqn);
  wq->use(asked.pd);
  wq->use(asked.cq);
  const WqNumbers numbers{request.adopt(std::move(wq)), *rqn};
  const mlx5_ib_create_wq_resp response{.response_length = sizeof response, .reserved = 0};
  const int error = request.put_driver(&response, sizeof response);
  return error == 0 ? std::expected<WqNumbers, int>(numbers) : std::unexpected(error);
}

}  // namespace

int create_wq(Request& request) {
  const auto flags = request.flags(UVERBS_ATTR_CREATE_WQ_FLAGS,
                                   IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING | IB_UVERBS_WQ_FLAGS_SCATTER_FCS |
                                       IB_UVERBS_WQ_FLAGS_DELAY_DROP | IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING);
  if (!flags) {
    return EINVAL;
  }
  const WqRequest asked{.type = static_cast<std::uint32_t>(request.value<std::uint64_t>(UVERBS_ATTR_CREATE_WQ_TYPE)),
                        .max_wr = request.value<std::uint32_t>(UVERBS_ATTR_CREATE_WQ_MAX_WR),
                        .max_sge = request.value<std::uint32_t>(UVERBS_ATTR_CREATE_WQ_MAX_SGE),
                        .flags = *flags,
                        .user_handle = request.value<std::uint64_t>(UVERBS_ATTR_CREATE_WQ_USER_HANDLE),
                        .pd = request.object<Pd>(UVERBS_ATTR_CREATE_WQ_PD_HANDLE),
                        .cq = request.object<Cq>(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE),
                        .async = request.event_file(UVERBS_ATTR_CREATE_WQ_EVENT_FD)};
  const auto numbers = add_wq(request, asked);
  if (!numbers) {
    return numbers.error();
  }
  int error = request.put_handle(UVERBS_ATTR_CREATE_WQ_HANDLE, numbers->handle);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, asked.max_wr);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, asked.max_sge);
  return error != 0 ? error : request.put_value(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, numbers->wqn);
}

int ex_create_wq(Request& request) {
  ib_uverbs_ex_create_wq in{};
  if (const int error = request.get_core(in); error != 0) {
    return error;
  }
  if (in.comp_mask != 0) {
    return EOPNOTSUPP;
  }
  const WqRequest asked{.type = in.wq_type,
                        .max_wr = in.max_wr,
                        .max_sge = in.max_sge,
                        .flags = in.create_flags,
                        .user_handle = in.user_handle,
                        .pd = request.file().find<Pd>(in.pd_handle),
                        .cq = request.file().find<Cq>(in.cq_handle)};
  const auto numbers = add_wq(request, asked);
  if (!numbers) {
    return numbers.error();
  }
  const ib_uverbs_ex_create_wq_resp response{
      .comp_mask = 0,
      .response_length = static_cast<std::uint32_t>(std::min(request.core_out_bytes(), sizeof response)),
      .wq_handle = numbers->handle,
      .max_wr = asked.max_wr,
      .max_sge = asked.max_sge,
      .wqn = numbers->wqn};
  return request.put_core(response);
}

int ex_modify_wq(Request& request) {
  ib_uverbs_ex_modify_wq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  if (asked.attr_mask == 0 || (asked.attr_mask & ~(kWqAttrState | kWqAttrCurrentState | kWqAttrFlags)) != 0) {
    return EINVAL;
  }
  mlx5_ib_modify_wq driver{};
  request.get_driver(driver);
  if (driver.comp_mask != 0 || driver.reserved != 0 || !request.driver_in_is_zero_from(sizeof driver) ||
      (asked.attr_mask & kWqAttrFlags) != 0) {
    return EOPNOTSUPP;
  }
  Wq* const wq = request.file().find<Wq>(asked.wq_handle);
  if (wq == nullptr) {
    return EINVAL;
  }
  // The states of the verbs: 0 reset, 1 ready, 2 error.
  constexpr std::uint8_t kStates[] = {prm::kQueueReset, prm::kQueueReady, prm::kQueueError};
  const bool names_current = (asked.attr_mask & kWqAttrCurrentState) != 0;
  const bool names_next = (asked.attr_mask & kWqAttrState) != 0;
  if ((names_current && asked.curr_wq_state >= std::size(kStates)) ||
      (names_next && asked.wq_state >= std::size(kStates))) {
    return EINVAL;
  }
  const std::uint8_t from = names_current ? kStates[asked.curr_wq_state] : wq->state;
  const std::uint8_t to = names_next ? kStates[asked.wq_state] : from;
  if (const int error = modify_receive_queue(request.firmware(), wq->uid, wq->number, from, to); error != 0) {
    return error;
  }
  wq->state = to;
  return 0;
}

int destroy_wq(Request& request) {
  const auto counts = request.file().destroy(*request.object<Wq>(UVERBS_ATTR_DESTROY_WQ_HANDLE));
  return counts ? request.put_value(UVERBS_ATTR_DESTROY_WQ_RESP, counts->asynchronous) : counts.error();
}

int ex_destroy_wq(Request& request) {
  ib_uverbs_ex_destroy_wq asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Wq* const wq = request.file().find<Wq>(asked.wq_handle);
  if (asked.comp_mask != 0 || wq == nullptr) {
    return asked.comp_mask != 0 ? EOPNOTSUPP : ENOENT;
  }
  const auto counts = request.file().destroy(*wq);
  if (!counts) {
    return counts.error();
  }
  const ib_uverbs_ex_destroy_wq_resp response{
      .comp_mask = 0,
      .response_length = static_cast<std::uint32_t>(std::min(request.core_out_bytes(), sizeof response)),
      .events_reported = counts->asynchronous,
      .reserved = 0};
  return request.put_core(response);
}

int ex_create_rwq_ind_table(Request& request) {
  ib_uverbs_ex_create_rwq_ind_table asked{};
  const std::span<const std::byte> core = request.core_in();
  if (core.size() < sizeof asked) {
    return EINVAL;
  }
  std::memcpy(&asked, core.data(), sizeof asked);
  if (asked.comp_mask != 0) {
    return EOPNOTSUPP;
  }
  const auto& caps = request.device().caps();
  if (asked.log_ind_tbl_size > caps.log_max_rqt_size) {
    return EINVAL;
  }
  if (!request.driver_in_is_zero_from(0)) {
    return EOPNOTSUPP;
  }
  const std::size_t count = std::size_t{1} << asked.log_ind_tbl_size;
  std::vector<std::uint32_t> handles(count);
  if (core.size() < sizeof asked + count * sizeof handles[0]) {
    return EINVAL;
  }
  std::memcpy(handles.data(), core.data() + sizeof asked, count * sizeof handles[0]);
  std::vector<std::byte> in(prm::kRqListOffset + count * 4);
  umlx5::wqe::store(in.data(), prm::CreateRqtIn{.header = {.opcode = prm::Opcode::kCreateRqt, .uid = request.uid()},
                                                .rqt_max_size = static_cast<std::uint16_t>(count),
                                                .rqt_actual_size = static_cast<std::uint16_t>(count)});
  std::vector<Wq*> queues;
  for (std::size_t i = 0; i < count; ++i) {
    queues.push_back(request.file().find<Wq>(handles[i]));
    if (queues.back() == nullptr) {
      return EINVAL;
    }
    umlx5::wqe::internal::store_word(in.data() + prm::kRqListOffset + i * 4, queues.back()->number);
  }
  std::array<std::byte, prm::ObjectOut::kBytes> out{};
  if (const int error = execute_checked(request.firmware(), in, out); error != 0) {
    return error;
  }
  const auto rqtn = umlx5::wqe::load<prm::ObjectOut>(out.data()).number;
  auto table = std::make_unique<RwqIndTable>(request.uid(), rqtn, static_cast<std::uint8_t>(asked.log_ind_tbl_size));
  for (Wq* const wq : queues) {
    table->use(wq);
  }
  const ib_uverbs_ex_create_rwq_ind_table_resp response{
      .comp_mask = 0,
      .response_length = static_cast<std::uint32_t>(std::min(request.core_out_bytes(), sizeof response)),
      .ind_tbl_handle = request.adopt(std::move(table)),
      .ind_tbl_num = rqtn};
  const mlx5_ib_create_rwq_ind_tbl_resp driver{.response_length = sizeof driver, .reserved = 0};
  const int error = request.put_driver(&driver, sizeof driver);
  return error != 0 ? error : request.put_core(response);
}

int ex_destroy_rwq_ind_table(Request& request) {
  ib_uverbs_ex_destroy_rwq_ind_table asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  RwqIndTable* const table = request.file().find<RwqIndTable>(asked.ind_tbl_handle);
  if (asked.comp_mask != 0 || table == nullptr) {
    return asked.comp_mask != 0 ? EOPNOTSUPP : ENOENT;
  }
  const auto counts = request.file().destroy(*table);
  return counts ? 0 : counts.error();
}

}  // namespace handlers
}  // namespace softhca::kernel
