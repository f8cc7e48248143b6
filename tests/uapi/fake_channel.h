// A channel without a kernel: it records what is sent and answers what the test says.
#pragma once

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "uapi/channel.h"

namespace umlx5::uapi {

struct FakeAttribute {
  ib_uverbs_attr raw{};
  std::vector<std::byte> bytes;  // what it carries or points to, before the answer

  template <typename T>
  T as() const {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(sizeof(value), bytes.size()));
    return value;
  }
};

struct FakeIoctl {
  std::uint16_t length = 0;
  std::uint16_t object_id = 0;
  std::uint16_t method_id = 0;
  std::uint32_t driver_id = 0;
  std::uint64_t reserved1 = 0;
  std::uint32_t reserved2 = 0;
  std::vector<FakeAttribute> attributes;

  const FakeAttribute* find(std::uint16_t id) const {
    for (const FakeAttribute& a : attributes) {
      if (a.raw.attr_id == id) return &a;
    }
    return nullptr;
  }

  // One line, then a line for each attribute; data is shown where it is no address.
  std::string text() const {
    std::string result = fmt::format("object {:#x} method {:#x}, {} attrs\n", object_id, method_id, attributes.size());
    for (const FakeAttribute& a : attributes) {
      result += fmt::format("attr {:#06x} len {} flags {}", a.raw.attr_id, a.raw.len, a.raw.flags);
      const bool is_address = a.raw.len > 8 || (a.raw.flags & UVERBS_ATTR_F_VALID_OUTPUT && a.raw.len != 0);
      if (!is_address) result += fmt::format(" data {:#x}", a.raw.data);
      result += '\n';
    }
    return result;
  }
};

struct FakeWrite {
  std::vector<std::byte> message;

  template <typename T>
  T at(std::size_t offset) const {
    T value{};
    if (offset + sizeof(T) <= message.size()) std::memcpy(&value, message.data() + offset, sizeof(value));
    return value;
  }
  ib_uverbs_cmd_hdr header() const { return at<ib_uverbs_cmd_hdr>(0); }
  bool extended() const { return (header().command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0; }

  // "24 in 56+56 out 32+40" as a kernel reads the headers, for a command whose core request and answer have the sizes
  // given; "ex 26 in 120+16 out 8+16".
  std::string text(std::size_t core_in, std::size_t core_out) const {
    const ib_uverbs_cmd_hdr h = header();
    if (extended()) {
      const auto e = at<ib_uverbs_ex_cmd_hdr>(sizeof(h));
      return fmt::format("ex {} in {}+{} out {}+{}", h.command & IB_USER_VERBS_CMD_COMMAND_MASK, h.in_words * 8,
                         e.provider_in_words * 8, h.out_words * 8, e.provider_out_words * 8);
    }
    return fmt::format("{} in {}+{} out {}+{}", h.command, core_in, h.in_words * 4 - sizeof(h) - core_in, core_out,
                       h.out_words * 4 - core_out);
  }
};

class FakeChannel : public Channel {
 public:
  // What the test answers with. `answer` writes outputs; 0 or errno.
  std::function<int(ib_uverbs_ioctl_hdr&)> on_ioctl = [](ib_uverbs_ioctl_hdr&) { return 0; };
  std::function<int(std::span<const std::byte>)> on_write = [](std::span<const std::byte>) { return 0; };
  std::map<std::string, std::string> files;  // sysfs attributes
  int mmap_error = 0;
  std::vector<std::byte> mapped = std::vector<std::byte>(1 << 16);

  std::vector<FakeIoctl> ioctls;
  std::vector<FakeWrite> writes;
  struct Mmap {
    std::size_t length_bytes;
    int protection;
    std::uint64_t offset_bytes;
  };
  std::vector<Mmap> mmaps;
  std::vector<std::pair<std::byte*, std::size_t>> munmaps;
  std::vector<std::string> read_files;

