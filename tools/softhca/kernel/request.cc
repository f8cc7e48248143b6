#include "tools/softhca/kernel/request.h"

#include <algorithm>
#include <cerrno>

#include "tools/softhca/kernel/user_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca::kernel {

RdmaDevice& Request::device() { return file_.device(); }

std::uint16_t Request::uid() { return file_.context() == nullptr ? 0 : file_.context()->uid; }

const Request::Attr* Request::find(std::uint16_t id) const {
  const auto found = std::ranges::find(attrs_, id, &Attr::id);
  return found == attrs_.end() ? nullptr : &*found;
}

std::span<const std::byte> Request::input(std::uint16_t id) const {
  const Attr* const attr = find(id);
  return attr == nullptr ? std::span<const std::byte>{} : attr->data;
}

std::optional<std::uint32_t> Request::flags(std::uint16_t id, std::uint32_t allowed) const {
  const auto bytes = input(id);
  const auto all = value<std::uint64_t>(id);
  if ((!bytes.empty() && bytes.size() != 4 && bytes.size() != 8) || (all & ~std::uint64_t{allowed}) != 0) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(all);
}

std::shared_ptr<EventFile> Request::event_file(std::uint16_t id) const {
  const Attr* const attr = find(id);
  return attr == nullptr ? nullptr : attr->file;
}

std::size_t Request::output_bytes(std::uint16_t id) const {
  const Attr* const attr = find(id);
  return attr == nullptr ? 0 : attr->out.bytes;
}

int Request::put_space(const OutputSpace& space, const void* data, std::size_t bytes, bool clear_rest) {
  const std::size_t copied = std::min(bytes, space.bytes);
  if (!copy_to_user(space.address, data, copied) ||
      (clear_rest && !clear_user(space.address + copied, space.bytes - copied))) {
    return EFAULT;
  }
  if (space.flags_address == 0) {
    return 0;
  }
  std::uint16_t flags = 0;
  if (!copy_from_user(&flags, space.flags_address, sizeof flags)) {
    return EFAULT;
  }
  flags |= UVERBS_ATTR_F_VALID_OUTPUT;
  return copy_to_user(space.flags_address, &flags, sizeof flags) ? 0 : EFAULT;
}

int Request::put(std::uint16_t id, const void* data, std::size_t bytes, bool clear_rest) {
  const Attr* const attr = find(id);
  return attr == nullptr ? ENOENT : put_space(attr->out, data, bytes, clear_rest);
}

int Request::put_handle(std::uint16_t id, std::int64_t handle) {
  const Attr* const attr = find(id);
  if (attr == nullptr) {
    return ENOENT;
  }
  return copy_to_user(attr->data_address, &handle, sizeof handle) ? 0 : EFAULT;
}

std::uint32_t Request::adopt(std::unique_ptr<Object> object) {
  while (file_.objects_.contains(file_.next_handle_)) {
    ++file_.next_handle_;
  }
  const std::uint32_t handle = file_.next_handle_++;
  object->handle = handle;
  file_.objects_.emplace(handle, std::move(object));
  new_handles_.push_back(handle);
  return handle;
}

std::shared_ptr<EventFile> Request::adopt(std::shared_ptr<EventFile> file) {
  // A number that comes back names a file that was closed before.
  file_.event_files_[file->fd()] = file;
  new_file_ = file;
  return file;
}

int Request::destroy_only_object() {
  const auto counts = file_.destroy(*attrs_.front().object);
  return counts ? 0 : counts.error();
}

bool Request::is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace softhca::kernel
