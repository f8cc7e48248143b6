// One side of a test: an open device with all that a connected queue pair needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "tools/cli/devices.h"
#include "tools/cli/exchange.h"
#include "tools/cli/options.h"

namespace umlx5::tools {

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

// Zeroed pages of this process.
class Pages {
 public:
  static Expected<Pages> map(std::size_t bytes);
  std::span<std::byte> bytes() const { return {memory_.get(), memory_.get_deleter().bytes}; }

 private:
  std::unique_ptr<std::byte, Unmap> memory_;
};

struct SideNeeds {
  std::size_t memory_bytes = 0;
  std::uint32_t send_wr = 1, recv_wr = 1;
  bool send_events = false, recv_events = false;  // which CQ is to have the completion channel
};

// Not thread-safe. Members are destroyed from the last to the first.
struct Side {
  uapi::DeviceInfo device;
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<CompletionChannel> channel;
  Owned<Cq> send_cq, recv_cq;
  Pages memory;
  Owned<MemoryRegion> region;
  Owned<Qp> qp;
  Mtu mtu = Mtu::k1024;
  std::uint8_t port = 1;
  GidEntry gid;
  std::uint32_t psn = 0;

  // Opens `found` and makes everything; the QP is still in RESET. Errors: what the driver says, or 0 with a text if the
  // port is down, has no fitting GID, or takes no such MTU.
  static Expected<Side> open(const FoundDevice& found, const TestOptions& options, const SideNeeds& needs);

  SideAddress address() const;
  Expected<void> connect(const SideAddress& peer);

  // Posts one request; the error says why it was refused.
  Expected<void> post(const SendWr& request);
  Expected<void> post(const RecvWr& request);
};

}  // namespace umlx5::tools
