// What mlx5dv_create_qp() and ibv_create_qp_ex() refuse and take, one row for each rule: the attributes, the errno, and
// words that the error's text must have (the field, the value asked for, the limit and where it comes from). Made
// natively by soft/creation_test.cc and through the C ABI by verbs/creation_probe.cc, with our libraries and the stock
// ones.
//
// Expected values: rdma-core v65 (providers/mlx5/verbs.c, qp.c, libibverbs/cmd_qp.c) and, where "kernel" stands before
// a row, Linux's drivers/infiniband/hw/mlx5/qp.c.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>

namespace umlx5::testing {

// What a call is made of. The objects are the test's.
struct Asked {
  bool mlx5 = true;  // mlx5dv_create_qp(); if not, ibv_create_qp_ex()
  ibv_qp_type type = IBV_QPT_RC;
  ibv_qp_cap cap{.max_send_wr = 1, .max_recv_wr = 0, .max_send_sge = 1, .max_recv_sge = 0, .max_inline_data = 0};
  bool pd = true, xrcd = false, srq = false, cqs = true, recv_cq = true;
  std::uint32_t mask = 0;  // besides PD and XRCD
  std::uint32_t create_flags = 0, source_qpn = 0, tso_header = 0;
  std::uint64_t operations = 0;
  std::uint8_t hash_function = IBV_RX_HASH_FUNC_TOEPLITZ, hash_key_bytes = 40;
  std::uint64_t hash_fields = IBV_RX_HASH_SRC_IPV4;
  std::uint64_t dv_mask = 0;
  std::uint32_t dv_flags = 0;
  int dc_type = 0;
  std::uint8_t streams = 0, errored_streams = 0;
  std::uint64_t dv_operations = 0;

