// Queries of devices, ports, GIDs and P_Keys that libibverbs exports.
#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "driver/verbs/device_query.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/device_query.h"

namespace umlx5::verbs {
namespace {

// What sysfs calls a GID's type; the numbers are libibverbs' own.
enum class SysfsGidType : int { kIbOrRoceV1 = 0, kRoceV2 = 1 };

ibv_gid_entry to_entry(const uapi::GidEntry& from) {
  ibv_gid_entry to{};
  std::memcpy(to.gid.raw, from.gid.data(), sizeof to.gid.raw);
  to.gid_index = from.index;
  to.port_num = from.port;
  to.gid_type = static_cast<std::uint32_t>(from.type);
  to.ndev_ifindex = from.netdev_ifindex;
  return to;
}

Expected<uapi::GidEntry> query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index) {
  if (port > 0xff) {
    return fail(EINVAL, fmt::format("query GID: there is no port {}", port));
  }
  return uapi::query_gid_entry(native_of(context).commands(), static_cast<std::uint8_t>(port), index);
}

// An entry of the size that the caller knows.
void store_entry(const ibv_gid_entry& entry, void* to, std::size_t bytes) {
  std::memset(to, 0, bytes);
  std::memcpy(to, &entry, std::min(bytes, sizeof entry));
}

int query_gid_entry(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                    std::uint32_t flags, std::size_t entry_bytes) {
  if (flags != 0) {
    return report({EINVAL, fmt::format("query GID: flags {:#x} are not known; 0 is", flags)});
  }
  const auto answer = query_gid(context, port, index);
  if (!answer) {
    return report(answer.error());
  }
  store_entry(to_entry(*answer), entry, entry_bytes);
  return 0;
}

ssize_t query_gid_entries(ibv_context* context, ibv_gid_entry* entries, std::size_t max_entries, std::uint32_t flags,
                          std::size_t entry_bytes) {
  if (flags != 0) {
    return -report({EINVAL, fmt::format("query GID table: flags {:#x} are not known; 0 is", flags)});
  }
  Context& native = native_of(context);
  const auto table = uapi::query_gid_table(native.commands(), native.attributes().port_count, max_entries);
  if (!table) {
    return -report(table.error());
  }
  auto* to = reinterpret_cast<std::byte*>(entries);
  for (const uapi::GidEntry& entry : *table) {
    store_entry(to_entry(entry), to, entry_bytes);
    to += entry_bytes;
  }
  return static_cast<ssize_t>(table->size());
}

// 0, or -1 with errno, as these calls have it. An empty entry is a GID of zeros.
int query_gid_value(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  const auto answer = query_gid(context, port, static_cast<std::uint32_t>(index));
  if (!answer && answer.error().errno_value != ENODATA) {
    report(answer.error());
    return -1;
  }
  const Gid value = answer ? answer->gid : Gid{};
  std::memcpy(gid->raw, value.data(), sizeof gid->raw);
  return 0;
}

int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, SysfsGidType* type) {
  const auto answer = query_gid(context, port, index);
  if (!answer && answer.error().errno_value != ENODATA) {
    report(answer.error());
    return -1;
  }
  const bool v2 = answer && answer->type == uapi::GidType::kRoceV2;
  *type = v2 ? SysfsGidType::kRoceV2 : SysfsGidType::kIbOrRoceV1;
  return 0;
}

// 0, or -1 with errno; ENOENT beyond the table.
int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  const auto answer = native_of(context).query_pkey(port, static_cast<std::uint32_t>(index));
  if (!answer) {
    report(answer.error());
    errno = answer.error().errno_value == EINVAL ? ENOENT : answer.error().errno_value;
    return -1;
  }
  *pkey = htobe16(*answer);
  return 0;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5::verbs;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* device_attr) { return query_device(context, device_attr); }

int ibv_query_port(ibv_context* context, uint8_t port_num, _compat_ibv_port_attr* port_attr) {
  return query_port(context, port_num, reinterpret_cast<ibv_port_attr*>(port_attr), kCompatPortBytes);
}

int ibv_query_gid(ibv_context* context, uint8_t port_num, int index, ibv_gid* gid) {
  return query_gid_value(context, port_num, index, gid);
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port_num, uint32_t gid_index, ibv_gid_entry* entry, uint32_t flags,
                      size_t entry_size) {
  return query_gid_entry(context, port_num, gid_index, entry, flags, entry_size);
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries, uint32_t flags,
                             size_t entry_size) {
  return query_gid_entries(context, entries, max_entries, flags, entry_size);
}

int ibv_query_gid_type(ibv_context* context, uint8_t port_num, unsigned int index, SysfsGidType* type) {
  return query_gid_type(context, port_num, index, type);
}

int ibv_query_pkey(ibv_context* context, uint8_t port_num, int index, __be16* pkey) {
  return query_pkey(context, port_num, index, pkey);
}

int ibv_get_pkey_index(ibv_context* context, uint8_t port_num, __be16 pkey) {
  for (int index = 0;; ++index) {
    __be16 entry = 0;
    if (query_pkey(context, port_num, index, &entry) != 0) {
      return -1;
    }
    if (entry == pkey) {
      return index;
    }
  }
}

}  // extern "C"
