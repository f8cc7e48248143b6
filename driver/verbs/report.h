// How an Error reaches a C program: as errno, and as words on stderr where UMLX5_LOG asks for them.
#pragma once

#include "uapi/error.h"

namespace umlx5::verbs {

// Sets errno and returns it (positive). With UMLX5_LOG=info or debug the error's text is printed.
int report(const Error& error);

// The same for functions that return a pointer: always null.
inline std::nullptr_t report_null(const Error& error) {
  report(error);
  return nullptr;
}

// 0, or what report() returns.
inline int result_of(const Expected<void>& result) { return result ? 0 : report(result.error()); }

// For calls that this library does not have: EOPNOTSUPP, with the call's name in the log.
int unsupported(const char* call);
inline std::nullptr_t unsupported_null(const char* call) {
  unsupported(call);
  return nullptr;
}

}  // namespace umlx5::verbs
