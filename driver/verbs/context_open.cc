#include "driver/verbs/context_open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "driver/log.h"
#include "driver/verbs/device_list.h"
#include "driver/verbs/fork_ranges.h"
#include "driver/verbs/mkey_objects.h"
#include "driver/verbs/operations.h"
#include "driver/verbs/report.h"
#include "uapi/kernel_devices.h"

namespace umlx5::verbs {
namespace {

// The number that an environment variable of libmlx5 holds.
std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  std::uint32_t value = 0;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), value).ec != std::errc{}) {
    return otherwise;
  }
  return value;
}

// What `verbs.h` looks for to know that a verbs_context is in front of the ibv_context.
void* const kExtended = reinterpret_cast<void*>(~std::uintptr_t{0});

void fill_public_part(ContextObject& context, DeviceObject& device, int descriptor) {
  verbs_context& verbs = context.verbs;
  verbs.sz = sizeof verbs;
  verbs.context.device = &device.device;
  verbs.context.cmd_fd = descriptor;
  verbs.context.async_fd = context.native->async_fd();
  verbs.context.num_comp_vectors = static_cast<int>(context.native->kernel_info().completion_vectors);
  verbs.context.abi_compat = kExtended;
  pthread_mutex_init(&verbs.context.mutex, nullptr);
  set_operations(verbs);
}

ContextOptions options_from_environment() {
  ContextOptions options;
  options.fork_guard = {.keep_out = ibv_dontfork_range, .let_in = ibv_dofork_range};
  options.total_blueflame_registers = number_from("MLX5_TOTAL_UUARS", options.total_blueflame_registers);
  return options;
}

using Open = Expected<std::unique_ptr<Context>> (*)(const uapi::DeviceInfo& device,
                                                    std::unique_ptr<uapi::Channel> channel,
                                                    const ContextOptions& options);

ContextObject* make_object(DeviceObject& device, std::unique_ptr<uapi::Channel> given, Open open,
                           const ContextOptions& options) {
  auto channel = std::make_unique<ClosableChannel>(std::move(given));
  const int descriptor = channel->descriptor();
  auto context = std::make_unique<ContextObject>();
  context->channel = channel.get();
  auto native = open(device.info, std::move(channel), options);
  if (!native) {
    return report_null(native.error());
  }
  context->native = std::move(*native);
  context->single_threaded = number_from("MLX5_SINGLE_THREADED", 0) == 1;
  fill_public_part(*context, device, descriptor);
  hold(device);
  return context.release();
}

}  // namespace

ContextObject* open_context(DeviceObject& device, const OpenOptions& options) {
  auto channel = device.source->open(device.info);
  if (!channel) {
    return report_null(channel.error());
  }
  ContextOptions native_options = options_from_environment();
  native_options.devx_required = options.devx_required;
  return make_object(device, std::move(*channel), Context::open, native_options);
}

// The file is used through a descriptor of our own, so that the caller's stays open if it comes to nothing.
ContextObject* import_context(DeviceObject& device, int descriptor) {
  const int own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) {
    return report_null({errno, fmt::format("import {}: descriptor {}", device.info.name, descriptor)});
  }
  ContextObject* context = make_object(device, uapi::make_character_device(own, device.device.ibdev_path),
                                       Context::import, options_from_environment());
  if (context != nullptr) {
    ::close(descriptor);
  }
  return context;
}

// With objects left, the file ends under them, as at a process' end: the kernel takes down what was made through it.
// The context stays for the calls that may come for them, which get EBADF.
void close_context(ContextObject& context) {
  delete std::exchange(context.crypto_login, nullptr);
  if (const std::size_t left = context.native->objects_left() + static_cast<std::size_t>(context.uses); left != 0) {
    log(LogLevel::kInfo, fmt::format("{} is closed with {} objects left", context.native->device().name, left));
    context.channel->close();
    ::close(context.verbs.context.async_fd);
    return;
  }
  DeviceObject& device = object_of(context.verbs.context.device);
  pthread_mutex_destroy(&context.verbs.context.mutex);
  delete &context;
  release(device);
}

}  // namespace umlx5::verbs
