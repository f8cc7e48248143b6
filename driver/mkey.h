// Memory keys that work requests configure: over pieces of regions and of other keys, with signatures and encryption.
//
//   auto key = pd.create_mkey({.max_entries = 4, .signatures = true});
//   qp.configure_mkey(**key, {.access = Access::kLocalWrite, .layout = ListLayout{sges}, .signature = block}, {}, 7);
//   ... requests of the same QP that name (*key)->lkey() may follow at once ...
//   (*key)->check();  // when they are done
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "driver/mkey_config.h"
#include "driver/mkey_wqe.h"
#include "driver/resource.h"
#include "uapi/error.h"
#include "uapi/handles.h"
#include "wqe/cqe.h"

namespace umlx5 {

class Context;
class Pd;

struct MkeyOptions {
  std::uint32_t max_entries = 0;   // of a layout; rounded up to a multiple of 4
  bool signatures = false;         // can have block signatures
  bool encryption = false;         // encrypts, and cannot be used before it is told how
  bool remote_invalidate = false;  // a peer's SEND with Invalidate may free it
};

// A block whose signature did not match. The data was passed on all the same.
struct SignatureMismatch {
  enum class Field : std::uint8_t { kGuard, kReferenceTag, kApplicationTag };
  Field field = Field::kGuard;
  bool on_wire = false;            // the domain: wire, else memory
  std::uint64_t expected = 0;      // what came with the data
  std::uint64_t actual = 0;        // what the data gives
  std::uint64_t offset_bytes = 0;  // in the transfer
};

// Configured and checked by one thread at a time. Completions of requests that use it may be polled by any thread.
class Mkey : public ResourceHook {
 public:
  // For requests of this side and of peers; both are the same key, and addresses in it begin at 0. A change of the tag
  // changes it.
  std::uint32_t lkey() const { return state_.key; }
  std::uint32_t rkey() const { return state_.key; }
  std::uint32_t max_entries() const { return state_.max_entries; }
  bool has_signatures() const { return state_.signatures.has_value(); }  // was made for them
  Pd& pd() const { return *pd_; }

  // The first mismatch that a polled CQ told since the last check; none if there was none. To be asked when the
  // transfers' completions are polled (or the peer says that its own are done). EINVAL: the key is not made for
  // signatures, or the device told what this driver does not know.
  Expected<std::optional<SignatureMismatch>> check();

  static Expected<void> destroy(Mkey& mkey);
  static void abandon(Mkey& mkey, const Error& why);

  // ---- For who posts in another form than Qp::configure_mkey(): the state to build from, and what it has become. ----
  MkeyState state() const;
  void set_state(const MkeyState& state);

 private:
  friend class Context;
  friend class MkeyTable;
  friend class Pd;

  Expected<void> create_in_device(const MkeyOptions& options);
  Expected<void> destroy_in_device();

  Context* context_ = nullptr;
  Pd* pd_ = nullptr;
  MkeyState state_;
  std::optional<uapi::DevxObjectHandle> handle_, memory_psv_, wire_psv_;

  std::atomic<std::uint32_t> errors_{1};  // signature errors told, from 1 as the device counts them
  std::uint32_t consumed_errors_ = 0;     // that a configuration has told the device
  std::mutex mutex_;                      // guards `told_`
  std::optional<wqe::SignatureErrorCqe> told_;
};

// A context's keys with signatures by index, for CQEs that tell of errors. Thread-safe.
class MkeyTable {
 public:
  void add(Mkey& mkey);
  void remove(const Mkey& mkey);
  // False if there is no such key.
  bool tell(const wqe::SignatureErrorCqe& cqe);

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, Mkey*> keys_;
};

}  // namespace umlx5
