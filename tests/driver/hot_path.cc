// Posts and polls in functions of their own, for a tool that counts the instructions spent in functions of that name:
// hot_path OPERATION ROUNDS. Prints how many operations the counted function made. No device is behind the queues; a
// round is 32 operations, and what the device would do happens between rounds.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "tests/driver/fixture.h"

namespace umlx5::testing {
namespace {

constexpr std::uint32_t kRound = 32;

std::array<std::byte, 4096> data;

struct HotPath : ConnectedQp {
  explicit HotPath(std::uint8_t compression)
      : ConnectedQp(
            {.capacity =
                 {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_bytes = 32},
             .send_operations = kAllPosted},
            {.entries = 63, .compression = compression}) {}

  // The device completes a round of WQEs of so many blocks: opcode 0 is of the send queue, 2 of the receive queue.
  void complete(std::uint8_t opcode, std::uint16_t wqebbs = 1) {
    for (std::uint32_t i = 0; i < kRound; ++i) {
      writer->write(entry(opcode, next));
      next = static_cast<std::uint16_t>(next + wqebbs);
    }
  }
  void complete_compressed() {
    std::array<CqeWriter::Own, kRound> own;
    for (CqeWriter::Own& one : own) {
      one = {.counter = next++, .send_opcode = 0x08};
    }
    writer->write_session(entry(0, own[0].counter), own);
  }
  void drain() {
    while (cq->poll(completions) != 0) {
    }
  }

  std::uint16_t next = 0;
  std::array<Completion, kRound> completions{};
};

// ---- What is counted ----

__attribute__((noinline)) std::size_t counted_posts_one_by_one(Qp& qp, const SendWr& request) {
  std::size_t posted = 0;
  for (std::uint32_t i = 0; i < kRound; ++i) {
    posted += qp.post_send({&request, 1}).posted;
  }
  return posted;
}

__attribute__((noinline)) std::size_t counted_post_list(Qp& qp, std::span<const SendWr> requests) {
  return qp.post_send(requests).posted;
}

__attribute__((noinline)) std::size_t counted_templates_one_by_one(Qp& qp, const SendTemplate& made, TemplateWr wr) {
  std::size_t posted = 0;
  for (std::uint32_t i = 0; i < kRound; ++i) {
    wr.wr_id = i;
    posted += qp.post_send(made, {&wr, 1});
  }
  return posted;
}

__attribute__((noinline)) std::size_t counted_template_list(Qp& qp, const SendTemplate& made,
                                                            std::span<const TemplateWr> requests) {
  return qp.post_send(made, requests);
}

__attribute__((noinline)) std::size_t counted_receives_one_by_one(Qp& qp, const RecvWr& request) {
  std::size_t posted = 0;
  for (std::uint32_t i = 0; i < kRound; ++i) {
    posted += qp.post_recv({&request, 1}).posted;
  }
  return posted;
}

__attribute__((noinline)) std::size_t counted_poll(Cq& cq, std::span<Completion> completions) {
  return cq.poll(completions);
}

// ---- The rounds ----

std::size_t run(std::string_view operation, HotPath& path) {
  const Sge sge{.address = reinterpret_cast<std::uint64_t>(data.data()), .length_bytes = 32, .lkey = 0x100};
  SendWr write{.wr_id = 7,
               .opcode = SendOpcode::kRdmaWrite,
               .flags = SendFlag::kSignaled,
               .sges = {&sge, 1},
               .remote_address = 0x1000,
               .rkey = 0x200};
  if (operation == "write-inline32") {
    write.flags = SendFlags(SendFlag::kSignaled) | SendFlag::kInline;
  }
  std::size_t count = 0;
  if (operation == "recv") {
    count = counted_receives_one_by_one(*path.qp, {.wr_id = 7, .sges = {&sge, 1}});
    path.complete(2);
  } else if (operation == "write-list") {
    std::array<SendWr, kRound> list;
    list.fill(write);
    count = counted_post_list(*path.qp, list);
    path.complete(0);
  } else if (operation == "template") {
    count = counted_templates_one_by_one(*path.qp, *path.qp->make_template(write), {0, sge.address, 0x1000});
    path.complete(0);
  } else if (operation == "template-list") {
    std::array<TemplateWr, kRound> list;
    list.fill({7, sge.address, 0x1000});
    count = counted_template_list(*path.qp, *path.qp->make_template(write), list);
    path.complete(0);
  } else if (operation.starts_with("poll")) {
    for (std::uint32_t i = 0; i < kRound; ++i) {
      path.qp->post_send({&write, 1});
    }
    operation == "poll" ? path.complete(0) : path.complete_compressed();
    return counted_poll(*path.cq, path.completions);
  } else {
    count = counted_posts_one_by_one(*path.qp, write);
    path.complete(0, write.flags.has(SendFlag::kInline) ? 2 : 1);  // 16 + 16 + 4 + 32 bytes are more than one block
  }
  path.drain();
  return count;
}

}  // namespace
}  // namespace umlx5::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  constexpr std::uint8_t kHashFormat = 1;
  umlx5::testing::HotPath path(std::string_view(argv[1]) == "poll-compressed" ? kHashFormat : 0);
  std::size_t count = 0;
  for (long rounds = std::atol(argv[2]); rounds > 0; --rounds) {
    count += umlx5::testing::run(argv[1], path);
  }
  fmt::print("{}\n", count);
  return 0;
}
