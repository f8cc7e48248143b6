#include "uapi/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

namespace umlx5::uapi {
namespace {

// What an attribute's length field holds; two parts of this size also fit the word counts of both headers.
constexpr std::size_t kMaxPartBytes = std::numeric_limits<std::uint16_t>::max();

std::string_view meaning(int errno_value) {
  switch (errno_value) {
    case EINVAL:
      return "the kernel refused the attributes";
    case ENOMEM:
      return "no memory, or none of the device's resources left";
    case EBUSY:
      return "something still uses it";
    case EPERM:
    case EACCES:
      return "this process is not permitted to";
    case EFAULT:
      return "an address is not in this process's memory";
    case ENOENT:
    case EBADF:
      return "an object or file descriptor that it names does not exist in this context";
    case ENODEV:
    case EIO:
      return "the device was removed or has failed";
    case EOPNOTSUPP:
    case ENOSYS:
      return "the kernel or the device does not support this";
    case ENOTTY:
      return "the kernel has no ioctl interface for RDMA";
    case EPROTONOSUPPORT:
      return "this kernel does not know the method or one of its attributes";
    case ENOSPC:
      return "the kernel's answer does not fit";
    case E2BIG:
      return "the request is too long";
    case ENODATA:
      return "the entry is empty";
    case EINTR:
      return "a signal interrupted it";
    case EAGAIN:
      return "not now";
    case ETIMEDOUT:
      return "the device did not answer in time";
    case EREMOTEIO:
      return "the device refused the command";
    default:
      return "the kernel refused";
  }
}

void put_response_address(std::span<std::byte> core_in, const void* response) {
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(response);
  std::memcpy(core_in.data(), &address, sizeof(address));
}

void append(std::vector<std::byte>& message, std::span<const std::byte> bytes) {
  message.insert(message.end(), bytes.begin(), bytes.end());
}

// Headers count in words of 4 or 8 bytes, and a response's address needs room in front.
int check_sizes(const WriteCommand& c) {
  const std::size_t unit_bytes = c.extended ? 8 : 4;
  const bool has_address = !c.extended && !c.core_out.empty();
  for (std::size_t bytes : {c.core_in.size(), c.core_out.size(), c.driver_in.size(), c.driver_out.size()}) {
    if (bytes % unit_bytes != 0) return EINVAL;
    if (bytes > kMaxPartBytes) return E2BIG;
  }
  return has_address && c.core_in.size() < sizeof(std::uint64_t) ? EINVAL : 0;
}

}  // namespace

Error kernel_error(std::string_view command, int errno_value, std::string_view object) {
  std::string what(command);
  if (!object.empty()) what += fmt::format(" ({})", object);
  return Error{errno_value, fmt::format("{}: {}", what, meaning(errno_value))};
}

Commands::Commands(Channel& channel, Options options) : channel_(channel), options_(options) {
  // Without buffers for its answer the command cannot succeed; only the kind of failure matters.
  Request probe(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, "INVOKE_WRITE");
  probe.constant(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_QUERY_DEVICE);
  const int result = execute(probe);
  ioctl_absent_ = result == ENOTTY;
  invoke_write_available_ = result != ENOTTY && result != EPROTONOSUPPORT;
}

int Commands::execute(Request& request) {
  if (request.error() != 0) return request.error();
  return channel_.ioctl(request.header());
}

int Commands::invoke_write(const WriteCommand& c) {
  if (!c.extended && !c.core_out.empty()) put_response_address(c.core_in, c.core_out.data());
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, c.name);
  request.constant(UVERBS_ATTR_WRITE_CMD, c.number | (c.extended ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0));
  request.input_bytes(UVERBS_ATTR_CORE_IN, c.core_in);
  request.output_bytes(UVERBS_ATTR_CORE_OUT, c.core_out);
  request.driver(c.driver_in, c.driver_out);
  return execute(request);
}

