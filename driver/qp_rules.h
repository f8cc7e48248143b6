// What the options of a queue pair must obey before anything is made of them, and what the kernel is told of them.
// Private to the driver.
#pragma once

#include <cstdint>
#include <string>

#include "driver/context_state.h"
#include "driver/qp.h"
#include "driver/qp_geometry.h"
#include "uapi/error.h"

namespace umlx5 {

// Errors, in this order: EINVAL and EOPNOTSUPP as mlx5dv_create_qp() gives them.
Expected<void> check_qp_options(const Context::State& state, const QpOptions& options);

// Why the kernel, which gives no reasons, may have refused options that check_qp_options() took; empty if nothing is
// known.
std::string kernel_reason(const Context::State& state, const QpOptions& options, int errno_value);

// How the options count for sizes. For options that check_qp_options() took.
QpGeometryRequest geometry_of(const Context::State& state, const QpOptions& options);
// Limits of the type: those of the device, and what out-of-order receives allow.
QueueLimits limits_of(const Context::State& state, const QpOptions& options);

// Operations of the QP: those asked for, or all that posting to the type knows.
std::uint64_t operations_of(const QpOptions& options);

// Bits of mlx5_ib_create_qp.flags that follow from the options.
std::uint32_t kernel_flags_of(const Context::State& state, const QpOptions& options);

// The type has a send queue or a receive queue at all.
bool has_send_queue(const QpOptions& options);
bool has_receive_queue(const QpOptions& options);
inline bool is_dct(const QpOptions& options) { return options.dc_type == DcType::kDct; }

}  // namespace umlx5
