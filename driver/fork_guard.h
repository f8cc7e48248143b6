// How memory that the device reads and writes is kept out of forked children: where the kernel does not copy such pages
// for the child, the first write of the parent after fork() would move them away from the device.
#pragma once

#include <cstddef>

namespace umlx5 {

// Each takes whole pages; 0, or -1 with errno. let_in() is called before the memory is given back.
struct ForkGuard {
  int (*keep_out)(void* memory, std::size_t bytes);
  int (*let_in)(void* memory, std::size_t bytes);
};

// Children have none of it, whatever the kernel does.
extern const ForkGuard kKeepOutAlways;

}  // namespace umlx5
