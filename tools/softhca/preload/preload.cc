// LD_PRELOAD library that gives a process soft RDMA devices: the uverbs character device, its sysfs entries and its
// memory mappings, through the libc calls that a program or the stock libibverbs makes.
//
// The tree of sysfs_tree.h stands for /sys/class/infiniband*; an opened uverbs node is a descriptor of /dev/null (a
// character device, as libibverbs checks) whose ioctl, write and mmap go to a Channel of the soft HCA. Event
// descriptors are real ones and need nothing here. UMLX5_SOFT_DEVICES says how many devices there are (source.h).
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/softhca/hca/process_memory.h"
#include "tools/softhca/preload/sysfs_tree.h"
#include "tools/softhca/source.h"

#define UMLX5_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace {

using softhca::preload::SysfsTree;
using umlx5::uapi::Channel;

constexpr int kNetlinkRdma = 20;
constexpr std::size_t kTrackedDescriptors = 65536;

// The next definition of a libc function, looked up once.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define UMLX5_NEXT(function) static auto* const real = next<decltype(::function)>(#function)

// 0, or -1 with errno set, which success leaves alone.
int posix_result(int error) {
  if (error == 0) {
    return 0;
  }
  errno = error;
  return -1;
}

// All of the process's soft devices. Made at the first look at a path of theirs and never destroyed, since other exit
// handlers may still close devices; only the tree on disk goes at exit.
class Shim {
 public:
  // Null while the shim is being made (its own calls pass through) and in a process where making it failed.
  static Shim* get() {
    static thread_local bool making = false;
    if (making) {
      return nullptr;
    }
    making = true;
    static Shim* const shim = make();
    making = false;
    return shim;
  }

  std::optional<std::size_t> device_number(const char* path) {
    const std::lock_guard lock(tree_mutex_);
    return tree().device_number(path);
  }

  std::optional<std::string> redirect(const char* path) {
    const std::lock_guard lock(tree_mutex_);
    tree().refresh(path, *source_);
    return tree().redirect(path);
  }

  int open_node(std::size_t number, int flags) {
    auto devices = source_->list();
    if (!devices || number >= devices->size()) {
      errno = ENODEV;
      return -1;
    }
    auto channel = source_->open((*devices)[number]);
    if (!channel) {
      fmt::print(stderr, "umlx5: {}\n", channel.error().message());
      errno = channel.error().errno_value;
      return -1;
    }
    UMLX5_NEXT(open);
    const int fd = real("/dev/null", flags & (O_ACCMODE | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0) {
      return -1;
    }
    if (static_cast<std::size_t>(fd) >= kTrackedDescriptors) {
      close(fd);
      errno = EMFILE;
      return -1;
    }
    const std::lock_guard lock(mutex_);
    files_[fd] = std::move(*channel);
    ours_[fd].store(true, std::memory_order_release);
    return fd;
  }

  void lock() {
    tree_mutex_.lock();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    tree_mutex_.unlock();
  }

  // Why get() is null, if making it failed.
  static int error() { return error_.load(); }

  static bool is_ours(int fd) {
    return fd >= 0 && static_cast<std::size_t>(fd) < kTrackedDescriptors && ours_[fd].load(std::memory_order_acquire);
  }

  std::shared_ptr<Channel> file(int fd) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : found->second;
  }

  // A second descriptor of an opened node.
  void add(int fd, std::shared_ptr<Channel> channel) {
    if (fd < 0 || static_cast<std::size_t>(fd) >= kTrackedDescriptors) {
      return;  // it stays one of /dev/null
    }
    const std::lock_guard lock(mutex_);
    files_[fd] = std::move(channel);
    ours_[fd].store(true, std::memory_order_release);
  }

