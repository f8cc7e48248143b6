#include "tools/softhca/source.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "tools/softhca/child_requests.h"
#include "tools/softhca/kernel/user_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca {
namespace {

using umlx5::uapi::Channel;
using umlx5::uapi::DeviceInfo;

constexpr std::uint64_t kMostAttributeBytes = 4096;

}  // namespace

// A device, and its files that children may use.
struct OpenDevice {
  explicit OpenDevice(std::unique_ptr<SoftDevice> opened) : device(std::move(opened)) {}

  bool is_own() const { return device->rdma().is_own_process(); }

  std::uint64_t add(kernel::UverbsFile& file) {
    const std::lock_guard lock(mutex);
    files[++last_file] = &file;
    return last_file;
  }

  void remove(std::uint64_t number) {
    if (is_own()) {  // in a child, the lock may be one of a thread that is not there
      const std::lock_guard lock(mutex);
      files.erase(number);
    }
  }

  ChildAnswer serve(const ChildRequest& request);

  const std::unique_ptr<SoftDevice> device;
  std::mutex mutex;
  std::map<std::uint64_t, kernel::UverbsFile*> files;
  std::uint64_t last_file = 0;
  std::unique_ptr<ChildRequests> children;  // ends before what it serves
};

namespace {

// Copies the attribute that a child asks for into its memory.
ChildAnswer attribute_for_child(const kernel::RdmaDevice& device, const ChildRequest& request) {
  std::string path(std::min(request.bytes, kMostAttributeBytes), 0);
  if (!kernel::copy_from_user(path.data(), request.address, path.size())) {
    return {.error = EFAULT, .value = 0};
  }
  const auto text = device.attribute(path);
  if (!text) {
    return {.error = text.error(), .value = 0};
  }
  const std::size_t bytes = std::min<std::size_t>(text->size(), kMostAttributeBytes);
  return {.error = kernel::copy_to_user(request.offset, text->data(), bytes) ? 0 : EFAULT, .value = bytes};
}

}  // namespace

ChildAnswer OpenDevice::serve(const ChildRequest& request) {
  const std::lock_guard lock(mutex);
  const auto found = files.find(request.file);
  if (found == files.end()) {
    return {.error = EIO, .value = 0};
  }
  kernel::UverbsFile& file = *found->second;
  const kernel::RequestsOfProcess of_child(request.pid);
  switch (request.kind) {
    case ChildRequestKind::kIoctl:
      return {.error = file.ioctl(request.address), .value = 0};
    case ChildRequestKind::kWrite:
      return {.error = file.write(request.address, request.bytes), .value = 0};
    case ChildRequestKind::kMemoryToMap: {
      const auto address = file.memory_to_map(request.bytes, request.protection, request.offset);
      return {.error = address ? 0 : address.error(), .value = address.value_or(0)};
    }
    case ChildRequestKind::kAttribute:
      return attribute_for_child(device->rdma(), request);
  }
  return {.error = EIO, .value = 0};
}

namespace {

class SoftChannel final : public Channel {
 public:
  explicit SoftChannel(std::shared_ptr<OpenDevice> device)
      : device_(std::move(device)), file_(device_->device->rdma()), number_(device_->add(file_)) {}
  ~SoftChannel() override { device_->remove(number_); }

  int ioctl(ib_uverbs_ioctl_hdr& request) override {
    const auto address = reinterpret_cast<std::uint64_t>(&request);
    return device_->is_own() ? file_.ioctl(address)
                             : ask({.kind = ChildRequestKind::kIoctl, .file = number_, .address = address}).error;
  }
  int write(std::span<const std::byte> request) override {
    const auto address = reinterpret_cast<std::uint64_t>(request.data());
    return device_->is_own()
               ? file_.write(address, request.size())
               : ask({.kind = ChildRequestKind::kWrite, .file = number_, .address = address, .bytes = request.size()})
                     .error;
  }
  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) override {
    if (device_->is_own()) {
      return file_.mmap(length_bytes, protection, offset_bytes);
    }
    const ChildAnswer memory = ask({.kind = ChildRequestKind::kMemoryToMap,
                                    .file = number_,
                                    .bytes = length_bytes,
                                    .offset = offset_bytes,
                                    .protection = protection});
    // The device's memory is shared with children.
    return memory.error != 0 ? std::unexpected(memory.error)
                             : device_->device->rdma().firmware().map_memic(memory.value, length_bytes, protection);
  }
  int munmap(std::byte* address, std::size_t length_bytes) override {
    return ::munmap(address, length_bytes) == 0 ? 0 : errno;
  }
  std::expected<std::string, int> attribute(std::string_view path) const override {
    if (device_->is_own()) {
      return device_->device->rdma().attribute(path);
    }
    std::string text(kMostAttributeBytes, 0);
    const ChildAnswer answer = ask({.kind = ChildRequestKind::kAttribute,
                                    .file = number_,
                                    .address = reinterpret_cast<std::uint64_t>(path.data()),
                                    .bytes = path.size(),
                                    .offset = reinterpret_cast<std::uint64_t>(text.data())});
    text.resize(answer.value);
    return answer.error == 0 ? std::expected<std::string, int>(std::move(text)) : std::unexpected(answer.error);
  }
  void relax() noexcept override { device_->device->relax(); }

