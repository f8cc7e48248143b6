// Syndromes: one number for each reason to refuse a command, with its words. The numbers are this device's own; those
// of a ConnectX are not published.
#pragma once

#include <cstdint>
#include <string_view>

namespace softhca::hca {

enum class Syndrome : std::uint32_t {
  kNone = 0,

  // Commands.
  kUnknownCommand = 0x530101,
  kCommandNotImplemented = 0x530102,
  kUnknownModifier = 0x530103,
  kInputTooShort = 0x530104,
  kPageListTooShort = 0x530105,
  kOutputTooShort = 0x530106,
  kUnknownUser = 0x530107,
  kNotOwner = 0x530108,
  kNeedsKernel = 0x530109,

  // Tables.
  kNoNumberLeft = 0x530201,
  kNoSuchPd = 0x530202,
  kNoSuchUar = 0x530203,
  kNoSuchXrcd = 0x530204,
  kNoSuchTransportDomain = 0x530205,
  kNoSuchMkey = 0x530206,
  kNoSuchEq = 0x530207,
  kNoSuchCq = 0x530208,
  kNoSuchSrq = 0x530209,
  kNoSuchQp = 0x53020a,
  kNoSuchUctx = 0x53020b,
  kWrongSrqKind = 0x53020c,
  kPdInUse = 0x53020d,
  kUarInUse = 0x53020e,
  kXrcdInUse = 0x53020f,
  kEqInUse = 0x530210,
  kCqInUse = 0x530211,
  kSrqInUse = 0x530212,
  kUctxInUse = 0x530213,
  kNoSuchPsv = 0x530214,
  kNoSuchDek = 0x530215,
  kNoSuchLogin = 0x530216,

  // Buffers.
  kNoSuchUmem = 0x530301,
  kPageSize = 0x530302,
  kPageMisaligned = 0x530304,
  kDoorbellRecordMisaligned = 0x530305,
  kUmemInUse = 0x530306,
  kUmemReadOnly = 0x530307,
  kUmemNeedsUser = 0x530308,
  kUmemSize = 0x530309,
  kUmemMisaligned = 0x53030a,
  kOutsideUmem = 0x53030b,

  // Mkeys.
  kMkeyMode = 0x530401,
  kMkeyLength = 0x530402,
  kMkeyTranslations = 0x530403,
  kMkeyTooFewPages = 0x530404,
  kMkeyBsf = 0x530405,
  kMkeyAddressWraps = 0x530406,
  kMkeyByName = 0x530407,
  kMkeyPhysicalByUser = 0x530408,
  kMkeyEncryption = 0x530409,
  kMkeyMemic = 0x53040a,

  // Running values of signatures, data encryption keys, crypto logins.
  kPsvCount = 0x530a01,
  kGeneralObjectType = 0x530a02,
  kDekKind = 0x530a03,
  kDekHalves = 0x530a04,
  kDekUnwrap = 0x530a05,
  kNoLogin = 0x530a06,
  kLoginNotNeeded = 0x530a07,
  kLoginNumbers = 0x530a08,
  kLoginCredential = 0x530a09,
  kLoggedIn = 0x530a0a,

  // EQ.
  kEqSize = 0x530501,
  kEqVector = 0x530502,
  kEqEvents = 0x530503,

  // CQ.
  kCqSize = 0x530601,
  kCqeSize = 0x530602,
  kCqCompression = 0x530603,
  kCqCollapsed = 0x530604,
  kCqApu = 0x530605,
  kCqModeration = 0x530606,
  kCqFieldSelect = 0x530607,
  kCqResizeTooSmall = 0x530608,
  kCqInError = 0x530609,
  kCqBusyResizing = 0x53060a,

  // SRQ.
  kSrqSize = 0x530701,
  kSrqStride = 0x530702,
  kSrqLimit = 0x530703,
  kSrqType = 0x530704,
  kSrqSignature = 0x530705,
  kSrqFieldSelect = 0x530706,
  kSrqContainer = 0x530707,
  kRmpState = 0x530708,

  // QP.
  kQpType = 0x530801,
  kQpNoQueue = 0x530802,
  kQpSqSize = 0x530803,
  kQpRqSize = 0x530804,
  kQpRqStride = 0x530805,
  kQpRqType = 0x530806,
  kQpSignature = 0x530807,
  kQpCrossChannel = 0x530808,
  kQpScatterCqe = 0x530809,
  kQpReservedLkey = 0x53080a,
  kQpMessageSize = 0x53080b,
  kQpOffload = 0x53080c,
  kQpExtension = 0x53080d,
  kQpInputNumber = 0x53080e,
  kQpEce = 0x53080f,
  kQpState = 0x530810,
  kQpOptionalParameter = 0x530811,
  kQpAlternatePath = 0x530812,
  kQpPort = 0x530813,
  kQpPkeyIndex = 0x530814,
  kQpGidIndex = 0x530815,
  kQpRemoteGid = 0x530816,
  kQpNoGrh = 0x530817,
  kQpMtu = 0x530818,
  kQpRdAtomic = 0x530819,
  kQpAtomicMode = 0x53081a,
  kQpCreditMode = 0x530820,
  kQpOrdering = 0x530821,
  kQueueStrides = 0x530822,
  kDctNotDrained = 0x53081c,
  kQpIsDct = 0x53081d,
  kDciStreams = 0x53081e,
  kDciStreamNotFailed = 0x53081f,

  // Multicast groups.
  kMulticastQpType = 0x530b01,
  kMulticastGid = 0x530b02,
  kMulticastLimit = 0x530b03,
  kMulticastJoin = 0x530b04,
  kMulticastNotAttached = 0x530b05,
  kQpInMulticastGroup = 0x530b06,
  // Queues of raw packets, and what leads to them.
  kQueueType = 0x530e01,
  kQueueState = 0x530e02,
  kQueueFieldSelect = 0x530e03,
  kQueueInUse = 0x530e04,
  kWrongQueueKind = 0x530e05,
  kNoSuchTis = 0x530e06,
  kNoSuchRqt = 0x530e07,
  kNoSuchTir = 0x530e08,
  kRqtSize = 0x530e09,
  kTirHash = 0x530e0a,
  kTirTunnel = 0x530e0b,

  // Flow steering.
  kFlowTableType = 0x530f01,
  kFlowTableSize = 0x530f02,
  kFlowTableInUse = 0x530f03,
  kNoSuchFlowTable = 0x530f04,
  kNoSuchFlowGroup = 0x530f05,
  kFlowCriteria = 0x530f06,
  kFlowIndex = 0x530f07,
  kFlowAction = 0x530f08,
  kNoSuchFlowCounter = 0x530f20,
  kFlowCounterInUse = 0x530f21,
  kFlowCounterBulk = 0x530f22,
  kFlowDestination = 0x530f09,

  // Memory on the device.
  kMemicSize = 0x530c01,
  kMemicFull = 0x530c02,
  kNoSuchMemic = 0x530c03,

  // Device.
  kCapabilityGroup = 0x530901,
  kOtherFunction = 0x530902,
  kGidTableIndex = 0x530903,
  kGidType = 0x530904,
  kVportNumber = 0x530905,
  kPagesState = 0x530906,
  kRegister = 0x530907,
  kRegisterReadOnly = 0x530908,
  kIssi = 0x530909,
  kSetCapability = 0x53090a,
  kCounterClear = 0x53090b,
  kNoSuchCounterSet = 0x53090c,
};

// Why the command was refused, as half a sentence; empty for a number that is none of the above.
std::string_view words(Syndrome syndrome);

}  // namespace softhca::hca
