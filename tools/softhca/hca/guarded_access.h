// Accesses to memory that may not be there, in assembly: each either does its work or, if it faulted, tells so.
//
// A handler of SIGSEGV and SIGBUS must send a fault at an instruction between softhca_guarded_begin and _end on to
// softhca_guarded_failed, which returns false from the function that faulted: none of them has a frame or keeps
// anything. Compilers and sanitizers see nothing of the accesses, which race with the application by design, as an
// adapter's do.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

extern const char softhca_guarded_begin[], softhca_guarded_end[], softhca_guarded_failed[];

// A copy writes in ascending order, since programs wait for the last byte of what an adapter writes; on a fault a part
// may have been copied. The other accesses' addresses are aligned.
bool softhca_guarded_copy(void* to, const void* from, std::size_t bytes);
bool softhca_guarded_load32(const void* from, std::uint32_t* value);                 // acquire
bool softhca_guarded_store8(void* to, std::uint8_t value);                           // release
bool softhca_guarded_fetch_add(void* at, std::uint64_t add, std::uint64_t* before);  // acquire and release
bool softhca_guarded_compare_swap(void* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t* before);

}  // extern "C"
