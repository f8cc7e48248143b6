// The operations that inline calls of <infiniband/verbs.h> reach through the context.
#pragma once

#include <infiniband/verbs.h>

namespace umlx5::verbs {

// Fills both tables: those of queues.h too, and a function that refuses for each operation that programs call without
// looking whether it is there.
void set_operations(verbs_context& verbs);

}  // namespace umlx5::verbs
