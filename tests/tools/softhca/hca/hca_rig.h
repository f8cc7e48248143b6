// A whole device in a test's memory, its port on an imagined wire, and its commands as mailboxes written out by hand
// (positions from <linux/mlx5/mlx5_ifc.h>).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "tests/tools/softhca/hca/data_path_harness.h"
#include "tools/softhca/hca/hca.h"

namespace softhca::hca::harness {

// Status of a command, mlx5_cmd_status and the PRM's table.
inline constexpr std::uint32_t kOk = 0x0, kBadOp = 0x2, kBadParam = 0x3, kBadRes = 0x5, kExceedsLimit = 0x8,
                               kBadResState = 0x9, kBadIndex = 0xa, kNoResources = 0xf, kBadQpState = 0x10,
                               kBadSizeOutstandingCqes = 0x40, kBadInputLength = 0x50, kBadOutputLength = 0x51;

// Values at byte offsets of a mailbox; the opcode is the high half of offset 0, uid the low half.
using Words = std::vector<std::pair<std::size_t, std::uint32_t>>;

inline constexpr std::size_t kPageAddresses = 0x110;
inline constexpr std::uint32_t kRigAddress = 0x7f000002;  // 127.0.0.2
inline constexpr std::uint32_t kRigVector = 3;

class HcaRig {
 public:
  explicit HcaRig(const Profile& profile = {})
      : port(wire, wire::Ipv4{kRigAddress}),
        hca(profile, memory, port, [this](std::uint32_t vector) { raised.push_back(vector); }) {}

  Memory memory;
  Wire wire;
  Port port;
  std::vector<std::uint32_t> raised;
  Hca hca;
  Bytes out;

  // The mailbox of a command: at least `bytes` long, page addresses at the end if there are any.
  static Bytes mailbox(std::size_t bytes, const Words& words, const std::vector<std::uint64_t>& pages = {}) {
    Bytes in(pages.empty() ? bytes : kPageAddresses + pages.size() * 8);
    for (const auto& [offset, value] : words) {
      put<std::uint32_t>(in, offset, value);
    }
    for (std::size_t i = 0; i < pages.size(); ++i) {
      put<std::uint64_t>(in, kPageAddresses + i * 8, pages[i]);
    }
    return in;
  }

  // Executes a command; its status. The output is in `out`.
  std::uint32_t execute(std::span<const std::byte> in, std::size_t out_bytes = 0x130) {
    out.assign(out_bytes, std::byte{0xee});
    hca.execute(in, out);
    return std::to_integer<std::uint32_t>(out[0]);
  }
  std::uint32_t run(std::size_t bytes, const Words& words, const std::vector<std::uint64_t>& pages = {},
                    std::size_t out_bytes = 0x130) {
    return execute(mailbox(bytes, words, pages), out_bytes);
  }
  // A command that has one number: DESTROY, DEALLOC, QUERY.
  std::uint32_t run_on(std::uint32_t opcode, std::uint32_t number, std::uint32_t uid = 0) {
    return run(16, {{0, opcode << 16 | uid}, {8, number}});
  }
  std::uint32_t number() const { return get<std::uint32_t>(out, 8) & 0xffffff; }
  std::uint32_t syndrome() const { return get<std::uint32_t>(out, 4); }

  // A page of the test's memory, page-aligned.
  std::span<std::byte> page() { return memory.allocate(4096); }
  static std::uint32_t high(std::uint64_t address) { return static_cast<std::uint32_t>(address >> 32); }
  static std::uint32_t low(std::uint64_t address) { return static_cast<std::uint32_t>(address); }

  // ---- Mailboxes of objects that can be created ----
  static Words eq_words(std::uint32_t uar, std::uint32_t log_entries, std::uint64_t events) {
    return {{0, 0x0301u << 16},
            {0x1c, log_entries << 24 | uar},
            {0x24, kRigVector},
            {0x58, high(events)},
            {0x5c, low(events)}};
  }
  // cqe_size: 0 is 64 bytes, 1 is 128.
  static Words cq_words(std::uint32_t uar, std::uint32_t eqn, std::uint32_t log_entries, std::uint64_t record,
                        std::uint32_t cqe_size = 0) {
    return {{0, 0x0400u << 16}, {0x10, cqe_size << 21}, {0x1c, log_entries << 24 | uar},
            {0x24, eqn},        {0x48, high(record)},   {0x4c, low(record)}};
  }
  // RC with 4 receive WQEs of 64 bytes and 2^log_sq WQEBBs.
  static Words qp_words(std::uint32_t pd, std::uint32_t uar, std::uint32_t cqn, std::uint64_t record,
                        std::uint32_t log_sq = 4) {
    return {{0, 0x0500u << 16},   {0x1c, pd},         {0x20, 2u << 19 | 2u << 16 | log_sq << 11},
            {0x24, uar},          {0x94, cqn},        {0xb4, cqn},
            {0xb8, high(record)}, {0xbc, low(record)}};
  }
  // All rights, virtual addresses that are the DMA addresses, key tag 0x5a.
  static Words mkey_words(std::uint32_t pd, std::uint64_t start, std::uint32_t bytes) {
    return {{0, 0x0200u << 16},  {0x10, 0x1fu << 10 | 1u << 8},
            {0x14, 0xffffff5a},  {0x1c, pd},
            {0x20, high(start)}, {0x24, low(start)},
            {0x2c, bytes},       {0x44, 1},
            {0x48, 12},          {0x60, 1}};
  }
  // Basic: 4 WQEs of 64 bytes.
  static Words srq_words(std::uint32_t pd, std::uint64_t record) {
    return {{0, 0x0700u << 16}, {0x10, 2u << 24},     {0x14, 2u << 24},
            {0x28, pd},         {0x38, high(record)}, {0x3c, low(record)}};
  }

