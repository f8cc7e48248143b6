// Makes one connected queue pair, sends one message, and closes everything. Linked with Debian's libraries.
#include <cstdio>
#include <cstring>

#include "tests/driver/verbs/loop.h"

int main() {
  static char memory[2][64];
  umlx5::probe::Loop loop;
  if (!loop.open() || !loop.register_memory(memory, sizeof memory)) {
    return 1;
  }
  std::memset(memory[0], 7, sizeof memory[0]);
  const bool sent = loop.send(memory[0], sizeof memory[0], memory[1]);
  std::printf("transferred: %d\n", sent && std::memcmp(memory[0], memory[1], sizeof memory[0]) == 0);
  return loop.close() ? 0 : 1;
}
