// Runs another program in a test and returns what it printed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace softhca::wire {

struct Output {
  int status = -1;   // of the shell: 0 if the program succeeded
  std::string text;  // standard output and standard error together
};

inline Output run(const std::string& command) {
  Output result;
  FILE* const pipe = popen(("{ " + command + " ; } 2>&1").c_str(), "re");
  if (pipe == nullptr) {
    return result;
  }
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
    result.text.append(buffer, count);
  }
  result.status = pclose(pipe);
  return result;
}

}  // namespace softhca::wire
