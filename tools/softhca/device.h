// The soft device of a process: its HCA, its port, the thread that runs them, and the kernel interface on top.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/softhca/kernel/rdma_device.h"
#include "tools/softhca/wire/endpoint.h"
#include "uapi/error.h"

namespace softhca {

struct DeviceOptions {
  std::string name = "mlx5_0";
  wire::EndpointOptions endpoint;
  std::string restrictions{};  // capabilities to do without (hca::restrict_profile())
};

// Options from the environment: UMLX5_SOFT_ADDR (an IPv4 address of this machine), UMLX5_SOFT_PCAP (a capture file, in
// which %p is the process id), UMLX5_SOFT_FAULTS (what the wire does to packets) and UMLX5_SOFT_CAPS (capabilities to
// do without: "dct=0,dci_streams=0"). EINVAL names the variable.
umlx5::Expected<DeviceOptions> device_options_from_environment();

// Thread-safe. A device stays with the process that opened it: in a child made by fork() it takes no requests.
class SoftDevice {
 public:
  // Errors: what opening the endpoint gives (EADDRINUSE, EADDRNOTAVAIL, EINVAL for the faults' text).
  static umlx5::Expected<std::unique_ptr<SoftDevice>> open(const DeviceOptions& options);
  // No file of the device is open any more.
  ~SoftDevice();
  SoftDevice(const SoftDevice&) = delete;
  SoftDevice& operator=(const SoftDevice&) = delete;

  kernel::RdmaDevice& rdma();
  wire::Ipv4 address() const;

  // Does some of the device's work on the caller's thread, or lets others run if there is none: for a program that
  // polls. While programs call it, the device's own thread keeps out of their way.
  void relax() noexcept;

 private:
  struct State;
  explicit SoftDevice(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace softhca
