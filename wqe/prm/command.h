// Command interface: opcodes, status codes and what every mailbox starts with.
//
// Opcodes and status values are those of the PRM's "Command Interface" chapter, as <linux/mlx5/mlx5_ifc.h> and
// <linux/mlx5/device.h> publish them. All fields of mailboxes are big-endian; members here are in host order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe::prm {

enum class Opcode : std::uint16_t {
  kQueryHcaCap = 0x100,
  kQueryAdapter = 0x101,
  kInitHca = 0x102,
  kTeardownHca = 0x103,
  kEnableHca = 0x104,
  kDisableHca = 0x105,
  kQueryPages = 0x107,
  kManagePages = 0x108,
  kSetHcaCap = 0x109,
  kQueryIssi = 0x10a,
  kSetIssi = 0x10b,
  kSetDriverVersion = 0x10d,
  kQuerySfPartition = 0x111,
  kAllocSf = 0x113,
  kDeallocSf = 0x114,
  kSuspendVhca = 0x115,
  kResumeVhca = 0x116,
  kQueryVhcaMigrationState = 0x117,
  kSaveVhcaState = 0x118,
  kLoadVhcaState = 0x119,
  kCreateMkey = 0x200,
  kQueryMkey = 0x201,
  kDestroyMkey = 0x202,
  kQuerySpecialContexts = 0x203,
  kPageFaultResume = 0x204,
  kAllocMemic = 0x205,
  kDeallocMemic = 0x206,
  kModifyMemic = 0x207,
  kCreateEq = 0x301,
  kDestroyEq = 0x302,
  kQueryEq = 0x303,
  kGenEqe = 0x304,
  kCreateCq = 0x400,
  kDestroyCq = 0x401,
  kQueryCq = 0x402,
  kModifyCq = 0x403,
  kCreateQp = 0x500,
  kDestroyQp = 0x501,
  kRst2InitQp = 0x502,
  kInit2RtrQp = 0x503,
  kRtr2RtsQp = 0x504,
  kRts2RtsQp = 0x505,
  kSqerr2RtsQp = 0x506,
  kToErrQp = 0x507,
  kToRstQp = 0x50a,
  kQueryQp = 0x50b,
  kSqd2RtsQp = 0x50c,
  kMadIfc = 0x50d,
  kInit2InitQp = 0x50e,
  kCreatePsv = 0x600,
  kDestroyPsv = 0x601,
  kCreateSrq = 0x700,
  kDestroySrq = 0x701,
  kQuerySrq = 0x702,
  kArmRq = 0x703,
  kCreateXrcSrq = 0x705,
  kDestroyXrcSrq = 0x706,
  kQueryXrcSrq = 0x707,
  kArmXrcSrq = 0x708,
  kCreateDct = 0x710,
  kDestroyDct = 0x711,
  kDrainDct = 0x712,
  kQueryDct = 0x713,
  kArmDctForKeyViolation = 0x714,
  kCreateXrq = 0x717,
  kDestroyXrq = 0x718,
  kQueryXrq = 0x719,
  kArmXrq = 0x71a,
  kQueryXrqDcParamsEntry = 0x725,
  kSetXrqDcParamsEntry = 0x726,
  kQueryXrqErrorParams = 0x727,
  kReleaseXrqError = 0x729,
  kModifyXrq = 0x72a,
  kQueryEswFunctions = 0x740,
  kQueryVportState = 0x750,
  kModifyVportState = 0x751,
  kQueryEswVportContext = 0x752,
  kModifyEswVportContext = 0x753,
  kQueryNicVportContext = 0x754,
  kModifyNicVportContext = 0x755,
  kQueryRoceAddress = 0x760,
  kSetRoceAddress = 0x761,
  kQueryHcaVportContext = 0x762,
  kModifyHcaVportContext = 0x763,
  kQueryHcaVportGid = 0x764,
  kQueryHcaVportPkey = 0x765,
  kQueryVnicEnv = 0x76f,
  kQueryVportCounter = 0x770,
  kAllocQCounter = 0x771,
  kDeallocQCounter = 0x772,
  kQueryQCounter = 0x773,
  kSetMonitorCounter = 0x774,
  kArmMonitorCounter = 0x775,
  kSetPpRateLimit = 0x780,
  kQueryRateLimit = 0x781,
  kCreateSchedulingElement = 0x782,
  kDestroySchedulingElement = 0x783,
  kQuerySchedulingElement = 0x784,
  kModifySchedulingElement = 0x785,
  kCreateQosParaVport = 0x786,
  kDestroyQosParaVport = 0x787,
  kAllocPd = 0x800,
  kDeallocPd = 0x801,
  kAllocUar = 0x802,
  kDeallocUar = 0x803,
  kConfigIntModeration = 0x804,
  kAccessReg = 0x805,
  kAttachToMcg = 0x806,
  kDetachFromMcg = 0x807,
  kGetDroppedPacketLog = 0x80a,
  kQueryMadDemux = 0x80b,
  kSetMadDemux = 0x80c,
  kNop = 0x80d,
  kAllocXrcd = 0x80e,
  kDeallocXrcd = 0x80f,
  kAllocTransportDomain = 0x816,
  kDeallocTransportDomain = 0x817,
  kQueryCongStatus = 0x822,
  kModifyCongStatus = 0x823,
  kQueryCongParams = 0x824,
  kModifyCongParams = 0x825,
  kQueryCongStatistics = 0x826,
  kAddVxlanUdpDport = 0x827,
  kDeleteVxlanUdpDport = 0x828,
  kSetL2TableEntry = 0x829,
  kQueryL2TableEntry = 0x82a,
  kDeleteL2TableEntry = 0x82b,
  kSetWolRol = 0x830,
  kQueryWolRol = 0x831,
  kCreateLag = 0x840,
  kModifyLag = 0x841,
  kQueryLag = 0x842,
  kDestroyLag = 0x843,
  kCreateVportLag = 0x844,
  kDestroyVportLag = 0x845,
  kCreateTir = 0x900,
  kModifyTir = 0x901,
  kDestroyTir = 0x902,
  kQueryTir = 0x903,
  kCreateSq = 0x904,
  kModifySq = 0x905,
  kDestroySq = 0x906,
  kQuerySq = 0x907,
  kCreateRq = 0x908,
  kModifyRq = 0x909,
  kDestroyRq = 0x90a,
  kQueryRq = 0x90b,
  kCreateRmp = 0x90c,
  kModifyRmp = 0x90d,
  kDestroyRmp = 0x90e,
  kQueryRmp = 0x90f,
  kSetDelayDropParams = 0x910,
  kCreateTis = 0x912,
  kModifyTis = 0x913,
  kDestroyTis = 0x914,
  kQueryTis = 0x915,
  kCreateRqt = 0x916,
  kModifyRqt = 0x917,
  kDestroyRqt = 0x918,
  kQueryRqt = 0x919,
  kSetFlowTableRoot = 0x92f,
  kCreateFlowTable = 0x930,
  kDestroyFlowTable = 0x931,
  kQueryFlowTable = 0x932,
  kCreateFlowGroup = 0x933,
  kDestroyFlowGroup = 0x934,
  kQueryFlowGroup = 0x935,
  kSetFlowTableEntry = 0x936,
  kQueryFlowTableEntry = 0x937,
  kDeleteFlowTableEntry = 0x938,
  kAllocFlowCounter = 0x939,
  kDeallocFlowCounter = 0x93a,
  kQueryFlowCounter = 0x93b,
  kModifyFlowTable = 0x93c,
  kAllocPacketReformatContext = 0x93d,
  kDeallocPacketReformatContext = 0x93e,
  kQueryPacketReformatContext = 0x93f,
  kAllocModifyHeaderContext = 0x940,
  kDeallocModifyHeaderContext = 0x941,
  kQueryModifyHeaderContext = 0x942,
  kFpgaCreateQp = 0x960,
  kFpgaModifyQp = 0x961,
  kFpgaQueryQp = 0x962,
  kFpgaDestroyQp = 0x963,
  kFpgaQueryQpCounters = 0x964,
  kCreateGeneralObject = 0xa00,
  kModifyGeneralObject = 0xa01,
  kQueryGeneralObject = 0xa02,
  kDestroyGeneralObject = 0xa03,
  kCreateUctx = 0xa04,
  kDestroyUctx = 0xa06,
  kCreateUmem = 0xa08,
  kDestroyUmem = 0xa0a,
  kSyncSteering = 0xb00,
  kQueryVhcaState = 0xb0d,
  kModifyVhcaState = 0xb0e,
};

