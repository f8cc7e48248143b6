#include "tools/softhca/hca/signature.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

namespace softhca {
namespace {

namespace wqe = umlx5::wqe;

constexpr std::uint64_t kCrc64Polynomial = 0x9a6c9329ac4bc9b5;  // NVM Command Set specification, bit-reversed

constexpr std::array<std::uint64_t, 256> kCrc64Table = [] {
  std::array<std::uint64_t, 256> table{};
  for (std::uint64_t i = 0; i < table.size(); ++i) {
    std::uint64_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kCrc64Polynomial : 0);
    }
    table[i] = value;
  }
  return table;
}();

// ISA-L reads only.
unsigned char* bytes_of(std::span<const std::byte> data) {
  return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
}

// One's complement sum of big-endian halfwords, not inverted. Bit 16 of `running` tells that a high byte came last.
constexpr std::uint64_t kOdd = 0x10000;
std::uint64_t add_checksum(std::uint64_t running, std::span<const std::byte> data) {
  auto sum = static_cast<std::uint32_t>(running & 0xffff);
  bool odd = (running & kOdd) != 0;
  for (const std::byte byte : data) {
    sum += std::to_integer<std::uint32_t>(byte) << (odd ? 0 : 8);
    sum = (sum & 0xffff) + (sum >> 16);
    odd = !odd;
  }
  return sum | (odd ? kOdd : 0);
}

void put_big_endian(std::span<std::byte> to, std::uint64_t value) {
  for (std::size_t i = to.size(); i-- > 0; value >>= 8) {
    to[i] = static_cast<std::byte>(value);
  }
}
void put_little_endian(std::span<std::byte> to, std::uint64_t value) {
  for (std::byte& byte : to) {
    byte = static_cast<std::byte>(value);
    value >>= 8;
  }
}
std::uint64_t big_endian(std::span<const std::byte> from) {
  std::uint64_t value = 0;
  for (const std::byte byte : from) {
    value = value << 8 | std::to_integer<std::uint64_t>(byte);
  }
  return value;
}
std::uint64_t little_endian(std::span<const std::byte> from) {
  std::uint64_t value = 0;
  for (std::size_t i = from.size(); i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(from[i]);
  }
  return value;
}

// Mask bit of signature byte `i`: the first byte's is the highest.
bool masked(std::uint8_t mask, std::size_t i) { return (mask & (0x80u >> i)) != 0; }

}  // namespace

std::optional<SignatureDomain> SignatureDomain::make(std::uint8_t format, const wqe::BsfInline& dif,
                                                     std::size_t block) {
  SignatureDomain domain;
  domain.block_bytes_ = block;
  switch (format & wqe::block_format::kKindMask) {
    case wqe::block_format::kCrc32:
      domain.kind_ = Kind::kCrc32;
      break;
    case wqe::block_format::kCrc32c:
      domain.kind_ = Kind::kCrc32c;
      break;
    case wqe::block_format::kCrc64Xp10:
      domain.kind_ = Kind::kCrc64;
      break;
    case 0:
      if ((dif.valid_refresh & wqe::BsfInline::kValid) == 0) {
        return SignatureDomain{};  // no signatures here
      }
      if (dif.guard_type != wqe::BsfInline::kTypeCrc && dif.guard_type != wqe::BsfInline::kTypeChecksum) {
        return std::nullopt;
      }
      domain.kind_ = Kind::kT10Dif;
      domain.dif_ = dif;
      domain.seed_ones_ = (dif.repeat_and_seed & wqe::BsfInline::kSeedInverted) != 0;
      break;
    default:
      return std::nullopt;
  }
  if (domain.kind_ != Kind::kT10Dif) {
    domain.seed_ones_ = (format & wqe::block_format::kSeedZero) == 0;
  }
  return block == 0 ? std::nullopt : std::optional(domain);
}

std::optional<SignatureDomain> SignatureDomain::memory(const wqe::SignatureBsf& bsf) {
  return make(bsf.memory_format, bsf.memory, wqe::bytes_of(bsf.memory_block));
}

std::optional<SignatureDomain> SignatureDomain::wire(const wqe::SignatureBsf& bsf) {
  const auto block = bsf.same_structure ? bsf.memory_block : static_cast<wqe::BlockSelector>(bsf.wire_or_copy);
  return make(bsf.wire_format, bsf.wire, wqe::bytes_of(block));
}

