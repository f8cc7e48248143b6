// What a Context owns. Private to the driver.
#pragma once

#include <boost/intrusive/list.hpp>
#include <memory>
#include <mutex>
#include <string>

#include "doorbell/record_pool.h"
#include "driver/ah.h"
#include "driver/context.h"
#include "driver/cq.h"
#include "driver/dek.h"
#include "driver/fork_guard.h"
#include "driver/memory_window.h"
#include "driver/mkey.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "driver/qp_geometry.h"
#include "driver/srq.h"
#include "driver/thread_domain.h"
#include "driver/uar_pool.h"
#include "driver/user_index_table.h"
#include "driver/wq.h"
#include "driver/xrcd.h"
#include "uapi/commands.h"
#include "uapi/context.h"
#include "uapi/file_descriptor.h"

namespace umlx5 {

template <typename T>
using ResourceList = boost::intrusive::list<T>;

// `mutex` guards the lists, and nothing is asked of the kernel while it is held. An object leaves its list before the
// kernel is asked to destroy it, and comes back if the kernel refuses.
struct Context::State {
  uapi::DeviceInfo device;
  std::unique_ptr<uapi::Channel> channel;
  std::unique_ptr<uapi::Commands> commands;
  uapi::ContextInfo info;
  uapi::FileDescriptor async_fd;
  uapi::DeviceAttributes query;
  DeviceAttributes attributes;
  HcaCapabilities capabilities;
  QueueLimits limits;
  ForkGuard fork_guard = kKeepOutAlways;
  bool scatter_to_cqe = true;  // MLX5_SCATTER_TO_CQE is not 0
  UserIndexTable queues;
  doorbell::RecordPool records;
  UarPool uars;

  MkeyTable mkey_table;

  std::mutex mutex;
  ResourceList<Pd> pds;
  ResourceList<MemoryRegion> regions;
  ResourceList<CompletionChannel> channels;
  ResourceList<Cq> cqs;
  ResourceList<Qp> qps;
  ResourceList<Srq> srqs;
  ResourceList<Wq> wqs;
  ResourceList<RwqTable> rwq_tables;
  ResourceList<Flow> flows;
  ResourceList<Ah> ahs;
  ResourceList<MemoryWindow> windows;
  ResourceList<Mkey> mkeys;
  ResourceList<Dek> deks;
  ResourceList<CryptoLogin> logins;
  ResourceList<Xrcd> xrcds;
  ResourceList<ThreadDomain> thread_domains;

  bool cqes_carry_user_index() const { return attributes.cqe_version >= 1; }

  template <typename T>
  void add(ResourceList<T>& list, T& object) {
    const std::lock_guard lock(mutex);
    list.push_back(object);
  }
  template <typename T>
  void remove(ResourceList<T>& list, T& object) {
    list.erase(list.iterator_to(object));
  }
};

// "destroyed late" texts: `what` was left to its context because of `why`.
void log_abandoned(const std::string& what, const Error& why);

}  // namespace umlx5
