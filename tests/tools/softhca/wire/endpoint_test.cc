#include "tools/softhca/wire/endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tools/softhca/wire/faults.h"
#include "tools/softhca/wire/icrc.h"
#include "tools/softhca/wire/packet.h"

namespace softhca::wire {
namespace {

using Bytes = std::vector<std::byte>;

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::unique_ptr<Endpoint> opened(const EndpointOptions& options = {}) {
  auto endpoint = Endpoint::open(options);
  EXPECT_TRUE(endpoint) << endpoint.error().message();
  return endpoint ? std::move(*endpoint) : nullptr;
}

// A packet that carries `number` as its PSN and is `bytes` long.
Bytes numbered(std::uint32_t number, std::size_t bytes) {
  Packet packet;
  packet.bth = {.opcode = opcode_of(Transport::kUc, Operation::kSendOnly), .destination_qpn = 1, .psn = number};
  const Bytes payload(bytes - Bth::kBytes, static_cast<std::byte>(number));
  packet.payload = payload;
  Bytes out(bytes);
  EXPECT_EQ(build(packet, out), bytes);
  return out;
}

std::uint32_t number_of(std::span<const std::byte> packet) { return umlx5::wqe::load<Bth>(packet.data()).psn; }

void commit(Endpoint& from, const Route& route, const Bytes& packet) {
  const std::span<std::byte> place = from.reserve();
  ASSERT_EQ(place.size(), kMaxPacketBytes);
  std::ranges::copy(packet, place.begin());
  from.commit(route, packet.size());
}

struct Arrival {
  Received head;  // its packet is not valid
  Bytes packet;
};

// All that arrives until `count` packets are there or nothing comes for `patience_ms`.
std::vector<Arrival> arrivals(Endpoint& at, std::size_t count, int patience_ms = 1000, std::size_t at_once = 64) {
  std::vector<Arrival> result;
  std::vector<Received> received(at_once);
  while (result.size() < count) {
    const std::size_t got = at.receive(received);
    for (std::size_t i = 0; i < got; ++i) {
      result.push_back({received[i], Bytes(received[i].packet.begin(), received[i].packet.end())});
    }
    if (got == 0 && at.next_deadline_ns() != 0) {
      pollfd waiting{.fd = at.fd(), .events = POLLIN, .revents = 0};
      if (poll(&waiting, 1, patience_ms) <= 0) {
        break;
      }
    }
  }
  return result;
}

// A plain socket on port 4791 of an address of its own: sees what an endpoint really sends.
class PlainSocket {
 public:
  explicit PlainSocket(int type = SOCK_DGRAM)
      : fd_(socket(AF_INET, type | SOCK_CLOEXEC, type == SOCK_RAW ? IPPROTO_UDP : 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(kRoceV2Port);
    for (std::uint32_t last = 0x7f0001fe; last > 0x7f000101; --last) {
      name.sin_addr.s_addr = htonl(last);
      if (fd_ < 0 || bind(fd_, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) {
        address_ = {last};
        break;
      }
    }
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~PlainSocket() { close(fd_); }

  int fd() const { return fd_; }
  Ipv4 address() const { return address_; }
  Bytes receive() const {
    Bytes data(65536);
    data.resize(static_cast<std::size_t>(std::max<ssize_t>(0, recv(fd_, data.data(), data.size(), 0))));
    return data;
  }
  void send(Ipv4 to, const Bytes& data) const {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(kRoceV2Port);
    name.sin_addr.s_addr = htonl(to.value);
    ASSERT_EQ(sendto(fd_, data.data(), data.size(), 0, reinterpret_cast<sockaddr*>(&name), sizeof name),
              static_cast<ssize_t>(data.size()));
  }

 private:
  int fd_;
  Ipv4 address_;
};

Bytes with_icrc(const Flow& flow, Bytes packet) {
  const std::uint32_t value = icrc(flow, packet);
  packet.resize(packet.size() + kIcrcBytes);
  store_icrc(packet.data() + packet.size() - kIcrcBytes, value);
  return packet;
}

TEST(Open, TakesAFreeLoopbackAddress) {
  const auto first = opened();
  const auto second = opened();
  EXPECT_EQ(first->address().value >> 24, 127U);
  EXPECT_NE(first->address(), second->address());
  const auto again = Endpoint::open({.address = first->address()});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().errno_value, EADDRINUSE);
  EXPECT_EQ(again.error().what, "UDP socket: " + to_string(first->address()) + ":4791 is taken");
}

TEST(Open, RefusesInWords) {
  const auto error = [](const EndpointOptions& options) {
    const auto result = Endpoint::open(options);
    return result ? umlx5::Error{} : result.error();
  };
  const umlx5::Error foreign = error({.address = parse_ipv4("192.0.2.1")});
  EXPECT_EQ(foreign.errno_value, EADDRNOTAVAIL);
  EXPECT_EQ(foreign.what, "UDP socket: 192.0.2.1:4791 is not an address of this machine");
  EXPECT_EQ(error({.address = Ipv4{0}}).errno_value, EINVAL);
  EXPECT_EQ(error({.address = parse_ipv4("224.0.0.1")}).errno_value, EINVAL);
  EXPECT_EQ(error({.faults = "loss=2"}).errno_value, EINVAL);
  const umlx5::Error capture = error({.pcap_path = "/nonexistent/x.pcapng"});
  EXPECT_EQ(capture.errno_value, ENOENT);
  EXPECT_NE(capture.what.find("/nonexistent/x.pcapng"), std::string::npos);
}

TEST(Traffic, ArrivesWholeAndInOrder) {
  const auto a = opened();
  const auto b = opened();
  std::mt19937 random(3);
  const std::size_t sizes[] = {12, 16, 28, 1024 + 12, 1024 + 28, 4096 + 12, 4096 + 28, kMaxPacketBytes};
  for (int burst = 0; burst < 200; ++burst) {
    std::vector<Bytes> sent;
    const std::size_t count = 1 + random() % 16;  // what the smallest usual receive buffer holds
    while (sent.size() < count) {
      // Runs of one size, as messages make them.
      const std::size_t size = sizes[random() % std::size(sizes)];
      for (std::size_t run = 1 + random() % 8; run > 0; --run) {
        sent.push_back(numbered(static_cast<std::uint32_t>(sent.size()), size));
        commit(*a, {.destination = b->address()}, sent.back());
      }
    }
    a->flush();
    const auto got = arrivals(*b, sent.size(), 1000, 1 + random() % 64);
    ASSERT_EQ(got.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      ASSERT_EQ(got[i].packet, sent[i]) << i;
      ASSERT_EQ(got[i].head.source, a->address());
      ASSERT_EQ(got[i].head.source_port, 4791);
      ASSERT_FALSE(got[i].head.looped_back);
    }
  }
  EXPECT_EQ(a->counters().sent_packets, b->counters().received_packets);
  EXPECT_EQ(a->counters().send_errors, 0U);
  EXPECT_EQ(b->counters().icrc_errors, 0U);
  EXPECT_EQ(arrivals(*b, 1, 0).size(), 0U);
}

TEST(Traffic, IsCountedAsIpDatagrams) {
  const auto sender = opened({.faults = "seed=1,loss=1"}), own = opened();
  ASSERT_TRUE(sender && own);
  commit(*sender, {.destination = own->address()}, numbered(1, 100));
  commit(*sender, {.destination = {0xef010209}}, numbered(2, 200));
  sender->flush();
  // IP 20, UDP 8 and ICRC 4 besides.
  EXPECT_EQ(sender->counters().sent_unicast.packets, 1u) << "the wire loses it, and the device has sent it";
  EXPECT_EQ(sender->counters().sent_unicast.bytes, 132u);
  EXPECT_EQ(sender->counters().sent_multicast.bytes, 232u);
  commit(*own, {.destination = own->address()}, numbered(3, 100));
  own->flush();
  std::array<Received, 4> batch;
  EXPECT_EQ(own->receive(batch), 1u);
  EXPECT_EQ(own->counters().received_unicast.packets, 1u);
  EXPECT_EQ(own->counters().received_unicast.bytes, 132u);
}

TEST(Traffic, SeparatesDestinationsAndTrafficClasses) {
  const auto a = opened();
  const auto b = opened();
  const auto c = opened();
  const Endpoint* const places[] = {b.get(), c.get()};
  const std::uint8_t classes[] = {0, 106, 255};
  for (std::uint32_t number = 0; number < 60; ++number) {
    commit(*a, {.destination = places[number / 5 % 2]->address(), .traffic_class = classes[number / 3 % 3]},
           numbered(number, 64));
  }
  a->flush();
  for (Endpoint* const at : {b.get(), c.get()}) {
    const auto got = arrivals(*at, 30);
    ASSERT_EQ(got.size(), 30U);
    for (const Arrival& arrival : got) {
      const std::uint32_t number = number_of(arrival.packet);
      EXPECT_EQ(places[number / 5 % 2], at);
      EXPECT_EQ(arrival.head.traffic_class, classes[number / 3 % 3]);
      EXPECT_EQ(arrival.head.hop_limit, 64);
    }
  }
}

TEST(Traffic, OnTheWireIsThePacketAndItsIcrc) {
  const auto a = opened();
  const PlainSocket plain;
  std::vector<Bytes> sent;
  for (std::uint32_t number = 0; number < 40; ++number) {
    sent.push_back(numbered(number, number % 8 == 7 ? 512 : 1036));
    commit(*a, {.destination = plain.address()}, sent.back());
  }
  a->flush();
  for (const Bytes& packet : sent) {
    EXPECT_EQ(plain.receive(), with_icrc({.source = a->address(), .destination = plain.address()}, packet));
  }
}

// The ICRC covers the identification and the fragment bits: they must be what it was computed of.
TEST(Traffic, PacketsHaveIdentificationZeroAndDontFragment) {
  const PlainSocket raw(SOCK_RAW);
  if (raw.fd() < 0) {
    GTEST_SKIP() << "a raw socket needs the privilege CAP_NET_RAW";
  }
  const auto a = opened();
  for (std::uint32_t number = 0; number < 3; ++number) {
    commit(*a, {.destination = raw.address(), .traffic_class = 8}, numbered(number, 64));
    a->flush();
    Bytes packet;
    Ipv4Header ip;
    // A raw socket sees the traffic of others to this address, too.
    for (int others = 0; others < 1000 && ip.source != a->address().value; ++others) {
      packet = raw.receive();
      ASSERT_GE(packet.size(), kIpUdpBytes);
      ip = umlx5::wqe::load<Ipv4Header>(packet.data());
    }
    ASSERT_EQ(packet.size(), kIpUdpBytes + 64 + kIcrcBytes);
    EXPECT_EQ(ip.identification, 0);
    EXPECT_TRUE(ip.dont_fragment);
    EXPECT_EQ(ip.traffic_class, 8);
    EXPECT_EQ(umlx5::wqe::load<UdpHeader>(packet.data() + Ipv4Header::kBytes).source_port, 4791);
  }
}

TEST(Traffic, BadPacketsAreCountedAndDropped) {
  const auto a = opened();
  const PlainSocket plain;
  const Flow flow{.source = plain.address(), .destination = a->address()};
  Bytes wrong = with_icrc(flow, numbered(1, 64));
  wrong[20] ^= std::byte{1};
  plain.send(a->address(), wrong);
  plain.send(a->address(), Bytes(15));
  plain.send(a->address(), Bytes(0));
  plain.send(a->address(), Bytes(kMaxPacketBytes + kIcrcBytes + 1));
  plain.send(a->address(), with_icrc(flow, numbered(2, 64)));
  const auto got = arrivals(*a, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].packet, numbered(2, 64));
  EXPECT_EQ(a->counters().icrc_errors, 1U);
  EXPECT_GE(a->counters().malformed_packets, 2U);
  EXPECT_EQ(a->counters().received_packets, 1U);
}

TEST(Traffic, ToNowhereIsNotAnError) {
  const auto a = opened();
  commit(*a, {.destination = {0x7f00fe01}}, numbered(1, 64));
  a->flush();
  EXPECT_EQ(a->counters().sent_packets, 1U);
}

TEST(Traffic, WhatTheSocketRefusesIsCounted) {
  const auto a = opened();
  // A broadcast address, which a socket may not send to unless it has asked for that.
  commit(*a, {.destination = {0x7fffffff}}, numbered(1, 64));
  commit(*a, {.destination = a->address()}, numbered(2, 64));
  a->flush();
  EXPECT_EQ(a->counters().send_errors, 1U);
  EXPECT_EQ(arrivals(*a, 1).size(), 1U);
}

TEST(Loopback, ComesBackWithItsRoute) {
  const auto a = opened();
  const Route route{.destination = a->address(), .source_port = 0xc123, .traffic_class = 32};
  EXPECT_EQ(a->next_deadline_ns(), std::nullopt);
  for (std::uint32_t number = 0; number < 100; ++number) {
    commit(*a, route, numbered(number, 256));
  }
  a->flush();
  EXPECT_EQ(a->next_deadline_ns(), 0U);
  const auto got = arrivals(*a, 100, 1000, 7);
  ASSERT_EQ(got.size(), 100U);
  for (std::uint32_t number = 0; number < 100; ++number) {
    EXPECT_EQ(got[number].packet, numbered(number, 256));
    EXPECT_TRUE(got[number].head.looped_back);
    EXPECT_EQ(got[number].head.source, a->address());
    EXPECT_EQ(got[number].head.source_port, 0xc123);
    EXPECT_EQ(got[number].head.traffic_class, 32);
  }
  EXPECT_EQ(a->next_deadline_ns(), std::nullopt);
}

TEST(Loopback, DoesNotStarveTheSocketNorGrowWithoutBound) {
  const auto a = opened();
  const auto b = opened();
  for (std::uint32_t number = 0; number < 20'000; ++number) {
    commit(*a, {.destination = a->address()}, numbered(number, 16));
  }
  EXPECT_GT(a->counters().send_errors, 0U);
  commit(*b, {.destination = a->address()}, numbered(77, 64));
  b->flush();
  std::array<Received, 8> received;
  bool found = false;
  for (int round = 0; round < 2; ++round) {
    const std::size_t count = a->receive(received);
    for (std::size_t i = 0; i < count; ++i) {
      found |= !received[i].looped_back && number_of(received[i].packet) == 77;
    }
  }
  EXPECT_TRUE(found);
}

TEST(Groups, EveryMemberOfTheMachineHearsWhatIsSentToTheGroup) {
  constexpr Ipv4 kGroup{0xef010203};  // 239.1.2.3
  const auto sender = opened(), member = opened(), other = opened();
  ASSERT_TRUE(sender && member && other);
  for (auto* const each : {sender.get(), member.get()}) {
    ASSERT_TRUE(each->join(kGroup));
    ASSERT_TRUE(each->join(kGroup)) << "twice is once";
  }
  ASSERT_TRUE(other->join({0xef010204}));
  for (std::uint32_t i = 0; i < 100; ++i) {
    commit(*sender, {.destination = kGroup, .traffic_class = 0x20}, numbered(i, 100 + 4 * i));
  }
  sender->flush();
  for (auto* const each : {sender.get(), member.get()}) {
    std::uint32_t heard = 0;
    std::array<Received, 16> batch;
    const std::uint64_t deadline = now_ns() + 2'000'000'000;
    while (heard < 100 && now_ns() < deadline) {
      for (const Received& received : std::span(batch).first(each->receive(batch))) {
        EXPECT_EQ(number_of(received.packet), heard++);
        EXPECT_EQ(received.source, sender->address());
        EXPECT_EQ(received.destination, kGroup);
        EXPECT_EQ(received.traffic_class, 0x20);
        EXPECT_EQ(received.hop_limit, 64);
        EXPECT_FALSE(received.looped_back);
      }
    }
    EXPECT_EQ(heard, 100u);
    EXPECT_EQ(each->counters().icrc_errors, 0u);
  }
  std::array<Received, 4> batch;
  EXPECT_EQ(other->receive(batch), 0u) << "of another group";
  member->leave(kGroup);
  commit(*sender, {.destination = kGroup}, numbered(7, 100));
  sender->flush();
  EXPECT_EQ(sender->receive(batch), 1u);
  EXPECT_EQ(member->receive(batch), 0u) << "after it has left";
}

TEST(Groups, WakeWhoWaits) {
  constexpr Ipv4 kGroup{0xef010205};
  const auto sender = opened(), member = opened();
  ASSERT_TRUE(sender && member && member->join(kGroup));
  pollfd waiting{member->groups_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  commit(*sender, {.destination = kGroup}, numbered(7, 100));
  sender->flush();
  EXPECT_EQ(::poll(&waiting, 1, 1000), 1);
  std::array<Received, 4> batch;
  EXPECT_EQ(member->receive(batch), 1u);
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
}

TEST(Groups, AnAddressOfOneMachineIsNone) {
  const auto endpoint = opened();
  ASSERT_TRUE(endpoint);
  const auto joined = endpoint->join({0x7f000001});
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().errno_value, EINVAL);
  EXPECT_NE(joined.error().what.find("cannot join the group 127.0.0.1"), std::string::npos) << joined.error().what;
}

TEST(Waiting, IdleShowsNothingAndLeftoversShow) {
  const auto a = opened();
  const auto b = opened();
  pollfd waiting{.fd = b->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  EXPECT_EQ(b->next_deadline_ns(), std::nullopt);
  for (std::uint32_t number = 0; number < 10; ++number) {
    commit(*a, {.destination = b->address()}, numbered(number, 64));
  }
  a->flush();
  ASSERT_EQ(poll(&waiting, 1, 1000), 1);
  std::array<Received, 4> received;
  ASSERT_EQ(b->receive(received), 4U);
  EXPECT_EQ(b->next_deadline_ns(), 0U);  // six came in the same buffer
  EXPECT_EQ(arrivals(*b, 6).size(), 6U);
  EXPECT_EQ(b->next_deadline_ns(), std::nullopt);
}

// What a wire with this plan gives for packets 0 .. count-1 sent in one go, corrupted ones left out.
std::vector<std::uint32_t> expected_sequence(const FaultPlan& plan, std::uint32_t count) {
  std::vector<std::uint32_t> result;
  std::deque<std::pair<std::uint32_t, bool>> overtaken;
  const auto put = [&](std::uint32_t number, bool corrupt) {
    if (!corrupt) {
      result.push_back(number);
    }
  };
  for (std::uint32_t number = 0; number < count; ++number) {
    const Fault fault = plan.decide(number);
    if (fault.lose) {
      continue;
    }
    if (fault.duplicate) {
      put(number, fault.corrupt);
    }
    const bool waits = fault.reorder && overtaken.empty();
    if (!waits) {
      put(number, fault.corrupt);
    }
    if (!overtaken.empty()) {
      put(overtaken.front().first, overtaken.front().second);
      overtaken.pop_front();
    }
    if (waits) {
      overtaken.emplace_back(number, fault.corrupt);
    }
  }
  EXPECT_TRUE(overtaken.empty());  // otherwise the last packet comes by time, not by order
  return result;
}

TEST(FaultyWire, DoesExactlyWhatThePlanSays) {
  const std::string text = "seed=11,loss=0.1,dup=0.1,reorder=0.1,corrupt=0.1";
  const FaultPlan plan = *FaultPlan::parse(text);
  const auto a = opened({.faults = text});
  const auto b = opened();
  constexpr std::uint32_t kPackets = 400;
  for (const Ipv4 to : {b->address(), a->address()}) {
    SCOPED_TRACE(to_string(to));
    const auto sender = to == a->address() ? opened({.faults = text}) : nullptr;
    Endpoint& from = sender ? *sender : *a;
    Endpoint& at = sender ? *sender : *b;
    for (std::uint32_t number = 0; number < kPackets; ++number) {
      commit(from, {.destination = at.address()}, numbered(number, 64));
    }
    from.flush();
    const std::vector<std::uint32_t> expected = expected_sequence(plan, kPackets);
    std::vector<std::uint32_t> got;
    for (const Arrival& arrival : arrivals(at, expected.size(), 1000)) {
      got.push_back(number_of(arrival.packet));
    }
    EXPECT_EQ(got, expected);
    EXPECT_EQ(at.counters().icrc_errors + at.counters().received_packets, from.counters().sent_packets);
    EXPECT_GT(at.counters().icrc_errors, 20U);
    EXPECT_GT(from.counters().dropped_by_fault, 20U);
    EXPECT_GT(from.counters().duplicated_by_fault, 20U);
    EXPECT_GT(from.counters().reordered_by_fault, 20U);
    EXPECT_GE(from.counters().corrupted_by_fault, 20U);
  }
}

// Flushes until `count` packets have come from `from` to `at`; all that the owner of a faulty wire has to do.
std::vector<std::uint32_t> flushed_until(Endpoint& from, Endpoint& at, std::size_t count) {
  std::vector<std::uint32_t> result;
  const std::uint64_t give_up_ns = now_ns() + 5'000'000'000;
  while (result.size() < count && now_ns() < give_up_ns) {
    from.flush();
    std::array<Received, 16> received;
    const std::size_t got = at.receive(received);
    for (std::size_t i = 0; i < got; ++i) {
      result.push_back(number_of(received[i].packet));
    }
  }
  return result;
}

TEST(FaultyWire, DelaysUntilTheDeadline) {
  const auto a = opened({.faults = "delay=1,delay_us=3000"});
  const auto b = opened();
  const std::uint64_t start_ns = now_ns();
  commit(*a, {.destination = b->address()}, numbered(1, 64));
  const std::uint64_t held_ns = now_ns();
  commit(*a, {.destination = b->address()}, numbered(2, 64));
  const auto deadline_ns = a->next_deadline_ns();
  ASSERT_TRUE(deadline_ns);
  EXPECT_GE(*deadline_ns, start_ns + 3'000'000);
  EXPECT_LE(*deadline_ns, held_ns + 3'000'000);
  EXPECT_EQ(a->counters().delayed_by_fault, 2U);
  EXPECT_EQ(a->counters().sent_packets, 0U);
  EXPECT_EQ(flushed_until(*a, *b, 2), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_GE(now_ns(), *deadline_ns);
  EXPECT_EQ(a->next_deadline_ns(), std::nullopt);
}

TEST(FaultyWire, AnOvertakenPacketDoesNotWaitForEver) {
  const auto a = opened({.faults = "reorder=1"});
  const std::uint64_t start_ns = now_ns();
  commit(*a, {.destination = a->address()}, numbered(1, 64));
  const auto deadline_ns = a->next_deadline_ns();
  ASSERT_TRUE(deadline_ns);
  EXPECT_GE(*deadline_ns, start_ns + 1'000'000);
  EXPECT_LE(*deadline_ns, now_ns() + 1'000'000);
  EXPECT_EQ(flushed_until(*a, *a, 1), std::vector<std::uint32_t>{1});
  EXPECT_GE(now_ns(), *deadline_ns);
  EXPECT_EQ(a->next_deadline_ns(), std::nullopt);
}

}  // namespace
}  // namespace softhca::wire