std::size_t SignatureDomain::signature_bytes() const {
  switch (kind_) {
    case Kind::kNone:
      return 0;
    case Kind::kCrc32:
    case Kind::kCrc32c:
      return 4;
    case Kind::kT10Dif:
    case Kind::kCrc64:
      return 8;
  }
  return 0;
}

std::uint64_t SignatureDomain::bytes_with_signatures(std::uint64_t data_bytes) const {
  return kind_ == Kind::kNone ? data_bytes : data_bytes + data_bytes / block_bytes_ * signature_bytes();
}

std::uint64_t SignatureDomain::start() const {
  switch (kind_) {
    case Kind::kT10Dif:
      return seed_ones_ ? 0xffff : 0;
    case Kind::kCrc64:
      return seed_ones_ ? ~std::uint64_t{0} : 0;
    default:
      return seed_ones_ ? 0xffffffff : 0;
  }
}

std::uint64_t SignatureDomain::update(std::uint64_t running, std::span<const std::byte> data) const {
  switch (kind_) {
    case Kind::kNone:
      return 0;
    case Kind::kT10Dif:
      return dif_.guard_type == wqe::BsfInline::kTypeCrc
                 ? crc16_t10dif(static_cast<std::uint16_t>(running), bytes_of(data), data.size())
                 : add_checksum(running, data);
    case Kind::kCrc32:
      // This one inverts at both ends.
      return static_cast<std::uint32_t>(
          ~crc32_gzip_refl(~static_cast<std::uint32_t>(running), bytes_of(data), data.size()));
    case Kind::kCrc32c:
      return crc32_iscsi(bytes_of(data), static_cast<int>(data.size()), static_cast<std::uint32_t>(running));
    case Kind::kCrc64:
      for (const std::byte byte : data) {
        running = kCrc64Table[(running ^ std::to_integer<std::uint64_t>(byte)) & 0xff] ^ (running >> 8);
      }
      return running;
  }
  return 0;
}

std::array<std::byte, 8> SignatureDomain::finish(std::uint64_t running, std::uint64_t block) const {
  std::array<std::byte, 8> signature{};
  const std::span bytes(signature);
  if (kind_ == Kind::kT10Dif) {
    const bool increments = (dif_.flags & wqe::BsfInline::kIncrementReferenceTag) != 0;
    const std::uint64_t guard = dif_.guard_type == wqe::BsfInline::kTypeCrc ? running : ~running;
    put_big_endian(bytes.first(2), guard);
    put_big_endian(bytes.subspan(2, 2), dif_.application_tag);
    put_big_endian(bytes.subspan(4, 4), dif_.reference_tag + (increments ? block : 0));
  } else {
    put_little_endian(bytes.first(signature_bytes()), ~running);
  }
  return signature;
}

std::uint64_t SignatureDomain::as_reported(std::span<const std::byte> signature) const {
  if (kind_ == Kind::kT10Dif) {
    return big_endian(signature.first(8));
  }
  const std::uint64_t value = little_endian(signature.first(signature_bytes()));
  return kind_ == Kind::kCrc64 ? value : value << 32;
}

bool SignatureDomain::escaped(std::span<const std::byte> signature) const {
  if (kind_ != Kind::kT10Dif || big_endian(signature.subspan(2, 2)) != 0xffff) {
    return false;
  }
  if ((dif_.flags & wqe::BsfInline::kApplicationAndReferenceEscape) != 0) {
    return big_endian(signature.subspan(4, 4)) == 0xffffffff;
  }
  return (dif_.flags & wqe::BsfInline::kApplicationEscape) != 0;
}