  Asked& of(ibv_qp_type given) {
    type = given;
    xrcd = given == IBV_QPT_XRC_RECV;
    pd = cqs = !xrcd;
    recv_cq = given != IBV_QPT_XRC_SEND && given != IBV_QPT_XRC_RECV;
    return *this;
  }
  Asked& dc(int given) {
    of(IBV_QPT_DRIVER);
    dv_mask |= MLX5DV_QP_INIT_ATTR_MASK_DC;
    dc_type = given;
    srq = given == MLX5DV_DCTYPE_DCT;
    return *this;
  }
  Asked& dci() { return dc(MLX5DV_DCTYPE_DCI); }
  Asked& dct() { return dc(MLX5DV_DCTYPE_DCT); }
  Asked& rss() {
    of(IBV_QPT_RAW_PACKET);
    mask |= IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    cap = {};
    cqs = recv_cq = false;
    return *this;
  }
  Asked& ops(std::uint64_t given) {
    mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    operations = given;
    return *this;
  }
  Asked& dv_ops(std::uint64_t given) {
    dv_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    dv_operations = given;
    return *this;
  }
  Asked& flags(std::uint32_t given) {
    mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    create_flags = given;
    return *this;
  }
  Asked& dv(std::uint32_t given) {
    dv_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    dv_flags = given;
    return *this;
  }
  Asked& dci_streams(std::uint8_t concurrent, std::uint8_t errored) {
    dv_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
    streams = concurrent;
    errored_streams = errored;
    return *this;
  }
};

inline constexpr int kSame = -1, kCrashes = -2;

struct CreationRow {
  const char* name;
  void (*ask)(Asked&);
  int error;                 // 0: made
  const char* words = "";    // parts of the text, between '|'
  const char* without = "";  // UMLX5_SOFT_CAPS of the device
  int stock = kSame;         // of libmlx5 44.0
  bool native = true;        // the native API can be asked for it
};

// mlx5dv_qp_create_flags by their numbers: 44.0 does not know the last.
inline constexpr std::uint32_t kTunnel = 1 << 0, kLoopUc = 1 << 1, kLoopMc = 1 << 2, kNoScatter = 1 << 3,
                               kScatter = 1 << 4, kCredits = 1 << 5, kPipelining = 1 << 6, kOoo = 1 << 7;
inline constexpr int kUntouched = 0;  // errno of the stock library

inline constexpr CreationRow kCreationRows[] = {
    // ---- Errors of the library ----
    {"comp_mask", [](Asked& a) { a.mask = 1 << 7; }, EINVAL, "comp_mask 0x81|0x7f", "", kUntouched, false},
    {"TSO header of RC", [](Asked& a) { a.mask = IBV_QP_INIT_ATTR_MAX_TSO_HEADER, a.tso_header = 54; }, EINVAL,
     "TSO|RAW_PACKET", "", kUntouched},
    {"send operations of RSS", [](Asked& a) { a.rss().ops(0); }, EINVAL, "send_ops_flags 0x0|RSS"},
    {"send operations of a DCT", [](Asked& a) { a.dct().ops(0), a.mlx5 = true; }, EINVAL, "DCT"},
    {"source QPN of RC", [](Asked& a) { a.flags(IBV_QP_CREATE_SOURCE_QPN), a.source_qpn = 5; }, EINVAL,
     "source QPN 0x5|RC|UD"},
    {"mlx5dv comp_mask", [](Asked& a) { a.dv_mask = 1 << 4; }, EINVAL, "comp_mask 0x10|0xf", "", kSame, false},
    {"DC of type RC", [](Asked& a) { a.dv_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, a.dc_type = MLX5DV_DCTYPE_DCI; }, EINVAL,
     "DRIVER|dc_type"},
    {"unknown create flag", [](Asked& a) { a.dv(1 << 8); }, EINVAL, "create_flags 0x100|0xff"},
    {"unknown create flag without its mask", [](Asked& a) { a.dv_flags = 1 << 8; }, 0},
    {"OOO_DP without its mask", [](Asked& a) { a.dv_flags = kOoo, a.cap.max_recv_wr = 2; }, 0},
    {"scatter allowed and disabled", [](Asked& a) { a.dv(kNoScatter | kScatter); }, EINVAL,
     "create_flags 0x18|scatter to CQE"},
    {"OOO_DP of RAW_PACKET", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET).dv(kOoo); }, EOPNOTSUPP,
     "create_flags 0x80|RAW_PACKET", "", EINVAL},
    {"OOO_DP without the ability", [](Asked& a) { a.dv(kOoo); }, EOPNOTSUPP, "create_flags 0x80|RC|ooo_recv_wrs_caps",
     "ooo=0", EINVAL},
    {"OOO_DP of RC", [](Asked& a) { a.dv(kOoo); }, 0, "", "", EINVAL},
    {"OOO_DP of UC", [](Asked& a) { a.of(IBV_QPT_UC).dv(kOoo); }, 0, "", "", EINVAL},
    {"OOO_DP of UD", [](Asked& a) { a.of(IBV_QPT_UD).dv(kOoo); }, 0, "", "", EINVAL},
    {"OOO_DP of XRC_SEND", [](Asked& a) { a.of(IBV_QPT_XRC_SEND).dv(kOoo); }, 0, "", "", EINVAL},
    {"OOO_DP of XRC_RECV", [](Asked& a) { a.of(IBV_QPT_XRC_RECV).dv(kOoo); }, 0, "", "", EINVAL},
    {"OOO_DP of a DCI", [](Asked& a) { a.dci().dv(kOoo); }, 0, "", "", EINVAL},
    {"OOO_DP of a DCT", [](Asked& a) { a.dct().dv(kOoo); }, 0, "", "", EINVAL},
    {"OOO_DP with too many receive requests", [](Asked& a) { a.dv(kOoo), a.cap.max_recv_wr = 16385; }, EINVAL,
     "max_recv_wr 16385|16384|ooo_recv_wrs_caps"},
    {"DRIVER without MASK_DC", [](Asked& a) { a.of(IBV_QPT_DRIVER); }, EINVAL, "dc_type 0|DCT|DCI"},
    {"DRIVER of an unknown dc_type", [](Asked& a) { a.dc(3); }, EINVAL, "dc_type 3|DCT|DCI"},
    {"DRIVER without mlx5dv attributes", [](Asked& a) { a.of(IBV_QPT_DRIVER), a.mlx5 = false; }, EINVAL, "dc_type", "",
     kUntouched, false},
    {"DCI streams", [](Asked& a) { a.dci().dci_streams(8, 8); }, 0},
    {"too many DCI streams", [](Asked& a) { a.dci().dci_streams(9, 8); }, EINVAL,
     "dci_streams|2^9|2^8|device's dci_streams_caps"},
    {"too many errored DCI streams", [](Asked& a) { a.dci().dci_streams(8, 9); }, EINVAL,
     "dci_streams|2^9|2^8|device's dci_streams_caps"},
    {"DCI streams without the ability", [](Asked& a) { a.dci().dci_streams(1, 0); }, EINVAL,
     "device's dci_streams_caps", "dci_streams=0,dci_errored_streams=0"},
    {"no DCI streams without the ability", [](Asked& a) { a.dci(); }, 0, "", "dci_streams=0,dci_errored_streams=0"},
    {"DCT with verbs flags", [](Asked& a) { a.dct().flags(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB); }, EINVAL, "DCT"},
    {"DCT with a mask of no flags", [](Asked& a) { a.dct().flags(0); }, EINVAL, "comp_mask|DCT", "", kSame, false},
    {"DCT with streams", [](Asked& a) { a.dct().dci_streams(0, 0); }, EINVAL, "dci_streams|DCT"},
    {"DCT with mlx5dv operations", [](Asked& a) { a.dct().dv_ops(0); }, EINVAL, "send_ops_flags|DCT"},
    {"DCT with TUNNEL_OFFLOADS", [](Asked& a) { a.dct().dv(kTunnel); }, EINVAL, "create_flags 0x1|DCT"},
    {"DCT with loopback, unicast", [](Asked& a) { a.dct().dv(kLoopUc); }, EINVAL, "create_flags 0x2|DCT"},
    {"DCT with loopback, multicast", [](Asked& a) { a.dct().dv(kLoopMc); }, EINVAL, "create_flags 0x4|DCT"},
    {"DCT with ALLOW_SCATTER", [](Asked& a) { a.dct().dv(kScatter); }, EINVAL, "create_flags 0x10|DCT"},
    {"DCT with packet credits", [](Asked& a) { a.dct().dv(kCredits); }, EINVAL, "create_flags 0x20|DCT"},
    {"RSS key of 129 bytes", [](Asked& a) { a.rss(), a.hash_key_bytes = 129; }, EINVAL, "key|129|128"},
    {"atomics without the ability", [](Asked& a) { a.ops(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD); }, EOPNOTSUPP,
     "send_ops_flags 0x40|atomic_cap", "atomic=0"},
    {"all operations without atomics", [](Asked&) {}, 0, "", "atomic=0"},
    {"MEMCPY without a PD", [](Asked& a) { a.dv_ops(MLX5DV_QP_EX_WITH_MEMCPY), a.pd = false; }, EINVAL, "no PD", "",
     kSame, false},
    {"MEMCPY", [](Asked& a) { a.dv_ops(MLX5DV_QP_EX_WITH_MEMCPY); }, 0},
    {"MEMCPY without the ability", [](Asked& a) { a.dv_ops(MLX5DV_QP_EX_WITH_MEMCPY); }, EOPNOTSUPP,
     "send_ops_flags|dma_mmo_sq", "mmo=0"},
    {"no such type", [](Asked& a) { a.type = static_cast<ibv_qp_type>(7); }, EINVAL, "qp_type 7"},
    {"no such type, no send queue", [](Asked& a) { a.type = static_cast<ibv_qp_type>(7), a.cap = {}; }, EINVAL,
     "qp_type 7"},
    {"no such type, no operations", [](Asked& a) { a.type = static_cast<ibv_qp_type>(7), a.ops(0); }, EOPNOTSUPP,
     "send_ops_flags"},
    {"operations of an XRC target", [](Asked& a) { a.of(IBV_QPT_XRC_RECV).ops(0); }, EOPNOTSUPP,
     "send_ops_flags|XRC_RECV"},
    {"mlx5dv operations of an XRC target", [](Asked& a) { a.of(IBV_QPT_XRC_RECV).dv_ops(0); }, EOPNOTSUPP,
     "send_ops_flags|XRC_RECV"},
    {"operations of an underlay QP", [](Asked& a) { a.of(IBV_QPT_UD).flags(IBV_QP_CREATE_SOURCE_QPN).ops(0); },
     EOPNOTSUPP, "send_ops_flags|UD"},
    {"operations of UD that it does not have", [](Asked& a) { a.of(IBV_QPT_UD).ops(IBV_QP_EX_WITH_RDMA_WRITE); },
     EOPNOTSUPP, "send_ops_flags|UD|0x1"},
    {"streams of RC are ignored", [](Asked& a) { a.dci_streams(200, 200); }, 0},
    {"no PD", [](Asked& a) { a.pd = false; }, EINVAL, "no PD", "", kSame, false},
    {"XRC target without a domain", [](Asked& a) { a.of(IBV_QPT_XRC_RECV), a.xrcd = false; }, EINVAL, "XRC", "", kSame,
     false},
    {"no receive CQ", [](Asked& a) { a.recv_cq = false; }, EINVAL, "no receive CQ", "", kCrashes},
    {"no CQs", [](Asked& a) { a.cqs = a.recv_cq = false; }, EINVAL, "no send CQ", "", kCrashes},
    {"unknown verbs flag", [](Asked& a) { a.flags(1 << 13); }, EINVAL, "create_flags 0x2000|0xb02"},
    // ---- Flags of mlx5dv, type by type; "kernel": refused there ----
    {"TUNNEL_OFFLOADS of RAW_PACKET", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET).dv(kTunnel); }, 0},
    {"TUNNEL_OFFLOADS of RSS", [](Asked& a) { a.rss().dv(kTunnel); }, 0},
    {"kernel: TUNNEL_OFFLOADS of RC", [](Asked& a) { a.dv(kTunnel); }, EINVAL, "create_flags 0x1|RAW_PACKET|RC"},
    {"kernel: TUNNEL_OFFLOADS without the ability", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET).dv(kTunnel); }, EINVAL,
     "create_flags 0x1|tunnel_offloads_caps", "tunnel_offloads=0"},
    {"loopback of RAW_PACKET", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET).dv(kLoopUc | kLoopMc); }, 0},
    {"loopback of RSS", [](Asked& a) { a.rss().dv(kLoopUc | kLoopMc); }, 0},
    {"kernel: unicast loopback of UD", [](Asked& a) { a.of(IBV_QPT_UD).dv(kLoopUc); }, EINVAL, "create_flags 0x2|UD"},
    {"kernel: multicast loopback of UC", [](Asked& a) { a.of(IBV_QPT_UC).dv(kLoopMc); }, EINVAL, "create_flags 0x4|UC"},
    {"DISABLE_SCATTER of RC", [](Asked& a) { a.dv(kNoScatter); }, 0},
    {"DISABLE_SCATTER of a DCT", [](Asked& a) { a.dct().dv(kNoScatter); }, 0},
    {"ALLOW_SCATTER of a DCI", [](Asked& a) { a.dci().dv(kScatter); }, 0},
    {"ALLOW_SCATTER without the ability", [](Asked& a) { a.dv(kScatter); }, 0, "", "scatter_to_cqe=0"},
    {"packet credits of RC", [](Asked& a) { a.dv(kCredits); }, 0},
    {"kernel: packet credits of UC", [](Asked& a) { a.of(IBV_QPT_UC).dv(kCredits); }, EINVAL,
     "create_flags 0x20|RC|UC"},
    {"kernel: packet credits without the ability", [](Asked& a) { a.dv(kCredits); }, EINVAL,
     "create_flags 0x20|PACKET_BASED_CREDIT", "packet_based_credit=0"},
    {"SIG_PIPELINING of RC", [](Asked& a) { a.dv(kPipelining); }, 0},
    {"SIG_PIPELINING of UD", [](Asked& a) { a.of(IBV_QPT_UD).dv(kPipelining); }, 0},
    {"SIG_PIPELINING of a DCT", [](Asked& a) { a.dct().dv(kPipelining); }, 0},
    // ---- Flags of the verbs ----
    {"BLOCK_SELF_MCAST_LB of UD", [](Asked& a) { a.of(IBV_QPT_UD).flags(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB); }, 0},
    {"CVLAN_STRIPPING of RAW_PACKET", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET).flags(IBV_QP_CREATE_CVLAN_STRIPPING); },
     0},
    {"kernel: CVLAN_STRIPPING of RC", [](Asked& a) { a.flags(IBV_QP_CREATE_CVLAN_STRIPPING); }, EOPNOTSUPP,
     "create_flags 0x200|RAW_PACKET|RC"},
    {"kernel: SCATTER_FCS of a device without it",
     [](Asked& a) { a.of(IBV_QPT_RAW_PACKET).flags(IBV_QP_CREATE_SCATTER_FCS); }, EOPNOTSUPP,
     "create_flags 0x100|raw_packet_caps"},
    {"kernel: PCI_WRITE_END_PADDING of a device without it",
     [](Asked& a) { a.of(IBV_QPT_RAW_PACKET).flags(IBV_QP_CREATE_PCI_WRITE_END_PADDING); }, EOPNOTSUPP,
     "create_flags 0x800|raw_packet_caps"},
    // ---- Refusals of the kernel ----
    {"kernel: XRC without the ability", [](Asked& a) { a.of(IBV_QPT_XRC_SEND); }, EOPNOTSUPP, "XRC_SEND", "xrc=0"},
    {"kernel: DCI without the ability", [](Asked& a) { a.dci(); }, EOPNOTSUPP, "DCI", "dct=0"},
    {"kernel: DCT without the ability", [](Asked& a) { a.dct(); }, EOPNOTSUPP, "DCT", "dct=0"},
    {"kernel: RAW_PACKET without the ability", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET); }, EOPNOTSUPP, "RAW_PACKET",
     "raw_packets=0"},
    {"kernel: RAW_PACKET without queues", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET), a.cap = {}; }, EINVAL,
     "max_send_wr 0|max_recv_wr 0|RAW_PACKET"},
    {"kernel: DCI with receive requests", [](Asked& a) { a.dci(), a.cap.max_recv_wr = 4; }, EINVAL,
     "max_recv_wr 4|DCI"},
    {"kernel: DCI with receive SGEs", [](Asked& a) { a.dci(), a.cap.max_recv_sge = 1; }, EINVAL, "max_recv_sge 1|DCI"},
    {"kernel: DCT without an SRQ", [](Asked& a) { a.dct(), a.srq = false; }, EINVAL, "SRQ|DCT"},
    {"DCT without a receive CQ", [](Asked& a) { a.dct(), a.recv_cq = false; }, EINVAL, "no receive CQ", "", kCrashes},
    {"RSS", [](Asked& a) { a.rss(); }, 0},
    {"kernel: RSS of type RC", [](Asked& a) { a.rss(), a.type = IBV_QPT_RC; }, EINVAL, "RC|RAW_PACKET|table"},
    {"kernel: RSS with another hash", [](Asked& a) { a.rss(), a.hash_function = 2; }, EOPNOTSUPP,
     "function 2|Toeplitz"},
    {"kernel: RSS over inner headers without tunnels",
     [](Asked& a) { a.rss(), a.hash_fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_INNER; }, EOPNOTSUPP, "INNER|TUNNEL"},
    {"RSS over inner headers",
     [](Asked& a) { a.rss().dv(kTunnel), a.hash_fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_INNER; }, 0},
    {"kernel: RSS key of 39 bytes", [](Asked& a) { a.rss(), a.hash_key_bytes = 39; }, EINVAL, "39|40"},
    {"kernel: RSS over IPv4 and IPv6",
     [](Asked& a) { a.rss(), a.hash_fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6; }, EINVAL, "0x5|IPv4|IPv6"},
    {"kernel: RSS over TCP and UDP",
     [](Asked& a) { a.rss(), a.hash_fields = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP; }, EINVAL,
     "0x50|TCP|UDP"},
    {"RSS with receive requests", [](Asked& a) { a.rss(), a.cap.max_recv_wr = 1; }, EINVAL, "RSS|receive"},
    // ---- Queues that do not fit; what fits is in size_rows.h ----
    {"max_send_wr", [](Asked& a) { a.cap.max_send_wr = 8193; }, EINVAL, "max_send_wr 8193|8192|max_send_wqebb"},
    {"max_send_sge", [](Asked& a) { a.cap.max_send_sge = 53; }, EINVAL, "max_send_sge 53|52|max_sq_desc_sz"},
    {"max_inline_data", [](Asked& a) { a.cap.max_inline_data = 829; }, EINVAL,
     "max_inline_data 829|828|max_sq_desc_sz"},
    {"max_inline_data that wraps", [](Asked& a) { a.cap.max_inline_data = 0x7ffffff0; }, EINVAL,
     "max_inline_data 2147483632|828", "", 0},
    {"63 octowords, SGEs", [](Asked& a) { a.ops(IBV_QP_EX_WITH_SEND), a.cap.max_send_sge = 63; }, EINVAL,
     "max_send_sge 63|62|63 octowords", "", 0},
    {"63 octowords, inline data", [](Asked& a) { a.ops(IBV_QP_EX_WITH_SEND), a.cap.max_inline_data = 989; }, EINVAL,
     "max_inline_data 989|988|63 octowords", "", 0},
    {"TSO header",
     [](Asked& a) {
       a.of(IBV_QPT_RAW_PACKET).mask = IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
       a.tso_header = 1000;
     },
     EINVAL, "max_tso_header 1000|max_sq_desc_sz|1024"},
    {"max_recv_wr", [](Asked& a) { a.cap.max_recv_wr = 32769; }, EINVAL,
     "max_recv_wr 32769|32768|device's max_recv_wr"},
    {"max_recv_wr beside an SRQ", [](Asked& a) { a.srq = true, a.cap.max_recv_wr = 32769; }, EINVAL,
     "max_recv_wr 32769|32768|device's max_recv_wr"},
    {"max_recv_sge", [](Asked& a) { a.cap.max_recv_wr = 1, a.cap.max_recv_sge = 33; }, EINVAL,
     "max_recv_sge 33|32|max_rq_desc_sz"},
    {"max_recv_sge that wraps", [](Asked& a) { a.cap.max_recv_wr = 1, a.cap.max_recv_sge = 0x10000001; }, EINVAL,
     "max_recv_sge 268435457|32", "", 0},
    {"SRQ of an XRC sender", [](Asked& a) { a.of(IBV_QPT_XRC_SEND).srq = true; }, EINVAL, "SRQ|XRC_SEND", "", 0},
};

