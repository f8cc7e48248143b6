// An open device: the root of everything that is made on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/fork_guard.h"
#include "driver/resource.h"
#include "driver/types.h"
#include "uapi/channel.h"
#include "uapi/commands.h"
#include "uapi/context.h"
#include "uapi/device_query.h"
#include "uapi/error.h"
#include "uapi/uar.h"

namespace umlx5 {

class Pd;
class Cq;
class CompletionChannel;
class Qp;
class Srq;
class Wq;
class RwqTable;
class ThreadDomain;
class CryptoLogin;
class Xrcd;
struct CqOptions;
struct CryptoLoginOptions;

// Limits of the device, from the context's and the device's query. Bytes, counts.
struct DeviceAttributes {
  std::string firmware_version;
  std::uint64_t node_guid = 0, system_image_guid = 0;  // host order
  std::uint32_t vendor_id = 0, vendor_part_id = 0, hardware_version = 0;
  std::uint64_t max_mr_size_bytes = 0;
  std::uint32_t max_qp = 0, max_qp_wr = 0, max_sge = 0, max_sge_rd = 0, max_cq = 0, max_cqe = 0, max_mr = 0, max_pd = 0,
                max_srq = 0, max_srq_wr = 0, max_srq_sge = 0, max_qp_rd_atom = 0, max_qp_init_rd_atom = 0, max_ah = 0;
  bool atomics = false;
  std::uint8_t port_count = 0;
  // What bounds queue sizes (alloc_ucontext response).
  std::uint32_t max_send_wqe_bytes = 0, max_recv_wqe_bytes = 0, max_send_wqebbs = 0, max_recv_wr = 0,
                max_srq_recv_wr = 0;
  std::uint32_t blueflame_register_bytes = 0;
  std::uint8_t cqe_version = 0;
};

struct PortAttributes {
  std::uint8_t state = 0;  // ibv_port_state: 4 is active
  Mtu max_mtu = Mtu::k4096, active_mtu = Mtu::k1024;
  std::uint32_t gid_table_length = 0, pkey_table_length = 0, max_message_bytes = 0;
  std::uint8_t link_layer = 0;  // 1 InfiniBand, 2 Ethernet
  std::uint16_t lid = 0;
  std::uint8_t active_width = 0;
  std::uint32_t active_speed = 0;
};

enum class GidType : std::uint8_t { kInfiniBand = 0, kRoceV1 = 1, kRoceV2 = 2 };

struct GidEntry {
  Gid gid{};
  std::uint32_t index = 0;
  GidType type = GidType::kRoceV2;
  std::uint32_t netdev_index = 0;
  std::uint32_t port = 1;
};

// Values are the verbs' (ibv_event_type).
struct AsyncEvent {
  std::uint32_t type = 0;
  std::string text;  // "QP fatal error on QP 0x12", "port 1 active"
  // Which object it is about; none if it was destroyed meanwhile.
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
  std::uint8_t port = 0;  // events of a port
};

struct ContextOptions {
  std::uint32_t total_blueflame_registers = 16;
  bool devx_required = false;             // fail instead of going on without DEVX
  ForkGuard fork_guard = kKeepOutAlways;  // of queues and doorbell records
};

// What the device can do that neither attributes nor the kernel's query tell; from the device itself (HCA capabilities,
// through DEVX). Zero: it cannot, or the kernel does not let us ask.
struct HcaCapabilities {
  // The most receive requests of a queue whose receives may complete out of order, by type (mlx5dv ooo_recv_wrs_caps).
  struct OutOfOrder {
    std::uint32_t max_rc = 0, max_xrc = 0, max_dct = 0, max_ud = 0, max_uc = 0;
  } out_of_order;
  bool dma_mmo_sq = false, dma_mmo_qp = false;  // memory-to-memory operations: of any SQ, of QPs that are set up for it
  std::uint64_t max_memcpy_bytes = 0;           // of one such operation
  bool qpc_extension = false;                   // commands may carry the extension of a QP's context
  std::uint32_t max_dc_rd_atomic = 0, max_dc_init_rd_atomic = 0;
  bool memcpy() const { return dma_mmo_sq || dma_mmo_qp; }
  // Block signatures of memory keys, whether they tell where an error was, as memory keys here want it, and of them
  // what not every device has.
  bool signature_handover = false, signatures = false;
  bool signature_block_4048 = false, signature_crc32c = false, signature_crc64 = false;
  // AES-XTS of memory keys that hold one data unit, or many; how its keys come.
  bool crypto = false, encrypts_single_block = false, encrypts_many_blocks = false;
  bool encrypts() const { return encrypts_single_block || encrypts_many_blocks; }
  bool wrapped_keys = false, wrapped_keys_operational = false, wrapped_keys_commissioning = false;
  std::uint8_t log_max_encryption_keys = 0;
  std::uint16_t failed_crypto_selftests = 0;
  // What DC may do in memory on demand; values are the verbs' (ibv_odp_transport_cap_bits).
  std::uint32_t dc_on_demand = 0;
  std::uint64_t general_objects = 0;  // bit n: the device has objects of type n
  bool has_general_object(unsigned type) const { return (general_objects >> type & 1) != 0; }
};

// Thread-safe, except that it must outlive every call into objects made from it. The destructor closes what is left in
// the right order, and logs what was left.
class Context {
 public:
  // `channel` becomes the context's own.
  static Expected<std::unique_ptr<Context>> open(const uapi::DeviceInfo& device, std::unique_ptr<uapi::Channel> channel,
                                                 const ContextOptions& options = {});
  // The context of a file that someone else opened and of which `channel` has a descriptor too. Their objects are not
  // this context's: import_pd() and the kernel's handles lead to them.
  static Expected<std::unique_ptr<Context>> import(const uapi::DeviceInfo& device,
                                                   std::unique_ptr<uapi::Channel> channel,
                                                   const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const uapi::DeviceInfo& device() const;
  const DeviceAttributes& attributes() const;
  // All that the kernel told: what attributes() leaves out.
  const uapi::DeviceAttributes& queried_device() const;
  const HcaCapabilities& capabilities() const;
  Expected<PortAttributes> query_port(std::uint8_t port);
  Expected<GidEntry> query_gid(std::uint8_t port, std::uint32_t index);
  // The entries of all ports that are not empty, at most `max_entries`. Errors: EINVAL if there are more.
  Expected<std::vector<GidEntry>> query_gid_table(std::size_t max_entries);
  Expected<std::uint16_t> query_pkey(std::uint8_t port, std::uint32_t index);  // host order

  Expected<Owned<Pd>> alloc_pd();
  // A PD that another user of the same file made. It outlives what is returned: see Pd::end_in_kernel().
  Expected<Owned<Pd>> import_pd(uapi::PdHandle handle);
  Expected<Owned<CompletionChannel>> create_completion_channel();
  Expected<Owned<Cq>> create_cq(const CqOptions& options);
  // A table of receive work queues, 2^n of them.
  Expected<Owned<RwqTable>> create_rwq_table(std::span<Wq* const> queues);
  // XRC domain. `fd` -1: of its own; else shared with all who open that file. `oflags` as for open(): O_CREAT, O_EXCL.
  Expected<Owned<Xrcd>> open_xrcd(int fd, int oflags);
  // What a device that takes only wrapped data encryption keys wants first. Errors: EOPNOTSUPP (it takes plain ones),
  // EINVAL (numbers, lengths, or the device does not accept the credential).
  Expected<Owned<CryptoLogin>> crypto_login(const CryptoLoginOptions& options);
  // Errors: ENOMEM and the like when the device has no further doorbell register.
  Expected<Owned<ThreadDomain>> create_thread_domain();

  // To be called in a polling loop when a poll found nothing: see Channel::relax(). Not needed for correctness.
  void relax() noexcept;

  // Where its completion queues are armed.
  const uapi::Uar& arm_page() const;
  std::byte* arm_page_address() const;

  // Readable when an asynchronous event waits. The descriptor stays the context's.
  int async_fd() const;
  // The next asynchronous event; none when `timeout` passes without one.
  Expected<std::optional<AsyncEvent>> next_async_event(std::chrono::milliseconds timeout);

  // Objects that were made here and are not destroyed.
  std::size_t objects_left() const;

  // For what this API has no words for: commands of the kernel's interface on this context, and what it told about
  // itself when the context was opened. Objects made in this way are unknown to the context; the channel's end is their
  // end.
  uapi::Commands& commands() const;
  const uapi::ContextInfo& kernel_info() const;

  struct State;  // driver-private
  State& state() { return *state_; }

 private:
  explicit Context(std::unique_ptr<State> state);
  static Expected<std::unique_ptr<Context>> start(std::unique_ptr<State> state, const ContextOptions& options);
  std::unique_ptr<State> state_;
};

// Finds one device by name among the sources, or the first one there is if `name` is empty, and opens it.
// Errors: ENODEV with the names that do exist, or what opening says.
Expected<std::unique_ptr<Context>> open_device(std::span<uapi::DeviceSource* const> sources, std::string_view name,
                                               const ContextOptions& options = {});

}  // namespace umlx5
