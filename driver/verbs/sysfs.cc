#include "driver/verbs/sysfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "uapi/file_descriptor.h"

namespace umlx5::verbs {

int read_text(const char* directory, const char* file, std::span<char> text) {
  const std::string path = std::string(directory) + "/" + file;
  const uapi::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return -1;
  }
  if (text.empty()) {
    errno = EINVAL;
    return -1;
  }
  ssize_t count = ::read(fd.get(), text.data(), text.size());
  if (count <= 0) {
    text[0] = '\0';
    return static_cast<int>(count);
  }
  if (text[static_cast<std::size_t>(count - 1)] == '\n') {
    --count;
  } else if (static_cast<std::size_t>(count) == text.size()) {
    errno = EOVERFLOW;
    return -1;
  }
  text[static_cast<std::size_t>(count)] = '\0';
  return static_cast<int>(count);
}

}  // namespace umlx5::verbs
