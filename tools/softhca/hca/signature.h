// Block signatures (T10-DIF and CRCs) of the bytes that pass through a memory key: checked, stripped, generated or
// passed on between the memory and the wire domain, as a signature BSF says.
//
// Guards are as real adapters have them: T10-DIF fields are big-endian, its CRC has polynomial 8bb7 and no final
// inversion, its checksum is IP's; CRC32 (IEEE 802.3), CRC32C and CRC64 (the NVMe polynomial) are reflected, inverted
// at the end and stored little-endian, as iSCSI and NVMe store theirs. The CRC64 and the byte order of CRC32 and CRC64
// were not seen on an adapter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wqe/bsf.h"

namespace softhca {

struct SignatureError {
  bool guard = false, application_tag = false, reference_tag = false;
  bool wire = false;  // domain: wire, else memory
  // The eight signature bytes as a CQE reports them: T10-DIF or CRC64, CRC32 in the upper half. Expected is what came
  // with the data, actual what the data gives.
  std::uint64_t expected = 0, actual = 0;
  std::uint64_t offset_bytes = 0;  // of the end of the bad block's data, in the input
};

// One domain of a signature BSF.
class SignatureDomain {
 public:
  enum class Kind : std::uint8_t { kNone, kT10Dif, kCrc32, kCrc32c, kCrc64 };

  // Nothing for a BSF that no driver writes.
  static std::optional<SignatureDomain> memory(const umlx5::wqe::SignatureBsf& bsf);
  static std::optional<SignatureDomain> wire(const umlx5::wqe::SignatureBsf& bsf);

  Kind kind() const { return kind_; }
  std::size_t block_bytes() const { return block_bytes_; }
  bool seed_ones() const { return seed_ones_; }
  std::size_t signature_bytes() const;
  // What `data_bytes` bytes of data take here, with the signatures of whole blocks.
  std::uint64_t bytes_with_signatures(std::uint64_t data_bytes) const;

 private:
  friend class SignatureStream;
  static std::optional<SignatureDomain> make(std::uint8_t format, const umlx5::wqe::BsfInline& dif, std::size_t block);

  // Running guard: begin with start(), end with finish(), which gives the eight bytes (CRC32: the first four).
  std::uint64_t start() const;
  std::uint64_t update(std::uint64_t running, std::span<const std::byte> data) const;
  std::array<std::byte, 8> finish(std::uint64_t running, std::uint64_t block) const;
  std::uint64_t as_reported(std::span<const std::byte> signature) const;
  bool escaped(std::span<const std::byte> signature) const;

  Kind kind_ = Kind::kNone;
  std::size_t block_bytes_ = 0;
  bool seed_ones_ = false;
  umlx5::wqe::BsfInline dif_{};
};

// The bytes of one transfer on their way from one domain to the other. Copyable, so that a sender can go back to a
// packet's beginning.
class SignatureStream {
 public:
  enum class Direction : std::uint8_t { kTransmit, kReceive };  // memory to wire, wire to memory

  // `first_block`: number of the input's first block since the key's beginning, which reference tags count from.
  // Nothing for a BSF that no driver writes.
  static std::optional<SignatureStream> make(const umlx5::wqe::SignatureBsf& bsf, Direction direction,
                                             std::uint64_t first_block = 0);

  // Takes the next bytes of the input and appends what they become.
  void feed(std::span<const std::byte> input, std::vector<std::byte>& output);

  // The first block that did not match. Its data was passed on all the same.
  const std::optional<SignatureError>& error() const { return error_; }

 private:
  SignatureStream() = default;
  void take_data(std::span<const std::byte> data, std::vector<std::byte>& output);
  void take_signature(std::vector<std::byte>& output);
  void check();
  void put_signature(std::vector<std::byte>& output);

  SignatureDomain in_, out_;
  bool input_is_wire_ = false;
  bool same_structure_ = false;
  std::uint8_t check_mask_ = 0, copy_mask_ = 0;
  std::uint64_t in_block_ = 0, out_block_ = 0;  // numbers of the current blocks
  std::size_t in_filled_ = 0, out_filled_ = 0;  // data bytes of them so far
  std::uint64_t in_running_ = 0, out_running_ = 0;
  std::array<std::byte, 8> signature_{};  // of the input's current block
  std::size_t signature_filled_ = 0;
  std::uint64_t consumed_ = 0;
  std::optional<SignatureError> error_;
};

}  // namespace softhca
