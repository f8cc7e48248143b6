// Frames between RAW_PACKET queue pairs, flows that bring them, and receive side scaling.
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "driver/dv_flags.h"
#include "driver/wq.h"
#include "tests/driver/soft/pair.h"
#include "wqe/mini_cqe.h"

namespace umlx5::testing {
namespace {

constexpr std::size_t kTo = 128 * 1024;
constexpr std::uint32_t kEthernet = 0x20;                              // enum ib_flow_spec_type
constexpr std::uint32_t kOwnUnicast = 1 << 1, kOwnMulticast = 1 << 2;  // mlx5dv_qp_create_flags
constexpr std::uint32_t kStripVlan = 1 << 9;                           // IB_UVERBS_QP_CREATE_CVLAN_STRIPPING

// enum ibv_rx_hash_fields
constexpr std::uint64_t kAddressesAndPorts = 1 << 0 | 1 << 1 | 1 << 6 | 1 << 7;  // IPv4, UDP
constexpr std::uint64_t kInner = std::uint64_t{1} << 31;

using Mac = std::array<std::uint8_t, 6>;
constexpr Mac kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

EndOptions raw_options() {
  EndOptions options;
  options.type = QpType::kRawPacket;
  options.capacity.max_inline_bytes = 0;
  return options;
}

// The MAC of a soft device is 02:00 and its IPv4 address.
Mac mac_of(End& end) {
  Mac mac = {2, 0};
  const Gid gid = end.address(0).gid;
  std::memcpy(mac.data() + 2, reinterpret_cast<const std::uint8_t*>(&gid) + 12, 4);
  return mac;
}

void start(Qp& qp) {
  must(qp.to_init({}));
  must(qp.to_rtr({}));
  must(qp.to_rts({}));
}

Owned<Flow> flow_to(Qp& qp, const Mac& destination) {
  ib_uverbs_flow_spec_eth specification{};
  specification.type = kEthernet;
  specification.size = sizeof(specification);
  std::memcpy(specification.val.dst_mac, destination.data(), 6);
  std::memset(specification.mask.dst_mac, 0xff, 6);
  return must(
      qp.create_flow({.specification_count = 1, .specifications = std::as_bytes(std::span(&specification, 1))}));
}

// UDP over IPv4 with checksums of 0: from 66.9.149.187 to 161.142.100.80, ports as given, and 3 bytes of data.
std::vector<std::uint8_t> datagram_frame(const Mac& to, std::uint8_t source_port = 1, std::uint8_t destination_port = 2,
                                         bool swap = false) {
  std::vector<std::uint8_t> frame(to.begin(), to.end());
  const std::uint8_t rest[] = {
      2,  0,  9, 9, 9,   9,   8,   0,   0x45, 0,   0,   31, 0x12, 0x34,        0, 0,
      64, 17, 0, 0, 66,  9,   149, 187, 161,  142, 100, 80, 7,    source_port, 7, destination_port,
      0,  11, 0, 0, 'a', 'b', 'c'};
  frame.insert(frame.end(), std::begin(rest), std::end(rest));
  if (swap) {
    std::swap_ranges(frame.begin() + 26, frame.begin() + 30, frame.begin() + 30);
    std::swap_ranges(frame.begin() + 34, frame.begin() + 36, frame.begin() + 36);
  }
  return frame;
}
constexpr std::uint32_t kFrameBytes = 45;

void send(End& from, const std::vector<std::uint8_t>& frame, SendFlags flags = SendFlag::kSignaled) {
  std::memcpy(from.at(0), frame.data(), frame.size());
  const Sge piece = from.sge(0, static_cast<std::uint32_t>(frame.size()));
  from.post(SendWr{.wr_id = 5, .opcode = SendOpcode::kSend, .flags = flags, .sges = {&piece, 1}});
  EXPECT_EQ(text(from.wait_sends(1)), "5 ok");
}

std::vector<std::uint8_t> bytes_at(End& end, std::size_t offset, std::size_t bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(end.at(offset));
  return {first, first + bytes};
}

// Two devices; what is sent to b's MAC arrives.
struct RawPair {
  explicit RawPair() {
    start(*a.qp);
    start(*b.qp);
  }
  Machine machine_a, machine_b;
  End a{machine_a.context(), raw_options()}, b{machine_b.context(), raw_options()};
};

TEST(RawPacket, AFrameArrivesWhereAFlowBringsIt) {
  RawPair pair;
  pair.b.post_receives(7, 2);
  const auto frame = datagram_frame(mac_of(pair.b));
  send(pair.a, frame);
  pair.b.expect_quiet();

  const auto flow = flow_to(*pair.b.qp, mac_of(pair.b));
  send(pair.a, frame);
  const auto completions = pair.b.wait_receives(1);
  ASSERT_EQ(text(completions), "7 ok");
  EXPECT_EQ(completions[0].byte_count, kFrameBytes);
  EXPECT_EQ(completions[0].qp, pair.b.qp.get());
  EXPECT_FALSE(completions[0].has_right_checksums());
  EXPECT_EQ(bytes_at(pair.b, kTo, frame.size()), frame);
}

// The checksums of this datagram were computed by hand (RFC 1071, RFC 768).
TEST(RawPacket, TheDeviceFillsInChecksums) {
  RawPair pair;
  const auto flow = flow_to(*pair.b.qp, mac_of(pair.b));
  pair.b.post_receives(7, 1);
  const auto frame = datagram_frame(mac_of(pair.b));
  send(pair.a, frame, SendFlags(SendFlag::kSignaled) | SendFlag::kIpChecksum);
  const auto completions = pair.b.wait_receives(1);
  ASSERT_EQ(text(completions), "7 ok");
  EXPECT_TRUE(completions[0].has_right_checksums());
  auto expected = frame;
  expected[24] = 0x8a, expected[25] = 0xf7;
  expected[40] = 0x4f, expected[41] = 0xcf;
  EXPECT_EQ(bytes_at(pair.b, kTo, frame.size()), expected);
}

TEST(RawPacket, LargeSendsAreCut) {
  Machine machine_a, machine_b;
  EndOptions options = raw_options();
  End b(machine_b.context(), options), a(machine_a.context(), options);
  const auto qp = must(a.pd->create_qp({.type = QpType::kRawPacket,
                                        .send_cq = a.send_cq.get(),
                                        .recv_cq = a.recv_cq.get(),
                                        .capacity = options.capacity,
                                        .max_tso_header_bytes = 64}));
  start(*qp);
  start(*b.qp);
  const auto flow = flow_to(*b.qp, mac_of(b));
  b.post_receives(7, 4);
  // TCP from port 0x1111 to 0x2222, sequence number 0x10, with PSH.
  const Mac to = mac_of(b);
  std::vector<std::uint8_t> header(to.begin(), to.end());
  const std::uint8_t rest[] = {2,  0, 9, 9,    9,  9, 8, 0, 0x45, 0,    0, 0, 0,    1,    0,    0,
                               64, 6, 0, 0,    10, 0, 0, 1, 10,   0,    0, 2, 0x11, 0x11, 0x22, 0x22,
                               0,  0, 0, 0x10, 0,  0, 0, 0, 0x50, 0x18, 1, 0, 0,    0,    0,    0};
  header.insert(header.end(), std::begin(rest), std::end(rest));
  a.fill(0, 250, 3);
  const Sge piece = a.sge(0, 250);
  SendWr request{.wr_id = 6, .opcode = SendOpcode::kTso, .flags = SendFlag::kSignaled, .sges = {&piece, 1}};
  request.tso_header = std::as_bytes(std::span(header));
  request.tso_piece_bytes = 100;
  ASSERT_EQ(qp->post_send({&request, 1}).error, 0) << qp->explain_refusal(request);
  EXPECT_EQ(text(a.wait_sends(1)), "6 ok");
  const auto completions = b.wait_receives(3);
  ASSERT_EQ(text(completions), "7 ok, 8 ok, 9 ok");
  const std::uint32_t lengths[] = {154, 154, 104};
  const std::uint8_t sequence[] = {0x10, 0x74, 0xd8};  // 0x10, + 100, + 200
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(completions[i].byte_count, lengths[i]);
    const auto got = bytes_at(b, kTo + i * 1024, 54);
    EXPECT_EQ(got[41], sequence[i]);
    EXPECT_EQ(std::memcmp(b.at(kTo + i * 1024 + 54), a.at(i * 100), lengths[i] - 54), 0);
  }

