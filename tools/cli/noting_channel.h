// A channel that remembers the driver's part of the last request to create a queue pair.
#pragma once

#include <rdma/mlx5-abi.h>

#include <memory>
#include <optional>
#include <utility>

#include "uapi/channel.h"

namespace umlx5::tools {

class NotingChannel : public uapi::Channel {
 public:
  NotingChannel(std::unique_ptr<uapi::Channel> device, std::optional<mlx5_ib_create_qp>& noted)
      : device_(std::move(device)), noted_(noted) {}

  int ioctl(ib_uverbs_ioctl_hdr& request) override;
  int write(std::span<const std::byte> request) override { return device_->write(request); }
  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) override {
    return device_->mmap(length_bytes, protection, offset_bytes);
  }
  int munmap(std::byte* address, std::size_t length_bytes) override { return device_->munmap(address, length_bytes); }
  std::expected<std::string, int> attribute(std::string_view path) const override { return device_->attribute(path); }
  void relax() noexcept override { device_->relax(); }
  int descriptor() const noexcept override { return device_->descriptor(); }

 private:
  std::unique_ptr<uapi::Channel> device_;
  std::optional<mlx5_ib_create_qp>& noted_;
};

}  // namespace umlx5::tools
