// Two devices' data paths on an imagined wire, with a clock that only the test moves.
//
// WQEs are laid out and CQEs read here byte by byte from the device's documented layouts (mlx5dv.h structures), on
// purpose not with the code that the data path uses.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/softhca/hca/objects.h"
#include "tools/softhca/hca/services.h"
#include "tools/softhca/hca/transport.h"
#include "tools/softhca/wire/endpoint.h"

namespace softhca::hca::harness {

using Bytes = std::vector<std::byte>;

template <typename Word>
void put(std::span<std::byte> to, std::size_t offset, Word value) {
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    to[offset + i] = static_cast<std::byte>(value >> (8 * (sizeof(Word) - 1 - i)));
  }
}

template <typename Word>
Word get(std::span<const std::byte> from, std::size_t offset) {
  Word value = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    value = static_cast<Word>(value << 8 | static_cast<Word>(from[offset + i]));
  }
  return value;
}

// The test's own memory, in regions that the device may reach.
class Memory final : public AddressSpace {
 public:
  // The region lives as long as the memory.
  std::span<std::byte> allocate(std::size_t bytes);
  // Makes a region unreachable, as if it were unmapped.
  void unmap(std::span<std::byte> region);
  // Believes every address, as a device in its own process does: for measurements.
  void trust() { trusted_ = true; }

  bool read(std::uint64_t address, std::span<std::byte> to) override;
  bool write(std::uint64_t address, std::span<const std::byte> from) override;
  std::optional<std::uint32_t> load32(std::uint64_t address) override;
  bool store8(std::uint64_t address, std::uint8_t value) override;
  std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare, std::uint64_t swap) override;
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override;

 private:
  bool reaches(std::uint64_t address, std::uint64_t bytes) const;

  std::map<std::uint64_t, std::unique_ptr<std::uint64_t[]>> storage_;
  std::map<std::uint64_t, std::uint64_t> regions_;  // address to bytes
  bool trusted_ = false;
};

inline std::uint64_t address_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uint64_t>(bytes.data());
}

// What happens to one packet on the wire.
struct Fate {
  unsigned copies = 1;
  unsigned behind = 0;  // arrives after so many later packets
};

class Port;

class Wire {
 public:
  // Asked for each packet, with its number from 0; none: nothing happens to packets.
  std::function<Fate(std::size_t number, wire::Ipv4 source, std::span<const std::byte> packet)> fate;
  std::size_t packets = 0;
  std::vector<Bytes> log;  // every packet as sent, when keep_log
  bool keep_log = false;

  void attach(Port& port);
  void join(std::uint32_t group, Port& port) { groups_.emplace(group, &port); }
  void leave(std::uint32_t group, const Port& port) {
    std::erase_if(groups_, [&](const auto& entry) { return entry.first == group && entry.second == &port; });
  }
  void carry(wire::Ipv4 source, wire::Ipv4 destination, std::span<const std::byte> packet);
  void release_held(bool all);
  bool idle() const { return held_.empty(); }

 private:
  struct Held {
    unsigned behind;
    wire::Ipv4 source, destination;
    Bytes packet;
  };
  void deliver(wire::Ipv4 source, wire::Ipv4 destination, std::span<const std::byte> packet);

  std::map<std::uint32_t, Port*> ports_;
  std::multimap<std::uint32_t, Port*> groups_;
  std::vector<Held> held_;
};

class Port final : public wire::Endpoint {
 public:
  Port(Wire& wire, wire::Ipv4 address);
  ~Port() override = default;

  void arrive(wire::Ipv4 source, wire::Ipv4 destination, std::span<const std::byte> packet);
  void arrive(wire::Ipv4 source, std::span<const std::byte> packet) { arrive(source, address_, packet); }
  bool refuses_groups = false;
  wire::Route last_route{};                        // of the last packet sent
  std::uint8_t traffic_class = 0, hop_limit = 64;  // of what arrives
  bool empty() const { return arrived_.empty(); }

  wire::Ipv4 address() const override { return address_; }
  int fd() const override { return -1; }
  int groups_fd() const override { return -1; }
  wire::Expected<void> join(wire::Ipv4 group) override;
  void leave(wire::Ipv4 group) override { wire_.leave(group.value, *this); }
  std::span<std::byte> reserve() override;
  void commit(const wire::Route& route, std::size_t bytes) override;
  void flush() override {}
  std::size_t receive(std::span<wire::Received> out) override;
  std::optional<std::uint64_t> next_deadline_ns() const override { return std::nullopt; }
  const wire::EndpointCounters& counters() const override { return counters_; }

