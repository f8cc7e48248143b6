#include "tools/softhca/source.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca {
namespace {

using umlx5::uapi::Channel;
using umlx5::uapi::DeviceInfo;

class SoftChannel final : public Channel {
 public:
  explicit SoftChannel(std::shared_ptr<SoftDevice> device) : device_(std::move(device)), file_(device_->rdma()) {}

  int ioctl(ib_uverbs_ioctl_hdr& request) override { return file_.ioctl(reinterpret_cast<std::uint64_t>(&request)); }
  int write(std::span<const std::byte> request) override {
    return file_.write(reinterpret_cast<std::uint64_t>(request.data()), request.size());
  }
  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) override {
    return file_.mmap(length_bytes, protection, offset_bytes);
  }
  int munmap(std::byte* address, std::size_t length_bytes) override {
    return ::munmap(address, length_bytes) == 0 ? 0 : errno;
  }
  std::expected<std::string, int> attribute(std::string_view path) const override {
    return device_->rdma().attribute(path);
  }
  void relax() noexcept override { device_->relax(); }

 private:
  std::shared_ptr<SoftDevice> device_;  // outlives the file
  kernel::UverbsFile file_;
};

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
}

SoftDeviceSource::SoftDeviceSource(std::vector<DeviceOptions> options) {
  for (DeviceOptions& each : options) {
    slots_.push_back({.options = std::move(each), .device = nullptr});
  }
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

umlx5::Expected<std::shared_ptr<SoftDevice>> SoftDeviceSource::device_of(Slot& slot) {
  if (slot.device != nullptr) {
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
  slot.device = std::move(*device);
  return slot.device;
}

umlx5::Expected<std::unique_ptr<Channel>> SoftDeviceSource::open(const DeviceInfo& info) {
  const std::lock_guard lock(mutex_);
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