  request.tso_header = request.tso_header.first(13);
  EXPECT_EQ(qp->post_send({&request, 1}).error, EINVAL);
  EXPECT_NE(qp->explain_refusal(request), "");
  header.resize(65);
  request.tso_header = std::as_bytes(std::span(header));
  EXPECT_EQ(qp->post_send({&request, 1}).error, EINVAL);
}

TEST(RawPacket, TagsGoToTheCompletionIfAsked) {
  RawPair pair;
  const auto stripping = must(pair.b.pd->create_qp({.type = QpType::kRawPacket,
                                                    .send_cq = pair.b.send_cq.get(),
                                                    .recv_cq = pair.b.recv_cq.get(),
                                                    .capacity = raw_options().capacity,
                                                    .create_flags = kStripVlan}));
  start(*stripping);
  const auto plain = datagram_frame(mac_of(pair.b));
  auto tagged = plain;
  const std::uint8_t tag[] = {0x81, 0, 0xa1, 0x23};
  tagged.insert(tagged.begin() + 12, std::begin(tag), std::end(tag));

  const Sge piece = pair.b.sge(kTo, 1024);
  const RecvWr receive{.wr_id = 3, .sges = {&piece, 1}};
  ASSERT_EQ(stripping->post_recv({&receive, 1}).error, 0);
  {
    const auto flow = flow_to(*stripping, mac_of(pair.b));
    send(pair.a, tagged);
    const auto completions = pair.b.wait_receives(1);
    ASSERT_EQ(text(completions), "3 ok");
    EXPECT_TRUE(completions[0].has_vlan_tag());
    EXPECT_EQ(completions[0].vlan_tag(), 0xa123);
    EXPECT_EQ(bytes_at(pair.b, kTo, plain.size()), plain);
  }
  const auto flow = flow_to(*pair.b.qp, mac_of(pair.b));
  pair.b.post_receives(7, 1);
  send(pair.a, tagged);
  const auto completions = pair.b.wait_receives(1);
  ASSERT_EQ(text(completions), "7 ok");
  EXPECT_FALSE(completions[0].has_vlan_tag());
  EXPECT_EQ(bytes_at(pair.b, kTo, tagged.size()), tagged);
}

// One QP sends to itself: what it is created with says which of its own frames it receives.
class SelfLoopback : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Soft, SelfLoopback,
                         ::testing::Values(0, kOwnUnicast, kOwnMulticast, kOwnUnicast | kOwnMulticast));