  void forget(int fd) {
    std::shared_ptr<Channel> last;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(fd); found != files_.end()) {
      last = std::move(found->second);
      files_.erase(found);
      ours_[fd].store(false, std::memory_order_release);
    }
  }

 private:
  Shim(std::unique_ptr<softhca::SoftDeviceSource> source, SysfsTree tree)
      : source_(std::move(source)), tree_(std::move(tree)) {}

  static Shim* make() {
    const auto none = [](const umlx5::Error& error) {
      fmt::print(stderr, "umlx5: no soft devices: {}\n", error.message());
      error_.store(error.errno_value);
      return nullptr;
    };
    const auto count = softhca::device_count_from_environment();
    if (!count) {
      return none(count.error());
    }
    auto source = std::make_unique<softhca::SoftDeviceSource>(*count);
    auto tree = SysfsTree::create(*source);
    if (!tree) {
      return none(tree.error());
    }
    auto* shim = new Shim(std::move(source), std::move(*tree));
    std::atexit([] { get()->tree_.remove(); });
    // No thread that a child does not have holds a lock of its. (Not for read-write locks, which a child cannot
    // unlock.)
    ::pthread_atfork([] { get()->lock(); }, [] { get()->unlock(); }, [] { get()->unlock(); });
    return shim;
  }

  // A forked child has devices of its own, and so a tree of its own.
  const SysfsTree& tree() {
    if (!tree_.is_own_process()) {
      if (auto own = SysfsTree::create(*source_)) {
        tree_ = std::move(*own);
      } else {
        fmt::print(stderr, "umlx5: {}; the devices' entries are the parent's\n", own.error().message());
      }
    }
    return tree_;
  }

  std::unique_ptr<softhca::SoftDeviceSource> source_;
  std::mutex tree_mutex_;
  SysfsTree tree_;
  std::mutex mutex_;
  std::unordered_map<int, std::shared_ptr<Channel>> files_;
  static inline std::array<std::atomic<bool>, kTrackedDescriptors> ours_{};
  static inline std::atomic<int> error_{0};
};

bool may_be_device_path(const char* path) {
  const std::string_view text = path == nullptr ? "" : path;
  return text.starts_with("/sys/class/infiniband") || text.starts_with("/dev/infiniband");
}

// The path to use in place of `path`; `storage` keeps it.
const char* redirected(const char* path, std::string& storage) {
  if (!may_be_device_path(path)) {
    return path;
  }
  Shim* shim = Shim::get();
  if (shim == nullptr) {
    return path;
  }
  if (auto other = shim->redirect(path)) {
    storage = std::move(*other);
    return storage.c_str();
  }
  return path;
}

// The descriptor of a uverbs node, or -2 if the path is none.
int open_if_node(const char* path, int flags) {
  if (!may_be_device_path(path)) {
    return -2;
  }
  Shim* shim = Shim::get();
  const auto number = shim == nullptr ? std::nullopt : shim->device_number(path);
  return number ? shim->open_node(*number, flags) : -2;
}

