#include "tools/compare/create_requests.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace umlx5::compare {
namespace {

constexpr std::uint64_t kPage = 4096;

const Requests* listener = nullptr;
std::vector<std::string> seen;

template <typename T>
T load(const ib_uverbs_attr& attr) {
  T value{};
  const void* const from =
      attr.len <= sizeof attr.data ? static_cast<const void*>(&attr.data) : reinterpret_cast<const void*>(attr.data);
  std::memcpy(&value, from, attr.len < sizeof value ? attr.len : sizeof value);
  return value;
}

// Of an address, only that it is there and where in its page it lies.
std::string address(std::uint64_t value) { return value == 0 ? "0" : fmt::format("page+{:#x}", value % kPage); }
const char* presence(std::uint64_t value) { return value == 0 ? "0" : "there"; }

std::string text_of(const mlx5_ib_create_qp& r) {
  // In place of the register's number: the UAR page is each library's own choice.
  const bool dct = (r.flags & MLX5_QP_FLAG_TYPE_DCT) != 0;
  return fmt::format(
      "buf={} db={} sq_wqe_count={} rq_wqe_count={} rq_wqe_shift={} flags={:#x} uidx={:#x} bfreg={} {}={} "
      "ece_options={:#x} streams={}/{} reserved={}",
      address(r.buf_addr), presence(r.db_addr), r.sq_wqe_count, r.rq_wqe_count, r.rq_wqe_shift, r.flags, r.uidx,
      dct ? fmt::format("{}", r.bfreg_index) : presence(r.bfreg_index), dct ? "access_key" : "sq_buf",
      dct ? fmt::format("{:#x}", r.access_key) : address(r.sq_buf_addr), r.ece_options, r.dci_streams.log_num_concurent,
      r.dci_streams.log_num_errored, r.reserved);
}

std::string text_of(const mlx5_ib_create_qp_rss& r) {
  std::string key;
  for (const std::uint8_t byte : r.rx_hash_key) {
    key += fmt::format("{:02x}", byte);
  }
  return fmt::format("rss fields={:#x} function={} key_len={} key={} comp_mask={:#x} flags={:#x}",
                     r.rx_hash_fields_mask, r.rx_hash_function, r.rx_key_len, key, r.comp_mask, r.flags);
}

std::string text_of(const mlx5_ib_create_srq& r) {
  return fmt::format("buf={} db={} flags={:#x} uidx={:#x}", address(r.buf_addr), presence(r.db_addr), r.flags, r.uidx);
}

std::string text_of(const mlx5_ib_create_wq& r) {
  return fmt::format(
      "buf={} db={} rq_wqe_count={} rq_wqe_shift={} user_index={:#x} flags={:#x} comp_mask={:#x} "
      "stride={} strides={} shift={}",
      address(r.buf_addr), presence(r.db_addr), r.rq_wqe_count, r.rq_wqe_shift, r.user_index, r.flags, r.comp_mask,
      r.single_stride_log_num_of_bytes, r.single_wqe_log_num_of_strides, r.two_byte_shift_en);
}

std::string driver_part(unsigned object, const ib_uverbs_attr& attr) {
  switch (object) {
    case UVERBS_OBJECT_SRQ:
      return text_of(load<mlx5_ib_create_srq>(attr));
    case UVERBS_OBJECT_WQ:
      return text_of(load<mlx5_ib_create_wq>(attr));
    default:
      return attr.len == sizeof(mlx5_ib_create_qp_rss) ? text_of(load<mlx5_ib_create_qp_rss>(attr))
                                                       : text_of(load<mlx5_ib_create_qp>(attr));
  }
}

std::string capabilities(const ib_uverbs_qp_cap& cap) {
  return fmt::format("{}/{}/{}/{}/{}", cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge,
                     cap.max_inline_data);
}

// An attribute whose value is each library's own, by what it names; empty for others.
std::string named(unsigned object, const ib_uverbs_attr& attr) {
  struct Row {
    unsigned object, attr;
    HandleKind kind;
  };
  constexpr Row kRows[] = {
      {UVERBS_OBJECT_QP, UVERBS_ATTR_CREATE_QP_PD_HANDLE, HandleKind::kPd},
      {UVERBS_OBJECT_QP, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, HandleKind::kSrq},
      {UVERBS_OBJECT_QP, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, HandleKind::kCq},
      {UVERBS_OBJECT_QP, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, HandleKind::kCq},
      {UVERBS_OBJECT_QP, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, HandleKind::kTable},
      {UVERBS_OBJECT_SRQ, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, HandleKind::kPd},
      {UVERBS_OBJECT_SRQ, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, HandleKind::kCq},
      {UVERBS_OBJECT_WQ, UVERBS_ATTR_CREATE_WQ_PD_HANDLE, HandleKind::kPd},
      {UVERBS_OBJECT_WQ, UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, HandleKind::kCq},
  };
  for (const Row& row : kRows) {
    if (row.object == object && row.attr == attr.attr_id) {
      return listener->name_of(row.kind, static_cast<unsigned>(attr.data));
    }
  }
  const bool xrcd = (object == UVERBS_OBJECT_QP && attr.attr_id == UVERBS_ATTR_CREATE_QP_XRCD_HANDLE) ||
                    (object == UVERBS_OBJECT_SRQ && attr.attr_id == UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE);
  const bool events = (object == UVERBS_OBJECT_QP && attr.attr_id == UVERBS_ATTR_CREATE_QP_EVENT_FD) ||
                      (object == UVERBS_OBJECT_SRQ && attr.attr_id == UVERBS_ATTR_CREATE_SRQ_EVENT_FD) ||
                      (object == UVERBS_OBJECT_WQ && attr.attr_id == UVERBS_ATTR_CREATE_WQ_EVENT_FD);
  const bool user = (object == UVERBS_OBJECT_QP && attr.attr_id == UVERBS_ATTR_CREATE_QP_USER_HANDLE) ||
                    (object == UVERBS_OBJECT_SRQ && attr.attr_id == UVERBS_ATTR_CREATE_SRQ_USER_HANDLE) ||
                    (object == UVERBS_OBJECT_WQ && attr.attr_id == UVERBS_ATTR_CREATE_WQ_USER_HANDLE);
  return xrcd ? "xrcd" : events ? "events" : user ? presence(load<std::uint64_t>(attr)) : "";
}

bool is_output(unsigned object, unsigned attr) {
  switch (object) {
    case UVERBS_OBJECT_QP:
      return attr == UVERBS_ATTR_CREATE_QP_HANDLE || attr >= UVERBS_ATTR_CREATE_QP_RESP_CAP;
    case UVERBS_OBJECT_SRQ:
      return attr == UVERBS_ATTR_CREATE_SRQ_HANDLE || attr >= UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR;
    default:
      return attr == UVERBS_ATTR_CREATE_WQ_HANDLE || attr >= UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR;
  }
}

std::string text_of(unsigned object, const ib_uverbs_attr& attr) {
  std::string value;
  if (attr.attr_id == UVERBS_ATTR_UHW_IN) {
    value = driver_part(object, attr);
  } else if (is_output(object, attr.attr_id)) {
    value = "out";
  } else if (value = named(object, attr); value.empty()) {
    const bool cap = object == UVERBS_OBJECT_QP && attr.attr_id == UVERBS_ATTR_CREATE_QP_CAP;
    value = cap ? capabilities(load<ib_uverbs_qp_cap>(attr)) : fmt::format("{:#x}", load<std::uint64_t>(attr));
  }
  return fmt::format("{:#x}:{}:{}={}", static_cast<unsigned>(attr.attr_id), static_cast<unsigned>(attr.len),
                     attr.flags & UVERBS_ATTR_F_MANDATORY, value);
}

bool creates(const ib_uverbs_ioctl_hdr& request) {
  switch (request.object_id) {
    case UVERBS_OBJECT_QP:
      return request.method_id == UVERBS_METHOD_QP_CREATE;
    case UVERBS_OBJECT_SRQ:
      return request.method_id == UVERBS_METHOD_SRQ_CREATE;
    case UVERBS_OBJECT_WQ:
      return request.method_id == UVERBS_METHOD_WQ_CREATE;
    default:
      return false;
  }
}

void see(const ib_uverbs_ioctl_hdr& request) {
  if (listener == nullptr || !creates(request)) {
    return;
  }
  std::map<unsigned, std::string> attributes;  // their order means nothing to the kernel
  for (unsigned i = 0; i < request.num_attrs; ++i) {
    attributes[request.attrs[i].attr_id] = text_of(request.object_id, request.attrs[i]);
  }
  std::string text = fmt::format("object {}", request.object_id);
  for (const auto& [id, attribute] : attributes) {
    text += " | " + attribute;
  }
  seen.push_back(std::move(text));
}

}  // namespace

std::string Requests::name_of(HandleKind kind, unsigned handle) const {
  const auto found = names_.find({kind, handle});
  return found == names_.end() ? "unknown" : found->second;
}

void Requests::start() {
  seen.clear();
  listener = this;
}

std::vector<std::string> Requests::take() {
  listener = nullptr;
  return std::move(seen);
}

}  // namespace umlx5::compare

extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  static auto* const next = reinterpret_cast<int (*)(int, unsigned long, ...)>(dlsym(RTLD_NEXT, "ioctl"));
  if (request == RDMA_VERBS_IOCTL) {
    umlx5::compare::see(*static_cast<const ib_uverbs_ioctl_hdr*>(argument));
  }
  return next(fd, request, argument);
}
