#include "tests/driver/soft/keys.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/wqe/bytes.h"

namespace umlx5::testing {
namespace {

constexpr std::byte kUntouched{0xee};

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

std::optional<SignatureMismatch> told(Pair& pair, Mkey& key) {
  constexpr std::size_t kNote = 64 * 1024;
  send(pair, pair.a->sge(kNote, 1), pair.b->sge(kNote, 1));
  return must(key.check());
}

Owned<Dek> make_dek(End& end, std::string_view keys) {
  const Bytes bytes = wqe::testing_bytes::unhex(keys);
  return must(end.pd->create_dek({.key = bytes, .size = bytes.size() == 64 ? DekSize::k256 : DekSize::k128}));
}

void put(End& end, std::size_t offset, const Bytes& bytes) { std::memcpy(end.at(offset), bytes.data(), bytes.size()); }

void clear(End& end, std::size_t offset, std::size_t bytes) {
  std::memset(end.at(offset), std::to_integer<int>(kUntouched), bytes);
}

void expect_bytes(End& end, std::size_t offset, const Bytes& bytes) {
  EXPECT_EQ(hex(end.at(offset), bytes.size()), hex(bytes.data(), bytes.size()));
  EXPECT_EQ(*end.at(offset + bytes.size()), kUntouched);
}

void expect_passage(Pair& pair, const MakeKey& key, const Passage& passage) {
  End &a = *pair.a, &b = *pair.b;
  const auto memory_bytes = static_cast<std::uint32_t>(passage.memory.size());
  const auto wire_bytes = static_cast<std::uint32_t>(passage.wire.size());
  put(a, kFrom, passage.memory);
  clear(b, kTo, wire_bytes + 1);
  const auto sender = key(a, kFrom, memory_bytes);
  const Sge from = key_sge(*sender, 0, passage.local_bytes);
  a.post(pair.write(1, {&from, 1}, kTo));
  EXPECT_EQ(text(a.wait_sends(1)), "1 ok");
  expect_bytes(b, kTo, passage.wire);
  EXPECT_FALSE(sender->has_signatures() && must(sender->check()));

  put(a, kFrom, passage.wire);
  clear(b, kTo, memory_bytes + 1);
  const auto receiver = key(b, kTo, memory_bytes);
  write_key(pair, a.sge(kFrom, wire_bytes), *receiver);
  expect_bytes(b, kTo, passage.memory);

  clear(a, kFrom, wire_bytes + 1);
  read_key(pair, a.sge(kFrom, wire_bytes), *receiver);
  expect_bytes(a, kFrom, passage.wire);
  EXPECT_FALSE(receiver->has_signatures() && told(pair, *receiver));
}

std::string hex(const std::byte* from, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) {
    out += fmt::format("{:02x}", std::to_integer<unsigned>(from[i]));
  }
  return out;
}

}  // namespace umlx5::testing
