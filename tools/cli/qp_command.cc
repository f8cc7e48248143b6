#include "tools/cli/qp_command.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "driver/context.h"
#include "driver/cq.h"
#include "driver/pd.h"
#include "driver/qp.h"
#include "driver/srq.h"
#include "driver/xrcd.h"
#include "tools/cli/devices.h"
#include "tools/cli/devinfo.h"
#include "tools/cli/exchange.h"
#include "tools/cli/noting_channel.h"

namespace umlx5::tools {
namespace {

using Tree = nlohmann::ordered_json;

struct KernelFlag {
  std::string_view name;
  std::uint32_t bit;
};
constexpr KernelFlag kKernelFlags[] = {{"SIGNATURE", MLX5_QP_FLAG_SIGNATURE},
                                       {"SCATTER_CQE", MLX5_QP_FLAG_SCATTER_CQE},
                                       {"TUNNEL_OFFLOADS", MLX5_QP_FLAG_TUNNEL_OFFLOADS},
                                       {"BFREG_INDEX", MLX5_QP_FLAG_BFREG_INDEX},
                                       {"TYPE_DCT", MLX5_QP_FLAG_TYPE_DCT},
                                       {"TYPE_DCI", MLX5_QP_FLAG_TYPE_DCI},
                                       {"TIR_ALLOW_SELF_LB_UC", MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC},
                                       {"TIR_ALLOW_SELF_LB_MC", MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC},
                                       {"ALLOW_SCATTER_CQE", MLX5_QP_FLAG_ALLOW_SCATTER_CQE},
                                       {"PACKET_BASED_CREDIT_MODE", MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE},
                                       {"UAR_PAGE_INDEX", MLX5_QP_FLAG_UAR_PAGE_INDEX},
                                       {"DCI_STREAM", MLX5_QP_FLAG_DCI_STREAM}};

std::string names_in(std::uint32_t flags) {
  std::string names;
  for (const auto& [name, bit] : kKernelFlags) {
    if ((flags & bit) != 0) {
      names += fmt::format("{}{}", names.empty() ? "" : " ", name);
    }
  }
  return names;
}

Tree kernel_fields(const mlx5_ib_create_qp& request) {
  return {{"sq_wqe_count", request.sq_wqe_count},
          {"rq_wqe_count", request.rq_wqe_count},
          {"rq_wqe_shift", request.rq_wqe_shift},
          {"flags", request.flags},
          {"flag_names", names_in(request.flags)},
          {"log_num_concurent", request.dci_streams.log_num_concurent},
          {"log_num_errored", request.dci_streams.log_num_errored}};
}

Tree describe_qp(const Qp& qp, const std::optional<mlx5_ib_create_qp>& request) {
  const SendQueue::Config& send = qp.send_queue().config();
  const ReceiveQueue::Config& receive = qp.receive_queue().config();
  Tree tree;
  tree["granted"] = {{"max_send_wr", qp.capacity().max_send_wr},
                     {"max_send_sge", qp.capacity().max_send_sge},
                     {"max_inline_bytes", qp.capacity().max_inline_bytes},
                     {"max_recv_wr", qp.capacity().max_recv_wr},
                     {"max_recv_sge", qp.capacity().max_recv_sge}};
  tree["send_queue"] = {{"wqe_bytes", send.max_wqe_bytes}, {"wqebbs", send.wqebbs}, {"ring_bytes", send.wqebbs * 64}};
  tree["receive_queue"] = {{"wqe_bytes", receive.wqes == 0 ? 0u : 1u << receive.wqe_bytes_log2},
                           {"wqes", receive.wqes},
                           {"ring_bytes", receive.wqes << receive.wqe_bytes_log2}};
  tree["operations"] = operation_names(qp.send_operations());
  if (request) {
    tree["kernel"] = kernel_fields(*request);
  }
  return tree;
}

Expected<Owned<Qp>> create(Pd& pd, Xrcd* xrcd, Cq& cq, Srq* srq, const QpCommandOptions& given) {
  QpOptions options = attributes_of(given);
  options.send_cq = options.recv_cq = &cq;
  options.srq = srq;
  if (options.type == QpType::kXrcRecv) {
    options.send_cq = options.recv_cq = nullptr;
    return xrcd->create_qp(options);
  }
  if (options.type == QpType::kXrcSend) {
    options.recv_cq = nullptr;
  }
  return pd.create_qp(options);
}

// Makes the queue pair, looks at it and takes it down.
Expected<Tree> try_out(const QpCommandOptions& given, std::span<uapi::DeviceSource* const> sources) {
  const auto devices = list_devices(sources);
  if (!devices) return std::unexpected(devices.error());
  const auto device = choose_device(*devices, given.device, Prefer::kHardware);
  if (!device) return std::unexpected(device.error());
  auto channel = device->source->open(device->info);
  if (!channel) return std::unexpected(std::move(channel.error()));
  std::optional<mlx5_ib_create_qp> request;
  auto context = Context::open(device->info, std::make_unique<NotingChannel>(std::move(*channel), request));
  if (!context) return std::unexpected(std::move(context.error()));
  auto pd = (*context)->alloc_pd();
  if (!pd) return std::unexpected(std::move(pd.error()));
  auto cq = (*context)->create_cq({.entries = 1});
  if (!cq) return std::unexpected(std::move(cq.error()));
  Owned<Srq> srq;
  if (given.srq) {
    auto made = (*pd)->create_srq({.max_wr = 1, .max_sge = 1});
    if (!made) return std::unexpected(std::move(made.error()));
    srq = std::move(*made);
  }
  Owned<Xrcd> xrcd;
  if (given.type == "xrc-recv") {
    auto made = (*context)->open_xrcd(-1, 0);
    if (!made) return std::unexpected(std::move(made.error()));
    xrcd = std::move(*made);
  }
  const auto qp = create(**pd, xrcd.get(), **cq, srq.get(), given);
  if (!qp) return std::unexpected(qp.error());
  Tree tree = {{"device", device->info.name}, {"type", given.type}};
  tree.update(describe_qp(**qp, request));
  return tree;
}

}  // namespace

int run_qp(const QpCommandOptions& options, std::span<uapi::DeviceSource* const> sources) {
  const auto tree = try_out(options, sources);
  if (!tree) {
    if (options.json) {
      const Tree error = {{"error", {{"errno", tree.error().errno_value}, {"text", line_of(tree.error())}}}};
      fmt::print("{}\n", error.dump(2));
    }
    fmt::print(stderr, "umlx5 qp: {}\n", line_of(tree.error()));
    return 1;
  }
  fmt::print("{}\n", options.json ? tree->dump(2) : text_of(*tree));
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace umlx5::tools
