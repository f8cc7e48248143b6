// What programs create through a file, and the handles that name it.
#pragma once

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tools/softhca/kernel/event_hub.h"
#include "tools/softhca/kernel/qp_transition.h"
#include "tools/softhca/kernel/raw_queues.h"
#include "tools/softhca/kernel/rdma_device.h"
#include "wqe/prm/dct.h"
#include "wqe/prm/qp.h"

namespace softhca::kernel {

// One object. While others use it (a QP its CQs), it cannot be destroyed.
struct Object {
  explicit Object(std::uint16_t object_type, std::uint16_t devx_uid) : type(object_type), uid(devx_uid) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() { use_only(nullptr); }

  // Takes the object from the device. Nonzero (errno): it still exists there.
  virtual int release(RdmaDevice& device) = 0;

  // The other object lives at least as long as this one. Null is ignored.
  void use(Object* other) {
    if (other != nullptr) {
      ++other->users;
      uses_.push_back(other);
    }
  }

  // Uses this one instead of all before; null: none.
  void use_only(Object* other) {
    for (Object* const used : uses_) {
      --used->users;
    }
    uses_.clear();
    use(other);
  }

  const std::uint16_t type;  // UVERBS_OBJECT_* or MLX5_IB_OBJECT_*
  const std::uint16_t uid;   // DEVX user of the context
  std::uint32_t handle = 0;
  std::uint32_t users = 0;
  EventCounts reported;  // valid after release()

