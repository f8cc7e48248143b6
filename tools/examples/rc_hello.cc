// Two messages from one queue pair to another of the same device, by SEND and by RDMA WRITE, with every step in sight:
// open, protection domain, memory, completion queue, queue pair, connect, post, poll.
//
// It runs on a software device, so it needs no adapter. With a device's name as its argument it runs on that one.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/pd.h"
#include "driver/qp_description.h"
#include "tools/softhca/source.h"
#include "uapi/kernel_devices.h"

namespace {

using namespace umlx5;

constexpr std::uint8_t kPort = 1;
// What no device could make would not compile, and a WQE takes what these operations need.
constexpr auto kQueuePair =
    describe({.operations = SendOperation::kSend | SendOperation::kRdmaWrite, .max_send_wr = 4, .max_recv_wr = 4});
static_assert(kQueuePair.send_wqe_bytes == 64);
constexpr std::string_view kSent = "hello by send", kWritten = "hello by write";

// The memory that is registered: a slot for each end of each message.
constexpr std::size_t kSlotBytes = 64, kSendFrom = 0, kReceiveInto = 64, kWriteFrom = 128, kWriteTo = 192;

// Objects are held by Owned<T>; the last one made goes first.
struct Setup {
  std::vector<std::byte> memory = std::vector<std::byte>(4 * kSlotBytes);
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<MemoryRegion> region;
  Owned<Cq> cq;
  Owned<Qp> left, right;
};

Expected<void> open(Setup& setup, std::string_view device_name) {
  // Devices come from sources: software ones, and those of the kernel. Without a name, the first one is opened.
  softhca::SoftDeviceSource software;
  uapi::KernelDevices kernel;
  const std::array<uapi::DeviceSource*, 2> sources = {&software, &kernel};
  auto context = open_device(sources, device_name);
  if (!context) return std::unexpected(context.error());
  setup.context = std::move(*context);
  fmt::print("device: {}\n", setup.context->device().name);
  return {};
}

Expected<void> make_queues(Setup& setup) {
  auto pd = setup.context->alloc_pd();
  if (!pd) return std::unexpected(pd.error());
  setup.pd = std::move(*pd);

  auto region = setup.pd->register_memory(setup.memory, Access::kLocalWrite | Access::kRemoteWrite);
  if (!region) return std::unexpected(region.error());
  setup.region = std::move(*region);

  auto cq = setup.context->create_cq({.entries = 16});
  if (!cq) return std::unexpected(cq.error());
  setup.cq = std::move(*cq);

  for (Owned<Qp>* qp : {&setup.left, &setup.right}) {
    auto made = setup.pd->create_qp(kQueuePair.options(setup.cq.get(), setup.cq.get()));
    if (!made) return std::unexpected(made.error());
    *qp = std::move(*made);
  }
  return {};
}

// Each side tells the other its GID, its queue pair number and its first PSN, by whatever way the program has; here
// both sides are in one process.
Expected<void> connect(Setup& setup) {
  const auto gid = setup.context->query_gid(kPort, 0);
  if (!gid) return std::unexpected(gid.error());
  const QpAddress left{gid->gid, setup.left->qpn(), 100}, right{gid->gid, setup.right->qpn(), 200};
  InitAttributes init;
  init.port = kPort;
  init.remote_access = Access::kRemoteWrite;
  if (auto connected = setup.left->connect(right, left.psn, init); !connected) return connected;
  return setup.right->connect(left, right.psn, init);
}

Expected<void> post(Setup& setup) {
  std::memcpy(&setup.memory[kSendFrom], kSent.data(), kSent.size());
  std::memcpy(&setup.memory[kWriteFrom], kWritten.data(), kWritten.size());

  // SEND: the receiver says where the message goes.
  const Sge receive_into = setup.region->sge(kReceiveInto, kSlotBytes);
  const RecvWr receive{.wr_id = 1, .sges = {&receive_into, 1}};
  if (const auto posted = setup.right->post_recv({&receive, 1}); !posted) {
    return fail(posted.error, setup.right->explain_refusal(receive));
  }

  // RDMA WRITE: the writer says where it goes. Both requests take one doorbell.
  const Sge send_from = setup.region->sge(kSendFrom, kSent.size());
  const Sge write_from = setup.region->sge(kWriteFrom, kWritten.size());
  std::array<SendWr, 2> requests;
  requests[0].wr_id = 2;
  requests[0].opcode = SendOpcode::kSend;
  requests[0].flags = SendFlag::kSignaled;
  requests[0].sges = {&send_from, 1};
  requests[1].wr_id = 3;
  requests[1].opcode = SendOpcode::kRdmaWrite;
  requests[1].flags = SendFlag::kSignaled;
  requests[1].sges = {&write_from, 1};
  requests[1].remote_address = setup.region->sge(kWriteTo, 0).address;
  requests[1].rkey = setup.region->rkey();
  if (const auto posted = setup.left->post_send(requests); !posted) {
    return fail(posted.error, setup.left->explain_refusal(requests[posted.posted]));
  }
  return {};
}

// Takes one completion. relax() lends the time between two polls to the device, if that is software.
Expected<Completion> poll_one(Setup& setup) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  Completion completion;
  while (setup.cq->poll({&completion, 1}) == 0) {
    setup.context->relax();
    if (std::chrono::steady_clock::now() > deadline) return fail(ETIMEDOUT, "no completion");
  }
  if (completion.status != wqe::CompletionStatus::kSuccess) {
    return fail(EIO, describe(completion));  // says in words what failed, and what to check
  }
  return completion;
}

std::string_view text_at(const Setup& setup, std::size_t offset, std::size_t bytes) {
  return {reinterpret_cast<const char*>(&setup.memory[offset]), bytes};
}

Expected<void> hello(std::string_view device_name) {
  Setup setup;
  if (auto opened = open(setup, device_name); !opened) return opened;
  if (auto made = make_queues(setup); !made) return made;
  if (auto connected = connect(setup); !connected) return connected;
  if (auto posted = post(setup); !posted) return posted;
  for (int i = 0; i < 3; ++i) {  // one receive, two sends, in any order
    const auto completion = poll_one(setup);
    if (!completion) return std::unexpected(completion.error());
    fmt::print("completed: {}, wr_id {}\n", to_string(completion->opcode), completion->wr_id);
  }
  const auto received = text_at(setup, kReceiveInto, kSent.size()), written = text_at(setup, kWriteTo, kWritten.size());
  fmt::print("received: {}\nwritten: {}\n", received, written);
  return received == kSent && written == kWritten ? Expected<void>() : fail(EBADMSG, "other bytes came than were sent");
}

}  // namespace

int main(int argc, char** argv) {
  if (auto done = hello(argc > 1 ? argv[1] : ""); !done) {
    fmt::print(stderr, "rc_hello: {}\n", done.error().message());
    return 1;
  }
}