// The kernel writes both parts of the answer to one address, one behind the other.
int Commands::plain_write(const WriteCommand& c) {
  std::vector<std::byte> answer(c.core_out.size() + c.driver_out.size());
  std::vector<std::byte> message;
  ib_uverbs_cmd_hdr header{};
  if (c.extended) {
    header.command = c.number | IB_USER_VERBS_CMD_FLAG_EXTENDED;
    header.in_words = static_cast<std::uint16_t>(c.core_in.size() / 8);
    header.out_words = static_cast<std::uint16_t>(c.core_out.size() / 8);
    ib_uverbs_ex_cmd_hdr extended{};
    extended.response = answer.empty() ? 0 : reinterpret_cast<std::uintptr_t>(answer.data());
    extended.provider_in_words = static_cast<std::uint16_t>(c.driver_in.size() / 8);
    extended.provider_out_words = static_cast<std::uint16_t>(c.driver_out.size() / 8);
    append(message, bytes_of(header));
    append(message, bytes_of(extended));
  } else {
    header.command = c.number;
    header.in_words = static_cast<std::uint16_t>((sizeof(header) + c.core_in.size() + c.driver_in.size()) / 4);
    header.out_words = static_cast<std::uint16_t>(answer.size() / 4);
    if (!c.core_out.empty()) put_response_address(c.core_in, answer.data());
    append(message, bytes_of(header));
  }
  append(message, c.core_in);
  append(message, c.driver_in);

  const int result = channel_.write(message);
  if (result != 0) return result;
  std::ranges::copy(std::span(answer).first(c.core_out.size()), c.core_out.begin());
  std::ranges::copy(std::span(answer).last(c.driver_out.size()), c.driver_out.begin());
  return 0;
}

int Commands::send(const WriteCommand& c) {
  if (const int bad = check_sizes(c); bad != 0) return bad;
  std::ranges::fill(c.core_out, std::byte{0});
  std::ranges::fill(c.driver_out, std::byte{0});
  return invoke_write_available_ ? invoke_write(c) : plain_write(c);
}

std::atomic<bool>* Commands::unsupported(const Request& request) {
  if (request.object() >= kObjects || request.method() >= kMethods) return nullptr;
  return &unsupported_[request.object() * kMethods + request.method()];
}

int Commands::try_method_errno(Request& request, bool& done) {
  done = false;
  std::atomic<bool>* lacking = unsupported(request);
  if (ioctl_absent_ || (lacking != nullptr && *lacking)) return 0;
  const int result = execute(request);
  done = result == 0;
  if (result == ENOTTY) {
    ioctl_absent_ = true;
    return 0;
  }
  if (result == EPROTONOSUPPORT) {
    if (lacking != nullptr) *lacking = true;
    return 0;
  }
  return result;
}

int Commands::method_or_write_errno(Request& request, const WriteCommand& command) {
  bool done = false;
  const int result = try_method_errno(request, done);
  return done || result != 0 ? result : send(command);
}

Expected<void> Commands::write(const WriteCommand& command) {
  if (const int result = send(command); result != 0) return std::unexpected(kernel_error(command.name, result));
  return {};
}

Expected<void> Commands::method_or_write(Request& request, const WriteCommand& command) {
  const int result = method_or_write_errno(request, command);
  if (result != 0) return std::unexpected(kernel_error(request.name(), result));
  return {};
}

Expected<bool> Commands::try_method(Request& request) {
  bool done = false;
  if (const int result = try_method_errno(request, done); result != 0) {
    return std::unexpected(kernel_error(request.name(), result));
  }
  return done;
}

Expected<void> Commands::method(Request& request) {
  if (const int result = execute(request); result != 0) return std::unexpected(kernel_error(request.name(), result));
  return {};
}

Expected<void> Commands::ended(int result, const Request& request, std::string_view object) const {
  if (result == 0 || (result == EIO && options_.allow_disassociated_destroy)) return {};
  return std::unexpected(kernel_error(request.name(), result, object));
}

Expected<void> Commands::destroy(Request& request, const WriteCommand& command, std::string_view object) {
  return ended(method_or_write_errno(request, command), request, object);
}

Expected<void> Commands::destroy(Request& request, std::string_view object) {
  return ended(execute(request), request, object);
}

}  // namespace umlx5::uapi
