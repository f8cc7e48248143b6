#include "wqe/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "wqe/cqe.h"
#include "wqe/eqe.h"
#include "wqe/mmo.h"
#include "wqe/umr.h"
#include "wqe/wait.h"
#include "wqe/xrc.h"

namespace umlx5::wqe {
namespace {

constexpr std::size_t kHexBytesPerLine = 16;

// Shows bytes from the front, one segment a line.
class Printer {
 public:
  explicit Printer(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t left() const { return bytes_.size() - offset_; }

  void say(std::string_view words) { fmt::format_to(std::back_inserter(out_), "  {}\n", words); }

  // Shows the next segment, or nothing if it is not all there.
  template <typename Segment>
  bool segment() {
    if (left() < Segment::kBytes) {
      return false;
    }
    line(print(load<Segment>(bytes_.data() + offset_)));
    offset_ += Segment::kBytes;
    return true;
  }

  // Shows `text` for the next `bytes` bytes, which must be there.
  void text(std::string_view words, std::size_t bytes) {
    line(words);
    offset_ += bytes;
  }

  // Shows the next `bytes` bytes, fewer if there are fewer, as hexadecimal.
  void hex(std::size_t bytes) {
    for (std::size_t rest = std::min(bytes, left()); rest != 0;) {
      const std::size_t count = std::min(rest, kHexBytesPerLine);
      line(hex_of(bytes_.subspan(offset_, count)));
      offset_ += count;
      rest -= count;
    }
  }

  static std::string hex_of(std::span<const std::byte> bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      fmt::format_to(std::back_inserter(out), "{}{:02x}", i != 0 && i % 4 == 0 ? " " : "",
                     static_cast<unsigned>(bytes[i]));
    }
    return out;
  }

  std::string take() { return std::move(out_); }
  void title(std::string_view words) { fmt::format_to(std::back_inserter(out_), "{}\n", words); }

