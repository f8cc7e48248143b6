#include "tools/cli/qp_options.h"

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "driver/dv_flags.h"
#include "driver/qp_geometry.h"

namespace umlx5::tools {
namespace {

template <typename Value>
struct Named {
  std::string_view name;
  Value value;
};

struct Type {
  QpType type;
  DcType dc_type = DcType::kNone;
};
constexpr Named<Type> kTypes[] = {{"rc", {QpType::kRc}},
                                  {"uc", {QpType::kUc}},
                                  {"ud", {QpType::kUd}},
                                  {"raw", {QpType::kRawPacket}},
                                  {"xrc-send", {QpType::kXrcSend}},
                                  {"xrc-recv", {QpType::kXrcRecv}},
                                  {"dci", {QpType::kDriver, DcType::kDci}},
                                  {"dct", {QpType::kDriver, DcType::kDct}}};

constexpr Named<SendOperation> kOperations[] = {{"write", SendOperation::kRdmaWrite},
                                                {"write-imm", SendOperation::kRdmaWriteWithImm},
                                                {"send", SendOperation::kSend},
                                                {"send-imm", SendOperation::kSendWithImm},
                                                {"read", SendOperation::kRdmaRead},
                                                {"compare-swap", SendOperation::kCompareSwap},
                                                {"fetch-add", SendOperation::kFetchAdd},
                                                {"local-invalidate", SendOperation::kLocalInvalidate},
                                                {"bind-window", SendOperation::kBindMemoryWindow},
                                                {"send-invalidate", SendOperation::kSendWithInvalidate},
                                                {"tso", SendOperation::kTso},
                                                {"mkey-interleaved", SendOperation::kMkeyInterleaved},
                                                {"mkey-list", SendOperation::kMkeyList},
                                                {"mkey-configure", SendOperation::kMkeyConfigure},
                                                {"raw-wqe", SendOperation::kRawWqe},
                                                {"memcpy", SendOperation::kMemcpy}};
constexpr std::uint64_t kVerbsOperations = 0xffffffff;

struct Flag {
  std::uint32_t create = 0, dv = 0;
};
constexpr Named<Flag> kFlags[] = {
    {"block-multicast-loopback", {.create = IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK}},
    {"scatter-fcs", {.create = IB_UVERBS_QP_CREATE_SCATTER_FCS}},
    {"strip-vlan", {.create = IB_UVERBS_QP_CREATE_CVLAN_STRIPPING}},
    {"pci-write-end-padding", {.create = IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING}},
    {"tunnel-offloads", {.dv = dv::kTunnelOffloads}},
    {"self-loopback-unicast", {.dv = dv::kSelfLoopbackUnicast}},
    {"self-loopback-multicast", {.dv = dv::kSelfLoopbackMulticast}},
    {"disable-scatter-to-cqe", {.dv = dv::kDisableScatterToCqe}},
    {"allow-scatter-to-cqe", {.dv = dv::kAllowScatterToCqe}},
    {"packet-based-credit", {.dv = dv::kPacketBasedCredit}},
    {"signature-pipelining", {.dv = dv::kSignaturePipelining}},
    {"out-of-order-placement", {.dv = dv::kOutOfOrderPlacement}}};

template <typename Value, std::size_t N>
std::vector<std::string> names_of(const Named<Value> (&table)[N]) {
  std::vector<std::string> names;
  for (const auto& entry : table) {
    names.emplace_back(entry.name);
  }
  return names;
}

// The command line has only names of the table.
template <typename Value, std::size_t N>
const Value& value_of(const Named<Value> (&table)[N], std::string_view name) {
  return std::ranges::find(table, name, &Named<Value>::name)->value;
}

}  // namespace

QpOptions attributes_of(const QpCommandOptions& given) {
  const Type& type = value_of(kTypes, given.type);
  const std::uint32_t receives = type.dc_type == DcType::kNone ? 1 : 0;
  QpOptions options{.type = type.type,
                    .capacity = {.max_send_wr = given.send_wr,
                                 .max_recv_wr = given.recv_wr.value_or(receives),
                                 .max_send_sge = given.send_sge,
                                 .max_recv_sge = given.recv_sge.value_or(receives),
                                 .max_inline_bytes = given.inline_bytes},
                    .signal_all = given.signal_all,
                    .wqe_signature = given.wqe_signature,
                    .max_tso_header_bytes = given.tso_header_bytes,
                    .dc_type = type.dc_type};
  std::uint64_t operations = 0;
  for (const std::string& name : given.operations) {
    operations |= static_cast<std::uint64_t>(value_of(kOperations, name));
  }
  if (operations != 0) {
    options.send_operations = operations & kVerbsOperations;
    if ((operations & ~kVerbsOperations) != 0) {
      options.dv_send_operations = operations & ~kVerbsOperations;
    }
  }
  for (const std::string& name : given.flags) {
    const Flag& flag = value_of(kFlags, name);
    options.create_flags |= flag.create;
    options.dv_create_flags |= flag.dv;
  }
  if (given.log_streams || given.log_errored_streams) {
    options.dci_streams = DciStreams{.log_concurrent = static_cast<std::uint8_t>(given.log_streams.value_or(0)),
                                     .log_errored = static_cast<std::uint8_t>(given.log_errored_streams.value_or(0))};
  }
  return options;
}

std::string operation_names(std::uint64_t operations) {
  std::string names;
  for (const auto& [name, bit] : kOperations) {
    if ((operations & static_cast<std::uint64_t>(bit)) != 0) {
      names += fmt::format("{}{}", names.empty() ? "" : " ", name);
    }
  }
  return names;
}

void add_qp_options(CLI::App& app, QpCommandOptions& options) {
  const auto list = [](const std::vector<std::string>& names) { return CLI::detail::join(names, ", "); };
  const auto types = names_of(kTypes), operations = names_of(kOperations), flags = names_of(kFlags);
  app.add_option("type", options.type, "type: " + list(types))->check(CLI::IsMember(types))->capture_default_str();
  app.add_option("--send-wr", options.send_wr, "send requests")->capture_default_str();
  app.add_option("--send-sge", options.send_sge, "SGEs of a send request")->capture_default_str();
  app.add_option("--inline", options.inline_bytes, "bytes of inline data")->capture_default_str();
  app.add_option("--recv-wr", options.recv_wr, "receive requests")->default_str("1; dci and dct: 0");
  app.add_option("--recv-sge", options.recv_sge, "SGEs of a receive request")->default_str("1; dci and dct: 0");
  app.add_option("--tso-header", options.tso_header_bytes, "bytes of a header for large sends (raw)");
  app.add_flag("--srq", options.srq, "receive from a shared receive queue");
  app.add_flag("--signal-all", options.signal_all, "all send requests are signalled");
  app.add_flag("--wqe-signature", options.wqe_signature, "WQEs carry a check byte");
  app.add_option("--ops", options.operations, "operations, all of the type if not given: " + list(operations))
      ->delimiter(',')
      ->check(CLI::IsMember(operations));
  app.add_option("--flags", options.flags, "create flags: " + list(flags))->delimiter(',')->check(CLI::IsMember(flags));
  app.add_option("--log-streams", options.log_streams, "log2 of a DCI's streams")->check(CLI::Range(0, 255));
  app.add_option("--log-errored-streams", options.log_errored_streams, "log2 of how many of them may be in error")
      ->check(CLI::Range(0, 255));
  app.add_option("-d,--device", options.device, "device name, or soft for a software device");
  app.add_flag("--json", options.json, "as JSON");
}

}  // namespace umlx5::tools
