// A device at the mercy of the input: commands made up, or right but for a few bytes, doorbells anywhere in its UAR
// pages, queues and doorbell records scribbled on, packets. It must stay sane: a command that is refused gives nothing
// but its reason, a new object has a number that is free, and what is destroyed was there.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <set>
#include <span>
#include <vector>

#include "tests/tools/softhca/hca/fuzz_input.h"
#include "tests/tools/softhca/hca/hca_rig.h"

namespace {

using namespace softhca;
using namespace softhca::hca;
using namespace softhca::hca::harness;

// Kinds of objects; SRQs of all sorts share their numbers.
enum Kind { kUctx, kPd, kXrcd, kDomain, kUar, kMkey, kEq, kCq, kSrq, kQp, kUmem, kCounter, kKinds };

struct Creator {
  std::uint32_t opcode;
  Kind kind;
};
constexpr Creator kCreators[] = {{0xa04, kUctx}, {0x800, kPd}, {0x80e, kXrcd}, {0x816, kDomain}, {0x802, kUar},
                                 {0x200, kMkey}, {0x301, kEq}, {0x400, kCq},   {0x700, kSrq},    {0x705, kSrq},
                                 {0x90c, kSrq},  {0x500, kQp}, {0xa08, kUmem}, {0x939, kCounter}};
constexpr Creator kDestroyers[] = {{0xa06, kUctx}, {0x801, kPd}, {0x80f, kXrcd}, {0x817, kDomain}, {0x803, kUar},
                                   {0x202, kMkey}, {0x302, kEq}, {0x401, kCq},   {0x701, kSrq},    {0x706, kSrq},
                                   {0x90e, kSrq},  {0x501, kQp}, {0xa0a, kUmem}, {0x93a, kCounter}};
// Commands on an object that is there.
constexpr Creator kOthers[] = {
    {0x201, kMkey},    {0x303, kEq},  {0x402, kCq},  {0x403, kCq}, {0x702, kSrq}, {0x703, kSrq}, {0x707, kSrq},
    {0x708, kSrq},     {0x90d, kSrq}, {0x90f, kSrq}, {0x50b, kQp}, {0x502, kQp},  {0x503, kQp},  {0x504, kQp},
    {0x505, kQp},      {0x506, kQp},  {0x507, kQp},  {0x50a, kQp}, {0x50c, kQp},  {0x50e, kQp},  {0x100, kPd},
    {0x101, kPd},      {0x203, kPd},  {0x760, kPd},  {0x761, kPd}, {0x10d, kPd},  {0x770, kPd},  {0x773, kPd},
    {0x93b, kCounter}, {0x806, kQp},  {0x807, kQp},  {0x205, kPd}, {0x206, kPd}};

// Few numbers of everything, so that they run out.
Profile small_profile() {
  Profile profile;
  profile.log_max_pd = profile.log_max_xrcd = profile.log_max_transport_domain = profile.log_max_uctx = 3;
  profile.log_max_eq = 3;
  profile.log_max_qp = 8;
  profile.log_max_cq = 7;
  profile.log_max_srq = 6;
  profile.log_max_mkey = 9;
  profile.uar_pages = 8;
  profile.gid_table_entries = 8;
  return profile;
}

class Run {
 public:
  Run(const std::uint8_t* data, std::size_t size) : input_(data, size), rig_(small_profile()) {
    for (auto& page : pages_) {
      page = rig_.page();
    }
  }

  void all() {
    if (input_.byte() % 8 != 0) {
      prepare();
    }
    for (unsigned step = 0; step < 200 && !input_.empty(); ++step) {
      one();
    }
    rig_.hca.poll();
    drop_everything();
  }

 private:
  std::uint64_t page_address(unsigned page) const { return address_of(pages_[page % pages_.size()]); }

