// The devices that programs see. Part of libibverbs alone: the one place with process-wide state.
#pragma once

#include <sys/types.h>

#include "driver/verbs/objects.h"
#include "uapi/error.h"

namespace umlx5::verbs {

// The devices there are now, as ibv_get_device_list() gives them: ended by a null pointer, the array and a reference to
// each device being the caller's. A device that an earlier list had is the same object again while it stays the same
// device.
Expected<DeviceObject**> list_devices(std::size_t& count);
void free_device_list(DeviceObject** list);

// One more user of a device, and one less; the last one frees it.
void hold(DeviceObject& device);
void release(DeviceObject& device);

// "/sys", or what SYSFS_PATH names; of soft devices, where their entries lie.
const char* sysfs_path();

}  // namespace umlx5::verbs