 private:
  std::vector<Object*> uses_;
};

// Objects that are no more than a number with a command that frees it.
struct Numbered : Object {
  Numbered(std::uint16_t object_type, std::uint16_t devx_uid, std::uint32_t object_number,
           umlx5::wqe::prm::Opcode free_opcode)
      : Object(object_type, devx_uid), number(object_number), opcode_of_release(free_opcode) {}
  int release(RdmaDevice& device) override {
    return command_on_object(device.firmware(), opcode_of_release, uid, number);
  }
  std::uint32_t number;
  umlx5::wqe::prm::Opcode opcode_of_release;
};

struct Pd final : Numbered {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_PD;
  Pd(std::uint16_t devx_uid, std::uint32_t pdn) : Numbered(kType, devx_uid, pdn, umlx5::wqe::prm::Opcode::kDeallocPd) {}
};

// One opening of an XRC domain.
struct Xrcd final : Object {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_XRCD;
  Xrcd(std::uint16_t devx_uid, std::shared_ptr<XrcDomain> opened)
      : Object(kType, devx_uid), domain(std::move(opened)) {}
  int release(RdmaDevice& device) override;
  std::shared_ptr<XrcDomain> domain;
};

struct Uar final : Numbered {
  static constexpr std::uint16_t kType = MLX5_IB_OBJECT_UAR;
  Uar(std::uint16_t devx_uid, std::uint32_t index)
      : Numbered(kType, devx_uid, index, umlx5::wqe::prm::Opcode::kDeallocUar) {}
};

// Memory that objects which programs make by commands lie in.
struct Umem final : Numbered {
  static constexpr std::uint16_t kType = MLX5_IB_OBJECT_DEVX_UMEM;
  Umem(std::uint16_t devx_uid, std::uint32_t umem_id)
      : Numbered(kType, devx_uid, umem_id, umlx5::wqe::prm::Opcode::kDestroyUmem) {}
};

struct Mr final : Object {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_MR;
  explicit Mr(std::uint16_t devx_uid) : Object(kType, devx_uid) {}
  int release(RdmaDevice& device) override {
    return command_on_object(device.firmware(), umlx5::wqe::prm::Opcode::kDestroyMkey, uid, key >> 8);
  }
  std::uint32_t key = 0;  // lkey and rkey
  std::uint64_t start = 0, length = 0, iova = 0;
  std::uint32_t access = 0;
  Pd* pd = nullptr;
  bool on_device = false;  // of memory on the device
};

// Memory on the device.
struct Dm final : Object {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_DM;
  static constexpr std::uint64_t kPageBytes = 4096;
  Dm(std::uint16_t devx_uid, std::uint64_t bar_address, std::uint32_t bytes, std::uint64_t asked_bytes)
      : Object(kType, devx_uid), address(bar_address), memic_bytes(bytes), length(asked_bytes) {}
  int release(RdmaDevice& device) override;
  std::uint64_t first_page() const { return address & ~(kPageBytes - 1); }
  std::uint64_t start_offset() const { return address & (kPageBytes - 1); }
  // What mmap() is asked for: the page's number in the device's memory, which no two objects share.
  std::uint16_t page_index(const Capabilities& caps) const {
    return static_cast<std::uint16_t>((first_page() - caps.memic_start) / kPageBytes);
  }
  std::uint64_t mapped_bytes() const { return (start_offset() + memic_bytes + kPageBytes - 1) & ~(kPageBytes - 1); }
  const std::uint64_t address;      // in the BAR
  const std::uint32_t memic_bytes;  // as the device has it
  const std::uint64_t length;       // as the program has it
};

// A memory window: a key that work requests bind to a part of a region.
struct Mw final : Object {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_MW;
  Mw(std::uint16_t devx_uid, std::uint32_t window_key) : Object(kType, devx_uid), key(window_key) {}
  int release(RdmaDevice& device) override {
    return command_on_object(device.firmware(), umlx5::wqe::prm::Opcode::kDestroyMkey, uid, key >> 8);
  }
  const std::uint32_t key;
};

struct Ah final : Object {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_AH;
  explicit Ah(std::uint16_t devx_uid) : Object(kType, devx_uid) {}
  int release(RdmaDevice&) override { return 0; }  // the device knows no address handles
};

struct Cq final : Numbered {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_CQ;
  Cq(std::uint16_t devx_uid, std::uint32_t cqn) : Numbered(kType, devx_uid, cqn, umlx5::wqe::prm::Opcode::kDestroyCq) {}
  int release(RdmaDevice& device) override {
    if (const int error = Numbered::release(device); error != 0) {
      return error;
    }
    reported = device.events().remove(EventSource::kCq, number);
    return 0;
  }
  std::uint32_t cqe = 0;  // usable entries, a power of two less one
  std::uint32_t cqe_bytes = 64;
};

struct Srq final : Numbered {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_SRQ;
  Srq(std::uint16_t devx_uid, std::uint32_t srqn, umlx5::wqe::prm::Opcode free_opcode)
      : Numbered(kType, devx_uid, srqn, free_opcode) {}
  int release(RdmaDevice& device) override {
    if (const int error = Numbered::release(device); error != 0) {
      return error;
    }
    reported = device.events().remove(EventSource::kSrq, number);
    return 0;
  }
  bool is_xrc = false;
  std::uint32_t entries = 0;  // a power of two; one less may be posted
  std::uint32_t max_sge = 0;
};

// QPC.st of a QP type of the verbs that a QP context has.
constexpr umlx5::wqe::prm::ServiceType service_of(std::uint32_t qp_type) {
  using umlx5::wqe::prm::ServiceType;
  switch (qp_type) {
    case IB_UVERBS_QPT_RC:
      return ServiceType::kRc;
    case IB_UVERBS_QPT_UC:
      return ServiceType::kUc;
    case IB_UVERBS_QPT_XRC_INI:
    case IB_UVERBS_QPT_XRC_TGT:
      return ServiceType::kXrc;
    case kQptDci:
      return ServiceType::kDci;
    default:
      return ServiceType::kUd;
  }
}

// A multicast group that a QP is in, as the program has named it.
struct McastGroup {
  Gid gid{};
  std::uint16_t lid = 0;
  friend bool operator==(const McastGroup&, const McastGroup&) = default;
};

// What all openings of an XRC target have in common; other queue pairs have one opening each.
struct QpCommon {
  State state = State::kReset;
  std::uint8_t port = 0;
  std::uint32_t access = 0;             // last access flags
  std::uint8_t max_dest_rd_atomic = 0;  // last value
};

struct Qp final : Numbered {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_QP;
  Qp(std::uint16_t devx_uid, std::uint32_t qpn) : Numbered(kType, devx_uid, qpn, umlx5::wqe::prm::Opcode::kDestroyQp) {}
  int release(RdmaDevice& device) override;
  int leave_groups(RdmaDevice& device);  // 0, or errno with some left
  std::uint8_t qp_type = 0;              // ib_uverbs_qp_type
  std::shared_ptr<QpCommon> common = std::make_shared<QpCommon>();
  std::shared_ptr<XrcDomain> domain;  // of an XRC target
  std::uint64_t event_tag = 0;
  bool signal_all = false;
  std::uint32_t rq_entries = 0, rq_max_sge = 0;
  bool out_of_order = false;            // asked for at a modify command
  std::uint32_t pdn = 0, send_cqn = 0, receive_cqn = 0;
  std::uint64_t doorbell_record = 0;
  int release_raw(RdmaDevice& device);
  RawQueues raw;        // RAW_PACKET: the device knows these, and no QP
  bool is_rss = false;  // of them the TIR alone
  // Of a DCT, which the device gets to know, and which has a number, from RTR on.
  umlx5::wqe::prm::Dctc dctc;
  EventSink dct_events;
  std::vector<McastGroup> groups;
};

// A receive work queue.
struct Wq final : Numbered {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_WQ;
  Wq(std::uint16_t devx_uid, std::uint32_t rqn) : Numbered(kType, devx_uid, rqn, umlx5::wqe::prm::Opcode::kDestroyRq) {}
  int release(RdmaDevice& device) override;
  std::uint8_t state = 0;  // prm::kQueueReset ..
};

struct RwqIndTable final : Numbered {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_RWQ_IND_TBL;
  RwqIndTable(std::uint16_t devx_uid, std::uint32_t rqtn, std::uint8_t log_table_entries)
      : Numbered(kType, devx_uid, rqtn, umlx5::wqe::prm::Opcode::kDestroyRqt), log_entries(log_table_entries) {}
  const std::uint8_t log_entries;
};

struct Flow final : Object {
  static constexpr std::uint16_t kType = UVERBS_OBJECT_FLOW;
  Flow(std::uint16_t devx_uid, std::uint32_t rule_number) : Object(kType, devx_uid), rule(rule_number) {}
  int release(RdmaDevice& device) override;
  const std::uint32_t rule;
};

}  // namespace softhca::kernel
