// The error that every part of the native API returns.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <utility>

namespace umlx5 {

// What went wrong, for a program (errno_value) and for a person (what).
// `what` is one line without a final full stop: the object, the value asked for, the limit and where the limit comes
// from.
struct Error {
  int errno_value = 0;  // positive errno
  std::string what;     // "QP create: max_send_sge 53 does not fit ...; at most 52"
  std::uint8_t firmware_status =
      0;  // command status byte of the device, 0 if the device was not asked or did not answer
  std::uint32_t firmware_syndrome = 0;  // command syndrome, 0 if there is none

  // `what`, then the errno's name and text, then the firmware's status if there is one.
  std::string message() const;
};

template <typename T>
using Expected = std::expected<T, Error>;

inline std::unexpected<Error> fail(int errno_value, std::string what) {
  return std::unexpected(Error{errno_value, std::move(what)});
}

}  // namespace umlx5
