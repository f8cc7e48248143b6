#include "tests/driver/soft/keys.h"

#include <fmt/format.h>

namespace umlx5::testing {
namespace {

void access_key(Pair& pair, SendOpcode opcode, const Sge& local, const Mkey& remote) {
  SendWr request = pair.write(1, {&local, 1}, 0);
  request.opcode = opcode;
  request.remote_address = 0;
  request.rkey = remote.rkey();
  pair.a->post(request);
  EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
}

}  // namespace

PairOptions key_pair_options(Topology topology) {
  EndOptions end;
  end.capacity.max_inline_bytes = 512;
  return {.topology = topology, .a = end, .b = end};
}

Owned<Mkey> make_key(End& end, MkeyOptions options) {
  options.max_entries = options.max_entries != 0 ? options.max_entries : 4;
  return must(end.pd->create_mkey(options));
}

void configure(End& end, Mkey& mkey, const MkeyChange& change) {
  must(end.qp->configure_mkey(mkey, change, SendFlag::kSignaled, 99));
  const auto completions = end.wait_sends(1);
  ASSERT_EQ(text(completions), "99 ok");
  EXPECT_EQ(completions[0].opcode, CompletionOpcode::kUmr);
}

void send(Pair& pair, const Sge& from, const Sge& to) {
  pair.b->post(RecvWr{.wr_id = 2, .sges = {&to, 1}});
  pair.a->post(Pair::send(1, {&from, 1}));
  EXPECT_EQ(text(pair.a->wait_sends(1)), "1 ok");
  EXPECT_EQ(text(pair.b->wait_receives(1)), "2 ok");
}

void write_key(Pair& pair, const Sge& from, const Mkey& to) { access_key(pair, SendOpcode::kRdmaWrite, from, to); }
void read_key(Pair& pair, const Sge& to, const Mkey& from) { access_key(pair, SendOpcode::kRdmaRead, to, from); }

std::string hex(const std::byte* from, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) {
    out += fmt::format("{:02x}", std::to_integer<unsigned>(from[i]));
  }
  return out;
}

}  // namespace umlx5::testing
