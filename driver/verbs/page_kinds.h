// Memory of queues in pages of the kind that MLX_QP_ALLOC_TYPE and its like ask for.
#pragma once

#include "driver/allocator.h"

namespace umlx5::verbs {

// Reads MLX_QP_ALLOC_TYPE, MLX_RWQ_ALLOC_TYPE, MLX_SRQ_ALLOC_TYPE or MLX_CQ_ALLOC_TYPE at each allocation, as stock
// libmlx5 does: HUGE (2 MiB pages or nothing), PREFER_HUGE and ALL (otherwise the driver's own memory), CONTIG (kernels
// give no such memory any more: nothing), PREFER_CONTIG, ANON and anything else (the driver's own). Thread-safe, and
// there for the life of the process.
Allocator& page_kind_allocator();

}  // namespace umlx5::verbs