TEST_P(SelfLoopback, FlagsSayWhatComesBack) {
  Machine machine;
  End end(machine.context(), raw_options());
  const auto qp = must(end.pd->create_qp({.type = QpType::kRawPacket,
                                          .send_cq = end.send_cq.get(),
                                          .recv_cq = end.recv_cq.get(),
                                          .capacity = raw_options().capacity,
                                          .dv_create_flags = GetParam()}));
  start(*qp);
  const Mac own = mac_of(end);
  const auto unicast = flow_to(*qp, own), broadcast = flow_to(*qp, kBroadcast);
  for (const bool is_unicast : {true, false}) {
    SCOPED_TRACE(is_unicast);
    const auto frame = datagram_frame(is_unicast ? own : kBroadcast);
    std::memcpy(end.at(0), frame.data(), frame.size());
    const Sge from = end.sge(0, kFrameBytes), to = end.sge(kTo, 1024);
    const RecvWr receive{.wr_id = 2, .sges = {&to, 1}};
    const SendWr request{.wr_id = 1, .opcode = SendOpcode::kSend, .flags = SendFlag::kSignaled, .sges = {&from, 1}};
    ASSERT_EQ(qp->post_recv({&receive, 1}).error, 0);
    ASSERT_EQ(qp->post_send({&request, 1}).error, 0);
    EXPECT_EQ(text(end.wait_sends(1)), "1 ok");
    if ((GetParam() & (is_unicast ? kOwnUnicast : kOwnMulticast)) != 0) {
      EXPECT_EQ(text(end.wait_receives(1)), "2 ok");
    } else {
      end.expect_quiet();
    }
  }
}