// PRM name of the command ("CREATE_QP"); empty for a number that no published command has.
std::string_view to_string(Opcode opcode);

enum class Status : std::uint8_t {
  kOk = 0x00,
  kInternalError = 0x01,
  kBadOperation = 0x02,
  kBadParameter = 0x03,
  kBadSystemState = 0x04,
  kBadResource = 0x05,
  kResourceBusy = 0x06,
  kExceedsLimit = 0x08,
  kBadResourceState = 0x09,
  kBadIndex = 0x0a,
  kNoResources = 0x0f,
  kBadQpState = 0x10,
  kBadPacket = 0x30,
  kBadSizeOutstandingCqes = 0x40,
  kBadInputLength = 0x50,
  kBadOutputLength = 0x51,
};

// Short name ("BAD_PARAM"); empty for an unknown value.
std::string_view to_string(Status status);
// What the status means, as half a sentence; never empty.
std::string_view words(Status status);

// First 8 bytes of every input mailbox.
struct InputHeader {
  Opcode opcode{};
  std::uint16_t uid{};  // DEVX user context, 0: the kernel
  std::uint16_t op_mod{};
  static constexpr std::string_view kName = "in";
  static constexpr std::size_t kBytes = 8;
  static constexpr auto kFields =
      Fields{Field{"opcode", &InputHeader::opcode, bytes(0, 2), Format::kName},
             Field{"uid", &InputHeader::uid, bytes(2, 2)}, Field{"op_mod", &InputHeader::op_mod, bytes(6, 2)}};
};
static_assert(layout_is_valid<InputHeader>());

