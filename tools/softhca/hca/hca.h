// The soft HCA: a software ConnectX behind its programming interface.
//
// Control comes in by execute() alone (PRM commands with their mailboxes), data by doorbells in UAR pages and by DMA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/address_space.h"
#include "tools/softhca/hca/objects.h"
#include "tools/softhca/hca/profile.h"
#include "tools/softhca/hca/services.h"
#include "tools/softhca/wire/endpoint.h"

namespace softhca::hca {

class Transport;

inline constexpr std::size_t kUarBytes = 4096;

class Hca final : public Services {
 public:
  // `raise` is called with an EQ's vector after the HCA's lock is released, from whatever thread made the event.
  // `dma` and `port` outlive the HCA.
  Hca(const Profile& profile, AddressSpace& dma, wire::Endpoint& port, std::function<void(std::uint32_t vector)> raise);
  ~Hca();

  // Executes one command: `in` starts with the opcode, `out` gets status (byte 0), syndrome (dword 1) and results.
  // Thread-safe. A bad command changes nothing. `out` shorter than the command's result: status BAD_OUTPUT_LEN.
  void execute(std::span<const std::byte> in, std::span<std::byte> out);

  // Plain memory of an allocated UAR page (kUarBytes, page-aligned): the device looks for doorbells there in poll().
  // The address is stable for the HCA's life; empty span for a page that is not allocated.
  std::span<std::byte> uar(std::uint32_t index);
  // A mapping of an allocated UAR page, or of whole pages of the device's own memory by their place in the BAR, for a
  // program; munmap() ends it. Errno.
  std::expected<std::byte*, int> map_uar(std::uint32_t index, int protection);
  std::expected<std::byte*, int> map_memic(std::uint64_t address, std::size_t bytes, int protection);

  // Rings a doorbell that was written elsewhere (a trapped MMIO write): `offset` in the page, 8 bytes as written.
  void ring(std::uint32_t uar_index, std::uint32_t offset_bytes, std::uint64_t value_big_endian);

  // One bounded pass over doorbells, arrived packets, timers. True if anything was done. Thread-safe.
  bool poll();
  // The same with the time that the caller has read: what the device's clock shows in CQEs of this pass.
  bool poll(std::uint64_t now_ns);
  // True if a doorbell waits in a UAR page that poll() has not seen: to be asked after the pages are write-protected.
  bool doorbell_waits() const;
  // When poll() must run next though no doorbell rings and no packet arrives, monotonic nanoseconds.
  std::optional<std::uint64_t> next_deadline_ns() const;

  // ---- For the device's own parts, with the lock held ----
  const Profile& profile() const;
  AddressSpace& dma() override;
  Qp* find_qp(std::uint32_t qpn) override;
  Srq* find_srq(std::uint32_t srqn) override;
  std::span<Qp* const> receivers_of(wire::Ipv4 group) override;
  bool has_gid(std::uint8_t index) override;
  MkeyFault resolve(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes, Access access,
                    std::vector<DmaRange>& ranges) override;
  bool invalidate(const KeyUser& user, std::uint32_t key) override;
  std::optional<FormattedKey> formatted_key(std::uint32_t key) override;
  MkeyFault resolve_formatted(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes,
                              Access access, std::vector<DmaRange>& ranges) override;
  Psv* find_psv(std::uint32_t psv) override;
  const Dek* find_dek(std::uint32_t dek) override;
  bool update_key(const KeyUser& user, const KeyUpdate& update) override;
  bool set_psv(const KeyUser& user, const PsvUpdate& update) override;
  void steer(const Frame& frame, std::span<const std::byte> bytes, std::optional<std::uint32_t> own_domain,
             std::vector<Delivery>& deliveries) override;
  void complete(Cq& cq, std::span<const std::byte, 64> cqe64, std::span<const std::byte> scatter,
                bool solicited) override;
  void async_event(std::uint8_t event_type, std::uint32_t object_number, std::uint8_t syndrome) override;
  void fail_qp(Qp& qp) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace softhca::hca