TEST(RawPacket, TheHashChoosesTheQueue) {
  RawPair pair;
  const auto cq0 = must(pair.b.context.create_cq({.entries = 63})),
             cq1 = must(pair.b.context.create_cq({.entries = 63}));
  const auto wq0 = must(pair.b.pd->create_wq({.cq = cq0.get(), .max_wr = 32})),
             wq1 = must(pair.b.pd->create_wq({.cq = cq1.get(), .max_wr = 32}));
  for (Wq* const wq : {wq0.get(), wq1.get()}) {
    must(wq->to_ready());
    for (std::uint64_t i = 0; i < 32; ++i) {
      const Sge piece = pair.b.sge(kTo + i * 1024, 1024);
      const RecvWr receive{.wr_id = (wq == wq0.get() ? 100 : 200) + i, .sges = {&piece, 1}};
      ASSERT_EQ(wq->post_recv({&receive, 1}).error, 0);
    }
  }
  Wq* const order[] = {wq0.get(), wq1.get()};
  const auto table = must(pair.b.context.create_rwq_table(order));
  std::array<std::uint8_t, 40> key;
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<std::uint8_t>(i * 37 + 11);
  }
  const auto qp = must(
      pair.b.pd->create_qp({.type = QpType::kRawPacket,
                            .rss = RssOptions{.table = table->handle(), .key = key, .fields = kAddressesAndPorts}}));
  const auto flow = flow_to(*qp, mac_of(pair.b));
  EXPECT_EQ(Wq::destroy(*wq0).error().errno_value, EBUSY);

  std::size_t count[2] = {};
  for (std::uint8_t port = 0; port < 16; ++port) {
    for (const bool swap : {false, true}) {
      send(pair.a, datagram_frame(mac_of(pair.b), port, 99, swap));
    }
    // A flow and the one back are hashed alike, so both frames are in one queue.
    std::vector<Completion> got(2);
    std::size_t which = 2;
    for (int i = 0; i < 1000000 && which == 2; ++i) {
      which = cq0->poll(std::span(got).first(1)) == 1 ? 0 : cq1->poll(std::span(got).first(1)) == 1 ? 1 : 2;
      pair.b.context.relax();
    }
    ASSERT_NE(which, 2u);
    got[1] = pair.b.wait(which == 0 ? *cq0 : *cq1, 1).at(0);
    EXPECT_EQ(got[0].wr_id, (which + 1) * 100 + count[which]);
    EXPECT_EQ(got[1].wr_id, (which + 1) * 100 + count[which] + 1);
    EXPECT_EQ(got[1].byte_count, kFrameBytes);
    count[which] += 2;
  }
  EXPECT_GT(count[0], 0u);
  EXPECT_GT(count[1], 0u);
}

// `inner` in a VXLAN packet (RFC 7348), which looks the same from outside whatever it carries.
std::vector<std::uint8_t> encapsulated(const Mac& to, const std::vector<std::uint8_t>& inner) {
  std::vector<std::uint8_t> frame(to.begin(), to.end());
  const auto put16 = [&](std::size_t value) {
    frame.push_back(static_cast<std::uint8_t>(value >> 8));
    frame.push_back(static_cast<std::uint8_t>(value));
  };
  const std::uint8_t ethernet[] = {2, 0, 9, 9, 9, 9, 8, 0, 0x45, 0};
  frame.insert(frame.end(), std::begin(ethernet), std::end(ethernet));
  put16(20 + 8 + 8 + inner.size());
  const std::uint8_t ip[] = {0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
  frame.insert(frame.end(), std::begin(ip), std::end(ip));
  put16(5000);
  put16(4789);
  put16(8 + 8 + inner.size());
  put16(0);
  const std::uint8_t vxlan[] = {8, 0, 0, 0, 0, 0, 42, 0};
  frame.insert(frame.end(), std::begin(vxlan), std::end(vxlan));
  frame.insert(frame.end(), inner.begin(), inner.end());
  return frame;
}

// Of 16 flows in one tunnel: how many went to each of two queues.
std::array<std::size_t, 2> spread_of_tunnel(std::uint32_t flags, std::uint64_t more_fields) {
  RawPair pair;
  std::array<Owned<Cq>, 2> cqs;
  std::array<Owned<Wq>, 2> wqs;
  for (std::size_t i = 0; i < 2; ++i) {
    cqs[i] = must(pair.b.context.create_cq({.entries = 63}));
    wqs[i] = must(pair.b.pd->create_wq({.cq = cqs[i].get(), .max_wr = 32}));
    must(wqs[i]->to_ready());
    for (std::uint64_t j = 0; j < 32; ++j) {
      const Sge piece = pair.b.sge(kTo + j * 1024, 1024);
      const RecvWr receive{.wr_id = j, .sges = {&piece, 1}};
      EXPECT_EQ(wqs[i]->post_recv({&receive, 1}).error, 0);
    }
  }
  Wq* const order[] = {wqs[0].get(), wqs[1].get()};
  const auto table = must(pair.b.context.create_rwq_table(order));
  std::array<std::uint8_t, 40> key;
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<std::uint8_t>(i * 37 + 11);
  }
  const auto qp = must(pair.b.pd->create_qp(
      {.type = QpType::kRawPacket,
       .dv_create_flags = flags,
       .rss = RssOptions{.table = table->handle(), .key = key, .fields = kAddressesAndPorts | more_fields}}));
  const auto flow = flow_to(*qp, mac_of(pair.b));
  std::array<std::size_t, 2> counts{};
  for (std::uint8_t port = 0; port < 16; ++port) {
    send(pair.a, encapsulated(mac_of(pair.b), datagram_frame(kBroadcast, port)));
    std::array<Completion, 1> done;
    bool came = false;
    for (int tries = 0; tries < 1000000 && !came; ++tries) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t got = cqs[i]->poll(done);
        counts[i] += got;
        came |= got != 0;
      }
      pair.b.context.relax();
    }
    EXPECT_TRUE(came);
  }
  return counts;
}

