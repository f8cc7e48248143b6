#include "uapi/request.h"

#include <rdma/ib_user_ioctl_verbs.h>

#include <cerrno>
#include <limits>

namespace umlx5::uapi {

Request::Request(std::uint16_t object, std::uint16_t method, std::string_view name)
    : name_(name), object_(object), method_(method) {
  ib_uverbs_ioctl_hdr& h = header();
  h.length = sizeof(ib_uverbs_ioctl_hdr);
  h.object_id = object;
  h.method_id = method;
  h.driver_id = RDMA_DRIVER_MLX5;
}

ib_uverbs_attr* Request::attributes() const {
  return reinterpret_cast<ib_uverbs_attr*>(storage_.data() + sizeof(ib_uverbs_ioctl_hdr));
}

Request& Request::add(std::uint16_t id, std::size_t length_bytes, std::uint64_t data) {
  ib_uverbs_ioctl_hdr& h = header();
  if (h.num_attrs == kMaxAttributes || length_bytes > std::numeric_limits<std::uint16_t>::max()) {
    error_ = E2BIG;
    return *this;
  }
  ib_uverbs_attr& attribute = attributes()[h.num_attrs++];
  attribute.attr_id = id;
  attribute.len = static_cast<std::uint16_t>(length_bytes);
  attribute.flags = UVERBS_ATTR_F_MANDATORY;
  attribute.data = data;
  h.length = static_cast<std::uint16_t>(sizeof(ib_uverbs_ioctl_hdr) + h.num_attrs * sizeof(ib_uverbs_attr));
  return *this;
}

Request& Request::add_input(std::uint16_t id, std::span<const std::byte> bytes) {
  if (bytes.empty()) return *this;
  std::uint64_t data = 0;
  if (bytes.size() <= sizeof(data)) {
    std::memcpy(&data, bytes.data(), bytes.size());
  } else {
    data = reinterpret_cast<std::uintptr_t>(bytes.data());
  }
  return add(id, bytes.size(), data);
}

Request& Request::add_output(std::uint16_t id, std::span<std::byte> bytes) {
  if (bytes.empty()) return *this;
  return add(id, bytes.size(), reinterpret_cast<std::uintptr_t>(bytes.data()));
}

Request& Request::fd(std::uint16_t id, int value) {
  return add(id, 0, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
}

Request& Request::optional() {
  if (header().num_attrs != 0) attributes()[header().num_attrs - 1].flags = 0;
  return *this;
}

Request& Request::driver(std::span<const std::byte> in, std::span<std::byte> out) {
  add_input(UVERBS_ATTR_UHW_IN, in);
  return add_output(UVERBS_ATTR_UHW_OUT, out);
}

std::uint64_t Request::data_of(std::uint16_t id) const {
  const std::size_t count = reinterpret_cast<const ib_uverbs_ioctl_hdr*>(storage_.data())->num_attrs;
  for (std::size_t i = 0; i < count; ++i) {
    if (attributes()[i].attr_id == id) return attributes()[i].data;
  }
  return 0;
}

}  // namespace umlx5::uapi
