// What a memory key does with the bytes that pass through it: block signatures and encryption, as the byte stream
// formats (BSF) of a UMR work request say.
//
// Three positions stand for one byte of such a key. In memory it lies among the signatures of the memory domain, on the
// wire among those of the wire domain. Requests of this side count neither: they count the data, or, when both domains
// have signatures, the bytes as in memory. A peer counts the bytes on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/signature.h"
#include "tools/softhca/hca/xts.h"
#include "wqe/bsf.h"

namespace softhca::hca {

class KeyFormat {
 public:
  // Nothing for formats that no driver writes, or that this device does not have: signatures of both domains of bytes
  // that are encrypted inside or outside of them (EncryptionOrder 2 and 3).
  static std::optional<KeyFormat> make(const std::optional<umlx5::wqe::SignatureBsf>& signature,
                                       const std::optional<umlx5::wqe::CryptoBsf>& crypto);

  // ---- Positions. Those that begin a transfer must be multiples of the period of their space: a whole number of
  // blocks of both domains and of data units. ----
  struct Period {
    std::uint64_t data = 1, memory = 1, wire = 1, local = 1;
  };
  const Period& period() const { return period_; }
  std::uint64_t memory_bytes(std::uint64_t data_bytes) const { return memory_.bytes_with_signatures(data_bytes); }
  std::uint64_t wire_bytes(std::uint64_t data_bytes) const { return wire_.bytes_with_signatures(data_bytes); }
  // Data bytes in that many bytes from the key's beginning.
  std::uint64_t data_of_memory(std::uint64_t bytes) const { return data_in(memory_, bytes); }
  std::uint64_t data_of_wire(std::uint64_t bytes) const { return data_in(wire_, bytes); }
  std::uint64_t data_of_local(std::uint64_t bytes) const { return has_both() ? data_in(memory_, bytes) : bytes; }

  // ---- Transfers of whole periods from data position `start` on. `error` is set to the first bad block. ----
  // From bytes as in memory to bytes as on the wire, or back. False if they cannot be encrypted or decrypted.
  bool to_wire(std::uint64_t start, std::vector<std::byte>& bytes, const XtsKey* key,
               std::optional<SignatureError>& error) const;
  bool to_memory(std::uint64_t start, std::vector<std::byte>& bytes, const XtsKey* key,
                 std::optional<SignatureError>& error) const;

  bool encrypts() const { return crypto_.has_value(); }
  std::uint32_t dek() const { return crypto_ ? crypto_->dek : 0; }
  const std::array<std::uint8_t, 8>& keytag() const { return crypto_->keytag; }

  // The running values that the signatures start from, by domain; none where there are no signatures.
  struct Start {
    std::uint32_t psv = 0;
    std::uint64_t value = 0;
  };
  std::optional<Start> memory_start() const;
  std::optional<Start> wire_start() const;

 private:
  static std::uint64_t data_in(const SignatureDomain& domain, std::uint64_t bytes);
  bool has_both() const {
    return memory_.kind() != SignatureDomain::Kind::kNone && wire_.kind() != SignatureDomain::Kind::kNone;
  }
  // The operations are on the memory's side of the signatures, or on the wire's.
  bool encrypts_at_memory() const;
  bool encrypts_on_transmit() const;
  bool crypt(std::uint64_t start, std::span<std::byte> bytes, const XtsKey* key, bool transmit) const;
  void sign(std::uint64_t start, std::vector<std::byte>& bytes, SignatureStream::Direction direction,
            std::optional<SignatureError>& error) const;

  std::optional<umlx5::wqe::SignatureBsf> signature_;
  std::optional<umlx5::wqe::CryptoBsf> crypto_;
  SignatureDomain memory_, wire_;
  Period period_;
};

}  // namespace softhca::hca