TEST(RawPacket, TunnelOffloadsHashWhatIsInTheTunnel) {
  const auto inner = spread_of_tunnel(dv::kTunnelOffloads, kInner);
  EXPECT_GT(inner[0], 0u);
  EXPECT_GT(inner[1], 0u);
  const auto outer = spread_of_tunnel(0, 0);
  EXPECT_EQ(std::max(outer[0], outer[1]), 16u) << "one flow from outside";
}

// Frames in a row, whose completions come compressed: strides are counted, or the format has their index.
TEST(RawPacket, StridingQueueWithCompressedCompletions) {
  for (const std::uint8_t format : {1, 2, 4}) {
    SCOPED_TRACE(int{format});
    RawPair pair;
    const auto cq = must(pair.b.context.create_cq({.entries = 255, .compression = format}));
    const auto wq = must(pair.b.pd->create_wq(
        {.cq = cq.get(), .max_wr = 4, .striding = StridingOptions{.log_stride_bytes = 6, .log_strides = 9}}));
    must(wq->to_ready());
    Wq* const order[] = {wq.get()};
    const auto table = must(pair.b.context.create_rwq_table(order));
    const std::array<std::uint8_t, 40> key{};
    const auto qp = must(
        pair.b.pd->create_qp({.type = QpType::kRawPacket,
                              .rss = RssOptions{.table = table->handle(), .key = key, .fields = kAddressesAndPorts}}));
    const auto flow = flow_to(*qp, mac_of(pair.b));
    constexpr std::uint32_t kStrides = 512, kWqeBytes = kStrides * 64;
    const auto post = [&](std::uint64_t id) {
      const Sge piece = pair.b.sge(kTo + id % 2 * kWqeBytes, kWqeBytes);
      const RecvWr receive{.wr_id = id, .sges = {&piece, 1}};
      ASSERT_EQ(wq->post_recv({&receive, 1}).error, 0);
    };
    post(0);
    post(1);
    const auto frame = datagram_frame(mac_of(pair.b));
    constexpr std::size_t kFrames = 32;
    std::vector<Sge> pieces;
    std::vector<SendWr> list;
    for (std::size_t i = 0; i < kFrames; ++i) {
      std::memcpy(pair.a.at(i * 1024), frame.data(), frame.size());
      std::memset(pair.a.at(i * 1024 + frame.size()), static_cast<int>(i), 200);
      pieces.push_back(pair.a.sge(i * 1024, static_cast<std::uint32_t>(60 + i * 5)));
    }
    for (std::size_t i = 0; i < kFrames; ++i) {
      list.push_back({.wr_id = i, .opcode = SendOpcode::kSend, .flags = SendFlag::kSignaled, .sges = {&pieces[i], 1}});
    }
    bool saw_title = false;
    std::uint64_t request = 0;
    std::uint32_t stride = 0;
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    for (int round = 0; round < 20 || (!saw_title && std::chrono::steady_clock::now() < deadline); ++round) {
      ASSERT_EQ(pair.a.qp->post_send(list).posted, kFrames);
      for (std::size_t i = 0; i < kFrames;) {
        const CompletionRing& ring = cq->ring();
        const std::uint32_t index = cq->consumer_index();
        saw_title |= ring.is_ready(index) && wqe::is_compression_title(ring.op_own(index));
        const Completion done = pair.b.wait(*cq, 1).at(0);
        ASSERT_EQ(done.status, CompletionStatus::kSuccess) << describe(done);
        ASSERT_EQ(done.wr_id, request);
        ASSERT_EQ(done.first_stride(), stride);
        const wqe::StridingByteCount count = done.striding_byte_count();
        if (!count.is_filler()) {
          ASSERT_EQ(count.bytes(), 60 + i * 5);
          ASSERT_EQ(bytes_at(pair.b, kTo + request % 2 * kWqeBytes + stride * 64, count.bytes()),
                    bytes_at(pair.a, i * 1024, count.bytes()));
          ++i;
        }
        stride += count.strides();
        if (stride == kStrides) {
          post(++request + 1);
          stride = 0;
        }
      }
      ASSERT_EQ(pair.a.wait_sends(kFrames).size(), kFrames);
    }
    EXPECT_TRUE(saw_title);
    EXPECT_GT(request, 0u);
  }
}

