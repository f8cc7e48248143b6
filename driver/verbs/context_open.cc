#include "driver/verbs/context_open.h"

#include <fmt/format.h>
#include <pthread.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "driver/verbs/device_list.h"
#include "driver/verbs/operations.h"
#include "driver/verbs/report.h"

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

Expected<ContextObject*> open(DeviceObject& device, const OpenOptions& options) {
  auto channel = device.source->open(device.info);
  if (!channel) {
    return std::unexpected(std::move(channel.error()));
  }
  const int descriptor = (*channel)->descriptor();
  ContextOptions native_options;
  native_options.total_blueflame_registers = number_from("MLX5_TOTAL_UUARS", native_options.total_blueflame_registers);
  native_options.devx_required = options.devx_required;
  auto native = Context::open(device.info, std::move(*channel), native_options);
  if (!native) {
    return std::unexpected(std::move(native.error()));
  }
  auto context = std::make_unique<ContextObject>();
  context->native = std::move(*native);
  context->single_threaded = number_from("MLX5_SINGLE_THREADED", 0) == 1;
  fill_public_part(*context, device, descriptor);
  hold(device);
  return context.release();
}

}  // namespace

ContextObject* open_context(DeviceObject& device, const OpenOptions& options) {
  const auto context = open(device, options);
  return context ? *context : report_null(context.error());
}

void close_context(ContextObject& context) {
  DeviceObject& device = object_of(context.verbs.context.device);
  pthread_mutex_destroy(&context.verbs.context.mutex);
  delete &context;
  release(device);
}

}  // namespace umlx5::verbs