std::optional<SignatureStream> SignatureStream::make(const wqe::SignatureBsf& bsf, Direction direction,
                                                     std::uint64_t first_block) {
  const auto memory = SignatureDomain::memory(bsf);
  const auto wire = SignatureDomain::wire(bsf);
  if (!memory || !wire) {
    return std::nullopt;
  }
  SignatureStream stream;
  stream.input_is_wire_ = direction == Direction::kReceive;
  stream.in_ = stream.input_is_wire_ ? *wire : *memory;
  stream.out_ = stream.input_is_wire_ ? *memory : *wire;
  stream.same_structure_ = bsf.same_structure && stream.in_.kind_ == stream.out_.kind_;
  stream.check_mask_ = bsf.check_mask;
  stream.copy_mask_ = stream.same_structure_ ? bsf.wire_or_copy : 0;
  stream.in_block_ = first_block;
  stream.out_block_ = first_block;
  if (stream.in_.kind_ != SignatureDomain::Kind::kNone && stream.out_.kind_ != SignatureDomain::Kind::kNone) {
    stream.out_block_ = first_block * stream.in_.block_bytes_ / stream.out_.block_bytes_;
  }
  stream.in_running_ = stream.in_.start();
  stream.out_running_ = stream.out_.start();
  return stream;
}

void SignatureStream::feed(std::span<const std::byte> input, std::vector<std::byte>& output) {
  while (!input.empty()) {
    const bool in_signature = in_.kind_ != SignatureDomain::Kind::kNone && in_filled_ == in_.block_bytes_;
    const std::size_t wanted = in_signature                                ? in_.signature_bytes() - signature_filled_
                               : in_.kind_ == SignatureDomain::Kind::kNone ? input.size()
                                                                           : in_.block_bytes_ - in_filled_;
    const auto piece = input.first(std::min(wanted, input.size()));
    input = input.subspan(piece.size());
    consumed_ += piece.size();
    if (in_signature) {
      std::ranges::copy(piece, signature_.begin() + static_cast<std::ptrdiff_t>(signature_filled_));
      signature_filled_ += piece.size();
      if (signature_filled_ == in_.signature_bytes()) {
        take_signature(output);
      }
    } else {
      in_running_ = in_.update(in_running_, piece);
      in_filled_ += in_.kind_ == SignatureDomain::Kind::kNone ? 0 : piece.size();
      take_data(piece, output);
    }
  }
}

void SignatureStream::take_data(std::span<const std::byte> data, std::vector<std::byte>& output) {
  if (out_.kind_ == SignatureDomain::Kind::kNone) {
    output.insert(output.end(), data.begin(), data.end());
    return;
  }
  while (!data.empty()) {
    const auto piece = data.first(std::min(data.size(), out_.block_bytes_ - out_filled_));
    data = data.subspan(piece.size());
    output.insert(output.end(), piece.begin(), piece.end());
    out_running_ = out_.update(out_running_, piece);
    out_filled_ += piece.size();
    // With the same structure the input's signature, which is still to come, may be passed on.
    if (out_filled_ == out_.block_bytes_ && !same_structure_) {
      put_signature(output);
    }
  }
}

void SignatureStream::take_signature(std::vector<std::byte>& output) {
  check();
  if (same_structure_) {
    put_signature(output);
  }
  in_filled_ = 0;
  signature_filled_ = 0;
  ++in_block_;
  in_running_ = in_.start();
}

void SignatureStream::check() {
  if (error_ || in_.escaped(signature_)) {
    return;
  }
  const auto computed = in_.finish(in_running_, in_block_);
  SignatureError error;
  for (std::size_t i = 0; i < in_.signature_bytes(); ++i) {
    if (masked(check_mask_, i) && computed[i] != signature_[i]) {
      const bool dif = in_.kind_ == SignatureDomain::Kind::kT10Dif;
      error.guard |= !dif || i < 2;
      error.application_tag |= dif && i >= 2 && i < 4;
      error.reference_tag |= dif && i >= 4;
    }
  }
  if (!error.guard && !error.application_tag && !error.reference_tag) {
    return;
  }
  error.wire = input_is_wire_;
  error.expected = in_.as_reported(signature_);
  error.actual = in_.as_reported(computed);
  error.offset_bytes = consumed_ - in_.signature_bytes();
  error_ = error;
}

void SignatureStream::put_signature(std::vector<std::byte>& output) {
  auto signature = out_.finish(out_running_, out_block_);
  for (std::size_t i = 0; i < out_.signature_bytes(); ++i) {
    if (masked(copy_mask_, i)) {
      signature[i] = signature_[i];
    }
  }
  output.insert(output.end(), signature.begin(),
                signature.begin() + static_cast<std::ptrdiff_t>(out_.signature_bytes()));
  out_filled_ = 0;
  ++out_block_;
  out_running_ = out_.start();
}

}  // namespace softhca
