// One request of a program, whichever way it came: the ioctl's attributes, or a write command's two parts.
#pragma once

#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tools/softhca/kernel/event_file.h"
#include "tools/softhca/kernel/objects.h"

namespace softhca::kernel {

class UverbsFile;

enum class AttrKind : std::uint8_t { kIn, kOut, kHandle, kFd };
enum class Access : std::uint8_t { kRead, kNew, kDestroy };

// AttrSpec::object_type of a handle that may be of any type.
inline constexpr std::uint16_t kAnyObject = 0xffff;

// What a method says of one attribute. Sizes are bytes; `zero_tail`: longer input is accepted if the rest is zero.
struct AttrSpec {
  std::uint16_t id;
  AttrKind kind;
  bool mandatory = true;
  std::uint16_t min_bytes = 0;
  std::uint16_t max_bytes = 0xffff;
  bool zero_tail = false;
  Access access = Access::kRead;
  std::uint16_t object_type = 0;
};

// Space for output in the program's memory. `flags_address` is where "this output is valid" is noted, 0: nowhere.
struct OutputSpace {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  std::uint64_t flags_address = 0;
};

// Everything that a handler needs of a request. Numbers returned as errors are positive errno values, 0 is success.
class Request {
 public:
  explicit Request(UverbsFile& file) : file_(file) {}

  UverbsFile& file() { return file_; }
  RdmaDevice& device();
  Firmware& firmware() { return device().firmware(); }
  // DEVX user of the file's context.
  std::uint16_t uid();

  // ---- Attributes of an ioctl method. Asking for an attribute that is absent gives nothing or zero. ----
  bool has(std::uint16_t id) const { return find(id) != nullptr; }
  std::span<const std::byte> input(std::uint16_t id) const;
  // The attribute's value, zero-extended or cut to T.
  template <typename T>
  T value(std::uint16_t id) const {
    T result{};
    const auto bytes = input(id);
    copy_head(&result, sizeof result, bytes);
    return result;
  }
  // Flags of 4 or 8 bytes. Empty if a bit outside `allowed` is set.
  std::optional<std::uint32_t> flags(std::uint16_t id, std::uint32_t allowed) const;
  template <typename T>
  T* object(std::uint16_t id) const {
    const Attr* const attr = find(id);
    return attr == nullptr ? nullptr : static_cast<T*>(attr->object);
  }
  std::shared_ptr<EventFile> event_file(std::uint16_t id) const;
  std::size_t output_bytes(std::uint16_t id) const;
  // Copies at most the attribute's size; what is longer in the program is cleared if `clear_rest`. ENOENT if absent.
  int put(std::uint16_t id, const void* data, std::size_t bytes, bool clear_rest = false);
  template <typename T>
  int put_value(std::uint16_t id, const T& value) {
    return put(id, &value, sizeof value);
  }
  // Names the new object or descriptor in the attribute that asked for it.
  int put_handle(std::uint16_t id, std::int64_t handle);

  // ---- The two parts of a write command; the driver part also of an ioctl method. ----
  std::size_t core_in_bytes() const { return core_in_.size(); }
  // For commands with a list at their end.
  std::span<const std::byte> core_in() const { return core_in_; }
  // Reads the core part: shorter input is zero-extended. EOPNOTSUPP if there is more than T and it is not zero.
  template <typename T>
  int get_core(T& command) const {
    std::memset(&command, 0, sizeof command);
    copy_head(&command, sizeof command, core_in_);
    return core_in_.size() <= sizeof command || is_zero(core_in_.subspan(sizeof command)) ? 0 : EOPNOTSUPP;
  }
  template <typename T>
  int put_core(const T& response) {
    return put_space(core_out_, &response, sizeof response, true);
  }
  std::size_t core_out_bytes() const { return core_out_.bytes; }

  std::span<const std::byte> driver_in() const { return driver_in_; }
  template <typename T>
  void get_driver(T& command) const {
    std::memset(&command, 0, sizeof command);
    copy_head(&command, sizeof command, driver_in_);
  }
  // True if the driver part is zero from byte `from` on.
  bool driver_in_is_zero_from(std::size_t from) const {
    return driver_in_.size() <= from || is_zero(driver_in_.subspan(from));
  }
  std::size_t driver_out_bytes() const { return driver_out_.bytes; }
  int put_driver(const void* data, std::size_t bytes) { return put_space(driver_out_, data, bytes, false); }

  // ---- Objects ----
  // Hands a new object to the file: its handle. If the request fails later, the object is destroyed again.
  std::uint32_t adopt(std::unique_ptr<Object> object);
  std::shared_ptr<EventFile> adopt(std::shared_ptr<EventFile> file);

  // For a method whose one attribute is the handle to destroy.
  int destroy_only_object();

  static bool is_zero(std::span<const std::byte> bytes);

 private:
  friend class UverbsFile;
  struct Attr {
    std::uint16_t id = 0;
    std::vector<std::byte> data;
    OutputSpace out;
    Object* object = nullptr;
    std::shared_ptr<EventFile> file;
    std::uint64_t data_address = 0;  // of the attribute's data member
  };
  const Attr* find(std::uint16_t id) const;
  // What of `from` fits; an absent part has no address to copy from.
  static void copy_head(void* to, std::size_t bytes, std::span<const std::byte> from) {
    if (!from.empty()) {
      std::memcpy(to, from.data(), from.size() < bytes ? from.size() : bytes);
    }
  }
  int put_space(const OutputSpace& space, const void* data, std::size_t bytes, bool clear_rest);

  UverbsFile& file_;
  std::vector<Attr> attrs_;
  std::span<const std::byte> core_in_, driver_in_;
  std::vector<std::byte> core_in_storage_, driver_in_storage_;
  OutputSpace core_out_, driver_out_;
  std::vector<std::uint32_t> new_handles_;
  std::shared_ptr<EventFile> new_file_;
};

}  // namespace softhca::kernel
