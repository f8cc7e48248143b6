// Builds one RDMA_VERBS_IOCTL request: the header and its attributes (<rdma/rdma_user_ioctl_cmds.h>).
#pragma once

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "uapi/handles.h"

namespace umlx5::uapi {

// Structures that may be handed to the kernel byte for byte: without padding, whose bytes nobody sets.
template <typename T>
concept KernelStruct =
    std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T> && !std::is_pointer_v<T>;

// A request of at most kMaxAttributes attributes, held in place: nothing is allocated. Everything that is passed by
// reference (inputs of more than 8 bytes, outputs) must live until the request was executed. Attributes are mandatory,
// which makes a kernel that does not know one refuse the request, unless optional() follows. A request that does not
// fit is marked by error() and is never sent. Not for use by two threads at once.
class Request {
 public:
  static constexpr std::size_t kMaxAttributes = 24;

  // `name` is used in error texts and must outlive the request.
  Request(std::uint16_t object, std::uint16_t method, std::string_view name);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // A copy of an integer or a structure of at most 8 bytes travels in the attribute.
  template <KernelStruct T>
  requires(sizeof(T) <= 8) Request& input(std::uint16_t id, const T& value) {
    return add_input(id, std::as_bytes(std::span(&value, 1)));
  }

  // A larger structure travels by reference.
  template <KernelStruct T>
  requires(sizeof(T) > 8) Request& input(std::uint16_t id, const T& value) {
    return add_input(id, std::as_bytes(std::span(&value, 1)));
  }
  template <KernelStruct T>
  requires(sizeof(T) > 8) Request& input(std::uint16_t id, const T&& value) = delete;

  // Any number of bytes; none is no attribute.
  Request& input_bytes(std::uint16_t id, std::span<const std::byte> bytes) { return add_input(id, bytes); }

  // An enumeration, a set of flags or a small number that the kernel takes as 8 bytes.
  Request& constant(std::uint16_t id, std::uint64_t value) { return input(id, value); }

  // The kernel writes at most sizeof(T) bytes; what an older kernel does not know keeps its value.
  template <KernelStruct T>
  Request& output(std::uint16_t id, T& value) {
    return add_output(id, std::as_writable_bytes(std::span(&value, 1)));
  }
  Request& output_bytes(std::uint16_t id, std::span<std::byte> bytes) { return add_output(id, bytes); }

  // An object that exists.
  template <typename Tag>
  Request& handle(std::uint16_t id, Handle<Tag> value) {
    return add(id, 0, value.value);
  }
  // An object that the request creates: result_handle() gives it afterwards.
  Request& new_handle(std::uint16_t id) { return add(id, 0, 0); }

  // A file descriptor that exists; the kernel does not take it over.
  Request& fd(std::uint16_t id, int value);
  // A file descriptor that the request opens: result_fd() gives it afterwards, and the caller closes it.
  Request& new_fd(std::uint16_t id) { return add(id, 0, 0); }

  // The last attribute may be ignored by a kernel that does not know it.
  Request& optional();

  // The driver's part of a common command (UHW_IN, UHW_OUT); either may be empty.
  Request& driver(std::span<const std::byte> in, std::span<std::byte> out);

  // 0, or E2BIG when there were too many attributes or one was longer than 65535 bytes.
  int error() const { return error_; }

  std::string_view name() const { return name_; }
  std::uint16_t object() const { return object_; }
  std::uint16_t method() const { return method_; }

  // What the channel wants. The header's length and count are right at any time.
  ib_uverbs_ioctl_hdr& header() { return *reinterpret_cast<ib_uverbs_ioctl_hdr*>(storage_.data()); }

  template <typename H>
  H result_handle(std::uint16_t id) const {
    return H{static_cast<std::uint32_t>(data_of(id))};
  }
  int result_fd(std::uint16_t id) const { return static_cast<int>(data_of(id)); }

 private:
  Request& add(std::uint16_t id, std::size_t length_bytes, std::uint64_t data);
  Request& add_input(std::uint16_t id, std::span<const std::byte> bytes);
  Request& add_output(std::uint16_t id, std::span<std::byte> bytes);
  ib_uverbs_attr* attributes() const;
  std::uint64_t data_of(std::uint16_t id) const;

  std::string_view name_;
  std::uint16_t object_;
  std::uint16_t method_;
  int error_ = 0;
  alignas(ib_uverbs_ioctl_hdr) mutable std::array<std::byte, sizeof(ib_uverbs_ioctl_hdr) +
                                                                 kMaxAttributes * sizeof(ib_uverbs_attr)> storage_{};
};

}  // namespace umlx5::uapi
