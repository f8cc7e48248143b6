// A channel that can be closed under objects that a program has not destroyed.
#pragma once

#include <cerrno>
#include <memory>
#include <utility>

#include "uapi/channel.h"

namespace umlx5::verbs {

// Forwards to another channel. After close(), which nobody may call beside anything else, it answers EBADF.
class ClosableChannel final : public uapi::Channel {
 public:
  explicit ClosableChannel(std::unique_ptr<uapi::Channel> channel) : channel_(std::move(channel)) {}

  void close() { channel_.reset(); }

  int ioctl(ib_uverbs_ioctl_hdr& request) override { return channel_ ? channel_->ioctl(request) : EBADF; }
  int write(std::span<const std::byte> request) override { return channel_ ? channel_->write(request) : EBADF; }
  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) override {
    if (!channel_) {
      return std::unexpected(EBADF);
    }
    return channel_->mmap(length_bytes, protection, offset_bytes);
  }
  int munmap(std::byte* address, std::size_t length_bytes) override {
    return channel_ ? channel_->munmap(address, length_bytes) : EBADF;
  }
  std::expected<std::string, int> attribute(std::string_view path) const override {
    if (!channel_) {
      return std::unexpected(EBADF);
    }
    return channel_->attribute(path);
  }
  void relax() noexcept override {
    if (channel_) {
      channel_->relax();
    }
  }
  int descriptor() const noexcept override { return channel_ ? channel_->descriptor() : -1; }

 private:
  std::unique_ptr<uapi::Channel> channel_;
};

}  // namespace umlx5::verbs
