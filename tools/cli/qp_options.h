// The command line of `umlx5 qp`: the attributes of a queue pair.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driver/qp.h"

namespace CLI {
class App;
}

namespace umlx5::tools {

// Names are those that the help lists.
struct QpCommandOptions {
  std::string device;  // empty: choose
  bool json = false;
  std::string type = "rc";
  std::uint32_t send_wr = 1, send_sge = 1, inline_bytes = 0, tso_header_bytes = 0;
  std::optional<std::uint32_t> recv_wr,
      recv_sge;  // not given: 1, and 0 for the ends of DC, which have no receive queue
  bool srq = false, signal_all = false, wqe_signature = false;
  std::vector<std::string> operations;  // none: all of the type
  std::vector<std::string> flags;
  std::optional<unsigned> log_streams, log_errored_streams;  // of a DCI
};

QpOptions attributes_of(const QpCommandOptions& options);  // but for queues and the like

// Bits of SendOperation, as the options name them.
std::string operation_names(std::uint64_t operations);

void add_qp_options(CLI::App& app, QpCommandOptions& options);

}  // namespace umlx5::tools
