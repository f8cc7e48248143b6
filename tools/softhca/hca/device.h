// The inside of the soft HCA: its tables and the work on them. hca.cc holds the lock around all of it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tools/softhca/hca/address_space.h"
#include "tools/softhca/hca/device_memory.h"
#include "tools/softhca/hca/mkey.h"
#include "tools/softhca/hca/multicast.h"
#include "tools/softhca/hca/nullable_memory.h"
#include "tools/softhca/hca/object_table.h"
#include "tools/softhca/hca/objects.h"
#include "tools/softhca/hca/profile.h"
#include "tools/softhca/hca/services.h"
#include "tools/softhca/hca/steering.h"
#include "tools/softhca/hca/transport.h"
#include "tools/softhca/hca/uar.h"
#include "tools/softhca/wire/endpoint.h"
#include "wqe/eqe.h"
#include "wqe/prm/roce.h"

namespace umlx5::wqe::prm {
struct Qpc;
}

namespace softhca::hca {

// A PD, XRC domain, transport domain or user context: a number that others refer to.
struct Domain {
  std::uint32_t uid = 0;
  std::uint32_t users = 0;
};

// A QP and the context that its commands have built, for QUERY_QP.
struct QpObject : Qp {
  std::unique_ptr<umlx5::wqe::prm::Qpc> context;
  QpObject();
  ~QpObject();  // in commands_qp.cc
};

struct Device {
  Device(const Profile& device_profile, AddressSpace& memory, wire::Endpoint& endpoint, Services& services);

  const Profile profile;
  DeviceMemory memic;
  NullableMemory dma;
  wire::Endpoint& port;

  ObjectTable<Domain> user_contexts, pds, xrcds, transport_domains;
  UarPages uars;
  ObjectTable<Umem> umems;  // outlives what lies in them
  ObjectTable<Mkey> mkeys;
  ObjectTable<Psv> psvs;
  ObjectTable<Dek> deks;
  ObjectTable<CryptoLogin> logins;
  ObjectTable<Eq> eqs;
  ObjectTable<Cq> cqs;
  ObjectTable<Srq> srqs;      // basic SRQs, XRC SRQs and RMPs: one number space
  ObjectTable<QpObject> qps;  // and the send and receive queues of raw packets: one number space
  Steering steering;
  std::vector<umlx5::wqe::prm::RoceAddress> gids;
  MulticastGroups groups;
  Transport transport;

  // Interrupt vectors to raise when the lock is released.
  std::vector<std::uint32_t> raised;
  // CQs with completions of this pass that are not written yet.
  std::vector<std::uint32_t> gathering_cqs;
  // CQs that have gone to error and whose QPs have yet to follow.
  std::vector<std::uint32_t> failed_cqs;
};

// ---- Completion queues, cq.cc ----

// See Services::complete().
void complete(Device& device, Cq& cq, std::span<const std::byte, 64> cqe64, std::span<const std::byte> scatter,
              bool solicited);
// Writes the completions that CQs with compression have gathered in this pass.
void write_gathered_cqes(Device& device);
// Takes an arm word (arm_word of Cq), as the doorbell or the doorbell record carries it.
void arm(Device& device, Cq& cq, std::uint32_t arm_word);
// Entries written and not yet consumed, by the consumer index in the doorbell record.
std::uint32_t waiting_cqes(Device& device, Cq& cq);
// Writes the RESIZE entry at the old buffer's end. False, and nothing written, if there is no free entry.
bool write_resize_cqe(Device& device, Cq& cq);
// Moves the QPs of failed CQs to ERR.
void settle_failed_cqs(Device& device);

// ---- Event queues, eq.cc ----

// Appends an event; what an overrun queue loses is lost.
void post_event(Device& device, Eq& eq, const umlx5::wqe::Eqe& eqe);
// See Services::async_event(): to every EQ that subscribed the type.
void post_async_event(Device& device, umlx5::wqe::EventType type, std::uint32_t number, std::uint8_t syndrome);
// Takes an EQ doorbell: EQN 31:24, consumer index 23:0.
void eq_doorbell(Device& device, std::uint32_t word, bool arm);

// ---- Queue pairs ----

// Changes the state, and tells the transport; in modify_qp.cc.
void enter_state(Device& device, QpObject& qp, QpState to);
// See Services::fail_qp().
void fail_qp(Device& device, QpObject& qp);

}  // namespace softhca::hca
