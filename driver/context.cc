#include "driver/context.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "driver/context_state.h"
#include "driver/hca_capabilities.h"
#include "driver/log.h"
#include "uapi/device_query.h"
#include "uapi/events.h"
#include "uapi/pd.h"

namespace umlx5 {
namespace {

Error explained(Error error, const std::string& prefix) {
  error.what = prefix + ": " + error.what;
  return error;
}

std::string firmware_version(std::uint64_t version) {
  return fmt::format("{}.{}.{:04}", version >> 32, (version >> 16) & 0xffff, version & 0xffff);
}

DeviceAttributes describe_device(const uapi::DeviceAttributes& query, const mlx5_ib_alloc_ucontext_resp& response) {
  const ib_uverbs_query_device_resp& base = query.core.base;
  DeviceAttributes attributes;
  attributes.firmware_version = firmware_version(base.fw_ver);
  attributes.node_guid = query.node_guid;
  attributes.system_image_guid = query.system_image_guid;
  attributes.vendor_id = base.vendor_id;
  attributes.vendor_part_id = base.vendor_part_id;
  attributes.hardware_version = base.hw_ver;
  attributes.max_mr_size_bytes = base.max_mr_size;
  attributes.max_qp = base.max_qp;
  attributes.max_qp_wr = base.max_qp_wr;
  attributes.max_sge = base.max_sge;
  attributes.max_sge_rd = base.max_sge_rd;
  attributes.max_cq = base.max_cq;
  attributes.max_cqe = base.max_cqe;
  attributes.max_mr = base.max_mr;
  attributes.max_pd = base.max_pd;
  attributes.max_srq = base.max_srq;
  attributes.max_srq_wr = base.max_srq_wr;
  attributes.max_srq_sge = base.max_srq_sge;
  attributes.max_qp_rd_atom = base.max_qp_rd_atom;
  attributes.max_qp_init_rd_atom = base.max_qp_init_rd_atom;
  attributes.max_ah = base.max_ah;
  attributes.atomics = base.atomic_cap != 0;
  attributes.port_count = base.phys_port_cnt;
  attributes.max_send_wqe_bytes = response.max_sq_desc_sz;
  attributes.max_recv_wqe_bytes = response.max_rq_desc_sz;
  attributes.max_send_wqebbs = response.max_send_wqebb;
  attributes.max_recv_wr = response.max_recv_wr;
  attributes.max_srq_recv_wr = response.max_srq_recv_wr;
  attributes.blueflame_register_bytes = response.bf_reg_size;
  attributes.cqe_version = response.cqe_version;
  return attributes;
}

GidEntry from_kernel(const uapi::GidEntry& entry) {
  return {.gid = entry.gid,
          .index = entry.index,
          .type = static_cast<GidType>(entry.type),
          .netdev_index = entry.netdev_ifindex,
          .port = entry.port};
}

bool scatter_to_cqe_wanted() {
  const char* text = std::getenv("MLX5_SCATTER_TO_CQE");
  return text == nullptr || std::strcmp(text, "0") != 0;
}

}  // namespace

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}

Expected<std::unique_ptr<Context>> Context::open(const uapi::DeviceInfo& device, std::unique_ptr<uapi::Channel> channel,
                                                 const ContextOptions& options) {
  auto state = std::make_unique<State>();
  state->device = device;
  state->channel = std::move(channel);
  state->commands = std::make_unique<uapi::Commands>(*state->channel);
  auto info = uapi::get_context(
      *state->commands, {.total_bfregs = options.total_blueflame_registers, .devx_required = options.devx_required});
  if (!info) {
    return std::unexpected(explained(std::move(info.error()), "open " + device.name));
  }
  state->info = std::move(*info);
  return start(std::move(state), options);
}

Expected<std::unique_ptr<Context>> Context::import(const uapi::DeviceInfo& device,
                                                   std::unique_ptr<uapi::Channel> channel,
                                                   const ContextOptions& options) {
  auto state = std::make_unique<State>();
  state->device = device;
  state->channel = std::move(channel);
  state->commands = std::make_unique<uapi::Commands>(*state->channel);
  auto info = uapi::query_context(*state->commands);
  if (!info) {
    return std::unexpected(explained(std::move(info.error()), "import " + device.name));
  }
  state->info = std::move(*info);
  return start(std::move(state), options);
}