  // ---- QP states ----
  std::uint32_t to_init(std::uint32_t qpn) {
    return run(272, {{0, 0x0502u << 16}, {8, qpn}, {0x54, 1u << 16}, {0xa8, 1u << 16 | 0xe000}});
  }
  // Connected to QP `remote` of this device itself; the GID table's entry 0 must be set.
  std::uint32_t to_rtr(std::uint32_t qpn, std::uint32_t remote) {
    return run(272, {{0, 0x0503u << 16},
                     {8, qpn},
                     {0x20, 5u << 29},
                     {0x2c, remote},
                     {0x48, 0xffff},
                     {0x4c, kRigAddress},
                     {0xa8, 2u << 21}});
  }
  std::uint32_t to_rts(std::uint32_t qpn) {
    return run(272, {{0, 0x0504u << 16}, {8, qpn}, {0x38, 14u << 27}, {0x88, 2u << 21 | 7u << 16 | 7u << 13}});
  }
  std::uint32_t set_gid() { return run(48, {{0, 0x0761u << 16}, {0x1c, kRigAddress}, {0x28, 2}}); }
};

// A device with a PD, a UAR page, an EQ of 8 entries and a CQ of 4 entries of 64 bytes. Objects' pages are spans of the
// test's memory; doorbell records lie 64 bytes apart in `records`, the CQ's first.
class ReadyRig : public HcaRig {
 public:
  explicit ReadyRig(std::uint64_t events = 1u << 4 /* CQ errors */) {
    pd = made(run_on(0x800, 0));
    uar = made(run_on(0x802, 0));
    eqn = made(run(0, eq_words(uar, 3, events), {address_of(eq)}));
    cqn = made(run(0, cq_words(uar, eqn, 2, record(0)), {address_of(cq)}));
  }

  std::span<std::byte> eq = page(), cq = page(), records = page(), queue = page();
  std::uint32_t pd = 0, uar = 0, eqn = 0, cqn = 0;

  std::uint64_t record(unsigned index) const { return address_of(records) + index * 64; }

  // The status. service_type: 0 RC, 1 UC, 2 UD.
  std::uint32_t create_qp(std::uint32_t service_type, std::uint32_t log_sq = 4) {
    Words words = qp_words(pd, uar, cqn, record(1), log_sq);
    words.emplace_back(0x18, service_type << 16);
    return run(0, words, {address_of(queue)});
  }

  // An RC QP in RTS, connected to itself: 0 if that fails. `extra` changes words of its CREATE_QP.
  std::uint32_t loop(std::span<std::byte> buffer, unsigned record_index, const Words& extra = {}) {
    Words words = qp_words(pd, uar, cqn, record(record_index));
    words.insert(words.end(), extra.begin(), extra.end());
    const std::uint32_t qpn = run(0, words, {address_of(buffer)}) == kOk ? number() : 0;
    const bool connected = set_gid() == kOk && to_init(qpn) == kOk && to_rtr(qpn, qpn) == kOk && to_rts(qpn) == kOk;
    return connected ? qpn : 0;
  }
  // The place of send WQE `index` in a QP's buffer: 4 receive WQEs of 64 bytes come before.
  static std::span<std::byte> send_wqe(std::span<std::byte> buffer, unsigned index) {
    return buffer.subspan(256 + index * 64, 64);
  }
  // Puts a NOP that asks for a CQE and tells the doorbell record; rings nothing.
  void put_nop(std::uint32_t qpn, std::span<std::byte> buffer, unsigned record_index, std::uint16_t index) {
    const auto wqe = send_wqe(buffer, index);
    put<std::uint32_t>(wqe, 0, std::uint32_t{index} << 8);
    put<std::uint32_t>(wqe, 4, qpn << 8 | 1);
    put<std::uint32_t>(wqe, 8, 0x08);
    put<std::uint32_t>(records, record_index * 64 + 4, index + 1u);
  }
  void poll_all() {
    for (int i = 0; i < 100 && hca.poll(); ++i) {
    }
  }

 private:
  std::uint32_t made(std::uint32_t status) const { return status == kOk ? number() : 0; }
};

}  // namespace softhca::hca::harness
