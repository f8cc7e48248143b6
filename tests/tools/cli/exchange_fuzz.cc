// What a stranger may send to the TCP port.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "tools/cli/exchange.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace umlx5::tools;
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
    __builtin_trap();
  }
  Exchange exchange{umlx5::uapi::FileDescriptor(fds[0])};
  (void)!::send(fds[1], data, std::min<std::size_t>(size, 100'000), MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(fds[1], SHUT_WR);
  TestTerms terms;
  terms.test = "lat";
  terms.op = "write";
  const auto checked = exchange.check();
  const auto agreed = agree(exchange, terms, milliseconds(1000));
  const auto address = swap_addresses(exchange, SideAddress{}, milliseconds(1000));
  const auto met = meet(exchange, "done", 1, milliseconds(1000));
  // The stream ends, so that nothing may wait for more of it, and an error is always in words.
  for (const auto* error : {checked ? nullptr : &checked.error(), agreed ? nullptr : &agreed.error(),
                            address ? nullptr : &address.error(), met ? nullptr : &met.error()}) {
    if (error != nullptr && (error->errno_value == ETIMEDOUT || error->what.empty())) {
      __builtin_trap();
    }
  }
  if (address && (address->qpn > 0xffffff || address->psn > 0xffffff)) {
    __builtin_trap();
  }
  ::close(fds[1]);
  return 0;
}
