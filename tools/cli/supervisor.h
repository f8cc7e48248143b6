// Starts both sides of a test as processes of this program, and watches them.
//
// Each side has a socket to the other (instead of TCP) and a socket to report to the supervisor: lines of JSON, either
// {"alive": iterations} several times a second, or {"error": text, "echo": bool} before it ends with a failure. `echo`
// says that the failure only answers one of the other side.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/cli/options.h"
#include "uapi/error.h"

namespace umlx5::tools {

// `arguments` are the program's, without its name and without roles. Both processes are gone when it returns: a side
// whose other side has ended gets the test's timeout and 5 s more, one that does not report for 60 s is ended. A
// failure's text is that of the side that failed first, or says which signal ended which side. If UMLX5_SOFT_ADDR is
// set, the server's device takes it and the client's takes any address.
Expected<void> run_both_sides(const TestOptions& options, std::span<const std::string> arguments);

// A side's end of the reports. Does nothing if `fd` is -1.
class Reporter {
 public:
  explicit Reporter(int fd) : fd_(fd) {}
  void alive(std::uint64_t iterations);
  void failed(std::string_view text, bool echo);

 private:
  int fd_;
};

}  // namespace umlx5::tools