  // What mlx5_ib has before an application comes, and two connected QPs.
  void prepare() {
    execute(HcaRig::mailbox(16, {{0, 0x800u << 16}}), 0x130);
    execute(HcaRig::mailbox(16, {{0, 0x802u << 16}}), 0x130);
    execute(HcaRig::mailbox(0, HcaRig::eq_words(1, 3, ~std::uint64_t{0}), {page_address(0)}), 0x130);
    execute(HcaRig::mailbox(0, HcaRig::cq_words(1, 1, 4, page_address(7)), {page_address(1)}), 0x130);
    execute(HcaRig::mailbox(0, HcaRig::mkey_words(1, page_address(6), 4096), {page_address(6), 0}), 0x130);
    rig_.set_gid();
    for (unsigned i = 0; i < 2; ++i) {
      const std::uint32_t qpn = 0x80 + i;
      execute(HcaRig::mailbox(0, HcaRig::qp_words(1, 1, 0x40, page_address(7) + 64 * (i + 1)), {page_address(2 + i)}),
              0x130);
      rig_.to_init(qpn);
      rig_.to_rtr(qpn, 0x80 + (1 - i));
      rig_.to_rts(qpn);
    }
  }

  void one() {
    switch (input_.byte() % 12) {
      case 0: {
        Bytes in(input_.byte() * 2u);
        std::ranges::generate(in, [&] { return static_cast<std::byte>(input_.byte()); });
        execute(in, input_.byte());
        return;
      }
      case 1:
      case 2:
      case 3:
        create();
        return;
      case 4:
        command(kDestroyers[input_.byte() % std::size(kDestroyers)]);
        return;
      case 5:
      case 6:
        command(kOthers[input_.byte() % std::size(kOthers)]);
        return;
      case 7:
        store_doorbell();
        return;
      case 8:
        rig_.hca.ring(input_.byte() % 10, input_.byte() * 16u,
                      std::uint64_t{static_cast<std::uint32_t>(input_.number(4))} << 32 |
                          static_cast<std::uint32_t>(input_.number(4)));
        return;
      case 9:
        scribble();
        return;
      case 10:
        send();
        return;
      default:
        rig_.hca.poll();
        rig_.hca.doorbell_waits();
        rig_.hca.next_deadline_ns();
    }
  }

  // ---- Commands ----

  std::uint32_t some_number(Kind kind) {
    const std::set<std::uint32_t>& there = live_[kind];
    const std::uint8_t choice = input_.byte();
    if (there.empty() || choice >= 250) {
      return static_cast<std::uint32_t>(input_.number(4)) & 0xffffff;
    }
    return *std::next(there.begin(), choice % static_cast<std::ptrdiff_t>(there.size()));
  }

  // Where a mailbox names the record's umem and the place in it, and the buffer's place and umem.
  void put_into_umems(Words& words, const std::array<std::size_t, 4>& at) {
    words.insert(words.end(), {{at[0], some_number(kUmem)},
                               {at[1], input_.byte() * 8u},
                               {at[2], input_.byte() * 64u},
                               {at[3], some_number(kUmem)}});
  }

  Words words_for(std::uint32_t opcode) {
    const std::uint64_t record = page_address(7) + input_.byte() * 8u;
    switch (opcode) {
      case 0x200:
        return HcaRig::mkey_words(some_number(kPd), page_address(input_.byte()) + input_.byte(), input_.byte() * 16);
      case 0x301:
        return HcaRig::eq_words(some_number(kUar), input_.byte() % 8, ~std::uint64_t{0});
      case 0x400: {
        Words words =
            HcaRig::cq_words(some_number(kUar), some_number(kEq), input_.byte() % 8, record, input_.byte() % 2);
        if (input_.byte() % 2 != 0) {
          put_into_umems(words, {0x14, 0x4c, 0x54, 0x58});
          words.insert(words.end(), {{0x10, 1u << 25}, {0x48, 0}, {0x5c, 1u << 31}});
        }
        return words;
      }
      case 0x500: {
        Words words = HcaRig::qp_words(some_number(kPd), some_number(kUar), some_number(kCq), record);
        words.emplace_back(0x18, input_.byte() % 4u << 16);
        if (input_.byte() % 2 != 0) {
          words.emplace_back(0xc4, 1u << 24 | some_number(kSrq));
        }
        words.emplace_back(0xb0, some_number(kXrcd));
        if (input_.byte() % 2 != 0) {
          put_into_umems(words, {0xfc, 0xbc, 0x104, 0x108});
          words.insert(words.end(), {{0xe8, 1u << 28}, {0xb8, 0}, {0x10c, 1u << 31}});
        }
        return words;
      }
      case 0xa08:
        return {{0, opcode << 16 | (some_number(kUctx) & 0xffff)},
                {0x24, input_.byte() * 64u},
                {0x2c, input_.byte() % 6u},
                {0x34, HcaRig::low(page_address(input_.byte())) | 3},
                {0x30, HcaRig::high(page_address(0))},
                {0x38, HcaRig::high(page_address(0))},
                {0x3c, HcaRig::low(page_address(input_.byte())) | 3}};
      case 0x700:
        return HcaRig::srq_words(some_number(kPd), record);
      case 0x705: {
        Words words = HcaRig::srq_words(some_number(kPd), record);
        words[0].second = opcode << 16;
        words.emplace_back(0x14, 2u << 24 | some_number(kXrcd));
        words.emplace_back(0x18, some_number(kCq));
        return words;
      }
      case 0x90c:
        return {{0, opcode << 16},
                {0x20, 1u << 20},
                {0x50, 0},
                {0x58, some_number(kPd)},
                {0x60, HcaRig::high(record)},
                {0x64, HcaRig::low(record)},
                {0x70, 6u << 16 | 2}};
      default:
        return {{0, opcode << 16}};
    }
  }