 private:
  struct Arrived {
    wire::Ipv4 source, destination;
    Bytes packet;
  };
  Wire& wire_;
  wire::Ipv4 address_;
  Bytes buffer_ = Bytes(wire::kMaxPacketBytes);
  std::deque<Arrived> arrived_;
  std::vector<Arrived> handed_out_;
  wire::EndpointCounters counters_{};
};

struct Completion {
  std::array<std::byte, 64> cqe{};
  Bytes data;  // carried in the CQE
  bool solicited = false;

  unsigned opcode() const { return static_cast<unsigned>(cqe[63]) >> 4; }
  unsigned syndrome() const { return static_cast<unsigned>(cqe[55]); }
  unsigned vendor_syndrome() const { return static_cast<unsigned>(cqe[54]); }
  unsigned send_opcode() const { return static_cast<unsigned>(cqe[56]); }
  std::uint32_t qpn() const { return get<std::uint32_t>(cqe, 56) & 0xffffff; }
  std::uint16_t wqe_counter() const { return get<std::uint16_t>(cqe, 60); }
  std::uint32_t byte_count() const { return get<std::uint32_t>(cqe, 44); }
  std::uint32_t immediate() const { return get<std::uint32_t>(cqe, 36); }
  std::uint32_t user_index() const { return get<std::uint32_t>(cqe, 32) & 0xffffff; }
  // "REQ SEND #0" or "REQ_ERR 13 SEND #0"-like text for one-line expectations.
  std::string text() const;
};

struct Event {
  unsigned type;
  std::uint32_t number;
  friend bool operator==(const Event&, const Event&) = default;
};

struct Key {
  std::uint32_t pdn = 1;
  std::span<std::byte> memory;
  bool local_write = true, remote_read = true, remote_write = true, remote_atomic = true;
  bool may_invalidate = false;
  std::uint32_t split_bytes = 0;  // hand out ranges no longer than this, as pages would be; 0: one range
};

// The device around a data path.
class Device final : public Services {
 public:
  Device(Wire& wire, wire::Ipv4 address);
  explicit Device(std::unique_ptr<wire::Endpoint> real);

  Memory memory;
  std::unique_ptr<Port> port;                // on an imagined wire
  std::unique_ptr<wire::Endpoint> endpoint;  // or on a real one
  Transport transport;
  std::map<std::uint32_t, std::unique_ptr<Qp>> qps;
  std::map<std::uint32_t, std::unique_ptr<Srq>> srqs;
  std::map<std::uint32_t, Key> keys;
  std::map<const Cq*, std::vector<Completion>> completions;
  std::vector<Event> events;
  std::vector<KeyUpdate> updates;
  bool refuses_updates = false;
  std::size_t resolves = 0;

  AddressSpace& dma() override { return memory; }
  Qp* find_qp(std::uint32_t qpn) override;
  Srq* find_srq(std::uint32_t srqn) override;
  bool has_gid(std::uint8_t index) override { return index <= 1; }
  std::map<std::uint32_t, std::vector<Qp*>> groups;  // by their addresses; the port is to join them
  std::span<Qp* const> receivers_of(wire::Ipv4 group) override { return groups[group.value]; }
  MkeyFault resolve(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes, Access access,
                    std::vector<DmaRange>& ranges) override;
  bool invalidate(const KeyUser& user, std::uint32_t key) override;
  bool update_key(const KeyUser& user, const KeyUpdate& update) override;
  void complete(Cq& cq, std::span<const std::byte, 64> cqe64, std::span<const std::byte> scatter,
                bool solicited) override;
  void async_event(std::uint8_t event_type, std::uint32_t object_number, std::uint8_t syndrome) override;
  void fail_qp(Qp& qp) override;

  // Allocates memory under a new key.
  std::uint32_t add_key(std::size_t bytes);
  std::span<std::byte> memory_of(std::uint32_t key) { return keys.at(key).memory; }
  void set_state(Qp& qp, QpState state);

 private:
  std::uint32_t next_key_ = 0x1100;
};

