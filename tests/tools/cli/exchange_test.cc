#include "tools/cli/exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace umlx5::tools {
namespace {

constexpr milliseconds kSoon(100), kLong(5000);

struct Pair {
  Pair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    left.emplace(uapi::FileDescriptor(fds[0]));
    right_fd = fds[1];
  }
  ~Pair() { hang_up(); }
  void raw(const std::string& bytes) {
    ASSERT_EQ(::write(right_fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() {
    if (right_fd >= 0) {
      ::close(std::exchange(right_fd, -1));
    }
  }
  Exchange right() { return Exchange(uapi::FileDescriptor(std::exchange(right_fd, -1))); }

  std::optional<Exchange> left;
  int right_fd = -1;
};

TestTerms terms() {
  return {.test = "lat",
          .op = "write",
          .size_bytes = 8,
          .iterations = 100,
          .warmup = 10,
          .depth = 1,
          .mtu_bytes = 1024,
          .seed = 1,
          .events = false};
}

TEST(Exchange, AMessageComesAcross) {
  Pair pair;
  Exchange right = pair.right();
  ASSERT_TRUE(right.send({{"type", "x"}, {"n", UINT64_MAX}}));
  const auto message = pair.left->receive("x", kLong);
  ASSERT_TRUE(message);
  EXPECT_EQ((*message)["n"].get<std::uint64_t>(), UINT64_MAX);
}

TEST(Exchange, AMessageInPiecesIsPutTogether) {
  Pair pair;
  pair.raw("{\"type\":");
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(30));
    pair.raw("\"x\"}\n{\"type\":\"y\"}\n");
  });
  EXPECT_TRUE(pair.left->receive("x", kLong));
  EXPECT_TRUE(pair.left->receive("y", kLong));
  later.join();
}

TEST(Exchange, SilenceIsATimeout) {
  Pair pair;
  const auto message = pair.left->receive("x", kSoon);
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().errno_value, ETIMEDOUT);
  EXPECT_TRUE(pair.left->check());
}

TEST(Exchange, AGonePeerIsSeen) {
  Pair pair;
  pair.hang_up();
  const auto checked = pair.left->check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().errno_value, ECONNRESET);
  const auto message = pair.left->receive("x", kLong);
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().errno_value, ECONNRESET);
  EXPECT_FALSE(pair.left->send({{"type", "x"}}));
}

TEST(Exchange, WhatCameBeforeThePeerWentIsNotLost) {
  Pair pair;
  pair.raw("{\"type\":\"done\"}\n");
  pair.hang_up();
  EXPECT_TRUE(pair.left->check());
  EXPECT_TRUE(pair.left->receive("done", kLong));
  EXPECT_FALSE(pair.left->check());
}

TEST(Exchange, ThePeersReasonIsPassedOn) {
  for (const bool by_check : {false, true}) {
    Pair pair;
    Exchange right = pair.right();
    right.send_error("no memory");
    const auto error = by_check ? pair.left->check().error() : pair.left->receive("x", kLong).error();
    EXPECT_EQ(error.errno_value, EREMOTEIO);
    EXPECT_EQ(error.what, "the other side gave up: no memory");
  }
}

TEST(Exchange, ThePeersReasonDoesNotReachTheTerminalRaw) {
  Pair pair;
  pair.raw("{\"type\":\"error\",\"text\":\"\\u001b[31mboo\\n\\u0000x\"}\n");
  EXPECT_EQ(pair.left->receive("x", kLong).error().what, "the other side gave up: .[31mboo..x");
}

TEST(Exchange, GarbageIsNamed) {
  for (const std::string garbage : {"GET / HTTP/1.1\r\n", "[1]\n", "{\"type\":3}\n", "\xff\xfe\n", "\n"}) {
    Pair pair;
    pair.raw(garbage);
    const auto message = pair.left->receive("hello", kLong);
    ASSERT_FALSE(message) << garbage;
    EXPECT_EQ(message.error().errno_value, EPROTO) << garbage;
    EXPECT_NE(message.error().what.find("not an umlx5 test"), std::string::npos) << message.error().what;
  }
}

TEST(Exchange, AnEndlessLineIsRefused) {
  Pair pair;
  const std::string part(32 * 1024, 'x');
  auto received = std::async(std::launch::async, [&] { return pair.left->receive("hello", kLong); });
  for (int i = 0; i < 3; ++i) {
    pair.raw(part);
  }
  const auto message = received.get();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().errno_value, EPROTO);
}

TEST(Exchange, AMessageOutOfTurnIsNamed) {
  Pair pair;
  pair.raw("{\"type\":\"address\"}\n");
  const auto message = pair.left->receive("hello", kLong);
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().what, "the other side sent 'address' where 'hello' was due");
}

TEST(Agree, SameTerms) {
  Pair pair;
  Exchange right = pair.right();
  auto other = std::async(std::launch::async, [&] { return agree(right, terms(), kLong); });
  EXPECT_TRUE(agree(*pair.left, terms(), kLong));
  EXPECT_TRUE(other.get());
}