 private:
  ChildAnswer ask(const ChildRequest& request) const { return device_->children->ask(request); }

  std::shared_ptr<OpenDevice> device_;  // outlives the file
  kernel::UverbsFile file_;
  const std::uint64_t number_;
};

// All sources'. Held while a process forks, so that its child finds it free and the slots whole.
std::mutex slots_mutex;

void keep_slots_whole_over_forks() {
  static const int registered =
      ::pthread_atfork([] { slots_mutex.lock(); }, [] { slots_mutex.unlock(); }, [] { slots_mutex.unlock(); });
  static_cast<void>(registered);
}

}  // namespace

umlx5::Expected<std::size_t> device_count_from_environment() {
  constexpr std::size_t kMost = 64;
  const char* const value = std::getenv("UMLX5_SOFT_DEVICES");
  const std::string_view text = value == nullptr ? "" : value;
  std::size_t count = 1;
  if (!text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count > kMost) {
      return umlx5::fail(EINVAL, fmt::format("UMLX5_SOFT_DEVICES is '{}', and not a number from 0 to {}", text, kMost));
    }
  }
  return count;
}

SoftDeviceSource::SoftDeviceSource(std::size_t count) : from_environment_(true), slots_(count) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].options.name = fmt::format("mlx5_{}", i);
  }
  keep_slots_whole_over_forks();
}

SoftDeviceSource::SoftDeviceSource(std::vector<DeviceOptions> options) {
  for (DeviceOptions& each : options) {
    slots_.push_back({.options = std::move(each), .device = nullptr});
  }
  keep_slots_whole_over_forks();
}

umlx5::Expected<std::vector<DeviceInfo>> SoftDeviceSource::list() {
  std::vector<DeviceInfo> devices;
  for (const Slot& slot : slots_) {
    devices.push_back({.name = slot.options.name,
                       .path = "soft:" + slot.options.name,
                       .node = fmt::format("uverbs{}", devices.size()),
                       .vendor_id = 0x15b3,
                       .device_id = 0x101d,
                       .abi_version = 1,
                       .software = true});
  }
  return devices;
}

umlx5::Expected<std::shared_ptr<OpenDevice>> SoftDeviceSource::device_of(Slot& slot) {
  const bool has_parents = slot.device != nullptr && !slot.device->is_own();
  if (slot.device != nullptr && !has_parents) {
    return slot.device;
  }
  DeviceOptions options = slot.options;
  if (from_environment_) {
    auto asked = device_options_from_environment();
    if (!asked) {
      return std::unexpected(asked.error());
    }
    options.endpoint = std::move(asked->endpoint);
    options.restrictions = std::move(asked->restrictions);
    if (&slot != &slots_.front()) {
      options.endpoint.address.reset();
    }
  }
  if (has_parents) {
    options.endpoint.address.reset();  // it is the parent's
  }
  auto device = SoftDevice::open(options);
  if (!device) {
    umlx5::Error error = device.error();
    if (from_environment_ && error.errno_value == EINVAL && !options.endpoint.faults.empty()) {
      error.what = "UMLX5_SOFT_FAULTS: " + error.what;
    } else if (from_environment_ && options.endpoint.address) {
      error.what = "UMLX5_SOFT_ADDR: " + error.what;
    }
    return std::unexpected(std::move(error));
  }
  auto opened = std::make_shared<OpenDevice>(std::move(*device));
  auto children = ChildRequests::start([raw = opened.get()](const ChildRequest& r) { return raw->serve(r); });
  if (!children) {
    return std::unexpected(children.error());
  }
  opened->children = std::move(*children);
  slot.device = std::move(opened);
  return slot.device;
}

umlx5::Expected<std::unique_ptr<Channel>> SoftDeviceSource::open(const DeviceInfo& info) {
  const std::lock_guard lock(slots_mutex);
  const auto slot = std::ranges::find_if(slots_, [&](const Slot& s) { return "soft:" + s.options.name == info.path; });
  if (slot == slots_.end()) {
    return umlx5::fail(ENODEV, fmt::format("'{}' is not a soft device of this process", info.path));
  }
  auto device = device_of(*slot);
  if (!device) {
    return std::unexpected(device.error());
  }
  return std::make_unique<SoftChannel>(std::move(*device));
}

}  // namespace softhca
