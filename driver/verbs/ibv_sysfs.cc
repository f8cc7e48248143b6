// Helpers around sysfs that libibverbs exports for librdmacm and ibv_devinfo.
#include "driver/verbs/device_list.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/sysfs.h"

using namespace umlx5::verbs;

extern "C" {

const char* ibv_get_sysfs_path() { return sysfs_path(); }

int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size) {
  return read_text(dir, file, {buf, size});
}

}  // extern "C"
