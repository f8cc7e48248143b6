#include "tools/cli/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "uapi/file_descriptor.h"

namespace umlx5::tools {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;
using uapi::FileDescriptor;

constexpr std::chrono::seconds kSilence{60}, kGrace{5};

struct Process {
  const char* name = nullptr;
  pid_t pid = -1;
  FileDescriptor reports;
  std::string received;
  std::optional<int> status;  // of waitpid()
  std::string error;
  bool echo = false;
  steady_clock::time_point heard;
  bool ended_by_us = false;

  bool good() const { return status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0; }
};

// Both ends close at exec; the child keeps its own.
Expected<std::array<FileDescriptor, 2>> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return fail(errno, "cannot make a socket between the two sides");
  }
  return std::array{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

// In the child: becomes the side. Only what may follow a fork.
[[noreturn]] void become(char* const* arguments, int exchange_fd, int report_fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(1);
  }
  ::fcntl(exchange_fd, F_SETFD, 0);
  ::fcntl(report_fd, F_SETFD, 0);
  ::execv("/proc/self/exe", arguments);
  ::_exit(127);
}

Expected<void> start(Process& process, std::vector<std::string> arguments, FileDescriptor exchange,
                     bool keep_soft_address) {
  auto reports = socket_pair();
  if (!reports) {
    return std::unexpected(reports.error());
  }
  auto& [ours, theirs] = *reports;
  arguments.insert(arguments.begin(), "umlx5");
  arguments.push_back(fmt::format("--exchange-fd={}", exchange.get()));
  arguments.push_back(fmt::format("--report-fd={}", theirs.get()));
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return fail(errno, fmt::format("cannot start the {} side", process.name));
  }
  if (pid == 0) {
    if (!keep_soft_address) {
      ::unsetenv("UMLX5_SOFT_ADDR");  // this program has one thread here
    }
    become(pointers.data(), exchange.get(), theirs.get(), parent);
  }
  process.pid = pid;
  process.reports = std::move(ours);
  process.heard = steady_clock::now();
  return {};
}

void take_line(Process& process, std::string_view line) {
  const json message = json::parse(line, nullptr, false);
  if (message.is_object() && message.contains("error") && message["error"].is_string()) {
    process.error = message["error"].get<std::string>();
    process.echo = message.value("echo", json(false)) == true;
  }
}

// Reads what the side reports. When its end is closed, takes its exit status.
void hear(Process& process) {
  char bytes[4096];
  const ssize_t count = ::read(process.reports.get(), bytes, sizeof bytes);
  if (count > 0) {
    process.heard = steady_clock::now();
    process.received.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end; (end = process.received.find('\n')) != std::string::npos;) {
      take_line(process, std::string_view(process.received).substr(0, end));
      process.received.erase(0, end + 1);
    }
  } else if (count == 0 || errno != EINTR) {
    process.reports.reset();
  }
}

void end(Process& process) {
  if (process.pid > 0 && !process.status) {
    process.ended_by_us = true;
    ::kill(process.pid, SIGKILL);
  }
}

// Takes the exit status if there is one.
void reap(Process& process) {
  int status = 0;
  if (process.pid > 0 && !process.status && ::waitpid(process.pid, &status, WNOHANG) == process.pid) {
    while (process.reports) {  // what it said before it went
      hear(process);
    }
    process.status = status;
  }
}

void watch(std::array<Process, 2>& processes, std::chrono::milliseconds timeout) {
  std::optional<steady_clock::time_point> one_ended;
  while (!processes[0].status || !processes[1].status) {
    std::array<pollfd, 2> waiting{};
    for (std::size_t i = 0; i < 2; ++i) {
      waiting[i] = {processes[i].reports.get(), POLLIN, 0};  // a negative descriptor is skipped
    }
    const bool closing = processes[0].reports.get() < 0 || processes[1].reports.get() < 0;
    ::poll(waiting.data(), waiting.size(), closing ? 5 : 200);
    const auto now = steady_clock::now();
    for (std::size_t i = 0; i < 2; ++i) {
      Process& process = processes[i];
      if (process.reports && waiting[i].revents != 0) {
        hear(process);
      }
      reap(process);
      if (process.status && !one_ended) {
        one_ended = now;
      }
      if (now - process.heard > kSilence || (one_ended && now - *one_ended > timeout + kGrace)) {
        end(process);
      }
    }
  }
}

std::string end_of(const Process& process) {
  if (process.ended_by_us) {
    return fmt::format("the {} side did not end by itself", process.name);
  }
  if (WIFSIGNALED(*process.status)) {
    return fmt::format("the {} side was ended by signal {} ({})", process.name, WTERMSIG(*process.status),
                       ::strsignal(WTERMSIG(*process.status)));
  }
  return process.error.empty()
             ? fmt::format("the {} side ended with code {}", process.name, WEXITSTATUS(*process.status))
             : process.error;
}

// What tells the cause best: a side's own failure, a side that was killed, and last what only answers the other side.
Expected<void> outcome(const std::array<Process, 2>& processes) {
  const Process* worst = nullptr;
  int worst_rank = 0;
  for (const Process& process : processes) {
    if (process.good()) {
      continue;
    }
    const bool killed = WIFSIGNALED(*process.status) && !process.ended_by_us;
    const int rank = !process.error.empty() && !process.echo ? 4 : killed ? 3 : process.ended_by_us ? 2 : 1;
    if (rank > worst_rank) {
      worst_rank = rank;
      worst = &process;
    }
  }
  return worst == nullptr ? Expected<void>() : fail(0, end_of(*worst));
}

}  // namespace

Expected<void> run_both_sides(const TestOptions& options, std::span<const std::string> arguments) {
  auto exchange = socket_pair();
  if (!exchange) {
    return std::unexpected(exchange.error());
  }
  std::array<Process, 2> processes;
  processes[0].name = "server";
  processes[1].name = "client";
  std::vector<std::string> client(arguments.begin(), arguments.end()), server = client;
  server.push_back("--server");
  auto started = start(processes[0], std::move(server), std::move((*exchange)[0]), true);
  if (started) {
    started = start(processes[1], std::move(client), std::move((*exchange)[1]), false);
  }
  if (!started) {
    if (processes[0].pid > 0) {
      end(processes[0]);
      ::waitpid(processes[0].pid, nullptr, 0);
    }
    return started;
  }
  watch(processes, options.timeout);
  return outcome(processes);
}

void Reporter::alive(std::uint64_t iterations) {
  if (fd_ >= 0) {
    const std::string line = json{{"alive", iterations}}.dump() + "\n";
    (void)!::send(fd_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Reporter::failed(std::string_view text, bool echo) {
  if (fd_ >= 0) {
    const std::string line =
        json{{"error", text}, {"echo", echo}}.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
    (void)!::send(fd_, line.data(), line.size(), MSG_NOSIGNAL);
  }
}

}  // namespace umlx5::tools