  int ioctl(ib_uverbs_ioctl_hdr& request) override {
    FakeIoctl record{request.length,
                     request.object_id,
                     request.method_id,
                     request.driver_id,
                     request.reserved1,
                     request.reserved2,
                     {}};
    for (unsigned i = 0; i < request.num_attrs; ++i) {
      record.attributes.push_back({request.attrs[i], payload(request.attrs[i])});
    }
    const int result = on_ioctl(request);
    for (unsigned i = 0; i < request.num_attrs; ++i) record.attributes[i].raw = request.attrs[i];
    ioctls.push_back(std::move(record));
    return result;
  }

  int write(std::span<const std::byte> request) override {
    writes.push_back({{request.begin(), request.end()}});
    return on_write(request);
  }

  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) override {
    mmaps.push_back({length_bytes, protection, offset_bytes});
    if (mmap_error != 0) return std::unexpected(mmap_error);
    return mapped.data();
  }

  int munmap(std::byte* address, std::size_t length_bytes) override {
    munmaps.emplace_back(address, length_bytes);
    return 0;
  }

  std::expected<std::string, int> attribute(std::string_view path) const override {
    const_cast<FakeChannel*>(this)->read_files.emplace_back(path);
    const auto found = files.find(std::string(path));
    if (found == files.end()) return std::unexpected(ENOENT);
    return found->second;
  }

  const FakeIoctl& last_ioctl() const { return ioctls.back(); }
  const FakeWrite& last_write() const { return writes.back(); }

 private:
  static std::vector<std::byte> payload(const ib_uverbs_attr& attribute) {
    std::vector<std::byte> bytes(attribute.len);
    const void* from = &attribute.data;
    if (attribute.len > sizeof(attribute.data)) from = reinterpret_cast<const void*>(attribute.data);
    if (attribute.len != 0) std::memcpy(bytes.data(), from, attribute.len);
    return bytes;
  }
};

inline ib_uverbs_attr* find_attribute(ib_uverbs_ioctl_hdr& request, std::uint16_t id) {
  for (unsigned i = 0; i < request.num_attrs; ++i) {
    if (request.attrs[i].attr_id == id) return &request.attrs[i];
  }
  return nullptr;
}

// As the kernel does: copies at most the capacity and marks the output valid.
template <typename T>
void answer(ib_uverbs_ioctl_hdr& request, std::uint16_t id, const T& value) {
  ib_uverbs_attr* a = find_attribute(request, id);
  if (a == nullptr) return;
  std::memcpy(reinterpret_cast<void*>(a->data), &value, std::min<std::size_t>(sizeof(value), a->len));
  a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
}

// A handle or file descriptor that the request made.
inline void answer_new(ib_uverbs_ioctl_hdr& request, std::uint16_t id, std::uint64_t value) {
  ib_uverbs_attr* a = find_attribute(request, id);
  if (a == nullptr) return;
  a->data = value;
  a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
}

// Answers a command of the write() ABI: `core`, then `driver`, at the response's address.
template <typename Core, typename Driver>
void answer_write(std::span<const std::byte> message, const Core& core, const Driver& driver) {
  std::uint64_t address = 0;
  std::memcpy(&address, message.data() + sizeof(ib_uverbs_cmd_hdr), sizeof(address));
  std::memcpy(reinterpret_cast<void*>(address), &core, sizeof(core));
  std::memcpy(reinterpret_cast<std::byte*>(address) + sizeof(core), &driver, sizeof(driver));
}
template <typename Core>
void answer_write(std::span<const std::byte> message, const Core& core) {
  std::uint64_t address = 0;
  std::memcpy(&address, message.data() + sizeof(ib_uverbs_cmd_hdr), sizeof(address));
  std::memcpy(reinterpret_cast<void*>(address), &core, sizeof(core));
}

inline bool is_probe(const ib_uverbs_ioctl_hdr& request) {
  return request.object_id == UVERBS_OBJECT_DEVICE && request.method_id == UVERBS_METHOD_INVOKE_WRITE &&
         request.num_attrs == 1;
}

}  // namespace umlx5::uapi