// A frame behind the other, from the next stride on; those that are left out are told of.
TEST(RawPacket, StridingQueueTakesManyFramesInOneRequest) {
  for (const bool shift : {false, true}) {
    SCOPED_TRACE(shift);
    RawPair pair;
    const auto cq = must(pair.b.context.create_cq({.entries = 63}));
    const auto wq = must(pair.b.pd->create_wq(
        {.cq = cq.get(),
         .max_wr = 4,
         .striding = StridingOptions{.log_stride_bytes = 6, .log_strides = 3, .two_byte_shift = shift}}));
    EXPECT_EQ(wq->max_wr(), 4u);
    must(wq->to_ready());
    const auto post = [&](std::uint64_t id) {
      const Sge piece = pair.b.sge(kTo + id % 4 * 512, 512);
      const RecvWr receive{.wr_id = id, .sges = {&piece, 1}};
      return wq->post_recv({&receive, 1}).error;
    };
    for (std::uint64_t id = 0; id < 4; ++id) {
      ASSERT_EQ(post(id), 0);
    }
    EXPECT_EQ(post(4), ENOMEM);
    Wq* const order[] = {wq.get()};
    const auto table = must(pair.b.context.create_rwq_table(order));
    const std::array<std::uint8_t, 40> key{};
    const auto qp = must(
        pair.b.pd->create_qp({.type = QpType::kRawPacket,
                              .rss = RssOptions{.table = table->handle(), .key = key, .fields = kAddressesAndPorts}}));
    const auto flow = flow_to(*qp, mac_of(pair.b));
    std::uint64_t request = 0, posted = 4;
    std::uint32_t stride = 0;
    for (const std::uint32_t bytes : {60u, 64u, 130u, 400u, 62u, 63u, 510u, 200u, 200u, 200u, 200u, 60u}) {
      SCOPED_TRACE(bytes);
      auto frame = datagram_frame(mac_of(pair.b));
      frame.resize(bytes, 0x5a);
      send(pair.a, frame);
      const std::uint32_t needed = (bytes + (shift ? 2 : 0) + 63) / 64;
      if (stride != 8 && stride + needed > 8) {
        const Completion filler = pair.b.wait(*cq, 1).at(0);
        EXPECT_EQ(filler.wr_id, request);
        EXPECT_TRUE(filler.striding_byte_count().is_filler());
        EXPECT_EQ(filler.striding_byte_count().strides(), 8 - stride);
        EXPECT_EQ(filler.first_stride(), stride);
        stride = 8;
      }
      if (stride == 8) {
        ASSERT_EQ(post(posted++), 0) << "all strides of a request free it";
        EXPECT_EQ(post(posted), ENOMEM);
        ++request;
        stride = 0;
      }
      const Completion done = pair.b.wait(*cq, 1).at(0);
      EXPECT_EQ(done.status, CompletionStatus::kSuccess);
      EXPECT_EQ(done.opcode, CompletionOpcode::kRecv);
      EXPECT_EQ(done.wr_id, request);
      EXPECT_FALSE(done.striding_byte_count().is_filler());
      EXPECT_EQ(done.striding_byte_count().bytes(), bytes);
      EXPECT_EQ(done.striding_byte_count().strides(), needed);
      EXPECT_EQ(done.first_stride(), stride);
      EXPECT_EQ(bytes_at(pair.b, kTo + request % 4 * 512 + stride * 64 + (shift ? 2 : 0), bytes), frame);
      stride += needed;
    }
    must(wq->modify({.mask = 1, .state = static_cast<std::uint32_t>(WqState::kError)}));
    const std::size_t left = posted - request;
    const auto flushed = pair.b.wait(*cq, left);
    for (std::size_t i = 0; i < left; ++i) {
      EXPECT_EQ(flushed[i].status, CompletionStatus::kWorkRequestFlushed);
      EXPECT_EQ(flushed[i].wr_id, request + i);
    }
  }
}