// ---- Send operations ----

struct OperationRow {
  const char* name;
  void (*type)(Asked&);
  std::uint64_t verbs, dv;          // what may be asked for
  std::uint64_t builders;           // members of ibv_qp_ex that are there, in the structure's order from bit 0
  std::uint64_t dv_builders_stock;  // members of mlx5dv_qp_ex, with an mlx5dv operation
};
inline constexpr std::uint64_t kUnreliableOperations =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
inline constexpr std::uint64_t kReliableOperations = kUnreliableOperations | IBV_QP_EX_WITH_RDMA_READ |
                                                     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                                     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
// cmp_swp 0, fetch_add 1, bind_mw 2, local_inv 3, read 4, write 5, write_imm 6, send 7, send_imm 8, send_inv 9, tso 10,
// ud_addr 11, xrc_srqn 12, inline 13, inline list 14, sge 15, sge list 16, start 17, complete 18, abort 19
inline constexpr std::uint64_t kData = 0xfe000, kUnreliableSteps = 0x3ec, kReliableSteps = 0x3ff;
// dc_addr 0, mr_interleaved 1, mr_list 2, mkey_configure 3, setters 4 to 7, raw_wqe 8, dc_addr_stream 9, memcpy 10,
// crypto 11
inline constexpr OperationRow kOperationRows[] = {
    {"RC", [](Asked&) {}, kReliableOperations, 31, kReliableSteps | kData, 0xdfe},
    {"XRC_SEND", [](Asked& a) { a.of(IBV_QPT_XRC_SEND); }, kReliableOperations, 8, kReliableSteps | 1 << 12 | kData,
     0x100},
    {"DCI", [](Asked& a) { a.dci(); }, kReliableOperations, 24, kReliableSteps | kData, 0x701},
    {"UC", [](Asked& a) { a.of(IBV_QPT_UC); }, kUnreliableOperations, 8, kUnreliableSteps | kData, 0x100},
    {"UD", [](Asked& a) { a.of(IBV_QPT_UD); }, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM, 8,
     0x180 | 1 << 11 | kData, 0x100},
    {"RAW_PACKET", [](Asked& a) { a.of(IBV_QPT_RAW_PACKET); }, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO, 8,
     1 << 7 | 1 << 10 | kData, 0x100},
};

}  // namespace umlx5::testing
