#include "tools/softhca/wire/pcap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace softhca::wire {
namespace {

// Block types, options and link type of the pcapng draft; all in the byte order of the machine that writes.
constexpr std::uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kEnhancedPacketBlock = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::uint16_t kLinkTypeIpv4 = 228;
constexpr std::uint16_t kOptionEnd = 0;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kTimestampResolution = 9;
constexpr std::uint16_t kPacketFlags = 2;
constexpr std::uint8_t kNanoseconds = 9;

constexpr std::size_t kFlushBytes = 1 << 20;  // pending bytes at which add() flushes by itself

void append(std::vector<std::byte>& out, std::span<const std::byte> data) {
  out.insert(out.end(), data.begin(), data.end());
}

template <typename T>
void append_value(std::vector<std::byte>& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

void pad_to_word(std::vector<std::byte>& out) { out.resize((out.size() + 3) / 4 * 4); }

void append_option(std::vector<std::byte>& out, std::uint16_t code, std::span<const std::byte> value) {
  append_value(out, code);
  append_value(out, static_cast<std::uint16_t>(value.size()));
  append(out, value);
  pad_to_word(out);
}

// Writes a block's type and both its lengths around what `body` appends.
template <typename Body>
void append_block(std::vector<std::byte>& out, std::uint32_t type, Body&& body) {
  const std::size_t start = out.size();
  append_value(out, type);
  append_value(out, std::uint32_t{0});
  body();
  const auto total = static_cast<std::uint32_t>(out.size() - start + sizeof(std::uint32_t));
  append_value(out, total);
  std::memcpy(out.data() + start + sizeof type, &total, sizeof total);
}

void append_section(std::vector<std::byte>& out, const std::string& interface) {
  append_block(out, kSectionHeaderBlock, [&] {
    append_value(out, kByteOrderMagic);
    append_value(out, std::uint16_t{1});  // version 1.0
    append_value(out, std::uint16_t{0});
    append_value(out, std::int64_t{-1});  // length of the section: not known
  });
  append_block(out, kInterfaceBlock, [&] {
    append_value(out, kLinkTypeIpv4);
    append_value(out, std::uint16_t{0});
    append_value(out, std::uint32_t{0});  // no limit of bytes per packet
    append_option(out, kInterfaceName, std::as_bytes(std::span(interface)));
    append_option(out, kTimestampResolution, std::as_bytes(std::span(&kNanoseconds, 1)));
    append_option(out, kOptionEnd, {});
  });
}

std::uint64_t realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// Empty, or a pcapng file.
bool may_append(int fd) {
  std::uint32_t type = 0;
  const ssize_t count = pread(fd, &type, sizeof type, 0);
  return count == 0 || (count == sizeof type && type == kSectionHeaderBlock);
}

}  // namespace

umlx5::Expected<std::unique_ptr<Capture>> Capture::open(const std::string& path, const std::string& interface) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return umlx5::fail(errno, fmt::format("capture file {}: cannot be opened for writing", path));
  }
  std::unique_ptr<Capture> capture(new Capture(fd));
  if (!may_append(fd)) {
    return umlx5::fail(EINVAL, fmt::format("capture file {}: exists and is not a pcapng file", path));
  }
  append_section(capture->pending_, interface);
  capture->flush();
  if (capture->fd_ < 0) {
    return umlx5::fail(errno, fmt::format("capture file {}: cannot be written", path));
  }
  return capture;
}

Capture::~Capture() {
  flush();
  if (fd_ >= 0) {
    close(fd_);
  }
}

void Capture::add(Direction direction, const Flow& flow, std::uint8_t traffic_class, std::uint8_t hop_limit,
                  std::span<const std::byte> packet) {
  if (fd_ < 0) {
    return;
  }
  const std::uint64_t now_ns = realtime_ns();
  const auto headers = ip_udp_headers(flow, traffic_class, hop_limit, packet);
  const auto captured_bytes = static_cast<std::uint32_t>(headers.size() + packet.size());
  append_block(pending_, kEnhancedPacketBlock, [&] {
    append_value(pending_, std::uint32_t{0});  // the section's first interface
    append_value(pending_, static_cast<std::uint32_t>(now_ns >> 32));
    append_value(pending_, static_cast<std::uint32_t>(now_ns));
    append_value(pending_, captured_bytes);
    append_value(pending_, captured_bytes);
    append(pending_, headers);
    append(pending_, packet);
    pad_to_word(pending_);
    const auto flags = static_cast<std::uint32_t>(direction);
    append_option(pending_, kPacketFlags, std::as_bytes(std::span(&flags, 1)));
    append_option(pending_, kOptionEnd, {});
  });
  if (pending_.size() >= kFlushBytes) {
    flush();
  }
}

void Capture::flush() {
  if (fd_ < 0 || pending_.empty()) {
    return;
  }
  // One write, so that blocks of other writers do not fall between ours: O_APPEND makes each write whole.
  const ssize_t written = write(fd_, pending_.data(), pending_.size());
  const int error = errno;
  if (written != static_cast<ssize_t>(pending_.size())) {
    close(fd_);
    fd_ = -1;
    errno = written < 0 ? error : ENOSPC;
  }
  pending_.clear();
}

std::string expand_process_id(std::string path) {
  const std::string_view mark = "%p";
  const std::string id = std::to_string(getpid());
  for (std::size_t at = path.find(mark); at != std::string::npos; at = path.find(mark, at + id.size())) {
    path.replace(at, mark.size(), id);
  }
  return path;
}

}  // namespace softhca::wire
