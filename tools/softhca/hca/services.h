// What the data path needs of the device around it: objects, keys, completion queues, events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/address_space.h"
#include "tools/softhca/hca/key_protection.h"
#include "tools/softhca/hca/key_update.h"
#include "tools/softhca/hca/objects.h"

namespace softhca::hca {

struct Frame;

// A receive queue that a frame goes to.
struct Delivery {
  Qp* queue = nullptr;
  std::uint32_t hash = 0;
  std::uint8_t hash_type = 0;
  std::uint32_t tag = 0;  // of the flow
};

// A key that does something with the bytes that pass through it.
struct FormattedKey {
  KeyProtection* protection;  // without a format if it has none yet and may not be used without
  std::uint64_t start = 0, memory_bytes = 0;
};

// Hca is the implementation; tests of the data path give their own. The HCA's lock is held around every call.
class Services {
 public:
  virtual AddressSpace& dma() = 0;
  // Null if there is no such object.
  virtual Qp* find_qp(std::uint32_t qpn) = 0;
  virtual Srq* find_srq(std::uint32_t srqn) = 0;

  // Who gets datagrams for the multicast address. Devices without groups need not implement it.
  virtual std::span<Qp* const> receivers_of(wire::Ipv4) { return {}; }

  // True if the entry of the port's GID table is one to send from.
  virtual bool has_gid(std::uint8_t index) = 0;

  // Translates [va, va+bytes) of `key` into DMA ranges, appended to `ranges`. bytes 0 checks nothing and gives nothing.
  // Keys with a format are refused.
  virtual MkeyFault resolve(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes,
                            Access access, std::vector<DmaRange>& ranges) = 0;

  // None if bytes pass the key as they are, or there is no such key. Devices without formats need not implement it.
  virtual std::optional<FormattedKey> formatted_key(std::uint32_t) { return std::nullopt; }
  // resolve() of a key with a format: positions are those in memory.
  virtual MkeyFault resolve_formatted(std::uint32_t, const KeyUser&, std::uint64_t, std::uint64_t, Access,
                                      std::vector<DmaRange>&) {
    return MkeyFault::kNoSuchKey;
  }
  // Null if there is no such object.
  virtual Psv* find_psv(std::uint32_t) { return nullptr; }
  virtual const Dek* find_dek(std::uint32_t) { return nullptr; }

  // Frees `key` as a SEND with Invalidate for `user` asks. False, and nothing changed, if it is not a key that it may
  // invalidate.
  virtual bool invalidate(const KeyUser& user, std::uint32_t key) = 0;

  // Changes a key as a UMR WQE of `user` asks. False, and nothing changed, if that is not possible.
  virtual bool update_key(const KeyUser& user, const KeyUpdate& update) = 0;

  // Gives a running value of signatures its start as a SET_PSV WQE of `user` asks. False if there is no such one.
  virtual bool set_psv(const KeyUser&, const PsvUpdate&) { return false; }

  // The receive queues that a frame goes to, appended to `deliveries`. `own_domain`: this device's transport domain
  // that sent it, none if another device did. Devices without raw packets need not implement it.
  virtual void steer(const Frame&, std::span<const std::byte>, std::optional<std::uint32_t> /*own_domain*/,
                     std::vector<Delivery>& /*deliveries*/) {}

  // Appends a CQE: `cqe64` is the 64-byte entry without its owner bit; `scatter` (0, 32 or 64 bytes) is data carried in
  // the CQE, placed and marked as its size asks. Arms and overruns are handled here: a CQ that is full goes to error
  // and raises a CQ error event; the QPs using it go to ERR (Transport::state_changed()) before the HCA's lock is
  // released, but not from within this call.
  virtual void complete(Cq& cq, std::span<const std::byte, 64> cqe64, std::span<const std::byte> scatter,
                        bool solicited) = 0;

  // Asynchronous event of an object: EQE type (wqe/eqe.h), and its number in the EQE's data.
  virtual void async_event(std::uint8_t event_type, std::uint32_t object_number, std::uint8_t syndrome) = 0;

  // A QP enters ERR by itself (a fatal completion error): the state changes and Transport::state_changed() is called,
  // from within this call. Does nothing to a QP that is in ERR already.
  virtual void fail_qp(Qp& qp) = 0;

 protected:
  ~Services() = default;
};

}  // namespace softhca::hca
