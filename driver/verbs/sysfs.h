// Reading sysfs as the verbs' helpers do.
#pragma once

#include <span>

namespace umlx5::verbs {

// Reads `directory`/`file` into `text`, ended by a zero and without its final newline. How many characters there are,
// or -1 with errno: what open() and read() say, EOVERFLOW if it does not fit.
int read_text(const char* directory, const char* file, std::span<char> text);

}  // namespace umlx5::verbs
