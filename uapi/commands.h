// How one context sends commands: the kernel has had three ways, and which ones work is found out once and remembered.
//
//   A  commands of the write() ABI: through the ioctl DEVICE/INVOKE_WRITE where there is one, else through write()
//   B  methods with an older command beside them: the method first; where the kernel lacks it, as A
//   C  methods only
//
// Layouts: <rdma/ib_user_verbs.h>, <rdma/rdma_user_ioctl_cmds.h>.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "uapi/channel.h"
#include "uapi/error.h"
#include "uapi/request.h"

namespace umlx5::uapi {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(KernelStruct<T>);
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  static_assert(KernelStruct<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

// One command of the write() ABI. The spans must live until it was executed.
struct WriteCommand {
  std::string_view name;     // for error texts: "CREATE_QP"
  std::uint32_t number = 0;  // enum ib_uverbs_write_cmds
  bool extended = false;     // the form with an extended header
  // The request of <rdma/ib_user_verbs.h> without headers. A command that is not extended and has a response begins
  // with the response's address, which is filled in here.
  std::span<std::byte> core_in{};
  std::span<std::byte> core_out{};  // zeroed first: what an older kernel does not know is zero
  std::span<const std::byte> driver_in{};
  std::span<std::byte> driver_out{};  // zeroed first
};

// errno as one of our errors: "CREATE_QP: the kernel refused the attributes". `object` is put after the command's name
// where it is not empty: "DESTROY_QP (QP handle 7): ...".
Error kernel_error(std::string_view command, int errno_value, std::string_view object = {});

// The commands of one open context. All members may be called from several threads at once. The channel must outlive
// it.
class Commands {
 public:
  struct Options {
    // Destroying an object whose device was removed (EIO) succeeds: the kernel has released it already.
    bool allow_disassociated_destroy = false;
  };

  // Asks the kernel whether it has INVOKE_WRITE.
  explicit Commands(Channel& channel) : Commands(channel, Options{}) {}
  Commands(Channel& channel, Options options);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  Channel& channel() const { return channel_; }
  bool invoke_write_available() const { return invoke_write_available_; }

  // A. E2BIG when a part does not fit its length field, EINVAL when one is no multiple of the unit its header counts
  // in.
  Expected<void> write(const WriteCommand& command);

  // B. What is done when the kernel lacks the method is `command`.
  Expected<void> method_or_write(Request& request, const WriteCommand& command);

  // B, for a caller with another way: true if the method did it, false if the kernel lacks the method.
  Expected<bool> try_method(Request& request);

  // C.
  Expected<void> method(Request& request);

  // B, for an object's end: as method_or_write(), and obeys allow_disassociated_destroy. `object` names it in errors.
  Expected<void> destroy(Request& request, const WriteCommand& command, std::string_view object);

  // C, for an object's end.
  Expected<void> destroy(Request& request, std::string_view object);

 private:
  static constexpr std::size_t kObjects = 32;  // common objects only: the driver's own have no older commands
  static constexpr std::size_t kMethods = 8;

  int execute(Request& request);
  int invoke_write(const WriteCommand& command);
  int plain_write(const WriteCommand& command);
  int send(const WriteCommand& command);
  int method_or_write_errno(Request& request, const WriteCommand& command);
  int try_method_errno(Request& request, bool& done);
  std::atomic<bool>* unsupported(const Request& request);
  Expected<void> ended(int result, const Request& request, std::string_view object) const;

  Channel& channel_;
  Options options_;
  bool invoke_write_available_ = false;
  std::atomic<bool> ioctl_absent_ = false;
  std::array<std::atomic<bool>, kObjects * kMethods> unsupported_{};
};

}  // namespace umlx5::uapi