Expected<std::unique_ptr<Context>> Context::start(std::unique_ptr<State> state, const ContextOptions& options) {
  const std::string prefix = "open " + state->device.name;
  if (!state->info.dynamic_uars()) {
    return fail(EOPNOTSUPP,
                prefix + ": the kernel gives out UARs only when a context opens; Linux 5.6 or later is needed");
  }
  state->async_fd = std::move(state->info.async_event_fd);
  if (!state->async_fd) {
    auto fd = uapi::open_async_event_fd(*state->commands);
    if (!fd) {
      return std::unexpected(explained(std::move(fd.error()), prefix));
    }
    state->async_fd = std::move(*fd);
  }
  const auto query = uapi::query_device(*state->commands);
  if (!query) {
    return std::unexpected(explained(query.error(), prefix));
  }
  state->query = *query;
  const mlx5_ib_alloc_ucontext_resp& response = state->info.device;
  state->attributes = describe_device(*query, response);
  state->limits = {.max_send_wqe_bytes = response.max_sq_desc_sz,
                   .max_recv_wqe_bytes = response.max_rq_desc_sz,
                   .max_send_wqebbs = response.max_send_wqebb,
                   .max_recv_wr = response.max_recv_wr,
                   .max_srq_recv_wr = response.max_srq_recv_wr};
  state->scatter_to_cqe = scatter_to_cqe_wanted();
  state->fork_guard = options.fork_guard;
  state->records.set_page_hooks({.taken = options.fork_guard.keep_out, .given_back = options.fork_guard.let_in});
  if (state->info.devx) {
    state->capabilities = query_hca_capabilities(*state->commands, response.max_recv_wr);
    if ((query->driver.base.flags & uapi::kMlx5QueryDeviceOutOfOrderPlacement) == 0) {
      state->capabilities.out_of_order = {};  // the kernel would not ask for it
    }
  }
  if (auto result = state->uars.open(*state->commands, response.bf_reg_size, options.total_blueflame_registers);
      !result) {
    return std::unexpected(explained(std::move(result.error()), prefix));
  }
  log(LogLevel::kInfo, fmt::format("{} opened: firmware {}, {} ports", state->device.name,
                                   state->attributes.firmware_version, state->attributes.port_count));
  return std::unique_ptr<Context>(new Context(std::move(state)));
}

namespace {

// Asks the kernel to take down what programs left behind, newest first. Where it refuses, the object is returned: its
// memory is released only after the channel is closed, when nothing can use it any more.
template <typename T, typename Destroy>
std::vector<T*> close_all(ResourceList<T>& list, std::string_view kind, Destroy destroy) {
  std::vector<T*> late;
  if (!list.empty()) {
    log(LogLevel::kInfo, fmt::format("context closes: {} {} were left to it", list.size(), kind));
  }
  while (!list.empty()) {
    T& object = list.back();
    if (auto result = destroy(object); !result) {
      log(LogLevel::kError, fmt::format("context closes: {}", result.error().message()));
      list.pop_back();
      late.push_back(&object);
    }
  }
  return late;
}

template <typename T>
void delete_all(const std::vector<T*>& objects) {
  for (T* object : objects) {
    delete object;
  }
}

}  // namespace

Context::~Context() {
  State& state = *state_;
  const auto flows = close_all(state.flows, "flows", Flow::destroy);
  const auto qps = close_all(state.qps, "QPs", [](Qp& qp) { return Qp::destroy(qp); });
  const auto srqs = close_all(state.srqs, "SRQs", [](Srq& srq) { return Srq::destroy(srq); });
  const auto tables = close_all(state.rwq_tables, "tables of receive queues", RwqTable::destroy);
  const auto wqs = close_all(state.wqs, "WQs", [](Wq& wq) { return Wq::destroy(wq); });
  const auto cqs = close_all(state.cqs, "CQs", [](Cq& cq) { return Cq::destroy(cq); });
  const auto channels = close_all(state.channels, "completion channels", CompletionChannel::destroy);
  const auto ahs = close_all(state.ahs, "AHs", Ah::destroy);
  const auto mkeys = close_all(state.mkeys, "mkeys", Mkey::destroy);
  const auto deks = close_all(state.deks, "data encryption keys", Dek::destroy);
  const auto logins = close_all(state.logins, "crypto logins", CryptoLogin::destroy);
  const auto windows = close_all(state.windows, "memory windows", MemoryWindow::destroy);
  const auto regions = close_all(state.regions, "memory regions", MemoryRegion::destroy);
  const auto xrcds = close_all(state.xrcds, "XRC domains", Xrcd::destroy);
  const auto domains = close_all(state.thread_domains, "thread domains", ThreadDomain::destroy);
  const auto pds = close_all(state.pds, "PDs", Pd::destroy);
  for (Qp* qp : qps) {
    qp->in_kernel_ = false;  // the channel's end is its end
  }
  for (Srq* srq : srqs) {
    srq->in_kernel_ = false;
  }
  for (Wq* wq : wqs) {
    wq->in_kernel_ = false;
  }
  state.uars.close();
  state.async_fd.reset();
  state.commands.reset();
  state.channel.reset();
  delete_all(flows);
  delete_all(qps);
  delete_all(srqs);
  delete_all(tables);
  delete_all(wqs);
  delete_all(cqs);
  delete_all(channels);
  delete_all(ahs);
  delete_all(mkeys);
  delete_all(deks);
  delete_all(logins);
  delete_all(windows);
  delete_all(regions);
  delete_all(xrcds);
  delete_all(domains);
  delete_all(pds);
}

