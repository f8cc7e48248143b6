#include "tools/softhca/hca/page_list.h"

#include <algorithm>

namespace softhca::hca {
namespace {

// Calls access(address, offset, bytes) for each piece of [position, position + bytes) that lies in one page.
template <typename Access>
bool for_each_page(const PageList& list, std::uint64_t position, std::uint64_t bytes, Access&& access) {
  const std::uint64_t page_bytes = std::uint64_t{1} << list.log_page_bytes;
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t address = list.address(position + done);
    if (address == 0) {
      return false;
    }
    const std::uint64_t in_page = (list.first_offset_bytes + position + done) & (page_bytes - 1);
    const std::uint64_t piece = std::min(bytes - done, page_bytes - in_page);
    if (!access(address, done, piece)) {
      return false;
    }
    done += piece;
  }
  return true;
}

}  // namespace

std::uint64_t PageList::address(std::uint64_t position) const {
  const std::uint64_t from_first = position + first_offset_bytes;
  const std::uint64_t page = from_first >> log_page_bytes;
  if (from_first < position || page >= page_addresses.size()) {
    return 0;
  }
  return page_addresses[page] + (from_first & ((std::uint64_t{1} << log_page_bytes) - 1));
}

bool PageList::read(AddressSpace& dma, std::uint64_t position, std::span<std::byte> to) const {
  return for_each_page(*this, position, to.size(),
                       [&](std::uint64_t address, std::uint64_t offset, std::uint64_t bytes) {
                         return dma.read(address, to.subspan(offset, bytes));
                       });
}

bool PageList::write(AddressSpace& dma, std::uint64_t position, std::span<const std::byte> from) const {
  return for_each_page(*this, position, from.size(),
                       [&](std::uint64_t address, std::uint64_t offset, std::uint64_t bytes) {
                         return dma.write(address, from.subspan(offset, bytes));
                       });
}

}  // namespace softhca::hca