struct Sge {
  std::uint32_t key;
  std::uint32_t offset_bytes;  // into the key's memory
  std::uint32_t bytes;
};

// Values of the WQE's opcode byte, mlx5dv.h MLX5_OPCODE_*.
enum WqeOpcode : std::uint8_t {
  kNop = 0x00,
  kSendInvalidate = 0x01,
  kWrite = 0x08,
  kWriteImmediate = 0x09,
  kSend = 0x0a,
  kSendImmediate = 0x0b,
  kRead = 0x10,
  kCompareSwap = 0x11,
  kFetchAdd = 0x12,
  kUmr = 0x25,
  kMmo = 0x2f,
};

// Where a datagram goes.
struct Address {
  std::uint32_t qkey = 0x11111111;
  std::uint32_t qpn = 0;
  std::uint32_t ipv4 = 0;
  std::uint8_t sgid_index = 0, traffic_class = 0, hop_limit = 64;
  std::uint16_t source_port = 0xc123;
};

struct WorkRequest {
  std::uint8_t opcode = kSend;
  std::vector<Sge> list = {};
  std::optional<Bytes> inline_data = std::nullopt;
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_or_add = 0, compare = 0;
  std::uint32_t immediate = 0;
  std::uint8_t fm_ce_se = 0x08;  // always a CQE
  Address address = {};          // on a UD or DCI queue
  std::uint64_t access_key = 0;  // on a DCI queue
  std::uint16_t stream = 0;      // on a DCI queue
  std::uint8_t opmod = 0;
  std::uint32_t xrc_srqn = 0;  // on an XRC queue
  std::size_t body_bytes = 0;  // zeros behind the control segment of a UMR
};

// The program's side of a QP.
class Queue {
 public:
  struct Options {
    std::uint8_t log_sq_wqebbs = 6, log_rq_entries = 6;
    std::uint32_t rq_wqe_bytes = 64;
    std::uint32_t qpn = 0x100;
    Srq* srq = nullptr;
    std::uint32_t sq_page_offset_bytes = 0;
  };
  Queue(Device& device, const Options& options);

  Device& device;
  Qp* qp;
  Cq send_cq, recv_cq;

  // Posts and returns the WQE's counter. post() also rings the doorbell.
  std::uint16_t write_wqe(const WorkRequest& request);
  void ring();
  std::uint16_t post(const WorkRequest& request);
  void post_receive(const std::vector<Sge>& list);

  std::vector<Completion>& sends() { return device.completions[&send_cq]; }
  std::vector<Completion>& receives() { return device.completions[&recv_cq]; }
  std::string send_text();  // text() of the send completions, separated by "; "
  std::string receive_text();

  std::uint16_t sq_producer = 0, rq_producer = 0;
  std::span<std::byte> sq, rq, doorbell_record;

 private:
  Bytes encode(const WorkRequest& request) const;
};

// The program's side of an SRQ.
class SharedQueue {
 public:
  SharedQueue(Device& device, std::uint32_t srqn, std::uint8_t log_entries, std::uint32_t wqe_bytes = 64);
  void post_receive(const std::vector<Sge>& list);

  Srq* srq;
  Cq cq;  // where it reports if it is an XRC SRQ
  std::span<std::byte> ring, doorbell_record;

 private:
  Device& device_;
  std::uint16_t posted_ = 0;
};

struct PairOptions {
  QpType type = QpType::kRc;
  std::uint8_t log_mtu = 1;  // 256 bytes
  std::uint32_t psn_a = 100, psn_b = 0xabcdef;
  std::uint8_t retry_count = 7, rnr_retry = 7, ack_timeout = 14, min_rnr_timer = 12;
  std::uint32_t rd_atomic = 4;
  Queue::Options a = {}, b = {.qpn = 0x200};
};

// A pair of QPs on two devices; connected, unless they are UD, with the Q_Key 0x11111111.
class Pair {
 public:
  explicit Pair(const PairOptions& options = {});

  Wire wire;
  Device device_a, device_b;
  Queue a, b;
  std::uint64_t now_ns = 1'000'000'000;

  // Lets both sides work until nothing happens any more, moving the clock to the next deadline when both are idle, at
  // most `for_ns` further.
  void run(std::uint64_t for_ns = 10'000'000'000);
  // The same without moving the clock.
  void run_now();
};

}  // namespace softhca::hca::harness
