// Messages that pass memory keys with formats (signatures, encryption). They are converted as a whole: a block may
// begin in one packet and end in the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/data_list.h"
#include "tools/softhca/hca/link.h"

namespace softhca::hca {

// True if a piece is of a key with a format. The functions below take lists with and without such pieces.
bool passes_format(Link& link, std::span<const DataPiece> list);

// Bytes on the wire that the list stands for. None if a piece does not begin at a whole block, or is not in its key.
std::optional<std::uint64_t> wire_bytes_of(Link& link, const KeyUser& user, std::span<const DataPiece> list);

// The bytes that the list sends, as on the wire. Signature errors are added to link.signature_errors, here and below.
// False if a key, its encryption key or running values, or the memory behind it do not allow it.
bool gather_formatted(Link& link, const KeyUser& user, std::span<const DataPiece> list,
                      std::span<const std::byte> inline_data, std::vector<std::byte>& wire);
// Puts a message where the list says.
bool scatter_formatted(Link& link, const KeyUser& user, std::span<const DataPiece> list,
                       std::span<const std::byte> wire);

// A peer's access to bytes [position, ...) of one key, as on the wire.
bool read_formatted(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t position, std::uint64_t bytes,
                    std::vector<std::byte>& wire);
bool write_formatted(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t position,
                     std::span<const std::byte> wire);
// What write_formatted() would refuse before it looks at the data.
bool may_write_formatted(Link& link, std::uint32_t key, const KeyUser& user, std::uint64_t position,
                         std::uint64_t bytes);

}  // namespace softhca::hca
