// One open of the device's character file, /dev/infiniband/uverbsN: its requests, its handles, its mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>

#include "tools/softhca/kernel/event_file.h"
#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/objects.h"
#include "tools/softhca/kernel/rdma_device.h"
#include "tools/softhca/kernel/request.h"

namespace softhca::kernel {

// What GET_CONTEXT makes.
struct Context {
  std::uint16_t uid = 0;  // DEVX user, 0: none
  std::uint8_t cqe_version = 0;
  std::uint32_t transport_domain = 0;
};

// Addresses in requests are the calling process's own. Everything is thread-safe; errors are positive errno values.
class UverbsFile {
 public:
  // `device` outlives the file.
  explicit UverbsFile(RdmaDevice& device) : device_(device) {}
  // Closing: everything that was created through the file is destroyed.
  ~UverbsFile();
  UverbsFile(const UverbsFile&) = delete;
  UverbsFile& operator=(const UverbsFile&) = delete;

  // ioctl(fd, RDMA_VERBS_IOCTL, argument). 0 or errno; EIO in a forked child.
  int ioctl(std::uint64_t argument);

  // write(fd, address, bytes): 0 (all of it was taken) or errno.
  int write(std::uint64_t address, std::size_t bytes);

  // mmap(nullptr, length, protection, MAP_SHARED, fd, offset): a mapping of the program's own, which munmap() ends.
  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes);

  // What such a mapping shows if it is one of memory on the device: its place in the BAR. Errno.
  std::expected<std::uint64_t, int> memory_to_map(std::size_t length_bytes, int protection, std::uint64_t offset_bytes);

  // ---- For the handlers, with the device's command mutex held ----
  RdmaDevice& device() { return device_; }
  Context* context() { return context_ ? context_.get() : nullptr; }
  void set_context(const Context& context) { context_ = std::make_unique<Context>(context); }
  // The object with this handle if it has T's type.
  template <typename T>
  T* find(std::uint32_t handle) const {
    const auto found = objects_.find(handle);
    return found != objects_.end() && found->second->type == T::kType ? static_cast<T*>(found->second.get()) : nullptr;
  }
  // An object of T's type that `matches`; null if there is none.
  template <typename T, typename Matches>
  T* find_if(Matches matches) const {
    for (const auto& [handle, object] : objects_) {
      if (object->type == T::kType && matches(static_cast<const T&>(*object))) {
        return static_cast<T*>(object.get());
      }
    }
    return nullptr;
  }
  // Destroys an object that nothing uses: its event counts, or EBUSY, or what the device answers.
  std::expected<EventCounts, int> destroy(Object& object);
  // An open event file with this descriptor; null if it is none of this file's.
  std::shared_ptr<EventFile> find_event_file(std::int64_t fd) const;
  const std::shared_ptr<EventFile>& default_async_file() const { return default_async_file_; }
  void set_default_async_file(const std::shared_ptr<EventFile>& file) { default_async_file_ = file; }
  int invoke_write(Request& request, std::uint64_t command);

 private:
  friend class Request;
  int run_ioctl(std::uint64_t argument);
  std::expected<std::uint64_t, int> find_memory(std::uint64_t page_index, std::size_t length_bytes) const;
  int run_write(std::uint64_t address, std::size_t bytes);
  int take_attr(Request& request, const Method& method, const ib_uverbs_attr& attr, std::uint64_t address);
  int take_object(Request::Attr& taken, const AttrSpec& spec, const ib_uverbs_attr& attr);
  static int split_write(Request& request, const WriteCommand& command, std::uint64_t address, std::size_t bytes);
  int finish(Request& request, int error);
  void release_all();  // from the device
  void forget_all();   // the bookkeeping only

  RdmaDevice& device_;
  std::unique_ptr<Context> context_;
  std::map<std::uint32_t, std::unique_ptr<Object>> objects_;
  std::uint32_t next_handle_ = 0;
  std::map<int, std::shared_ptr<EventFile>> event_files_;
  std::shared_ptr<EventFile> default_async_file_;
};

}  // namespace softhca::kernel
