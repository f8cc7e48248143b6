#include "tools/cli/exchange.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

namespace umlx5::tools {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr int kExchangeVersion = 1;
constexpr std::size_t kMaxLineBytes = 64 * 1024;
constexpr std::string_view kGone = "the other side closed the connection";

milliseconds left_until(steady_clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - steady_clock::now()));
}

// What a stranger sent, made fit for a line of text.
std::string printable(std::string_view bytes, std::size_t at_most = 40) {
  std::string text(bytes.substr(0, at_most));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '.');
  return text;
}

// 0 when `fd` is ready, ETIMEDOUT, or poll()'s errno.
int wait_for(int fd, short events, milliseconds timeout) {
  pollfd waiting{fd, events, 0};
  const auto deadline = steady_clock::now() + timeout;
  while (true) {
    const int ready = ::poll(&waiting, 1, timeout.count() < 0 ? -1 : static_cast<int>(left_until(deadline).count()));
    if (ready > 0) {
      return 0;
    }
    if (ready == 0) {
      return ETIMEDOUT;
    }
    if (errno != EINTR) {
      return errno;
    }
  }
}

// Connects one address. Errno, or 0.
int connect_one(const addrinfo& address, milliseconds timeout, uapi::FileDescriptor& socket) {
  socket.reset(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!socket) {
    return errno;
  }
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  if (const int error = wait_for(socket.get(), POLLOUT, timeout); error != 0) {
    return error;
  }
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

json to_json(const TestTerms& terms) {
  return {{"type", "hello"},          {"version", kExchangeVersion}, {"test", terms.test},     {"op", terms.op},
          {"size", terms.size_bytes}, {"iters", terms.iterations},   {"warmup", terms.warmup}, {"depth", terms.depth},
          {"mtu", terms.mtu_bytes},   {"seed", terms.seed},          {"events", terms.events}};
}

std::string show(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// A whole number of at most `most`; no value if the member is missing or something else.
std::optional<std::uint64_t> number(const json& message, const char* name, std::uint64_t most) {
  const auto it = message.find(name);
  if (it == message.end() || !it->is_number_unsigned() || it->get<std::uint64_t>() > most) {
    return std::nullopt;
  }
  return it->get<std::uint64_t>();
}

std::optional<Gid> gid_of(const json& message) {
  const auto it = message.find("gid");
  Gid gid{};
  if (it == message.end() || !it->is_string() ||
      ::inet_pton(AF_INET6, it->get_ref<const std::string&>().c_str(), gid.data()) != 1) {
    return std::nullopt;
  }
  return gid;
}

std::string text_of(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  return text;
}

}  // namespace

std::string line_of(const Error& error) { return error.errno_value == 0 ? error.what : error.message(); }

Exchange::Exchange(uapi::FileDescriptor socket) : socket_(std::move(socket)) {
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // refused by a local socket: no matter
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

Expected<Exchange> Exchange::connect(const std::string& host, std::uint16_t port, milliseconds timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    return fail(0, fmt::format("no address for the server '{}': {}", host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  const auto deadline = steady_clock::now() + timeout;
  // A server that was started together with this side may need a moment.
  const auto patience = steady_clock::now() + std::min<milliseconds>(timeout, milliseconds(1000));
  while (true) {
    int error = 0;
    for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
      uapi::FileDescriptor socket;
      const int refusal = connect_one(*address, left_until(deadline), socket);
      if (refusal == 0) {
        return Exchange(std::move(socket));
      }
      error = refusal;
    }
    if (error != ECONNREFUSED || steady_clock::now() >= patience) {
      return fail(error, fmt::format("cannot reach the server {} at TCP port {}", host, port));
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

Expected<void> Exchange::send(const json& message) {
  const std::string line = message.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t bytes = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (bytes >= 0) {
      sent += static_cast<std::size_t>(bytes);
      continue;
    }
    int error = errno;
    if (error == EAGAIN) {
      error = wait_for(socket_.get(), POLLOUT, milliseconds(5000));
    }
    if (error != 0 && error != EINTR) {
      // The other side may have said why it left.
      if (auto why = check(); !why) {
        return std::unexpected(why.error());
      }
      return fail(error, "cannot send to the other side");
    }
  }
  return {};
}

void Exchange::send_error(std::string_view text) {
  const std::string line = json{{"type", "error"}, {"text", text}}.dump(-1, ' ', true, json::error_handler_t::replace);
  (void)!::send(socket_.get(), (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Reads what there is. True if something came or the stream ended; false after the timeout.
Expected<bool> Exchange::fill(milliseconds timeout) {
  if (const int error = wait_for(socket_.get(), POLLIN, timeout); error == ETIMEDOUT) {
    return false;
  } else if (error != 0) {
    return fail(error, "cannot wait for the other side");
  }
  char bytes[4096];
  const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) {
    received_.append(bytes, static_cast<std::size_t>(count));
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    ended_ = true;
  }
  return true;
}

Expected<json> Exchange::receive(std::string_view type, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  std::size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (received_.size() > kMaxLineBytes) {
      return fail(EPROTO, fmt::format("not an umlx5 test at the other side: it sent '{}...'", printable(received_)));
    }
    if (ended_) {
      return fail(ECONNRESET, std::string(kGone));
    }
    auto filled = fill(left_until(deadline));
    if (!filled) {
      return std::unexpected(filled.error());
    }
    if (!*filled) {
      return fail(ETIMEDOUT, fmt::format("the other side did not send its '{}' within {} ms", type, timeout.count()));
    }
  }
  const std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  json message = json::parse(line, nullptr, false);
  if (!message.is_object() || !message.contains("type") || !message["type"].is_string()) {
    return fail(EPROTO, fmt::format("not an umlx5 test at the other side: it sent '{}'", printable(line)));
  }
  const std::string& got = message["type"].get_ref<const std::string&>();
  if (got == "error" && message.contains("text") && message["text"].is_string()) {
    return fail(EREMOTEIO, "the other side gave up: " + printable(message["text"].get_ref<const std::string&>(), 400));
  }
  if (got != type) {
    return fail(EPROTO, fmt::format("the other side sent '{}' where '{}' was due", printable(got), type));
  }
  return message;
}

Expected<void> Exchange::check() {
  while (!ended_ && received_.size() <= kMaxLineBytes) {
    auto filled = fill(milliseconds(0));
    if (!filled) {
      return std::unexpected(filled.error());
    }
    if (!*filled) {
      break;
    }
  }
  if (received_.find('\n') == std::string::npos) {
    return ended_ ? Expected<void>(fail(ECONNRESET, std::string(kGone))) : Expected<void>();
  }
  // A message that says anything but "error" is what receive() will take in its turn.
  const json message = json::parse(received_.substr(0, received_.find('\n')), nullptr, false);
  if (message.is_object() && message.value("type", json()) == "error") {
    return std::unexpected(receive("", milliseconds(0)).error());
  }
  return {};
}

Expected<Listener> Listener::open(std::uint16_t port) {
  Listener listener;
  listener.socket_.reset(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool have_ipv6 = static_cast<bool>(listener.socket_);
  if (!have_ipv6) {
    listener.socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  const int on = 1, off = 0;
  ::setsockopt(listener.socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(listener.socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  auto* address = have_ipv6 ? reinterpret_cast<sockaddr*>(&any6) : reinterpret_cast<sockaddr*>(&any4);
  socklen_t length = have_ipv6 ? sizeof any6 : sizeof any4;
  if (!listener.socket_ || ::bind(listener.socket_.get(), address, length) != 0 ||
      ::listen(listener.socket_.get(), 1) != 0 || ::getsockname(listener.socket_.get(), address, &length) != 0) {
    return fail(errno, fmt::format("cannot listen at TCP port {}", port));
  }
  listener.port_ = ntohs(have_ipv6 ? any6.sin6_port : any4.sin_port);
  return listener;
}

Expected<Exchange> Listener::accept(milliseconds timeout) {
  if (const int error = wait_for(socket_.get(), POLLIN, timeout); error != 0) {
    return fail(error, fmt::format("no client came to TCP port {}", port_));
  }
  uapi::FileDescriptor client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) {
    return fail(errno, fmt::format("cannot accept a client at TCP port {}", port_));
  }
  return Exchange(std::move(client));
}

Expected<void> agree(Exchange& exchange, const TestTerms& ours, milliseconds timeout) {
  const json mine = to_json(ours);
  if (auto sent = exchange.send(mine); !sent) {
    return sent;
  }
  const auto theirs = exchange.receive("hello", timeout);
  if (!theirs) {
    return std::unexpected(theirs.error());
  }
  // The version first: another version may have other terms.
  std::vector<std::string> names = {"version", "test",  "op",  "size", "iters",
                                    "warmup",  "depth", "mtu", "seed", "events"};
  for (const std::string& name : names) {
    const auto it = theirs->find(name);
    if (it == theirs->end() || *it != mine[name]) {
      return fail(0, fmt::format("the two sides differ in {}: {} here, {} at the other side", name, show(mine[name]),
                                 it == theirs->end() ? "nothing" : printable(show(*it))));
    }
  }
  return {};
}

Expected<SideAddress> swap_addresses(Exchange& exchange, const SideAddress& ours, milliseconds timeout) {
  if (auto sent = exchange.send({{"type", "address"},
                                 {"gid", text_of(ours.gid)},
                                 {"qpn", ours.qpn},
                                 {"psn", ours.psn},
                                 {"memory", ours.memory_address},
                                 {"bytes", ours.memory_bytes},
                                 {"rkey", ours.rkey},
                                 {"start", ours.start}});
      !sent) {
    return std::unexpected(sent.error());
  }
  const auto message = exchange.receive("address", timeout);
  if (!message) {
    return std::unexpected(message.error());
  }
  const auto gid = gid_of(*message);
  const auto qpn = number(*message, "qpn", 0xffffff), psn = number(*message, "psn", 0xffffff);
  const auto memory = number(*message, "memory", UINT64_MAX), bytes = number(*message, "bytes", UINT64_MAX);
  const auto rkey = number(*message, "rkey", UINT32_MAX), start = number(*message, "start", UINT64_MAX);
  if (!gid || !qpn || !psn || !memory || !bytes || !rkey || !start) {
    return fail(EPROTO, "the other side's address is not complete");
  }
  return SideAddress{.gid = *gid,
                     .qpn = static_cast<std::uint32_t>(*qpn),
                     .psn = static_cast<std::uint32_t>(*psn),
                     .memory_address = *memory,
                     .memory_bytes = *bytes,
                     .rkey = static_cast<std::uint32_t>(*rkey),
                     .start = *start};
}

Expected<std::uint64_t> meet(Exchange& exchange, std::string_view where, std::uint64_t value, milliseconds timeout) {
  if (auto sent = exchange.send({{"type", where}, {"number", value}}); !sent) {
    return std::unexpected(sent.error());
  }
  const auto message = exchange.receive(where, timeout);
  if (!message) {
    return std::unexpected(message.error());
  }
  const auto theirs = number(*message, "number", UINT64_MAX);
  if (!theirs) {
    return fail(EPROTO, fmt::format("the other side's '{}' has no number", where));
  }
  return *theirs;
}

}  // namespace umlx5::tools