  void create() {
    const Creator& creator = kCreators[input_.byte() % std::size(kCreators)];
    std::vector<std::uint64_t> pages;
    for (unsigned i = input_.byte() % 4 + 1; i > 0; --i) {
      pages.push_back(page_address(input_.byte()));
    }
    Bytes in = HcaRig::mailbox(0, words_for(creator.opcode), pages);
    finish(in);
  }

  void command(const Creator& known) {
    Bytes in = HcaRig::mailbox(272, {{0, known.opcode << 16}, {8, some_number(known.kind)}});
    switch (known.opcode) {
      case 0x502:
        put<std::uint32_t>(in, 0x54, 1u << 16);
        break;
      case 0x503:
        put<std::uint32_t>(in, 0x20, 5u << 29);
        put<std::uint32_t>(in, 0x2c, some_number(kQp));
        put<std::uint32_t>(in, 0x48, 0xffff);
        put<std::uint32_t>(in, 0x4c, kRigAddress);
        break;
      case 0x403: {  // RESIZE_CQ
        put<std::uint32_t>(in, 4, input_.byte() % 2);
        put<std::uint32_t>(in, 0xc, input_.byte());
        put<std::uint32_t>(in, 0x1c, input_.byte() % 8u << 24);
        Bytes page(8);
        put<std::uint64_t>(page, 0, page_address(input_.byte()));
        in.insert(in.end(), page.begin(), page.end());
        break;
      }
      case 0x93b:
        put<std::uint32_t>(in, 0x1c, some_number(known.kind));
        break;
      case 0x100:
        put<std::uint32_t>(in, 4, input_.byte());
        put<std::uint32_t>(in, 8, 0);
        break;
      default:
        break;
    }
    finish(in);
  }

  // A few bytes of the mailbox from the input, its end perhaps cut off, and out with it.
  void finish(Bytes& in) {
    const std::uint8_t choice = input_.byte();
    for (unsigned i = choice % 4; i > 0; --i) {
      const std::size_t at = (input_.byte() << 8 | input_.byte()) % in.size();
      in[at] = static_cast<std::byte>(input_.byte());
    }
    if (choice >= 0xf0) {
      in.resize(input_.byte() * 2u);
    } else if (choice >= 0xe0) {
      put<std::uint16_t>(in, 2, static_cast<std::uint16_t>(some_number(kUctx)));
    }
    execute(in, choice % 16 == 15 ? input_.byte() : 0x1010);
  }

  void execute(const Bytes& in, std::size_t out_bytes) {
    const std::uint32_t opcode = in.size() >= 4 ? get<std::uint16_t>(in, 0) : 0;
    Bytes& out = rig_.out;
    out.assign(out_bytes, std::byte{0xee});
    rig_.hca.execute(in, out);
    if (out.empty()) {
      return;
    }
    if (out[0] != std::byte{0}) {
      require(out.size() < 8 || get<std::uint32_t>(out, 4) != 0);
      require(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(out.size(), 8)), out.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
      return;
    }
    for (const Creator& creator : kCreators) {
      if (creator.opcode == opcode) {
        require(live_[creator.kind].insert(get<std::uint32_t>(out, 8) & 0xffffff).second);
      }
    }
    for (const Creator& destroyer : kDestroyers) {
      if (destroyer.opcode == opcode) {
        const std::uint32_t mask = destroyer.kind == kEq ? 0xff : 0xffffff;
        require(live_[destroyer.kind].erase(get<std::uint32_t>(in, 8) & mask) == 1);
      }
    }
  }

