// The umlx5 program: lat, bw, devinfo and qp.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tools/cli/devices.h"
#include "tools/cli/devinfo.h"
#include "tools/cli/options.h"
#include "tools/cli/qp_command.h"
#include "tools/cli/run_test.h"
#include "tools/softhca/source.h"
#include "uapi/kernel_devices.h"

int main(int argc, char** argv) {
  using namespace umlx5;
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const tools::CommandLine line = tools::parse_command_line(arguments);
  if (const auto* answer = std::get_if<tools::Answer>(&line)) {
    fmt::print(answer->exit_code == 0 ? stdout : stderr, "{}\n", answer->text);
    return answer->exit_code;
  }
  uapi::KernelDevices kernel;
  const auto soft_devices = softhca::device_count_from_environment();
  if (!soft_devices) {
    fmt::print(stderr, "umlx5: {}\n", soft_devices.error().what);
    return 2;
  }
  softhca::SoftDeviceSource soft(*soft_devices);
  const std::array<uapi::DeviceSource*, 2> sources = {&kernel, &soft};
  if (const auto* devinfo = std::get_if<tools::DevinfoOptions>(&line)) {
    return tools::run_devinfo(*devinfo, sources);
  }
  if (const auto* qp = std::get_if<tools::QpCommandOptions>(&line)) {
    return tools::run_qp(*qp, sources);
  }
  return tools::run_test(std::get<tools::TestOptions>(line), arguments, sources);
}