 private:
  void line(std::string_view words) { fmt::format_to(std::back_inserter(out_), "  +{:#05x} {}\n", offset_, words); }

  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  std::string out_;
};

void show_address_vector(Printer& printer, const AddressVector& av) { printer.text(print(av), av.wire_bytes()); }

void show_eth(Printer& printer, const SendWqe& wqe) {
  printer.text(fmt::format("{} header {}", print(wqe.eth), Printer::hex_of(wqe.eth_inline_header)),
               wqe.eth.wire_octowords() * kOctowordBytes);
}

void show_atomic(Printer& printer, const SendWqe& wqe) {
  const bool is_wide = wqe.atomic.operand_bytes == 8;
  switch (wqe.control.opcode) {
    case SendOpcode::kMaskedCompareSwap:
      is_wide ? printer.segment<MaskedCompareSwap8Segment>() : printer.segment<MaskedCompareSwap4Segment>();
      break;
    case SendOpcode::kMaskedFetchAdd:
      is_wide ? printer.segment<MaskedFetchAdd8Segment>() : printer.segment<MaskedFetchAdd4Segment>();
      break;
    default:
      printer.segment<AtomicSegment>();
  }
}

void show_item(Printer& printer, const DataItem& item) {
  if (!item.is_inline()) {
    printer.segment<DataSegment>();
    return;
  }
  printer.text(
      fmt::format("inline{{bytes={}}} {}", item.length_bytes, Printer::hex_of({item.inline_data, item.length_bytes})),
      inline_octowords(item.length_bytes) * kOctowordBytes);
}

void show_umr(Printer& printer) {
  if (printer.segment<UmrControlSegment>()) {
    printer.segment<MkeyContextSegment>();
  }
  // Translation entries and BSFs: KLMs, repeat blocks and BSFs all look alike, so they stay hexadecimal.
  printer.hex(printer.left());
}

void show_body(Printer& printer, SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kUmr:
      show_umr(printer);
      break;
    case SendOpcode::kMmo:
      printer.segment<MmoMetadataSegment>() && printer.segment<DataSegment>() && printer.segment<DataSegment>();
      break;
    case SendOpcode::kWait:
    case SendOpcode::kSendEnable:
    case SendOpcode::kReceiveEnable:
      printer.segment<QueueSegment>();
      break;
    default:
      break;
  }
  printer.hex(printer.left());
}

void show_segments(Printer& printer, const SendWqe& wqe) {
  printer.segment<ControlSegment>();
  if (wqe.has_xrc) {
    printer.segment<XrcSegment>();
  }
  if (wqe.has_address_vector) {
    show_address_vector(printer, wqe.address_vector);
  }
  if (wqe.has_eth) {
    show_eth(printer, wqe);
  }
  if (wqe.has_remote_address) {
    printer.segment<RemoteAddressSegment>();
  }
  if (wqe.has_atomic) {
    show_atomic(printer, wqe);
  }
  for (const DataItem& item : wqe.data) {
    show_item(printer, item);
  }
}

void show_error_cqe(Printer& printer, const ErrorCqe& cqe) {
  printer.text(print(cqe), ErrorCqe::kBytes);
  printer.say(fmt::format("{}: {}", to_string(status_of(cqe.syndrome)), explain(cqe.syndrome)));
}

void show_signature_error(Printer& printer, const SignatureErrorCqe& cqe) {
  printer.text(print(cqe), SignatureErrorCqe::kBytes);
  printer.say(fmt::format("block protection of mkey index {:#x} does not match at offset {} on the {} side:{}{}{}",
                          cqe.mkey >> 8, cqe.offset_bytes, cqe.domain == 0 ? "wire" : "memory",
                          cqe.guard_mismatch ? " guard" : "", cqe.application_tag_mismatch ? " application tag" : "",
                          cqe.reference_tag_mismatch ? " reference tag" : ""));
}

void show_cqe(Printer& printer, std::span<const std::byte> bytes) {
  const auto cqe = load<Cqe>(bytes.data());
  switch (cqe.opcode) {
    case CqeOpcode::kRequesterError:
    case CqeOpcode::kResponderError:
      return show_error_cqe(printer, load<ErrorCqe>(bytes.data()));
    case CqeOpcode::kSignatureError:
      return show_signature_error(printer, load<SignatureErrorCqe>(bytes.data()));
    case CqeOpcode::kInvalid:
      printer.text(print(cqe), Cqe::kBytes);
      return printer.say("the device has not written this entry");
    default:
      break;
  }
  if (cqe.format == CqeFormat::kInline32) {
    printer.hex(kInlineScatter32Bytes);
    printer.text(print(cqe), Cqe::kBytes - kInlineScatter32Bytes);
    return printer.say("the first 32 bytes are data; the packet fields among them mean nothing");
  }
  printer.text(print(cqe), Cqe::kBytes);
  if (cqe.format == CqeFormat::kCompressed) {
    printer.say(fmt::format("title of {} compressed completions; mini CQEs follow", cqe.byte_count));
  }
}

void show_event(Printer& printer, const Eqe& eqe) {
  switch (eqe.type) {
    case EventType::kCompletion:
      return printer.say(print(eqe.event<CompletionEvent>()));
    case EventType::kCqError:
      return printer.say(print(eqe.event<CqErrorEvent>()));
    case EventType::kPortChange:
      return printer.say(
          fmt::format("{} {}", print(eqe.event<PortEvent>()), to_string(static_cast<PortChange>(eqe.subtype))));
    case EventType::kCommandDone:
      return printer.say(print(eqe.event<CommandEvent>()));
    case EventType::kPageRequest:
      return printer.say(print(eqe.event<PageRequestEvent>()));
    case EventType::kDctDrained:
    case EventType::kDctKeyViolation:
      return printer.say(print(eqe.event<DctEvent>()));
    case EventType::kPathMigrated:
    case EventType::kCommunicationEstablished:
    case EventType::kSendQueueDrained:
    case EventType::kWorkQueueCatastrophic:
    case EventType::kPathMigrationFailed:
    case EventType::kWorkQueueInvalidRequest:
    case EventType::kWorkQueueAccessError:
    case EventType::kSrqCatastrophic:
    case EventType::kSrqLastWqe:
    case EventType::kSrqLimit:
      return printer.say(print(eqe.event<QueueEvent>()));
    default:
      break;
  }
}

}  // namespace

