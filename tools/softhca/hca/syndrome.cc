#include "tools/softhca/hca/syndrome.h"

namespace softhca::hca {

std::string_view words(Syndrome syndrome) {
  switch (syndrome) {
    case Syndrome::kNone:
      return "no syndrome";
    case Syndrome::kUnknownCommand:
      return "the opcode is no command of the specification";
    case Syndrome::kCommandNotImplemented:
      return "the device does not implement this command";
    case Syndrome::kUnknownModifier:
      return "op_mod is not one of this command's";
    case Syndrome::kInputTooShort:
      return "the input mailbox ends before the fields of this command";
    case Syndrome::kPageListTooShort:
      return "the input mailbox ends before the page addresses that the object's size needs";
    case Syndrome::kOutputTooShort:
      return "the output mailbox has no room for the result";
    case Syndrome::kUnknownUser:
      return "uid is no user context";
    case Syndrome::kNotOwner:
      return "the object belongs to another user context";
    case Syndrome::kNeedsKernel:
      return "only the kernel (uid 0) may give this command";
    case Syndrome::kNoNumberLeft:
      return "all numbers of this kind of object are in use";
    case Syndrome::kNoSuchPd:
      return "the protection domain does not exist";
    case Syndrome::kNoSuchUar:
      return "the UAR page is not allocated";
    case Syndrome::kNoSuchXrcd:
      return "the XRC domain does not exist";
    case Syndrome::kNoSuchTransportDomain:
      return "the transport domain does not exist";
    case Syndrome::kNoSuchMkey:
      return "the memory key does not exist";
    case Syndrome::kNoSuchEq:
      return "the event queue does not exist";
    case Syndrome::kNoSuchCq:
      return "the completion queue does not exist";
    case Syndrome::kNoSuchSrq:
      return "the shared receive queue does not exist";
    case Syndrome::kNoSuchQp:
      return "the queue pair does not exist";
    case Syndrome::kNoSuchUctx:
      return "the user context does not exist";
    case Syndrome::kNoSuchPsv:
      return "the running value of signatures (PSV) does not exist";
    case Syndrome::kNoSuchDek:
      return "the data encryption key does not exist";
    case Syndrome::kNoSuchLogin:
      return "there is no such crypto login";
    case Syndrome::kWrongSrqKind:
      return "the number is a shared receive queue of another kind (SRQ, XRC SRQ, RMP)";
    case Syndrome::kPdInUse:
      return "memory keys or queues use the protection domain";
    case Syndrome::kUarInUse:
      return "queues use the UAR page";
    case Syndrome::kXrcdInUse:
      return "queues use the XRC domain";
    case Syndrome::kEqInUse:
      return "completion queues report to the event queue";
    case Syndrome::kCqInUse:
      return "queue pairs or XRC SRQs report to the completion queue";
    case Syndrome::kSrqInUse:
      return "queue pairs use the shared receive queue";
    case Syndrome::kUctxInUse:
      return "objects of the user context still exist";
    case Syndrome::kNoSuchUmem:
      return "no such registered user memory (umem)";
    case Syndrome::kUmemInUse:
      return "something lies in the umem";
    case Syndrome::kUmemReadOnly:
      return "the device may not write into the umem";
    case Syndrome::kUmemNeedsUser:
      return "a umem belongs to a user context";
    case Syndrome::kUmemSize:
      return "a umem has pages, and starts in the first of them";
    case Syndrome::kUmemMisaligned:
      return "the place in the umem is not aligned as the object has to be";
    case Syndrome::kOutsideUmem:
      return "the object reaches beyond the umem";
    case Syndrome::kPageSize:
      return "the page size is out of range";
    case Syndrome::kPageMisaligned:
      return "a page address is not a multiple of the page size";
    case Syndrome::kDoorbellRecordMisaligned:
      return "the doorbell record's address is not a multiple of its size";
    case Syndrome::kMkeyMode:
      return "the access mode is not supported: physical addresses and page lists are";
    case Syndrome::kMkeyLength:
      return "the region's length is zero or beyond the largest supported";
    case Syndrome::kMkeyTranslations:
      return "translations_octword_size is smaller than the entries given";
    case Syndrome::kMkeyTooFewPages:
      return "the page list does not cover start address and length";
    case Syndrome::kMkeyBsf:
      return "formats (BSF) want a key of translations that UMR can change, and 4 or 8 octowords";
    case Syndrome::kMkeyAddressWraps:
      return "start address and length go past the end of the address space";
    case Syndrome::kMkeyByName:
      return "the device chooses the index of a memory key itself";
    case Syndrome::kMkeyEncryption:
      return "a memory key that encrypts needs room for a format";
    case Syndrome::kPsvCount:
      return "1 to 4 running values can be created at once";
    case Syndrome::kGeneralObjectType:
      return "general objects here are data encryption keys and, where these come wrapped, crypto logins";
    case Syndrome::kDekKind:
      return "data encryption keys are for AES-XTS with keys of 128 or 256 bits";
    case Syndrome::kDekHalves:
      return "the two keys of AES-XTS are the same";
    case Syndrome::kDekUnwrap:
      return "the data encryption key is not wrapped with the import KEK";
    case Syndrome::kNoLogin:
      return "wrapped data encryption keys need a crypto login of the same user";
    case Syndrome::kLoginNotNeeded:
      return "this device takes plain data encryption keys and knows no logins";
    case Syndrome::kLoginNumbers:
      return "there is credential 0 and import KEK 0 only";
    case Syndrome::kLoginCredential:
      return "the credential is wrapped with another KEK, or is not the one that the device has";
    case Syndrome::kLoggedIn:
      return "this user is logged in";
    case Syndrome::kMkeyPhysicalByUser:
      return "only the kernel (uid 0) may create keys of physical addresses";
    case Syndrome::kEqSize:
      return "log_eq_size is beyond the largest supported";
    case Syndrome::kEqVector:
      return "the interrupt vector does not exist";
    case Syndrome::kEqEvents:
      return "an event is asked for that the device never raises";
    case Syndrome::kCqSize:
      return "log_cq_size is beyond the largest supported";
    case Syndrome::kCqeSize:
      return "cqe_sz is none of 64, 128 and 128 padded";
    case Syndrome::kCqCompression:
      return "CQE compression is not supported";
    case Syndrome::kCqCollapsed:
      return "collapsed CQs are not supported";
    case Syndrome::kCqApu:
      return "CQs of a processor unit are not supported";
    case Syndrome::kCqModeration:
      return "CQ moderation is not supported";
    case Syndrome::kCqFieldSelect:
      return "the field select mask has unknown bits or lacks the size";
    case Syndrome::kCqResizeTooSmall:
      return "the new buffer cannot hold the entries that wait";
    case Syndrome::kCqInError:
      return "the CQ is in error";
    case Syndrome::kCqBusyResizing:
      return "the CQ has no free entry for the RESIZE entry";
    case Syndrome::kSrqSize:
      return "log_srq_size is beyond the largest supported";
    case Syndrome::kSrqStride:
      return "the WQE stride is out of range";
    case Syndrome::kSrqLimit:
      return "the limit is greater than the number of entries";
    case Syndrome::kSrqType:
      return "only linked lists of WQEs are supported";
    case Syndrome::kSrqSignature:
      return "WQE signatures are not supported";
    case Syndrome::kSrqFieldSelect:
      return "the bitmask asks for a field that cannot be modified";
    case Syndrome::kSrqContainer:
      return "container SRQs are not supported";
    case Syndrome::kRmpState:
      return "the state is none of ready and error, or does not follow the RMP's state";
    case Syndrome::kQpType:
      return "this service type is not supported";
    case Syndrome::kQpNoQueue:
      return "the QP has neither a send nor a receive queue";
    case Syndrome::kQpSqSize:
      return "log_sq_size is beyond the largest supported";
    case Syndrome::kQpRqSize:
      return "log_rq_size is beyond the largest supported";
    case Syndrome::kQpRqStride:
      return "the receive WQE's stride is beyond the largest supported";
    case Syndrome::kQpRqType:
      return "rq_type is not supported, or contradicts the service type";
    case Syndrome::kQpSignature:
      return "WQE signatures are not supported";
    case Syndrome::kQpCrossChannel:
      return "cross-channel (CORE-Direct) queues are not supported";
    case Syndrome::kQpScatterCqe:
      return "cs_req or cs_res is not one of the codes, or needs 128-byte CQEs";
    case Syndrome::kQpReservedLkey:
      return "the reserved lkey is for the kernel's queues only";
    case Syndrome::kQpMessageSize:
      return "log_msg_max is beyond the largest supported";
    case Syndrome::kQpOffload:
      return "this offload type is not supported";
    case Syndrome::kQpExtension:
      return "the QP context extension selects a field that is not supported";
    case Syndrome::kQpInputNumber:
      return "the device chooses the QP's number itself";
    case Syndrome::kQpEce:
      return "ECE options are not supported";
    case Syndrome::kQpState:
      return "this command does not lead on from the QP's state";
    case Syndrome::kQpOptionalParameter:
      return "opt_param_mask has a bit that this transition does not take for this service type";
    case Syndrome::kQpAlternatePath:
      return "automatic path migration is not supported";
    case Syndrome::kQpPort:
      return "the port does not exist";
    case Syndrome::kQpPkeyIndex:
      return "the P_Key index is beyond the table";
    case Syndrome::kQpGidIndex:
      return "the GID index is beyond the table, or its entry is empty";
    case Syndrome::kQpRemoteGid:
      return "the remote GID is not the IPv4 address of one machine in RoCE v2's form";
    case Syndrome::kQpNoGrh:
      return "an address path of this port needs a GRH";
    case Syndrome::kQpMtu:
      return "the path MTU is not one of the codes, or beyond the port's";
    case Syndrome::kQpRdAtomic:
      return "more outstanding reads and atomics than the device supports";
    case Syndrome::kQpAtomicMode:
      return "the atomic mode is not supported";
    case Syndrome::kQpCreditMode:
      return "the end-to-end credit mode is not supported for this service type";
    case Syndrome::kQpOrdering:
      return "out-of-order placement is not supported for this service type";
    case Syndrome::kQueueStrides:
      return "a WQE of a striding queue cannot have so many strides";
    case Syndrome::kDctNotDrained:
      return "the DC target is not drained";
    case Syndrome::kQpIsDct:
      return "the number is that of a DC target, which has commands of its own";
    case Syndrome::kDciStreams:
      return "the DC initiator has more streams than the device supports";
    case Syndrome::kDciStreamNotFailed:
      return "the stream of the DC initiator has not failed";
    case Syndrome::kMkeyMemic:
      return "the range is not in the device's memory";
    case Syndrome::kMemicSize:
      return "device memory comes in multiples of 64 bytes, aligned as the capabilities allow";
    case Syndrome::kMemicFull:
      return "the range of device memory has no such space";
    case Syndrome::kNoSuchMemic:
      return "no such device memory is allocated";
    case Syndrome::kMulticastQpType:
      return "only UD queue pairs join multicast groups";
    case Syndrome::kMulticastGid:
      return "the GID is not one of a multicast group";
    case Syndrome::kMulticastLimit:
      return "there are as many groups, or queue pairs in the group, as the device has room for";
    case Syndrome::kMulticastJoin:
      return "the port cannot join the group";
    case Syndrome::kMulticastNotAttached:
      return "the queue pair is not in the multicast group";
    case Syndrome::kQpInMulticastGroup:
      return "the queue pair is in a multicast group";
    case Syndrome::kQueueType:
      return "a queue of this type is not supported";
    case Syndrome::kQueueState:
      return "the queue is not in that state, or cannot go from it to the one asked for";
    case Syndrome::kQueueFieldSelect:
      return "the mask selects a field that cannot be changed";
    case Syndrome::kQueueInUse:
      return "the object is still used by others";
    case Syndrome::kWrongQueueKind:
      return "the number is that of a queue of another kind";
    case Syndrome::kNoSuchTis:
      return "the transport interface send does not exist";
    case Syndrome::kNoSuchRqt:
      return "the table of receive queues does not exist";
    case Syndrome::kNoSuchTir:
      return "the transport interface receive does not exist";
    case Syndrome::kRqtSize:
      return "the table of receive queues is empty or too large";
    case Syndrome::kTirHash:
      return "the dispatch or hash of the transport interface is not supported";
    case Syndrome::kTirTunnel:
      return "the device has no tunnel offloads";
    case Syndrome::kFlowTableType:
      return "only tables of what the port receives are supported";
    case Syndrome::kFlowTableSize:
      return "the flow table is too large";
    case Syndrome::kFlowTableInUse:
      return "the flow table or group is still used";
    case Syndrome::kNoSuchFlowTable:
      return "the flow table does not exist";
    case Syndrome::kNoSuchFlowGroup:
      return "the flow group does not exist";
    case Syndrome::kFlowCriteria:
      return "flows can match the outer headers only";
    case Syndrome::kFlowIndex:
      return "the flow index is outside its table or group, or taken";
    case Syndrome::kNoSuchFlowCounter:
      return "no such flow counter";
    case Syndrome::kFlowCounterInUse:
      return "flows count in the counter";
    case Syndrome::kFlowCounterBulk:
      return "flow counters come one by one";
    case Syndrome::kFlowAction:
      return "the action of the flow is not supported";
    case Syndrome::kFlowDestination:
      return "the flow leads nowhere, or to a table that is not of a higher level";
    case Syndrome::kCounterClear:
      return "counters are not cleared";
    case Syndrome::kNoSuchCounterSet:
      return "there is one set of queue counters, number 0";
    case Syndrome::kCapabilityGroup:
      return "the capability group is unknown";
    case Syndrome::kOtherFunction:
      return "there is no other function than this one";
    case Syndrome::kGidTableIndex:
      return "the index is beyond the GID table";
    case Syndrome::kGidType:
      return "the entry is neither empty nor RoCE v2 over IPv4 or IPv6";
    case Syndrome::kVportNumber:
      return "there is no such virtual port";
    case Syndrome::kPagesState:
      return "MANAGE_PAGES gives or takes more pages than are asked";
    case Syndrome::kRegister:
      return "the register is unknown";
    case Syndrome::kRegisterReadOnly:
      return "the register cannot be written";
    case Syndrome::kIssi:
      return "the interface revision is not supported";
    case Syndrome::kSetCapability:
      return "a capability is wanted that the device does not have";
  }
  return {};
}

}  // namespace softhca::hca
