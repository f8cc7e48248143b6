// Storage with end-to-end protection, as an NVMe over Fabrics target has it: blocks travel and are stored with T10-DIF
// behind each, which the adapter of the host adds on the way out, and checks and strips on the way in. The host's
// program sees 512-byte blocks only. What goes wrong in between, where no packet checksum helps (in the target's
// memory, in a bridge), the host's adapter finds: a flipped bit by the guard, a wrong block by the reference tag.
//
// Both ends are queue pairs of one software device, so it needs no adapter.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/mkey.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "tools/softhca/source.h"

namespace {

using namespace umlx5;

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kBlockBytes = 512, kStoredBytes = kBlockBytes + 8, kBlocks = 16, kReadBlocks = 4;
constexpr std::uint16_t kApplicationTag = 0x4e56;

struct Setup {
  std::vector<std::byte> store = std::vector<std::byte>(kBlocks * kStoredBytes);  // the target's, with T10-DIF
  std::vector<std::byte> host = std::vector<std::byte>(kBlocks * kBlockBytes);    // the host's, without
  softhca::SoftDeviceSource software;
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<MemoryRegion> store_region, host_region;
  Owned<Cq> cq;
  Owned<Qp> host_qp, target_qp;
  Owned<Mkey> key;  // the host's memory as the wire sees it
};

// The wire has T10-DIF whose reference tag is the number of the block; memory has none.
SignatureBlock protection(std::uint32_t first_block) {
  SignatureBlock block =
      checked({.wire = SignatureDomain{T10Dif{
                   .background = 0xffff, .application_tag = kApplicationTag, .increment_reference_tag = true}},
               .check_mask = 0xff});
  std::get<T10Dif>(block.wire->signature).reference_tag = first_block;
  return block;
}

template <typename T, typename Result>
Expected<void> take(T& to, Result&& result) {
  if (!result) return std::unexpected(result.error());
  to = std::move(*result);
  return {};
}

Expected<void> make(Setup& s) {
  const std::array<uapi::DeviceSource*, 1> sources = {&s.software};
  if (auto r = take(s.context, open_device(sources, "")); !r) return r;
  if (auto r = take(s.pd, s.context->alloc_pd()); !r) return r;
  const AccessFlags access = Access::kLocalWrite | Access::kRemoteWrite;
  if (auto r = take(s.store_region, s.pd->register_memory(s.store, access)); !r) return r;
  if (auto r = take(s.host_region, s.pd->register_memory(s.host, access)); !r) return r;
  if (auto r = take(s.cq, s.context->create_cq({.entries = 64})); !r) return r;
  QpOptions options;
  options.send_cq = options.recv_cq = s.cq.get();
  options.capacity = {
      .max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_bytes = 256};
  if (auto r = take(s.host_qp, s.pd->create_qp(options)); !r) return r;
  if (auto r = take(s.target_qp, s.pd->create_qp(options)); !r) return r;
  if (auto r = take(s.key, s.pd->create_mkey({.max_entries = 1, .signatures = true})); !r) return r;
  const auto gid = s.context->query_gid(kPort, 0);
  if (!gid) return std::unexpected(gid.error());
  const InitAttributes init{.port = kPort, .remote_access = access};
  const QpAddress host{gid->gid, s.host_qp->qpn(), 100}, target{gid->gid, s.target_qp->qpn(), 200};
  if (auto r = s.host_qp->connect(target, host.psn, init); !r) return r;
  return s.target_qp->connect(host, target.psn, init);
}

Expected<void> wait(Setup& s, std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (count != 0) {
    Completion completion;
    if (s.cq->poll({&completion, 1}) == 0) {
      s.context->relax();
      if (std::chrono::steady_clock::now() > deadline) return fail(ETIMEDOUT, "no completion");
      continue;
    }
    if (completion.status != CompletionStatus::kSuccess) return fail(EIO, describe(completion));
    --count;
  }
  return {};
}

// What the key stands for from now on: `blocks` blocks of the host's memory, numbered from `first`.
Expected<void> configure(Setup& s, std::uint32_t first, std::uint32_t blocks) {
  const Sge memory = s.host_region->sge(std::size_t{first} * kBlockBytes, blocks * kBlockBytes);
  return s.host_qp->configure_mkey(
      *s.key, {.access = Access::kLocalWrite, .layout = ListLayout{{&memory, 1}}, .signature = protection(first)}, {},
      1);
}

Sge key_sge(const Setup& s, std::uint32_t blocks) { return {0, blocks * kBlockBytes, s.key->lkey()}; }

// All blocks, by one RDMA WRITE.
Expected<void> write_all(Setup& s) {
  for (std::size_t i = 0; i < s.host.size(); ++i) {
    s.host[i] = static_cast<std::byte>(i / kBlockBytes * 31 + i);
  }
  if (auto r = configure(s, 0, kBlocks); !r) return r;
  const Sge from = key_sge(s, kBlocks);
  const SendWr request{.wr_id = 2,
                       .opcode = SendOpcode::kRdmaWrite,
                       .flags = SendFlag::kSignaled,
                       .sges = {&from, 1},
                       .remote_address = s.store_region->sge(0, 0).address,
                       .rkey = s.store_region->rkey()};
  if (const auto posted = s.host_qp->post_send({&request, 1}); !posted) {
    return fail(posted.error, s.host_qp->explain_refusal(request));
  }
  return wait(s, 1);
}

// The target sends `stored` where `asked` is wanted: the same, if all is well.
Expected<std::optional<SignatureMismatch>> read(Setup& s, std::uint32_t asked, std::uint32_t stored) {
  if (auto r = configure(s, asked, kReadBlocks); !r) return std::unexpected(r.error());
  const Sge into = key_sge(s, kReadBlocks);
  const RecvWr receive{.wr_id = 3, .sges = {&into, 1}};
  if (const auto posted = s.host_qp->post_recv({&receive, 1}); !posted) {
    return fail(posted.error, s.host_qp->explain_refusal(receive));
  }
  // The key's configuration is of the send queue: it is done before the data can come.
  const SendWr ready{.wr_id = 4, .opcode = SendOpcode::kRdmaWrite, .flags = SendFlag::kSignaled};
  if (const auto posted = s.host_qp->post_send({&ready, 1}); !posted) {
    return fail(posted.error, s.host_qp->explain_refusal(ready));
  }
  if (auto r = wait(s, 1); !r) return std::unexpected(r.error());
  const Sge from = s.store_region->sge(std::size_t{stored} * kStoredBytes, kReadBlocks * kStoredBytes);
  const SendWr data{.wr_id = 5, .opcode = SendOpcode::kSend, .flags = SendFlag::kSignaled, .sges = {&from, 1}};
  if (const auto posted = s.target_qp->post_send({&data, 1}); !posted) {
    return fail(posted.error, s.target_qp->explain_refusal(data));
  }
  if (auto r = wait(s, 2); !r) return std::unexpected(r.error());
  return s.key->check();
}

void tell(std::string_view what, const std::optional<SignatureMismatch>& mismatch) {
  using Field = SignatureMismatch::Field;
  if (!mismatch) {
    fmt::print("{}: good\n", what);
    return;
  }
  const std::string_view field = mismatch->field == Field::kGuard          ? "guard"
                                 : mismatch->field == Field::kReferenceTag ? "reference tag"
                                                                           : "application tag";
  fmt::print("{}: bad {} in block {} of the transfer: {:#x} came, {:#x} is right\n", what, field,
             mismatch->offset_bytes / kStoredBytes, mismatch->expected, mismatch->actual);
}

Expected<void> run() {
  Setup s;
  if (auto r = make(s); !r) return r;
  if (auto r = write_all(s); !r) return r;
  const std::vector<std::byte> written = s.host;
  std::ranges::fill(s.host, std::byte{0});

  const auto good = read(s, 4, 4);
  if (!good) return std::unexpected(good.error());
  tell("read", *good);
  constexpr std::size_t kAt = 4 * kBlockBytes, kBytes = kReadBlocks * kBlockBytes;
  if (std::memcmp(&s.host[kAt], &written[kAt], kBytes) != 0) return fail(EBADMSG, "other bytes came back");

  s.store[6 * kStoredBytes + 100] ^= std::byte{0x10};
  const auto flipped = read(s, 4, 4);
  if (!flipped) return std::unexpected(flipped.error());
  tell("read of a flipped bit", *flipped);

  const auto misplaced = read(s, 8, 9);
  if (!misplaced) return std::unexpected(misplaced.error());
  tell("read of other blocks", *misplaced);
  return *good || !*flipped || !*misplaced ? fail(EBADMSG, "the adapter did not tell right from wrong")
                                           : Expected<void>();
}

}  // namespace

int main() {
  if (auto done = run(); !done) {
    fmt::print(stderr, "nvme_of_dif: {}\n", done.error().message());
    return 1;
  }
}