std::string dump_send_wqe(std::span<const std::byte> bytes, Transport transport) {
  SendWqe wqe;
  const std::string_view fault = parse_send_wqe_into(wqe, bytes, transport);
  const std::size_t wqe_bytes = wqe.control.ds_octowords * kOctowordBytes;
  if (wqe_bytes >= ControlSegment::kBytes && wqe_bytes <= bytes.size()) {
    bytes = bytes.first(wqe_bytes);
  }
  Printer printer(bytes);
  printer.title(fmt::format("send WQE on a {} queue", to_string(transport)));
  show_segments(printer, wqe);
  if (!fault.empty()) {
    printer.say(fmt::format("malformed: {}", fault));
    printer.hex(printer.left());
  } else {
    show_body(printer, wqe.control.opcode);
  }
  return printer.take();
}

std::string dump_receive_wqe(std::span<const std::byte> bytes, ReceivePrefix prefix) {
  Printer printer(bytes);
  printer.title("receive WQE");
  if (prefix == ReceivePrefix::kSrqNext) {
    printer.segment<SrqNextSegment>();
  } else if (prefix == ReceivePrefix::kSignature) {
    printer.segment<ReceiveSignatureSegment>();
  }
  const auto list = parse_receive_wqe(bytes, prefix);
  if (!list) {
    printer.say(fmt::format("malformed: {}", list.error()));
    printer.hex(printer.left());
    return printer.take();
  }
  for (const DataItem& item : *list) {
    show_item(printer, item);
  }
  if (printer.left() != 0) {
    printer.say("end of list");
  }
  return printer.take();
}

std::string dump_cqe(std::span<const std::byte> entry) {
  Printer printer(entry);
  if (entry.size() != kCqeBytes && entry.size() != kLargeCqeBytes) {
    printer.title(fmt::format("not a CQE: {} bytes, not 64 or 128", entry.size()));
    printer.hex(entry.size());
    return printer.take();
  }
  const std::size_t offset = cqe_offset(entry.size());
  printer.title(fmt::format("CQE in an entry of {} bytes", entry.size()));
  const auto format = load<Cqe>(entry.data() + offset).format;
  if (offset != 0) {
    format == CqeFormat::kInline64 ? printer.hex(offset) : printer.text("(unused half)", offset);
  }
  show_cqe(printer, entry.subspan(offset));
  return printer.take();
}

std::string dump_mini_cqes(std::span<const std::byte> entry, MiniCqeFormat format, CqeOpcode title_opcode) {
  Printer printer(entry);
  if (entry.size() != kCqeBytes && entry.size() != kLargeCqeBytes) {
    printer.title(fmt::format("not an entry of mini CQEs: {} bytes, not 64 or 128", entry.size()));
    printer.hex(entry.size());
    return printer.take();
  }
  const bool of_requester = title_opcode == CqeOpcode::kRequester;
  printer.title(fmt::format("mini CQEs, {}", of_requester ? "of requests" : to_string(format)));
  if (const std::size_t offset = cqe_offset(entry.size()); offset != 0) {
    printer.text("(unused half)", offset);
  }
  while (of_requester                       ? printer.segment<RequesterMiniCqe>()
         : format == MiniCqeFormat::kRxHash ? printer.segment<HashMiniCqe>()
                                            : printer.segment<ChecksumMiniCqe>()) {
  }
  return printer.take();
}

std::string dump_eqe(std::span<const std::byte> entry) {
  Printer printer(entry);
  if (entry.size() != Eqe::kBytes) {
    printer.title(fmt::format("not an EQE: {} bytes, not 64", entry.size()));
    printer.hex(entry.size());
    return printer.take();
  }
  printer.title("EQE");
  const auto eqe = load<Eqe>(entry.data());
  printer.text(print(eqe), Eqe::kBytes);
  show_event(printer, eqe);
  return printer.take();
}

}  // namespace umlx5::wqe
