#include "tools/softhca/hca/key_format.h"

#include <algorithm>
#include <numeric>

namespace softhca::hca {
namespace {

using umlx5::wqe::CryptoBsf;
using umlx5::wqe::EncryptionOrder;
using umlx5::wqe::SignatureBsf;
using Direction = SignatureStream::Direction;
using Kind = SignatureDomain::Kind;

std::uint64_t block_or_one(const SignatureDomain& domain) {
  return domain.kind() == Kind::kNone ? 1 : domain.block_bytes();
}

std::uint64_t start_value(const SignatureDomain& domain, const umlx5::wqe::BsfInline& dif) {
  switch (domain.kind()) {
    case Kind::kT10Dif:
      return std::uint64_t{domain.seed_ones() ? 0xffffu : 0u} << 48 | std::uint64_t{dif.application_tag} << 32 |
             dif.reference_tag;
    case Kind::kCrc64:
      return domain.seed_ones() ? ~std::uint64_t{0} : 0;
    default:
      return domain.seed_ones() ? 0xffffffff00000000 : 0;
  }
}

}  // namespace

std::optional<KeyFormat> KeyFormat::make(const std::optional<SignatureBsf>& signature,
                                         const std::optional<CryptoBsf>& crypto) {
  KeyFormat format;
  format.signature_ = signature;
  format.crypto_ = crypto;
  if (signature) {
    const auto memory = SignatureDomain::memory(*signature);
    const auto wire = SignatureDomain::wire(*signature);
    if (!memory || !wire) {
      return std::nullopt;
    }
    format.memory_ = *memory;
    format.wire_ = *wire;
  }
  Period& period = format.period_;
  period.data = std::lcm(block_or_one(format.memory_), block_or_one(format.wire_));
  if (crypto) {
    const bool raw =
        crypto->order == EncryptionOrder::kEncryptedRawWire || crypto->order == EncryptionOrder::kEncryptedRawMemory;
    const std::uint64_t unit = umlx5::wqe::bytes_of(crypto->block);
    if (crypto->type != CryptoBsf::kTypeCrypto || crypto->standard != CryptoBsf::kStandardAesXts || unit == 0 ||
        crypto->order > EncryptionOrder::kEncryptedRawMemory || (raw && format.has_both())) {
      return std::nullopt;
    }
    const std::uint64_t side =
        format.encrypts_at_memory() ? format.memory_bytes(period.data) : format.wire_bytes(period.data);
    period.data *= unit / std::gcd(unit, side);
  }
  period.memory = format.memory_bytes(period.data);
  period.wire = format.wire_bytes(period.data);
  period.local = format.has_both() ? period.memory : period.data;
  return format;
}

std::uint64_t KeyFormat::data_in(const SignatureDomain& domain, std::uint64_t bytes) {
  if (domain.kind() == Kind::kNone) {
    return bytes;
  }
  const std::uint64_t block = domain.block_bytes();
  const std::uint64_t whole = block + domain.signature_bytes();
  return bytes / whole * block + std::min(bytes % whole, block);
}

bool KeyFormat::encrypts_at_memory() const {
  return crypto_->order == EncryptionOrder::kEncryptedMemorySignature ||
         crypto_->order == EncryptionOrder::kEncryptedRawWire;
}

bool KeyFormat::encrypts_on_transmit() const {
  return crypto_->order == EncryptionOrder::kEncryptedWireSignature ||
         crypto_->order == EncryptionOrder::kEncryptedRawWire;
}

bool KeyFormat::crypt(std::uint64_t start, std::span<std::byte> bytes, const XtsKey* key, bool transmit) const {
  if (key == nullptr) {
    return false;
  }
  const std::size_t unit = umlx5::wqe::bytes_of(crypto_->block);
  // The format has the tweak big-endian.
  XtsTweak tweak;
  std::reverse_copy(crypto_->initial_tweak.begin(), crypto_->initial_tweak.end(), tweak.begin());
  const std::uint64_t position = encrypts_at_memory() ? memory_bytes(start) : wire_bytes(start);
  return transform(*key, encrypts_on_transmit() == transmit ? XtsOperation::kEncrypt : XtsOperation::kDecrypt,
                   advanced(tweak, position / unit), unit, bytes);
}

void KeyFormat::sign(std::uint64_t start, std::vector<std::byte>& bytes, Direction direction,
                     std::optional<SignatureError>& error) const {
  if (memory_.kind() == Kind::kNone && wire_.kind() == Kind::kNone) {
    return;
  }
  const SignatureDomain& in = direction == Direction::kTransmit ? memory_ : wire_;
  const SignatureDomain& out = direction == Direction::kTransmit ? wire_ : memory_;
  const std::uint64_t first_block = start / (in.kind() == Kind::kNone ? out : in).block_bytes();
  auto stream = SignatureStream::make(*signature_, direction, first_block);
  std::vector<std::byte> output;
  output.reserve(bytes.size() + bytes.size() / 64);
  stream->feed(bytes, output);
  if (stream->error()) {
    error = stream->error();
    error->offset_bytes += direction == Direction::kTransmit ? memory_bytes(start) : wire_bytes(start);
  }
  bytes = std::move(output);
}

bool KeyFormat::to_wire(std::uint64_t start, std::vector<std::byte>& bytes, const XtsKey* key,
                        std::optional<SignatureError>& error) const {
  if (crypto_ && encrypts_at_memory() && !crypt(start, bytes, key, true)) {
    return false;
  }
  sign(start, bytes, Direction::kTransmit, error);
  return !crypto_ || encrypts_at_memory() || crypt(start, bytes, key, true);
}

bool KeyFormat::to_memory(std::uint64_t start, std::vector<std::byte>& bytes, const XtsKey* key,
                          std::optional<SignatureError>& error) const {
  if (crypto_ && !encrypts_at_memory() && !crypt(start, bytes, key, false)) {
    return false;
  }
  sign(start, bytes, Direction::kReceive, error);
  return !crypto_ || !encrypts_at_memory() || crypt(start, bytes, key, false);
}

std::optional<KeyFormat::Start> KeyFormat::memory_start() const {
  if (memory_.kind() == Kind::kNone) {
    return std::nullopt;
  }
  return Start{signature_->memory_psv, start_value(memory_, signature_->memory)};
}

std::optional<KeyFormat::Start> KeyFormat::wire_start() const {
  if (wire_.kind() == Kind::kNone) {
    return std::nullopt;
  }
  return Start{signature_->wire_psv, start_value(wire_, signature_->wire)};
}

}  // namespace softhca::hca
