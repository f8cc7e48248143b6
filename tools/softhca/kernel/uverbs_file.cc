#include "tools/softhca/kernel/uverbs_file.h"

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ranges>

#include "tools/softhca/kernel/log.h"
#include "tools/softhca/kernel/user_memory.h"

namespace softhca::kernel {
namespace {

constexpr std::size_t kPageBytes = 4096;
// mlx5's dynamic mappings start at this command; the page index follows in two parts.
constexpr std::uint64_t kFirstDynamicCommand = 9;

// Not a failure but what the caller wants to know: ENOSPC tells a probe that there is such a method, ENODATA that a
// table's entry is empty.
bool is_answer(int error) { return error == 0 || error == ENOSPC || error == ENODATA; }

void log_result(std::string_view what, int error) {
  const LogLevel level = is_answer(error) ? LogLevel::kDebug : LogLevel::kInfo;
  if (log_enabled(level)) {
    log(level, fmt::format("{}: {}", what, error == 0 ? "done" : std::strerror(error)));
  }
}

}  // namespace

UverbsFile::~UverbsFile() {
  if (!device_.is_own_process()) {
    forget_all();  // the device is the parent's
    return;
  }
  const std::lock_guard lock(device_.command_mutex());
  release_all();
}

int UverbsFile::ioctl(std::uint64_t argument) {
  if (!device_.is_own_process()) {
    return EIO;
  }
  const std::lock_guard lock(device_.command_mutex());
  return run_ioctl(argument);
}

int UverbsFile::run_ioctl(std::uint64_t argument) {
  ib_uverbs_ioctl_hdr header{};
  if (!copy_from_user(&header, argument, sizeof header)) {
    return EFAULT;
  }
  if (header.length > kPageBytes || header.length != sizeof header + header.num_attrs * sizeof(ib_uverbs_attr)) {
    return EINVAL;
  }
  if (header.reserved1 != 0 || header.reserved2 != 0) {
    return EPROTONOSUPPORT;
  }
  if (header.driver_id != RDMA_DRIVER_MLX5) {
    return EINVAL;
  }
  const Method* const method = find_method(header.object_id, header.method_id);
  if (method == nullptr) {
    log_result(method_name(header.object_id, header.method_id), EPROTONOSUPPORT);
    return EPROTONOSUPPORT;
  }
  std::vector<ib_uverbs_attr> attrs(header.num_attrs);
  const std::uint64_t first = argument + sizeof header;
  if (!copy_from_user(attrs.data(), first, attrs.size() * sizeof(ib_uverbs_attr))) {
    return EFAULT;
  }
  Request request(*this);
  int error = 0;
  for (std::size_t i = 0; i < attrs.size() && error == 0; ++i) {
    error = take_attr(request, *method, attrs[i], first + i * sizeof(ib_uverbs_attr));
  }
  for (const AttrSpec& spec : method->attrs) {
    if (error == 0 && spec.mandatory && !request.has(spec.id)) {
      error = EINVAL;
    }
  }
  if (error == 0 && method->needs_context && context_ == nullptr) {
    error = EINVAL;
  }
  if (error == 0) {
    request.driver_in_ = request.input(UVERBS_ATTR_UHW_IN);
    if (const auto* const out = request.find(UVERBS_ATTR_UHW_OUT); out != nullptr) {
      request.driver_out_ = out->out;
    }
    error = finish(request, method->handler(request));
  }
  log_result(method->name, error);
  return error;
}

int UverbsFile::take_attr(Request& request, const Method& method, const ib_uverbs_attr& attr, std::uint64_t address) {
  const auto spec = std::ranges::find(method.attrs, attr.attr_id, &AttrSpec::id);
  if (spec == method.attrs.end()) {
    return (attr.flags & UVERBS_ATTR_F_MANDATORY) != 0 ? EPROTONOSUPPORT : 0;
  }
  if (request.has(attr.attr_id)) {
    return EINVAL;
  }
  Request::Attr taken{.id = attr.attr_id, .data = {}, .out = {}, .object = nullptr, .file = nullptr};
  taken.data_address = address + offsetof(ib_uverbs_attr, data);
  if (attr.attr_data.reserved != 0) {
    return EINVAL;
  }
  if (spec->kind == AttrKind::kHandle || spec->kind == AttrKind::kFd) {
    if (const int error = attr.len != 0 ? EINVAL : take_object(taken, *spec, attr); error != 0) {
      return error;
    }
  } else {
    if (attr.len < spec->min_bytes || (!spec->zero_tail && attr.len > spec->max_bytes)) {
      return EINVAL;
    }
    if (spec->kind == AttrKind::kOut) {
      taken.out = {.address = attr.data, .bytes = attr.len, .flags_address = address + offsetof(ib_uverbs_attr, flags)};
    } else {
      taken.data.resize(attr.len);
      if (attr.len <= sizeof attr.data) {
        std::copy_n(reinterpret_cast<const std::byte*>(&attr.data), attr.len, taken.data.begin());
      } else if (!copy_from_user(taken.data.data(), attr.data, attr.len)) {
        return EFAULT;
      }
      if (attr.len > spec->max_bytes) {
        if (!Request::is_zero(std::span(taken.data).subspan(spec->max_bytes))) {
          return EOPNOTSUPP;
        }
        taken.data.resize(spec->max_bytes);
      }
    }
  }
  request.attrs_.push_back(std::move(taken));
  return 0;
}

int UverbsFile::take_object(Request::Attr& taken, const AttrSpec& spec, const ib_uverbs_attr& attr) {
  if (spec.access == Access::kNew) {
    return 0;
  }
  if (spec.kind == AttrKind::kFd) {
    taken.file = find_event_file(attr.data_s64);
    return taken.file != nullptr && taken.file->object_type() == spec.object_type ? 0 : EBADF;
  }
  if (attr.data > 0xffffffff) {
    return EINVAL;
  }
  const auto found = objects_.find(static_cast<std::uint32_t>(attr.data));
  if (found == objects_.end()) {
    return ENOENT;
  }
  if (spec.object_type != kAnyObject && found->second->type != spec.object_type) {
    return EINVAL;
  }
  taken.object = found->second.get();
  return 0;
}

int UverbsFile::finish(Request& request, int error) {
  if (error == 0) {
    // The driver part counts as written once the method has succeeded.
    if (request.driver_out_.flags_address != 0) {
      error = request.put_driver(nullptr, 0);
    }
    if (error == 0) {
      return 0;
    }
  }
  for (const std::uint32_t handle : request.new_handles_) {
    if (const auto found = objects_.find(handle); found != objects_.end()) {
      if (!destroy(*found->second)) {
        log(LogLevel::kError, "an object of a failed request stays on the device until the file is closed");
      }
    }
  }
  if (request.new_file_ != nullptr) {
    event_files_.erase(request.new_file_->fd());
    if (default_async_file_ == request.new_file_) {
      default_async_file_ = nullptr;
    }
    request.new_file_->close_user_fd();
  }
  return error == EPROTONOSUPPORT ? EINVAL : error;
}

int UverbsFile::write(std::uint64_t address, std::size_t bytes) {
  if (!device_.is_own_process()) {
    return EIO;
  }
  const std::lock_guard lock(device_.command_mutex());
  return run_write(address, bytes);
}

int UverbsFile::run_write(std::uint64_t address, std::size_t bytes) {
  ib_uverbs_cmd_hdr header{};
  if (bytes < sizeof header) {
    return EINVAL;
  }
  if (!copy_from_user(&header, address, sizeof header)) {
    return EFAULT;
  }
  if ((header.command & ~(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK)) != 0) {
    return EINVAL;
  }
  const WriteCommand* const command = find_write_command(header.command);
  if (command == nullptr) {
    log_result(write_command_name(header.command), EOPNOTSUPP);
    return EOPNOTSUPP;
  }
  Request request(*this);
  int error = split_write(request, *command, address, bytes);
  if (error == 0 && command->needs_context && context_ == nullptr) {
    error = EINVAL;
  }
  if (error == 0) {
    error = finish(request, command->handler(request));
  }
  log_result(command->name, error);
  return error;
}

// Sizes a plain or extended write() and copies its input.
int UverbsFile::split_write(Request& request, const WriteCommand& command, std::uint64_t address, std::size_t bytes) {
  ib_uverbs_cmd_hdr header{};
  ib_uverbs_ex_cmd_hdr ex{};
  if (!copy_from_user(&header, address, sizeof header)) {
    return EFAULT;
  }
  std::size_t core_in = 0, core_out = 0, driver_in = 0, driver_out = 0;
  std::uint64_t input = address + sizeof header, response = 0;
  if ((command.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0) {
    if (bytes < sizeof header + sizeof ex) {
      return EINVAL;
    }
    if (!copy_from_user(&ex, input, sizeof ex)) {
      return EFAULT;
    }
    input += sizeof ex;
    core_in = header.in_words * std::size_t{8};
    driver_in = ex.provider_in_words * std::size_t{8};
    core_out = header.out_words * std::size_t{8};
    driver_out = ex.provider_out_words * std::size_t{8};
    response = ex.response;
    if (core_in + driver_in != bytes - sizeof header - sizeof ex) {
      return EINVAL;
    }
    if (core_in < command.request_bytes) {
      return ENOSPC;
    }
    if (ex.cmd_hdr_reserved != 0 || (response != 0) != (core_out + driver_out != 0)) {
      return EINVAL;
    }
    if (response != 0 && core_out < command.response_bytes) {
      return ENOSPC;
    }
  } else {
    std::size_t in_bytes = header.in_words * std::size_t{4};
    const std::size_t out_bytes = header.out_words * std::size_t{4};
    if (in_bytes != bytes) {
      return EINVAL;
    }
    // rdma-core 18 and 19 leave DESTROY_CQ's last 8 bytes out.
    const bool short_destroy_cq = header.command == IB_USER_VERBS_CMD_DESTROY_CQ && bytes == 16;
    if (bytes < command.request_bytes + sizeof header && !short_destroy_cq) {
      return ENOSPC;
    }
    if (out_bytes < command.response_bytes) {
      return ENOSPC;
    }
    in_bytes -= sizeof header;
    core_in = command.has_driver_part ? std::min(in_bytes, command.request_bytes) : in_bytes;
    driver_in = in_bytes - core_in;
    if (command.has_response) {
      if (!copy_from_user(&response, input, sizeof response)) {
        return EFAULT;
      }
      core_out = command.has_driver_part ? command.response_bytes : out_bytes;
      driver_out = out_bytes - core_out;
    }
  }
  request.core_in_storage_.resize(core_in);
  request.driver_in_storage_.resize(driver_in);
  if (!copy_from_user(request.core_in_storage_.data(), input, core_in) ||
      !copy_from_user(request.driver_in_storage_.data(), input + core_in, driver_in)) {
    return EFAULT;
  }
  request.core_in_ = request.core_in_storage_;
  request.driver_in_ = request.driver_in_storage_;
  request.core_out_ = {.address = response, .bytes = core_out};
  request.driver_out_ = {.address = response + core_out, .bytes = driver_out};
  return 0;
}

int UverbsFile::invoke_write(Request& request, std::uint64_t number) {
  if ((number & ~std::uint64_t{IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK}) != 0) {
    return EINVAL;
  }
  const WriteCommand* const command = find_write_command(static_cast<std::uint32_t>(number));
  if (command == nullptr) {
    log_result(write_command_name(static_cast<std::uint32_t>(number)), EOPNOTSUPP);
    return EOPNOTSUPP;
  }
  request.core_in_ = request.input(UVERBS_ATTR_CORE_IN);
  if (const auto* const out = request.find(UVERBS_ATTR_CORE_OUT); out != nullptr) {
    request.core_out_ = out->out;
  }
  if (request.core_in_.size() < command->request_bytes || request.core_out_.bytes < command->response_bytes) {
    return ENOSPC;
  }
  if (command->needs_context && context_ == nullptr) {
    return EINVAL;
  }
  const int error = command->handler(request);
  log_result(command->name, error);
  return error;
}

std::expected<EventCounts, int> UverbsFile::destroy(Object& object) {
  if (object.users != 0) {
    return std::unexpected(EBUSY);
  }
  if (const int error = object.release(device_); error != 0) {
    return std::unexpected(error);
  }
  const EventCounts counts = object.reported;
  objects_.erase(object.handle);
  return counts;
}

std::shared_ptr<EventFile> UverbsFile::find_event_file(std::int64_t fd) const {
  const auto found = fd < 0 || fd > INT32_MAX ? event_files_.end() : event_files_.find(static_cast<int>(fd));
  return found != event_files_.end() && found->second->still_open() ? found->second : nullptr;
}

void UverbsFile::forget_all() {
  while (!objects_.empty()) {
    std::erase_if(objects_, [](const auto& entry) { return entry.second->users == 0; });
  }
}

void UverbsFile::release_all() {
  // Users were made after what they use, except through RESIZE and REREG: a few passes settle those.
  for (bool progress = true; progress && !objects_.empty();) {
    progress = false;
    std::vector<std::uint32_t> handles;
    for (const auto& [handle, object] : objects_) {
      handles.push_back(handle);
    }
    for (const std::uint32_t handle : std::views::reverse(handles)) {
      if (destroy(*objects_.at(handle))) {
        progress = true;
      }
    }
  }
  if (!objects_.empty()) {
    log(LogLevel::kError, fmt::format("{} objects of a closed file stay on the device", objects_.size()));
    forget_all();
  }
  if (context_ != nullptr) {
    command_on_object(device_.firmware(), umlx5::wqe::prm::Opcode::kDeallocTransportDomain, context_->uid,
                      context_->transport_domain);
    if (context_->uid != 0) {
      command_on_object(device_.firmware(), umlx5::wqe::prm::Opcode::kDestroyUctx, 0, context_->uid);
    }
  }
}

namespace {

// What is asked of mmap(): a page offset is a command and an index in two parts.
struct MappingRequest {
  std::uint64_t command = 0, index = 0;
};

std::expected<MappingRequest, int> mapping_request(std::size_t length_bytes, int protection,
                                                   std::uint64_t offset_bytes) {
  if (length_bytes == 0 || length_bytes % kPageBytes != 0 || offset_bytes % kPageBytes != 0 ||
      (protection & PROT_EXEC) != 0) {
    return std::unexpected(EINVAL);
  }
  const std::uint64_t page = offset_bytes / kPageBytes;
  return MappingRequest{.command = page >> 8 & 0xff, .index = (page & 0xff) | (page >> 16 << 8)};
}

}  // namespace

std::expected<std::byte*, int> UverbsFile::mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) {
  if (!device_.is_own_process()) {
    return std::unexpected(EIO);
  }
  const std::lock_guard lock(device_.command_mutex());
  const auto asked = mapping_request(length_bytes, protection, offset_bytes);
  if (!asked || context_ == nullptr) {
    return std::unexpected(EINVAL);
  }
  const auto [command, index] = *asked;
  if (command == MLX5_IB_MMAP_DEVICE_MEM) {
    const auto address = find_memory(index, length_bytes);
    return address ? device_.firmware().map_memic(*address, length_bytes, protection)
                   : std::unexpected(address.error());
  }
  if (length_bytes != kPageBytes) {
    return std::unexpected(EINVAL);
  }
  if (command == kFirstDynamicCommand) {
    if (find_if<Uar>([&](const Uar& uar) { return uar.number == index; }) != nullptr) {
      return device_.firmware().map_uar(static_cast<std::uint32_t>(index), protection);
    }
  }
  const bool is_clock = command == MLX5_IB_MMAP_CORE_CLOCK;
  if (is_clock || (command == MLX5_IB_MMAP_CLOCK_INFO && index == MLX5_IB_CLOCK_INFO_V1)) {
    if ((protection & PROT_WRITE) != 0) {
      return std::unexpected(EPERM);
    }
    return is_clock ? device_.firmware().map_clock() : device_.map_clock_info();
  }
  log(LogLevel::kInfo, fmt::format("mmap of command {} index {}: Invalid argument", command, index));
  return std::unexpected(EINVAL);
}

std::expected<std::uint64_t, int> UverbsFile::memory_to_map(std::size_t length_bytes, int protection,
                                                            std::uint64_t offset_bytes) {
  const std::lock_guard lock(device_.command_mutex());
  const auto asked = mapping_request(length_bytes, protection, offset_bytes);
  if (!asked || context_ == nullptr) {
    return std::unexpected(EINVAL);
  }
  return asked->command == MLX5_IB_MMAP_DEVICE_MEM ? find_memory(asked->index, length_bytes) : std::unexpected(EIO);
}

// Memory on the device is mapped whole.
std::expected<std::uint64_t, int> UverbsFile::find_memory(std::uint64_t page_index, std::size_t length_bytes) const {
  const Dm* const memory = find_if<Dm>(
      [&](const Dm& dm) { return dm.page_index(device_.caps()) == page_index && dm.mapped_bytes() == length_bytes; });
  return memory == nullptr ? std::expected<std::uint64_t, int>(std::unexpected(EINVAL)) : memory->first_page();
}

}  // namespace softhca::kernel
