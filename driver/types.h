// Small types of the native API.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace umlx5 {

// A set of flags of an enumeration whose values are single bits.
template <typename Flag>
class Flags {
 public:
  constexpr Flags() = default;
  constexpr Flags(Flag flag) : bits_(static_cast<std::uint32_t>(flag)) {}  // NOLINT: a flag is a set of one
  static constexpr Flags from_bits(std::uint32_t bits) {
    Flags flags;
    flags.bits_ = bits;
    return flags;
  }
  constexpr std::uint32_t bits() const { return bits_; }
  constexpr bool has(Flag flag) const { return (bits_ & static_cast<std::uint32_t>(flag)) != 0; }
  constexpr Flags operator|(Flags other) const { return from_bits(bits_ | other.bits_); }
  friend constexpr bool operator==(Flags, Flags) = default;

 private:
  std::uint32_t bits_ = 0;
};

// Values are the kernel ABI's (ib_uverbs_access_flags).
enum class Access : std::uint32_t {
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kMwBind = 16,
  kZeroBased = 32,
  kOnDemand = 64,
  kHugetlb = 128,
  kRelaxedOrdering = 1 << 20,
};
using AccessFlags = Flags<Access>;
constexpr AccessFlags operator|(Access a, Access b) { return AccessFlags(a) | AccessFlags(b); }

// Values are the verbs' (ibv_send_flags).
// kIpChecksum: on a RAW_PACKET QP the device writes the checksums of the IPv4 header and of TCP or UDP.
enum class SendFlag : std::uint32_t { kFence = 1, kSignaled = 2, kSolicited = 4, kInline = 8, kIpChecksum = 16 };
using SendFlags = Flags<SendFlag>;
constexpr SendFlags operator|(SendFlag a, SendFlag b) { return SendFlags(a) | SendFlags(b); }

// Values are the verbs' (ibv_qp_type, ibv_qp_state, ibv_mtu), which the kernel ABI uses too.
enum class QpType : std::uint32_t {
  kRc = 2,
  kUc = 3,
  kUd = 4,
  kRawPacket = 8,
  kXrcSend = 9,
  kXrcRecv = 10,
  kDriver = 0xff
};
enum class QpState : std::uint32_t { kReset = 0, kInit = 1, kRtr = 2, kRts = 3, kSqd = 4, kSqe = 5, kErr = 6 };
enum class Mtu : std::uint32_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };
std::string_view to_string(QpType type);
std::string_view to_string(QpState state);
constexpr std::size_t bytes_of(Mtu mtu) { return std::size_t{128} << static_cast<std::uint32_t>(mtu); }

// Values are the verbs' (ibv_wr_opcode); the bit 1 << value is that of SendOperation (qp_geometry.h).
enum class SendOpcode : std::uint32_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInvalidate = 7,   // makes a key of a type 2 memory window useless
  kBindMemoryWindow = 8,  // of type 2, or from the driver itself of type 1
  kSendWithInvalidate = 9,
  kTso = 10,  // RAW_PACKET: a frame longer than the wire takes, which the device cuts up
};
std::string_view to_string(SendOpcode opcode);

// Network byte order, as on the wire and in the GID table.
using Gid = std::array<std::uint8_t, 16>;
std::string to_string(const Gid& gid);

// One piece of registered memory of this process.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length_bytes = 0;
  std::uint32_t lkey = 0;
};

}  // namespace umlx5
