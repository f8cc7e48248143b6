// Compressed CQEs of the basic layout (wqe/mini_cqe.h): a session becomes, in its place, the CQEs that it stands for.
// It takes as many entries as it has completions, so nobody has to remember where in it polling is.
#pragma once

#include <cstddef>

#include "driver/completion_ring.h"
#include "wqe/mini_cqe.h"

namespace umlx5 {

// Writes the CQEs that the session stands for whose title is the ready entry `title` of `ring`, the title's last: until
// then others that look see the title. What a mini CQE lacks is the title's, but for the checksum or the hash that the
// format does not carry: 0, except in the first. `strides`: of a striding receive queue, whose WQE counters are the
// strides where completions begin. False, and nothing is changed, if the ring cannot hold a session of that many. All
// software's entries up to the session's end must be this thread's.
bool expand_session(const CompletionRing& ring, std::byte* title, wqe::MiniCqeFormat format, bool strides);

}  // namespace umlx5
