// CREATE_UMEM, DESTROY_UMEM, and the memory of queues: in a list of pages, or in a umem.
#include <memory>
#include <utility>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/mkey.h"
#include "wqe/prm/umem.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

constexpr std::uint8_t kLogMinPageBytes = 12, kLogMaxPageBytes = 31;
constexpr std::size_t kEntryBytes = 8;
constexpr std::uint64_t kPageFlags = 0xfff;

Refusal take_entries(const Request& request, std::uint64_t count, Umem& umem) {
  const std::uint64_t page_bytes = std::uint64_t{1} << umem.pages.log_page_bytes;
  umem.writable = true;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto entry =
        umlx5::wqe::internal::load_word<std::uint64_t>(request.in.data() + prm::kUmemPagesOffset + i * kEntryBytes);
    if ((entry & ~kPageFlags) % page_bytes != 0) {
      return bad_parameter(Syndrome::kPageMisaligned);
    }
    umem.writable = umem.writable && (entry & prm::kMttWrite) != 0;
    umem.pages.page_addresses.push_back(entry & ~kPageFlags);
  }
  return {};
}

Refusal find_umem(Device& device, const Request& request, std::uint32_t number, Umem*& umem, bool writable) {
  if (const Refusal refusal = find(request, device.umems, number, Syndrome::kNoSuchUmem, umem)) {
    return refusal;
  }
  return umem->writable || !writable ? Refusal{} : bad_resource(Syndrome::kUmemReadOnly);
}

bool contains(const Umem& umem, std::uint64_t offset, std::uint64_t bytes) {
  return offset <= umem.bytes && bytes <= umem.bytes - offset;
}

}  // namespace

Refusal create_umem(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateUmemIn>();
  if (request.header.uid == 0) {
    return bad_parameter(Syndrome::kUmemNeedsUser);
  }
  if (in.log_page_size + kLogMinPageBytes > kLogMaxPageBytes) {
    return bad_parameter(Syndrome::kPageSize);
  }
  auto umem = std::make_unique<Umem>();
  umem->uid = request.header.uid;
  umem->pages.log_page_bytes = static_cast<std::uint8_t>(in.log_page_size + kLogMinPageBytes);
  umem->pages.first_offset_bytes = in.page_offset;
  if (in.num_of_mtt == 0 || in.page_offset >> umem->pages.log_page_bytes != 0) {
    return bad_parameter(Syndrome::kUmemSize);
  }
  if ((request.in.size() - prm::kUmemPagesOffset) / kEntryBytes < in.num_of_mtt) {
    return {prm::Status::kBadInputLength, Syndrome::kPageListTooShort};
  }
  umem->bytes = (in.num_of_mtt << umem->pages.log_page_bytes) - in.page_offset;
  if (const Refusal refusal = take_entries(request, in.num_of_mtt, *umem)) {
    return refusal;
  }
  Umem* const created = umem.get();
  if (!device.umems.insert(umem, created->umem_id)) {
    return no_resources();
  }
  request.reply_number(created->umem_id);
  return {};
}

Refusal destroy_umem(Device& device, const Request& request) {
  Umem* umem = nullptr;
  if (const Refusal refusal = find(request, device.umems, request.number(), Syndrome::kNoSuchUmem, umem)) {
    return refusal;
  }
  if (umem->users != 0) {
    return {prm::Status::kResourceBusy, Syndrome::kUmemInUse};
  }
  device.umems.erase(umem->umem_id);
  return {};
}

Refusal take_queue_memory(Device& device, const Request& request, const QueueMemory& memory, std::uint64_t bytes,
                          PageList& pages, UmemUse& use) {
  if (!memory.in_umem) {
    use = UmemUse();
    return take_pages(request, memory.log_page_size, memory.page_offset, bytes, pages);
  }
  Umem* umem = nullptr;
  if (const Refusal refusal = find_umem(device, request, memory.umem_id, umem, memory.is_written)) {
    return refusal;
  }
  if (!contains(*umem, memory.umem_offset, bytes)) {
    return bad_parameter(Syndrome::kOutsideUmem);
  }
  // A queue starts at a multiple of 64 bytes, in a umem as in pages of its own.
  const std::uint64_t start = umem->pages.first_offset_bytes + memory.umem_offset;
  if (start % 64 != 0) {
    return bad_parameter(Syndrome::kUmemMisaligned);
  }
  const std::uint8_t log_page = umem->pages.log_page_bytes;
  const auto first = umem->pages.page_addresses.begin() + static_cast<std::ptrdiff_t>(start >> log_page);
  const std::uint64_t in_page = start & ((std::uint64_t{1} << log_page) - 1);
  const auto count = static_cast<std::ptrdiff_t>((in_page + bytes + (std::uint64_t{1} << log_page) - 1) >> log_page);
  pages.log_page_bytes = log_page;
  pages.first_offset_bytes = static_cast<std::uint32_t>(in_page);
  pages.page_addresses.assign(first, first + count);
  use = UmemUse(*umem);
  return {};
}

Refusal take_doorbell_record(Device& device, const Request& request, const RecordMemory& memory,
                             std::uint64_t record_bytes, std::uint64_t& address, UmemUse& use) {
  if (!memory.in_umem) {
    address = memory.address;
    return memory.address % record_bytes == 0 ? Refusal{} : bad_parameter(Syndrome::kDoorbellRecordMisaligned);
  }
  Umem* umem = nullptr;
  if (const Refusal refusal = find_umem(device, request, memory.umem_id, umem, false)) {
    return refusal;
  }
  if (!contains(*umem, memory.address, record_bytes)) {
    return bad_parameter(Syndrome::kOutsideUmem);
  }
  address = umem->pages.address(memory.address);
  use = UmemUse(*umem);
  return address % record_bytes == 0 ? Refusal{} : bad_parameter(Syndrome::kDoorbellRecordMisaligned);
}

Refusal take_umem_pages(Device& device, const Request& request, std::uint32_t umem_id, std::uint64_t offset,
                        const PageRange& range, std::vector<std::uint64_t>& pages, UmemUse& use) {
  Umem* umem = nullptr;
  if (const Refusal refusal = find_umem(device, request, umem_id, umem, range.writable)) {
    return refusal;
  }
  const std::uint64_t page_bytes = std::uint64_t{1} << range.log_page_bytes;
  if (!contains(*umem, offset, range.bytes)) {
    return bad_parameter(Syndrome::kOutsideUmem);
  }
  // The pages of both are one another's parts, and the first byte is at the same place in them.
  const std::uint64_t start = umem->pages.first_offset_bytes + offset;
  if (range.log_page_bytes > umem->pages.log_page_bytes || (start & (page_bytes - 1)) != range.offset_bytes) {
    return bad_parameter(Syndrome::kUmemMisaligned);
  }
  const std::uint64_t first = start & ~(page_bytes - 1);
  for (std::uint64_t at = first; at < start + range.bytes; at += page_bytes) {
    const std::uint64_t in_umem_page = at & ((std::uint64_t{1} << umem->pages.log_page_bytes) - 1);
    pages.push_back(umem->pages.page_addresses[at >> umem->pages.log_page_bytes] + in_umem_page);
  }
  use = UmemUse(*umem);
  return {};
}

}  // namespace softhca::hca
