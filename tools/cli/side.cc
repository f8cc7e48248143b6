#include "tools/cli/side.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

namespace umlx5::tools {
namespace {

// Moves an Expected's value into `into`.
template <typename T, typename Into>
Expected<void> keep(Expected<T> made, Into& into) {
  if (!made) {
    return std::unexpected(std::move(made.error()));
  }
  into = std::move(*made);
  return {};
}

bool is_ipv4_mapped(const Gid& gid) {
  static constexpr Gid kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kPrefix.begin(), kPrefix.begin() + 12, gid.begin());
}

// The GID asked for, or the first RoCE v2 one of an IPv4 address, or any RoCE v2 one.
Expected<GidEntry> choose_gid(Context& context, std::uint8_t port, const PortAttributes& attributes,
                              std::optional<std::uint8_t> index) {
  if (index) {
    return context.query_gid(port, *index);
  }
  std::optional<GidEntry> found;
  for (std::uint32_t i = 0; i < std::min(attributes.gid_table_length, 256u); ++i) {
    const auto entry = context.query_gid(port, i);
    if (!entry || entry->type != GidType::kRoceV2 || entry->gid == Gid{}) {
      continue;  // an entry that is not in use
    }
    if (is_ipv4_mapped(entry->gid)) {
      return entry;
    }
    found = found ? found : std::optional(*entry);
  }
  if (!found) {
    return fail(0, fmt::format("port {} of {} has no RoCE v2 GID", port, context.device().name));
  }
  return *found;
}

Expected<void> set_up_port(Side& side, const TestOptions& options) {
  const auto attributes = side.context->query_port(options.device_port);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  constexpr std::uint8_t kActive = 4;  // IBV_PORT_ACTIVE
  if (attributes->state != kActive) {
    return fail(0, fmt::format("port {} of {} is not active", options.device_port, side.device.name));
  }
  side.port = options.device_port;
  side.mtu = options.mtu.value_or(attributes->active_mtu);
  if (side.mtu > attributes->active_mtu) {
    return fail(0, fmt::format("--mtu {} is more than the {} bytes of port {} of {}", bytes_of(side.mtu),
                               bytes_of(attributes->active_mtu), options.device_port, side.device.name));
  }
  return keep(choose_gid(*side.context, side.port, *attributes, options.gid_index), side.gid);
}

AccessFlags remote_access(const Context& context) {
  const AccessFlags access = Access::kRemoteWrite | Access::kRemoteRead;
  return context.attributes().atomics ? access | Access::kRemoteAtomic : access;
}

Expected<void> make_objects(Side& side, const TestOptions& options, const SideNeeds& needs) {
  Context& context = *side.context;
  if (auto made = keep(context.alloc_pd(), side.pd); !made) {
    return made;
  }
  if (needs.send_events || needs.recv_events) {
    if (auto made = keep(context.create_completion_channel(), side.channel); !made) {
      return made;
    }
  }
  const auto cq = [&](std::uint32_t entries, bool events) {
    return context.create_cq({.entries = entries, .channel = events ? side.channel.get() : nullptr});
  };
  if (auto made = keep(cq(needs.send_wr, needs.send_events), side.send_cq); !made) {
    return made;
  }
  if (auto made = keep(cq(needs.recv_wr, needs.recv_events), side.recv_cq); !made) {
    return made;
  }
  if (auto made = keep(Pages::map(needs.memory_bytes), side.memory); !made) {
    return made;
  }
  if (auto made = keep(side.pd->register_memory(side.memory.bytes(), remote_access(context) | Access::kLocalWrite),
                       side.region);
      !made) {
    return made;
  }
  QpOptions qp;
  qp.send_cq = side.send_cq.get();
  qp.recv_cq = side.recv_cq.get();
  qp.capacity = {.max_send_wr = needs.send_wr,
                 .max_recv_wr = needs.recv_wr,
                 .max_send_sge = 1,
                 .max_recv_sge = 1,
                 .max_inline_bytes = options.send_inline ? options.size_bytes : 0};
  return keep(side.pd->create_qp(qp), side.qp);
}

}  // namespace

void Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

Expected<Pages> Pages::map(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(errno, fmt::format("no {} bytes of memory for the messages", bytes));
  }
  Pages pages;
  pages.memory_ = {static_cast<std::byte*>(memory), Unmap{bytes}};
  return pages;
}

Expected<Side> Side::open(const FoundDevice& found, const TestOptions& options, const SideNeeds& needs) {
  auto channel = found.source->open(found.info);
  if (!channel) {
    return std::unexpected(std::move(channel.error()));
  }
  Side side;
  side.device = found.info;
  if (auto made = keep(Context::open(found.info, std::move(*channel)), side.context); !made) {
    return std::unexpected(std::move(made.error()));
  }
  if (options.op == Op::kAtomic && !side.context->attributes().atomics) {
    return fail(0, fmt::format("{} has no atomic operations", found.info.name));
  }
  if (auto made = set_up_port(side, options); !made) {
    return std::unexpected(std::move(made.error()));
  }
  if (auto made = make_objects(side, options, needs); !made) {
    return std::unexpected(std::move(made.error()));
  }
  side.psn = std::random_device()() & 0xffffff;
  return side;
}

SideAddress Side::address() const {
  return {.gid = gid.gid,
          .qpn = qp->qpn(),
          .psn = psn,
          .memory_address = reinterpret_cast<std::uint64_t>(region->address()),
          .memory_bytes = region->length_bytes(),
          .rkey = region->rkey()};
}

Expected<void> Side::connect(const SideAddress& peer) {
  const std::uint32_t reads = std::min<std::uint32_t>(context->attributes().max_qp_rd_atom, 16);
  InitAttributes init;
  init.port = port;
  init.remote_access = remote_access(*context);
  ReadyToReceiveAttributes receive;
  receive.path_mtu = mtu;
  receive.max_target_reads_atomics = static_cast<std::uint8_t>(reads);
  receive.remote.local_gid_index = static_cast<std::uint8_t>(gid.index);
  receive.remote.port = port;
  ReadyToSendAttributes send;
  send.max_initiated_reads_atomics = static_cast<std::uint8_t>(reads);
  return qp->connect({.gid = peer.gid, .qpn = peer.qpn, .psn = peer.psn}, psn, init, receive, send);
}

Expected<void> Side::post(const SendWr& request) {
  if (const PostResult result = qp->post_send({&request, 1}); !result) {
    return fail(result.error, "the send queue refused a request: " + qp->explain_refusal(request));
  }
  return {};
}

Expected<void> Side::post(const RecvWr& request) {
  if (const PostResult result = qp->post_recv({&request, 1}); !result) {
    return fail(result.error, "the receive queue refused a request: " + qp->explain_refusal(request));
  }
  return {};
}

}  // namespace umlx5::tools
