// Queue entries as text for a person: one segment a line, each with its offset, names in place of numbers.
//
// Any bytes are acceptable; what does not parse is said in words and shown as hexadecimal. Nothing is read past the
// span. Text ends with a newline. Thread-safe; throws only on exhausted memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "wqe/cqe.h"
#include "wqe/mini_cqe.h"
#include "wqe/send_wqe.h"

namespace umlx5::wqe {

// A contiguous (unwrapped) send WQE; bytes past its DS are not shown.
std::string dump_send_wqe(std::span<const std::byte> wqe, Transport transport);

// A receive WQE; `wqe` is the queue's stride.
std::string dump_receive_wqe(std::span<const std::byte> wqe, ReceivePrefix prefix);

// An entry of a completion queue, 64 or 128 bytes; errors are explained.
std::string dump_cqe(std::span<const std::byte> entry);

// The mini CQEs of an entry of compressed completions, 64 or 128 bytes, as `format` and the title's opcode say.
std::string dump_mini_cqes(std::span<const std::byte> entry, MiniCqeFormat format, CqeOpcode title_opcode);

// An entry of an event queue, 64 bytes.
std::string dump_eqe(std::span<const std::byte> entry);

}  // namespace umlx5::wqe
