#include "tools/softhca/hca/memory_copy.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tools/softhca/hca/data_list.h"
#include "wqe/data.h"
#include "wqe/mmo.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::DataSegment;
using umlx5::wqe::MmoMetadataSegment;

constexpr std::size_t kPieceBytes = 64 << 10;
// What the program learns from its opaque buffer: no error.
constexpr std::array<std::byte, 8> kDone{};

}  // namespace

Failure copy_memory(Link& link, const KeyUser& user, std::span<const std::byte> body) {
  if (body.size() != MmoMetadataSegment::kBytes + 2 * DataSegment::kBytes) {
    return failure::kBadWqe;
  }
  const auto metadata = umlx5::wqe::load<MmoMetadataSegment>(body.data());
  const auto from = umlx5::wqe::load<DataSegment>(body.data() + MmoMetadataSegment::kBytes);
  const auto to = umlx5::wqe::load<DataSegment>(body.data() + MmoMetadataSegment::kBytes + DataSegment::kBytes);
  const std::uint64_t bytes = from.length_bytes();
  if (to.length_bytes() != bytes) {
    return failure::kMessageTooLong;
  }
  if (!ends_accessible(link, from.lkey, user, from.address, bytes, Access::kLocalRead)) {
    return failure::kGatherFault;
  }
  if (!ends_accessible(link, to.lkey, user, to.address, bytes, Access::kLocalWrite)) {
    return failure::kScatterFault;
  }
  std::vector<std::byte> buffer(std::min<std::uint64_t>(bytes, kPieceBytes));
  for (std::uint64_t done = 0; done < bytes; done += buffer.size()) {
    const std::span piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), bytes - done));
    if (!read_key(link, from.lkey, user, from.address + done, Access::kLocalRead, piece)) {
      return failure::kGatherFault;
    }
    if (!write_key(link, to.lkey, user, to.address + done, Access::kLocalWrite, piece)) {
      return failure::kScatterFault;
    }
  }
  return write_key(link, metadata.opaque_lkey, user, metadata.opaque_address, Access::kLocalWrite, kDone)
             ? Failure{}
             : failure::kScatterFault;
}

}  // namespace softhca::hca