TEST(RawPacket, AFrameThatNoRequestCouldHoldEndsAStridingQueue) {
  RawPair pair;
  const auto cq = must(pair.b.context.create_cq({.entries = 63}));
  const auto wq = must(pair.b.pd->create_wq(
      {.cq = cq.get(), .max_wr = 4, .striding = StridingOptions{.log_stride_bytes = 6, .log_strides = 3}}));
  must(wq->to_ready());
  const Sge piece = pair.b.sge(kTo, 512);
  const RecvWr receive{.wr_id = 9, .sges = {&piece, 1}};
  ASSERT_EQ(wq->post_recv({&receive, 1}).error, 0);
  Wq* const order[] = {wq.get()};
  const auto table = must(pair.b.context.create_rwq_table(order));
  const std::array<std::uint8_t, 40> key{};
  const auto qp = must(
      pair.b.pd->create_qp({.type = QpType::kRawPacket,
                            .rss = RssOptions{.table = table->handle(), .key = key, .fields = kAddressesAndPorts}}));
  const auto flow = flow_to(*qp, mac_of(pair.b));
  auto frame = datagram_frame(mac_of(pair.b));
  frame.resize(513, 0x5a);
  send(pair.a, frame);
  const Completion done = pair.b.wait(*cq, 1).at(0);
  EXPECT_EQ(done.status, CompletionStatus::kLocalLength);
  EXPECT_EQ(done.wr_id, 9u);
}

TEST(RawPacket, BadRequestsAreRefusedInWords) {
  Machine machine;
  End end(machine.context(), raw_options());
  const auto wq = must(end.pd->create_wq({.cq = end.recv_cq.get(), .max_wr = 4}));
  Wq* const three[] = {wq.get(), wq.get(), wq.get()};
  EXPECT_EQ(end.context.create_rwq_table(three).error().errno_value, EINVAL);
  EXPECT_EQ(end.pd->create_wq({.cq = end.recv_cq.get(), .max_wr = 1u << 31}).error().errno_value, EINVAL);
  for (const auto& [log_bytes, log_strides] : {std::pair{5u, 9u}, {14u, 9u}, {6u, 2u}, {6u, 17u}}) {
    const StridingOptions striding{.log_stride_bytes = log_bytes, .log_strides = log_strides};
    const auto refused = end.pd->create_wq({.cq = end.recv_cq.get(), .max_wr = 4, .striding = striding});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().errno_value, EINVAL);
    EXPECT_NE(refused.error().what.find("striding_rq_caps"), std::string::npos) << refused.error().what;
  }
  const Sge piece = end.sge(0, 64);
  const RecvWr receive{.wr_id = 1, .sges = {&piece, 1}};
  EXPECT_EQ(wq->post_recv({&receive, 1}).error, EINVAL) << "in RESET";

  start(*end.qp);
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kSendWithImm, SendOpcode::kTso}) {
    const SendWr request{.wr_id = 1, .opcode = opcode, .sges = {&piece, 1}};
    EXPECT_NE(end.qp->post_send({&request, 1}).error, 0);
    EXPECT_NE(end.qp->explain_refusal(request), "");
  }
}

}  // namespace
}  // namespace umlx5::testing