// First 8 bytes of every output mailbox.
struct OutputHeader {
  Status status{};
  std::uint32_t syndrome{};
  static constexpr std::string_view kName = "out";
  static constexpr std::size_t kBytes = 8;
  static constexpr auto kFields = Fields{Field{"status", &OutputHeader::status, bytes(0, 1), Format::kName},
                                         Field{"syndrome", &OutputHeader::syndrome, bytes(4, 4)}};
};
static_assert(layout_is_valid<OutputHeader>());

// Input of the commands that name one object, or none: all DESTROY_*, DEALLOC_* and most QUERY_* commands, 2ERR_QP,
// 2RST_QP, and the ALLOC_* commands with number 0. EQ numbers use 8 of the 24 bits.
struct ObjectIn {
  InputHeader header{};
  std::uint32_t number{};  // 24 bits
  static constexpr std::string_view kName = "object_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"header", &ObjectIn::header, bytes(0, 8)}, Field{"number", &ObjectIn::number, bits(8, 23, 0)}};
};
static_assert(layout_is_valid<ObjectIn>());

// Output of the commands that return one number, or nothing: all ALLOC_* and CREATE_*, DESTROY_*, modify commands.
struct ObjectOut {
  OutputHeader header{};
  std::uint32_t number{};  // 24 bits
  std::uint32_t ece{};     // QP commands only: enhanced connection establishment options
  static constexpr std::string_view kName = "object_out";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"header", &ObjectOut::header, bytes(0, 8)}, Field{"number", &ObjectOut::number, bits(8, 23, 0)},
             Field{"ece", &ObjectOut::ece, bytes(12, 4)}};
};
static_assert(layout_is_valid<ObjectOut>());

// Where the page addresses (PAS, 8 bytes each) of CREATE_QP, CREATE_CQ, CREATE_EQ, CREATE_SRQ, CREATE_XRC_SRQ,
// CREATE_RMP, MODIFY_CQ and the MTT list of CREATE_MKEY start in the input mailbox.
inline constexpr std::size_t kPageAddressOffset = 0x110;

}  // namespace umlx5::wqe::prm