TEST(Agree, BothSidesNameTheDifference) {
  Pair pair;
  Exchange right = pair.right();
  TestTerms bigger = terms();
  bigger.size_bytes = 64;
  auto other = std::async(std::launch::async, [&] { return agree(right, bigger, kLong); });
  const auto here = agree(*pair.left, terms(), kLong), there = other.get();
  ASSERT_FALSE(here);
  EXPECT_EQ(here.error().what, "the two sides differ in size: 8 here, 64 at the other side");
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().what, "the two sides differ in size: 64 here, 8 at the other side");
}

TEST(Agree, AnotherVersionIsNamedFirst) {
  Pair pair;
  pair.raw("{\"type\":\"hello\",\"version\":99}\n");
  const auto agreed = agree(*pair.left, terms(), kLong);
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().what, "the two sides differ in version: 1 here, 99 at the other side");
}

TEST(SwapAddresses, EveryFieldComesAcross) {
  Pair pair;
  Exchange right = pair.right();
  SideAddress ours{.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 2},
                   .qpn = 0xabcdef,
                   .psn = 1,
                   .memory_address = UINT64_MAX,
                   .memory_bytes = 4096,
                   .rkey = UINT32_MAX,
                   .start = 5};
  auto other = std::async(std::launch::async, [&] { return swap_addresses(right, ours, kLong); });
  ASSERT_TRUE(swap_addresses(*pair.left, SideAddress{}, kLong));
  Pair back;
  Exchange back_right = back.right();
  auto sender = std::async(std::launch::async, [&] { return swap_addresses(back_right, ours, kLong); });
  const auto theirs = swap_addresses(*back.left, SideAddress{}, kLong);
  ASSERT_TRUE(theirs);
  EXPECT_EQ(theirs->gid, ours.gid);
  EXPECT_EQ(theirs->qpn, 0xabcdefu);
  EXPECT_EQ(theirs->psn, 1u);
  EXPECT_EQ(theirs->memory_address, UINT64_MAX);
  EXPECT_EQ(theirs->memory_bytes, 4096u);
  EXPECT_EQ(theirs->rkey, UINT32_MAX);
  EXPECT_EQ(theirs->start, 5u);
  EXPECT_TRUE(other.get());
  EXPECT_TRUE(sender.get());
}

TEST(SwapAddresses, BadFieldsAreRefused) {
  const nlohmann::json good = {{"type", "address"}, {"gid", "::1"}, {"qpn", 1u},  {"psn", 1u},
                               {"memory", 1u},      {"bytes", 1u},  {"rkey", 1u}, {"start", 0u}};
  for (const auto& [name, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"qpn", 0x1000000}, {"psn", -1}, {"gid", "fe80:"}, {"gid", 7}, {"rkey", 1.5}, {"memory", nullptr}}) {
    Pair pair;
    nlohmann::json bad = good;
    bad[name] = value;
    pair.raw(bad.dump() + "\n");
    const auto address = swap_addresses(*pair.left, SideAddress{}, kLong);
    ASSERT_FALSE(address) << bad;
    EXPECT_EQ(address.error().errno_value, EPROTO);
  }
}

TEST(Meet, NumbersCross) {
  Pair pair;
  Exchange right = pair.right();
  auto other = std::async(std::launch::async, [&] { return meet(right, "done", 7, kLong); });
  EXPECT_EQ(meet(*pair.left, "done", 9, kLong).value(), 7u);
  EXPECT_EQ(other.get().value(), 9u);
}

TEST(Connect, ReachesAListener) {
  auto listener = Listener::open(0);
  ASSERT_TRUE(listener);
  auto client = std::async(std::launch::async, [&] { return Exchange::connect("127.0.0.1", listener->port(), kLong); });
  auto server = listener->accept(kLong);
  ASSERT_TRUE(server);
  auto connected = client.get();
  ASSERT_TRUE(connected);
  ASSERT_TRUE(connected->send({{"type", "x"}}));
  EXPECT_TRUE(server->receive("x", kLong));
}

TEST(Connect, NobodyThereIsNamed) {
  std::uint16_t port = 0;
  {
    auto listener = Listener::open(0);
    ASSERT_TRUE(listener);
    port = listener->port();
  }
  const auto refused = Exchange::connect("127.0.0.1", port, kSoon);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, ECONNREFUSED);
  EXPECT_EQ(refused.error().what, "cannot reach the server 127.0.0.1 at TCP port " + std::to_string(port));
}

TEST(Connect, ABadNameIsNamed) {
  const auto refused = Exchange::connect("256.0.0.1:x", 1, kSoon);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("no address for the server '256.0.0.1:x'"), std::string::npos);
}

TEST(Listener, APortInUseAndNoClientAreNamed) {
  auto listener = Listener::open(0);
  ASSERT_TRUE(listener);
  const auto second = Listener::open(listener->port());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().errno_value, EADDRINUSE);
  const auto nobody = listener->accept(kSoon);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().errno_value, ETIMEDOUT);
}

}  // namespace
}  // namespace umlx5::tools
