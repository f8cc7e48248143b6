// What the programs that show results share: probe_test.py runs them with Debian's libraries and with ours.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>

namespace umlx5::probe {

inline void title(const char* text) { std::printf("\n== %s\n", text); }

// An int function's result, and errno where that is how it tells why it failed.
template <typename Call>
int line(const std::string& name, Call call) {
  errno = 0;
  const auto result = call();
  const int error = errno;
  std::printf("%s: %ld, errno %d\n", name.c_str(), static_cast<long>(result), result == -1 ? error : 0);
  return static_cast<int>(result);
}

// A pointer function's result.
template <typename Call>
auto made(const std::string& name, Call call) {
  errno = 0;
  auto* object = call();
  const int error = errno;
  if (object == nullptr) {
    std::printf("%s: null, errno %d\n", name.c_str(), error);
  } else {
    std::printf("%s: made\n", name.c_str());
  }
  return object;
}

inline void bytes(const char* name, const void* data, std::size_t count) {
  std::printf("%s:", name);
  for (std::size_t i = 0; i < count; ++i) {
    std::printf(" %02x", static_cast<const unsigned char*>(data)[i]);
  }
  std::printf("\n");
}

}  // namespace umlx5::probe
