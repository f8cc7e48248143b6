#include "tools/softhca/hca/formatted_data.h"

#include <algorithm>
#include <limits>

namespace softhca::hca {
namespace {

// Positions of data in a key.
struct DataRange {
  std::uint64_t begin = 0, end = 0;
};

std::uint64_t whole_data(const FormattedKey& key) { return key.protection->format->data_of_memory(key.memory_bytes); }

bool wraps(std::uint64_t position, std::uint64_t bytes) {
  return bytes > std::numeric_limits<std::uint64_t>::max() - position;
}

std::optional<DataRange> local_range(const FormattedKey& key, std::uint64_t address, std::uint64_t bytes) {
  if (address < key.start || wraps(address - key.start, bytes) || !key.protection->format) {
    return std::nullopt;
  }
  const KeyFormat& format = *key.protection->format;
  const std::uint64_t begin = address - key.start;
  const DataRange range{format.data_of_local(begin), format.data_of_local(begin + bytes)};
  return begin % format.period().local == 0 && range.end <= whole_data(key) ? std::optional(range) : std::nullopt;
}

// What a peer writes; it must begin at a whole block.
std::optional<DataRange> written_range(const FormattedKey& key, std::uint64_t position, std::uint64_t bytes) {
  if (position < key.start || wraps(position - key.start, bytes) || !key.protection->format) {
    return std::nullopt;
  }
  const KeyFormat& format = *key.protection->format;
  const std::uint64_t begin = position - key.start;
  const DataRange range{format.data_of_wire(begin), format.data_of_wire(begin + bytes)};
  return begin % format.period().wire == 0 && begin + bytes <= format.wire_bytes(whole_data(key)) ? std::optional(range)
                                                                                                  : std::nullopt;
}

// The memory behind a range, as DMA ranges in link.ranges.
bool resolve(Link& link, std::uint32_t key, const KeyUser& user, const FormattedKey& formatted, const DataRange& range,
             Access access) {
  const KeyFormat& format = *formatted.protection->format;
  const std::uint64_t begin = format.memory_bytes(range.begin);
  link.ranges.clear();
  return link.services.resolve_formatted(key, user, formatted.start + begin, format.memory_bytes(range.end) - begin,
                                         access, link.ranges) == MkeyFault::kNone;
}

bool psv_is_set(Link& link, const KeyUser& user, const std::optional<KeyFormat::Start>& start) {
  if (!start) {
    return true;
  }
  const Psv* const psv = link.services.find_psv(start->psv);
  return psv != nullptr && psv->pdn == user.pdn && psv->value == start->value;
}

// Whether the objects that the format names are there and as it wants them; `key` is then what to encrypt with.
bool is_ready(Link& link, const KeyUser& user, const KeyProtection& protection, const XtsKey*& key) {
  const KeyFormat& format = *protection.format;
  if (!psv_is_set(link, user, format.memory_start()) || !psv_is_set(link, user, format.wire_start())) {
    return false;
  }
  if (!format.encrypts()) {
    return !protection.must_encrypt;
  }
  const Dek* const dek = link.services.find_dek(format.dek());
  if (dek == nullptr || dek->pdn != user.pdn || (dek->keytag && *dek->keytag != format.keytag())) {
    return false;
  }
  key = &dek->key;
  return true;
}

void report(Link& link, std::uint32_t key, KeyProtection& protection, const std::optional<SignatureError>& error) {
  if (!error || !protection.reports) {
    return;
  }
  const auto start = error->wire ? protection.format->wire_start() : protection.format->memory_start();
  Psv* const psv = link.services.find_psv(start->psv);
  if (psv == nullptr || psv->in_error) {
    return;
  }
  psv->in_error = true;
  ++protection.errors;
  protection.reports = false;
  link.signature_errors.push_back({key, *error});
}

// Appends what `range` is on the wire.
bool append_wire(Link& link, std::uint32_t key, const KeyUser& user, const FormattedKey& formatted,
                 const DataRange& range, Access access, std::vector<std::byte>& wire) {
  const XtsKey* xts = nullptr;
  if (!is_ready(link, user, *formatted.protection, xts) || !resolve(link, key, user, formatted, range, access)) {
    return false;
  }
  const KeyFormat& format = *formatted.protection->format;
  std::vector<std::byte> bytes(format.memory_bytes(range.end) - format.memory_bytes(range.begin));
  std::optional<SignatureError> error;
  if (!read_resolved(link, bytes) || !format.to_wire(range.begin, bytes, xts, error)) {
    return false;
  }
  report(link, key, *formatted.protection, error);
  wire.insert(wire.end(), bytes.begin(), bytes.end());
  return true;
}

bool put_wire(Link& link, std::uint32_t key, const KeyUser& user, const FormattedKey& formatted, const DataRange& range,
              Access access, std::span<const std::byte> wire) {
  const XtsKey* xts = nullptr;
  const KeyFormat& format = *formatted.protection->format;
  std::vector<std::byte> bytes(wire.begin(), wire.end());
  std::optional<SignatureError> error;
  if (!is_ready(link, user, *formatted.protection, xts) || !format.to_memory(range.begin, bytes, xts, error) ||
      bytes.size() != format.memory_bytes(range.end) - format.memory_bytes(range.begin) ||
      !resolve(link, key, user, formatted, range, access) || !write_resolved(link, bytes)) {
    return false;
  }
  report(link, key, *formatted.protection, error);
  return true;
}

std::optional<FormattedKey> formatted_key(Link& link, const DataPiece& piece) {
  return piece.is_inline || piece.is_physical ? std::nullopt : link.services.formatted_key(piece.lkey);
}

}  // namespace

bool passes_format(Link& link, std::span<const DataPiece> list) {
  return std::ranges::any_of(
      list, [&](const DataPiece& piece) { return piece.bytes != 0 && formatted_key(link, piece).has_value(); });
}

std::optional<std::uint64_t> wire_bytes_of(Link& link, const KeyUser&, std::span<const DataPiece> list) {
  std::uint64_t sum = 0;
  for (const DataPiece& piece : list) {
    const auto formatted = formatted_key(link, piece);
    if (!formatted) {
      sum += piece.bytes;
      continue;
    }
    const auto range = local_range(*formatted, piece.address, piece.bytes);
    if (!range) {
      return std::nullopt;
    }
    const KeyFormat& format = *formatted->protection->format;
    sum += format.wire_bytes(range->end) - format.wire_bytes(range->begin);
  }
  return sum;
}

bool gather_formatted(Link& link, const KeyUser& user, std::span<const DataPiece> list,
                      std::span<const std::byte> inline_data, std::vector<std::byte>& wire) {
  for (const DataPiece& piece : list) {
    if (const auto formatted = formatted_key(link, piece)) {
      const auto range = local_range(*formatted, piece.address, piece.bytes);
      if (!range || !append_wire(link, piece.lkey, user, *formatted, *range, Access::kLocalRead, wire)) {
        return false;
      }
      continue;
    }
    const std::size_t before = wire.size();
    wire.resize(before + piece.bytes);
    if (!gather(link, user, {&piece, 1}, inline_data, 0, std::span(wire).subspan(before))) {
      return false;
    }
  }
  return true;
}

bool scatter_formatted(Link& link, const KeyUser& user, std::span<const DataPiece> list,
                       std::span<const std::byte> wire) {
  for (const DataPiece& piece : list) {
    if (wire.empty()) {
      break;
    }
    const auto formatted = formatted_key(link, piece);
    if (!formatted) {
      const auto part = wire.first(std::min<std::size_t>(wire.size(), piece.bytes));
      if (!scatter(link, user, {&piece, 1}, 0, part)) {
        return false;
      }
      wire = wire.subspan(part.size());
      continue;
    }
    auto range = local_range(*formatted, piece.address, piece.bytes);
    if (!range) {
      return false;
    }
    const KeyFormat& format = *formatted->protection->format;
    const std::uint64_t begin = format.wire_bytes(range->begin);
    const auto part = wire.first(std::min<std::uint64_t>(wire.size(), format.wire_bytes(range->end) - begin));
    range->end = std::min(range->end, format.data_of_wire(begin + part.size()));
    if (!put_wire(link, piece.lkey, user, *formatted, *range, Access::kLocalWrite, part)) {
      return false;
    }
    wire = wire.subspan(part.size());
  }
  return wire.empty();
}

bool read_formatted(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t position, std::uint64_t bytes,
                    std::vector<std::byte>& wire) {
  const auto formatted = link.services.formatted_key(key);
  if (!formatted || !formatted->protection->format || position < formatted->start ||
      wraps(position - formatted->start, bytes)) {
    return false;
  }
  const KeyFormat& format = *formatted->protection->format;
  const std::uint64_t begin = position - formatted->start;
  const std::uint64_t total = whole_data(*formatted);
  if (begin + bytes > format.wire_bytes(total)) {
    return false;
  }
  // From the beginning of the blocks that the first byte is in to the end of those that the last is in.
  const KeyFormat::Period& period = format.period();
  const std::uint64_t periods = begin / period.wire;
  const std::uint64_t data_end = format.data_of_wire(begin + bytes);
  const DataRange range{periods * period.data,
                        std::min(total, (data_end + period.data - 1) / period.data * period.data)};
  if (!append_wire(link, key, user, *formatted, range, Access::kRemoteRead, wire)) {
    return false;
  }
  const std::uint64_t before = begin - periods * period.wire;
  if (wire.size() < before + bytes) {
    return false;
  }
  wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(before));
  wire.resize(bytes);
  return true;
}

bool may_write_formatted(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t position,
                         std::uint64_t bytes) {
  const auto formatted = link.services.formatted_key(key);
  const auto range = formatted ? written_range(*formatted, position, bytes) : std::nullopt;
  return range && resolve(link, key, user, *formatted, *range, Access::kRemoteWrite);
}

bool write_formatted(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t position,
                     std::span<const std::byte> wire) {
  const auto formatted = link.services.formatted_key(key);
  const auto range = formatted ? written_range(*formatted, position, wire.size()) : std::nullopt;
  return range && put_wire(link, key, user, *formatted, *range, Access::kRemoteWrite, wire);
}

}  // namespace softhca::hca