mode_t mode_argument(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// Tells a libibverbs of this project that the devices are here already: 0, or the errno of why there are none.
UMLX5_INTERPOSED int umlx5_preload_error() {
  Shim::get();
  return Shim::error();
}

#define UMLX5_OPEN(function)                                           \
  UMLX5_INTERPOSED int function(const char* path, int flags, ...) {    \
    va_list arguments;                                                 \
    va_start(arguments, flags);                                        \
    const mode_t mode = mode_argument(flags, arguments);               \
    va_end(arguments);                                                 \
    if (const int fd = open_if_node(path, flags); fd != -2) return fd; \
    UMLX5_NEXT(function);                                              \
    std::string storage;                                               \
    return real(redirected(path, storage), flags, mode);               \
  }
UMLX5_OPEN(open)
UMLX5_OPEN(open64)

#define UMLX5_OPENAT(function)                                                     \
  UMLX5_INTERPOSED int function(int directory, const char* path, int flags, ...) { \
    va_list arguments;                                                             \
    va_start(arguments, flags);                                                    \
    const mode_t mode = mode_argument(flags, arguments);                           \
    va_end(arguments);                                                             \
    if (const int fd = open_if_node(path, flags); fd != -2) return fd;             \
    UMLX5_NEXT(function);                                                          \
    std::string storage;                                                           \
    return real(directory, redirected(path, storage), flags, mode);                \
  }
UMLX5_OPENAT(openat)
UMLX5_OPENAT(openat64)

// The names that _FORTIFY_SOURCE gives the same calls.
UMLX5_INTERPOSED int __open_2(const char* path, int flags) { return open(path, flags); }
UMLX5_INTERPOSED int __open64_2(const char* path, int flags) { return open64(path, flags); }
UMLX5_INTERPOSED int __openat_2(int directory, const char* path, int flags) { return openat(directory, path, flags); }
UMLX5_INTERPOSED int __openat64_2(int directory, const char* path, int flags) {
  return openat64(directory, path, flags);
}

// Calls that differ from libc's only in the path they look at.
#define UMLX5_WITH_PATH(result, function, parameters, ...) \
  UMLX5_INTERPOSED result function parameters {            \
    UMLX5_NEXT(function);                                  \
    std::string storage;                                   \
    return real(__VA_ARGS__);                              \
  }
#define UMLX5_PATH redirected(path, storage)
UMLX5_WITH_PATH(FILE*, fopen, (const char* path, const char* mode), UMLX5_PATH, mode)
UMLX5_WITH_PATH(FILE*, fopen64, (const char* path, const char* mode), UMLX5_PATH, mode)
UMLX5_WITH_PATH(DIR*, opendir, (const char* path), UMLX5_PATH)
UMLX5_WITH_PATH(int, access, (const char* path, int mode), UMLX5_PATH, mode)
UMLX5_WITH_PATH(int, faccessat, (int directory, const char* path, int mode, int flags), directory, UMLX5_PATH, mode,
                flags)
UMLX5_WITH_PATH(int, stat, (const char* path, struct stat* out), UMLX5_PATH, out)
UMLX5_WITH_PATH(int, stat64, (const char* path, struct stat64* out), UMLX5_PATH, out)
UMLX5_WITH_PATH(int, lstat, (const char* path, struct stat* out), UMLX5_PATH, out)
UMLX5_WITH_PATH(int, lstat64, (const char* path, struct stat64* out), UMLX5_PATH, out)
UMLX5_WITH_PATH(int, fstatat, (int directory, const char* path, struct stat* out, int flags), directory, UMLX5_PATH,
                out, flags)
UMLX5_WITH_PATH(int, fstatat64, (int directory, const char* path, struct stat64* out, int flags), directory, UMLX5_PATH,
                out, flags)
UMLX5_WITH_PATH(ssize_t, readlink, (const char* path, char* out, size_t bytes), UMLX5_PATH, out, bytes)
UMLX5_WITH_PATH(ssize_t, readlinkat, (int directory, const char* path, char* out, size_t bytes), directory, UMLX5_PATH,
                out, bytes)
UMLX5_WITH_PATH(char*, realpath, (const char* path, char* out), UMLX5_PATH, out)
UMLX5_WITH_PATH(int, scandir,
                (const char* path, struct dirent*** list, int (*filter)(const struct dirent*),
                 int (*compare)(const struct dirent**, const struct dirent**)),
                UMLX5_PATH, list, filter, compare)

// And what _FORTIFY_SOURCE makes of those with a buffer.
UMLX5_INTERPOSED ssize_t __readlink_chk(const char* path, char* out, size_t bytes, size_t) {
  return readlink(path, out, bytes);
}
UMLX5_INTERPOSED ssize_t __readlinkat_chk(int directory, const char* path, char* out, size_t bytes, size_t) {
  return readlinkat(directory, path, out, bytes);
}
UMLX5_INTERPOSED char* __realpath_chk(const char* path, char* out, size_t) { return realpath(path, out); }

UMLX5_INTERPOSED int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (Shim::is_ours(fd)) {
    const auto file = Shim::get()->file(fd);
    if (file != nullptr && request == RDMA_VERBS_IOCTL) {
      return posix_result(file->ioctl(*static_cast<ib_uverbs_ioctl_hdr*>(argument)));
    }
    errno = ENOTTY;
    return -1;
  }
  UMLX5_NEXT(ioctl);
  return real(fd, request, argument);
}

UMLX5_INTERPOSED ssize_t write(int fd, const void* data, size_t bytes) {
  if (Shim::is_ours(fd)) {
    const auto file = Shim::get()->file(fd);
    const int error = file == nullptr ? EBADF : file->write({static_cast<const std::byte*>(data), bytes});
    return error == 0 ? static_cast<ssize_t>(bytes) : posix_result(error);
  }
  UMLX5_NEXT(write);
  return real(fd, data, bytes);
}