const uapi::DeviceInfo& Context::device() const { return state_->device; }
const DeviceAttributes& Context::attributes() const { return state_->attributes; }
uapi::Commands& Context::commands() const { return *state_->commands; }
const uapi::ContextInfo& Context::kernel_info() const { return state_->info; }
const uapi::DeviceAttributes& Context::queried_device() const { return state_->query; }
const HcaCapabilities& Context::capabilities() const { return state_->capabilities; }
const uapi::Uar& Context::arm_page() const { return state_->uars.shared_page(); }
std::byte* Context::arm_page_address() const { return state_->uars.shared_page_address(); }
std::size_t Context::objects_left() const {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  return state.pds.size() + state.regions.size() + state.channels.size() + state.cqs.size() + state.qps.size() +
         state.srqs.size() + state.ahs.size() + state.windows.size() + state.mkeys.size() + state.deks.size() +
         state.logins.size() + state.xrcds.size() + state.thread_domains.size();
}
void Context::relax() noexcept { state_->channel->relax(); }

Expected<PortAttributes> Context::query_port(std::uint8_t port) {
  const auto query = uapi::query_port(*state_->commands, port);
  if (!query) {
    return std::unexpected(explained(query.error(), fmt::format("{} port {}", state_->device.name, port)));
  }
  PortAttributes attributes;
  attributes.state = query->state;
  attributes.max_mtu = static_cast<Mtu>(query->max_mtu);
  attributes.active_mtu = static_cast<Mtu>(query->active_mtu);
  attributes.gid_table_length = query->gid_table_entries;
  attributes.pkey_table_length = query->pkey_table_entries;
  attributes.max_message_bytes = query->max_message_bytes;
  attributes.link_layer = static_cast<std::uint8_t>(query->link_layer);
  attributes.lid = query->lid;
  attributes.active_width = query->active_width;
  attributes.active_speed = query->active_speed_extended != 0 ? query->active_speed_extended : query->active_speed;
  return attributes;
}

Expected<GidEntry> Context::query_gid(std::uint8_t port, std::uint32_t index) {
  const auto query = uapi::query_gid_entry(*state_->commands, port, index);
  if (!query) {
    return std::unexpected(
        explained(query.error(), fmt::format("{} port {} GID {}", state_->device.name, port, index)));
  }
  return from_kernel(*query);
}

Expected<std::vector<GidEntry>> Context::query_gid_table(std::size_t max_entries) {
  const auto table = uapi::query_gid_table(*state_->commands, state_->attributes.port_count, max_entries);
  if (!table) {
    return std::unexpected(table.error());
  }
  std::vector<GidEntry> entries;
  for (const uapi::GidEntry& entry : *table) {
    entries.push_back(from_kernel(entry));
  }
  return entries;
}

Expected<std::uint16_t> Context::query_pkey(std::uint8_t port, std::uint32_t index) {
  if (index > 0xffff) {
    return fail(EINVAL, fmt::format("{} port {}: no P_Key {}", state_->device.name, port, index));
  }
  return uapi::query_pkey(*state_->commands, port, static_cast<std::uint16_t>(index));
}

Expected<Owned<Pd>> Context::alloc_pd() {
  std::unique_ptr<Pd> pd(new (std::nothrow) Pd);
  if (pd == nullptr) {
    return fail(ENOMEM, "PD: no memory");
  }
  const auto allocated = uapi::alloc_pd(*state_->commands);
  if (!allocated) {
    return std::unexpected(allocated.error());
  }
  pd->context_ = this;
  pd->handle_ = allocated->handle;
  pd->pdn_ = allocated->pdn;
  state_->add(state_->pds, *pd);
  return Owned<Pd>(pd.release());
}

Expected<Owned<Pd>> Context::import_pd(uapi::PdHandle handle) {
  std::unique_ptr<Pd> pd(new (std::nothrow) Pd);
  if (pd == nullptr) {
    return fail(ENOMEM, "PD: no memory");
  }
  const auto pdn = uapi::query_pdn(*state_->commands, handle);
  if (!pdn) {
    return std::unexpected(pdn.error());
  }
  pd->context_ = this;
  pd->handle_ = handle;
  pd->pdn_ = *pdn;
  pd->ends_in_kernel_ = false;
  state_->add(state_->pds, *pd);
  return Owned<Pd>(pd.release());
}

void log_abandoned(const std::string& what, const Error& why) {
  log(LogLevel::kError, fmt::format("{} is left to its context: {}", what, why.message()));
}

}  // namespace umlx5