  // Whatever the input has done, everything can be taken down in the right order.
  void drop_everything() {
    constexpr unsigned kOrder[] = {11, 8, 9, 10, 7, 6, 5, 12, 13, 4, 3, 2, 1, 0};
    for (const unsigned i : kOrder) {
      const Creator& destroyer = kDestroyers[i];
      const std::set<std::uint32_t> there = live_[destroyer.kind];
      for (const std::uint32_t number : there) {
        execute(HcaRig::mailbox(16, {{0, destroyer.opcode << 16}, {8, number}}), 16);
      }
    }
    for (const auto& there : live_) {
      require(there.empty());
    }
  }

  // ---- Data ----

  void store_doorbell() {
    constexpr std::uint32_t kOffsets[] = {0x20, 0x40, 0x48, 0x800, 0x900, 0xa00, 0xb00};
    const std::span<std::byte> page = rig_.hca.uar(some_number(kUar));
    if (page.empty()) {
      return;
    }
    const std::uint8_t choice = input_.byte();
    const std::uint32_t offset = choice >= 0xe0 ? input_.byte() * 16u : kOffsets[choice % std::size(kOffsets)];
    put<std::uint32_t>(page, offset, static_cast<std::uint32_t>(input_.number(4)));
    put<std::uint32_t>(page, offset + 4, some_number(kCq));
  }

  void scribble() {
    const std::span<std::byte> page = pages_[input_.byte() % pages_.size()];
    const std::size_t at = (input_.byte() << 8 | input_.byte()) % page.size();
    for (std::size_t i = 0, count = input_.byte() % 16; i <= count; ++i) {
      page[(at + i) % page.size()] = static_cast<std::byte>(input_.byte());
    }
  }

  // A WQE of one of the connected QPs, and its doorbell record.
  void send() {
    constexpr std::uint8_t kOpcodes[] = {kNop, kSend, kSendImmediate, kWrite, kWriteImmediate, kRead, kFetchAdd};
    const unsigned which = input_.byte() % 2;
    const std::span<std::byte> queue = pages_[2 + which];
    const std::span<std::byte> record = pages_[7].subspan(64 * (which + 1), 8);
    std::uint16_t& producer = posted_[which];
    const auto wqe = queue.subspan(4 * 64 + producer % 16 * 64, 64);
    const std::uint8_t opcode = kOpcodes[input_.byte() % std::size(kOpcodes)];
    const bool has_remote = opcode != kNop && opcode != kSend && opcode != kSendImmediate;
    put<std::uint32_t>(wqe, 0, std::uint32_t{producer} << 8 | opcode);
    put<std::uint32_t>(wqe, 4, (0x80 + which) << 8 | (has_remote ? 3 : 2));
    put<std::uint32_t>(wqe, 8, input_.byte());
    std::size_t at = 16;
    if (has_remote) {
      put<std::uint64_t>(wqe, at, page_address(6) + input_.byte());
      put<std::uint32_t>(wqe, at + 8, 0x1005a);
      at += 16;
    }
    put<std::uint32_t>(wqe, at, input_.byte() * 8u);
    put<std::uint32_t>(wqe, at + 4, 0x1005a);
    put<std::uint64_t>(wqe, at + 8, page_address(6) + input_.byte());
    ++producer;
    put<std::uint32_t>(record, 0, input_.byte() % 5);
    put<std::uint32_t>(record, 4, producer);
    rig_.hca.ring(1, 0x800, 1);
  }

  static void require(bool holds) {
    if (!holds) {
      std::abort();
    }
  }

  FuzzInput input_;
  HcaRig rig_;
  std::array<std::span<std::byte>, 8> pages_;  // 7: doorbell records
  std::array<std::set<std::uint32_t>, kKinds> live_;
  std::array<std::uint16_t, 2> posted_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Run(data, size).all();
  return 0;
}