#define UMLX5_MMAP(function, Offset)                                                                                \
  UMLX5_INTERPOSED void* function(void* address, size_t length, int protection, int flags, int fd, Offset offset) { \
    if (Shim::is_ours(fd)) {                                                                                        \
      const auto file = Shim::get()->file(fd);                                                                      \
      if (file != nullptr && address == nullptr) {                                                                  \
        const auto mapped = file->mmap(length, protection, static_cast<std::uint64_t>(offset));                     \
        if (mapped) return *mapped;                                                                                 \
        errno = mapped.error();                                                                                     \
        return MAP_FAILED;                                                                                          \
      }                                                                                                             \
      errno = EINVAL;                                                                                               \
      return MAP_FAILED;                                                                                            \
    }                                                                                                               \
    UMLX5_NEXT(function);                                                                                           \
    return real(address, length, protection, flags, fd, offset);                                                    \
  }
UMLX5_MMAP(mmap, off_t)
UMLX5_MMAP(mmap64, off64_t)

UMLX5_INTERPOSED int close(int fd) {
  if (Shim::is_ours(fd)) {
    Shim::get()->forget(fd);
  }
  UMLX5_NEXT(close);
  return real(fd);
}

UMLX5_INTERPOSED int dup(int fd) {
  UMLX5_NEXT(dup);
  const int copy = real(fd);
  if (Shim::is_ours(fd) && copy >= 0) {
    Shim::get()->add(copy, Shim::get()->file(fd));
  }
  return copy;
}

// dup2() and dup3() close the descriptor that they replace.
#define UMLX5_DUP_TO(function, parameters, ...)        \
  UMLX5_INTERPOSED int function parameters {           \
    UMLX5_NEXT(function);                              \
    const int copy = real(__VA_ARGS__);                \
    if (copy >= 0 && copy != fd) {                     \
      if (Shim::is_ours(copy)) {                       \
        Shim::get()->forget(copy);                     \
      }                                                \
      if (Shim::is_ours(fd)) {                         \
        Shim::get()->add(copy, Shim::get()->file(fd)); \
      }                                                \
    }                                                  \
    return copy;                                       \
  }
UMLX5_DUP_TO(dup2, (int fd, int copy_fd), fd, copy_fd)
UMLX5_DUP_TO(dup3, (int fd, int copy_fd, int flags), fd, copy_fd, flags)

#define UMLX5_FCNTL(function)                                                                     \
  UMLX5_INTERPOSED int function(int fd, int command, ...) {                                       \
    va_list arguments;                                                                            \
    va_start(arguments, command);                                                                 \
    void* argument = va_arg(arguments, void*);                                                    \
    va_end(arguments);                                                                            \
    UMLX5_NEXT(function);                                                                         \
    const int result = real(fd, command, argument);                                               \
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0 && Shim::is_ours(fd)) { \
      Shim::get()->add(result, Shim::get()->file(fd));                                            \
    }                                                                                             \
    return result;                                                                                \
  }
UMLX5_FCNTL(fcntl)
UMLX5_FCNTL(fcntl64)

// libibverbs asks RDMA netlink for devices first and would find this machine's own; without netlink it reads sysfs.
UMLX5_INTERPOSED int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK && protocol == kNetlinkRdma) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  UMLX5_NEXT(socket);
  return real(domain, type, protocol);
}

// The device's handlers of memory faults stay in front of the program's.
UMLX5_INTERPOSED int sigaction(int signal_number, const struct sigaction* action, struct sigaction* old) noexcept {
  UMLX5_NEXT(sigaction);
  if ((signal_number == SIGSEGV || signal_number == SIGBUS) &&
      softhca::hca::program_sigaction(signal_number, action, old)) {
    return 0;
  }
  return real(signal_number, action, old);
}

UMLX5_INTERPOSED sighandler_t signal(int signal_number, sighandler_t handler) noexcept {
  UMLX5_NEXT(signal);
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  if ((signal_number == SIGSEGV || signal_number == SIGBUS) &&
      softhca::hca::program_sigaction(signal_number, &action, &old)) {
    return old.sa_handler;
  }
  return real(signal_number, handler);
}
