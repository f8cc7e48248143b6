// Two data paths at the mercy of the input: packets made up and spoiled, queues and doorbell records scribbled on,
// keys, states and time changed. They must stay sane: no request completes more often than there are WQEs for it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tests/tools/softhca/hca/data_path_fixture.h"
#include "tests/tools/softhca/hca/fuzz_input.h"
#include "tools/softhca/wire/packet.h"

namespace {

using namespace softhca;
using namespace softhca::hca;
using namespace softhca::hca::harness;

constexpr std::uint8_t kLogReceives = 4;  // enough to be taken out of order

class Run {
 public:
  Run(const std::uint8_t* data, std::size_t size)
      : input_(data, size), pair_(options()), at_a_(address_of(pair_.memory_a())), at_b_(pair_.address_b()) {
    const std::uint8_t choice = size == 0 ? std::uint8_t{0} : data[0];
    pair_.a.qp->out_of_order = pair_.b.qp->out_of_order = (choice & 0x80) != 0;
    pair_.a.qp->packet_credits = pair_.b.qp->packet_credits = (choice & 0x10) != 0;
  }

  void all() {
    for (unsigned step = 0; step < 200 && !input_.empty(); ++step) {
      one();
    }
    pair_.run(20'000'000);
    check(pair_.a);
    check(pair_.b);
  }

 private:
  PairOptions options() {
    const std::uint8_t choice = input_.byte();
    PairOptions options;
    options.type = (choice & 0x20) == 0 ? QpType::kRc : (choice & 0x40) == 0 ? QpType::kUc : QpType::kUd;
    options.psn_a = (choice & 1) != 0 ? 0xfffffe : 100;
    options.rnr_retry = (choice & 2) != 0 ? 7 : 1;
    options.rd_atomic = 1u << (choice >> 2 & 3);
    options.a.log_sq_wqebbs = options.b.log_sq_wqebbs = 4;
    options.a.log_rq_entries = options.b.log_rq_entries = kLogReceives;
    return options;
  }

  Queue& side() { return (input_.byte() & 1) != 0 ? pair_.b : pair_.a; }

  void one() {
    switch (input_.byte() % 10) {
      case 0:
      case 1:
        post(side());
        return;
      case 2:
        pair_.b.post_receive({{pair_.key_b, input_.byte() * 8u, input_.byte() * 4u}});
        return;
      case 3:
        pair_.device_a.transport.progress(pair_.now_ns);
        return;
      case 4:
        pair_.device_b.transport.progress(pair_.now_ns);
        return;
      case 5:
        pair_.now_ns += std::uint64_t{input_.byte()} * 100'000;
        return;
      case 6:
      case 7:
        inject(side());
        return;
      case 8:
        scribble(side());
        return;
      default:
        disturb(side());
    }
  }

  void post(Queue& queue) {
    constexpr std::uint8_t kOpcodes[] = {kNop,           kSendInvalidate, kWrite,       kWriteImmediate, kSend,
                                         kSendImmediate, kRead,           kCompareSwap, kFetchAdd,       0x25};
    const bool is_a = &queue == &pair_.a;
    WorkRequest request;
    request.opcode = kOpcodes[input_.byte() % std::size(kOpcodes)];
    request.fm_ce_se = input_.byte();
    const std::uint32_t bytes = request.opcode == kCompareSwap || request.opcode == kFetchAdd ? 8 : input_.byte() * 16;
    request.list = {{is_a ? pair_.key_a : pair_.key_b, input_.byte() * 8u, bytes}};
    request.remote_address = (is_a ? at_b_ : at_a_) + input_.byte() * 8u;
    request.rkey = is_a ? pair_.key_b : pair_.key_a;
    if (queue.qp->type == QpType::kUd) {
      const Queue& peer = is_a ? pair_.b : pair_.a;
      request.address.qpn = peer.qp->qpn;
      request.address.ipv4 = peer.device.port->address().value;
      request.address.qkey ^= input_.byte() & 0x80 ? 1u << 31 : 0;
      request.address.sgid_index = input_.byte() & 3;
    }
    queue.post(request);
  }

  // A packet to `queue`: close to what it may expect, its rest from the input.
  void inject(Queue& queue) {
    Bytes packet(12);
    const unsigned transport = queue.qp->type == QpType::kUc ? 0x20 : queue.qp->type == QpType::kUd ? 0x60 : 0;
    packet[0] = static_cast<std::byte>(input_.byte() % 0x20 | transport);
    packet[1] = static_cast<std::byte>(input_.byte());
    put<std::uint16_t>(packet, 2, 0xffff);
    put<std::uint32_t>(packet, 4, queue.qp->qpn);
    const bool is_a = &queue == &pair_.a;
    const std::uint32_t base = (packet[0] >= std::byte{0x0d} && packet[0] <= std::byte{0x12}) == is_a
                                   ? pair_.a.qp->initial_send_psn
                                   : pair_.b.qp->initial_send_psn;
    put<std::uint32_t>(packet, 8, (base + input_.byte() - 8) & 0xffffff);
    if (queue.qp->out_of_order && (input_.byte() & 7) != 0) {
      packet[1] = (packet[1] & std::byte{0xf0}) | std::byte{wire::kOutOfOrderVersion};
    }
    if (queue.qp->type == QpType::kUd) {
      packet.resize(20);
      put<std::uint32_t>(packet, 12, Address{}.qkey ^ (input_.byte() & 1));
    }
    const Bytes rest = input_.bytes(input_.byte());
    packet.insert(packet.end(), rest.begin(), rest.end());
    packet.resize((packet.size() + 3) / 4 * 4);
    Device& device = queue.device;
    const Device& peer = is_a ? pair_.device_b : pair_.device_a;
    device.port->arrive(peer.port->address(), packet);
  }

  void scribble(Queue& queue) {
    const std::span<std::byte> targets[] = {queue.sq, queue.rq, queue.doorbell_record};
    const std::span<std::byte> target = targets[input_.byte() % 3];
    target[input_.number(3) % target.size()] = static_cast<std::byte>(input_.byte());
    queue.device.transport.doorbell(*queue.qp);
  }

  void disturb(Queue& queue) {
    Device& device = queue.device;
    switch (input_.byte() % 5) {
      case 0:
        device.keys.erase(&queue == &pair_.a ? pair_.key_a : pair_.key_b);
        device.add_key(64);
        return;
      case 1:
        if (queue.qp->state == QpState::kRts) {
          device.set_state(*queue.qp, QpState::kSqDrained);
        }
        return;
      case 2:
        if (queue.qp->state == QpState::kSqDrained || queue.qp->state == QpState::kSqEr) {
          device.set_state(*queue.qp, QpState::kRts);
        }
        return;
      case 3:
        device.fail_qp(*queue.qp);
        return;
      default:
        queue.qp->max_target_rd_atomic = input_.byte() % 4;
    }
  }

  void check(Queue& queue) {
    // A scribbled doorbell record can offer the ring's 16 WQEBBs and receive WQEs anew each time it is looked at.
    if (queue.sends().size() > 16 * 210 + 200 || queue.receives().size() > (500u << kLogReceives) + 200) {
      std::abort();
    }
  }

  FuzzInput input_;
  Fixture pair_;
  std::uint64_t at_a_, at_b_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Run(data, size).all();
  return 0;
}
